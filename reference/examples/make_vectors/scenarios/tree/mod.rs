//! Trees (section 13).

mod contents;
mod manifests;
mod refused;

pub(super) use contents::all as contents;
pub(super) use manifests::all as manifests;

use super::*;
