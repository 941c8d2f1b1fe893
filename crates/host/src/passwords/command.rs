//! A password that a program prints.

use crate::failure::{Code, Failure, Outcome};
use crate::secret_files::LONGEST_PASSWORD;
use crate::signals;
use phalanx_core::Password;
use phalanx_system::event::{PollFd, PollFlags, Timespec, poll};
use phalanx_system::fs::{OFlags, fcntl_setfl};
use phalanx_system::io::Errno;
use phalanx_system::os::process::ExitStatusExt;
use std::io;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use zeroize::Zeroizing;

/// So often the command is asked whether it has ended, while it prints nothing.
const ROUND: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Runs a shell command and returns what it prints until it ends, without one newline at its end. It gets no standard input, which
/// may be data, and may ask its user at the terminal for as long as that takes. What it has started may go on, and is not waited for.
///
/// # Errors
/// If it cannot be started, fails, or prints more than a password.
pub fn password(command: &str) -> Outcome<Password> {
    let failed = |why: String| Failure::new(Code::Other, format!("--password-command: {why}"));
    let unread = |e: &dyn std::fmt::Display| failed(format!("it could not be run: {e}"));
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::piped()).env_remove("PHALANX_PASSWORD");
    let mut child = signals::start(&mut shell).map_err(|e| unread(&e))?;
    let mut bytes = Zeroizing::new(vec![0; LONGEST_PASSWORD + 1]);
    let printed = child.stdout.take().expect("it is piped");
    let read = read(&mut child, &printed, &mut bytes);
    if !matches!(read, Ok(0..=LONGEST_PASSWORD)) {
        let _ = child.kill();
    }
    let ended = child.wait().map_err(|e| unread(&e))?;
    let len = read.map_err(|e| unread(&e))?;
    if len > LONGEST_PASSWORD {
        return Err(failed(format!("a password has at most {LONGEST_PASSWORD} bytes, and it printed more")));
    }
    if !ended.success() {
        return Err(failed(how(ended)));
    }
    Ok(Password::new(bytes[..len].strip_suffix(b"\n").unwrap_or(&bytes[..len]).to_vec()))
}

/// Reads what a program prints until the output is closed, the program ends, or the buffer is full.
fn read(child: &mut Child, printed: &ChildStdout, bytes: &mut [u8]) -> io::Result<usize> {
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
fn how(ended: ExitStatus) -> String {
    match (ended.code(), ended.signal()) {
        (Some(code), _) => format!("the command ended with exit status {code}"),
        (None, signal) => format!("the command was ended by signal {}", signal.unwrap_or(0)),
    }
}
