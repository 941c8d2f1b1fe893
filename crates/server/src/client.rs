//! How commands ask for something: over the socket of the running server or, if none runs, in this process.

mod backup;

use crate::audit::Audit;
use crate::caller::Caller;
use crate::commands::folder::{Folder, Why};
use crate::commands::lock::{is_ending, lock, waits_for_ending};
use crate::http::Call;
use crate::http::body::{self, Body};
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::rights::Rights;
use crate::server::Server;
use crate::work::Work;
use crate::{http, manage, transit};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use phalanx_core::SecretKey;
use phalanx_host::args::{EngineArgs, EngineName, OpenKeys};
use phalanx_host::engines::Engines;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::lines::{complain, shown};
use phalanx_host::verbosity::Verbosity;
use rustix::io::ioctl_fionbio;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketType};
use serde_json::Value;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

/// The most bytes of an answer.
const LONGEST: usize = 256 << 20;

/// How long a command waits for a server that begins or ends. By default a server takes a little less to end.
const PATIENCE: Duration = Duration::from_secs(12);
/// After this a command says what it waits for. If that is a server that ends, it says so at once.
const SILENCE: Duration = Duration::from_secs(1);

/// How often something is tried meanwhile.
const PAUSE: Duration = Duration::from_millis(50);

/// The way in which requests are answered.
enum Way {
    /// By the server that listens there.
    Running(PathBuf),
    /// By a server in this process, which has the folder for itself.
    Own { server: Arc<Server>, _lock: Option<File> },
}

/// What a server in this process knows from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    /// All keys and tokens.
    Everything,
    /// None of them: they may be damaged.
    Nothing,
}

/// Answers the requests of a command.
pub struct Client {
    way: Way,
    runtime: Runtime,
    /// How long a running server may take for an answer, if that is not for it to say.
    most: Option<Duration>,
}

impl Client {
    /// Connects to the server of a folder, or opens the folder with these keys.
    ///
    /// # Errors
    /// If there is no server in it, or it cannot be opened.
    pub fn new(folder: &Folder, keys: &OpenKeys, verbosity: Verbosity) -> Outcome<Self> {
        Self::connect(folder, keys, verbosity, Reads::Everything)
    }

    /// Asks the server of a folder, whether one runs or not. Each answer may take so long at most.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn running(folder: &Folder, most: Duration) -> Outcome<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_threads)?;
        Ok(Self { way: Way::Running(folder.socket()), runtime, most: Some(most) })
    }

    /// Connects to the server of a folder, or opens a folder whose store may be damaged, to check it.
    ///
    /// # Errors
    /// If there is no server in it, or its root key cannot be opened.
    pub fn to_check(folder: &Folder, keys: &OpenKeys, verbosity: Verbosity) -> Outcome<Self> {
        Self::connect(folder, keys, verbosity, Reads::Nothing)
    }

    fn connect(folder: &Folder, keys: &OpenKeys, verbosity: Verbosity, reads: Reads) -> Outcome<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_threads)?;
        let start = Instant::now();
        let mut is_told = verbosity.quiet;
        folder.must_be_a_servers()?;
        folder.must_be_private(true)?;
        loop {
            if listens(folder)? {
                return Ok(Self { way: Way::Running(folder.socket()), runtime, most: None });
            }
            match lock(folder) {
                Ok(lock) => {
                    return Self::within(runtime, folder, keys, verbosity, reads, Some(lock));
                }
                Err(failure) if start.elapsed() > PATIENCE || !folder.root().exists() => return Err(failure),
                // A server that has the folder may be about to listen, or to end.
                Err(_) => {}
            }
            if !is_told && let Some(line) = waits_for(folder, start.elapsed()) {
                complain(line);
                is_told = true;
            }
            sleep(PAUSE);
        }
    }

    /// Opens a folder that no other process knows, with its root key, to check it. Its failures are about the path that
    /// is blamed.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn alone(folder: &Folder, root: &SecretKey, blamed: &Path, verbosity: Verbosity) -> Outcome<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_threads)?;
        let server = Arc::new(runtime.block_on(open(folder, root, blamed, verbosity, Reads::Nothing))?);
        Ok(Self { way: Way::Own { server, _lock: None }, runtime, most: None })
    }

    fn within(
        runtime: Runtime,
        folder: &Folder,
        keys: &OpenKeys,
        verbosity: Verbosity,
        reads: Reads,
        lock: Option<File>,
    ) -> Outcome<Self> {
        let root = folder.open_root(keys, verbosity, Why::NoServerRuns)?;
        let server = Arc::new(runtime.block_on(open(folder, &root, &folder.store(), verbosity, reads))?);
        Ok(Self { way: Way::Own { server, _lock: lock }, runtime, most: None })
    }

    /// The most bytes of a body in JSON that the server takes.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn json_bytes(&self) -> Outcome<usize> {
        let default = Limits::default().json_bytes;
        match &self.way {
            Way::Own { server, .. } => Ok(server.limits.json_bytes),
            Way::Running(_) => {
                let told = self.get("/v2/limits")?["json_bytes"].as_u64();
                Ok(told.and_then(|bytes| usize::try_from(bytes).ok()).map_or(default, |bytes| bytes.min(default)))
            }
        }
    }

    /// Reads something.
    ///
    /// # Errors
    /// If the server cannot be reached, or refuses it.
    pub fn get(&self, path: &str) -> Outcome<Value> {
        self.ask(Method::GET, path, None).and_then(accepted)
    }

    /// Does something.
    ///
    /// # Errors
    /// If the server cannot be reached, or refuses it.
    pub fn post(&self, path: &str, body: &Value) -> Outcome<Value> {
        self.ask(Method::POST, path, Some(body)).and_then(accepted)
    }

    /// Deletes something.
    ///
    /// # Errors
    /// If the server cannot be reached, or refuses it.
    pub fn delete(&self, path: &str) -> Outcome<Value> {
        self.ask(Method::DELETE, path, None).and_then(accepted)
    }

    /// Sends a request, and returns the status and the body of its answer.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Outcome<(u16, Value)> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let (status, body) = match &self.way {
            Way::Running(socket) => {
                let answer = self.runtime.block_on(within_time(self.most, over(socket, method, path, body)));
                answer.map_err(|e| Failure::new(Code::InputOutput, format!("{}: {e}", shown(socket))).on(socket))?
            }
            Way::Own { server, .. } => self.runtime.block_on(within(server, method, path, body))?,
        };
        let value = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap_or_default() };
        Ok((status, value))
    }
}

