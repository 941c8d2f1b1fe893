//! Objects in a store on this machine: `phalanx` beside `aws s3 cp` and `rclone`, with the same server in the same run.

mod folder;
mod slow;

use crate::measure::peers::programs;
use crate::measure::programs::{failure, finish, require};
use crate::measure::{Contestant, Error, Result, Row, Rows, Scratch, Setup, Step, in_turns, row_of, scratch, time};
use crate::names::peers::EXPERIMENT;
use slow::Slow;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use std::{fs, io};

const OURS: &str = "phalanx, suite 1";
const AWS: &str = "aws s3 cp";
const RCLONE: &str = "rclone";
const CRYPT: &str = "rclone crypt";
const WHOLE: &str = "whole command";
/// Only the server on this machine knows it.
const KEY: (&str, &str) = ("bench", "only-for-a-server-on-this-machine");
/// What a range asks for in the middle, in bytes.
const RANGE: u64 = 64 << 10;
/// The bytes of a chunk in the object.
const CHUNK: u64 = (1 << 20) + 48;
/// What each request takes more, for a range.
const DELAY: Duration = Duration::from_millis(10);
/// The most memory of a whole command, in KiB.
const MEMORY: u64 = 96 << 10;

/// How much is measured.
#[derive(Clone, Copy)]
struct Sizes {
    file: u64,
    /// The object of which a range is read.
    large: u64,
    /// The files of a folder.
    files: u64,
    rounds: usize,
}

const FULL: Sizes = Sizes { file: 4 << 30, large: 10 << 30, files: 10_000, rounds: 3 };
const QUICK: Sizes = Sizes { file: 40 << 20, large: 64 << 20, files: 100, rounds: 1 };

/// The step of this part.
pub fn step<'a>(setup: &'a Setup, own: &'a Scratch) -> Result<Step<'a>> {
    let sizes = if setup.quick { QUICK } else { FULL };
    // The file, what comes back, and an object of each program; then the large file and its object.
    scratch::require_disk(&setup.out, (6 * sizes.file).max(2 * sizes.large) + sizes.file / 2)?;
    Ok(Step::new(format!("{EXPERIMENT} stores"), sizes.file / 10, move |rows| measure(setup, own, sizes, rows)))
}

/// What these measurements need that this machine lacks.
pub fn missing() -> Vec<String> {
    ["versitygw", "aws", "rclone"].into_iter().filter(|name| require(name).is_err()).map(String::from).collect()
}

fn measure(setup: &Setup, own: &Scratch, sizes: Sizes, rows: &mut Rows<'_>) -> Result<()> {
    let store = match Store::start(setup, own) {
        Ok(store) => store,
        Err(Error::NotRun(why)) => return rows.write(row(sizes, "upload", OURS).not_run(&why)),
        Err(error) => return Err(error),
    };
    whole(setup, &store, sizes, rows)?;
    resumed(setup, &store, sizes, rows)?;
    part(setup, &store, sizes, rows)?;
    folder::mirrored(setup, &store, sizes, rows)
}

/// A row of whole files.
fn row(sizes: Sizes, operation: &str, scheme: &str) -> Row {
    let case = format!("{} MiB, a store on this machine", sizes.file >> 20);
    row_of(EXPERIMENT, case, [operation, WHOLE, scheme, "command"], [sizes.file, 1], 0)
}

/// A server, the programs that use it, and files.
struct Store<'a> {
    server: Child,
    address: SocketAddr,
    /// The folder in which the server keeps the bucket.
    bucket: PathBuf,
    phalanx: PathBuf,
    keyring: PathBuf,
    own: &'a Scratch,
}

impl<'a> Store<'a> {
    fn start(setup: &Setup, own: &'a Scratch) -> Result<Self> {
        let program = require("versitygw")?;
        let help = Command::new(&setup.program).args(["protect", "--help"]).output();
        let help = help.map_err(|e| Error::Path(setup.program.clone(), e))?;
        if !String::from_utf8_lossy(&help.stdout).contains("--endpoint-url") {
            return Err(Error::NotRun("phalanx was built without stores".into()));
        }
        let (folder, keyring) = (own.folder("store")?, programs::keyring(&setup.program, own)?);
        // Attributes of files have no room for the names of a thousand parts.
        let names = own.folder("names")?;
        let bucket = folder.join("bucket");
        fs::create_dir(&bucket).map_err(Error::at(&bucket))?;
        let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = bound.map_err(Error::at(&folder))?;
        let mut command = Command::new(program);
        command.env("ROOT_ACCESS_KEY", KEY.0).env("ROOT_SECRET_KEY", KEY.1);
        // Amazon's servers keep connections too.
        command
            .args(["--quiet", "--keep-alive", "--port", &address.to_string(), "posix", "--sidecar"])
            .arg(&names)
            .arg(&folder);
        let failed = failure(&command);
        let server = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = server.map_err(|e| failed(&e.to_string()))?;
        let mut store = Self { server, address, bucket, phalanx: setup.program.clone(), keyring, own };
        while TcpStream::connect(store.address).is_err() {
            if store.server.try_wait().is_ok_and(|ended| ended.is_some()) {
                return Err(failed("it ended at once"));
            }
            sleep(Duration::from_millis(10));
        }
        Ok(store)
    }

