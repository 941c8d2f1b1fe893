//! The library, the reference and Java at once: all three open the same altered files, files that the library or Java has just
//! sealed, and manifests, and must agree about each. Java is one process, which answers whole batches (Differential.java).
//!
//! Inputs are the corpora of `open` and `manifest`, and mutations of them. They follow from the seed and the number of a run alone.
#![forbid(unsafe_code)]

use phalanx_core::engine::{CpuEngine, Levels};
use phalanx_core::tree::Invalid;
use phalanx_core::{
    ChunkSize, Error, KdfLimit, KeyId, KeySource, NewFile, Opener, Password, ProtectedFile, Recipient, Roster,
    SecretKey, Sink, Source, Suite,
};
use phalanx_fuzz::alter::Altered;
use phalanx_fuzz::made::{Made, PASSWORDS, USER_KEYS};
use phalanx_fuzz::model::{class, is_beyond};
use phalanx_fuzz::{Steer, manifests};
use phalanx_reference as reference;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::{env, fs, thread};

const USAGE: &str = "differential JAR RUNS SEED [FIRST]";
/// How many requests Java gets at once.
const BATCH: u64 = 1024;
/// How long the chunks are of files that are sealed here.
const CHUNK: u64 = 4096;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).map(|text| text.parse::<u64>().expect(USAGE));
    let (jar, runs, seed) = (arguments.first().expect(USAGE), number(1).expect(USAGE), number(2).expect(USAGE));
    let first = number(3).unwrap_or(0);
    let mut world = World::new(seed);
    let mut java = Java::start(jar);
    let mut counts = [0u64; 4];
    for start in (first..first + runs).step_by(BATCH as usize) {
        let requests: Vec<_> = (start..(start + BATCH).min(first + runs)).map(|run| world.request(run)).collect();
        let answers = java.ask(&requests);
        for ((run, request), answer) in (start..).zip(&requests).zip(answers) {
            if let Err(difference) = world.compare(request, &answer) {
                let name = format!("difference-{seed}-{run}");
                fs::write(&name, &request.bytes).expect("the file can be written");
                eprintln!("run {run} of seed {seed}: {difference}. The input is in {name}");
                return ExitCode::FAILURE;
            }
            counts[request.counted(&answer)] += 1;
        }
    }
    let [opened, refused, sealed, manifests] = counts;
    println!(
        "{runs} runs agree: {opened} files opened, {refused} refused, {sealed} sealed by Java, {manifests} manifests"
    );
    ExitCode::SUCCESS
}

/// What an implementation says: what came out, or the class of its error.
type Verdict<T> = Result<Vec<u8>, T>;

enum What {
    Open(Hand),
    /// Java seals it, in this suite.
    Seal(Suite),
    Manifest,
}

struct Request {
    what: What,
    bytes: Vec<u8>,
    /// The plaintext of a file that the library has sealed.
    plaintext: Option<Vec<u8>>,
}

/// The keys at hand, as bits, and the password.
#[derive(Clone, Copy)]
struct Hand {
    keys: u8,
    password: bool,
}

impl Request {
    fn counted(&self, answer: &(u8, Vec<u8>)) -> usize {
        match (&self.what, answer.0) {
            (What::Open(_), 0) => 0,
            (What::Open(_), _) => 1,
            (What::Seal(_), _) => 2,
            (What::Manifest, _) => 3,
        }
    }
}

