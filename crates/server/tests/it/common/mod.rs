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

use std::net::TcpListener;
use std::process::Child;
use std::sync::atomic::{AtomicU16, Ordering};
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

/// Kills a run after a while or, without one, as soon as it is at work. Returns whether it was: what it makes was there, and
/// not whole.
pub fn kill_run(child: &mut Child, after: Option<Duration>, is_at_work: impl Fn() -> bool) -> bool {
    match after {
        Some(time) => std::thread::sleep(time),
        None => {
            while !is_at_work() && child.try_wait().expect("it cannot be waited for").is_none() {
                std::thread::yield_now();
            }
        }
    }
    let _ = child.kill();
    let status = child.wait().expect("it cannot be waited for");
    !status.success() && is_at_work()
}

/// A free port for a program that cannot choose one itself. It is below those that the kernel hands out, so that no
/// connection and no listener that leaves the choice to the kernel gets it meanwhile.
pub fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() * 16 % 20_000) as u16;
    (0..10_000)
        .map(|_| 10_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000)
        .find(|port| TcpListener::bind(("0.0.0.0", *port)).is_ok())
        .expect("a free port")
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
