//! The papers' experiments on today's hardware. There are two halves: [`measure`] turns experiments into rows, and
//! [`report`] turns rows into a page. Both use the row type, a run's files, the names in rows, and the papers' printed
//! figures.
//!
//! Only this crate has the papers' own baselines: AES by lookup tables ([`measure::ttable`]), the layout of SEFPS
//! ([`measure::sefps::layout`]) and MD5 of keys ([`measure::keys`]). **They are for measuring and for study, not for
//! protecting data.**
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod error;
pub mod head;
pub mod measure;
pub mod merged;
pub mod names;
pub mod paper;
pub mod record;
pub mod report;
pub mod row;
pub mod run;
#[cfg(test)]
mod scripts;
