//! The papers' data files are consistent, as `papers/README.md` describes.

use phalanx_bench::paper::{Figure, Paper, p1, p2, p3, p4, p5};

fn papers() -> [&'static Paper; 5] {
    [p1(), p2(), p3(), p4(), p5()]
}

const UNITS: [&str; 14] =
    ["GB/s", "MB/s", "Gbps", "ms", "x", "%", "B", "KB", "MB", "GB", "MHz", "GHz", "count", "none"];
const ENGINES: [&str; 5] = ["serial", "cpu", "gpu", "hybrid", "cluster"];

fn check(paper: &Paper, figure: &Figure, is_renamed: bool) {
    let place = format!("{}, {}", paper.paper, figure.r#where);
    assert!(!figure.r#where.is_empty(), "{place}");
    assert!(UNITS.contains(&figure.printed_unit.as_str()), "{place}: {}", figure.printed_unit);
    assert!(figure.printed.is_finite() && figure.printed > 0.0, "{place}");
    assert_eq!(figure.value.is_some(), figure.unit.is_some(), "{place}");
    assert_eq!(!figure.why.is_empty(), figure.value.is_some() || is_renamed, "{place}");
    if let Some(unit) = &figure.unit {
        assert!(UNITS.contains(&unit.as_str()) && unit != "Gbps" && unit != "none", "{place}: {unit}");
    } else {
        assert!(figure.printed_unit != "Gbps" && figure.printed_unit != "none", "{place}");
    }
    assert!(figure.why.iter().all(|name| paper.corrections.contains_key(name)), "{place}: {:?}", figure.why);
    assert!(figure.doubt.iter().all(|name| paper.doubts.contains_key(name)), "{place}: {:?}", figure.doubt);
}

#[test]
fn names_units_and_references_are_valid() {
    for (i, paper) in papers().into_iter().enumerate() {
        assert_eq!(paper.paper, format!("P{}", i + 1));
        let has_platform =
            |id: &Option<String>| id.as_ref().is_none_or(|id| paper.platforms.iter().any(|p| p.id == *id));
        for value in &paper.values {
            check(paper, &value.figure, value.printed_program.is_some());
            assert!(has_platform(&value.platform), "{value:?}");
            assert!(paper.experiments.iter().any(|e| e.id == value.experiment), "{value:?}");
            assert!(value.engine.as_ref().is_none_or(|e| ENGINES.contains(&e.as_str())), "{value:?}");
        }
        for parameter in &paper.parameters {
            check(paper, &parameter.figure, false);
            assert!(has_platform(&parameter.platform), "{parameter:?}");
        }
        for sweep in &paper.sweeps {
            assert_eq!(sweep.printed.len(), sweep.values.len(), "{sweep:?}");
            assert!(sweep.names.as_ref().is_none_or(|names| names.len() == sweep.values.len()), "{sweep:?}");
            assert!(sweep.experiments.iter().all(|id| paper.experiments.iter().any(|e| e.id == *id)), "{sweep:?}");
        }
        // A figure names every correction and every doubt.
        let figures = || paper.values.iter().map(|v| &v.figure).chain(paper.parameters.iter().map(|p| &p.figure));
        for name in paper.corrections.keys() {
            assert!(figures().any(|f| f.why.contains(name)), "{}: {name}", paper.paper);
        }
        for name in paper.doubts.keys() {
            assert!(figures().any(|f| f.doubt.contains(name)), "{}: {name}", paper.paper);
        }
    }
}

#[test]
fn entries_have_no_other_fields() {
    const OF_VALUES: [&str; 8] =
        ["experiment", "platform", "program", "printed_program", "engine", "over", "case", "measure"];
    const OF_PARAMETERS: [&str; 5] = ["name", "symbol", "platform", "program", "engine"];
    const OF_BOTH: [&str; 8] = ["about", "printed", "printed_unit", "value", "unit", "why", "doubt", "where"];
    let (values, parameters) = ([&OF_VALUES[..], &OF_BOTH].concat(), [&OF_PARAMETERS[..], &OF_BOTH].concat());
    let lists: [(&str, &[&str]); 4] = [
        ("values", &values),
        ("parameters", &parameters),
        ("notes", &["text", "where"]),
        ("left_out", &["what", "where", "why"]),
    ];
    for paper in ["p1-sefps", "p2-users", "p3-hpc", "p4-gpufs", "p5-keys"] {
        let path = format!("{}/papers/{paper}.json", env!("CARGO_MANIFEST_DIR"));
        let file: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for (list, fields) in lists {
            for field in file[list].as_array().unwrap().iter().flat_map(|entry| entry.as_object().unwrap().keys()) {
                assert!(fields.contains(&field.as_str()), "{paper}, {list}: {field}");
            }
        }
    }
}

#[test]
fn the_readme_counts_all_values() {
    let readme = include_str!("../../papers/README.md");
    for paper in papers() {
        let line =
            readme.lines().find(|line| line.starts_with(&format!("| `{}-", paper.paper.to_lowercase()))).unwrap();
        let count = line.trim_end_matches(" |").rsplit(' ').next().unwrap();
        assert_eq!(count.parse(), Ok(paper.values.len()), "{line}");
    }
}

#[test]
fn every_input_of_the_experiments_is_there() {
    assert_eq!(p1().sweep("protect", "bytes").len(), 14);
    assert_eq!(p3().sweep("openmp", "bytes").len(), 4);
    assert_eq!(p3().sweep("openmp", "threads").iter().map(|(_, n)| *n).collect::<Vec<_>>(), [1, 2, 4, 8, 16]);
    assert_eq!(p5().sweep("sizes", "bytes").len(), 9);
}

#[test]
fn a_printed_figure_names_its_corrections() {
    let average = p1().printed(|v| {
        v.experiment == "protect"
            && v.platform.as_deref() == Some("1")
            && v.printed_program.is_some()
            && v.program.as_deref() == Some("CSP")
            && v.measure == "total speed"
    });
    let [average] = &average[..] else { panic!("{average:?}") };
    assert_eq!((average.value, average.unit.as_str()), (0.0345194, "GB/s"));
    assert_eq!(average.as_printed.as_deref(), Some("0.0345194 Gbps"));
    assert_eq!(average.by, "P1 platform 1 CSP");
    assert!(average.why.len() == 2 && average.why[0].starts_with("Gbps can only be GB/s"), "{:?}", average.why);
}
