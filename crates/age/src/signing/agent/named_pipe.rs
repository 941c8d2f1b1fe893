//! The agent's named pipe.

use super::answer_len;
use std::fs::File;
use std::io::{self, Read, Write};
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

fn ask(pipe: &Path, framed: &[u8]) -> io::Result<Vec<u8>> {
    let mut pipe = File::options().read(true).write(true).open(pipe)?;
    pipe.write_all(framed)?;
    let mut len = [0; 4];
    pipe.read_exact(&mut len)?;
    let mut answer = vec![0; answer_len(len)?];
    pipe.read_exact(&mut answer)?;
    Ok(answer)
}
