//! The bare schemes, by every kernel, under AES-128, AES-192 and AES-256.

use crate::memory::{Hunt, secret, tidily, write};
use crate::schedule::expand;
use crate::set::{KEYS, LENGTHS, seeds, wipe};
use phalanx_core::bare::{Cpu, Kind, Scheme, Task};
use phalanx_kernels::aes::Level;
use zeroize::Zeroize;

fn keys(first: u64) -> Vec<Vec<u8>> {
    let key = |i| {
        let mut key = vec![0; [16, 24, 32][i as usize % 3]];
        write(KEYS + first + i, &mut key);
        key
    };
    tidily(|| (0..LENGTHS.len() as u64).map(key).collect())
}

/// The keystream too is looked for where there is a ciphertext.
fn hunt(first: u64, ciphertexts: Option<&[Vec<u8>]>) -> Hunt {
    let mut hunt = Hunt::default();
    tidily(|| {
        for ((i, mut key), len) in (0..).zip(keys(first)).zip(LENGTHS) {
            hunt.seek(format!("plaintext {i}"), secret(first + i).take(len));
            let mut schedule = expand(&key);
            hunt.seek(format!("round keys {i}"), schedule.iter().copied());
            if let Some(ciphertexts) = ciphertexts {
                let keystream = ciphertexts[i as usize].iter().zip(secret(first + i)).map(|(a, b)| a ^ b);
                hunt.seek(format!("keystream {i}"), keystream);
            }
            schedule.zeroize();
            key.zeroize();
        }
    });
    hunt
}

/// Encrypts or decrypts, and wipes the keys.
fn run(scheme: Cpu, mut keys: Vec<Vec<u8>>, data: &mut [Vec<u8>]) {
    let task = |(key, data)| Task { key, counter: [7; 16], data };
    let mut tasks: Vec<_> =
        keys.iter().map(Vec::as_slice).zip(data.iter_mut().map(Vec::as_mut_slice)).map(task).collect();
    scheme.run(&mut tasks).unwrap();
    keys.iter_mut().for_each(|key| wipe(key));
}

pub fn every_scheme_by_every_kernel() {
    for level in Level::available() {
        for kind in [Kind::Ccs, Kind::Ccns, Kind::Cnc, Kind::Sr] {
            let scheme = Cpu { kind, threads: 3, level };
            let what = format!("{}, {level}", scheme.name());
            let first = seeds();
            let mut data: Vec<_> = LENGTHS.iter().map(|len| vec![0; *len]).collect();
            tidily(|| data.iter_mut().zip(first..).for_each(|(text, seed)| write(seed, text)));
            let keys_of = || keys(first);

            let keys = keys_of();
            hunt(first, None).nothing_left(&format!("{what}, encrypting"), || run(scheme, keys, &mut data));
            let keys = keys_of();
            hunt(first, Some(&data)).nothing_left(&format!("{what}, decrypting"), || {
                run(scheme, keys, &mut data);
                assert!(data.iter().zip(first..).all(|(text, seed)| secret(seed).zip(text).all(|(a, b)| a == *b)));
                data.iter_mut().for_each(|text| wipe(text));
            });
        }
    }
}
