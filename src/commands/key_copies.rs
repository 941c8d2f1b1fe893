//! Copies of keys outside the keyring: raw bytes, text, and all keys in one file, which a password may protect.

use phalanx_core::format::Header;
use phalanx_core::{Error as CoreError, SecretKey, key_text};
use phalanx_host::Error;
use phalanx_host::Keyring;
use phalanx_host::args::{KeyArgs, OpenKeys};
use phalanx_host::failure::{self, Code, Failure, Outcome};
use phalanx_host::file::{self, Existing, Made, Output, unprotected_name};
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::{complain_with, shown};
use phalanx_host::paths::is_dash;
use phalanx_host::secret_files;
use phalanx_host::secret_files::damaged;
use phalanx_host::secrets;
use phalanx_host::stdio;
use phalanx_host::verbosity::Verbosity;
use phalanx_system::files::is_open_to_others;
use std::fs::{File, Metadata};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The longest list of keys, and the longest file of a protected list: protecting adds less than 1 MiB.
const LONGEST_LIST: usize = 4 << 20;
const LONGEST_PROTECTED: usize = LONGEST_LIST + (1 << 20);
/// A file of an identity is read so far, to be named: it is longer than one key.
const LONGEST_IDENTITY: usize = 64 << 10;
/// All secrets are in memory that does not grow, because growing would leave copies in freed memory.
type Secret = Zeroizing<Vec<u8>>;

/// How a copy is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Raw,
    Text,
    /// With a password.
    Protected,
}

/// A copy that is being made.
pub enum KeyCopy {
    /// The output, and the outputs of this run if it may replace an existing file.
    File(Output, PathBuf, Option<Box<Made>>),
    Stdout(File),
}

impl KeyCopy {
    /// Begins a file that only its user can read, or goes to standard output. Only text may go to a terminal.
    /// It does not replace a file of `keys`.
    pub fn begin(output: Option<PathBuf>, force: bool, form: Form, keys: &KeyFiles) -> Outcome<Self> {
        let Some(path) = output.filter(|path| !is_dash(path)) else {
            if form != Form::Text && io::stdout().is_terminal() {
                return Err(
                    Failure::usage("these bytes are not for a terminal").hint("name an --output, or give --text")
                );
            }
            let stdout = stdio::output().map_err(Failure::at_stdout)?;
            let checked = keys.made().check_open(&stdout);
            checked.map_err(|e| Failure::at_output(Path::new("standard output"), e))?;
            if form != Form::Protected && stdout.metadata().is_ok_and(|meta| meta.is_file() && is_open(&stdout, &meta))
            {
                let line = "warning: other users may read the file that standard output goes to, and so the key";
                complain_with(line, Some("--output makes a file that only you can read"));
            }
            return Ok(KeyCopy::Stdout(stdout));
        };
        if form != Form::Protected && unprotected_name(path.file_name().unwrap_or_default()).is_some() {
            let line = format!("{}: the copy would not be protected, as its name says", shown(&path));
            return Err(Failure::usage(line).hint("take another name, or --all --password"));
        }
        let made = force.then(|| Box::new(keys.made()));
        let output = Output::create(&path, existing(made.as_deref())).map_err(|e| Failure::at_output(&path, e))?;
        Ok(KeyCopy::File(output, path, made))
    }

    /// Begins a file of text that only its user can read. An existing one is never replaced: what its key opens would be lost.
    pub fn begin_new(path: PathBuf, keys: &KeyFiles) -> Outcome<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(
                Failure::at_output(&path, Error::Exists).hint("take another name: what its key opens would be lost")
            );
        }
        Self::begin(Some(path), false, Form::Text, keys)
    }

    /// Writes it.
    pub fn finish(self, bytes: &[u8]) -> Outcome {
        match self {
            KeyCopy::Stdout(mut stdout) => {
                stdout.write_all(bytes).map_err(Failure::at_stdout)?;
                file::keep_output().map_err(|e| Failure::at(Path::new("standard output"), e))
            }
            KeyCopy::File(output, path, made) => {
                let at_path = |e| Failure::at(&path, e);
                output.file().write_all(bytes).map_err(|e| at_path(Error::write(e)))?;
                output.commit(existing(made.as_deref()), true).map(drop).map_err(at_path)
            }
        }
    }
}

/// Whether others than the user may read an opened file.
fn is_open(file: &File, meta: &Metadata) -> bool {
    !file::is_for_user_alone(file, meta) && is_open_to_others(Path::new(""), meta)
}

fn existing(made: Option<&Made>) -> Existing<'_> {
    made.map_or(Existing::Keep, Existing::Replace)
}

/// A key's text and a newline.
pub fn line(key: &SecretKey) -> Secret {
    let mut line = Zeroizing::new(Vec::with_capacity(key_text::LEN + 1));
    line.extend_from_slice(key_text::write(key).as_bytes());
    line.push(b'\n');
    line
}

