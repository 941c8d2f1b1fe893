//! What stores answer, as one line without secrets.

use crate::location::BAD_NAME;
use object_store::{Error, path};
use phalanx_host::lines::is_hostile;
use std::error::Error as _;
use std::io;

/// Longer answers of stores are cut.
const LONGEST: usize = 200;

/// What is asked for cannot be done.
pub fn refusal(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why.into())
}

/// What a store did cannot be right.
pub fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// An object was changed while it was read.
pub fn changed() -> io::Error {
    wrong("the object has changed meanwhile")
}

/// Whether an error says that an object was changed.
pub fn is_changed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData && error.to_string() == changed().to_string()
}

/// An object exists already.
pub fn exists() -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, "exists already")
}

/// There is no such object.
pub fn missing() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "no such object or bucket")
}

/// An error of a store.
pub fn of(error: Error) -> io::Error {
    match &error {
        Error::NotFound { .. } => missing(),
        Error::AlreadyExists { .. } => exists(),
        Error::Precondition { .. } => changed(),
        Error::PermissionDenied { .. } => {
            io::Error::new(io::ErrorKind::PermissionDenied, "the store denies access to it with these credentials")
        }
        Error::Unauthenticated { .. } => {
            io::Error::new(io::ErrorKind::PermissionDenied, "the store does not accept the credentials")
        }
        Error::InvalidPath { source: path::Error::EmptySegment { path } | path::Error::BadSegment { path, .. } } => {
            wrong(format!("the store lists {path:?}: {BAD_NAME}"))
        }
        Error::NotSupported { .. } | Error::NotImplemented { .. } => {
            io::Error::new(io::ErrorKind::Unsupported, "the store cannot do that")
        }
        _ if is_denied(&error) => {
            io::Error::new(io::ErrorKind::PermissionDenied, "the store denies access to it with these credentials")
        }
        _ if is_without_credentials(&error) => {
            io::Error::new(io::ErrorKind::PermissionDenied, "no credentials were found for the store")
        }
        // It is not found when a folder is listed, too.
        _ if chain(&error).any(|cause| cause.contains("<Code>NoSuchBucket</Code>")) => missing(),
        _ => io::Error::other(line(&error)),
    }
}

/// Whether the store denies access, where the client does not say so itself: a list.
fn is_denied(error: &Error) -> bool {
    chain(error).any(|cause| cause.contains("403 Forbidden"))
}

/// Whether an error does not tell if the store has done, or may still do, what it was asked: no answer came, the answer broke
/// off or made no sense, or something has failed in the store.
pub fn is_open(error: &Error) -> bool {
    matches!(error, Error::Generic { .. }) && !chain(error).any(|cause| cause.contains("status code: 4"))
}

/// Whether no credentials were found. The last place to look for them is a server that only machines in a cloud reach.
fn is_without_credentials(error: &Error) -> bool {
    let text = error.to_string();
    ["169.254.169.254", "metadata.google.internal", "instance metadata", "token request"]
        .iter()
        .any(|sign| text.contains(sign) || chain(error).any(|cause| cause.contains(sign)))
}

fn chain(error: &Error) -> impl Iterator<Item = String> {
    let mut next = error.source();
    std::iter::from_fn(move || {
        let cause = next?;
        next = cause.source();
        Some(cause.to_string())
    })
}

/// The innermost cause in one line. Queries of URLs are left out: they may hold signatures.
fn line(error: &Error) -> String {
    let innermost = chain(error).last().unwrap_or_else(|| error.to_string());
    let outer = chain(error).next().unwrap_or_default();
    let text = if innermost.len() < 12 { outer } else { innermost };
    let text = said(&text).unwrap_or(text);
    let words = text.split_whitespace().map(|word| match word.split_once('?') {
        Some((before, query)) if before.contains("://") || query.contains('=') => before,
        _ => word,
    });
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let line: String = line.trim_end_matches(':').chars().filter(|c| !is_hostile(*c)).take(LONGEST).collect();
    line
}

/// What a store says in an answer in XML: its code and its message.
fn said(text: &str) -> Option<String> {
    let within = |name: &str| Some(text.split_once(&format!("<{name}>"))?.1.split_once(&format!("</{name}>"))?.0);
    let (code, message) = (within("Code")?, within("Message").unwrap_or_default());
    Some(format!("the store says: {code}: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_short_and_have_no_queries() {
        let source = format!("failed at https://h/x?X-Amz-Signature=abc\n  <Error>{}</Error>", "y".repeat(1000));
        let error = of(Error::Generic { store: "S3", source: source.into() });
        let line = error.to_string();
        assert!(line.len() <= LONGEST && !line.contains('\n') && !line.contains("abc"), "{line}");
        assert!(line.contains("https://h/x"), "{line}");
        let line = of(Error::Generic { store: "HTTP", source: "no GET /x.phx?X-Amz-Signature=abc here? Yes".into() });
        assert_eq!(line.to_string(), "no GET /x.phx here? Yes");
    }

    #[test]
    fn what_a_store_says_is_shown_without_its_markup() {
        let source = "400 Bad Request: <?xml version=\"1.0\"?> <Error><Code>AuthorizationHeaderMalformed</Code>\
                      <Message>the region 'x' is wrong; expecting 'us-east-1'</Message></Error>";
        let line = of(Error::Generic { store: "S3", source: source.into() }).to_string();
        let expected = "the store says: AuthorizationHeaderMalformed: the region 'x' is wrong; expecting 'us-east-1'";
        assert_eq!(line, expected);
        let source =
            "404 Not Found: <Error><Code>NoSuchBucket</Code><Message>The bucket is not there</Message></Error>";
        assert_eq!(of(Error::Generic { store: "S3", source: source.into() }).kind(), io::ErrorKind::NotFound);
        let line = of(Error::Generic { store: "S3", source: "301 Moved Permanently: ".into() }).to_string();
        assert_eq!(line, "301 Moved Permanently");
    }
}
