//! AES: CTR of one run, of spans and of users, and ECB.

use super::{CANARY, KEY_LENS, small};
use crate::devices::{bytes, paint};
use phalanx_gpu::{AesLaunch, Device, Direction, Span, Variant};
use phalanx_kernels::aes::{Key, Level, ctr_xor};

/// The bytes on each side of the data. They must not change.
const MARGIN: usize = 64;

/// The data with canaries on both sides.
fn framed(data: &[u8]) -> Vec<u8> {
    [&[CANARY; MARGIN], data, &[CANARY; MARGIN][..]].concat()
}

fn want_ctr(key: &[u8], counter: &[u8; 16], data: &[u8]) -> Vec<u8> {
    // The reference is too slow for long data, so the CPU's kernels replace it there. Both pass the same tests.
    if data.len() <= 4096 {
        return phalanx_reference::ctr(key, counter, data);
    }
    let mut want = data.to_vec();
    ctr_xor(Level::detect(), &Key::new(key), counter, &mut want);
    want
}

pub fn run_ctr(device: &Device, launch: &AesLaunch, key: &[u8], counter: &[u8; 16], data: &[u8]) -> Vec<u8> {
    let mut stream = device.stream().unwrap();
    let keys = stream.round_keys(&[&bytes::<32>(9)[..key.len()], key], Direction::Encrypt).unwrap();
    let mut buffer = stream.buffer_of(&framed(data)).unwrap();
    stream.aes_ctr(launch, &keys, 1, counter, &mut buffer, MARGIN..MARGIN + data.len()).unwrap();
    let mut got = framed(data);
    stream.download(&buffer, 0, &mut got).unwrap();
    assert!(got[..MARGIN].iter().all(|b| *b == CANARY), "{launch:?} wrote before the data");
    assert!(got[MARGIN + data.len()..].iter().all(|b| *b == CANARY), "{launch:?} wrote behind the data");
    got[MARGIN..MARGIN + data.len()].to_vec()
}

pub fn ctr_lengths(device: &Device) {
    // Around one block, the 32 blocks of a bitsliced thread, a group with two blocks in each thread, and 1024 blocks.
    let edges = [0, 1, 2, 31, 32, 33, 63, 64, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 2049];
    for variant in Variant::ALL {
        for key_len in KEY_LENS {
            let (key, counter) = (bytes::<32>(1), bytes::<16>(2));
            for blocks in edges {
                for tail in [0, 1, 7, 15] {
                    if key_len == 32 || tail % 7 == 0 && blocks < 300 {
                        let plain = paint(blocks * 16 + tail);
                        let got = run_ctr(device, &small(variant), &key[..key_len], &counter, &plain);
                        let want = want_ctr(&key[..key_len], &counter, &plain);
                        assert!(got == want, "{variant}, AES-{}, {} bytes", key_len * 8, plain.len());
                    }
                }
            }
        }
    }
}

pub fn ctr_counters(device: &Device) {
    // Carries out of the last byte of a tile, a word and the whole counter, at several places in the data.
    let plain = paint(300 * 16 + 3);
    let key = bytes::<32>(3);
    for variant in Variant::ALL {
        for limit in [1u128 << 8, 1 << 16, 1 << 32, 5 << 32, 1 << 64, 1 << 96, 0] {
            for before in [0, 1, 2, 33, 255, 256, 257, 299] {
                let counter = limit.wrapping_sub(before).to_be_bytes();
                let got = run_ctr(device, &small(variant), &key, &counter, &plain);
                assert!(got == want_ctr(&key, &counter, &plain), "{variant}, {before} before {limit:x}");
            }
        }
    }
}

pub fn ctr_launches(device: &Device) {
    // All granularities and block sizes of the experiments.
    let plain = paint(40_000);
    let (key, counter) = (bytes::<32>(4), bytes::<16>(5));
    let want = want_ctr(&key, &counter, &plain);
    for variant in Variant::ALL {
        let granularities: &[u32] = if variant == Variant::Bitsliced { &[32] } else { &[1, 2, 16] };
        for threads in [64, 128, 256, 512, 1024] {
            for granularity in granularities {
                let launch = AesLaunch { variant, threads, granularity: *granularity };
                if threads <= device.max_threads(launch.kernel("aes_ctr")).unwrap() {
                    assert!(run_ctr(device, &launch, &key, &counter, &plain) == want, "{launch:?}");
                }
            }
        }
        let default = AesLaunch::new(variant);
        assert!(run_ctr(device, &default, &key, &counter, &plain) == want, "{default:?}");
    }
}

