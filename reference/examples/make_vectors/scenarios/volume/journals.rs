//! Journals (section 10.7).

use super::*;

pub(super) fn add(cases: &mut Vec<Case>) {
    nothing(cases);
    replaced(cases);
    lengths(cases);
    written(cases);
    ends(cases);
    left_out(cases);
    in_holes(cases);
    found(cases);
    copies(cases);
}

/// A volume with a file `f` of these lengths of chunks.
fn with_file(name: &str, comment: &str, lens: &[usize]) -> (Case, File) {
    let mut case = Case::new(name, comment);
    let root = case.root();
    let file = case.file(&root, b"f", &painted(lens.iter().sum()), &[]);
    (case, file)
}

impl Case {
    /// A record with a chunk.
    fn chunk(&mut self, file: &File, index: u64, last: bool, content: &[u8]) -> Record {
        let chunk = self.writer.chunk(file, index, last, content);
        self.writer.record(file, What::Chunk { index, chunk })
    }

    /// A record with the length of a file whose plaintext has this length.
    fn length(&self, file: &File, plain: usize) -> Record {
        let len = 4096 + plain + 48 * plain.div_ceil(4096).max(1);
        self.writer.record(file, What::Length(len as u64))
    }

    /// Writes a chunk into its place.
    fn in_place(&mut self, file: &File, index: u64, last: bool, content: &[u8]) {
        let chunk = self.writer.chunk(file, index, last, content);
        let start = 4096 + 4144 * index as usize;
        let bytes = self.writer.bytes(&file.path);
        bytes.resize(bytes.len().max(start + chunk.len()), 0);
        bytes[start..start + chunk.len()].copy_from_slice(&chunk);
    }
}

/// Three transactions, each with another content of the only chunk of the file, which has 100 bytes.
fn three(name: &str, comment: &str) -> (Case, File, Vec<Vec<u8>>) {
    let (mut case, file) = with_file(name, comment, &[100]);
    let records = (1..=3).map(|i| vec![case.chunk(&file, 0, true, &painted_from(i, 100))]).collect();
    let transactions = case.writer.transactions(records);
    (case, file, transactions)
}

fn nothing(cases: &mut Vec<Case>) {
    for (name, comment, journal) in [
        ("journal-empty", "a journal of 0 bytes", vec![]),
        ("journal-zeros", "a journal of zeros", vec![0; 500]),
        ("journal-short", "a journal that ends within the first transaction's head", b"PHXJRNL1\x01\x02".to_vec()),
    ] {
        let (mut case, _) = with_file(name, comment, &[100]);
        case.journal(journal, 0);
        cases.push(case);
    }
}

fn replaced(cases: &mut Vec<Case>) {
    let (mut case, file) = with_file("journal-one", "one transaction with one chunk, the first of two", &[4096, 100]);
    let records = vec![vec![case.chunk(&file, 0, false, &painted_from(9, 4096))]];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 1);
    case.want_content(&file, &[painted_from(9, 4096), painted_from(4096, 100)].concat());
    cases.push(case);

    let (mut case, file, transactions) = three("journal-several", "the last transaction with a chunk counts");
    case.journal(transactions.concat(), 3);
    case.want_content(&file, &painted_from(3, 100));
    cases.push(case);

    let (mut case, file) =
        with_file("journal-one-transaction-twice", "of a transaction's records the last counts", &[100]);
    let records =
        vec![vec![case.chunk(&file, 0, true, &painted(100)), case.chunk(&file, 0, true, &painted_from(7, 100))]];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 1);
    case.want_content(&file, &painted_from(7, 100));
    cases.push(case);

    let (mut case, file) =
        with_file("journal-two-files", "a transaction for two files, one of them in a folder", &[100]);
    let root = case.root();
    let folder = case.folder(&root, b"folder");
    let other = case.file(&folder, b"g", &painted(200), &[]);
    let records = vec![vec![
        case.chunk(&other, 0, true, &painted_from(1, 200)),
        case.chunk(&file, 0, true, &painted_from(2, 100)),
    ]];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 1);
    case.want_content(&other, &painted_from(1, 200));
    case.want_content(&file, &painted_from(2, 100));
    cases.push(case);

    let (mut case, file) = with_file("journal-hole", "a header record makes the first chunk a hole", &[4096, 100]);
    let header = case.writer.header(&file, &[(0, 1)]);
    let journal = case.writer.transactions(vec![vec![case.writer.record(&file, What::Header(header))]]).concat();
    case.journal(journal, 1);
    case.want_content(&file, &[vec![0; 4096], painted_from(4096, 100)].concat());
    cases.push(case);
}

