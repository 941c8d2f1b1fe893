//! Energy, from the processor's counters (RAPL), if the system provides them.

use crate::measure::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of Linux with the counters.
const ZONES: &str = "/sys/class/powercap";

/// The counters of all processor packages.
pub struct Counters {
    /// The file of each, and the value in µJ after which it begins again at 0.
    packages: Vec<(PathBuf, u64)>,
}

impl Counters {
    /// Finds the counters of this machine. The error explains why there are none.
    pub fn find() -> Result<Self> {
        Self::below(Path::new(ZONES))
    }

    fn below(zones: &Path) -> Result<Self> {
        let none = || Error::NotRun(format!("the machine does not tell its energy: no RAPL in {ZONES}"));
        let mut packages = Vec::new();
        for entry in fs::read_dir(zones).map_err(|_| none())?.flatten() {
            let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            if !name.trim().starts_with("package-") {
                continue;
            }
            let counter = entry.path().join("energy_uj");
            let most = number(&entry.path().join("max_energy_range_uj")).unwrap_or(u64::MAX);
            // On most systems only root can read it.
            let hidden = || Error::NotRun(format!("the counter of energy cannot be read: {}", counter.display()));
            number(&counter).ok_or_else(hidden)?;
            packages.push((counter, most));
        }
        if packages.is_empty() { Err(none()) } else { Ok(Self { packages }) }
    }

    /// The energy that the packages take while something runs, in J. `None` if a counter stopped working.
    pub fn joules<T>(&self, act: impl FnOnce() -> T) -> (Option<f64>, T) {
        let before = self.read();
        let result = act();
        let after = self.read();
        let joules = before.zip(after).map(|(before, after)| {
            let each = self.packages.iter().zip(before.iter().zip(&after)).map(|((_, most), (before, after))| {
                // If the counter is lower than before, it has begun again at 0.
                after.checked_sub(*before).unwrap_or_else(|| after.saturating_add(most.saturating_sub(*before)))
            });
            each.sum::<u64>() as f64 / 1e6
        });
        (joules, result)
    }

    fn read(&self) -> Option<Vec<u64>> {
        self.packages.iter().map(|(counter, _)| number(counter)).collect()
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_added_up_and_counters_may_wrap_around() {
        let zones = tempfile::tempdir().unwrap();
        let zone = |name: &str, of: &str, energy: u64| {
            let folder = zones.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("name"), of).unwrap();
            fs::write(folder.join("max_energy_range_uj"), "1000000").unwrap();
            fs::write(folder.join("energy_uj"), energy.to_string()).unwrap();
        };
        assert!(Counters::below(zones.path()).err().unwrap().to_string().contains("no RAPL"));
        assert!(Counters::below(&zones.path().join("missing")).is_err());
        zone("intel-rapl:0", "package-0\n", 900_000);
        zone("intel-rapl:1", "package-1\n", 100);
        // A part of a package is included in the package.
        zone("intel-rapl:0:0", "core\n", 5);
        let counters = Counters::below(zones.path()).unwrap();
        let (joules, ()) = counters.joules(|| {
            zone("intel-rapl:0", "package-0\n", 100_000);
            zone("intel-rapl:1", "package-1\n", 300_100);
            zone("intel-rapl:0:0", "core\n", 500_000);
        });
        assert_eq!(joules, Some(0.5));
    }
}
