//! The statistics by which papers judge ciphertext: histogram, correlation of neighbours, entropy, NPCR and UACI.
//!
//! They show how random bytes look, and nothing about how hard a cipher is to break.

/// Pearson's chi-square of the histogram of bytes against equal numbers of all 256. Random bytes have 255 on average,
/// and more than [`CHI_SQUARE_MOST`](crate::names::ciphertext::CHI_SQUARE_MOST) in one case of a hundred. 0 if there
/// are no bytes.
pub fn chi_square(bytes: &[u8]) -> f64 {
    if bytes.is_empty() {
        return 0.0;
    }
    let expected = bytes.len() as f64 / 256.0;
    histogram(bytes).iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum()
}

/// The mean of [`chi_square`] of random bytes.
pub const CHI_SQUARE: f64 = 255.0;

/// Shannon's entropy of the histogram in bits per byte: 8 if all bytes are equally frequent. 0 if there are no bytes.
pub fn entropy(bytes: &[u8]) -> f64 {
    let part = |count: &u64| {
        let p = *count as f64 / bytes.len() as f64;
        -p * p.log2()
    };
    histogram(bytes).iter().filter(|count| **count > 0).map(part).sum::<f64>().abs()
}

/// The entropy that random bytes of this number have on average, to the first order.
pub fn entropy_of_random(len: usize) -> f64 {
    8.0 - 255.0 / (2.0 * len as f64 * std::f64::consts::LN_2)
}

fn histogram(bytes: &[u8]) -> [u64; 256] {
    let mut counts = [0; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    counts
}

/// A direction from a pixel to its neighbour: its name, and the steps to the right and down.
pub type Neighbour = (&'static str, usize, usize);

pub const NEIGHBOURS: [Neighbour; 3] = [("horizontal", 1, 0), ("vertical", 0, 1), ("diagonal", 1, 1)];

/// Pearson's correlation of all pairs of neighbours in rows of `width` bytes: between -1 and 1, and 0 on average for
/// random bytes. `None` if there is no pair, or if all bytes are the same. A last row that is not full is left out.
pub fn correlation(bytes: &[u8], width: usize, (_, right, down): Neighbour) -> Option<f64> {
    let rows: Vec<&[u8]> = bytes.chunks_exact(width.max(1)).collect();
    let (mut n, mut sums, mut squares, mut product) = (0.0, [0.0; 2], [0.0; 2], 0.0);
    for (row, below) in rows.iter().zip(rows.iter().skip(down)) {
        for (a, b) in row.iter().zip(below.iter().skip(right)) {
            let pair = [f64::from(*a), f64::from(*b)];
            n += 1.0;
            product += pair[0] * pair[1];
            for i in 0..2 {
                sums[i] += pair[i];
                squares[i] += pair[i] * pair[i];
            }
        }
    }
    let covariance = n * product - sums[0] * sums[1];
    let variance = |i: usize| n * squares[i] - sums[i] * sums[i];
    let scale = (variance(0) * variance(1)).sqrt();
    (scale > 0.0).then(|| covariance / scale)
}

/// NPCR: the part of the places at which two ciphertexts of the same length have different bytes, in percent.
///
/// # Panics
/// If the lengths differ.
pub fn npcr(a: &[u8], b: &[u8]) -> f64 {
    assert_eq!(a.len(), b.len(), "ciphertexts of the same length");
    let different = a.iter().zip(b).filter(|(a, b)| a != b).count();
    100.0 * different as f64 / a.len().max(1) as f64
}

/// UACI: the mean difference of the bytes of two ciphertexts of the same length, in percent of 255.
///
/// # Panics
/// If the lengths differ.
pub fn uaci(a: &[u8], b: &[u8]) -> f64 {
    assert_eq!(a.len(), b.len(), "ciphertexts of the same length");
    let sum: u64 = a.iter().zip(b).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    100.0 * sum as f64 / 255.0 / a.len().max(1) as f64
}

/// The mean of [`npcr`] of two random texts: 255 of 256.
pub const NPCR: f64 = 100.0 * 255.0 / 256.0;
/// The mean of [`uaci`] of two random texts: 257 of 768.
pub const UACI: f64 = 100.0 * 257.0 / 768.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::scratch::Random;

    #[test]
    fn statistics_are_as_defined() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!((chi_square(&all), entropy(&all)), (0.0, 8.0));
        // 256 times the same byte: (256 - 1)² / 1 + 255 · 1.
        assert_eq!((chi_square(&[7; 256]), entropy(&[7; 256])), (65_280.0, 0.0));
        assert_eq!(entropy(&[1, 2]), 1.0);
        assert_eq!((chi_square(&[]), entropy(&[])), (0.0, 0.0));
        assert_eq!((npcr(&[1, 2, 3, 4], &[1, 2, 3, 5]), uaci(&[0, 0], &[255, 0])), (25.0, 50.0));
        // Each row rises by 1 to the right, and by 4 downwards.
        let ramp: Vec<u8> = (0..16).collect();
        for neighbour in NEIGHBOURS {
            assert!((correlation(&ramp, 4, neighbour).unwrap() - 1.0).abs() < 1e-12, "{neighbour:?}");
        }
        // A chessboard: all neighbours differ, except those on the diagonal.
        let board: Vec<u8> = (0..64).map(|i| ((i / 8 + i % 8) % 2) as u8).collect();
        let of = |neighbour| correlation(&board, 8, neighbour).unwrap().round();
        assert_eq!(NEIGHBOURS.map(of), [-1.0, -1.0, 1.0]);
        assert_eq!(correlation(&[5; 64], 8, NEIGHBOURS[1]), None);
        assert_eq!(correlation(&[], 8, NEIGHBOURS[1]), None);
    }

    #[test]
    fn random_bytes_have_about_the_ideal_values() {
        let (mut a, mut b) = (vec![0; 1 << 18], vec![0; 1 << 18]);
        Random::new(1).fill(&mut a);
        Random::new(2).fill(&mut b);
        assert!((chi_square(&a) - CHI_SQUARE).abs() < 120.0);
        assert!((entropy(&a) - entropy_of_random(a.len())).abs() < 2e-4);
        assert!((npcr(&a, &b) - NPCR).abs() < 0.1 && (uaci(&a, &b) - UACI).abs() < 0.2);
        assert!(NEIGHBOURS.iter().all(|n| correlation(&a, 512, *n).unwrap().abs() < 0.02));
    }
}