fn lengths(cases: &mut Vec<Case>) {
    let (mut case, file) =
        with_file("journal-grown", "a file grows by a chunk: the one that was the last is made anew", &[100]);
    let records = vec![vec![
        case.chunk(&file, 0, false, &painted_from(1, 4096)),
        case.chunk(&file, 1, true, &painted_from(2, 50)),
        case.length(&file, 4146),
    ]];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 1);
    case.want_content(&file, &[painted_from(1, 4096), painted_from(2, 50)].concat());
    cases.push(case);

    let (mut case, file) = with_file("journal-shrunk", "a file shrinks to no byte", &[4096, 100]);
    let records = vec![vec![case.length(&file, 0), case.chunk(&file, 0, true, b"")]];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 1);
    case.want_content(&file, b"");
    cases.push(case);

    let comment = "chunk 1 was written, then cut off, and then written to its place when the file had grown again";
    let (mut case, file) = with_file("journal-shrunk-grown", comment, &[4096, 100]);
    let records = vec![
        vec![case.chunk(&file, 1, true, &painted_from(1, 100))],
        vec![case.chunk(&file, 0, true, &painted_from(2, 10)), case.length(&file, 10)],
        vec![case.chunk(&file, 0, false, &painted_from(3, 4096)), case.length(&file, 4196)],
    ];
    case.in_place(&file, 1, true, &painted_from(4, 100));
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 3);
    case.want_content(&file, &[painted_from(3, 4096), painted_from(4, 100)].concat());
    cases.push(case);

    let comment = "a length record that ends behind a chunk lets its earlier record count";
    let (mut case, file) = with_file("journal-shrunk-behind", comment, &[4096, 100]);
    let records = vec![
        vec![case.chunk(&file, 0, false, &painted_from(1, 4096))],
        vec![case.chunk(&file, 1, true, &painted_from(2, 20)), case.length(&file, 4116)],
    ];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 2);
    case.want_content(&file, &[painted_from(1, 4096), painted_from(2, 20)].concat());
    cases.push(case);
}

fn written(cases: &mut Vec<Case>) {
    let (mut case, file) =
        with_file("journal-written", "chunk 0 lies in its place, and its earlier record does not count", &[100]);
    let record = case.writer.record(&file, What::Written { first: 0, count: 1 });
    let records = vec![vec![case.chunk(&file, 0, true, &painted_from(1, 100))], vec![record]];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 2);
    cases.push(case);

    let (mut case, file) =
        with_file("journal-written-then-chunk", "a chunk record after a written record counts", &[100]);
    let record = case.writer.record(&file, What::Written { first: 0, count: 1 });
    let records = vec![vec![record, case.chunk(&file, 0, true, &painted_from(1, 100))]];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 1);
    case.want_content(&file, &painted_from(1, 100));
    cases.push(case);

    let comment = "a written record whose end is above 2^64 is for all chunks from its first on";
    let (mut case, file) = with_file("journal-written-to-2-64", comment, &[4096, 100]);
    let record = case.writer.record(&file, What::Written { first: 1, count: u64::MAX });
    let records = vec![
        vec![case.chunk(&file, 0, false, &painted_from(1, 4096)), case.chunk(&file, 1, true, &painted_from(2, 100))],
        vec![record],
    ];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 2);
    case.want_content(&file, &[painted_from(1, 4096), painted_from(4096, 100)].concat());
    cases.push(case);

    let comment = "a written record for other chunks, as many as there can be, lets chunk 0 count";
    let (mut case, file) = with_file("journal-written-others", comment, &[4096, 100]);
    let record = case.writer.record(&file, What::Written { first: 1, count: u64::MAX - 1 });
    let records = vec![
        vec![case.chunk(&file, 0, false, &painted_from(1, 4096)), case.chunk(&file, 1, true, &painted_from(2, 100))],
        vec![record],
    ];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 2);
    case.want_content(&file, &[painted_from(1, 4096), painted_from(4096, 100)].concat());
    cases.push(case);
}

