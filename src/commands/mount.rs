//! `phalanx mount`

use super::{mount_objects, verify_volume, volume_age, volumes};
use crate::args::{Background, MountPlan};
use crate::daemon;
use crate::volume_engines;
use crate::volume_failures;
use phalanx_core::{Opener, Roster};
use phalanx_host::args::EngineName;
use phalanx_host::ask;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::file::stores;
use phalanx_host::lines::{complain, complain_with, shown};
use phalanx_host::mirror::listing::NodeId;
use phalanx_host::mirror::manifest::{Above, First, Listed, Lost, Pins};
use phalanx_host::verbosity::{Verbosity, is_terminal};
use phalanx_host::words::arrow;
use phalanx_host::{Error, engines, secrets, signals};
use phalanx_volume::front::{Ended, Front};
use phalanx_volume::fuse::Filesystem;
use phalanx_volume::mount::{self, Idler, Kernel, Mountpoint, Session, Stopped, Stopper, Way};
use phalanx_volume::view::{Probe, View, ViewOptions};
use phalanx_volume::{Store, StoreOptions, Volume};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

pub fn run(mut plan: MountPlan, verbosity: Verbosity) -> Outcome {
    if plan.background == Background::Start {
        return daemon::start();
    }
    if plan.url.is_none() {
        if phalanx_volume::is_volume(&plan.tree) {
            return volume(&plan, verbosity);
        }
        volumes::check(&plan.tree)?;
    }
    plan.options.read_only = true;
    plan.options.check().map_err(|e| volume_failures::of_mount(&plan.mountpoint, e))?;
    let mountpoint = ready(&plan)?;
    let kernel = Kernel::default();
    match &plan.url {
        Some(url) => {
            let view = mount_objects::view(&plan, url, &kernel, verbosity)?;
            serve(view, &kernel, &mountpoint, &plan, verbosity)
        }
        None => serve(view(&plan, &kernel, verbosity)?, &kernel, &mountpoint, &plan, verbosity),
    }
}

/// Mounts a volume, and closes it when it is unmounted.
fn volume(plan: &MountPlan, verbosity: Verbosity) -> Outcome {
    plan.options.check().map_err(|e| volume_failures::of_mount(&plan.mountpoint, e))?;
    let read_only = plan.options.read_only;
    let mountpoint = ready(plan)?;
    let opener = secrets::opener(&plan.keys, verbosity)?;
    let at_volume = |e| volume_failures::of_volume(&plan.tree, e);
    let opened = Volume::open(&plan.tree, &opener, read_only);
    let volume = opened.map_err(|e| verify_volume::not_opened(&plan.tree, e))?;
    ask::ask_no_more();
    let options = volume_engines::for_volume(&plan.engine, volume.config.suite(), verbosity)?;
    let name = shown(&plan.tree);
    let log = {
        let name = name.clone();
        move |line: &str| complain(format!("{name}: {line}"))
    };
    let options = StoreOptions {
        read_only,
        // The kernel caches changes, and sends their times.
        has_explicit_times: true,
        on_damage: Box::new(log.clone()),
        ..options
    };
    let store = Store::open(&volume.root, volume.config.clone(), options).map_err(at_volume)?;
    let is_known = store.generation().is_some_and(|generation| volume_age::check(&plan.tree, generation));
    let (kernel, ended) = (Kernel::default(), Ended::default());
    let served = store.tree(log).map_err(at_volume).and_then(|tree| {
        let front = Front::new(Arc::new(tree), store.clone(), read_only, kernel.clone(), ended.clone());
        serve(front, &kernel, &mountpoint, plan, verbosity)
    });
    let closed = ended.lock().unwrap_or_else(PoisonError::into_inner).take();
    // If it was never mounted, nobody has closed it yet.
    let closed = closed.unwrap_or_else(|| store.close());
    if let (Err(_), Err(error)) = (&served, &closed) {
        complain(format!("{name}: {error}"));
    }
    if let (Ok(()), true, Some(generation)) = (&closed, is_known, store.generation()) {
        volume_age::note(&plan.tree, generation);
    }
    served.and(closed.map_err(at_volume))
}

/// Checks everything that a mount needs before the user is asked for a password.
fn ready(plan: &MountPlan) -> Outcome<Mountpoint> {
    let at_mountpoint = |e| volume_failures::of_mount(&plan.mountpoint, e);
    let is_there = match plan.url {
        Some(_) => stores().map(|_| ()),
        None => plan.tree.metadata().map(|_| ()).map_err(Error::read),
    };
    is_there.map_err(|e| Failure::at(&plan.tree, e))?;
    mount::check_system(&plan.options).map_err(at_mountpoint)?;
    let checked = match plan.url {
        Some(_) => Mountpoint::for_objects(&plan.mountpoint),
        None => Mountpoint::new(&plan.mountpoint, &plan.tree),
    };
    checked.map_err(at_mountpoint)
}

/// A view of a tree that `protect` made. The user has been asked for a password, if one is needed.
fn view(plan: &MountPlan, kernel: &Kernel, verbosity: Verbosity) -> Outcome<View<secrets::AtHand>> {
    let opener = secrets::opener(&plan.keys, verbosity)?;
    let mut options = view_options(plan, kernel)?;
    if plan.tree.is_dir() && !takes_own(plan, &opener, &mut options)? {
        takes_above(plan, &opener, &mut options)?;
    }
    let view = View::open(&plan.tree, opener, options).map_err(|e| Failure::at(&plan.tree, Error::read(e)))?;
    opens(view.probe(), plan)?;
    Ok(view)
}

