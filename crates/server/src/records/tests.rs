//! Streams against a server in this process, with bodies that arrive as a test says.

use crate::audit::Audit;
use crate::caller::Caller;
use crate::changes::By;
use crate::http::body::Body;
use crate::http::{Call, refused};
use crate::keys::NewKey;
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::rights::Rights;
use crate::server::Server;
use crate::store::{KeyRecord, Sqlite, Store, Stored};
use crate::tokens::NewToken;
use crate::work::Work;
use http_body_util::BodyExt;
use hyper::body::{Bytes, Frame};
use hyper::{Method, Response};
use phalanx_core::{SecretKey, Suite};
use phalanx_host::args::{EngineArgs, EngineName};
use phalanx_host::engines::Engines;
use phalanx_host::verbosity::Verbosity;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const ADA: &[u8] = b"ada";

/// A server without sockets.
pub(super) struct Bench {
    _folder: TempDir,
    pub(super) runtime: Runtime,
    pub(super) server: Arc<Server>,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        Self::make(limits, |_| None)
    }

    /// One that has a given key.
    pub(super) fn of_keys(key: impl FnOnce(&SecretKey) -> KeyRecord) -> Self {
        Self::make(Limits::default(), |root| Some(key(root)))
    }

    fn make(limits: Limits, key: impl FnOnce(&SecretKey) -> Option<KeyRecord>) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("db");
        drop(Sqlite::create(&path).unwrap());
        let mut store = Sqlite::open(&path).unwrap();
        let root = SecretKey::random().unwrap();
        if let Some(key) = key(&root) {
            store.transaction(&mut |store| store.put_key(&key)).unwrap();
        }
        let store = Arc::new(Stored::new(store).unwrap());
        let args = EngineArgs { engine: EngineName::Cpu, threads: None, paranoid: false };
        let engines = Engines::new(&args, Verbosity::default()).unwrap_or_else(|_| panic!("no engines"));
        let work = Work::new(engines).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let server = runtime.block_on(Server::open(&root, store, work, Audit::default(), limits)).unwrap();
        Self { _folder: folder, runtime, server: Arc::new(server) }
    }

    pub(super) fn key(&self, name: &str, suite: Suite) {
        let new = NewKey { suite, shreddable: false, needs_user: false };
        self.runtime.block_on(self.server.keys.create(&By::Admin, name, new)).unwrap();
    }

    fn token(&self, rights: &[&str], user: Option<&[u8]>) -> String {
        let rights = Rights::parse(rights.iter().copied(), user.map(<[u8]>::to_vec)).unwrap();
        let new = NewToken { rights, ttl: 0, renewable: false, parent: None, name: None };
        self.runtime.block_on(self.server.tokens.create(&By::Admin, new)).unwrap().0.to_string()
    }

    fn begin(&self, action: &str, token: Option<&str>, body: Body) -> Response<Body> {
        let caller = match token.map(|text| self.server.tokens.find(text)) {
            None => Caller { name: "own".into(), account: "own".into(), rights: Arc::new(Rights::all()), token: None },
            Some(None) => return refused(&Refusal::denied()),
            Some(Some(token)) => Caller {
                name: "token".into(),
                account: "token".into(),
                rights: token.rights.clone(),
                token: Some(token),
            },
        };
        let mut call = Call::own(self.server.clone(), caller, Method::POST, vec![action.to_owned()], body);
        self.runtime.block_on(super::answer(&mut call)).unwrap_or_else(|refusal| refused(&refusal))
    }

    /// The status and the answers to a body in these chunks.
    pub(super) fn chunks(&self, action: &str, token: Option<&str>, chunks: Vec<Vec<u8>>) -> (u16, Vec<(u16, Vec<u8>)>) {
        let response = self.begin(action, token, Chunks::new(chunks).boxed_unsync());
        let status = response.status().as_u16();
        let bytes = self.runtime.block_on(response.into_body().collect()).unwrap().to_bytes();
        (status, if status == 200 { split(&bytes) } else { Vec::new() })
    }

    pub(super) fn records(&self, action: &str, records: &[[&[u8]; 4]]) -> Vec<(u16, Vec<u8>)> {
        let (status, answers) = self.chunks(action, None, vec![stream(records)]);
        assert_eq!(status, 200);
        answers
    }

    /// The bytes of the only answer, which must be good.
    fn one(&self, action: &str, record: [&[u8]; 4]) -> Vec<u8> {
        let mut answers = self.records(action, &[record]);
        assert_eq!((answers.len(), answers[0].0), (1, 0), "{}", String::from_utf8_lossy(&answers[0].1));
        answers.remove(0).1
    }
}

