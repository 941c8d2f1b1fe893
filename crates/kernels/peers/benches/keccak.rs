//! SHA3-256 of slices of 4 KiB: the wide kernels compared with those of XKCP and s2n-bignum, on one core. Each is first
//! checked to give the same digests as ours.
//!
//! `cargo bench` runs it, with XKCP for AVX-512, and `XKCP_RS_TARGET=AVX2 cargo bench` with XKCP for AVX2.

use phalanx_kernels::keccak::{self, DIGEST};
use std::hint::black_box;
use std::time::Instant;

const SLICE: usize = 4096;
/// The rate of SHA3-256 in bytes and in lanes.
const RATE: usize = 136;
const LANES: usize = RATE / 8;
/// Lengths of the data, and rounds.
const SIZES: [(&str, usize, usize); 2] = [("64KiB", 64 << 10, 5000), ("1MiB", 1 << 20, 500)];

/// The digests of slices.
type Slices = fn(&[u8], &mut [[u8; DIGEST]]);

/// XKCP's sponges: its own loop absorbs as many slices in parallel as it has states.
macro_rules! xkcp {
    ($name:ident, $states:literal, $init:ident, $absorb:ident, $add:ident, $permute:ident, $extract:ident) => {
        fn $name(data: &[u8], out: &mut [[u8; DIGEST]]) {
            #[repr(align(64))]
            struct States([u64; 25 * $states]);
            for (data, out) in data.chunks_exact($states * SLICE).zip(out.chunks_exact_mut($states)) {
                let mut states = States([0; 25 * $states]);
                let at = states.0.as_mut_ptr().cast();
                // SAFETY: the states have XKCP's size and alignment; it reads whole blocks of each slice, the rest of a
                // slice, and the two bytes of padding, and writes a digest. The caller has checked that the processor
                // has the instructions.
                unsafe {
                    xkcp_sys::$init(at);
                    let offset = (SLICE / 8) as u32;
                    let done = xkcp_sys::$absorb(at, LANES as u32, offset, LANES as u32, data.as_ptr(), data.len());
                    for (i, slice) in data.chunks_exact(SLICE).enumerate() {
                        let rest = &slice[done..];
                        let i = i as u32;
                        xkcp_sys::$add(at, i, rest.as_ptr(), 0, rest.len() as u32);
                        xkcp_sys::$add(at, i, [0x06].as_ptr(), rest.len() as u32, 1);
                        xkcp_sys::$add(at, i, [0x80].as_ptr(), RATE as u32 - 1, 1);
                    }
                    xkcp_sys::$permute(at);
                    for (i, out) in out.iter_mut().enumerate() {
                        xkcp_sys::$extract(at, i as u32, out.as_mut_ptr(), 0, DIGEST as u32);
                    }
                }
            }
        }
    };
}

#[cfg(xkcp_avx512)]
xkcp!(
    xkcp_times8,
    8,
    KeccakP1600times8_InitializeAll,
    KeccakF1600times8_FastLoop_Absorb,
    KeccakP1600times8_AddBytes,
    KeccakP1600times8_PermuteAll_24rounds,
    KeccakP1600times8_ExtractBytes
);
xkcp!(
    xkcp_times4,
    4,
    KeccakP1600times4_InitializeAll,
    KeccakF1600times4_FastLoop_Absorb,
    KeccakP1600times4_AddBytes,
    KeccakP1600times4_PermuteAll_24rounds,
    KeccakP1600times4_ExtractBytes
);

// Links the library, which contains s2n-bignum.
use aws_lc_sys as _;

unsafe extern "C" {
    #[link_name = "aws_lc_0_47_0_sha3_keccak4_f1600_alt"]
    fn sha3_keccak4_f1600_alt(a: *mut u64, rc: *const u64, rho8: *const u64, rho56: *const u64);
}

/// The constants of the 24 rounds.
const ROUNDS: [u64; 24] = [
    0x0000000000000001,
    0x0000000000008082,
    0x800000000000808a,
    0x8000000080008000,
    0x000000000000808b,
    0x0000000080000001,
    0x8000000080008081,
    0x8000000000008009,
    0x000000000000008a,
    0x0000000000000088,
    0x0000000080008009,
    0x000000008000000a,
    0x000000008000808b,
    0x800000000000008b,
    0x8000000000008089,
    0x8000000000008003,
    0x8000000000008002,
    0x8000000000000080,
    0x000000000000800a,
    0x800000008000000a,
    0x8000000080008081,
    0x8000000000008080,
    0x0000000080000001,
    0x8000000080008008,
];

