//! Bodies, and reading them within bounds.

use crate::refusal::{Kind, Refusal};
use crate::server::Server;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body as _, Bytes};
use phalanx_core::Zeroizing;
use std::error::Error;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// A body that is received or sent.
pub type Body = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// A body of these bytes.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// No body.
pub fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A whole body. While it exists, its bytes count as in flight.
pub struct Whole {
    /// The bytes, which are wiped on drop.
    pub bytes: Zeroizing<Vec<u8>>,
    _permit: Option<OwnedSemaphorePermit>,
}

/// Takes a share of what may be in flight.
///
/// # Errors
/// If too much is in flight already.
pub fn reserve(server: &Server, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
    if bytes == 0 {
        return Ok(None);
    }
    let many = u32::try_from(bytes).unwrap_or(u32::MAX);
    let permit = server.in_flight.clone().try_acquire_many_owned(many);
    permit.map(Some).map_err(|_| Refusal::new(Kind::Busy, "too many bytes are in flight"))
}

/// Reads a whole body of at most `most` bytes.
///
/// # Errors
/// If it is longer, the client is too slow or breaks off, or too much is in flight.
pub async fn whole(server: &Server, mut body: Body, most: usize) -> Result<Whole, Refusal> {
    let too_long = || Refusal::new(Kind::TooLarge, format!("the body is longer than {most} bytes"));
    let hint = body.size_hint();
    if hint.lower() > most as u64 {
        return Err(too_long());
    }
    let announced = hint.exact().and_then(|len| usize::try_from(len).ok());
    let mut permit = reserve(server, announced.unwrap_or(0))?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(announced.unwrap_or(0)));
    while let Some(frame) = timeout(server.limits.idle(), body.frame()).await.map_err(|_| slow())? {
        let Ok(data) = frame.map_err(|_| Refusal::invalid("the body breaks off"))?.into_data() else { continue };
        let len = bytes.len() + data.len();
        if len > most {
            return Err(too_long());
        }
        if len > bytes.capacity() {
            let longer = len.max(2 * bytes.capacity()).max(4096);
            match (&mut permit, reserve(server, longer - bytes.capacity())?) {
                (Some(own), Some(more)) => own.merge(more),
                (own, more) => *own = more,
            }
            // Growing in place would leave a copy that is not wiped.
            let mut grown = Zeroizing::new(Vec::with_capacity(longer));
            grown.extend_from_slice(&bytes);
            bytes = grown;
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Whole { bytes, _permit: permit })
}

fn slow() -> Refusal {
    Refusal::new(Kind::Timeout, "the body does not come")
}