/// A body of chunks, that counts those which were taken.
struct Chunks {
    chunks: VecDeque<Vec<u8>>,
    /// Whether more would follow that never comes.
    hangs: bool,
    taken: Arc<AtomicUsize>,
}

impl Chunks {
    fn new(chunks: Vec<Vec<u8>>) -> Self {
        Self { chunks: chunks.into(), hangs: false, taken: Arc::default() }
    }
}

impl hyper::body::Body for Chunks {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.chunks.pop_front() {
            Some(chunk) => {
                self.taken.fetch_add(chunk.len(), Ordering::SeqCst);
                Poll::Ready(Some(Ok(Frame::data(chunk.into()))))
            }
            None if self.hangs => Poll::Pending,
            None => Poll::Ready(None),
        }
    }
}

pub(super) fn record([key, user, ad, text]: [&[u8]; 4]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((key.len() as u16).to_le_bytes());
    bytes.extend((user.len() as u16).to_le_bytes());
    bytes.extend((ad.len() as u32).to_le_bytes());
    bytes.extend((text.len() as u32).to_le_bytes());
    [&bytes[..], key, user, ad, text].concat()
}

fn stream(records: &[[&[u8]; 4]]) -> Vec<u8> {
    records.iter().flat_map(|parts| record(*parts)).collect()
}

pub(super) fn split(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut answers = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
        assert_eq!(head[2..4], [0, 0]);
        let (own, rest) = rest.split_at(u32::from_le_bytes(head[4..].try_into().unwrap()) as usize);
        answers.push((u16::from_le_bytes([head[0], head[1]]), own.to_vec()));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "an answer breaks off");
    answers
}

fn statuses(answers: &[(u16, Vec<u8>)]) -> Vec<u16> {
    answers.iter().map(|answer| answer.0).collect()
}

#[test]
fn every_suite_seals_and_opens() {
    let bench = Bench::new();
    for suite in Suite::ALL.iter().copied() {
        let name = format!("key-{}", suite.id());
        bench.key(&name, suite);
        for text in [&b""[..], b"x", &[7; 5000]] {
            let sealed = bench.one("seal", [name.as_bytes(), ADA, b"v1", text]);
            assert_eq!(sealed[..5], [1, 0, 0, 0, suite.id()]);
            assert_eq!(sealed.len(), 5 + suite.overhead() + text.len());
            assert_eq!(bench.one("open", [name.as_bytes(), ADA, b"v1", &sealed]), text);
            for other in
                [[name.as_bytes(), b"bob", b"v1"], [name.as_bytes(), ADA, b"v2"], [name.as_bytes(), b"", b"v1"]]
            {
                let answers = bench.records("open", &[[other[0], other[1], other[2], &sealed]]);
                assert_eq!(answers, [(400, b"cipher: message authentication failed".to_vec())]);
            }
        }
    }
}

