//! The bounds of everything that a client sends: published at `/v2/limits`.

use serde::Serialize;
use std::num::NonZeroU32;
use std::time::Duration;

/// The bounds.
#[derive(Clone, Debug, Serialize)]
pub struct Limits {
    /// The most bytes of a body in JSON.
    pub json_bytes: usize,
    /// The most items of a body in JSON.
    pub json_items: usize,
    /// The most bytes of an octet stream.
    pub stream_bytes: u64,
    /// The most bytes of a text, or of associated data.
    pub record_bytes: usize,
    /// The most bytes of a user's name.
    pub user_bytes: usize,
    /// The most bytes of all requests at the same time.
    pub in_flight: usize,
    /// The most versions of all keys together. A key has one at least, so there are not more keys either.
    pub versions: usize,
    /// The most versions of a key.
    pub versions_of_one: usize,
    /// The most bytes of all tokens, as they are kept.
    pub token_bytes: usize,
    /// The most of them that come from one token whose owner is no administrator.
    pub token_bytes_of_one: usize,
    /// The most requests a second of one caller.
    pub requests_a_second: Option<NonZeroU32>,
    /// The most connections.
    pub connections: usize,
    /// The most connections of one caller: a user of this machine, the owner of a certificate, or an address.
    pub connections_of_one: usize,
    /// The most bytes of the head of a request.
    pub head_bytes: usize,
    /// The most headers of a request.
    pub headers: usize,
    /// The longest that a client may take for the head of a request, in seconds.
    pub head_seconds: u64,
    /// The longest that a client may send or take nothing within a request, in seconds.
    pub idle_seconds: u64,
    /// The least bytes a second that a client must send or take on average, while the server waits for it.
    pub slowest: u64,
    /// The longest that a connection may be without a request, in seconds.
    pub keep_alive_seconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            json_bytes: 32 << 20,
            json_items: 10_000,
            stream_bytes: 1 << 30,
            record_bytes: 1 << 20,
            user_bytes: 4096,
            in_flight: 256 << 20,
            // All servers read all keys and tokens whenever one of them changes, and from PostgreSQL they read only so much:
            // these bounds are far below.
            versions: 100_000,
            versions_of_one: 10_000,
            token_bytes: 64 << 20,
            token_bytes_of_one: 4 << 20,
            requests_a_second: None,
            connections: 1024,
            connections_of_one: of_one(1024),
            head_bytes: 64 << 10,
            headers: 100,
            head_seconds: 10,
            idle_seconds: 30,
            slowest: 1024,
            keep_alive_seconds: 300,
        }
    }
}

/// Of so many connections, how many one caller may have: half of them, so that others can always come.
pub fn of_one(connections: usize) -> usize {
    connections.div_ceil(2)
}

impl Limits {
    /// The longest that a client may take for the head of a request.
    pub fn head(&self) -> Duration {
        Duration::from_secs(self.head_seconds)
    }

    /// The longest that a client may send or take nothing within a request.
    pub fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_seconds)
    }
}
