//! The driver's state: contexts, modules, streams and events, and what was asked of them. Handles are numbers, so a wrong
//! one is an error and nothing worse.

use crate::compile::{MOST_SHARED, Module, SHARED, Variables};
use crate::launch::{ILLEGAL_ADDRESS, LAUNCH_FAILED, Launch, Space};
use crate::memory::{DEVICE_BIT, Memory, Place};
use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, CString};
use std::fs::OpenOptions;
use std::io::Write;
use std::time::Instant;

/// The driver's codes.
pub const INVALID_VALUE: i32 = 1;
pub const OUT_OF_MEMORY: i32 = 2;
pub const NO_CONTEXT: i32 = 201;
pub const INVALID_PTX: i32 = 218;
pub const INVALID_HANDLE: i32 = 400;
pub const NOT_FOUND: i32 = 500;
pub const NOT_READY: i32 = 600;
pub const OUT_OF_RESOURCES: i32 = 701;

/// The device's memory in bytes. A quarter of it is what an engine takes at most.
pub const MEMORY: usize = 128 << 20;
pub const MOST_THREADS: u32 = 1024;
/// The largest pitch of rows in bytes. That of devices is 2 GiB, which tests would not reach.
pub const MAX_PITCH: usize = 100_000;

/// A call's result: nothing, or a code.
pub type Done = Result<(), i32>;

enum Work {
    Fill { to: u64, value: u8, len: usize },
    Copy { from: Place, to: Place, len: usize },
    Launch { function: u64, blocks: u32, threads: u32, dynamic: u64, parameters: Vec<u64> },
    Event(u64),
}

#[derive(Default)]
struct Stream {
    queue: VecDeque<Work>,
    /// Whether the caller has asked since the last work came.
    asked: bool,
}

struct Function {
    module: u64,
    index: usize,
    /// The most dynamic shared memory.
    most_dynamic: u64,
}

struct Event {
    stream: Option<u64>,
    over: Option<Instant>,
}

pub struct State {
    pub memory: Memory,
    modules: HashMap<u64, Module>,
    functions: HashMap<u64, Function>,
    streams: HashMap<u64, Stream>,
    events: HashMap<u64, Event>,
    last_handle: u64,
    retained: usize,
    /// The handle of the context, while it is retained.
    context: u64,
    /// What went wrong. The context does not recover.
    failed: Option<i32>,
    /// The text about it.
    pub text: &'static CStr,
    is_late: bool,
    /// The phase of the kernels' threads, which all launches count on.
    now: u32,
}

impl State {
    /// The device with this number.
    pub fn new(device: u64) -> Self {
        Self {
            memory: Memory::new(device),
            modules: HashMap::new(),
            functions: HashMap::new(),
            streams: HashMap::new(),
            events: HashMap::new(),
            last_handle: device << DEVICE_BIT,
            retained: 0,
            context: 0,
            failed: None,
            text: c"a kernel failed",
            is_late: std::env::var("PHALANX_SIMULATE").is_ok_and(|value| value == "late"),
            now: 0,
        }
    }

    /// All work waits until the caller asks for it, as with `PHALANX_SIMULATE=late`.
    #[cfg(test)]
    pub fn set_late(&mut self) {
        self.is_late = true;
    }

    fn handle(&mut self) -> u64 {
        // Such a number looks like an address.
        self.last_handle += 16;
        self.last_handle
    }

    pub fn retain(&mut self) -> u64 {
        if self.retained == 0 {
            self.context = self.handle();
        }
        self.retained += 1;
        self.context
    }

    pub fn release(&mut self) -> Done {
        self.retained = self.retained.checked_sub(1).ok_or(INVALID_VALUE)?;
        Ok(())
    }

    /// Whether calls for the device may be made in this context.
    pub fn check(&self, context: u64) -> Done {
        if self.retained == 0 || context != self.context {
            return Err(NO_CONTEXT);
        }
        self.failed.map_or(Ok(()), Err)
    }

    /// Records what went wrong, for good.
    fn fail(&mut self, code: i32, text: &str) -> i32 {
        eprintln!("{text}");
        if let Ok(text) = CString::new(text) {
            // The driver's texts stay for ever. There is one of these in a process.
            self.text = Box::leak(text.into_boxed_c_str());
        }
        self.failed = Some(code);
        code
    }

    pub fn load(&mut self, ptx: &str) -> Result<u64, String> {
        let module = Module::new(ptx)?;
        let handle = self.handle();
        self.modules.insert(handle, module);
        Ok(handle)
    }

    pub fn unload(&mut self, module: u64) -> Done {
        self.finish_all()?;
        self.functions.retain(|_, function| function.module != module);
        self.modules.remove(&module).map(drop).ok_or(INVALID_HANDLE)
    }

