//! A backup that a server sends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_server::fuzzing;

fuzz_target!(|data: &[u8]| fuzzing::backup(data));