/// Spans of these lengths, one after another. Every third has the key of the one before it, and the others have their
/// own.
pub fn spans_of(lens: &[usize]) -> (Vec<Span>, Vec<Vec<u8>>, Vec<u8>) {
    let mut at = 16;
    let mut spans = Vec::new();
    for (i, len) in lens.iter().enumerate() {
        spans.push(Span { at, len: *len, key: (i - i % 3 / 2) as u32, counter: bytes(200 - i as u8) });
        at += len.next_multiple_of(16);
    }
    let keys = (0..lens.len().max(1)).map(|i| bytes::<32>(i as u8 * 2 + 1).to_vec()).collect();
    (spans, keys, paint(at + MARGIN))
}

pub fn want_spans(spans: &[Span], keys: &[Vec<u8>], key_len: usize, plain: &[u8]) -> Vec<u8> {
    let mut want = plain.to_vec();
    for span in spans {
        let range = span.at..span.at + span.len;
        let sealed = want_ctr(&keys[span.key as usize][..key_len], &span.counter, &plain[range.clone()]);
        want[range].copy_from_slice(&sealed);
    }
    want
}

fn check_spans(device: &Device, launch: &AesLaunch, key_len: usize, lens: &[usize]) {
    let (spans, keys, plain) = spans_of(lens);
    let last = spans.len().saturating_sub(1) as u32;
    let of_one_key: Vec<_> = spans.iter().map(|span| Span { key: last, ..span.clone() }).collect();
    for spans in [spans, of_one_key] {
        check_keys_and_spans(device, launch, key_len, &spans, &keys, &plain);
    }
}

/// Carries out of each word of the counter, in spans of one key and of many.
pub fn ctr_counters_of_spans(device: &Device) {
    let lens = [300 * 16 + 3, 33 * 16, 257 * 16 + 15, 1500 * 16, 40, 16];
    let (mut spans, keys, plain) = spans_of(&lens);
    for limit in [1u128 << 16, 1 << 32, 1 << 64, 1 << 96, 0] {
        for (span, before) in spans.iter_mut().zip([1, 32, 255, 1024, 2, 1]) {
            span.counter = limit.wrapping_sub(before).to_be_bytes();
        }
        let of_one_key: Vec<_> = spans.iter().map(|span| Span { key: 1, ..span.clone() }).collect();
        for variant in Variant::ALL {
            for spans in [&spans, &of_one_key] {
                check_keys_and_spans(device, &small(variant), 32, spans, &keys, &plain);
            }
        }
    }
}

/// Spans within tiles, which begin at and between multiples of 1024 counters.
pub fn ctr_tiles(device: &Device) {
    let launch = small(Variant::Bitsliced);
    let lens = [4096 * 16, 3072 * 16, 3073 * 16 + 1, 4095 * 16, 4096 * 16 - 5];
    let (mut spans, keys, plain) = spans_of(&lens);
    for low in [0u16, 1, 31, 32, 1023, 1024, 0x77ff, 0xefff, 0xf000] {
        for span in &mut spans {
            span.counter[14..].copy_from_slice(&low.to_be_bytes());
        }
        check_keys_and_spans(device, &launch, [16, 24, 32][usize::from(low % 3)], &spans, &keys, &plain);
    }
    // The last of these reach beyond their tiles, so another kernel takes them.
    spans.iter_mut().for_each(|span| span.counter[14..].fill(0xff));
    check_keys_and_spans(device, &launch, 32, &spans, &keys, &plain);
}

fn check_keys_and_spans(
    device: &Device,
    launch: &AesLaunch,
    key_len: usize,
    spans: &[Span],
    keys: &[Vec<u8>],
    plain: &[u8],
) {
    let mut stream = device.stream().unwrap();
    let short: Vec<&[u8]> = keys.iter().map(|key| &key[..key_len]).collect();
    let round_keys = stream.round_keys(&short, Direction::Encrypt).unwrap();
    let uploaded = stream.spans(spans).unwrap();
    let mut data = stream.buffer_of(plain).unwrap();
    stream.aes_ctr_spans(launch, &round_keys, &uploaded, &mut data).unwrap();
    let mut got = vec![0; plain.len()];
    stream.download(&data, 0, &mut got).unwrap();
    assert!(got == want_spans(spans, keys, key_len, plain), "{launch:?}, AES-{}, {spans:?}", key_len * 8);
}

pub fn ctr_spans(device: &Device) {
    // P2's GCS: slices of 4 KiB.
    for variant in Variant::ALL {
        for key_len in KEY_LENS {
            let launch = AesLaunch { threads: 256, ..small(variant) };
            check_spans(device, &launch, key_len, &[4096; 9]);
        }
    }
}

