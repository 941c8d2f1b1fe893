//! A machine's answer to one of the papers' tables and figures: charts, a table of our figures and the paper's,
//! sentences made from the rows, and whether the paper's conclusions hold.

pub mod files;
pub mod hpc;
pub mod keys;
pub mod questions;
pub mod rules;
pub mod users;
pub mod volume;

use crate::report::bars::Bars;
use crate::report::chart::Chart;
use crate::report::text::{digits, escaped};
use crate::row::median;
use rules::Facts;
use std::fmt::Write;

/// A sentence, and its figures in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    pub text: String,
    pub figures: Vec<f64>,
}

/// The figure with three digits. Counts are shown exactly.
fn shown(figure: f64) -> String {
    match figure.abs() {
        n if n.fract() == 0.0 && n < 1e6 => format!("{figure:.0}"),
        n if (1e-6..0.01).contains(&n) => format!("{figure:.*}", (2.0 - n.log10().floor()) as usize),
        _ => digits(figure),
    }
}

/// A conclusion of the paper, and whether it holds here: `None` if what it needs was not run.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub text: String,
    pub holds: Option<bool>,
    /// The reason to give if it does not hold.
    pub reason: Reason,
}

/// Why a conclusion does not hold. The worst reason comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// What was measured contradicts it, and nothing else explains that.
    Refuted,
    /// Today's hardware is faster in one of the things that it compares, such as AES by instructions.
    FasterHardware,
    /// Phalanx's format works in another way than the paper's.
    OtherFormat,
    /// It fails for files so small that starting threads takes longer than the work.
    SmallFiles,
}

impl Reason {
    pub const ALL: [Self; 4] = [Self::Refuted, Self::FasterHardware, Self::OtherFormat, Self::SmallFiles];

    /// The reason with this name in rules.
    fn of(name: &str) -> Self {
        let names = ["holds", "faster hardware", "other format", "small files"];
        let place = names.iter().position(|known| *known == name);
        Self::ALL[place.unwrap_or_else(|| panic!("there is no reason {name}"))]
    }

    pub fn words(self) -> &'static str {
        match self {
            Reason::Refuted => "refuted",
            Reason::FasterHardware => "no longer holds: faster hardware",
            Reason::OtherFormat => "does not hold for Phalanx's format",
            Reason::SmallFiles => "does not hold for small files",
        }
    }
}

/// A comparison of two figures that may be missing.
pub fn more(a: Option<f64>, b: Option<f64>) -> Option<bool> {
    a.zip(b).map(|(a, b)| a > b)
}

/// Whether all of them hold, if there are any.
pub fn all(holds: impl IntoIterator<Item = bool>) -> Option<bool> {
    holds.into_iter().reduce(|a, b| a && b)
}

/// Our figure and the paper's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pair {
    pub ours: Option<f64>,
    pub theirs: Option<f64>,
    /// A word in place of our figure, if there is none.
    pub word: Option<&'static str>,
    /// Whether no ratio is shown, because the figures are neither speeds nor times.
    pub plain: bool,
}

impl Pair {
    /// Our figure and the paper's. Without ours, the pair shows "not run".
    pub fn of(ours: Option<f64>, theirs: Option<f64>) -> Self {
        Self { ours, theirs, word: ours.is_none().then_some("not run"), plain: false }
    }

    /// Shows the pair without a ratio.
    pub fn plain(self) -> Self {
        Self { plain: true, ..self }
    }

    /// How many times as good ours is.
    pub fn ratio(&self, less_is_better: bool) -> Option<f64> {
        let (ours, theirs) = self.ours.zip(self.theirs).filter(|(ours, theirs)| *ours > 0.0 && *theirs > 0.0)?;
        let ratio = if less_is_better { theirs / ours } else { ours / theirs };
        (!self.plain).then_some(ratio)
    }
}

/// A table that answers one question. Each cell has our figure, and below it the paper's figure and the ratio.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    caption: String,
    /// What the lines are.
    corner: String,
    columns: Vec<String>,
    lines: Vec<(String, Vec<Pair>)>,
    /// Whether less is better, as with times.
    less_is_better: bool,
}

impl Grid {
    /// A table with a caption. `corner` names what the lines are.
    pub fn new<T: ToString>(
        caption: impl Into<String>,
        corner: &str,
        columns: impl IntoIterator<Item = T>,
        lines: Vec<(String, Vec<Pair>)>,
    ) -> Self {
        let columns = columns.into_iter().map(|column| column.to_string()).collect();
        Self { caption: caption.into(), corner: corner.into(), columns, lines, less_is_better: false }
    }

    /// Sets whether the figures are times, of which less is better.
    pub fn of_times(self, are_times: bool) -> Self {
        Self { less_is_better: are_times, ..self }
    }

    fn cells(&self) -> impl Iterator<Item = &Pair> {
        self.lines.iter().flat_map(|(_, cells)| cells)
    }

    /// Whether a line has a measured figure.
    pub fn has_ours(&self) -> bool {
        self.cells().any(|cell| cell.ours.is_some())
    }

    /// The median of all ratios.
    pub fn factor(&self) -> Option<f64> {
        median(&self.cells().filter_map(|cell| cell.ratio(self.less_is_better)).collect::<Vec<_>>())
    }

