//! Manifests (section 13.3). What is refused is in `refused`.

use super::*;
use phalanx_reference::tree::{Broken, Contents, Entry, Kind, Manifest, read_manifest, write_manifest};

pub fn all() -> Vec<Made> {
    let mut all = Manifests(Vec::new());
    heads(&mut all);
    entries(&mut all);
    names(&mut all);
    refused::add(&mut all);
    all.0
}

fn heads(all: &mut Manifests) {
    all.accept("empty", "a root without entries, and the first manifest of a tree", &manifest(vec![root()]));
    let some = || manifest(vec![root(), folder(1, b"a"), file(2, b"b"), link(1, b"c", b"a/b")]);
    all.accept("some-of-each", "a folder, a file and a link", &some());
    let head = Manifest {
        generation: u64::MAX,
        written: i64::MIN,
        previous: [255; 32],
        rules: "- *.tmp\n- /täglich/\n- 日記\n".into(),
        ..some()
    };
    all.accept("head-of-extremes", "the greatest generation, the earliest time, and rules beyond ASCII", &head);
    let head = Manifest { generation: 1 << 63, written: i64::MAX, rules: b"no line feed\0".to_vec(), ..some() };
    all.accept("head-of-other-extremes", "a generation above 2^63, the latest time, and a NUL in the rules", &head);
}

fn entries(all: &mut Manifests) {
    let mut extremes = vec![Entry { mode: 0o7777, seconds: i64::MAX, nanoseconds: 999_999_999, ..root() }];
    extremes.push(Entry { mode: 0, seconds: i64::MIN, nanoseconds: 0, ..folder(1, b"folder") });
    for (name, len, stored_len, number) in [
        (&b"longest"[..], (1 << 63) - 2, (1 << 63) - 1, u64::MAX),
        (b"shortest", 0, 1, 0),
        (b"smallest-header", 0, 101, 1 << 63),
    ] {
        let contents = Contents { last: [255; 48], root: [0; 32] };
        let kind = Kind::File { len, stored_len, device: number, inode: number, contents };
        extremes.push(Entry { kind, ..folder(1, name) });
    }
    all.accept("entries-of-extremes", "the greatest and smallest values of all fields", &manifest(extremes));

    let target: Vec<u8> = (0..65535).map(|i| b"a/long/target"[i % 13]).collect();
    let links = vec![root(), link(1, b"long", &target), link(1, b"other", b"\xff/../.."), link(1, b"short", b".")];
    all.accept("targets", "targets of 65535 bytes, of 1, and that is no text", &manifest(links));

    let mut deep: Vec<Entry> = (1..40).map(|depth| folder(depth, b"in")).collect();
    deep.insert(0, root());
    deep.extend([file(40, b"at the bottom"), file(3, b"not so deep"), folder(1, b"on top")]);
    all.accept("deep", "40 folders within each other, of which 37 end at once", &manifest(deep));

    let many = (0..300).map(|i| if i % 7 == 3 { folder(1, &numbered(i)) } else { file(1, &numbered(i)) });
    all.accept("many", "301 entries", &manifest([root()].into_iter().chain(many).collect()));
}

fn numbered(i: usize) -> Vec<u8> {
    format!("{i:03}").into_bytes()
}

fn names(all: &mut Manifests) {
    let sorted: Vec<&[u8]> = vec![
        b"\x01",
        b" ",
        b"-",
        b"...",
        b".a",
        b"A",
        b"Z",
        b"\\",
        b"a",
        b"a ",
        b"a.b",
        b"a.phx",
        b"aa",
        b"b",
        b"\x7f",
        b"\x80",
        "é".as_bytes(),
        b"\xff",
        b"\xff\xff",
    ];
    let files = sorted.iter().map(|name| file(1, name));
    let comment = "names in the order of their bytes, as unsigned numbers";
    all.accept("names", comment, &manifest([root()].into_iter().chain(files).collect()));

    let folders =
        vec![root(), folder(1, b"a"), file(2, b"z"), folder(1, b"a!"), file(1, b"b"), file(1, b"phalanx.tree")];
    let comment = "the order is that of names, not of paths: a/z stands before a!";
    all.accept("names-not-paths", comment, &manifest(folders));

    let same = vec![root(), folder(1, b"a"), folder(2, b"a"), file(3, b"a"), folder(1, b"b"), file(2, b"a")];
    all.accept("names-again", "each folder has its own names", &manifest(same));

    let long = vec![root(), file(1, &[b'n'; 4095]), file(1, &[b'n'; 4096])];
    all.accept("names-long", "names of 4095 and 4096 bytes", &manifest(long));
}

