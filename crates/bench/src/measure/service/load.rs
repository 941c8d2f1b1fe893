//! The load: requests that are prepared before, on connections that stay open, by one thread.
//!
//! With a constant arrival rate a latency runs from the time at which a request is due, even if it is sent later because
//! all connections are in use. So a server that is too slow cannot hide it.

use super::answer::{Answer, Body};
use super::client::{Address, PATIENCE, Stream};
use crate::measure::{Error, Result};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use std::fmt::Display;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// A request: its head, and a body that may belong to several requests.
pub struct Request<'a> {
    pub head: Vec<u8>,
    pub body: &'a [u8],
}

/// The most that is sent and received on a connection before it is another one's turn, so that all send at once.
const TURN: usize = 512 << 10;

/// Connections of one server.
pub struct Connections {
    epoll: OwnedFd,
    address: Address,
    all: Vec<Connection>,
    buffer: Vec<u8>,
}

struct Connection {
    stream: Stream,
    answer: Answer,
    flight: Option<Flight>,
}

/// A request that is not answered yet.
#[derive(Clone, Copy)]
struct Flight {
    request: usize,
    sent: usize,
    /// When it was due.
    due: Instant,
}

/// When requests are sent.
#[derive(Clone, Copy)]
pub enum Arrivals {
    /// Each as soon as a connection is free.
    Closed,
    /// At a constant rate, this long after one another.
    Every(Duration),
}

pub struct Done {
    /// From the first request to the last answer.
    pub seconds: f64,
    /// In the order of the answers.
    pub latencies: Vec<f64>,
    /// The records that were answered well.
    pub records: u64,
}

impl Connections {
    pub fn open(address: &Address, count: usize, body: Body) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(unserved)?;
        let mut new =
            Self { epoll, address: address.clone(), all: Vec::with_capacity(count), buffer: vec![0; 256 << 10] };
        for i in 0..count {
            let stream = new.connect(i)?;
            new.all.push(Connection { stream, answer: Answer::new(body), flight: None });
        }
        Ok(new)
    }

    fn connect(&self, i: usize) -> Result<Stream> {
        let stream = Stream::connect(&self.address)?;
        stream.no_waiting().map_err(unserved)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &stream, epoll::EventData::new_u64(i as u64), flags).map_err(unserved)?;
        Ok(stream)
    }

    /// Opens those connections again that the server has closed while it was the turn of others.
    fn renew(&mut self) -> Result<()> {
        for i in 0..self.all.len() {
            let waiting = self.all[i].stream.read(&mut [0]);
            if !waiting.is_err_and(|e| e.kind() == ErrorKind::WouldBlock) {
                self.all[i].stream = self.connect(i)?;
            }
        }
        Ok(())
    }

    /// Sends `count` requests, starting over when all were sent, and waits for their answers. The first that is refused
    /// ends it. `spins` is whether this thread has a core of its own, on which it need not sleep.
    pub fn run(&mut self, requests: &[Request<'_>], count: usize, arrivals: Arrivals, spins: bool) -> Result<Done> {
        if self.all.iter().any(|connection| connection.flight.is_some()) {
            return Err(unserved("an earlier request has no answer"));
        }
        self.renew()?;
        let mut events: Vec<epoll::Event> = Vec::with_capacity(self.all.len().max(1));
        let mut idle: Vec<usize> = (0..self.all.len()).rev().collect();
        // Connections on which more can be done without waiting.
        let mut ready: Vec<usize> = Vec::new();
        let mut done = Done { seconds: 0.0, latencies: Vec::with_capacity(count), records: 0 };
        let started = Instant::now();
        let mut begun = 0;
        let mut last = started;
        while done.latencies.len() < count {
            let mut now = Instant::now();
            while begun < count && !idle.is_empty() {
                let due = match arrivals {
                    Arrivals::Closed => now,
                    Arrivals::Every(interval) => started + interval.mul_f64(begun as f64),
                };
                if due > now {
                    break;
                }
                let i = idle.pop().expect("it is not empty");
                self.all[i].flight = Some(Flight { request: begun % requests.len(), sent: 0, due });
                begun += 1;
                if self.advance(i, requests, &mut done, &mut idle)? {
                    ready.push(i);
                }
                now = Instant::now();
            }
            if done.latencies.len() == count {
                break;
            }
            let until = match arrivals {
                Arrivals::Every(interval) if begun < count && !idle.is_empty() => {
                    (started + interval.mul_f64(begun as f64)).saturating_duration_since(now)
                }
                _ => PATIENCE,
            };
            events.clear();
            let sleep = if spins || !ready.is_empty() { Duration::ZERO } else { until };
            let timeout = Timespec { tv_sec: sleep.as_secs() as _, tv_nsec: sleep.subsec_nanos().into() };
            epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)).map_err(unserved)?;
            if !events.is_empty() || !ready.is_empty() {
                last = Instant::now();
            } else if last.elapsed() > PATIENCE {
                return Err(Error::NotRun(format!("the server does not answer for {} s", PATIENCE.as_secs())));
            }
            let mut turn = std::mem::take(&mut ready);
            turn.extend(events.iter().map(|event| event.data.u64() as usize));
            turn.sort_unstable();
            turn.dedup();
            for i in turn {
                if self.advance(i, requests, &mut done, &mut idle)? {
                    ready.push(i);
                }
            }
        }
        done.seconds = started.elapsed().as_secs_f64();
        Ok(done)
    }

    /// Sends and receives on a connection as much as is possible now, but no more than is its turn. Returns whether more is
    /// possible.
    fn advance(&mut self, i: usize, requests: &[Request<'_>], done: &mut Done, idle: &mut Vec<usize>) -> Result<bool> {
        let connection = &mut self.all[i];
        let Some(flight) = connection.flight else { return Ok(false) };
        let (flight, sends_more) = connection.send(flight, &requests[flight.request])?;
        connection.flight = Some(flight);
        let receives_more = connection.receive(&mut self.buffer)?;
        if !connection.answer.is_done() {
            return Ok(sends_more || receives_more);
        }
        done.latencies.push(flight.due.elapsed().as_secs_f64());
        if let Some(why) = connection.answer.refusal() {
            return Err(Error::NotRun(format!("the server refuses: {why}")));
        }
        done.records += connection.answer.records.good;
        connection.answer.renew();
        connection.flight = None;
        idle.push(i);
        Ok(false)
    }
}

