//! Keys as text that a person can print, read out and type: `docs/design-format.md`, “Key text”.

use crate::Error;
pub use crate::error::Unreadable;
use crate::keys::key::SecretKey;
use base32ct::{Base32UpperUnpadded, Encoding};
use phalanx_kernels::keccak::Kmac256;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// The prefix of every text.
pub const PREFIX: &str = "phalanx-key-1-";
/// The prefix as it is compared: without hyphens, in capitals.
const BARE_PREFIX: &[u8] = b"PHALANXKEY1";
/// Bytes of the checksum.
const CHECK: usize = 5;
/// The key, then the checksum.
const BYTES: usize = 32 + CHECK;
/// The Base32 characters of these bytes.
const CHARS: usize = 60;
/// Characters between two hyphens.
const GROUP: usize = 5;
/// The length of a text as [`write()`] gives it.
pub const LEN: usize = PREFIX.len() + CHARS + CHARS / GROUP - 1;
/// The longest text that is read. This allows more separators than anybody types.
pub const LONGEST: usize = 1024;

/// The key as text of [`LEN`] characters, without a line end.
#[must_use]
pub fn write(key: &SecretKey) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(LEN));
    let chars = encode(key);
    text.push_str(PREFIX);
    for (i, c) in chars.iter().enumerate() {
        if i > 0 && i % GROUP == 0 {
            text.push('-');
        }
        // They are ASCII. Without the mask, a branch would ask how many bytes the character takes in UTF-8.
        text.push(char::from(*c & 0x7f));
    }
    text
}

/// The key of a text. Capital and small letters are equal, hyphens and white space are ignored, and 0, 1 and 8 are read
/// as O, I and B, which they resemble.
///
/// # Errors
/// [`Unreadable`] says what is wrong with the text.
pub fn read(text: &[u8]) -> Result<SecretKey, Unreadable> {
    let mut bare = Zeroizing::new([0; BARE_PREFIX.len() + CHARS]);
    let mut len = 0;
    for c in text.iter().filter(|c| !c.is_ascii_whitespace() && **c != b'-') {
        if let Some(place) = bare.get_mut(len) {
            *place = c.to_ascii_uppercase();
        }
        len += 1;
    }
    let (prefix, chars) = bare.split_at_mut(BARE_PREFIX.len());
    if prefix != BARE_PREFIX {
        return Err(Unreadable::Prefix);
    }
    if len != BARE_PREFIX.len() + CHARS {
        return Err(Unreadable::Length(len - BARE_PREFIX.len()));
    }
    for (i, c) in chars.iter_mut().enumerate() {
        *c = match *c {
            b'0' => b'O',
            b'1' => b'I',
            b'8' => b'B',
            c => c,
        };
        if !matches!(c, b'A'..=b'Z' | b'2'..=b'7') {
            return Err(Unreadable::Character(i + 1));
        }
    }
    let mut bytes = Zeroizing::new([0; BYTES]);
    Base32UpperUnpadded::decode(&*chars, &mut *bytes).map_err(|_| Unreadable::Checksum)?;
    let key = SecretKey::from_slice(&bytes[..32]).ok_or(Unreadable::Checksum)?;
    // Compared as characters: the last one has bits that belong to no byte.
    if encode(&key)[..].ct_eq(chars).into() { Ok(key) } else { Err(Unreadable::Checksum) }
}

impl SecretKey {
    /// Reads a key of exactly 32 raw bytes; `None` if the input has another length.
    ///
    /// # Errors
    /// If reading failed, and [`Error::KeyText`] if these bytes are the beginning of a key's text whose rest is
    /// missing.
    pub fn read(input: &mut impl std::io::Read) -> crate::Result<Option<Self>> {
        let mut bytes = Zeroizing::new([0; 33]);
        let len = crate::io::read_full(input, &mut *bytes)?;
        if len <= 32 && is_meant(&bytes[..len]) {
            return read(&bytes[..len]).map(Some).map_err(Error::KeyText);
        }
        Ok(Self::from_slice(&bytes[..len]))
    }
}

