//! Tests of the report in a browser. Headless Chromium renders the page of the committed rows, wide and narrow.

use crate::common::{Sandbox, skip};
use phalanx_bench::report;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Chromium's program. If there is none, prints a line, or fails if PHALANX_REQUIRE names it.
fn chromium() -> Option<PathBuf> {
    let paths = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&paths)
        .flat_map(|folder| ["chromium", "chromium-browser", "google-chrome"].map(|name| folder.join(name)))
        .find(|path| path.is_file());
    if found.is_none() {
        skip("chromium");
    }
    found
}

/// Runs Chromium on a file, with a profile of its own. Returns its standard output and standard error.
fn run(chromium: &Path, s: &Sandbox, args: &[&str], page: &Path) -> (String, String) {
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"])
        .args(["--enable-logging=stderr", "--allow-file-access-from-files"])
        .arg(format!("--user-data-dir={}", s.path("profile").display()))
        .args(args)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// A page that shows another one in a frame of a given width, and writes what it finds there into its title.
const PROBE: &str = r#"<!doctype html><meta charset="utf-8"><title>waiting</title>
<iframe id="f" src="REPORT" style="width:WIDTHpx;height:900px;border:0"></iframe>
<script>
document.getElementById("f").onload = e => {
  const page = e.target.contentDocument, root = page.documentElement;
  const svgs = [...page.querySelectorAll("svg[role=img]")];
  const described = svgs.filter(s => s.querySelector("title") && s.querySelector("desc"));
  const outside = [...page.querySelectorAll("svg[role=img] text")].filter(t => {
    const a = t.getBoundingClientRect(), b = t.ownerSVGElement.getBoundingClientRect();
    return b.width > 0 && (a.right > b.right + 3 || a.left < b.left - 3 || a.bottom > b.bottom + 3 || a.top < b.top - 3);
  });
  const overlapping = svgs.filter(s => {
    const names = [...s.querySelectorAll("text.name")].map(t => t.getBoundingClientRect());
    return names.some((a, i) => names.slice(i + 1).some(b =>
      a.left < b.right - 1 && b.left < a.right - 1 && a.top + 3 < b.bottom && b.top + 3 < a.bottom));
  });
  document.title = JSON.stringify({ overflow: root.scrollWidth - root.clientWidth, svgs: svgs.length,
    described: described.length, articles: page.querySelectorAll("article").length, outside: outside.length,
    first: outside[0] ? outside[0].textContent : "", overlapping: overlapping.length });
};
</script>"#;

fn number(found: &str, name: &str) -> i64 {
    let (_, rest) = found.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("no {name}: {found}"));
    rest.split([',', '}']).next().unwrap().parse().unwrap()
}

fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results")
}

#[test]
fn the_committed_page_is_that_of_the_committed_rows() {
    let file = |name: &str| std::fs::read_to_string(results().join(name)).unwrap();
    let is_same = file(report::FILE) == report::page(&results()).unwrap();
    let is_same = is_same && Some(file(report::CHART)) == report::chart(&results()).unwrap();
    assert!(is_same, "stale: cargo run --release -p phalanx-bench -- report crates/bench/results");
}

#[test]
fn the_tables_in_documents_are_those_of_the_committed_rows() {
    for (document, least) in
        [("docs/performance.md", 3), ("docs/performance-server.md", 1), ("crates/bench/results/other-machines.md", 3)]
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.matches("<!-- rows: ").count() >= least, "its tables are not made from rows");
        let line = format!("cargo run --release -p phalanx-bench -- report crates/bench/results --document {document}");
        assert_eq!(text, report::renewed(&path, &results()).unwrap(), "stale: {line}");
    }
}

#[test]
fn chromium_shows_the_page_whole_at_any_width() {
    let Some(chromium) = chromium() else { return };
    let s = Sandbox::new();
    let report = s.write(report::FILE, report::page(&results()).unwrap());
    for width in [400, 1280] {
        let probe = s.path(&format!("probe-{width}.html"));
        let text = PROBE.replace("REPORT", report.to_str().unwrap()).replace("WIDTH", &width.to_string());
        std::fs::write(&probe, text).unwrap();
        let (dom, log) =
            run(&chromium, &s, &["--window-size=1400,1000", "--virtual-time-budget=20000", "--dump-dom"], &probe);
        let found = dom.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>")).unwrap().0;
        let errors: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(number(found, "articles"), 52, "{found}");
        assert!(number(found, "svgs") > 50 && number(found, "described") == number(found, "svgs"), "{found}");
        assert!(number(found, "overflow") <= 0, "at {width}: {found}");
        assert_eq!((number(found, "outside"), number(found, "overlapping")), (0, 0), "at {width}: {found}");
    }
    let pdf = s.path("report.pdf");
    run(&chromium, &s, &["--no-pdf-header-footer", &format!("--print-to-pdf={}", pdf.display())], &report);
    assert!(std::fs::read(&pdf).unwrap().starts_with(b"%PDF"));
}