#[test]
fn what_is_wrong_with_one_record_is_its_own() {
    let bench = Bench::new();
    bench.key("a", Suite::default());
    let sealed = bench.one("seal", [b"a", ADA, b"", b"text"]);
    let mut newer = sealed.clone();
    newer[0] = 2;
    let mut altered = sealed.clone();
    *altered.last_mut().unwrap() ^= 1;
    let mut other_suite = sealed.clone();
    other_suite[4] = 4;
    let answers = bench.records(
        "open",
        &[
            [b"a", ADA, b"", &sealed],
            [b"none", ADA, b"", &sealed],
            [b"a", ADA, b"", &newer],
            [b"a", ADA, b"", &altered],
            [b"a", ADA, b"", &other_suite],
            [b"a", ADA, b"", &sealed[..4]],
            [b"\xff", ADA, b"", &sealed],
            [b"", ADA, b"", &sealed],
            [b"a", ADA, b"", &sealed],
        ],
    );
    assert_eq!(statuses(&answers), [0, 404, 400, 400, 400, 400, 400, 404, 0]);
    assert_eq!((&answers[0].1[..], &answers[8].1[..]), (&b"text"[..], &b"text"[..]));
}

#[test]
fn answers_are_the_same_however_the_body_is_cut() {
    let bench = Bench::new();
    bench.key("a", Suite::default());
    bench.key("b", Suite::ALL[3]);
    let sealed = [bench.one("seal", [b"a", ADA, b"", b"one"]), bench.one("seal", [b"b", b"", b"ad", b"two"])];
    let body = stream(&[[b"a", ADA, b"", &sealed[0]], [b"b", b"", b"ad", &sealed[1]], [b"a", b"", b"", &sealed[0]]]);
    let whole = bench.chunks("open", None, vec![body.clone()]);
    assert_eq!(statuses(&whole.1), [0, 0, 400]);
    for at in 0..=body.len() {
        let chunks = vec![body[..at].to_vec(), body[at..].to_vec()];
        assert_eq!(bench.chunks("open", None, chunks), whole, "{at}");
    }
    assert_eq!(bench.chunks("open", None, body.chunks(1).map(<[u8]>::to_vec).collect()), whole);
}

/// Texts of lengths around those from which answers are sent without being copied, among refusals, under keys of short and
/// long names.
#[test]
fn large_and_small_answers_follow_one_another() {
    let bench = Bench::new();
    bench.key("k", Suite::ALL[0]);
    bench.key("orders", Suite::ALL[3]);
    let lengths = [40_000, 0, 16_383, 16_384, 16_385, 7, 100_000, 100_000, 16_384 - 49, 16_384 - 28, 1 << 20, 3];
    let texts: Vec<Vec<u8>> = lengths.iter().map(|len| (0..*len).map(|i: u32| (i * 7 % 251) as u8).collect()).collect();
    let names: [(&[u8], &[u8]); 4] = [(b"k", b""), (b"orders", ADA), (b"none", ADA), (b"k", b"bob")];
    let name = |i: usize| names[i % names.len()];
    let record = |i: usize, text: &[u8]| record([name(i).0, name(i).1, if i % 3 == 1 { b"ad" } else { b"" }, text]);
    let body = |texts: &[Vec<u8>]| texts.iter().enumerate().flat_map(|(i, text)| record(i, text)).collect::<Vec<u8>>();
    for cut in [usize::MAX, 65_536, 70_001, 1000] {
        let chunks = |body: Vec<u8>| body.chunks(cut).map(<[u8]>::to_vec).collect();
        let (_, sealed) = bench.chunks("seal", None, chunks(body(&texts)));
        let good = |i: usize| name(i).0 != b"none";
        let expected: Vec<u16> = (0..texts.len()).map(|i| if good(i) { 0 } else { 404 }).collect();
        assert_eq!(statuses(&sealed), expected, "{cut}");
        let sealed: Vec<_> = sealed.into_iter().map(|answer| answer.1).collect();
        bench.runtime.block_on(bench.server.keys.rotate(&By::Admin, "k")).unwrap();
        let (_, again) = bench.chunks("rewrap", None, chunks(body(&sealed)));
        assert_eq!(statuses(&again), expected, "{cut}");
        let versions: Vec<&[u8]> = (0..again.len()).filter(|i| i % 4 == 0).map(|i| &again[i].1[..4]).collect();
        let latest = bench.server.keys.get("k").unwrap().latest().to_le_bytes();
        assert!(versions.iter().all(|version| **version == latest), "{cut}");
        let mut again: Vec<_> = again.into_iter().map(|answer| answer.1).collect();
        *again[6 + 1].last_mut().unwrap() ^= 1;
        for sealed in [again, sealed] {
            let (_, opened) = bench.chunks("open", None, chunks(body(&sealed)));
            for (i, (status, bytes)) in opened.iter().enumerate() {
                assert!(*status == 0 && *bytes == texts[i] || !good(i) || i == 7 && *status == 400, "{cut} {i}");
            }
        }
    }
    assert_eq!(bench.server.in_flight.available_permits(), bench.server.limits.in_flight);
}

