//! `phalanx mount` of what lies in an object store.

use super::mount::{opens, takes_above, takes_own, view_options};
use crate::args::MountPlan;
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::file::{ObjectFolder, Url, stores};
use phalanx_host::verbosity::Verbosity;
use phalanx_host::{Error, secrets};
use phalanx_volume::mount::Kernel;
use phalanx_volume::view::{ObjectView, Shown};
use std::num::NonZeroUsize;
use std::sync::Arc;

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
    let mut path = plan.tree.clone();
    let shown = if url.text().starts_with("http") {
        // Such servers list no folders.
        Shown::Object(url.clone())
    } else {
        let folder = objects_at(url)?;
        if takes_own(plan, &opener, &mut options)? {
            Shown::Folder(folder)
        } else {
            let objects = folder.list().map_err(|e| at(Error::read(e)))?;
            if objects.is_empty() && url.name().is_some() {
                Shown::Object(url.clone())
            } else if let Some(root) = takes_above(plan, &opener, &mut options)? {
                path = root;
                Shown::Folder(objects_at(&Url::of(&path).expect("what a URL is in is a URL"))?)
            } else {
                Shown::Listed(folder, objects)
            }
        }
    };
    let view = ObjectView::new(&path, shown, opener, options).map_err(|e| at(Error::read(e)))?;
    opens(view.probe(), plan)?;
    Ok(view)
}

/// The folder of objects at a URL.
fn objects_at(url: &Url) -> Outcome<Arc<dyn ObjectFolder>> {
    let folder = stores().and_then(|stores| stores.folder(url).map_err(Error::read));
    folder.map_err(|e| Failure::at(url.path(), e))
}
