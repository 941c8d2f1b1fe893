//! Age recipients and identities: where the command line says that they are.

use crate::failure::{Failure, Outcome, complain, shown};
use crate::secrets::{at_terminal, damaged, may_ask, open, open_private, prompt_at_terminal};
use phalanx_age::{Identities, Plugins, Recipient, User};
use phalanx_core::Error;
use phalanx_core::file::read_full;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use zeroize::Zeroizing;

/// Longer files are surely not of recipients or identities.
const LONGEST: usize = 1 << 20;
/// The longest line that a user types for a plugin.
const LONGEST_LINE: u64 = 4096;

/// The plugins of this run. Recipients and identities share them, so that two never run at once.
static PLUGINS: LazyLock<Plugins> = LazyLock::new(|| Plugins::new(Arc::new(Terminal)));

/// The recipients that an option names, and those in files, each once.
pub fn recipients(option: &str, texts: &[String], files: &[PathBuf]) -> Outcome<Vec<Recipient>> {
    let mut found = texts.iter().map(|text| parse(option, text)).collect::<Outcome<Vec<_>>>()?;
    for path in files {
        let bytes = read(path, open(path).map_err(|e| Failure::at(path, e))?)?;
        let text =
            str::from_utf8(&bytes).map_err(|_| damaged(path, "a file of recipients is text, and this is not"))?;
        let of_file = phalanx_age::recipients(text, &PLUGINS).map_err(|(line, e)| match line {
            0 => damaged(path, "no recipient is in it"),
            _ => damaged(path, &format!("line {line}: {e}")),
        })?;
        found.extend(of_file);
    }
    found.sort_by(|a, b| a.text().cmp(b.text()));
    found.dedup_by(|a, b| a.text() == b.text());
    for recipient in &found {
        recipient.check().map_err(|reason| Error::Recipient { recipient: recipient.text().into(), reason })?;
    }
    Ok(found)
}

/// The canonical text of a recipient that an option names. It need not be one that files can be protected for here.
pub fn recipient_text(option: &str, text: &str) -> Outcome<String> {
    Ok(parse(option, text)?.text().to_owned())
}

fn parse(option: &str, text: &str) -> Outcome<Recipient> {
    Recipient::parse(text, &PLUGINS).map_err(|e| Failure::usage(format!("{option}: {e}")))
}

/// The identities in these files.
pub fn identities(paths: &[PathBuf]) -> Outcome<Identities> {
    let mut found = Identities::new(PLUGINS.clone());
    for path in paths {
        let bytes = read(path, open_private(path).map_err(|e| Failure::at(path, e))?)?;
        found.add(&shown(path), &bytes).map_err(|e| damaged(path, &e.to_string()))?;
    }
    Ok(found)
}

/// A whole file that is not too long.
fn read(path: &Path, mut file: File) -> Outcome<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; LONGEST + 1]);
    let len = read_full(&mut file, &mut bytes).map_err(|e| Failure::at(path, e))?;
    if len > LONGEST {
        return Err(damaged(path, "it is too long for a file of recipients or identities"));
    }
    bytes.truncate(len);
    Ok(bytes)
}

/// The user, if there is a terminal to ask at.
struct Terminal;

impl User for Terminal {
    fn secret(&self, what: &str) -> Option<Zeroizing<String>> {
        prompt_at_terminal(what)
    }

    fn line(&self, question: &str) -> Option<String> {
        let _turn = at_terminal();
        let terminal = File::options().read(true).write(true).open("/dev/tty").ok().filter(|_| may_ask())?;
        (&terminal).write_all(question.as_bytes()).ok()?;
        let mut line = String::new();
        BufReader::new(terminal.take(LONGEST_LINE)).read_line(&mut line).ok()?;
        line.ends_with('\n').then(|| line.trim_end_matches(['\r', '\n']).to_owned())
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
}