/// Whether a text begins like a key's text, whatever follows.
pub fn is_meant(text: &[u8]) -> bool {
    let bare = text.iter().filter(|c| !c.is_ascii_whitespace() && **c != b'-').map(u8::to_ascii_uppercase);
    bare.take(BARE_PREFIX.len()).eq(BARE_PREFIX.iter().copied())
}

/// The Base32 characters of the key and its checksum.
fn encode(key: &SecretKey) -> Zeroizing<[u8; CHARS]> {
    let mut bytes = Zeroizing::new([0; BYTES]);
    bytes[..32].copy_from_slice(key.expose());
    let check = Zeroizing::new(Kmac256::new(key.expose(), b"phalanx v1 key text").tag(b""));
    bytes[32..].copy_from_slice(&check[..CHECK]);
    let mut chars = Zeroizing::new([0; CHARS]);
    let encoded = Base32UpperUnpadded::encode(&*bytes, &mut *chars).map_or(0, str::len);
    debug_assert_eq!(encoded, CHARS);
    chars
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> SecretKey {
        SecretKey::from_slice(&std::array::from_fn::<u8, 32, _>(|i| i as u8)).unwrap()
    }

    fn text() -> Vec<u8> {
        write(&key()).as_bytes().to_vec()
    }

    /// The example of `docs/design-format.md`.
    #[test]
    fn the_text_is_that_of_the_document() {
        let text = write(&key());
        assert_eq!(*text, "phalanx-key-1-AAAQE-AYEAU-DAOCA-JBIFQ-YDIOB-4IBCE-QTCQK-RMFYY-DENBW-HA5DY-PWQAM-QBYAQ");
        assert!(text.len() == LEN && LEN <= LONGEST && text.starts_with(PREFIX));
        let document = include_str!("../../../../docs/design-format.md");
        assert!(document.contains(&*text));
    }

    #[test]
    fn case_and_separators_and_digits_like_letters_do_not_matter() {
        let text = String::from_utf8(text()).unwrap();
        let typed = [
            text.to_lowercase(),
            text.replace('-', ""),
            text.replace('-', " - "),
            format!("\n  {text}\r\n"),
            text[..PREFIX.len()].to_owned()
                + &text[PREFIX.len()..].replace('O', "0").replace('I', "1").replace('B', "8"),
        ];
        for typed in typed {
            assert!(read(typed.as_bytes()).unwrap().matches(&key()), "{typed}");
            assert!(is_meant(typed.as_bytes()));
        }
    }

    #[test]
    fn any_wrong_or_exchanged_characters_are_found() {
        let text = text();
        let places = || (PREFIX.len()..LEN).filter(|i| text[*i] != b'-');
        // Miri takes a few places.
        for i in places().step_by(if cfg!(miri) { 25 } else { 1 }) {
            for c in b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".iter().copied().step_by(if cfg!(miri) { 9 } else { 1 }) {
                let mut wrong = text.clone();
                wrong[i] = c;
                assert!(c == text[i] || read(&wrong).unwrap_err() == Unreadable::Checksum, "{i} {c}");
            }
            for j in places().step_by(if cfg!(miri) { 25 } else { 1 }).filter(|j| text[*j] != text[i]) {
                let mut wrong = text.clone();
                wrong.swap(i, j);
                assert_eq!(read(&wrong).unwrap_err(), Unreadable::Checksum, "{i} {j}");
            }
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let text = text();
        assert_eq!(read(&text[..LEN - 1]).unwrap_err(), Unreadable::Length(59));
        assert_eq!(read(&[&text[..], b"A"].concat()).unwrap_err(), Unreadable::Length(61));
        assert_eq!(read(&text[1..]).unwrap_err(), Unreadable::Prefix);
        assert_eq!(read(b"").unwrap_err(), Unreadable::Prefix);
        assert_eq!(read(b"phalanx-key-1").unwrap_err(), Unreadable::Length(0));
        let mut wrong = text.clone();
        wrong[PREFIX.len() + 1] = b'9';
        assert_eq!(read(&wrong).unwrap_err(), Unreadable::Character(2));
    }
}
