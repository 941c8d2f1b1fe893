//! The papers' experiments on today's hardware: one runner, one row type, and printed figures beside measured ones.
//!
//! Only this crate has the papers' own baselines: AES by lookup tables ([`ttable`]), the layout of SEFPS
//! ([`sefps::layout`]) and MD5 of keys ([`keys`]). **They are for measuring and for study, not for protecting data.**
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod device;
pub mod energy;
pub mod error;
pub mod head;
pub mod hpc;
pub mod keys;
pub mod load;
pub mod measure;
pub mod merged;
pub mod paper;
pub mod peers;
pub mod record;
pub mod report;
pub mod row;
pub mod run;
pub mod scratch;
pub mod sefps;
pub mod setup;
pub mod ttable;
pub mod users;
pub mod volume;

pub use error::{Error, Result};
pub use record::Watch;
pub use run::{Experiment, run};
pub use setup::Setup;
