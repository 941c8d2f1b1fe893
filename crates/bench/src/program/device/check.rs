//! Checks of all kernels, key sizes and variants, at all sizes around the edges, in both directions.

use md5::Digest;
use phalanx_gpu::{
    AesLaunch, Buffer, Device, Direction, KeyDigest, Module, Reason, Result, Slice, Span, Stream, Variant,
};
use phalanx_kernels::aes::{Key, Level, ctr_xor};
use phalanx_kernels::keccak::{self, Kmac256};

/// How much is checked.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub enum Extent {
    /// Only the self-tests of what the engine uses. This is for tools under which everything takes a hundred times as
    /// long.
    Least,
    Quick,
    Full,
}

pub fn all(device: &Device, extent: Extent) -> Result<()> {
    let quick = extent != Extent::Full;
    let of_engine = [Module::AesBitslice, Module::AesBitsliceKeys, Module::Sha3, Module::TurboShake];
    for module in Module::ALL.into_iter().filter(|module| extent != Extent::Least || of_engine.contains(module)) {
        match device.has_room_for(module) {
            true => device.test(module)?,
            false => eprintln!("{}: left out, it needs {} bytes of local memory", module.name(), module.table_bytes()),
        }
    }
    if extent == Extent::Least {
        return Ok(());
    }
    let mut stream = device.stream()?;
    let mut checks = 0;
    for variant in Variant::ALL.into_iter().filter(|variant| device.has_room_for(variant.module())) {
        for key_len in [16, 24, 32] {
            checks += ctr(&mut stream, variant, key_len, quick)?;
            checks += ecb(&mut stream, variant, key_len)?;
            checks += many_keys(&mut stream, variant, key_len)?;
        }
    }
    checks += hashes(&mut stream)?;
    eprintln!("{checks} checks passed");
    Ok(())
}

/// Bytes that repeat after 251, so that no two blocks, slices or threads have the same bytes.
fn paint(len: usize) -> Vec<u8> {
    (0..=250u8).cycle().take(len).collect()
}

/// Checks that these bytes are at the beginning of a buffer.
fn expect(stream: &mut Stream, data: &Buffer, want: &[u8], what: std::fmt::Arguments<'_>) -> Result<u64> {
    let mut got = vec![0; want.len()];
    stream.download(data, 0, &mut got)?;
    match got == want {
        true => Ok(1),
        false => Err(stream.device().info().error(Reason::SelfTest(format!("{what}: other bytes than the CPU's")))),
    }
}

fn on_cpu(key: &[u8], counter: &[u8; 16], data: &mut [u8]) {
    ctr_xor(Level::detect(), &Key::new(key), counter, data);
}

/// The granularities of a variant.
pub fn granularities(variant: Variant) -> &'static [u32] {
    if variant == Variant::Bitsliced { &[32] } else { &[1, 2, 16] }
}

/// The block sizes of the experiments that the device and the kernel support.
pub fn block_sizes(device: &Device, launch: &AesLaunch, entry: &'static str) -> Result<Vec<u32>> {
    let most = device.max_threads(launch.kernel(entry))?;
    Ok([64, 128, 256, 512, 1024].into_iter().filter(|threads| *threads <= most).collect())
}

fn ctr(stream: &mut Stream, variant: Variant, key_len: usize, quick: bool) -> Result<u64> {
    let key = &paint(32)[..key_len];
    let keys = stream.round_keys(&[key], Direction::Encrypt)?;
    let mut checks = 0;
    let edges = [0, 1, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 16383, 16384, 16385, 100_000];
    let edges = if quick { &edges[..11] } else { &edges[..] };
    for granularity in granularities(variant) {
        let launch = AesLaunch { granularity: *granularity, ..AesLaunch::new(variant) };
        for threads in block_sizes(stream.device(), &launch, "aes_ctr")? {
            let launch = AesLaunch { threads, ..launch };
            for blocks in edges {
                for (tail, counter) in [(0, 0u128), (1, u128::MAX - 200), (15, (1 << 64) - 77)] {
                    let counter = counter.to_be_bytes();
                    let len = blocks * 16 + tail;
                    let mut want = paint(len + 16);
                    let mut data = stream.buffer_of(&want)?;
                    on_cpu(key, &counter, &mut want[..len]);
                    stream.aes_ctr(&launch, &keys, 0, &counter, &mut data, 0..len)?;
                    let what = format_args!("{launch:?}, {key_len}-byte key, {len} bytes");
                    checks += expect(stream, &data, &want, what)?;
                }
            }
        }
    }
    Ok(checks)
}

