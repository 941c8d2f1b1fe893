//! The parts of an age file in a slot that can be read without a key. They are checked before the crate `age` gets the
//! file.

use crate::point::is_useful;
use crate::pq;
use base64ct::{Base64Unpadded, Encoding};

/// A slot's age file has at most this many stanzas. One belongs to the recipient, but some plugins make several. The
/// crate `age` adds a meaningless one, so that no reader relies on knowing all types.
pub const MAX_STANZAS: usize = 8;

const MAGIC: &[u8] = b"age-encryption.org/v1\n";
/// Characters of a stanza's whole line of Base64.
const LINE: usize = 64;
/// Characters of the header's authentication code.
const MAC: usize = 43;
/// After the header: a nonce of 16 bytes, the 32 bytes of the file key, and a tag of 16 bytes.
const PAYLOAD: usize = 64;

/// Characters of what an `ssh-ed25519` stanza carries: a file key of 16 bytes and a tag.
const BODY: usize = 43;

/// The type of the stanzas for post-quantum keys in hardware, `age1tagpq1…`.
const TAGGED_PQ: &str = "mlkem768p256tag";

/// Why an age file cannot be in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotASlot {
    /// It is not a binary age file of version 1.
    #[error("not a binary age file")]
    Malformed,
    /// It has no stanza, or too many.
    #[error("not an age file with 1 to {MAX_STANZAS} stanzas")]
    Stanzas,
    /// It is encrypted with a passphrase.
    #[error("an age file with a passphrase")]
    Passphrase,
    /// Its payload does not have the length of a file key.
    #[error("an age file whose payload is not a file key of 32 bytes")]
    Payload,
}

/// The stanzas of an age file that may hold a file key. They are not authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline<'a> {
    stanzas: Vec<Stanza<'a>>,
}

/// One stanza: the age file's key for one recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stanza<'a> {
    /// Its first line, without the arrow.
    head: &'a str,
    /// All of it, without the arrow, and with the end of the last line.
    text: &'a str,
}

impl<'a> Outline<'a> {
    /// Parses a slot's age file, in time proportional to its length.
    ///
    /// # Errors
    /// [`NotASlot`] says why the file cannot be in a slot.
    pub fn of(file: &'a [u8]) -> Result<Self, NotASlot> {
        let mut rest = file.strip_prefix(MAGIC).ok_or(NotASlot::Malformed)?;
        let mut stanzas = Vec::new();
        while let Some(begun) = rest.strip_prefix(b"-> ") {
            if stanzas.len() == MAX_STANZAS {
                return Err(NotASlot::Stanzas);
            }
            let stanza = Stanza::of(begun).ok_or(NotASlot::Malformed)?;
            rest = &begun[stanza.text.len()..];
            stanzas.push(stanza);
        }
        let end = rest.strip_prefix(b"--- ").ok_or(NotASlot::Malformed)?;
        let (mac, payload) = line(end).ok_or(NotASlot::Malformed)?;
        if mac.len() != MAC || !mac.iter().all(is_base64) {
            return Err(NotASlot::Malformed);
        }
        if stanzas.is_empty() {
            return Err(NotASlot::Stanzas);
        }
        if stanzas.iter().any(|stanza| stanza.kind() == "scrypt") {
            return Err(NotASlot::Passphrase);
        }
        if payload.len() != PAYLOAD {
            return Err(NotASlot::Payload);
        }
        Ok(Self { stanzas })
    }

    /// Whether it is for a post-quantum key of age.
    #[must_use]
    pub fn is_post_quantum(&self) -> bool {
        self.stanzas.iter().any(|stanza| [pq::KIND, TAGGED_PQ].contains(&stanza.kind()))
    }

    /// The stanzas in their order.
    #[must_use]
    pub fn stanzas(&self) -> &[Stanza<'a>] {
        &self.stanzas
    }
}

impl<'a> Stanza<'a> {
    /// The stanza at the beginning of the text. Its arrow is already removed.
    fn of(begun: &'a [u8]) -> Option<Self> {
        let (head, mut rest) = line(begun)?;
        let is_argument = |argument: &[u8]| !argument.is_empty() && argument.iter().all(u8::is_ascii_graphic);
        if !head.split(|byte| *byte == b' ').all(is_argument) {
            return None;
        }
        // The last line of Base64 is short, or empty.
        loop {
            let (data, behind) = line(rest)?;
            if data.len() > LINE || !data.iter().all(is_base64) {
                return None;
            }
            rest = behind;
            if data.len() < LINE {
                break;
            }
        }
        let text = &begun[..begun.len() - rest.len()];
        Some(Self { head: str::from_utf8(head).ok()?, text: str::from_utf8(text).ok()? })
    }

    /// Its type: `X25519`, `ssh-ed25519`, `ssh-rsa`, or a plugin's.
    #[must_use]
    pub fn kind(&self) -> &'a str {
        self.head.split(' ').next().unwrap_or_default()
    }

    /// The arguments after the type. The first argument of an SSH stanza is a tag of the key.
    pub fn arguments(&self) -> impl Iterator<Item = &'a str> {
        self.head.split(' ').skip(1)
    }

    /// Whether a stanza for an SSH key has the form that age gives it. The crate ignores further arguments, and takes
    /// shares of low order, whose secret everybody knows: RFC 7748, section 6.1.
    pub(crate) fn is_of_ssh(&self) -> bool {
        let arguments: Vec<_> = self.arguments().collect();
        match (self.kind(), &arguments[..]) {
            ("ssh-rsa", [_]) => true,
            ("ssh-ed25519", [_, share]) => {
                let mut point = [0; 32];
                let is_share = Base64Unpadded::decode(share, &mut point).is_ok_and(|share| share.len() == 32);
                let body = self.text.split_once('\n').map_or("", |(_, body)| body.trim_end());
                is_share && body.len() == BODY && is_useful(point)
            }
            _ => false,
        }
    }

    /// Whether it is meaningless, and exists only so that readers do not rely on knowing all types.
    #[must_use]
    pub fn is_grease(&self) -> bool {
        self.kind().ends_with("-grease")
    }

    /// Its type, arguments and Base64, as plugins get them.
    pub(crate) fn text(&self) -> &'a str {
        self.text
    }
}

