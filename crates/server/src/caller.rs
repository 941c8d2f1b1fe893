//! Who asks.

use crate::changes::By;
use crate::refusal::Refusal;
use crate::rights::Rights;
use crate::server::Server;
use crate::tokens::Token;
use std::sync::Arc;

/// The caller of a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The name in the audit log: `token:…`, with the accessor, or `uid:…`.
    pub name: String,
    /// Whose requests count together: the topmost token from which this one was made, but for those of administrators.
    pub account: Arc<str>,
    /// What the caller may do.
    pub rights: Arc<Rights>,
    /// The token, if the caller has one.
    pub token: Option<Arc<Token>>,
}

impl Caller {
    /// For what the caller changes.
    pub fn by(&self) -> By {
        if self.rights.is_admin() { By::Admin } else { By::Account(self.account.clone()) }
    }

    /// Refuses a caller whose token has ended since the request began: a body may come long after its head.
    ///
    /// # Errors
    /// If it has, or the store cannot say.
    pub fn check(&self, server: &Server) -> Result<(), Refusal> {
        server.is_current()?;
        let has_ended = self.token.as_ref().is_some_and(|token| !server.tokens.has(token));
        if has_ended { Err(Refusal::denied()) } else { Ok(()) }
    }
}
