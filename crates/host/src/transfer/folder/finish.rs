//! The last steps for a folder after all work in it: permissions and times of its mirror, and its deletion.

use super::{Folder, Handles, Link, Parent, Selected, lock};
use crate::failure::{Code, Failure, Outcome};
use crate::file::sync_folder;
use crate::folders::entries;
use crate::lines::shown;
use crate::mirror::manifest::OR_CURRENT;
use crate::mirror::{MANIFEST, SIGNATURE};
use crate::transfer::ends::not_deleted;
use crate::transfer::listed;
use crate::warnings::warn_of_special_bits;
use crate::{Error, Result};
use phalanx_system::files::locked_folder;
use phalanx_system::fs::{self, AtFlags};
use phalanx_system::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Folder {
    /// Makes sure that the entries of its mirror and of all mirrors above are on the disk.
    pub fn make_durable(&self, handles: &Arc<Handles>) -> Result<()> {
        let (mut folder, mut handles) = (self, handles.clone());
        let mut synced = Vec::new();
        while !folder.durable.load(Ordering::Acquire) {
            match &folder.parent {
                Parent::Folder(parent) => {
                    let above = parent.handles_above(&handles)?;
                    sync_folder(above.output()).map_err(Error::write)?;
                    synced.push(folder);
                    (folder, handles) = (&**parent, above);
                }
                Parent::Root { output: Some(output), .. } => {
                    sync_folder(output).map_err(Error::write)?;
                    synced.push(folder);
                    break;
                }
                Parent::Root { .. } | Parent::Closed => break,
            }
        }
        // Not before all of them are synced: other threads delete files as soon as a folder is durable.
        synced.iter().for_each(|folder| folder.durable.store(true, Ordering::Release));
        Ok(())
    }

    /// Sets permissions and times of the mirror, which nothing writes to any more. Then deletes the links and, if it is
    /// empty, the folder.
    fn finish(&mut self, handles: &Arc<Handles>) {
        let tree = self.tree.clone();
        let Some(output) = &handles.output else {
            let noted = if tree.objects.is_some() { self.note(handles) } else { Ok(()) };
            if let Err(e) = noted {
                self.stays();
                tree.tally.fail(&Failure::at(&self.path(OsStr::new("")), e));
            }
            return;
        };
        let nameless = OsStr::new("");
        warn_of_special_bits(&self.path(nameless), &handles.input, tree.carry);
        let done = tree.carry.folder(&handles.input, output).and_then(|()| match (&tree.selection, &self.selected) {
            (Some(selection), Some(Selected { node, .. })) => {
                listed::restore(&**selection, *node, tree.carry, &handles.input, output)
            }
            _ => Ok(()),
        });
        let done = done.and_then(|()| match tree.sync {
            true => sync_folder(output).and_then(|()| self.sync_name()).map_err(Error::write),
            false => Ok(()),
        });
        let done = done.and_then(|()| if tree.remove { self.make_durable(handles) } else { Ok(()) });
        let done = done.and_then(|()| self.note(handles));
        if let Err(e) = done {
            self.stays();
            tree.tally.fail(&Failure::at(&self.mirrored(nameless), e));
        } else if tree.remove && self.keyring {
            // Its links may lead to the keys.
            self.stays();
        } else if tree.remove {
            self.remove_all(handles, output);
        }
        if let (Parent::Folder(parent), true) = (&self.parent, self.stays.load(Ordering::Relaxed)) {
            parent.stays();
        }
    }

    /// Deletes the links and, if nothing stays in it, the folder.
    fn remove_all(&mut self, handles: &Arc<Handles>, output: &File) {
        let tree = self.tree.clone();
        let links = std::mem::take(&mut *lock(&self.links));
        let own = self.key_of(OsStr::new(""), self.selected.as_ref().map(|selected| selected.node));
        let keys: Vec<_> = links.iter().filter_map(|link| link.key.as_ref()).chain(&own).collect();
        if let Some(selection) = &tree.selection
            && (!links.is_empty() || !self.stays.load(Ordering::Relaxed))
            && let Err(e) = selection.removes(&keys)
        {
            self.stays();
            tree.tally.fail(&not_deleted(&self.path(OsStr::new("")), Error::write(e)));
            return;
        }
        for Link { name, made, removal, .. } in links {
            let in_place = link_id(output, &name).is_ok_and(|now| now == made);
            let removed = if in_place { removal.run() } else { Err(Error::Displaced) };
            if let Err(e) = removed {
                self.stays();
                tree.tally.fail(&not_deleted(&self.path(&name), e));
            }
        }
        for name in std::mem::take(&mut *lock(&self.signatures)) {
            if fs::statat(&handles.input, &*name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                self.leave_out(&name, "the name does not end in .phx");
            }
        }
        if self.stays.load(Ordering::Relaxed) {
            return;
        }
        let removed = self.emptied(handles).map(|emptied| match (&self.parent, &tree.selection) {
            (Parent::Root { .. }, Some(selection)) => selection.keep_root(emptied),
            _ => Some(emptied),
        });
        match removed {
            Ok(None) => {}
            Ok(Some(emptied)) => {
                if let Err(failure) = emptied.remove() {
                    self.stays();
                    tree.tally.fail(&failure);
                }
            }
            Err(why) => {
                self.stays();
                tree.tally.fail(&kept(&self.path(OsStr::new("")), &why));
            }
        }
    }

    /// Makes sure that the name of a mirror's root is on the disk. All other names are in folders of the mirror, which are synced
    /// themselves. An earlier run that was killed may have made the root.
    fn sync_name(&self) -> phalanx_system::io::Result<()> {
        match &self.parent {
            Parent::Root { output: Some(above), .. } => sync_folder(above),
            _ => Ok(()),
        }
    }

    /// Tells the selection that nothing more is written to it.
    fn note(&self, handles: &Handles) -> Result<()> {
        if let (Some(selection), Some(selected)) = (&self.tree.selection, &self.selected) {
            selection.folder_done(selected.node, &fs::fstat(&handles.input).map_err(Error::write)?);
        }
        Ok(())
    }

    /// The folder, from which all was deleted.
    fn emptied(&self, handles: &Arc<Handles>) -> Result<Emptied, String> {
        let parent = match &self.parent {
            Parent::Folder(parent) => {
                let above = parent.handles_above(handles).map_err(|e| e.to_string())?;
                above.input.try_clone()
            }
            Parent::Root { input: Some(input), .. } => input.try_clone(),
            Parent::Root { .. } | Parent::Closed => return Err("its own folder is not known".into()),
        };
        let parent = parent.map_err(|e| e.to_string())?;
        if self.tree.opens && matches!(self.parent, Parent::Root { .. }) {
            if self.tree.selection.as_ref().is_some_and(|selection| !selection.is_whole()) {
                return Err("its manifest lists what was not found".into());
            }
            remove_manifest(&handles.input)?;
        }
        Ok(Emptied { parent, name: self.name.clone(), id: self.input_id, path: self.path(OsStr::new("")) })
    }

    /// Does the last steps, after all work in the folder. Returns its parent.
    fn close(&mut self) -> Option<Arc<Folder>> {
        let handles = lock(&self.handles).take();
        if let Some(handles) = handles {
            self.finish(&handles);
        }
        match std::mem::replace(&mut self.parent, Parent::Closed) {
            Parent::Folder(parent) => Some(parent),
            Parent::Root { .. } | Parent::Closed => None,
        }
    }
}

