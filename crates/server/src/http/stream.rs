//! The stream of a connection, whichever kind it is.

use super::watch::Watch;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A stream of TLS, which reads much at once.
pub type TlsStream = tokio_rustls::server::TlsStream<BufReader<TcpStream>>;

/// A stream.
pub enum Stream {
    /// Of this machine.
    Unix(UnixStream),
    /// Of a network, in the clear.
    Tcp(TcpStream),
    /// Of a network, by TLS.
    Tls(Box<TlsStream>),
}

/// Passes a call on to the stream that it is.
macro_rules! each {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream {
            Stream::Unix($inner) => $call,
            Stream::Tcp($inner) => $call,
            Stream::Tls($inner) => {
                let $inner = $inner.as_mut();
                $call
            }
        }
    };
}

/// A stream that reports to its watch what happens.
pub struct Watched {
    stream: Stream,
    watch: Arc<Watch>,
}

impl Watched {
    /// A stream with its watch.
    pub fn new(stream: Stream, watch: Arc<Watch>) -> Self {
        Self { stream, watch }
    }

    fn note(&self, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &wrote {
            Poll::Ready(Ok(bytes)) => self.watch.answer_went(*bytes),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.watch.answer_waits(),
        }
        wrote
    }
}

impl AsyncRead for Watched {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let read = each!(&mut this.stream, inner => Pin::new(inner).poll_read(cx, buf));
        if buf.filled().len() > before {
            this.watch.came();
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = each!(&mut this.stream, inner => Pin::new(inner).poll_write(cx, buf));
        this.note(wrote)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = each!(&mut this.stream, inner => Pin::new(inner).poll_write_vectored(cx, bufs));
        this.note(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Unix(inner) => inner.is_write_vectored(),
            Stream::Tcp(inner) => inner.is_write_vectored(),
            Stream::Tls(inner) => inner.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = each!(&mut this.stream, inner => Pin::new(inner).poll_flush(cx));
        match &flushed {
            Poll::Ready(_) => this.watch.answer_is_out(),
            Poll::Pending => this.watch.answer_waits(),
        }
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(&mut self.get_mut().stream, inner => Pin::new(inner).poll_shutdown(cx))
    }
}
