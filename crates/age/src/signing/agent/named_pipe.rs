//! The agent's named pipe.

use super::answer_len;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

/// That of the service of OpenSSH, which Windows comes with.
pub const USUAL: Option<&str> = Some(r"\\.\pipe\openssh-ssh-agent");

/// Sends a message, and returns the answer. A thread does it, which goes on after the time is over: neither reading nor writing of a
/// pipe has a limit.
pub fn exchange(pipe: &Path, framed: &[u8], end: Instant) -> io::Result<Vec<u8>> {
    let (pipe, framed) = (PathBuf::from(pipe), framed.to_vec());
    let (sender, answer) = mpsc::channel();
    let ask = move || drop(sender.send(ask(&pipe, &framed)));
    thread::Builder::new().name("ssh-agent".into()).spawn(ask)?;
    match answer.recv_timeout(end.saturating_duration_since(Instant::now())) {
        Ok(answer) => answer,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Who serves the pipe may learn who the user is, and do nothing in the user's name.
const SECURITY_IDENTIFICATION: u32 = 1 << 16;

fn ask(pipe: &Path, framed: &[u8]) -> io::Result<Vec<u8>> {
    if !is_pipe(pipe) {
        // Programs that came from Unix have a file there.
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no named pipe"));
    }
    let mut pipe = File::options().read(true).write(true).security_qos_flags(SECURITY_IDENTIFICATION).open(pipe)?;
    pipe.write_all(framed)?;
    let mut len = [0; 4];
    pipe.read_exact(&mut len)?;
    let mut answer = vec![0; answer_len(len)?];
    pipe.read_exact(&mut answer)?;
    Ok(answer)
}

/// Whether a path is that of a pipe on this machine. Nothing is written to anything else.
fn is_pipe(path: &Path) -> bool {
    const PIPES: &str = r"\\.\pipe\";
    let path = path.to_str().map(|path| path.replace('/', r"\"));
    path.is_some_and(|path| path.get(..PIPES.len()).is_some_and(|start| start.eq_ignore_ascii_case(PIPES)))
}
