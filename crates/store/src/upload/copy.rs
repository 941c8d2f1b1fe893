//! An object that begins otherwise than another one, and goes on as that does. The store copies what stays, if it can.

use super::{State, Upload};
use crate::client::Client;
use crate::cut::{Cut, PART};
use crate::error::{self, changed, refusal};
use crate::list::Pages;
use crate::options::Options;
use crate::pinned::Pinned;
use crate::runtime::wait;
use crate::signed::{Question, Signed, is_busy};
use http::{Method, StatusCode};
use object_store::path::Path;
use phalanx_core::{Progress, WriteAt};
use phalanx_host::file::{NewObject, Url};
use serde::Deserialize;
use std::fmt::Write;
use std::io;
use std::ops::Range;

/// What parts are copied from.
#[derive(Clone)]
struct Source {
    signed: Signed,
    key: Path,
    /// The bucket and the name, as a header has them.
    name: String,
    e_tag: String,
}

/// What a store says of a part that it has copied.
#[derive(Deserialize)]
struct Copied {
    #[serde(rename = "ETag")]
    e_tag: String,
}

/// A list of parts in the answer of a store.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct List {
    #[serde(default, rename = "Part")]
    parts: Vec<Listed>,
    #[serde(default)]
    is_truncated: bool,
    next_part_number_marker: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    part_number: u64,
    size: u64,
}

impl Upload {
    /// Makes all parts of an object that begins with `start`, and goes on as the other one does. `None` if the store cannot
    /// copy them. Small objects are sent as a whole.
    ///
    /// # Errors
    /// If the store fails, or the object has changed.
    pub(crate) fn with_start(
        object: &Pinned,
        url: &Url,
        start: &[u8],
        options: &Options,
        progress: &dyn Progress,
    ) -> io::Result<Option<Self>> {
        object.client().writing()?;
        let len = object.len();
        let first = start.len() as u64..len.min(PART);
        if first.start > first.end {
            return Err(refusal("it is shorter than its new header"));
        }
        let new = NewObject { replaces: true, len: Some(len), resume: false };
        if len <= PART {
            let upload = Self::of(object.client().clone(), url, new, options)?;
            let sent = upload.send_start(object, start, first, progress);
            return upload.unless_it_ends(sent).map(|()| Some(upload));
        }
        let Some((source, client)) = Source::of(object)? else { return Ok(None) };
        let upload = Self::of(client, url, new, options)?;
        let made = (|| {
            let parts = upload.copy_rest(&source, len, progress)?;
            upload.send_start(object, start, first, progress)?;
            upload.check_parts(&source, 0..parts)
        })();
        match upload.unless_it_ends(made) {
            Err(e) if e.kind() == io::ErrorKind::Unsupported => Ok(None),
            made => made.map(|()| Some(upload)),
        }
    }

    /// Sends the first part.
    fn send_start(&self, object: &Pinned, start: &[u8], rest: Range<u64>, progress: &dyn Progress) -> io::Result<()> {
        self.write_all_at(start, 0)?;
        if !rest.is_empty() {
            self.write_all_at(&wait(object.fetch(rest.clone()))?, rest.start)?;
        }
        progress.advance(rest.end);
        Ok(())
    }

    /// Has the store copy all parts but the first one. Returns how many parts there are.
    fn copy_rest(&self, source: &Source, len: u64, progress: &dyn Progress) -> io::Result<u64> {
        let cut = Cut::copied(len)?;
        let parts = cut.index(len - 1) + 1;
        {
            let mut state = self.shared.lock();
            (state.cut, state.end) = (cut, len);
        }
        // The first copy shows whether the store can do it at all.
        self.copy_part(source, 1)?;
        self.check_parts(source, 1..2)?;
        let mut counted = 0;
        for index in 2..=parts {
            // After the last one, all are waited for.
            let most = if index == parts { 0 } else { self.requests as usize - 1 };
            let copied = self.wait_until_under_way(self.shared.lock(), most)?.copied();
            progress.advance(copied - counted);
            counted = copied;
            if index < parts {
                self.copy_part(source, index)?;
            }
        }
        Ok(parts)
    }

    /// Begins to copy a part.
    fn copy_part(&self, source: &Source, index: u64) -> io::Result<()> {
        let (shared, source) = (self.shared.clone(), source.clone());
        let mut state = self.shared.lock();
        let range = state.range(index);
        let copy = async move { source.copy(&shared.upload().await?, index, range).await };
        self.request(&mut state, index, copy)
    }

    /// Waits for these parts, and checks that the store has them and no others, as long as they should be.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] if not: the store has copied something else than it was asked to.
    fn check_parts(&self, source: &Source, parts: Range<u64>) -> io::Result<()> {
        let (wanted, upload): (Vec<_>, _) = {
            let state = self.wait_until_under_way(self.shared.lock(), 0)?;
            let len = |index| state.range(index).end - state.range(index).start;
            (parts.map(|index| (index + 1, len(index))).collect(), state.upload.clone().unwrap_or_default())
        };
        if wait(source.listed(&upload))? == wanted { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
    }
}

impl State {
    /// Where a part lies in an object whose length is known.
    fn range(&self, index: u64) -> Range<u64> {
        let part = self.cut.part(index);
        part.start..part.end.min(self.end)
    }

