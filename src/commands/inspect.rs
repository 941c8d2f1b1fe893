//! `phalanx inspect`: the contents of the header, which are not authenticated before the file is opened.

mod names;

use super::volumes;
use crate::args::Inspect;
use crate::commands::key_names::{KeyName, KeyNames};
use names::{Known, Names};
use phalanx_age::Outline;
use phalanx_core::format::{Header, Layout, Slot};
use phalanx_core::tree::SignedText;
use phalanx_core::volume::CONFIG;
use phalanx_core::{Opener, Ways};
use phalanx_host::failure::{self, Failure, Outcome};
use phalanx_host::file::{Input, is_url, unprotected_name};
use phalanx_host::lines::{path_hex, shown};
use phalanx_host::paths::End;
use phalanx_host::say::{say, say_json};
use phalanx_host::secrets::{self, AtHand};
use phalanx_host::signatures::{NO_COMMITMENT, kind_of};
use phalanx_host::verbosity::Verbosity;
use phalanx_host::volumes::is_volume;
use phalanx_host::words::{count, size};
use phalanx_host::{Error, Result};
use serde::Serialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub fn run(args: Inspect, verbosity: Verbosity) -> Outcome {
    if args.signed_text {
        return signed_text(&args.paths[0]);
    }
    let inspection = Inspection {
        names: Names::read(&args.recipients_files)?,
        opener: args.opens().then(|| secrets::opener(&args.keys, verbosity)).transpose()?,
        keys: KeyNames::of_user(),
        json: args.json,
    };
    failure::each(&args.paths, |path: &PathBuf| {
        if is_url(path) {
            return inspection.one(path, false);
        }
        if is_volume(path) {
            return inspection.one(&path.join(CONFIG), false);
        }
        volumes::check(path)?;
        if !path.is_dir() {
            return inspection.one(path, false);
        }
        if !args.recursive {
            return Err(Failure::folder(path));
        }
        let mut seen = false;
        let done = each_within(path, &mut |file| {
            seen = true;
            inspection.one(file, true)
        });
        if done.is_ok() && !seen {
            return Err(Failure::nothing_protected(path));
        }
        done
    })
}

/// Prints what a signature of a file is made of. A manifest is known by its name.
fn signed_text(path: &Path) -> Outcome {
    let end = End::from(path.to_owned());
    let (input, path) = (end.open()?, end.path());
    let text = input.read_at().and_then(|stored| Ok(SignedText::read(&stored, kind_of(path), |_| {})?));
    match text.map_err(|e| Failure::at(path, e))? {
        Some(text) => text.to_string().lines().try_for_each(say),
        None => Err(Failure::usage(format!("{}: {NO_COMMITMENT}", shown(path)))),
    }
}

/// Calls `act` for all protected files and volumes in a folder, in the order of their names. Links are not followed.
fn each_within(dir: &Path, act: &mut dyn FnMut(&Path) -> Outcome) -> Outcome {
    let mut worst = None;
    let mut left = vec![(dir.to_owned(), true)];
    while let Some((path, is_folder)) = left.pop() {
        let done = match is_folder {
            true => entries(&path).map(|found| left.extend(found)).map_err(|e| Failure::at(&path, Error::read(e))),
            false => act(&path),
        };
        if let Err(failure) = done {
            failure.report();
            worst = worst.max(Some(failure.code()));
        }
    }
    worst.map_or(Ok(()), |code| Err(Failure::written(code)))
}

