//! Bars of the server, and of what stands beside it.

use crate::names::service::{EXPERIMENT, THROUGHPUT};
use crate::report::bars::{Bar, Bars};
use crate::report::chart::Thing;
use crate::report::machine::Machine;
use crate::report::text::unique;
use crate::row::Row;

/// The items a second of each input and operation.
pub fn bars(machine: &Machine) -> Vec<Bars> {
    let is_it = |row: &&Row| row.measure == THROUGHPUT && row.median_s.is_some_and(|median| median > 0.0);
    let rows: Vec<&Row> = machine.of(EXPERIMENT).filter(is_it).collect();
    let sets = unique(rows.iter().map(|row| (&row.case, &row.operation)));
    let all = sets.into_iter().map(|(case, operation)| {
        let of_set = rows.iter().filter(|row| (&row.case, &row.operation) == (case, operation));
        let bar = |row: &&Row| {
            // The library's own call is ours, too.
            let is_peer = row.scheme.starts_with("Vault") || row.scheme.starts_with("pgcrypto");
            let thing = if is_peer { Thing::Peer } else { Thing::Cpu };
            Some(Bar { name: row.scheme.clone(), thing, value: row.items as f64 / row.median_s?, printed: false })
        };
        let mut bars: Vec<Bar> = of_set.filter_map(bar).collect();
        bars.sort_by(|a, b| b.value.total_cmp(&a.value));
        Bars { title: format!("{operation}: {case}"), unit: "items a second".into(), bars }
    });
    // A program alone is not compared with anything.
    all.filter(|bars| bars.bars.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::service::{ENCRYPT, ENGINE, OFF, VAULT};

    #[test]
    fn the_fastest_is_on_top() {
        let of = |scheme: &str, seconds: f64| {
            let row = Row::of(EXPERIMENT, "single", [ENCRYPT, THROUGHPUT, scheme, ENGINE]);
            Row { items: 100, ..row }.timed(vec![seconds])
        };
        let machine = |rows| Machine { name: "m".into(), heads: Vec::new(), rows };
        let bars = bars(&machine(vec![of(VAULT, 1.0), of(OFF, 0.1)]));
        let found: Vec<(&str, f64)> = bars[0].bars.iter().map(|bar| (bar.name.as_str(), bar.value.round())).collect();
        assert_eq!(found, [(OFF, 1000.0), (VAULT, 100.0)]);
        assert!(super::bars(&machine(vec![of(OFF, 0.1)])).is_empty());
    }
}
