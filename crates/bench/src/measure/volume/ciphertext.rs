//! The statistics that P4's abstract names, of the AES-CTR ciphertext of an image and of a text.

use crate::measure::scratch::{random, random_vec};
use crate::measure::volume::statistics::{
    CHI_SQUARE, NEIGHBOURS, NPCR, Neighbour, UACI, chi_square, correlation, entropy, entropy_of_random, npcr, uaci,
};
use crate::measure::{Random, Result, Row, Rows, Setup, Step, row_of};
use crate::names::ciphertext::{CIPHERTEXT, NEW_NONCES, OPERATION, PLAINTEXT, SAME_NONCE};
use crate::names::volume::EXPERIMENT;
use phalanx_kernels::aes;

/// The image's width and height in pixels.
pub const WIDTH: usize = 512;
const TEXT: usize = 1 << 18;

pub fn step(setup: &Setup) -> Step<'_> {
    Step::new(format!("{EXPERIMENT} ciphertext"), 500_000, move |rows| {
        of(setup, &format!("image of {WIDTH} × {WIDTH}"), &image(), rows)?;
        of(setup, "text", &text(), rows)
    })
}

/// A measure's name, its value, and the ideal one.
type Measured = (String, Option<f64>, f64);

fn of(setup: &Setup, case: &str, plain: &[u8], rows: &mut Rows<'_>) -> Result<()> {
    let row = |scheme: &str, (measure, value, ideal): Measured| {
        let row = Row {
            value,
            ideal: Some(ideal),
            ..row_of(EXPERIMENT, case, [OPERATION, &measure, scheme, "serial"], [plain.len() as u64, 1], 1)
        };
        if value.is_none() { row.not_run("all bytes are the same") } else { row }
    };
    let sealed = encrypted(setup, plain, 0);
    for (scheme, bytes) in [(PLAINTEXT, plain), (CIPHERTEXT, &sealed)] {
        rows.write_all(of_one(bytes).map(|measured| row(scheme, measured)))?;
    }
    let mut other = plain.to_vec();
    other[plain.len() / 2] ^= 1;
    for (scheme, nonce) in [(NEW_NONCES, 1), (SAME_NONCE, 0)] {
        let other = encrypted(setup, &other, nonce);
        rows.write(row(scheme, ("NPCR, %".into(), Some(npcr(&sealed, &other)), NPCR)))?;
        rows.write(row(scheme, ("UACI, %".into(), Some(uaci(&sealed, &other)), UACI)))?;
    }
    Ok(())
}

fn of_one(bytes: &[u8]) -> impl Iterator<Item = Measured> {
    let histogram = [
        ("histogram: chi-square".into(), Some(chi_square(bytes)), CHI_SQUARE),
        ("entropy, bits a byte".into(), Some(entropy(bytes)), entropy_of_random(bytes.len())),
    ];
    let correlation =
        |neighbour: Neighbour| (format!("correlation, {}", neighbour.0), correlation(bytes, WIDTH, neighbour), 0.0);
    histogram.into_iter().chain(NEIGHBOURS.map(correlation))
}

fn encrypted(setup: &Setup, plain: &[u8], nonce: u64) -> Vec<u8> {
    let mut bytes = plain.to_vec();
    aes::ctr_xor(setup.levels.aes, &aes::Key::new(&random::<32>(16)), &random(100 + nonce), &mut bytes);
    bytes
}

/// A grey image like a photograph: a sky that darkens, hills, a sun, a brick wall, and grain. It is always the same.
pub fn image() -> Vec<u8> {
    let (grain, noise) = (random_vec(512, WIDTH * WIDTH), Noise(random(64)));
    let pixel = |i: usize| {
        let (x, y) = ((i % WIDTH) as f64, (i / WIDTH) as f64);
        let far_hills = 230.0 + 50.0 * noise.at(x / 90.0, 0.5);
        let near_hills = 300.0 + 70.0 * noise.at(x / 60.0, 7.5);
        let from_sun = ((x - 380.0).powi(2) + (y - 90.0).powi(2)).sqrt();
        let light = if (60.0..200.0).contains(&x) && (330.0..480.0).contains(&y) {
            let (row, gap) = ((y / 16.0).floor(), y % 16.0 < 2.0);
            if gap || (x + 16.0 * (row % 2.0)) % 32.0 < 2.0 { 90.0 } else { 150.0 + 20.0 * noise.at(x / 9.0, y / 9.0) }
        } else if y > near_hills {
            70.0 + 50.0 * noise.at(x / 12.0, y / 12.0) - (y - near_hills) / 8.0
        } else if y > far_hills {
            120.0 + 20.0 * noise.at(x / 40.0, y / 20.0)
        } else if from_sun < 36.0 {
            250.0
        } else {
            150.0 + 60.0 * (1.0 - y / 300.0) + 25.0 * noise.at(x / 70.0, y / 25.0) + 900.0 / (from_sun + 20.0)
        };
        (light + f64::from(grain[i] % 7) - 3.0).clamp(0.0, 255.0) as u8
    };
    (0..WIDTH * WIDTH).map(pixel).collect()
}

