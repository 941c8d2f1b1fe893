//! Secrets that are generated where they are needed, and a search for them in all memory of this process.
//!
//! The search must not find itself. It only knows the complement of each secret, and leaves out its own read buffer.

use phalanx_core::SecretKey;
use phalanx_kernels::keccak;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::hint::black_box;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::mpsc;
use std::thread;
use zeroize::Zeroizing;

/// Secret bytes from a seed, which alone is kept: splitmix64.
pub fn secret(seed: u64) -> impl Iterator<Item = u8> {
    let word = move |i: u64| {
        let z = seed.wrapping_add((i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (0..).map(move |i| (word(i / 8) >> (8 * (i % 8))) as u8)
}

/// Writes secret bytes to their place.
pub fn write(seed: u64, place: &mut [u8]) {
    place.iter_mut().zip(secret(seed)).for_each(|(to, byte)| *to = byte);
}

/// A secret key.
pub fn key(seed: u64) -> SecretKey {
    let mut bytes = Zeroizing::new([0; 32]);
    write(seed, &mut *bytes);
    SecretKey::from_slice(&*bytes).expect("32 bytes")
}

/// Runs a function, and wipes the stack and the registers that it used, so that nothing found later is from it.
#[inline(never)]
pub fn tidily<T>(work: impl FnOnce() -> T) -> T {
    /// A separate function, so that the work's whole stack is wiped. If the work were inlined, it would use the frame
    /// of `tidily`, which is not wiped.
    #[inline(never)]
    fn call<T>(work: impl FnOnce() -> T) -> T {
        work()
    }
    #[inline(never)]
    fn scrub(depth: usize) {
        let mut stack = [0u8; 16 << 10];
        black_box(&mut stack);
        if depth > 0 {
            scrub(depth - 1);
        }
        black_box(&mut stack);
    }
    let result = call(work);
    scrub(32);
    overwrite_registers();
    result
}

/// Hashes zeros with the widest kernel, which uses nearly all vector registers. Otherwise they may still hold a secret
/// when the dynamic linker binds a function, which saves them on the stack.
#[inline(never)]
fn overwrite_registers() {
    let mut digests = [[0; 32]; 8];
    keccak::sha3_256_many(keccak::Level::detect(), &[&[0; 136][..]; 8], &mut digests);
    black_box(&digests);
}

/// The length of the blocks to search for, in bytes. Any longer run of 2 × `WINDOW` − 1 bytes contains a whole block.
const WINDOW: usize = 16;

/// The blocks to search for.
#[derive(Default)]
pub struct Hunt {
    /// The complement of each block, and its origin: the number of the secret's name, and the place in that secret.
    windows: HashMap<u128, (usize, usize)>,
    names: Vec<String>,
}

impl Hunt {
    /// Adds a secret to search for, in whole blocks from its start; for a long secret, every sixteenth block.
    pub fn seek(&mut self, name: impl Into<String>, bytes: impl IntoIterator<Item = u8>) {
        const LONG: usize = 4 << 10;
        let mut bytes = bytes.into_iter();
        let mut place = 0;
        loop {
            let mut window = 0u128;
            let taken = bytes.by_ref().take(WINDOW).fold(0, |shift, byte| {
                window |= u128::from(!byte) << shift;
                shift + 8
            });
            if taken < 8 * WINDOW {
                break;
            }
            if place < LONG || place % (16 * WINDOW) == 0 {
                self.windows.insert(window, (self.names.len(), place));
            }
            place += WINDOW;
        }
        self.names.push(name.into());
    }

    /// Runs a function, after which no secret may be left. It runs on its own thread, which still has its stack while
    /// memory is searched.
    #[track_caller]
    pub fn nothing_left(&self, what: &str, work: impl FnOnce() + Send) {
        let found = self.search_after(work);
        assert!(found.is_empty(), "{what}: {} runs of secret bytes are left:\n{}", found.len(), found.join("\n"));
    }

    fn search_after(&self, work: impl FnOnce() + Send) -> Vec<String> {
        let (done, is_done) = mpsc::channel::<()>();
        let (end, has_ended) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                work();
                drop(done);
                has_ended.recv().unwrap_err();
            });
            is_done.recv().unwrap_err();
            let found = self.search();
            drop(end);
            found
        })
    }

    /// Searches all memory that this process can write to. Describes each run that it finds.
    fn search(&self) -> Vec<String> {
        const FILTER: u32 = 20;
        const PAGE: usize = 4096;
        let bit = |low: u64| (low.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FILTER)) as usize;
        // One bit for each entry, so that the filter stays in the cache.
        let mut filter = vec![0u64; 1 << (FILTER - 6)];
        self.windows.keys().map(|window| bit(*window as u64)).for_each(|bit| filter[bit / 64] |= 1 << (bit % 64));
        let may_be = |low: u64| filter[bit(low) / 64] >> (bit(low) % 64) & 1 == 1;

        let mut buffer = vec![0; 256 * PAGE];
        let own = buffer.as_ptr_range();
        let own = own.start as usize..own.end as usize;
        let memory = File::open("/proc/self/mem").expect("the process may read its own memory");
        // The blocks that were found, by their address: which secret, and the place in it.
        let mut found = BTreeMap::new();
        let around = |region: Range<usize>| {
            let Range { start, end } = region;
            [start..own.start.clamp(start, end), own.end.clamp(start, end)..end]
        };
        for part in regions().into_iter().flat_map(around) {
            let mut at = part.start;
            while at + WINDOW <= part.end {
                let bytes = &mut buffer[..(256 * PAGE).min(part.end - at)];
                if let Err(error) = memory.read_exact_at(bytes, at as u64) {
                    // The system may take back the stacks of threads that have ended. It has then wiped them.
                    let end = at + bytes.len();
                    let is_there = regions().iter().any(|region| region.start <= at && end <= region.end);
                    assert!(!is_there, "memory at {at:#x} cannot be read: {error}");
                    break;
                }
                for page in (0..=bytes.len() - WINDOW).step_by(PAGE) {
                    let page = page..bytes.len().min(page + PAGE + WINDOW - 1);
                    // Most of it has never been touched.
                    if bytes[page.clone()].iter().all(|byte| *byte == 0) {
                        continue;
                    }
                    let (first, rest) = bytes[page.clone()].split_first_chunk().expect("half a window");
                    let mut low = !u64::from_le_bytes(*first);
                    for (i, next) in rest[..rest.len() - 7].iter().enumerate() {
                        if may_be(low)
                            && let Some(window) = bytes[page.start + i..].first_chunk()
                            && let Some(of) = self.windows.get(&!u128::from_le_bytes(*window))
                        {
                            found.insert(at + page.start + i, *of);
                        }
                        low = (low >> 8) | (u64::from(!next) << 56);
                    }
                }
                at += bytes.len() - (WINDOW - 1);
            }
        }
        buffer.fill(0);
        self.runs(found)
    }

    /// Joins consecutive blocks.
    fn runs(&self, found: BTreeMap<usize, (usize, usize)>) -> Vec<String> {
        let mut runs: Vec<(Range<usize>, usize, usize)> = Vec::new();
        for (at, (secret, place)) in found {
            let follows = |(run, of, from): &&mut (Range<usize>, usize, usize)| {
                run.end == at && *of == secret && from + run.len() == place
            };
            match runs.iter_mut().find(follows) {
                Some((run, ..)) => run.end += WINDOW,
                None => runs.push((at..at + WINDOW, secret, place)),
            }
        }
        let show = |(run, secret, place): &(Range<usize>, usize, usize)| {
            format!("{}: {} bytes from {place}, at {:#x}", self.names[*secret], run.len(), run.start)
        };
        runs.iter().map(show).collect()
    }
}

