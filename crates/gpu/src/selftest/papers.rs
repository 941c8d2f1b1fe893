//! The known answers of the kernels that only the papers' experiments use.

use super::{COUNTER, CTR, KEY, LONG, NEAR_WRAP, PLAIN, bytes, expect, paint, painted_ctr, small, spans};
use crate::cipher::{Direction, RoundKeys, Span, Variant};
use crate::device::Stream;
use crate::error::Result;
use crate::hash::KeyDigest;
use crate::kernel::Module;
use phalanx_kernels::keccak::Kmac256;

/// Section F.1.5, ECB-AES256.
const ECB: [u8; 64] = bytes(
    "f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870\
     b6ed21b99ca6f4f9f153e7b1beafed1d23304b7a39f9f3ff067d8d8f9e24ecc7",
);
/// MD5 of "abc" (RFC 1321, section A.5).
const MD5_ABC: [u8; 16] = bytes("900150983cd24fb0d6963f7d28e17f72");

pub fn run(stream: &mut Stream, module: Module) -> Result<()> {
    match module {
        Module::Kmac => return kmac(stream),
        Module::Md5 => return md5(stream),
        _ => {}
    }
    let variant = match Variant::ALL.into_iter().find(|variant| variant.module() == module) {
        Some(with_tables) => {
            spans(stream, with_tables)?;
            with_tables
        }
        None => Variant::Bitsliced,
    };
    ctr(stream, variant)?;
    ecb(stream, variant)
}

fn ctr(stream: &mut Stream, variant: Variant) -> Result<()> {
    let launch = small(variant);
    let (keys, mut got) = (stream.round_keys(&[&KEY], Direction::Encrypt)?, [0; 64]);
    let mut data = stream.buffer_of(&PLAIN)?;
    stream.aes_ctr(&launch, &keys, 0, &COUNTER, &mut data, 0..64)?;
    stream.download(&data, 0, &mut got)?;
    expect(stream, &got, &CTR, variant, "AES-256-CTR")?;

    let (plain, mut got) = (paint(LONG), vec![0; LONG]);
    for key_len in [16, 24, 32] {
        let key = &KEY[..key_len];
        let want = painted_ctr(key);
        let keys = stream.round_keys(&[key], Direction::Encrypt)?;
        let mut data = stream.buffer_of(&plain)?;
        stream.aes_ctr(&launch, &keys, 0, &NEAR_WRAP, &mut data, 0..LONG)?;
        stream.download(&data, 0, &mut got)?;
        expect(stream, &got, &want, variant, "aes_ctr")?;
        let mut users = stream.users(&[Span { at: 0, len: LONG, key: 0, counter: NEAR_WRAP }], &[key])?;
        let mut data = stream.buffer_of(&plain)?;
        stream.aes_ctr_users(&launch, &mut users, &mut data)?;
        stream.download(&data, 0, &mut got)?;
        expect(stream, &got, &want, variant, "aes_ctr_users")?;
    }
    Ok(())
}

fn ecb(stream: &mut Stream, variant: Variant) -> Result<()> {
    let encrypt = stream.round_keys(&[&KEY], Direction::Encrypt)?;
    let decrypt = stream.round_keys(&[&KEY], Direction::Decrypt)?;
    let mut data = stream.buffer_of(&PLAIN)?;
    let mut check = |keys: &RoundKeys, want: &[u8; 64], what: &str| {
        let mut got = [0; 64];
        stream.aes_ecb(&small(variant), keys, 0, &mut data, 0..64)?;
        stream.download(&data, 0, &mut got)?;
        expect(stream, &got, want, variant, what)
    };
    check(&encrypt, &ECB, "AES-256-ECB encryption")?;
    check(&decrypt, &PLAIN, "AES-256-ECB decryption")
}

fn kmac(stream: &mut Stream) -> Result<()> {
    const THREADS: u32 = 64;
    let (mut out, mut got) = (stream.buffer(64)?, [0; 64]);
    let (keys, label) = (stream.raw_keys(&[&KEY, &[7; 32]])?, stream.label("self-test")?);
    stream.key_digests(THREADS, KeyDigest::Kmac256, &label, &keys, &mut out)?;
    stream.download(&out, 0, &mut got)?;
    let tag = |key: &[u8]| Kmac256::new(key, b"self-test").tag(b"");
    expect(stream, &got, &[tag(&KEY), tag(&[7; 32])].concat(), "kmac", "KMAC256 of keys")
}

fn md5(stream: &mut Stream) -> Result<()> {
    let (mut out, mut got) = (stream.buffer(16)?, [0; 16]);
    let keys = stream.raw_keys(&[b"abc"])?;
    let label = stream.label("")?;
    stream.key_digests(64, KeyDigest::Md5, &label, &keys, &mut out)?;
    stream.download(&out, 0, &mut got)?;
    expect(stream, &got, &MD5_ABC, "md5", "MD5 of keys")
}
