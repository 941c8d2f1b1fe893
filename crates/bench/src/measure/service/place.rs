//! Where servers and their load run: a core for each, so that neither takes the other's time.

use crate::measure::{Error, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;

/// The core of the servers, and that of the load. On a machine with one core they share it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub server: usize,
    pub load: usize,
    /// Whether both cores are threads of one physical core.
    pub are_siblings: bool,
}

impl Place {
    /// Chooses cores from those that this thread may use.
    pub fn choose() -> Result<Self> {
        let all = sched_getaffinity(None).map_err(|e| failed(e.into()))?;
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).collect();
        let server = *cores.last().ok_or_else(|| Error::NotRun("no core".into()))?;
        let near = siblings(server);
        // Interrupts mostly go to the first core, which is that of the load.
        let apart = cores.iter().copied().find(|core| !near.contains(core));
        let load = apart.unwrap_or(cores[0]);
        Ok(Self { server, load, are_siblings: load != server && near.contains(&load) })
    }

    /// Whether the load has a core of its own, and may look for events all the time.
    pub fn is_apart(&self) -> bool {
        self.server != self.load
    }

    /// Does something on the core of the servers. Threads and processes that it starts stay there.
    pub fn as_server<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<T> {
        self.on(self.server, act)
    }

    /// Does something on the core of the load.
    pub fn as_load<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<T> {
        self.on(self.load, act)
    }

    fn on<T>(&self, core: usize, act: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = sched_getaffinity(None).map_err(|e| failed(e.into()))?;
        let mut one = CpuSet::new();
        one.set(core);
        sched_setaffinity(None, &one).map_err(|e| failed(e.into()))?;
        let done = act();
        sched_setaffinity(None, &before).map_err(|e| failed(e.into()))?;
        done
    }

    /// The note of rows.
    pub fn note(&self) -> String {
        match (self.is_apart(), self.are_siblings) {
            (false, _) => "server and load share the only core".into(),
            (true, true) => "server and load on two threads of one physical core".into(),
            (true, false) => "server and load on a core each".into(),
        }
    }
}

/// The threads of the same physical core, this one among them.
fn siblings(core: usize) -> Vec<usize> {
    let file = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    let text = fs::read_to_string(file).unwrap_or_default();
    let found = listed(text.trim());
    if found.is_empty() { vec![core] } else { found }
}

/// The numbers of a list such as "0-2,8".
fn listed(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

fn failed(error: std::io::Error) -> Error {
    Error::NotRun(format!("no core of its own: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_returns_to_all_cores() {
        let place = Place::choose().unwrap();
        let of_server = place.as_server(|| Ok(sched_getaffinity(None).unwrap())).unwrap();
        assert!(of_server.is_set(place.server) && of_server.count() == 1);
        let after = sched_getaffinity(None).unwrap();
        assert_eq!(place.is_apart(), after.count() > 1);
    }

    #[test]
    fn lists_of_the_system_are_read() {
        assert_eq!(listed("0-2,8"), [0, 1, 2, 8]);
        assert_eq!(listed("1"), [1]);
        assert!(listed("").is_empty());
    }
}