/// All keys of the keyring. If one of them cannot be read, this fails, because a copy without it would be taken for
/// complete.
pub fn list(keyring: &Keyring) -> Outcome<Secret> {
    let names = keyring.names()?;
    if names.is_empty() {
        return Err(damaged(keyring.dir(), "the keyring holds no key").hint("phalanx key new makes one"));
    }
    let len = names.iter().map(|name| name.len() + 2 + key_text::LEN + 1).sum();
    if len > LONGEST_LIST {
        let line = format!("{} keys are more than one file takes", names.len());
        return Err(Failure::new(Code::Other, line).hint("export them one by one"));
    }
    let mut list = Zeroizing::new(Vec::with_capacity(len));
    failure::each(&names, |name| {
        let key = keyring.load(name)?;
        list.extend_from_slice(name.as_bytes());
        list.extend_from_slice(b"  ");
        list.extend_from_slice(&line(&key));
        Ok(())
    })?;
    Ok(list)
}

const ALL: &str = "--all takes a file of many keys";

/// What to do with a file that is no key of the keyring.
fn other_kind(bytes: &[u8]) -> &'static str {
    let has = |text: &[u8]| bytes.windows(text.len()).any(|found| found == text);
    let is_identity = [&b"AGE-SECRET-KEY-"[..], b"AGE-PLUGIN-", b" PRIVATE KEY-----"].into_iter().any(has);
    if is_identity { "it holds an identity, which --identity takes where files are opened" } else { ALL }
}

/// One key, from raw bytes or text.
pub fn read(path: &Path) -> Outcome<SecretKey> {
    let bytes = read_file(path, LONGEST_IDENTITY, "one key", ALL)?;
    if bytes.len() > key_text::LONGEST {
        return Err(damaged(path, "it is longer than one key").hint(other_kind(&bytes)));
    }
    let key = match key_text::is_meant(&bytes) {
        // 32 bytes may also be a text that was cut short.
        true => key_text::read(&bytes).map_err(|e| Failure::at(path, CoreError::from(e))),
        false => SecretKey::from_slice(&bytes)
            .ok_or_else(|| damaged(path, "neither 32 raw bytes nor one key's text").hint(other_kind(&bytes))),
    };
    warn_of_readers(path);
    key
}

/// Many keys with their names, from lines of text that may be protected.
pub fn read_all(
    path: &Path,
    password_file: Option<PathBuf>,
    verbosity: Verbosity,
) -> Outcome<Vec<(String, SecretKey)>> {
    let at_path = |e| Failure::at(path, e);
    let bytes = read_file(path, LONGEST_PROTECTED, "any file of keys", "name a file that export has written")?;
    if let Err(CoreError::NotPhalanx) = Header::read(&mut &bytes[..]) {
        warn_of_readers(path);
        return parse(path, &bytes);
    }
    let keys = KeyArgs { password_file, ..KeyArgs::default() };
    let opener = secrets::opener(&OpenKeys { keys, ..OpenKeys::default() }, verbosity)?;
    parse(path, &phalanx_core::unprotect(&bytes, &opener).map_err(at_path)?)
}

/// All lines, or an error: one bad line shows that the file is not as it was written.
fn parse(path: &Path, list: &[u8]) -> Outcome<Vec<(String, SecretKey)>> {
    let lines = || list.split(|b| *b == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty());
    let mut keys = Vec::with_capacity(lines().count());
    for (i, line) in lines() {
        // None of these messages repeats the line, because it may hold a key where its name should be.
        let at_line = |why: &str| damaged(path, &format!("line {}: {why}", i + 1));
        let line = line.trim_ascii();
        let (name, text) = line.split_at(line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len()));
        let name = str::from_utf8(name).ok().filter(|name| Keyring::is_name(name));
        let name = name.ok_or_else(|| at_line("it does not begin with a key's name"))?;
        let key = key_text::read(text).map_err(|e| at_line(&e.to_string()))?;
        keys.push((name.to_owned(), key));
    }
    if keys.is_empty() { Err(damaged(path, "it holds no key")) } else { Ok(keys) }
}

/// Reads a whole file or pipe, unless it has more than this many bytes.
fn read_file(path: &Path, longest: usize, what: &str, hint: &str) -> Outcome<Secret> {
    let mut file = secret_files::open(path).map_err(|e| Failure::at(path, e))?;
    let bytes = secret_files::read_whole(path, &mut file, longest)?;
    bytes.ok_or_else(|| damaged(path, &format!("it is longer than {what}")).hint(hint))
}

/// Warns if others may read the file: the key is no safer in the keyring than it was before.
fn warn_of_readers(path: &Path) {
    let is_open = |meta: std::fs::Metadata| meta.is_file() && is_open_to_others(path, &meta);
    if !is_dash(path) && path.metadata().is_ok_and(is_open) {
        let path = shown(path);
        complain_with(
            format!("warning: {path}: other users may have read this key"),
            Some(&format!("chmod 600 {path}")),
        );
    }
}
