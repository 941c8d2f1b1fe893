//! Contents of stored files (section 13.2).

use super::*;
use phalanx_reference::{Error, tree};

pub fn all() -> Vec<Made> {
    let mut all = Vec::new();
    for suite in 1..=5 {
        for len in [0, 33, 5000] {
            all.push(of_format(&format!("suite-{suite}-len-{len}"), &format!("suite {suite}, {len} bytes")));
        }
    }
    for suite in [1, 4, 5] {
        for (len, chunk_log2, chunks) in [(4096, 12, 1), (8193, 12, 3), (16384, 13, 2)] {
            let name = format!("{}len-{len}-chunk-{chunk_log2}", prefix(suite));
            all.push(of_format(&name, &format!("suite {suite}, {chunks} chunks")));
        }
    }
    for (name, comment) in [
        ("padding-100", "the slots do not matter"),
        ("unknown-slots-only", "a slot of an unknown type is skipped"),
        ("no-key-at-hand", "no key is needed"),
        ("flip-ciphertext-first-bit-chunk-1", "an altered ciphertext does not show"),
        ("flip-tag-first-bit-chunk-1", "an altered tag shows in the root"),
        ("flip-nonce-last-bit-chunk-2", "an altered nonce of the last chunk shows in both"),
        ("chunks-0-1-swapped", "the order of chunks shows in the root"),
        ("short-7", "no file of Phalanx"),
        ("version-2", "another version"),
        ("suite-0", "an unknown suite"),
        ("no-chunk", "nothing follows the header"),
        ("append-1-byte-after-whole", "no plaintext gives this length"),
        ("append-48-bytes-after-whole", "the last chunk would be empty"),
        ("suite-4-append-28-bytes-after-whole", "the last chunk would be empty"),
    ] {
        all.push(of_format(name, comment));
    }
    for suite in [1, 4] {
        for chunks in (1..=9).chain([16, 17, 31]) {
            all.push(of_heads(suite, chunks));
        }
    }
    all
}

/// A file of `vectors/format`.
fn of_format(name: &str, comment: &str) -> Made {
    let (_, text) = format().iter().find(|(other, _)| other == name).expect("a scenario of this name");
    let scenario: Value = serde_json::from_str(text).expect("JSON");
    let file = scenario["file"].as_str().expect("the file");
    let digit = |at| u8::from_str_radix(&file[at..at + 2], 16).expect("hexadecimal");
    let file: Vec<u8> = (0..file.len()).step_by(2).map(digit).collect();
    made(&format!("format-{name}"), comment, ("format", string(name)), &file)
}

/// A file that nobody can open: its nonces and tags are any bytes, and its ciphertext is zeros.
fn of_heads(suite: u8, chunks: usize) -> Made {
    let name = format!("suite-{suite}-chunks-{chunks}");
    let mut file = reference::seal_header(&recipe(&name, suite, 12, vec![key_slot()]));
    for chunk in 0..chunks {
        let head = [random::<32>(&format!("{name}: head {chunk}")), random(&format!("{name}: more of head {chunk}"))];
        file.extend(&head.concat()[..shape(suite).overhead()]);
        file.resize(file.len() + if chunk + 1 < chunks { 4096 } else { 100 }, 0);
    }
    made(&name, &format!("suite {suite}, {chunks} chunks of zeros"), ("file", volume::parts(&file, false)), &file)
}

fn made(name: &str, comment: &str, file_field: (&'static str, String), file: &[u8]) -> Made {
    let contents = tree::contents(file);
    let expect = match &contents {
        Ok(_) => "ok",
        Err(Error::NotPhalanx) => "not-phalanx",
        Err(Error::Version) => "version",
        Err(Error::Header) => "header",
        Err(Error::Altered) => "altered",
        Err(error) => panic!("{name}: {error:?}"),
    };
    let mut fields = vec![("comment", string(comment)), ("expect", string(expect)), file_field];
    fields.extend(contents.iter().flat_map(|found| [("last", hex(&found.last)), ("root", hex(&found.root))]));
    (name.to_string(), object(&fields))
}
