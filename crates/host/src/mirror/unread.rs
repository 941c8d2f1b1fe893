//! What a run that compares everything has taken from an old manifest all the same, without having read it. Somebody else may have
//! put it there, so it is not signed.

use super::listing::{Listing, State};
use super::manifests::{Before, Manifests};
use super::scan::Plan;
use crate::failure::Outcome;
use crate::words::count;

/// How many entries of a listing are listed as the old manifest has them: those that are gone at the source and stay, and files that
/// could be neither compared nor written.
pub fn unread(listing: &Listing) -> u64 {
    let is_old = |state| matches!(state, State::Gone | State::Changed | State::Compared);
    listing.all().filter(|id| is_old(listing.state(*id))).count() as u64
}

/// Refuses to sign a mirror that somebody else may have written, if it has what the source has not: nothing can be compared with it.
///
/// # Errors
/// If it has.
pub fn refuse(plan: &Plan, before: &Before, manifests: &Manifests<'_>, deletes: bool) -> Outcome {
    if !before.is_foreign() || !manifests.signs() {
        return Ok(());
    }
    let listing = &plan.listing;
    let gone = listing.all().filter(|id| listing.state(*id) == State::Gone).count() as u64;
    match plan.kept + if deletes { 0 } else { gone } {
        0 => Ok(()),
        entries => {
            let entries = count(entries, "entry");
            let line =
                format!("{entries} of it cannot be compared with the source, so nothing that it lists is signed");
            Err(manifests
                .unsigned(&line)
                .hint("--delete and --delete-excluded delete what the source lacks or the rules leave out"))
        }
    }
}
