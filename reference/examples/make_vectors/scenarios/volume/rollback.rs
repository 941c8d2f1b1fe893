//! Volumes with rollback protection (section 10.9).

use super::*;

pub(super) fn add(cases: &mut Vec<Case>) {
    files(cases);
    versions(cases);
    chunks(cases);
    states(cases);
    batches(cases);
    tables(cases);
    journals(cases);
}

impl Case {
    /// A volume with rollback protection. Its table is written by [`Writer::put_table`].
    fn protected(name: &str, comment: &str) -> Self {
        let ways = [key_slot()];
        Self { writer: Writer::with(name, 1, 12, &ways, true), ..Self::new(name, comment) }
    }

    fn id(&self, file: &File) -> [u8; 16] {
        self.writer.backing(file).file_id
    }

    /// The header of a file after its chunks have changed to these.
    fn next_header(&self, file: &File, holes: &[(u64, u64)], chunks: &[Vec<u8>]) -> Vec<u8> {
        let bytes = [&[0; 4096][..], &chunks.concat()].concat();
        v::with_state(&self.writer.config, &file.file_key, holes, &bytes)[..4096].to_vec()
    }
}

/// A protected volume with a file `f` of this length, and the table.
fn with_file(name: &str, comment: &str, len: usize) -> (Case, File) {
    let mut case = Case::protected(name, comment);
    let root = case.root();
    let file = case.file(&root, b"f", &painted(len), &[]);
    case.writer.put_table();
    (case, file)
}

/// 300 chunks, so that a group has four, most of which are holes.
fn sparse(case: &mut Case) -> (File, Vec<u8>) {
    let holes = [(2, 7), (10, 200), (211, 88)];
    let mut content = vec![0; 300 * 4096 - 1000];
    for chunk in (0..300).filter(|i| !holes.iter().any(|(first, count)| (*first..first + count).contains(i))) {
        let start = chunk as usize * 4096;
        let end = content.len().min(start + 4096);
        content[start..end].copy_from_slice(&painted_from(chunk as usize + 1, end - start));
    }
    let root = case.root();
    (case.file(&root, b"sparse", &content, &holes), content)
}

fn files(cases: &mut Vec<Case>) {
    let mut case =
        Case::protected("rollback-files", "files of several lengths, one of them with groups of several chunks");
    let root = case.root();
    for len in [0, 1, 4096, 3 * 4096 + 7] {
        case.file(&root, format!("{len}").as_bytes(), &painted(len), &[]);
    }
    case.file(&root, b"hole", &[vec![0; 8192], painted(10)].concat(), &[(0, 2)]);
    sparse(&mut case);
    case.writer.put_table();
    cases.push(case);
    let mut case = Case::protected("rollback-empty", "a table without entries");
    case.writer.put_table();
    cases.push(case);
}

fn versions(cases: &mut Vec<Case>) {
    for (name, comment, at) in [
        ("rollback-version-first", "the first byte of a file's version is another", 0),
        ("rollback-version-last", "the last byte of the tag in a file's version is another", 14),
    ] {
        let (mut case, file) = with_file(name, comment, 100);
        let id = case.id(&file);
        let mut version = case.writer.table.entries[&id];
        version[at] ^= 1;
        case.writer.append(&[(id, version)], &[]);
        case.want(&file.path, Plain::File(None));
        cases.push(case);
    }
    let (mut case, file) = with_file("rollback-flags", "all flags of a version are set", 100);
    let id = case.id(&file);
    let mut version = case.writer.table.entries[&id];
    version[15] = 0xff;
    case.writer.append(&[(id, version)], &[]);
    cases.push(case);
    let (mut case, file) = with_file("rollback-removed", "a file whose entry was removed", 100);
    let id = case.id(&file);
    case.writer.append(&[], &[id]);
    case.want(&file.path, Plain::File(None));
    cases.push(case);
    let (mut case, file) = with_file("rollback-set-again", "an entry is removed and set again", 100);
    let id = case.id(&file);
    let version = case.writer.table.entries[&id];
    case.writer.append(&[], &[id]);
    case.writer.append(&[(id, version)], &[]);
    cases.push(case);
}

