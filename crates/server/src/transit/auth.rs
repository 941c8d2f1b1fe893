//! `auth/token`: a caller's own token, and making and ending others. The policies of Vault are rights here.

use super::envelope::{self, Auth, Mount};
use super::json::{self, Fields};
use super::text::Raw;
use super::{loose, of_store, request, unsupported};
use crate::http::Call;
use crate::http::body::Body;
use crate::keys::now;
use crate::refusal::{Kind, Refusal};
use crate::rights::{Right, Rights};
use crate::tokens::{DEFAULT_TTL, NewToken, Token};
use hyper::Response;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const NEW: &[&str] = &[
    "id",
    "policies",
    "ttl",
    "lease",
    "explicit_max_ttl",
    "period",
    "num_uses",
    "renewable",
    "no_parent",
    "no_default_policy",
    "display_name",
    "meta",
    "user",
    "type",
    "entity_alias",
];

/// Describes the caller's token, or what the caller may do without one.
///
/// # Errors
/// If the body is no JSON.
pub async fn lookup_self(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let body = request::small(call).await?;
    let fields = json::read(&body.bytes, &["token"])?;
    Ok(envelope::data(call, &own(call), &fields.warnings(&[]), Mount::Token))
}

/// What the caller is.
fn own(call: &Call) -> Value {
    let text = own_text(call);
    match &call.caller.token {
        Some(token) => described(token, text.unwrap_or("")),
        None => json!({
            "accessor": "", "creation_time": 0, "creation_ttl": 0, "display_name": call.caller.name, "entity_id": "",
            "expire_time": null, "explicit_max_ttl": 0, "id": "", "meta": null, "num_uses": 0, "orphan": true,
            "path": "auth/token/root", "policies": policies(&call.caller.rights), "ttl": 0, "type": "service",
        }),
    }
}

/// The text of the caller's token.
fn own_text(call: &Call) -> Option<&str> {
    let bearer = || envelope::header(&call.headers, "authorization")?.strip_prefix("Bearer ").map(str::trim);
    envelope::header(&call.headers, "x-vault-token").filter(|text| !text.is_empty()).or_else(bearer)
}

/// Describes the token of a text. Only its owner and administrators may ask.
///
/// # Errors
/// If there is none, or the caller may not know it.
pub async fn lookup(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let body = request::small(call).await?;
    let fields = json::read(&body.bytes, &["token"])?;
    let given = fields.string("token")?.map(|text| zeroize::Zeroizing::new(text.to_owned()));
    let given = given.or_else(|| call.query("token").map(|text| zeroize::Zeroizing::new(text.to_owned())));
    let Some(text) = given.filter(|text| !text.is_empty()) else {
        return Ok(envelope::data(call, &own(call), &[], Mount::Token));
    };
    let token = call.server.find_token(&text).await?.ok_or_else(|| Refusal::new(Kind::Denied, "bad token"))?;
    may_touch(call, &token)?;
    Ok(envelope::data(call, &described(&token, &text), &[], Mount::Token))
}

/// Describes the token of an accessor.
///
/// # Errors
/// If there is none, or the caller may not know it.
pub async fn lookup_accessor(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let token = by_accessor(call, false).await?;
    Ok(envelope::data(call, &described(&token, ""), &[], Mount::Token))
}

/// The token whose accessor is in the body; with `any` also one that has ended.
async fn by_accessor(call: &mut Call, any: bool) -> Result<Arc<Token>, Refusal> {
    let body = request::small(call).await?;
    let fields = json::read(&body.bytes, &["accessor"])?;
    let accessor = fields.string("accessor")?.filter(|text| !text.is_empty());
    let accessor = accessor.ok_or_else(|| Refusal::invalid("missing accessor"))?;
    let tokens = &call.server.tokens;
    if tokens.by_accessor(&accessor).is_none() {
        call.server.catch_up().await?;
    }
    let token = tokens.by_accessor(&accessor).filter(|token| any || tokens.has(token));
    // An accessor is no secret, so that nobody else learns whether it exists.
    match token {
        Some(token) => may_touch(call, &token).map(|()| token),
        None if call.caller.rights.is_admin() => Err(Refusal::new(Kind::Denied, "invalid accessor")),
        None => Err(Refusal::denied()),
    }
}

/// A caller may touch its own token, those that it has made, and as an administrator all of them.
fn may_touch(call: &Call, token: &Token) -> Result<(), Refusal> {
    let own = call.caller.token.as_ref().map(|own| own.record.accessor.as_str());
    let is_own = own.is_some_and(|own| token.record.accessor == own || token.record.parent.as_deref() == Some(own));
    if is_own || call.caller.rights.is_admin() { Ok(()) } else { Err(Refusal::denied()) }
}

