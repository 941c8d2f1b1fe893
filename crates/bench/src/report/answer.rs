//! What a machine's rows answer to one of the papers' tables and figures: charts, a table of ours and theirs, sentences that
//! are made from the rows, and whether the paper's conclusions hold.

pub mod files;
pub mod hpc;
pub mod keys;
pub mod questions;
pub mod rules;
pub mod users;
pub mod volume;

use crate::report::chart::{Bars, Chart};
use crate::report::text::{digits, escaped};
use std::fmt::Write;

/// A sentence, and the figures in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// The sentence.
    pub text: String,
    /// Its figures, in their order.
    pub figures: Vec<f64>,
}

/// A sentence whose gaps `{}` are filled with figures.
///
/// # Panics
/// If there are not as many figures as gaps.
pub fn said(pattern: impl AsRef<str>, figures: &[f64]) -> Said {
    let mut parts = pattern.as_ref().split("{}");
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut count = 0;
    for (part, figure) in parts.zip(figures) {
        text += &shown(*figure);
        text += part;
        count += 1;
    }
    assert_eq!([count, pattern.as_ref().matches("{}").count()], [figures.len(); 2], "{}", pattern.as_ref());
    Said { text, figures: figures.to_vec() }
}

/// Three digits, but counts as they are.
fn shown(figure: f64) -> String {
    match figure.abs() {
        n if n.fract() == 0.0 && n < 1e6 => format!("{figure:.0}"),
        n if (1e-6..0.01).contains(&n) => format!("{figure:.*}", (2.0 - n.log10().floor()) as usize),
        _ => digits(figure),
    }
}

/// A conclusion of the paper, and whether it holds here. `None` if what it needs was not run.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The conclusion.
    pub text: String,
    /// Whether it holds.
    pub holds: Option<bool>,
    /// Why it does not hold, if so.
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
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Refuted, Self::FasterHardware, Self::OtherFormat, Self::SmallFiles];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Reason::Refuted => "refuted",
            Reason::FasterHardware => "no longer holds: faster hardware",
            Reason::OtherFormat => "does not hold for Phalanx's format",
            Reason::SmallFiles => "does not hold for small files",
        }
    }
}

/// A conclusion. If it does not hold, it is refuted.
pub fn claim(text: impl Into<String>, holds: Option<bool>) -> Claim {
    Claim { text: text.into(), holds, reason: Reason::Refuted }
}

/// A comparison of two figures that may be missing.
pub fn more(a: Option<f64>, b: Option<f64>) -> Option<bool> {
    a.zip(b).map(|(a, b)| a > b)
}

/// Ours and theirs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pair {
    /// Measured here.
    pub ours: Option<f64>,
    /// Printed.
    pub theirs: Option<f64>,
    /// Instead of a figure: why there is none.
    pub word: Option<&'static str>,
    /// Whether the figures are no speeds or times, so that no ratio is shown.
    pub plain: bool,
}

impl Pair {
    /// Ours and theirs. Without ours it was not run.
    pub fn of(ours: Option<f64>, theirs: Option<f64>) -> Self {
        Self { ours, theirs, word: ours.is_none().then_some("not run"), plain: false }
    }

    /// The same without a ratio.
    pub fn plain(self) -> Self {
        Self { plain: true, ..self }
    }

    /// How many times as good ours is.
    pub fn ratio(&self, less_is_better: bool) -> Option<f64> {
        if self.plain {
            return None;
        }
        let (ours, theirs) = self.ours.zip(self.theirs).filter(|(ours, theirs)| *ours > 0.0 && *theirs > 0.0)?;
        Some(if less_is_better { theirs / ours } else { ours / theirs })
    }
}

/// A table that answers one question: in each cell ours, and below it theirs and the ratio.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// The question, with the unit.
    pub caption: String,
    /// What the lines are.
    pub corner: String,
    /// The columns.
    pub columns: Vec<String>,
    /// The lines.
    pub lines: Vec<(String, Vec<Pair>)>,
    /// Whether less is better, as with times.
    pub less_is_better: bool,
}

