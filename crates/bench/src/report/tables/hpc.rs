//! P3's tables and figures.

use crate::names;
use crate::names::hpc::GPU;
use crate::report::section::{Cell, Figure, Section, Table};
use crate::report::tables::{cluster, java};
use crate::report::text::{digits, percent};
use crate::row::Row;

pub fn sections(rows: &[Row]) -> Vec<Section> {
    let (java, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.engine == names::java::ENGINE);
    let (cluster, others): (Vec<&Row>, Vec<&Row>) =
        others.into_iter().partition(|row| row.engine == names::cluster::ENGINE);
    let (gpu, threads): (Vec<&Row>, Vec<&Row>) = others.into_iter().partition(|row| row.engine == GPU);
    let sizes = |rows: &[&Row]| {
        let mut sizes: Vec<String> = rows.iter().map(|row| row.case.clone()).collect();
        sizes.dedup();
        sizes
    };
    let of_threads = sizes(&threads).into_iter().map(|size| section(&threads, &size));
    let of_gpu = sizes(&gpu).into_iter().map(|size| on_gpu(&gpu, &size));
    of_threads.chain(of_gpu).chain(cluster::sections(&cluster)).chain(java::sections(&java, &threads)).collect()
}

/// The CUDA part.
fn on_gpu(rows: &[&Row], size: &str) -> Section {
    let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.case == size).collect();
    let title = format!("{size}: GB/s by GPU threads");
    let mut figure = Figure::new(&format!("hpc-gpu-{size}"), &title, "GPU threads", "GB/s", true);
    let threads: Vec<String> = rows.iter().map(|row| row.threads.to_string()).collect();
    let mut cells = Vec::new();
    for (row, threads) in rows.iter().zip(&threads) {
        let mut cell = |column: String, text: Option<String>| {
            cells.extend(text.map(|text| Cell { line: threads, column, text }));
        };
        let without = row.note.clone().filter(|_| row.median_s.is_none());
        cell(format!("{}, {}: ms", row.scheme, row.measure), row.median_s.map(|s| digits(s * 1e3)).or(without));
        cell(format!("{}: speedup", row.measure), row.speedup.map(digits));
        if let Some(speed) = row.gb_per_s {
            figure.add(&format!("{}, {}", row.scheme, row.measure), false, threads, speed);
        }
        for p in &row.printed {
            cell(format!("*printed: {}, {}*", p.by, p.measure), Some(format!("*{} {}*", p.value, p.unit)));
            if p.measure == "time" && p.unit == "ms" {
                figure.add(&format!("printed: {}", p.by), true, threads, row.bytes as f64 / p.value / 1e6);
            }
        }
    }
    let text = "Each thread loops over its blocks of 16 bytes. Speedup: over the fewest threads. The paper's GPU is a Tesla T10, and its program AES in ECB mode with tables, too.";
    Section::new(title, text, Table::pivot("GPU threads", cells)).drawn(figure)
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
    Section::new(title, text, Table::pivot("threads", cells)).drawn(figure)
}
