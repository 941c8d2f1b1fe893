//! A line of the audit log.

use super::Note;
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
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
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
        let named = users && !note.user.is_empty();
        to_line(&Line {
            time: now(),
            id: cut(self.id),
            caller: cut(self.caller),
            remote: cut(self.remote),
            method: cut(self.method),
            action: cut(note.action),
            key: cut(&note.key),
            user: named.then(|| Base64::encode_string(&note.user[..note.user.len().min(LONGEST_USER)])),
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
        let key = format!("a\n\"{}", "ä".repeat(200));
        let note = Note { action: "seal", key, user: b"ada".to_vec(), items: 2, refused: 1, bytes: 3 };
        let (id, caller, remote, method) = ("1", "uid:0", "127.0.0.1:1", "POST");
        let entry = Entry { id, caller, remote, method, note: &note, status: 200, micros: 9, more: false };
        let line = String::from_utf8(entry.line(false)).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&value["items"], &value["status"], &value["user"]),
            (&2.into(), &200.into(), &serde_json::Value::Null)
        );
        assert!(value["key"].as_str().unwrap().len() <= LONGEST);
        let time = value["time"].as_str().unwrap();
        assert!(time.len() == 24 && time.ends_with('Z') && time.as_bytes()[19] == b'.', "{time}");
        let named: serde_json::Value = serde_json::from_slice(&entry.line(true)).unwrap();
        assert_eq!(named["user"], "YWRh");
        let long = "\n".repeat(100_000);
        let (id, caller, remote, method) = (&*long, &*long, &*long, &*long);
        let note = Note { user: long.clone().into_bytes(), key: long.clone(), ..note };
        let entry = Entry { id, caller, remote, method, note: &note, ..entry };
        assert!(entry.line(true).len() < 16 << 10);
    }
}