fn chunks(cases: &mut Vec<Case>) {
    let (mut case, file) = with_file("rollback-chunk", "the second of three chunks is an older one", 10000);
    let chunk = case.writer.chunk(&file, 1, false, &painted(4096));
    case.writer.bytes(&file.path)[4096 + 4144..][..4144].copy_from_slice(&chunk);
    let content = painted(10000);
    let pieces = vec![Some(content[..4096].to_vec()), None, Some(content[8192..].to_vec())];
    case.want(&file.path, Plain::File(Some(pieces)));
    cases.push(case);

    let comment = "a chunk is an older one, and its group is damaged with it";
    let mut case = Case::protected("rollback-chunk-of-a-group", comment);
    let (file, content) = sparse(&mut case);
    case.writer.put_table();
    let chunk = case.writer.chunk(&file, 0, false, &painted(4096));
    case.writer.bytes(&file.path)[4096..][..4144].copy_from_slice(&chunk);
    // Chunks 0 to 3 are a group, of which 2 and 3 are a hole.
    let pieces = vec![None, None, Some(content[8192..].to_vec())];
    case.want(&file.path, Plain::File(Some(pieces)));
    cases.push(case);

    let (mut case, file) = with_file("rollback-last-chunk", "the last chunk is an older one", 10000);
    let chunk = case.writer.chunk(&file, 2, true, &painted(10000 - 8192));
    case.writer.bytes(&file.path)[4096 + 2 * 4144..].copy_from_slice(&chunk);
    case.want(&file.path, Plain::File(None));
    cases.push(case);

    let (mut case, file) = with_file("rollback-cut", "the file has the end that it had when it was shorter", 10000);
    let chunk = case.writer.chunk(&file, 1, true, &painted(50));
    let bytes = case.writer.bytes(&file.path);
    bytes.truncate(4096 + 4144);
    bytes.extend(chunk);
    case.want(&file.path, Plain::File(None));
    cases.push(case);
}

/// Headers whose state is not that of the file. The table has their versions.
fn states(cases: &mut Vec<Case>) {
    let mut add = |name: &str, comment: &str, with: &dyn Fn(v::State) -> Vec<Slot>| {
        let (mut case, file) = with_file(name, comment, 10000);
        let state = case.writer.backing(&file).state.unwrap();
        let files = case.writer.config.keys.files;
        let slots = [&[Slot::Key { key: files }][..], &with(state)].concat();
        let header = case.writer.header_of(&file.file_key, slots, 4096);
        let id = case.id(&file);
        case.writer.append(&[(id, v::version(&header))], &[]);
        case.writer.bytes(&file.path)[..4096].copy_from_slice(&header);
        case.want(&file.path, Plain::File(None));
        cases.push(case);
    };
    add("rollback-no-state", "a header without a slot of type 18", &|_| vec![]);
    add("rollback-two-states", "a header with two slots of type 18", &|state| vec![state.slot(), state.slot()]);
    add("rollback-groups-too-few", "a sum is missing", &|mut state| {
        state.sums.pop();
        vec![state.slot()]
    });
    add("rollback-groups-too-many", "there is one more sum", &|mut state| {
        state.sums.push([0; 16]);
        vec![state.slot()]
    });
    add("rollback-groups-too-large", "the groups are larger than necessary", &|mut state| {
        state.group_log2 = 1;
        state.sums.pop();
        vec![state.slot()]
    });
    add("rollback-state-empty", "a slot of type 18 without a body", &|_| vec![raw(18, &[])]);
    add("rollback-state-half", "a slot of type 18 with half a sum", &|state| {
        vec![raw(18, &[&[state.group_log2][..], &state.sums.concat()[..40]].concat())]
    });
    let mut case = Case::new("file-state-slot", "a slot of type 18 in a volume without rollback protection");
    let root = case.root();
    let file_key = case.writer.draw();
    let slot = raw(18, &[&[0][..], &[1; 16]].concat());
    let bytes = v::seal_backing(&case.writer.config, &file_key, &[], &[slot], &[[1; 16]], b"content");
    case.damaged_file(&root, b"f", bytes);
    cases.push(case);
    for count in [100, 101] {
        let mut case =
            Case::protected(&format!("rollback-holes-{count}"), "as many holes as the header may have, or one more");
        let root = case.root();
        let holes: Vec<(u64, u64)> = (0..count).map(|i| (2 * i, 1)).collect();
        let content = vec![0; 2 * count as usize * 4096 - 4000];
        let file = case.file(&root, b"f", &content, &holes);
        // Damaged chunks are short in a vector. Each is in a group of its own with a hole.
        let last = 4096 + 4144 * (2 * count as usize - 1);
        case.writer.bytes(&file.path)[4096..last].fill(0);
        let mut pieces: Vec<Option<Vec<u8>>> = (0..count).flat_map(|_| [Some(vec![0; 4096]), None]).collect();
        *pieces.last_mut().unwrap() = Some(vec![0; 96]);
        case.want(&file.path, Plain::File(Some(pieces)));
        if count > 100 {
            case.want(&file.path, Plain::File(None));
        }
        case.writer.put_table();
        cases.push(case);
    }
}

