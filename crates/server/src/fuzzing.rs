//! What the fuzz targets in `fuzz` do with the parsers of what clients and servers send. A wrong result panics.

use crate::copies::FILES;
use crate::copies::memory::{received, sent};
use crate::http::path::{Path, parse_query};
use crate::keys::ciphertext;
use crate::limits::Limits;
use crate::records::frame::{Bounds, read};
use crate::rights::{Action, Rights};
use crate::transit::{base64, json, text::Raw};
use base64ct::{Base64, Encoding};
use serde_json::Value;

/// The most items of a batch.
const ITEMS: usize = 20;

/// The body of a request in JSON.
pub fn body(body: &[u8]) {
    let mut texts = Vec::new();
    let read = json::read_batch(body, &["plaintext", "context", "key_version"], ITEMS, |item| {
        assert_eq!(item.number, texts.len());
        texts.push(item.get("plaintext").map(|value| (value.go_type(), value.string().map(|text| text.to_string()))));
        Ok(())
    });
    let Ok(fields) = read else { return };
    if body.trim_ascii().is_empty() {
        return;
    }
    let whole: Value = serde_json::from_slice(body).expect("what is taken is JSON");
    assert!(whole.is_object() || whole.is_null());
    let items = whole["batch_input"].as_array();
    assert_eq!(items.map(Vec::len), fields.items);
    assert!(texts.len() <= ITEMS);
    for (item, found) in items.into_iter().flatten().zip(&texts) {
        same(item.get("plaintext"), found.as_ref());
    }
    let single =
        fields.get("plaintext").map(|value: Raw<'_>| (value.go_type(), value.string().map(|text| text.to_string())));
    same(whole.get("plaintext"), single.as_ref());
}

fn same(wanted: Option<&Value>, found: Option<&(&str, Option<String>)>) {
    assert_eq!(wanted.is_some(), found.is_some());
    if let (Some(wanted), Some((kind, text))) = (wanted, found) {
        assert_eq!(wanted.is_string(), *kind == "string");
        assert_eq!(wanted.as_str(), text.as_deref());
    }
}

/// The texts of a request: a ciphertext, base64, a path, a query, rights.
pub fn texts(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok((version, rest)) = ciphertext::parse(text) {
        assert_eq!(format!("vault:v{version}:{rest}"), text);
    }
    let mut place = vec![0; base64::most(text)];
    let decoded = base64::decode(text, &mut place).ok().map(|len| &place[..len]);
    assert_eq!(decoded, Base64::decode_vec(text).ok().as_deref());
    if let Some(bytes) = decoded {
        let mut again = Vec::new();
        base64::append(bytes, &mut again);
        assert_eq!(again, text.as_bytes());
    }
    if let Ok(path) = Path::parse(text) {
        assert!(path.parts.iter().all(|part| !part.is_empty() && part != ".."));
    }
    let _ = parse_query(text);
    if let Ok(rights) = Rights::parse(text.split(','), None) {
        assert!(rights.are_within(&Rights::all()));
    }
}

/// An octet stream: its records are the same in whatever chunks they come. The first byte says how long these are.
pub fn records(data: &[u8]) {
    let Some((chunk, data)) = data.split_first() else { return };
    let limits = Limits { record_bytes: 3000, user_bytes: 200, ..Limits::default() };
    for action in [Action::Seal, Action::Open] {
        let bounds = Bounds::new(action, &limits);
        let whole = read(&[data], &bounds, |_| false);
        let parts: Vec<&[u8]> = data.chunks(usize::from(*chunk) + 1).collect();
        assert!(read(&parts, &bounds, |_| false) == whole, "in chunks the records are others");
        assert!(read(&parts, &bounds, |i| i % 3 == 0) == whole, "put back, the records are others");
        let mut again: Vec<u8> = whole.0.iter().flat_map(written).collect();
        again.truncate(data.len());
        assert!(data.starts_with(&again), "the records are not those of the stream");
    }
}

fn written(record: &[Vec<u8>; 4]) -> Vec<u8> {
    let [key, user, ad, text] = record;
    let lengths = [(key.len() as u16).to_le_bytes(), (user.len() as u16).to_le_bytes()].concat();
    let longer = [(ad.len() as u32).to_le_bytes(), (text.len() as u32).to_le_bytes()].concat();
    [&lengths, &longer, key, user, ad, text].into_iter().flatten().copied().collect()
}

/// A backup that a server sends. The first byte says how long the pieces are.
pub fn backup(data: &[u8]) {
    let Some((piece, data)) = data.split_first() else { return };
    let whole = received(data, data.len().max(1));
    assert!(received(data, usize::from(*piece) + 1) == whole, "in pieces it is another");
    if let Some(files) = whole {
        assert_eq!(files.len(), FILES.len());
        assert!(sent(&files) == data, "what is whole was not sent");
    }
    // A sound one, altered at a place that the bytes name.
    let files: Vec<Vec<u8>> = data.chunks(data.len() / 3 + 1).map(<[u8]>::to_vec).collect();
    if files.len() == FILES.len() {
        let mut sound = sent(&files);
        assert!(received(&sound, usize::from(*piece) + 1) == Some(files));
        let at = data.iter().fold(0, |sum: usize, byte| (sum * 31 + usize::from(*byte)) & 0xffff) % sound.len();
        sound[at] ^= piece | 1;
        assert!(received(&sound, 7).is_none(), "an altered backup is taken");
    }
}