impl Grid {
    /// Whether a line has a measured figure.
    pub fn has_ours(&self) -> bool {
        self.lines.iter().flat_map(|(_, cells)| cells).any(|cell| cell.ours.is_some())
    }

    /// All ratios.
    pub fn ratios(&self) -> impl Iterator<Item = f64> + '_ {
        self.lines.iter().flat_map(|(_, cells)| cells).filter_map(|cell| cell.ratio(self.less_is_better))
    }

    /// The table.
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

/// Pictures of an answer, side by side, with one name for all.
pub enum Panels {
    /// Lines.
    Charts(Vec<Chart>),
    /// Bars.
    Bars(Vec<Bars>),
}

/// What one machine's rows answer.
#[derive(Default)]
pub struct Part {
    /// The charts.
    pub panels: Vec<Panels>,
    /// The table.
    pub grid: Option<Grid>,
    /// A few sentences on what it shows.
    pub said: Vec<Said>,
    /// The paper's conclusions.
    pub claims: Vec<Claim>,
    /// How many times as fast as printed the comparable program is.
    pub factor: Option<f64>,
    /// How many rows it is made from.
    pub rows: usize,
}

/// A judgement in a few words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of the paper's conclusions hold.
    Holds,
    /// What was run agrees with the paper; some was not run.
    HoldsInPart,
    /// A conclusion does not hold, for the worst of the reasons.
    Changed(Reason),
    /// Nothing of it was run.
    NotRun,
}

impl Verdict {
    /// Of several conclusions.
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

    /// In words.
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
    /// The judgement of its conclusions.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(&self.claims)
    }

    /// Whether anything was measured.
    pub fn is_answered(&self) -> bool {
        self.verdict() != Verdict::NotRun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_its_figures() {
        let sentence = said("{} GB/s, {} × as fast", &[1.234, 56.78]);
        assert_eq!(sentence.text, "1.23 GB/s, 56.8 × as fast");
        assert_eq!(sentence.figures, [1.234, 56.78]);
    }

    #[test]
    #[should_panic(expected = "{} and {}")]
    fn a_figure_that_is_missing_is_noticed() {
        said("{} and {}", &[1.0]);
    }

    #[test]
    fn verdicts() {
        let of = |all: &[Option<bool>]| Verdict::of(&all.iter().map(|holds| claim("c", *holds)).collect::<Vec<_>>());
        assert_eq!(of(&[]), Verdict::NotRun);
        assert_eq!(of(&[None, None]), Verdict::NotRun);
        assert_eq!(of(&[Some(true), None]), Verdict::HoldsInPart);
        assert_eq!(of(&[Some(true)]), Verdict::Holds);
        assert_eq!(of(&[Some(true), Some(false), None]), Verdict::Changed(Reason::Refuted));
        let small = Claim { reason: Reason::SmallFiles, ..claim("c", Some(false)) };
        let faster = Claim { reason: Reason::FasterHardware, ..claim("c", Some(false)) };
        assert_eq!(Verdict::of(std::slice::from_ref(&small)), Verdict::Changed(Reason::SmallFiles));
        assert_eq!(Verdict::of(&[small, faster.clone()]), Verdict::Changed(Reason::FasterHardware));
        assert_eq!(Verdict::of(&[Claim { reason: Reason::Refuted, ..faster }]).words(), "refuted");
        let holds = Claim { reason: Reason::SmallFiles, ..claim("c", Some(true)) };
        assert_eq!(Verdict::of(&[holds]), Verdict::Holds);
    }

    #[test]
    fn ratios_say_how_many_times_as_good_ours_is() {
        let pair = Pair { ours: Some(2.0), theirs: Some(8.0), ..Pair::default() };
        assert_eq!((pair.ratio(true), pair.ratio(false)), (Some(4.0), Some(0.25)));
        assert_eq!(Pair { plain: true, ..pair.clone() }.ratio(true), None);
        assert_eq!(Pair { ours: None, ..pair }.ratio(true), None);
    }
}
