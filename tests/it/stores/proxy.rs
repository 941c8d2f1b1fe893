//! A proxy between the program and a server, which cuts, delays and corrupts as a test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// What the proxy does with a request.
pub enum Does {
    /// It passes on the request and the answer.
    Pass,
    /// It answers with this status itself.
    Answer(u16),
    /// It sends the client to another address.
    Send(String),
    /// It passes on the request, and ends the connection without an answer.
    Swallow,
    /// It passes on so many bytes of the answer's body, and ends the connection.
    Cut(usize),
    /// It passes on the answer as this function changes it.
    Change(fn(&mut Vec<u8>)),
}

/// A request, without its body.
pub struct Request {
    pub method: String,
    pub target: String,
    /// Its lines, in lower case.
    head: String,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The number of the part that it sends, from 1.
    pub fn part(&self) -> Option<usize> {
        let (_, number) = self.target.split_once("partNumber=").filter(|_| self.method == "PUT")?;
        number.split('&').next()?.parse().ok()
    }

    pub fn is_completion(&self) -> bool {
        self.method == "POST" && self.target.contains("uploadId=")
    }

    pub fn reads(&self) -> bool {
        self.method == "GET" && self.header("range").is_some()
    }
}

/// Starts a proxy. It runs until the tests end.
pub fn start(server: SocketAddr, decide: impl Fn(&Request) -> Does + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, decide) = (listener.local_addr().unwrap(), Arc::new(decide));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let decide = decide.clone();
            // A client or server that has gone ends its connection.
            thread::spawn(move || while let Some(true) = one(&stream, server, &*decide) {});
        }
    });
    address
}

/// Serves one request. Returns whether another one may follow.
fn one(client: &TcpStream, server: SocketAddr, decide: &dyn Fn(&Request) -> Does) -> Option<bool> {
    let mut reader = BufReader::new(client);
    let (head, mut body) = (head(&mut reader)?, Vec::new());
    let mut words = head.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let request = Request { method, target, head: head.to_lowercase() };
    let len: usize = request.header("content-length").and_then(|len| len.trim().parse().ok()).unwrap_or(0);
    if request.header("expect").is_some() {
        client.try_clone().ok()?.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
    }
    reader.take(len as u64).read_to_end(&mut body).ok()?;
    let does = decide(&request);
    let mut client = client;
    if let Does::Answer(status) = does {
        let text = format!("HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n");
        return client.write_all(text.as_bytes()).is_ok().then_some(true);
    }
    if let Does::Send(to) = does {
        let text = format!("HTTP/1.1 307 Elsewhere\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
        return client.write_all(text.as_bytes()).is_ok().then_some(true);
    }
    let mut answer = ask(server, &head, &body, request.method == "HEAD")?;
    match does {
        Does::Swallow => return Some(false),
        Does::Cut(len) => {
            let end = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4 + len;
            let _ = client.write_all(&answer[..end.min(answer.len())]);
            return Some(false);
        }
        Does::Change(change) => change(&mut answer),
        Does::Pass | Does::Answer(_) | Does::Send(_) => {}
    }
    client.write_all(&answer).is_ok().then_some(true)
}

/// The server's answer as a whole.
fn ask(server: SocketAddr, head: &str, body: &[u8], is_head: bool) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(server).ok()?;
    // A server that refuses it may answer before it has read all.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let mut reader = BufReader::new(stream);
    let mut answer;
    loop {
        answer = self::head(&mut reader)?.into_bytes();
        if !answer.starts_with(b"HTTP/1.1 100") {
            break;
        }
    }
    let text = String::from_utf8_lossy(&answer).to_lowercase();
    let len = text.lines().find_map(|line| line.strip_prefix("content-length: ")).and_then(|len| len.parse().ok());
    match len {
        _ if is_head => {}
        Some(len) => drop(reader.take(len).read_to_end(&mut answer).ok()?),
        None if text.contains("transfer-encoding: chunked") => loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let len = u64::from_str_radix(line.trim(), 16).ok()?;
            answer.extend_from_slice(line.as_bytes());
            reader.by_ref().take(len + 2).read_to_end(&mut answer).ok()?;
            if len == 0 {
                break;
            }
        },
        None => {}
    }
    Some(answer)
}

/// The first line and the headers, with the empty line after them.
fn head(reader: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    Some(head)
}