/// The first line, without its end, and what follows.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

fn is_base64(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(stanzas: &str, payload: usize) -> Vec<u8> {
        let mac = "m".repeat(MAC);
        [format!("age-encryption.org/v1\n{stanzas}--- {mac}\n").into_bytes(), vec![0; payload]].concat()
    }

    const ONE: &str = "-> X25519 abc\nAAAA\n";

    #[test]
    fn stanzas_are_parsed() {
        let whole = format!("{ONE}-> x-grease\n\n-> ssh-rsa tag\n{}\n{}\nAA\n", "B".repeat(64), "C".repeat(64));
        let bytes = file(&whole, 64);
        let found = Outline::of(&bytes).unwrap();
        let kinds: Vec<_> = found.stanzas().iter().map(Stanza::kind).collect();
        assert_eq!(kinds, ["X25519", "x-grease", "ssh-rsa"]);
        assert_eq!(found.stanzas()[2].arguments().collect::<Vec<_>>(), ["tag"]);
        assert_eq!(found.stanzas()[0].text(), "X25519 abc\nAAAA\n");
        assert_eq!(found.stanzas().iter().filter(|stanza| stanza.is_grease()).count(), 1);
    }

    #[test]
    fn files_that_cannot_be_in_a_slot_are_refused() {
        let of = |stanzas: &str, payload| Outline::of(&file(stanzas, payload)).map(drop);
        assert_eq!(of(ONE, 64), Ok(()));
        assert_eq!(of(&ONE.repeat(MAX_STANZAS), 64), Ok(()));
        assert_eq!(of(&ONE.repeat(MAX_STANZAS + 1), 64), Err(NotASlot::Stanzas));
        assert_eq!(of("", 64), Err(NotASlot::Stanzas));
        assert_eq!(of("-> scrypt salt 10\nAAAA\n", 64), Err(NotASlot::Passphrase));
        assert_eq!(of(&format!("{ONE}-> scrypt salt 10\nAAAA\n"), 64), Err(NotASlot::Passphrase));
        for payload in [0, 32, 63, 65, 128] {
            assert_eq!(of(ONE, payload), Err(NotASlot::Payload), "{payload}");
        }
        let long = "A".repeat(65);
        let malformed = [
            "-> \nAAAA\n",
            "->  X25519\nAAAA\n",
            "-> X25519 \nAAAA\n",
            "-> X25519  a\nAAAA\n",
            "-> X25519\ta\nAAAA\n",
            "-> X25519\nAA=A\n",
            "-> X25519\r\nAAAA\n",
            "-> X25519\n",
            "X25519\nAAAA\n",
            &format!("-> X25519\n{long}\n"),
        ];
        for stanzas in malformed {
            assert_eq!(of(stanzas, 64), Err(NotASlot::Malformed), "{stanzas:?}");
        }
    }

    #[test]
    fn stanzas_of_ssh_have_the_form_of_age() {
        let is_of_ssh = |stanza: &str| Outline::of(&file(stanza, 64)).unwrap().stanzas()[0].is_of_ssh();
        // The base point, the point 0 and one of order 8, of RFC 7748's curve.
        let base = "CQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let zero = "A".repeat(43);
        let eighth = "4Ot6fDtBuK4WVuP68Z/EatoJjeucMrH9hmIFFl9JuAA";
        let ed25519 = |arguments: &str, body: usize| format!("-> ssh-ed25519 {arguments}\n{}\n", "B".repeat(body));
        assert!(is_of_ssh(&ed25519(&format!("tag {base}"), 43)));
        for share in [&zero, eighth, &base[..42], &format!("{base}A"), "!"] {
            assert!(!is_of_ssh(&ed25519(&format!("tag {share}"), 43)), "{share}");
        }
        assert!(!is_of_ssh(&ed25519("tag", 43)) && !is_of_ssh(&ed25519(&format!("tag {base} more"), 43)));
        assert!(!is_of_ssh(&ed25519(&format!("tag {base}"), 42)) && !is_of_ssh(&ed25519(&format!("tag {base}"), 44)));
        assert!(is_of_ssh("-> ssh-rsa tag\nAAAA\n"));
        assert!(!is_of_ssh("-> ssh-rsa tag more\nAAAA\n") && !is_of_ssh("-> ssh-rsa\nAAAA\n"));
    }

    #[test]
    fn prefixes_and_altered_first_lines_are_refused() {
        let whole = file(ONE, 64);
        for len in 0..whole.len() {
            assert!(Outline::of(&whole[..len]).is_err(), "{len}");
        }
        for at in 0..MAGIC.len() {
            let mut altered = whole.clone();
            altered[at] ^= 1;
            assert_eq!(Outline::of(&altered), Err(NotASlot::Malformed), "{at}");
        }
        assert_eq!(Outline::of(b"-----BEGIN AGE ENCRYPTED FILE-----\n"), Err(NotASlot::Malformed));
    }
}
