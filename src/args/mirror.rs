//! The arguments of `phalanx mirror`.

use super::{JsonArgs, StoreArgs};
use clap::Args;
use phalanx_host::args::{EngineArgs, MirrorArgs, MirrorPlan};
use phalanx_host::failure::Outcome;

#[derive(Args)]
pub struct Mirror {
    #[command(flatten)]
    args: MirrorArgs,
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
}

impl Mirror {
    pub fn validate(self) -> Outcome<Mirrored> {
        Ok(Mirrored { plan: self.args.validate()?, engine: self.engine, json: self.json.json })
    }
}
