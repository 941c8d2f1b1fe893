//! Runs every file of `vectors/` against the reference, and makes again all that the generator makes.

use phalanx_reference as reference;
use phalanx_vectors::primitives::{
    AesCmac, AesCtr, AesEcb, AesGcm, AesKw, AesSiv, Argon2id, Cshake, Kmac, Sha3, Sha3MonteCarlo, TurboShake, tests,
};
use phalanx_vectors::{Expect, Format, Hex};
use reference::server::Place;
use reference::{Cost, Error};

#[path = "../examples/make_vectors/scenarios/mod.rs"]
mod scenarios;
#[path = "vectors/trees.rs"]
mod trees;
#[path = "vectors/volumes.rs"]
mod volumes;

#[test]
fn primitives() {
    let count: usize = phalanx_vectors::names("primitives").iter().map(|name| run_primitive(name)).sum();
    assert!(count >= 2333, "only {count} tests");
}

/// Runs the tests of a file, and counts them.
fn run_primitive(name: &str) -> usize {
    match name {
        "aes-128-ecb" | "aes-192-ecb" | "aes-256-ecb" => each(tests(name), |test: &AesEcb| {
            assert_eq!(reference::ecb_encrypt(&test.key, &test.plaintext), *test.ciphertext, "{test:?}");
            assert_eq!(reference::ecb_decrypt(&test.key, &test.ciphertext), *test.plaintext, "{test:?}");
        }),
        "aes-128-ctr" | "aes-192-ctr" | "aes-256-ctr" => each(tests(name), |test: &AesCtr| {
            let ciphertext = reference::ctr(&test.key, &test.counter.array(), &test.plaintext);
            assert_eq!(ciphertext, *test.ciphertext, "{test:?}");
        }),
        "aes-256-gcm" => each(tests(name), check_gcm),
        "aes-cmac" => each(tests(name), |test: &AesCmac| {
            assert_eq!(reference::cmac(&test.key, &test.message)[..], *test.tag, "{test:?}");
        }),
        "aes-siv" => each(tests(name), check_siv),
        "aes-kw" => each(tests(name), |test: &AesKw| {
            if let Some(key) = &test.key {
                assert_eq!(reference::wrap(&test.kek, key), *test.wrapped, "{test:?}");
            }
            assert_eq!(reference::unwrap(&test.kek, &test.wrapped).as_deref(), test.key.as_deref(), "{test:?}");
        }),
        "sha3-256" => each(tests(name), |test: &Sha3| {
            assert_eq!(reference::sha3_256(&test.message)[..], *test.digest, "{test:?}");
        }),
        "sha3-256-mct" => each(tests(name), |test: &Sha3MonteCarlo| {
            let mut last = test.seed.to_vec();
            for digest in &test.digests {
                (0..1000).for_each(|_| last = reference::sha3_256(&last).to_vec());
                assert_eq!(last, **digest, "{}", test.name);
            }
        }),
        "cshake256" => each(tests(name), |test: &Cshake| {
            let output = reference::cshake256(&test.message, test.output_bits, &test.function, &test.customization);
            assert_eq!(output, *test.output, "{test:?}");
        }),
        "kmac256" => each(tests(name), |test: &Kmac| {
            let customization = std::str::from_utf8(&test.customization).unwrap();
            let output = reference::kmac256(&test.key, &test.message, test.output_bits, customization);
            assert_eq!(output, *test.output, "{test:?}");
        }),
        "turboshake256" => each(tests(name), |test: &TurboShake| {
            let output = reference::turboshake256(&test.message(), test.domain, test.output.len());
            assert_eq!(output, *test.output, "{test:?}");
        }),
        "argon2id" => each(tests(name), |test: &Argon2id| {
            let cost = Cost { memory: test.memory, passes: test.passes, lanes: test.lanes };
            let len = test.output.len();
            let output = reference::argon2id(&test.password, &test.salt, &test.secret, &test.ad, cost, len);
            assert_eq!(output, *test.output, "{test:?}");
        }),
        other => panic!("{other} is about an unknown algorithm"),
    }
}

