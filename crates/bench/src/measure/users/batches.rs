//! Batches that the library's own call seals on a device, alone and together with the CPU.
//!
//! Times are from the caller's memory and back into it, so they include the call's copies through pinned memory.

use crate::measure::device::{self, Crew};
use crate::measure::times::try_rounds;
use crate::measure::users::data::{Data, roster};
use crate::measure::users::rounds;
use crate::measure::{Error, Result, Row, Rows, Setup, Times};
use phalanx_core::engine::{CpuEngine, Engine, Op};
use phalanx_core::{Roster, Suite, batch};
use std::sync::Arc;

/// Measures both engines, compared with one CPU thread. `row` makes a row from an engine and its threads.
pub fn one_count(
    setup: &Setup,
    suite: Suite,
    data: &mut Data,
    one_thread: Option<f64>,
    row: impl Fn(&str, usize) -> Row,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let over = one_thread.map(|median| ("1 thread", median));
    let device = || device::engine(setup, data.plaintext() as u64);
    let cpu: Arc<dyn Engine> = Arc::new(CpuEngine::parallel(setup.threads, setup.levels));
    // This is the order of engines in the program.
    let both =
        [("gpu", 0, device().map(|device| vec![device])), ("hybrid", setup.threads, device().map(|d| vec![cpu, d]))];
    for (engine, threads, engines) in both {
        let times = engines.and_then(|engines| times(setup, suite, &engines, data));
        rows.measured([row(engine, threads)], times.map(|times| [times]), over)?;
    }
    Ok(())
}

/// Checks the results of these engines, and then returns their times.
fn times(setup: &Setup, suite: Suite, engines: &[Arc<dyn Engine>], data: &mut Data) -> Result<Times> {
    let crew = Crew::new(engines);
    check(&crew.roster, suite, data, setup)?;
    let times = try_rounds(rounds(setup), || batch::seal(&crew.roster, suite, &mut data.messages(Op::Seal)))?;
    crew.check().map(|()| times)
}

/// Seals the original data. Fails unless the CPU opens the result to the same data.
fn check(crew: &Roster, suite: Suite, data: &mut Data, setup: &Setup) -> Result<()> {
    data.paint();
    batch::seal(crew, suite, &mut data.messages(Op::Seal))?;
    opens(&roster(setup.threads, setup.levels), suite, data)
}

fn opens(cpu: &Roster, suite: Suite, data: &mut Data) -> Result<()> {
    match batch::open(cpu, suite, &mut data.messages(Op::Open)) {
        Err(phalanx_core::Error::NotAuthentic { failed }) => {
            Err(Error::Program(format!("{}: the CPU cannot open what user {} has", suite.name(), failed[0])))
        }
        Ok(()) if !data.is_painted() => Err(Error::Program(format!("{}: the CPU opens other bytes", suite.name()))),
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::engine::{Buffer, EngineInfo, Fault, Job, Levels, Verdicts};
    use phalanx_gpu::Kind;

    const SUITE: Suite = Suite::Aes256CtrSha3;

    #[test]
    fn altered_data_and_other_plaintexts_are_found() {
        let cpu = roster(2, Levels::detect());
        let mut data = Data::new(vec![100_003, 0, 5000], SUITE.overhead());
        let mut sealed = |alter_before: bool, alter_after: bool| {
            data.paint();
            let alter = |data: &mut Data| *data.parts()[2].1.last_mut().unwrap() ^= 1;
            if alter_before {
                alter(&mut data);
            }
            batch::seal(&cpu, SUITE, &mut data.messages(Op::Seal)).unwrap();
            if alter_after {
                alter(&mut data);
            }
            opens(&cpu, SUITE, &mut data).map_err(|e| e.to_string())
        };
        assert_eq!(sealed(false, false), Ok(()));
        assert!(sealed(false, true).unwrap_err().ends_with("the CPU cannot open what user 2 has"));
        assert!(sealed(true, false).unwrap_err().ends_with("the CPU opens other bytes"));
    }

    fn cpu() -> Arc<dyn Engine> {
        Arc::new(CpuEngine::parallel(2, Levels::detect()))
    }

    fn data() -> Data {
        Data::new(vec![35_001, 0, 1, 4096, 300_000, 100_000], SUITE.overhead())
    }

    #[test]
    fn the_cpu_opens_what_a_device_seals() {
        let Some(device) = crate::measure::device::tests::device() else { return };
        let is_gpu = device.info().kind == Kind::Gpu;
        let setup = Setup { device: Ok(device), ..Setup::of_tests("unused") };
        let mut data = data();
        let device = crate::measure::device::engine(&setup, data.plaintext() as u64).unwrap();
        for engines in [vec![device.clone()], vec![cpu(), device]] {
            let times = times(&setup, SUITE, &engines, &mut data).unwrap();
            assert_eq!(times.seconds.len(), rounds(&setup));
        }
        assert_eq!(crate::measure::device::engine(&setup, 2 << 20).is_ok(), is_gpu);
    }

    /// An engine that fails at every job.
    struct Broken(EngineInfo);

    impl Engine for Broken {
        fn info(&self) -> &EngineInfo {
            &self.0
        }

        fn buffer(&self, len: usize) -> Result<Buffer, Fault> {
            Ok(Buffer::paged(len))
        }

        fn run(&self, _: &mut Job) -> Result<Verdicts, Fault> {
            Err(Fault { engine: self.0.name.clone(), reason: "it broke".into() })
        }
    }

    /// The CPU takes over, so the times are not those of both engines.
    #[test]
    fn a_device_that_fails_has_no_times() {
        let setup = Setup::of_tests("unused");
        let info = EngineInfo { name: "gpu".into(), ..cpu().info().clone() };
        let broken: Arc<dyn Engine> = Arc::new(Broken(info));
        for engines in [vec![broken.clone()], vec![broken, cpu()]] {
            let error = times(&setup, SUITE, &engines, &mut data()).err().unwrap();
            assert!(error.of_device().is_some_and(|why| why.contains("it broke")), "{error}");
        }
    }
}
