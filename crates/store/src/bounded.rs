//! The body of an answer: it comes in time, and is no longer than it may be. The client of a store collects some bodies
//! as they come, in memory of the length that the store says.

use crate::connection::REQUEST;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::header::RANGE;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use object_store::client::{HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody};
use std::io;
use std::time::Duration;
use tokio::time::timeout;

/// The longest answer that is not a range of an object, in bytes. A page of a list with 1000 long names fits, and the
/// parser of XML needs three seconds for the worst of this length that was tried.
const LONGEST: u64 = 16 << 20;

/// A store that says nothing is given up after this time.
pub const SILENT: Duration = Duration::from_secs(60);
/// So long it may say nothing while it makes an object of parts or of another object: it may copy all of it first.
const WORKS: Duration = REQUEST;
/// So many bytes go to a store in a second, or more: a line of 128 kbit/s.
const SLOWEST: u64 = 16 << 10;

/// What an answer to a request may be.
pub struct Bounds {
    /// How long it may take to begin.
    pub begins: Duration,
    /// How long nothing may come of it.
    silent: Duration,
    /// How many bytes of an object were asked for.
    range: Option<u64>,
}

impl Bounds {
    /// Those of the answer to a request. Where it takes no work, the store may say nothing for the time `silent`.
    pub fn of(request: &HttpRequest, silent: Duration) -> Self {
        let silent = if is_work(request) { silent.max(WORKS) } else { silent };
        // The answer does not begin before the body was sent, which is not seen from here.
        let begins = silent + Duration::from_secs(request.body().content_length() as u64 / SLOWEST);
        let range = request.headers().get(RANGE).and_then(|range| len_of(range.to_str().ok()?));
        Self { begins, silent, range: range.filter(|_| request.method() == Method::GET) }
    }

    /// The answer within these bounds.
    pub fn bound(&self, answer: HttpResponse) -> HttpResponse {
        let range = self.range.filter(|_| answer.status() == StatusCode::PARTIAL_CONTENT);
        answer.map(|body| bounded(body, range.map_or(Most::Whole(LONGEST), Most::Range), self.silent))
    }
}

/// Whether the store makes an object of parts or of another object.
fn is_work(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let has = |start: &str| query.split('&').any(|parameter| parameter.starts_with(start));
    let copies = ["x-amz-copy-source", "x-goog-copy-source", "x-ms-copy-source"];
    match *request.method() {
        Method::POST => has("uploadId="),
        Method::PUT => has("comp=blocklist") || copies.iter().any(|name| request.headers().contains_key(*name)),
        _ => false,
    }
}

/// The length of a range: `bytes=5-9` has 5 bytes.
fn len_of(range: &str) -> Option<u64> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    last.checked_sub(first)?.checked_add(1)
}

/// How many bytes may follow.
#[derive(Clone, Copy)]
enum Most {
    /// After more of them the answer is an error.
    Whole(u64),
    /// One more is passed on, and the others are left out. Whoever reads the range sees that it is too long: for an error
    /// the client would ask again.
    Range(u64),
    /// The answer has ended.
    None,
}

/// A body. It does not say how long it will be: nobody then takes the memory for it beforehand.
fn bounded(body: HttpResponseBody, most: Most, silent: Duration) -> HttpResponseBody {
    let frames = stream::unfold((body, most), move |(mut body, most)| async move {
        let frame = match most {
            Most::None => return None,
            _ => timeout(silent, body.frame()).await,
        };
        let frame = match frame {
            Ok(None) => return None,
            Ok(Some(Err(error))) => return Some((Err(error), (body, Most::None))),
            Err(_) => return Some((Err(no_answer()), (body, Most::None))),
            Ok(Some(Ok(frame))) => frame,
        };
        let len = frame.data_ref().map_or(0, Bytes::len) as u64;
        match most {
            Most::Whole(most) if len > most => Some((Err(too_long()), (body, Most::None))),
            Most::Range(most) if len > most => {
                let cut = frame.map_data(|bytes| bytes.slice(..most as usize + 1));
                Some((Ok(cut), (body, Most::None)))
            }
            Most::Whole(most) => Some((Ok(frame), (body, Most::Whole(most - len)))),
            Most::Range(most) => Some((Ok(frame), (body, Most::Range(most - len)))),
            Most::None => None,
        }
    });
    // Some ask once more after the end.
    HttpResponseBody::new(StreamBody::new(frames.fuse()))
}

