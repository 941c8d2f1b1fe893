//! `phalanx rekey`: adds and removes ways into files.

mod folder;
mod mirror;
mod object;
mod report;
mod taken;

use super::volumes;
use crate::args::{Changes, RekeyPlan};
use crate::progress::Bar;
use folder::{Found, folder};
use phalanx_core::engine::Op;
use phalanx_core::tree::Recorder;
use phalanx_core::volume::CONFIG;
use phalanx_core::{
    Error as CoreError, KdfLimit, KeyId, NewFile, OpenedBy, Opener, Password, Progress, ProtectedFile, Recipient, Sink,
    Suite, Ways,
};
use phalanx_host::age;
use phalanx_host::args::{EngineArgs, EngineName, KeyArgs};
use phalanx_host::engines::{Crew, Engines};
use phalanx_host::failure::{self, Failure, Outcome};
use phalanx_host::file::{
    self, Carry, Ends, Existing, InPlace, Input, InputFile, Made, Obstacle, Unfinished, is_url, unprotected_name,
};
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::{complain, complain_with, shown};
use phalanx_host::lock::lock;
use phalanx_host::mirror::rewritten::Rewritten;
use phalanx_host::mirror::{has_manifest, is_in_mirror};
use phalanx_host::passwords;
use phalanx_host::paths::{Destination, End};
use phalanx_host::secret_files;
use phalanx_host::secrets::{self, AtHand};
use phalanx_host::services::Services;
use phalanx_host::transfer::action::{Action, Moved, Transfer};
use phalanx_host::transfer::meter::Meter;
use phalanx_host::verbosity::Verbosity;
use phalanx_host::volumes::{is_folder_of_volume, is_volume};
use phalanx_host::words::{count, others};
use phalanx_host::{Error, Result};
use phalanx_system::files::names_of_open;
use phalanx_system::fs::sync_all;
use report::{Report, Reporter};
use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use taken::Taken;

pub fn run(plan: RekeyPlan, verbosity: Verbosity) -> Outcome {
    let RekeyPlan { paths, recursive, keys, changes, fresh, paranoid, json } = plan;
    let removed = changes.remove_keys.iter().map(|name| removed_id(name)).collect::<Outcome<_>>()?;
    let removed_recipients = changes.remove_recipients.iter();
    let removed_recipients =
        removed_recipients.map(|text| age::recipient_text("--remove-recipient", text)).collect::<Outcome<_>>()?;
    let added = KeyArgs {
        keys: changes.add_keys.clone(),
        key_files: changes.add_key_files.clone(),
        password_file: changes.add_password_file.clone(),
        ..KeyArgs::default()
    };
    let action = Rekey {
        keys: [KeyFiles::new(&keys.keys, &keys.identities), KeyFiles::new(&added, &[])],
        opener: secrets::opener(&keys, verbosity)?,
        reporter: Reporter::new(json, verbosity),
        changes,
        removed,
        removed_recipients,
        added: OnceLock::new(),
        fresh,
        taken: Taken::default(),
        rewritten: Mutex::default(),
        changed: AtomicU64::new(0),
        reduced: AtomicBool::new(false),
        finished: AtomicBool::new(false),
        unlisted: Mutex::default(),
    };
    let keys = KeyFiles::new(&keys.keys, &keys.identities);
    let transfer = Transfer::new(action, nowhere(recursive), keys, &cpu(paranoid), verbosity)?;
    let mut found = Found { has_volume: paths.iter().any(|path| !is_url(path) && is_volume(path)), ..Found::default() };
    let done = failure::each(&paths, |path| {
        if recursive && path.is_dir() && (has_manifest(path) || !is_volume(path) && !is_folder_of_volume(path)) {
            return folder(&transfer, path, &mut found);
        }
        found.count(one(&transfer, path))
    });
    if !verbosity.quiet && (recursive || paths.len() > 1) {
        let line =
            format!("{}, {} changed", count(found.files, "file"), transfer.action.changed.load(Ordering::Relaxed));
        complain(line + &others([(found.left_out, "left out"), (found.failed, "failed")]));
    }
    if !verbosity.quiet {
        transfer.action.warn(found.has_volume);
        let is_part =
            |path: &&PathBuf| transfer.action.fresh && !is_url(path) && !has_manifest(path) && is_in_mirror(path);
        for path in paths.iter().filter(is_part).chain(&*lock(&transfer.action.unlisted)) {
            let line = "the manifest of its mirror does not list what was written";
            let hint = match is_url(path) {
                true => "mirror --checksum writes it again",
                false => "mirror writes it again; --fresh of the whole mirror writes the manifest too",
            };
            complain_with(format!("warning: {}: {line}", shown(path)), Some(hint));
        }
    }
    done
}