/// What a command says that has waited so long for whoever has the folder.
fn waits_for(folder: &Folder, waited: Duration) -> Option<String> {
    if is_ending(folder) {
        return Some(waits_for_ending(folder));
    }
    let dir = shown(folder.path());
    (waited > SILENCE).then(|| format!("{dir}: waiting for the server or command that has this folder"))
}

/// Whether a server listens.
///
/// # Errors
/// If the socket is not usable.
pub fn listens(folder: &Folder) -> Outcome<bool> {
    let socket = folder.socket();
    match knock(&socket) {
        Ok(()) => Ok(true),
        Err(e) => match e.kind() {
            // So many wait already that nobody else may.
            io::ErrorKind::WouldBlock => Ok(true),
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(false),
            // Nobody can listen at a path that is too long.
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename => Ok(false),
            _ => Err(Failure::new(Code::InputOutput, format!("{}: {e}", shown(&socket))).on(&socket)),
        },
    }
}

/// Connects to a socket, and does not wait: a server that was stopped takes nobody from its queue, which may be full.
fn knock(socket: &Path) -> io::Result<()> {
    let stream = net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    ioctl_fionbio(&stream, true)?;
    Ok(net::connect(&stream, &SocketAddrUnix::new(socket)?)?)
}

async fn open(folder: &Folder, root: &SecretKey, blamed: &Path, verbosity: Verbosity, reads: Reads) -> Outcome<Server> {
    let blame = |error| Folder::blame_at(blamed, error);
    let store = Arc::new(folder.open_store(root)?);
    let engine = EngineArgs { engine: EngineName::Cpu, threads: None, paranoid: false };
    let work = Work::new(Engines::new(&engine, verbosity)?).map_err(no_threads)?;
    let mut server = match reads {
        Reads::Nothing => Server::unread(root, store, work, Audit::default(), Limits::default()),
        _ => Server::open(root, store, work, Audit::default(), Limits::default()).await.map_err(blame)?,
    };
    server.folder = folder.path().to_owned();
    Ok(server)
}

/// Waits for an answer, for so long at most.
async fn within_time<T>(most: Option<Duration>, answer: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let Some(most) = most else { return answer.await };
    let slow = || format!("the server there does not answer within {} seconds", most.as_secs());
    tokio::time::timeout(most, answer).await.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, slow())))
}

