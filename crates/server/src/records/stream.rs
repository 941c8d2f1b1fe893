//! A request under way: its body is cut into batches, and their answers come out in the same order.
//!
//! What the client sends is taken as long as the request's share of memory lasts, so it can be ahead of what the client
//! reads by that much, and not by more.

use super::answers::Answers;
use super::budget::Budget;
use super::collect::Collect;
use super::frame::{Bounds, Came, Frames};
use super::running::{Done, Running};
use crate::audit::Note;
use crate::caller::Caller;
use crate::http::body::Body;
use crate::in_flight::{Share, busy};
use crate::refusal::{Kind, Refusal};
use crate::rights::Action;
use crate::server::Server;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Bytes, Frame};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Records do not wait longer for others that come.
const LINGER: Duration = Duration::from_millis(5);

/// What is known of its key when a record begins is used for so long. If it takes longer to come, its key is looked for
/// again when it is whole.
const HELD: Duration = Duration::from_secs(1);

/// So long, and so many bytes, the rest of a body is thrown away after the last answer, so that a client which still
/// sends gets to read it.
const DISCARDED: (Duration, usize) = (Duration::from_secs(1), 16 << 20);

/// So many records are taken before others are served.
const TOGETHER: usize = 256;

/// A request under way.
pub struct Stream {
    server: Arc<Server>,
    caller: Caller,
    action: Action,
    bounds: Bounds,
    body: Body,
    /// Whether nothing more comes, or is wanted.
    is_over: bool,
    /// How many bytes may still come.
    left: u64,
    frames: Frames,
    /// What came and is not taken yet.
    chunk: Bytes,
    collect: Collect,
    running: Running,
    ready: VecDeque<Piece>,
    budget: Budget,
    /// Whether there is room for the record that has begun.
    has_room: bool,
    /// The cost of the next record, for which there is no room yet.
    lacking: Option<usize>,
    /// The key of the next record, if nobody knows it: another server may have made it.
    unknown: Option<Vec<u8>>,
    /// The last such key for which the store was asked.
    asked: Vec<u8>,
    /// When a client that sends nothing is too slow.
    late: Instant,
    has_answered: bool,
    is_broken: bool,
    /// The answer that ends the stream before its end.
    last: Option<Refusal>,
}

/// Answers that can be sent.
pub struct Piece {
    /// The answers.
    pub answers: Answers,
    /// For the audit log.
    pub note: Note,
    cost: usize,
}

impl Stream {
    /// A request whose body nobody has read yet.
    pub fn new(server: &Arc<Server>, caller: &Caller, share: Share, action: Action, body: Body) -> Self {
        Self {
            server: server.clone(),
            caller: caller.clone(),
            action,
            bounds: Bounds::new(action, &server.limits),
            collect: Collect::new(action, expected(&body)),
            body,
            is_over: false,
            left: server.limits.stream_bytes,
            frames: Frames::default(),
            chunk: Bytes::new(),
            running: Running::default(),
            ready: VecDeque::new(),
            budget: Budget::new(share),
            has_room: false,
            lacking: None,
            unknown: None,
            asked: Vec::new(),
            late: Instant::now() + server.limits.idle(),
            has_answered: false,
            is_broken: false,
            last: None,
        }
    }

    /// Whether all answers are there that will be.
    pub fn is_finished(&self) -> bool {
        self.is_over && self.running.is_empty() && self.collect.is_empty() && self.last.is_none()
    }

    /// Whether answers can be sent.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether there is something to do before answers are sent.
    pub fn can_go_on(&self) -> bool {
        !self.is_finished() && (!self.running.is_empty() || self.last.is_some() || !self.waits_for_reader())
    }

    /// Whether nothing can be taken until the client reads.
    fn waits_for_reader(&self) -> bool {
        self.lacking.is_some_and(|cost| !self.budget.is_within(cost))
    }

    /// Takes the next answers, if there are any.
    pub fn pop(&mut self) -> Option<Piece> {
        let piece = self.ready.pop_front()?;
        self.budget.give(piece.cost);
        self.late = self.late.max(Instant::now() + self.server.limits.idle());
        Some(piece)
    }

