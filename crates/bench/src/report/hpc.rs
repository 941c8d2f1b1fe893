//! P3's tables and figures.

mod cluster;
mod java;

use super::{Cell, Figure, Section, Table, digits, percent};
use crate::hpc::cluster::ENGINE;
use crate::hpc::java::ENGINE as JAVA;
use crate::row::Row;

pub fn sections(rows: &[Row]) -> Vec<Section> {
    let (java, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.engine == JAVA);
    let (cluster, threads): (Vec<&Row>, Vec<&Row>) = others.into_iter().partition(|row| row.engine == ENGINE);
    let mut sizes: Vec<&str> = threads.iter().map(|row| row.case.as_str()).collect();
    sizes.dedup();
    let of_threads = sizes.into_iter().map(|size| section(&threads, size));
    of_threads.chain(cluster::sections(&cluster)).chain(java::sections(&java, &threads)).collect()
}

fn section(rows: &[&Row], size: &str) -> Section {
    let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.case == size).collect();
    let title = format!("{size}: GB/s by threads");
    let mut figure = Figure::new(&format!("hpc-{size}"), &title, "threads", "GB/s", true);
    let mut cells = Vec::new();
    let threads: Vec<String> = rows.iter().map(|row| row.threads.to_string()).collect();
    for (row, threads) in rows.iter().zip(&threads) {
        let scheme = format!("{}, {}", row.scheme, row.measure);
        let mut cell = |column: String, text: Option<String>| {
            cells.extend(text.map(|text| Cell { line: threads, column, text }));
        };
        cell(format!("{scheme}: ms"), row.median_s.map(|s| digits(s * 1e3)));
        cell(format!("{scheme}: speedup"), row.speedup.map(digits));
        cell(format!("{scheme}: efficiency"), row.efficiency.map(percent));
        if let Some(speed) = row.gb_per_s {
            figure.add(&scheme, false, threads, speed);
        }
        for p in &row.printed {
            cell(format!("*printed: {}, {}*", p.by, p.measure), Some(format!("*{} {}*", p.value, p.unit)));
            if p.measure == "time" && p.unit == "ms" {
                figure.add(&format!("printed: {}", p.by), true, threads, row.bytes as f64 / p.value / 1e6);
            }
        }
    }
    let text = "Efficiency: speedup / threads, or speedup / cores if there are fewer cores. The paper's machine has 16 logical cores.";
    Section { title, text: text.into(), table: Table::pivot("threads", cells), figure: Some(figure) }
}
