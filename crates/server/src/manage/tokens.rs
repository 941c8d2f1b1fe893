//! Tokens, by their accessors.

use super::{admins_only, done, read};
use crate::http::body::Body;
use crate::http::{self, Call};
use crate::refusal::Refusal;
use crate::rights::Rights;
use crate::store::Error;
use crate::tokens::{NewToken, Token};
use base64ct::{Base64, Encoding};
use hyper::Response;
use hyper::body::Bytes;
use phalanx_core::Zeroizing;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

fn shown(token: &Token) -> Value {
    let record = &token.record;
    json!({
        "accessor": record.accessor,
        "name": record.name,
        "rights": record.rights.split(',').filter(|right| !right.is_empty()).collect::<Vec<_>>(),
        "user": record.user.as_deref().map(Base64::encode_string),
        "created": record.created,
        "expires": record.expires,
        "left": token.left(),
        "renewable": record.renewable,
        "parent": record.parent,
    })
}

pub(super) fn list(call: &mut Call) -> Result<Response<Body>, Refusal> {
    call.note.action = "token-list";
    admins_only(call)?;
    let tokens: Vec<Value> = call.server.tokens.all().iter().map(|token| shown(token)).collect();
    done(&json!({ "tokens": tokens }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct New {
    rights: Vec<String>,
    /// The name of the one user, in base64.
    user: Option<String>,
    /// Seconds; 0 is for ever.
    ttl: u64,
    #[serde(default)]
    renewable: bool,
    /// What it is called in lists.
    name: Option<String>,
}

/// The longest name of a token in bytes.
const LONGEST_NAME: usize = 128;

pub(super) async fn create(call: &mut Call) -> Result<Response<Body>, Refusal> {
    call.note.action = "token-new";
    admins_only(call)?;
    let new: New = read(call).await?;
    if new.rights.is_empty() {
        return Err(Refusal::invalid("a token needs a right"));
    }
    let is_long = |name: &str| name.is_empty() || name.len() > LONGEST_NAME || name.contains(char::is_control);
    if new.name.as_deref().is_some_and(is_long) {
        return Err(Refusal::invalid(format!("the name of a token is one line of 1 to {LONGEST_NAME} bytes")));
    }
    let no_base64 = |_| Refusal::invalid("failed to base64-decode user");
    let user = new.user.as_deref().map(Base64::decode_vec).transpose().map_err(no_base64)?;
    let rights = Rights::parse(new.rights.iter().map(String::as_str), user).map_err(Refusal::invalid)?;
    let parent = call.caller.token.as_ref().map(|token| token.record.accessor.clone());
    let new = NewToken { rights, ttl: new.ttl, renewable: new.renewable, parent, name: new.name };
    let (text, token) = call.server.create_token(&call.caller.by(), new).await.map_err(Error::told)?;
    Ok(made(&text, shown(&token)))
}

/// The answer with a new token, whose buffer is wiped when it is sent.
fn made(text: &str, shown: Value) -> Response<Body> {
    #[derive(Serialize)]
    struct Made<'a> {
        token: &'a str,
        #[serde(flatten)]
        shown: Value,
    }
    // It never grows, because that would leave a copy.
    let mut bytes = Zeroizing::new(Vec::with_capacity(shown.to_string().len() + text.len() + 64));
    let _ = serde_json::to_writer(&mut *bytes, &Made { token: text, shown });
    http::response(200, "application/json", Bytes::from_owner(bytes))
}

/// A token, by its accessor or by its text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    accessor: Option<String>,
    token: Option<String>,
}

pub(super) async fn revoke(call: &mut Call) -> Result<Response<Body>, Refusal> {
    call.note.action = "token-revoke";
    admins_only(call)?;
    let tokens = &call.server.clone().tokens;
    let accessor = match read(call).await? {
        Named { accessor: Some(accessor), token: None } => Some(accessor),
        Named { accessor: None, token: Some(text) } => {
            let text = Zeroizing::new(text);
            if tokens.known(&text).is_none() {
                // Another server may have made it a moment ago.
                call.server.catch_up().await?;
            }
            tokens.known(&text).map(|token| token.record.accessor.clone())
        }
        _ => return Err(Refusal::invalid("a token is named by its accessor or by its text")),
    };
    // Neither is repeated: who has mixed them up would read a token in a log.
    let none = || Refusal::not_found("there is no such token");
    let accessor = accessor.ok_or_else(none)?;
    if !call.server.revoke(&call.caller.by(), &accessor).await.map_err(Error::told)? {
        return Err(none());
    }
    done(&json!({ "accessor": accessor }))
}
