//! `Layout` compared with the format's arithmetic (`docs/format.md`, section 2.3) in 128 bits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::Suite;
use phalanx_core::format::Layout;
use phalanx_fuzz::{Steer, made::shape};

fuzz_target!(|data: &[u8]| {
    let mut steer = Steer(data);
    let suite = steer.pick(Suite::ALL);
    let log2 = 12 + steer.below(13) as u8;
    let header_len = steer.below(65536) + steer.below(2);
    let len = number(&mut steer, header_len, suite, log2);

    if let Some(layout) = plaintext(header_len, suite, log2, len) {
        let again = Layout::for_file(header_len, suite, log2, layout.file_len());
        assert_eq!(again.expect("some plaintext has this length"), layout);
        places(&layout, header_len, suite, log2, &mut steer);
    }
    file(header_len, suite, log2, len);
});

/// Any number, often one near a boundary.
fn number(steer: &mut Steer, header_len: usize, suite: Suite, log2: u8) -> u64 {
    let (chunk, head) = (1u64 << log2, head(suite));
    let delta = (steer.byte() as i8) as u64;
    let count = steer.u64() >> steer.below(64);
    match steer.byte() % 8 {
        0 => count,
        1 => count.wrapping_mul(chunk).wrapping_add(delta),
        2 => count.wrapping_mul(chunk + head).wrapping_add(header_len as u64).wrapping_add(delta),
        3 => (1u64 << (count % 64)).wrapping_add(delta),
        // Near the largest number of chunks that a file of suite 4 may have.
        4 => (chunk << 32).wrapping_add(delta),
        5 => ((chunk + head) << 32).wrapping_add(header_len as u64).wrapping_add(delta),
        // Near the longest possible plaintext and file.
        6 => ((1u64 << 63) / (chunk + head) * chunk).wrapping_sub(header_len as u64).wrapping_add(delta),
        _ => (1u64 << 63).wrapping_sub(count % (2 * (chunk + 65536))).wrapping_add(delta),
    }
}

/// The length of a chunk's nonce and tag.
fn head(suite: Suite) -> u64 {
    shape(suite.id()).overhead() as u64
}

/// The most chunks that one file key may have (section 6).
fn max_chunks(suite: Suite) -> u128 {
    if suite == Suite::Aes256Gcm { 1 << 32 } else { u128::MAX }
}

/// The layout of a plaintext of `len` bytes.
fn plaintext(header_len: usize, suite: Suite, log2: u8, len: u64) -> Option<Layout> {
    let chunks = u128::from(len).div_ceil(1 << log2).max(1);
    let file_len = header_len as u128 + u128::from(len) + u128::from(head(suite)) * chunks;
    let layout = Layout::for_plaintext(header_len, suite, log2, len);
    assert_eq!(layout.is_some(), file_len <= i64::MAX as u128 && chunks <= max_chunks(suite));
    let layout = layout?;
    assert_eq!(u128::from(layout.chunks()), chunks);
    assert_eq!(u128::from(layout.file_len()), file_len);
    assert_eq!(layout.plaintext_len(), len);
    Some(layout)
}

/// Whether a file may have `len` bytes, and the length of its plaintext.
fn file(header_len: usize, suite: Suite, log2: u8, len: u64) {
    let head = i128::from(head(suite));
    let record = (1i128 << log2) + head;
    let body = i128::from(len) - header_len as i128;
    let chunks = (body + record - 1).div_euclid(record);
    let last = body - (chunks - 1) * record;
    let whole = body > 0 && (last > head || (last == head && chunks == 1));
    let lawful = whole && i64::try_from(len).is_ok() && chunks as u128 <= max_chunks(suite);
    let layout = Layout::for_file(header_len, suite, log2, len);
    assert_eq!(layout.is_ok(), lawful);
    if let Ok(layout) = layout {
        assert_eq!(layout.file_len(), len);
        assert_eq!(i128::from(layout.chunks()), chunks);
        assert_eq!(plaintext(header_len, suite, log2, layout.plaintext_len()), Some(layout));
    }
}

/// The places of the chunks: one after another, without a gap, to the end.
fn places(layout: &Layout, header_len: usize, suite: Suite, log2: u8, steer: &mut Steer) {
    let last = layout.chunks() - 1;
    let check = |index: u64| {
        assert_eq!(layout.is_last(index), index == last);
        assert_eq!(u128::from(layout.plaintext_offset(index)), u128::from(index) << log2);
        let (end, plaintext_end) = if index == last {
            (layout.file_len(), layout.plaintext_len())
        } else {
            (layout.file_offset(index + 1), layout.plaintext_offset(index + 1))
        };
        let len = layout.data_len(index) as u64;
        assert!(len <= 1 << log2 && (len == 1 << log2 || index == last) && (len > 0 || last == 0));
        assert_eq!(layout.plaintext_offset(index) + len, plaintext_end);
        assert_eq!(layout.file_offset(index) + head(suite) + len, end);
        len
    };
    assert_eq!(layout.file_offset(0), header_len as u64);
    check(0);
    check(last);
    check(steer.u64() % layout.chunks());
    if last < 64 {
        assert_eq!((0..=last).map(check).sum::<u64>(), layout.plaintext_len());
    }
}
