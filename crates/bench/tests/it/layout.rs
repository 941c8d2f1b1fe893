//! SEFPS's layout compared with an independent slow computation, and the files that it refuses.

use phalanx_bench::measure::sefps::layout::{self, BlockCipher, Kernels, Refused, SHORTEST, protected_len};
use phalanx_bench::measure::ttable::TTable;
use phalanx_kernels::aes::Level;
use phalanx_reference as reference;

fn painted(len: usize) -> Vec<u8> {
    (0..=250u8).cycle().take(len).collect()
}

/// The layout, written out with the reference's AES and SHA-3.
fn slowly(key: &[u8], file: &[u8]) -> Vec<u8> {
    let p = 16 - file.len() % 16;
    let padded = [file, &vec![0; p], &[p as u8; 16]].concat();
    let digest = reference::sha3_256(&padded);
    reference::ecb_encrypt(key, &[&padded[..], &digest].concat())
}

fn ciphers(key: &[u8]) -> Vec<(String, Box<dyn BlockCipher>)> {
    let kernels = Level::available()
        .map(|level| (level.to_string(), Box::new(Kernels::new(level, key).unwrap()) as Box<dyn BlockCipher>));
    kernels.chain([("tables".to_string(), Box::new(TTable::new(key)) as Box<dyn BlockCipher>)]).collect()
}

#[test]
fn every_cipher_and_number_of_threads_writes_and_reads_the_printed_layout() {
    for key in [16, 24, 32].map(|len| painted(len + 3).split_off(3)) {
        let ciphers = ciphers(&key);
        // These lengths have every remainder by 16, and some give threads unequal shares.
        for len in (0..=49).chain([123, 255, 256, 257, 4095, 4096, 4097]) {
            let plain = painted(len);
            let want = slowly(&key, &plain);
            assert_eq!(protected_len(len), Some(want.len()));
            for (name, cipher) in &ciphers {
                for threads in [1, 2, 3, 7, 100] {
                    let what = format!("{name}, {} key bytes, {len} bytes, {threads} threads", key.len());
                    let mut file = plain.clone();
                    layout::protect(&**cipher, threads, &mut file);
                    assert!(file == want, "{what}");
                    layout::unprotect(&**cipher, threads, &mut file).unwrap();
                    assert!(file == plain, "{what}");
                }
            }
        }
    }
}

#[test]
fn the_papers_example_has_the_printed_lengths() {
    // Section 3.1: 123 bytes are padded by 21 to 144. With the digest, these are 176 bytes.
    let key = painted(16);
    let mut file = painted(123);
    layout::protect(&TTable::new(&key), 1, &mut file);
    assert_eq!(file.len(), 176);
    let clear = reference::ecb_decrypt(&key, &file);
    assert_eq!(clear[..123], painted(123));
    assert_eq!(clear[123..128], [0; 5]);
    assert_eq!(clear[128..144], [5; 16]);
    assert_eq!(clear[144..], reference::sha3_256(&clear[..144]));
}

fn unprotect(key: &[u8], mut file: Vec<u8>) -> Result<Vec<u8>, Refused> {
    layout::unprotect(&Kernels::new(Level::detect(), key).unwrap(), 2, &mut file)?;
    Ok(file)
}

#[test]
fn lengths_that_no_file_has_are_refused() {
    let key = painted(32);
    assert_eq!(SHORTEST, slowly(&key, b"").len());
    for len in 0..200 {
        let want = if len % 16 == 0 && len >= 64 { Refused::NotAuthentic } else { Refused::Length };
        assert_eq!(unprotect(&key, painted(len)), Err(want), "{len}");
    }
    assert_eq!(protected_len(usize::MAX), None);
    assert!(Kernels::new(Level::detect(), &painted(17)).is_none());
}

#[test]
fn any_change_and_any_other_key_is_refused() {
    let key = painted(24);
    let whole = slowly(&key, &painted(40));
    assert_eq!(unprotect(&key, whole.clone()).unwrap(), painted(40));
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        assert_eq!(unprotect(&key, changed), Err(Refused::NotAuthentic), "byte {at}");
    }
    for at in 0..key.len() {
        let mut other = key.clone();
        other[at] ^= 0x80;
        assert_eq!(unprotect(&other, whole.clone()), Err(Refused::NotAuthentic), "key byte {at}");
    }
    assert_eq!(unprotect(&key, whole[16..].to_vec()), Err(Refused::NotAuthentic));
    assert_eq!(unprotect(&key, whole[..whole.len() - 16].to_vec()), Err(Refused::NotAuthentic));
}

#[test]
fn a_wrong_padding_is_refused_even_with_the_right_digest() {
    let key = painted(16);
    let sealed = |padded: Vec<u8>| {
        let digest = reference::sha3_256(&padded);
        reference::ecb_encrypt(&key, &[&padded[..], &digest].concat())
    };
    let block = |byte: u8| vec![byte; 16];
    assert_eq!(unprotect(&key, sealed([block(0), block(16)].concat())), Ok(vec![]));
    for lengths in [0, 17, 32, 128, 255] {
        assert_eq!(
            unprotect(&key, sealed([block(0), block(lengths)].concat())),
            Err(Refused::NotAuthentic),
            "{lengths}"
        );
    }
    for odd in 0..16 {
        let mut lengths = block(5);
        lengths[odd] = 6;
        assert_eq!(unprotect(&key, sealed([block(0), lengths].concat())), Err(Refused::NotAuthentic), "copy {odd}");
    }
    for odd in 0..5 {
        let mut zeros = block(0);
        zeros[15 - odd] = 1;
        assert_eq!(unprotect(&key, sealed([zeros, block(5)].concat())), Err(Refused::NotAuthentic), "zero {odd}");
    }
}
