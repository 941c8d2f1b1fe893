//! The tables of all rows of an experiment. `tables.json` has a record for each table: its rows, lines, columns and
//! cells, and the text below it.
//!
//! - A pattern has words of the row in braces (see [`At::word`]). Of several patterns, with ` || ` between them, the first
//!   one is used whose words are all known.
//! - A condition is a list of tests, with ` & ` between them: `word=one|other`, `word^=begins`, `word$=ends`,
//!   `word*=contains`, a word alone, which must be known, or `beside` and a test that a row of the same case passes. `!`
//!   negates a test.
//! - `cells` is a list of entries of a condition, a column and a text. So is `last`, whose cells come after those of all
//!   rows. A cell whose text is not known is left out. `printed` is such a list for each printed figure of a row. A table
//!   without `line` has a line for each row, with the patterns of `columns`, if all are known.

mod drawn;
mod words;

use crate::names::sefps::{MEANS, RATIO};
use crate::names::{cluster, hpc, java, mounts, study};
use crate::paper::{equations, p1};
use crate::report::answer::questions;
use crate::report::section::{Section, Table};
use crate::report::text::{digits, percent};
use crate::row::Row;
use drawn::Drawn;
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::LazyLock;
use words::{At, fill, not_run, sentences};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Record {
    title: String,
    /// Conditions. The rows that satisfy the first one come first, and so on. Without conditions, the table has all
    /// rows.
    rows: Vec<String>,
    corner: String,
    line: Option<String>,
    cells: Vec<[String; 3]>,
    printed: Vec<[String; 3]>,
    last: Vec<[String; 3]>,
    columns: Vec<[String; 2]>,
    chart: Option<Drawn>,
    text: String,
}

static RECORDS: LazyLock<HashMap<String, Vec<Record>>> =
    LazyLock::new(|| serde_json::from_str(include_str!("tables.json")).expect("tables.json"));

/// The tables of one experiment's rows.
pub fn sections(experiment: &str, rows: &[Row]) -> Vec<Section> {
    let rows: Vec<&Row> = rows.iter().collect();
    let all = match experiment {
        "sefps" => of_sefps(&rows),
        "users" => {
            let shapes = by(&pick(&rows, |row| row.case.contains(" users, ")), |row| row.case.rsplit(", ").next());
            vec![made("users requirements", &rows), each("users of a shape", shapes), made("users", &rows)]
        }
        "hpc" => of_hpc(&rows),
        "volume" => of_volume(&rows),
        "keys" | "peers" | "service" => vec![made(experiment, &rows)],
        _ => {
            let mut measures = by(&rows, |row| &row.measure);
            measures.sort_by_key(|rows| &rows[0].measure);
            vec![each("gpu", measures)]
        }
    };
    let mut all: Vec<Section> = all.into_iter().flatten().collect();
    all.retain(|section| !section.table.rows.is_empty());
    all
}

fn of_sefps(rows: &[&Row]) -> Vec<Vec<Section>> {
    let means = pick(rows, |row| row.case == MEANS);
    let of_all = made("sefps", if means.is_empty() { rows } else { &means });
    vec![each("sefps speeds", by(rows, |row| &row.operation)), of_all, vec![ratios(rows)]]
}

fn of_hpc(rows: &[&Row]) -> Vec<Vec<Section>> {
    let of = |engine: &str| pick(rows, |row| row.engine == engine);
    let (java, cluster, gpu) = (of(java::ENGINE), of(cluster::ENGINE), of(hpc::GPU));
    let threads = pick(rows, |row| ![java::ENGINE, cluster::ENGINE, hpc::GPU].contains(&row.engine.as_str()));
    let is_printed =
        |row: &Row| cluster.iter().any(|other| other.case == row.case && other.measure == cluster::AT_WORK);
    // Rows in Java are joined by the rows in Rust of the same size.
    let mut sizes = by(&[&java[..], &threads].concat(), |row| &row.case);
    sizes.retain(|rows| rows[0].engine == java::ENGINE);
    sizes.sort_by_key(|rows| rows[0].bytes);
    vec![
        each("threads", by(&threads, |row| &row.case)),
        each("gpu threads", by(&gpu, |row| &row.case)),
        made("cluster requirements", &cluster),
        each("processes", by(&pick(&cluster, is_printed), |row| &row.case)),
        made("cluster", &cluster),
        each("java", sizes),
    ]
}