fn too_long() -> HttpError {
    HttpError::new(HttpErrorKind::Decode, io::Error::other("the store's answer is longer than any"))
}

/// The error of a store that says nothing.
pub fn no_answer() -> HttpError {
    HttpError::new(HttpErrorKind::Timeout, io::Error::new(io::ErrorKind::TimedOut, "the store does not answer"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::wait;
    use http::Request;
    use object_store::client::HttpRequestBody;

    fn request(method: Method, range: &str, body: Vec<u8>) -> HttpRequest {
        Request::builder().method(method).header(RANGE, range).body(HttpRequestBody::from(body)).unwrap()
    }

    #[test]
    fn slow_lines_have_time_to_send() {
        let begins = |len| Bounds::of(&request(Method::PUT, "", vec![0; len]), SILENT).begins.as_secs();
        assert_eq!((begins(0), begins(1000), begins(8 << 20)), (60, 60, 572));
    }

    #[test]
    fn a_store_that_makes_an_object_has_time_for_it() {
        let begins = |method: Method, query: &str, header: &'static str| {
            let request = Request::builder().method(method).uri(format!("https://h/k{query}")).header(header, "x");
            Bounds::of(&request.body(HttpRequestBody::empty()).unwrap(), SILENT).begins.as_secs()
        };
        assert_eq!(begins(Method::POST, "?uploadId=u", "x"), 600);
        assert_eq!(begins(Method::PUT, "?comp=blocklist", "x"), 600);
        assert_eq!(begins(Method::PUT, "?partNumber=2&uploadId=u", "x-amz-copy-source"), 600);
        for copies in ["x-amz-copy-source", "x-goog-copy-source", "x-ms-copy-source"] {
            assert_eq!(begins(Method::PUT, "", copies), 600, "{copies}");
        }
        for (method, query) in [
            (Method::PUT, "?partNumber=2&uploadId=u"),
            (Method::PUT, "?comp=block"),
            (Method::POST, "?uploads"),
            (Method::DELETE, "?uploadId=u"),
        ] {
            assert_eq!(begins(method, query, "x"), 60, "{query}");
        }
    }

    #[test]
    fn what_a_store_does_not_say_is_not_waited_for() {
        let silent = StreamBody::new(stream::pending::<Result<_, HttpError>>());
        let bounds =
            Bounds { silent: Duration::from_millis(50), ..Bounds::of(&request(Method::GET, "", Vec::new()), SILENT) };
        let answer = bounds.bound(HttpResponse::new(HttpResponseBody::new(silent)));
        let read = wait(async { Ok(answer.into_body().bytes().await) }).unwrap();
        assert!(read.unwrap_err().to_string().contains("does not answer"));
    }

    #[test]
    fn a_range_has_one_byte_more_at_most_and_others_end_with_an_error() {
        let read = |status: StatusCode, range: &str, len: usize| {
            let mut answer = HttpResponse::new(HttpResponseBody::from(vec![7; len]));
            *answer.status_mut() = status;
            let answer = Bounds::of(&request(Method::GET, range, Vec::new()), SILENT).bound(answer);
            wait(async { Ok(answer.into_body().bytes().await) }).unwrap().map(|bytes| bytes.len()).ok()
        };
        let longest = LONGEST as usize;
        for (range, len, expected) in [("bytes=5-9", 5, 5), ("bytes=5-9", 6, 6), ("bytes=5-9", 100, 6)] {
            assert_eq!(read(StatusCode::PARTIAL_CONTENT, range, len), Some(expected));
        }
        for status in [StatusCode::OK, StatusCode::BAD_REQUEST] {
            assert_eq!(read(status, "bytes=5-9", longest), Some(longest));
            assert_eq!(read(status, "bytes=5-9", longest + 1), None);
        }
        for range in ["", "bytes=5-", "bytes=9-5", "bytes=0-18446744073709551615"] {
            assert_eq!(read(StatusCode::PARTIAL_CONTENT, range, longest + 1), None, "{range}");
        }
    }
}
