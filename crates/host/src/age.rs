//! Age recipients and identities, from the places that the command line names.

use crate::ask;
use crate::failure::{Failure, Outcome};
use crate::lines::{complain, shown};
use crate::secret_files::{check_private, damaged, open, read_whole};
use crate::signals;
use phalanx_age::{Identities, Listed, Outline, Plugins, Recipient, User};
use phalanx_core::Error as CoreError;
use phalanx_core::format::{Header, Slot};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use zeroize::Zeroizing;

/// Longer files cannot hold recipients or identities.
const LONGEST: usize = 1 << 20;

/// The plugins of this run. Recipients and identities share them, so that two never run at once.
static PLUGINS: LazyLock<Plugins> = LazyLock::new(|| Plugins::new(Arc::new(Terminal)));

/// The recipients that an option names, and those in files, each once.
pub fn recipients(option: &str, texts: &[String], files: &[PathBuf]) -> Outcome<Vec<Recipient>> {
    let mut found = texts.iter().map(|text| parse(option, text)).collect::<Outcome<Vec<_>>>()?;
    for path in files {
        found.extend(listed(path)?.into_iter().map(|listed| listed.recipient));
    }
    found.sort_by(|a, b| a.text().cmp(b.text()));
    found.dedup_by(|a, b| a.text() == b.text());
    for recipient in &found {
        recipient.check().map_err(|reason| CoreError::Recipient { recipient: recipient.text().into(), reason })?;
    }
    Ok(found)
}

/// Warns if only some public keys are post-quantum: a file is no safer than the weakest of them.
pub fn warn_of_mixed(recipients: &[Recipient]) {
    warn_if_mixed(recipients.iter().map(Recipient::is_post_quantum));
}

/// Warns if only some of the public keys that a header has slots for are post-quantum.
pub fn warn_of_mixed_slots(header: &Header) {
    let kind = |slot: &Slot| match slot {
        Slot::Age { file, .. } => Outline::of(file).ok().map(|outline| outline.is_post_quantum()),
        _ => None,
    };
    warn_if_mixed(header.slots().iter().filter_map(kind));
}

/// Warns if some are post-quantum and others are not, once in a run.
fn warn_if_mixed(mut are_post_quantum: impl Iterator<Item = bool>) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    let Some(first) = are_post_quantum.next() else { return };
    if are_post_quantum.any(|is| is != first) && !WARNED.swap(true, Ordering::Relaxed) {
        complain("warning: not all public keys are post-quantum: by the others a quantum computer could open it");
    }
}

/// The recipients in a file, with their names there.
pub fn listed(path: &Path) -> Outcome<Vec<Listed>> {
    let bytes = read(path, &mut open(path).map_err(|e| Failure::at(path, e))?)?;
    let text = str::from_utf8(&bytes).map_err(|_| damaged(path, "a file of recipients is text, and this is not"))?;
    phalanx_age::recipients(text, &PLUGINS).map_err(|(line, e)| match line {
        0 => damaged(path, "no recipient is in it"),
        _ => damaged(path, &format!("line {line}: {e}")),
    })
}

/// Whether a path leads to a file that holds only public keys. If a file cannot be read, the answer is no.
pub fn is_public(path: &Path) -> bool {
    let is_short_file = path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= LONGEST as u64);
    is_short_file && fs::read_to_string(path).is_ok_and(|text| phalanx_age::is_public(&text))
}

/// The canonical text of a recipient that an option names. It need not be one that files can be protected for here.
pub fn recipient_text(option: &str, text: &str) -> Outcome<String> {
    Ok(parse(option, text)?.text().to_owned())
}

fn parse(option: &str, text: &str) -> Outcome<Recipient> {
    Recipient::parse(text, &PLUGINS).map_err(|e| {
        let failure = Failure::usage(format!("{option}: {e}"));
        if Path::new(text).is_file() { failure.hint("--recipients-file takes a file of recipients") } else { failure }
    })
}

/// The identities in these files.
pub fn identities(paths: &[PathBuf]) -> Outcome<Identities> {
    let mut found = Identities::new(PLUGINS.clone());
    for path in paths {
        let at_path = |e| Failure::at(path, e);
        let mut file = open(path).map_err(at_path)?;
        let bytes = read(path, &mut file)?;
        if str::from_utf8(&bytes).is_ok_and(phalanx_age::is_public) {
            return Err(damaged(path, "it is a public key").hint(public_advice(path)));
        }
        check_private(&file, path).map_err(at_path)?;
        found.add(&shown(path), &bytes).map_err(|e| damaged(path, &e.to_string()))?;
    }
    Ok(found)
}

/// What to do about a public key in the place of a private one.
fn public_advice(path: &Path) -> String {
    let private = path.with_extension("");
    match path.extension().is_some_and(|end| end == "pub") && private.is_file() {
        true => format!("--identity needs the private one, probably {}", shown(&private)),
        false => "--identity needs the file of its private key".into(),
    }
}

/// Reads a whole file that is not too long.
fn read(path: &Path, file: &mut File) -> Outcome<Zeroizing<Vec<u8>>> {
    read_whole(path, file, LONGEST)?
        .ok_or_else(|| damaged(path, "it is too long for a file of recipients or identities"))
}

/// The user at a terminal, if there is one.
pub(crate) struct Terminal;

impl User for Terminal {
    fn secret(&self, what: &str) -> Option<Zeroizing<String>> {
        ask::secret(what)
    }

    fn line(&self, question: &str) -> Option<String> {
        ask::line(question)
    }

    fn choose(&self, question: &str, yes: &str, no: Option<&str>) -> Option<bool> {
        let choices = no.map_or_else(|| format!("[1: {yes}]"), |no| format!("[1: {yes}, 2: {no}]"));
        match &*self.line(&format!("{question} {choices} "))? {
            "1" => Some(true),
            "2" if no.is_some() => Some(false),
            _ => None,
        }
    }

    fn tell(&self, message: &str) {
        complain(message);
    }

    fn start(&self, plugin: &mut Command) -> io::Result<Child> {
        signals::start(plugin)
    }
}
