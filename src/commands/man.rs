//! `phalanx man`: the reference, made from the definition of the command line and from the texts here.

use crate::args::examples;
use crate::usage;
use clap::Command;
use phalanx_host::Error;
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::man::{self, Roff, bold, paragraph, roman, section};
use std::path::Path;

/// Each variable that the program reads.
const ENVIRONMENT: [(&str, &str); 10] = [
    (
        "PHALANX_PASSWORD",
        "The password, if no --password-file is given. Other programs of the same user can read a program's variables: \
         prefer a file, a key or the prompt.",
    ),
    ("PHALANX_KEYRING", "The folder of the keyring. Without it, see FILES."),
    ("PHALANX_CACHE", "The folder that keeps measured speeds. Without it, see FILES."),
    ("PHALANX_STATE", "The folder that keeps what is known of mirrors between runs. Without it, see FILES."),
    (
        "PHALANX_KERNELS",
        "For tests and bug reports: the CPU kernels to use, as AES,KECCAK. Either may be empty. verify --verbose prints the \
         names of those in use.",
    ),
    (
        "PHALANX_OPENCL_CPU",
        "If it is 1, an OpenCL device that is the CPU itself is taken for a GPU. This is for trying the GPU's code on a \
         machine without one.",
    ),
    (
        "XDG_CONFIG_HOME, XDG_CACHE_HOME, XDG_STATE_HOME, HOME",
        "Where the file of key services is, and if the variables above are not set the keyring, the cache and the state.",
    ),
    (
        "CUDA_VISIBLE_DEVICES, OCL_ICD_VENDORS, OCL_ICD_FILENAMES, OPENCL_VENDOR_PATH",
        "Read by the drivers of GPUs. If one of them changes, speeds are measured again.",
    ),
    (
        "PATH",
        "Where the plugins of age are looked for: the programs age-plugin-NAME. They get no variable that begins with PHALANX_.",
    ),
    ("LC_ALL, LC_CTYPE, LANG", "If the first of these that is set names UTF-8, messages contain an arrow and not ->."),
];

const FILES: [(&str, &str); 9] = [
    (
        "~/.config/phalanx/keys/NAME.key",
        "A key of the keyring: 32 raw bytes, which only their owner may read. Make a copy of each key: if all keys \
         of a file are lost, so is the file.",
    ),
    (
        "~/.config/phalanx/key-services",
        "The key services that may open files without --kms, one URI on each line. Nobody else may write to it.",
    ),
    ("~/.cache/phalanx/engines-N.json", "The measured speeds of the engines with N threads. It may be deleted."),
    (
        "~/.local/state/phalanx/trees",
        "The last generation that was seen of each mirror; the last manifest, if it was written for public keys only; and what \
         an unfinished run of mirror has written.",
    ),
    (
        "phalanx.tree",
        "The manifest of a mirror, in its root. It lists every entry. Without it, verify and unprotect do not notice what is \
         missing or older.",
    ),
    (
        ".phalanx-*.tmp",
        "An output that is not complete yet, beside its target. It is removed if the run fails or is interrupted. A run that \
         was killed can leave one; the next run for the same output removes it.",
    ),
    (
        ".phalanx-*.rekey",
        "The new header of a file whose keys are being changed. A run of rekey that was killed can leave one; the next run for \
         the same file finishes the change or undoes it.",
    ),
    (
        ".phalanx-*.resume",
        "What a run with --resume has done of an output that is not complete yet. The next run with this option goes on there.",
    ),
    ("PATH.phx", "A protected file. Its format is described in docs/format.md of the project."),
];

const EXIT_STATUS: [(&str, &str); 5] = [
    ("0", "Everything was done."),
    ("1", "Any failure that is not named below."),
    ("2", "The command line is wrong."),
    ("3", "An input is not a whole, authentic Phalanx file for the keys at hand: wrong password or key, or damaged."),
    ("4", "Input or output failed: a file is missing, exists already or may not be accessed, or the disk is full."),
];

/// Writes one page for each command.
pub fn write(folder: &Path) -> Outcome {
    let mut root = with_all_values(usage::command());
    root.build();
    let source = concat!("phalanx ", env!("CARGO_PKG_VERSION"));
    man::write(&root, source, folder, &end).map_err(|e| Failure::at(folder, Error::write(e)))
}

/// Sections that help has no room for.
fn with_all_values(command: Command) -> Command {
    let arg = |arg: clap::Arg| arg.hide_possible_values(false).hide_default_value(false);
    command.mut_args(arg).mut_subcommands(with_all_values)
}

/// The last sections of a page.
fn end(path: &str, roff: &mut Roff) {
    section(roff, "ENVIRONMENT", &ENVIRONMENT);
    section(roff, "FILES", &FILES);
    section(roff, "EXIT STATUS", &EXIT_STATUS);
    roff.control("PP", []);
    let several = "With several paths, a failure does not stop the others. If several kinds of failure occur, the \
                   status is the first of 3, 4, 2, 1.";
    roff.text([roman(several)]);
    roff.control("SH", ["EXAMPLES"]);
    examples::of(path).iter().for_each(|example| paragraph(roff, *example));
    if !path.is_empty() {
        roff.control("SH", ["SEE ALSO"]);
        roff.text([bold("phalanx"), roman("(1)")]);
    }
}
