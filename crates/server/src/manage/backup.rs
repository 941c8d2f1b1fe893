//! A copy of the store, by the server that has it.

use super::{admins_only, done, read};
use crate::http::Call;
use crate::http::body::Body;
use crate::refusal::Refusal;
use crate::store::{Copies, Error};
use hyper::Response;
use serde::Deserialize;
use serde_json::json;
use std::path::PathBuf;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// A folder that exists, and has neither file in it.
    to: PathBuf,
}

/// Writes the two files of a backup. Only for users of this machine: the files become the server's own.
pub(super) async fn run(call: &mut Call) -> Result<Response<Body>, Refusal> {
    call.note.action = "backup";
    admins_only(call)?;
    if call.caller.token.is_some() {
        return Err(Refusal::denied());
    }
    let wanted: Wanted = read(call).await?;
    if !wanted.to.is_absolute() {
        return Err(Refusal::invalid("the path of a backup must be absolute"));
    }
    let copies = Copies::in_folder(&wanted.to);
    let copied = call.server.users.copy(copies).await;
    copied.map_err(|error| match error {
        // The caller may know what is wrong with the folder.
        Error::Failed(text) => Refusal::failed(text),
        error => error.told(),
    })?;
    done(&json!({}))
}
