//! The machines of a report, each with its rows.

use crate::head::Head;
use crate::row::Row;

/// A machine.
pub struct Machine {
    /// Its name in the report.
    pub name: String,
    /// The heads of its runs.
    pub heads: Vec<Head>,
    /// Its rows.
    pub rows: Vec<Row>,
}

impl Machine {
    /// Whether its device is a GPU. Some drivers offer the CPU as a device.
    pub fn has_gpu(&self) -> bool {
        self.heads.iter().flat_map(|head| &head.device).any(|device| device.kind == "GPU")
    }

    /// Whether a run of it was a short one.
    pub fn is_quick(&self) -> bool {
        self.heads.iter().any(|head| head.quick)
    }

    /// The rows of one experiment.
    pub fn of<'a>(&'a self, experiment: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.experiment == experiment)
    }
}

/// One machine for each kind of processor and device. Runs without a device join those with one on the same processor. Of two
/// rows for the same thing the first counts.
pub fn joined(runs: impl IntoIterator<Item = (Vec<Head>, Vec<Row>)>) -> Vec<Machine> {
    let mut machines: Vec<Machine> = Vec::new();
    for (heads, rows) in runs {
        let Some(head) = heads.first() else { continue };
        let same = |machine: &&mut Machine| {
            let other = &machine.heads[0];
            let devices = machine.heads.iter().flat_map(|head| &head.device).next();
            (&head.cpu, head.cores, head.quick) == (&other.cpu, other.cores, other.quick)
                && (devices.is_none() || head.device.is_none() || devices == head.device.as_ref())
        };
        match machines.iter_mut().find(same) {
            Some(machine) => {
                let known: Vec<Row> =
                    rows.into_iter().filter(|row| machine.rows.iter().all(|old| old.key() != row.key())).collect();
                machine.rows.extend(known);
                machine.heads.extend(heads);
            }
            None => machines.push(Machine { name: String::new(), heads, rows }),
        }
    }
    for machine in &mut machines {
        machine.name = name(machine);
    }
    machines
}

fn name(machine: &Machine) -> String {
    let head = &machine.heads[0];
    let cpu = head.cpu.replace("(R)", "").replace("(TM)", "").replace(" Processor", "");
    let cores = if head.cores == 1 { "1 core".to_owned() } else { format!("{} cores", head.cores) };
    let device = machine.heads.iter().flat_map(|head| &head.device).find(|device| device.kind == "GPU");
    let device = device.map(|device| format!(", {}", device.name)).unwrap_or_default();
    format!("{}, {cores}{device}", cpu.trim())
}
