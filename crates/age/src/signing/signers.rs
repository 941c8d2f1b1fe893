//! Whose signatures count: the files `allowed_signers` of `ssh-keygen`, and lists of revoked keys.

use super::public::{NotAKey, PublicKey};
use super::{NAMESPACE, dates, patterns};

/// Those who may sign.
#[derive(Clone, Debug, Default)]
pub struct Signers {
    entries: Vec<Entry>,
    revoked: Vec<PublicKey>,
}

/// A key that may sign, and when and what for.
#[derive(Clone, Debug)]
struct Entry {
    line: usize,
    principals: String,
    key: PublicKey,
    options: Options,
}

/// What stands before a key.
#[derive(Clone, Debug, Default)]
struct Options {
    is_authority: bool,
    namespaces: Option<String>,
    after: Option<i64>,
    before: Option<i64>,
    /// Whether a key in hardware need not be touched to sign.
    needs_no_touch: bool,
}

/// What was read of a file of signers.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Those who may sign.
    pub signers: Signers,
    /// The lines that were left out, and why.
    pub skipped: Vec<(usize, String)>,
}

/// Why a file is not one of signers, or of revoked keys, with the number of the line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignersError {
    /// The line does not end in a key.
    #[error("line {0}: {1}")]
    Key(usize, NotAKey),
    /// The line has an option that is not known, or malformed.
    #[error("line {0}: an option is not known or not well-formed")]
    Option(usize),
    /// It is a list of revoked keys in the form of bytes.
    #[error("a revocation list of ssh-keygen -k is not supported: a list of public keys, one a line, is")]
    Binary,
    /// It has no key.
    #[error("no key is in it")]
    None,
}

/// Why the signatures of a key do not count. The number is that of the line that has the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAllowed {
    /// The key of no signer.
    #[error("no line has this key")]
    Unknown,
    /// It is revoked.
    #[error("the key is revoked")]
    Revoked,
    /// Its time is over.
    #[error("line {0} was valid until an earlier time")]
    Expired(usize),
    /// Its time has not come.
    #[error("line {0} is not valid yet")]
    NotYet(usize),
    /// It is for other purposes.
    #[error("line {0} is for other namespaces than phalanx")]
    Namespace(usize),
    /// It is in hardware, and was not touched.
    #[error("nobody has touched the key, and line {0} does not say no-touch-required")]
    Untouched(usize),
    /// It is the key of an authority, which signs certificates.
    #[error("line {0} is for certificates, which are not supported")]
    Authority(usize),
}

impl Signers {
    /// Reads a file of signers.
    ///
    /// # Errors
    /// [`SignersError`] at the first line that is malformed. Keys of kinds that are not supported are left out.
    pub fn parse(text: &str) -> Result<Listing, SignersError> {
        let (mut entries, mut skipped) = (Vec::new(), Vec::new());
        for (line, text) in lines(text) {
            match entry(line, text) {
                Ok(entry) => entries.push(entry),
                Err(SignersError::Key(_, why @ (NotAKey::Kind(_) | NotAKey::Certificate))) => {
                    skipped.push((line, why.to_string()));
                }
                Err(e) => return Err(e),
            }
        }
        if entries.is_empty() && skipped.is_empty() {
            return Err(SignersError::None);
        }
        Ok(Listing { signers: Self { entries, revoked: Vec::new() }, skipped })
    }

    /// Reads a list of revoked keys: one on each line, as in a file `.pub`. They do not count any more, whoever lists them.
    ///
    /// # Errors
    /// [`SignersError`] at the first line that is none: a key that is overlooked here would count.
    pub fn revoke(&mut self, list: &[u8]) -> Result<(), SignersError> {
        if list.starts_with(b"SSHKRL\n") {
            return Err(SignersError::Binary);
        }
        let text = str::from_utf8(list).map_err(|_| SignersError::Key(1, NotAKey::Malformed))?;
        for (line, text) in lines(text) {
            let (key, _) = PublicKey::parse(text).map_err(|e| SignersError::Key(line, e))?;
            self.revoked.push(key);
        }
        Ok(())
    }