fn batches(cases: &mut Vec<Case>) {
    let (mut case, file) = with_file("rollback-torn-batch", "the last batch is torn, and counts as absent", 100);
    let id = case.id(&file);
    let whole = case.writer.bytes(b"phalanx.versions").len();
    case.writer.append(&[], &[id]);
    let bytes = case.writer.bytes(b"phalanx.versions");
    let len = bytes.len();
    assert!(len > whole);
    bytes.truncate(len - 1);
    cases.push(case);

    let (mut case, file) =
        with_file("rollback-last-batch-altered", "the last batch is not authentic, and counts as absent", 100);
    let id = case.id(&file);
    case.writer.append(&[], &[id]);
    *case.writer.bytes(b"phalanx.versions").last_mut().unwrap() ^= 1;
    cases.push(case);

    let (mut case, _) = with_file("rollback-zeros-behind", "zeros follow the last batch", 100);
    case.writer.bytes(b"phalanx.versions").extend([0; 500]);
    cases.push(case);

    let (mut case, file) =
        with_file("rollback-generation-skipped", "the last batch skips a generation, and counts as absent", 100);
    let id = case.id(&file);
    let random = case.writer.draw();
    let skipping = v::Table { generation: case.writer.table.generation + 1, ..case.writer.table.clone() };
    let batch = skipping.seal(&case.writer.config.keys, &random, &[], &[id]);
    case.writer.bytes(b"phalanx.versions").extend(batch);
    cases.push(case);

    let (mut case, file) =
        with_file("rollback-batch-not-next", "the last batch does not go on from the one before", 100);
    let id = case.id(&file);
    let random = case.writer.draw();
    let other = v::Table { mac: [1; 32], ..case.writer.table.clone() };
    let batch = other.seal(&case.writer.config.keys, &random, &[], &[id]);
    case.writer.bytes(b"phalanx.versions").extend(batch);
    cases.push(case);
}

fn tables(cases: &mut Vec<Case>) {
    let table = b"phalanx.versions";
    let mut add = |name: &str, comment: &str, change: &dyn Fn(&mut Case)| {
        let (mut case, file) = with_file(name, comment, 100);
        let id = case.id(&file);
        let version = case.writer.table.entries[&id];
        case.writer.append(&[(id, version)], &[]);
        change(&mut case);
        cases.push(case.refused("versions"));
    };
    add("refused-table-none", "there is no table", &|case| drop(case.stored().remove(table)));
    add("refused-table-empty", "the table is empty", &|case| case.writer.bytes(table).clear());
    add("refused-table-torn", "the only batch is torn", &|case| case.writer.bytes(table).truncate(90));
    add("refused-table-altered", "the first batch is not authentic", &|case| case.writer.bytes(table)[20] ^= 1);
    add("refused-table-altered-mac", "the MAC of the first batch is not right", &|case| {
        case.writer.bytes(table)[103] ^= 1;
    });
    add("refused-table-second-first", "the first batch is missing", &|case| {
        case.writer.bytes(table).drain(..104);
    });
    add("refused-table-of-another-volume", "the table is another volume's", &|case| {
        let other = Writer::with("another volume", 1, 12, &[key_slot()], true);
        let batch = v::Table::default().seal(&other.config.keys, &[0; 16], &[], &[]);
        *case.writer.bytes(table) = batch;
    });
    add("refused-table-link", "a link lies in the table's place", &|case| {
        case.writer.put(table, Kind::Link(b"elsewhere".to_vec()));
    });
    add("refused-table-folder", "a folder lies in the table's place", &|case| {
        case.writer.put(table, Kind::Folder);
    });
}

