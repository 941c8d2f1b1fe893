//! `phalanx mount` of what lies in an object store.

use super::mount::{opens, view_options};
use crate::args::MountPlan;
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::file::{Url, stores};
use phalanx_host::mirror::manifest::{Listed, Pins};
use phalanx_host::verbosity::Verbosity;
use phalanx_host::{Error, secrets};
use phalanx_volume::mount::Kernel;
use phalanx_volume::view::{ObjectView, Shown};
use std::num::NonZeroUsize;

/// So many requests of the kernel are served at the same time.
pub(super) const THREADS: Option<NonZeroUsize> = NonZeroUsize::new(8);

/// The bytes of opened chunks that all open files may keep together. What is fetched early is counted by the store.
const CHUNKS: usize = 16 << 20;

/// A view of what lies at a URL: a folder of objects, or else the object of this name. The user has been asked for a
/// password, if one is needed.
pub(super) fn view(
    plan: &MountPlan,
    url: &Url,
    kernel: &Kernel,
    verbosity: Verbosity,
) -> Outcome<ObjectView<secrets::AtHand>> {
    let at = |e: Error| Failure::at(&plan.tree, e);
    let opener = secrets::opener(&plan.keys, verbosity)?;
    let mut options = view_options(plan, kernel)?;
    options.memory = CHUNKS;
    let shown = if url.text().starts_with("http") {
        // Such servers list no folders.
        Shown::Object(url.clone())
    } else {
        let folder = stores().and_then(|stores| stores.folder(url).map_err(Error::read)).map_err(at)?;
        match Listed::read_if_opened(&plan.tree, &opener, options.roster.clone())? {
            Some(listed) => {
                listed.check_age(&plan.tree, &Pins::default())?;
                options.manifest = Some(listed.listing);
                Shown::Folder(folder)
            }
            None => match folder.list().map_err(|e| at(Error::read(e)))? {
                objects if objects.is_empty() && url.name().is_some() => Shown::Object(url.clone()),
                objects => Shown::Listed(folder, objects),
            },
        }
    };
    let view = ObjectView::new(&plan.tree, shown, opener, options).map_err(|e| at(Error::read(e)))?;
    opens(view.probe(), plan)?;
    Ok(view)
}
