//! A small client of HTTP/1.1 which sends exactly what a test says.

use super::PATIENCE;
use rustix::net::{AddressFamily, SocketType};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// What both kinds of sockets can do.
pub trait Socket: Send {
    fn reader(&self) -> io::Result<Box<dyn Read + Send>>;
    fn writer(&self) -> io::Result<Box<dyn Write + Send>>;
    fn end_sending(&self) -> io::Result<()>;
}

macro_rules! socket {
    ($stream:ty) => {
        impl Socket for $stream {
            fn reader(&self) -> io::Result<Box<dyn Read + Send>> {
                Ok(Box::new(self.try_clone()?))
            }
            fn writer(&self) -> io::Result<Box<dyn Write + Send>> {
                Ok(Box::new(self.try_clone()?))
            }
            fn end_sending(&self) -> io::Result<()> {
                self.shutdown(Shutdown::Write)
            }
        }
    };
}

socket!(UnixStream);
socket!(TcpStream);

/// A connection. Requests may be sent one after another, and sent before earlier ones are answered.
pub struct Client {
    socket: Box<dyn Socket>,
    reader: BufReader<Box<dyn Read + Send>>,
    writer: Box<dyn Write + Send>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {} {:?}", self.status, self.text()))
    }
}

impl Client {
    /// Connects to a Unix socket.
    pub fn unix(path: &Path) -> Self {
        Self::try_unix(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Connects to a Unix socket, or fails.
    pub fn try_unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Self::on(Box::new(stream))
    }

    /// Connects to an address such as `127.0.0.1:41234`.
    pub fn tcp(address: &str) -> Self {
        Self::by_tcp(TcpStream::connect(address).unwrap_or_else(|e| panic!("{address}: {e}")))
    }

    /// Connects as another machine would, from another address of this one, such as `127.0.0.2`.
    pub fn tcp_from(from: &str, address: &str) -> Self {
        let [from, address] =
            [format!("{from}:0"), address.to_owned()].map(|text| text.parse::<SocketAddr>().expect("an address"));
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("no socket");
        rustix::net::bind(&socket, &from).expect("no such address");
        rustix::net::connect(&socket, &address).unwrap_or_else(|e| panic!("{address}: {e}"));
        Self::by_tcp(socket.into())
    }

    fn by_tcp(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self::on(Box::new(stream)).expect("a connection")
    }

    /// Speaks over a socket that is connected.
    pub fn on(socket: Box<dyn Socket>) -> io::Result<Self> {
        let (reader, writer) = (BufReader::new(socket.reader()?), socket.writer()?);
        Ok(Self { socket, reader, writer })
    }

    /// Sends a request and reads its answer.
    pub fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.try_request(method, path, headers, body).unwrap_or_else(|e| panic!("{method} {path}: {e}"))
    }

    /// Sends a request and reads its answer, or fails.
    pub fn try_request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        self.send(method, path, headers, body)?;
        self.answer_to(method)
    }

    /// Sends a request.
    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<()> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        if !body.is_empty() || matches!(method, "POST" | "PUT") {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        self.raw(&[head.as_bytes(), body].concat())
    }

    /// Sends these bytes.
    pub fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes)?;
        self.writer.flush()
    }

    /// Sends on another thread.
    pub fn writer(&self) -> Box<dyn Write + Send> {
        self.socket.writer().expect("a second handle")
    }

    /// Sends nothing more, and still reads.
    pub fn end_sending(&mut self) {
        self.socket.end_sending().expect("the socket cannot be closed");
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// If the connection ends before the answer does, or it is no HTTP.
    pub fn answer(&mut self) -> io::Result<Answer> {
        self.answer_to("GET")
    }

    /// Reads an answer to a request with this method: that to HEAD has no body.
    ///
    /// # Errors
    /// If the connection ends before the answer does, or it is no HTTP.
    pub fn answer_to(&mut self, method: &str) -> io::Result<Answer> {
        loop {
            let mut answer = self.head()?;
            if answer.status / 100 == 1 {
                continue;
            }
            if method != "HEAD" && answer.status != 204 && answer.status != 304 {
                answer.body = self.body(&answer)?;
            }
            return Ok(answer);
        }
    }

    /// Reads the head of an answer.
    ///
    /// # Errors
    /// If the connection ends before it does, or it is no HTTP.
    pub fn head(&mut self) -> io::Result<Answer> {
        let line = self.line()?;
        let status = line.strip_prefix("HTTP/1.").and_then(|line| line.get(2..5)).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status: {line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(Answer { status, headers, body: Vec::new() });
            }
            let (name, value) = line.split_once(':').ok_or_else(|| io::Error::other(format!("no header: {line:?}")))?;
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }

    fn body(&mut self, head: &Answer) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if head.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            while self.chunk(&mut body)? {}
        } else if let Some(len) = head.header("content-length") {
            let len = len.parse::<u64>().map_err(io::Error::other)?;
            self.reader.by_ref().take(len).read_to_end(&mut body)?;
            if body.len() as u64 != len {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        } else {
            self.reader.read_to_end(&mut body)?;
        }
        Ok(body)
    }

    /// Reads the body of an answer as far as it came.
    pub fn body_so_far(&mut self, head: &Answer) -> Vec<u8> {
        if head.header("transfer-encoding").is_none() {
            return self.body(head).unwrap_or_default();
        }
        let mut body = Vec::new();
        while matches!(self.chunk(&mut body), Ok(true)) {}
        body
    }

    /// Reads a chunk, and returns whether there are more.
    fn chunk(&mut self, body: &mut Vec<u8>) -> io::Result<bool> {
        let line = self.line()?;
        let len = u64::from_str_radix(line.split(';').next().unwrap_or("").trim(), 16).map_err(io::Error::other)?;
        let before = body.len() as u64;
        self.reader.by_ref().take(len).read_to_end(body)?;
        if body.len() as u64 - before != len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let _end = self.line()?;
        Ok(len > 0)
    }

    /// Whether the server has closed the connection, which is waited for.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => rest.is_empty(),
            Err(e) => e.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}
