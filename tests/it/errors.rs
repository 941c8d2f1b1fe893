//! Every message of the command, on three pages (`docs/messages.md`, `docs/messages-io.md`, `docs/messages-usage.md`), where they can be read together.
//!
//! Most come from runs of the command (`runs.rs`). The others are made from the libraries' errors (`library.rs`), or
//! copied from the source (`stated.rs`), and a test checks that they are still there.

mod library;
mod runs;
mod stated;

use crate::common::has;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const RENEW: &str = "PHALANX_RENEW=1 cargo test -p phalanx --test it errors::";

const HEAD: &str = "# Messages

Each message of `phalanx` is one line on standard error: the name of the program, the path and what failed. Often a second line says
what to do:

    phalanx: run42.h5.phx: exists already
    hint: --force replaces it

A run writes each hint once. Here are the messages with the exit code 3: those about files and keys; and warnings. [Messages of input and
output](messages-io.md) have the code 4, and [those of the command line](messages-usage.md) the codes 2 and 1. Search for some words of yours. Names, paths and
numbers differ, and words in capitals stand for what the program fills in. A path may come before those that have none here.

With several paths each failure has a line of its own, and the exit code is the first of 3, 4, 2, 1 that occurs. What begins with
`warning:` does not change it. [The guide](../GUIDE.md#when-something-is-damaged) has more about damaged files. The Java command has the
same lines. A test makes all pages from the program.
";

const HEAD_OF_IO: &str = "# Messages of input and output

[The first page](messages.md) says how to read this one. It has the messages about files and keys, with the exit code 3, and warnings.
";

const HEAD_OF_USAGE: &str = "# Messages of the command line

[The first page](messages.md) says how to read this one. It has the messages about files and keys, with the exit code 3, and warnings.
";

/// The pages: path, head, and the exit codes of the sections.
const PAGES: [(&str, &str, &[u8]); 3] = [
    ("docs/messages.md", HEAD, &[3, 0]),
    ("docs/messages-io.md", HEAD_OF_IO, &[4]),
    ("docs/messages-usage.md", HEAD_OF_USAGE, &[2, 1]),
];

/// A page is at most so long, in bytes.
const LONGEST_PAGE: usize = 25_000;

/// The sections of the pages: exit code, heading, and introduction.
const SECTIONS: [(u8, &str, &str); 5] = [
    (
        3,
        "Exit code 3: not a whole, authentic file for the keys at hand",
        "Nothing was written under the output's name, unless you asked for `--salvage`. Keep the file as it is until you know more.",
    ),
    (
        4,
        "Exit code 4: input or output failed",
        "Nothing is lost: no half-written output has its name, and no input was deleted whose output is not on the disk.",
    ),
    (2, "Exit code 2: the command line", "Nothing was done. `phalanx help COMMAND` lists the options."),
    (1, "Exit code 1: anything else", "The files are as they were."),
    (0, "Warnings and notes", "The command goes on. `--quiet` leaves out notes."),
];

/// A message and what a reader needs to know about it.
struct Message {
    /// The exit code.
    code: u8,
    /// The line, without the name of the program.
    line: String,
    /// The hint, on a line of its own.
    hint: Option<String>,
    /// When it appears. Empty where the line says it.
    when: &'static str,
    /// What to do. Empty if the line says it.
    then: &'static str,
}

fn page(head: &str, codes: &[u8], all: &[Message]) -> String {
    let mut page = head.to_owned();
    for (code, title, common) in SECTIONS.into_iter().filter(|(code, ..)| codes.contains(code)) {
        write!(page, "\n## {title}\n\n{common}\n\n| message | when it appears, and what to do |\n|---|---|\n").unwrap();
        for message in all.iter().filter(|message| message.code == code) {
            let said = [message.when, message.then].map(sentence).concat();
            let hint = message.hint.as_ref().map(|hint| format!("<br>`hint: {hint}`")).unwrap_or_default();
            let lines = format!("`{}`{hint}", message.line);
            writeln!(page, "| {} | {}|", lines.replace('|', "\\|"), said.replace('|', "\\|")).unwrap();
        }
    }
    page
}

/// The words as a sentence, followed by a space.
fn sentence(words: &str) -> String {
    let mut chars = words.chars();
    let first = chars.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    let end = if words.is_empty() || words.ends_with(['?', '.']) { "" } else { "." };
    let space = if words.is_empty() { "" } else { " " };
    format!("{first}{}{end}{space}", chars.as_str())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).into()
}

#[test]
fn the_committed_pages_have_every_message() {
    if !has("setsid") {
        return;
    }
    let all: Vec<Message> = runs::all().into_iter().chain(library::all()).chain(stated::all()).collect();
    let pages = PAGES.map(|(path, head, codes)| (path, page(head, codes, &all)));
    if std::env::var_os("PHALANX_RENEW").is_some() {
        pages.iter().for_each(|(path, page)| fs::write(root().join(path), page).unwrap());
    }
    for (path, page) in &pages {
        let committed = fs::read_to_string(root().join(path)).unwrap_or_default();
        let (old, new): (Vec<&str>, Vec<&str>) = (committed.lines().collect(), page.lines().collect());
        let missing: Vec<_> = new.iter().filter(|line| !old.contains(line)).collect();
        let gone: Vec<_> = old.iter().filter(|line| !new.contains(line)).collect();
        assert!(committed == *page, "{path} is stale: {RENEW}\nnew: {missing:#?}\nold: {gone:#?}");
        assert!(page.len() <= LONGEST_PAGE, "{path}: {} bytes", page.len());
    }
    check_source(&pages.map(|(_, page)| page.replace("\\|", "|")).concat());
}

/// Checks that no message in the source is forgotten: the longest piece of its text must be on the page.
fn check_source(page: &str) {
    let mut folders = vec![root().join("src"), root().join("crates/host/src")];
    let (mut found, mut missing) = (0, Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            let text = fs::read_to_string(&entry).unwrap();
            let text = text.split("#[cfg(test)]").next().unwrap();
            for piece in stated::messages(text).filter_map(stated::longest_piece) {
                found += 1;
                if !page.contains(&piece) {
                    missing.push(format!("{}: {piece}", entry.display()));
                }
            }
        }
    }
    assert!(found > 90, "{found}");
    assert!(missing.is_empty(), "not in docs/messages*.md: {missing:#?}");
}