/// Lets a token live longer: the caller's own, or another one.
///
/// # Errors
/// Why it is refused.
pub async fn renew(call: &mut Call, is_self: bool) -> Result<Response<Body>, Refusal> {
    let body = request::small(call).await?;
    let fields = json::read(&body.bytes, if is_self { &["increment"] } else { &["token", "increment"] })?;
    let given = if is_self { None } else { fields.string("token")?.filter(|text| !text.is_empty()) };
    let (token, text) = match &given {
        Some(text) => {
            let token = call.server.find_token(text).await?.ok_or_else(|| Refusal::new(Kind::Denied, "bad token"))?;
            may_touch(call, &token)?;
            (token, &**text)
        }
        None => {
            let none = || Refusal::invalid("the caller has no token");
            (call.caller.token.clone().ok_or_else(none)?, own_text(call).unwrap_or(""))
        }
    };
    let asked = fields.duration("increment")?.filter(|ttl| *ttl > 0).unwrap_or(token.record.ttl);
    let (token, lease) = call.server.renew_token(&call.caller.by(), &token, asked).await.map_err(of_store)?;
    Ok(envelope::auth(call, &granted(&token, text, lease), &fields.warnings(&[])))
}

/// Makes a token whose rights are within the caller's.
///
/// # Errors
/// Why it is refused.
pub async fn create(call: &mut Call, is_orphan: bool) -> Result<Response<Body>, Refusal> {
    let body = request::small(call).await?;
    let fields = json::read(&body.bytes, NEW)?;
    refuse_what_no_token_has(&fields)?;
    let is_orphan = is_orphan || fields.bool("no_parent")?.unwrap_or(false);
    if is_orphan && !call.caller.rights.is_admin() {
        return Err(Refusal::invalid("root or sudo privileges required to create orphan token"));
    }
    if call.caller.token.is_none() && !call.caller.rights.is_admin() {
        return Err(Refusal::denied());
    }
    let parent = call.caller.token.clone().filter(|_| !is_orphan);
    let mut warnings = fields.warnings(&[]);
    let rights = rights(call, &fields, &mut warnings)?;
    let ttl = ttl(&fields, parent.as_deref(), &mut warnings)?;
    let new = NewToken {
        rights,
        ttl,
        renewable: fields.bool("renewable")?.unwrap_or(true),
        parent: parent.map(|parent| parent.record.accessor.clone()),
        name: None,
    };
    let (text, token) = call.server.create_token(&call.caller.by(), new).await.map_err(of_store)?;
    Ok(envelope::auth(call, &granted(&token, &text, token.record.ttl), &warnings))
}

fn refuse_what_no_token_has(fields: &Fields<'_>) -> Result<(), Refusal> {
    let text = |name| Ok::<_, Refusal>(fields.string(name)?.is_some_and(|text| !text.is_empty()));
    if text("id")? {
        return Err(unsupported("a token's id of one's own"));
    }
    if text("entity_alias")? {
        return Err(unsupported("entity_alias"));
    }
    if fields.int("num_uses")?.unwrap_or(0) != 0 {
        return Err(unsupported("num_uses"));
    }
    if fields.duration("explicit_max_ttl")?.unwrap_or(0) != 0 {
        return Err(unsupported("explicit_max_ttl"));
    }
    match fields.string("type")?.as_deref() {
        None | Some("" | "service" | "default-service") => Ok(()),
        _ => Err(unsupported("a type of token other than service")),
    }
}

/// The rights that a new token is to have: the policies, or without any those of the parent.
fn rights(call: &Call, fields: &Fields<'_>, warnings: &mut Vec<String>) -> Result<Rights, Refusal> {
    let own = &call.caller.rights;
    let texts = fields.list("policies")?.unwrap_or_default();
    let (mut list, mut user) = (Vec::new(), user(fields, warnings)?);
    for text in texts.iter().filter(|text| *text != "default") {
        if let Some(name) = text.strip_prefix("user=") {
            if name.is_empty() {
                return Err(Refusal::invalid("user= names nobody"));
            }
            user = Some(name.as_bytes().to_vec());
        } else {
            list.push(text.parse::<Right>().map_err(Refusal::invalid)?);
        }
    }
    if list.is_empty() {
        // Only "default" is no right at all, as in Vault.
        list = if texts.iter().any(|text| text == "default") { Vec::new() } else { own.list.clone() };
    }
    let rights = Rights::given(list, user.or_else(|| own.user.clone())).map_err(Refusal::invalid)?;
    if rights.are_within(own) { Ok(rights) } else { Err(Refusal::invalid("child policies must be subset of parent")) }
}