fn each<T>(tests: Vec<T>, check: impl Fn(&T)) -> usize {
    tests.iter().for_each(check);
    tests.len()
}

fn check_gcm(test: &AesGcm) {
    let (iv, tag) = (test.iv.array(), test.tag.array());
    if let Some(plaintext) = &test.plaintext {
        let sealed = reference::gcm_encrypt(&test.key, &iv, &test.aad, plaintext);
        assert_eq!(sealed, (test.ciphertext.to_vec(), tag), "{test:?}");
    }
    let opened = reference::gcm_decrypt(&test.key, &iv, &test.aad, &test.ciphertext, &tag);
    assert_eq!(opened.as_deref(), test.plaintext.as_deref(), "{test:?}");
}

fn check_siv(test: &AesSiv) {
    let ad: Vec<&[u8]> = test.associated_data.iter().map(|string| &string[..]).collect();
    if let Some(plaintext) = &test.plaintext {
        assert_eq!(reference::siv_encrypt(&test.key, &ad, plaintext), *test.sealed, "{test:?}");
    }
    let opened = reference::siv_decrypt(&test.key, &ad, &test.sealed);
    assert_eq!(opened.as_deref(), test.plaintext.as_deref(), "{test:?}");
}

#[test]
fn format() {
    for (name, file) in phalanx_vectors::format() {
        let passwords: Vec<&[u8]> = file.password.iter().map(|password| &password[..]).collect();
        let keys: Vec<[u8; 32]> = file.key.iter().map(Hex::array).collect();

        let opened = reference::open_file(&file.file, &passwords, &keys);
        assert_eq!(outcome(&opened), file.expect, "{name}");
        if opened.is_ok() {
            assert_eq!(opened.as_deref().ok(), file.plaintext.as_deref(), "{name}");
            check_facts(&name, &file);
        }
    }
}

/// The description of a file in a scenario. With it, a reader can also be tested in parts, and a writer by making the chunks
/// again.
fn check_facts(name: &str, file: &Format) {
    let data = &file.file;
    let header = reference::read_header(data).unwrap();
    assert_eq!(file.suite, Some(header.suite), "{name}");
    assert_eq!(file.chunk_log2, Some(header.chunk_log2), "{name}");
    assert_eq!(file.header_len, Some(header.len), "{name}");

    let (before_tag, tag) = data[..header.len].split_at(header.len - reference::TAG_LEN);
    let keys = reference::file_keys(&file.file_key.as_ref().unwrap().array(), header.suite);
    assert_eq!(reference::header_tag(&keys, before_tag), tag, "{name}");

    let mut at = header.len;
    for nonce in file.nonces.as_ref().unwrap() {
        assert_eq!(data[at..at + nonce.len()], **nonce, "{name}");
        at += keys.suite.overhead() + (1 << header.chunk_log2);
    }
    assert!(at >= data.len(), "{name}: too few nonces");
}

#[test]
fn services() {
    for (name, file) in phalanx_vectors::services() {
        let keys: Vec<[u8; 32]> = file.key.iter().map(Hex::array).collect();
        let unwrap = |uri: &str, wrapped_run_key: &[u8]| {
            let mut answers = file.services.iter().filter(|answer| answer.uri == uri);
            let answer = answers.find(|answer| *answer.wrapped_run_key == *wrapped_run_key)?;
            answer.run_key.as_ref().map(Hex::array)
        };
        let unwraps: Vec<_> =
            file.services.iter().map(|answer| (&*answer.uri, |bytes: &[u8]| unwrap(&answer.uri, bytes))).collect();
        let services: Vec<_> = unwraps.iter().map(|(uri, unwrap)| reference::Service { uri, unwrap }).collect();
        let opened = reference::open_file_with(&file.file, &keys, &services);
        assert_eq!(outcome(&opened), file.expect, "{name}");
        assert_eq!(opened.as_deref().ok(), file.plaintext.as_deref(), "{name}");
        if let Some(file_key) = &file.file_key {
            let (header, found) = reference::open_header_with(&file.file, &keys, &services).unwrap();
            assert_eq!((header.len, found), (file.header_len.unwrap(), file_key.array()), "{name}");
        }
    }
}

