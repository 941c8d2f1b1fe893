//! The shell, and what is read from it.

use phalanx_system::event::{PollFd, PollFlags, Timespec, poll};
use phalanx_system::fs::{OFlags, fcntl_setfl};
use phalanx_system::io::Errno;
use phalanx_system::os::process::ExitStatusExt;
use std::io;
use std::process::{Child, ChildStdout, Command, ExitStatus};

/// So often the command is asked whether it has ended, while it prints nothing.
const ROUND: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// The shell that runs a command.
pub fn of(command: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]);
    shell
}

/// What was printed, without one newline at its end.
pub fn without_newline(printed: &[u8]) -> &[u8] {
    printed.strip_suffix(b"\n").unwrap_or(printed)
}

/// Reads what a program prints until the output is closed, the program ends, or the buffer is full.
pub fn read(child: &mut Child, printed: &ChildStdout, bytes: &mut [u8]) -> io::Result<usize> {
    fcntl_setfl(printed, OFlags::NONBLOCK)?;
    let (mut len, mut has_ended) = (0, false);
    while len < bytes.len() {
        match phalanx_system::io::read(printed, &mut bytes[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(Errno::INTR) => {}
            // All that it printed was read. Others may hold its output open.
            Err(Errno::AGAIN) if has_ended => break,
            Err(Errno::AGAIN) => {
                match poll(&mut [PollFd::new(printed, PollFlags::IN)], Some(&ROUND)) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(e) => return Err(e.into()),
                }
                has_ended = child.try_wait()?.is_some();
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(len)
}

/// How a program ended that did not succeed.
pub fn how(ended: ExitStatus) -> String {
    match (ended.code(), ended.signal()) {
        (Some(code), _) => format!("the command ended with exit status {code}"),
        (None, signal) => format!("the command was ended by signal {}", signal.unwrap_or(0)),
    }
}