pub(super) fn manifest(entries: Vec<Entry>) -> Manifest {
    let (generation, written) = (1, 1_764_000_000);
    Manifest { tree: random("tree"), generation, written, previous: [0; 32], rules: Vec::new(), entries }
}

pub(super) fn root() -> Entry {
    folder(0, b"")
}

pub(super) fn folder(depth: usize, name: &[u8]) -> Entry {
    let (mode, seconds, nanoseconds) = (0o755, 1_763_000_000, 500_000_000);
    Entry { depth, name: name.to_vec(), mode, seconds, nanoseconds, kind: Kind::Folder }
}

pub(super) fn file(depth: usize, name: &[u8]) -> Entry {
    let [one, other]: [[u8; 32]; 2] = ["last", "more of last"].map(random);
    let last = [&one[..], &other[..16]].concat().try_into().expect("48 bytes");
    let contents = Contents { last, root: random("root") };
    let kind = Kind::File { len: 1000, stored_len: 1048 + 1024, device: 7, inode: 123_456, contents };
    Entry { mode: 0o640, kind, ..folder(depth, name) }
}

pub(super) fn link(depth: usize, name: &[u8], target: &[u8]) -> Entry {
    Entry { mode: 0o777, kind: Kind::Link(target.to_vec()), ..folder(depth, name) }
}

/// The manifests so far.
pub(super) struct Manifests(Vec<Made>);

impl Manifests {
    fn accept(&mut self, name: &str, comment: &str, manifest: &Manifest) {
        let bytes = write_manifest(manifest);
        assert_eq!(read_manifest(&bytes).as_ref(), Ok(manifest), "{name}");
        let entries: Vec<String> =
            manifest.entries.iter().map(|entry| format!("\n    {}", entry_json(entry))).collect();
        let fields = [
            ("comment", string(comment)),
            ("expect", string("ok")),
            ("manifest", hex(&bytes)),
            ("tree", hex(&manifest.tree)),
            ("generation", decimal(manifest.generation)),
            ("written", decimal(manifest.written)),
            ("previous", hex(&manifest.previous)),
            ("rules", hex(&manifest.rules)),
            ("entries", format!("[{}\n  ]", entries.join(","))),
        ];
        self.0.push((name.to_string(), object(&fields)));
    }

    pub(super) fn refuse(&mut self, name: &str, comment: &str, broken: Broken, bytes: &[u8]) {
        assert_eq!(read_manifest(bytes), Err(broken), "{name}");
        let expect = format!("{broken:?}").to_lowercase();
        let fields = [("comment", string(comment)), ("expect", string(&expect)), ("manifest", hex(bytes))];
        self.0.push((name.to_string(), object(&fields)));
    }
}

fn entry_json(entry: &Entry) -> String {
    let kind = match &entry.kind {
        Kind::Folder => "folder",
        Kind::File { .. } => "file",
        Kind::Link(_) => "link",
    };
    let mut fields = vec![
        ("depth", entry.depth.to_string()),
        ("kind", string(kind)),
        ("name", hex(&entry.name)),
        ("mode", entry.mode.to_string()),
        ("seconds", decimal(entry.seconds)),
        ("nanoseconds", entry.nanoseconds.to_string()),
    ];
    match &entry.kind {
        Kind::Folder => {}
        Kind::Link(target) => fields.push(("target", hex(target))),
        Kind::File { len, stored_len, device, inode, contents } => {
            let numbers = [("len", len), ("stored_len", stored_len), ("device", device), ("inode", inode)];
            fields.extend(numbers.map(|(name, number)| (name, decimal(number))));
            fields.extend([("last", hex(&contents.last)), ("root", hex(&contents.root))]);
        }
    }
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
    format!("{{{}}}", fields.join(", "))
}

/// A number that may be too large for a number of JSON.
fn decimal(number: impl ToString) -> String {
    string(&number.to_string())
}