fn of_volume(rows: &[&Row]) -> Vec<Vec<Section>> {
    let study = pick(rows, |row| row.operation == study::OPERATION);
    let sizes = pick(&study, |row| study::KEYS.iter().any(|bits| row.measure == study::measure(*bits)));
    let questions = if study.is_empty() { Vec::new() } else { vec![questions::section(&study)] };
    // Lines are in the order of rows, and columns are always in the same order.
    let place = |row: &Row| mounts::CONTESTANTS.iter().position(|name| *name == row.scheme).unwrap_or(usize::MAX);
    let mut mounts = by(&pick(rows, |row| row.engine == mounts::ENGINE), |row| (&row.operation, &row.case));
    mounts.iter_mut().for_each(|rows| rows.sort_by_key(|row| place(row)));
    vec![
        questions,
        each("study by keys", by(&sizes, |row| &row.measure)),
        made("study", &study),
        made("volume", rows),
        made("mounts", &mounts.concat()),
    ]
}

/// Eq. 1 for the paper's platforms, and for this machine.
fn ratios(rows: &[&Row]) -> Section {
    let line = |platform: &str| {
        let symbol = |symbol: &str| p1().parameter(symbol, Some(platform));
        let ratio = equations::ratio(symbol("Gmp")?, symbol("Ws")?, symbol("Gf")?, symbol("Cc")?, symbol("Cf")? * 1e3);
        Some(vec![format!("the paper's platform {platform}"), digits(ratio), percent(ratio / (ratio + 1.0))])
    };
    let rows = pick(rows, |row| row.measure == RATIO);
    let here = rows.iter().map(|row| {
        let part = row.speedup.map(|ratio| percent(ratio / (ratio + 1.0)));
        vec![row.case.clone(), row.speedup.map_or("not run".into(), digits), part.unwrap_or_default()]
    });
    let lines = p1().platforms.iter().filter_map(|platform| line(&platform.id)).chain(here);
    let table = Table::of(["machine", "ratio (Eq. 1)", "part of the data for the GPU"], lines);
    Section::new("what the hybrid program gives to the GPU", not_run(&rows).trim_start(), table)
}

fn pick<'a>(rows: &[&'a Row], is_it: impl Fn(&Row) -> bool) -> Vec<&'a Row> {
    rows.iter().copied().filter(|row| is_it(row)).collect()
}