/// The id of a key that is named by it, or by its name in the keyring.
fn removed_id(name: &str) -> Outcome<KeyId> {
    match KeyId::from_hex(name) {
        Some(id) => Ok(id),
        None => Ok(secret_files::keyring()?.id(name)?.0),
    }
}

/// Files change where they are.
fn nowhere(recursive: bool) -> Destination {
    Destination { sync: true, ..Destination::nowhere(recursive) }
}

/// A header is not worth a GPU.
fn cpu(paranoid: bool) -> EngineArgs {
    EngineArgs { engine: EngineName::Cpu, threads: None, paranoid }
}

fn one(transfer: &Transfer<Rekey>, path: &Path) -> Outcome {
    if is_url(path) {
        return change_at(transfer, &End::from(path.to_owned()));
    }
    volumes::check(path)?;
    if is_volume(path) {
        if transfer.action.fresh {
            let line = format!("{}: a volume keeps its file key: --fresh is for files", shown(path));
            return Err(Failure::usage(line).hint("make a new volume and copy"));
        }
        return one(transfer, &path.join(CONFIG));
    }
    if path.is_dir() {
        return Err(Failure::folder(path));
    }
    change_at(transfer, &End::Path(path.to_owned()))
}

/// Changes a file or an object.
fn change_at(transfer: &Transfer<Rekey>, end: &End) -> Outcome {
    let (mut ends, path) = (Ends::only(end.open()?), end.path());
    transfer.prepare()?;
    let meter = Bar::file(shown(path), ends.input.len(), transfer.verbosity);
    let done = transfer.action.transfer(&transfer.engines, &mut ends, &meter, &meter);
    meter.finish();
    let moved = done.map_err(|e| {
        transfer.action.failed(path);
        Failure::at_output(path, e)
    })?;
    if let Some(by) = &moved.by {
        transfer.action.opened(|| path.to_owned(), by);
    }
    transfer.action.checked(path, 0)
}

struct Rekey {
    opener: Opener<AtHand>,
    /// The files of the keys that open, and of those that are added.
    keys: [KeyFiles; 2],
    reporter: Reporter,
    changes: Changes,
    /// The ids of the keys that are removed.
    removed: Vec<KeyId>,
    /// The canonical texts of the age recipients that are removed.
    removed_recipients: Vec<String>,
    added: OnceLock<Added>,
    fresh: bool,
    taken: Taken,
    /// What is written to the mirror that is worked on.
    rewritten: Mutex<Option<Arc<Rewritten>>>,
    /// How many files have changed.
    changed: AtomicU64,
    /// Whether a way into any of them was removed.
    reduced: AtomicBool,
    /// Whether an interrupted change was finished, which may have removed one.
    finished: AtomicBool,
    /// The objects that the manifests of their mirrors do not list any more.
    unlisted: Mutex<Vec<PathBuf>>,
}

/// The ways in that are added. One Argon2 serves all files.
struct Added {
    recipients: Vec<Recipient>,
    password: Option<(Opener<Password>, Recipient)>,
}

thread_local! {
    /// What was done to the file that this thread works on, until it is reported.
    static DONE: RefCell<Option<Done>> = const { RefCell::new(None) };
}

enum Done {
    Seen(Box<Report>),
    /// The file was done under another name.
    ElsewhereNamed,
}

impl Action for Rekey {
    fn output_name(&self, name: &OsStr) -> Option<OsString> {
        unprotected_name(name).map(|_| name.to_owned())
    }

    fn opens(&self) -> bool {
        true
    }

    fn prepare(&self) -> Outcome {
        let Changes { add_password, add_password_file, add_keys, add_key_files, .. } = &self.changes;
        let Changes { add_recipients, add_recipients_files, .. } = &self.changes;
        let keys = secrets::load_keys(add_keys, add_key_files)?;
        let mut recipients: Vec<_> = keys.iter().map(|(_, key)| Recipient::key(key)).collect();
        let services = Services::new("--add-kms", &self.changes.add_services)?;
        let others = age::recipients("--add-recipient", add_recipients, add_recipients_files)?;
        recipients.extend(others.into_iter().map(Recipient::from));
        let asked = *add_password || add_password_file.is_some();
        let password = asked.then(|| passwords::added(add_password_file.as_deref())).transpose()?;
        let password = match password {
            Some(password) => {
                let recipient = Recipient::password(&password)?;
                Some((Opener::new(password, KdfLimit::default()), recipient))
            }
            None => None,
        };
        recipients.extend(services.recipients()?);
        let _ = self.added.set(Added { recipients, password });
        Ok(())
    }

