//! A device that runs the kernels on one thread of the CPU, compiled by the machine's C compiler.

use phalanx_gpu::driver::{Argument, Driver, Launch, MarkId, MemoryId, PinnedId, StreamId};
use phalanx_gpu::{Api, DeviceInfo, Kernel, Kind, Module, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

type Run = unsafe extern "C" fn(*const c_char, *mut *mut c_void, *const u32, u32, u32) -> c_int;

/// The library of a module, compiled once for all tests. The local memory of kernels is static, so one launch runs at a
/// time.
fn library(module: Module) -> &'static Mutex<libloading::Library> {
    static LIBRARIES: [OnceLock<Mutex<libloading::Library>>; Module::ALL.len()] =
        [const { OnceLock::new() }; Module::ALL.len()];
    let place = Module::ALL.iter().position(|m| *m == module).unwrap();
    LIBRARIES[place].get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("kernels.so");
        compile(&source(module), &library);
        // SAFETY: the library was compiled just now, and does nothing when it is loaded.
        Mutex::new(unsafe { libloading::Library::new(&library) }.unwrap())
    })
}

/// The source of a module, and a function that calls its kernels by their names.
pub fn source(module: Module) -> String {
    format!("{}#define MODULE_{}\n{}", module.source(), module.name(), include_str!("plain.c"))
}

/// Compiles C to a shared library, with warnings as errors.
pub fn compile(source: &str, library: &Path) {
    let file = library.with_extension("c");
    std::fs::write(&file, source).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let options = "-std=c99 -O1 -fPIC -shared -Wall -Wextra -Werror -Wno-unused-function -Wno-unused-parameter \
                   -Wno-unknown-pragmas";
    let mut command = Command::new(compiler);
    command.args(options.split_whitespace()).arg(&file).arg("-o").arg(library).arg("-ldl");
    let done = command.output().expect("a C compiler");
    assert!(done.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&done.stderr));
}

/// Compares the arguments with the kernel's parameters in the PTX: addresses of 64 bits, and numbers of 32 bits.
fn check_arguments(launch: &Launch<'_>) {
    let entry = format!(".entry {}(", launch.kernel.entry);
    let (_, rest) = launch.kernel.module.ptx().split_once(&entry).expect("the kernel");
    let (parameters, _) = rest.split_once(')').expect("its parameters");
    let want: Vec<&str> = parameters.lines().filter_map(|line| line.trim().split(' ').nth(1)).collect();
    let got: Vec<&str> = launch
        .arguments
        .iter()
        .map(|argument| match argument {
            Argument::Memory(..) => ".u64",
            Argument::Number(_) => ".u32",
        })
        .collect();
    assert_eq!(got, want, "{:?}", launch.kernel);
}

/// The device.
pub struct PlainC {
    info: DeviceInfo,
    memory: Mutex<HashMap<u64, Layout>>,
    start: Instant,
}

impl PlainC {
    pub fn new() -> Self {
        let info = DeviceInfo {
            api: Api::Other,
            index: 0,
            name: "plain C".into(),
            driver: "the C compiler".into(),
            kind: Kind::Cpu,
            memory: 1 << 30,
            largest_buffer: 1 << 30,
            compute_units: 1,
            warp: 1,
            clock_mhz: 0,
            local_memory: 1 << 20,
            max_threads: 1024,
        };
        Self { info, memory: Mutex::default(), start: Instant::now() }
    }

    fn take(&self, len: usize) -> u64 {
        let layout = Layout::from_size_align(len, 64).unwrap();
        // SAFETY: the trait never asks for empty memory.
        let address = unsafe { alloc_zeroed(layout) } as u64;
        assert_ne!(address, 0);
        self.memory.lock().unwrap().insert(address, layout);
        address
    }

    fn give_back(&self, address: u64) {
        let layout = self.memory.lock().unwrap().remove(&address).expect("memory of this device");
        // SAFETY: it was allocated above with that layout, and was removed from the map.
        unsafe { dealloc(address as *mut u8, layout) };
    }

    fn check(&self, memory: MemoryId, at: usize, len: usize) {
        let layout = self.memory.lock().unwrap()[&memory.0];
        assert!(at.checked_add(len).is_some_and(|end| end <= layout.size()), "out of bounds");
    }
}

// SAFETY: memory is the host's, launches run the source, and all work is done when a call returns.
unsafe impl Driver for PlainC {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn load(&self, module: Module) -> Result<()> {
        library(module);
        Ok(())
    }

    /// Any number works, because a launch runs groups of one thread.
    fn max_threads(&self, _: Kernel) -> Result<u32> {
        Ok(1024)
    }

    fn allocate(&self, len: usize) -> Result<MemoryId> {
        Ok(MemoryId(self.take(len)))
    }

