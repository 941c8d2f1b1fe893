//! A copy of the store and of the root key, as a stream of three files. See [`crate::copies`] for its form.

use super::admins_only;
use crate::copies::{self, FILES, Writer};
use crate::http::body::Body;
use crate::http::{Call, response};
use crate::refusal::Refusal;
use crate::server::Server;
use crate::store::{Copies, Error};
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::{Bytes, Frame, SizeHint};
use phalanx_host::lines::shown;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Mutex, MutexGuard};

/// The most pieces that wait for the client.
const WAITING: usize = 4;

/// One backup is made at a time.
static ONE: Mutex<()> = Mutex::const_new(());

/// Sends a backup. Only for users of this machine, whatever a token allows.
pub(super) async fn run(call: &mut Call) -> Result<Response<Body>, Refusal> {
    call.note.action = "backup";
    admins_only(call)?;
    if call.caller.token.is_some() {
        return Err(Refusal::denied());
    }
    let server = call.server.clone();
    // If the client goes away, the copy is finished and deleted.
    let snapshot = tokio::spawn(async move { Snapshot::take(&server).await });
    let snapshot = snapshot.await.map_err(|_| Refusal::failed("a task has ended"))??;
    let (sender, pieces) = channel(WAITING);
    drop(tokio::task::spawn_blocking(move || snapshot.send(sender)));
    let mut answer = response(200, "application/octet-stream", Bytes::new());
    *answer.body_mut() = Pieces(pieces).boxed_unsync();
    Ok(answer)
}

/// Deletes what a server that was killed has left of a backup.
///
/// # Errors
/// If it cannot be deleted.
pub fn clear(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(place(folder)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn place(folder: &Path) -> PathBuf {
    folder.join(".backup")
}

/// The files as they are at one moment. They have no names any more.
struct Snapshot([File; 3]);

impl Snapshot {
    async fn take(server: &Arc<Server>) -> Result<Self, Refusal> {
        let _one: MutexGuard<()> = ONE.lock().await;
        let folder = &server.folder;
        let place = place(folder);
        let at = |path: &Path, error: io::Error| Refusal::failed(format!("{}: {error}", shown(path)));
        clear(folder).map_err(|e| at(&place, e))?;
        DirBuilder::new().mode(0o700).create(&place).map_err(|e| at(&place, e))?;
        let files = Self::fill(server, &place).await;
        let cleared = clear(folder).map_err(|e| at(&place, e));
        files.and_then(|files| cleared.map(|()| Self(files)))
    }

    async fn fill(server: &Arc<Server>, place: &Path) -> Result<[File; 3], Refusal> {
        let copies = Copies::in_folder(place);
        server.users.copy(copies.clone()).await.map_err(|error| match error {
            // The caller owns the server, and may know what is wrong with its folder.
            Error::Failed(text) => Refusal::failed(format!("{}: {text}", shown(place))),
            error => error.told(),
        })?;
        let open = |path: &Path, writes: bool| {
            let file = OpenOptions::new().read(true).write(writes).open(path);
            file.map_err(|e| Refusal::failed(format!("{}: {e}", shown(path))))
        };
        let root = open(&server.folder.join("root.phx"), false)?;
        Ok([open(&copies.rows, true)?, open(&copies.buckets, true)?, root])
    }

    /// Sends the files, until the client goes away. A failure breaks the stream off.
    fn send(mut self, sender: Sender<io::Result<Bytes>>) {
        let sent = self.write(&sender);
        if let Err(error) = sent {
            let _ = sender.blocking_send(Err(error));
        }
        // With an old copy of the buckets, old copies of the rows are of use.
        let _ = wipe(&mut self.0[1]);
    }

    fn write(&mut self, sender: &Sender<io::Result<Bytes>>) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let mut writer = Writer::new(|piece: Vec<u8>| sender.blocking_send(Ok(piece.into())).map_err(|_| gone()))?;
        for (name, file) in FILES.iter().zip(&mut self.0) {
            file.rewind()?;
            writer.file(name, file.metadata()?.len(), file)?;
        }
        writer.finish()
    }
}

/// Overwrites a file with zeros.
fn wipe(file: &mut File) -> io::Result<()> {
    let len = file.metadata()?.len();
    file.rewind()?;
    let zeros = vec![0; copies::PIECE];
    let mut left = len;
    while left > 0 {
        let now = left.min(zeros.len() as u64);
        file.write_all(&zeros[..usize::try_from(now).unwrap_or(zeros.len())])?;
        left -= now;
    }
    file.sync_data()
}

/// What another thread sends.
struct Pieces(Receiver<io::Result<Bytes>>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data).map_err(Into::into)))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
