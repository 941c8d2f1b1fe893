//! `phalanx-server rewrap`: seals ciphertexts again under the newest version of their key, line by line.

use super::folder::Folder;
use super::key;
use crate::args::Rewrap;
use crate::client::{Client, failure};
use crate::refusal::Kind;
use hyper::Method;
use phalanx_host::Error;
use phalanx_host::args::{KeyArgs, OpenKeys};
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::lines::complain;
use phalanx_host::stdio;
use phalanx_host::verbosity::Verbosity;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::thread::sleep;
use std::time::Duration;

/// The most lines of a request.
const LINES: usize = 1000;
/// The most bytes of a request, unless it has one line. The server may take less.
const BYTES: usize = 8 << 20;
/// So often a request is sent again that the server does not take now.
const TRIES: usize = 10;
/// So long after it was refused: the server says so in `Retry-After`.
const PAUSE: Duration = Duration::from_secs(1);
/// More than a request has beside its lines.
const AROUND: usize = 64;
/// The longest line.
const LONGEST: usize = 16 << 20;

/// A line.
#[derive(Debug)]
struct Line {
    number: u64,
    /// All of it, with the end that it has. Of one that is too long, the first bytes.
    text: Vec<u8>,
    what: What,
}

impl Line {
    /// A line for a server that takes so many bytes.
    fn new(number: u64, text: Vec<u8>, most: usize) -> Self {
        let what = match str::from_utf8(&text) {
            _ if text.len() > LONGEST => What::Unfit(format!("it is longer than {LONGEST} bytes")),
            Ok(text) => read(text),
            Err(_) => What::Unfit("it is no text".into()),
        };
        let line = Self { number, text, what };
        if matches!(line.what, What::Sealed { .. }) && line.bytes() + AROUND > most {
            return Self { what: What::Unfit(format!("the server takes {most} bytes at most")), ..line };
        }
        line
    }

    /// How many bytes of a request it takes.
    fn bytes(&self) -> usize {
        match &self.what {
            What::Sealed { item, .. } => item.to_string().len() + 1,
            _ => self.text.len(),
        }
    }

    /// Whether there may be more of it.
    fn is_cut(&self) -> bool {
        self.text.len() > LONGEST && !self.text.ends_with(b"\n")
    }
}

/// What a line says.
#[derive(Debug, PartialEq)]
enum What {
    /// Nothing.
    Nothing,
    /// What is sent, and where its ciphertext stands in the line: in JSON with its quotes.
    Sealed { item: Value, place: Range<usize>, is_json: bool },
    /// Nothing that can be sent. This is why.
    Unfit(String),
}

/// The members of an object that matter. That one of them is there twice is an error.
#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    ciphertext: Option<&'a RawValue>,
    #[serde(borrow)]
    context: Option<&'a RawValue>,
    #[serde(borrow)]
    associated_data: Option<&'a RawValue>,
}

