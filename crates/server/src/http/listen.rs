//! Where the server listens, and who is at the other end.

use std::io;
use std::path::Path;
use tokio::net::{UnixListener, UnixStream};

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process of this machine, by its user.
    User(u32),
    /// Somebody at an address, with the fingerprint of the certificate, if there is one.
    Address(String, Option<String>),
}

/// A socket on which the server listens.
pub enum Listener {
    /// A socket of this machine.
    Unix(UnixListener),
}

impl Listener {
    /// Listens at a path, where only this user may connect.
    ///
    /// # Errors
    /// If it is in use, or cannot be made.
    pub fn unix(path: &Path) -> io::Result<Self> {
        Ok(Self::Unix(UnixListener::bind(path)?))
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// Those of the system.
    pub async fn accept(&self) -> io::Result<(UnixStream, Peer)> {
        let Self::Unix(listener) = self;
        let (stream, _) = listener.accept().await?;
        let peer = Peer::User(stream.peer_cred()?.uid());
        Ok((stream, peer))
    }
}
