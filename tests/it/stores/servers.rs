//! Real servers of objects on loopback, each started by the test that uses it.

use crate::common::{Sandbox, has, wait_for};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

pub const KEY: (&str, &str) = ("test-id", "test-secret-test-secret");
/// The account that Azurite has, with the key that its documentation publishes.
const AZURITE: (&str, &str) =
    ("devstoreaccount1", "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==");

/// A server that has a bucket named `bucket`. It ends when this is dropped.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// S3, in a folder of this machine.
    Versity,
    /// S3, in memory.
    Moto,
    Azurite,
    /// Google Cloud Storage. It is only read: it has not the calls by which clients of its other interface write.
    FakeGcs,
}

impl Kind {
    const fn program(self) -> &'static str {
        match self {
            Kind::Versity => "versitygw",
            Kind::Moto => "moto_server",
            Kind::Azurite => "azurite-blob",
            Kind::FakeGcs => "fake-gcs-server",
        }
    }
}

/// An address of this machine that nobody else has: nobody takes its port before the server does.
fn own_address() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    let [.., high, low] = std::process::id().to_be_bytes();
    let ip = Ipv4Addr::new(127, 128 + NEXT.fetch_add(1, Ordering::Relaxed) % 127, high, low);
    TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap()
}

impl Server {
    /// Starts a server, if it is installed. If not, prints a line.
    pub fn start(s: &Sandbox, kind: Kind) -> Option<Self> {
        if !has(kind.program()) {
            return None;
        }
        let address = own_address();
        let (host, port, folder) = (address.ip().to_string(), address.port().to_string(), s.path("store"));
        fs::create_dir_all(folder.join("bucket")).unwrap();
        let folder = folder.to_str().unwrap();
        let mut command = Command::new(kind.program());
        match kind {
            Kind::Versity => {
                command.env("ROOT_ACCESS_KEY", KEY.0).env("ROOT_SECRET_KEY", KEY.1);
                command.args(["--port", &address.to_string(), "posix", folder])
            }
            Kind::Moto => command.args(["-H", &host, "-p", &port]),
            Kind::Azurite => {
                command.args(["--silent", "--skipApiVersionCheck", "--blobHost", &host, "--blobPort", &port]);
                command.args(["-l", folder])
            }
            Kind::FakeGcs => {
                command.args(["-scheme", "http", "-host", &host, "-port", &port, "-backend", "memory"]);
                command.args(["-public-host", &address.to_string()])
            }
        };
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = Self { child, address, kind };
        wait_for(|| {
            assert_eq!(server.child.try_wait().unwrap(), None, "{kind:?} has ended");
            TcpStream::connect(address).is_ok()
        });
        server.make_bucket();
        Some(server)
    }

    fn make_bucket(&self) {
        match self.kind {
            Kind::Versity => {}
            Kind::Moto => drop(self.ask("PUT", "/bucket", b"")),
            Kind::FakeGcs => drop(self.ask("POST", "/storage/v1/b", br#"{"name":"bucket"}"#)),
            // Azure's requests are signed.
            Kind::Azurite => {}
        }
    }

    /// Asks without credentials, and returns the answer.
    pub fn ask(&self, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    /// The program, which reaches the server at this address: its own, or that of a proxy.
    pub fn command(&self, s: &Sandbox, at: SocketAddr, args: &[&str]) -> Command {
        let mut command = s.command(args);
        let url = format!("http://{at}");
        // Nothing of the user's own counts.
        command.env("HOME", s.path("")).env("AWS_EC2_METADATA_DISABLED", "true");
        match self.kind {
            Kind::Versity | Kind::Moto => {
                command.env("AWS_ACCESS_KEY_ID", KEY.0).env("AWS_SECRET_ACCESS_KEY", KEY.1);
                command.env("AWS_REGION", "us-east-1").env("AWS_ENDPOINT_URL", url)
            }
            Kind::FakeGcs => command.env("STORAGE_EMULATOR_HOST", url),
            Kind::Azurite => {
                let (account, key) = AZURITE;
                let endpoint = format!("{url}/{account}");
                let connection = format!("AccountName={account};AccountKey={key};BlobEndpoint={endpoint};");
                command.env("AZURE_STORAGE_CONNECTION_STRING", connection)
            }
        };
        command
    }

    /// The files in which versitygw keeps the parts of uploads that are not completed.
    pub fn unfinished_parts(s: &Sandbox) -> usize {
        fn files(folder: &std::path::Path) -> usize {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { 1 }).sum()
        }
        files(&s.path("store/bucket/.sgwtmp/multipart"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