/// At every border: the records that are whole are answered although the rest of the next one does not come, and that one is
/// answered when it has come.
#[test]
fn a_record_that_is_not_whole_holds_up_nobody() {
    let bench = Bench::new();
    bench.key("a", Suite::default());
    let second = record([b"a", b"bob", b"ad", b"a text that comes later"]);
    for at in 0..=second.len() {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        sender.send([&record([b"a", ADA, b"", b"one"]), &second[..at]].concat()).unwrap();
        let mut body = bench.begin("seal", None, Late(receiver).boxed_unsync()).into_body();
        let first = bench.runtime.block_on(body.frame()).unwrap().unwrap().into_data().unwrap();
        assert_eq!(statuses(&split(&first)), if at == second.len() { vec![0, 0] } else { vec![0] }, "{at}");
        second[at..].chunks(9).for_each(|rest| sender.send(rest.to_vec()).unwrap());
        drop(sender);
        let rest = split(&bench.runtime.block_on(body.collect()).unwrap().to_bytes());
        if at < second.len() {
            assert_eq!(statuses(&rest), [0], "{at}");
            assert_eq!(bench.one("open", [b"a", b"bob", b"ad", &rest[0].1]), b"a text that comes later");
        }
    }
    assert_eq!(bench.server.in_flight.available_permits(), bench.server.limits.in_flight);
}

/// What is known of its key when it begins is not used for long.
#[test]
fn a_record_that_comes_slowly_is_sealed_under_the_newest_version() {
    let bench = Bench::new();
    bench.key("a", Suite::default());
    let record = record([b"a", ADA, b"", b"a text that comes slowly"]);
    let (begun, rest) = record.split_at(record.len() - 4);
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    sender.send(begun.to_vec()).unwrap();
    let slow = bench.runtime.spawn({
        let server = bench.server.clone();
        let rest = rest.to_vec();
        async move {
            tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
            server.keys.rotate(&By::Admin, "a").await.unwrap();
            sender.send(rest).unwrap();
        }
    });
    let body = bench.begin("seal", None, Late(receiver).boxed_unsync()).into_body();
    let answers = split(&bench.runtime.block_on(body.collect()).unwrap().to_bytes());
    bench.runtime.block_on(slow).unwrap();
    assert_eq!((statuses(&answers), &answers[0].1[..4]), (vec![0], &[2, 0, 0, 0][..]));
    assert_eq!(bench.one("open", [b"a", ADA, b"", &answers[0].1]), b"a text that comes slowly");
}

