//! P2's workload (section 4.2): many users whose lengths are normally distributed over 35 to 150 KB, drawn by
//! Box–Muller.
//!
//! The paper gives neither mean nor deviation. Here the mean is the middle of the range, 92.5 KB, and the deviation is
//! a sixth of its width, 19.17 KB. So the range is three deviations to each side, and a draw outside it (one in 370) is
//! repeated. KB are 1024 bytes, as in the paper's own example (section 3.4).

use std::f64::consts::TAU;
use std::time::Duration;

/// The seed of all that is drawn.
pub const SEED: u64 = 1;
/// The shortest length, in bytes.
pub const SHORTEST: usize = 35 * 1024;
/// The longest length, in bytes.
pub const LONGEST: usize = 150 * 1024;
/// The unit of regular lengths: the paper's slice, in bytes.
pub const SLICE: usize = 4096;

/// The mean of the lengths, in bytes.
pub const MEAN: f64 = (SHORTEST + LONGEST) as f64 / 2.0;
/// Their standard deviation, in bytes, before draws outside of the range are drawn again.
pub const DEVIATION: f64 = (LONGEST - SHORTEST) as f64 / 6.0;

/// Whether lengths are whole slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each length is the multiple of a slice closest to the draw, and within the range.
    Regular,
    /// Each length is the draw, in whole bytes.
    Irregular,
}

impl Shape {
    pub fn name(self) -> &'static str {
        match self {
            Shape::Regular => "regular",
            Shape::Irregular => "irregular",
        }
    }
}

pub fn case(users: usize, shape: Shape) -> String {
    format!("{users} users, {}", shape.name())
}

/// The lengths of the users' data in bytes, which depend on the seed alone.
pub fn lengths(users: usize, shape: Shape, seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed);
    let mut normal = Normal { random: &mut random, spare: None };
    (0..users).map(|_| length(&mut normal, shape)).collect()
}

fn length(normal: &mut Normal<'_>, shape: Shape) -> usize {
    loop {
        let len = (MEAN + DEVIATION * normal.next()).round();
        if (SHORTEST as f64..=LONGEST as f64).contains(&len) {
            let len = len as usize;
            return match shape {
                Shape::Irregular => len,
                Shape::Regular => ((len + SLICE / 2) / SLICE).clamp(SHORTEST.div_ceil(SLICE), LONGEST / SLICE) * SLICE,
            };
        }
    }
}

/// The times between arrivals of a Poisson process with `rate` arrivals per second, without end.
pub fn arrivals(rate: f64, seed: u64) -> impl Iterator<Item = Duration> {
    let mut random = Random::new(seed);
    std::iter::repeat_with(move || Duration::from_secs_f64(-random.unit().ln() / rate))
}

/// Standard normal draws by the method of Box and Muller, which gives two at a time.
struct Normal<'a> {
    random: &'a mut Random,
    spare: Option<f64>,
}

impl Normal<'_> {
    fn next(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * self.random.unit().ln()).sqrt();
        let angle = TAU * self.random.unit();
        self.spare = Some(radius * angle.sin());
        radius * angle.cos()
    }
}

/// SplitMix64: for workloads only, because it can be predicted.
pub struct Random(u64);

impl Random {
    /// The sequence that belongs to a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A key or counter block: the next N bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| (self.next() >> 56) as u8)
    }

    /// Uniform in (0, 1], so that its logarithm exists.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For 100,000 draws the mean is known to within 0.2 % of the range, and the deviation to within 1 %.
    #[test]
    fn lengths_are_normal_within_the_range() {
        for shape in [Shape::Regular, Shape::Irregular] {
            let lengths = lengths(100_000, shape, 1);
            let mean = lengths.iter().sum::<usize>() as f64 / 1e5;
            let deviation = (lengths.iter().map(|len| (*len as f64 - mean).powi(2)).sum::<f64>() / 1e5).sqrt();
            assert!((mean - MEAN).abs() < 250.0, "{mean}");
            // Cutting off the tails reduces the deviation by 1.3 %.
            assert!((deviation / (0.987 * DEVIATION) - 1.0).abs() < 0.01, "{deviation}");
            assert!(lengths.iter().all(|len| (SHORTEST..=LONGEST).contains(len)));
            if shape == Shape::Irregular {
                // 68.27 % and 95.45 % of all draws, over the 99.73 % that are within the range.
                let within = |n: f64| lengths.iter().filter(|len| (**len as f64 - MEAN).abs() < n * DEVIATION).count();
                assert!((68_000..68_900).contains(&within(1.0)), "{}", within(1.0));
                assert!((95_500..95_900).contains(&within(2.0)), "{}", within(2.0));
            }
            assert_eq!(lengths.iter().all(|len| len % SLICE == 0), shape == Shape::Regular);
        }
    }

    #[test]
    fn the_seed_determines_everything() {
        assert_eq!(lengths(50, Shape::Irregular, 7), lengths(50, Shape::Irregular, 7));
        assert_ne!(lengths(50, Shape::Irregular, 7), lengths(50, Shape::Irregular, 8));
        assert_eq!(lengths(10, Shape::Irregular, 7), lengths(50, Shape::Irregular, 7)[..10]);
    }

    /// The first three numbers from the seed 1234567 are those of other implementations of SplitMix64.
    #[test]
    fn the_generator_is_splitmix64() {
        let mut random = Random::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn arrivals_have_their_rate() {
        let times: Vec<f64> = arrivals(1000.0, 3).take(100_000).map(|time| time.as_secs_f64() * 1000.0).collect();
        let mean = times.iter().sum::<f64>() / 1e5;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        // A part e^−1 of exponential times is longer than the mean.
        let longer = times.iter().filter(|time| **time > 1.0).count();
        assert!((36_000..37_600).contains(&longer), "{longer}");
    }
}
