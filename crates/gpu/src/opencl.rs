//! Devices through OpenCL, whose library is loaded at run time. The driver compiles the source.

mod find;
mod parts;

pub(crate) use find::devices;

use crate::driver::{Argument, DeviceInfo, Driver, Launch, MarkId, MemoryId, PinnedId, StreamId, poll};
use crate::error::{Error, Reason, Result};
use crate::kernel::{Kernel, Module};
use cl3::types::*;
use cl3::{command_queue, context, error_codes, event, kernel, memory, program};
use find::{alone, find, text};
use parts::Parts;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

pub(crate) struct OpenCl {
    info: DeviceInfo,
    device: cl_device_id,
    context: cl_context,
    built: Mutex<Built>,
    /// All streams, each with its work that may not be over yet.
    pending: Mutex<HashMap<StreamId, Vec<Event>>>,
    /// The queue of each buffer of pinned memory, by the buffer's address.
    pinned: Mutex<HashMap<u64, cl_command_queue>>,
}

/// The event of a command, and what the command does.
#[derive(Clone, Copy)]
struct Event(cl_event, &'static str);

#[derive(Default)]
struct Built {
    programs: HashMap<Module, cl_program>,
    kernels: HashMap<Kernel, cl_kernel>,
}

// SAFETY: all calls of OpenCL except clSetKernelArg may come from any thread. That one is called with `built` locked.
unsafe impl Send for OpenCl {}
// SAFETY: all calls of OpenCL except clSetKernelArg may come from any thread. That one is called with `built` locked.
unsafe impl Sync for OpenCl {}

impl OpenCl {
    pub(crate) fn open(info: &DeviceInfo) -> Result<Self> {
        let _alone = alone();
        let here = find()?.into_iter().nth(info.index).filter(|(_, here)| here.name == info.name);
        let Some((device, info)) = here else { return Err(info.error(Reason::Absent("the device is gone".into()))) };
        let context = context::create_context(&[device], null(), None, null_mut())
            .map_err(|code| info.error(Reason::Failed("opening the device", text(code))))?;
        let (built, pending, pinned) = Default::default();
        Ok(Self { info, device, context, built, pending, pinned })
    }

    fn failed(&self, what: &'static str) -> impl Fn(cl_int) -> Error {
        // NVIDIA returns -9999 when a kernel has failed.
        let is_final = |code| code == error_codes::CL_DEVICE_NOT_AVAILABLE || code == -9999;
        move |code| {
            let reason = if is_final(code) { Reason::Lost } else { Reason::Failed };
            self.info.error(reason(what, text(code)))
        }
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<StreamId, Vec<Event>>> {
        self.pending.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes over the event of a command that was given to a stream, for [`Driver::finish`] to wait for.
    fn keep(&self, stream: StreamId, what: &'static str, made: std::result::Result<cl_event, cl_int>) -> Result<()> {
        let made = made.map_err(self.failed(what))?;
        self.pending().entry(stream).or_default().push(Event(made, what));
        Ok(())
    }

    /// Waits for work that was flushed, and releases its events when it is over.
    fn wait(&self, events: Vec<Event>, limit: Duration) -> Result<()> {
        let status = |made| event::get_event_info(made, event::CL_EVENT_COMMAND_EXECUTION_STATUS).map(i32::from);
        let mut done = Ok(());
        for Event(made, what) in events {
            // A negative status is an error. A positive one means waiting or running.
            let over = poll(limit, || Some(status(made)).filter(|s| s.is_err() || *s <= Ok(event::CL_COMPLETE)));
            let Some(status) = over else { return Err(self.info.error(Reason::TimedOut(limit))) };
            // If the query fails, it is unknown when the work is over.
            let status = status.map_err(|code| self.info.error(Reason::Lost("asking for work's end", text(code))))?;
            self.forget(made);
            if status < 0 && done.is_ok() {
                done = Err(self.failed(what)(status));
            }
        }
        done
    }

    fn out_of_memory(&self, what: &'static str, len: usize) -> impl Fn(cl_int) -> Error {
        use error_codes::{CL_INVALID_BUFFER_SIZE, CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES};
        move |code| match code {
            CL_MEM_OBJECT_ALLOCATION_FAILURE | CL_INVALID_BUFFER_SIZE | CL_OUT_OF_RESOURCES => {
                self.info.error(Reason::OutOfMemory(len))
            }
            code => self.failed(what)(code),
        }
    }

    fn build(&self, source: &str) -> Result<cl_program> {
        let program =
            program::create_program_with_source(self.context, &[source]).map_err(self.failed("reading the kernels"))?;
        if let Err(code) = program::build_program(program, &[self.device], c"-cl-std=CL1.2", None, null_mut()) {
            let log = program::get_program_build_info(program, self.device, program::CL_PROGRAM_BUILD_LOG);
            // SAFETY: the program was made above, and is not used again.
            let _ = unsafe { program::release_program(program) };
            let log = log.map(String::from).unwrap_or_default();
            return Err(self.info.error(Reason::Build(format!("{}\n{log}", text(code)))));
        }
        Ok(program)
    }

    fn program(&self, built: &mut Built, module: Module) -> Result<cl_program> {
        if let Some(program) = built.programs.get(&module) {
            return Ok(*program);
        }
        let program = self.build(&module.source())?;
        built.programs.insert(module, program);
        Ok(program)
    }

    /// The kernel, which stays valid as long as `built` is not dropped.
    fn kernel(&self, built: &mut Built, wanted: Kernel) -> Result<cl_kernel> {
        if let Some(kernel) = built.kernels.get(&wanted) {
            return Ok(*kernel);
        }
        let program = self.program(built, wanted.module)?;
        let name = CString::new(wanted.entry).expect("entries are identifiers");
        let kernel = kernel::create_kernel(program, &name).map_err(self.failed("finding a kernel"))?;
        built.kernels.insert(wanted, kernel);
        Ok(kernel)
    }

    fn built(&self) -> MutexGuard<'_, Built> {
        self.built.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn queue(&self) -> Result<cl_command_queue> {
        let properties = [
            command_queue::CL_QUEUE_PROPERTIES as cl_queue_properties,
            command_queue::CL_QUEUE_PROFILING_ENABLE as cl_queue_properties,
            0,
        ];
        // SAFETY: the device is the context's, and the properties end with 0. OpenCL 1.2 has only the older call.
        unsafe {
            match command_queue::create_command_queue_with_properties(self.context, self.device, properties.as_ptr()) {
                Err(error_codes::DLOPEN_FUNCTION_NOT_AVAILABLE) => {
                    let profiling = command_queue::CL_QUEUE_PROFILING_ENABLE;
                    command_queue::create_command_queue(self.context, self.device, profiling)
                }
                made => made,
            }
        }
        .map_err(self.failed("opening a stream"))
    }

    /// Releases an event that nothing waits for.
    fn forget(&self, made: cl_event) {
        // SAFETY: the event was made by a call just before, and is not used again.
        let _ = unsafe { event::release_event(made) };
    }
}

fn queue_of(stream: StreamId) -> cl_command_queue {
    stream.0 as cl_command_queue
}

fn buffer_of(memory: MemoryId) -> cl_mem {
    memory.0 as cl_mem
}

// SAFETY: every method does what the trait says by the calls of OpenCL for it. Programs are built from the source.
unsafe impl Driver for OpenCl {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn load(&self, module: Module) -> Result<()> {
        self.program(&mut self.built(), module).map(|_| ())
    }

    fn max_threads(&self, wanted: Kernel) -> Result<u32> {
        let kernel = self.kernel(&mut self.built(), wanted)?;
        let most = kernel::get_kernel_work_group_info(kernel, self.device, kernel::CL_KERNEL_WORK_GROUP_SIZE)
            .map_err(self.failed("asking for a kernel's threads"))?;
        Ok(u32::try_from(usize::from(most)).unwrap_or(u32::MAX))
    }

    fn allocate(&self, len: usize) -> Result<MemoryId> {
        // SAFETY: these flags take no host memory.
        let made = unsafe { memory::create_buffer(self.context, memory::CL_MEM_READ_WRITE, len, null_mut()) };
        Ok(MemoryId(made.map_err(self.out_of_memory("allocating", len))? as u64))
    }

    unsafe fn free(&self, memory: MemoryId, len: usize, limit: Duration) -> Result<()> {
        // The work of any stream so far may use the memory. Each event is retained, because the streams wait for it
        // too.
        let mut given = Vec::new();
        for (stream, events) in self.pending().iter() {
            command_queue::flush(queue_of(*stream)).map_err(self.failed("starting work"))?;
            // SAFETY: the stream holds the events.
            given.extend(events.iter().filter(|made| unsafe { event::retain_event(made.0) }.is_ok()).copied());
        }
        if let Err(error) = self.wait(given, limit)
            && error.reason.is_final()
        {
            return Err(error);
        }
        // Memory that cannot be wiped is kept.
        let stream = StreamId(self.queue()? as u64);
        // SAFETY: the queue was made just now. The memory is ours and has that length.
        let zeroed = unsafe { self.zero(stream, memory, 0, len) }.and_then(|()| self.finish(stream, limit));
        self.pending().remove(&stream);
        // SAFETY: the queue is not used again. It is released when its work is over.
        let _ = unsafe { command_queue::release_command_queue(queue_of(stream)) };
        zeroed?;
        // SAFETY: the memory is ours, and the caller starts no work on it any more.
        unsafe { memory::release_mem_object(buffer_of(memory)) }.map_err(self.failed("freeing memory"))
    }

    fn allocate_pinned(&self, len: usize) -> Result<PinnedId> {
        let flags = memory::CL_MEM_READ_WRITE | memory::CL_MEM_ALLOC_HOST_PTR;
        // SAFETY: these flags take no host memory.
        let made = unsafe { memory::create_buffer(self.context, flags, len, null_mut()) };
        let buffer = made.map_err(self.out_of_memory("allocating pinned memory", len))?;
        let release = || {
            // SAFETY: the buffer was made above, and is not used again.
            let _ = unsafe { memory::release_mem_object(buffer) };
        };
        let queue = self.queue().inspect_err(|_| release())?;
        let mut address = null_mut();
        let flags = memory::CL_MAP_READ | memory::CL_MAP_WRITE;
        // SAFETY: the queue and the buffer were made above. The range is the whole buffer. The call waits.
        let mapped = unsafe {
            command_queue::enqueue_map_buffer(queue, buffer, CL_TRUE, flags, 0, len, &mut address, 0, null())
        };
        match mapped {
            Ok(made) => self.forget(made),
            Err(code) => {
                release();
                // SAFETY: the queue was made above, and is not used again.
                let _ = unsafe { command_queue::release_command_queue(queue) };
                return Err(self.out_of_memory("mapping pinned memory", len)(code));
            }
        }
        // SAFETY: the mapping has that many bytes, and stays until free_pinned.
        unsafe { std::ptr::write_bytes(address.cast::<u8>(), 0, len) };
        let name = buffer as u64;
        self.pinned.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(name, queue);
        Ok(PinnedId { address: address.cast(), name })
    }

    unsafe fn free_pinned(&self, pinned: PinnedId, limit: Duration) -> Result<()> {
        let buffer = pinned.name as cl_mem;
        let queue = self.pinned.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&pinned.name);
        if let Some(queue) = queue {
            // SAFETY: the buffer is mapped at that address, and its queue was made with it. Nothing else uses them any more.
            let unmapped =
                unsafe { command_queue::enqueue_unmap_mem_object(queue, buffer, pinned.address.cast(), 0, null()) };
            let unmapped = unmapped.map_err(self.failed("unmapping pinned memory"))?;
            // Memory that the device may still reach is kept.
            command_queue::flush(queue).map_err(|code| self.info.error(Reason::Lost("starting work", text(code))))?;
            self.wait(vec![Event(unmapped, "unmapping pinned memory")], limit)?;
            // SAFETY: the queue is not used again.
            let _ = unsafe { command_queue::release_command_queue(queue) };
        }
        // SAFETY: the buffer is ours, and nothing uses it any more.
        unsafe { memory::release_mem_object(buffer) }.map_err(self.failed("freeing pinned memory"))
    }

    fn stream(&self) -> Result<StreamId> {
        let stream = StreamId(self.queue()? as u64);
        self.pending().insert(stream, Vec::new());
        Ok(stream)
    }

    unsafe fn free_stream(&self, stream: StreamId) {
        self.pending().remove(&stream);
        // SAFETY: the stream is ours, and the caller does not use it any more.
        let _ = unsafe { command_queue::release_command_queue(queue_of(stream)) };
    }

    unsafe fn zero(&self, stream: StreamId, memory: MemoryId, at: usize, len: usize) -> Result<()> {
        let zero = [0u8; 16];
        let pattern: *const c_void = zero.as_ptr().cast();
        let pattern_len = if at.is_multiple_of(16) && len.is_multiple_of(16) { 16 } else { 1 };
        // SAFETY: the caller has made sure that the range lies in the memory. The call copies the pattern, whose length
        // divides the beginning and the length of the range.
        let made = unsafe {
            command_queue::enqueue_fill_buffer(
                queue_of(stream),
                buffer_of(memory),
                pattern,
                pattern_len,
                at,
                len,
                0,
                null(),
            )
        };
        self.keep(stream, "clearing memory", made)
    }

    unsafe fn upload(&self, stream: StreamId, memory: MemoryId, at: usize, from: &[u8]) -> Result<()> {
        let (queue, buffer, bytes) = (queue_of(stream), buffer_of(memory), from.as_ptr().cast_mut().cast());
        // SAFETY: the caller has made sure that the range lies in the memory. The call only reads from `from`, and
        // waits.
        let made =
            unsafe { command_queue::enqueue_write_buffer(queue, buffer, CL_TRUE, at, from.len(), bytes, 0, null()) };
        self.forget(made.map_err(self.failed("copying to the device"))?);
        Ok(())
    }

    unsafe fn download(&self, stream: StreamId, memory: MemoryId, at: usize, to: &mut [u8]) -> Result<()> {
        let (queue, buffer, bytes) = (queue_of(stream), buffer_of(memory), to.as_mut_ptr().cast());
        // SAFETY: the caller has made sure that the range lies in the memory. The call waits.
        let made =
            unsafe { command_queue::enqueue_read_buffer(queue, buffer, CL_TRUE, at, to.len(), bytes, 0, null()) };
        self.forget(made.map_err(self.failed("copying from the device"))?);
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
        let (queue, buffer, bytes) = (queue_of(stream), buffer_of(memory), from.cast_mut().cast());
        // SAFETY: the range lies in the memory, and the caller keeps the `len` bytes of `from` unchanged until the copy
        // is over. The call only reads them.
        let made = unsafe { command_queue::enqueue_write_buffer(queue, buffer, CL_FALSE, at, len, bytes, 0, null()) };
        self.keep(stream, "copying to the device", made)
    }

    unsafe fn start_download(
        &self,
        stream: StreamId,
        memory: MemoryId,
        at: usize,
        to: *mut u8,
        len: usize,
    ) -> Result<()> {
        let (queue, buffer) = (queue_of(stream), buffer_of(memory));
        // SAFETY: the range lies in the memory, and the caller lets nobody use the `len` bytes of `to` until the copy
        // is over.
        let made =
            unsafe { command_queue::enqueue_read_buffer(queue, buffer, CL_FALSE, at, len, to.cast(), 0, null()) };
        self.keep(stream, "copying from the device", made)
    }

    unsafe fn copy(
        &self,
        stream: StreamId,
        (from, from_at): (MemoryId, usize),
        (to, to_at): (MemoryId, usize),
        len: usize,
    ) -> Result<()> {
        let (queue, from, to) = (queue_of(stream), buffer_of(from), buffer_of(to));
        // SAFETY: the caller has made sure that the ranges lie in the memories and do not overlap.
        let made = unsafe { command_queue::enqueue_copy_buffer(queue, from, to, from_at, to_at, len, 0, null()) };
        self.keep(stream, "copying within the device", made)
    }

    unsafe fn launch(&self, stream: StreamId, launch: &Launch<'_>) -> Result<()> {
        let mut built = self.built();
        let kernel = self.kernel(&mut built, launch.kernel)?;
        let failed = self.failed("setting a kernel's arguments");
        let mut parts = Parts::default();
        for (i, argument) in launch.arguments.iter().enumerate() {
            // SAFETY: the caller gives the kernel's arguments in order: a pointer to global memory, or 32 bits each.
            unsafe {
                match argument {
                    Argument::Memory(memory, at) => {
                        let memory = parts.part(buffer_of(*memory), *at).map_err(&failed)?;
                        kernel::set_kernel_arg(kernel, i as u32, size_of::<cl_mem>(), (&raw const memory).cast())
                    }
                    Argument::Number(number) => {
                        kernel::set_kernel_arg(kernel, i as u32, 4, std::ptr::from_ref(number).cast())
                    }
                }
            }
            .map_err(&failed)?;
        }
        if launch.local != 0 {
            let last = launch.arguments.len() as u32;
            // SAFETY: the kernel's last parameter is a pointer to local memory.
            unsafe { kernel::set_kernel_arg(kernel, last, launch.local as usize, null()) }.map_err(&failed)?;
        }
        let (local, global) = (launch.threads as usize, launch.groups as usize * launch.threads as usize);
        // SAFETY: all arguments are set, and the caller has made sure that all that the kernel reaches lies in the
        // memories.
        let made = unsafe {
            command_queue::enqueue_nd_range_kernel(queue_of(stream), kernel, 1, null(), &global, &local, 0, null())
        };
        self.keep(stream, "running a kernel", made)
    }

    fn finish(&self, stream: StreamId, limit: Duration) -> Result<()> {
        let events = self.pending().get_mut(&stream).map(std::mem::take).unwrap_or_default();
        if events.is_empty() {
            return Ok(());
        }
        // If flushing fails, it is unknown when the work is over, so the device is lost.
        command_queue::flush(queue_of(stream))
            .map_err(|code| self.info.error(Reason::Lost("starting work", text(code))))?;
        self.wait(events, limit)
    }

    fn mark(&self, stream: StreamId) -> Result<MarkId> {
        // SAFETY: the stream is ours.
        let made = unsafe { command_queue::enqueue_marker_with_wait_list(queue_of(stream), 0, null()) };
        let made = made.map_err(self.failed("marking the time"))?;
        // SAFETY: the event was made just now. The caller, who reads its time, and the stream each hold a reference to
        // it.
        unsafe { event::retain_event(made) }.map_err(self.failed("marking the time"))?;
        self.keep(stream, "marking the time", Ok(made))?;
        Ok(MarkId(made as u64))
    }

    unsafe fn between(&self, from: MarkId, to: MarkId) -> Result<Duration> {
        let at = |mark: MarkId| {
            let made = mark.0 as cl_event;
            let time = event::get_event_profiling_info(made, event::CL_PROFILING_COMMAND_END).map(u64::from);
            self.forget(made);
            time
        };
        let (from, to) = (at(from), at(to));
        let failed = self.failed("reading the device's clock");
        Ok(Duration::from_nanos(to.map_err(&failed)?.saturating_sub(from.map_err(&failed)?)))
    }
}

impl Drop for OpenCl {
    fn drop(&mut self) {
        let built = std::mem::take(&mut *self.built());
        // SAFETY: all of these were made here, and nothing uses them any more.
        unsafe {
            for kernel in built.kernels.into_values() {
                let _ = kernel::release_kernel(kernel);
            }
            for program in built.programs.into_values() {
                let _ = program::release_program(program);
            }
            let _ = context::release_context(self.context);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work waits for an event that never comes: each wait ends, and nothing is freed.
    fn does_not_answer(device: &OpenCl) {
        let limit = Duration::from_millis(50);
        let stream = device.stream().unwrap();
        let memory = device.allocate(64).unwrap();
        let never = event::create_user_event(device.context).unwrap();
        // SAFETY: the queue is the stream's, the event was made just now.
        let made = unsafe { command_queue::enqueue_marker_with_wait_list(queue_of(stream), 1, &never) };
        device.keep(stream, "waiting", made).unwrap();
        // SAFETY: the memory has that length, and nothing uses it.
        let freed = unsafe { device.free(memory, 64, limit) };
        assert_eq!(freed.unwrap_err().reason, Reason::TimedOut(limit));
        assert_eq!(device.finish(stream, limit).unwrap_err().reason, Reason::TimedOut(limit));
        event::set_user_event_status(never, event::CL_COMPLETE).unwrap();
        device.finish(stream, limit).unwrap();
        // SAFETY: all work is over, and nothing is used again.
        unsafe {
            device.free(memory, 64, limit).unwrap();
            device.free_stream(stream);
            event::release_event(never).unwrap();
        }
    }

    /// The same for pinned memory. If nothing gives up, the event comes after some seconds, and the memory is freed.
    fn does_not_give_pinned_memory_back(device: &OpenCl) {
        let limit = Duration::from_millis(50);
        let pinned = device.allocate_pinned(64).unwrap();
        let queue = device.pinned.lock().unwrap()[&pinned.name];
        let never = event::create_user_event(device.context).unwrap();
        // SAFETY: the queue is that of the memory, the event was made just now.
        let made = unsafe { command_queue::enqueue_marker_with_wait_list(queue, 1, &never) };
        device.forget(made.unwrap());
        let (is_over, over) = std::sync::mpsc::channel();
        let name = never as usize;
        let comes = std::thread::spawn(move || {
            let _ = over.recv_timeout(Duration::from_secs(10));
            event::set_user_event_status(name as cl_event, event::CL_COMPLETE).unwrap();
        });
        // SAFETY: the memory is the driver's, and nothing uses it.
        let freed = unsafe { device.free_pinned(pinned, limit) };
        is_over.send(()).unwrap();
        comes.join().unwrap();
        assert_eq!(freed.unwrap_err().reason, Reason::TimedOut(limit));
        // SAFETY: the event is not used again. What was not freed stays, as it does when a device is dead.
        unsafe { event::release_event(never).unwrap() };
    }

    #[test]
    fn a_failing_build_gives_its_log_in_one_line() {
        let Some(info) = devices().unwrap_or_default().into_iter().next() else {
            println!("skipped: no OpenCL device");
            let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|r| r == "opencl"), "PHALANX_REQUIRE names opencl: there is no device");
            return;
        };
        let device = OpenCl::open(&info).unwrap();
        let error = device.build("__kernel void k(__global int *a) {\n    a[0] = no_such_name;\n}").unwrap_err();
        let text = error.to_string();
        println!("{text}");
        assert!(matches!(error.reason, Reason::Build(_)) && text.contains("no_such_name") && !text.contains('\n'));
        let missing = Kernel { module: Module::Sha3, entry: "no_such_kernel" };
        assert!(device.max_threads(missing).unwrap_err().to_string().contains("CL_INVALID_KERNEL_NAME"));
        does_not_answer(&device);
        does_not_give_pinned_memory_back(&device);
        let gone = DeviceInfo { index: 1000, ..info };
        assert!(OpenCl::open(&gone).err().unwrap().to_string().contains("the device is gone"));
    }
}
