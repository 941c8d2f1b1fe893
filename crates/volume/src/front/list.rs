//! Listing a folder, piece by piece.
//!
//! An entry whose name or type cannot be read must not vanish from the list: a program that copies or removes the folder
//! would take the rest for everything. So it is left out, the log names it, and the program gets an error in place of the
//! list's end, after all other entries. The positions after it differ from those in a whole list, so that the kernel does
//! not take its copy of such a list for a whole one.

use crate::front::Front;
use crate::fuse::{Answer, Entries};
use crate::tree::{Entry, Listing};
use rustix::io::Errno;

/// The two names that every folder has in addition to its entries.
const DOTS: [&[u8]; 2] = [b".", b".."];

/// Is set in positions behind an entry that was left out. No list is so long.
const LEFT_OUT: u64 = 1 << 30;

/// What is in a list.
pub(super) enum Item {
    Dots(&'static [u8]),
    /// An entry, and its place in the list.
    Entry(usize, Entry),
}

impl Front {
    /// Lists a folder from a position on. `add` gets the position after each item, and returns whether there was no room
    /// for it.
    pub(super) fn list(
        &self,
        listing: &Listing,
        position: u64,
        entries: &mut Entries<'_>,
        add: impl Fn(&mut Entries<'_>, Item, u64) -> Answer<bool>,
    ) -> Answer<()> {
        let mut left_out = position & LEFT_OUT;
        let begin = (position & !LEFT_OUT) as usize;
        for at in begin..listing.len() + DOTS.len() {
            let item = match DOTS.get(at) {
                Some(dots) => Item::Dots(dots),
                None => match self.tree.entry(listing, at - DOTS.len()) {
                    Ok(Some(entry)) => Item::Entry(at - DOTS.len(), entry),
                    // It was removed since, or its name does not decrypt, which has been reported.
                    Ok(None) => continue,
                    Err(error) => {
                        self.tree.report_once(&error.to_string());
                        left_out = LEFT_OUT;
                        continue;
                    }
                },
            };
            if add(entries, item, (at as u64 + 1) | left_out)? {
                break;
            }
        }
        if left_out != 0 && entries.is_empty() { Err(Errno::IO) } else { Ok(()) }
    }
}
