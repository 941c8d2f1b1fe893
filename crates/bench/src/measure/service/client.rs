//! Connections to servers: by TCP, by a Unix socket, and by TLS.

use super::answer::{Answer, Body};
use crate::measure::{Error, Result};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long an answer may take.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// What is given to TLS at once.
const PIECE: usize = 64 << 10;

/// Where a server listens.
#[derive(Clone)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
    Tls(SocketAddr, Arc<ClientConfig>),
}

pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<Tls>),
}

/// A connection by TLS. The socket may block or not.
pub struct Tls {
    session: ClientConnection,
    socket: TcpStream,
}

impl Stream {
    /// Connects. By TLS, the handshake is done.
    pub fn connect(address: &Address) -> Result<Self> {
        Self::try_connect(address).map_err(|e| Error::NotRun(format!("no connection: {e}")))
    }

    fn try_connect(address: &Address) -> io::Result<Self> {
        let tcp = |at: &SocketAddr| {
            let stream = TcpStream::connect_timeout(at, PATIENCE)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok::<_, io::Error>(stream)
        };
        Ok(match address {
            Address::Tcp(at) => Self::Tcp(tcp(at)?),
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Self::Unix(stream)
            }
            Address::Tls(at, config) => {
                let mut socket = tcp(at)?;
                let name = ServerName::from(at.ip());
                let mut session = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
                while session.is_handshaking() {
                    session.complete_io(&mut socket)?;
                }
                Self::Tls(Box::new(Tls { session, socket }))
            }
        })
    }

    pub fn no_waiting(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(true),
            Self::Unix(stream) => stream.set_nonblocking(true),
            Self::Tls(tls) => tls.socket.set_nonblocking(true),
        }
    }

    /// Whether a short read leaves nothing in the socket.
    pub fn is_bare(&self) -> bool {
        !matches!(self, Self::Tls(_))
    }

    /// Sends what an earlier write has left to send.
    pub fn push(&mut self) -> io::Result<()> {
        match self {
            Self::Tls(tls) => tls.push(),
            _ => Ok(()),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tls(tls) => tls.socket.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push()
    }
}

impl Tls {
    fn push(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }

    /// Reading never waits for writing, so that a server that sends before it has read all is served.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            if self.session.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            self.session.process_new_packets().map_err(io::Error::other)?;
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push()?;
        let taken = self.session.writer().write(&bytes[..bytes.len().min(PIECE)])?;
        match self.push() {
            Err(e) if e.kind() != ErrorKind::WouldBlock => Err(e),
            _ => Ok(taken),
        }
    }
}

/// A connection on which one request follows another.
pub struct Client {
    stream: Stream,
    answer: Answer,
    buffer: Vec<u8>,
}

impl Client {
    pub fn connect(address: &Address) -> Result<Self> {
        let stream = Stream::connect(address)?;
        Ok(Self { stream, answer: Answer::new(Body::Kept), buffer: vec![0; 256 << 10] })
    }

    /// Sends a request, and waits for its answer. A refusal is an error.
    pub fn ask(&mut self, request: &[u8]) -> Result<&[u8]> {
        self.exchange(request).map_err(|e| Error::NotRun(format!("the server does not answer: {e}")))?;
        match self.answer.refusal() {
            Some(why) => Err(Error::NotRun(format!("the server refuses: {why}"))),
            None => Ok(&self.answer.body),
        }
    }

    fn exchange(&mut self, request: &[u8]) -> io::Result<()> {
        self.answer.renew();
        self.stream.write_all(request)?;
        self.stream.push()?;
        while !self.answer.is_done() {
            let n = self.stream.read(&mut self.buffer)?;
            if n == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.answer.read(&self.buffer[..n])?;
        }
        Ok(())
    }
}