    /// Whose key this is, if its signatures count now, in seconds since 1970: what the file calls its principals. `touched` is what
    /// [`Signature::was_touched`](super::Signature::was_touched) says of the signature.
    ///
    /// # Errors
    /// [`NotAllowed`] if they do not count.
    pub fn name(&self, key: &PublicKey, touched: bool, now: i64) -> Result<&str, NotAllowed> {
        if self.revoked.contains(key) {
            return Err(NotAllowed::Revoked);
        }
        let mut why = NotAllowed::Unknown;
        for entry in self.entries.iter().filter(|entry| entry.key == *key) {
            match entry.check(touched, now) {
                Ok(()) => return Ok(&entry.principals),
                Err(e) => why = e,
            }
        }
        Err(why)
    }
}

impl Entry {
    fn check(&self, touched: bool, now: i64) -> Result<(), NotAllowed> {
        let Options { is_authority, namespaces, after, before, needs_no_touch } = &self.options;
        match () {
            () if *is_authority => Err(NotAllowed::Authority(self.line)),
            () if namespaces.as_ref().is_some_and(|list| !patterns::list_matches(list, NAMESPACE)) => {
                Err(NotAllowed::Namespace(self.line))
            }
            () if after.is_some_and(|after| now < after) => Err(NotAllowed::NotYet(self.line)),
            () if before.is_some_and(|before| now > before) => Err(NotAllowed::Expired(self.line)),
            () if !touched && !needs_no_touch => Err(NotAllowed::Untouched(self.line)),
            () => Ok(()),
        }
    }
}

/// The lines that are neither empty nor comments, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Reads a line: principals, perhaps options, a key, and perhaps a comment.
fn entry(line: usize, text: &str) -> Result<Entry, SignersError> {
    let malformed = || SignersError::Key(line, NotAKey::Malformed);
    let (principals, rest) = match text.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').ok_or_else(malformed)?,
        None => text.split_once([' ', '\t']).ok_or_else(malformed)?,
    };
    let rest = rest.trim_start();
    if principals.is_empty() || principals.chars().any(char::is_control) {
        return Err(malformed());
    }
    let (options, key) = match PublicKey::parse(rest) {
        Err(NotAKey::Malformed) => {
            let end = end_of_options(rest).ok_or_else(malformed)?;
            let is_key = ["ssh-", "ecdsa-", "sk-"].iter().any(|kind| rest.starts_with(kind));
            let wrong = || if is_key { malformed() } else { SignersError::Option(line) };
            let options = options(&rest[..end]).ok_or_else(wrong)?;
            (options, PublicKey::parse(rest[end..].trim_start()))
        }
        key => (Options::default(), key),
    };
    let (key, _) = key.map_err(|e| SignersError::Key(line, e))?;
    Ok(Entry { line, principals: principals.to_owned(), key, options })
}

/// Where the options end: at the first space that is not in quotes.
fn end_of_options(text: &str) -> Option<usize> {
    let mut is_quoted = false;
    text.bytes().position(|byte| {
        is_quoted ^= byte == b'"';
        !is_quoted && (byte == b' ' || byte == b'\t')
    })
}

/// Reads options, separated by commas. Values are in quotes. `None` if one is not known, malformed, or given twice.
fn options(mut text: &str) -> Option<Options> {
    let mut options = Options::default();
    loop {
        let end = text.find([',', '=']).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let name = name.to_ascii_lowercase();
        let rest = if let Some(rest) = rest.strip_prefix("=\"") {
            let (value, rest) = rest.split_once('"')?;
            let is_new = match &*name {
                "namespaces" => options.namespaces.replace(value.to_owned()).is_none(),
                "valid-after" => options.after.replace(dates::after(value)?).is_none(),
                "valid-before" => options.before.replace(dates::before(value)?).is_none(),
                _ => false,
            };
            is_new.then_some(rest)?
        } else {
            let flag = match &*name {
                "cert-authority" => &mut options.is_authority,
                "no-touch-required" => &mut options.needs_no_touch,
                _ => return None,
            };
            (!std::mem::replace(flag, true)).then_some(rest)?
        };
        match rest.strip_prefix(',') {
            Some(rest) => text = rest,
            None => return rest.is_empty().then_some(options),
        }
    }
}