    unsafe fn free(&self, memory: MemoryId, len: usize, _: Duration) -> Result<()> {
        self.check(memory, 0, len);
        self.give_back(memory.0);
        Ok(())
    }

    fn allocate_pinned(&self, len: usize) -> Result<PinnedId> {
        let address = self.take(len);
        Ok(PinnedId { address: address as *mut u8, name: address })
    }

    unsafe fn free_pinned(&self, pinned: PinnedId, _: Duration) -> Result<()> {
        self.give_back(pinned.name);
        Ok(())
    }

    unsafe fn mapped(&self, pinned: PinnedId) -> Result<Option<MemoryId>> {
        Ok(Some(MemoryId(pinned.name)))
    }

    fn stream(&self) -> Result<StreamId> {
        Ok(StreamId(0))
    }

    unsafe fn free_stream(&self, _: StreamId) {}

    unsafe fn zero(&self, _: StreamId, memory: MemoryId, at: usize, len: usize) -> Result<()> {
        self.check(memory, at, len);
        // SAFETY: the range was checked.
        unsafe { ((memory.0 as *mut u8).add(at)).write_bytes(0, len) };
        Ok(())
    }

    unsafe fn upload(&self, _: StreamId, memory: MemoryId, at: usize, from: &[u8]) -> Result<()> {
        self.check(memory, at, from.len());
        // SAFETY: the range was checked.
        unsafe { (memory.0 as *mut u8).add(at).copy_from(from.as_ptr(), from.len()) };
        Ok(())
    }

    unsafe fn download(&self, _: StreamId, memory: MemoryId, at: usize, to: &mut [u8]) -> Result<()> {
        self.check(memory, at, to.len());
        // SAFETY: the range was checked.
        unsafe { (memory.0 as *const u8).add(at).copy_to(to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    unsafe fn start_upload(
        &self,
        stream: StreamId,
        memory: MemoryId,
        at: usize,
        from: *const u8,
        len: usize,
    ) -> Result<()> {
        // SAFETY: the range lies in the memory, and the caller keeps the `len` bytes of `from` unchanged until the copy
        // is over.
        unsafe { self.upload(stream, memory, at, std::slice::from_raw_parts(from, len)) }
    }

    unsafe fn start_download(
        &self,
        stream: StreamId,
        memory: MemoryId,
        at: usize,
        to: *mut u8,
        len: usize,
    ) -> Result<()> {
        // SAFETY: the range lies in the memory, and the caller lets nobody use the `len` bytes of `to` until the copy
        // is over.
        unsafe { self.download(stream, memory, at, std::slice::from_raw_parts_mut(to, len)) }
    }

    unsafe fn copy(
        &self,
        _: StreamId,
        (from, from_at): (MemoryId, usize),
        (to, to_at): (MemoryId, usize),
        len: usize,
    ) -> Result<()> {
        self.check(from, from_at, len);
        self.check(to, to_at, len);
        // SAFETY: the ranges were checked.
        unsafe { (from.0 as *const u8).add(from_at).copy_to((to.0 as *mut u8).add(to_at), len) };
        Ok(())
    }

    unsafe fn launch(&self, _: StreamId, launch: &Launch<'_>) -> Result<()> {
        check_arguments(launch);
        let (mut memory, mut numbers) = (Vec::new(), Vec::new());
        for argument in launch.arguments {
            match argument {
                Argument::Memory(id, at) => memory.push((id.0 as usize + at) as *mut c_void),
                Argument::Number(number) => numbers.push(*number),
            }
        }
        let entry = CString::new(launch.kernel.entry).unwrap();
        let module = launch.kernel.module;
        let library = library(module).lock().unwrap();
        // SAFETY: the function has that type.
        let run = unsafe { library.get::<Run>(b"run\0") }.unwrap();
        // SAFETY: the arguments are those of the kernel, and the caller has made sure that all it reaches lies in the
        // memories.
        let missing =
            unsafe { run(entry.as_ptr(), memory.as_mut_ptr(), numbers.as_ptr(), launch.groups, launch.threads) };
        assert_eq!(missing, 0, "{} has no {}", module.name(), launch.kernel.entry);
        Ok(())
    }

    fn finish(&self, _: StreamId, _: Duration) -> Result<()> {
        Ok(())
    }

    fn mark(&self, _: StreamId) -> Result<MarkId> {
        Ok(MarkId(self.start.elapsed().as_nanos() as u64))
    }

    unsafe fn between(&self, from: MarkId, to: MarkId) -> Result<Duration> {
        Ok(Duration::from_nanos(to.0 - from.0))
    }
}

impl Drop for PlainC {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.memory.lock().unwrap().is_empty(), "memory was not freed");
        }
    }
}
