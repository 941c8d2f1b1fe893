//! A client of `ssh-agent`: which keys it holds, and signatures by them (draft-ietf-sshm-ssh-agent). What an agent answers is
//! bounded, and so is the time that it takes.

use super::public::PublicKey;
use super::wire::{Reader, put_string};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::env;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long an agent may take to sign. Somebody may have to find a device and touch it.
pub const AGENT_TIME: Duration = Duration::from_secs(120);
/// How long it may take to list its keys, which needs nobody.
const TIME_TO_LIST: Duration = Duration::from_secs(20);
/// The longest message, as OpenSSH has it.
const LONGEST: usize = 256 << 10;

const FAILURE: u8 = 5;
const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;
/// RSA signs with SHA-512. Other keys do not mind.
const RSA_SHA2_512: u32 = 4;

/// An agent, by the path of its socket. Each question has a connection of its own.
#[derive(Clone, Debug)]
pub struct Agent {
    socket: PathBuf,
    time: Duration,
}

impl Agent {
    /// The one that `SSH_AUTH_SOCK` names.
    #[must_use]
    pub fn of_environment() -> Option<Self> {
        env::var_os("SSH_AUTH_SOCK").filter(|socket| !socket.is_empty()).map(Self::at)
    }

    /// The one that listens at a path.
    pub fn at(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), time: AGENT_TIME }
    }

    /// Gives it this time to answer instead of [`AGENT_TIME`].
    #[must_use]
    pub fn with_time(self, time: Duration) -> Self {
        Self { time, ..self }
    }

    /// Whether it holds the private half of a key.
    pub(super) fn holds(&self, key: &PublicKey) -> Result<bool, String> {
        let answer = self.ask(&[REQUEST_IDENTITIES], self.time.min(TIME_TO_LIST))?;
        let mut fields = Reader::new(&answer);
        let mut holds = || {
            fields.byte().filter(|kind| *kind == IDENTITIES_ANSWER)?;
            let mut found = false;
            for _ in 0..fields.u32()? {
                found |= fields.string()? == key.blob();
                fields.string()?;
            }
            fields.end().map(|()| found)
        };
        holds().ok_or_else(|| "the ssh-agent does not list its keys".into())
    }

    /// Has it sign data by a key. Returns the signature as SSH's messages have it.
    pub(super) fn sign(&self, key: &PublicKey, data: &[u8]) -> Result<Vec<u8>, String> {
        let mut request = vec![SIGN_REQUEST];
        put_string(&mut request, key.blob());
        put_string(&mut request, data);
        let flags = if key.is_rsa() { RSA_SHA2_512 } else { 0 };
        request.extend(flags.to_be_bytes());
        let answer = self.ask(&request, self.time)?;
        let mut fields = Reader::new(&answer);
        match fields.byte() {
            Some(SIGN_RESPONSE) => {}
            Some(FAILURE) => return Err("the ssh-agent refused to sign".into()),
            _ => return Err("the ssh-agent answered something else than a signature".into()),
        }
        let signature = fields.string().filter(|_| fields.end().is_some());
        signature.map(<[u8]>::to_vec).ok_or_else(|| "the ssh-agent answered something else than a signature".into())
    }

    /// Sends a message, and returns the answer.
    fn ask(&self, message: &[u8], time: Duration) -> Result<Vec<u8>, String> {
        let answer = self.exchange(message, Instant::now() + time);
        answer.map_err(|e| match e.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                format!("the ssh-agent did not answer within {} seconds", time.as_secs())
            }
            _ => format!("the ssh-agent cannot be asked: {e}"),
        })
    }

    fn exchange(&self, message: &[u8], end: Instant) -> io::Result<Vec<u8>> {
        let mut stream = connect(&self.socket, end)?;
        let mut framed = Vec::new();
        put_string(&mut framed, message);
        write(&mut stream, &framed, end)?;
        let mut len = [0; 4];
        read(&mut stream, &mut len, end)?;
        let len = u32::from_be_bytes(len) as usize;
        if len == 0 || len > LONGEST {
            return Err(io::Error::other("its answer is too long or empty"));
        }
        let mut answer = vec![0; len];
        read(&mut stream, &mut answer, end)?;
        Ok(answer)
    }
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