    /// A command that reaches the server at an address, with arguments that are words.
    fn command(&self, program: &Path, at: SocketAddr, words: &str, more: &[&Path]) -> Command {
        let mut command = Command::new(program);
        command.args(words.split_whitespace()).args(more);
        // rclone refuses to start with the second one, which a store without TLS does not need.
        command.env_remove("PHALANX_PASSWORD").env_remove("AWS_CA_BUNDLE");
        command.env("AWS_ACCESS_KEY_ID", KEY.0).env("AWS_SECRET_ACCESS_KEY", KEY.1).env("AWS_REGION", "us-east-1");
        command.env("AWS_ENDPOINT_URL", format!("http://{at}")).env("HOME", self.own.path(""));
        command.env("PHALANX_KEYRING", &self.keyring).env("PHALANX_STATE", self.own.path("state"));
        command
    }

    fn phalanx(&self, words: &str, file: &Path) -> Command {
        self.command(&self.phalanx, self.address, words, &[file])
    }

    /// The parts of uploads that are not completed, as the server keeps them.
    fn parts(&self) -> usize {
        fn files(folder: &Path) -> usize {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { 1 }).sum()
        }
        files(&self.bucket.join(".sgwtmp/multipart"))
    }

    fn remove(&self, object: &str) -> Result<()> {
        // What the server knows of it lies in a folder.
        let _ = fs::remove_dir_all(self.own.path("names").join("bucket").join(object));
        scratch::remove(&self.bucket.join(object))
    }
}

impl Drop for Store<'_> {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A program that sends a file and fetches it.
struct Peer<'a> {
    name: &'static str,
    upload: Box<dyn Fn(&Path) -> Command + 'a>,
    download: Box<dyn Fn(&Path) -> Command + 'a>,
    /// The object, as the server keeps it.
    object: &'static str,
}

fn ours<'a>(store: &'a Store<'_>) -> Peer<'a> {
    Peer {
        name: OURS,
        upload: Box::new(|file| store.phalanx("protect -qk bench -o s3://bucket/ours.phx", file)),
        download: Box::new(|file| store.phalanx("unprotect -q --no-sync s3://bucket/ours.phx -o", file)),
        object: "ours.phx",
    }
}

fn aws<'a>(store: &'a Store<'_>) -> Result<Peer<'a>> {
    let aws = require("aws")?;
    let call = move |words: &str, file: &Path| store.command(&aws, store.address, words, &[file]);
    let down = call.clone();
    Ok(Peer {
        name: AWS,
        upload: Box::new(move |file| {
            let mut command = call("s3 cp --only-show-errors", file);
            command.arg("s3://bucket/aws");
            command
        }),
        download: Box::new(move |file| down("s3 cp --only-show-errors s3://bucket/aws", file)),
        object: "aws",
    })
}

/// rclone with the remotes `store` and, by its `crypt`, `secret`. Variables name the server.
struct Rclone {
    program: PathBuf,
    password: String,
}

impl Rclone {
    fn find() -> Result<Self> {
        let program = require("rclone")?;
        let obscured = Command::new(&program).args(["obscure", "correct horse battery staple"]).output();
        let obscured = obscured.map_err(|e| Error::Path(program.clone(), e))?;
        Ok(Self { program, password: String::from_utf8_lossy(&obscured.stdout).trim().to_owned() })
    }

