//! Manifests that break one rule of section 13.3.

use super::manifests::{Manifests, file, folder, link, manifest, root};
use phalanx_reference::tree::{Broken, Entry, Kind, Manifest, write_manifest};

/// Where the length of the rules lies.
const RULES_LEN: usize = 72;
/// The length of the head without rules.
const HEAD: usize = 76;
/// The length of an entry without its name.
const COMMON: usize = 1 + 2 + 16;

pub(super) fn add(all: &mut Manifests) {
    heads(all);
    cuts(all);
    roots_and_kinds(all);
    names(all);
    fields(all);
    ends(all);
}

fn sound() -> Manifest {
    manifest(vec![root(), folder(1, b"a"), file(2, b"b"), link(1, b"c", b"a/b")])
}

/// The sound manifest with other bytes at a place.
fn with(at: usize, other: &[u8]) -> Vec<u8> {
    let mut bytes = write_manifest(&sound());
    bytes[at..at + other.len()].copy_from_slice(other);
    bytes
}

fn heads(all: &mut Manifests) {
    all.refuse("magic-first-byte", "the first byte of the magic is another", Broken::Magic, &with(0, b"p"));
    all.refuse("magic-last-byte", "the last byte of the magic is another", Broken::Magic, &with(6, b"F"));
    all.refuse(
        "magic-of-a-file",
        "a protected file in the place of a manifest",
        Broken::Magic,
        &with(0, b"PHALANX\x01"),
    );
    for version in [0, b'0', b'2', 255] {
        let comment = format!("version {version}");
        all.refuse(&format!("version-{version}"), &comment, Broken::Version, &with(7, &[version]));
    }
    let too_long = [&with(RULES_LEN, &1_048_577u32.to_le_bytes())[..], &[b'\n'; 100]].concat();
    all.refuse("rules-too-long", "a byte more of rules than may be, and they are not there", Broken::Rules, &too_long);
    for (name, comment, rules) in [
        ("not-utf8", "a byte that UTF-8 does not have", &b"a\xff"[..]),
        ("overlong", "an overlong form of UTF-8", b"\xc0\x80"),
        ("surrogate", "half a pair of UTF-16 in UTF-8", b"\xed\xa0\x80"),
        ("half", "the rules end within a letter", b"\xc3"),
    ] {
        let bytes = write_manifest(&Manifest { rules: rules.to_vec(), ..sound() });
        all.refuse(&format!("rules-{name}"), comment, Broken::Rules, &bytes);
    }
}

fn cuts(all: &mut Manifests) {
    let bytes = write_manifest(&Manifest { rules: b"- x\n".to_vec(), ..sound() });
    let (rules, end) = (HEAD + 4, bytes.len());
    for (len, comment) in [
        (0, "nothing is there"),
        (7, "the version is missing"),
        (8, "only magic and version are there"),
        (HEAD - 1, "cut within the length of the rules"),
        (rules - 1, "cut within the rules"),
        (rules, "the root is missing"),
        (rules + 1, "cut after the first byte of the root"),
        (rules + COMMON, "cut after the root"),
        (rules + COMMON + 3, "cut before a name"),
        (rules + 2 * COMMON + 1 + COMMON + 1, "cut before the fields of a file"),
        (end - 10, "cut within a link's target"),
        (end - 9, "the end of the root is missing"),
        (end - 8, "the count is missing"),
        (end - 1, "the last byte of the count is missing"),
    ] {
        all.refuse(&format!("cut-to-{len}"), comment, Broken::Cut, &bytes[..len]);
    }
}

fn roots_and_kinds(all: &mut Manifests) {
    for (name, comment, first) in [
        ("root-is-an-end", "the first entry is an end of a folder", 0),
        ("root-is-a-file", "the first entry is a file", 2),
        ("root-is-a-link", "the first entry is a link", 3),
    ] {
        all.refuse(name, comment, Broken::Root, &with(HEAD, &[first]));
    }
    let named = Manifest { entries: vec![folder(0, b"r")], ..sound() };
    all.refuse("root-has-a-name", "the root has a name", Broken::Root, &write_manifest(&named));
    for kind in [4, 255] {
        let comment = format!("an entry begins with {kind}");
        all.refuse(&format!("kind-{kind}"), &comment, Broken::Kind, &with(HEAD + COMMON, &[kind]));
    }
}

