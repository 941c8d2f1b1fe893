//! Entries that belong together: one that took the name of another, and one that is another moved.

use super::Plan;
use crate::file::unprotected_name;
use crate::mirror::listing::{Listing, NodeId, State};
use std::collections::HashMap;
use std::ffi::OsString;

impl Plan {
    /// Finds entries that are gone or left out, and whose names in the mirror belong to others by now: a link `a.phx`, where there is
    /// a file `a`.
    pub fn find_rivals(&mut self) {
        let listing = &self.listing;
        let mut rivals: HashMap<(NodeId, OsString), Vec<NodeId>> = HashMap::new();
        for id in listing.all().filter(|id| listing.file(*id).is_none()) {
            if let Some(name) = unprotected_name(listing.name(id)) {
                rivals.entry((listing.parent(id), name)).or_default().push(id);
            }
        }
        if rivals.is_empty() {
            return;
        }
        for file in listing.all().filter(|id| listing.file(*id).is_some()) {
            let key = (listing.parent(file), listing.name(file).to_owned());
            for other in rivals.get(&key).into_iter().flatten().copied() {
                match (listing.state(file), listing.state(other)) {
                    (State::Gone, State::Gone) => {}
                    (State::Gone, _) => self.conflicts.push((file, other)),
                    (_, State::Gone) => self.conflicts.push((other, file)),
                    // What is at the source has refused the other one already, so this one stays without being there.
                    (State::Unchanged, State::New | State::Changed) => self.conflicts.push((file, other)),
                    (State::New, State::Unchanged) => self.conflicts.push((other, file)),
                    _ => {}
                }
            }
        }
    }

    /// Finds new files that are files gone elsewhere: the same device, number, length and time.
    pub fn find_moves(&mut self) {
        let listing = &mut self.listing;
        let key = |listing: &Listing, id| {
            let file = listing.file(id)?;
            Some((file.device, file.inode, file.len, listing.modified(id))).filter(|_| file.inode != 0)
        };
        let gone = listing.all().filter(|id| listing.state(*id) == State::Gone);
        let mut gone: HashMap<_, NodeId> = gone.filter_map(|id| Some((key(listing, id)?, id))).collect();
        if gone.is_empty() {
            return;
        }
        for id in listing.all() {
            if listing.state(id) == State::New
                && let Some(from) = key(listing, id).and_then(|key| gone.remove(&key))
            {
                listing.set_state(id, State::Moved);
                self.moved_from.insert(id, from);
            }
        }
    }
}
