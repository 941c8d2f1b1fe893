//! Keys and texts, secret or not.

use crate::valgrind::{public, secret};

/// Whether keys and texts are marked as secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    Secret,
    Public,
}

impl Inputs {
    /// Bytes that differ from place to place.
    pub fn bytes(self, len: usize, start: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (start..).take(len).map(|i| (i * 151 % 251) as u8).collect();
        if self == Inputs::Secret {
            secret(&mut bytes);
        }
        bytes
    }
}

/// Does work with secrets and without, and demands equal results. This shows that the work was done, and not left out.
///
/// The results of the work with secrets are declared public here, after the work: it is over, so this hides nothing of it.
#[track_caller]
pub fn same(work: impl Fn(Inputs) -> Vec<u8>) {
    let hidden = work(Inputs::Secret);
    public(&hidden);
    assert_eq!(hidden, work(Inputs::Public));
}
