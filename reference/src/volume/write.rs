//! Making a volume. All random values are derived from a label, so that the same calls make the same volume.

use super::backing::{read_backing, seal_backing, seal_backing_header};
use super::config::{Config, VolumeKeys, volume_slot};
use super::journal::{Record, Transaction, What, seal_transaction};
use super::names::{folder_record, full_is_needed, seal_link, seal_name, seal_xattr, stored_name};
use super::stored::{Entry, Kind, Special, Stored, Xattrs, join};
use super::versions::{State, Table, version};
use super::{BACKING_HEADER_LEN, Backing};
use crate::chunk::seal_chunk;
use crate::file::{Recipe, seal_file};
use crate::slot::Slot;
use crate::{array, sha3_256};

/// A volume under construction.
#[derive(Clone, Debug)]
pub struct Writer {
    /// The folder so far. Tests alter it.
    pub stored: Stored,
    /// The config.
    pub config: Config,
    /// The table of versions that is to be written, in a volume with rollback protection.
    pub table: Table,
    label: String,
    drawn: u64,
    inodes: u64,
}

/// A folder of the volume.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its stored path.
    pub path: Vec<u8>,
    /// Its folder id.
    pub id: [u8; 16],
}

/// An entry that was made.
#[derive(Clone, Debug)]
pub struct Made {
    /// Its stored path.
    pub path: Vec<u8>,
    /// Its inode number.
    pub inode: u64,
    /// The file key of a regular file.
    pub file_key: [u8; 32],
}

impl Writer {
    /// A volume without entries. `ways` are the slots of the config other than that of type 16.
    pub fn new(label: &str, suite: u8, chunk_log2: u8, ways: &[Slot]) -> Self {
        Self::with(label, suite, chunk_log2, ways, false)
    }

    /// The same, with rollback protection if `has_versions`. The table is not written yet.
    pub fn with(label: &str, suite: u8, chunk_log2: u8, ways: &[Slot], has_versions: bool) -> Self {
        let keys = VolumeKeys::new(&[0; 32]); // until the file key of the config is drawn
        let config = Config { suite, chunk_log2, has_versions, keys };
        let (stored, table) = (Stored::default(), Table::default());
        let mut writer = Self { stored, config, table, label: label.to_string(), drawn: 0, inodes: 1 };
        writer.put(b"", Kind::Folder);
        let file_key = writer.draw();
        writer.config.keys = VolumeKeys::new(&file_key);
        let slots = [ways, &[volume_slot(1, u32::from(has_versions))]].concat();
        let recipe = Recipe { file_key, suite, chunk_log2, slots, nonces: vec![writer.draw::<16>().to_vec()] };
        writer.put(b"phalanx.volume", Kind::File(seal_file(&recipe, b"")));
        let id = writer.draw();
        let record = folder_record(&writer.config.keys, &[0; 16], b"", &id);
        writer.put(b"phalanx.folder", Kind::File(record));
        writer
    }

    /// The root.
    ///
    /// # Panics
    /// If its id has been damaged.
    pub fn root(&self) -> Place {
        let records = self.stored.file(b"phalanx.folder").expect("a root with an id");
        let id = super::names::folder_id(&self.config.keys, &[0; 16], b"", records).expect("a root with an id");
        Place { path: Vec::new(), id }
    }

    /// The next pseudorandom bytes.
    pub fn draw<const N: usize>(&mut self) -> [u8; N] {
        self.drawn += 1;
        array(&sha3_256(format!("phalanx volume: {}: {}", self.label, self.drawn).as_bytes())[..N])
    }

    /// Stores an entry unchanged under a stored path, and returns its inode number.
    pub fn put(&mut self, path: &[u8], kind: Kind) -> u64 {
        let inode = self.inodes;
        self.inodes += 1;
        self.stored.entries.insert(path.to_vec(), Entry { kind, inode, xattrs: Xattrs::new() });
        inode
    }

    /// The content of a regular file.
    ///
    /// # Panics
    /// If there is none.
    pub fn bytes(&mut self, path: &[u8]) -> &mut Vec<u8> {
        match &mut self.stored.entries.get_mut(path).expect("an entry").kind {
            Kind::File(bytes) => bytes,
            _ => panic!("no regular file"),
        }
    }

    /// The stored name of a name in a folder. If it is a long one, the file with the whole name is made.
    pub fn name(&mut self, folder: &Place, name: &[u8]) -> Vec<u8> {
        let sealed = seal_name(&self.config.keys, &folder.id, name);
        let stored = stored_name(&sealed);
        if full_is_needed(&sealed) {
            self.put(&join(&folder.path, &[&stored[..], b".full"].concat()), Kind::File(sealed));
        }
        stored
    }

    /// Makes a folder.
    pub fn folder(&mut self, parent: &Place, name: &[u8]) -> Place {
        let stored = self.name(parent, name);
        let path = join(&parent.path, &stored);
        let id = self.draw();
        self.put(&path, Kind::Folder);
        let record = folder_record(&self.config.keys, &parent.id, &stored, &id);
        self.put(&join(&path, b"phalanx.folder"), Kind::File(record));
        Place { path, id }
    }

    /// Makes a regular file.
    pub fn file(&mut self, folder: &Place, name: &[u8], plaintext: &[u8], holes: &[(u64, u64)]) -> Made {
        let chunks = plaintext.len().div_ceil(1 << self.config.chunk_log2).max(1);
        let file_key = self.draw();
        let nonces: Vec<[u8; 16]> = (0..chunks).map(|_| self.draw()).collect();
        let mut bytes = seal_backing(&self.config, &file_key, holes, &[], &nonces, plaintext);
        if self.config.has_versions {
            let keys = crate::file_keys(&file_key, self.config.suite);
            bytes = with_state(&self.config, &file_key, holes, &bytes);
            self.table.entries.insert(super::file_id(&keys), version(&bytes));
        }
        self.raw_file(folder, name, file_key, bytes)
    }

