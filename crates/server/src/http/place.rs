//! Places to listen, as the command line names them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// A place to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// A socket of this machine.
    Unix(PathBuf),
    /// A port.
    Port(SocketAddr),
}

impl Where {
    /// Reads `unix:PATH` or `ADDR:PORT`.
    ///
    /// # Errors
    /// A line that says what a place looks like.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let none = || "unix: needs a path".to_owned();
            return if path.is_empty() { Err(none()) } else { Ok(Self::Unix(path.into())) };
        }
        let wanted = || "it is neither unix:PATH nor ADDR:PORT, such as 127.0.0.1:8200 or [::1]:8200".to_owned();
        if let Some(port) = text.strip_prefix("localhost:") {
            let port = port.parse().map_err(|_| wanted())?;
            return Ok(Self::Port((Ipv4Addr::LOCALHOST, port).into()));
        }
        text.parse().map(Self::Port).map_err(|_| wanted())
    }

    /// Whether other machines can connect.
    pub fn is_open_to_others(&self) -> bool {
        matches!(self, Self::Port(address) if !is_loopback(address.ip()))
    }
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Where::Unix(path) => write!(f, "unix:{}", phalanx_host::lines::shown(path)),
            Where::Port(address) => address.fmt(f),
        }
    }
}

/// Whether an address is of this machine alone.
pub fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Reads the mode of a socket.
///
/// # Errors
/// A line that says what a mode looks like.
pub fn socket_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "it is not a mode of a file, such as 600 or 660".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        assert_eq!(Where::parse("unix:/run/a b"), Ok(Where::Unix("/run/a b".into())));
        for (text, open) in [
            ("127.0.0.1:0", false),
            ("127.8.9.1:1", false),
            ("[::1]:8200", false),
            ("localhost:8200", false),
            ("[::ffff:127.0.0.1]:1", false),
            ("0.0.0.0:8200", true),
            ("[::]:8200", true),
            ("10.0.0.1:8200", true),
        ] {
            assert_eq!(Where::parse(text).map(|place| place.is_open_to_others()), Ok(open), "{text}");
        }
        for text in
            ["", "unix:", "8200", ":8200", "127.0.0.1", "127.0.0.1:65536", "example.org:80", "localhost:", "::1:80x"]
        {
            assert!(Where::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn modes_are_read() {
        assert_eq!((socket_mode("600"), socket_mode("0660")), (Ok(0o600), Ok(0o660)));
        assert!(["", "8", "1777", "rw", "-1"].iter().all(|text| socket_mode(text).is_err()));
    }
}
