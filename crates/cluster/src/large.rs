//! Large files: one process begins and ends each of them, and all do parts of it.

use crate::files::{Ends, begin, check_input};
use crate::message::{Done, Join, Report, Request, Secret, Spot, Told};
use crate::opened::{Joined, Owned, blame};
use crate::roots::as_write;
use crate::roots::open_begun;
use crate::worker::Worker;
use phalanx_core::file::SharedFile;
use phalanx_core::{Error as CoreError, Sink, Suite};
use phalanx_host::failure::Code;
use phalanx_host::file::{self, Begun, InputFile, Output, check_close};
use phalanx_host::lines::shown;
use phalanx_host::lock::lock;
use phalanx_host::words::{arrow, size};
use phalanx_host::{Error, Result};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

const OTHER_STORAGE: &str = "use another file system, or one machine";

impl Worker<'_> {
    fn spot<'e>(&self, spot: &'e Spot) -> Result<Ends<'e>, Told> {
        self.ends(spot.tree, &spot.folder, &spot.name, spot.output.as_deref())
    }

    /// Begins a large file.
    pub fn begin(&self, file: u64, spot: &Spot, done: &mut Done) -> Result<(), Told> {
        let ends = self.spot(spot)?;
        let input = ends.open()?;
        let at = |e: Error| ends.blame(&e);
        let of_core = |e: CoreError| at(e.into());
        if self.is_done(&ends, &input)? {
            done.report.kept += 1;
            done.report.kept_bytes += input.stamp().len();
            return Ok(());
        }
        check_input(&ends, &input, None)?;
        let made = self.made();
        let existing = self.existing(&made);
        let mut folder = None;
        let resumes = self.plan.destination.resume;
        let sync = self.plan.destination.sync;
        let len = input.stamp().len();
        let mut mark = [0; 32];
        let (shared, output, goes_on);
        if self.is_protecting() {
            self.check_name(&ends, &input)?;
            // The keys come first: what they do not open leaves nothing behind.
            let new = match resumes {
                true => None,
                false => {
                    Some(self.desk.keys(Request::New { len: Some(len) }).map_err(|told| told.placed(&ends.input))?)
                }
            };
            let (dir, of) = ends.target().map_err(at)?.expect("it is protected into a file");
            folder = Some(dir.clone());
            let mut target = begin(self, dir, of, existing).map_err(at)?;
            check_input(&ends, &input, Some(&target))?;
            (shared, goes_on) = match (new, self.keys) {
                (Some(new), _) => {
                    target.file().write_all_at(new.header().bytes(), 0).map_err(|e| at(Error::write(e)))?;
                    (new, Begun::New)
                }
                (None, Some(keys)) => keys.make_or_go_on(input.stamp(), &mut target, sync).map_err(at)?,
                (None, None) => unreachable!("rank 0 begins what may go on"),
            };
            output = Some(target);
        } else {
            shared = self.open_input(&ends, &input)?;
            let layout = shared.header().layout_for_file(len).map_err(of_core)?;
            let mut target = match ends.target().map_err(at)? {
                Some((dir, of)) => {
                    folder = Some(dir.clone());
                    let target = begin(self, dir, of, existing).map_err(at)?;
                    check_input(&ends, &input, Some(&target))?;
                    Some(target)
                }
                None => None,
            };
            goes_on = match &mut target {
                Some(target) if resumes => file::begin_plaintext(&shared, input.stamp(), target, sync).map_err(at)?,
                _ => Begun::New,
            };
            output = target;
            if let Some(output) = &output {
                getrandom::fill(&mut mark).map_err(|e| of_core(CoreError::Random(e)))?;
                output.file().write_all_at(&mark, layout.plaintext_len()).map_err(|e| at(Error::write(e)))?;
            }
        }
        if let Some(output) = &output {
            // Other machines see it from now on.
            output.file().sync_all().map_err(|e| at(Error::write(e)))?;
        }
        let layout = match self.is_protecting() {
            true => shared.header().layout_for_plaintext(len),
            false => shared.header().layout_for_file(len),
        };
        let plaintext_len = layout.map_err(of_core)?.plaintext_len();
        if let Begun::Over(past) = goes_on {
            done.report.lines.push(format!("{}: {}", shown(&ends.input), phalanx_host::words::past_words(past)));
        }
        let meta = input.file().metadata().map_err(|e| at(Error::read(e)))?;
        let join = Join {
            spot: spot.clone(),
            shared: Secret::new(shared.to_bytes()),
            len,
            mtime: (meta.mtime(), meta.mtime_nsec()),
            temporary: output.as_ref().map_or(Vec::new(), |output| output.temporary_name().as_bytes().to_vec()),
            plaintext_len,
            chunk_len: 1 << shared.header().chunk_log2(),
            mark,
        };
        let paths = (ends.input, ends.output);
        self.lock_owned().insert(file, Owned { shared, input, output, dir: folder, paths, plaintext_len });
        let synced = if let Begun::Left { synced } = goes_on { Some(synced) } else { None };
        done.begun = Some((join, synced));
        Ok(())
    }

    /// Opens a large file that another process has begun, and makes sure that it is the same.
    fn join(&self, file: u64, join: &Join) -> Result<Arc<Joined>, Told> {
        if let Some(joined) = lock(&self.joined).get(&file) {
            return Ok(joined.clone());
        }
        let ends = self.spot(&join.spot)?;
        let input = ends.open()?;
        let shared = SharedFile::from_bytes(join.shared.expose()).map_err(|e| ends.blame(&e.into()))?;
        let meta = input.file().metadata().map_err(|e| ends.blame(&Error::read(e)))?;
        let differs = |path: &Path| {
            let why = "this process sees another file here than the one that began it (is the folder shared?)";
            Told::new(Code::InputOutput, format!("{}: {why}", shown(path)))
        };
        if (meta.len(), meta.mtime(), meta.mtime_nsec()) != (join.len, join.mtime.0, join.mtime.1) {
            return Err(differs(&ends.input));
        }
        if !self.is_protecting()
            && !file::begins_with(&shared, input.file()).map_err(|e| ends.blame(&Error::read(e)))?
        {
            return Err(differs(&ends.input));
        }
        let mut output = None;
        if let (Some((dir, _)), Some(path)) = (ends.target().map_err(|e| ends.blame(&e))?, &ends.output) {
            let opened = open_begun(&dir, &join.temporary).map_err(|e| ends.blame(&Error::write(e)))?;
            let is_same = match self.is_protecting() {
                true => file::begins_with(&shared, &opened),
                false => has_mark(&opened, join),
            };
            if !is_same.map_err(|e| ends.blame(&Error::write(e)))? {
                return Err(differs(path));
            }
            output = Some(opened);
        }
        let paths = (ends.input, ends.output);
        let joined = Arc::new(Joined { shared, input, output, paths, plaintext_len: join.plaintext_len });
        lock(&self.joined).insert(file, joined.clone());
        Ok(joined)
    }

    /// Does a part of a large file.
    pub fn part(&self, file: u64, join: &Join, run: Range<u64>, goes_on: bool, done: &mut Done) -> Result<(), Told> {
        let joined = self.join(file, join)?;
        let at = |e: Error| blame(&joined.paths, &e);
        let now = joined.input.file().metadata().map_err(|e| at(Error::read(e)))?;
        if (now.len(), now.mtime(), now.mtime_nsec()) != (join.len, join.mtime.0, join.mtime.1) {
            return Err(at(CoreError::Changed.into()));
        }
        let (roster, input) = (&self.engines.crew.roster, joined.input.file());
        let Joined { shared, output, .. } = &*joined;
        let missing = match output {
            Some(output) if goes_on && self.is_protecting() => {
                file::not_sealed(shared, roster, output, joined.plaintext_len, run.clone(), &*self.desk)
            }
            Some(output) if goes_on => file::not_opened(shared, roster, input, output, run.clone(), &*self.desk),
            _ => Ok(vec![run.clone()]),
        };
        let missing = missing.map_err(at)?;
        if goes_on {
            done.was_done = bytes(shared, joined.plaintext_len, &[run]) - bytes(shared, joined.plaintext_len, &missing);
        }
        let sink = match output {
            Some(output) => file::sink(output, self.plan.destination.sync),
            None => Sink::Nothing,
        };
        let source = file::regular(input).map_err(at)?;
        let moved = match self.is_protecting() {
            true => shared.seal(roster, source, sink, Some(missing), &*self.desk),
            false => shared.open(roster, source, sink, Some(missing), &*self.desk),
        };
        moved.map_err(|e| at(e.into()))?;
        // A later run need not look at what is on the disk.
        match output {
            Some(output) if self.plan.destination.resume && self.plan.destination.sync => {
                let synced = output.sync_data();
                done.lost = synced.is_err();
                synced.map_err(|e| at(Error::write(e)))
            }
            _ => Ok(()),
        }
    }

    /// Notes how far a large file that was begun here is on the disk.
    pub fn mark(&self, file: u64, synced: u64, turn: u64) -> Result<(), Told> {
        let owned = self.lock_owned();
        // It may have got its name meanwhile.
        let Some(owned) = owned.get(&file) else { return Ok(()) };
        let Some(output) = &owned.output else { return Ok(()) };
        let noted = file::note_synced(&owned.shared, output, owned.input.stamp(), self.is_protecting(), synced, turn);
        noted.map_err(|e| owned.blame(&e))
    }

    /// Closes a large file. What was written here is on the disk before, if that is wanted: other machines see it then.
    pub fn leave(&self, file: u64, syncs: bool) -> Result<(), Told> {
        let Some(joined) = lock(&self.joined).remove(&file) else { return Ok(()) };
        let Some(output) = joined.output.as_ref().filter(|_| syncs) else { return Ok(()) };
        let synced = if self.plan.destination.sync { output.sync_data() } else { Ok(()) };
        let closed = synced.map_err(Error::write).and_then(|()| check_close(output));
        closed.map_err(|e| blame(&joined.paths, &e))
    }

    /// Gives a large file its name. `edges` are chunks beside which another machine has written.
    pub fn commit(&self, file: u64, edges: &[u64], report: &mut Report) -> Result<(), Told> {
        let owned = self.lock_owned().remove(&file).expect("it was begun here");
        self.check_edges(&owned, edges)?;
        let Owned { input, output, paths, plaintext_len, .. } = owned;
        let Some(output) = output else {
            report.checked.push((paths.0.as_os_str().as_bytes().to_vec(), plaintext_len));
            report.files += 1;
            report.bytes += plaintext_len;
            return Ok(());
        };
        let at = |e: Error| blame(&paths, &as_write(e));
        let made = self.made();
        if !self.is_protecting() {
            // The mark behind its end goes.
            output.file().set_len(plaintext_len).map_err(|e| at(Error::write(e)))?;
        }
        // A write after the beginning shows here too, whoever has made it.
        let now = input.file().metadata().map_err(|e| blame(&paths, &Error::read(e)))?;
        let before = input.stamp();
        if now.len() != before.len() || !is_unchanged(&input).map_err(|e| blame(&paths, &e))? {
            return Err(blame(&paths, &CoreError::Changed.into()));
        }
        if output.is_kept() && self.plan.destination.sync {
            // This may take long. Until it is done, nobody but the user can open the file, and a later run can go on with it.
            output.sync_kept().map_err(at)?;
        }
        self.warn_of_special_bits(&paths.0, input.file(), report);
        output.carry(input.file(), self.carry).map_err(at)?;
        output.commit(self.existing(&made), self.plan.destination.sync).map_err(|e| blame(&paths, &e))?;
        report.files += 1;
        report.bytes += plaintext_len;
        if self.plan.verbosity.verbose
            && let (input, Some(to)) = &paths
        {
            report.lines.push(format!("{} {} {}: {}", shown(input), arrow(), shown(to), size(plaintext_len)));
        }
        Ok(())
    }

    /// Gives up a large file that was begun here.
    pub fn abandon(&self, file: u64, discards: bool) {
        let owned = self.lock_owned().remove(&file);
        if let Some(output) = owned.and_then(|owned| owned.output).filter(|output| discards && output.is_kept()) {
            output.discard();
        }
    }

    /// Two machines have written to the page in which one part ends and the next begins. A file system whose caches are not
    /// coherent may have lost one of the two writes. So these chunks are read once more, and done again if they are not right.
    fn check_edges(&self, owned: &Owned, edges: &[u64]) -> Result<(), Told> {
        let (Some(output), Some(dir)) = (&owned.output, &owned.dir) else { return Ok(()) };
        let at = |e: Error| owned.blame(&e);
        for run in edges.chunk_by(|a, b| a + 1 == *b).map(|run| run[0]..run[run.len() - 1] + 1) {
            // Opened anew, since this process may still see what the file was when it was begun.
            let now = || open_again(dir, output).map_err(|e| at(Error::write(e)));
            let missing = self.edge(owned, &now()?, run.clone())?;
            if missing.is_empty() {
                continue;
            }
            let why = "its file system has lost what two machines wrote side by side";
            let line =
                format!("{}: chunk {}: {why}", shown(owned.paths.1.as_deref().unwrap_or(&owned.paths.0)), run.start);
            if owned.shared.suite() == Suite::Aes256Gcm {
                return Err(Told::new(Code::InputOutput, line).hint(OTHER_STORAGE));
            }
            let (file, roster) = (now()?, &self.engines.crew.roster);
            let source = file::regular(owned.input.file()).map_err(at)?;
            let done = match self.is_protecting() {
                true => owned.shared.seal(roster, source, Sink::ranged(file::Disk::new(&file)), Some(missing), &()),
                false => owned.shared.open(roster, source, Sink::ranged(file::Disk::new(&file)), Some(missing), &()),
            };
            done.map_err(|e| at(e.into()))?;
            file.sync_data().map_err(|e| at(Error::write(e)))?;
            drop(file);
            if !self.edge(owned, &now()?, run)?.is_empty() {
                return Err(Told::new(Code::InputOutput, line).hint(OTHER_STORAGE));
            }
        }
        Ok(())
    }

    fn edge(&self, owned: &Owned, output: &File, run: Range<u64>) -> Result<Vec<Range<u64>>, Told> {
        let roster = &self.engines.crew.roster;
        let missing = match self.is_protecting() {
            true => file::not_sealed(&owned.shared, roster, output, owned.plaintext_len, run, &()),
            false => file::not_opened(&owned.shared, roster, owned.input.file(), output, run, &()),
        };
        missing.map_err(|e| owned.blame(&e))
    }
}

fn is_unchanged(input: &InputFile) -> Result<bool> {
    let now = file::Stamp::of(input.file()).map_err(Error::read)?;
    Ok(input.stamp().has_same_content(&now))
}

/// How many bytes of plaintext the chunks have.
fn bytes(shared: &SharedFile, len: u64, runs: &[Range<u64>]) -> u64 {
    let chunk = 1 << shared.header().chunk_log2();
    let of = |run: &Range<u64>| (run.end * chunk).min(len).saturating_sub(run.start * chunk);
    runs.iter().map(of).sum()
}

/// Opens a file that was begun here once more. Its name may have become another file's.
fn open_again(dir: &File, output: &Output) -> io::Result<File> {
    let file = open_begun(dir, output.temporary_name().as_bytes())?;
    let id = |file: &File| file.metadata().map(|meta| (meta.dev(), meta.ino()));
    if id(&file)? != id(output.file())? {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "somebody has put another file in its place"));
    }
    Ok(file)
}

fn has_mark(file: &File, join: &Join) -> io::Result<bool> {
    let mut there = [0; 32];
    match file.read_exact_at(&mut there, join.plaintext_len) {
        Ok(()) => Ok(there == join.mark),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}