    /// Stores the bytes of a file under a name.
    pub fn raw_file(&mut self, folder: &Place, name: &[u8], file_key: [u8; 32], bytes: Vec<u8>) -> Made {
        let stored = self.name(folder, name);
        let path = join(&folder.path, &stored);
        let inode = self.put(&path, Kind::File(bytes));
        Made { path, inode, file_key }
    }

    /// Writes a table with one batch, which has all entries.
    pub fn put_table(&mut self) {
        let entries: Vec<_> = self.table.entries.iter().map(|(id, version)| (*id, *version)).collect();
        let random = self.draw();
        let batch = Table::default().seal(&self.config.keys, &random, &entries, &[]);
        self.table = Table::read(&self.config.keys, &batch).expect("a whole batch");
        self.put(b"phalanx.versions", Kind::File(batch));
    }

    /// Appends a batch to the table.
    pub fn append(&mut self, set: &[([u8; 16], [u8; 16])], removed: &[[u8; 16]]) {
        let random = self.draw();
        let batch = self.table.seal(&self.config.keys, &random, set, removed);
        self.bytes(b"phalanx.versions").extend(batch);
        let keys = self.config.keys.clone();
        self.table = Table::read(&keys, self.bytes(b"phalanx.versions")).expect("whole batches");
    }

    /// Makes a symbolic link, and returns its stored path.
    pub fn link(&mut self, folder: &Place, name: &[u8], target: &[u8]) -> Vec<u8> {
        let stored = self.name(folder, name);
        let path = join(&folder.path, &stored);
        let points_to = seal_link(&self.config.keys, &folder.id, &stored, target);
        self.put(&path, Kind::Link(points_to));
        path
    }

    /// Makes an entry without data, and returns its stored path.
    pub fn special(&mut self, folder: &Place, name: &[u8], special: Special) -> Vec<u8> {
        let stored = self.name(folder, name);
        let path = join(&folder.path, &stored);
        self.put(&path, Kind::Special(special));
        path
    }

    /// Sets the extended attribute `user.n` of the entry at a stored path.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn xattr(&mut self, path: &[u8], owner: &[u8; 16], n: &[u8], value: &[u8]) {
        let (name, value) = seal_xattr(&self.config.keys, owner, n, value);
        self.stored.entries.get_mut(path).expect("an entry").xattrs.insert(name, value);
    }

    /// The header of a file that was made.
    ///
    /// # Panics
    /// If it has been damaged.
    pub fn backing(&self, file: &Made) -> Backing {
        read_backing(&self.config, self.stored.file(&file.path).expect("a file")).expect("a sound header")
    }

    /// A whole chunk of a file: nonce, tag and ciphertext.
    pub fn chunk(&mut self, file: &Made, index: u64, last: bool, plaintext: &[u8]) -> Vec<u8> {
        let keys = crate::file_keys(&file.file_key, self.config.suite);
        let nonce: [u8; 16] = self.draw();
        seal_chunk(&keys, self.config.chunk_log2, index, u8::from(last), &nonce, plaintext)
    }

    /// A new header of a file, with these holes.
    pub fn header(&self, file: &Made, holes: &[(u64, u64)]) -> Vec<u8> {
        let nonce = [[0; 16]];
        let sealed = seal_backing(&self.config, &file.file_key, holes, &[], &nonce, b"");
        sealed[..BACKING_HEADER_LEN].to_vec()
    }

    /// A header with any slots, of `len` bytes with padding.
    pub fn header_of(&self, file_key: &[u8; 32], slots: Vec<Slot>, len: usize) -> Vec<u8> {
        seal_backing_header(&self.config, file_key, slots, len)
    }

    /// A record about a file.
    pub fn record(&self, file: &Made, what: What) -> Record {
        let file_id = super::file_id(&crate::file_keys(&file.file_key, self.config.suite));
        Record { inode: file.inode, file_id, what }
    }

    /// The bytes of transactions of one epoch, each from its records.
    pub fn transactions(&mut self, records: Vec<Vec<Record>>) -> Vec<Vec<u8>> {
        let epoch = if self.config.has_versions { self.table.epoch() } else { self.draw() };
        let seal = |(sequence, records)| {
            let transaction = Transaction { epoch, sequence: sequence as u64, records };
            seal_transaction(&self.config.keys.journal, &transaction)
        };
        records.into_iter().enumerate().map(seal).collect()
    }
}

/// A file with the state of its chunks in its header, which has no such slot yet (§10.9).
///
/// # Panics
/// If the slots do not fit into the header.
pub fn with_state(config: &Config, file_key: &[u8; 32], holes: &[(u64, u64)], file: &[u8]) -> Vec<u8> {
    let keys = crate::file_keys(file_key, config.suite);
    let whole = 48 + (1 << config.chunk_log2);
    let chunks: Vec<&[u8]> = file[BACKING_HEADER_LEN..].chunks(whole).collect();
    let in_hole = |index: u64| holes.iter().any(|(first, count)| (*first..first + count).contains(&index));
    let slot = State::of(&keys, &chunks, in_hole).slot();
    let header = seal_backing(config, file_key, holes, &[slot], &[[0; 16]], b"");
    [&header[..BACKING_HEADER_LEN], &file[BACKING_HEADER_LEN..]].concat()
}
