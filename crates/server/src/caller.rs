//! Who asks.

use crate::rights::Rights;
use crate::tokens::Token;
use std::sync::Arc;

/// The caller of a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The name in the audit log: `token:…`, with the accessor, or `uid:…`.
    pub name: String,
    /// What the caller may do.
    pub rights: Arc<Rights>,
    /// The token, if the caller has one.
    pub token: Option<Arc<Token>>,
}