    fn transfer<'l>(
        &self,
        engines: &'l Engines,
        Ends { input, .. }: &mut Ends,
        meter: &dyn Meter,
        _progress: &dyn Progress,
    ) -> Result<Moved<'l>> {
        let crew = engines.crew(Op::Seal, Suite::default(), input.known_len());
        let mut moved = Moved { bytes: 0, shape: None, crew, opened: None, by: None };
        let is_interrupted = input.rekey_interrupted();
        if self.is_listing() && !is_interrupted {
            let ways = Ways::read(&mut input.source()?, &self.opener)?;
            let report = Report::new(ways.header(), ways.opened_slot(), Unfinished::None);
            moved.by = Some(ways.opened_by().clone());
            DONE.set(Some(Done::Seen(Box::new(report))));
            return Ok(moved);
        }
        let file = match &*input {
            Input::Object(object) => {
                moved.by = Some(self.change_object(&**object, crew, meter)?);
                return Ok(moved);
            }
            Input::File(file) => file,
            Input::Stream(_) => return Err(Error::read(Obstacle::NotRegular)),
        };
        if self.keys.iter().any(|keys| keys.is_in_use(file.stamp().id())) {
            return Err(Error::write(Obstacle::HoldsKey));
        }
        // What an interrupted change has left belongs to one name. So a file with it is done even if another name was
        // done.
        let Some(turn) = self.taken.turn(file, is_interrupted) else {
            DONE.set(Some(Done::ElsewhereNamed));
            return Ok(moved);
        };
        moved.by = Some(self.change(file, crew, meter)?);
        // With --fresh each name becomes a file of its own, so each is done.
        if !self.fresh && has_other_names(file.file()) {
            turn.done();
        }
        Ok(moved)
    }

    fn opened(&self, path: impl FnOnce() -> PathBuf, by: &OpenedBy) {
        self.opener.source().tell_sender(path, by);
    }

    fn checked(&self, path: &Path, _: u64) -> Outcome {
        match DONE.take() {
            None => Ok(()),
            Some(Done::Seen(report)) => {
                let printed = self.reporter.tell(path, &report);
                if printed.is_err() && report.is_changed() {
                    complain(format!("{}: its keys are changed, although this could not be printed", shown(path)));
                }
                printed
            }
            Some(Done::ElsewhereNamed) => self.reporter.tell_other_name(path),
        }
    }

    fn failed(&self, path: &Path) {
        // The run ends with the failure itself, so an error of this report is dropped.
        let _ = self.checked(path, 0);
    }
}

impl Rekey {
    /// Warns of what an old file key or an old copy still opens.
    fn warn(&self, has_volume: bool) {
        let remedy = match has_volume {
            true => "only a new volume, to which the files are copied, has another file key",
            false => "--fresh writes the file again, under a new file key",
        };
        if self.reduced.load(Ordering::Relaxed) {
            match self.fresh {
                false => complain_with(
                    "warning: whoever held what was removed may have kept the file key, which still opens the file, and an \
                     old copy of the header brings it back as a way in",
                    Some(remedy),
                ),
                true => complain("warning: old copies of the file still open with what was removed"),
            }
        } else if self.finished.load(Ordering::Relaxed) {
            complain_with(
                "warning: an interrupted change was finished. If it removed a key or password, whoever held that may have kept \
                 the file key, which still opens the file",
                Some(remedy),
            );
        }
    }

    /// Whether nothing is to be changed.
    fn is_listing(&self) -> bool {
        let Changes { remove_passwords, remove_slots, .. } = &self.changes;
        let adds = self.added.get().is_some_and(|added| !added.recipients.is_empty() || added.password.is_some());
        let removes = !self.removed.is_empty()
            || !self.removed_recipients.is_empty()
            || !self.changes.remove_services.is_empty()
            || *remove_passwords
            || !remove_slots.is_empty();
        !adds && !removes && !self.fresh
    }

    /// Changes a file. What has changed is reported even if something fails after it.
    fn change(&self, file: &InputFile, crew: &Crew, meter: &dyn Meter) -> Result<OpenedBy> {
        let mut target = InPlace::open(file)?;
        let opened = target.ways(&self.opener).inspect_err(|error| {
            if matches!(error, Error::Uncleared(_)) {
                self.changed.fetch_add(1, Ordering::Relaxed);
                self.finished.store(true, Ordering::Relaxed);
            }
        });
        let (mut ways, unfinished) = opened?;
        let mut report = Report::new(ways.header(), ways.opened_slot(), unfinished);
        let done = self.replace(&mut target, &mut ways, crew, meter, &mut report);
        self.note(&ways, report, done)
    }