/// Checks ECB against CTR: encrypted counter blocks are the keystream, which CTR produces from zeros.
fn ecb(stream: &mut Stream, variant: Variant, key_len: usize) -> Result<u64> {
    let key = &paint(32)[..key_len];
    let encrypt = stream.round_keys(&[key], Direction::Encrypt)?;
    let decrypt = stream.round_keys(&[key], Direction::Decrypt)?;
    let mut checks = 0;
    for granularity in granularities(variant) {
        let launch = AesLaunch { granularity: *granularity, ..AesLaunch::new(variant) };
        for blocks in [0, 1, 31, 32, 33, 511, 512, 513, 1023, 1024, 1025, 20_001u64] {
            let len = blocks as usize * 16;
            let plain: Vec<u8> = (0..u128::from(blocks)).flat_map(|i| (i << 5).to_be_bytes()).collect();
            let mut want = vec![0; len];
            for (block, counter) in want.as_chunks_mut::<16>().0.iter_mut().zip(plain.as_chunks::<16>().0) {
                on_cpu(key, counter, block);
            }
            let mut data = stream.buffer_of(&plain)?;
            stream.aes_ecb(&launch, &encrypt, 0, &mut data, 0..len)?;
            checks += expect(stream, &data, &want, format_args!("{launch:?}, ECB encryption, {len} bytes"))?;
            stream.aes_ecb(&launch, &decrypt, 0, &mut data, 0..len)?;
            checks += expect(stream, &data, &plain, format_args!("{launch:?}, ECB decryption, {len} bytes"))?;
        }
    }
    Ok(checks)
}

/// Checks spans and users, each with its own key: slices of 4 KiB, and lengths of all kinds.
fn many_keys(stream: &mut Stream, variant: Variant, key_len: usize) -> Result<u64> {
    let mut checks = 0;
    let odd = vec![0, 1, 15, 16, 17, 4095, 4096, 4097, 35_000, 150_001, 16384 * 16, 1];
    for lens in [vec![4096; 500], odd] {
        let (mut spans, mut at) = (Vec::new(), 0);
        for (i, len) in lens.iter().enumerate() {
            let counter = (u128::MAX - 100 * i as u128).to_be_bytes();
            spans.push(Span { at, len: *len, key: i as u32, counter });
            at += len.next_multiple_of(16);
        }
        let keys: Vec<Vec<u8>> = (0..lens.len()).map(|i| paint(i + 32).split_off(i)[..key_len].to_vec()).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let plain = paint(at);
        let mut want = plain.clone();
        for span in &spans {
            on_cpu(keys[span.key as usize], &span.counter, &mut want[span.at..span.at + span.len]);
        }
        let round_keys = stream.round_keys(&keys, Direction::Encrypt)?;
        let uploaded = stream.spans(&spans)?;
        let mut users = stream.users(&spans, &keys)?;
        let launch = AesLaunch { threads: 128, ..AesLaunch::new(variant) };
        let mut data = stream.buffer_of(&plain)?;
        stream.aes_ctr_spans(&launch, &round_keys, &uploaded, &mut data)?;
        checks += expect(stream, &data, &want, format_args!("{variant}, {} spans", lens.len()))?;
        stream.upload(&mut data, 0, &plain)?;
        stream.aes_ctr_users(&launch, &mut users, &mut data)?;
        checks += expect(stream, &data, &want, format_args!("{variant}, {} users", lens.len()))?;
    }
    Ok(checks)
}

fn hashes(stream: &mut Stream) -> Result<u64> {
    let text = paint(4096 + 300);
    let lens: Vec<usize> = (0..600).chain(4000..4200).collect();
    let (mut data, mut slices) = (Vec::new(), Vec::new());
    for len in &lens {
        slices.push(Slice { at: data.len(), len: *len });
        data.extend_from_slice(&text[..*len]);
        data.resize(data.len().next_multiple_of(16), 0xc5);
    }
    let inputs: Vec<&[u8]> = lens.iter().map(|len| &text[..*len]).collect();
    let mut want = vec![[0; 32]; lens.len()];
    let data = stream.buffer_of(&data)?;
    let uploaded = stream.slices(&slices)?;
    let mut digests = stream.buffer(32 * lens.len())?;
    let mut checks = 0;
    for scheme in ["TurboSHAKE256", "SHA3-256"] {
        match scheme {
            "SHA3-256" => keccak::sha3_256_many(keccak::Level::detect(), &inputs, &mut want),
            _ => keccak::turboshake256_many::<0x50>(keccak::Level::detect(), &inputs, &mut want),
        }
        for threads in [64, 128, 256] {
            match scheme {
                "SHA3-256" => stream.sha3_slices(threads, &uploaded, &data, &mut digests)?,
                _ => stream.turboshake_slices(threads, &uploaded, &data, &mut digests)?,
            }
            let what = format_args!("{scheme}, {threads} threads");
            checks += expect(stream, &digests, want.as_flattened(), what)?;
        }
    }

    let raw: Vec<Vec<u8>> = (0..500).map(|i| paint(i + 32).split_off(i)).collect();
    let raw: Vec<&[u8]> = raw.iter().map(|key| &key[..]).collect();
    let keys = stream.raw_keys(&raw)?;
    let label = stream.label("phalanx v1 chunk")?;
    let mut out = stream.buffer(32 * raw.len())?;
    let tags: Vec<u8> = raw.iter().flat_map(|key| Kmac256::new(key, b"phalanx v1 chunk").tag(b"")).collect();
    stream.key_digests(128, KeyDigest::Kmac256, &label, &keys, &mut out)?;
    checks += expect(stream, &out, &tags, format_args!("KMAC256 of keys"))?;
    let digests: Vec<u8> = raw.iter().flat_map(md5::Md5::digest).collect();
    stream.key_digests(128, KeyDigest::Md5, &label, &keys, &mut out)?;
    Ok(checks + expect(stream, &out, &digests, format_args!("MD5 of keys"))?)
}
