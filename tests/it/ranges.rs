//! `unprotect --range` and `protect --chunk-size`.

use crate::common::{Sandbox, painted};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// A folder with the key `k`, the file `f`, and `f.phx` in chunks of this size.
fn sandbox(plain: &[u8], chunk_size: &str) -> Sandbox {
    let s = Sandbox::with_key();
    s.write("f", plain);
    s.run(&["protect", "f", "-k", "k", "--chunk-size", chunk_size]).ok();
    s
}

/// Pseudorandom bytes. They are the same in each run.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn ranges_equal_those_of_the_plain_file() {
    let plain = noise((5 << 20) + 1234);
    for chunk_size in ["4K", "64K", "1M", "16M"] {
        let s = sandbox(&plain, chunk_size);
        let len = plain.len();
        let cases = [
            ("0-1", 0..1),
            ("0-", 0..len),
            ("1M-1M+64K", 1 << 20..(1 << 20) + 65536),
            ("1M+1-1M+2", (1 << 20) + 1..(1 << 20) + 2),
            ("4095-4097", 4095..4097),
            ("5M-", 5 << 20..len),
            ("5M-6M", 5 << 20..len),
            ("-1", len - 1..len),
            ("-2M", len - (2 << 20)..len),
            ("-1G", 0..len),
            ("3M+5-1T", (3 << 20) + 5..len),
        ];
        for (range, expected) in cases {
            let reported = s.run(&["unprotect", "f.phx", "--range", range, "-o", "-"]);
            assert!(reported.ok() == plain[expected], "{range}");
        }
        assert!(s.run(&["unprotect", "f.phx", "--range=-7", "-o", "-"]).ok() == plain[len - 7..]);
        assert!(s.run(&["unprotect", "-e", "serial", "f.phx", "-o", "-", "--range", "7-9"]).ok() == plain[7..9]);
    }
}

#[test]
fn a_range_is_an_output_like_any_other() {
    let plain = painted(100_000);
    let s = sandbox(&plain, "4K");
    fs::create_dir(s.path("dir")).unwrap();
    s.run(&["unprotect", "f.phx", "--range", "10-20", "-o", "part"]).ok();
    assert_eq!(s.read("part"), plain[10..20]);
    assert!(s.run(&["unprotect", "f.phx", "--range", "30-40", "-o", "part"]).fails(4).contains("exists already"));
    assert_eq!(s.read("part"), plain[10..20]);
    s.run(&["unprotect", "f.phx", "--range", "30-40", "-f", "--no-sync", "-o", "part"]).ok();
    assert_eq!(s.read("part"), plain[30..40]);
    s.run(&["unprotect", "f.phx", "--range", "-1K", "--output-dir", "dir"]).ok();
    assert_eq!(s.read("dir/f"), plain[100_000 - 1024..]);
    // Plaintext gets no more permissions than the protected file has.
    fs::set_permissions(s.path("f.phx"), fs::Permissions::from_mode(0o600)).unwrap();
    s.run(&["unprotect", "f.phx", "--range", "0-1", "-o", "private"]).ok();
    assert_eq!(fs::metadata(s.path("private")).unwrap().permissions().mode() & 0o777, 0o600);
    // A range beyond the end makes no output.
    let line = s.run(&["unprotect", "f.phx", "--range", "100000-", "-o", "none"]).fails(2);
    assert_eq!(line, "phalanx: f.phx: it has 100000 bytes, and none of them is in the range");
    s.write("empty", "");
    s.run(&["protect", "empty", "-k", "k"]).ok();
    s.run(&["unprotect", "empty.phx", "--range", "0-", "-o", "none"]).fails(2);
    s.run(&["unprotect", "f.phx", "--range", "0-9", "-o", "f.phx", "-f"]).fails(2);
    assert_eq!(s.names(), ["dir", "empty", "empty.phx", "f", "f.phx", "part", "private"]);
}