/// Takes what the manifest in a folder lists. Returns whether there is one that the keys open.
pub(super) fn takes_own(
    plan: &MountPlan,
    opener: &Opener<secrets::AtHand>,
    options: &mut ViewOptions,
) -> Outcome<bool> {
    let found = Listed::read_if_opened(&plan.tree, opener, options.roster.clone())?;
    let Some(listed) = found else { return Ok(false) };
    listed.check_age(&plan.tree, &Pins::default())?;
    (options.manifest, options.top) = (Some(listed.listing), NodeId::ROOT);
    Ok(true)
}

/// Takes what the manifest of the mirror lists that a folder is in. Returns the path of the mirror.
pub(super) fn takes_above(
    plan: &MountPlan,
    opener: &Opener<secrets::AtHand>,
    options: &mut ViewOptions,
) -> Outcome<Option<PathBuf>> {
    let above = Listed::read_above(&plan.tree, opener, options.roster.clone(), Lost::Told, First::Own)?;
    let Some(Above { listed, root, within }) = above else { return Ok(None) };
    listed.check_age(&root, &Pins::default())?;
    options.top = listed.listing.folder_at(&within).expect("a manifest above lists the folder");
    options.manifest = Some(listed.listing);
    Ok(Some(root))
}

/// The options of a view.
pub(super) fn view_options(plan: &MountPlan, kernel: &Kernel) -> Outcome<ViewOptions> {
    let engine = engines::cpu(&plan.engine)?;
    let is_serial = engine.info().workers == 1;
    let mut options = ViewOptions::new(Arc::new(Roster::new(&[engine])));
    // The thread that reads does the work.
    options.read_ahead = is_serial.then_some(0);
    options.log = Box::new(|line| complain(line));
    options.kernel = kernel.clone();
    Ok(options)
}

/// Fails if the keys at hand open nothing. From now on no password is asked for.
pub(super) fn opens(probe: Probe, plan: &MountPlan) -> Outcome {
    match probe {
        Probe::Opens | Probe::Unknown => {}
        Probe::Locked(path, error) => return Err(Failure::at(&path, error)),
        Probe::Empty => {
            return Err(Failure::nothing_protected(&plan.tree));
        }
    }
    ask::ask_no_more();
    Ok(())
}

/// Mounts, and serves until it is unmounted.
fn serve<F: Filesystem>(
    filesystem: F,
    kernel: &Kernel,
    mountpoint: &Mountpoint,
    plan: &MountPlan,
    verbosity: Verbosity,
) -> Outcome {
    let at_mountpoint = |e| volume_failures::of_mount(&plan.mountpoint, e);
    let threads = match plan.engine.engine {
        EngineName::Serial => Some(NonZeroUsize::MIN),
        // Most of them wait for the store.
        _ => plan.engine.threads.or(plan.url.as_ref().and(mount_objects::THREADS)),
    };
    let ending = Arc::new(Ending::default());
    signals::on_next({
        let ending = ending.clone();
        move || ending.asked()
    });
    let session = Session::mount(filesystem, mountpoint, &plan.options, plan.way, threads).map_err(at_mountpoint)?;
    if verbosity.verbose {
        let way = if session.way() == Way::Uring { "io_uring" } else { "/dev/fuse" };
        complain(format!("{}: requests come by {way}", shown(&plan.mountpoint)));
    }
    session.connect(kernel);
    ending.mounted(session.stopper());
    if plan.background == Background::Started {
        daemon::detach(verbosity.quiet)?;
    } else if !verbosity.quiet && is_terminal() {
        let (from, to) = (shown(&plan.tree), shown(&plan.mountpoint));
        let hint = format!("Ctrl-C or fusermount3 -u {to} unmounts it");
        complain_with(format!("{from} {} {to}: mounted", arrow()), Some(&hint));
    }
    if let Some(limit) = plan.idle {
        stop_when_idle(session.idler(), limit, &plan.mountpoint)?;
    }
    session.run().map_err(at_mountpoint)
}

/// Starts a thread that unmounts when the mount has not been used for this long.
fn stop_when_idle(idler: Idler, limit: Duration, mountpoint: &Path) -> Outcome {
    let path = shown(mountpoint);
    let wait = move || idler.stop_after(limit, |e| complain(format!("{path}: --idle cannot unmount it: {e}")));
    let begun = thread::Builder::new().name("idle".into()).spawn(wait);
    begun.map(drop).map_err(|e| Failure::new(Code::Other, format!("there is no thread for --idle: {e}")))
}

/// The end of a mount that a signal asks for. It may come while something is being mounted.
#[derive(Default)]
struct Ending(Mutex<MountPhase>);

#[derive(Default)]
enum MountPhase {
    #[default]
    Before,
    Asked,
    Mounted(Stopper),
}

impl Ending {
    fn asked(&self) {
        let state = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), MountPhase::Asked);
        if let MountPhase::Mounted(stopper) = state {
            stop(stopper);
        }
    }

    fn mounted(&self, stopper: Stopper) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            MountPhase::Asked => stop(stopper),
            _ => *state = MountPhase::Mounted(stopper),
        }
    }
}

/// Unmounts, on a thread of its own: the kernel may have to write first, and a second signal must not wait for that.
fn stop(stopper: Stopper) {
    let note = |line: &str| complain_with(line, Some("a second signal ends it at once"));
    let unmount = move || {
        let path = shown(stopper.mountpoint());
        let covered = || {
            note(&format!("{path}: something is mounted on top of it: it ends when that is unmounted"));
        };
        match stopper.stop_when_uncovered(covered) {
            Ok(Stopped::Busy) => note(&format!("{path}: in use: it ends when the last file in it is closed")),
            Ok(_) => {}
            Err(e) => note(&format!("{path}: {e}")),
        }
    };
    if thread::Builder::new().name("unmount".into()).spawn(unmount).is_err() {
        note("there is no thread to unmount with");
    }
}
