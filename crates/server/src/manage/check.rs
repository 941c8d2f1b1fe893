//! Opening every secret of the store.

use super::admins_only;
use crate::http::body::Body;
use crate::http::{Call, json};
use crate::refusal::Refusal;
use crate::store::Error;
use hyper::Response;

/// Answers with counts, and a line for each thing that is damaged.
pub(super) async fn run(call: &mut Call) -> Result<Response<Body>, Refusal> {
    call.note.action = "check";
    admins_only(call)?;
    Ok(json(200, &call.server.users.check().await.map_err(Error::told)?))
}
