//! Man pages, made from the definition of a command line and from texts that help has no room for.

pub use clap_mangen::roff::{Roff, bold, roman};

use clap::Command;
use clap_mangen::Man;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// What a page says of something, such as a variable.
pub type Meaning = (&'static str, &'static str);

/// Writes a page for each command into a folder. `source` is the program with its version, and `end` adds the last sections
/// to the page of a command, whose path it gets: `key new`, and nothing for the program itself.
///
/// # Errors
/// If a page cannot be written.
pub fn write(command: &Command, source: &str, folder: &Path, end: &dyn Fn(&str, &mut Roff)) -> io::Result<()> {
    pages(command, "", source, folder, end)
}

fn pages(command: &Command, path: &str, source: &str, folder: &Path, end: &dyn Fn(&str, &mut Roff)) -> io::Result<()> {
    for sub in command.get_subcommands() {
        pages(sub, format!("{path} {}", sub.get_name()).trim_start(), source, folder, end)?;
    }
    let man = Man::new(command.clone()).source(source);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut roff = Roff::new();
    end(path, &mut roff);
    roff.to_writer(&mut page)?;
    let path = folder.join(man.get_filename());
    // A link of that name is replaced, and not followed.
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    fs::File::create_new(path)?.write_all(&page)
}

/// Adds a section with a paragraph for each of these.
pub fn section(roff: &mut Roff, title: &str, of: &[Meaning]) {
    roff.control("SH", [title]);
    of.iter().for_each(|meaning| paragraph(roff, *meaning));
}

/// Adds what something means.
pub fn paragraph(roff: &mut Roff, (what, meaning): Meaning) {
    roff.control("TP", []);
    roff.text([bold(what)]);
    roff.text([roman(meaning)]);
}
