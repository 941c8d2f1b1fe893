//! The texts of a request: ciphertext, base64, path, query, rights.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_server::fuzzing;

fuzz_target!(|data: &[u8]| fuzzing::texts(data));
