//! Runs the server in a folder of its own, and speaks HTTP to it.

#![allow(dead_code, reason = "each module of tests uses some of it")]

pub mod client;
pub mod folder;
pub mod postgres;
pub mod records;
pub mod server;
pub mod small;

pub use client::{Answer, Client};
pub use folder::Folder;
pub use server::Server;
pub use small::Small;

use std::time::{Duration, Instant};

/// So long a test waits for something that must happen. It is never waited for in full unless the test fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is so, and fails if it never is.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "this never came: {what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Prints that a test is skipped because the machine does not have `what`, or fails if PHALANX_REQUIRE names it.
pub fn skipped(what: &str) {
    let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
    assert!(!required.split([',', ' ']).any(|name| name == what), "PHALANX_REQUIRE names {what}, which is missing");
    println!("skipped: no {what}");
}

/// A program, if it is installed.
pub fn program(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file());
    if found.is_none() {
        skipped(name);
    }
    found
}

#[allow(unused_imports, reason = "each module of tests uses some of it")]
pub use base64_text::{base64, from_base64};

mod base64_text {
    use base64ct::{Base64, Encoding};

    /// The base64 of some bytes.
    pub fn base64(bytes: impl AsRef<[u8]>) -> String {
        Base64::encode_string(bytes.as_ref())
    }

    /// The bytes of a base64.
    pub fn from_base64(text: &str) -> Vec<u8> {
        Base64::decode_vec(text).expect("this is not base64")
    }
}