struct World {
    seed: u64,
    made: Made,
    openers: Vec<Opener<AtHand>>,
    roster: Roster,
    /// The bytes that steer: of `open` and of `manifest`.
    corpora: [Vec<Vec<u8>>; 2],
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            made: Made::new(),
            openers: (0..8).map(opener).collect(),
            roster: Roster::new(&[Arc::new(CpuEngine::serial(Levels::detect()))]),
            corpora: ["open", "manifest"].map(corpus),
        }
    }

    fn request(&mut self, run: u64) -> Request {
        let mut random = Random(self.seed ^ run.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        match random.below(16) {
            0 | 1 => {
                let bytes = self.steer(1, &mut random);
                let mut steer = Steer(&bytes);
                let bytes = if steer.byte() & 1 == 0 { steer.0.to_vec() } else { manifests::pieces(&mut steer) };
                Request { what: What::Manifest, bytes, plaintext: None }
            }
            kind @ 2..=3 => {
                let suite = Suite::ALL[random.below(Suite::ALL.len())];
                let len = [random.below(80), random.below(3 * 4096)][random.below(2)];
                let plaintext: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
                if kind == 2 {
                    return Request { what: What::Seal(suite), bytes: plaintext, plaintext: None };
                }
                let bytes = self.seal(suite, &plaintext);
                let what = What::Open(Hand { keys: 1, password: false });
                Request { what, bytes, plaintext: Some(plaintext) }
            }
            _ => {
                let steering = self.steer(0, &mut random);
                let hand = random.next() as u8;
                let mut steer = Steer(&steering);
                let bytes = Altered::new(&mut self.made, &mut steer, 1).file.bytes;
                // Nearly always the first key. Costs of passwords beyond those of the fuzzer would take too long.
                let costly = reference::read_header(&bytes).is_ok_and(|header| is_beyond(&header));
                let keys = u8::from(hand & 15 != 15) | (hand >> 3 & 2);
                let what = What::Open(Hand { keys, password: hand & 32 != 0 && !costly });
                Request { what, bytes, plaintext: None }
            }
        }
    }

    /// Bytes that steer: one of the corpus, with up to seven changes, or random ones.
    fn steer(&self, corpus: usize, random: &mut Random) -> Vec<u8> {
        let known = &self.corpora[corpus];
        if random.below(8) == 0 {
            return (0..random.below(60)).map(|_| random.next() as u8).collect();
        }
        let mut bytes = known[random.below(known.len())].clone();
        // Those of `open` begin with the choice of its ways to read.
        if corpus == 0 {
            bytes.drain(..bytes.len().min(4));
        }
        for _ in 0..random.below(8) {
            let at = random.below(bytes.len() + 1);
            match random.below(4) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes.insert(at, random.next() as u8),
                2 if at < bytes.len() => drop(bytes.remove(at)),
                _ if at < bytes.len() => bytes[at] = random.next() as u8,
                _ => bytes.push(random.next() as u8),
            }
        }
        bytes
    }

    fn seal(&self, suite: Suite, plaintext: &[u8]) -> Vec<u8> {
        let size = ChunkSize::new(CHUNK).expect("one of the format's");
        let new = NewFile::with_chunk_size(suite, size, &[Recipient::key(&key(0))]).expect("one recipient");
        let mut sealed = Vec::new();
        new.protect(&self.roster, Source::stream(plaintext), Sink::Stream(Box::new(&mut sealed)), &()).expect("sealed");
        sealed
    }

    fn open(&self, bytes: &[u8], hand: Hand) -> (Result<u64, Error>, Vec<u8>) {
        let opener = &self.openers[usize::from(hand.keys | u8::from(hand.password) << 2)];
        let mut released = Vec::new();
        let opened = ProtectedFile::open(Source::stream(bytes), opener)
            .and_then(|file| file.unprotect(&self.roster, Sink::Stream(Box::new(&mut released)), &()));
        (opened, released)
    }

    fn compare(&self, request: &Request, answer: &(u8, Vec<u8>)) -> Result<(), String> {
        match request.what {
            What::Open(hand) => self.compare_files(request, hand, answer),
            What::Seal(_) => {
                let hand = Hand { keys: 1, password: false };
                let sealed =
                    Request { what: What::Open(hand), bytes: answer.1.clone(), plaintext: Some(request.bytes.clone()) };
                if answer.0 != 0 {
                    return Err(format!("Java does not seal: {}", answer.0));
                }
                self.compare_files(&sealed, hand, &(0, request.bytes.clone()))
            }
            What::Manifest => compare_manifests(&request.bytes, answer),
        }
    }

    fn compare_files(&self, request: &Request, hand: Hand, answer: &(u8, Vec<u8>)) -> Result<(), String> {
        let bytes = &request.bytes;
        let (opened, released) = self.open(bytes, hand);
        let library: Verdict<_> = if opened.is_ok() { Ok(released.clone()) } else { Err(class(&opened)) };
        let keys: Vec<_> = (0..2).filter(|key| hand.keys >> key & 1 == 1).map(|key| USER_KEYS[key]).collect();
        let reference = reference::open_file(bytes, if hand.password { &PASSWORDS[..1] } else { &[] }, &keys);
        let java = match answer.0 {
            0 => Ok(answer.1.clone()),
            verdict => Err(JAVA_ERRORS.get(usize::from(verdict)).copied().flatten().ok_or("Java fails otherwise")?),
        };
        if library != reference || java != reference {
            let short = |verdict: &Verdict<_>| match verdict {
                Ok(plaintext) => format!("{} bytes", plaintext.len()),
                Err(error) => format!("{error:?}"),
            };
            let [library, reference, java] = [library, reference, java].map(|verdict| short(&verdict));
            return Err(format!("the library says {library} ({opened:?}), the reference {reference}, Java {java}"));
        }
        match request.plaintext.as_ref() {
            Some(plaintext) if reference.as_ref() != Ok(plaintext) => Err("sealed, but not opened".into()),
            // Both release only what is authentic, in its order. How far they come may differ.
            _ if !released.starts_with(&answer.1) && !answer.1.starts_with(&released) => {
                Err("other text was released".into())
            }
            _ => Ok(()),
        }
    }
}

