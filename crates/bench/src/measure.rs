//! The experiments: what they measure becomes rows.

pub mod device;
pub mod energy;
pub mod hpc;
pub mod keys;
pub mod load;
pub mod machine;
pub mod mounted;
pub mod peers;
pub mod programs;
pub mod scratch;
pub mod sefps;
pub mod setup;
pub mod steps;
pub mod times;
pub mod ttable;
pub mod users;
pub mod volume;