#[test]
fn wrong_ranges_print_one_line_and_exit_with_2() {
    let s = sandbox(&painted(10_000), "4K");
    for range in ["", "5", "x-y", "9-5", "5-5", "-0", "1-2-3", "1KB-", "99999999999T-", "--force"] {
        let line = s.run(&["unprotect", "f.phx", "-o", "part", "--range", range]).fails(2);
        assert!(line.contains("--range"), "{line}");
    }
    s.write("g.phx", s.read("f.phx"));
    let wrong: &[(&[&str], &str)] = &[
        (&["f.phx"], "--output"),
        (&["f.phx", "-o", "part", "--salvage"], "--salvage"),
        (&["f.phx", "-o", "part", "-R"], "--recursive"),
        (&["f.phx", "-o", "part", "--remove"], "--remove"),
        (&["f.phx", "g.phx", "--output-dir", "."], "one file"),
        (&["-", "-o", "part"], "needs a file"),
        (&["f.phx", "-o", "part", "-e", "gpu"], "CPU"),
        (&["f.phx", "-o", "part", "--range", "2-3"], "twice"),
    ];
    for (args, hint) in wrong {
        let line = s.run(&[&["unprotect", "--range", "0-5"], *args].concat()).fails(2);
        assert!(line.contains(hint), "{line}");
    }
    assert_eq!(s.names(), ["f", "f.phx", "g.phx"]);
}

#[test]
fn only_authentic_bytes_are_written() {
    let plain = noise(200 * 4096 + 9);
    let s = sandbox(&plain, "4K");
    let stored = s.read("f.phx");
    let record = 4096 + 48;
    let header = stored.len() - plain.len() - 201 * 48;
    let mut altered = stored.clone();
    altered[header + 100 * record + 500] ^= 1;
    s.write("altered.phx", &altered);
    let range = |file: &str, range: &str, to: &str| s.run(&["unprotect", file, "--range", range, "-o", to]);
    assert!(range("altered.phx", "400K-401K", "part").fails(3).contains("damaged in chunk 100"));
    assert!(range("altered.phx", "0-", "part").fails(3).contains("damaged in chunk 100"));
    assert!(range("altered.phx", "0-400K", "-").ok() == plain[..100 * 4096]);
    assert!(range("altered.phx", "404K-", "-").ok() == plain[101 * 4096..]);
    let ended = range("altered.phx", "0-", "-");
    assert!(plain[..100 * 4096].starts_with(&ended.0.stdout));
    ended.fails(3);
    // The file is cut between two chunks, far after the range.
    s.write("cut.phx", &stored[..header + 150 * record]);
    assert!(range("cut.phx", "0-10", "part").fails(3).contains("truncated"));
    s.write("long.phx", [&stored[..], &[0; 48]].concat());
    range("long.phx", "0-10", "part").fails(3);
    // The key is wrong, or the file is missing.
    s.run(&["key", "rm", "-f", "k"]).ok();
    range("f.phx", "0-10", "part").fails(3);
    range("none.phx", "0-10", "part").fails(4);
    assert!(!s.exists("part") && s.leftovers().is_empty());
}

#[test]
fn chunks_have_the_requested_size() {
    let plain = painted(40_000);
    let s = sandbox(&plain, "4K");
    for (size, bytes) in [("4K", 4096), ("4096", 4096), ("32k", 32768), ("1M", 1 << 20), ("16M", 16 << 20)] {
        s.run(&["protect", "f", "-f", "-k", "k", "--chunk-size", size]).ok();
        let report: serde_json::Value = serde_json::from_str(&s.run(&["inspect", "--json", "f.phx"]).text()).unwrap();
        assert_eq!(report["chunk_bytes"], bytes);
        assert_eq!(report["chunks"], 40_000u64.div_ceil(bytes));
        assert!(s.run(&["unprotect", "f.phx", "-o", "-"]).ok() == plain);
    }
    s.run(&["protect", "f", "-f", "-k", "k"]).ok();
    assert!(s.run(&["inspect", "f.phx"]).text().contains("of up to 1048576 bytes"));
    for size in ["2K", "5000", "32M", "1G", "x", ""] {
        let line = s.run(&["protect", "f", "-f", "-k", "k", "--chunk-size", size]).fails(2);
        assert!(line.contains("a power of two from 4K to 16M"), "{line}");
    }
}
