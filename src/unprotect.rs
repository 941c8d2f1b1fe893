//! `phalanx unprotect`

use crate::args::{UnprotectPlan, Verbosity};
use crate::failure::{self, Outcome, complain, shown};
use crate::lanes::{self, Lanes};
use crate::paths::{Destination, Input, Place, Target, blame};
use crate::progress::Meter;
use crate::secrets::{self, AtHand};
use phalanx_core::file;
use phalanx_core::slot::Opener;

pub fn run(plan: UnprotectPlan, verbosity: Verbosity) -> Outcome {
    let lanes = lanes::choose(&plan.engine)?;
    let opener = secrets::opener(&plan.keys)?;
    let unprotect = Unprotect { lanes, opener, destination: plan.destination, verbosity };
    failure::each(&plan.places, |place| unprotect.one(place))
}

struct Unprotect {
    lanes: Lanes,
    opener: Opener<AtHand>,
    destination: Destination,
    verbosity: Verbosity,
}

impl Unprotect {
    fn one(&self, place: &Place) -> Outcome {
        let input = Input::open(&place.input)?;
        let mut source = input.source()?;
        let header = source.header().map_err(|e| blame(place, e))?;
        let target = Target::create(place, &input, &self.destination)?;
        let keys = self.opener.open(&header).map_err(|e| blame(place, e))?;
        let meter = Meter::new(shown(&place.input), input.len(), self.verbosity);
        let done = file::open(&self.lanes.dispatcher, &header, &keys, source, target.sink(), &meter);
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