fn journals(cases: &mut Vec<Case>) {
    // The last chunk of a file with two changes.
    let changed = |case: &mut Case, file: &File| {
        let first = case.stored().file(&file.path).unwrap()[4096..][..4144].to_vec();
        let second = case.writer.chunk(file, 1, true, &painted_from(9, 200));
        let header = case.next_header(file, &[], &[first, second.clone()]);
        vec![
            case.writer.record(file, What::Header(header)),
            case.writer.record(file, What::Length(4096 + 4144 + 248)),
            case.writer.record(file, What::Chunk { index: 1, chunk: second }),
        ]
    };
    let content = [painted(4096), painted_from(9, 200)].concat();
    let (mut case, file) =
        with_file("rollback-journal", "a transaction of the table's epoch, with the file's new header", 5000);
    let records = changed(&mut case, &file);
    let journal = case.writer.transactions(vec![records]).concat();
    case.journal(journal, 1);
    case.want_content(&file, &content);
    cases.push(case);

    let comment = "a transaction of the epoch before, which does nothing";
    let (mut case, file) = with_file("rollback-journal-old", comment, 5000);
    let records = changed(&mut case, &file);
    let journal = case.writer.transactions(vec![records]).concat();
    case.writer.append(&[], &[]);
    case.journal(journal, 0);
    cases.push(case);

    let comment = "the files are as an old journal leaves them, and the table is not";
    let (mut case, file) = with_file("rollback-journal-old-applied", comment, 5000);
    let records = changed(&mut case, &file);
    if let (What::Header(header), What::Chunk { chunk, .. }) = (&records[0].what, &records[2].what) {
        let (header, chunk) = (header.clone(), chunk.clone());
        let bytes = case.writer.bytes(&file.path);
        bytes.truncate(4096 + 4144);
        bytes.extend(chunk);
        bytes[..4096].copy_from_slice(&header);
    }
    case.want(&file.path, Plain::File(None));
    cases.push(case);

    let mut case =
        Case::protected("rollback-journal-known", "a new file that the table does not have, and the journal does");
    case.writer.put_table();
    let root = case.root();
    let file = case.file(&root, b"f", &painted(100), &[]);
    let version = v::version(case.stored().file(&file.path).unwrap());
    let records = vec![case.writer.record(&file, What::Known(version))];
    let journal = case.writer.transactions(vec![records]).concat();
    case.journal(journal, 1);
    cases.push(case);

    let mut case = Case::protected("rollback-journal-unknown", "a new file that neither the table nor the journal has");
    case.writer.put_table();
    let root = case.root();
    let file = case.file(&root, b"f", &painted(100), &[]);
    case.want(&file.path, Plain::File(None));
    cases.push(case);

    let (mut case, file) = with_file("rollback-journal-gone-but-there", "a removal that has failed or was undone", 100);
    let records = vec![case.writer.record(&file, What::Gone)];
    let journal = case.writer.transactions(vec![records]).concat();
    case.needs_inodes = true;
    case.journal(journal, 1);
    cases.push(case);

    let (mut case, file) = with_file("rollback-journal-linked", "a file that gets one more name", 100);
    let records = vec![case.writer.record(&file, What::Linked)];
    let journal = case.writer.transactions(vec![records]).concat();
    case.journal(journal, 1);
    cases.push(case);

    for (name, what) in [("known", What::Known([1; 16])), ("gone", What::Gone), ("linked", What::Linked)] {
        let name = format!("journal-{name}-without-a-table");
        let mut case = Case::new(&name, "a kind of record that is for volumes with rollback protection");
        let root = case.root();
        let file = case.file(&root, b"f", &painted(100), &[]);
        let records = vec![case.writer.record(&file, what)];
        let journal = case.writer.transactions(vec![records]).concat();
        case.journal(journal, 0);
        cases.push(case);
    }
}