#[test]
fn a_stream_that_breaks_off_is_answered_up_to_there() {
    let bench = Bench::new();
    bench.key("a", Suite::default());
    let two = stream(&[[b"a", ADA, b"", b"one"], [b"a", ADA, b"", b"two"]]);
    let first = record([b"a", ADA, b"", b"one"]).len();
    for len in 0..two.len() {
        let (status, answers) = bench.chunks("seal", None, vec![two[..len].to_vec()]);
        let expected: &[u16] = match len {
            0 => &[],
            _ if len < first => &[400],
            _ if len == first => &[0],
            _ => &[0, 400],
        };
        assert_eq!((status, &statuses(&answers)[..]), (200, expected), "{len}");
    }
    let mut too_long = two.clone();
    too_long.extend_from_slice(&[255; 12]);
    too_long.extend_from_slice(&two);
    let (_, answers) = bench.chunks("seal", None, vec![too_long]);
    assert_eq!(statuses(&answers), [0, 0, 413]);
    assert_eq!(answers[2].1, b"a key's name is longer than 128 bytes");
}

#[test]
fn limits_hold_at_each_boundary() {
    let bench = Bench::with(Limits { record_bytes: 1000, user_bytes: 10, stream_bytes: 5000, ..Limits::default() });
    bench.key(&"k".repeat(128), Suite::default());
    let key = [b'k'; 128];
    let sealed = bench.one("seal", [&key, &[b'u'; 10], &[1; 1000], &[2; 1000]]);
    assert_eq!(bench.one("open", [&key, &[b'u'; 10], &[1; 1000], &sealed]), [2; 1000]);
    let over: [[&[u8]; 4]; 4] = [
        [&[b'k'; 129], b"", b"", b""],
        [&key, &[b'u'; 11], b"", b""],
        [&key, b"", &[1; 1001], b""],
        [&key, b"", b"", &[2; 1001]],
    ];
    for parts in over {
        assert_eq!(statuses(&bench.records("seal", &[parts])), [413]);
    }
    let fits = record([&key, b"", b"", &[0; 860]]);
    assert_eq!(fits.len(), 1000);
    assert_eq!(statuses(&bench.chunks("seal", None, vec![fits.repeat(5)]).1), [0; 5]);
    let longer = vec![fits.clone(), fits.clone(), fits.clone(), fits.clone(), fits, vec![0]];
    assert_eq!(statuses(&bench.chunks("seal", None, longer).1), [0, 0, 0, 0, 0, 413]);
}

#[test]
fn rights_are_those_of_each_record() {
    let bench = Bench::new();
    bench.key("a", Suite::default());
    bench.key("b", Suite::default());
    let token = bench.token(&["seal:a"], Some(ADA));
    let body =
        stream(&[[b"a", ADA, b"", b"x"], [b"b", ADA, b"", b"x"], [b"none", ADA, b"", b"x"], [b"a", b"bob", b"", b"x"]]);
    let (status, answers) = bench.chunks("seal", Some(&token), vec![body.clone()]);
    assert_eq!((status, statuses(&answers)), (200, vec![0, 403, 403, 403]));
    assert_eq!(answers[1], answers[2]);
    assert_eq!(bench.chunks("open", Some(&token), vec![body.clone()]).0, 403);
    assert_eq!(bench.chunks("rewrap", Some(&token), vec![body.clone()]).0, 403);
    assert_eq!(bench.chunks("seal", Some("phx.none"), vec![body]).0, 403);
    let both = bench.token(&["seal:a", "open:a"], None);
    let sealed = answers[0].1.clone();
    let (_, answers) = bench.chunks("rewrap", Some(&both), vec![record([b"a", ADA, b"", &sealed])]);
    assert_eq!(statuses(&answers), [0]);
}

#[test]
fn rewrapping_keeps_the_user_and_the_associated_data() {
    let bench = Bench::new();
    bench.key("a", Suite::default());
    let sealed = bench.one("seal", [b"a", ADA, b"ad", b"text"]);
    bench.runtime.block_on(bench.server.keys.rotate(&By::Admin, "a")).unwrap();
    let again = bench.one("rewrap", [b"a", ADA, b"ad", &sealed]);
    assert_eq!(again[..4], [2, 0, 0, 0]);
    assert_eq!(bench.one("open", [b"a", ADA, b"ad", &again]), b"text");
    assert_eq!(bench.one("open", [b"a", ADA, b"ad", &sealed]), b"text");
    let answers = bench.records("open", &[[b"a", b"bob", b"ad", &again], [b"a", ADA, b"", &again]]);
    assert_eq!(statuses(&answers), [400, 400]);
    assert_eq!(statuses(&bench.records("rewrap", &[[b"a", b"bob", b"ad", &sealed]])), [400]);
}

