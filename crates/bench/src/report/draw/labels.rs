//! The names of lines, each at the line's end, moved apart where they would overlap.

use super::{Line, Source};
use crate::report::html::escaped;
use std::fmt::Write;

/// The height of a name.
const STEP: f64 = 12.5;
/// How far a name may be from its line's end before a thin line leads to it.
const NEAR: f64 = 4.0;

/// The most characters of a name.
const LONGEST: usize = 19;

/// The end of a line.
pub struct End<'a> {
    /// Where it is.
    pub at: [f64; 2],
    /// The line.
    pub line: &'a Line,
}

/// Writes the names at `x`, between two heights.
pub fn write(svg: &mut String, x: f64, within: [f64; 2], mut ends: Vec<End<'_>>) {
    ends.sort_by(|a, b| a.at[1].total_cmp(&b.at[1]));
    let wanted: Vec<f64> = ends.iter().map(|end| end.at[1]).collect();
    for (end, y) in ends.iter().zip(apart(&wanted, within)) {
        let class = end.line.thing.class();
        let paper = if end.line.source == Source::Paper { " of-paper" } else { "" };
        let [from, height] = end.at;
        if (y - height).abs() > NEAR || x - from > 16.0 {
            let (from, to) = (from + 4.0, x - 2.0);
            let _ = write!(svg, r#"<path class="lead" d="M{from:.1} {height:.1}L{to:.1} {y:.1}"/>"#);
        }
        let name = escaped(&short(&end.line.name));
        let below = y + 4.0;
        let _ = write!(svg, r#"<text class="name {class}{paper}" x="{x:.0}" y="{below:.1}">{name}</text>"#);
    }
}

/// A name that fits beside a chart. The description has the whole.
pub fn short(name: &str) -> String {
    match name.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", name[..at].trim_end_matches([' ', ','])),
        None => name.to_owned(),
    }
}

/// Heights in rising order, moved apart as little as that takes, and kept within bounds.
fn apart(wanted: &[f64], [top, bottom]: [f64; 2]) -> Vec<f64> {
    // Neighbours that are too near become one group around their middle, until no groups touch.
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for y in wanted {
        groups.push((*y, 1));
        while let [.., (above, n), (below, m)] = groups[..] {
            if below - above >= STEP * (n + m) as f64 / 2.0 {
                break;
            }
            groups.truncate(groups.len() - 2);
            groups.push(((above * n as f64 + below * m as f64) / (n + m) as f64, n + m));
        }
    }
    let mut heights = Vec::new();
    for (middle, n) in groups {
        heights.extend((0..n).map(|i| middle + STEP * (i as f64 - (n - 1) as f64 / 2.0)));
    }
    let mut least = top;
    for y in &mut heights {
        *y = y.max(least);
        least = *y + STEP;
    }
    let mut most = bottom;
    for y in heights.iter_mut().rev() {
        *y = y.min(most);
        most = *y - STEP;
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_overlap_and_stay_within_the_chart() {
        for wanted in [vec![], vec![50.0], vec![50.0, 50.0, 51.0], vec![0.0, 1.0, 2.0, 199.0, 200.0, 200.0]] {
            let heights = apart(&wanted, [10.0, 200.0]);
            assert_eq!(heights.len(), wanted.len());
            assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= STEP - 1e-9), "{heights:?}");
            assert!(heights.iter().all(|y| (10.0 - 1e-9..=200.0 + 1e-9).contains(y)), "{heights:?}");
        }
        assert_eq!(apart(&[50.0, 100.0], [0.0, 200.0]), [50.0, 100.0]);
    }
}
