//! Volumes that do not open.

use super::*;

pub(super) fn add(cases: &mut Vec<Case>) {
    keys(cases);
    forms(cases);
    roots(cases);
}

fn keys(cases: &mut Vec<Case>) {
    let mut case = Case::new("refused-wrong-key", "another key").refused("no-key");
    case.key = Some(random("another key"));
    cases.push(case);
    let ways = [password_slot(PASSWORD, CHEAP)];
    let mut case = Case::of("refused-wrong-password", "another password", 1, 12, &ways).refused("no-key");
    (case.key, case.password) = (None, Some(b"wrong".to_vec()));
    cases.push(case);
    let over = Cost { memory: (1 << 20) + 8, passes: 1, lanes: 1 };
    let ways = [raw(1, &password_body(over))];
    let mut case = Case::of("refused-kdf-limit", "a password slot above the limits", 1, 12, &ways).refused("kdf-limit");
    (case.key, case.password) = (None, Some(PASSWORD.to_vec()));
    cases.push(case);

    let mut case = Case::new("refused-tag", "a bit of the config's tag is wrong").refused("no-key");
    let bytes = case.writer.bytes(b"phalanx.volume");
    let end = bytes.len() - 48;
    bytes[end - 1] ^= 1;
    cases.push(case);
    for (name, comment, at, more) in [
        ("refused-features-unauthentic", "an unknown features bit is set, and the tag is not right", 59 + 18 + 7, 2),
        ("refused-version-unauthentic", "the volume's version is 2, and the tag is not right", 59 + 18 + 3, 1),
    ] {
        let mut case = Case::new(name, comment).refused("header");
        case.writer.bytes(b"phalanx.volume")[at] += more;
        cases.push(case);
    }
    let comment = "the key slot is wrapped under the label of files";
    let mut case = Case::new("refused-label-of-files", comment).refused("no-key");
    let file_key = random("config: file key");
    let slot = reference::write_slot(&key_slot(), &file_key)[3..].to_vec();
    *case.writer.bytes(b"phalanx.volume") = config(1, 12, vec![raw(2, &slot), v::volume_slot(1, 0)], b"");
    cases.push(case);
}

/// A config with any slots and plaintext.
fn config(suite: u8, chunk_log2: u8, slots: Vec<Slot>, plaintext: &[u8]) -> Vec<u8> {
    let recipe = Recipe { file_key: random("config: file key"), ..recipe("config", suite, chunk_log2, slots) };
    reference::seal_file(&recipe, plaintext)
}

