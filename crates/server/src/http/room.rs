//! Room for connections: how many there may be, and which of them makes room for another one.

use super::watch::{Watch, now};
use crate::limits::Limits;
use crate::refusal::{Kind, Refusal};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// How often all connections are looked at.
const EVERY: Duration = Duration::from_millis(500);
/// Connections of the server's own user beyond the limit, so that it can be managed whatever others do.
const OWN: usize = 64;

/// With whom a connection is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A user of this machine.
    User(u32),
    /// Whoever is at an address.
    Address(IpAddr),
    /// The owner of a certificate, by its fingerprint.
    Certificate(String),
}

/// A connection that is watched.
#[derive(Debug)]
struct Held {
    watch: Weak<Watch>,
    holder: Holder,
}

/// All connections.
#[derive(Debug, Default)]
pub struct Connections {
    all: Mutex<Vec<Held>>,
}

/// Who has just connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The server's own user, or root, on this machine.
    Own,
    /// Somebody else who has rights.
    Known,
    /// Somebody who has not said yet who it is.
    Stranger,
}

/// So many connections of one kind, strangers or others, leave some for the other kind.
fn share(limits: &Limits) -> usize {
    limits.connections.saturating_sub(limits.connections.div_ceil(4)).max(1)
}

/// Connections that still exist: all, or those of one holder.
fn those<'a>(all: &'a [Held], of: Option<&'a Holder>) -> impl Iterator<Item = Arc<Watch>> + 'a {
    let meant = all.iter().filter(move |held| of.is_none_or(|of| held.holder == *of));
    meant.filter_map(|held| held.watch.upgrade()).filter(|watch| !watch.is_dropped())
}

/// How many connections are known, or are not.
fn count(all: &[Held], known: bool) -> usize {
    those(all, None).filter(|watch| watch.is_known() == known).count()
}

/// Ends the connection that has been ready for longest, of those that are known or of the others. Returns whether there
/// was one.
fn end_one(all: &[Held], of: Option<&Holder>, known: bool) -> bool {
    let now = now();
    let meant = those(all, of).filter(|watch| watch.is_known() == known);
    let ready = meant.filter_map(|watch| Some((watch.readiness(now)?, watch)));
    let readiest = ready.max_by_key(|(readiness, _)| *readiness);
    readiest.inspect(|(_, watch)| watch.end()).is_some()
}

/// The refusal of a caller who has as many connections as one may have.
fn too_many_of_one() -> Refusal {
    Refusal::new(Kind::Busy, "there are too many connections of one caller")
}