fn names(all: &mut Manifests) {
    for (name, comment, bad) in [
        ("empty", "an entry without a name", &b""[..]),
        ("dot", "the folder itself", b"."),
        ("dots", "the folder above", b".."),
        ("slash", "a path in the place of a name", b"a/b"),
        ("only-slash", "a slash alone", b"/"),
        ("nul", "a name that ends with a NUL", b"a\0"),
        ("too-long", "a name of 4097 bytes", &[b'n'; 4097]),
    ] {
        let bytes = write_manifest(&manifest(vec![root(), file(1, bad)]));
        all.refuse(&format!("name-{name}"), comment, Broken::Name, &bytes);
    }
    let deep = vec![root(), folder(1, b"a"), link(2, b"..", b"x")];
    all.refuse("name-dots-deeper", "the folder above, as a link", Broken::Name, &write_manifest(&manifest(deep)));
    for (name, comment, entries) in [
        ("descending", "b before a", vec![file(1, b"b"), file(1, b"a")]),
        ("twice", "two files of one name", vec![file(1, b"a"), file(1, b"a")]),
        ("twice-as-folder-and-file", "a folder and a file of one name", vec![folder(1, b"a"), file(1, b"a")]),
        ("beginning-last", "a name before one that it begins with", vec![file(1, b"ab"), file(1, b"a")]),
        ("signed", "the order of signed bytes", vec![file(1, b"\x80"), file(1, b"\x7f")]),
        ("of-paths", "a! before a, as the paths a!/z and a/z are ordered", vec![folder(1, b"a!"), folder(1, b"a")]),
        ("without-case", "a before B", vec![file(1, b"a"), file(1, b"B")]),
        ("after-a-folder", "a after b and what b holds", vec![folder(1, b"b"), file(2, b"c"), file(1, b"a")]),
        (
            "deeper",
            "b before a, two folders down",
            vec![folder(1, b"x"), folder(2, b"y"), file(3, b"b"), file(3, b"a")],
        ),
    ] {
        let bytes = write_manifest(&manifest([root()].into_iter().chain(entries).collect()));
        all.refuse(&format!("order-{name}"), comment, Broken::Order, &bytes);
    }
}

fn fields(all: &mut Manifests) {
    let mut refuse = |name: &str, comment: &str, broken, entry: Entry| {
        all.refuse(name, comment, broken, &write_manifest(&manifest(vec![root(), entry])));
    };
    refuse("mode-too-large", "mode 10000 octal", Broken::Mode, Entry { mode: 0o10000, ..file(1, b"a") });
    refuse(
        "mode-with-type",
        "a mode with the type of a folder",
        Broken::Mode,
        Entry { mode: 0o40755, ..folder(1, b"a") },
    );
    let time = |nanoseconds| Entry { nanoseconds, ..link(1, b"a", b"b") };
    refuse("time-of-a-second", "10^9 nanoseconds", Broken::Time, time(1_000_000_000));
    refuse("time-of-ones", "2^32 - 1 nanoseconds", Broken::Time, time(u32::MAX));
    for (name, comment, new_len, new_stored_len) in [
        ("both-0", "a stored file of 0 bytes", 0, 0),
        ("equal", "a plaintext as long as its stored file", 1072, 1072),
        ("longer", "a plaintext longer than its stored file", 1073, 1072),
        ("above-2-63", "a stored file of 2^63 bytes", 1000, 1 << 63),
        ("of-ones", "a stored file of 2^64 - 1 bytes", u64::MAX - 1, u64::MAX),
    ] {
        let mut entry = file(1, b"a");
        if let Kind::File { len, stored_len, .. } = &mut entry.kind {
            (*len, *stored_len) = (new_len, new_stored_len);
        }
        refuse(&format!("length-{name}"), comment, Broken::Length, entry);
    }
    for (name, comment, target) in [
        ("empty", "a link that leads nowhere", &b""[..]),
        ("nul", "a NUL within a target", b"a\0b"),
        ("only-nul", "a NUL as a target", b"\0"),
    ] {
        refuse(&format!("target-{name}"), comment, Broken::Target, link(1, b"a", target));
    }
}

fn ends(all: &mut Manifests) {
    let bytes = write_manifest(&sound());
    let count = bytes.len() - 8;
    for (name, comment, number) in [
        ("0", "the count is 0", 0u64),
        ("without-root", "the count is one too low: without the root", 3),
        ("one-more", "the count is one too high", 5),
        ("above-32-bits", "the count is right in its lower half only", 4 | 1 << 32),
        ("big-endian", "the count is big-endian", 4 << 56),
    ] {
        all.refuse(&format!("count-{name}"), comment, Broken::Count, &with(count, &number.to_le_bytes()));
    }
    let longer = [&bytes[..], &[0]].concat();
    all.refuse("append-1-byte", "a byte after the end", Broken::Extended, &longer);
    all.refuse("append-manifest", "another manifest after the end", Broken::Extended, &[&bytes[..], &bytes].concat());
}
