//! The measurement of the server, by whole commands.

use crate::common::{Ended, Sandbox, skip};
use phalanx_bench::record::read;
use phalanx_bench::row::Row;
use std::path::PathBuf;

/// Whether `phalanx-server` is built beside this program.
fn has_server() -> bool {
    let found = PathBuf::from(env!("CARGO_BIN_EXE_phalanx-bench")).with_file_name("phalanx-server").is_file();
    if !found {
        skip("phalanx-server");
    }
    found
}

/// What is missing is said at the start, and its rows say it too.
#[test]
fn missing_servers_are_named() {
    let s = Sandbox::new();
    let ended = Ended(s.command(&["service", "--quick", "--part", "batch", "--out", "run"]).output().unwrap());
    let error = ended.error();
    ended.ok();
    assert!(error.contains("not here, so not measured: ") && error.contains("vault (--vault names one)"), "{error}");
    let (_, rows) = read(&s.path("run")).unwrap();
    let of_vault: Vec<&Row> = rows.iter().filter(|row| row.scheme == "Vault").collect();
    assert_eq!(of_vault.len(), 2);
    assert!(of_vault.iter().all(|row| row.why_not().is_some_and(|why| why.contains("no vault"))), "{rows:?}");
    s.run(&["service", "--vault", "none", "--out", "other"]).fails(4);
}

/// A running server is measured: every row of it has a figure.
#[test]
fn a_quick_run_measures_the_server() {
    if !has_server() {
        return;
    }
    let s = Sandbox::new();
    s.run(&["service", "--quick", "--out", "run"]).ok();
    let (_, rows) = read(&s.path("run")).unwrap();
    let peers = ["Vault", "pgcrypto"];
    let is_of_peer = |row: &&Row| {
        let over = row.over.as_deref().unwrap_or_default();
        peers.iter().any(|peer| row.scheme.starts_with(peer) || over.starts_with(peer) || row.case.contains(peer))
    };
    let ours: Vec<&Row> = rows.iter().filter(|row| !is_of_peer(row)).collect();
    assert!(ours.len() > 40, "{}", ours.len());
    for row in ours {
        let has_figure = row.median_s.is_some() || row.speedup.is_some() || row.value.is_some();
        assert!(has_figure && row.why_not().is_none(), "{row:?}");
    }
    let page = std::fs::read_to_string(s.path("run").join("report.html")).unwrap();
    assert!(page.contains(r#"<h2 id="service">The server</h2>"#));
    assert!(!s.exists("run/scratch"));
}
