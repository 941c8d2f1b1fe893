//! A line of the audit log.

use super::{Names, Note};
use crate::keys::check_name;
use crate::tokens::PREFIX;
use base64ct::{Base64, Encoding};
use serde::Serialize;
use std::sync::OnceLock;
use time::OffsetDateTime;
use time::format_description::OwnedFormatItem;

/// The longest name of anything but a user that is written whole: those who are refused may have named anything.
const LONGEST: usize = 128;
/// The longest name of a user that is written whole.
const LONGEST_USER: usize = 4096;

/// What a line says of a request.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The identity of the request, which its answer has too.
    pub id: &'a str,
    /// Who asked.
    pub caller: &'a str,
    /// From where.
    pub remote: &'a str,
    /// The method of HTTP.
    pub method: &'a str,
    /// What was asked for, and what became of it.
    pub note: &'a Note,
    /// The status of the answer.
    pub status: u16,
    /// How long it took.
    pub micros: u64,
    /// Whether an earlier line is about the same request, whose answer goes on.
    pub more: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    id: &'a str,
    caller: &'a str,
    remote: &'a str,
    method: &'a str,
    action: &'a str,
    key: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keys: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    users: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    users_left_out: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    path: &'a str,
    items: u64,
    refused: u64,
    bytes: u64,
    status: u16,
    micros: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

impl Entry<'_> {
    /// The line, with its end.
    pub fn line(&self, users: bool) -> Vec<u8> {
        let note = self.note;
        let no_names = Names::default();
        let users = if users { &note.users } else { &no_names };
        let only = users.only();
        to_line(&Line {
            time: now(),
            id: cut(self.id),
            caller: cut(self.caller),
            remote: cut(self.remote),
            method: cut(self.method),
            action: cut(note.action),
            key: if note.key == "*" { "*" } else { named(&note.key) },
            keys: note.keys.iter().filter_map(|name| str::from_utf8(name).ok()).map(named).collect(),
            user: only.map(encoded),
            users: users.iter().filter(|_| only.is_none()).map(encoded).collect(),
            users_left_out: users.left_out,
            path: cut(&note.path),
            items: note.items,
            refused: note.refused,
            bytes: note.bytes,
            status: self.status,
            micros: self.micros,
            more: self.more,
        })
    }
}

/// The line that says that lines are missing before it.
pub fn gap(lost: u64) -> Vec<u8> {
    #[derive(Serialize)]
    struct Gap {
        time: String,
        action: &'static str,
        lost: u64,
    }
    to_line(&Gap { time: now(), action: "audit-gap", lost })
}

/// The line that says how many lines of callers who are not known were left out before it. None of them is no line.
pub fn left_out(lines: u64) -> Vec<u8> {
    #[derive(Serialize)]
    struct LeftOut {
        time: String,
        action: &'static str,
        left_out: u64,
    }
    if lines == 0 { Vec::new() } else { to_line(&LeftOut { time: now(), action: "strangers", left_out: lines }) }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn encoded(user: &[u8]) -> String {
    Base64::encode_string(&user[..user.len().min(LONGEST_USER)])
}

/// What can be the name of a key. Anything else may be a text or a token that was sent in the wrong place.
fn named(key: &str) -> &str {
    if check_name(key).is_ok() && !key.starts_with(PREFIX) { key } else { "" }
}

/// As much of a text as a line has room for.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}

fn to_line(line: &impl Serialize) -> Vec<u8> {
    // Strings and numbers can always be written.
    let mut bytes = serde_json::to_vec(line).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// The time, in UTC, to the millisecond.
fn now() -> String {
    static FORMAT: OnceLock<Option<OwnedFormatItem>> = OnceLock::new();
    const RFC3339: &str = "[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z";
    let format = FORMAT.get_or_init(|| time::format_description::parse_owned::<2>(RFC3339).ok());
    format.as_ref().and_then(|format| OffsetDateTime::now_utc().format(format).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_of_json() {
        let path = format!("a\n\"{}", "ä".repeat(200));
        let note = Note {
            action: "seal",
            key: "orders".into(),
            path,
            users: Names::one(b"ada"),
            items: 2,
            refused: 1,
            bytes: 3,
            ..Note::default()
        };
        let (id, caller, remote, method) = ("1", "uid:0", "127.0.0.1:1", "POST");
        let entry = Entry { id, caller, remote, method, note: &note, status: 200, micros: 9, more: false };
        let line = String::from_utf8(entry.line(false)).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&value["items"], &value["status"], &value["user"]),
            (&2.into(), &200.into(), &serde_json::Value::Null)
        );
        assert!(value["path"].as_str().unwrap().len() <= LONGEST && value["key"] == "orders");
        let time = value["time"].as_str().unwrap();
        assert!(time.len() == 24 && time.ends_with('Z') && time.as_bytes()[19] == b'.', "{time}");
        let named: serde_json::Value = serde_json::from_slice(&entry.line(true)).unwrap();
        assert_eq!((&named["user"], &named["users"]), (&"YWRh".into(), &serde_json::Value::Null));
        let mut two = note.clone();
        two.users.add(b"bob");
        let named: serde_json::Value =
            serde_json::from_slice(&Entry { note: &two, ..entry.clone() }.line(true)).unwrap();
        assert_eq!((&named["user"], &named["users"]), (&serde_json::Value::Null, &serde_json::json!(["YWRh", "Ym9i"])));
        for secret in ["a secret text", "phx.abcdef", "", "-"] {
            let note = Note { key: secret.into(), ..Note::default() };
            let line: serde_json::Value =
                serde_json::from_slice(&Entry { note: &note, ..entry.clone() }.line(true)).unwrap();
            assert_eq!(line["key"], "", "{secret}");
        }
        let long = "\n".repeat(100_000);
        let (id, caller, remote, method) = (&*long, &*long, &*long, &*long);
        let note = Note { users: Names::one(long.as_bytes()), key: long.clone(), path: long.clone(), ..note.clone() };
        let entry = Entry { id, caller, remote, method, note: &note, ..entry };
        assert!(entry.line(true).len() < 16 << 10);
    }
}