/// The places to which a shuffle moves bytes when lanes are rotated by 8 and by 56.
#[repr(align(32))]
struct Shuffle([u64; 4]);
static RHO8: Shuffle = Shuffle([0x0605040302010007, 0x0e0d0c0b0a09080f, 0x0605040302010007, 0x0e0d0c0b0a09080f]);
static RHO56: Shuffle = Shuffle([0x0007060504030201, 0x080f0e0d0c0b0a09, 0x0007060504030201, 0x080f0e0d0c0b0a09]);

/// Four states, one after another. Plain code absorbs the blocks.
fn s2n_bignum(data: &[u8], out: &mut [[u8; DIGEST]]) {
    #[repr(align(64))]
    struct States([[u64; 25]; 4]);
    for (data, out) in data.chunks_exact(4 * SLICE).zip(out.chunks_exact_mut(4)) {
        let mut states = States([[0; 25]; 4]);
        let absorb = |state: &mut [u64; 25], block: &[u8]| {
            for (lane, bytes) in state.iter_mut().zip(block.chunks_exact(8)) {
                *lane ^= u64::from_le_bytes(bytes.try_into().expect("chunks of 8"));
            }
        };
        let permute = |states: &mut States| {
            // SAFETY: it has four states of 25 lanes, 24 constants, and the two shuffles. The caller has checked that
            // the processor has AVX2.
            unsafe {
                let at = states.0.as_mut_ptr().cast();
                sha3_keccak4_f1600_alt(at, ROUNDS.as_ptr(), RHO8.0.as_ptr(), RHO56.0.as_ptr());
            }
        };
        let whole = SLICE / RATE * RATE;
        for at in (0..whole).step_by(RATE) {
            for (state, slice) in states.0.iter_mut().zip(data.chunks_exact(SLICE)) {
                absorb(state, &slice[at..at + RATE]);
            }
            permute(&mut states);
        }
        for (state, slice) in states.0.iter_mut().zip(data.chunks_exact(SLICE)) {
            let mut last = [0; RATE];
            let rest = &slice[whole..];
            last[..rest.len()].copy_from_slice(rest);
            last[rest.len()] = 0x06;
            last[RATE - 1] |= 0x80;
            absorb(state, &last);
        }
        permute(&mut states);
        for (state, out) in states.0.iter().zip(out) {
            for (bytes, lane) in out.chunks_exact_mut(8).zip(state) {
                bytes.copy_from_slice(&lane.to_le_bytes());
            }
        }
    }
}

/// The libraries that run on this processor.
fn peers() -> Vec<(&'static str, Slices)> {
    let mut peers: Vec<(&str, Slices)> = Vec::new();
    #[cfg(xkcp_avx512)]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
        peers.push(("xkcp-times8-avx512", xkcp_times8));
        peers.push(("xkcp-times4-avx512", xkcp_times4));
    }
    if is_x86_feature_detected!("avx2") {
        #[cfg(not(xkcp_avx512))]
        peers.push(("xkcp-times4-avx2", xkcp_times4));
        peers.push(("s2n-bignum-avx2", s2n_bignum));
    }
    peers
}

/// A kernel, and its fastest round in seconds.
type Contestant<'a> = (String, Box<dyn FnMut() + 'a>, f64);

fn main() {
    println!("GiB/s, the best of interleaved rounds");
    for (name, size, rounds) in SIZES {
        let data: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        let slices: Vec<&[u8]> = data.chunks(SLICE).collect();
        let mut expected = vec![[0; DIGEST]; slices.len()];
        keccak::sha3_256_many(keccak::Level::detect(), &slices, &mut expected);
        let mut all: Vec<Contestant<'_>> = Vec::new();
        for level in keccak::Level::available() {
            let (slices, mut out) = (&slices, expected.clone());
            let run = move || keccak::sha3_256_many(level, black_box(slices), &mut out);
            all.push((level.name().into(), Box::new(run), f64::INFINITY));
        }
        for (peer, digests) in peers() {
            let mut out = vec![[0; DIGEST]; slices.len()];
            digests(&data, &mut out);
            assert_eq!(out, expected, "{peer}");
            let data = &data;
            all.push((peer.into(), Box::new(move || digests(black_box(data), &mut out)), f64::INFINITY));
        }
        for _ in 0..rounds {
            for (_, run, best) in &mut all {
                let started = Instant::now();
                run();
                *best = best.min(started.elapsed().as_secs_f64());
            }
        }
        for (kernel, _, best) in all {
            println!("{name} {kernel}: {:.2}", size as f64 / best / (1u64 << 30) as f64);
        }
    }
}
