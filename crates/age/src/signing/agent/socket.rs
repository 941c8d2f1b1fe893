//! The agent's socket.

use super::answer_len;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// There is none that is known without being named.
pub const USUAL: Option<&str> = None;

/// Sends a message, and returns the answer.
pub fn exchange(socket: &Path, framed: &[u8], end: Instant) -> io::Result<Vec<u8>> {
    let mut stream = connect(socket, end)?;
    write(&mut stream, framed, end)?;
    let mut len = [0; 4];
    read(&mut stream, &mut len, end)?;
    let mut answer = vec![0; answer_len(len)?];
    read(&mut stream, &mut answer, end)?;
    Ok(answer)
}

/// Connects before the time is over. An agent that takes no more connections would let the program wait for ever.
fn connect(socket: &Path, end: Instant) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(socket)?;
    let stream = new_socket()?;
    loop {
        sockopt::set_socket_timeout(&stream, Timeout::Send, Some(left(end)?))?;
        match net::connect(&stream, &address) {
            Ok(()) => return Ok(stream.into()),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// A socket that programs which are started meanwhile do not inherit.
#[cfg(not(target_vendor = "apple"))]
fn new_socket() -> io::Result<OwnedFd> {
    Ok(net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// The same in two steps, since Apple's systems have no such flag. A program that is started between them inherits it.
#[cfg(target_vendor = "apple")]
fn new_socket() -> io::Result<OwnedFd> {
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    Ok(socket)
}

/// Writes all bytes before the time is over, however slowly they are taken.
fn write(stream: &mut UnixStream, mut bytes: &[u8], end: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(end)?))?;
        match stream.write(bytes) {
            Ok(len) => bytes = &bytes[len..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Fills a buffer before the time is over, however slowly the bytes come.
fn read(stream: &mut UnixStream, mut buf: &mut [u8], end: Instant) -> io::Result<()> {
    while !buf.is_empty() {
        stream.set_read_timeout(Some(left(end)?))?;
        match stream.read(buf) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => buf = &mut buf[len..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// The time that is left.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}
