//! The self-test that a device must pass before it gets data: published answers, and a longer run compared with the
//! CPU's kernels.

#[cfg(feature = "papers")]
mod papers;

use crate::cipher::{AesLaunch, Direction, Span, Variant};
use crate::device::{Device, Stream};
use crate::driver::{Api, DeviceInfo, Driver};
use crate::error::{Reason, Result};
use crate::hash::Slice;
use crate::kernel::Module;
use crate::{cuda, opencl};
use phalanx_kernels::aes::{self, ctr_xor};
use phalanx_kernels::keccak;
use std::time::Instant;

impl Device {
    /// Opens a device of [`crate::devices`] and runs the self-test of the kernels that the engine uses.
    ///
    /// # Errors
    /// [`Reason::Absent`] if the device is no longer there. [`Reason::Refused`] if its interface is [`Api::Other`].
    /// Otherwise as for [`Device::with_driver`].
    pub fn open(info: &DeviceInfo) -> Result<Self> {
        match info.api {
            Api::Cuda => Self::with_driver(Box::new(cuda::Cuda::open(info)?)),
            Api::OpenCl => Self::with_driver(Box::new(opencl::OpenCl::open(info)?)),
            Api::Other => Err(info.error(Reason::Refused("there is no driver of this kind to open".into()))),
        }
    }

    /// Opens a device through the caller's driver, with the same self-test. The kernels for messages and for
    /// TurboSHAKE256 are built and tested when they are first launched.
    ///
    /// # Errors
    /// [`Reason::Build`] if the kernels do not build, [`Reason::SelfTest`] if an answer is wrong,
    /// [`Reason::OutOfMemory`], or a failure of the driver.
    pub fn with_driver(driver: Box<dyn Driver>) -> Result<Self> {
        let device = Self::untested(driver, run);
        let started = Instant::now();
        device.test(Module::AesBitsliceTiles)?;
        device.test(Module::Sha3)?;
        let _ = device.shared.prepared_in.set(started.elapsed());
        Ok(device)
    }
}

