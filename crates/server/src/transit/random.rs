//! `random`: random bytes of the system.

use super::envelope::{Mount, Writer};
use super::{json, request};
use crate::http::Call;
use crate::http::body::{Body, Room};
use crate::refusal::Refusal;
use hyper::Response;
use zeroize::Zeroizing;

/// The most bytes of one request.
const MOST: i64 = 128 << 10;

/// Answers `random`, `random/N`, `random/SOURCE` and `random/SOURCE/N`.
///
/// # Errors
/// Why it is refused.
pub async fn answer(call: &mut Call, path: &[&str], mount: Mount) -> Result<Response<Body>, Refusal> {
    let body = request::small(call).await?;
    let fields = json::read(&body.bytes, &["bytes", "format"])?;
    let mut warnings = fields.warnings(&["source", "urlbytes"]);
    let (source, number) = match path {
        [] => ("platform", None),
        [one] if is_source(one) => (*one, None),
        [one] => ("platform", Some(*one)),
        [source, number, ..] => (*source, Some(*number)),
    };
    if !is_source(source) {
        let source: String = source.chars().take(40).collect();
        return Err(Refusal::invalid(format!(
            "unsupported entropy source {source:?}; must be \"platform\" or \"seal\", or \"all\""
        )));
    }
    if source == "seal" {
        warnings.push("no seal/entropy augmentation available, using platform entropy source".into());
    }
    let bytes = match number {
        Some(text) => text.parse().map_err(|_| bad_number(text))?,
        None => fields.int("bytes")?.unwrap_or(32),
    };
    if bytes < 1 {
        return Err(Refusal::invalid("\"bytes\" cannot be less than 1"));
    }
    if bytes > MOST {
        return Err(Refusal::invalid(format!("\"bytes\" should be less than {MOST}")));
    }
    let format = fields.string("format")?;
    let is_hex = match format.as_deref().unwrap_or("base64") {
        "hex" => true,
        "base64" => false,
        other => {
            let other: String = other.chars().take(40).collect();
            return Err(Refusal::invalid(format!(
                "unsupported encoding format {other:?}; must be \"hex\" or \"base64\""
            )));
        }
    };
    let mut random = Zeroizing::new(vec![0; bytes as usize]);
    getrandom::fill(&mut random).map_err(|e| Refusal::failed(e.to_string()))?;
    let mut writer = Writer::begin(&call.id, 64 + 2 * random.len(), &warnings);
    writer.raw("{\"random_bytes\":\"");
    if is_hex {
        writer.hex(&random)
    } else {
        writer.base64(&random)
    }
    writer.raw("\"}");
    Ok(writer.end(200, None, mount, Room::default()))
}

fn is_source(text: &str) -> bool {
    ["platform", "seal", "all"].contains(&text)
}

fn bad_number(text: &str) -> Refusal {
    let text: String = text.chars().take(40).collect();
    Refusal::invalid(format!("error parsing url-set byte count: strconv.Atoi: parsing {text:?}: invalid syntax"))
}
