//! Leaks that were planted, to show that they are found. Nothing uses them.

use crate::valgrind::secret;
use crate::verdicts;
use std::hint::black_box;

/// A table, as AES in software often has one.
static TABLE: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        table[i] = (i as u8).wrapping_mul(73) ^ 0x63;
        i += 1;
    }
    table
};

/// Runs a planted leak.
pub fn run(name: &str) -> Result<(), String> {
    let mut key = [7; 32];
    secret(&mut key);
    match name {
        "branch" => {
            black_box(branch(&key));
        }
        "table" => {
            black_box(table(&key));
        }
        // Of a length that the compiler does not know, or it would compare all bytes at once.
        "comparison" => {
            black_box(compare(&key[..black_box(32)], &[7; 32][..black_box(32)]));
        }
        // A branch in a function whose verdict is allowed: one more than there are verdicts.
        "verdict" => {
            crate::kernels::unwrap_uncounted(&key);
            verdicts::print();
        }
        _ => return Err(format!("no planted leak named {name}")),
    }
    Ok(())
}

/// Square and multiply, as it must not be done.
#[inline(never)]
fn branch(key: &[u8; 32]) -> u64 {
    let mut sum = 1_u64;
    for byte in key {
        if black_box(byte & 1) == 1 {
            sum = black_box(sum.wrapping_mul(3));
        }
    }
    sum
}

#[inline(never)]
fn table(key: &[u8; 32]) -> u8 {
    key.iter().fold(0, |sum, byte| sum ^ TABLE[usize::from(*byte)])
}

/// A comparison that ends with the first difference.
#[inline(never)]
fn compare(tag: &[u8], other: &[u8]) -> bool {
    // Not the last call, or this function would not be in the report.
    black_box(tag == other)
}

/// Leaks in vector code, for the check of machine code.
#[cfg(target_arch = "x86_64")]
pub mod vectors {
    use super::TABLE;
    use core::arch::x86_64::*;

    /// A table lookup by the bytes of a register.
    #[inline(never)]
    #[target_feature(enable = "avx512f")]
    pub fn gather(data: &mut [i32; 16]) {
        // SAFETY: the array has the 64 bytes that are read.
        let index = unsafe { _mm512_loadu_si512(data.as_ptr().cast()) };
        let index = _mm512_and_si512(index, _mm512_set1_epi32(63));
        // SAFETY: the table has 256 bytes, and 64 words begin within its first 252.
        let found = unsafe { _mm512_i32gather_epi32::<4>(index, TABLE.as_ptr().cast()) };
        // SAFETY: the array has the 64 bytes that are written.
        unsafe { _mm512_storeu_si512(data.as_mut_ptr().cast(), found) };
    }

    /// A branch on the content of a register.
    #[inline(never)]
    #[target_feature(enable = "avx512f")]
    pub fn branch(data: &mut [i32; 16]) {
        // SAFETY: the array has the 64 bytes that are read.
        let words = unsafe { _mm512_loadu_si512(data.as_ptr().cast()) };
        if _mm512_cmpeq_epi32_mask(words, _mm512_setzero_si512()) == 0 {
            // SAFETY: the array has the 64 bytes that are written.
            unsafe { _mm512_storeu_si512(data.as_mut_ptr().cast(), _mm512_add_epi32(words, words)) };
        }
    }

    /// A table lookup by a byte of memory.
    #[inline(never)]
    #[target_feature(enable = "avx512f")]
    pub fn table(data: &mut [u8; 16]) {
        for byte in data {
            *byte = TABLE[usize::from(*byte)];
        }
    }

    /// Names all of them, so that they are in the program, even where the processor has no such instructions.
    pub fn keep() -> [usize; 3] {
        [gather as *const () as usize, branch as *const () as usize, table as *const () as usize]
    }
}