impl Connection {
    /// Also returns whether more can be sent now.
    fn send(&mut self, mut flight: Flight, request: &Request<'_>) -> Result<(Flight, bool)> {
        let end = flight.sent + TURN;
        while flight.sent < end {
            let part = match request.head.get(flight.sent..) {
                Some(head) if !head.is_empty() => head,
                _ => &request.body[flight.sent - request.head.len()..],
            };
            let written = if part.is_empty() { self.stream.push().map(|()| 0) } else { self.stream.write(part) };
            match written {
                Ok(0) => return Ok((flight, false)),
                Ok(n) => flight.sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok((flight, false)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // What the server has said before it closed the connection says more than this.
                Err(e) => {
                    let _what_it_has_said = self.receive(&mut vec![0; 4096]);
                    return if self.answer.is_done() { Ok((flight, false)) } else { Err(unserved(e)) };
                }
            }
        }
        Ok((flight, true))
    }

    /// Returns whether more can be received now.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<bool> {
        let mut received = 0;
        while !self.answer.is_done() {
            if received >= TURN {
                return Ok(true);
            }
            match self.stream.read(buffer) {
                Ok(0) => return Err(unserved("it closes the connection")),
                Ok(n) => {
                    received += n;
                    self.answer.read(&buffer[..n]).map_err(unserved)?;
                    if n < buffer.len() && self.stream.is_bare() {
                        break;
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(unserved(e)),
            }
        }
        Ok(false)
    }
}

fn unserved(why: impl Display) -> Error {
    Error::NotRun(format!("the server does not serve: {why}"))
}

/// The value below which a part of the values lies, by the nearest rank.
pub fn percentile(values: &mut [f64], percent: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * percent / 100.0).ceil() as usize;
    values[rank.clamp(1, values.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// A server that answers a stream while it comes, and whose buffers are soon full.
    #[test]
    fn long_requests_on_several_connections_move_at_the_same_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let len = 20 << 20;
        thread::spawn(move || {
            // Nobody is served to the end before all have begun.
            let together = std::sync::Arc::new(std::sync::Barrier::new(3));
            for stream in listener.incoming().take(3) {
                let (mut stream, together) = (stream.unwrap(), together.clone());
                thread::spawn(move || {
                    let mut piece = vec![0; 1 << 20];
                    for i in 0..20 {
                        stream.read_exact(&mut piece).unwrap();
                        // Not before it is asked: what a connection has said before is old.
                        if i == 0 {
                            stream
                                .write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n").as_bytes())
                                .unwrap();
                        }
                        if i == 2 {
                            together.wait();
                        }
                        stream.write_all(&piece).unwrap();
                    }
                });
            }
        });
        let body = vec![0; len - 4];
        let requests = [Request { head: b"head".to_vec(), body: &body }];
        let mut all = Connections::open(&address, 3, Body::Counted).unwrap();
        let done = all.run(&requests, 3, Arrivals::Closed, false).unwrap();
        assert_eq!(done.latencies.len(), 3);
    }

    /// A server that answers each request after some time, and how many connections it has.
    fn server(connections: usize, pause: Duration) -> Address {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().take(connections) {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let mut request = [0; 4];
                    while stream.read_exact(&mut request).is_ok() {
                        thread::sleep(pause);
                        let status = if &request == b"good" { "200 OK" } else { "403 No" };
                        stream
                            .write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nno").as_bytes())
                            .unwrap();
                    }
                });
            }
        });
        Address::Tcp(address)
    }

    fn request(text: &[u8]) -> [Request<'_>; 1] {
        [Request { head: text[..2].to_vec(), body: &text[2..] }]
    }

    #[test]
    fn every_request_is_answered_once() {
        for spins in [true, false] {
            let mut all = Connections::open(&server(3, Duration::ZERO), 3, Body::Counted).unwrap();
            let done = all.run(&request(b"good"), 50, Arrivals::Closed, spins).unwrap();
            assert_eq!(done.latencies.len(), 50);
            assert!(done.seconds > 0.0);
        }
    }

    /// Five requests that are due at once, on one connection that takes 20 ms for each: the last one waits for all.
    #[test]
    fn latencies_count_from_when_a_request_is_due() {
        let pause = Duration::from_millis(20);
        let mut all = Connections::open(&server(1, pause), 1, Body::Counted).unwrap();
        let done = all.run(&request(b"good"), 5, Arrivals::Every(Duration::from_nanos(1)), false).unwrap();
        assert!(done.latencies.is_sorted() && done.latencies[4] >= 0.1, "{:?}", done.latencies);
    }

    #[test]
    fn arrivals_keep_their_rate() {
        let mut all = Connections::open(&server(2, Duration::ZERO), 2, Body::Counted).unwrap();
        let done = all.run(&request(b"good"), 10, Arrivals::Every(Duration::from_millis(5)), false).unwrap();
        assert!(done.seconds >= 0.045, "{}", done.seconds);
    }

    /// A server may close a connection that waits for its turn.
    #[test]
    fn closed_connections_are_opened_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let serving = thread::spawn(move || {
            drop(listener.accept().unwrap());
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 4]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        });
        let mut all = Connections::open(&address, 1, Body::Counted).unwrap();
        // Readable: it is closed.
        epoll::wait(&all.epoll, spare_capacity(&mut Vec::with_capacity(1)), None).unwrap();
        while all.all[0].stream.read(&mut [0]).is_err() {
            thread::yield_now();
        }
        assert_eq!(all.run(&request(b"good"), 1, Arrivals::Closed, false).unwrap().latencies.len(), 1);
        serving.join().unwrap();
    }

    #[test]
    fn a_refusal_ends_it() {
        let mut all = Connections::open(&server(2, Duration::ZERO), 2, Body::Counted).unwrap();
        let error = all.run(&request(b"evil"), 10, Arrivals::Closed, false).err().unwrap().to_string();
        assert_eq!(error, "the server refuses: 403: no");
        assert!(all.run(&request(b"good"), 1, Arrivals::Closed, false).is_err());
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!([50.0, 99.0, 100.0].map(|percent| percentile(&mut values, percent)), [100.0, 198.0, 200.0]);
    }
}
