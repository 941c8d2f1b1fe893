//! Writes the man pages of `phalanx-server` into a folder, a page for each command:
//! `cargo run -p phalanx-server --example man -- FOLDER`.

use phalanx_host::man::{self, Roff, bold, roman, section};
use std::env;
use std::io;
use std::path::Path;

const ENVIRONMENT: [(&str, &str); 5] = [
    ("PHALANX_SERVER_DIR", "The folder of the server, if there is no --dir."),
    ("PHALANX_PASSWORD", "The password of the root key, if no --password-file is given. Prefer a file or a key."),
    ("PHALANX_KEYRING", "The folder of the keyring for --key. Without it, see phalanx(1)."),
    ("PGPASSWORD, PGPASSFILE", "The password of PostgreSQL, or the file that has it, if the store is there."),
    (
        "LISTEN_FDS, NOTIFY_SOCKET",
        "Set by systemd: the sockets that it passes on, and where the server says that it is ready.",
    ),
];

const FILES: [(&str, &str); 5] = [
    ("DIR/root.phx", "The root key, in a protected file. Without it nothing of the server opens, and no backup."),
    ("DIR/server.db", "The store: keys, tokens and users. What is secret in it is sealed under the root key."),
    ("DIR/store", "Where the store is, if it is in PostgreSQL."),
    ("DIR/server.sock", "The socket for the server's own user and root, who may do everything."),
    ("DIR/audit.log", "A line of JSON for each request, without texts and tokens."),
];

const EXIT_STATUS: [(&str, &str); 5] = [
    ("0", "Everything was done."),
    ("1", "Any failure that is not named below, and what the server refuses."),
    ("2", "The command line is wrong."),
    ("3", "A key does not open the root key, or something is damaged or not authentic."),
    ("4", "Input or output failed: a file is missing, exists already or may not be accessed, or no server answers."),
];

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).ok_or_else(|| io::Error::other("usage: man FOLDER"))?;
    std::fs::create_dir_all(&folder)?;
    write(Path::new(&folder))
}

fn write(folder: &Path) -> io::Result<()> {
    let mut command = phalanx_server::command();
    command.build();
    man::write(&command, concat!("phalanx ", env!("CARGO_PKG_VERSION")), folder, &end)
}

/// The last sections of a page.
fn end(_: &str, roff: &mut Roff) {
    section(roff, "ENVIRONMENT", &ENVIRONMENT);
    section(roff, "FILES", &FILES);
    section(roff, "EXIT STATUS", &EXIT_STATUS);
    roff.control("SH", ["SEE ALSO"]);
    roff.text([
        bold("phalanx-server"),
        roman("(1), "),
        bold("phalanx"),
        roman("(1), and docs/server.md of the project."),
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        for (name, option) in [
            ("phalanx-server.1", "rewrap"),
            ("phalanx-server-run.1", "max\\-rate"),
            ("phalanx-server-key-new.1", "mode"),
            ("phalanx-server-user-shred.1", "yes"),
        ] {
            let page = read(name);
            assert!(page.contains(option), "{name}");
            for title in ["NAME", "SYNOPSIS", "ENVIRONMENT", "FILES", "\"EXIT STATUS\"", "\"SEE ALSO\""] {
                assert!(page.contains(&format!(".SH {title}")), "{name}: {title}");
            }
        }
    }
}