/// Makes a journal of the transactions of [`three`].
type Edit<'a> = &'a dyn Fn(&mut Case, &File, Vec<Vec<u8>>) -> Vec<u8>;

/// Journals of which only the first transaction counts.
fn ends(cases: &mut Vec<Case>) {
    let mut add = |name: &str, comment: &str, edit: Edit| {
        let (mut case, file, transactions) = three(name, comment);
        let journal = edit(&mut case, &file, transactions);
        case.journal(journal, 1);
        case.want_content(&file, &painted_from(1, 100));
        cases.push(case);
    };
    let but_two = |all: &[Vec<u8>], edit: &dyn Fn(&mut Vec<u8>)| {
        let mut second = all[1].clone();
        edit(&mut second);
        [&all[0][..], &second].concat()
    };
    add("journal-torn-data", "the last transaction's data lack a byte", &|_, _, all| {
        but_two(&all, &|second| second.truncate(second.len() - 1))
    });
    add("journal-torn-table", "the last transaction ends within its table", &|_, _, all| {
        but_two(&all, &|second| second.truncate(60))
    });
    add("journal-torn-head", "the last transaction ends within its head", &|_, _, all| {
        but_two(&all, &|second| second.truncate(39))
    });
    add(
        "journal-bad-mac",
        "a bit of the second transaction's mac is wrong, and the third is whole",
        &|_, _, mut all| {
            let mac = all[1].len() - 101;
            all[1][mac] ^= 1;
            all.concat()
        },
    );
    add(
        "journal-bad-table",
        "a bit of the second transaction's table is wrong, and the third is whole",
        &|_, _, mut all| {
            all[1][44] ^= 1;
            all.concat()
        },
    );
    add(
        "journal-bad-data",
        "a bit of the second transaction's data is wrong, and the third is whole",
        &|_, _, mut all| {
            let end = all[1].len() - 1;
            all[1][end] ^= 1;
            all.concat()
        },
    );
    add("journal-gap", "a byte lies between two transactions", &|_, _, all| [&all[0][..], &[0], &all[1]].concat());
    add("journal-sequence-skipped", "the second transaction is missing", &|_, _, all| [&all[0][..], &all[2]].concat());
    add("journal-sequence-repeated", "the first transaction comes twice", &|_, _, all| {
        [&all[0][..], &all[0], &all[1]].concat()
    });
    add("journal-other-epoch", "behind the first transaction lies the second of an older epoch", &|case, file, all| {
        let records = (4..6).map(|i| vec![case.chunk(file, 0, true, &painted_from(i, 100))]).collect();
        let other = case.writer.transactions(records);
        [&all[0][..], &other[1]].concat()
    });
    add("journal-other-volume", "the second transaction has the mac of another volume", &|case, file, all| {
        let record = case.chunk(file, 0, true, &painted_from(5, 100));
        let epoch = all[0][8..24].try_into().unwrap();
        let other = v::Transaction { epoch, sequence: 1, records: vec![record] };
        [&all[0][..], &v::seal_transaction(&random("another volume"), &other)].concat()
    });
    add(
        "journal-unknown-kind",
        "the second transaction ends with a record of kind 5, and its mac is right",
        &|case, _, all| {
            let (table_end, data) = (all[1].len() - 132, all[1].len() - 100);
            let mut covered = all[1][..table_end].to_vec();
            covered.extend(5u32.to_le_bytes());
            covered.extend([0; 32]); // as in a length record
            covered[32..36].copy_from_slice(&((table_end - 40 + 36) as u32).to_le_bytes());
            let key = case.writer.config.keys.journal;
            let mac = reference::kmac256(&key, &covered, 256, "phalanx v1 volume transaction");
            [&all[0][..], &covered, &mac, &all[1][data..]].concat()
        },
    );
    add(
        "journal-data-too-long",
        "the second transaction has a byte of data that no record has, and its mac is right",
        &|case, _, all| {
            let mut covered = all[1][..all[1].len() - 132].to_vec();
            covered[36] += 1;
            let key = case.writer.config.keys.journal;
            let mac = reference::kmac256(&key, &covered, 256, "phalanx v1 volume transaction");
            [&all[0][..], &covered, &mac, &all[1][all[1].len() - 100..], &[0]].concat()
        },
    );
    add("journal-chunk-of-another-file", "the second transaction has a chunk of another file", &|case, file, all| {
        let other = File { file_key: random("another file"), ..file.clone() };
        let What::Chunk { index, chunk } = case.chunk(&other, 0, true, &painted(100)).what else { panic!("a chunk") };
        let record = case.writer.record(file, What::Chunk { index, chunk });
        let epoch = all[0][8..24].try_into().unwrap();
        let transaction = v::Transaction { epoch, sequence: 1, records: vec![record] };
        [&all[0][..], &v::seal_transaction(&case.writer.config.keys.journal, &transaction)].concat()
    });

    // Each of these has a right mac.
    let sealed = |case: &Case, all: &[Vec<u8>], record: Record| {
        let epoch = all[0][8..24].try_into().unwrap();
        let second = v::Transaction { epoch, sequence: 1, records: vec![record] };
        [&all[0][..], &v::seal_transaction(&case.writer.config.keys.journal, &second), &all[2]].concat()
    };
    add("journal-header-altered", "the second transaction has a header record with a wrong tag", &|case, file, all| {
        let mut header = case.writer.header(file, &[]);
        header[4095] ^= 1;
        sealed(case, &all, case.writer.record(file, What::Header(header)))
    });
    add(
        "journal-header-of-another-file",
        "the second transaction has the header of another file",
        &|case, file, all| {
            let other = File { file_key: random("another file"), ..file.clone() };
            let header = case.writer.header(&other, &[]);
            sealed(case, &all, case.writer.record(file, What::Header(header)))
        },
    );
    add(
        "journal-header-altered-file-gone",
        "the second transaction has a header record with a wrong tag, of a file that is gone",
        &|case, file, all| {
            let gone = File { file_key: random("a file that is gone"), inode: 999_999, ..file.clone() };
            let mut header = case.writer.header(&gone, &[]);
            header[2000] ^= 1;
            sealed(case, &all, case.writer.record(&gone, What::Header(header)))
        },
    );
    for (name, len) in [("journal-length-in-the-header", 4095), ("journal-length-of-no-file", 4096 + 4144 + 48)] {
        add(name, "the second transaction has a length that no file has", &|case, file, all| {
            sealed(case, &all, case.writer.record(file, What::Length(len)))
        });
    }

    let (mut case, _, transactions) =
        three("journal-first-is-second", "the first transaction is missing: nothing counts");
    case.journal(transactions[1..].concat(), 0);
    cases.push(case);
    let (mut case, _, transactions) =
        three("journal-not-at-0", "a byte lies before the first transaction: nothing counts");
    case.journal([&[0][..], &transactions.concat()].concat(), 0);
    cases.push(case);
}