/// Removes the manifest of a mirror, of which all else has been restored and removed.
fn remove_manifest(mirror: &File) -> Result<(), String> {
    // A run of mirror would write there.
    let mirror = mirror.try_clone().map_err(|e| e.to_string())?;
    let mirror = &locked_folder(mirror, Duration::ZERO).ok_or(format!("another run writes to it{OR_CURRENT}"))?;
    let names = entries(mirror).map_err(|e| e.to_string())?;
    if names.iter().any(|(name, _)| name != MANIFEST && name != SIGNATURE) {
        return Err(NOT_EMPTY.into());
    }
    for name in [SIGNATURE, MANIFEST] {
        match fs::unlinkat(mirror, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(e.to_string()),
        }
    }
    Ok(())
}

const NOT_EMPTY: &str = "something new is in it";

/// A folder from which all was deleted.
#[derive(Debug)]
pub struct Emptied {
    parent: File,
    name: OsString,
    /// Its device and inode.
    id: (u64, u64),
    path: PathBuf,
}

impl Emptied {
    /// Deletes it, if nothing new is in it and its name leads to it.
    ///
    /// # Errors
    /// If it stays.
    pub fn remove(self) -> Outcome {
        let Self { parent, name, id, path } = self;
        let failed = |why: &str| Err(kept(&path, why));
        match fs::statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if (stat.st_dev, stat.st_ino) == id => {}
            Ok(_) => return failed("another folder has its name by now"),
            Err(e) => return failed(&e.to_string()),
        }
        match fs::unlinkat(&parent, &name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => failed(NOT_EMPTY),
            Err(e) => failed(&e.to_string()),
            Ok(()) => Ok(()),
        }
    }
}

fn kept(path: &Path, why: &str) -> Failure {
    Failure::new(Code::InputOutput, format!("{}: not deleted: {why}", shown(path))).on(path)
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The loop drops one folder after another. Otherwise each would drop its parent within its own drop.
        let mut above = self.close();
        while let Some(mut folder) = above.and_then(Arc::into_inner) {
            above = folder.close();
        }
    }
}

fn link_id(dir: &File, name: &OsStr) -> Result<(u64, u64)> {
    let stat = fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(Error::write)?;
    Ok((stat.st_dev, stat.st_ino))
}