    pub fn html(&self) -> String {
        let mut html = format!(
            r#"<div class="scroll" tabindex="0"><table class="grid"><caption>{}</caption><thead><tr><th scope="col">{}</th>"#,
            escaped(&self.caption),
            escaped(&self.corner)
        );
        for column in &self.columns {
            let _ = write!(html, r#"<th scope="col">{}</th>"#, escaped(column));
        }
        html += "</tr></thead><tbody>\n";
        for (name, cells) in &self.lines {
            let _ = write!(html, r#"<tr><th scope="row">{}</th>"#, escaped(name));
            cells.iter().for_each(|cell| html += &self.cell(cell));
            html += "</tr>\n";
        }
        html + "</tbody></table></div>\n"
    }

    fn cell(&self, cell: &Pair) -> String {
        let ours = match (cell.ours, cell.word) {
            (Some(ours), _) => format!("<b>{}</b>", shown(ours)),
            (None, Some(word)) => format!(r#"<span class="none">{word}</span>"#),
            (None, None) => "–".into(),
        };
        let theirs = cell.theirs.map(|theirs| {
            let ratio = cell.ratio(self.less_is_better);
            let ratio = ratio.map(|ratio| format!(" <i>{} ×</i>", digits(ratio))).unwrap_or_default();
            format!(r#"<small><span class="paper">{}</span>{ratio}</small>"#, shown(theirs))
        });
        format!("<td>{ours}{}</td>", theirs.unwrap_or_default())
    }
}

/// The answer of one machine's rows.
#[derive(Default)]
pub struct Part {
    pub charts: Vec<Chart>,
    pub bars: Vec<Bars>,
    pub grid: Option<Grid>,
    /// The facts for sentences and conclusions. Empty if there are none.
    pub facts: Facts,
    pub said: Vec<Said>,
    pub claims: Vec<Claim>,
    /// How many times as fast as printed the comparable program is.
    pub factor: Option<f64>,
    /// The number of rows that it is made from.
    pub rows: usize,
}

/// The judgement of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of the paper's conclusions hold.
    Holds,
    /// What was run agrees with the paper, but some was not run.
    HoldsInPart,
    /// A conclusion does not hold, for the worst of the reasons.
    Changed(Reason),
    /// Nothing of it was run.
    NotRun,
}

impl Verdict {
    /// The verdict on several conclusions.
    pub fn of(claims: &[Claim]) -> Self {
        let any = |which: Option<bool>| claims.iter().any(|claim| claim.holds == which);
        let worst = claims.iter().filter(|claim| claim.holds == Some(false)).map(|claim| claim.reason).min();
        match (worst, any(Some(true)), any(None)) {
            (Some(reason), ..) => Verdict::Changed(reason),
            (None, true, false) => Verdict::Holds,
            (None, true, true) => Verdict::HoldsInPart,
            (None, false, _) => Verdict::NotRun,
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Verdict::Holds => "reproduced",
            Verdict::HoldsInPart => "reproduced as far as it was run",
            Verdict::Changed(reason) => reason.words(),
            Verdict::NotRun => "not run",
        }
    }

    /// A sign for lists, and the class in the style sheet.
    pub fn sign(self) -> (&'static str, &'static str) {
        match self {
            Verdict::Holds => ("✓", "yes"),
            Verdict::HoldsInPart => ("◐", "half"),
            Verdict::Changed(_) => ("≠", "no"),
            Verdict::NotRun => ("○", "none"),
        }
    }
}

impl Part {
    pub fn verdict(&self) -> Verdict {
        Verdict::of(&self.claims)
    }

    /// How many of the paper's conclusions were judged.
    pub fn judged(&self) -> usize {
        self.claims.iter().filter(|claim| claim.holds.is_some()).count()
    }

    /// Whether anything was measured.
    pub fn has_figures(&self) -> bool {
        self.verdict() != Verdict::NotRun || self.grid.as_ref().is_some_and(Grid::has_ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_from_the_conclusions() {
        let claim = |holds, reason| Claim { text: "c".into(), holds, reason };
        let of = |all: &[Option<bool>]| {
            Verdict::of(&all.iter().map(|holds| claim(*holds, Reason::Refuted)).collect::<Vec<_>>())
        };
        assert_eq!(of(&[]), Verdict::NotRun);
        assert_eq!(of(&[None, None]), Verdict::NotRun);
        assert_eq!(of(&[Some(true), None]), Verdict::HoldsInPart);
        assert_eq!(of(&[Some(true)]), Verdict::Holds);
        assert_eq!(of(&[Some(true), Some(false), None]), Verdict::Changed(Reason::Refuted));
        let [small, faster] = ["small files", "faster hardware"].map(|name| claim(Some(false), Reason::of(name)));
        assert_eq!(Verdict::of(std::slice::from_ref(&small)), Verdict::Changed(Reason::SmallFiles));
        assert_eq!(Verdict::of(&[small, faster.clone()]), Verdict::Changed(Reason::FasterHardware));
        assert_eq!(Verdict::of(&[Claim { reason: Reason::Refuted, ..faster }]).words(), "refuted");
        assert_eq!(Verdict::of(&[claim(Some(true), Reason::SmallFiles)]), Verdict::Holds);
    }

    #[test]
    fn ratios_above_one_mean_that_ours_is_better() {
        let pair = Pair { ours: Some(2.0), theirs: Some(8.0), ..Pair::default() };
        assert_eq!((pair.ratio(true), pair.ratio(false)), (Some(4.0), Some(0.25)));
        assert_eq!(pair.clone().plain().ratio(true), None);
        assert_eq!(Pair { ours: None, ..pair }.ratio(true), None);
    }
}
