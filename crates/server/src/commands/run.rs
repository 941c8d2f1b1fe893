//! `phalanx-server run`: serves.

use super::folder::{Folder, Why};
use super::lock::{lock_soon, say_ending};
use crate::args::{AuditArgs, Bounds, Listen, Run};
use crate::audit::{Audit, Settings};
use crate::http::{self, Edge, Ending, Listener, PeerRights, Peers, Tls, TlsFiles, Where, body};
use crate::in_flight;
use crate::limits::{self, Limits};
use crate::notify;
use crate::server::Server;
use crate::work::Work;
use listenfd::ListenFd;
use phalanx_host::engines::Engines;
use phalanx_host::failure::{Code, Failure, Outcome, worse};
use phalanx_host::lines::complain;
use phalanx_host::signals;
use phalanx_host::verbosity::Verbosity;
use rustix::fs::Mode;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// The mode of the folder's own socket: its user and root connect.
const OWN: u32 = 0o600;

/// Serves until a signal ends it.
///
/// # Errors
/// If it cannot begin.
pub fn run(run: Run, verbosity: Verbosity) -> Outcome {
    // Before there are other threads, because it changes the environment.
    let mut passed = ListenFd::from_env();
    let folder = Folder::of(&run.dir)?;
    check(&run.listen)?;
    folder.must_be_a_servers()?;
    // Everything that the server makes is for its own user.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    folder.must_be_private(false)?;
    let drain = Duration::from_secs(run.listen.drain_seconds);
    let lock = Arc::new(lock_soon(&folder, drain, verbosity)?);
    // Nothing was put back, where a restore was interrupted.
    folder.must_be_a_servers()?;
    let tls = tls(&run.listen)?;
    let root = folder.open_root(&run.keys, verbosity, Why::ToServe)?;
    let store = Arc::new(folder.open_store(&root)?);
    let work = Work::new(Engines::new(&run.engine, verbosity)?).map_err(no_threads)?;
    let audit = Audit::start(settings(&run.audit, &folder))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(no_threads)?;
    let served = runtime.block_on(async {
        let server = Server::open(&root, store.clone(), work, audit, limits_of(&run.bounds)).await;
        let mut server = server.map_err(|e| folder.blame(e))?;
        server.creates_keys = run.create_keys;
        server.folder = folder.path().to_owned();
        let server = Arc::new(server);
        drop(root);
        let listeners = listeners(&folder, &run.listen, &mut passed, tls.as_ref())?;
        if !verbosity.quiet {
            listeners.iter().filter_map(announcement).for_each(complain);
        }
        let edge = Edge::new(server.clone(), Peers::new(run.listen.peer)).map_err(no_random)?;
        reload_on_hangup(tls, server.clone());
        let ending = Ending { ends: next_signal(lock.clone()), patience: drain };
        if server.follow.is_shared() {
            drop(tokio::spawn(server.clone().follow()));
        }
        notify::ready();
        let served = http::serve(Arc::new(edge), listeners, ending).await;
        server.audit.finish().await;
        worse(store.close().await.map_err(|e| folder.blame(e)), served)
    });
    end(runtime);
    served
}

/// Refuses to send tokens and texts over a network in the clear, and rights for certificates that nobody is asked for.
fn check(listen: &Listen) -> Outcome {
    if listen.client_ca.is_none() && listen.peer.iter().any(PeerRights::is_of_certificate) {
        let failure = Failure::usage("--peer cert: needs --client-ca");
        return Err(failure.hint("without it no client shows a certificate"));
    }
    let plain = listen.tls_cert.is_none() && !listen.insecure_plaintext;
    match listen.listen.iter().find(|place| plain && place.is_open_to_others()) {
        Some(place) => {
            let failure = Failure::usage(format!("{place}: other machines could read what is sent there without TLS"));
            Err(failure.hint("--tls-cert and --tls-key give it TLS; --insecure-plaintext insists on none"))
        }
        None => Ok(()),
    }
}

fn tls(listen: &Listen) -> Outcome<Option<Arc<Tls>>> {
    let (Some(certificate), Some(key)) = (&listen.tls_cert, &listen.tls_key) else { return Ok(None) };
    let files = TlsFiles { certificate: certificate.clone(), key: key.clone(), client_ca: listen.client_ca.clone() };
    Ok(Some(Arc::new(Tls::new(files)?)))
}