fn forms(cases: &mut Vec<Case>) {
    let good = || v::volume_slot(1, 0);
    let mut add = |name: &str, comment: &str, expect: &'static str, config: Vec<u8>| {
        let mut case = Case::new(name, comment).refused(expect);
        *case.writer.bytes(b"phalanx.volume") = config;
        cases.push(case);
    };
    add("refused-suite-4", "a config of suite 4", "header", config(4, 12, vec![key_slot(), good()], b""));
    for bit in [1, 31] {
        let slots = vec![key_slot(), v::volume_slot(1, 1 << bit)];
        add(
            &format!("refused-features-bit-{bit}"),
            "an unknown bit of the features is set",
            "header",
            config(1, 12, slots, b""),
        );
    }
    for version in [0, 2] {
        let slots = vec![key_slot(), v::volume_slot(version, 0)];
        let name = format!("refused-version-{version}");
        add(&name, "another version of volumes", "header", config(1, 12, slots, b""));
    }
    for len in [0, 7, 9] {
        let slots = vec![key_slot(), raw(16, &[1, 0, 0, 0, 0, 0, 0, 0, 0][..len])];
        let name = format!("refused-slot-16-of-{len}");
        add(&name, "slot 16 has another length", "header", config(1, 12, slots, b""));
    }
    let slots = vec![key_slot(), good(), good()];
    add("refused-two-slots-16", "two slots of type 16", "header", config(1, 12, slots, b""));
    let slots = vec![key_slot(), good(), raw(3, &painted(100))];
    add("refused-age-slot", "an age slot besides a good key slot", "header", config(1, 12, slots, b""));
    for kind in [17, 127] {
        let slots = vec![key_slot(), good(), raw(kind, &[0; 16])];
        let comment = "a slot of a type that no config has, besides a good key slot";
        add(&format!("refused-slot-{kind}"), comment, "header", config(1, 12, slots, b""));
    }
    let comment = "a file with a slot for the key: it has no slot of type 16";
    add("refused-config-is-a-file", comment, "header", config(1, 12, vec![key_slot()], b""));
    add(
        "refused-plaintext",
        "a config with a byte of plaintext",
        "altered",
        config(1, 12, vec![key_slot(), good()], b"x"),
    );
    let mut flipped = config(1, 12, vec![key_slot(), good()], b"");
    *flipped.last_mut().unwrap() ^= 1;
    add("refused-chunk", "the tag of the config's chunk is wrong", "altered", flipped);
    let mut longer = config(1, 12, vec![key_slot(), good()], b"");
    longer.push(0);
    add("refused-longer", "a byte behind the config", "altered", longer);
    let mut cut = config(1, 12, vec![key_slot(), good()], b"");
    cut.truncate(cut.len() - 48);
    add("refused-no-chunk", "the config's chunk is missing", "altered", cut);
    add("refused-empty", "an empty config", "not-phalanx", Vec::new());

    let mut case = Case::new("refused-config-renamed", "the config has another name").refused("no-config");
    case.stored().rename(b"phalanx.volume", b"phalanx.volume.old");
    cases.push(case);
    let mut case = Case::new("refused-config-link", "the config is a symbolic link").refused("no-config");
    case.stored().rename(b"phalanx.volume", b"phalanx.other");
    case.writer.put(b"phalanx.volume", Kind::Link(b"phalanx.other".to_vec()));
    cases.push(case);
}

fn roots(cases: &mut Vec<Case>) {
    let mut case = Case::new("refused-root-none", "the root has no id").refused("root");
    case.stored().remove(b"phalanx.folder");
    cases.push(case);
    let mut case = Case::new("refused-root-of-another-volume", "the root's id is another volume's").refused("root");
    let other = Writer::new("another volume", 1, 12, &[key_slot()]);
    *case.writer.bytes(b"phalanx.folder") = other.stored.file(b"phalanx.folder").unwrap().to_vec();
    cases.push(case);
    for len in [0, 31, 33, 96] {
        let comment = "the root's phalanx.folder does not hold one or two records";
        let mut case = Case::new(&format!("refused-root-of-{len}"), comment).refused("root");
        let bytes = case.writer.bytes(b"phalanx.folder");
        *bytes = bytes.repeat(3)[..len].to_vec();
        cases.push(case);
    }
    for (name, comment, kind) in [
        ("link", "the journal is a symbolic link to a whole one", Kind::Link(b"phalanx.other".to_vec())),
        ("folder", "the journal is a folder", Kind::Folder),
        ("fifo", "the journal is a FIFO", Kind::Special(Special::Fifo)),
    ] {
        let mut case = Case::new(&format!("refused-journal-{name}"), comment).refused("journal");
        let root = case.root();
        let file = case.file(&root, b"f", &painted(100), &[]);
        let chunk = case.writer.chunk(&file, 0, true, &painted_from(1, 100));
        let record = case.writer.record(&file, What::Chunk { index: 0, chunk });
        let journal = case.writer.transactions(vec![vec![record]]).concat();
        case.writer.put(b"phalanx.other", Kind::File(journal));
        case.writer.put(b"phalanx.journal", kind);
        cases.push(case);
    }
    let mut case = Case::new("refused-root-is-a-folder", "the root has the id of a folder in it").refused("root");
    let root = case.root();
    let folder = case.folder(&root, b"folder");
    let record = case.writer.bytes(&v::join(&folder.path, b"phalanx.folder")).clone();
    *case.writer.bytes(b"phalanx.folder") = record;
    cases.push(case);
}