    pub fn function(&mut self, module: u64, name: &str) -> Result<u64, i32> {
        let index = self.modules.get(&module).ok_or(INVALID_HANDLE)?.find(name).ok_or(NOT_FOUND)?;
        let handle = self.handle();
        self.functions.insert(handle, Function { module, index, most_dynamic: SHARED });
        Ok(handle)
    }

    pub fn is_function(&self, function: u64) -> bool {
        self.functions.contains_key(&function)
    }

    pub fn allow_dynamic(&mut self, function: u64, len: u64) -> Done {
        let function = self.functions.get_mut(&function).ok_or(INVALID_HANDLE)?;
        if len > MOST_SHARED {
            return Err(INVALID_VALUE);
        }
        function.most_dynamic = len;
        Ok(())
    }

    /// The places and lengths of a function's parameters.
    pub fn parameters(&self, function: u64) -> Result<Vec<(usize, usize)>, i32> {
        let function = self.functions.get(&function).ok_or(INVALID_HANDLE)?;
        Ok(self.modules[&function.module].kernel(function.index).parameters.clone())
    }

    pub fn allocate(&mut self, len: usize) -> Result<u64, i32> {
        self.room(len)?;
        Ok(self.memory.allocate(len))
    }

    pub fn pin(&mut self, len: usize, is_mapped: bool) -> Result<usize, i32> {
        if len == 0 {
            return Err(INVALID_VALUE);
        }
        Ok(self.memory.pin(len, is_mapped))
    }

    fn room(&self, len: usize) -> Done {
        match len {
            0 => Err(INVALID_VALUE),
            len if len > MEMORY.saturating_sub(self.memory.taken()) => Err(OUT_OF_MEMORY),
            _ => Ok(()),
        }
    }

    /// Frees memory of the device. As the driver does, this waits for all work.
    pub fn free(&mut self, address: u64) -> Done {
        self.finish_all()?;
        let freed = self.memory.free(address).ok_or(INVALID_VALUE)?;
        freed.map_err(|text| self.fail(ILLEGAL_ADDRESS, &text))
    }

    /// Frees pinned memory. Work that is left and uses it fails.
    pub fn unpin(&mut self, host: usize) -> Done {
        let freed = self.memory.unpin(host).ok_or(INVALID_VALUE)?;
        freed.map_err(|text| self.fail(ILLEGAL_ADDRESS, &text))
    }

    pub fn stream(&mut self) -> u64 {
        let handle = self.handle();
        self.streams.insert(handle, Stream::default());
        handle
    }

    /// Closes a stream. Its work is done first.
    pub fn close(&mut self, stream: u64) -> Done {
        self.finish(stream)?;
        self.streams.remove(&stream);
        Ok(())
    }

    /// Whether the work of a stream is over. Late work is not, when this is asked for the first time.
    pub fn query(&mut self, stream: u64) -> Done {
        let asked = self.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?;
        if !asked.queue.is_empty() && !asked.asked {
            asked.asked = true;
            return Err(NOT_READY);
        }
        self.finish(stream)
    }

    fn add(&mut self, stream: u64, work: Work) -> Done {
        let to = self.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?;
        to.queue.push_back(work);
        to.asked = false;
        if self.is_late { Ok(()) } else { self.finish(stream) }
    }

    pub fn fill(&mut self, to: u64, value: u8, len: usize, stream: u64) -> Done {
        self.must_hold(Place::Device(to), len)?;
        self.add(stream, Work::Fill { to, value, len })
    }

    /// Copies. Memory of the host that is not pinned may be read or written as late as any other: the driver does not
    /// say when it reads it.
    pub fn copy(&mut self, from: Place, to: Place, len: usize, stream: u64) -> Done {
        self.must_hold(from, len)?;
        self.must_hold(to, len)?;
        self.add(stream, Work::Copy { from, to, len })
    }

    fn must_hold(&mut self, place: Place, len: usize) -> Done {
        match place {
            Place::Device(address) if !self.memory.holds(address, len) => Err(INVALID_VALUE),
            _ => Ok(()),
        }
    }

    pub fn event(&mut self) -> u64 {
        let handle = self.handle();
        self.events.insert(handle, Event { stream: None, over: None });
        handle
    }

    pub fn record(&mut self, event: u64, stream: u64) -> Done {
        if !self.streams.contains_key(&stream) {
            return Err(INVALID_HANDLE);
        }
        *self.events.get_mut(&event).ok_or(INVALID_HANDLE)? = Event { stream: Some(stream), over: None };
        self.add(stream, Work::Event(event))
    }

    /// Whether a stream has reached an event. Late work has not, when this is asked for the first time.
    pub fn query_event(&mut self, event: u64) -> Done {
        let Event { stream, over } = *self.events.get(&event).ok_or(INVALID_HANDLE)?;
        match (stream, over) {
            (Some(stream), None) => self.query(stream),
            _ => Ok(()),
        }
    }