/// Rewraps the lines of standard input.
///
/// # Errors
/// If a line fails, or the server cannot be reached or opened.
pub fn run(rewrap: Rewrap, verbosity: Verbosity) -> Outcome {
    let folder = Folder::of(&rewrap.dir)?;
    let name = rewrap.name.or(rewrap.key).unwrap_or_default();
    let path = key::path("/v1/transit/rewrap", &name, "")?;
    let keys = KeyArgs { password_file: rewrap.password_file, key_files: rewrap.key_files, ..KeyArgs::default() };
    let keys = OpenKeys { keys, identities: rewrap.identities, ..OpenKeys::default() };
    let client = Client::new(&folder, &keys, verbosity)?;
    // With the words for commands, and before there is any input.
    key::read(&client, &name)?;
    let input = stdio::input().map_err(|e| Failure::new(Code::InputOutput, format!("standard input: {e}")))?;
    let mut work = Rewrapping {
        most: client.json_bytes()?,
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
    /// The most bytes of a body that the server takes.
    most: usize,
    path: String,
    keep_going: bool,
    output: File,
    failed: u64,
}

impl Rewrapping {
    fn all(&mut self, mut input: impl BufRead) -> Outcome {
        let (mut number, mut waiting) = (0, None);
        let most = BYTES.min(self.most / 2);
        loop {
            let (mut lines, mut bytes) = (Vec::new(), 0);
            let ended = loop {
                if lines.len() == LINES || lines.last().is_some_and(Line::is_cut) {
                    break None;
                }
                let line =
                    match waiting.take().map_or_else(|| self.line(&mut input, &mut number), |line| Ok(Some(line))) {
                        Ok(Some(line)) => line,
                        other => break Some(other.map(drop)),
                    };
                bytes += line.bytes();
                if bytes > most && !lines.is_empty() {
                    waiting = Some(line);
                    break None;
                }
                lines.push(line);
            };
            self.some(&lines)?;
            if lines.last().is_some_and(Line::is_cut) {
                self.copy_line(&mut input)?;
            }
            if let Some(ended) = ended {
                return ended;
            }
        }
    }

    /// The next line, if there is one.
    fn line(&self, input: &mut impl BufRead, number: &mut u64) -> Outcome<Option<Line>> {
        let text = next(input)?;
        if text.is_empty() {
            return Ok(None);
        }
        *number += 1;
        Ok(Some(Line::new(*number, text, self.most)))
    }

    fn some(&mut self, lines: &[Line]) -> Outcome {
        let items =
            lines.iter().filter_map(|line| if let What::Sealed { item, .. } = &line.what { Some(item) } else { None });
        let mut results = self.ask(&items.collect::<Vec<_>>())?.into_iter();
        let mut out = Vec::new();
        let mut ended = Ok(());
        for line in lines {
            let again = match &line.what {
                What::Nothing => Ok(line.text.clone()),
                What::Unfit(why) => Err(why.clone()),
                What::Sealed { place, is_json, .. } => results
                    .next()
                    .unwrap_or_else(|| Err("no answer".into()))
                    .map(|new| again(&line.text, place, *is_json, new)),
            };
            match again {
                Ok(text) => out.extend_from_slice(&text),
                Err(why) => {
                    let why = format!("line {}: {why}", line.number);
                    if !self.keep_going {
                        ended = Err(Failure::new(Code::NotAuthentic, why));
                        break;
                    }
                    complain(why);
                    self.failed += 1;
                    out.extend_from_slice(&line.text);
                }
            }
            if !out.ends_with(b"\n") && !line.is_cut() {
                out.push(b'\n');
            }
        }
        self.output.write_all(&out).map_err(Failure::at_stdout)?;
        ended
    }

    /// Copies the rest of a line, however long it is.
    fn copy_line(&mut self, input: &mut impl BufRead) -> Outcome {
        loop {
            let piece = next(input)?;
            self.output.write_all(&piece).map_err(Failure::at_stdout)?;
            if piece.is_empty() {
                return self.output.write_all(b"\n").map_err(Failure::at_stdout);
            }
            if piece.ends_with(b"\n") {
                return Ok(());
            }
        }
    }

    /// Asks for new ciphertexts. Each is there, or why there is none.
    fn ask(&self, items: &[&Value]) -> Outcome<Vec<Result<String, String>>> {
        // A request without items is refused.
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let (status, answer) = self.send(&json!({ "batch_input": items }))?;
        let results = answer["data"]["batch_results"].as_array().filter(|results| results.len() == items.len());
        let Some(results) = results else { return Err(failure(status, &answer)) };
        let result = |result: &Value| match result["ciphertext"].as_str().filter(|text| !text.is_empty()) {
            Some(ciphertext) => Ok(ciphertext.to_owned()),
            None => Err(result["error"].as_str().unwrap_or("no answer").to_owned()),
        };
        Ok(results.iter().map(result).collect())
    }

    /// Sends a request, and sends it again if the server has too much to do now.
    fn send(&self, body: &Value) -> Outcome<(u16, Value)> {
        let busy = [Kind::Busy, Kind::Unavailable].map(Kind::status);
        for _ in 1..TRIES {
            let (status, answer) = self.client.ask(Method::POST, &self.path, Some(body))?;
            if !busy.contains(&status) {
                return Ok((status, answer));
            }
            sleep(PAUSE);
        }
        self.client.ask(Method::POST, &self.path, Some(body))
    }
}

/// Reads a line, or the beginning of one that is too long. At the end there is nothing.
fn next(input: &mut impl BufRead) -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = input.take(LONGEST as u64 + 1).read_until(b'\n', &mut bytes);
    read.map_err(|e| Failure::new(Code::InputOutput, format!("standard input: {}", Error::read(e))))?;
    Ok(bytes)
}

/// Reads what a line says. What is not JSON is taken as a ciphertext, which the server then judges.
fn read(text: &str) -> What {
    let bare = text.trim();
    if bare.is_empty() {
        return What::Nothing;
    }
    if bare.starts_with('{') {
        return read_json(text).unwrap_or_else(What::Unfit);
    }
    What::Sealed { item: json!({ "ciphertext": bare }), place: place(text, bare), is_json: false }
}

