//! The format's vectors, run against the library: every file of the folder, read from a file and from a stream.

use crate::common::{AtHand, engines};
use phalanx_core::engine::{Bind, Job, Op, Unit};
use phalanx_core::{
    Class, Error, KdfLimit, Opener, Password, ProtectedFile, Result, Roster, SecretKey, Sink, Source, Suite,
};
use phalanx_host::file;
use phalanx_vectors::{Expect, Format};
use std::fs::{self, File};
use std::io::{Seek, Write};

#[test]
fn every_scenario_has_its_expected_outcome() {
    let mut opened = 0;
    for (name, scenario) in phalanx_vectors::format() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&scenario.file).unwrap();
        file.rewind().unwrap();

        let from_file = open(&scenario, file::source(&file).unwrap());
        let from_stream = open(&scenario, Source::stream(&scenario.file[..]));
        for (kind, result) in [("file", from_file), ("stream", from_stream)] {
            assert_eq!(outcome(&result), scenario.expect, "{name} from a {kind}: {result:?}");
            if let Ok(plaintext) = result {
                assert!(Some(&plaintext[..]) == scenario.plaintext.as_deref(), "{name} from a {kind}");
                opened += 1;
            }
        }
        if scenario.expect == Expect::Ok {
            check_sealing(&name, &scenario);
        }
    }
    assert!(opened > 100, "only {opened} opened");
}

fn open(scenario: &Format, source: Source) -> Result<Vec<u8>> {
    let at_hand = AtHand {
        keys: scenario.key.iter().map(|key| SecretKey::from_slice(key).unwrap()).collect(),
        password: scenario.password.as_ref().map(|password| Password::new(password.to_vec())),
    };
    let protected = ProtectedFile::open(source, &Opener::new(at_hand, KdfLimit::default()))?;
    let roster = Roster::new(&engines()[..1]);
    let output = tempfile::NamedTempFile::new().unwrap();
    protected.unprotect(&roster, Sink::ranged(file::Disk::new(output.as_file())), &())?;
    Ok(fs::read(output.path()).unwrap())
}

fn outcome(result: &Result<Vec<u8>>) -> Expect {
    match result {
        Ok(_) => return Expect::Ok,
        Err(error) => assert_eq!(error.class(), Class::NotAuthentic),
    }
    match result {
        Err(Error::NotPhalanx) => Expect::NotPhalanx,
        Err(Error::Version(_)) => Expect::Version,
        Err(Error::Header(_) | Error::Volume) => Expect::Header,
        Err(Error::KdfLimit(_)) => Expect::KdfLimit,
        Err(Error::NoKey { .. } | Error::WrongKey) => Expect::NoKey,
        Err(Error::Altered { .. } | Error::Truncated(_) | Error::Extended(_)) => Expect::Altered,
        other => panic!("{other:?}"),
    }
}

/// With the scenario's file key and nonces, every engine makes the same chunks again.
fn check_sealing(name: &str, scenario: &Format) {
    let suite = Suite::from_id(scenario.suite.unwrap()).unwrap();
    let log2 = scenario.chunk_log2.unwrap();
    let chunk_len = 1 << log2;
    let plaintext = scenario.plaintext.as_ref().unwrap();
    let nonces = scenario.nonces.as_ref().unwrap();
    let keys = SecretKey::from_slice(scenario.file_key.as_ref().unwrap()).unwrap().file_keys(suite);
    for engine in engines() {
        let buffer = engine.buffer(plaintext.len()).unwrap();
        let mut job = Job::of_chunks(Op::Seal, suite, log2, keys.of_jobs(), buffer);
        job.buf.copy_from_slice(plaintext);
        for (i, nonce) in nonces.iter().enumerate() {
            let start = i * chunk_len;
            let bind = Bind::Chunk { index: i as u64, last: i + 1 == nonces.len() };
            let data = start..plaintext.len().min(start + chunk_len);
            let mut unit = Unit { key: 0, nonce: [0; 16], bind, data, tag: [0; 32] };
            unit.nonce[..suite.nonce_len()].copy_from_slice(nonce);
            job.units.push(unit);
        }
        assert!(engine.run(&mut job).unwrap().all_passed());
        let (nonce, tag) = (suite.nonce_len(), suite.tag_len());
        let chunk = |unit: &Unit| [&unit.nonce[..nonce], &unit.tag[..tag], &job.buf[unit.data.clone()]].concat();
        let sealed: Vec<u8> = job.units.iter().flat_map(chunk).collect();
        assert!(sealed == scenario.file[scenario.header_len.unwrap()..], "{name}: {}", engine.info().detail);
    }
}

/// A file that cannot be read is an error of input, not of authenticity.
#[test]
fn a_folder_cannot_be_read() {
    let folder = File::open(env!("CARGO_MANIFEST_DIR")).unwrap();
    let error = file::source(&folder).unwrap().header().unwrap_err();
    assert_eq!(error.class(), Class::InputOutput);
}
