//! The stack below calls of engines: how deep the calls go, and that the roster wipes it as deep as an engine declares.
//!
//! The stack is painted before the work and examined after it. What is still painted was not used. This holds for
//! optimized builds, as the profiles of this repository make them, also for tests.

use crate::common::painted;
use phalanx_core::batch::{self, BehindRoom, Message};
use phalanx_core::engine::{Bind, Buffer, CpuEngine, Engine, EngineInfo, Fault, Job, Levels, Op, Unit, Verdicts};
use phalanx_core::{Roster, SecretKey, Suite};
use phalanx_kernels::{aes, keccak};
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;

const PAINT: u8 = 0xa5;
/// How deep the stack is painted, in bytes.
const PAINTED: usize = 256 << 10;
/// What the roster's own frames between the wiping and the engine may take, in bytes.
const ABOVE: usize = 1 << 10;

/// Paints the stack below the caller's frame. Returns the address of the lowest byte.
#[inline(never)]
fn paint<const LEN: usize>() -> usize {
    let stack = [PAINT; LEN];
    black_box(&stack).as_ptr() as usize
}

/// Overwrites the paint.
#[inline(never)]
fn cover<const LEN: usize>() {
    let stack = [0u8; LEN];
    black_box(&stack);
}

/// Gives the work its own stack frame.
#[inline(never)]
fn call(work: impl FnOnce()) {
    work();
}

/// This process's memory, and room for a copy of the painted stack. Examining it uses far less stack than engines do.
struct Look {
    memory: File,
    seen: Vec<u8>,
}

impl Look {
    fn at(&mut self, lowest: usize) -> &[u8] {
        self.memory.read_exact_at(&mut self.seen, lowest as u64).expect("a process can read its own stack");
        &self.seen
    }

    /// How many bytes of stack the work uses, from the lowest one that it has changed.
    #[inline(never)]
    fn depth(&mut self, work: impl FnOnce()) -> usize {
        let lowest = paint::<PAINTED>();
        call(work);
        PAINTED - self.at(lowest).iter().take_while(|byte| **byte == PAINT).count()
    }
}

/// Examines the stack of a separate thread, which is large enough.
fn look(work: impl FnOnce(&mut Look) + Send + 'static) {
    let work = || match File::open("/proc/self/mem") {
        Ok(memory) => work(&mut Look { memory, seen: vec![0; PAINTED] }),
        Err(_) => println!("skipped: no /proc/self/mem"),
    };
    thread::Builder::new().stack_size(4 << 20).spawn(work).unwrap().join().unwrap();
}

/// How many bytes of stack sealing and opening take, at most.
fn deepest(look: &mut Look, engine: &dyn Engine, suite: Suite) -> usize {
    let keys = [1, 2, 3].map(|byte| SecretKey::from_slice(&[byte; 32]).unwrap());
    let mut deepest = 0;
    for (chunk_log2, count) in [(12, 1), (12, 70), (10, 3), (16, 1)] {
        let buffer = engine.buffer(count << chunk_log2).unwrap();
        let mut job = Job::of_chunks(Op::Seal, suite, chunk_log2, [keys[0].message_keys(suite)].into(), buffer);
        let unit = |i| {
            let bind = Bind::Chunk { index: i as u64, last: i + 1 == count };
            Unit { key: 0, nonce: [0; 16], bind, data: i << chunk_log2..(i + 1) << chunk_log2, tag: [0; 32] }
        };
        job.units = (0..count).map(unit).collect();
        for op in [Op::Seal, Op::Open] {
            job.op = op;
            deepest = deepest.max(look.depth(|| assert!(engine.run(&mut job).unwrap().all_passed())));
        }
    }
    for (count, len) in [(1, 100), (50, 300), (3, 40_000)] {
        let mut data = vec![painted(suite.overhead() + len); count];
        for op in [Op::Seal, Op::Open] {
            let message = |(data, key)| match op {
                Op::Seal => Message::to_seal(key, b"ad", BehindRoom::new(suite, data).unwrap()),
                Op::Open => Message::to_open(key, b"ad", data),
            };
            let data = data.iter_mut().map(Vec::as_mut_slice);
            let mut messages: Vec<_> = data.zip(keys.iter().cycle()).map(message).collect();
            let work = || assert!(engine.messages(op, suite, &mut messages).unwrap().unwrap().all_passed());
            deepest = deepest.max(look.depth(work));
        }
    }
    deepest
}

#[test]
fn engines_use_no_more_stack_than_they_declare() {
    look(|look| {
        // The measurement itself.
        let short = look.depth(|| {});
        let long = look.depth(cover::<20_000>);
        assert!(short < 1000 && (20_000..22_000).contains(&long), "{short} {long}");

        for aes in aes::Level::available() {
            for keccak in keccak::Level::available() {
                let engine = CpuEngine::serial(Levels { aes, keccak });
                let used = Suite::ALL.iter().map(|suite| deepest(look, &engine, *suite)).max().unwrap();
                println!("{aes}, {keccak}: {used} of {} bytes of stack", engine.stack());
                assert!(used + ABOVE <= engine.stack(), "{aes}, {keccak}: {used} of {}", engine.stack());
            }
        }
    });
}

/// The CPU. It paints this much stack, and declares it.
struct Painter<const LEN: usize>(CpuEngine);

impl<const LEN: usize> Engine for Painter<LEN> {
    fn info(&self) -> &EngineInfo {
        self.0.info()
    }
    fn stack(&self) -> usize {
        LEN + ABOVE
    }
    fn buffer(&self, len: usize) -> Result<Buffer, Fault> {
        self.0.buffer(len)
    }
    fn run(&self, job: &mut Job) -> Result<Verdicts, Fault> {
        let verdicts = self.0.run(job);
        paint::<LEN>();
        verdicts
    }
}

/// The length of the longest run of paint that is left after a call of the engine.
fn left<const LEN: usize>(look: &mut Look) -> usize {
    let roster = Roster::new(&[Arc::new(Painter::<LEN>(CpuEngine::serial(Levels::detect())))]);
    let (key, mut data) = (SecretKey::from_slice(&[1; 32]).unwrap(), painted(1000));
    let mut messages = [Message::to_seal(&key, b"", BehindRoom::new(Suite::default(), &mut data).unwrap())];
    let lowest = paint::<PAINTED>();
    cover::<PAINTED>();
    batch::seal(&roster, Suite::default(), &mut messages).unwrap();
    look.at(lowest).split(|byte| *byte != PAINT).map(<[u8]>::len).max().unwrap_or(0)
}

#[test]
fn the_roster_wipes_as_much_stack_as_an_engine_declares() {
    look(|look| {
        let left = [left::<3_000>(look), left::<15_000>(look), left::<31_000>(look), left::<100_000>(look)];
        assert!(left.iter().all(|len| *len < 8), "{left:?}");
    });
}