/// Reads an object. Its values may be secret, so that errors have nothing of them.
fn read_json(text: &str) -> Result<What, String> {
    let members: Members = serde_json::from_str(text).map_err(|error| {
        let line = error.to_string();
        let what = line.split(" at line ").next().unwrap_or_default();
        if error.is_data() {
            what.to_owned()
        } else {
            format!("it is not valid JSON: {what} at column {}", error.column())
        }
    })?;
    let Some(ciphertext) = members.ciphertext else { return Err("it has no `ciphertext`".into()) };
    let mut item = Map::new();
    let all =
        [("ciphertext", Some(ciphertext)), ("context", members.context), ("associated_data", members.associated_data)];
    for (name, value) in all {
        if let Some(value) = value {
            let text: String = serde_json::from_str(value.get()).map_err(|_| format!("`{name}` is no string"))?;
            item.insert(name.into(), text.into());
        }
    }
    Ok(What::Sealed { item: item.into(), place: place(text, ciphertext.get()), is_json: true })
}

/// Where a part of a text stands in it.
fn place(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - text.as_ptr().addr();
    start..start + part.len()
}

/// The line with its new ciphertext. All else in it stays as it is.
fn again(text: &[u8], place: &Range<usize>, is_json: bool, ciphertext: String) -> Vec<u8> {
    let new = if is_json { Value::from(ciphertext).to_string() } else { ciphertext };
    [&text[..place.start], new.as_bytes(), &text[place.end..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line with the ciphertext `new`, if it is sent.
    fn rewrapped(text: &str) -> Result<(Value, String), String> {
        match read(text) {
            What::Sealed { item, place, is_json } => {
                Ok((item, String::from_utf8(again(text.as_bytes(), &place, is_json, "new".into())).unwrap()))
            }
            What::Unfit(why) => Err(why),
            What::Nothing => Err("nothing".into()),
        }
    }

    #[test]
    fn only_the_ciphertext_of_a_line_changes() {
        let (ciphertext, both) = (json!({ "ciphertext": "old" }), json!({ "ciphertext": "old", "context": "YQ==" }));
        for (line, sent, wanted) in [
            ("old\n", &ciphertext, "new\n"),
            (" old\t\r\n", &ciphertext, " new\t\r\n"),
            (r#"{"ciphertext":"old"}"#, &ciphertext, r#"{"ciphertext":"new"}"#),
            (r#"{"ciph\u0065rtext" : "\u006fld" }"#, &ciphertext, r#"{"ciph\u0065rtext" : "new" }"#),
            (
                r#" {"z":12345678901234567890, "n":1.10e5,"ciphertext": "old" ,"a":"\u00e4\/","a":[],"context":"YQ=="}"#,
                &both,
                r#" {"z":12345678901234567890, "n":1.10e5,"ciphertext": "new" ,"a":"\u00e4\/","a":[],"context":"YQ=="}"#,
            ),
            (
                r#"{"a":{"ciphertext":""},"ciphertext":"old"}"#,
                &ciphertext,
                r#"{"a":{"ciphertext":""},"ciphertext":"new"}"#,
            ),
            (r#"{"context":null,"ciphertext":"old"}"#, &ciphertext, r#"{"context":null,"ciphertext":"new"}"#),
        ] {
            assert_eq!(rewrapped(line), Ok((sent.clone(), wanted.to_owned())));
        }
        assert_eq!(["", "\n", " \r\n"].map(read), [What::Nothing, What::Nothing, What::Nothing]);
    }

    #[test]
    fn a_line_that_cannot_be_sent_is_unfit() {
        for (line, why) in [
            (r#"{"secret":"#, "it is not valid JSON: EOF while parsing a value at column 10"),
            (r#"{"ciphertext":"old"} x"#, "it is not valid JSON: trailing characters at column 22"),
            (r#"{"ciphertext":secret}"#, "it is not valid JSON: expected value at column 15"),
            (r#"{"ciphertext":"old","ciph\u0065rtext":"old"}"#, "duplicate field `ciphertext`"),
            (r#"{"context":"YQ==","ciphertext":"old","context":"Yg=="}"#, "duplicate field `context`"),
            (r#"{"associated_data":"","associated_data":"","ciphertext":"old"}"#, "duplicate field `associated_data`"),
            (r#"{"context":"YQ=="}"#, "it has no `ciphertext`"),
            (r#"{"ciphertext":["old"]}"#, "`ciphertext` is no string"),
            (r#"{"ciphertext":"old","context":5}"#, "`context` is no string"),
        ] {
            assert_eq!(rewrapped(line), Err(why.to_owned()), "{line}");
        }
    }
}
