//! An object that is written: in parts, several at a time, in whatever order they come.
//!
//! The object is cut into parts. Those of a window may be filled or under way; the window moves on when its first part is
//! with the store, so memory is bounded, and the writer of the first part never waits for others. An object of one part
//! is one request. The object appears when the upload is completed, and not before.

mod abandoned;
mod copy;

pub use abandoned::abort;
use abandoned::end_if_done;

use crate::client::{Client, Parts};
use crate::cut::{Cut, PART, PARTS};
use crate::error::{self, exists, is_changed, wrong};
use crate::location::{self, Location};
use crate::options::Options;
use crate::pool::Buffer;
use crate::record::{Found, Named, Record};
use crate::runtime::{caught, runtime, wait};
use crate::there::{condition_of, is_object, is_there, is_there_now};
use bytes::Bytes;
use object_store::multipart::PartId;
use object_store::{PutMode, PutOptions, PutPayload};
use phalanx_core::WriteAt;
use phalanx_core::file::Filling;
use phalanx_core::format::Header;
use phalanx_host::file::{Left, NewObject, OutputObject, Plan, Url};
use phalanx_host::lock::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// So many bytes are kept, by which an object is known again. No header is longer: `docs/format.md`, section 2.1.
const HEAD: usize = 64 << 10;

/// An object that is written.
#[derive(Debug)]
pub struct Upload {
    shared: Arc<Shared>,
    requests: u64,
    replaces: bool,
    /// So many bytes the object is likely to have, or more.
    likely: u64,
}

/// What an object must find in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    /// Whatever is there is replaced.
    Any,
    /// Nothing.
    New,
    /// This version.
    Over(String),
}

/// What those who write and those who send have in common.
#[derive(Debug)]
struct Shared {
    client: Client,
    parts: Parts,
    name: Named,
    state: Mutex<State>,
    changed: Condvar,
    /// Held while the upload begins.
    beginning: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    cut: Cut,
    /// The parts that are being filled.
    filling: BTreeMap<u64, Filled>,
    /// The parts that the store has, and its names of them.
    done: BTreeMap<u64, String>,
    /// The first part that the store does not have.
    first: u64,
    /// The requests that send parts.
    under_way: BTreeMap<u64, AbortHandle>,
    /// The end of what was written.
    end: u64,
    /// The first bytes, by which the object is known again.
    head: Vec<u8>,
    upload: Option<String>,
    record: Option<Record>,
    /// Whether what was sent stays if the run ends here.
    stays: bool,
    /// Whether it goes on with what an interrupted run has sent.
    went_on: bool,
    is_over: bool,
    /// Whether the process is about to end. Whoever writes then waits for that.
    ends: bool,
    failure: Option<(io::ErrorKind, String)>,
}

/// A part that is being filled.
#[derive(Debug)]
struct Filled {
    bytes: Arc<Mutex<Buffer>>,
    len: u64,
}

impl Upload {
    /// Begins an object.
    ///
    /// # Errors
    /// If the URL is none of an object, the store fails or is only read, or the object exists and may not be replaced.
    pub fn create(url: &str, new: NewObject, options: &Options) -> io::Result<Self> {
        Self::at(&location::url(url)?, new, options)
    }

    pub(crate) fn at(url: &Url, new: NewObject, options: &Options) -> io::Result<Self> {
        Self::of(Client::new(&Location::of(url)?, options)?, url, new, options)
    }

    pub(crate) fn of(client: Client, url: &Url, new: NewObject, options: &Options) -> io::Result<Self> {
        let parts = client.writing()?.clone();
        let name = named(url, &client);
        let record = if new.resume { Some(Record::open(&name)?) } else { None };
        if !new.replaces && is_there(&client)? {
            if let Some(record) = &record {
                end_if_done(&client, record);
            }
            return Err(exists());
        }
        let cut = Cut::of(new.len)?;
        // Chunks and header make a protected file a little longer.
        let likely = new.len.map_or(u64::MAX, |len| len + len / 64 + (4 << 10));
        let state = Mutex::new(State { cut, record, ..State::default() });
        let shared = Arc::new(Shared {
            client,
            parts,
            name,
            state,
            changed: Condvar::new(),
            beginning: tokio::sync::Mutex::default(),
        });
        let mut begun = lock(&BEGUN);
        begun.retain(|upload| upload.strong_count() > 0);
        begun.push(Arc::downgrade(&shared));
        Ok(Self { shared, requests: options.requests.get() as u64, replaces: new.replaces, likely })
    }