    /// Why the request is refused as a whole: other requests leave no room even for its first record.
    pub fn refusal(&self) -> Option<Refusal> {
        let waits = self.lacking.is_some() && self.budget.is_unused();
        (waits && !self.has_answered).then(busy)
    }

    /// Whether it ended before its end.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Does the next thing that can be done. It may be dropped at any time, and called again.
    pub async fn go_on(&mut self) {
        if self.take_records() {
            // Others are served meanwhile.
            return yield_now().await;
        }
        if self.end_if_over() || self.refusal().is_some() {
            return;
        }
        let asks = self.unknown.is_some();
        let wants_body = !self.is_over && self.lacking.is_none() && !asks;
        let waits_for_others = self.lacking.is_some_and(|cost| self.budget.is_within(cost));
        let (lingers, is_idle) = (wants_body && !self.collect.is_empty(), self.is_idle());
        let held = self.collect.begun().filter(|_| wants_body).map(|since| since + HELD);
        let until = lingers.then(|| Instant::now() + LINGER).into_iter().chain(held).min();
        let soon = until.unwrap_or(self.late);
        let cost = self.lacking.unwrap_or_default();
        let server = self.server.clone();
        let Self { running, body, budget, .. } = self;
        tokio::select! {
            done = running.first(), if !running.is_empty() => self.finish(done),
            frame = body.frame(), if wants_body => self.receive(frame),
            () = budget.more(cost), if waits_for_others => {}
            known = server.catch_up(), if asks => self.asked(known),
            () = sleep_until(soon), if until.is_some() || is_idle => self.waited(),
            else => {}
        }
    }

    /// Takes some records of the chunk, as many as there is room for. Returns whether others may be taken at once.
    fn take_records(&mut self) -> bool {
        let bytes = std::mem::take(&mut self.chunk);
        let mut chunk = &bytes[..];
        let taken = self.take_records_of(&mut chunk);
        let rest = chunk.len();
        match taken {
            Ok(more) => {
                self.chunk = bytes.slice(bytes.len() - rest..);
                more
            }
            Err(refusal) => {
                self.end_with(refusal);
                false
            }
        }
    }