    /// How many bytes have been copied.
    fn copied(&self) -> u64 {
        let parts = self.done.keys().map(|index| self.range(*index));
        parts.map(|range| range.end - range.start).sum()
    }
}

impl Source {
    /// The object, and the client that sends what is not copied from it. `None` if the store cannot copy parts, or cannot
    /// promise of which version they are.
    ///
    /// # Errors
    /// If the client cannot be made.
    fn of(object: &Pinned) -> io::Result<Option<(Self, Client)>> {
        let mut client = object.client().clone();
        let parts = client.parts.as_mut();
        let Some((parts, e_tag)) = parts.zip(object.e_tag()) else { return Ok(None) };
        let Some((plain, signed)) = parts.plain.as_ref().zip(parts.signed.clone()) else { return Ok(None) };
        // Some stores do not know the checksum of a part that they have copied.
        parts.store = plain()?;
        let name = format!("{}/{}", signed.bucket, encoded(client.key.as_ref()));
        let source = Self { signed, key: client.key.clone(), name, e_tag: e_tag.to_owned() };
        Ok(Some((source, client)))
    }

    /// Copies a range as a part of an upload. Returns the name of the part.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] if the store cannot do that. If the object has changed, or the store fails.
    async fn copy(&self, upload: &str, index: u64, range: Range<u64>) -> io::Result<String> {
        let question = Question {
            method: Method::PUT,
            object: self.key.clone(),
            query: vec![("partNumber", (index + 1).to_string()), ("uploadId", upload.to_owned())],
            headers: vec![
                ("x-amz-copy-source", self.name.clone()),
                ("x-amz-copy-source-if-match", self.e_tag.clone()),
                ("x-amz-copy-source-range", format!("bytes={}-{}", range.start, range.end - 1)),
            ],
        };
        let (status, body) = self.signed.ask(&question).await?;
        match status {
            // A store that knows no copies takes it for a part without bytes.
            status if status.is_success() => name_of(&body).ok_or_else(|| io::ErrorKind::Unsupported.into()),
            StatusCode::PRECONDITION_FAILED => Err(changed()),
            status => Err(refused(status)),
        }
    }

    /// The numbers and lengths of an upload's parts.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] if the store cannot say them. If the store fails.
    async fn listed(&self, upload: &str) -> io::Result<Vec<(u64, u64)>> {
        let (mut found, mut after, mut pages) = (Vec::new(), None, Pages::default());
        loop {
            let mut query = vec![("uploadId", upload.to_owned())];
            query.extend(after.map(|marker| ("part-number-marker", marker)));
            let question = Question { method: Method::GET, object: self.key.clone(), query, headers: Vec::new() };
            let (status, body) = self.signed.ask(&question).await?;
            if !status.is_success() {
                return Err(refused(status));
            }
            let list: List = quick_xml::de::from_reader(&body[..]).map_err(|_| io::ErrorKind::Unsupported)?;
            let is_end = list.parts.is_empty() || !list.is_truncated;
            if !is_end {
                pages.check(list.parts.iter().map(|part| part.part_number), 0)?;
            }
            found.extend(list.parts.into_iter().map(|part| (part.part_number, part.size)));
            after = match list.next_part_number_marker {
                Some(marker) if !is_end => Some(marker),
                _ => return Ok(found),
            };
        }
    }
}

/// The error of a status that is no success. What a store refuses to do, it cannot do.
fn refused(status: StatusCode) -> io::Error {
    match status {
        StatusCode::NOT_FOUND => error::missing(),
        status if is_busy(status) => io::Error::other(format!("the store copies no part now: {status}")),
        _ => io::ErrorKind::Unsupported.into(),
    }
}

/// The name of a part that was copied.
fn name_of(body: &[u8]) -> Option<String> {
    quick_xml::de::from_reader(body).ok().map(|Copied { e_tag }| e_tag)
}

/// A name as a header of S3 has it.
fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) => text.push(char::from(byte)),
            byte => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lies;

    #[test]
    fn answers_are_read() {
        let text = "<?xml version=\"1.0\"?>\n<CopyPartResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                    <LastModified>2026-01-01T00:00:00Z</LastModified><ETag>&quot;a&quot;</ETag></CopyPartResult>";
        assert_eq!(name_of(text.as_bytes()).as_deref(), Some("\"a\""));
        for text in ["", "<Error><Code>x</Code></Error>", "no"] {
            assert_eq!(name_of(text.as_bytes()), None);
        }
        let text = "<ListPartsResult><Part><PartNumber>1</PartNumber><ETag>x</ETag><Size>8</Size></Part>\
                    <IsTruncated>true</IsTruncated><NextPartNumberMarker>1</NextPartNumberMarker></ListPartsResult>";
        let list: List = quick_xml::de::from_reader(text.as_bytes()).unwrap();
        assert_eq!((list.parts[0].part_number, list.parts[0].size, list.is_truncated), (1, 8, true));
    }

    #[test]
    fn names_are_encoded() {
        assert_eq!(encoded("a b/c%20+ü~.phx"), "a%20b/c%2520%2B%C3%BC~.phx");
    }

    #[test]
    fn lists_of_parts_come_to_an_end() {
        let page = |number| {
            format!(
                "<List><Part><PartNumber>1</PartNumber><Size>8</Size></Part><IsTruncated>true</IsTruncated>\
                 <NextPartNumberMarker>{number}</NextPartNumberMarker></List>"
            )
        };
        let client = lies::client(&lies::endless(page));
        let signed = client.parts.unwrap().signed.unwrap();
        let source = Source { signed, key: client.key, name: String::new(), e_tag: String::new() };
        assert_eq!(wait(source.listed("u")).unwrap_err().to_string(), "the store's list does not end");
    }
}
