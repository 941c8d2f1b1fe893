//! Buffers within buffers.

use cl3::memory;
use cl3::types::*;

/// Buffers that begin within others, for the arguments of one launch. They are released when the launch is in its
/// queue, which keeps them until the launch is over.
#[derive(Default)]
pub(super) struct Parts(Vec<cl_mem>);

impl Parts {
    /// The part of `memory` from a byte on.
    pub(super) fn part(&mut self, memory: cl_mem, at: usize) -> std::result::Result<cl_mem, cl_int> {
        if at == 0 {
            return Ok(memory);
        }
        let whole = usize::from(memory::get_mem_object_info(memory, memory::CL_MEM_SIZE)?);
        let region = cl_buffer_region { origin: at, size: whole - at };
        let (flags, kind) = (memory::CL_MEM_READ_WRITE, memory::CL_BUFFER_CREATE_TYPE_REGION);
        // SAFETY: the memory is ours, and the call reads the region.
        let made = unsafe { memory::create_sub_buffer(memory, flags, kind, (&raw const region).cast()) }?;
        self.0.push(made);
        Ok(made)
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        for made in &self.0 {
            // SAFETY: it was made here, and is not used again.
            let _ = unsafe { memory::release_mem_object(*made) };
        }
    }
}
