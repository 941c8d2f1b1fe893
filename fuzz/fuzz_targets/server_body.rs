//! The body of a request in JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_server::fuzzing;

fuzz_target!(|data: &[u8]| fuzzing::body(data));