/// Chunks that count but are not authentic at their places.
fn left_out(cases: &mut Vec<Case>) {
    let (mut case, file) = with_file("journal-wrong-final", "chunk 0 of two is sealed as the last", &[4096, 100]);
    let records = vec![vec![
        case.chunk(&file, 0, true, &painted_from(1, 4096)),
        case.chunk(&file, 1, true, &painted_from(2, 100)),
    ]];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 1);
    case.left_out(&file, 0);
    case.want_content(&file, &[painted(4096), painted_from(2, 100)].concat());
    cases.push(case);

    let (mut case, file) =
        with_file("journal-wrong-length", "the last chunk is shorter than the file's length says", &[100]);
    let records = vec![vec![case.chunk(&file, 0, true, &painted_from(1, 99))]];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 1);
    case.left_out(&file, 0);
    cases.push(case);

    let (mut case, file) = with_file("journal-behind-the-end", "a chunk behind the end of the file", &[100]);
    let records = vec![vec![case.chunk(&file, 1, true, &painted_from(1, 100))]];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 1);
    case.left_out(&file, 1);
    cases.push(case);

    let comment = "a chunk farther behind the end than a file can be long";
    let (mut case, file) = with_file("journal-far-behind-the-end", comment, &[100]);
    let records = vec![vec![case.chunk(&file, u64::MAX, false, &painted_from(1, 4096))]];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 1);
    case.left_out(&file, u64::MAX);
    cases.push(case);
}

