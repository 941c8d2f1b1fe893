//! A proxy that takes some time for each request, and counts requests and the bytes of answers.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// A proxy. It runs until the program ends.
pub struct Slow {
    pub address: SocketAddr,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Slow {
    pub fn start(server: SocketAddr, delay: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, counts) = (listener.local_addr()?, Arc::new(Counts::default()));
        let own = counts.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let counts = own.clone();
                // If either side ends the connection, so does the proxy.
                thread::spawn(move || serve(&client, server, delay, &counts));
            }
        });
        Ok(Self { address, counts })
    }

    /// The requests and bytes since it was asked last.
    pub fn taken(&self) -> (u64, u64) {
        let Counts { requests, bytes } = &*self.counts;
        (requests.swap(0, Ordering::SeqCst), bytes.swap(0, Ordering::SeqCst))
    }
}

/// Passes on requests, and each answer after some time. What comes after something from the client begins an answer.
fn serve(client: &TcpStream, server: SocketAddr, delay: Duration, counts: &Arc<Counts>) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    let (mut back, mut answers, own) = (client.try_clone()?, server.try_clone()?, counts.clone());
    let asked = Arc::new(AtomicBool::new(false));
    let is_asked = asked.clone();
    let answering = thread::spawn(move || {
        let mut buf = vec![0; 256 << 10];
        loop {
            let len = match answers.read(&mut buf) {
                Ok(len) if len > 0 => len,
                _ => break,
            };
            if is_asked.swap(false, Ordering::SeqCst) {
                own.requests.fetch_add(1, Ordering::SeqCst);
                thread::sleep(delay);
            }
            own.bytes.fetch_add(len as u64, Ordering::SeqCst);
            if back.write_all(&buf[..len]).is_err() {
                break;
            }
        }
        let _ = back.shutdown(Shutdown::Both);
    });
    let (mut client, mut buf) = (client, vec![0; 64 << 10]);
    loop {
        match client.read(&mut buf)? {
            0 => break,
            len => {
                asked.store(true, Ordering::SeqCst);
                (&server).write_all(&buf[..len])?;
            }
        }
    }
    let _ = server.shutdown(Shutdown::Write);
    let _ = answering.join();
    Ok(())
}
