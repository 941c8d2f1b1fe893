//! Where the server listens, and who is at the other end.

use super::place::Where;
use super::room::Holder;
use super::stream::Stream;
use super::tls::Tls;
use phalanx_host::Error;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::lines::shown;
use std::fs::{self, Metadata, Permissions};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::{TcpListener, UnixListener, UnixStream};

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process of this machine, by its user.
    User(u32),
    /// Somebody at an address.
    Address {
        /// The address.
        address: SocketAddr,
        /// The SHA-256 fingerprint of the certificate, if there is one.
        certificate: Option<String>,
    },
}

impl Peer {
    /// With whom its connection is counted.
    pub fn holder(&self) -> Holder {
        match self {
            Peer::User(uid) => Holder::User(*uid),
            Peer::Address { certificate: Some(fingerprint), .. } => Holder::Certificate(fingerprint.clone()),
            Peer::Address { address, certificate: None } => Holder::Address(address.ip()),
        }
    }
}

/// A socket on which the server listens.
pub struct Listener {
    socket: Socket,
    /// Its file, which is removed on drop if it is still this one.
    file: Option<(PathBuf, (u64, u64))>,
}

enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener, Option<Arc<Tls>>),
}

impl Listener {
    /// Listens at a path, where those may connect whom the mode allows. A socket that nobody listens to any more is replaced.
    ///
    /// # Errors
    /// If something else is there, somebody listens there, or it cannot be made.
    pub fn unix(path: &Path, mode: u32) -> Outcome<Self> {
        let at = |error: io::Error| Failure::at(path, Error::write(error));
        if let Some(there) = fs::symlink_metadata(path).ok().as_ref() {
            remove_stale(path, there)?;
        }
        // The process's umask keeps others away until the mode is set.
        let listener = std::os::unix::net::UnixListener::bind(path).map_err(at)?;
        let own = fs::symlink_metadata(path).map_err(at)?;
        let file = Some((path.to_owned(), identity(&own)));
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(at)?;
        listener.set_nonblocking(true).map_err(at)?;
        Ok(Self { socket: Socket::Unix(UnixListener::from_std(listener).map_err(at)?), file })
    }

    /// Listens at a port.
    ///
    /// # Errors
    /// If it is in use, or cannot be made.
    pub fn port(address: SocketAddr, tls: Option<Arc<Tls>>) -> Outcome<Self> {
        let failed = |error: io::Error| Failure::new(Code::InputOutput, format!("cannot listen on {address}: {error}"));
        let listener = std::net::TcpListener::bind(address).map_err(failed)?;
        Self::tcp(listener, tls).map_err(failed)
    }

    /// Serves a port that another program opened.
    ///
    /// # Errors
    /// Those of the system.
    pub fn tcp(listener: std::net::TcpListener, tls: Option<Arc<Tls>>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { socket: Socket::Tcp(TcpListener::from_std(listener)?, tls), file: None })
    }

    /// Serves a socket that another program opened.
    ///
    /// # Errors
    /// Those of the system.
    pub fn passed_unix(listener: std::os::unix::net::UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { socket: Socket::Unix(UnixListener::from_std(listener)?), file: None })
    }

    /// Where it listens: with the port that it was given.
    pub fn place(&self) -> Option<Where> {
        match &self.socket {
            Socket::Unix(listener) => {
                listener.local_addr().ok()?.as_pathname().map(|path| Where::Unix(path.to_owned()))
            }
            Socket::Tcp(listener, _) => listener.local_addr().ok().map(Where::Port),
        }
    }

    /// Whether it is a port with TLS.
    pub fn has_tls(&self) -> bool {
        matches!(self.socket, Socket::Tcp(_, Some(_)))
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// Those of the system.
    pub async fn accept(&self) -> io::Result<(Incoming, Peer)> {
        match &self.socket {
            Socket::Unix(listener) => {
                let stream = poll_fn(|context| poll_accept(listener, context)).await?;
                let peer = Peer::User(uid(&stream)?);
                Ok((Incoming::Ready(Stream::Unix(stream)), peer))
            }
            Socket::Tcp(listener, tls) => {
                let (stream, address) = listener.accept().await?;
                // Answers are sent whole, so there is nothing to gain by waiting for more.
                let _ = stream.set_nodelay(true);
                let address = SocketAddr::new(address.ip().to_canonical(), address.port());
                let peer = Peer::Address { address, certificate: None };
                let incoming = match tls {
                    Some(tls) => Incoming::Tls(stream, tls.clone()),
                    None => Incoming::Ready(Stream::Tcp(stream)),
                };
                Ok((incoming, peer))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some((path, own)) = &self.file
            && fs::symlink_metadata(path).is_ok_and(|there| identity(&there) == *own)
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// A connection that has just come.
pub enum Incoming {
    /// Bytes can be read.
    Ready(Stream),
    /// The handshake of TLS comes first.
    Tls(tokio::net::TcpStream, Arc<Tls>),
}

/// Accepts from a Unix socket. mio panics for a client whose own socket has a path of 108 bytes, without a null: Linux then names
/// a length beyond the address (unix(7), BUGS). That client's connection is closed, and the next one is accepted.
fn poll_accept(listener: &UnixListener, context: &mut Context<'_>) -> Poll<io::Result<UnixStream>> {
    match catch_unwind(AssertUnwindSafe(|| listener.poll_accept(context))) {
        Ok(accepted) => accepted.map_ok(|(stream, _)| stream),
        Err(_) => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
    }
}

fn uid(stream: &UnixStream) -> io::Result<u32> {
    Ok(stream.peer_cred()?.uid())
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Removes a socket of this user to which nobody listens.
fn remove_stale(path: &Path, there: &Metadata) -> Outcome {
    let taken = |why: &str| Err(Failure::new(Code::InputOutput, format!("{}: {why}", shown(path))));
    if !there.file_type().is_socket() {
        return taken("it is not a socket, and is not replaced");
    }
    if !super::peers::is_own(there.uid()) {
        return taken("the socket is another user's, and is not replaced");
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|e| Failure::at(path, Error::write(e)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // It is full, which takes somebody who listens.
        Ok(_) | Err(_) => taken("another program listens there"),
    }
}