/// Smooth noise between -1 and 1: random values on a grid, with smooth steps between them.
struct Noise([u8; 4096]);

impl Noise {
    fn at(&self, x: f64, y: f64) -> f64 {
        let node = |x: f64, y: f64| {
            let (x, y) = (x.rem_euclid(64.0) as usize % 64, y.rem_euclid(64.0) as usize % 64);
            f64::from(self.0[64 * y + x]) / 127.5 - 1.0
        };
        let smooth = |t: f64| t * t * (3.0 - 2.0 * t);
        let (left, top) = (x.floor(), y.floor());
        let (u, v) = (smooth(x - left), smooth(y - top));
        let line = |y: f64| node(left, y) * (1.0 - u) + node(left + 1.0, y) * u;
        line(top) * (1.0 - v) + line(top + 1.0) * v
    }
}

/// A text of made-up words, some of them much more frequent than others, as in a language. It is always the same.
pub fn text() -> Vec<u8> {
    const SYLLABLES: [&str; 24] = [
        "an", "ber", "con", "de", "el", "for", "ga", "hi", "in", "ka", "lo", "mer", "na", "or", "pa", "que", "ri",
        "sa", "ti", "un", "ver", "wo", "ya", "ze",
    ];
    let mut random = Random::new(26);
    let mut random = |bound: u64| random.below(bound);
    let words: Vec<String> = (0..2000)
        .map(|i| (0..=(i % 4)).map(|_| SYLLABLES[random(SYLLABLES.len() as u64) as usize]).collect())
        .collect();
    let mut text = String::new();
    let (mut column, mut is_first) = (0, true);
    while text.len() < TEXT {
        // The product of two random numbers is more often small than large.
        let word = &words[(random(45) * random(45)) as usize];
        let word = if is_first { word[..1].to_uppercase() + &word[1..] } else { word.clone() };
        is_first = random(12) == 0;
        column += word.len() + 1;
        text += &word;
        text += match (is_first, column > 70) {
            (true, true) => ".\n",
            (true, false) => ". ",
            (false, true) => "\n",
            (false, false) => " ",
        };
        if column > 70 {
            column = 0;
        }
    }
    text.truncate(TEXT);
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_is_like_a_photograph_and_the_text_like_a_language() {
        let (image, text) = (image(), text());
        assert_eq!((image.len(), text.len()), (WIDTH * WIDTH, TEXT));
        for neighbour in NEIGHBOURS {
            let of = correlation(&image, WIDTH, neighbour).unwrap();
            assert!((0.9..0.999).contains(&of), "{neighbour:?}: {of}");
        }
        assert!((6.0..7.99).contains(&entropy(&image)), "{}", entropy(&image));
        assert!((3.5..5.0).contains(&entropy(&text)), "{}", entropy(&text));
        assert!(image == super::image() && text == super::text());
    }

    #[test]
    fn one_nonce_for_two_texts_shows_the_one_changed_byte() {
        let setup = Setup::of_tests("");
        let plain = image();
        let mut other = plain.clone();
        other[1000] ^= 1;
        let sealed = encrypted(&setup, &plain, 0);
        assert!((npcr(&sealed, &encrypted(&setup, &other, 1)) - NPCR).abs() < 0.1);
        let one = 100.0 / plain.len() as f64;
        assert_eq!(npcr(&sealed, &encrypted(&setup, &other, 0)), one);
    }
}
