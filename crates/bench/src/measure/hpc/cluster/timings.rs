//! The times that the programs of a job report on standard error.

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timings {
    /// The program's own time in seconds, without the launcher and the start of MPI.
    pub own: Option<f64>,
    /// The times of each process, in the order of ranks.
    pub ranks: Vec<Rank>,
    /// The part that an interrupted run had done, if this run goes on.
    pub was_done: Option<f64>,
}

/// The times of a process, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rank {
    /// Time at work, with reading and writing.
    pub work: f64,
    /// Time for messages.
    pub messages: f64,
}

impl Timings {
    /// Reads the lines of a job that worked on `bytes` bytes.
    pub fn read(text: &str, bytes: u64) -> Self {
        let mut timings = Self::default();
        let mut ranks: Vec<(usize, Rank)> = Vec::new();
        for line in text.lines() {
            ranks.extend(rank(line));
            timings.own = own(line, bytes).or(timings.own);
            timings.was_done = going_on(line).or(timings.was_done);
        }
        ranks.sort_by_key(|(number, _)| *number);
        timings.ranks = ranks.into_iter().map(|(_, rank)| rank).collect();
        timings
    }

    /// The longest time at work, in seconds.
    pub fn longest(&self) -> Option<f64> {
        self.ranks.iter().map(|rank| rank.work).reduce(f64::max)
    }

    /// The time for messages as a part of the whole time: that of all processes together, and that of the process with
    /// the largest part. Rank 0 is left out, because it leads and does not count this time.
    pub fn messages(&self) -> Option<(f64, f64)> {
        let others = self.ranks.get(1..).filter(|others| !others.is_empty())?;
        let sum = |of: fn(&Rank) -> f64| others.iter().map(of).sum::<f64>();
        let (messages, all) = (sum(|rank| rank.messages), sum(|rank| rank.work + rank.messages));
        let of = |rank: &Rank| rank.messages / (rank.work + rank.messages);
        let worst = others.iter().map(of).filter(|part| part.is_finite()).reduce(f64::max)?;
        Some((messages / all, worst))
    }
}

/// Reads "HOST (rank 3): 0.050 s at work, 0.047 s for messages, 16 MiB of memory".
fn rank(line: &str) -> Option<(usize, Rank)> {
    let (number, times) = line.split_once(" (rank ")?.1.split_once("): ")?;
    let (work, messages) = times.split_once(" s at work, ")?;
    let messages = messages.split_once(" s for messages")?.0;
    Some((number.parse().ok()?, Rank { work: work.parse().ok()?, messages: messages.parse().ok()? }))
}

/// Reads "protected 1 file, 1.1 GB in 2.3 s, 478 MB/s, 2 processes on 1 machine", or "copied 107000000 bytes in
/// 0.074211 s". In the first, time and speed have two or three digits. The one with more digits is used.
fn own(line: &str, bytes: u64) -> Option<f64> {
    let (before, after) = line.split_once(" in ")?;
    let is_ours = [" protected ", " unprotected ", " copied "].iter().any(|verb| before.contains(verb));
    let mut words = after.split(", ").filter(|_| is_ours);
    let (seconds, digits) = quantity(words.next()?, &[("ms", 1e-3), ("s", 1.0)])?;
    let speed = words.next().and_then(|speed| quantity(speed, &[("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9)]));
    match speed {
        Some((speed, more)) if more > digits && speed > 0.0 => Some(bytes as f64 / speed),
        _ => Some(seconds),
    }
}

/// Reads a number with one of these units. Returns it and the number of its digits.
fn quantity(text: &str, units: &[(&str, f64)]) -> Option<(f64, usize)> {
    let (number, unit) = text.trim().split_once(' ')?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    let digits = number.trim_start_matches(['0', '.']).chars().filter(char::is_ascii_digit).count();
    Some((number.parse::<f64>().ok()? * factor, digits))
}

/// Reads "going on: 657 MB of 1.1 GB were done".
fn going_on(line: &str) -> Option<f64> {
    let (done, all) = line.split_once("going on: ")?.1.strip_suffix(" were done")?.split_once(" of ")?;
    let units = [("byte", 1.0), ("bytes", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)];
    Some(quantity(done, &units)?.0 / quantity(all, &units)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let text = "phalanx-mpi: going on: 657 MB of 1.1 GB were done\n\
                    phalanx-mpi: big → s: 1.1 GB\n\
                    phalanx-mpi: vm (rank 1): 2.092 s at work, 0.131 s for messages, 16 MiB of memory\n\
                    phalanx-mpi: vm (rank 0): 2.196 s at work, 0.000 s for messages, 16 MiB of memory\n\
                    phalanx-mpi: protected 1 file, 1.1 GB in 2.3 s, 478 MB/s, 2 processes on 1 machine\n";
        let timings = Timings::read(text, 1_080_000_000);
        assert_eq!(timings.ranks, [Rank { work: 2.196, messages: 0.0 }, Rank { work: 2.092, messages: 0.131 }]);
        assert_eq!(timings.longest(), Some(2.196));
        assert!((timings.own.unwrap() - 1080.0 / 478.0).abs() < 1e-9);
        assert!((timings.was_done.unwrap() - 0.657 / 1.1).abs() < 1e-9);
        let (all, worst) = timings.messages().unwrap();
        assert!((all - 0.131 / 2.223).abs() < 1e-9 && (worst - all).abs() < 1e-9);
    }

    #[test]
    fn the_time_or_the_speed_with_more_digits_counts() {
        let own = |text: &str| Timings::read(text, 107_000_000).own;
        let line = |text: &str| format!("phalanx-mpi: protected 1 file, 107 MB in {text}, 1 process on 1 machine");
        assert_eq!(own(&line("127 ms, 842 MB/s")), Some(0.127));
        assert_eq!(own(&line("82 ms, 1.3 GB/s")), Some(0.082));
        assert!((own(&line("1.3 s, 82.4 MB/s")).unwrap() - 107.0 / 82.4).abs() < 1e-9);
        assert_eq!(own("parallel-copy: copied 107000000 bytes in 0.074211 s"), Some(0.074211));
        assert_eq!(own("phalanx-mpi: cannot be protected in 3 s"), None);
        assert_eq!(Timings::read("", 1), Timings::default());
        assert_eq!(Timings::read("a (rank 0): 1.0 s at work, 0.0 s for messages", 1).messages(), None);
    }
}