fn run(stream: &mut Stream, module: Module) -> Result<()> {
    stream.device().ask(|driver, _| driver.load(module))?;
    match module {
        Module::AesBitslice => spans(stream, Variant::Bitsliced),
        Module::AesBitsliceTiles => tiles(stream),
        Module::AesBitsliceKeys => keys(stream),
        Module::Sha3 | Module::TurboShake => hash(stream, module),
        #[cfg(feature = "papers")]
        _ => papers::run(stream, module),
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
/// SHA3-256 of the empty message (FIPS 202).
const SHA3_EMPTY: [u8; 32] = bytes("a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a");
/// TurboSHAKE256 of the empty message, D = 0x50, 32 bytes. The examples of RFC 9861 have other domains: computed with
/// PyCryptodome.
const TURBOSHAKE_EMPTY: [u8; 32] = bytes("1a0e70cf2bc8d439a38ed2095a3d8c702a8542aeac35e211aea7119ff130a703");

/// A length in bytes that takes several groups and ends within a block.
const LONG: usize = 64 * 16 * 16 * 3 + 4096 + 5;
/// A counter block whose carry goes through all its bytes within [`LONG`] bytes.
const NEAR_WRAP: [u8; 16] = 0u128.wrapping_sub(300).to_be_bytes();

/// The launch of a variant in its self-test: few threads, so that [`LONG`] bytes take several groups.
fn small(variant: Variant) -> AesLaunch {
    AesLaunch { threads: 64, ..AesLaunch::new(variant) }
}

/// AES-CTR by the CPU, of the bytes that [`paint`] gives.
fn painted_ctr(key: &[u8]) -> Vec<u8> {
    let mut bytes = paint(LONG);
    ctr_xor(aes::Level::Portable, &aes::Key::new(key), &NEAR_WRAP, &mut bytes);
    bytes
}

fn spans(stream: &mut Stream, variant: Variant) -> Result<()> {
    let mut check = |key: &[u8], counter: [u8; 16], plain: &[u8], want: &[u8], what: &str| {
        let keys = stream.round_keys(&[key], Direction::Encrypt)?;
        let spans = stream.spans(&[Span { at: 0, len: plain.len(), key: 0, counter }])?;
        let mut data = stream.buffer_of(plain)?;
        stream.aes_ctr_spans(&small(variant), &keys, &spans, &mut data)?;
        let mut got = vec![0; plain.len()];
        stream.download(&data, 0, &mut got)?;
        expect(stream, &got, want, variant, what)
    };
    check(&KEY, COUNTER, &PLAIN, &CTR, "AES-256-CTR")?;
    for key_len in [16, 24, 32] {
        let key = &KEY[..key_len];
        check(key, NEAR_WRAP, &paint(LONG), &painted_ctr(key), "aes_ctr_spans")?;
    }
    Ok(())
}

/// Spans of three keys that begin at and between multiples of 1024 blocks, and end with their tile and within a block.
fn tiles(stream: &mut Stream) -> Result<()> {
    const SPANS: [(u128, usize); 3] =
        [(0, 2048 * 16), (5000 << 16 | 0xf7ff, 2049 * 16), (3u128.wrapping_neg() << 16 | 77, 40_003)];
    for key_len in [16, 24, 32] {
        let keys = [&KEY[..key_len], &PLAIN[..key_len], &CTR[..key_len]];
        many(stream, &keys, &SPANS.map(|(counter, len)| (counter.to_be_bytes(), len)), Module::AesBitsliceTiles)?;
    }
    Ok(())
}

/// Messages of three keys, the longest of which takes two threads.
fn keys(stream: &mut Stream) -> Result<()> {
    for key_len in [16, 24, 32] {
        let keys = [&KEY[..key_len], &PLAIN[..key_len], &CTR[..key_len]];
        many(stream, &keys, &[37, 600, 64].map(|len| (NEAR_WRAP, len)), Module::AesBitsliceKeys)?;
    }
    Ok(())
}

/// AES-CTR of spans, each under its own key, by the kernel of that module.
fn many(stream: &mut Stream, keys: &[&[u8]], counters: &[([u8; 16], usize)], module: Module) -> Result<()> {
    let (mut spans, mut plain, mut want) = (Vec::new(), Vec::new(), Vec::new());
    for (key, (counter, len)) in counters.iter().enumerate() {
        spans.push(Span { at: plain.len(), len: *len, key: key as u32, counter: *counter });
        let mut bytes = paint(len.next_multiple_of(16));
        plain.extend_from_slice(&bytes);
        ctr_xor(aes::Level::Portable, &aes::Key::new(keys[key]), counter, &mut bytes[..*len]);
        want.extend(bytes);
    }
    let keys = stream.round_keys(keys, Direction::Encrypt)?;
    let spans = stream.spans(&spans)?;
    let mut data = stream.buffer_of(&plain)?;
    let launch = small(Variant::Bitsliced);
    debug_assert_eq!(launch.kernel(launch.entry_for(&spans).0).module, module, "the test is of another kernel");
    stream.aes_ctr_spans(&launch, &keys, &spans, &mut data)?;
    let mut got = vec![0; plain.len()];
    stream.download(&data, 0, &mut got)?;
    expect(stream, &got, &want, module.name(), "AES-CTR of spans")
}

fn hash(stream: &mut Stream, module: Module) -> Result<()> {
    const THREADS: u32 = 64;
    let inputs = paint(9000);
    let data = stream.buffer_of(&inputs)?;
    let slices: Vec<Slice> = [0, 1, 135, 136, 137, 271, 272, 4096, 4095, 9000].map(|len| Slice { at: 0, len }).into();
    let inputs: Vec<&[u8]> = slices.iter().map(|slice| &inputs[..slice.len]).collect();
    let mut want = vec![[0; 32]; inputs.len()];
    let slices = stream.slices(&slices)?;
    let mut digests = stream.buffer(want.as_flattened().len())?;
    if module == Module::TurboShake {
        keccak::turboshake256_many::<0x50>(keccak::Level::Portable, &inputs, &mut want);
        want[0] = TURBOSHAKE_EMPTY;
        stream.turboshake_slices(THREADS, &slices, &data, &mut digests)?;
    } else {
        keccak::sha3_256_many(keccak::Level::Portable, &inputs, &mut want);
        want[0] = SHA3_EMPTY;
        stream.sha3_slices(THREADS, &slices, &data, &mut digests)?;
    }
    let mut got = vec![0; want.as_flattened().len()];
    stream.download(&digests, 0, &mut got)?;
    expect(stream, &got, want.as_flattened(), module.name(), "a digest")
}

fn expect(stream: &Stream, got: &[u8], want: &[u8], module: impl std::fmt::Display, what: &str) -> Result<()> {
    match got == want {
        true => Ok(()),
        false => Err(stream.device().error(Reason::SelfTest(format!("{module}: {what} gave other bytes")))),
    }
}

/// Bytes that repeat every 251, so that no two neighbouring blocks, slices or threads have equal bytes.
fn paint(len: usize) -> Vec<u8> {
    (0..=250u8).cycle().take(len).collect()
}

/// The bytes of hexadecimal digits. A wrong number of digits does not compile.
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
