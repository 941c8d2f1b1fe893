//! Exhaustive checks of small files, in the place of proofs: every length up to three chunks, in every suite, with every length of
//! slices; cuts; and the arithmetic of layouts, compared with whole numbers that cannot overflow.

use crate::common::{AtHand, painted, sweep_by};
use phalanx_core::engine::{CpuEngine, Levels};
use phalanx_core::format::Layout;
use phalanx_core::{ChunkSize, Class, KdfLimit, NewFile, Opener, ProtectedFile, Recipient, Result, Roster, SecretKey};
use phalanx_core::{Sink, Source, Suite};
use phalanx_reference as reference;
use std::sync::Arc;

const KEY: [u8; 32] = [42; 32];
const FILE_KEY: [u8; 32] = [43; 32];

/// The lengths of chunks whose slices differ: 512, 1024, 2048 and 4096 bytes.
const CHUNK_LOG2S: [u8; 4] = [12, 13, 14, 15];

fn key() -> SecretKey {
    SecretKey::from_slice(&KEY).unwrap()
}

fn roster() -> Roster {
    Roster::new(&[Arc::new(CpuEngine::serial(Levels::detect()))])
}

/// A file with random nonces.
fn protected(roster: &Roster, suite: Suite, chunk_log2: u8, plain: &[u8]) -> Vec<u8> {
    let size = ChunkSize::new(1 << chunk_log2).unwrap();
    let new = NewFile::with_chunk_size(suite, size, &[Recipient::key(&key())]).unwrap();
    let mut stored = Vec::new();
    new.protect(roster, Source::stream(plain), Sink::Stream(Box::new(&mut stored)), &()).unwrap();
    stored
}

fn open(roster: &Roster, stored: &[u8]) -> (Result<u64>, Vec<u8>) {
    let mut released = Vec::new();
    let opener = Opener::new(AtHand { keys: vec![key()], password: None }, KdfLimit::default());
    let result = ProtectedFile::open(Source::stream(stored), &opener)
        .and_then(|protected| protected.unprotect(roster, Sink::Stream(Box::new(&mut released)), &()));
    (result, released)
}

/// The reference's file of this plaintext.
fn made(suite: Suite, chunk_log2: u8, plain: &[u8]) -> Vec<u8> {
    let nonce = |i: u8| vec![i + 1; suite.overhead() - suite.tag_len()];
    let recipe = reference::Recipe {
        file_key: FILE_KEY,
        suite: suite.id(),
        chunk_log2,
        slots: vec![reference::Slot::Key { key: KEY }],
        nonces: (0..3).map(nonce).collect(),
    };
    reference::seal_file(&recipe, plain)
}

/// The lengths of a plaintext that are tried: all up to three chunks of 4 KiB, and of longer chunks those next to the ends of
/// slices. Unless the sweep is exhaustive, those next to the ends of chunks, and some others.
fn lengths(chunk_log2: u8, step: usize) -> Vec<usize> {
    let chunk = 1 << chunk_log2;
    let slice = reference::slice_len(chunk_log2);
    let is_tried = |len: &usize| {
        let is_of_sweep = if chunk_log2 == 12 { len.is_multiple_of(step) } else { step == 1 && (len + 1) % slice < 3 };
        is_of_sweep || (len + 1) % chunk < 3
    };
    (0..=3 * chunk).filter(is_tried).collect()
}

/// Both ways between the core and the reference, which is slow: it opens one in seven of our files.
fn exchange(roster: &Roster, suite: Suite, chunk_log2: u8, plain: &[u8], what: &str) -> Vec<u8> {
    let (result, released) = open(roster, &made(suite, chunk_log2, plain));
    assert!(result.is_ok() && released == plain, "{what}: {result:?}");
    let ours = protected(roster, suite, chunk_log2, plain);
    if plain.len().is_multiple_of(7) {
        assert_eq!(reference::open_file(&ours, &[], &[KEY]).as_deref(), Ok(plain), "{what}");
    }
    let (result, released) = open(roster, &ours);
    assert!(result.is_ok() && released == plain, "{what}: {result:?}");
    ours
}

#[test]
fn every_length_is_that_of_the_reference_and_every_cut_at_an_end_is_found() {
    let step = sweep_by(1, 301);
    let roster = roster();
    let (mut files, mut cuts) = (0u64, 0u64);
    for chunk_log2 in CHUNK_LOG2S {
        let chunk = 1 << chunk_log2;
        for (len, &suite) in
            lengths(chunk_log2, step).into_iter().flat_map(|len| Suite::ALL.iter().map(move |s| (len, s)))
        {
            let plain = painted(len);
            let what = format!("{suite:?}, chunks of 2^{chunk_log2}, {len} bytes");
            let ours = exchange(&roster, suite, chunk_log2, &plain, &what);
            files += 2;
            // Cuts at and next to the end of the header, of each nonce, tag and ciphertext, and of the file.
            let header = ours.len() - len - suite.overhead() * len.div_ceil(chunk).max(1);
            let record = chunk + suite.overhead();
            let parts = [0, suite.overhead() - suite.tag_len(), suite.overhead()];
            let ends = (0..3).flat_map(|i| parts.map(|part| header + i * record + part));
            for end in ends.chain([ours.len()]).flat_map(|end| end - 1..=end + 1).filter(|end| *end < ours.len()) {
                let (result, released) = open(&roster, &ours[..end]);
                let error = result.expect_err(&what);
                assert_eq!(error.class(), Class::NotAuthentic, "{what}, cut to {end}: {error}");
                assert!(released.len().is_multiple_of(chunk) && plain.starts_with(&released), "{what}, cut to {end}");
                cuts += 1;
            }
        }
    }
    println!("{files} files, {cuts} cuts");
    assert!(files > 700 && cuts > 5000, "{files}, {cuts}");
}

