//! Stores that take their time, and stores that cannot be reached for a while, at the moment when an upload is completed.

use crate::lies::{answer, client, options, server};
use crate::runtime::wait;
use crate::signed::Question;
use crate::upload::Upload;
use http::{Method, StatusCode};
use phalanx_core::{Recipient, SecretKey, WriteAt, protect};
use phalanx_host::file::{NewObject, OutputObject};
use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What a store is asked about one object, and whether it has it.
#[derive(Default)]
struct Asked {
    completions: AtomicUsize,
    aborts: AtomicUsize,
    /// How often it is still not found.
    hidden: AtomicUsize,
    is_made: Mutex<bool>,
}

/// Sends an object of two parts to a store that does what `completes` does when it is asked to complete it.
fn send(completes: fn(&Asked, &mut TcpStream) -> io::Result<()>) -> (io::Result<()>, Arc<Asked>) {
    let key = SecretKey::random().unwrap();
    let bytes = Arc::new(protect(&vec![7; 9 << 20], &[Recipient::key(&key)]).unwrap());
    let asked = Arc::new(Asked::default());
    let address = {
        let (asked, bytes) = (asked.clone(), bytes.clone());
        server(move |head, stream| serve(head, stream, &asked, &bytes, completes))
    };
    let mut options = options(&address, &[]);
    options.silent = Duration::from_secs(1);
    let new = NewObject { len: Some(bytes.len() as u64), ..NewObject::default() };
    let upload = Upload::create("s3://bucket/dir/f", new, &options).unwrap();
    upload.write_all_at(&bytes, 0).unwrap();
    (Box::new(upload).commit(), asked)
}

fn serve(
    head: &str,
    stream: &mut TcpStream,
    asked: &Asked,
    bytes: &[u8],
    completes: fn(&Asked, &mut TcpStream) -> io::Result<()>,
) -> io::Result<()> {
    let (method, target) = head.split_once(' ').unwrap();
    let target = target.split(' ').next().unwrap();
    match method {
        "POST" if target.ends_with("?uploads") || target.ends_with("?uploads=") => answer(
            stream,
            "200 OK",
            "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>",
        ),
        "POST" => {
            asked.completions.fetch_add(1, SeqCst);
            completes(asked, stream)
        }
        "DELETE" => {
            asked.aborts.fetch_add(1, SeqCst);
            answer(stream, "204 No Content", "")
        }
        "PUT" => stream.write_all(b"HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
        _ if !*asked.is_made.lock().unwrap() => answer(stream, "404 None", ""),
        _ if asked.hidden.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() => {
            answer(stream, "404 None", "")
        }
        _ => {
            let is_head = method == "HEAD";
            let end = if is_head { bytes.len() } else { bytes.len().min(64 << 10) };
            let (status, range) = match is_head {
                true => ("200 OK", String::new()),
                false => ("206 Part", format!("Content-Range: bytes 0-{}/{}\r\n", end - 1, bytes.len())),
            };
            write!(
                stream,
                "HTTP/1.1 {status}\r\n{range}ETag: \"e\"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
            )?;
            write!(stream, "Content-Length: {end}\r\nConnection: close\r\n\r\n")?;
            if is_head { Ok(()) } else { stream.write_all(&bytes[..end]) }
        }
    }
}

/// The answer to a completion that has made the object.
fn made(asked: &Asked, stream: &mut TcpStream) -> io::Result<()> {
    *asked.is_made.lock().unwrap() = true;
    answer(stream, "200 OK", "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>")
}

#[test]
fn a_store_that_is_making_an_object_is_not_asked_for_it_again() {
    let (done, asked) = send(|asked, stream| {
        thread::sleep(Duration::from_secs(3));
        made(asked, stream)
    });
    done.unwrap();
    assert_eq!((asked.completions.load(SeqCst), asked.aborts.load(SeqCst)), (1, 0));
}

#[test]
fn an_object_that_appears_late_is_waited_for() {
    let (done, asked) = send(|asked, stream| {
        *asked.is_made.lock().unwrap() = true;
        asked.hidden.store(2, SeqCst);
        answer(stream, "200 OK", "no sense")
    });
    done.unwrap();
    assert_eq!((asked.completions.load(SeqCst), asked.aborts.load(SeqCst)), (1, 0));
}

#[test]
fn an_object_that_was_refused_is_not_waited_for() {
    let (done, asked) = send(|asked, stream| {
        *asked.is_made.lock().unwrap() = true;
        asked.hidden.store(2, SeqCst);
        answer(stream, "400 No", "<Error><Code>InvalidPart</Code></Error>")
    });
    assert!(done.unwrap_err().to_string().contains("InvalidPart"));
    assert_eq!((asked.completions.load(SeqCst), asked.aborts.load(SeqCst)), (1, 1));
}

#[test]
fn an_outage_at_the_end_of_an_upload_is_waited_out() {
    let (done, asked) = send(|asked, stream| match asked.completions.load(SeqCst) {
        ..=6 => Ok(()),
        _ => made(asked, stream),
    });
    done.unwrap();
    assert_eq!((asked.completions.load(SeqCst), asked.aborts.load(SeqCst)), (7, 0));
}

/// It may have waited for ten minutes for the last answer, and would wait for as long again.
#[test]
fn a_request_that_has_taken_too_long_is_not_repeated() {
    for is_silent in [false, true] {
        let asked = Arc::new(AtomicUsize::new(0));
        let address = {
            let asked = asked.clone();
            server(move |_, stream| {
                asked.fetch_add(1, SeqCst);
                if is_silent { Ok(()) } else { answer(stream, "503 Busy", "") }
            })
        };
        let client = client(&address);
        let mut signed = client.parts.unwrap().signed.unwrap();
        let question = Question { method: Method::PUT, object: client.key, query: Vec::new(), headers: Vec::new() };
        signed.retrying = Duration::ZERO;
        let answer = wait(signed.ask(&question));
        match is_silent {
            false => assert_eq!(answer.unwrap().0, StatusCode::SERVICE_UNAVAILABLE),
            true => assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::NotConnected),
        }
        assert_eq!(asked.load(SeqCst), 1);
    }
}