#[test]
fn messages() {
    for (name, file) in phalanx_vectors::messages() {
        let key = file.key.array();
        let opened = reference::open_message(&key, file.suite, &file.ad, &file.message);
        assert_eq!(outcome(&opened), file.expect, "{name}");
        if let Ok(plaintext) = opened {
            assert_eq!(Some(&plaintext[..]), file.plaintext.as_deref(), "{name}");
            let sealed = reference::seal_message(&key, file.suite, &file.ad, &file.nonce.unwrap(), &plaintext);
            assert_eq!(sealed, *file.message, "{name}");
        }
    }
}

#[test]
fn ciphertexts_of_the_server() {
    for (name, file) in phalanx_vectors::server() {
        let at = Place {
            secret: file.secret.array(),
            name: file.name.clone(),
            version: file.version,
            user: file.user.to_vec(),
            salt: file.salt.as_ref().map(Hex::array),
        };
        let opened = at.open(file.suite, &file.ad, &file.ciphertext);
        assert_eq!(outcome(&opened), file.expect, "{name}");
        if let Ok(plaintext) = opened {
            assert_eq!(Some(&plaintext[..]), file.plaintext.as_deref(), "{name}");
            assert_eq!(Some(&at.context()[..]), file.context.as_deref(), "{name}");
            assert_eq!(Some(&at.user_key()[..]), file.user_key.as_deref(), "{name}");
            assert_eq!(at.seal(file.suite, &file.ad, &file.nonce.unwrap(), &plaintext), *file.ciphertext, "{name}");
            assert_eq!(Some(reference::server::ciphertext_text(&file.ciphertext)), file.text, "{name}");
        }
    }
}

#[test]
fn streams_of_the_server() {
    for (name, file) in phalanx_vectors::streams() {
        let (records, is_whole) = reference::server::read_records(&file.request);
        let expected: Vec<[&[u8]; 4]> =
            file.records.iter().map(|record| [&record.key[..], &record.user, &record.ad, &record.text]).collect();
        let found: Vec<[&[u8]; 4]> =
            records.iter().map(|record| [&record.key[..], &record.user, &record.ad, &record.text]).collect();
        assert_eq!(found, expected, "{name}");
        assert_eq!(is_whole, file.answers.len() == records.len(), "{name}");
        let answers =
            file.answers.iter().flat_map(|answer| reference::server::write_answer(answer.status, &answer.bytes));
        assert_eq!(answers.collect::<Vec<u8>>(), *file.answer, "{name}");
    }
}

#[test]
fn the_files_match_the_generator() {
    for (folder, made) in scenarios::folders() {
        let mut found = phalanx_vectors::names(folder);
        for (name, text) in made {
            let is_committed = found.contains(name) && phalanx_vectors::text(folder, name) == *text;
            assert!(is_committed, "{folder}/{name}: run the example make_vectors and look at the difference");
            found.retain(|other| other != name);
        }
        assert!(found.is_empty(), "files that nothing makes: {found:?}");
    }
}

fn outcome(opened: &Result<Vec<u8>, Error>) -> Expect {
    opened.as_ref().map_or_else(|error| refused(*error), |_| Expect::Ok)
}

/// The word of the vectors for an error.
fn refused(error: Error) -> Expect {
    match error {
        Error::NotPhalanx => Expect::NotPhalanx,
        Error::Version => Expect::Version,
        Error::Header => Expect::Header,
        Error::KdfLimit => Expect::KdfLimit,
        Error::NoKey => Expect::NoKey,
        Error::Altered => Expect::Altered,
    }
}
