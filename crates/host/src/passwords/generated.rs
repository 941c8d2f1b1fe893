//! Passwords of random words.
//!
//! The words are the large list of the Electronic Frontier Foundation (2016, <https://www.eff.org/dice>, CC BY 3.0 US).

use crate::failure::{Failure, Outcome};
use crate::file;
use crate::stdio;
use phalanx_core::{Error, Password};
use phalanx_system::stdio::output_file;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

const LIST: &str = include_str!("words.txt");
/// The number of words in the list, which is that of five dice.
const WORDS: u16 = 7776;
/// The number of words in a password: 77 bits.
const LEN: usize = 6;

/// Makes a password of six random words and prints it, once, on a line of standard output. If that is a file, the line is
/// on the disk then.
///
/// # Errors
/// If the system gives no random bytes, or if the line cannot be written.
pub fn generate() -> Outcome<Password> {
    let mut text = Zeroizing::new(String::with_capacity(LEN * 16));
    for i in 0..LEN {
        if i > 0 {
            text.push(' ');
        }
        text.push_str(LIST.lines().nth(usize::from(draw()?)).expect("the list has this many words"));
    }
    stdio::write_line(&text).map_err(Failure::at_stdout)?;
    file::keep_output().map_err(|e| Failure::at(Path::new("standard output"), e))?;
    Ok(Password::new(text.as_bytes().to_vec()))
}

/// Whether standard output is a file that protecting these inputs would replace or delete: one of them, one in them, or a
/// protected file.
pub fn would_be_lost(inputs: &[PathBuf]) -> bool {
    let Some(to) = output_file() else { return false };
    let holds = |input: &PathBuf| input.canonicalize().is_ok_and(|input| to.starts_with(input));
    to.extension().is_some_and(|end| end == "phx") || inputs.iter().any(holds)
}

/// A random number of a word.
fn draw() -> Outcome<u16> {
    loop {
        let mut bytes = Zeroizing::new([0; 2]);
        getrandom::fill(&mut *bytes).map_err(Error::Random)?;
        if let Some(word) = word_of(u16::from_le_bytes(*bytes)) {
            return Ok(word);
        }
    }
}

/// The word that a random number stands for. `None` for the largest numbers, which would make the first words likelier.
fn word_of(number: u16) -> Option<u16> {
    (number < u16::MAX / WORDS * WORDS).then_some(number % WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_the_words_of_five_dice() {
        let words: Vec<&str> = LIST.lines().collect();
        assert_eq!(words.len(), usize::from(WORDS));
        assert!(words.is_sorted() && words.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(words.iter().all(|word| (3..=9).contains(&word.len())));
        assert!(LIST.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '\n'));
    }

    #[test]
    fn all_words_are_equally_likely() {
        let mut counts = vec![0; usize::from(WORDS)];
        (0..=u16::MAX).filter_map(word_of).for_each(|word| counts[usize::from(word)] += 1);
        assert!(counts.iter().all(|count| *count == 8));
    }
}
