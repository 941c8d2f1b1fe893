//! Sealing and opening users' records, as a client of Transit does.

use super::{Client, Server, base64, from_base64};
use serde_json::{Value, json};
use std::io;

/// A sealed record.
#[derive(Clone, Debug)]
pub struct Record {
    pub key: String,
    pub user: String,
    pub text: String,
    pub ciphertext: String,
}

/// Seals a text for each user. Nothing is known if the server goes away.
pub fn try_seal(client: &mut Client, key: &str, items: &[(String, String)]) -> io::Result<Vec<Record>> {
    let inputs: Vec<Value> =
        items.iter().map(|(user, text)| json!({ "context": base64(user), "plaintext": base64(text) })).collect();
    let body = json!({ "batch_input": inputs }).to_string();
    let answer = client.try_request("POST", &format!("/v1/transit/encrypt/{key}"), &[], body.as_bytes())?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let results = answer.json();
    let sealed = |(i, (user, text)): (usize, &(String, String))| Record {
        key: key.to_owned(),
        user: user.clone(),
        text: text.clone(),
        ciphertext: results["data"]["batch_results"][i]["ciphertext"].as_str().expect("a ciphertext").to_owned(),
    };
    Ok(items.iter().enumerate().map(sealed).collect())
}

/// Seals a text for each user, in requests of 1,000.
pub fn seal(server: &Server, key: &str, items: &[(String, String)]) -> Vec<Record> {
    let mut client = server.client();
    items.chunks(1000).flat_map(|some| try_seal(&mut client, key, some).expect("an answer")).collect()
}

/// Users with these numbers, each with a text.
pub fn users(numbers: std::ops::Range<usize>) -> Vec<(String, String)> {
    numbers.map(|i| (format!("user {i}"), format!("the text of user {i}"))).collect()
}

/// Opens records, which are all of one key, in requests of 1,000. What does not open is the reason.
pub fn open(server: &Server, records: &[Record]) -> Vec<Result<String, String>> {
    let mut client = server.client();
    records.chunks(1000).flat_map(|some| open_some(&mut client, some)).collect()
}

fn open_some(client: &mut Client, records: &[Record]) -> Vec<Result<String, String>> {
    let item = |record: &Record| json!({ "context": base64(&record.user), "ciphertext": record.ciphertext });
    let body = json!({ "batch_input": records.iter().map(item).collect::<Vec<_>>() }).to_string();
    let path = format!("/v1/transit/decrypt/{}", records[0].key);
    let answer = client.request("POST", &path, &[], body.as_bytes());
    let results = answer.json();
    let results = results["data"]["batch_results"].as_array().unwrap_or_else(|| panic!("{}", answer.text()));
    let opened = |result: &Value| match result["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(String::from_utf8(from_base64(result["plaintext"].as_str().expect("a text"))).expect("UTF-8")),
    };
    results.iter().map(opened).collect()
}

/// Asserts that all records open.
pub fn all_open(server: &Server, records: &[Record]) {
    for (record, opened) in records.iter().zip(open(server, records)) {
        assert_eq!(opened.as_deref(), Ok(record.text.as_str()), "{record:?}");
    }
}

/// Asserts that none of the records opens.
pub fn none_opens(server: &Server, records: &[Record]) {
    for (record, opened) in records.iter().zip(open(server, records)) {
        assert!(opened.is_err(), "it opens: {record:?}");
    }
}

/// Numbers that look random, and are the same for the same seed.
pub struct Random(u64);

impl Random {
    /// From PHALANX_SEED, or new ones. The seed is printed.
    pub fn new() -> Self {
        let given = std::env::var("PHALANX_SEED").ok().and_then(|seed| seed.parse().ok());
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
        let seed = given.unwrap_or(since.as_nanos() as u64);
        println!("PHALANX_SEED={seed}");
        Self(seed | 1)
    }

    /// Those of another seed.
    pub fn from(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// A number below another one.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % end
    }
}

/// How often something is tried: in full with PHALANX_EXHAUSTIVE=1.
pub fn rounds(some: usize, all: usize) -> usize {
    if std::env::var_os("PHALANX_EXHAUSTIVE").is_some_and(|value| value == "1") {
        all
    } else {
        println!("skipped: exhaustive sweep (PHALANX_EXHAUSTIVE=1)");
        some
    }
}
