//! An object that is read. All reads see the same version of it.

use crate::ahead::Ahead;
use crate::client::Client;
use crate::location::{Location, url};
use crate::options::Options;
use crate::pinned::Pinned;
use crate::runtime::wait;
use crate::upload::Upload;
use phalanx_core::{Progress, ReadAt, Snapshot};
use phalanx_host::file::{InputObject, NewObject, OutputObject, Url};
use std::io;
use std::sync::Arc;

/// An object that is read. Each read asks for the bytes that it wants. If the object changes meanwhile, reads fail.
#[derive(Debug)]
pub struct Object {
    pinned: Arc<Pinned>,
    url: Url,
    options: Options,
}

impl Object {
    /// Finds an object. This is one request, which also brings the first bytes.
    ///
    /// # Errors
    /// If the URL is none of an object, or the store fails, has no such object or gives no ranges.
    pub fn open(text: &str, options: &Options) -> io::Result<Self> {
        Self::at(&url(text)?, options)
    }

    pub(crate) fn at(url: &Url, options: &Options) -> io::Result<Self> {
        Self::of(Client::new(&Location::of(url)?, options)?, url, options)
    }

    pub(crate) fn of(client: Client, url: &Url, options: &Options) -> io::Result<Self> {
        Ok(Self { pinned: Arc::new(Pinned::find(client)?), url: url.clone(), options: options.clone() })
    }
}

impl ReadAt for Object {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let pinned = &self.pinned;
        let known = pinned.head(offset);
        let end = offset.saturating_add(buf.len() as u64).min(pinned.len());
        if !known.is_empty() {
            let len = known.len().min(buf.len());
            buf[..len].copy_from_slice(&known[..len]);
            return Ok(len);
        }
        if offset >= end {
            return Ok(0);
        }
        let bytes = wait(pinned.fetch(offset..end))?;
        buf[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.pinned.len())
    }
}

impl Snapshot for Object {
    fn is_unchanged(&self) -> io::Result<bool> {
        self.pinned.is_unchanged()
    }
}

impl InputObject for Object {
    fn ahead(&self, from: u64) -> Box<dyn Snapshot + '_> {
        Box::new(Ahead::new(self.pinned.clone(), self.options.requests, from))
    }

    fn version(&self) -> String {
        self.pinned.version()
    }

    fn url(&self) -> &Url {
        &self.url
    }

    fn successor(&self, len: Option<u64>) -> io::Result<Box<dyn OutputObject>> {
        let new = NewObject { replaces: true, len, resume: false };
        Ok(Box::new(Upload::of(self.pinned.client().clone(), &self.url, new, &self.options)?))
    }

    fn with_start(&self, start: &[u8], progress: &dyn Progress) -> io::Result<Option<Box<dyn OutputObject>>> {
        let made = Upload::with_start(&self.pinned, &self.url, start, &self.options, progress)?;
        Ok(made.map(|upload| Box::new(upload) as Box<dyn OutputObject>))
    }
}