#[test]
fn many_records_are_answered_in_their_order() {
    let bench = Bench::new();
    bench.key("a", Suite::default());
    let texts: Vec<Vec<u8>> =
        (0..30_000_u32).map(|i| [&i.to_le_bytes()[..], &vec![0; i as usize % 300]].concat()).collect();
    let users: Vec<[u8; 4]> = (0..30_000_u32).map(u32::to_le_bytes).collect();
    let records = |texts: &[Vec<u8>]| -> Vec<u8> {
        users.iter().zip(texts).flat_map(|(user, text)| record([b"a", user, b"", text])).collect()
    };
    let pieces = |bytes: Vec<u8>| bytes.chunks(100_003).map(<[u8]>::to_vec).collect();
    let (_, sealed) = bench.chunks("seal", None, pieces(records(&texts)));
    assert!(sealed.len() == texts.len() && sealed.iter().all(|answer| answer.0 == 0));
    let sealed: Vec<_> = sealed.into_iter().map(|answer| answer.1).collect();
    let (_, opened) = bench.chunks("open", None, pieces(records(&sealed)));
    assert!(opened.iter().zip(&texts).all(|(answer, text)| answer.0 == 0 && answer.1 == *text));
    assert_eq!(bench.server.in_flight.available_permits(), bench.server.limits.in_flight);
}

