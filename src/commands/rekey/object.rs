//! `rekey` of an object in a store. A new object takes the place of the old one at once, or not at all.

use super::{Rekey, Report};
use phalanx_core::format::Header;
use phalanx_core::{Error as CoreError, NewFile, OpenedBy, Progress, ProtectedFile, Sink, Source, Ways, WriteAt};
use phalanx_host::engines::Crew;
use phalanx_host::file::{InputObject, OutputObject, Unfinished, Url, stores};
use phalanx_host::lines::shown;
use phalanx_host::lock::lock;
use phalanx_host::mirror::MANIFEST;
use phalanx_host::transfer::meter::Meter;
use phalanx_host::words::size;
use phalanx_host::{Error, Result};
use std::io;
use std::path::Path;
use std::sync::Mutex;

/// So many bytes are passed on at once.
const PIECE: usize = 1 << 20;

/// No header is longer, in bytes.
const HEADER: usize = 64 << 10;

impl Rekey {
    /// Changes an object. What has changed is reported even if something fails after it.
    pub fn change_object(&self, object: &dyn InputObject, crew: &Crew, meter: &dyn Meter) -> Result<OpenedBy> {
        let mut ways = Ways::read(&mut Source::ranged(object), &self.opener)?;
        let mut report = Report::new(ways.header(), ways.opened_slot(), Unfinished::None);
        let done = self.replace_object(object, &mut ways, crew, meter, &mut report);
        self.note(&ways, report, done)
    }

    fn replace_object(
        &self,
        object: &dyn InputObject,
        ways: &mut Ways,
        crew: &Crew,
        meter: &dyn Meter,
        report: &mut Report,
    ) -> Result<()> {
        report.missing = self.apply(ways)?;
        if !self.fresh && !ways.is_changed() {
            return Ok(());
        }
        meter.begin();
        let (new, header) = if self.fresh {
            self.protect_again(object, ways, crew, meter)?
        } else {
            let header = ways.changed(&self.opener)?;
            if header.bytes() == ways.header().bytes() {
                report.after = Some(header);
                return Ok(());
            }
            (self.with_header(object, &header, meter)?, header)
        };
        new.commit_over(&object.version()).map_err(Error::write)?;
        report.after = Some(header);
        report.fresh = self.fresh;
        if self.fresh && is_in_mirror(object.url()) {
            lock(&self.unlisted).push(object.url().path().to_owned());
        }
        Ok(())
    }

    /// The object with another header.
    fn with_header(
        &self,
        object: &dyn InputObject,
        header: &Header,
        meter: &dyn Meter,
    ) -> Result<Box<dyn OutputObject>> {
        if let Some(new) = object.with_start(header.bytes(), meter).map_err(Error::write)? {
            return Ok(new);
        }
        let len = object.size().map_err(Error::read)?;
        let line = "the store copies no parts of objects, so all of it is received and sent again";
        self.reporter.note(format!("{}: {line}: {} each way", shown(object.url().path()), size(len)));
        let new = object.successor(Some(len)).map_err(Error::write)?;
        new.write_all_at(header.bytes(), 0).map_err(Error::write)?;
        pass_on(object, &*new, header.bytes().len() as u64..len, meter)?;
        Ok(new)
    }

    /// The object under a new file key, and its header.
    fn protect_again(
        &self,
        object: &dyn InputObject,
        ways: &Ways,
        crew: &Crew,
        meter: &dyn Meter,
    ) -> Result<(Box<dyn OutputObject>, Header)> {
        let recipients = ways.recipients(&self.opener)?;
        let protected = ProtectedFile::open(Source::ranged(object.ahead(0)), &self.opener)?;
        let new = NewFile::with_chunk_size(protected.suite(), protected.chunk_size(), &recipients)?;
        let output = object.successor(object.size().ok()).map_err(Error::write)?;
        let sink = Begun { output: &*output, start: Mutex::default() };
        protected.protect_again(&crew.roster, new, Sink::ranged(&sink), [&(), meter])?;
        let header = Header::read(&mut &lock(&sink.start)[..])?;
        Ok((output, header))
    }
}

/// Sends a range of an object as the same range of another one.
fn pass_on(
    from: &dyn InputObject,
    to: &dyn OutputObject,
    range: std::ops::Range<u64>,
    progress: &dyn Progress,
) -> Result<()> {
    let (source, mut piece, mut at) = (from.ahead(range.start), vec![0; PIECE], range.start);
    while at < range.end {
        let most = PIECE.min(usize::try_from(range.end - at).unwrap_or(PIECE));
        let len = source.read_at(&mut piece[..most], at).map_err(Error::read)?;
        if len == 0 {
            return Err(CoreError::Changed.into());
        }
        to.write_all_at(&piece[..len], at).map_err(Error::write)?;
        at += len as u64;
        progress.advance(len as u64);
    }
    Ok(())
}

/// An object that is written, and the bytes that its header is among.
struct Begun<'a> {
    output: &'a dyn OutputObject,
    start: Mutex<Vec<u8>>,
}

impl WriteAt for Begun<'_> {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if offset == 0 {
            *lock(&self.start) = bytes[..bytes.len().min(HEADER)].to_vec();
        }
        self.output.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.output.set_len(len)
    }

    fn abort(&self) {
        self.output.abort();
    }
}

/// Whether a folder that an object lies in has a manifest.
fn is_in_mirror(url: &Url) -> bool {
    let mut above = url.text();
    while let Some((folder, _)) = above.rsplit_once('/').filter(|(folder, _)| !folder.ends_with('/')) {
        above = folder;
        let folder = Url::of(Path::new(folder)).and_then(|folder| stores().ok()?.folder(&folder).ok());
        if folder.is_some_and(|folder| folder.open(MANIFEST).is_ok()) {
            return true;
        }
    }
    false
}
