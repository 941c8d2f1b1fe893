//! What `backup` and `restore` need of a client.

use super::{Client, Way, check_peer, connect, failure};
use crate::caller::Caller;
use crate::copies::{Reader, Sink, Unfit};
use crate::http::Call;
use crate::http::body::{self, Body};
use crate::rights::Rights;
use crate::{http, manage};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::lines::shown;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The most bytes of a refusal.
const LONGEST: usize = 64 << 10;

impl Client {
    /// Receives a backup.
    ///
    /// # Errors
    /// If the server refuses or breaks off, or the sink fails.
    pub fn receive_backup(&self, sink: &mut impl Sink<Error = Failure>) -> Outcome {
        match &self.way {
            Way::Running(socket) => self.runtime.block_on(async {
                let broken = |e: io::Error| Failure::new(Code::InputOutput, format!("{}: {e}", shown(socket)));
                let answer = ask(socket).await.map_err(broken)?;
                receive(answer.map(|body| body.map_err(Into::into).boxed_unsync()), socket, sink).await
            }),
            Way::Own { server, .. } => self.runtime.block_on(async {
                let caller = Caller {
                    name: "command".into(),
                    account: "command".into(),
                    rights: Arc::new(Rights::all()),
                    token: None,
                };
                let path = vec!["manage".to_owned(), "backup".to_owned()];
                let mut call = Call::own(server.clone(), caller, Method::POST, path, body::empty());
                let answer = manage::answer(&mut call).await.unwrap_or_else(|refusal| http::refused(&refusal));
                receive(answer, &server.folder, sink).await
            }),
        }
    }

    /// Deletes users whose salts do not open, from a folder that this process has opened. Returns how many there were.
    ///
    /// # Errors
    /// If a server has the folder, or the store fails.
    pub fn drop_lost_users(&self) -> Outcome<u64> {
        let Way::Own { server, .. } = &self.way else {
            return Err(Failure::new(Code::Other, "a server has this folder"));
        };
        self.runtime.block_on(server.users.drop_lost()).map_err(|e| Failure::new(Code::InputOutput, e.to_string()))
    }
}

async fn ask(socket: &Path) -> io::Result<Response<hyper::body::Incoming>> {
    let stream = connect(socket).await?;
    check_peer(&stream, socket)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // It ends with the answer.
    drop(tokio::spawn(connection));
    let request = Request::post("/v2/manage/backup").header("host", "localhost").header("x-vault-request", "true");
    let request = request.body(Full::new(Bytes::new())).map_err(io::Error::other)?;
    sender.send_request(request).await.map_err(io::Error::other)
}

async fn receive(answer: Response<Body>, from: &Path, sink: &mut impl Sink<Error = Failure>) -> Outcome {
    let fail = |what: &str| Failure::new(Code::InputOutput, format!("{}: {what}", shown(from)));
    let status = answer.status().as_u16();
    let mut body = answer.into_body();
    let mut refusal = Vec::new();
    let mut reader = Reader::default();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(|e| fail(&format!("the backup breaks off: {e}")))?.into_data() else { continue };
        if status == 200 {
            reader.take(&piece, sink).map_err(|unfit| match unfit {
                Unfit::Sink(failure) => failure,
                Unfit::Form => fail("what the server sends is no whole backup"),
            })?;
        } else if refusal.len() + piece.len() <= LONGEST {
            refusal.extend_from_slice(&piece);
        }
    }
    if status != 200 {
        return Err(failure(status, &serde_json::from_slice(&refusal).unwrap_or_default()));
    }
    if reader.is_whole() { Ok(()) } else { Err(fail("the backup breaks off")) }
}