/// The regions of memory that can be written to.
fn regions() -> Vec<Range<usize>> {
    let maps = fs::read_to_string("/proc/self/maps").expect("the system lists the process's memory");
    let region = |line: &str| {
        let (range, what) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let range = usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?;
        what.starts_with("rw").then_some(range)
    };
    let regions: Vec<_> = maps.lines().filter_map(region).collect();
    assert!(!regions.is_empty());
    regions
}

/// The search must find secrets that are left. Otherwise the other tests would prove nothing.
pub fn secrets_that_are_left_are_found() {
    let mut hunt = Hunt::default();
    hunt.seek("kept", secret(1).take(100));
    hunt.seek("freed", secret(2).take(1000));
    hunt.seek("on the stack", secret(3).take(32));
    hunt.seek("nowhere", secret(4).take(1000));
    let found = hunt.search_after(|| {
        let mut kept = vec![0; 103];
        write(1, &mut kept[3..]);
        black_box(kept).leak();
        let mut freed = vec![0; 1000];
        write(2, &mut freed);
        drop(black_box(freed));
        let deep = || {
            let mut stack = [0; 4096];
            write(3, &mut stack[1024..1056]);
            black_box(&stack);
        };
        black_box(deep)();
    });
    let of = |start: &str| found.iter().filter(|run| run.starts_with(start)).count();
    let counts = ["kept: 96 bytes from 0, ", "freed", "on the stack: 32 bytes from 0, ", "nowhere"].map(of);
    assert!(counts[0] == 1 && counts[1] >= 1 && counts[2] == 1 && counts[3] == 0, "{found:#?}");
}