/// Connects to a server. If too many wait for it already, it is tried again.
async fn connect(socket: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(socket).await {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => tokio::time::sleep(PAUSE).await,
            connected => return connected,
        }
    }
}

/// Asks a server by its socket.
async fn over(socket: &Path, method: Method, path: &str, body: String) -> io::Result<(u16, Bytes)> {
    let stream = connect(socket).await?;
    check_peer(&stream, socket)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let connection = tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    let request = request.header("content-type", "application/json").header("x-vault-request", "true");
    let request = request.body(Full::new(Bytes::from(body))).map_err(io::Error::other)?;
    let answer = sender.send_request(request).await.map_err(io::Error::other)?;
    let status = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), LONGEST).collect().await.map_err(io::Error::other)?;
    connection.abort();
    Ok((status, body.to_bytes()))
}

/// Refuses to send anything to another user's process. Root manages the server of whoever has the folder.
fn check_peer(stream: &UnixStream, socket: &Path) -> io::Result<()> {
    let uid = stream.peer_cred()?.uid();
    let owner = || socket.parent().and_then(|folder| folder.metadata().ok()).map(|folder| folder.uid());
    if http::is_own(uid) || rustix::process::geteuid().is_root() && owner() == Some(uid) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("another user (uid {uid}) listens there")))
}

/// Asks the server in this process.
async fn within(server: &Arc<Server>, method: Method, path: &str, body: String) -> Outcome<(u16, Bytes)> {
    let mut parts = path.trim_start_matches('/').split('/').map(str::to_owned);
    let version = parts.next();
    let caller =
        Caller { name: "command".into(), account: "command".into(), rights: Arc::new(Rights::all()), token: None };
    let mut call = Call::own(server.clone(), caller, method, parts.collect(), body::full(body));
    let answer = match (be_current(server).await, version.as_deref()) {
        (Err(refusal), _) => Err(refusal),
        (Ok(()), Some("v1")) => transit::answer(&mut call).await,
        (Ok(()), _) => manage::answer(&mut call).await,
    };
    let answer: Response<Body> = answer.unwrap_or_else(|refusal| http::refused(&refusal));
    let status = answer.status().as_u16();
    let broken = |_| Failure::new(Code::Other, "an answer breaks off");
    let body = answer.into_body().collect().await.map_err(broken)?;
    Ok((status, body.to_bytes()))
}

/// Learns what other servers have changed, if that is long ago: a command may have waited for its input, and nothing else
/// asks the store in this process.
async fn be_current(server: &Server) -> Result<(), Refusal> {
    if server.is_current().is_err() { server.catch_up().await } else { Ok(()) }
}

/// The body of an answer, or the failure that it says.
fn accepted((status, body): (u16, Value)) -> Outcome<Value> {
    if status < 300 { Ok(body) } else { Err(failure(status, &body)) }
}

/// The failure that an answer says.
pub fn failure(status: u16, body: &Value) -> Failure {
    let text = body["errors"][0].as_str().map_or_else(|| format!("the server answers {status}"), str::to_owned);
    // The command line was judged before.
    let code = if status >= 500 { Code::InputOutput } else { Code::Other };
    Failure::new(code, text)
}

fn no_threads(error: io::Error) -> Failure {
    Failure::new(Code::Other, format!("cannot start a thread: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::By;
    use crate::keys::NewKey;
    use crate::server::tests::Bench;
    use phalanx_core::Suite;
    use std::sync::atomic::Ordering;

    #[tokio::test]
    async fn a_command_that_has_waited_asks_the_store_first() {
        let bench = Bench::new(true).await;
        let new = NewKey { suite: Suite::default(), shreddable: false, needs_user: false };
        bench.server.create_key(&By::Admin, "orders", new).await.unwrap();
        let encrypt = async || {
            let body = r#"{"plaintext": "YQ=="}"#.to_owned();
            let answer = within(&bench.server, Method::POST, "/v1/transit/encrypt/orders", body).await;
            answer.unwrap_or_else(|_| panic!("no answer")).0
        };
        bench.server.follow.end_lease();
        bench.switches.is_away.store(true, Ordering::SeqCst);
        assert_eq!(encrypt().await, 503);
        bench.switches.is_away.store(false, Ordering::SeqCst);
        assert_eq!(encrypt().await, 200);
    }
}