pub fn ctr_spans_of_many_lengths(device: &Device) {
    for variant in Variant::ALL {
        let launch = small(variant);
        check_spans(device, &launch, 32, &[]);
        check_spans(device, &launch, 32, &[0]);
        check_spans(device, &launch, 32, &[1, 15, 16, 17, 0, 31 * 16, 32 * 16, 33 * 16 + 1]);
        check_spans(device, &launch, 16, &[4095, 4096, 4097, 1024 * 16, 1024 * 16 + 1, 70_001, 5]);
        check_spans(device, &launch, 24, &[16384 * 16, 16383 * 16 + 15, 3]);
    }
}

pub fn ctr_users(device: &Device) {
    // P2's GCNS: the device expands the keys of users with irregular lengths, some longer than a group takes at once.
    let lens = [35_000, 0, 1, 15, 16, 150_001, 4096, 16384 * 16 + 4097, 16384 * 16, 2 * 16384 * 16, 77];
    let (spans, keys, plain) = spans_of(&lens);
    for variant in Variant::ALL {
        for key_len in KEY_LENS {
            let mut stream = device.stream().unwrap();
            let short: Vec<&[u8]> = keys.iter().map(|key| &key[..key_len]).collect();
            let mut users = stream.users(&spans, &short).unwrap();
            let mut data = stream.buffer_of(&plain).unwrap();
            stream.aes_ctr_users(&small(variant), &mut users, &mut data).unwrap();
            let mut got = vec![0; plain.len()];
            stream.download(&data, 0, &mut got).unwrap();
            assert!(got == want_spans(&spans, &keys, key_len, &plain), "{variant}, AES-{}", key_len * 8);
        }
    }
}

pub fn run_ecb(device: &Device, launch: &AesLaunch, key: &[u8], direction: Direction, data: &[u8]) -> Vec<u8> {
    let mut stream = device.stream().unwrap();
    let keys = stream.round_keys(&[&bytes::<32>(8)[..key.len()], key], direction).unwrap();
    let mut buffer = stream.buffer_of(&framed(data)).unwrap();
    stream.aes_ecb(launch, &keys, 1, &mut buffer, MARGIN..MARGIN + data.len()).unwrap();
    let mut got = framed(data);
    stream.download(&buffer, 0, &mut got).unwrap();
    assert!(got[..MARGIN].iter().chain(&got[MARGIN + data.len()..]).all(|b| *b == CANARY), "{launch:?} wrote beside");
    got[MARGIN..MARGIN + data.len()].to_vec()
}

pub fn ecb(device: &Device) {
    for variant in Variant::ALL {
        for key_len in KEY_LENS {
            let key = &bytes::<32>(6)[..key_len];
            for blocks in [0, 1, 2, 31, 32, 33, 127, 128, 129, 1023, 1024, 1025] {
                if key_len == 32 || blocks < 200 {
                    let plain = paint(blocks * 16);
                    let cipher = run_ecb(device, &small(variant), key, Direction::Encrypt, &plain);
                    assert!(cipher == phalanx_reference::ecb_encrypt(key, &plain), "{variant}, {key_len}, {blocks}");
                    let back = run_ecb(device, &small(variant), key, Direction::Decrypt, &cipher);
                    assert!(back == plain, "{variant}, {key_len} bytes of key, {blocks} blocks: decryption");
                    if blocks < 200 {
                        let back = run_ecb(device, &small(variant), key, Direction::Decrypt, &plain);
                        assert!(back == phalanx_reference::ecb_decrypt(key, &plain), "{variant}, {key_len}, {blocks}");
                    }
                }
            }
        }
    }
}

/// P1's layout: zeros up to whole blocks, one block with their number, SHA3-256 of everything so far, and AES-ECB of
/// the whole.
pub fn p1_layout(device: &Device) {
    for len in [0, 1, 15, 16, 17, 123, 5610] {
        let mut plain = paint(len);
        let padding = 16 - len % 16;
        plain.resize(len + padding, 0);
        plain.extend([padding as u8; 16]);
        plain.extend(phalanx_reference::sha3_256(&plain.clone()));
        assert_eq!(plain.len(), len + padding + 48);
        let key = bytes::<16>(7);
        for variant in Variant::ALL {
            let cipher = run_ecb(device, &small(variant), &key, Direction::Encrypt, &plain);
            assert!(cipher == phalanx_reference::ecb_encrypt(&key, &plain), "{variant}, {len} bytes");
            let back = run_ecb(device, &small(variant), &key, Direction::Decrypt, &cipher);
            let (content, digest) = back.split_at(back.len() - 32);
            assert!(phalanx_reference::sha3_256(content) == digest && content[..len] == paint(len), "{variant}, {len}");
        }
    }
}