/// The user to whom a new token is bound.
fn user(fields: &Fields<'_>, warnings: &mut Vec<String>) -> Result<Option<Vec<u8>>, Refusal> {
    let named = fields.string("user")?.filter(|user| !user.is_empty()).map(|user| user.as_bytes().to_vec());
    let meta = match fields.get("meta") {
        None | Some(Raw::Null) => return Ok(named),
        Some(Raw::Object(text)) => serde_json::from_str::<BTreeMap<String, &RawValue>>(text).ok(),
        Some(_) => None,
    };
    let meta = meta.ok_or_else(|| loose::refuse("meta", "expected a map of strings"))?;
    if meta.keys().any(|name| name != "user") {
        warnings.push("Of the metadata only user is kept".into());
    }
    let Some(value) = meta.get("user") else { return Ok(named) };
    let value = Raw::of(value.get()).string().ok_or_else(|| loose::refuse("meta", "user is not a string"))?;
    match named {
        Some(named) if named != value.as_bytes() => Err(Refusal::invalid("user and meta.user differ")),
        _ => Ok(Some(value.as_bytes().to_vec()).filter(|user| !user.is_empty())),
    }
}

/// How long a new token lives: never longer than its parent.
fn ttl(fields: &Fields<'_>, parent: Option<&Token>, warnings: &mut Vec<String>) -> Result<u64, Refusal> {
    let mut asked = None;
    for name in ["ttl", "lease", "period"] {
        let given = fields.duration(name)?.filter(|ttl| *ttl > 0);
        asked = asked.or(given);
    }
    let asked = asked.unwrap_or(DEFAULT_TTL);
    match parent.and_then(Token::left) {
        Some(left) if left < asked => {
            warnings.push(format!(
                "TTL of \"{asked}s\" exceeded the time that is left to the parent; it is capped to \"{left}s\""
            ));
            Ok(left.max(1))
        }
        _ => Ok(asked),
    }
}

/// Ends the caller's own token, and those that were made by it.
///
/// # Errors
/// If the caller has none, or the store fails.
pub async fn revoke_self(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let token = call.caller.token.clone().ok_or_else(|| Refusal::invalid("the caller has no token"))?;
    call.server.revoke(&call.caller.by(), &token.record.accessor).await.map_err(of_store)?;
    Ok(envelope::nothing())
}

/// Ends the token of a text. One that does not exist has ended already.
///
/// # Errors
/// Why it is refused.
pub async fn revoke(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let body = request::small(call).await?;
    let fields = json::read(&body.bytes, &["token"])?;
    let text = fields.string("token")?.filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| Refusal::invalid("missing token ID"))?;
    if call.server.tokens.known(&text).is_none() {
        call.server.catch_up().await?;
    }
    if let Some(token) = call.server.tokens.known(&text) {
        may_touch(call, &token)?;
        call.server.revoke(&call.caller.by(), &token.record.accessor).await.map_err(of_store)?;
    }
    Ok(envelope::nothing())
}

/// Ends the token of an accessor.
///
/// # Errors
/// Why it is refused.
pub async fn revoke_accessor(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let token = by_accessor(call, true).await?;
    call.server.revoke(&call.caller.by(), &token.record.accessor).await.map_err(of_store)?;
    Ok(envelope::nothing())
}

/// Rights as policies.
pub fn policies(rights: &Rights) -> Vec<String> {
    let policy = |right: &Right| if *right == Right::Admin { "root".to_owned() } else { right.to_string() };
    rights.list.iter().map(policy).collect()
}

/// The user of a token, as its metadata.
fn metadata(rights: &Rights) -> Option<Value> {
    rights.user.as_ref().map(|user| json!({ "user": String::from_utf8_lossy(user) }))
}

fn described(token: &Token, text: &str) -> Value {
    let record = &token.record;
    json!({
        "accessor": record.accessor,
        "creation_time": record.created,
        "creation_ttl": record.ttl,
        "display_name": "token",
        "entity_id": "",
        "expire_time": record.expires.map(time_of),
        "explicit_max_ttl": 0,
        "id": text,
        "issue_time": time_of(record.created),
        "meta": metadata(&token.rights),
        "num_uses": 0,
        "orphan": record.parent.is_none(),
        "path": "auth/token/create",
        "policies": policies(&token.rights),
        "renewable": record.renewable,
        "ttl": record.expires.map_or(0, |end| end.saturating_sub(now())),
        "type": "service",
    })
}

/// What the owner is told of a token that lives so long from now on.
fn granted<'a>(token: &'a Token, text: &'a str, lease: u64) -> Auth<'a> {
    let policies = policies(&token.rights);
    Auth {
        client_token: text,
        accessor: &token.record.accessor,
        token_policies: policies.clone(),
        policies,
        metadata: metadata(&token.rights),
        lease_duration: lease,
        renewable: token.record.renewable,
        entity_id: "",
        token_type: "service",
        orphan: token.record.parent.is_none(),
        mfa_requirement: None,
        num_uses: 0,
    }
}

fn time_of(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}
