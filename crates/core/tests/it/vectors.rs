//! The format's vectors, run against the library: every file of the folder, read from a file and from a stream.

use crate::common::{AtHand, engines, unhex};
use phalanx_core::engine::{Bind, Job, Op, Unit};
use phalanx_core::{
    Class, Error, KdfLimit, Opener, Password, ProtectedFile, Result, Roster, SecretKey, Sink, Source, Suite,
};
use phalanx_host::file;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::Path;

/// Fewer files mean that something was lost.
const SCENARIOS: usize = 527;

#[test]
fn every_scenario_ends_as_it_says() {
    let (mut seen, mut opened) = (0, 0);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/format");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let scenario: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let stored = field(&scenario, "file").expect("a file");
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&stored).unwrap();
        file.rewind().unwrap();

        let from_file = open(&scenario, file::source(&file).unwrap());
        let from_stream = open(&scenario, Source::stream(&stored[..]));
        for (kind, result) in [("file", from_file), ("stream", from_stream)] {
            let expected = scenario["expect"].as_str().unwrap();
            assert_eq!(outcome(&result), expected, "{name} from a {kind}: {result:?}");
            if let Ok(plaintext) = result {
                assert!(plaintext == field(&scenario, "plaintext").unwrap(), "{name} from a {kind}");
                opened += 1;
            }
        }
        if scenario["expect"] == "ok" {
            check_sealing(&name, &scenario, &stored);
        }
        seen += 1;
    }
    assert!(seen >= SCENARIOS, "only {seen} scenarios");
    assert!(opened > 100, "only {opened} opened");
}

fn open(scenario: &Value, source: Source) -> Result<Vec<u8>> {
    let at_hand = AtHand {
        keys: field(scenario, "key").iter().map(|key| SecretKey::from_slice(key).unwrap()).collect(),
        password: field(scenario, "password").map(Password::new),
    };
    let protected = ProtectedFile::open(source, &Opener::new(at_hand, KdfLimit::default()))?;
    let roster = Roster::new(&engines()[..1]);
    let output = tempfile::NamedTempFile::new().unwrap();
    protected.unprotect(&roster, Sink::ranged(file::Disk::new(output.as_file())), &())?;
    Ok(fs::read(output.path()).unwrap())
}

fn outcome(result: &Result<Vec<u8>>) -> &'static str {
    match result {
        Ok(_) => return "ok",
        Err(error) => assert_eq!(error.class(), Class::NotAuthentic),
    }
    match result {
        Err(Error::NotPhalanx) => "not-phalanx",
        Err(Error::Version(_)) => "version",
        Err(Error::Header(_) | Error::Volume) => "header",
        Err(Error::KdfLimit(_)) => "kdf-limit",
        Err(Error::NoKey { .. } | Error::WrongKey) => "no-key",
        Err(Error::Altered { .. } | Error::Truncated(_) | Error::Extended(_)) => "altered",
        other => panic!("{other:?}"),
    }
}

/// With the scenario's file key and nonces, every engine makes the same chunks again.
fn check_sealing(name: &str, scenario: &Value, stored: &[u8]) {
    let number = |name: &str| scenario[name].as_u64().unwrap() as usize;
    let suite = Suite::from_id(number("suite") as u8).unwrap();
    let chunk_len = 1 << number("chunk_log2");
    let plaintext = field(scenario, "plaintext").unwrap();
    let keys = SecretKey::from_slice(&field(scenario, "file_key").unwrap()).unwrap().file_keys(suite);
    let nonces: Vec<&str> = scenario["nonces"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
    for engine in engines() {
        let buffer = engine.buffer(plaintext.len()).unwrap();
        let mut job = Job::of_chunks(Op::Seal, suite, number("chunk_log2") as u8, keys.of_jobs(), buffer);
        job.buf.copy_from_slice(&plaintext);
        for (i, nonce) in nonces.iter().enumerate() {
            let start = i * chunk_len;
            let bind = Bind::Chunk { index: i as u64, last: i + 1 == nonces.len() };
            let data = start..plaintext.len().min(start + chunk_len);
            let mut unit = Unit { key: 0, nonce: [0; 16], bind, data, tag: [0; 32] };
            unit.nonce[..suite.nonce_len()].copy_from_slice(&unhex(nonce));
            job.units.push(unit);
        }
        assert!(engine.run(&mut job).unwrap().all_passed());
        let (nonce, tag) = (suite.nonce_len(), suite.tag_len());
        let chunk = |unit: &Unit| [&unit.nonce[..nonce], &unit.tag[..tag], &job.buf[unit.data.clone()]].concat();
        let sealed: Vec<u8> = job.units.iter().flat_map(chunk).collect();
        assert!(sealed == stored[number("header_len")..], "{name}: {}", engine.info().detail);
    }
}

fn field(scenario: &Value, name: &str) -> Option<Vec<u8>> {
    scenario[name].as_str().map(unhex)
}

/// A file that cannot be read is an error of input, not of authenticity.
#[test]
fn a_folder_cannot_be_read() {
    let folder = File::open(env!("CARGO_MANIFEST_DIR")).unwrap();
    let error = file::source(&folder).unwrap().header().unwrap_err();
    assert_eq!(error.class(), Class::InputOutput);
}
