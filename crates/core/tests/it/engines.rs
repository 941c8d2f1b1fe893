//! The CPU's engines against the reference.

mod common;

use common::engines;

#[path = "checks/engines.rs"]
mod checks;
