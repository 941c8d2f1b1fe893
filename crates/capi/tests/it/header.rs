//! The committed header is the one that the sources give. `PHALANX_RENEW=1` writes it again.

use std::path::Path;
use std::{env, fs};

#[test]
fn it_is_made_from_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let made = cbindgen::Builder::new().with_crate(folder).with_config(config).generate().unwrap();
    let mut text = Vec::new();
    made.write(&mut text);
    let text = String::from_utf8(text).unwrap();
    // What is said to writers of Rust is not for writers of C.
    let text = without_headings(&text);
    let path = folder.join("include/phalanx.h");
    if env::var_os("PHALANX_RENEW").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), text, "PHALANX_RENEW=1 writes it again");
}

/// The text without the Markdown of headings and code. What a caller promises comes after it as a sentence.
fn without_headings(text: &str) -> String {
    text.replace(" * # Safety\n *\n * ", " * The caller promises: ").replace('`', "").replace("\n\n\n\n", "\n\n")
}
