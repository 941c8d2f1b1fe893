//! Prints the worked example of volumes in `docs/format-volumes.md` as Markdown: `cargo run -p phalanx-reference --example worked_volume`.
//! `vectors/volume/worked-example.json` is the same volume.

use phalanx_reference::volume::{
    self as v, Config, Entry, Kind, Plain, Record, Stored, Transaction, VolumeKeys, What, Xattrs,
};
use phalanx_reference::{self as reference, Recipe, Slot, TAG_LEN};
use std::fmt::Write;

fn main() {
    print!("{}", made().2);
}

/// The volume after its journal was written, its config, and the text of the section after its first paragraph.
pub fn made() -> (Stored, Config, String) {
    let mut out = Lines(String::new());
    let mut stored = Stored::default();
    put(&mut stored, b"", Kind::Folder);
    let config = config(&mut out, &mut stored);
    let root = folder(&mut out, &mut stored, &config);
    let name = name(&mut out, &config, &root);
    link(&mut out, &mut stored, &config, &root);
    let backing = file(&mut out, &mut stored, &config, &name);
    xattr(&mut out, &mut stored, &config, &name, &backing.file_id);
    journal(&mut out, &mut stored, &config, &backing);
    check(&stored);
    (stored, config, out.0)
}

fn config(out: &mut Lines, stored: &mut Stored) -> Config {
    let (key, file_key) = (count(0), count(0x20));
    let slots = vec![Slot::Key { key }, v::volume_slot(1, 0)];
    let recipe = Recipe { file_key, suite: 1, chunk_log2: 12, slots, nonces: vec![count::<16>(0x40).to_vec()] };
    let file = reference::seal_file(&recipe, b"");
    let kek = reference::kmac256(&key, b"", 256, "phalanx v1 volume wrap");
    assert_eq!(file[37..77], reference::wrap(&kek, &file_key));

    out.text("The config, `phalanx.volume`:\n\n```");
    out.line("key", &key);
    out.line("file_key", &file_key);
    out.line("kek", &kek);
    let fields = [
        ("magic, version", 8),
        ("header_len", 4),
        ("suite, chunk_log2", 2),
        ("flags, slot_count", 4),
        ("slot: type, body_len", 3),
        ("slot: key_id", 16),
        ("slot: wrapped", 40),
        ("slot: type, body_len", 3),
        ("slot: version, features", 8),
        ("tag", TAG_LEN),
        ("chunk 0: nonce", 16),
        ("chunk 0: tag", TAG_LEN),
    ];
    out.fields(0, &fields, &file);
    out.text("```\n\nThe keys:\n\n```");
    let keys = VolumeKeys::new(&file_key);
    out.line("volume_key", &keys.volume);
    out.line("K_files", &keys.files);
    for (name, key) in
        [("K_folders", keys.folders), ("K_names", keys.names), ("K_links", keys.links), ("K_xattrs", keys.xattrs)]
    {
        out.line(name, &key[..32]);
        out.line("", &key[32..]);
    }
    out.line("K_journal", &keys.journal);
    out.text("```\n");
    put(stored, b"phalanx.volume", Kind::File(file));
    Config { suite: 1, chunk_log2: 12, has_versions: false, keys }
}

fn folder(out: &mut Lines, stored: &mut Stored, config: &Config) -> [u8; 16] {
    let id = count(0x60);
    let record = v::folder_record(&config.keys, &[0; 16], b"", &id);
    out.text("The root's `phalanx.folder`, with one record:\n\n```");
    out.line("parent_id", &[0; 16]);
    out.line("folder_id", &id);
    out.line("record", &record);
    out.text("```\n");
    put(stored, b"phalanx.folder", Kind::File(record));
    id
}

fn name(out: &mut Lines, config: &Config, root: &[u8; 16]) -> Vec<u8> {
    let sealed = v::seal_name(&config.keys, root, b"hello.txt");
    let name = v::stored_name(&sealed);
    out.text("The name `hello.txt` in the root:\n\n```");
    out.line("sealed", &sealed);
    out.ascii("stored", &name);
    out.text("```\n");
    name
}

fn link(out: &mut Lines, stored: &mut Stored, config: &Config, root: &[u8; 16]) {
    let sealed = v::seal_name(&config.keys, root, b"link");
    let name = v::stored_name(&sealed);
    let points_to = v::seal_link(&config.keys, root, &name, b"hello.txt");
    out.text("A link with the name `link` in the root, to `hello.txt`:\n\n```");
    out.line("sealed", &sealed);
    out.ascii("stored", &name);
    out.line("SIV(K_links, …)", &v::unbase64url(&points_to).unwrap());
    out.ascii("is a link to", &points_to);
    out.text("```\n");
    put(stored, &name, Kind::Link(points_to));
}

/// The content of the file: two chunks of zeros, which are a hole, and a third.
fn content(end: &[u8]) -> Vec<u8> {
    [&[0; 8192], end].concat()
}

