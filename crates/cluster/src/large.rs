//! Large files: one process begins and ends each of them, and all processes do parts of it.

use crate::files::Located;
use crate::listed::{HeadRecorder, stat_of};
use crate::message::{Done, Holds, Join, Listed, Location, Report, ReportedFailure, Request, Secret};
use crate::opened::{Joined, Owned, Paths};
use crate::roots::{as_write, open_begun};
use crate::worker::Worker;
use phalanx_core::file::SharedFile;
use phalanx_core::tree::Contents;
use phalanx_core::{Error as CoreError, Progress, Sink, Suite};
use phalanx_host::Error;
use phalanx_host::failure::Code;
use phalanx_host::file::{self, Begun, Ends, InputFile, Output, OutputRules, Stamp, Target, check_close};
use phalanx_host::lines::shown;
use phalanx_host::lock::lock;
use phalanx_host::words::{arrow, past_words, size};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// Why a large file is refused if somebody must have signed it.
const UNSEEN: &str =
    "not all of its chunks were compared with the manifest when they were opened: --division dynamic does that";
const OTHER_STORAGE: &str = "use another file system, or one machine";

/// A large file whose output has been begun.
struct Fresh {
    shared: SharedFile,
    ends: Ends,
    begun: Begun,
    /// For an output that has no header: the bytes after its end.
    mark: [u8; 32],
}