/// Chunks that lie in holes: they do not count, and nothing is reported.
fn in_holes(cases: &mut Vec<Case>) {
    let content = [vec![0; 4096], painted(100)].concat();
    let sparse = |name: &str, comment: &str| {
        let mut case = Case::new(name, comment);
        let root = case.root();
        let file = case.file(&root, b"f", &content, &[(0, 1)]);
        (case, file)
    };
    let (mut case, file) = sparse("journal-chunk-in-hole", "a chunk in a hole of the header in place does not count");
    let records = vec![vec![case.chunk(&file, 0, false, &painted_from(1, 4096))]];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 1);
    cases.push(case);

    let comment = "a chunk that was written, and then made a hole by a header record, does not count";
    let (mut case, file) = with_file("journal-chunk-then-hole", comment, &[4096, 100]);
    let header = case.writer.header(&file, &[(0, 1)]);
    let records = vec![
        vec![case.chunk(&file, 0, false, &painted_from(1, 4096))],
        vec![case.writer.record(&file, What::Header(header))],
    ];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 2);
    case.want_content(&file, &[vec![0; 4096], painted_from(4096, 100)].concat());
    cases.push(case);

    let comment = "a header record without the hole in place, and a chunk before it, which counts";
    let (mut case, file) = sparse("journal-hole-filled", comment);
    let header = case.writer.header(&file, &[]);
    let records = vec![vec![
        case.chunk(&file, 0, false, &painted_from(1, 4096)),
        case.writer.record(&file, What::Header(header)),
    ]];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 1);
    case.want_content(&file, &[painted_from(1, 4096), painted(100)].concat());
    cases.push(case);
}

impl Case {
    fn left_out(&mut self, file: &File, index: u64) {
        let id = self.writer.backing(file).file_id;
        self.journal.as_mut().unwrap().1.push((id, index));
    }
}

/// How a reader finds the files.
fn found(cases: &mut Vec<Case>) {
    let (mut case, file) = with_file("journal-file-gone", "a file that the journal names is gone", &[100]);
    let gone = File { file_key: random("a file that is gone"), inode: 999_999, ..file.clone() };
    let records =
        vec![vec![case.chunk(&gone, 0, true, &painted(10)), case.chunk(&file, 0, true, &painted_from(1, 100))]];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 1);
    case.want_content(&file, &painted_from(1, 100));
    cases.push(case);

    let comment = "the inode number is that of another file: the file is found by its id, and the other is left alone";
    let (mut case, file) = with_file("journal-hint-wrong", comment, &[100]);
    let root = case.root();
    let other = case.file(&root, b"other", &painted(50), &[]);
    let mut record = case.chunk(&file, 0, true, &painted_from(1, 100));
    record.inode = other.inode;
    let journal = case.writer.transactions(vec![vec![record]]).concat();
    case.journal(journal, 1);
    case.want_content(&file, &painted_from(1, 100));
    cases.push(case);

    let comment = "the file was renamed, and another has its name";
    let (mut case, file) = with_file("journal-renamed", comment, &[100]);
    let root = case.root();
    let folder = case.folder(&root, b"folder");
    let name = case.writer.name(&folder, b"g");
    let to = v::join(&folder.path, &name);
    case.unlisted(&file.path);
    case.stored().rename(&file.path, &to);
    case.note(&folder.path, b"g", &to, Plain::File(Some(vec![Some(painted_from(1, 100))])));
    case.file(&root, b"f", &painted(30), &[]);
    let records = vec![vec![case.chunk(&file, 0, true, &painted_from(1, 100))]];
    let journal = case.writer.transactions(records).concat();
    case.journal(journal, 1);
    cases.push(case);

    let comment = "half of the new header is in place: the inode number and the header record lead to the file";
    let (mut case, file) = with_file("journal-header-torn", comment, &[4096, 100]);
    let header = case.writer.header(&file, &[(0, 1)]);
    case.writer.bytes(&file.path)[..100].copy_from_slice(&header[..100]);
    let journal = case.writer.transactions(vec![vec![case.writer.record(&file, What::Header(header))]]).concat();
    case.journal(journal, 1);
    case.want_content(&file, &[vec![0; 4096], painted_from(4096, 100)].concat());
    case.needs_inodes = true;
    cases.push(case);
}

