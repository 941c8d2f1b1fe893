//! Stores that lie. What they answer neither ends the process nor keeps it for ever, and is never taken for done.

use crate::client::Client;
use crate::environment::Environment;
use crate::folder::Folder;
use crate::forgotten::unfinished;
use crate::location::{Location, url};
use crate::object::Object;
use crate::options::Options;
use crate::plaintext::Plaintext;
use crate::runtime::wait;
use crate::upload::abort;
use object_store::ObjectStoreExt;
use object_store::aws::AmazonS3Builder;
use phalanx_core::{KdfLimit, Opener, Recipient, SecretKey, protect};
use phalanx_host::file::ObjectFolder;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A liar stops after so many answers or MiB, so that a test that has failed ends.
const ENOUGH: usize = 3000;

/// A server that writes what `lie` does to a request: it gets the first line and the headers. Its address.
pub fn server(lie: impl Fn(&str, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, lie) = (listener.local_addr().unwrap(), Arc::new(lie));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let lie = lie.clone();
            // A client that has heard enough ends its connection.
            thread::spawn(move || serve(stream, &*lie));
        }
    });
    format!("http://{address}")
}

fn serve(mut stream: TcpStream, lie: &dyn Fn(&str, &mut TcpStream) -> io::Result<()>) -> io::Result<()> {
    let (mut reader, mut head) = (BufReader::new(stream.try_clone()?), String::new());
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let lower = head.to_lowercase();
    let len = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    io::copy(&mut reader.take(len), &mut io::sink())?;
    lie(&head, &mut stream)
}

/// An answer with its length, after which the connection ends.
pub fn answer(stream: &mut TcpStream, status: &str, body: &str) -> io::Result<()> {
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

/// How the store at an address is reached.
pub fn options(address: &str, more: &[(&str, &str)]) -> Options {
    let variables = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_REGION", "us-east-1")];
    let variables = if more.is_empty() { &variables[..] } else { more };
    let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    let environment = Some(Environment::new(variables, None));
    Options { environment, endpoint_url: Some(address.to_owned()), ..Options::default() }
}

fn folder(address: &str) -> Folder {
    Folder::at(&url("s3://bucket/dir").unwrap(), &options(address, &[])).unwrap()
}

/// The client of the object `dir/f`.
pub fn client(address: &str) -> Client {
    let location = Location::of(&url("s3://bucket/dir/f").unwrap()).unwrap();
    Client::new(&location, &options(address, &[])).unwrap()
}

/// Writes MiBs until the client ends the connection.
fn pour(stream: &mut TcpStream, poured: &AtomicUsize) -> io::Result<()> {
    for _ in 0..ENOUGH / 10 {
        stream.write_all(&vec![b' '; 1 << 20])?;
        poured.fetch_add(1, Relaxed);
    }
    Ok(())
}

#[test]
fn no_memory_is_taken_for_what_a_store_only_says() {
    let address = server(|_, stream| {
        write!(stream, "HTTP/1.1 400 No\r\nContent-Length: {}\r\nConnection: close\r\n\r\n<Error>", 1_u64 << 62)?;
        thread::sleep(Duration::from_millis(200));
        stream.write_all(b"more")
    });
    folder(&address).list().unwrap_err();
}

#[test]
fn answers_are_not_longer_than_any() {
    let poured = Arc::new(AtomicUsize::new(0));
    let address = {
        let poured = poured.clone();
        server(move |_, stream| {
            stream.write_all(b"HTTP/1.1 400 No\r\nConnection: close\r\n\r\n")?;
            pour(stream, &poured)
        })
    };
    let said = folder(&address).list().unwrap_err().to_string();
    assert!(said.contains("the store's answer is longer than any"), "{said}");
    assert!(poured.load(Relaxed) < 40);
}

#[test]
fn a_range_that_is_too_long_is_not_asked_for_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let address = {
        let asked = asked.clone();
        server(move |_, stream| {
            asked.fetch_add(1, Relaxed);
            let head =
                "HTTP/1.1 206 Part\r\nContent-Range: bytes 0-9/10\r\nETag: \"a\"\r\nContent-Length: 99999999\r\n\r\n";
            stream.write_all(head.as_bytes())?;
            pour(stream, &AtomicUsize::new(0))
        })
    };
    let said = Object::open("s3://bucket/f", &options(&address, &[])).unwrap_err().to_string();
    assert!(said.contains("more than was asked for"), "{said}");
    assert_eq!(asked.load(Relaxed), 1);
}

