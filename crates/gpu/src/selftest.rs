//! What a device must get right before it takes data: published answers, and a longer run against the CPU's kernels.

#[cfg(feature = "papers")]
use crate::cipher::RoundKeys;
use crate::cipher::{AesLaunch, Direction, Span, Variant};
use crate::device::{Device, Stream};
use crate::driver::{Api, DeviceInfo, Driver};
use crate::error::{Reason, Result};
#[cfg(feature = "papers")]
use crate::hash::{KeyDigest, Label, RawKeys};
use crate::hash::{Slice, TagInput};
use crate::kernel::Module;
use crate::{cuda, opencl};
use phalanx_kernels::aes::{self, ctr_xor};
use phalanx_kernels::keccak::{self, Kmac256};

impl Device {
    /// Opens a device of [`crate::devices`] and puts it to the self-test of its default kernels.
    pub fn open(info: &DeviceInfo) -> Result<Self> {
        match info.api {
            Api::Cuda => Self::with_driver(Box::new(cuda::Cuda::open(info)?)),
            Api::OpenCl => Self::with_driver(Box::new(opencl::OpenCl::open(info)?)),
            Api::Other => Err(info.error(Reason::Refused("there is no driver of this kind to open".into()))),
        }
    }

    /// Opens a device by a driver that the caller brought, with the same self-test.
    pub fn with_driver(driver: Box<dyn Driver>) -> Result<Self> {
        let device = Self::untested(driver, run);
        device.test(AesLaunch::default().variant.module())?;
        device.test(Module::Hash)?;
        Ok(device)
    }
}

fn run(stream: &mut Stream, module: Module) -> Result<()> {
    stream.device().ask(|driver, _| driver.load(module))?;
    match Variant::ALL.into_iter().find(|variant| variant.module() == module) {
        Some(variant) => cipher(stream, variant),
        #[cfg(feature = "papers")]
        None if module == Module::Md5 => md5(stream),
        None => hash(stream),
    }
}

