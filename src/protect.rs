//! `phalanx protect`

use crate::args::{ProtectPlan, Verbosity};
use crate::failure::{self, Outcome, complain, shown};
use crate::lanes::{self, Lanes};
use crate::paths::{self, Input, Place, Target, blame};
use crate::progress::Meter;
use crate::secrets::Recipients;
use phalanx_core::header::FILE_CHUNK_LOG2;
use phalanx_core::{file, slot};

pub fn run(plan: ProtectPlan, verbosity: Verbosity) -> Outcome {
    paths::refuse_terminal(&plan.destination, &plan.places)?;
    let lanes = lanes::choose(&plan.engine)?;
    let recipients = Recipients::new(plan.keys);
    let protect = Protect { lanes, recipients, suite: plan.suite, destination: plan.destination, verbosity };
    failure::each(&plan.places, |place| protect.one(place))
}

struct Protect {
    lanes: Lanes,
    recipients: Recipients,
    suite: phalanx_core::Suite,
    destination: paths::Destination,
    verbosity: Verbosity,
}

impl Protect {
    fn one(&self, place: &Place) -> Outcome {
        let input = Input::open(&place.input)?;
        let target = Target::create(place, &input, &self.destination)?;
        let (header, keys) = slot::new_header(self.suite, FILE_CHUNK_LOG2, self.recipients.get()?)?;
        let meter = Meter::new(shown(&place.input), input.len(), self.verbosity);
        let done = file::seal(&self.lanes.dispatcher, &header, &keys, input.source()?, target.sink(), &meter);
        meter.finish();
        let bytes = done.map_err(|e| blame(place, e))?;
        target.commit(place, &input, &self.destination)?;
        if self.verbosity.verbose {
            let (from, to) = (shown(&place.input), shown(&place.output));
            complain(format!("{from} → {to}: {}, {}", meter.summary(bytes), self.lanes.description));
        }
        Ok(())
    }
}
