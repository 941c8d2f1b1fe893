//! The CPU's engines, compared with the reference.

use crate::common::{self, engines};

#[path = "../checks/engines.rs"]
mod checks;