impl Connections {
    /// Adds a connection. If there are too many, or too many of its holder, another one makes room. A stranger makes no
    /// known caller go.
    ///
    /// # Errors
    /// If none can make room.
    pub fn add(&self, limits: &Limits, who: Who, holder: Holder) -> Result<Arc<Watch>, Refusal> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let more = if who == Who::Own { OWN } else { 0 };
        let most = limits.connections + more;
        if all.len() >= most {
            all.retain(|held| held.watch.upgrade().is_some_and(|watch| !watch.is_dropped()));
        }
        let is_stranger = who == Who::Stranger;
        let makes_room = |of| end_one(&all, of, false) || !is_stranger && end_one(&all, of, true);
        if those(&all, Some(&holder)).count() >= limits.connections_of_one + more {
            if !makes_room(Some(&holder)) {
                return Err(too_many_of_one());
            }
        } else {
            let is_full = all.len() >= most || is_stranger && count(&all, false) >= share(limits);
            if is_full && !makes_room(None) {
                return Err(Refusal::new(Kind::Unavailable, "there are too many connections"));
            }
        }
        let watch = Arc::new(Watch::new());
        if !is_stranger {
            watch.is_met();
        }
        all.push(Held { watch: Arc::downgrade(&watch), holder });
        Ok(watch)
    }

    /// It is known who is at the other end of a connection, which may have shown a certificate since it came. If there are
    /// many such connections, one of them that waits for nothing makes room, so that others can still come and say who they
    /// are.
    ///
    /// # Errors
    /// If there are too many of its holder. Then it stays a stranger's.
    pub fn meet(&self, limits: &Limits, watch: &Watch, holder: Holder) -> Result<(), Refusal> {
        if watch.is_known() {
            return Ok(());
        }
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.iter().position(|held| std::ptr::eq(held.watch.as_ptr(), watch));
        if let Some(own) = own.filter(|own| all[*own].holder != holder) {
            let is_full = those(&all, Some(&holder)).count() >= limits.connections_of_one;
            if is_full && !end_one(&all, Some(&holder), false) && !end_one(&all, Some(&holder), true) {
                return Err(too_many_of_one());
            }
            all[own].holder = holder;
        }
        if count(&all, true) >= share(limits) {
            end_one(&all, None, true);
        }
        watch.is_met();
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|held| held.watch.strong_count() > 0).count()
    }

    /// Ends connections whose clients are too slow, for ever.
    pub async fn watch(&self, limits: &Limits) {
        loop {
            tokio::time::sleep(EVERY).await;
            let now = now();
            let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|held| {
                let Some(watch) = held.watch.upgrade() else { return false };
                if watch.is_over(now, limits) {
                    watch.end();
                }
                true
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::watch::SETTLED;
    use std::sync::atomic::Ordering::Relaxed;

    const ADA: Holder = Holder::User(1000);

    fn later(seconds: u64) -> u64 {
        now() + seconds * 1000
    }

    /// Lets a stranger be new for as long as the test takes.
    fn stays_new(watch: &Arc<Watch>) {
        watch.strange.store(later(3600), Relaxed);
    }

    fn sleep() {
        std::thread::sleep(Duration::from_millis(SETTLED + 2));
    }

    #[test]
    fn strangers_make_room_and_make_nobody_go() {
        let limits = Limits { connections: 4, connections_of_one: 4, ..Limits::default() };
        let connections = Connections::default();
        let known = connections.add(&limits, Who::Known, ADA).unwrap();
        let strangers: Vec<_> = (0..3).map(|_| connections.add(&limits, Who::Stranger, ADA).unwrap()).collect();
        strangers.iter().for_each(stays_new);
        assert!(connections.add(&limits, Who::Stranger, ADA).is_err(), "all are new");
        strangers.iter().for_each(|watch| watch.strange.store(now(), Relaxed));
        assert!(connections.add(&limits, Who::Own, ADA).is_ok(), "the server's own user");
        assert!(strangers[0].readiness(later(2)).is_some());
        strangers[0].begins();
        strangers[0].answer_waits();
        assert!(strangers[0].readiness(later(2)).is_some(), "an answer that a stranger does not read");
        known.begins();
        assert_eq!(known.readiness(later(200)), None, "a running request of a known caller is never cut off");
        known.ends();
        assert!(known.readiness(later(2)).is_some());
        for watch in [&known, &strangers[0], &strangers[1]] {
            watch.quiet.store(1, Relaxed);
            if !watch.is_known() {
                watch.strange.store(1, Relaxed);
            }
        }
        sleep();
        assert!(connections.add(&limits, Who::Stranger, ADA).is_ok());
        assert!(!known.is_dropped() && strangers.iter().any(|watch| watch.is_dropped()));
    }

    #[test]
    fn known_callers_leave_room_for_those_who_come() {
        let limits = Limits { connections: 4, connections_of_one: 4, ..Limits::default() };
        let connections = Connections::default();
        let mut all = Vec::new();
        for _ in 0..4 {
            let watch = connections.add(&limits, Who::Stranger, ADA).unwrap();
            connections.meet(&limits, &watch, ADA).unwrap();
            assert!(watch.is_known());
            watch.is_strange();
            assert!(!watch.is_known());
            watch.is_met();
            all.push(watch);
        }
        sleep();
        assert!(connections.add(&limits, Who::Stranger, ADA).is_err(), "a stranger makes no known caller go");
        assert!(connections.add(&limits, Who::Known, ADA).is_ok(), "a known caller does");
        assert_eq!(all.iter().filter(|watch| watch.is_dropped()).count(), 1);
    }

    #[test]
    fn one_caller_leaves_connections_to_others() {
        let limits = Limits { connections: 8, connections_of_one: 2, ..Limits::default() };
        let connections = Connections::default();
        let add = |who, holder: &Holder| connections.add(&limits, who, holder.clone());
        let bob = Holder::Address("192.0.2.1".parse().unwrap());
        let _kept: Vec<_> = (0..2).map(|_| add(Who::Known, &ADA).unwrap()).collect();
        assert_eq!(add(Who::Known, &ADA).unwrap_err(), too_many_of_one());
        let strangers: Vec<_> = (0..2).map(|_| add(Who::Stranger, &bob).unwrap()).collect();
        strangers.iter().for_each(stays_new);
        assert_eq!(add(Who::Stranger, &bob).unwrap_err(), too_many_of_one(), "another caller has its own");
        strangers.iter().for_each(|watch| watch.strange.store(1, Relaxed));
        sleep();
        assert!(add(Who::Stranger, &ADA).is_err(), "a stranger makes no known caller go");
        let _third = add(Who::Stranger, &bob).unwrap();
        assert_eq!(strangers.iter().filter(|watch| watch.is_dropped()).count(), 1, "one of its own makes room");
        assert!(add(Who::Own, &Holder::User(0)).is_ok());
    }

    #[test]
    fn who_shows_a_certificate_is_counted_by_it() {
        let limits = Limits { connections: 8, connections_of_one: 2, ..Limits::default() };
        let connections = Connections::default();
        let certificate = Holder::Certificate("ab".repeat(32));
        let mut kept = Vec::new();
        for last in 1..=2 {
            let address = Holder::Address(std::net::Ipv4Addr::new(192, 0, 2, last).into());
            kept.push(connections.add(&limits, Who::Stranger, address).unwrap());
            connections.meet(&limits, kept.last().unwrap(), certificate.clone()).unwrap();
        }
        let address = Holder::Address("192.0.2.1".parse().unwrap());
        kept.extend((0..2).map(|_| connections.add(&limits, Who::Stranger, address.clone()).unwrap()));
        assert!(connections.add(&limits, Who::Stranger, address).is_err(), "the first one counts no more");
        assert_eq!(connections.meet(&limits, &kept[2], certificate.clone()), Err(too_many_of_one()));
        assert!(!kept[2].is_known());
        drop(kept.remove(0));
        assert_eq!(connections.meet(&limits, &kept[1], certificate), Ok(()));
        assert!(kept[1].is_known());
    }
}
