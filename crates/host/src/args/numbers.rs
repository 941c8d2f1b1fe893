//! Numbers as a command line writes them: `4`, `64K`, `1M`.

use phalanx_core::ChunkSize;
use std::num::NonZeroUsize;

/// A number of threads. More than 1024 are useful nowhere.
///
/// # Errors
/// What it has to be.
pub fn threads(text: &str) -> Result<NonZeroUsize, &'static str> {
    let number = text.parse().ok().filter(|n: &NonZeroUsize| n.get() <= 1024);
    number.ok_or("a number from 1 to 1024")
}

/// A size of chunks.
///
/// # Errors
/// What it has to be.
pub fn chunk_size(text: &str) -> Result<ChunkSize, &'static str> {
    bytes(text).and_then(ChunkSize::new).ok_or("a power of two from 4K to 16M")
}

/// A size in bytes.
///
/// # Errors
/// What it has to be.
pub fn size(text: &str) -> Result<u64, &'static str> {
    bytes(text).filter(|size| *size > 0).ok_or("a size such as 4M")
}

/// A number of bytes: digits, and perhaps a letter for a power of 1024.
pub fn bytes(text: &str) -> Option<u64> {
    let unit = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit);
    let shift = match unit {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_the_sizes_of_the_format() {
        for (text, bytes) in [("4K", 4096), ("4096", 4096), ("64k", 65536), ("1M", 1 << 20), ("16M", 16 << 20)] {
            assert_eq!(chunk_size(text), Ok(ChunkSize::new(bytes).unwrap()));
        }
        for text in ["", "0", "2K", "5K", "32M", "1G", "4K+4K", "K", "4KiB"] {
            assert!(chunk_size(text).is_err(), "{text}");
        }
    }
}