#[test]
fn an_object_that_was_not_deleted_is_not_taken_for_deleted() {
    let address = server(|_, stream| {
        let body = "<DeleteResult><Error><Key>other</Key><Code>No</Code><Message>no</Message></Error></DeleteResult>";
        answer(stream, "200 OK", body)
    });
    let names: Vec<String> = (0..100).map(|number| format!("{number}")).collect();
    let mut failed = folder(&address).delete(&names);
    failed.sort_by_key(|(name, _)| name.parse::<usize>().unwrap());
    assert!(failed.iter().map(|(name, _)| name).eq(&names));
    assert_eq!(failed[0].1.to_string(), "the store's answer makes no sense");
    assert_eq!(failed[99].1.to_string(), "the store has failed for others");
}

#[test]
fn an_upload_with_an_odd_name_does_not_keep_others() {
    let deleted = Arc::new(Mutex::new(Vec::new()));
    let address = {
        let deleted = deleted.clone();
        server(move |head, stream| {
            if head.starts_with("DELETE ") {
                deleted.lock().unwrap().push(head.split(' ').nth(1).unwrap().to_owned());
                return answer(stream, "204 No Content", "");
            }
            let upload = |key: &str| format!("<Upload><Key>dir/{key}</Key><UploadId>u</UploadId></Upload>");
            let body = format!("<List>{}{}</List>", upload("/a"), upload("b"));
            answer(stream, "200 OK", &body)
        })
    };
    let state = tempfile::tempdir().unwrap();
    let mut options = options(&address, &[]);
    let variables = options.environment.unwrap().all().clone();
    options.environment = Some(Environment::new(variables, Some(state.path().to_owned())));
    let said = abort(&url("s3://bucket/dir").unwrap(), true, &options).unwrap_err().to_string();
    assert_eq!(said, "the store lists an upload without the name of an object");
    assert_eq!(*deleted.lock().unwrap(), ["/bucket/dir/b?uploadId=u"]);
}

/// A server whose answers are `page`, with another number each time. After enough of them there is no other page.
pub fn endless(page: fn(usize) -> String) -> String {
    let asked = AtomicUsize::new(0);
    server(move |_, stream| {
        let number = asked.fetch_add(1, Relaxed);
        let body = match number > ENOUGH {
            true => page(number).replace("Next", "No").replace("true", "false"),
            false => page(number),
        };
        answer(stream, "200 OK", &body)
    })
}

#[test]
fn lists_come_to_an_end() {
    let same = |_: usize| {
        "<List><Contents><Key>dir/a</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>\
         <NextContinuationToken>t</NextContinuationToken></List>"
            .to_owned()
    };
    let empty = |number: usize| format!("<List><NextContinuationToken>{number}</NextContinuationToken></List>");
    for page in [same, empty] {
        let said = folder(&endless(page)).list().unwrap_err().to_string();
        assert_eq!(said, "the store's list does not end");
    }
    folder(&endless(empty)).has_objects().unwrap_err();
    let uploads = |number: usize| {
        format!(
            "<List><Upload><Key>dir/a</Key><UploadId>u</UploadId></Upload><IsTruncated>true</IsTruncated>\
             <NextKeyMarker>{number}</NextKeyMarker></List>"
        )
    };
    let signed = client(&endless(uploads)).parts.unwrap().signed.unwrap();
    let said = wait(unfinished(&signed, "")).unwrap_err().to_string();
    assert_eq!(said, "the store's list does not end");
}

/// A protected file whose end does not come with its beginning.
fn protected(key: &SecretKey) -> Vec<u8> {
    protect(&vec![7; 100_000], &[Recipient::key(key)]).unwrap()
}

