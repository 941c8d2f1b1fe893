//! A summary of rows on one page.

use phalanx_bench::record::Line;
use phalanx_bench::row::Row;
use phalanx_kernels::aes::{self, counter_after};
use std::fs::{self, File};
use std::io::{BufWriter, Write};

/// Makes a file of random bytes.
pub fn make(file: &str, mut bytes: u64) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{file}: {error}");
    let mut out = BufWriter::new(File::create(file).map_err(failed)?);
    let key = aes::Key::new(&[9; 32]);
    let (mut part, mut counter) = (vec![0; 1 << 20], [0; 16]);
    while bytes > 0 {
        let len = bytes.min(part.len() as u64) as usize;
        // The old content of the buffer need not be cleared: its ciphertext is as random as that of zeros.
        aes::ctr_xor(aes::Level::detect(), &key, &counter, &mut part[..len]);
        counter = counter_after(&counter, len.div_ceil(16) as u64);
        out.write_all(&part[..len]).map_err(failed)?;
        bytes -= len as u64;
    }
    out.flush().map_err(failed)
}

/// Prints the rows of a file. An incomplete last line is left out: its phase ran out of time.
pub fn print(file: &str) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let rows: Vec<Row> = text
        .lines()
        .filter_map(|line| match serde_json::from_str(line) {
            Ok(Line::Row(row)) => Some(*row),
            _ => None,
        })
        .collect();
    let of = |measure: &str| rows.iter().filter(move |row| row.measure == measure).collect::<Vec<_>>();
    let speed = |row: &Row| row.gb_per_s.unwrap_or(0.0);

    println!("ceilings, GB/s");
    for row in of("ceiling").iter().filter(|row| row.operation != "copy both ways") {
        println!("  {:<10} {:<18} {:8.2}", row.operation, row.scheme, speed(row));
    }
    println!("kernels alone, GB/s: the best of all threads and granularities");
    println!("  {:<36} {:>9} {:>9} {:>9}", "AES by the bits of its key", 128, 192, 256);
    // The figures of a line, by its name.
    let mut lines: Vec<(String, Vec<(usize, f64)>)> = Vec::new();
    for row in of("kernel") {
        let bits = [128, 192, 256].map(|bits| format!("AES-{bits}"));
        let column = bits.iter().position(|bits| row.scheme.contains(bits));
        let scheme = column.map_or(row.scheme.clone(), |column| row.scheme.replace(&bits[column], "AES"));
        let figure = (column.unwrap_or(0), speed(row));
        let name = format!("{scheme}, {}", row.operation);
        match lines.iter_mut().find(|(other, _)| *other == name) {
            Some((_, figures)) => figures.push(figure),
            None => lines.push((name, vec![figure])),
        }
    }
    for (name, figures) in lines {
        let best = |column| figures.iter().filter(|(at, _)| *at == column).map(|(_, speed)| *speed).reduce(f64::max);
        let cell = |column| best(column).map_or(String::new(), |speed| format!("{speed:.2}"));
        println!("  {name:<36} {:>9} {:>9} {:>9}", cell(0), cell(1), cell(2));
    }
    println!("sealing in device memory, GB/s");
    for row in of("device memory") {
        println!("  {:<40} {:>9} {:8.2}", row.scheme, row.case.rsplit(": ").next().unwrap_or_default(), speed(row));
    }
    println!("from pinned memory to device memory, GB/s: copied plain, and opened there");
    for row in of("pinned to device memory") {
        println!("  {:<40} {:>9} {:8.2}", format!("{}, {}", row.scheme, row.operation), row.case, speed(row));
    }
    println!("through the schedule, in memory, GB/s: cpu, gpu, and hybrid by the CPU's threads");
    let mut lines: Vec<(String, String)> = Vec::new();
    for row in of("in memory") {
        let name = format!("{}, {}", row.case, row.operation);
        let threads = if row.engine == "hybrid" { format!(" {}", row.threads) } else { String::new() };
        let cell = format!("  {}{threads} {:.2}", row.engine, speed(row));
        match lines.iter_mut().find(|(other, _)| *other == name) {
            Some((_, cells)) => cells.push_str(&cell),
            None => lines.push((name, cell)),
        }
    }
    lines.iter().for_each(|(name, cells)| println!("  {name:<28}{cells}"));
    println!("host to host, GB/s                              copies    seal  of copies  seal and open");
    for copies in of("ceiling").iter().filter(|row| row.operation == "copy both ways") {
        let engine = |operation: &str| {
            let is_it = |row: &&&Row| row.case == copies.case && row.operation == operation;
            of("host to host").iter().find(is_it).map_or(0.0, |row| speed(row))
        };
        let (seal, both) = (engine("seal"), engine("seal and open"));
        let part = 100.0 * seal / speed(copies).max(1e-9);
        println!("  {:<44} {:8.2} {seal:8.2} {part:8.0} % {both:8.2}", copies.case, speed(copies));
    }
    Ok(())
}
