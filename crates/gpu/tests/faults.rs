//! A device that fails, or gives wrong bytes, at every step: one line each, no panic, no memory left behind.

mod common;

use common::plain_c::PlainC;
use phalanx_gpu::driver::{Driver, Launch, MarkId, MemoryId, PinnedId, StreamId};
use phalanx_gpu::{AesLaunch, Device, DeviceInfo, Direction, Error, Kernel, Module, Result, Variant};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Does what plain C does, but for one call.
struct Faulty {
    device: PlainC,
    /// The call that fails, counted down; past 0 all is well again.
    fails: Arc<AtomicUsize>,
    /// The download that has a flipped bit, counted down.
    lies: Arc<AtomicUsize>,
}

const NEVER: usize = usize::MAX / 2;

fn counts_down_to_zero(counter: &AtomicUsize) -> bool {
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| Some(n.wrapping_sub(1))) == Ok(0)
}

impl Faulty {
    fn step(&self) -> Result<()> {
        match counts_down_to_zero(&self.fails) {
            false => Ok(()),
            true => Err(Error {
                device: "faulty".into(),
                reason: phalanx_gpu::Reason::Failed("something", "it is\nbroken".into()),
            }),
        }
    }
}

// SAFETY: calls go on to plain C, or fail before they do anything.
unsafe impl Driver for Faulty {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }
    fn load(&self, module: Module) -> Result<()> {
        self.step().and_then(|()| self.device.load(module))
    }
    fn max_threads(&self, kernel: Kernel) -> Result<u32> {
        self.step().and_then(|()| self.device.max_threads(kernel))
    }
    fn allocate(&self, len: usize) -> Result<MemoryId> {
        self.step().and_then(|()| self.device.allocate(len))
    }
    unsafe fn free(&self, memory: MemoryId, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.device.free(memory, len) }
    }
    fn allocate_pinned(&self, len: usize) -> Result<PinnedId> {
        self.step().and_then(|()| self.device.allocate_pinned(len))
    }
    unsafe fn free_pinned(&self, pinned: PinnedId) {
        // SAFETY: the caller's promise.
        unsafe { self.device.free_pinned(pinned) }
    }
    fn stream(&self) -> Result<StreamId> {
        self.step().and_then(|()| self.device.stream())
    }
    unsafe fn free_stream(&self, stream: StreamId) {
        // SAFETY: the caller's promise.
        unsafe { self.device.free_stream(stream) }
    }
    unsafe fn zero(&self, stream: StreamId, memory: MemoryId, at: usize, len: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        self.step().and_then(|()| unsafe { self.device.zero(stream, memory, at, len) })
    }
    unsafe fn upload(&self, stream: StreamId, memory: MemoryId, at: usize, from: &[u8]) -> Result<()> {
        // SAFETY: the caller's promise.
        self.step().and_then(|()| unsafe { self.device.upload(stream, memory, at, from) })
    }
    unsafe fn download(&self, stream: StreamId, memory: MemoryId, at: usize, to: &mut [u8]) -> Result<()> {
        // SAFETY: the caller's promise.
        self.step().and_then(|()| unsafe { self.device.download(stream, memory, at, to) })?;
        if counts_down_to_zero(&self.lies) {
            *to.last_mut().unwrap() ^= 1;
        }
        Ok(())
    }
    unsafe fn copy(&self, stream: StreamId, from: MemoryId, to: MemoryId, len: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        self.step().and_then(|()| unsafe { self.device.copy(stream, from, to, len) })
    }
    unsafe fn launch(&self, stream: StreamId, launch: &Launch<'_>) -> Result<()> {
        // SAFETY: the caller's promise.
        self.step().and_then(|()| unsafe { self.device.launch(stream, launch) })
    }
    fn finish(&self, stream: StreamId) -> Result<()> {
        self.step().and_then(|()| self.device.finish(stream))
    }
    fn mark(&self, stream: StreamId) -> Result<MarkId> {
        self.step().and_then(|()| self.device.mark(stream))
    }
    unsafe fn between(&self, from: MarkId, to: MarkId) -> Result<Duration> {
        // SAFETY: the caller's promise.
        self.step().and_then(|()| unsafe { self.device.between(from, to) })
    }
}

