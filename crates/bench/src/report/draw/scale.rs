//! The y axis: logarithmic where the values span more than a factor of 15, linear from 0 otherwise.

use crate::report::digits;

/// From which ratio of the largest to the least value on the axis is logarithmic.
const WIDE: f64 = 15.0;

/// Maps values to heights.
pub struct Scale {
    logarithmic: bool,
    least: f64,
    largest: f64,
    /// The heights of the least and the largest value.
    span: [f64; 2],
}

impl Scale {
    /// For values between two positive ones.
    pub fn new(least: f64, largest: f64, span: [f64; 2]) -> Self {
        match largest / least > WIDE {
            true => Self { logarithmic: true, least: least * 0.85, largest: largest * 1.15, span },
            false => Self { logarithmic: false, least: 0.0, largest: largest * 1.06, span },
        }
    }

    /// The height of a value.
    pub fn at(&self, value: f64) -> f64 {
        let part = match self.logarithmic {
            true => (value / self.least).ln() / (self.largest / self.least).ln(),
            false => (value - self.least) / (self.largest - self.least),
        };
        self.span[0] + (self.span[1] - self.span[0]) * part
    }

    /// Round values on the axis, with their texts.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let values = if self.logarithmic { self.powers() } else { self.steps() };
        values.into_iter().map(|value| (value, text(value))).collect()
    }

    fn powers(&self) -> Vec<f64> {
        let decades = (self.largest / self.least).log10();
        let of_decade: &[f64] = match decades {
            d if d < 2.2 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let step = if decades > 7.0 { 2 } else { 1 };
        let (first, last) = (self.least.log10().floor() as i32, self.largest.log10().ceil() as i32);
        let all = (first..=last).filter(|power| power.rem_euclid(step) == 0);
        let all = all.flat_map(|power| of_decade.iter().map(move |n| n * 10f64.powi(power)));
        all.filter(|value| (self.least..=self.largest).contains(value)).collect()
    }

    fn steps(&self) -> Vec<f64> {
        let rough = self.largest / 4.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| *step >= rough * 0.999);
        let step = step.unwrap_or(rough);
        (0..).map(|i| f64::from(i) * step).take_while(|value| *value <= self.largest).collect()
    }
}

/// Without zeros at the end.
fn text(value: f64) -> String {
    if value == 0.0 || value >= 100.0 {
        return match value {
            v if v >= 1e6 => format!("{}M", v / 1e6),
            v if v >= 1e4 => format!("{}k", v / 1e3),
            v => format!("{v:.0}"),
        };
    }
    let text = if value < 0.01 { format!("{value:.6}") } else { digits(value) };
    text.trim_end_matches('0').trim_end_matches('.').into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(least: f64, largest: f64) -> Vec<String> {
        Scale::new(least, largest, [100.0, 0.0]).ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn wide_ranges_are_logarithmic_and_ticks_are_round() {
        assert_eq!(texts(0.01, 20.0), ["0.01", "0.1", "1", "10"]);
        assert_eq!(texts(1.0, 30.0), ["1", "2", "5", "10", "20"]);
        assert_eq!(texts(1.0, 7.9), ["0", "2.5", "5", "7.5"]);
        assert_eq!(texts(500.0, 40_000.0), ["500", "1000", "2000", "5000", "10k", "20k"]);
    }

    #[test]
    fn values_lie_within_the_plot() {
        for (least, largest) in [(0.001, 1000.0), (3.0, 4.0), (5.0, 5.0)] {
            let scale = Scale::new(least, largest, [100.0, 0.0]);
            for value in [least, largest] {
                assert!((0.0..=100.0).contains(&scale.at(value)), "{value}");
            }
            assert!(scale.at(largest) <= scale.at(least));
        }
    }
}