/// Files that could be mistaken for the right one.
fn copies(cases: &mut Vec<Case>) {
    let torn =
        |case: &mut Case, path: &[u8], header: &[u8]| case.writer.bytes(path)[..100].copy_from_slice(&header[..100]);

    let comment = "of a file and its copy, the one is changed that the inode number leads to";
    let (mut case, file) = with_file("journal-copy", comment, &[100]);
    let bytes = case.writer.bytes(&file.path).clone();
    let root = case.root();
    for name in [&b"another copy"[..], b"copy"] {
        let copy = case.writer.raw_file(&root, name, file.file_key, bytes.clone());
        case.note(b"", name, &copy.path, Plain::File(Some(vec![Some(painted(100))])));
        if name == b"copy" {
            let records = vec![
                vec![case.chunk(&file, 0, true, &painted_from(1, 100))],
                vec![case.chunk(&copy, 0, true, &painted_from(2, 100))],
            ];
            let journal = case.writer.transactions(records).concat();
            case.journal(journal, 2);
            case.want_content(&copy, &painted_from(2, 100));
        }
    }
    case.needs_inodes = true;
    cases.push(case);

    let comment = "the header at the inode number is half written, and a copy is whole: the copy is changed";
    let (mut case, file) = with_file("journal-header-torn-and-copy", comment, &[4096, 100]);
    let bytes = case.writer.bytes(&file.path).clone();
    let root = case.root();
    let copy = case.writer.raw_file(&root, b"copy", file.file_key, bytes);
    let header = case.writer.header(&file, &[(0, 1)]);
    torn(&mut case, &file.path, &header);
    let journal = case.writer.transactions(vec![vec![case.writer.record(&file, What::Header(header))]]).concat();
    case.journal(journal, 1);
    case.want(&file.path, Plain::File(None));
    let content = [vec![0; 4096], painted_from(4096, 100)].concat();
    case.note(b"", b"copy", &copy.path, Plain::File(Some(vec![Some(content)])));
    case.needs_inodes = true;
    cases.push(case);

    for (name, comment, len) in [
        ("journal-header-zeros", "zeros in place of the header: no header of this file was being written there", 4096),
        ("journal-header-short", "a file at the inode number that is too short for a header", 4095),
    ] {
        let (mut case, file) = with_file(name, comment, &[100]);
        let header = case.writer.header(&file, &[]);
        let bytes = case.writer.bytes(&file.path);
        match len {
            4096 => bytes[..4096].fill(0),
            _ => bytes.truncate(len),
        }
        let journal = case.writer.transactions(vec![vec![case.writer.record(&file, What::Header(header))]]).concat();
        case.journal(journal, 1);
        case.want(&file.path, Plain::File(None));
        case.needs_inodes = true;
        cases.push(case);
    }

    let comment = "a half-written header at an inode number that was another file's before, which is gone";
    for (name, gone_key) in [("journal-header-torn-reused-1", "gone 1"), ("journal-header-torn-reused-2", "gone 2")] {
        let (mut case, file) = with_file(name, comment, &[4096, 100]);
        let gone = File { file_key: random(gone_key), ..file.clone() };
        let header = case.writer.header(&file, &[(0, 1)]);
        torn(&mut case, &file.path, &header);
        let records = vec![
            vec![case.writer.record(&gone, What::Header(case.writer.header(&gone, &[]))), case.length(&gone, 50)],
            vec![case.writer.record(&file, What::Header(header))],
        ];
        let journal = case.writer.transactions(records).concat();
        case.journal(journal, 2);
        case.want_content(&file, &[vec![0; 4096], painted_from(4096, 100)].concat());
        case.needs_inodes = true;
        cases.push(case);
    }
}
