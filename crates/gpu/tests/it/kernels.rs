//! Every kernel compared with the reference, at all sizes around its edges and in both directions: as plain C, through
//! OpenCL (PoCL runs the same kernels on the CPU) and through CUDA.

mod ciphers;

use crate::devices::paint;
use ciphers::*;
use phalanx_gpu::{AesLaunch, Buffer, Device, Direction, KeyDigest, Slice, Slices, Span, Stream, Variant};
use phalanx_kernels::keccak::{self, Kmac256};
use phalanx_vectors::primitives::{AesCtr, AesEcb, Sha3, TurboShake, tests};

macro_rules! on_all_devices {
    ($($test:ident)*) => {
        mod plain_c { $(#[test] fn $test() { crate::devices::plain_c().iter().for_each(super::$test); })* }
        mod opencl { $(#[test] fn $test() { crate::devices::opencl().iter().for_each(super::$test); })* }
        mod cuda { $(#[test] fn $test() { crate::devices::cuda().iter().for_each(super::$test); })* }
    };
}

on_all_devices! {
    ctr_lengths ctr_counters ctr_launches ctr_spans ctr_counters_of_spans ctr_spans_of_many_lengths ctr_tiles ctr_users ecb p1_layout official_vectors
    replaced sha3_slices turboshake_slices key_digests timing ranges
}

const KEY_LENS: [usize; 3] = [16, 24, 32];
/// Fills the room around the data, which must not change.
const CANARY: u8 = 0xc5;

/// A launch of few threads, so that short data take several groups.
fn small(variant: Variant) -> AesLaunch {
    let granularity = if variant == Variant::Bitsliced { 32 } else { 2 };
    AesLaunch { variant, threads: 64, granularity }
}

/// Keys, spans and users work in new memory and in the memory of earlier ones, which may be shorter or longer.
fn replaced(device: &Device) {
    let launch = small(Variant::Bitsliced);
    let mut stream = device.stream().unwrap();
    let label = stream.label("phalanx v1 key id").unwrap();
    let (mut round_keys, mut on_device, mut users, mut raw) = (None, None, None, None);
    for lens in [&[100, 0, 4097, 33, 5000][..], &[77], &[3, 9000, 16, 1, 5, 6, 7]] {
        let (spans, keys, plain) = spans_of(lens);
        for key_len in KEY_LENS {
            let short: Vec<&[u8]> = keys.iter().map(|key| &key[..key_len]).collect();
            let want = want_spans(&spans, &keys, key_len, &plain);
            let mut got = vec![0; plain.len()];
            let old = round_keys.take();
            let round_keys = round_keys.insert(stream.round_keys_again(&short, Direction::Encrypt, old).unwrap());
            let old = on_device.take();
            let on_device = on_device.insert(stream.spans_again(&spans, old).unwrap());
            let mut data = stream.buffer_of(&plain).unwrap();
            stream.aes_ctr_spans(&launch, round_keys, on_device, &mut data).unwrap();
            stream.download(&data, 0, &mut got).unwrap();
            assert!(got == want, "{lens:?}, {key_len}: spans");
            let old = users.take();
            let users = users.insert(stream.users_again(&spans, &short, old).unwrap());
            stream.upload(&mut data, 0, &plain).unwrap();
            stream.aes_ctr_users(&launch, users, &mut data).unwrap();
            stream.download(&data, 0, &mut got).unwrap();
            assert!(got == want, "{lens:?}, {key_len}: users");
            let old = raw.take();
            let raw = raw.insert(stream.raw_keys_again(&short, old).unwrap());
            let mut out = stream.buffer(short.len() * 16).unwrap();
            stream.key_digests(64, KeyDigest::Md5, &label, raw, &mut out).unwrap();
            let mut got = vec![0; short.len() * 16];
            stream.download(&out, 0, &mut got).unwrap();
            let want: Vec<u8> = short.iter().flat_map(<md5::Md5 as md5::Digest>::digest).collect();
            assert!(got == want, "{lens:?}, {key_len}: raw keys");
        }
    }
}

fn official_vectors(device: &Device) {
    for bits in [128, 192, 256] {
        for test in tests::<AesCtr>(&format!("aes-{bits}-ctr")) {
            for variant in Variant::ALL {
                let got = run_ctr(device, &small(variant), &test.key, &test.counter.array(), &test.plaintext);
                assert!(got == *test.ciphertext, "{} on {variant}", test.name);
            }
        }
        // The data of all tests are in one buffer.
        let tests = tests::<AesEcb>(&format!("aes-{bits}-ecb"));
        let keys: Vec<&[u8]> = tests.iter().map(|test| &test.key[..]).collect();
        let mut stream = device.stream().unwrap();
        for variant in Variant::ALL {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                let plain: Vec<u8> = tests.iter().flat_map(|test| test.plaintext.to_vec()).collect();
                let cipher: Vec<u8> = tests.iter().flat_map(|test| test.ciphertext.to_vec()).collect();
                let (from, to) = match direction {
                    Direction::Encrypt => (plain, cipher),
                    Direction::Decrypt => (cipher, plain),
                };
                let round_keys = stream.round_keys(&keys, direction).unwrap();
                let mut data = stream.buffer_of(&from).unwrap();
                let mut at = 0;
                for (i, test) in tests.iter().enumerate() {
                    let end = at + test.plaintext.len();
                    stream.aes_ecb(&small(variant), &round_keys, i as u32, &mut data, at..end).unwrap();
                    at = end;
                }
                let mut got = vec![0; at];
                stream.download(&data, 0, &mut got).unwrap();
                assert!(got == to, "AES-{bits}-ECB {direction:?} on {variant}");
            }
        }
    }
    let sha3 = tests::<Sha3>("sha3-256");
    let messages: Vec<&[u8]> = sha3.iter().map(|test| &test.message[..]).collect();
    let digests = run_slices(device, Stream::sha3_slices, 64, &messages);
    for (test, got) in sha3.iter().zip(digests.chunks(32)) {
        assert_eq!(got, &*test.digest, "{}, {} bytes", test.name, test.message.len());
    }
    // The kernel has only one domain.
    let turbo: Vec<_> = tests::<TurboShake>("turboshake256").into_iter().filter(|test| test.domain == 0x50).collect();
    assert!(!turbo.is_empty());
    let messages: Vec<_> = turbo.iter().map(TurboShake::message).collect();
    let messages: Vec<&[u8]> = messages.iter().map(|m| &m[..]).collect();
    let digests = run_slices(device, Stream::turboshake_slices, 64, &messages);
    for (test, got) in turbo.iter().zip(digests.chunks(32)) {
        assert_eq!(got, &test.output[..32], "{}", test.name);
    }
}

/// A method that makes digests of slices: [`Stream::sha3_slices`] or [`Stream::turboshake_slices`].
type DigestSlices = fn(&mut Stream, u32, &Slices, &Buffer, &mut Buffer) -> phalanx_gpu::Result<()>;

fn run_slices(device: &Device, digest: DigestSlices, threads: u32, messages: &[&[u8]]) -> Vec<u8> {
    let (mut data, mut slices) = (Vec::new(), Vec::new());
    for message in messages {
        slices.push(Slice { at: data.len(), len: message.len() });
        data.extend_from_slice(message);
        data.resize(data.len().next_multiple_of(16), CANARY);
    }
    let mut stream = device.stream().unwrap();
    let data = stream.buffer_of(&data).unwrap();
    let uploaded = stream.slices(&slices).unwrap();
    let mut digests = stream.buffer(slices.len() * 32 + 32).unwrap();
    digest(&mut stream, threads, &uploaded, &data, &mut digests).unwrap();
    let mut got = vec![0; slices.len() * 32 + 32];
    stream.download(&digests, 0, &mut got).unwrap();
    assert_eq!(got.split_off(slices.len() * 32), [0; 32], "wrote behind the digests");
    got
}

fn sha3_slices(device: &Device) {
    check_slices(device, Stream::sha3_slices, phalanx_reference::sha3_256);
}

fn turboshake_slices(device: &Device) {
    check_slices(device, Stream::turboshake_slices, |message| {
        // The CPU's kernels replace the reference: they are tested with the official vectors.
        let mut digest = [[0; 32]];
        keccak::turboshake256_many::<0x50>(keccak::Level::Portable, &[message], &mut digest);
        digest[0]
    });
}

fn check_slices(device: &Device, digest: DigestSlices, want: fn(&[u8]) -> [u8; 32]) {
    let text = paint(4096 + 300);
    let edges = [0, 1, 7, 8, 9, 15, 16, 17, 128, 135, 136, 137, 143, 271, 272, 273, 4079, 4080, 4081, 4095, 4096, 4097];
    for threads in [64, 128, 256] {
        // Every length up to two blocks in one launch, and every edge.
        let messages: Vec<&[u8]> = (0..300).chain(edges).map(|len| &text[len % 3..][..len]).collect();
        let got = run_slices(device, digest, threads, &messages);
        for (message, got) in messages.iter().zip(got.chunks(32)) {
            assert_eq!(got, want(message), "{} bytes", message.len());
        }
    }
    for count in [0, 1, 63, 64, 65, 200] {
        let messages = vec![&text[5..5 + 4096]; count];
        let got = run_slices(device, digest, 64, &messages);
        let want = want(&text[5..5 + 4096]);
        assert!(got.len() == count * 32 && got.chunks(32).all(|got| got == want), "{count} slices");
    }
}

fn key_digests(device: &Device) {
    use md5::Digest;
    let mut stream = device.stream().unwrap();
    let label = stream.label("phalanx v1 key id").unwrap();
    for key_len in [1, 15, 16, 24, 31, 32, 33, 55, 56, 125] {
        for count in [1, 2, 63, 64, 65, 130] {
            let keys: Vec<Vec<u8>> = (0..count).map(|i| paint(key_len + i).split_off(i)).collect();
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let raw = stream.raw_keys(&keys).unwrap();
            for digest in [KeyDigest::Kmac256, KeyDigest::Md5] {
                let len = digest.digest_len();
                let mut out = stream.buffer(count * len).unwrap();
                let done = stream.key_digests(64, digest, &label, &raw, &mut out);
                if digest == KeyDigest::Md5 && key_len > 55 {
                    assert!(done.unwrap_err().to_string().contains("at most 55 bytes"));
                    continue;
                }
                done.unwrap();
                let mut got = vec![0; count * len];
                stream.download(&out, 0, &mut got).unwrap();
                for (key, got) in keys.iter().zip(got.chunks(len)) {
                    let want = match digest {
                        KeyDigest::Kmac256 => Kmac256::new(key, b"phalanx v1 key id").tag(b"").to_vec(),
                        KeyDigest::Md5 => md5::Md5::digest(key).to_vec(),
                    };
                    assert_eq!(got, want, "{digest:?} of {key_len} bytes, {count} keys");
                }
            }
        }
    }
    assert_eq!(keccak::DIGEST, KeyDigest::Kmac256.digest_len());
}

fn timing(device: &Device) {
    let mut stream = device.stream().unwrap();
    let keys = stream.round_keys(&[&[1; 32]], Direction::Encrypt).unwrap();
    let mut data = stream.buffer(1 << 20).unwrap();
    let launch = AesLaunch::new(Variant::Bitsliced);
    let ((), time) = stream.timed(|s| s.aes_ctr(&launch, &keys, 0, &[0; 16], &mut data, 0..1 << 20)).unwrap();
    // No device encrypts a mebibyte within a tenth of a microsecond, or takes a minute for it.
    assert!(time.as_nanos() > 100 && time.as_secs() < 60, "{time:?}");
}

/// Work that does not fit is refused in one line, before anything starts.
fn ranges(device: &Device) {
    let mut stream = device.stream().unwrap();
    let keys = stream.round_keys(&[&[1; 32]], Direction::Encrypt).unwrap();
    let mut data = stream.buffer(100).unwrap();
    assert_eq!(data.len(), 112);
    let launch = AesLaunch::new(Variant::Bitsliced);
    let zero = [0; 16];
    let mut refused = Vec::new();
    let mut expect = |done: phalanx_gpu::Result<()>| refused.push(done.unwrap_err().to_string());
    expect(stream.upload(&mut data, 100, &[0; 13]));
    expect(stream.upload(&mut data, usize::MAX, &[0; 13]));
    expect(stream.download(&data, 0, &mut [0; 113]));
    expect(stream.aes_ctr(&launch, &keys, 0, &zero, &mut data, 0..113));
    expect(stream.aes_ctr(&launch, &keys, 0, &zero, &mut data, 8..32));
    expect(stream.aes_ctr(&launch, &keys, 1, &zero, &mut data, 0..16));
    expect(stream.aes_ecb(&launch, &keys, 0, &mut data, 0..17));
    expect(stream.aes_ctr(&AesLaunch { threads: 0, ..launch }, &keys, 0, &zero, &mut data, 0..16));
    expect(stream.aes_ctr(&AesLaunch { threads: 1 << 20, ..launch }, &keys, 0, &zero, &mut data, 0..16));
    expect(stream.aes_ctr(&AesLaunch { granularity: 1, ..launch }, &keys, 0, &zero, &mut data, 0..16));
    let wide = AesLaunch { granularity: 65, ..AesLaunch::new(Variant::Table1) };
    expect(stream.aes_ctr(&wide, &keys, 0, &zero, &mut data, 0..16));
    expect(stream.round_keys(&[&[1; 32], &[1; 16]], Direction::Encrypt).map(|_| ()));
    expect(stream.round_keys(&[], Direction::Encrypt).map(|_| ()));
    let span = Span { at: 0, len: 113, key: 0, counter: zero };
    let beyond = stream.spans(std::slice::from_ref(&span)).unwrap();
    expect(stream.aes_ctr_spans(&launch, &keys, &beyond, &mut data));
    let foreign = stream.spans(&[Span { len: 16, key: 1, ..span.clone() }]).unwrap();
    expect(stream.aes_ctr_spans(&launch, &keys, &foreign, &mut data));
    expect(stream.spans(&[Span { at: 8, ..span.clone() }]).map(|_| ()));
    expect(stream.spans(&[span.clone(), Span { at: 112, ..span.clone() }]).map(|_| ()));
    expect(stream.users(&[Span { key: 1, ..span }], &[&[1; 16]]).map(|_| ()));
    let slices = stream.slices(&[Slice { at: 0, len: 113 }]).unwrap();
    let mut digests = stream.buffer(32).unwrap();
    expect(stream.sha3_slices(64, &slices, &data, &mut digests));
    expect(stream.turboshake_slices(64, &slices, &data, &mut digests));
    let slices = stream.slices(&[Slice { at: 0, len: 100 }; 2]).unwrap();
    expect(stream.sha3_slices(64, &slices, &data, &mut digests));
    expect(stream.turboshake_slices(64, &slices, &data, &mut digests));
    expect(stream.buffer(usize::MAX / 2).map(|_| ()));
    expect(stream.buffer(usize::MAX).map(|_| ()));
    for text in refused {
        assert!(!text.is_empty() && !text.contains('\n'), "{text:?}");
    }
    // The device still works.
    stream.aes_ctr(&launch, &keys, 0, &zero, &mut data, 0..100).unwrap();
    stream.finish().unwrap();
}
