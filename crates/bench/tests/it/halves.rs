//! The two halves of the crate do not use each other, and what both use does not use them.

use std::fs;
use std::path::{Path, PathBuf};

fn files(below: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(below).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn measure_and_report_know_rows_but_not_each_other() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut seen = 0;
    for path in files(&src).iter().filter(|path| path.extension().is_some_and(|end| end == "rs")) {
        let name = path.strip_prefix(&src).unwrap().display().to_string();
        let forbidden: &[&str] = match name.split(['/', '.']).next().unwrap() {
            "measure" => &["crate::report", "crate::run"],
            "report" => &["crate::measure", "crate::run"],
            "error" | "head" | "merged" | "names" | "paper" | "record" | "row" => &["crate::measure", "crate::report"],
            _ => continue,
        };
        let text = fs::read_to_string(path).unwrap();
        assert!(forbidden.iter().all(|other| !text.contains(other)), "{name} uses one of {forbidden:?}");
        seen += 1;
    }
    assert!(seen > 60, "{seen}");
}