#[test]
fn a_plaintext_is_read_in_pieces_of_known_length() {
    let key = SecretKey::random().unwrap();
    for lies_at_once in [true, false] {
        let (bytes, poured) = (protected(&key), Arc::new(AtomicUsize::new(0)));
        let address = {
            let poured = poured.clone();
            server(move |head, stream| {
                let range =
                    head.to_lowercase().lines().find_map(|line| Some(line.strip_prefix("range: bytes=")?.to_owned()));
                let (first, last) = range.as_ref().and_then(|range| range.split_once('-')).unwrap();
                let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
                let last = last.min(bytes.len() - 1);
                let lies = lies_at_once || first > 0;
                let len = last + 1 - first + if lies { (ENOUGH / 10) << 20 } else { 0 };
                write!(stream, "HTTP/1.1 206 Part\r\nContent-Range: bytes {first}-{last}/{}\r\n", bytes.len())?;
                write!(stream, "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nETag: \"a\"\r\n")?;
                write!(stream, "Content-Length: {len}\r\nConnection: close\r\n\r\n")?;
                stream.write_all(&bytes[first..=last])?;
                if lies { pour(stream, &poured) } else { Ok(()) }
            })
        };
        let store = AmazonS3Builder::new()
            .with_bucket_name("bucket")
            .with_endpoint(address)
            .with_allow_http(true)
            .with_access_key_id("id")
            .with_secret_access_key("secret")
            .build()
            .unwrap();
        let plain = Plaintext::new(Arc::new(store), Opener::new(key.clone(), KdfLimit::default()));
        let read = wait(async { Ok(plain.get_range(&"f".into(), 0..10).await) }).unwrap();
        let said = read.unwrap_err().to_string();
        assert!(said.contains("changed"), "{said}");
        assert!(poured.load(Relaxed) < 40);
    }
}

/// A server that passes on what it is asked, and answers 404. Its address.
fn listening() -> (String, Receiver<String>) {
    let (heard, hear): (Sender<String>, _) = mpsc::channel();
    let heard = Mutex::new(heard);
    let address = server(move |head, stream| {
        let _ = heard.lock().unwrap().send(head.to_lowercase());
        answer(stream, "404 None", "")
    });
    (address, hear)
}

#[test]
fn a_signed_address_is_not_told_to_another_server() {
    let (elsewhere, heard) = listening();
    let address = server(move |_, stream| {
        write!(stream, "HTTP/1.1 307 Elsewhere\r\nLocation: {elsewhere}/f\r\nContent-Length: 0\r\n\r\n")
    });
    let missing = Object::open(&format!("{address}/f?signature=abc"), &Options::default()).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound, "{missing}");
    let heard = heard.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(heard.starts_with("get /f ") && !heard.contains("abc") && !heard.contains("referer"), "{heard}");
}

/// A service that gives credentials to the machines of a cloud: a token, the name of a role and its credentials.
fn metadata(token: &'static str) -> (String, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let address = server(move |head, stream| {
        counted.fetch_add(1, Relaxed);
        let credentials = format!(
            r#"{{"AccessKeyId":"id","SecretAccessKey":"secret","Token":"{token}","Expiration":"2126-01-01T00:00:00Z"}}"#
        );
        let body = match head.split_whitespace().nth(1) {
            Some(target) if target.ends_with("/role") => &*credentials,
            Some(target) if target.ends_with("/token") => "t",
            _ => "role",
        };
        answer(stream, "200 OK", body)
    });
    (address, asked)
}

#[test]
fn credentials_that_no_header_may_have_are_an_error() {
    let (service, asked) = metadata(r"a\nb");
    let options = options("http://127.0.0.1:1", &[("AWS_METADATA_ENDPOINT", &service), ("AWS_REGION", "us-east-1")]);
    let said = Object::open("s3://bucket/f", &options).unwrap_err().to_string();
    assert_eq!((&*said, asked.load(Relaxed)), ("the store's answer makes no sense", 3));
}

/// The name of the next test, and the variable by which it knows that it is the child.
const PROXIED: &str = "lies::services_that_give_credentials_are_asked_without_a_proxy";
const SERVICE: &str = "PHALANX_TEST_SERVICE";

#[test]
fn services_that_give_credentials_are_asked_without_a_proxy() {
    if let Ok(service) = std::env::var(SERVICE) {
        let more = [("AWS_METADATA_ENDPOINT", &*service), ("AWS_REGION", "us-east-1")];
        Object::open("s3://bucket/f", &options("https://store.invalid", &more)).unwrap_err();
        return;
    }
    let ((service, asked), (proxy, heard)) = (metadata("t"), listening());
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", PROXIED]).env(SERVICE, service).env("HTTP_PROXY", &proxy).env("http_proxy", &proxy);
    child.env_remove("NO_PROXY").env_remove("no_proxy").env_remove("REQUEST_METHOD");
    assert!(child.output().unwrap().status.success());
    assert_eq!(asked.load(Relaxed), 3);
    assert_eq!(heard.try_iter().next(), None);
}