    pub fn forget(&mut self, event: u64) -> Done {
        self.events.remove(&event).map(drop).ok_or(INVALID_HANDLE)
    }

    /// The milliseconds between two events.
    pub fn between(&self, from: u64, to: u64) -> Result<f32, i32> {
        let when = |event| self.events.get(&event).ok_or(INVALID_HANDLE)?.over.ok_or(NOT_READY);
        Ok((when(to)? - when(from)?).as_secs_f32() * 1e3)
    }

    /// Takes a launch, whose shape the driver checks at once.
    pub fn launch(
        &mut self,
        handle: u64,
        (blocks, threads): (u32, u32),
        dynamic: u64,
        parameters: Vec<u64>,
        stream: u64,
    ) -> Done {
        let function = self.functions.get(&handle).ok_or(INVALID_HANDLE)?;
        let kernel = self.modules[&function.module].kernel(function.index);
        // Threads have numbers of 31 bits in the records of who touched a word.
        let is_small = u64::from(blocks) * u64::from(threads) < 1 << 30;
        if blocks == 0 || threads == 0 || threads > MOST_THREADS || !is_small {
            return Err(INVALID_VALUE);
        }
        let variables: u64 = kernel.shared.iter().filter_map(|variable| variable.len).sum();
        let has_dynamic = kernel.shared.iter().any(|variable| variable.len.is_none());
        if dynamic > function.most_dynamic || variables + dynamic > MOST_SHARED || (dynamic > 0 && !has_dynamic) {
            return Err(OUT_OF_RESOURCES);
        }
        self.add(stream, Work::Launch { function: handle, blocks, threads, dynamic, parameters })
    }

    pub fn finish_all(&mut self) -> Done {
        let streams: Vec<u64> = self.streams.keys().copied().collect();
        streams.into_iter().try_for_each(|stream| self.finish(stream))
    }

    /// Does all work of a stream.
    pub fn finish(&mut self, stream: u64) -> Done {
        loop {
            let queue = &mut self.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?.queue;
            let Some(work) = queue.pop_front() else { return Ok(()) };
            let done = match work {
                Work::Fill { to, value, len } => self.memory.fill(to, value, len),
                // SAFETY: who asked for the copy keeps the memory of the host until it is over.
                Work::Copy { from, to, len } => unsafe { self.memory.copy(from, to, len) },
                Work::Launch { function, blocks, threads, dynamic, parameters } => {
                    self.run(function, (blocks, threads), dynamic, &parameters)?;
                    self.memory.check_guards()
                }
                Work::Event(event) => {
                    if let Some(event) = self.events.get_mut(&event) {
                        event.over = Some(Instant::now());
                    }
                    Ok(())
                }
            };
            done.map_err(|text| self.fail(LAUNCH_FAILED, &text))?;
        }
    }

    fn run(&mut self, function: u64, (blocks, threads): (u32, u32), dynamic: u64, parameters: &[u64]) -> Done {
        let function = self.functions.get(&function).ok_or(INVALID_HANDLE)?;
        let index = function.index;
        let Some(module) = self.modules.get_mut(&function.module) else { return Err(INVALID_HANDLE) };
        let (name, digest) = (module.kernel(index).name.clone(), module.digest.clone());
        let mut shared = Variables::new(&module.kernel(index).shared, dynamic, true);
        let functions = module.functions(index);
        let mut launch = Launch {
            spaces: [Space::new(self.memory.areas()), Space::new(&mut shared.areas), Space::new(module.constants())],
            parameters: parameters.as_ptr().cast(),
            blocks,
            threads,
            descending: self.is_late.into(),
            now: self.now,
            fault: 0,
            line: 0,
            block: 0,
            thread: 0,
            write: 0,
            other: 0,
            address: 0,
            size: 0,
            space: 0,
        };
        let done = functions.and_then(|(run, kernel)| {
            // SAFETY: both functions are of the module, which stays loaded, and all that the launch names lives until it
            // is over. They reach only bytes of these areas and the parameters, and one launch runs at a time.
            unsafe { run(&raw mut launch, kernel) };
            log(&digest, &name, blocks, threads)
        });
        self.now = launch.now;
        if let Some((code, text)) = launch.failure(&name) {
            return Err(self.fail(code, &text));
        }
        done.map_err(|text| self.fail(LAUNCH_FAILED, &text))
    }
}

/// Notes a launch, if the environment asks for that.
fn log(digest: &str, kernel: &str, blocks: u32, threads: u32) -> Result<(), String> {
    let Some(path) = std::env::var_os("PHALANX_SIMULATE_LOG") else { return Ok(()) };
    let line = format!("{digest} {kernel} {blocks} {threads}\n");
    let written =
        OpenOptions::new().create(true).append(true).open(&path).and_then(|mut file| file.write_all(line.as_bytes()));
    written.map_err(|e| format!("{}: {e}", path.display()))
}