/// Java's verdicts, by their numbers.
const JAVA_ERRORS: [Option<reference::Error>; 7] = [
    None,
    Some(reference::Error::NotPhalanx),
    Some(reference::Error::Version),
    Some(reference::Error::Header),
    Some(reference::Error::KdfLimit),
    Some(reference::Error::NoKey),
    Some(reference::Error::Altered),
];

fn compare_manifests(bytes: &[u8], answer: &(u8, Vec<u8>)) -> Result<(), String> {
    let library = match manifests::read(bytes) {
        Ok((_, written)) => Ok(written),
        Err(Invalid::Version) => Err(2),
        Err(Invalid::Malformed(_)) => Err(3),
        Err(other) => return Err(format!("{other:?}")),
    };
    let reference = match reference::tree::read_manifest(bytes) {
        Ok(manifest) => Ok(reference::tree::write_manifest(&manifest)),
        Err(reference::tree::Broken::Version) => Err(2),
        Err(_) => Err(3),
    };
    let java = if answer.0 == 0 { Ok(answer.1.clone()) } else { Err(answer.0) };
    if library == reference && java == reference {
        return Ok(());
    }
    let short = |verdict: &Verdict<u8>| verdict.as_ref().map(Vec::len).map_err(|number| *number);
    let [library, reference, java] = [library, reference, java].map(|verdict| short(&verdict));
    Err(format!("manifest: the library says {library:?}, the reference {reference:?}, Java {java:?}"))
}

/// The Java process.
struct Java {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Java {
    fn start(jar: &str) -> Self {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("Differential.java");
        let mut child = Command::new("java")
            .args(["-XX:+UseSerialGC", "-cp", jar])
            .arg(source)
            .args([hex(&USER_KEYS[0]), hex(&USER_KEYS[1]), hex(PASSWORDS[0])])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("java starts");
        let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Self { child, input, output: BufReader::new(output) }
    }

    fn ask(&mut self, requests: &[Request]) -> Vec<(u8, Vec<u8>)> {
        let (input, output) = (&mut self.input, &mut self.output);
        thread::scope(|scope| {
            scope.spawn(|| send(input, requests).expect("Java reads"));
            requests.iter().map(|_| answer(output).expect("Java answers")).collect()
        })
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn send(input: &mut ChildStdin, requests: &[Request]) -> io::Result<()> {
    let mut batch = Vec::new();
    for request in requests {
        let (what, how) = match request.what {
            What::Open(hand) => (0, hand.keys | u8::from(hand.password) << 2),
            What::Seal(suite) => (1, suite.id()),
            What::Manifest => (2, 0),
        };
        batch.extend([what, how]);
        batch.extend((request.bytes.len() as u32).to_be_bytes());
        batch.extend(&request.bytes);
    }
    input.write_all(&batch)?;
    input.flush()
}

fn answer(output: &mut BufReader<ChildStdout>) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    output.read_exact(&mut head)?;
    let [verdict, len @ ..] = head;
    let mut bytes = vec![0; u32::from_be_bytes(len) as usize];
    output.read_exact(&mut bytes)?;
    Ok((verdict, bytes))
}

/// All inputs of a target's corpus, in the order of their names.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut paths: Vec<_> =
        fs::read_dir(folder).expect("the corpus").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("an input")).collect()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

struct AtHand(Vec<SecretKey>, Option<Password>);

impl KeySource for AtHand {
    fn key(&self, id: &KeyId) -> Result<Option<SecretKey>, Error> {
        Ok(self.0.iter().find(|key| key.id() == *id).cloned())
    }

    fn password(&self) -> Result<Option<Password>, Error> {
        Ok(self.1.clone())
    }
}

fn key(index: usize) -> SecretKey {
    SecretKey::from_slice(&USER_KEYS[index]).expect("32 bytes")
}

fn opener(hand: usize) -> Opener<AtHand> {
    let keys = (0..2).filter(|index| hand >> index & 1 == 1).map(key).collect();
    let password = (hand & 4 != 0).then(|| Password::new(PASSWORDS[0].to_vec()));
    Opener::new(AtHand(keys, password), KdfLimit::default())
}