    fn take_records_of(&mut self, chunk: &mut &[u8]) -> Result<bool, Refusal> {
        if self.is_over {
            return Ok(false);
        }
        let mut taken = 0;
        while let Some(head) = self.frames.head(chunk, &self.bounds)? {
            if !self.has_room && !self.budget.take(head.cost()) {
                self.lacking = Some(head.cost());
                self.cut();
                break;
            }
            (self.lacking, self.has_room) = (None, true);
            self.unknown = self.unknown_key(chunk);
            if self.unknown.is_some() {
                self.cut();
                break;
            }
            let Some(came) = self.frames.next(chunk) else { break };
            let is_whole = match came {
                Came::Record(record) => {
                    self.collect.add(&self.server, &self.caller, record, head.cost());
                    record.is_whole()
                }
                Came::More(text) => {
                    self.collect.more(text);
                    false
                }
                Came::Last(record, text) => {
                    self.collect.more(text);
                    self.collect.end(&self.server, record, head.cost());
                    true
                }
            };
            if !is_whole {
                continue;
            }
            self.has_room = false;
            if self.collect.is_full() {
                self.cut();
            }
            taken += 1;
            if taken == TOGETHER {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The key of the next record, if the store must be asked for it.
    fn unknown_key(&self, chunk: &[u8]) -> Option<Vec<u8>> {
        if !self.server.follow.is_shared() {
            return None;
        }
        let name = self.frames.key(chunk).filter(|name| *name != self.asked)?;
        let text = str::from_utf8(&name).ok()?;
        // A caller without a right on a key learns nothing of it, and causes no look at the store.
        (self.caller.rights.knows(text) && self.server.keys.get(text).is_err()).then_some(name)
    }

    /// The store was asked for the key of the next record.
    fn asked(&mut self, known: Result<(), Refusal>) {
        self.asked = self.unknown.take().unwrap_or_default();
        if let Err(refusal) = known {
            self.end_with(refusal);
        }
    }

    /// Gives the collected records to the workers. One that is not whole goes back: it neither holds up the others, nor
    /// keeps what is known of its key.
    fn cut(&mut self) {
        if let Some(text) = self.collect.take_back() {
            self.frames.put_back(&text);
        }
        if self.collect.is_empty() {
            return;
        }
        let mut full = self.collect.take(expected(&self.body));
        // A long stream may outlive its token.
        if let Err(refusal) = self.caller.check(&self.server) {
            full.batch.fail_all(&refusal);
        }
        self.running.add(&self.server, self.action, full);
    }

    /// Takes what came of the body.
    fn receive<E>(&mut self, frame: Option<Result<Frame<Bytes>, E>>) {
        self.late = Instant::now() + self.server.limits.idle();
        match frame {
            None if self.frames.is_inside() => self.end_with(Refusal::invalid("the stream breaks off inside a record")),
            None => self.is_over = true,
            Some(Err(_)) => self.end_with(Refusal::invalid("the body breaks off")),
            Some(Ok(frame)) => {
                let Ok(chunk) = frame.into_data() else { return };
                match self.left.checked_sub(chunk.len() as u64) {
                    Some(left) => (self.left, self.chunk) = (left, chunk),
                    None => self.end_with(too_long(&self.server)),
                }
            }
        }
    }

    /// Whether nothing is to be done but to wait for the client, or for other requests.
    fn is_idle(&self) -> bool {
        self.running.is_empty() && self.ready.is_empty()
    }

    /// Nothing has come for a while.
    fn waited(&mut self) {
        self.cut();
        if self.is_idle() && Instant::now() >= self.late {
            let slow = || Refusal::new(Kind::Timeout, "the body does not come");
            self.end_with(if self.lacking.is_some() { busy() } else { slow() });
        }
    }

    /// Puts the answers of a batch in their place.
    fn finish(&mut self, done: Done) {
        let Done { outcome, count, cost, mut note } = done;
        let (answers, refused) = match outcome {
            Ok(batch) => {
                let refused = batch.refused();
                (Answers::to_batch(batch), refused)
            }
            Err(refusal) => (Answers::all_refused(count, &refusal), count),
        };
        note.refused = refused as u64;
        self.has_answered = true;
        self.ready.push_back(Piece { answers, note, cost });
        self.late = self.late.max(Instant::now() + self.server.limits.idle());
    }

    /// Ends the stream with an answer more than there were whole records.
    fn end_with(&mut self, refusal: Refusal) {
        (self.is_over, self.is_broken) = (true, true);
        self.chunk = Bytes::new();
        self.lacking = None;
        self.last.get_or_insert(refusal);
    }

    /// At the end, gives the last records to the workers, and adds the answer that ends the stream before its end.
    /// Returns whether there is nothing to wait for.
    fn end_if_over(&mut self) -> bool {
        if !self.is_over {
            return false;
        }
        self.cut();
        if !self.running.is_empty() {
            return false;
        }
        if let Some(refusal) = self.last.take() {
            match self.ready.back_mut() {
                Some(piece) => piece.answers = std::mem::take(&mut piece.answers).and_last(&refusal),
                None => self.ready.push_back(Piece {
                    answers: Answers::all_refused(1, &refusal),
                    note: Note { action: self.action.name(), refused: 1, ..Note::default() },
                    cost: 0,
                }),
            }
        }
        true
    }

    /// Throws away what the client still sends, for a while.
    pub async fn discard(&mut self) {
        let (end, mut left) = (Instant::now() + DISCARDED.0, DISCARDED.1);
        while let Ok(Some(Ok(frame))) = timeout_at(end, self.body.frame()).await {
            match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                Some(less) => left = less,
                None => return,
            }
        }
    }
}

/// The bytes that are known to come.
fn expected(body: &Body) -> usize {
    usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX)
}

/// The refusal of a stream that is too long.
pub fn too_long(server: &Server) -> Refusal {
    Refusal::new(Kind::TooLarge, format!("the stream is longer than {} bytes", server.limits.stream_bytes))
}
