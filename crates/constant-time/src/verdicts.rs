//! The verdicts that the design makes public, although secrets go into them.
//!
//! The code that comes to a verdict branches on it at once, inside the code under test or a library. Memcheck reports this
//! branch, and `verdicts.supp` names it. Here is counted how many verdicts there must have been. `.ci/constant-time` demands
//! that memcheck has seen as many such branches: one more would be a leak in the same function.

use crate::inputs::Inputs;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A kind of verdict, by the name of its suppression.
pub struct Verdict {
    name: &'static str,
    count: AtomicUsize,
}

impl Verdict {
    const fn new(name: &'static str) -> Self {
        Self { name, count: AtomicUsize::new(0) }
    }

    /// The code under test comes to this many verdicts. Those about public inputs are nothing to memcheck.
    pub fn expect(&self, inputs: Inputs, count: usize) {
        if inputs == Inputs::Secret {
            self.count.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// Whether an unwrapped key passes the integrity check of RFC 3394. Everybody sees it: the file opens, or it does not.
pub static KEY_WRAP: Verdict = Verdict::new("verdict-of-key-wrap");
/// Whether a name or attribute is authentic. It is found, or it is not.
pub static SIV: Verdict = Verdict::new("verdict-of-siv");
/// Whether a chunk or message is authentic, in the suites with SHA-3.
#[cfg(feature = "whole")]
pub static TAG: Verdict = Verdict::new("verdict-of-tag");
/// The same in suite 4, in AWS-LC.
#[cfg(feature = "whole")]
pub static GCM: Verdict = Verdict::new("verdict-of-gcm");
/// Whether a header is authentic.
#[cfg(feature = "whole")]
pub static HEADER: Verdict = Verdict::new("verdict-of-header");
/// Whether two computations of the same gave the same: whether the machine works.
#[cfg(feature = "whole")]
pub static MACHINE: Verdict = Verdict::new("verdict-of-machine");

pub fn print() {
    let all = [
        &KEY_WRAP,
        &SIV,
        #[cfg(feature = "whole")]
        &TAG,
        #[cfg(feature = "whole")]
        &GCM,
        #[cfg(feature = "whole")]
        &HEADER,
        #[cfg(feature = "whole")]
        &MACHINE,
    ];
    for Verdict { name, count } in all {
        println!("{name} {}", count.load(Ordering::Relaxed));
    }
}