/// A device whose call `fails` fails, or whose download `lies` is wrong.
fn open(fails: &Arc<AtomicUsize>, lies: &Arc<AtomicUsize>) -> Result<Device> {
    Device::with_driver(Box::new(Faulty { device: PlainC::new(), fails: fails.clone(), lies: lies.clone() }))
}

fn count(n: usize) -> Arc<AtomicUsize> {
    Arc::new(AtomicUsize::new(n))
}

#[test]
fn a_failure_at_any_step_of_opening_is_one_line() {
    for step in 0.. {
        let fails = count(step);
        match open(&fails, &count(NEVER)) {
            Err(error) => assert_eq!(error.to_string(), "faulty: something failed: it is; broken", "step {step}"),
            // The step was not reached: opening has fewer.
            Ok(_) => {
                assert!(step > 50 && fails.load(Ordering::SeqCst) < NEVER, "{step} steps");
                break;
            }
        }
    }
}

#[test]
fn any_wrong_answer_fails_the_self_test() {
    for answer in 0.. {
        match open(&count(NEVER), &count(answer)) {
            Err(error) => {
                let text = error.to_string();
                assert!(text.starts_with("plain C (other): the self-test failed: "), "answer {answer}: {text}");
            }
            Ok(_) => {
                assert!(answer >= 16, "only {answer} answers");
                break;
            }
        }
    }
}

#[test]
fn a_failed_self_test_bars_the_module_and_no_other() {
    let lies = count(NEVER);
    let device = open(&count(NEVER), &lies).unwrap();
    lies.store(3, Ordering::SeqCst);
    let mut stream = device.stream().unwrap();
    let keys = stream.round_keys(&[&[1; 32]], Direction::Encrypt).unwrap();
    let mut data = stream.buffer(16).unwrap();
    for _ in 0..2 {
        let launch = AesLaunch::new(Variant::Table1);
        let barred = stream.aes_ctr(&launch, &keys, 0, &[0; 16], &mut data, 0..16).unwrap_err();
        assert!(barred.to_string().contains("the self-test failed: table1"), "{barred}");
    }
    let launch = AesLaunch::new(Variant::Bitsliced);
    stream.aes_ctr(&launch, &keys, 0, &[0; 16], &mut data, 0..16).unwrap();
}

#[test]
fn a_device_may_fail_in_the_middle_and_recover() {
    let fails = count(NEVER);
    let device = open(&fails, &count(NEVER)).unwrap();
    let mut stream = device.stream().unwrap();
    for step in 0..5 {
        fails.store(step, Ordering::SeqCst);
        let mut work = || -> Result<()> {
            let keys = stream.round_keys(&[&[1; 32]], Direction::Encrypt)?;
            let mut data = stream.buffer_of(&[7; 100])?;
            stream.aes_ctr(&AesLaunch::new(Variant::Bitsliced), &keys, 0, &[0; 16], &mut data, 0..100)?;
            stream.download(&data, 0, &mut [0; 100])
        };
        work().unwrap_err();
        work().unwrap();
    }
    let mut pinned = device.pinned(1000).unwrap();
    assert!(pinned.len() == 1000 && pinned.iter().all(|byte| *byte == 0));
    pinned.fill(3);
    let buffer = stream.buffer_of(&pinned).unwrap();
    let mut copy = stream.buffer(1000).unwrap();
    stream.copy(&buffer, &mut copy, 1000).unwrap();
    pinned.fill(0);
    stream.download(&copy, 0, &mut pinned).unwrap();
    assert!(pinned.iter().all(|byte| *byte == 3));
}