    /// How many parts may be in memory: fewer, if they are long.
    fn window(&self, state: &State) -> u64 {
        let part = state.cut.part(state.first);
        let most = (self.requests * PART).div_ceil((part.end - part.start).max(1));
        most.max(2).min(self.requests)
    }

    fn found(&self) -> Option<Found> {
        self.shared.lock().record.as_ref()?.read()
    }

    /// Writes a piece of a part. Waits until the part is in the window.
    fn write_piece(&self, index: u64, bytes: &[u8], within: u64) -> io::Result<()> {
        let shared = &self.shared;
        let mut state = shared.lock();
        if index >= PARTS {
            return Err(error::refusal("it is too long for an object"));
        }
        while index >= state.first + self.window(&state) && state.can_go_on()? {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.can_go_on()?;
        let len = {
            let range = state.cut.part(index);
            range.end - range.start
        };
        let make = || Filled { bytes: Arc::new(Mutex::new(Buffer::new(len, self.likely))), len: 0 };
        let buffer = state.filling.entry(index).or_insert_with(make).bytes.clone();
        drop(state);
        lock(&buffer).write(within as usize, bytes);
        drop(buffer);
        let mut state = shared.lock();
        let Some(filled) = state.filling.get_mut(&index) else { return Err(wrong("a part was written twice")) };
        filled.len += bytes.len() as u64;
        if filled.len == len {
            self.send(&mut state, index)?;
        }
        Ok(())
    }

    /// Sends a part that is filled.
    fn send(&self, state: &mut State, index: u64) -> io::Result<()> {
        let Some(filled) = state.filling.remove(&index) else { return Ok(()) };
        let buffer = std::mem::take(&mut *lock(&filled.bytes));
        if index == 0 {
            state.head = buffer.written(HEAD).to_vec();
        }
        let shared = self.shared.clone();
        self.request(state, index, async move { shared.put_part(index, buffer.into_request()).await })
    }

    /// Begins the requests that make a part.
    fn request(
        &self,
        state: &mut State,
        index: u64,
        made: impl Future<Output = io::Result<String>> + Send + 'static,
    ) -> io::Result<()> {
        let promise = Promise(self.shared.clone(), index);
        let task = runtime()?.spawn(async move {
            let made = caught(promise.0.client.cancellation.or(made)).await;
            promise.0.sent(index, made);
        });
        state.under_way.insert(index, task.abort_handle());
        Ok(())
    }

    /// Waits until no more than so many parts are under way.
    fn wait_until_under_way<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        most: usize,
    ) -> io::Result<MutexGuard<'a, State>> {
        while state.can_go_on()? && state.under_way.len() > most {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(state)
    }

    /// Nothing is said of an upload that a signal ends: the process is about to end too, and this thread waits for that.
    fn unless_it_ends<T>(&self, done: io::Result<T>) -> io::Result<T> {
        while done.is_err() && self.shared.lock().ends {
            std::thread::park();
        }
        done
    }

    /// Makes the object of what was written.
    fn complete(&self, condition: &Condition) -> io::Result<()> {
        let shared = &self.shared;
        let mut state = shared.lock();
        state.can_go_on()?;
        let is_single =
            state.upload.is_none() && state.under_way.is_empty() && state.filling.len() <= 1 && state.first == 0;
        if is_single {
            let filled = state.filling.pop_first().map(|(_, filled)| filled);
            if filled.as_ref().map_or(0, |filled| filled.len) != state.end {
                return Err(wrong("a part of the object was not written"));
            }
            let buffer = filled.map(|filled| std::mem::take(&mut *lock(&filled.bytes))).unwrap_or_default();
            drop(state);
            return shared.client.wait(shared.put(buffer.into_request(), condition));
        }
        let last: Vec<u64> = state.filling.keys().copied().collect();
        for index in last {
            let range = state.cut.part(index);
            let (len, wanted) = (state.filling[&index].len, range.end.min(state.end) - range.start);
            if len != wanted {
                return Err(wrong("a part of the object was not written"));
            }
            self.send(&mut state, index)?;
        }
        let state = self.wait_until_under_way(state, 0)?;
        let all = state.cut.index(state.end.max(1) - 1) + 1;
        if state.first != all || state.done.len() as u64 != all {
            return Err(wrong("a part of the object was not written"));
        }
        let parts = state.done.values().map(|id| PartId { content_id: id.clone() }).collect();
        let (upload, len, head) = (state.upload.clone().unwrap_or_default(), state.end, state.head.clone());
        drop(state);
        let completed = shared.client.wait(shared.complete(&upload, parts, condition, len, &head));
        completed.map_err(|e| shared.lock().lost(e))
    }
}

