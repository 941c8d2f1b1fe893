//! The bodies of requests: JSON, or a form, which becomes JSON.

use crate::http::Call;
use crate::http::body::{self, Whole};
use crate::http::path::digit;
use crate::refusal::Refusal;
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

/// The most bytes of a body without a batch.
const SMALL: usize = 256 << 10;

/// The most names and values of a form.
const PAIRS: usize = 1000;

/// Work on so many bytes is done on a thread that speaks to clients: passing it on would take longer.
const AT_ONCE: usize = 32 << 10;

/// Reads a body that has no batch.
///
/// # Errors
/// Those of [`body::whole`], and if it is a form that cannot be read.
pub async fn small(call: &mut Call) -> Result<Whole, Refusal> {
    whole(call, SMALL).await
}

/// Reads a body of at most so many bytes.
///
/// # Errors
/// Those of [`body::whole`], and if it is a form that cannot be read.
pub async fn whole(call: &mut Call, most: usize) -> Result<Whole, Refusal> {
    let body = std::mem::replace(&mut call.body, body::empty());
    let mut whole = body::whole(&call.server, &call.share, body, most).await?;
    call.caller.check(&call.server)?;
    let kind = super::envelope::header(&call.headers, "content-type").unwrap_or("");
    let is_form = kind.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case("application/x-www-form-urlencoded");
    let first = whole.bytes.trim_ascii_start().first();
    // curl -d says that it sends a form when it sends JSON.
    if is_form && first.is_some_and(|first| !b"{[".contains(first)) {
        if whole.bytes.len() > SMALL {
            return Err(Refusal::invalid("the form is too long: send JSON"));
        }
        whole.bytes = json_of_form(&whole.bytes)?;
    }
    Ok(whole)
}

/// A form as JSON. A name that comes again adds to its value after a comma.
fn json_of_form(form: &[u8]) -> Result<Vec<u8>, Refusal> {
    let invalid = || Refusal::invalid("error parsing form data");
    let pairs = || form.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    if pairs().nth(PAIRS).is_some() {
        return Err(Refusal::invalid("the form has too many fields"));
    }
    let mut fields: Vec<(Zeroizing<String>, Vec<Zeroizing<String>>)> = Vec::new();
    for pair in pairs() {
        let split = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        let name = unquote(&pair[..split]).ok_or_else(invalid)?;
        let value = unquote(pair.get(split + 1..).unwrap_or(b"")).ok_or_else(invalid)?;
        match fields.iter().position(|(own, _)| *own == name) {
            Some(i) => fields[i].1.push(value),
            None if fields.len() == 100 => return Err(Refusal::invalid("the form has too many fields")),
            None => fields.push((name, vec![value])),
        }
    }
    let join = |values: &[Zeroizing<String>]| {
        let values: Vec<&str> = values.iter().map(|value| value.as_str()).collect();
        Zeroizing::new(values.join(","))
    };
    let fields: Vec<_> = fields.into_iter().map(|(name, values)| (name, join(&values))).collect();
    // An escape is at most six bytes.
    let longest = fields.iter().map(|(name, value)| 6 * (name.len() + value.len()) + 6).sum::<usize>() + 2;
    let mut json = Vec::with_capacity(longest);
    json.push(b'{');
    for (i, (name, value)) in fields.iter().enumerate() {
        if i > 0 {
            json.push(b',');
        }
        let _ = serde_json::to_writer(&mut json, name.as_str());
        json.push(b':');
        let _ = serde_json::to_writer(&mut json, value.as_str());
    }
    json.push(b'}');
    Ok(json)
}

/// Resolves `%XX` and `+`.
fn unquote(text: &[u8]) -> Option<Zeroizing<String>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let ([high, low], behind) = rest.split_first_chunk()?;
                bytes.push(digit(*high)? << 4 | digit(*low)?);
                rest = behind;
            }
            other => bytes.push(*other),
        }
    }
    Some(Zeroizing::new(str::from_utf8(&bytes).ok()?.to_owned()))
}

/// Does work on so many bytes: on another thread if it is long, and then on no more threads than there are processors.
///
/// # Errors
/// If the work panics.
pub async fn off_thread<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    if bytes <= AT_ONCE {
        return Ok(work());
    }
    static TURNS: OnceLock<Arc<Semaphore>> = OnceLock::new();
    let new = || Arc::new(Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)));
    let failed = || Refusal::failed("a thread has failed");
    let turn = TURNS.get_or_init(new).clone().acquire_owned().await.map_err(|_| failed())?;
    // The turn ends with the work, and not when the client has gone.
    let work = move || {
        let result = work();
        drop(turn);
        result
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| failed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_json() {
        let json = |form: &str| json_of_form(form.as_bytes()).map(|json| String::from_utf8_lossy(&json).into_owned());
        assert_eq!(json("plaintext=QQ%3D%3D&key_version=2").unwrap(), r#"{"plaintext":"QQ==","key_version":"2"}"#);
        assert_eq!(json("a=x+y&a=%22&b").unwrap(), r#"{"a":"x y,\"","b":""}"#);
        let most = vec!["a"; PAIRS].join("&");
        assert_eq!(json(&most).unwrap(), format!("{{\"a\":\"{}\"}}", ",".repeat(PAIRS - 1)));
        assert!(json(&(most + "&a")).is_err());
        assert!(["a=%f", "a=%ff", "a=%+f"].iter().all(|form| json(form).is_err()));
    }
}