/// What `docs/format.md` says about lengths, in numbers that cannot overflow.
struct Model {
    header: u128,
    chunk: u128,
    overhead: u128,
    most_chunks: u128,
}

impl Model {
    /// The chunks of a plaintext, and the length of its file. `None` if there may be no such file.
    fn file(&self, plain: u128) -> Option<(u128, u128)> {
        let chunks = plain.div_ceil(self.chunk).max(1);
        let len = self.header + plain + chunks * self.overhead;
        (chunks <= self.most_chunks && len < 1 << 63).then_some((chunks, len))
    }

    /// The plaintext of a file, by search: a longer plaintext has a longer file.
    fn plain(&self, file: u128) -> Option<u128> {
        let (mut low, mut high) = (0, file);
        while low < high {
            let middle = (low + high) / 2;
            let chunks = middle.div_ceil(self.chunk).max(1);
            if self.header + middle + chunks * self.overhead < file { low = middle + 1 } else { high = middle }
        }
        self.file(low).filter(|(_, len)| *len == file).map(|_| low)
    }
}

/// A layout is that of the model, whether this is the length of a plaintext or of a file.
fn agree(suite: Suite, chunk_log2: u8, header: usize, len: u64) {
    let model = Model {
        header: header as u128,
        chunk: 1 << chunk_log2,
        overhead: suite.overhead() as u128,
        most_chunks: if suite == Suite::Aes256Gcm { 1 << 32 } else { u128::MAX },
    };
    let what = format!("{suite:?}, 2^{chunk_log2}, a header of {header}, {len}");
    let found = Layout::for_plaintext(header, suite, chunk_log2, len);
    assert_eq!(found.map(|found| (found.chunks().into(), found.file_len().into())), model.file(len.into()), "{what}");
    let read = Layout::for_file(header, suite, chunk_log2, len).ok();
    assert_eq!(read.map(|read| read.plaintext_len().into()), model.plain(len.into()), "{what}");
    // The places of the first chunks and of the last ones.
    for layout in [found, read].into_iter().flatten() {
        let last = layout.chunks() - 1;
        for index in [0, 1, last / 2, last.saturating_sub(1), last].into_iter().filter(|index| *index <= last) {
            let record = model.chunk + model.overhead;
            assert_eq!(u128::from(layout.file_offset(index)), model.header + u128::from(index) * record, "{what}");
            assert_eq!(u128::from(layout.plaintext_offset(index)), u128::from(index) * model.chunk, "{what}");
            let rest = u128::from(layout.plaintext_len()) - u128::from(index) * model.chunk;
            assert_eq!(layout.data_len(index) as u128, rest.min(model.chunk), "{what}");
            assert_eq!(layout.is_last(index), index == last, "{what}");
        }
    }
}

#[test]
fn layouts_are_those_of_whole_numbers() {
    let mut count = 0u64;
    // Every length up to three chunks and more, with the shortest chunks.
    for &suite in Suite::ALL {
        for len in 0..3 * 4096 + 600 {
            agree(suite, 12, 60, len);
            count += 1;
        }
    }
    // The extremes, with every length of chunks: next to powers of two, to multiples of chunks and records, and to the greatest
    // number.
    for (&suite, chunk_log2) in Suite::ALL.iter().flat_map(|suite| (12..=24).map(move |log2| (suite, log2))) {
        let (chunk, record) = (1u64 << chunk_log2, (1u64 << chunk_log2) + suite.overhead() as u64);
        for header in [60, 4096, 65536] {
            let powers = (0..64).map(|bit| 1u64 << bit);
            let most = (1u64 << 63) / chunk;
            let chunks =
                [1, 2, 3, 1 << 20, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, most, (1u64 << 63) / record, 2 * most - 1];
            let multiples = chunks.into_iter().flat_map(|n| {
                let records = n.saturating_mul(record).saturating_add(header as u64);
                [n.saturating_mul(chunk), records, records.saturating_add(suite.overhead() as u64)]
            });
            for place in powers.chain(multiples).chain([u64::MAX, (1 << 63) - 1]) {
                for len in (0..=3).map(|n| place.saturating_sub(n)).chain((1..=3).map(|n| place.saturating_add(n))) {
                    agree(suite, chunk_log2, header, len);
                    count += 1;
                }
            }
        }
    }
    println!("{count} lengths");
    assert!(count > 180_000, "{count}");
}

/// For every length up to three chunks, a cut at any place leaves no length of a file, or that of a shorter plaintext, whose last
/// chunk is another one or shorter. What the tags say then, `tampering` checks at every place.
#[test]
fn every_cut_of_every_length_is_that_of_a_shorter_plaintext_or_none() {
    let step = sweep_by(1, 37);
    for suite in [Suite::Aes256CtrSha3, Suite::Aes256Gcm] {
        let of_file = |len| Layout::for_file(60, suite, 12, len).ok();
        for plain in (0..=3 * 4096).step_by(step) {
            let whole = Layout::for_plaintext(60, suite, 12, plain).unwrap();
            for cut in (0..whole.file_len()).step_by(step) {
                let Some(left) = of_file(cut) else { continue };
                assert!(left.plaintext_len() < plain && left.chunks() <= whole.chunks(), "{plain} cut to {cut}");
                assert_eq!(left.file_len(), cut);
                let last = left.chunks() - 1;
                assert!(left.is_last(last) != whole.is_last(last) || left.data_len(last) < whole.data_len(last));
            }
        }
    }
}