/// The folders and protected files in a folder, from the last name to the first, each with whether it is a folder. A
/// volume is represented by its config.
fn entries(dir: &Path) -> io::Result<Vec<(PathBuf, bool)>> {
    let mut found = Vec::new();
    let read = match fs::read_dir(dir) {
        // The path is too long for the system, so no file there could be opened by it.
        Err(e) if e.kind() == io::ErrorKind::InvalidFilename => return Ok(found),
        read => read?,
    };
    for entry in read {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            let is_volume = is_volume(&path);
            found.push((if is_volume { path.join(CONFIG) } else { path }, !is_volume));
        } else if kind.is_file() && unprotected_name(&entry.file_name()).is_some() {
            found.push((path, false));
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    Ok(found)
}

/// What is shown, and how.
struct Inspection {
    names: Option<Names>,
    opener: Option<Opener<AtHand>>,
    keys: KeyNames,
    json: bool,
}

impl Inspection {
    fn one(&self, path: &Path, on_one_line: bool) -> Outcome {
        let end = End::from(path.to_owned());
        let (input, path) = (end.open()?, end.path());
        let at_path = |e| Failure::at(path, e);
        let header = read(&input).map_err(|e| at_path(input.interrupted(e)))?;
        let layout = input
            .len()
            .map(|len| Layout::for_file(header.bytes().len(), header.suite(), header.chunk_log2(), len))
            .transpose()
            .map_err(|e| Failure::at(path, e))?;
        let ways = self.opener.as_ref().map(|opener| Ways::open(header.clone(), opener)).transpose();
        let ways = ways.map_err(|e| at_path(e.into()))?;
        let name = if self.json { path.to_string_lossy().into_owned() } else { shown(path) };
        let mut report = Report::new(name, &header, layout.as_ref(), &self.keys);
        report.path_hex = path_hex(path);
        report.rekey_interrupted = input.rekey_interrupted();
        if let Some(names) = &self.names {
            report.name_recipients(&header, names, ways.as_ref());
        }
        match (self.json, on_one_line) {
            (true, _) => say_json(&report),
            (false, true) => say(report.line()),
            (false, false) => report.lines().into_iter().try_for_each(say),
        }
    }
}

/// Reads the header. That of a file is read until it is the same twice, since another process may be writing it.
fn read(input: &Input) -> Result<Header> {
    const TIMES: usize = 3;
    let read = || input.source().and_then(|mut source| Ok(source.header()?));
    let mut header = read();
    if matches!(input, Input::File(_)) {
        for _ in 0..TIMES {
            let before = std::mem::replace(&mut header, read());
            let bytes = |header: &Result<Header>| header.as_ref().map_or(Vec::new(), |header| header.bytes().to_vec());
            if bytes(&header) == bytes(&before) {
                break;
            }
        }
    }
    header
}

/// Everything that can be seen without a key. The names of the fields are those of `--json`.
#[derive(Serialize)]
struct Report {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    version: u8,
    suite: u8,
    cipher: &'static str,
    header_bytes: usize,
    chunk_bytes: u64,
    /// Unknown for a pipe, like the next two.
    chunks: Option<u64>,
    plaintext_bytes: Option<u64>,
    file_bytes: Option<u64>,
    slots: Vec<SlotReport>,
    /// Whether a change of the slots may have been interrupted.
    rekey_interrupted: bool,
}

/// What a slot shows without a key.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum SlotReport {
    Padding {
        bytes: usize,
    },
    Password {
        memory_kib: u32,
        passes: u32,
        lanes: u8,
    },
    Key {
        id: String,
        name: Option<String>,
        /// Whether the whole keyring was looked at, and has it not.
        #[serde(skip)]
        is_missing: bool,
    },
    Age {
        stanzas: Vec<String>,
        bytes: usize,
        /// The recipients it is for, if the slot shows them and their names are known.
        #[serde(skip_serializing_if = "Option::is_none")]
        recipients: Option<Vec<Known>>,
    },
    Service {
        uri: String,
        bytes: usize,
    },
    Unknown {
        number: u8,
        bytes: usize,
    },
}

impl Report {
    fn new(path: String, header: &Header, layout: Option<&Layout>, keys: &KeyNames) -> Self {
        Self {
            path,
            path_hex: None,
            version: 1,
            suite: header.suite().id(),
            cipher: header.suite().name(),
            header_bytes: header.bytes().len(),
            chunk_bytes: 1 << header.chunk_log2(),
            chunks: layout.map(Layout::chunks),
            plaintext_bytes: layout.map(Layout::plaintext_len),
            file_bytes: layout.map(Layout::file_len),
            slots: header.slots().iter().map(|slot| SlotReport::new(slot, keys)).collect(),
            rekey_interrupted: false,
        }
    }

    /// Names the recipients of age slots.
    fn name_recipients(&mut self, header: &Header, names: &Names, ways: Option<&Ways>) {
        for (i, (slot, report)) in header.slots().iter().zip(&mut self.slots).enumerate() {
            if let (Slot::Age { file, .. }, SlotReport::Age { recipients, .. }) = (slot, report) {
                *recipients = names.of(i + 1, file, ways);
            }
        }
    }

    /// Everything on one line, without padding.
    fn line(&self) -> String {
        let plaintext = self.plaintext_bytes.map_or("? bytes".into(), |bytes| count(bytes, "byte"));
        let mut parts = vec![format!("{}: {}, {plaintext}", self.path, self.cipher)];
        parts
            .extend(self.slots.iter().filter(|slot| !matches!(slot, SlotReport::Padding { .. })).map(SlotReport::text));
        if self.rekey_interrupted {
            parts.push("a rekey was interrupted".into());
        }
        parts.join("; ")
    }

    fn lines(&self) -> Vec<String> {
        let number = |n: Option<u64>| n.map_or("?".into(), |n| n.to_string());
        let bytes = |n: Option<u64>| n.map_or("? bytes".into(), |n| count(n, "byte"));
        let mut lines = vec![
            self.path.clone(),
            format!("  format     Phalanx {}", self.version),
            format!("  cipher     {} (suite {})", self.cipher, self.suite),
            format!("  chunks     {} of up to {} bytes", number(self.chunks), self.chunk_bytes),
            format!("  plaintext  {}", bytes(self.plaintext_bytes)),
            format!("  file       {}, {} of them header", bytes(self.file_bytes), self.header_bytes),
        ];
        let slots = self.slots.iter().enumerate();
        lines.extend(slots.map(|(i, slot)| format!("  slot {:<5} {}", i + 1, slot.text())));
        if self.rekey_interrupted {
            lines
                .push("  rekey      was interrupted: phalanx rekey finishes it, with a key that opens the file".into());
        }
        lines
    }
}

