//! The means of speeds that the papers print.

use crate::measure::Row;

/// An average, and the rows that it is of.
pub type Average<'a> = (Row, Vec<&'a Row>);

/// One row of mean speeds, without times, for each program, operation and measure. `named` makes it from the first of
/// its rows, and `note` describes what it is the mean of. It is compared with an earlier average for which `is_base` is
/// true. The name of that average is `over`.
pub fn averages<'a>(
    rows: impl Iterator<Item = &'a Row>,
    named: impl Fn(&Row) -> Row,
    note: impl Fn(&[&Row]) -> String,
    is_base: impl Fn(&Row, &Row) -> bool,
    over: &str,
) -> Vec<Average<'a>> {
    let what = |row: &'a Row| (&row.operation, &row.measure, &row.scheme, &row.engine, row.threads);
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| what(group[0]) == what(row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    let mut averages: Vec<Average<'_>> = Vec::new();
    for group in groups {
        let average = named(group[0]);
        let average = match mean(group.iter().map(|row| row.gb_per_s)) {
            // The note of the first row without a speed explains why the mean is missing.
            None => {
                let missing = group.iter().find(|row| row.gb_per_s.is_none());
                Row { note: missing.and_then(|row| row.note.clone()), ..average }
            }
            Some(mean) => {
                let base = averages.iter().map(|(base, _)| base).find(|base| is_base(base, &average));
                let speedup = base.and_then(|base| base.gb_per_s).map(|base| mean / base);
                let over = base.map(|_| over.to_owned());
                Row { gb_per_s: Some(mean), note: Some(note(&group)), speedup, over, ..average }
            }
        };
        averages.push((average, group));
    }
    averages
}

/// The mean, if no number is missing.
pub fn mean(numbers: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let numbers: Vec<f64> = numbers.collect::<Option<_>>()?;
    Some(numbers.iter().sum::<f64>() / numbers.len() as f64)
}