    fn command(&self, store: &Store<'_>, at: SocketAddr, words: &str, more: &[&Path]) -> Command {
        let mut command = store.command(&self.program, at, "--config /dev/null --quiet", &[]);
        // By default it waits a second before each part for a word that this server does not say.
        command.args(["--expect-continue-timeout", "0"]).args(words.split_whitespace()).args(more);
        for (name, value) in [
            ("STORE_TYPE", "s3"),
            ("STORE_PROVIDER", "Other"),
            ("STORE_ENV_AUTH", "true"),
            // It would make the bucket, which is there.
            ("STORE_NO_CHECK_BUCKET", "true"),
            ("STORE_REGION", "us-east-1"),
            // As the others do.
            ("STORE_CHUNK_SIZE", "8M"),
            ("STORE_ENDPOINT", &format!("http://{at}")),
            ("SECRET_TYPE", "crypt"),
            ("SECRET_REMOTE", "store:bucket/crypt"),
            ("SECRET_FILENAME_ENCRYPTION", "off"),
            ("SECRET_DIRECTORY_NAME_ENCRYPTION", "false"),
            ("SECRET_PASSWORD", &self.password),
        ] {
            command.env(format!("RCLONE_CONFIG_{name}"), value);
        }
        command
    }
}

/// rclone, in the clear or with its `crypt` remote.
fn rclone<'a>(store: &'a Store<'_>, name: &'static str) -> Result<Peer<'a>> {
    let (remote, object) =
        if name == CRYPT { ("secret:file", "crypt/file.bin") } else { ("store:bucket/rclone", "rclone") };
    let (up, down) = (Rclone::find()?, Rclone::find()?);
    let remote = PathBuf::from(remote);
    let there = remote.clone();
    Ok(Peer {
        name,
        upload: Box::new(move |file| up.command(store, store.address, "copyto", &[file, &there])),
        download: Box::new(move |file| down.command(store, store.address, "copyto", &[&remote, file])),
        object,
    })
}

/// Whole files, up and down.
fn whole(setup: &Setup, store: &Store<'_>, sizes: Sizes, rows: &mut Rows<'_>) -> Result<()> {
    let row = |operation: &str, scheme: &str| row(sizes, operation, scheme);
    let plain = store.own.file("plain", sizes.file, 1)?;
    let back = store.own.path("back");
    let mut peers = vec![ours(store)];
    for (name, peer) in [(AWS, aws(store)), (RCLONE, rclone(store, RCLONE)), (CRYPT, rclone(store, CRYPT))] {
        match peer {
            Ok(peer) => peers.push(peer),
            Err(why) => rows.write(row("upload", name).not_run(&why.to_string()))?,
        }
    }
    let contestants = peers.iter().map(|peer| {
        let both = ["upload", "download"].map(|operation| row(operation, peer.name));
        Contestant::new(both.into(), |turn| {
            scratch::fetch_memory(sizes.file);
            let (up, done) = time(|| finish((peer.upload)(&plain)));
            done?;
            scratch::fetch_memory(sizes.file);
            let (down, done) = time(|| finish((peer.download)(&back)));
            done?;
            if turn.is_first {
                scratch::require_same(&plain, &back)?;
            }
            scratch::remove(&back)?;
            store.remove(peer.object)?;
            Ok(vec![Some(up), Some(down)])
        })
    });
    let all = in_turns(contestants.collect(), 1, sizes.rounds)?.concat();
    for row in &all {
        rows.write(Row { note: Some(super::FETCHED.into()), ..row.clone() })?;
    }
    for ours in all.iter().filter(|row| row.scheme == OURS) {
        for peer in all.iter().filter(|row| row.operation == ours.operation && row.scheme != OURS) {
            let ratio = peer.median_s.zip(ours.median_s).map(|(peer, ours)| peer / ours);
            let asked = match peer.scheme.as_str() {
                AWS => Some(0.9),
                CRYPT => Some(2.0),
                _ => None,
            };
            let bar = asked.zip(ratio).and_then(|(asked, ratio)| {
                setup.bar(format!("at least {asked} times as fast as {}, 4 GiB", peer.scheme), ratio >= asked)
            });
            let measure = format!("{WHOLE}: times as fast as {}", peer.scheme);
            let row = row(&ours.operation, OURS);
            rows.write(Row { measure, speedup: ratio, over: Some(peer.scheme.clone()), bar, ..row })?;
        }
    }
    memory(setup, store, &plain, sizes, rows)
}