fn settings(audit: &AuditArgs, folder: &Folder) -> Settings {
    let file = match &audit.audit_file {
        Some(file) if file == Path::new("-") => None,
        Some(file) => Some(file.clone()),
        None => Some(folder.path().join("audit.log")),
    };
    Settings { mode: audit.audit, file, users: audit.audit_users }
}

fn limits_of(bounds: &Bounds) -> Limits {
    let in_flight = (bounds.max_in_flight as usize) << 20;
    let connections = bounds.max_connections as usize;
    let known = Limits::default();
    Limits {
        in_flight,
        json_bytes: known.json_bytes.min(in_flight::share(in_flight) / body::COUNTS),
        requests_a_second: bounds.max_rate,
        connections,
        connections_of_one: limits::of_one(connections),
        head_seconds: bounds.head_timeout,
        idle_seconds: bounds.idle_timeout,
        keep_alive_seconds: bounds.keep_alive,
        ..known
    }
}

/// All sockets: the folder's own, those of the command line, and those that were passed on by systemd.
fn listeners(
    folder: &Folder,
    listen: &Listen,
    passed: &mut ListenFd,
    tls: Option<&Arc<Tls>>,
) -> Outcome<Vec<Listener>> {
    let mut all = vec![Listener::unix(&folder.socket(), OWN)?];
    for place in &listen.listen {
        all.push(match place {
            Where::Unix(path) => Listener::unix(path, listen.socket_mode)?,
            Where::Port(address) => Listener::port(*address, tls.cloned())?,
        });
    }
    for number in 0..passed.len() {
        let unfit = |e: io::Error| Failure::new(Code::Other, format!("socket {number} that was passed on: {e}"));
        let listener = match passed.take_unix_listener(number) {
            Ok(Some(unix)) => Listener::passed_unix(unix).map_err(unfit)?,
            Ok(None) => continue,
            Err(_) => {
                let tcp = passed.take_tcp_listener(number).map_err(unfit)?;
                let Some(tcp) = tcp else { continue };
                Listener::tcp(tcp, tls.cloned()).map_err(unfit)?
            }
        };
        if !listener.has_tls()
            && !listen.insecure_plaintext
            && listener.place().is_some_and(|place| place.is_open_to_others())
        {
            let failure = Failure::usage(format!(
                "socket {number} that was passed on: other machines could read what is sent there"
            ));
            return Err(failure.hint("--tls-cert and --tls-key give it TLS; --insecure-plaintext insists on none"));
        }
        all.push(listener);
    }
    Ok(all)
}

fn announcement(listener: &Listener) -> Option<String> {
    let tls = if listener.has_tls() { " (TLS)" } else { "" };
    listener.place().map(|place| format!("listening on {place}{tls}"))
}

/// A receiver that learns of the next signal that would end the process. The one after it does end it.
fn next_signal(lock: Arc<File>) -> oneshot::Receiver<()> {
    let (end, ends) = oneshot::channel();
    signals::on_next_order(move || {
        say_ending(&lock);
        notify::stopping();
        let _ = end.send(());
    });
    ends
}

/// Reads certificates again and opens the audit log again on SIGHUP.
fn reload_on_hangup(tls: Option<Arc<Tls>>, server: Arc<Server>) {
    signals::on_hangup(move || {
        notify::reloading();
        if let Some(Err(failure)) = tls.as_ref().map(|tls| tls.reload()) {
            let why = failure.line().unwrap_or("it cannot be read").to_owned();
            complain(format!("warning: the old certificates stay: {why}"));
        }
        server.audit.reopen();
        notify::ready();
    });
}

/// Ends what is still running after everybody had time.
fn end(runtime: Runtime) {
    runtime.shutdown_timeout(Duration::from_millis(100));
}

fn no_threads(error: io::Error) -> Failure {
    Failure::new(Code::Other, format!("cannot start a thread: {error}"))
}

fn no_random(error: getrandom::Error) -> Failure {
    Failure::new(Code::Other, format!("the system gives no random bytes: {error}"))
}
