//! Runs every file of `vectors/` against the reference, and makes `vectors/format`, `vectors/messages` and `vectors/volume` again.

use phalanx_reference as reference;
use reference::{Cost, Error};
use serde_json::Value;
use std::path::{Path, PathBuf};

#[path = "../examples/make_vectors/scenarios/mod.rs"]
mod scenarios;
#[path = "vectors/volumes.rs"]
mod volumes;

#[test]
fn primitives() {
    let mut tests = 0;
    for (name, file) in read_folder("primitives", 15) {
        let algorithm = text(&file, "algorithm");
        for test in file["tests"].as_array().unwrap() {
            let label = format!("{name}: {}", text(test, "name"));
            run_primitive(algorithm, test, &label);
            tests += 1;
        }
    }
    assert!(tests >= 1816, "only {tests} tests");
}

fn run_primitive(algorithm: &str, test: &Value, label: &str) {
    let get = |field: &str| bytes(test, field).unwrap_or_else(|| panic!("{label}: no {field}"));
    let number = |field: &str| test[field].as_u64().unwrap_or_else(|| panic!("{label}: no {field}"));
    match algorithm {
        "AES-128-ECB" | "AES-192-ECB" | "AES-256-ECB" => {
            let (key, plaintext, ciphertext) = (get("key"), get("plaintext"), get("ciphertext"));
            assert_eq!(reference::ecb_encrypt(&key, &plaintext), ciphertext, "{label}");
            assert_eq!(reference::ecb_decrypt(&key, &ciphertext), plaintext, "{label}");
        }
        "AES-128-CTR" | "AES-192-CTR" | "AES-256-CTR" => {
            let counter = get("counter").try_into().unwrap();
            let (key, plaintext, ciphertext) = (get("key"), get("plaintext"), get("ciphertext"));
            assert_eq!(reference::ctr(&key, &counter, &plaintext), ciphertext, "{label}");
        }
        "AES-256-GCM" => {
            let (key, iv, aad) = (get("key"), get("iv").try_into().unwrap(), get("aad"));
            let (plaintext, ciphertext) = (bytes(test, "plaintext"), get("ciphertext"));
            let tag = get("tag").try_into().unwrap();
            if let Some(plaintext) = &plaintext {
                let sealed = reference::gcm_encrypt(&key, &iv, &aad, plaintext);
                assert_eq!(sealed, (ciphertext.clone(), tag), "{label}");
            }
            assert_eq!(reference::gcm_decrypt(&key, &iv, &aad, &ciphertext, &tag), plaintext, "{label}");
        }
        "SHA3-256" => assert_eq!(reference::sha3_256(&get("message"))[..], get("digest"), "{label}"),
        "cSHAKE256" => {
            let (name, customization) = (get("function"), get("customization"));
            let bits = number("output_bits") as usize;
            let output = reference::cshake256(&get("message"), bits, &name, &customization);
            assert_eq!(output, get("output"), "{label}");
        }
        "KMAC256" => {
            let customization = String::from_utf8(get("customization")).unwrap();
            let bits = number("output_bits") as usize;
            let output = reference::kmac256(&get("key"), &get("message"), bits, &customization);
            assert_eq!(output, get("output"), "{label}");
        }
        "TurboSHAKE256" => {
            let pattern = || (0..number("pattern_len")).map(|i| (i % 251) as u8).collect();
            let message: Vec<u8> = bytes(test, "message").unwrap_or_else(pattern);
            let output = get("output");
            let got = reference::turboshake256(&message, number("domain") as u8, output.len());
            assert_eq!(got, output, "{label}");
        }
        "AES-KW" => {
            let (kek, wrapped, key) = (get("kek"), get("wrapped"), bytes(test, "key"));
            if let Some(key) = &key {
                assert_eq!(reference::wrap(&kek, key), wrapped, "{label}");
            }
            assert_eq!(reference::unwrap(&kek, &wrapped), key, "{label}");
        }
        "AES-CMAC" => assert_eq!(reference::cmac(&get("key"), &get("message"))[..], get("tag"), "{label}"),
        "AES-SIV" => {
            let (key, sealed, plaintext) = (get("key"), get("sealed"), bytes(test, "plaintext"));
            let ad = test["associated_data"].as_array().unwrap_or_else(|| panic!("{label}: no associated_data"));
            let ad: Vec<Vec<u8>> = ad.iter().map(|string| decode(string.as_str().unwrap())).collect();
            let ad: Vec<&[u8]> = ad.iter().map(Vec::as_slice).collect();
            if let Some(plaintext) = &plaintext {
                assert_eq!(reference::siv_encrypt(&key, &ad, plaintext), sealed, "{label}");
            }
            assert_eq!(reference::siv_decrypt(&key, &ad, &sealed), plaintext, "{label}");
        }
        "Argon2id" => {
            let cost =
                Cost { memory: number("memory") as u32, passes: number("passes") as u32, lanes: number("lanes") as u8 };
            let (password, salt, output) = (get("password"), get("salt"), get("output"));
            let (secret, ad) = (get("secret"), get("ad"));
            let got = reference::argon2id(&password, &salt, &secret, &ad, cost, output.len());
            assert_eq!(got, output, "{label}");
        }
        other => panic!("{label}: unknown algorithm {other}"),
    }
}

