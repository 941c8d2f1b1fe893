//! What the server counts, as Prometheus reads it.

/// The counters.
#[derive(Debug, Default)]
pub struct Metrics {}
