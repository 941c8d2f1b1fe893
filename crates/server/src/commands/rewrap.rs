//! `phalanx-server rewrap`: seals ciphertexts again under the newest version of their key, line by line.

use super::folder::Folder;
use super::key;
use crate::args::Rewrap;
use crate::client::{Client, failure};
use hyper::Method;
use phalanx_host::Error;
use phalanx_host::args::{KeyArgs, OpenKeys};
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::lines::complain;
use phalanx_host::stdio;
use phalanx_host::verbosity::Verbosity;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};

/// The most lines of a request.
const LINES: usize = 1000;
/// A request that is as long as this takes no more lines.
const BYTES: usize = 8 << 20;
/// The longest line.
const LONGEST: usize = 16 << 20;

/// A line.
struct Line {
    number: u64,
    text: String,
    /// What it says; `None` if it is a bare ciphertext.
    json: Option<Map<String, Value>>,
}

/// Rewraps the lines of standard input.
///
/// # Errors
/// If a line fails, or the server cannot be reached or opened.
pub fn run(rewrap: Rewrap, verbosity: Verbosity) -> Outcome {
    let folder = Folder::of(&rewrap.dir)?;
    let name = rewrap.name.or(rewrap.key).unwrap_or_default();
    let path = key::path("/v1/transit/rewrap", &name, "")?;
    let keys = KeyArgs { password_file: rewrap.password_file, keys: Vec::new(), key_files: rewrap.key_files };
    let client = Client::new(&folder, &OpenKeys { keys, identities: rewrap.identities }, verbosity)?;
    // With the words for commands, and before there is any input.
    key::read(&client, &name)?;
    let input = stdio::input().map_err(|e| Failure::new(Code::InputOutput, format!("standard input: {e}")))?;
    let mut work = Rewrapping {
        client,
        path,
        keep_going: rewrap.keep_going,
        output: stdio::output().map_err(Failure::at_stdout)?,
        failed: 0,
    };
    work.all(BufReader::with_capacity(1 << 20, input))?;
    match work.failed {
        0 => Ok(()),
        1 => Err(Failure::new(Code::NotAuthentic, "1 line was copied unchanged")),
        many => Err(Failure::new(Code::NotAuthentic, format!("{many} lines were copied unchanged"))),
    }
}

struct Rewrapping {
    client: Client,
    path: String,
    keep_going: bool,
    output: File,
    failed: u64,
}

impl Rewrapping {
    fn all(&mut self, mut input: impl BufRead) -> Outcome {
        let (mut number, mut lines, mut bytes) = (0, Vec::new(), 0);
        while let Some(text) = next(&mut input, number + 1)? {
            number += 1;
            bytes += text.len();
            lines.push(Line { number, json: parse(&text), text });
            if lines.len() == LINES || bytes >= BYTES {
                self.some(&lines)?;
                lines.clear();
                bytes = 0;
            }
        }
        if lines.is_empty() { Ok(()) } else { self.some(&lines) }
    }

    fn some(&mut self, lines: &[Line]) -> Outcome {
        let items: Vec<Value> = lines.iter().map(item).collect();
        let (status, answer) = self.client.ask(Method::POST, &self.path, Some(&json!({ "batch_input": items })))?;
        let results = answer["data"]["batch_results"].as_array().filter(|results| results.len() == lines.len());
        let Some(results) = results else { return Err(failure(status, &answer)) };
        let mut out = String::new();
        let mut ended = Ok(());
        for (line, result) in lines.iter().zip(results) {
            match result["ciphertext"].as_str().filter(|text| !text.is_empty()) {
                Some(ciphertext) => out.push_str(&again(line, ciphertext)),
                None => {
                    let why = format!("line {}: {}", line.number, result["error"].as_str().unwrap_or("no answer"));
                    if !self.keep_going {
                        ended = Err(Failure::new(Code::NotAuthentic, why));
                        break;
                    }
                    complain(why);
                    self.failed += 1;
                    out.push_str(&line.text);
                }
            }
            out.push('\n');
        }
        self.output.write_all(out.as_bytes()).map_err(Failure::at_stdout)?;
        ended
    }
}

/// Reads a line.
fn next(input: &mut impl BufRead, number: u64) -> Outcome<Option<String>> {
    let mut bytes = Vec::new();
    let read = input.take(LONGEST as u64 + 1).read_until(b'\n', &mut bytes);
    read.map_err(|e| Failure::new(Code::InputOutput, format!("standard input: {}", Error::read(e))))?;
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.len() > LONGEST {
        return Err(Failure::new(Code::NotAuthentic, format!("line {number}: it is longer than {LONGEST} bytes")));
    }
    while bytes.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        bytes.pop();
    }
    let no_text = |_| Failure::new(Code::NotAuthentic, format!("line {number}: it is no text"));
    String::from_utf8(bytes).map(Some).map_err(no_text)
}

/// What a line says in JSON. Any other line is taken as a ciphertext, which the server then judges.
fn parse(text: &str) -> Option<Map<String, Value>> {
    text.trim_start().starts_with('{').then(|| serde_json::from_str(text).ok())?
}

/// What is sent for a line.
fn item(line: &Line) -> Value {
    let Some(json) = &line.json else { return json!({ "ciphertext": line.text.trim() }) };
    let sent = ["ciphertext", "context", "associated_data"];
    let field = |name: &&str| Some(((*name).to_owned(), json.get(*name).filter(|value| value.is_string())?.clone()));
    let mut item: Map<String, Value> = sent.iter().filter_map(field).collect();
    // Without one, all lines of the request would be refused.
    item.entry("ciphertext").or_insert_with(|| "".into());
    Value::Object(item)
}

/// The line with its new ciphertext.
fn again(line: &Line, ciphertext: &str) -> String {
    let Some(json) = &line.json else { return ciphertext.to_owned() };
    let mut json = json.clone();
    json.insert("ciphertext".into(), ciphertext.into());
    Value::Object(json).to_string()
}
