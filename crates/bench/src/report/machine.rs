//! The machines of a report, each with its rows.

use crate::head::Head;
use crate::row::Row;

/// A machine with the heads of its runs.
pub struct Machine {
    pub name: String,
    pub heads: Vec<Head>,
    pub rows: Vec<Row>,
}

impl Machine {
    /// Whether its device is a GPU. Some drivers offer the CPU as a device.
    pub fn has_gpu(&self) -> bool {
        self.heads.iter().flat_map(|head| &head.device).any(|device| device.kind == "GPU")
    }

    /// Whether one of its runs was short.
    pub fn is_quick(&self) -> bool {
        self.heads.iter().any(|head| head.quick)
    }

    pub fn of<'a>(&'a self, experiment: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.experiment == experiment)
    }
}

/// One machine for each kind of processor and device. Runs without a device join those with one on the same processor.
/// Of two rows for the same thing, a measured one is kept. If both were measured, the newer one is kept.
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
                let is_newer = machine.heads.iter().all(|old| old.date <= head.date);
                for row in rows {
                    match machine.rows.iter_mut().find(|old| old.key() == row.key()) {
                        Some(old) if (is_measured(&row), is_newer) > (is_measured(old), !is_newer) => *old = row,
                        Some(_) => {}
                        None => machine.rows.push(row),
                    }
                }
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

fn is_measured(row: &Row) -> bool {
    row.why_not().is_none()
}

fn name(machine: &Machine) -> String {
    let head = &machine.heads[0];
    let cpu = head.cpu.replace("(R)", "").replace("(TM)", "").replace(" Processor", "");
    let cores = if head.cores == 1 { "1 core".to_owned() } else { format!("{} cores", head.cores) };
    let device = machine.heads.iter().flat_map(|head| &head.device).find(|device| device.kind == "GPU");
    let device = device.map(|device| format!(", {}", device.name)).unwrap_or_default();
    format!("{}, {cores}{device}", cpu.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_and_newer_rows_are_kept() {
        let head = |date: &str| Head { date: date.into(), ..Head::default() };
        let row = |case: &str| Row { case: case.into(), ..Row::default() };
        let older = vec![row("a").timed(vec![1.0]), row("b").not_run("no device"), row("c").timed(vec![1.0])];
        let newer = vec![row("a").timed(vec![2.0]), row("b").timed(vec![2.0]), row("c").not_run("no device"), row("d")];
        let runs = [(vec![head("2026-01-01")], older), (vec![head("2026-01-02")], newer)];
        for runs in [runs.to_vec(), runs.iter().rev().cloned().collect()] {
            let machines = joined(runs);
            assert_eq!((machines.len(), machines[0].rows.len()), (1, 4));
            let of = |case: &str| machines[0].rows.iter().find(|row| row.case == case).unwrap().median_s;
            assert_eq!([of("a"), of("b"), of("c")], [Some(2.0), Some(2.0), Some(1.0)]);
        }
    }
}
