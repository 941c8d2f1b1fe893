//! The CPU's engines against the reference.

use crate::common::{self, engines};

#[path = "../checks/engines.rs"]
mod checks;