/// A stream of which no answer is read is taken for 8 MiB and not for much more, and a client that never reads is given
/// up, with all that it held.
#[test]
fn a_client_may_be_ahead_of_its_answers_so_far() {
    let bench = Bench::with(Limits { idle_seconds: 4, ..Limits::default() });
    bench.key("a", Suite::default());
    let text = vec![0; 100_000];
    let chunks = Chunks::new(vec![record([b"a", ADA, b"", &text]); 1000]);
    let taken = chunks.taken.clone();
    let response = bench.begin("seal", None, chunks.boxed_unsync());
    let mut body = response.into_body();
    let began = std::time::Instant::now();
    while bench.server.in_flight.available_permits() < bench.server.limits.in_flight {
        assert!(began.elapsed().as_secs() < 60, "it is not given up");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let taken = taken.load(Ordering::SeqCst);
    assert!((8 << 20..13 << 20).contains(&taken), "{taken}");
    let read = bench.runtime.block_on(async {
        let mut read = 0;
        loop {
            match body.frame().await {
                Some(Ok(frame)) => read += frame.into_data().unwrap().len(),
                Some(Err(_)) => return read,
                None => panic!("a broken answer looks whole"),
            }
        }
    });
    assert!(read > 0 && read < taken);
}

#[test]
fn others_are_served_while_many_records_are_taken() {
    let bench = Bench::new();
    bench.key("a", Suite::default());
    let caller = Caller { name: "own".into(), account: "own".into(), rights: Arc::new(Rights::all()), token: None };
    let chunks = Chunks::new(vec![record([b"a", ADA, b"", b""]).repeat(4000)]);
    let mut call =
        Call::own(bench.server.clone(), caller, Method::POST, vec!["seal".to_owned()], chunks.boxed_unsync());
    let mut waits = 0;
    let answer = bench.runtime.block_on(async {
        let mut answer = std::pin::pin!(super::answer(&mut call));
        std::future::poll_fn(|context| {
            let answered = answer.as_mut().poll(context);
            waits += usize::from(answered.is_pending());
            answered
        })
        .await
    });
    assert_eq!(answer.map(|answer| answer.status().as_u16()).map_err(|_| ()), Ok(200));
    assert!(waits >= 10, "{waits}");
}

#[test]
fn a_client_that_waits_for_an_answer_gets_it() {
    let bench = Bench::new();
    bench.key("a", Suite::default());
    let mut chunks = Chunks::new(vec![record([b"a", ADA, b"", b"text"])]);
    chunks.hangs = true;
    let mut body = bench.begin("seal", None, chunks.boxed_unsync()).into_body();
    let first = bench.runtime.block_on(body.frame()).unwrap().unwrap().into_data().unwrap();
    assert_eq!(statuses(&split(&first)), [0]);
}

#[test]
fn a_client_that_sends_nothing_is_given_up() {
    let bench = Bench::with(Limits { idle_seconds: 1, ..Limits::default() });
    bench.key("a", Suite::default());
    let mut chunks = Chunks::new(vec![record([b"a", ADA, b"", b"text"]), vec![1]]);
    chunks.hangs = true;
    let body = bench.begin("seal", None, chunks.boxed_unsync()).into_body();
    let bytes = bench.runtime.block_on(body.collect()).unwrap().to_bytes();
    assert_eq!(statuses(&split(&bytes)), [0, 408]);
    assert_eq!(bench.server.in_flight.available_permits(), bench.server.limits.in_flight);
}

#[test]
fn what_is_too_much_for_now_is_refused() {
    let bench = Bench::new();
    bench.key("a", Suite::default());
    let all = u32::try_from(bench.server.limits.in_flight).unwrap();
    let permit = bench.server.in_flight.clone().try_acquire_many_owned(all).unwrap();
    let body = record([b"a", ADA, b"", b"text"]);
    assert_eq!(bench.chunks("seal", None, vec![body.clone()]).0, 429);
    drop(permit);
    assert_eq!(statuses(&bench.chunks("seal", None, vec![body]).1), [0]);
}

#[test]
fn what_ends_a_body_early_ends_the_stream() {
    let bench = Bench::new();
    bench.key("a", Suite::default());
    let frames = [Ok(Frame::data(Bytes::from(record([b"a", ADA, b"", b"x"])))), Err("gone".into())];
    let body = Frames(frames.into()).boxed_unsync();
    let bytes = bench.runtime.block_on(bench.begin("seal", None, body).into_body().collect()).unwrap().to_bytes();
    assert_eq!(statuses(&split(&bytes)), [0, 400]);
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Frames(VecDeque<Result<Frame<Bytes>, Failure>>);

impl hyper::body::Body for Frames {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        Poll::Ready(self.0.pop_front())
    }
}

#[test]
fn a_token_that_ends_ends_what_it_allowed() {
    let bench = Bench::new();
    bench.key("a", Suite::default());
    let token = bench.token(&["seal:a"], None);
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    sender.send(record([b"a", ADA, b"", b"one"])).unwrap();
    let mut body = bench.begin("seal", Some(&token), Late(receiver).boxed_unsync()).into_body();
    let first = bench.runtime.block_on(body.frame()).unwrap().unwrap().into_data().unwrap();
    assert_eq!(statuses(&split(&first)), [0]);
    let accessor = bench.server.tokens.find(&token).unwrap().record.accessor.clone();
    bench.runtime.block_on(bench.server.tokens.revoke(&By::Admin, &accessor)).unwrap();
    sender.send(record([b"a", ADA, b"", b"two"])).unwrap();
    drop(sender);
    let rest = bench.runtime.block_on(body.collect()).unwrap().to_bytes();
    assert_eq!(statuses(&split(&rest)), [403]);
}

/// A body of what is sent.
struct Late(tokio::sync::mpsc::UnboundedReceiver<Vec<u8>>);

impl hyper::body::Body for Late {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk.into()))))
    }
}