/// The memory of both directions.
fn memory(setup: &Setup, store: &Store<'_>, plain: &Path, sizes: Sizes, rows: &mut Rows<'_>) -> Result<()> {
    let (ours, back) = (ours(store), store.own.path("back"));
    for (operation, command) in [("upload", (ours.upload)(plain)), ("download", (ours.download)(&back))] {
        let failed = failure(&command);
        let (seconds, peak_kib) = time(|| programs::peak_memory(command));
        let peak_kib = peak_kib?.ok_or_else(|| failed("its memory is not known"))?;
        let bar = setup.bar(format!("at most {} MiB, 4 GiB", MEMORY >> 10), peak_kib <= MEMORY);
        let row = Row { measure: "peak memory".into(), peak_kib: Some(peak_kib), bar, ..row(sizes, operation, OURS) };
        rows.write(row.timed(vec![seconds]))?;
    }
    scratch::remove(&back)?;
    store.remove(ours.object)
}

/// An upload that is killed at 90 %, and goes on.
fn resumed(setup: &Setup, store: &Store<'_>, sizes: Sizes, rows: &mut Rows<'_>) -> Result<()> {
    let plain = store.own.path("plain");
    let upload = || store.phalanx("protect -qk bench --resume -o s3://bucket/resumed.phx", &plain);
    let (mut whole, mut rest) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        scratch::fetch_memory(sizes.file);
        let (seconds, done) = time(|| finish(upload()));
        done?;
        whole.push(seconds);
        store.remove("resumed.phx")?;
        let mut command = upload();
        let failed = failure(&command);
        let mut killed = command.stderr(Stdio::null()).spawn().map_err(|e| failed(&e.to_string()))?;
        let parts = (sizes.file >> 23) as usize;
        while store.parts() < parts * 9 / 10 {
            if killed.try_wait().is_ok_and(|ended| ended.is_some()) {
                return Err(failed("it ended before it was killed"));
            }
            sleep(Duration::from_millis(2));
        }
        killed.kill().and_then(|()| killed.wait()).map_err(|e: io::Error| failed(&e.to_string()))?;
        let (seconds, done) = time(|| finish(upload()));
        done?;
        rest.push(seconds);
        store.remove("resumed.phx")?;
    }
    let (whole, rest) =
        (row(sizes, "upload, --resume", OURS).timed(whole), row(sizes, "upload, killed at 90 %", OURS).timed(rest));
    let part = rest.median_s.zip(whole.median_s).map(|(rest, whole)| rest / whole);
    rows.write(whole.clone())?;
    rows.write(rest.clone())?;
    let bar = part.and_then(|part| setup.bar("at most 0.15 of a whole run, 4 GiB".into(), part <= 0.15));
    let measure = format!("{WHOLE}: part of a whole run");
    rows.write(Row { measure, seconds: Vec::new(), median_s: None, gb_per_s: None, value: part, bar, ..rest })?;
    scratch::remove(&plain)
}

/// A part of a large object, with a store that takes some time for each request.
fn part(setup: &Setup, store: &Store<'_>, sizes: Sizes, rows: &mut Rows<'_>) -> Result<()> {
    let large = store.own.file("large", sizes.large, 2)?;
    finish(store.phalanx("protect -qk bench -o s3://bucket/large.phx", &large))?;
    scratch::remove(&large)?;
    let slow = Slow::start(store.address, DELAY).map_err(Error::at(&store.bucket))?;
    let case = format!("64 KiB from {} MiB, 10 ms for each request", sizes.large >> 20);
    let row = |measure: &str| row_of(EXPERIMENT, &case, ["range", measure, OURS, "command"], [RANGE, 1], 0);
    let (from, part) = (sizes.large / 2, store.own.path("part"));
    let words = format!("unprotect -qf --no-sync s3://bucket/large.phx --range {from}-{} -o", from + RANGE);
    let fetch = || store.command(&store.phalanx, slow.address, &words, &[&part]);
    finish(fetch())?;
    let (requests, bytes) = slow.taken();
    let mut seconds = Vec::new();
    for _ in 0..5 * sizes.rounds {
        let (second, done) = time(|| finish(fetch()));
        done?;
        seconds.push(second);
    }
    let timed = row(WHOLE).timed(seconds);
    let bar = timed.median_s.and_then(|median| setup.bar("at most 60 ms, 10 GiB".into(), median <= 0.06));
    rows.write(Row { bar, ..timed })?;
    let bar = setup.bar("at most 3 requests".into(), requests <= 3);
    rows.write(Row { value: Some(requests as f64), bar, ..row("requests") })?;
    // It takes the chunk that the range lies in, and the last one. Both are whole.
    let times = bytes as f64 / (2.0 * CHUNK as f64);
    let bar = setup.bar("at most 1.1 times the bytes that it takes".into(), times <= 1.1);
    rows.write(Row { value: Some(times), bar, ..row("bytes: times those that it takes") })?;
    scratch::remove(&part)?;
    store.remove("large.phx")
}
