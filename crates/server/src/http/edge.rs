//! What all connections share, beside the server itself.

use super::peers::Peers;
use super::room::Connections;
use crate::metrics::Gauges;
use crate::server::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// What all connections share.
pub struct Edge {
    /// The server.
    pub server: Arc<Server>,
    /// Who has rights without a token.
    pub peers: Peers,
    /// All connections.
    pub connections: Connections,
    draining: AtomicBool,
    ids: Ids,
}

impl Edge {
    /// A server, and who has rights without a token.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn new(server: Arc<Server>, peers: Peers) -> Result<Self, getrandom::Error> {
        let ids = Ids::new()?;
        Ok(Self { server, peers, connections: Connections::default(), draining: AtomicBool::new(false), ids })
    }

    /// Says to those who ask that the server ends.
    pub fn drain(&self) {
        self.draining.store(true, Relaxed);
    }

    /// Whether the server ends.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// A new identity for a request.
    pub fn new_id(&self) -> String {
        self.ids.next()
    }

    /// What `/metrics` shows of this moment.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            connections: self.connections.len(),
            in_flight: self.server.limits.in_flight.saturating_sub(self.server.in_flight.available_permits()),
            audit_failures: self.server.audit.failures(),
        }
    }
}

/// Identities of requests: UUIDs of a random start and a counter. They are unique, and nobody needs to be unable to guess them.
struct Ids {
    start: u128,
    counter: AtomicU64,
}

impl Ids {
    fn new() -> Result<Self, getrandom::Error> {
        let mut start = [0; 16];
        getrandom::fill(&mut start)?;
        Ok(Self { start: u128::from_le_bytes(start), counter: AtomicU64::new(0) })
    }

    fn next(&self) -> String {
        /// The bits that say that a UUID is of the random kind.
        const KIND: u128 = 0xf << 76 | 0b11 << 62;
        const RANDOM: u128 = 0x4 << 76 | 0b10 << 62;
        // The counter's 64 bits lie around those of the kind.
        let counter = u128::from(self.counter.fetch_add(1, Relaxed));
        let counter = counter & ((1 << 62) - 1) | counter >> 62 << 64;
        let id = (self.start ^ counter) & !KIND | RANDOM;
        let hex = format!("{id:032x}");
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_differ_and_are_uuids() {
        let ids = Ids::new().unwrap();
        let all: std::collections::BTreeSet<String> = (0..1000).map(|_| ids.next()).collect();
        assert_eq!(all.len(), 1000);
        for id in all {
            assert_eq!((id.len(), id.as_bytes()[14]), (36, b'4'), "{id}");
            assert!(b"89ab".contains(&id.as_bytes()[19]), "{id}");
        }
    }
}