#[test]
fn format() {
    for (name, file) in read_folder("format", 527) {
        let password = bytes(&file, "password");
        let passwords: Vec<&[u8]> = password.iter().map(Vec::as_slice).collect();
        let keys: Vec<[u8; 32]> = bytes(&file, "key").map(|key| key.try_into().unwrap()).into_iter().collect();
        let data = bytes(&file, "file").unwrap();

        let opened = reference::open_file(&data, &passwords, &keys);
        assert_eq!(outcome(&opened), text(&file, "expect"), "{name}");
        if opened.is_ok() {
            assert_eq!(opened.ok(), bytes(&file, "plaintext"), "{name}");
            check_facts(&name, &file, &data);
        }
    }
}

/// The description of a file in a scenario. With it, a reader can also be tested in parts, and a writer by making the chunks
/// again.
fn check_facts(name: &str, file: &Value, data: &[u8]) {
    let header = reference::read_header(data).unwrap();
    assert_eq!(file["suite"], u64::from(header.suite), "{name}");
    assert_eq!(file["chunk_log2"], u64::from(header.chunk_log2), "{name}");
    assert_eq!(file["header_len"], header.len as u64, "{name}");

    let file_key = bytes(file, "file_key").unwrap().try_into().unwrap();
    let (before_tag, tag) = data[..header.len].split_at(header.len - reference::TAG_LEN);
    let keys = reference::file_keys(&file_key, header.suite);
    assert_eq!(reference::header_tag(&keys, before_tag), tag, "{name}");

    let nonces = file["nonces"].as_array().unwrap();
    let mut at = header.len;
    for nonce in nonces {
        let nonce = decode(nonce.as_str().unwrap());
        assert_eq!(data[at..at + nonce.len()], nonce, "{name}");
        at += keys.suite.overhead() + (1 << header.chunk_log2);
    }
    assert!(at >= data.len(), "{name}: too few nonces");
}

#[test]
fn messages() {
    for (name, file) in read_folder("messages", 153) {
        let key = bytes(&file, "key").unwrap().try_into().unwrap();
        let suite = file["suite"].as_u64().unwrap() as u8;
        let ad = bytes(&file, "ad").unwrap();
        let message = bytes(&file, "message").unwrap();

        let opened = reference::open_message(&key, suite, &ad, &message);
        assert_eq!(outcome(&opened), text(&file, "expect"), "{name}");
        if let Ok(plaintext) = opened {
            let nonce = bytes(&file, "nonce").unwrap();
            assert_eq!(Some(&plaintext), bytes(&file, "plaintext").as_ref(), "{name}");
            assert_eq!(reference::seal_message(&key, suite, &ad, &nonce, &plaintext), message, "{name}");
        }
    }
}

#[test]
fn the_files_match_the_generator() {
    for (folder, made) in
        [("format", scenarios::format()), ("messages", scenarios::messages()), ("volume", scenarios::volumes())]
    {
        let mut found = read_names(folder);
        for (name, text) in made {
            let path = folder_of(folder).join(format!("{name}.json"));
            let committed = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(committed == *text, "{folder}/{name}: run the example make_vectors and look at the difference");
            found.retain(|other| *other != path);
        }
        assert!(found.is_empty(), "files that nothing makes: {found:?}");
    }
}

fn outcome(opened: &Result<Vec<u8>, Error>) -> &'static str {
    match opened {
        Ok(_) => "ok",
        Err(Error::NotPhalanx) => "not-phalanx",
        Err(Error::Version) => "version",
        Err(Error::Header) => "header",
        Err(Error::KdfLimit) => "kdf-limit",
        Err(Error::NoKey) => "no-key",
        Err(Error::Altered) => "altered",
    }
}

/// Each file's name and content. There must be `at_least` files.
fn read_folder(folder: &str, at_least: usize) -> Vec<(String, Value)> {
    let paths = read_names(folder);
    assert!(paths.len() >= at_least, "{folder}: {} files of {at_least}", paths.len());
    let read = |path: PathBuf| {
        let name = format!("{folder}/{}", path.file_name().unwrap().to_string_lossy());
        let text = std::fs::read_to_string(path).unwrap();
        let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, value)
    };
    paths.into_iter().map(read).collect()
}

fn read_names(folder: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder_of(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn folder_of(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors").join(folder)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field}"))
}

fn bytes(value: &Value, field: &str) -> Option<Vec<u8>> {
    value[field].as_str().map(decode)
}

fn decode(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2));
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}
