//! The bare schemes produce the bytes of the `ctr` and `aes` crates, in whatever way the data are divided.

use ctr::cipher::{KeyIvInit, StreamCipher};
use phalanx_bench::measure::users::bare::{Cpu, Kind, Task};
use phalanx_kernels::aes::Level;

const KINDS: [Kind; 4] = [Kind::Ccs, Kind::Ccns, Kind::Cnc, Kind::Sr];

/// Byte i is i mod 251.
fn painted(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

fn oracle(key: &[u8], counter: &[u8; 16], data: &mut [u8]) {
    fn apply<C: KeyIvInit + StreamCipher>(key: &[u8], counter: &[u8; 16], data: &mut [u8]) {
        C::new_from_slices(key, counter).unwrap().apply_keystream(data);
    }
    match key.len() {
        16 => apply::<ctr::Ctr128BE<aes::Aes128>>(key, counter, data),
        24 => apply::<ctr::Ctr128BE<aes::Aes192>>(key, counter, data),
        _ => apply::<ctr::Ctr128BE<aes::Aes256>>(key, counter, data),
    }
}

/// Checks users with these lengths of data, keys of all lengths, and counters that carry over 32 bits, 64 bits and all
/// bits.
fn check(lengths: &[usize]) {
    let key = |i: usize| painted(i + 32)[i..][..[16, 24, 32][i % 3]].to_vec();
    let high = |i: usize| (i as u128 + 1) << 64;
    let counter = |i: usize| [high(i), high(i) | 0xffff_fffe, high(i) | u128::from(u64::MAX - 1), u128::MAX - 2][i % 4];
    let keys: Vec<_> = (0..lengths.len()).map(key).collect();
    let plain: Vec<_> = lengths.iter().map(|len| painted(*len)).collect();
    let mut expected = plain.clone();
    for (i, data) in expected.iter_mut().enumerate() {
        oracle(&keys[i], &counter(i).to_be_bytes(), data);
    }
    for level in Level::available() {
        for (kind, threads) in KINDS.into_iter().flat_map(|kind| [1, 2, 3, 7].map(|threads| (kind, threads))) {
            let mut data = plain.clone();
            let task = |(i, data): (usize, _)| Task { key: &keys[i], counter: counter(i).to_be_bytes(), data };
            let mut tasks: Vec<_> = data.iter_mut().map(Vec::as_mut_slice).enumerate().map(task).collect();
            let scheme = Cpu { kind, threads, level };
            scheme.run(&mut tasks);
            assert!(data == expected, "{} by {threads} threads, {level}, {lengths:?}", scheme.name());
        }
    }
}

#[test]
fn all_schemes_give_the_same_bytes() {
    check(&[]);
    check(&[0]);
    check(&[1, 0, 0, 15, 16, 17, 0]);
    check(&[4095, 4096, 4097, 1, 8191, 8192, 8193]);
    // These lengths are around the length that a thread takes at once, for one user and for many.
    check(&[512 << 10, 1, (512 << 10) + 1, (512 << 10) - 1, (2 << 20) + 4095]);
    check(&(0..300).map(|i| (i * 7919) % 20_000).collect::<Vec<_>>());
}
