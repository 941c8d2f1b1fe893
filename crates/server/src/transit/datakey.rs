//! `datakey`: a new random key for the client's own encryption, sealed, and also in plain if it asks for that.

use super::crypt::{seal_one, sealing_version};
use super::envelope::{Mount, Writer};
use super::text::Text;
use super::{base64, json, request};
use crate::audit::Names;
use crate::batch::New;
use crate::http::Call;
use crate::http::body::{Body, Room};
use crate::refusal::Refusal;
use crate::rights::Action;
use hyper::Response;
use zeroize::Zeroizing;

const KNOWN: &[&str] = &["bits", "context", "associated_data", "nonce", "key_version", "padding_scheme"];

/// Makes a data key.
///
/// # Errors
/// Why it is refused.
pub async fn answer(call: &mut Call, form: &str, name: &str) -> Result<Response<Body>, Refusal> {
    super::permit_any_user(call, Action::Seal, name)?;
    let body = request::small(call).await?;
    let fields = json::read(&body.bytes, KNOWN)?;
    let bits = fields.int("bits")?.unwrap_or(256);
    if ![128, 256, 512].contains(&bits) {
        return Err(Refusal::invalid("invalid bit length"));
    }
    let given = |name| Ok::<_, Refusal>(fields.string(name)?.is_some_and(|text| !text.is_empty()));
    if given("nonce")? {
        return Err(Refusal::invalid("provided nonce not allowed for this key"));
    }
    if given("padding_scheme")? {
        return Err(Refusal::invalid("padding_scheme is for RSA keys only"));
    }
    let (mut user, mut ad) = (Zeroizing::default(), Zeroizing::default());
    let text = |name| Ok::<_, Refusal>(fields.string(name)?.unwrap_or(Text::Plain("")));
    let decoded = base64::decode_into(text("context")?, &mut user, call.server.limits.user_bytes, "the context");
    decoded
        .map_err(|e| if e == base64::illegal() { Refusal::invalid("failed to base64-decode context") } else { e })?;
    base64::decode_into(text("associated_data")?, &mut ad, call.server.limits.record_bytes, "associated_data")?;
    if !["plaintext", "wrapped"].contains(&form) {
        return Err(Refusal::invalid("Invalid path, must be 'plaintext' or 'wrapped'"));
    }
    call.note.users = Names::one(&user);
    call.caller.rights.permit(Action::Seal, name, &user)?;
    let version = sealing_version(fields.int("key_version")?.unwrap_or(0))?;
    let key = call.server.find_key(name).await.map_err(super::or_no_key)?;
    let mut secret = Zeroizing::new([0; 64]);
    let secret = &mut secret[..bits as usize / 8];
    getrandom::fill(secret).map_err(|e| Refusal::failed(e.to_string()))?;
    call.note.items = 1;
    call.note.bytes = secret.len() as u64;
    let new = New { key: &key, user: &user, ad: &ad, most: secret.len() };
    let batch = seal_one(&call.server, new, version, secret).await?;
    let sealed = batch.sealed(0).map_err(Clone::clone)?;
    let warnings = fields.warnings(&["name", "plaintext"]);
    let mut writer = Writer::begin(&call.id, 512, &warnings);
    writer.raw("{\"ciphertext\":\"vault:v");
    writer.value(&sealed.version);
    writer.raw(":");
    writer.base64(sealed.ciphertext);
    writer.raw("\",\"key_version\":");
    writer.value(&sealed.version);
    if form == "plaintext" {
        writer.raw(",\"plaintext\":\"");
        writer.base64(secret);
        writer.raw("\"");
    }
    writer.raw("}");
    Ok(writer.end(200, None, Mount::Transit, Room::default()))
}
