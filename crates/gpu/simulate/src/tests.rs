//! Kernels written for these tests: what each instruction computes, and each mistake that must be found.

mod arithmetic;
mod faults;
mod refused;

use crate::driver::State;
use crate::memory::Place;

/// PTX with one kernel, `k`, which has two addresses and a number as parameters: in %rd1, %rd2 and %r1. The block is in
/// %r2, the thread in %r3, and the number of threads in %r4. Before the entry come `outside`, and in it `declared`.
fn ptx(outside: &str, declared: &str, body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_52\n.address_size 64\n{outside}
.visible .entry k(\n.param .u64 k_param_0,\n.param .u64 k_param_1,\n.param .u32 k_param_2\n)\n{{
.reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<999>;\n.reg .b64 %rd<99>;\n{declared}
ld.param.u64 %rd1, [k_param_0];\nld.param.u64 %rd2, [k_param_1];\nld.param.u32 %r1, [k_param_2];
mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %tid.x;\nmov.u32 %r4, %ntid.x;\n{body}\nret;\n}}\n"
    )
}

/// A device with a stream.
struct Device {
    state: State,
    stream: u64,
}

impl Device {
    fn new() -> Self {
        let mut state = State::new(0);
        let stream = state.stream();
        Self { state, stream }
    }

    fn late() -> Self {
        let mut device = Self::new();
        device.state.set_late();
        device
    }

    fn function(&mut self, ptx: &str) -> u64 {
        let module = self.state.load(ptx).unwrap_or_else(|text| panic!("{text}"));
        self.state.function(module, "k").unwrap()
    }

    fn upload(&mut self, bytes: &[u8]) -> u64 {
        let address = self.state.allocate(bytes.len()).unwrap();
        let from = Place::Host(bytes.as_ptr() as usize);
        self.state.copy(from, Place::Device(address), bytes.len(), self.stream).unwrap();
        self.state.finish(self.stream).unwrap();
        address
    }

    fn download(&mut self, from: u64, len: usize) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0u8; len];
        let to = Place::Host(bytes.as_mut_ptr() as usize);
        let copied = self.state.copy(Place::Device(from), to, len, self.stream);
        self.done(copied)?;
        let finished = self.state.finish(self.stream);
        self.done(finished)?;
        Ok(bytes)
    }

    /// Runs a kernel and waits for it.
    fn run(&mut self, function: u64, shape: (u32, u32), parameters: [u64; 3]) -> Result<(), String> {
        let launched = self.state.launch(function, shape, 0, parameters.to_vec(), self.stream);
        self.done(launched)?;
        let finished = self.state.finish(self.stream);
        self.done(finished)
    }

    /// A failure with its text.
    fn done(&self, done: Result<(), i32>) -> Result<(), String> {
        done.map_err(|code| format!("{code}: {}", self.state.text.to_string_lossy()))
    }
}
