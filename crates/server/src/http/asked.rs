//! What is known of a request from its start, and what is written of it.

use super::body::Body;
use super::refused;
use crate::audit::{Entry, Note};
use crate::refusal::Refusal;
use crate::server::Server;
use hyper::Response;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is known of a request from its start.
pub struct Asked {
    server: Arc<Server>,
    /// Its identity, a UUID.
    pub id: String,
    /// Who asked.
    pub caller: String,
    remote: String,
    method: &'static str,
    begun: Instant,
}

impl Asked {
    /// A request that has just come from somewhere.
    pub fn new(server: Arc<Server>, id: String, remote: String, method: &'static str) -> Self {
        Self { server, id, caller: "none".to_owned(), remote, method, begun: Instant::now() }
    }

    /// Writes another line of a request whose answer is sent while the work goes on, before the part of the answer that the
    /// line is about.
    ///
    /// # Errors
    /// If the line must be written and cannot be. That part must not be sent then.
    pub async fn more(&self, note: &Note) -> Result<(), Refusal> {
        self.server.metrics.count_items(note);
        self.server.audit.write(self.entry(note, 200, true)).await
    }

    /// Counts an answer and writes its line, or gives another answer if the line must be written and is not.
    pub async fn finish(&self, note: &Note, answer: Response<Body>) -> Response<Body> {
        let written = self.server.audit.write(self.entry(note, answer.status().as_u16(), false)).await;
        self.written(note, answer, written)
    }

    /// Refuses a request of somebody who is not known, or of whom nobody knows who it is. Of many, not each has a line.
    pub async fn refuse_stranger(&self, note: &Note, refusal: &Refusal) -> Response<Body> {
        let written = self.server.audit.write_of_stranger(self.entry(note, refusal.kind.status(), false)).await;
        self.written(note, refused(refusal), written)
    }

    fn written(&self, note: &Note, answer: Response<Body>, written: Result<(), Refusal>) -> Response<Body> {
        let answer = written.map_or_else(|refusal| refused(&refusal), |()| answer);
        self.count(note, answer.status().as_u16());
        answer
    }

    /// Refuses a request that no handler has seen.
    pub async fn refuse(&self, action: &'static str, refusal: &Refusal) -> Response<Body> {
        self.finish(&Note { action, ..Note::default() }, refused(refusal)).await
    }

    /// Counts an answer.
    pub fn count(&self, note: &Note, status: u16) {
        self.server.metrics.count(note, status, self.took());
    }

    fn took(&self) -> Duration {
        self.begun.elapsed()
    }

    fn entry<'a>(&'a self, note: &'a Note, status: u16, more: bool) -> Entry<'a> {
        let micros = u64::try_from(self.took().as_micros()).unwrap_or(u64::MAX);
        Entry {
            id: &self.id,
            caller: &self.caller,
            remote: &self.remote,
            method: self.method,
            note,
            status,
            micros,
            more,
        }
    }
}
