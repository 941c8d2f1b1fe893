//! `Manifest` compared with the reference: any bytes, and manifests put together from pieces, most of them sound.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::tree::Invalid;
use phalanx_fuzz::Steer;
use phalanx_fuzz::manifests::{pieces, read};
use phalanx_reference::tree::{self as reference, Broken};
use std::io::{self, Read};

fuzz_target!(|data: &[u8]| {
    let mut steer = Steer(data);
    let kind = steer.byte();
    let bytes = if kind & 1 == 0 { steer.0.to_vec() } else { pieces(&mut steer) };
    check(&bytes, usize::from(kind >> 1));
});

fn check(bytes: &[u8], piece: usize) {
    let found = read(Pieces { bytes, piece });
    match (found, reference::read_manifest(bytes)) {
        (Ok((manifest, written)), Ok(expected)) => {
            assert!(manifest == expected, "{manifest:?}, but the reference says {expected:?}");
            assert!(written == bytes, "written again, it is another");
            assert!(reference::write_manifest(&expected) == bytes, "the reference writes another");
        }
        (Err(Invalid::Version), Err(Broken::Version)) => {}
        (Err(Invalid::Malformed(_)), Err(broken)) if broken != Broken::Version => {}
        (found, expected) => panic!("{found:?}, but the reference says {expected:?}"),
    }
}

/// Returns bytes in pieces of this length, or all at once.
struct Pieces<'a> {
    bytes: &'a [u8],
    piece: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let piece = if self.piece == 0 { usize::MAX } else { self.piece };
        let n = buf.len().min(piece).min(self.bytes.len());
        let (taken, rest) = self.bytes.split_at(n);
        buf[..n].copy_from_slice(taken);
        self.bytes = rest;
        Ok(n)
    }
}