impl SlotReport {
    pub fn new(slot: &Slot, keys: &KeyNames) -> Self {
        match slot {
            Slot::Padding(body) => SlotReport::Padding { bytes: body.len() },
            Slot::Password { kdf, .. } => {
                SlotReport::Password { memory_kib: kdf.memory_kib, passes: kdf.passes, lanes: kdf.lanes }
            }
            Slot::Key { id, .. } => {
                let found = keys.of(id);
                let is_missing = matches!(found, KeyName::Missing);
                let name = if let KeyName::Is(name) = found { Some(name) } else { None };
                SlotReport::Key { id: id.to_string(), name, is_missing }
            }
            Slot::Age { file, .. } => SlotReport::Age { stanzas: stanzas(file), bytes: file.len(), recipients: None },
            Slot::Service { uri, run_key, .. } => SlotReport::Service { uri: uri.clone(), bytes: run_key.len() },
            Slot::Unknown { kind, body } => SlotReport::Unknown { number: *kind, bytes: body.len() },
        }
    }

    pub fn text(&self) -> String {
        match self {
            SlotReport::Padding { bytes } => format!("padding, {}", count(*bytes as u64, "byte")),
            SlotReport::Password { memory_kib, passes, lanes } => {
                let memory = size(u64::from(*memory_kib) * 1024);
                let (passes, lanes) = (count(u64::from(*passes), "pass"), count(u64::from(*lanes), "lane"));
                format!("password, Argon2id with {memory}, {passes}, {lanes}")
            }
            SlotReport::Key { id, name: Some(name), .. } => format!("key {id} ({name} in the keyring)"),
            SlotReport::Key { id, is_missing: true, .. } => format!("key {id} (not in the keyring)"),
            SlotReport::Key { id, .. } => format!("key {id}"),
            SlotReport::Age { stanzas, bytes, .. } if stanzas.is_empty() => {
                format!("age, but nothing that could open: {}", count(*bytes as u64, "byte"))
            }
            SlotReport::Age { stanzas, bytes, recipients } => {
                let whose = match recipients.as_deref() {
                    None => String::new(),
                    Some([]) => " in no file of recipients".into(),
                    Some(known) => format!(" {}", known.iter().map(Known::name).collect::<Vec<_>>().join(" or ")),
                };
                format!("age recipient{whose}, {}, {}", stanzas.join(" and "), count(*bytes as u64, "byte"))
            }
            SlotReport::Service { uri, bytes } => {
                format!("key service {uri}, run key of {}", count(*bytes as u64, "byte"))
            }
            SlotReport::Unknown { number: Slot::VOLUME, .. } => "marks the config of a volume".into(),
            SlotReport::Unknown { number: Slot::HOLES, bytes } => {
                format!("holes in a volume's file, {}", count(*bytes as u64, "byte"))
            }
            SlotReport::Unknown { number: Slot::STATE, bytes } => {
                format!("sums of the chunks of a volume's file, {}", count(*bytes as u64, "byte"))
            }
            SlotReport::Unknown { number, bytes } => {
                format!("of type {number}, not known to this program, {}", count(*bytes as u64, "byte"))
            }
        }
    }
}

/// The types of an age file's stanzas, with the tags of SSH keys. Empty if no identity would be tried on the file.
fn stanzas(file: &[u8]) -> Vec<String> {
    const LONGEST: usize = 40;
    let outline = Outline::of(file);
    let stanzas = outline.iter().flat_map(Outline::stanzas).filter(|stanza| !stanza.is_grease());
    let named = stanzas.map(|stanza| match (stanza.kind(), stanza.arguments().next()) {
        (kind @ ("ssh-ed25519" | "ssh-rsa"), Some(tag)) => format!("{kind} {tag}"),
        (kind, _) => kind.to_owned(),
    });
    named.map(|name| name.chars().take(LONGEST).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slots_of_volumes_are_known() {
        let keys = KeyNames::of_user();
        for kind in [Slot::VOLUME, Slot::HOLES, Slot::STATE] {
            let text = SlotReport::new(&Slot::Unknown { kind, body: vec![0; 17] }, &keys).text();
            assert!(text.contains("volume") && !text.contains("not known"), "{text}");
        }
        let text = SlotReport::new(&Slot::Unknown { kind: 19, body: Vec::new() }, &keys).text();
        assert_eq!(text, "of type 19, not known to this program, 0 bytes");
    }
}