/// The plaintext of SP 800-38A, appendix F.
const PLAIN: [u8; 64] = bytes(
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
     30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
);
/// The initial counter block of its section F.5.
const COUNTER: [u8; 16] = bytes("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
/// The key of its 256-bit examples.
const KEY: [u8; 32] = bytes("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4");
/// Section F.5.5, CTR-AES256.
const CTR: [u8; 64] = bytes(
    "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5\
     2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6",
);
/// Section F.1.5, ECB-AES256.
#[cfg(feature = "papers")]
const ECB: [u8; 64] = bytes(
    "f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870\
     b6ed21b99ca6f4f9f153e7b1beafed1d23304b7a39f9f3ff067d8d8f9e24ecc7",
);
/// SHA3-256 of the empty message (FIPS 202).
const SHA3_EMPTY: [u8; 32] = bytes("a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a");
/// TurboSHAKE256 of the empty message, D = 0x50, 32 bytes. The examples of RFC 9861 have other domains: computed with
/// PyCryptodome.
const TURBOSHAKE_EMPTY: [u8; 32] = bytes("1a0e70cf2bc8d439a38ed2095a3d8c702a8542aeac35e211aea7119ff130a703");
/// MD5 of "abc" (RFC 1321, section A.5).
#[cfg(feature = "papers")]
const MD5_ABC: [u8; 16] = bytes("900150983cd24fb0d6963f7d28e17f72");

fn cipher(stream: &mut Stream, variant: Variant) -> Result<()> {
    let launch = AesLaunch::new(variant);
    if !stream.device().has_room_for(variant.module()) {
        // The launch says so in its own words.
        let keys = stream.round_keys(&[&KEY], Direction::Encrypt)?;
        let mut data = stream.buffer(16)?;
        return stream.aes_ctr(&launch, &keys, 0, &COUNTER, &mut data, 0..16);
    }
    let launch = AesLaunch { threads: 64, ..launch };
    let encrypt = stream.round_keys(&[&KEY], Direction::Encrypt)?;
    let mut got = [0; 64];

    let mut data = stream.buffer_of(&PLAIN)?;
    stream.aes_ctr(&launch, &encrypt, 0, &COUNTER, &mut data, 0..64)?;
    stream.download(&data, 0, &mut got)?;
    expect(stream, &got, &CTR, variant, "AES-256-CTR")?;
    #[cfg(feature = "papers")]
    ecb(stream, &launch, &encrypt)?;

    // Longer than a group takes at once, with a carry through the whole counter, and a last block that is not whole.
    const LEN: usize = 64 * 16 * 16 * 3 + 4096 + 5;
    let counter = (0u128.wrapping_sub(300)).to_be_bytes();
    let plain = paint(LEN);
    for key_len in [16, 24, 32] {
        let mut want = plain.clone();
        ctr_xor(aes::Level::Portable, &aes::Key::new(&KEY[..key_len]), &counter, &mut want);
        let keys = stream.round_keys(&[&KEY[..key_len]], Direction::Encrypt)?;
        let spans = [Span { at: 0, len: LEN, key: 0, counter }];
        let uploaded = stream.spans(&spans)?;
        let entries = if cfg!(feature = "papers") { 3 } else { 2 };
        for entry in &["aes_ctr", "aes_ctr_spans", "aes_ctr_users"][..entries] {
            let mut data = stream.buffer_of(&plain)?;
            match *entry {
                "aes_ctr" => stream.aes_ctr(&launch, &keys, 0, &counter, &mut data, 0..LEN)?,
                #[cfg(feature = "papers")]
                "aes_ctr_users" => {
                    let mut users = stream.users(&spans, &[&KEY[..key_len]])?;
                    stream.aes_ctr_users(&launch, &mut users, &mut data)?;
                }
                _ => stream.aes_ctr_spans(&launch, &keys, &uploaded, &mut data)?,
            }
            let mut got = vec![0; LEN];
            stream.download(&data, 0, &mut got)?;
            expect(stream, &got, &want, variant, entry)?;
        }
    }
    Ok(())
}

#[cfg(feature = "papers")]
fn ecb(stream: &mut Stream, launch: &AesLaunch, encrypt: &RoundKeys) -> Result<()> {
    let decrypt = stream.round_keys(&[&KEY], Direction::Decrypt)?;
    let (mut data, mut got) = (stream.buffer_of(&PLAIN)?, [0; 64]);
    stream.aes_ecb(launch, encrypt, 0, &mut data, 0..64)?;
    stream.download(&data, 0, &mut got)?;
    expect(stream, &got, &ECB, launch.variant, "AES-256-ECB encryption")?;
    stream.aes_ecb(launch, &decrypt, 0, &mut data, 0..64)?;
    stream.download(&data, 0, &mut got)?;
    expect(stream, &got, &PLAIN, launch.variant, "AES-256-ECB decryption")
}

fn hash(stream: &mut Stream) -> Result<()> {
    const THREADS: u32 = 64;
    let data = stream.buffer_of(&paint(9000))?;
    let slices: Vec<Slice> = [0, 1, 135, 136, 137, 271, 272, 4096, 4095, 9000].map(|len| Slice { at: 0, len }).into();
    let inputs = paint(9000);
    let inputs: Vec<&[u8]> = slices.iter().map(|slice| &inputs[..slice.len]).collect();
    let mut want = vec![[0; 32]; inputs.len()];
    let uploaded = stream.slices(&slices)?;
    let mut digests = stream.buffer(32 * slices.len())?;
    let mut got = vec![0; 32 * slices.len()];
    keccak::turboshake256_many::<0x50>(keccak::Level::Portable, &inputs, &mut want);
    want[0] = TURBOSHAKE_EMPTY;
    stream.turboshake_slices(THREADS, &uploaded, &data, &mut digests)?;
    stream.download(&digests, 0, &mut got)?;
    expect(stream, &got, want.as_flattened(), "hash", "TurboSHAKE256")?;
    // The tags below are of these digests.
    keccak::sha3_256_many(keccak::Level::Portable, &inputs, &mut want);
    want[0] = SHA3_EMPTY;
    stream.sha3_slices(THREADS, &uploaded, &data, &mut digests)?;
    stream.download(&digests, 0, &mut got)?;
    expect(stream, &got, want.as_flattened(), "hash", "SHA3-256")?;

    let label = stream.label("self-test")?;
    let keys = stream.raw_keys(&[&KEY, &[7; 32]])?;
    let prefix = [3; 25];
    let tags = stream.tags(&[
        TagInput { key: 1, prefix: &prefix, digests: 0..10 },
        TagInput { key: 0, prefix: &[], digests: 3..3 },
    ])?;
    let mut out = stream.buffer(64)?;
    stream.kmac_tags(THREADS, &label, &keys, &tags, &digests, &mut out)?;
    let mut got = [0; 64];
    stream.download(&out, 0, &mut got)?;
    let bound = [&prefix[..], want.as_flattened()].concat();
    let tag = |key: &[u8], message: &[u8]| Kmac256::new(key, b"self-test").tag(message);
    expect(stream, &got, &[tag(&[7; 32], &bound), tag(&KEY, b"")].concat(), "hash", "KMAC256")?;
    #[cfg(feature = "papers")]
    key_digests(stream, &label, &keys, &[tag(&KEY, b""), tag(&[7; 32], b"")].concat())?;
    Ok(())
}

#[cfg(feature = "papers")]
fn key_digests(stream: &mut Stream, label: &Label, keys: &RawKeys, want: &[u8]) -> Result<()> {
    const THREADS: u32 = 64;
    let (mut out, mut got) = (stream.buffer(64)?, [0; 64]);
    stream.key_digests(THREADS, KeyDigest::Kmac256, label, keys, &mut out)?;
    stream.download(&out, 0, &mut got)?;
    expect(stream, &got, want, "hash", "KMAC256 of keys")
}

#[cfg(feature = "papers")]
fn md5(stream: &mut Stream) -> Result<()> {
    let (mut out, mut got) = (stream.buffer(16)?, [0; 16]);
    let keys = stream.raw_keys(&[b"abc"])?;
    let label = stream.label("")?;
    stream.key_digests(64, KeyDigest::Md5, &label, &keys, &mut out)?;
    stream.download(&out, 0, &mut got)?;
    expect(stream, &got, &MD5_ABC, "md5", "MD5 of keys")
}

fn expect(stream: &Stream, got: &[u8], want: &[u8], module: impl std::fmt::Display, what: &str) -> Result<()> {
    match got == want {
        true => Ok(()),
        false => Err(stream.device().error(Reason::SelfTest(format!("{module}: {what} gave other bytes")))),
    }
}

/// Bytes that repeat every 251: no block, slice or thread has another's.
fn paint(len: usize) -> Vec<u8> {
    (0..=250u8).cycle().take(len).collect()
}

/// The bytes of hexadecimal digits; one too many or too few does not compile.
const fn bytes<const N: usize>(hex: &str) -> [u8; N] {
    let (hex, mut out, mut i) = (hex.as_bytes(), [0; N], 0);
    assert!(hex.len() == 2 * N);
    while i < 2 * N {
        let digit = match hex[i] {
            digit @ b'0'..=b'9' => digit - b'0',
            digit @ b'a'..=b'f' => digit - b'a' + 10,
            _ => panic!("not hexadecimal"),
        };
        out[i / 2] = out[i / 2] << 4 | digit;
        i += 1;
    }
    out
}
