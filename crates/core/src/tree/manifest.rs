//! The manifest's plaintext, read strictly and written.

use super::contents::{Contents, LastChunk};
use crate::io::read_full;
use std::fmt;
use std::io::{self, Read, Write};

const MAGIC: &[u8; 8] = b"PHXTREE1";
/// The most bytes of the rules in the head.
const MAX_RULES: u32 = 1 << 20;
/// The most folders within each other, the root included.
pub const MAX_DEPTH: usize = 1 << 16;
/// The longest name, in bytes.
const MAX_NAME: usize = 4096;
/// The longest target of a link, in bytes.
const MAX_TARGET: usize = 65535;
const NANOSECONDS: u32 = 1_000_000_000;

const END: u8 = 0;
const FOLDER: u8 = 1;
const FILE: u8 = 2;
const LINK: u8 = 3;

/// The random id that a tree keeps through all its generations.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TreeId(pub [u8; 16]);

impl TreeId {
    /// Draws the id of a new tree.
    ///
    /// # Errors
    /// [`Error::Random`](crate::Error::Random) if the system's random generator failed.
    pub fn random() -> crate::Result<Self> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(crate::Error::Random)?;
        Ok(Self(id))
    }
}

/// In 32 hexadecimal digits.
impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TreeId({self})")
    }
}

/// The digest of a stored manifest: the root of the hash tree over the nonces and tags of its chunks. So it can be computed
/// without a key, and a change of the manifest's keys does not change it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

/// In 64 hexadecimal digits.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// A point in time, as file systems keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Seconds since 1970-01-01 00:00:00 UTC.
    pub seconds: i64,
    /// Nanoseconds after that, below 10^9.
    pub nanoseconds: u32,
}

/// What precedes the entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The tree's id.
    pub tree: TreeId,
    /// Grows with each manifest of the tree.
    pub generation: u64,
    /// When it was written, in seconds since 1970.
    pub written: i64,
    /// The digest of the manifest before it; zeros for the first.
    pub previous: Digest,
    /// Which entries of the source were left out: UTF-8, one rule a line. At most 1 MiB.
    pub rules: String,
}

/// An entry of a tree. The root comes first, without a name. The entries of a folder follow it, in the order of their names'
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in its folder: 1 to 4096 bytes without `/` and NUL, and not `.` or `..`.
    pub name: Vec<u8>,
    /// Its permissions: the lowest twelve bits of a mode.
    pub mode: u32,
    /// When it was modified.
    pub modified: Time,
    /// What it is.
    pub kind: Kind,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder. Its entries follow.
    Folder,
    /// A file. Its stored file has the same name and `.phx`.
    File(FileEntry),
    /// A symbolic link, and where it leads: 1 to 65535 bytes.
    Link(Vec<u8>),
}

/// A file in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// The plaintext's length in bytes.
    pub len: u64,
    /// The stored file's length in bytes, when the manifest was written. A change of its keys may change it.
    pub stored_len: u64,
    /// The device of the source file, to recognize it after a move; 0 if unknown.
    pub device: u64,
    /// A number of the source file on its device, by which its writer finds it again; 0 if unknown.
    pub inode: u64,
    /// What the stored file holds.
    pub contents: Contents,
}

