//! The entries that are worked on, one after another. Folders and links are made on the way.

use super::Job;
use super::output::Folders;
use crate::failure::{Code, Failure};
use crate::file::is_temporary;
use crate::folders::RESERVED_NAME;
use crate::lines::shown;
use crate::mirror::listing::{NodeId, State};
use crate::transfer::action::Action;
use std::fs::File;
use std::sync::Arc;

/// An object to work on.
pub(super) struct Task {
    /// Its entry.
    pub id: NodeId,
    /// The open folder that its output goes to, if it has one.
    pub folder: Option<Arc<File>>,
}

/// All entries, each folder before what is in it.
pub(super) struct Walk<'a, A> {
    job: &'a Job<'a>,
    left: Box<dyn Iterator<Item = NodeId> + Send>,
    output: Option<Folders<'a, A>>,
}

impl<'a, A: Action> Walk<'a, A> {
    pub(super) fn new(job: &'a Job<'a>, output: Option<Folders<'a, A>>) -> Self {
        Self { job, left: Box::new(job.listing.within(job.root)), output }
    }

    /// The next object. What cannot be worked on is reported and counted.
    pub(super) fn next(&mut self) -> Option<Task> {
        loop {
            let id = self.left.next()?;
            let listing = self.job.listing;
            let is_file = listing.file(id).is_some();
            let Some(output) = &mut self.output else {
                if is_file && listing.state(id) != State::Dropped {
                    return Some(Task { id, folder: None });
                }
                continue;
            };
            if listing.state(id) == State::Dropped {
                continue;
            }
            let met = match output.go_to(listing.parent(id)) {
                // What hindered the folder was said.
                Ok(false) => continue,
                Ok(true) if listing.is_folder(id) => output.enter(id),
                Ok(true) if is_temporary(listing.name(id)) => {
                    self.refuse(id);
                    continue;
                }
                Ok(true) if is_file => return Some(Task { id, folder: Some(output.current()) }),
                Ok(true) => output.link(id),
                Err(e) => {
                    self.left = Box::new(std::iter::empty());
                    Err(e)
                }
            };
            if let Err(e) = met {
                self.job.tally.fail(&Failure::at(&self.job.output_path(id), e));
            }
        }
    }

    /// Leaves out an entry whose output a later run would take for a temporary file.
    fn refuse(&self, id: NodeId) {
        let path = self.job.path(id);
        let line = format!("{}: {RESERVED_NAME}", shown(&path));
        self.job.tally.fail(&Failure::new(Code::InputOutput, line).on(&path));
    }

    /// Gives the folders their permissions and times.
    pub(super) fn finish(self) {
        if let Some(output) = self.output {
            output.finish();
        }
    }
}