impl State {
    /// Whether the upload goes on.
    fn can_go_on(&self) -> io::Result<bool> {
        match &self.failure {
            Some((kind, why)) => Err(io::Error::new(*kind, why.clone())),
            None if self.is_over || self.ends => Err(io::Error::other("the upload was given up")),
            None => Ok(true),
        }
    }

    /// An error of an upload that went on. If the store does not have what the record says, a later run begins again.
    fn lost(&self, error: io::Error) -> io::Error {
        let Some(record) = self.record.as_ref().filter(|_| self.went_on && is_refusal(&error)) else { return error };
        record.forget();
        let what = "the store no longer has what an interrupted run had sent, and the next run begins again";
        io::Error::new(error.kind(), format!("{what}: {error}"))
    }

    fn fail(&mut self, error: &io::Error) {
        self.failure.get_or_insert((error.kind(), error.to_string()));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The store's name of the upload, which begins with the first part. A request that begins it is not given up: else
    /// only the store would know the upload.
    async fn upload(self: &Arc<Self>) -> io::Result<String> {
        if let Some(upload) = self.known()? {
            return Ok(upload);
        }
        let shared = self.clone();
        runtime()?.spawn(async move { caught(shared.begin_once()).await }).await.map_err(io::Error::other)?
    }

    /// The store's name of the upload, if it has begun and goes on.
    fn known(&self) -> io::Result<Option<String>> {
        let state = self.lock();
        state.can_go_on()?;
        Ok(state.upload.clone())
    }

    async fn begin_once(&self) -> io::Result<String> {
        let _one = self.beginning.lock().await;
        if let Some(upload) = self.known()? {
            return Ok(upload);
        }
        // It is only for other runs that abort uploads, and this one does not fail for want of it.
        let record = Record::new(&self.name).ok();
        if let Some(record) = &record {
            let _ = record.announce();
        }
        let begun = self.begin_unless_given_up().await;
        if let Some(record) = &record {
            match &begun {
                Ok(upload) => drop(record.begin(upload, None)),
                Err(_) => record.end(),
            }
        }
        let upload = begun?;
        {
            let mut state = self.lock();
            (state.upload, state.record) = (Some(upload.clone()), record);
        }
        // The record of this one is in use, so it is not among those that are aborted.
        abandoned::abort_own(&self.parts, &self.client.key, &self.name).await;
        Ok(upload)
    }

    async fn begin_unless_given_up(&self) -> io::Result<String> {
        let upload = self.parts.store.create_multipart(&self.client.key).await.map_err(error::of)?;
        if let Err(given_up) = self.known() {
            // Whoever has given it up may wait no longer.
            let _ = self.parts.store.abort_multipart(&self.client.key, &upload).await;
            return Err(given_up);
        }
        Ok(upload)
    }

    async fn put_part(self: Arc<Self>, index: u64, bytes: Bytes) -> io::Result<String> {
        let upload = self.upload().await?;
        let payload = PutPayload::from_bytes(bytes);
        let sent = self.parts.store.put_part(&self.client.key, &upload, index as usize, payload).await;
        Ok(sent.map_err(error::of)?.content_id)
    }

    /// A part was sent, or not.
    fn sent(&self, index: u64, sent: io::Result<String>) {
        let mut state = self.lock();
        match sent {
            Ok(id) => {
                let noted =
                    state.record.as_ref().filter(|_| state.stays).map_or(Ok(()), |record| record.note(index, &id));
                if let Err(e) = noted {
                    state.fail(&e);
                }
                state.done.insert(index, id);
                while state.done.contains_key(&state.first) {
                    state.first += 1;
                }
            }
            Err(error) => {
                let error = state.lost(error);
                state.fail(&error);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Writes an object of one part.
    async fn put(&self, bytes: Bytes, condition: &Condition) -> io::Result<()> {
        let mode = match condition {
            Condition::Any => PutMode::Overwrite,
            Condition::New => PutMode::Create,
            Condition::Over(version) => PutMode::Update(condition_of(&self.client, version).await?),
        };
        let payload = PutPayload::from_bytes(bytes.clone());
        let options = PutOptions { mode, ..PutOptions::default() };
        match self.client.store.put_opts(&self.client.key, payload, options).await.map_err(error::of) {
            // If the answer to the first try was lost, the second one finds the object.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists || is_changed(&e) => {
                if is_object(&self.client, bytes.len() as u64, &bytes).await { Ok(()) } else { Err(e) }
            }
            done => done.map(drop),
        }
    }

    /// Makes an object of the parts.
    async fn complete(
        &self,
        upload: &str,
        parts: Vec<PartId>,
        condition: &Condition,
        len: u64,
        head: &[u8],
    ) -> io::Result<()> {
        let upload = upload.to_owned();
        let store = match (&self.parts.creating, condition) {
            (_, Condition::Any) => self.parts.store.clone(),
            (_, Condition::Over(version)) => {
                let found = condition_of(&self.client, version).await?;
                self.parts.over(found.e_tag.as_deref())?
            }
            (Some(creating), Condition::New) => creating.clone(),
            // The store cannot promise it, so it is looked at once more.
            (None, Condition::New) if is_there_now(&self.client).await? => return Err(exists()),
            (None, Condition::New) => self.parts.store.clone(),
        };
        let Err(error) = store.complete_multipart(&self.client.key, &upload, parts).await else { return Ok(()) };
        let looks = if error::is_open(&error) { LOOKS } else { Duration::ZERO };
        match error::of(error) {
            // If the answer to the first try was lost, the second one finds no upload, or the object.
            e if may_be_done(&e) && self.appears(len, head, looks).await => Ok(()),
            e if *condition == Condition::New && is_changed(&e) => Err(exists()),
            e => Err(e),
        }
    }

    /// Whether the object appears within this time. A store that has not answered may still be making it, and
    /// what it makes it of is deleted afterwards.
    ///
    /// It is the protected file that was written if it has this length, and its header, which no other file has. Of anything
    /// else nobody can tell without reading all of it.
    async fn appears(&self, len: u64, head: &[u8], within: Duration) -> bool {
        if Header::read(&mut &*head).is_err() {
            return false;
        }
        let begun = Instant::now();
        loop {
            if is_object(&self.client, len, head).await {
                return true;
            }
            if begun.elapsed() >= within {
                return false;
            }
            sleep(LOOKS_AGAIN).await;
        }
    }

    /// Deletes what was sent, unless it stays. Nobody writes any more.
    async fn give_up(&self) {
        {
            let mut state = self.lock();
            if state.stays {
                return;
            }
            state.is_over = true;
        }
        // An upload that is beginning is known afterwards.
        let _begun = self.beginning.lock().await;
        let (upload, record, tasks) = {
            let mut state = self.lock();
            if let Some(record) = state.record.as_ref().filter(|record| record.read().is_none()) {
                record.end();
            }
            let tasks = std::mem::take(&mut state.under_way);
            (state.upload.take(), state.record.take(), tasks)
        };
        tasks.values().for_each(AbortHandle::abort);
        let Some(upload) = upload else { return };
        let mut aborted = self.parts.store.abort_multipart(&self.client.key, &upload).await;
        let was_sending = !tasks.is_empty() || self.client.cancellation.is_cancelled();
        if was_sending && aborted.is_ok() {
            // A part that the store was still receiving may have come after it.
            sleep(SETTLES).await;
            aborted = self.parts.store.abort_multipart(&self.client.key, &upload).await;
        }
        if let (Ok(()) | Err(object_store::Error::NotFound { .. }), Some(record)) = (aborted, record) {
            record.end();
        }
    }
}

/// Whoever waits learns of it when a request ends, even in a panic.
struct Promise(Arc<Shared>, u64);

impl Drop for Promise {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.under_way.remove(&self.1);
        if std::thread::panicking() {
            state.fail(&io::ErrorKind::BrokenPipe.into());
        }
        drop(state);
        self.0.changed.notify_all();
    }
}

impl WriteAt for Upload {
    fn expect(&self, _: Option<u64>, _: Filling) -> io::Result<()> {
        Ok(())
    }

    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        let cut = {
            let mut state = self.shared.lock();
            state.end = state.end.max(offset + bytes.len() as u64);
            state.cut.clone()
        };
        while !bytes.is_empty() {
            let index = cut.index(offset);
            let part = cut.part(index);
            let len = bytes.len().min(usize::try_from(part.end - offset).unwrap_or(usize::MAX));
            if len == 0 {
                return Err(wrong("there are more bytes than the object was to have"));
            }
            let written = self.write_piece(index, &bytes[..len], offset - part.start);
            self.unless_it_ends(written)?;
            bytes = &bytes[len..];
            offset += len as u64;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.shared.lock().end == len { Ok(()) } else { Err(wrong("the object is not written as a whole")) }
    }

    fn abort(&self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
    }
}

impl OutputObject for Upload {
    fn left(&self) -> Option<Left> {
        let Found { plan, parts, .. } = self.found()?;
        let done: BTreeSet<u64> = parts.into_iter().map(|(part, _)| part).collect();
        Some(Left { plan: plan?, done: done.into_iter().collect() })
    }

    fn go_on(&self) -> io::Result<()> {
        let Some(Found { upload, plan: Some(plan), parts }) = self.found() else {
            return Err(wrong("the record of the upload has changed"));
        };
        let mut state = self.shared.lock();
        state.record.as_ref().map_or(Ok(()), Record::mend)?;
        (state.head, state.end) = (plan.header.clone(), plan.len);
        state.done = parts.into_iter().filter(|(part, _)| *part < plan.parts()).collect();
        while state.done.contains_key(&state.first) {
            state.first += 1;
        }
        (state.cut, state.upload, state.stays, state.went_on) = (Cut::Chunks(plan), Some(upload), true, true);
        Ok(())
    }

    fn begin(&self, plan: Plan) -> io::Result<()> {
        let shared = &self.shared;
        if let Some(found) = self.found() {
            // What cannot be deleted is left to the store.
            let _ = wait(async {
                shared.parts.store.abort_multipart(&shared.client.key, &found.upload).await.map_err(error::of)
            });
        }
        shared.lock().record.as_ref().map_or(Ok(()), Record::announce)?;
        let begun = async { shared.parts.store.create_multipart(&shared.client.key).await.map_err(error::of) };
        let upload = shared.client.wait(begun)?;
        let mut state = shared.lock();
        state.upload = Some(upload.clone());
        if let Some(record) = &state.record {
            record.begin(&upload, Some(&plan))?;
            state.stays = true;
        }
        state.cut = Cut::Chunks(plan);
        Ok(())
    }

    fn written(&self) -> u64 {
        self.shared.lock().end
    }

    fn commit(self: Box<Self>) -> io::Result<()> {
        self.finish(&if self.replaces { Condition::Any } else { Condition::New })
    }

    fn commit_over(self: Box<Self>, version: &str) -> io::Result<()> {
        self.finish(&Condition::Over(version.to_owned()))
    }
}

impl Upload {
    fn finish(&self, condition: &Condition) -> io::Result<()> {
        let completed = self.complete(condition);
        self.unless_it_ends(completed)?;
        let mut state = self.shared.lock();
        (state.upload, state.stays) = (None, false);
        if let Some(record) = state.record.take() {
            record.end();
        }
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let _ = wait(async { timeout(LAST, self.shared.give_up()).await.map_err(io::Error::other) });
    }
}

/// The uploads of this process.
static BEGUN: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// A store has received or dropped what it was receiving after this time.
const SETTLES: Duration = Duration::from_millis(300);

/// So long an object is looked for that the store may be making, with such pauses.
const LOOKS: Duration = Duration::from_secs(60);
const LOOKS_AGAIN: Duration = Duration::from_secs(2);

/// A process that ends waits so long for stores.
const LAST: Duration = Duration::from_secs(5);

/// Gives up all uploads of this process. A part that is under way then may stay with the store: `--abort` deletes it.
pub fn give_up_all() {
    let begun: Vec<_> = lock(&BEGUN).iter().filter_map(Weak::upgrade).collect();
    for shared in begun {
        shared.lock().ends = true;
        let _ = wait(async { timeout(LAST, shared.give_up()).await.map_err(io::Error::other) });
    }
}

/// The object of a record.
fn named(url: &Url, client: &Client) -> Named {
    Named { url: url.text().to_owned(), place: client.place.clone(), state: client.state.clone() }
}

/// Whether the store has understood and refused it, so that asking again changes nothing.
fn is_refusal(error: &io::Error) -> bool {
    let text = error.to_string();
    let signs = ["code: 400", "NoSuchUpload", "InvalidPart", "InvalidBlock", "InvalidRequest"];
    error.kind() == io::ErrorKind::NotFound || signs.iter().any(|sign| text.contains(sign))
}

/// Whether it may have been done although it failed. A store that denies access has done nothing.
fn may_be_done(error: &io::Error) -> bool {
    error.kind() != io::ErrorKind::PermissionDenied
}
