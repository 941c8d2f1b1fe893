//! How much a server may still answer. The client's library has no limit: a server that lies could fill the memory.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How many bytes may still be read from a connection.
#[derive(Clone, Default)]
pub struct Allowance(Arc<AtomicUsize>);

impl Allowance {
    /// Allows so many more, whatever is left.
    pub fn set(&self, bytes: usize) {
        self.0.store(bytes, Relaxed);
    }

    /// Takes what was read from it.
    ///
    /// # Errors
    /// If that was more than is left.
    pub fn take(&self, bytes: usize) -> io::Result<()> {
        let left = self.0.load(Relaxed);
        self.0.store(left.saturating_sub(bytes), Relaxed);
        if bytes <= left { Ok(()) } else { Err(io::Error::other("it answers with more than it was asked for")) }
    }
}

#[cfg(test)]
mod tests {
    use super::Allowance;

    #[test]
    fn no_more_is_taken_than_is_allowed() {
        let allowance = Allowance::default();
        assert!(allowance.take(1).is_err());
        allowance.set(10);
        assert!(allowance.clone().take(4).is_ok() && allowance.take(6).is_ok() && allowance.take(1).is_err());
    }
}
