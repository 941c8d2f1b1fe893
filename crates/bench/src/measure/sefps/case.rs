//! A file that all programs are measured on, and its rows.

use crate::measure::sefps::programs::Variant;
use crate::names::sefps::EXPERIMENT;
use crate::paper::{Printed, p1};
use crate::row::Row;

/// A file.
pub struct Case<'a> {
    pub name: &'a str,
    pub bytes: u64,
}

impl Case<'_> {
    /// A row of it.
    pub fn row(&self, variant: &Variant, operation: &str, measure: &str) -> Row {
        let printed = if variant.scheme.starts_with("SEFPS") && variant.scheme.ends_with("AES-128") {
            self.printed(operation, variant.engine, measure)
        } else {
            Vec::new()
        };
        Row {
            bytes: self.bytes,
            items: 1,
            threads: if measure == "hash" { 1 } else { variant.threads },
            printed,
            ..Row::of(EXPERIMENT, self.name, [operation, measure, &variant.scheme, variant.engine])
        }
    }

    fn printed(&self, operation: &str, engine: &str, measure: &str) -> Vec<Printed> {
        p1().printed(|v| {
            v.experiment == operation
                && v.engine.as_deref() == Some(engine)
                && v.measure == format!("{measure} speed")
                && v.case.bytes == Some(self.bytes)
        })
    }
}
