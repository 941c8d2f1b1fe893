//! Suite 4 on the CPU, AES-256-GCM by `aws-lc-rs`: `docs/format.md`, sections 3 and 7.

use crate::cpu::pieces::{Bound, Piece};
use crate::keys::key::ContentKeys;
use crate::op::Op;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// Seals or opens all pieces in place. Calls `fail` with those that are not authentic; they are wiped.
pub(crate) fn run(op: Op, keys: &[ContentKeys], pieces: &mut [Piece<'_>], mut fail: impl FnMut(usize)) {
    let mut ready: Option<(usize, LessSafeKey)> = None;
    for (i, piece) in pieces.iter_mut().enumerate() {
        // The pieces of one key are mostly next to each other.
        let (_, key) = match &mut ready {
            Some(ready) if ready.0 == piece.key => ready,
            stale => stale.insert((piece.key, expand(&keys[piece.key]))),
        };
        let mut place = [0; 9];
        let ad = match piece.bound {
            Bound::Chunk { index, last } => {
                place[..8].copy_from_slice(&index.to_le_bytes());
                place[8] = u8::from(last);
                &place
            }
            Bound::Message { ad } => ad,
        };
        let nonce = Nonce::assume_unique_for_key(*piece.nonce.first_chunk().expect("12 of 16 bytes"));
        match op {
            Op::Seal => {
                let sealed = key.seal_in_place_separate_tag(nonce, Aad::from(ad), piece.data);
                piece.tag.copy_from_slice(sealed.expect("no longer than Suite::longest_message()").as_ref());
            }
            Op::Open => {
                if key.open_in_place_separate_tag(nonce, Aad::from(ad), piece.tag, piece.data).is_err() {
                    // The library may have left anything there.
                    piece.data.fill(0);
                    fail(i);
                }
            }
        }
    }
}

/// K_encrypt, expanded. The library wipes this memory before it frees it.
fn expand(keys: &ContentKeys) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, keys.encrypt()).expect("a key of 32 bytes, and memory for it"))
}