/// Groups of the rows that have the same key, in the order in which they come.
fn by<'a, K: PartialEq>(rows: &[&'a Row], of: impl Fn(&'a Row) -> K) -> Vec<Vec<&'a Row>> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| of(group[0]) == of(row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

fn each(name: &str, groups: Vec<Vec<&Row>>) -> Vec<Section> {
    groups.iter().flat_map(|rows| made(name, rows)).collect()
}

/// The tables of a list of records, by its name.
fn made(name: &str, rows: &[&Row]) -> Vec<Section> {
    RECORDS[name].iter().filter_map(|record| record.section(rows)).collect()
}

impl Record {
    fn section(&self, all: &[&Row]) -> Option<Section> {
        let everything = [String::new()];
        let conditions = if self.rows.is_empty() { &everything[..] } else { &self.rows };
        let mut rows: Vec<At<'_>> = Vec::new();
        for condition in conditions {
            rows.extend(all.iter().map(|row| At::of(row, all)).filter(|at| at.holds(condition)));
        }
        let title = rows.first()?.fill(&self.title)?;
        let table = match &self.line {
            Some(line) => Table::pivot(&self.corner, &self.cells(&rows, line)),
            None => {
                let line = |at: &At<'_>| self.columns.iter().map(|[_, pattern]| at.fill(pattern)).collect();
                let columns = self.columns.iter().map(|[name, _]| name.clone()).collect();
                Table { columns, rows: rows.iter().filter_map(line).collect() }
            }
        };
        let of_table: Vec<&Row> = rows.iter().map(|at| at.row).collect();
        let text = fill(&self.text, |name| Some(sentences(&of_table, name)))?;
        let charts = self.chart.as_ref().map(|chart| chart.charts(&title, &rows)).unwrap_or_default();
        Some(Section { title, text, table, charts })
    }

    fn cells(&self, rows: &[At<'_>], line: &str) -> Vec<[String; 3]> {
        let mut cells = Vec::new();
        let mut add = |at: &At<'_>, list: &[[String; 3]]| {
            for [_, column, text] in list.iter().filter(|[condition, ..]| at.holds(condition)) {
                cells.extend(at.fill(text).and_then(|text| Some([at.fill(line)?, at.fill(column)?, text])));
            }
        };
        for at in rows {
            add(at, &self.cells);
            at.row.printed.iter().for_each(|printed| add(&At { printed: Some(printed), ..*at }, &self.printed));
        }
        rows.iter().for_each(|at| add(at, &self.last));
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::ciphertext::{CIPHERTEXT, PLAINTEXT};
    use crate::row::Bar;

    fn row(experiment: &str, names: [&str; 4]) -> Row {
        Row::of(experiment, "tmpfs", names)
    }

    #[test]
    fn the_table_of_statistics_has_all_rows_and_the_ideal() {
        let of = |scheme: &str, value: f64| {
            let row = row("volume", ["statistics", "histogram: chi-square", scheme, ""]);
            Row { case: "text".into(), value: Some(value), ideal: Some(255.0), ..row }
        };
        let all = sections("volume", &[of(PLAINTEXT, 9e6), of(CIPHERTEXT, 320.0)]);
        assert_eq!(all[0].table.rows, [["text: histogram: chi-square", "9000000.0", "320.0", "255.0"]]);
        assert!(all[0].text.contains("of 0 of 1 ciphertexts"), "{}", all[0].text);
    }

    #[test]
    fn every_row_of_mounts_is_in_a_table_or_has_a_reason() {
        let of = |measure: &str, scheme: &str| row("volume", ["tar x", measure, scheme, "mount"]);
        let bar = Some(Bar { asked: "at least 1 times as fast as gocryptfs".into(), reached: Some(false) });
        let rows = [
            of("time", "phalanx, suite 1").timed(vec![0.5]),
            of("time", "gocryptfs").not_run("no gocryptfs"),
            Row { speedup: Some(0.9), bar, ..of("times as fast as gocryptfs", "phalanx") },
            Row { speedup: Some(1.5), ..of("times as fast as gocryptfs", "bindfs") },
            Row { peak_kib: Some(1024), ..of("peak memory of the mount", "phalanx") },
        ];
        let all = sections("volume", &rows);
        assert_eq!(all.len(), 4);
        assert_eq!(all[0].table.rows.len(), 1);
        assert_eq!(all[0].table.rows[0][3..], ["0.900", "1.50", "missed"]);
        assert_eq!(all[1].table.rows, [["tar x, on tmpfs", "not run", "500"]]);
        assert!(all[1].text.ends_with("gocryptfs: not run: no gocryptfs."), "{}", all[1].text);
        assert_eq!(all[3].table.rows[0][1], "1.00");
    }

    /// The names in the records occur in rows. Of kernels of devices no row is committed.
    #[test]
    fn every_table_has_rows_among_the_committed_ones() {
        let results = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        let runs = crate::report::runs(&results).unwrap();
        let rows: Vec<&Row> = runs.iter().flat_map(|(_, rows)| rows).collect();
        for (name, records) in RECORDS.iter().filter(|(name, _)| *name != "gpu") {
            for record in records {
                let section = record.section(&rows);
                assert!(section.is_some_and(|section| !section.table.rows.is_empty()), "{name}: {}", record.title);
            }
        }
    }

    #[test]
    fn no_row_of_a_device_is_left_out() {
        let of = |measure: &str| row("gpu", ["", measure, "s", ""]);
        let rows = ["kernel", "host to host", "ceiling", "new", "kernel"].map(of);
        let shown: usize = sections("gpu", &rows).iter().map(|section| section.table.rows.len()).sum();
        assert_eq!(shown, rows.len());
        assert!(sections("volume", &[]).is_empty());
    }

    #[test]
    fn every_row_of_the_server_is_in_a_table() {
        use crate::names::service::*;
        let of = |case: &str, measure: &str, scheme: &str| Row {
            case: case.into(),
            ..row("service", [SEAL, measure, scheme, ENGINE])
        };
        let bar = Some(Bar { asked: "at least 5 times as fast as Vault".into(), reached: Some(true) });
        let users = |users, seconds, scheme| {
            let row = Row {
                items: users,
                bytes: 1_000_000 * users,
                ..of(&format!("{users} users, irregular"), TIME, scheme)
            };
            row.timed(vec![seconds])
        };
        let rows = [
            Row { items: 1000, ..of("single", THROUGHPUT, OFF) }.timed(vec![0.5, 0.25, 1.0]),
            of("single", THROUGHPUT, VAULT).not_run("no vault"),
            Row {
                speedup: Some(6.0),
                over: Some(VAULT.into()),
                bar,
                ..of("single", "throughput: times as fast as Vault", OFF)
            },
            of(ALONE, &percentile(50.0), OFF).timed(vec![0.001]),
            users(5, 0.01, CROWD_LIBRARY),
            users(10, 0.01, CROWD_LIBRARY),
            users(5, 0.02, CROWD_UNIX),
            Row { value: Some(20.0), ..of("1000000 new users", MEMORY, BY_UNIX) },
            of("1000000 new users", TIME, BY_UNIX).timed(vec![9.0, 8.0]),
        ];
        let all = sections("service", &rows);
        let shown: Vec<usize> = all.iter().map(|section| section.table.rows.len()).collect();
        assert_eq!(shown, [1, 2, 1, 2, 2, 1]);
        assert_eq!(all[0].table.rows[0][3..], ["6.00", "reached"]);
        assert_eq!(all[1].table.rows[0][2..4], ["2000", "4000"]);
        assert_eq!(all[1].table.rows[1][2], "not run");
        assert!(all[1].text.contains("no vault"), "{}", all[1].text);
        assert_eq!(all[3].table.rows[0], ["5", "10.0", "500", "20.0", "250"]);
        assert_eq!(all[3].charts.iter().map(|chart| chart.lines.len()).sum::<usize>(), 2);
    }

    #[test]
    fn conditions_and_patterns_need_known_words() {
        let row = Row { threads: 2, ..row("peers", ["protect", "time", "a, b", "cpu"]).timed(vec![0.5]) };
        let at = At::of(&row, &[]);
        for condition in ["", "ms", "!speedup", "operation=seal|protect", "scheme^=a & scheme$=b & scheme*=, "] {
            assert!(at.holds(condition), "{condition}");
        }
        for condition in ["!ms", "speedup", "operation=seal", "ms & engine=gpu", "beside ms"] {
            assert!(!at.holds(condition), "{condition}");
        }
        assert_eq!(at.fill("{speedup} || {ms} ms, {threads}").as_deref(), Some("500 ms, 2"));
        assert_eq!((at.fill("{speedup}"), at.fill("{speedup} || ")), (None, Some(String::new())));
    }
}