/// Why a manifest cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// It breaks a rule of its format.
    #[error("malformed manifest: {0}")]
    Malformed(&'static str),
    /// It was written by a later version.
    #[error("the manifest has a version that this program does not know: a newer one may read it")]
    Version,
    /// Reading or opening failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads a manifest entry by entry, in bounded memory. Each rule of the format is checked before an entry is returned. Only
/// the end proves that no entry is missing.
#[derive(Debug)]
pub struct Manifest<R> {
    input: R,
    /// For each open folder, the name of its last entry so far.
    last_names: Vec<Vec<u8>>,
    entries: u64,
    /// Whether all of it has been read and was right.
    is_at_end: bool,
}

impl<R: Read> Manifest<R> {
    /// Reads the head.
    ///
    /// # Errors
    /// [`Invalid`] if it is no head of a manifest.
    pub fn open(mut input: R) -> Result<(Head, Self), Invalid> {
        let magic: [u8; 8] = array(&mut input)?;
        match (magic[..7] == MAGIC[..7], magic[7] == MAGIC[7]) {
            (true, true) => {}
            (true, false) => return Err(Invalid::Version),
            (false, _) => return Err(Invalid::Malformed("it does not begin like one")),
        }
        let tree = TreeId(array(&mut input)?);
        let generation = u64::from_le_bytes(array(&mut input)?);
        let written = i64::from_le_bytes(array(&mut input)?);
        let previous = Digest(array(&mut input)?);
        let len = u32::from_le_bytes(array(&mut input)?);
        if len > MAX_RULES {
            return Err(Invalid::Malformed("its rules are too long"));
        }
        let rules = bytes(&mut input, len as usize)?;
        let rules = String::from_utf8(rules).map_err(|_| Invalid::Malformed("its rules are not text"))?;
        let head = Head { tree, generation, written, previous, rules };
        Ok((head, Self { input, last_names: Vec::new(), entries: 0, is_at_end: false }))
    }

    /// The next entry; `None` where the current folder ends. Where the root ends, the manifest must end too.
    ///
    /// # Errors
    /// [`Invalid`] if a rule of the format is broken or reading failed.
    ///
    /// # Panics
    /// If it is called after the end: see [`Manifest::is_at_end`].
    #[expect(clippy::should_implement_trait, reason = "a folder's end is not the end of the entries")]
    pub fn next(&mut self) -> Result<Option<Entry>, Invalid> {
        assert!(!self.is_at_end(), "the manifest has ended");
        let [tag] = array(&mut self.input)?;
        if tag == END {
            self.last_names.pop().ok_or(Invalid::Malformed("it has no root"))?;
            if self.last_names.is_empty() {
                self.finish()?;
            }
            return Ok(None);
        }
        let entry = self.entry(tag)?;
        if matches!(entry.kind, Kind::Folder) {
            if self.last_names.len() == MAX_DEPTH {
                return Err(Invalid::Malformed("too many folders lie within each other"));
            }
            self.last_names.push(Vec::new());
        }
        self.entries += 1;
        Ok(Some(entry))
    }

    /// Whether all entries have been read, and the manifest was whole.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    fn entry(&mut self, tag: u8) -> Result<Entry, Invalid> {
        let input = &mut self.input;
        let len = usize::from(u16::from_le_bytes(array(input)?));
        if len > MAX_NAME {
            return Err(Invalid::Malformed("a name is too long"));
        }
        let name = bytes(input, len)?;
        match self.last_names.last_mut() {
            None if tag != FOLDER || !name.is_empty() => {
                return Err(Invalid::Malformed("its first entry is not the root"));
            }
            None => {}
            Some(last) => {
                check_name(&name)?;
                if *last >= name {
                    return Err(Invalid::Malformed("its names are not in order"));
                }
                last.clone_from(&name);
            }
        }
        let mode = u32::from_le_bytes(array(input)?);
        let seconds = i64::from_le_bytes(array(input)?);
        let nanoseconds = u32::from_le_bytes(array(input)?);
        let modified = Time { seconds, nanoseconds };
        check_metadata(mode, modified)?;
        let kind = match tag {
            FOLDER => Kind::Folder,
            FILE => Kind::File(file(input)?),
            LINK => {
                let len = usize::from(u16::from_le_bytes(array(input)?));
                let target = bytes(input, len)?;
                check_target(&target)?;
                Kind::Link(target)
            }
            _ => return Err(Invalid::Malformed("an entry is of an unknown kind")),
        };
        Ok(Entry { name, mode, modified, kind })
    }

    fn finish(&mut self) -> Result<(), Invalid> {
        if u64::from_le_bytes(array(&mut self.input)?) != self.entries {
            return Err(Invalid::Malformed("its number of entries is wrong"));
        }
        let mut more = [0];
        if read_full(&mut self.input, &mut more).map_err(io::Error::from)? > 0 {
            return Err(Invalid::Malformed("it goes on after its end"));
        }
        self.is_at_end = true;
        Ok(())
    }
}

