//! An octet stream of records.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_server::fuzzing;

fuzz_target!(|data: &[u8]| fuzzing::records(data));
