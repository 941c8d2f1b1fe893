//! P3's tables and figures.

use crate::names;
use crate::names::hpc::GPU;
use crate::report::section::{Cell, Figure, Section, Table, milliseconds};
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
    let of_threads = sizes(&threads).into_iter().map(|size| section(&threads, &size, false));
    let of_gpu = sizes(&gpu).into_iter().map(|size| section(&gpu, &size, true));
    of_threads.chain(of_gpu).chain(cluster::sections(&cluster)).chain(java::sections(&java, &threads)).collect()
}

/// One size, by GPU threads in the CUDA part, and by threads otherwise.
fn section(rows: &[&Row], size: &str, is_gpu: bool) -> Section {
    let (what, about) = match is_gpu {
        true => (
            "GPU threads",
            "Each thread loops over its blocks of 16 bytes. Speedup: over the fewest threads. The paper's GPU is a Tesla T10, and its program AES in ECB mode with tables, too.",
        ),
        false => (
            "threads",
            "Efficiency: speedup / threads, or speedup / cores if there are fewer cores. The paper's machine has 16 logical cores.",
        ),
    };
    let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.case == size).collect();
    let title = format!("{size}: GB/s by {what}");
    let mut figure = Figure::new(&title, what, "GB/s");
    let threads: Vec<String> = rows.iter().map(|row| row.threads.to_string()).collect();
    let mut cells = Vec::new();
    for (row, threads) in rows.iter().zip(&threads) {
        let scheme = format!("{}, {}", row.scheme, row.measure);
        let mut cell = |column: String, text: Option<String>| {
            cells.extend(text.map(|text| Cell { line: threads, column, text }));
        };
        let without = row.note.clone().filter(|_| is_gpu && row.median_s.is_none());
        cell(format!("{scheme}: ms"), milliseconds(row).or(without));
        cell(format!("{}: speedup", if is_gpu { &row.measure } else { &scheme }), row.speedup.map(digits));
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
    Section::new(title, about, Table::pivot(what, cells)).drawn(figure)
}
