//! A client of `ssh-agent`: which keys it holds, and signatures by them (draft-ietf-sshm-ssh-agent). What an agent answers is
//! bounded, and so is the time that it takes.

#[cfg_attr(unix, path = "agent/socket.rs")]
#[cfg_attr(windows, path = "agent/named_pipe.rs")]
mod transport;

use super::public::PublicKey;
use super::wire::{Reader, put_string};
use std::env;
use std::io;
use std::path::PathBuf;
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
    /// The one that `SSH_AUTH_SOCK` names. Without it, there is none, but on Windows it is the one that OpenSSH has there.
    #[must_use]
    pub fn of_environment() -> Option<Self> {
        let named = env::var_os("SSH_AUTH_SOCK").filter(|socket| !socket.is_empty()).map(PathBuf::from);
        named.or_else(|| transport::USUAL.map(PathBuf::from)).map(Self::at)
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
        let mut framed = Vec::new();
        put_string(&mut framed, message);
        let answer = transport::exchange(&self.socket, &framed, Instant::now() + time);
        answer.map_err(|e| match e.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                format!("the ssh-agent did not answer within {} seconds", time.as_secs())
            }
            _ => format!("the ssh-agent cannot be asked: {e}"),
        })
    }
}

/// The length of an answer, by the four bytes before it.
fn answer_len(prefix: [u8; 4]) -> io::Result<usize> {
    let len = u32::from_be_bytes(prefix) as usize;
    if len == 0 || len > LONGEST { Err(io::Error::other("its answer is too long or empty")) } else { Ok(len) }
}
