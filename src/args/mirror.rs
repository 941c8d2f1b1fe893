//! The arguments of `phalanx mirror`.

use super::{JsonArgs, StoreArgs};
use clap::Args;
use phalanx_host::args::{EngineArgs, MirrorArgs, MirrorPlan, SignMirrorArgs};
use phalanx_host::failure::Outcome;

#[derive(Args)]
pub struct Mirror {
    #[command(flatten)]
    args: MirrorArgs,
    #[command(flatten)]
    sign: SignMirrorArgs,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    pub stores: StoreArgs,
}

/// What `phalanx mirror` is to do.
pub struct Mirrored {
    pub plan: MirrorPlan,
    pub engine: EngineArgs,
    pub json: bool,
    pub sign: SignMirrorArgs,
}

impl Mirror {
    pub fn validate(self) -> Outcome<Mirrored> {
        let plan = self.args.validate()?;
        self.sign.validate(plan.suite)?;
        Ok(Mirrored { plan, engine: self.engine, json: self.json.json, sign: self.sign })
    }
}
