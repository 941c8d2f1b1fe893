//! `phalanx-server run`: serves.

use super::folder::Folder;
use crate::args::Run;
use crate::audit::Audit;
use crate::http::{self, Listener};
use crate::limits::Limits;
use crate::server::Server;
use crate::store::{Sqlite, Stored};
use crate::work::Work;
use phalanx_host::Error;
use phalanx_host::engines::Engines;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::signals;
use phalanx_host::verbosity::Verbosity;
use std::io;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Serves until a signal ends it.
///
/// # Errors
/// If it cannot begin.
pub fn run(run: Run, verbosity: Verbosity) -> Outcome {
    let folder = Folder::of(&run.dir)?;
    let root = folder.open_root(&run.keys, verbosity)?;
    let store = Stored::new(Sqlite::open(&folder.store()).map_err(|e| folder.blame(e))?).map_err(no_threads)?;
    let work = Work::new(Engines::new(&run.engine, verbosity)?).map_err(no_threads)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(no_threads)?;
    runtime.block_on(async {
        let server = Server::open(&root, Arc::new(store), work, Audit::default(), Limits::default()).await;
        let server = Arc::new(server.map_err(|e| folder.blame(e))?);
        let socket = folder.socket();
        let listener = Listener::unix(&socket).map_err(|e| Failure::at(&socket, Error::write(e)))?;
        let (end, ended) = oneshot::channel();
        signals::on_next(move || drop(end.send(())));
        tokio::select! {
            () = http::serve(server, listener) => {}
            _ = ended => {}
        }
        let _ = std::fs::remove_file(&socket);
        Ok(())
    })
}

fn no_threads(error: io::Error) -> Failure {
    Failure::new(Code::Other, format!("cannot start a thread: {error}"))
}
