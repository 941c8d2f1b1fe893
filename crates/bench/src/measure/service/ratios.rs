//! Rows that compare two others of the same run.

use super::Context;
use crate::measure::{Result, Row, Rows};
use crate::row::Bar;

/// How two rows are compared.
#[derive(Clone, Copy)]
pub enum Compared {
    /// Items in the same time: the more, the better.
    Items(Option<f64>),
    /// Times: at most so many times the other's.
    Time(Option<f64>),
}

/// The items a second of a row.
pub fn rate(row: &Row) -> Option<f64> {
    row.median_s.filter(|median| *median > 0.0).map(|median| row.items as f64 / median)
}

/// Writes a row with the ratio of two rows, and whether it is as required.
pub fn write(context: &Context<'_>, ours: &Row, theirs: &Row, compared: Compared, rows: &mut Rows<'_>) -> Result<()> {
    rows.write(ratio(context, ours, theirs, compared))
}

fn ratio(context: &Context<'_>, ours: &Row, theirs: &Row, compared: Compared) -> Row {
    let (measure, over) = (&ours.measure, &theirs.scheme);
    let named = |measure: &str| {
        let row = context.row(&ours.case, [&ours.operation, measure, &ours.scheme], [0, 0]);
        Row { over: Some(over.clone()), ..row }
    };
    let why = ours.why_not().or(theirs.why_not()).unwrap_or("it has no times");
    match compared {
        Compared::Items(at_least) => {
            let row = named(&format!("{measure}: times as fast as {over}"));
            let Some((ours, theirs)) = rate(ours).zip(rate(theirs)) else { return row.not_run(why) };
            let ratio = ours / theirs;
            let bar = |least| context.setup.bar(format!("at least {least} times as fast as {over}"), ratio >= least);
            Row { speedup: Some(ratio), bar: at_least.and_then(bar), ..row }
        }
        Compared::Time(at_most) => {
            let row = named(&format!("{measure}: times that of {over}"));
            let Some((ours, theirs)) = ours.median_s.zip(theirs.median_s) else { return row.not_run(why) };
            let ratio = ours / theirs;
            let bar = |most| context.setup.bar(format!("at most {most} times that of {over}"), ratio <= most);
            Row { value: Some(ratio), bar: at_most.and_then(bar), ..row }
        }
    }
}

/// A bar for a figure that is compared with nothing.
pub fn bar(context: &Context<'_>, asked: String, reached: bool) -> Option<Bar> {
    context.setup.bar(asked, reached)
}

#[cfg(test)]
mod tests {
    use super::super::QUICK;
    use super::super::place::Place;
    use super::super::servers::Programs;
    use super::*;
    use crate::measure::{Scratch, Setup};

    #[test]
    fn ratios_are_of_items_and_of_times() {
        let out = tempfile::tempdir().unwrap();
        let mut setup = Setup::of_tests(out.path());
        setup.quick = false;
        let scratch = Scratch::new(out.path()).unwrap();
        let programs = Programs { options: &setup.service, scratch: &scratch, place: Place::choose().unwrap() };
        let context = Context { setup: &setup, programs, sizes: QUICK };
        let row =
            |scheme: &str, items, seconds| context.row("c", ["encrypt", "m", scheme], [0, items]).timed(vec![seconds]);
        let (ours, theirs) = (row("a", 100, 1.0), row("b", 40, 2.0));
        let made = ratio(&context, &ours, &theirs, Compared::Items(Some(5.0)));
        assert_eq!((made.speedup, made.bar.unwrap().reached), (Some(5.0), Some(true)));
        let made = ratio(&context, &ours, &theirs, Compared::Time(Some(0.4)));
        assert_eq!((made.value, made.bar.unwrap().reached), (Some(0.5), Some(false)));
        let missing = context.row("c", ["encrypt", "m", "b"], [0, 0]).not_run("no vault");
        let made = ratio(&context, &ours, &missing, Compared::Items(Some(5.0)));
        assert_eq!((made.why_not(), made.bar.as_ref()), (Some("no vault"), None));
    }
}
