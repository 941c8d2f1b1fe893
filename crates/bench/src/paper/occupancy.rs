//! P2's model of a GPU's occupancy: section 3.3, Eqs. 1 to 6, and Tables II and III.

/// The limits of a multiprocessor (Table II).
#[derive(Clone, Copy, Debug)]
pub struct Multiprocessor {
    /// The most warps at a time: Mw.
    pub warps: u32,
    /// The most thread blocks at a time: Mb.
    pub blocks: u32,
    /// Registers: Rm.
    pub registers: u32,
    /// The unit in which registers are allocated to a thread: Ru.
    pub register_unit: u32,
    /// Shared memory in bytes: Sm.
    pub shared: u32,
    /// The unit in which it is allocated to a block, in bytes: Su.
    pub shared_unit: u32,
    /// Threads of a warp: Ws.
    pub warp: u32,
}

/// Compute capability 3.0 and 3.5 (Table II).
pub const COMPUTE_3_5: Multiprocessor = Multiprocessor {
    warps: 64,
    blocks: 16,
    registers: 65_536,
    register_unit: 8,
    shared: 49_152,
    shared_unit: 256,
    warp: 32,
};

/// The needs of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// Registers of a thread: Rt.
    pub registers: u32,
    /// Shared memory of a block in bytes: Sb.
    pub shared: u32,
}

/// The paper's kernel for coalesced and sliced data (section 3.3).
pub const GCS: Kernel = Kernel { registers: 19, shared: 4344 };
/// The kernel for coalesced data that are not sliced (section 3.4).
pub const GCNS: Kernel = Kernel { registers: 23, shared: 4592 };
/// The kernel for a single user's data (section 3.5).
pub const GNC: Kernel = Kernel { registers: 27, shared: 4320 };

/// A row of Table III.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// The blocks that the registers allow: Eq. 2.
    pub by_registers: u32,
    /// The blocks that shared memory allows: Eq. 3.
    pub by_shared: u32,
    /// The blocks that the limits of blocks and warps allow: Eq. 4.
    pub by_blocks_and_warps: u32,
    /// Active warps: Eqs. 5 and 6.
    pub active_warps: u32,
    pub warps: u32,
}

impl Occupancy {
    /// Blocks of `block` threads of a kernel on a multiprocessor.
    pub fn of(kernel: Kernel, block: u32, on: Multiprocessor) -> Self {
        let by_registers = on.registers / (block * kernel.registers.next_multiple_of(on.register_unit));
        let by_shared = on.shared / kernel.shared.next_multiple_of(on.shared_unit);
        let by_blocks_and_warps = on.blocks.min(on.warps * on.warp / block);
        let active_blocks = by_registers.min(by_shared).min(by_blocks_and_warps);
        let active_warps = active_blocks * block / on.warp;
        Self { by_registers, by_shared, by_blocks_and_warps, active_warps, warps: on.warps }
    }

    /// Eq. 1, as a part of 1.
    pub fn ratio(&self) -> f64 {
        f64::from(self.active_warps) / f64::from(self.warps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kernel: Kernel, block: u32) -> [u32; 4] {
        let row = Occupancy::of(kernel, block, COMPUTE_3_5);
        [row.by_registers, row.by_shared, row.by_blocks_and_warps, row.active_warps]
    }

    #[test]
    fn the_model_gives_table_iii() {
        assert_eq!(row(GCS, 256), [10, 11, 8, 64]);
        assert_eq!(row(GCS, 512), [5, 11, 4, 64]);
        assert_eq!(row(GCS, 1024), [2, 11, 2, 64]);
    }

    /// The columns for the two other kernels, which the paper computes by these formulas without printing them.
    #[test]
    fn the_model_gives_the_other_kernels() {
        assert_eq!(row(GCNS, 256), [10, 10, 8, 64]);
        assert_eq!(row(GCNS, 512), [5, 10, 4, 64]);
        assert_eq!(row(GCNS, 1024), [2, 10, 2, 64]);
        assert_eq!(row(GNC, 256), [8, 11, 8, 64]);
        assert_eq!(row(GNC, 512), [4, 11, 4, 64]);
        assert_eq!(row(GNC, 1024), [2, 11, 2, 64]);
    }

    /// "There are three possible block sizes whose occupancy is 100 %" (section 3.3; 3.4 says the same of GCNS).
    #[test]
    fn three_block_sizes_fill_a_multiprocessor() {
        for kernel in [GCS, GCNS, GNC] {
            let full: Vec<u32> = (5..=10)
                .map(|log2| 1 << log2)
                .filter(|block| Occupancy::of(kernel, *block, COMPUTE_3_5).ratio() == 1.0)
                .collect();
            assert_eq!(full, [256, 512, 1024]);
        }
    }
}