impl Worker<'_> {
    fn located<'e>(&self, location: &'e Location) -> Result<Located<'e>, ReportedFailure> {
        self.locate(location.tree, &location.folder, &location.name, location.output.as_deref())
    }

    /// Begins a large file.
    pub fn begin(&self, file: u64, location: &Location, done: &mut Done) -> Result<(), ReportedFailure> {
        let located = self.located(location)?;
        let at = |e: Error| located.blame(&e);
        let input = located.open()?;
        let stat = stat_of(input.file()).map_err(at)?;
        if self.is_done(&located, &input)? {
            done.report.written.extend(self.kept(&located, location.listed, &stat)?);
            done.report.kept += 1;
            done.report.kept_bytes += input.stamp().len();
            return Ok(());
        }
        let made = self.made();
        let (stamp, rules) = (input.stamp(), self.rules(&made));
        let Fresh { shared, ends, begun, mark } = match self.is_protecting() {
            true => self.begin_protected(&located, input, &rules)?,
            false => self.begin_opened(&located, input, &rules)?,
        };
        if let Some(output) = ends.target.file() {
            // From now on other machines see it.
            output.sync_all().map_err(|e| at(Error::write(e)))?;
        }
        let layout = match self.is_protecting() {
            true => shared.header().layout_for_plaintext(stamp.len()),
            false => shared.header().layout_for_file(stamp.len()),
        };
        let plaintext_len = layout.map_err(|e| at(e.into()))?.plaintext_len();
        if let Begun::Over(past) = begun {
            done.report.lines.push(format!("{}: {}", shown(&located.paths.input), past_words(past)));
        }
        let meta = ends.input.file().metadata().map_err(|e| at(Error::read(e)))?;
        let listed = location.listed;
        let owned = Owned { shared, ends, stamp, stat, paths: located.paths, plaintext_len, listed };
        let temporary = owned.output().map_or(Vec::new(), |output| output.temporary_name().as_bytes().to_vec());
        let join = Join {
            location: location.clone(),
            shared: Secret::new(owned.shared.to_bytes()),
            len: stamp.len(),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            temporary,
            plaintext_len,
            chunk_len: 1 << owned.shared.header().chunk_log2(),
            mark,
        };
        self.lock_owned().insert(file, owned);
        let synced = if let Begun::Left { synced } = begun { Some(synced) } else { None };
        done.begun = Some((join, synced));
        Ok(())
    }

    /// Begins the protected output of a large file, and writes its header.
    fn begin_protected(
        &self,
        located: &Located<'_>,
        input: InputFile,
        rules: &OutputRules<'_>,
    ) -> Result<Fresh, ReportedFailure> {
        let at = |e: Error| located.blame(&e);
        self.check_name(located, &input)?;
        let stamp = input.stamp();
        let mark = [0; 32];
        if !rules.resume {
            // The keys come first: if there are none, no output is left.
            let keys = self.outbox.keys(Request::New { len: Some(stamp.len()) });
            let shared = keys.map_err(|failure| failure.placed(&located.paths.input))?;
            let ends = located.begin(input, rules)?;
            let output = ends.target.file().expect("it is protected into a file");
            output.write_all_at(shared.header().bytes(), 0).map_err(|e| at(Error::write(e)))?;
            return Ok(Fresh { shared, ends, begun: Begun::New, mark });
        }
        let keys = self.keys.expect("rank 0 begins what may go on");
        let mut ends = located.begin(input, rules)?;
        let (output, sync) = ends.target.resumable().expect("it stays if the run is interrupted");
        let (shared, begun) = keys.make_or_go_on(stamp, output, sync).map_err(at)?;
        Ok(Fresh { shared, ends, begun, mark })
    }

    /// Opens a large protected file and begins its output, if there is one.
    fn begin_opened(
        &self,
        located: &Located<'_>,
        input: InputFile,
        rules: &OutputRules<'_>,
    ) -> Result<Fresh, ReportedFailure> {
        let at = |e: Error| located.blame(&e);
        let shared = self.open_input(located, &input)?;
        let stamp = input.stamp();
        let layout = shared.header().layout_for_file(stamp.len()).map_err(|e| at(e.into()))?;
        let mut ends = located.begin(input, rules)?;
        let begun = match ends.target.resumable() {
            Some((output, sync)) => file::begin_plaintext(&shared, stamp, output, sync).map_err(at)?,
            None => Begun::New,
        };
        let mut mark = [0; 32];
        if let Some(output) = ends.target.file() {
            getrandom::fill(&mut mark).map_err(|e| at(CoreError::Random(e).into()))?;
            output.write_all_at(&mark, layout.plaintext_len()).map_err(|e| at(Error::write(e)))?;
        }
        Ok(Fresh { shared, ends, begun, mark })
    }

    /// Opens a large file that has been begun, perhaps by another process, and makes sure that it is the same file.
    fn join(&self, file: u64, join: &Join) -> Result<Arc<Joined>, ReportedFailure> {
        if let Some(joined) = lock(&self.joined).get(&file) {
            return Ok(joined.clone());
        }
        let located = self.located(&join.location)?;
        let input = located.open()?;
        let shared = SharedFile::from_bytes(join.shared.expose()).map_err(|e| located.blame(&e.into()))?;
        let meta = input.file().metadata().map_err(|e| located.blame(&Error::read(e)))?;
        let differs = |path: &Path| {
            let why = "this process sees another file here than the one that began it (is the folder shared?)";
            ReportedFailure::new(Code::InputOutput, format!("{}: {why}", shown(path)))
        };
        if (meta.len(), meta.mtime(), meta.mtime_nsec()) != (join.len, join.mtime.0, join.mtime.1) {
            return Err(differs(&located.paths.input));
        }
        if !self.is_protecting()
            && !file::begins_with(&shared, input.file()).map_err(|e| located.blame(&Error::read(e)))?
        {
            return Err(differs(&located.paths.input));
        }
        let mut output = None;
        if let (Some((dir, _)), Some(path)) = (located.target().map_err(|e| located.blame(&e))?, &located.paths.output)
        {
            let opened = open_begun(&dir, &join.temporary).map_err(|e| located.blame(&Error::write(e)))?;
            let is_same = match self.is_protecting() {
                true => file::begins_with(&shared, &opened),
                false => has_mark(&opened, join),
            };
            if !is_same.map_err(|e| located.blame(&Error::write(e)))? {
                return Err(differs(path));
            }
            output = Some(opened);
        }
        let plaintext_len = join.plaintext_len;
        let joined = Arc::new(Joined { shared, input, output, paths: located.paths, plaintext_len });
        lock(&self.joined).insert(file, joined.clone());
        Ok(joined)
    }

    /// Does a part of a large file.
    pub fn part(
        &self,
        file: u64,
        join: &Join,
        run: Range<u64>,
        goes_on: bool,
        done: &mut Done,
    ) -> Result<(), ReportedFailure> {
        let joined = self.join(file, join)?;
        let at = |e: Error| joined.paths.blame(&e);
        let now = joined.input.file().metadata().map_err(|e| at(Error::read(e)))?;
        if (now.len(), now.mtime(), now.mtime_nsec()) != (join.len, join.mtime.0, join.mtime.1) {
            return Err(at(CoreError::Changed.into()));
        }
        let (roster, input) = (&self.engines.crew.roster, joined.input.file());
        let Joined { shared, output, .. } = &*joined;
        let missing = match output {
            Some(output) if goes_on && self.is_protecting() => {
                file::not_sealed(shared, roster, output, joined.plaintext_len, run.clone(), &*self.outbox)
            }
            Some(output) if goes_on => file::not_opened(shared, roster, input, output, run.clone(), &*self.outbox),
            _ => Ok(vec![run.clone()]),
        };
        let missing = missing.map_err(at)?;
        if goes_on {
            done.was_done = bytes(shared, joined.plaintext_len, std::slice::from_ref(&run))
                - bytes(shared, joined.plaintext_len, &missing);
        }
        let sink = match output {
            Some(output) => file::sink(output, self.plan.destination.sync),
            None => Sink::Nothing,
        };
        let source = file::regular(input).map_err(at)?;
        let heads = join.location.listed.and_then(|_| HeadRecorder::new(&*self.outbox, run));
        let progress: &dyn Progress = heads.as_ref().map_or(&*self.outbox, |heads| heads);
        let moved = match self.is_protecting() {
            true => shared.seal(roster, source, sink, Some(missing), progress),
            false => shared.open(roster, source, sink, Some(missing), progress),
        };
        moved.map_err(|e| at(e.into()))?;
        done.heads = heads.and_then(HeadRecorder::heads);
        // A later run need not check the parts that are on the disk.
        match output {
            Some(output) if self.plan.destination.resume && self.plan.destination.sync => {
                let synced = output.sync_data();
                done.lost = synced.is_err();
                synced.map_err(|e| at(Error::write(e)))
            }
            _ => Ok(()),
        }
    }

    /// Records how much of a large file that was begun here is on the disk.
    pub fn mark(&self, file: u64, synced: u64, turn: u64) -> Result<(), ReportedFailure> {
        let owned = self.lock_owned();
        // The file may be finished by now.
        let Some(owned) = owned.get(&file) else { return Ok(()) };
        let Some(output) = owned.output() else { return Ok(()) };
        let noted = file::note_synced(&owned.shared, output, owned.stamp, self.is_protecting(), synced, turn);
        noted.map_err(|e| owned.paths.blame(&e))
    }

    /// Closes a large file. With `syncs`, this first brings what was written here to the disk, if the user wants that,
    /// and checks that it can be closed. Other machines see it then.
    pub fn leave(&self, file: u64, syncs: bool) -> Result<(), ReportedFailure> {
        let Some(joined) = lock(&self.joined).remove(&file) else { return Ok(()) };
        let Some(output) = joined.output.as_ref().filter(|_| syncs) else { return Ok(()) };
        let synced = if self.plan.destination.sync { output.sync_data() } else { Ok(()) };
        let closed = synced.map_err(Error::write).and_then(|()| check_close(output));
        closed.map_err(|e| joined.paths.blame(&e))
    }

    /// Gives a large file its name. `edges` are the chunks around the places where the parts of two machines meet.
    /// `holds` is what the stored file holds, if that is known.
    pub fn commit(
        &self,
        file: u64,
        edges: &[u64],
        holds: Option<Holds>,
        report: &mut Report,
    ) -> Result<(), ReportedFailure> {
        let owned = self.lock_owned().remove(&file).expect("it was begun here");
        let is_mended = self.check_edges(&owned, edges)?;
        let listed = self.listed(&owned, holds.filter(|_| !is_mended)).inspect_err(|_| owned.discard())?;
        let Owned { ends, stamp, stat, paths, plaintext_len, .. } = owned;
        let at = |e: Error| paths.blame(&e);
        let Ends { input, target } = ends;
        let Target::File(output, sync) = target else {
            self.checked(paths, plaintext_len, listed, report);
            return Ok(());
        };
        if !self.is_protecting() {
            // This cuts off the mark after its end.
            output.file().set_len(plaintext_len).map_err(|e| at(Error::write(e)))?;
        }
        // This finds any change of the input since it was opened.
        let now = Stamp::of(input.file()).map_err(|e| at(Error::read(e)))?;
        if !stamp.has_same_content(&now) {
            return Err(at(CoreError::Changed.into()));
        }
        self.warn_of_special_bits(&paths.input, input.file(), report);
        let made = self.made();
        let rules = self.rules(&made);
        file::carry(&input, &output, &rules).map_err(at)?;
        let written = self.written(listed, input.file(), &output, (&stat, plaintext_len)).map_err(at)?;
        if let Some(refused) = self.replace([written.as_ref()].into_iter()).pop().flatten() {
            return Err(refused);
        }
        output.commit(rules.existing, sync).map_err(|e| at(as_write(e)))?;
        report.files += 1;
        report.bytes += plaintext_len;
        report.written.extend(written);
        if self.plan.names_outputs()
            && let Paths { input, output: Some(to) } = &paths
        {
            report.lines.push(format!("{} {} {}: {}", shown(input), arrow(), shown(to), size(plaintext_len)));
        }
        Ok(())
    }

    /// What a large file holds, if it is listed. One that was opened must hold what the manifest lists. If not all
    /// chunks were done in this run, their nonces and tags are read from the stored file.
    fn listed(&self, owned: &Owned, holds: Option<Holds>) -> Result<Option<(Listed, Contents)>, ReportedFailure> {
        let Some(listed) = owned.listed else { return Ok(None) };
        let at = |e: Error| owned.paths.blame(&e);
        let contents = match (holds, owned.output()) {
            (Some(holds), _) => Ok(holds.into()),
            (None, Some(output)) if self.is_protecting() => Contents::read(output.file()),
            // What is stored by now may be another file than the one whose chunks were opened.
            (None, _) if self.plan.signers.files().next().is_some() => Err(CoreError::Read(io::Error::other(UNSEEN))),
            (None, _) => Contents::read(owned.ends.input.file()),
        };
        let contents = contents.map_err(|e| at(e.into()))?;
        listed.admit(&contents).map_err(at)?;
        Ok(Some((listed, contents)))
    }

    /// Gives up a large file that was begun here.
    pub fn abandon(&self, file: u64, discards: bool) {
        let owned = self.lock_owned().remove(&file);
        owned.filter(|_| discards).iter().for_each(Owned::discard);
    }

    /// Checks the chunks where the parts of two machines meet, and does them again if they are wrong. Both machines
    /// have written to the same page there, and a file system whose caches are not coherent may have lost one of the
    /// two writes. Returns whether some were done again.
    fn check_edges(&self, owned: &Owned, edges: &[u64]) -> Result<bool, ReportedFailure> {
        let mut is_mended = false;
        let Some(output) = owned.output() else { return Ok(false) };
        let at = |e: Error| owned.paths.blame(&e);
        for run in edges.chunk_by(|a, b| a + 1 == *b).map(|run| run[0]..run[run.len() - 1] + 1) {
            // The file is opened again, because through the old handle this process may still see older content.
            let now = || open_again(output).map_err(|e| at(Error::write(e)));
            let missing = self.edge(owned, &now()?, run.clone())?;
            if missing.is_empty() {
                continue;
            }
            is_mended = true;
            let why = "its file system has lost what two machines wrote side by side";
            let line = format!(
                "{}: chunk {}: {why}",
                shown(owned.paths.output.as_deref().unwrap_or(&owned.paths.input)),
                run.start
            );
            if owned.shared.suite() == Suite::Aes256Gcm {
                return Err(ReportedFailure::new(Code::InputOutput, line).hint(OTHER_STORAGE));
            }
            let (file, roster) = (now()?, &self.engines.crew.roster);
            let source = file::regular(owned.ends.input.file()).map_err(at)?;
            let done = match self.is_protecting() {
                true => owned.shared.seal(roster, source, Sink::ranged(file::Disk::new(&file)), Some(missing), &()),
                false => owned.shared.open(roster, source, Sink::ranged(file::Disk::new(&file)), Some(missing), &()),
            };
            done.map_err(|e| at(e.into()))?;
            file.sync_data().map_err(|e| at(Error::write(e)))?;
            drop(file);
            if !self.edge(owned, &now()?, run)?.is_empty() {
                return Err(ReportedFailure::new(Code::InputOutput, line).hint(OTHER_STORAGE));
            }
        }
        Ok(is_mended)
    }

    fn edge(&self, owned: &Owned, output: &File, run: Range<u64>) -> Result<Vec<Range<u64>>, ReportedFailure> {
        let roster = &self.engines.crew.roster;
        let missing = match self.is_protecting() {
            true => file::not_sealed(&owned.shared, roster, output, owned.plaintext_len, run, &()),
            false => file::not_opened(&owned.shared, roster, owned.ends.input.file(), output, run, &()),
        };
        missing.map_err(|e| owned.paths.blame(&e))
    }
}

/// How many bytes of plaintext the chunks have.
fn bytes(shared: &SharedFile, len: u64, runs: &[Range<u64>]) -> u64 {
    let chunk = 1 << shared.header().chunk_log2();
    let of = |run: &Range<u64>| (run.end * chunk).min(len).saturating_sub(run.start * chunk);
    runs.iter().map(of).sum()
}

/// Opens a file that was begun here again. This fails if another file has its name by now.
fn open_again(output: &Output) -> io::Result<File> {
    let file = open_begun(output.folder(), output.temporary_name().as_bytes())?;
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