    /// Notes what was done to a file or an object.
    fn note(&self, ways: &Ways, report: Report, done: Result<()>) -> Result<OpenedBy> {
        let is_finished = report.unfinished == Unfinished::Finished;
        if report.after.is_some() && (ways.is_reduced() || self.fresh && is_finished) {
            self.reduced.store(true, Ordering::Relaxed);
        } else if is_finished {
            self.finished.store(true, Ordering::Relaxed);
        }
        if report.is_changed() {
            self.changed.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(header) = &report.after {
            age::warn_of_mixed_slots(header);
        }
        if done.is_ok() || report.is_changed() {
            DONE.set(Some(Done::Seen(Box::new(report))));
        }
        done.map(|()| ways.opened_by().clone())
    }

    /// Puts the changed header, or a whole new file, into its place.
    fn replace(
        &self,
        target: &mut InPlace,
        ways: &mut Ways,
        crew: &Crew,
        meter: &dyn Meter,
        report: &mut Report,
    ) -> Result<()> {
        report.missing = self.apply(ways)?;
        if self.fresh {
            return self.replace_fresh(target, ways, crew, meter, report);
        }
        if !ways.is_changed() {
            return Ok(());
        }
        match target.write(ways, &self.opener) {
            Ok(header) => report.after = Some(header),
            Err(error) => {
                if matches!(error, Error::Uncleared(_)) {
                    report.after = Some(file::regular(target.file())?.header()?);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Changes the ways in. Returns what was to be removed but has no slot, in words.
    fn apply(&self, ways: &mut Ways) -> Result<Vec<String>> {
        for &number in &self.changes.remove_slots {
            ways.remove_slot(number)?;
        }
        let keys = self.removed.iter().filter(|id| !ways.remove_key(id)).map(|id| format!("the key {id}"));
        let mut missing: Vec<_> = keys.collect();
        let recipients = self.removed_recipients.iter().filter(|text| !ways.remove_recipient(text));
        missing.extend(recipients.map(|text| format!("the recipient {text}")));
        let services = self.changes.remove_services.iter().filter(|uri| !ways.remove_service(uri));
        missing.extend(services.map(|uri| format!("the key service {uri}")));
        if self.changes.remove_passwords && !ways.remove_passwords() {
            missing.push("a password".into());
        }
        let added = self.added.get().expect("the action was prepared");
        added.recipients.iter().for_each(|recipient| ways.add(recipient));
        if let Some((opener, password)) = &added.password
            && !ways.open_to(opener)?
        {
            ways.add(password);
        }
        Ok(missing)
    }

    /// Protects the file again under a new file key, and puts the new file into its place.
    fn replace_fresh(
        &self,
        target: &InPlace,
        ways: &Ways,
        crew: &Crew,
        meter: &dyn Meter,
        report: &mut Report,
    ) -> Result<()> {
        let recipients = ways.recipients(&self.opener)?;
        let protected = ProtectedFile::open(file::regular(target.file())?, &self.opener)?;
        let new = NewFile::with_chunk_size(protected.suite(), protected.chunk_size(), &recipients)?;
        let made = Made::default();
        let output = target.successor(Existing::Replace(&made))?;
        meter.begin();
        // A storage in league with somebody may answer differently when a file is read again, so what counts is what was opened and
        // sealed.
        let (opened, sealed) = (Recorder::new(&()), Recorder::new(meter));
        let sink = Sink::ranged(file::Disk::synced(output.file()));
        protected.protect_again(&crew.roster, new, sink, [&opened, &sealed])?;
        let (Some(opened), Some(sealed)) = (opened.contents(), sealed.contents()) else {
            return Err(CoreError::Changed.into());
        };
        output.carry(target.file(), Carry::All)?;
        let header = file::regular(output.file())?.header()?;
        // This may take minutes, so the old file is checked after it, right before the rename.
        sync_all(output.file()).map_err(Error::write)?;
        if let Some(rewritten) = &*lock(&self.rewritten) {
            rewritten.note(&opened, &sealed)?;
        }
        target.check_unchanged()?;
        let done = output.commit(Existing::Replace(&made), true).map(drop);
        if matches!(done, Ok(()) | Err(Error::Unsynced(_))) {
            report.after = Some(header);
            report.fresh = true;
        }
        done
    }
}

/// Whether a file has several names.
fn has_other_names(file: &File) -> bool {
    file.metadata().and_then(|meta| names_of_open(file, &meta)).is_ok_and(|names| names > 1)
}