fn file(out: &mut Lines, stored: &mut Stored, config: &Config, name: &[u8]) -> v::Backing {
    let file_key = count(0x80);
    let nonces = [count(0), count(0), count(0xA0)];
    let file = v::seal_backing(config, &file_key, &[(0, 2)], &[], &nonces, &content(b"hello, world\n"));
    let keys = reference::file_keys(&file_key, 1);
    out.text(
        "The file `hello.txt`: 8192 zero bytes and then `hello, world` with a line feed. Chunks 0 and 1 are a hole.\n\n```",
    );
    out.line("file_key", &file_key);
    out.line("kek", &reference::key_kek(&config.keys.files));
    out.line("K_encrypt", &keys.encrypt);
    out.line("K_mac", &keys.mac);
    out.line("file_id", &v::file_id(&keys));
    let fields = [
        ("magic, version", 8),
        ("header_len", 4),
        ("suite, chunk_log2", 2),
        ("flags, slot_count", 4),
        ("slot: type, body_len", 3),
        ("slot: key_id", 16),
        ("slot: wrapped", 40),
        ("slot: type, body_len", 3),
        ("slot: first", 8),
        ("slot: count", 8),
        ("slot: type, body_len", 3),
    ];
    let at = out.fields(0, &fields, &file);
    let tag = v::BACKING_HEADER_LEN - TAG_LEN;
    assert!(file[at..tag].iter().all(|byte| *byte == 0));
    out.text(&format!("{at:5}  {:22} {} bytes of 0", "slot: padding", tag - at));
    let at = out.fields(tag, &[("tag", TAG_LEN)], &file);
    let chunk = at + 2 * (48 + 4096);
    out.text(&format!("{at:5}  {:22} {} bytes that mean nothing", "chunks 0 and 1", chunk - at));
    let at = out.fields(chunk, &[("chunk 2: nonce", 16), ("chunk 2: tag", 32), ("chunk 2: ciphertext", 13)], &file);
    assert_eq!(at, file.len());
    out.text("```\n");
    let backing = v::read_backing(config, &file).unwrap();
    put(stored, name, Kind::File(file));
    stored.entries.get_mut(name).unwrap().inode = INODE;
    backing
}

fn xattr(out: &mut Lines, stored: &mut Stored, config: &Config, path: &[u8], file_id: &[u8; 16]) {
    let (name, value) = v::seal_xattr(&config.keys, file_id, b"mime", b"text/plain");
    out.text("Its extended attribute `user.mime` with the value `text/plain`:\n\n```");
    out.ascii("name", &name);
    out.line("value", &value);
    out.text("```\n");
    stored.entries.get_mut(path).unwrap().xattrs.insert(name, value);
}

fn journal(out: &mut Lines, stored: &mut Stored, config: &Config, backing: &v::Backing) {
    let chunk = reference::seal_chunk(&backing.keys, 12, 2, 1, &count::<16>(0xB0), b"hello, moon!\n");
    let record = Record { inode: INODE, file_id: backing.file_id, what: What::Chunk { index: 2, chunk } };
    let transaction = Transaction { epoch: count(0xC0), sequence: 0, records: vec![record] };
    let journal = v::seal_transaction(&config.keys.journal, &transaction);
    out.text("A journal with one transaction, which makes chunk 2 `hello, moon!` with a line feed:\n\n```");
    let fields = [
        ("magic", 8),
        ("epoch", 16),
        ("sequence", 8),
        ("table_len, data_len", 8),
        ("record: kind", 4),
        ("record: inode", 8),
        ("record: file_id", 16),
        ("record: index", 8),
        ("record: length", 4),
        ("record: nonce", 16),
        ("record: tag", 32),
        ("mac", 32),
        ("ciphertext", 13),
    ];
    assert_eq!(out.fields(0, &fields, &journal), journal.len());
    out.text("```");
    put(stored, b"phalanx.journal", Kind::File(journal));
}

/// The file's inode number.
const INODE: u64 = 0x0102_0304;

fn put(stored: &mut Stored, path: &[u8], kind: Kind) {
    let inode = stored.entries.len() as u64 + 1;
    stored.entries.insert(path.to_vec(), Entry { kind, inode, xattrs: Xattrs::new() });
}

/// Checks that the volume opens.
fn check(stored: &Stored) {
    let opened = v::open_volume(stored, &[], &[count(0)]).unwrap();
    assert_eq!((opened.applied.transactions, opened.tree.len()), (1, 3));
    let Plain::File(Some(chunks)) = &opened.tree[1].plain else { panic!("a file") };
    let chunks: Vec<u8> = chunks.iter().flatten().flatten().copied().collect();
    assert_eq!(chunks, content(b"hello, moon!\n"));
    assert_eq!(opened.tree[1].xattrs, [(b"user.mime".to_vec(), Some(b"text/plain".to_vec()))]);
    assert_eq!(opened.tree[2].plain, Plain::Link(Some(b"hello.txt".to_vec())));
}

struct Lines(String);

impl Lines {
    fn text(&mut self, text: &str) {
        writeln!(self.0, "{text}").unwrap();
    }

    fn ascii(&mut self, name: &str, text: &[u8]) {
        writeln!(self.0, "{name:29} {}", std::str::from_utf8(text).unwrap()).unwrap();
    }

    fn line(&mut self, name: &str, bytes: &[u8]) {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(self.0, "{name:29} {hex}").unwrap();
    }

    /// A line for each field from an offset on. Returns the offset after the last.
    fn fields(&mut self, mut at: usize, fields: &[(&str, usize)], bytes: &[u8]) -> usize {
        for (name, len) in fields {
            self.line(&format!("{at:5}  {name}"), &bytes[at..at + len]);
            at += len;
        }
        at
    }
}

/// Bytes that count upwards.
fn count<const N: usize>(from: u8) -> [u8; N] {
    std::array::from_fn(|i| from + i as u8)
}