fn file(input: &mut impl Read) -> Result<FileEntry, Invalid> {
    let len = u64::from_le_bytes(array(input)?);
    let stored_len = u64::from_le_bytes(array(input)?);
    let device = u64::from_le_bytes(array(input)?);
    let inode = u64::from_le_bytes(array(input)?);
    let contents = Contents { last: LastChunk(array(input)?), root: array(input)? };
    let file = FileEntry { len, stored_len, device, inode, contents };
    check_lengths(&file)?;
    Ok(file)
}

fn check_lengths(file: &FileEntry) -> Result<(), Invalid> {
    if file.len >= file.stored_len || i64::try_from(file.stored_len).is_err() {
        return Err(Invalid::Malformed("a file has an impossible length"));
    }
    Ok(())
}

fn check_metadata(mode: u32, modified: Time) -> Result<(), Invalid> {
    if mode > 0o7777 {
        return Err(Invalid::Malformed("a mode has more than permissions"));
    }
    if modified.nanoseconds >= NANOSECONDS {
        return Err(Invalid::Malformed("a time has more than a second of nanoseconds"));
    }
    Ok(())
}

fn check_target(target: &[u8]) -> Result<(), Invalid> {
    if target.is_empty() || target.len() > MAX_TARGET || target.contains(&0) {
        return Err(Invalid::Malformed("a link leads to no path"));
    }
    Ok(())
}

fn check_name(name: &[u8]) -> Result<(), Invalid> {
    if name.len() > MAX_NAME {
        return Err(Invalid::Malformed("a name is too long"));
    }
    let is_bad = name.is_empty() || name == b"." || name == b".." || name.iter().any(|byte| matches!(byte, 0 | b'/'));
    if is_bad { Err(Invalid::Malformed("a name is no file's name")) } else { Ok(()) }
}

fn array<const N: usize>(input: &mut impl Read) -> Result<[u8; N], Invalid> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes).map_err(cut)?;
    Ok(bytes)
}

/// `len` is at most 1 MiB.
fn bytes(input: &mut impl Read, len: usize) -> Result<Vec<u8>, Invalid> {
    let mut bytes = vec![0; len];
    input.read_exact(&mut bytes).map_err(cut)?;
    Ok(bytes)
}

fn cut(error: io::Error) -> Invalid {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Invalid::Malformed("it is cut short"),
        _ => Invalid::Io(error),
    }
}

/// Writes a manifest entry by entry.
#[derive(Debug)]
pub struct ManifestWriter<W> {
    output: W,
    entries: u64,
    depth: usize,
}

impl<W: Write> ManifestWriter<W> {
    /// Writes the head.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the rules are longer than 1 MiB, and errors of the output.
    pub fn new(mut output: W, head: &Head) -> io::Result<Self> {
        let rules_len = u32::try_from(head.rules.len()).ok().filter(|len| *len <= MAX_RULES);
        let rules_len = rules_len.ok_or_else(|| refused("the rules are longer than 1 MiB"))?;
        output.write_all(MAGIC)?;
        output.write_all(&head.tree.0)?;
        output.write_all(&head.generation.to_le_bytes())?;
        output.write_all(&head.written.to_le_bytes())?;
        output.write_all(&head.previous.0)?;
        output.write_all(&rules_len.to_le_bytes())?;
        output.write_all(head.rules.as_bytes())?;
        Ok(Self { output, entries: 0, depth: 0 })
    }

