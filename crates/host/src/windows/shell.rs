//! The shell, and what is read from it.

use phalanx_system::console::use_utf8;
use phalanx_system::pipe::available;
use std::io;
use std::os::windows::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus};
use std::thread;
use std::time::Duration;

/// So often the command is asked whether it has ended, while it prints nothing.
const ROUND: Duration = Duration::from_millis(20);

/// The shell that runs a command. It gets the command as it is: it has rules of its own for quotes. What its own commands print is UTF-8,
/// as passwords are everywhere else; without that, they would have other bytes on machines of other languages.
pub fn of(command: &str) -> Command {
    use_utf8();
    let mut shell = Command::new("cmd.exe");
    // Without this, it would look for programs in the folder where it runs before those of PATH, and anybody could have put one there.
    shell.env("NoDefaultCurrentDirectoryInExePath", "1");
    shell.raw_arg("/d /s /c ").raw_arg(format!("\"{command}\""));
    shell
}

/// What was printed, without one end of a line at its end.
pub fn without_newline(printed: &[u8]) -> &[u8] {
    let line = printed.strip_suffix(b"\n").unwrap_or(printed);
    if line.len() == printed.len() { line } else { line.strip_suffix(b"\r").unwrap_or(line) }
}

/// Reads what a program prints until the output is closed, the program ends, or the buffer is full.
pub fn read(child: &mut Child, printed: &ChildStdout, bytes: &mut [u8]) -> io::Result<usize> {
    let (mut len, mut has_ended) = (0, false);
    while len < bytes.len() {
        match available(printed)? {
            None => break,
            // All that it printed was read. Others may hold its output open.
            Some(0) if has_ended => break,
            Some(0) => {
                thread::sleep(ROUND);
                has_ended = child.try_wait()?.is_some();
            }
            Some(more) => {
                let room = bytes.len() - len;
                len += phalanx_system::pipe::read(printed, &mut bytes[len..][..more.min(room)])?;
            }
        }
    }
    Ok(len)
}

/// How a program ended that did not succeed.
pub fn how(ended: ExitStatus) -> String {
    format!("the command ended with exit status {}", ended.code().unwrap_or(0))
}
