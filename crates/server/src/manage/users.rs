//! Users of shreddable keys.

use super::{done, read};
use crate::audit::Names;
use crate::http::Call;
use crate::http::body::Body;
use crate::refusal::Refusal;
use crate::rights::Action;
use crate::store::Error;
use base64ct::{Base64, Encoding};
use hyper::Response;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    /// The name in base64.
    user: String,
}

async fn user(call: &mut Call) -> Result<Vec<u8>, Refusal> {
    let named: Named = read(call).await?;
    let user = Base64::decode_vec(&named.user).map_err(|_| Refusal::invalid("failed to base64-decode user"))?;
    let most = call.server.limits.user_bytes;
    if user.is_empty() || user.len() > most {
        return Err(Refusal::invalid(format!("a user's name has 1 to {most} bytes")));
    }
    call.note.users = Names::one(&user);
    call.note.items = 1;
    Ok(user)
}

/// Says whether a key has a user.
pub(super) async fn show(call: &mut Call, name: &str) -> Result<Response<Body>, Refusal> {
    call.note.action = "user-show";
    name.clone_into(&mut call.note.key);
    let user = user(call).await?;
    call.caller.rights.permit(Action::Manage, name, &user)?;
    let key = super::key(&call.server, name).await?;
    let exists = call.server.users.exists(&key, &user).await.map_err(Error::told)?;
    done(&json!({ "key": name, "exists": exists }))
}

/// Deletes a user for ever.
pub(super) async fn shred(call: &mut Call, name: &str) -> Result<Response<Body>, Refusal> {
    call.note.action = "user-shred";
    name.clone_into(&mut call.note.key);
    let user = user(call).await?;
    call.caller.rights.permit(Action::Manage, name, &user)?;
    let key = super::key(&call.server, name).await?;
    let existed = call.server.users.shred(&key, &user).await.map_err(Error::told)?;
    done(&json!({ "key": name, "existed": existed }))
}