    /// Writes an entry. The caller keeps the order: the root first, a folder before its entries, names in ascending order of
    /// their bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the format does not allow such an entry there, and errors of the output.
    pub fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        self.check(entry).map_err(|e| refused(&e.to_string()))?;
        let tag = match &entry.kind {
            Kind::Folder => FOLDER,
            Kind::File(_) => FILE,
            Kind::Link(_) => LINK,
        };
        let output = &mut self.output;
        output.write_all(&[tag])?;
        output.write_all(&(entry.name.len() as u16).to_le_bytes())?;
        output.write_all(&entry.name)?;
        output.write_all(&entry.mode.to_le_bytes())?;
        output.write_all(&entry.modified.seconds.to_le_bytes())?;
        output.write_all(&entry.modified.nanoseconds.to_le_bytes())?;
        match &entry.kind {
            Kind::Folder => self.depth += 1,
            Kind::File(file) => {
                for number in [file.len, file.stored_len, file.device, file.inode] {
                    output.write_all(&number.to_le_bytes())?;
                }
                output.write_all(&file.contents.last.0)?;
                output.write_all(&file.contents.root)?;
            }
            Kind::Link(target) => {
                output.write_all(&(target.len() as u16).to_le_bytes())?;
                output.write_all(target)?;
            }
        }
        self.entries += 1;
        Ok(())
    }

    /// Whether a reader takes such an entry here. The order of names is the caller's.
    fn check(&self, entry: &Entry) -> Result<(), Invalid> {
        let is_folder = matches!(entry.kind, Kind::Folder);
        match (self.depth, self.entries) {
            (0, 0) if is_folder && entry.name.is_empty() => {}
            (0, _) => return Err(Invalid::Malformed("its first entry is not the root")),
            _ => check_name(&entry.name)?,
        }
        if is_folder && self.depth == MAX_DEPTH {
            return Err(Invalid::Malformed("too many folders lie within each other"));
        }
        check_metadata(entry.mode, entry.modified)?;
        match &entry.kind {
            Kind::Folder => Ok(()),
            Kind::File(file) => check_lengths(file),
            Kind::Link(target) => check_target(target),
        }
    }

    /// Ends the current folder. After the root it writes the end of the manifest.
    ///
    /// # Errors
    /// Errors of the output.
    ///
    /// # Panics
    /// If no folder is open.
    pub fn end_folder(&mut self) -> io::Result<()> {
        self.depth = self.depth.checked_sub(1).expect("a folder is open");
        self.output.write_all(&[END])?;
        if self.depth == 0 {
            self.output.write_all(&self.entries.to_le_bytes())?;
        }
        Ok(())
    }

    /// What has been written so far.
    pub fn output(&self) -> &W {
        &self.output
    }

    /// What has been written so far. It may be taken away: nothing is read from it.
    pub fn output_mut(&mut self) -> &mut W {
        &mut self.output
    }

    /// The output. The manifest is whole once the root has been ended.
    pub fn into_output(self) -> W {
        self.output
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let rules = "- *.tmp\n".into();
        Head { tree: TreeId([1; 16]), generation: 7, written: 1_700_000_000, previous: Digest([2; 32]), rules }
    }

    fn entry(name: &str, kind: Kind) -> Entry {
        let modified = Time { seconds: -5, nanoseconds: 999_999_999 };
        Entry { name: name.into(), mode: 0o640, modified, kind }
    }

    fn file_entry() -> Kind {
        let contents = Contents { last: LastChunk([3; 48]), root: [4; 32] };
        Kind::File(FileEntry { len: 0, stored_len: 1072, device: 8, inode: 9, contents })
    }

    /// A root with a folder, a file and a link.
    fn whole() -> Vec<u8> {
        let mut writer = ManifestWriter::new(Vec::new(), &head()).unwrap();
        writer.entry(&entry("", Kind::Folder)).unwrap();
        writer.entry(&entry("a", Kind::Folder)).unwrap();
        writer.entry(&entry("inner", file_entry())).unwrap();
        writer.end_folder().unwrap();
        writer.entry(&entry("b", Kind::Link(b"../a".to_vec()))).unwrap();
        writer.end_folder().unwrap();
        writer.into_output()
    }

    fn read(bytes: &[u8]) -> Result<Vec<Option<Entry>>, Invalid> {
        let (_, mut manifest) = Manifest::open(bytes)?;
        let mut all = Vec::new();
        while !manifest.is_at_end() {
            all.push(manifest.next()?);
        }
        Ok(all)
    }

    fn why(bytes: &[u8]) -> &'static str {
        match read(bytes) {
            Err(Invalid::Malformed(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = whole();
        assert_eq!(Manifest::open(&bytes[..]).unwrap().0, head());
        let expected = [
            Some(entry("", Kind::Folder)),
            Some(entry("a", Kind::Folder)),
            Some(entry("inner", file_entry())),
            None,
            Some(entry("b", Kind::Link(b"../a".to_vec()))),
            None,
        ];
        assert_eq!(read(&bytes).unwrap(), expected);
    }

    #[test]
    fn no_part_of_a_manifest_is_a_manifest() {
        let bytes = whole();
        for len in (0..bytes.len()).step_by(if cfg!(miri) { 29 } else { 1 }) {
            assert_eq!(why(&bytes[..len]), "it is cut short", "{len}");
        }
        assert_eq!(why(&[&bytes[..], &[0]].concat()), "it goes on after its end");
        let mut miscounted = bytes.clone();
        let count = miscounted.len() - 8;
        miscounted[count] += 1;
        assert_eq!(why(&miscounted), "its number of entries is wrong");
    }

    #[test]
    fn another_version_is_refused() {
        let mut bytes = whole();
        bytes[7] = b'2';
        assert!(matches!(read(&bytes), Err(Invalid::Version)));
        bytes[0] = b'p';
        assert_eq!(why(&bytes), "it does not begin like one");
    }

    /// What a writer that checks nothing would write.
    fn forged(names: &[&[u8]], kind: u8) -> Vec<u8> {
        let mut bytes = ManifestWriter::new(Vec::new(), &head()).unwrap().into_output();
        let mut raw = |kind: u8, name: &[u8]| {
            bytes.push(kind);
            bytes.extend((name.len() as u16).to_le_bytes());
            bytes.extend(name);
            bytes.extend([0; 16]);
        };
        raw(FOLDER, b"");
        names.iter().for_each(|name| raw(kind, name));
        bytes
    }

    #[test]
    fn names_that_would_lead_elsewhere_are_refused() {
        for name in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0"] {
            let why = why(&forged(&[name], FOLDER));
            assert!(why == "a name is no file's name", "{name:?}: {why}");
        }
        assert_eq!(why(&forged(&[&[b'x'; 4097]], FOLDER)), "a name is too long");
        assert_eq!(why(&forged(&[b"a"], 4)), "an entry is of an unknown kind");
    }

    #[test]
    fn names_in_another_order_or_twice_are_refused() {
        for names in [[&b"b"[..], b"a"], [b"a", b"a"]] {
            let mut bytes = forged(&names[..1], FOLDER);
            bytes.push(END);
            let second = forged(&names[1..], FOLDER);
            let start = forged(&[], FOLDER).len();
            bytes.extend(&second[start..]);
            assert_eq!(why(&bytes), "its names are not in order");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of names")]
    fn depth_is_bounded() {
        let names = vec![&b"x"[..]; MAX_DEPTH];
        assert_eq!(why(&forged(&names, FOLDER)), "too many folders lie within each other");
    }

    #[test]
    fn entries_without_a_root_are_refused() {
        let start = ManifestWriter::new(Vec::new(), &head()).unwrap().into_output();
        assert_eq!(why(&[&start[..], &[END]].concat()), "it has no root");
        assert_eq!(why(&[&start[..], &[FILE, 0, 0]].concat()), "its first entry is not the root");
    }
}
