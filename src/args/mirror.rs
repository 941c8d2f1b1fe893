//! The arguments of `phalanx mirror`.

use super::StoreArgs;
use clap::Args;
use phalanx_host::args::{EngineArgs, MirrorArgs, MirrorPlan, SignMirrorArgs};
use phalanx_host::failure::Outcome;

#[derive(Args)]
pub struct Mirror {
    #[command(flatten)]
    args: MirrorArgs,
    #[command(flatten)]
    sign: SignMirrorArgs,
    /// Print a line of JSON for each failure, and one for the run
    ///
    /// The line of what has failed or is left out has its path, its status (failed or left_out), and the message and the exit code of
    /// a failure. With --verbose or --dry-run, what is done or would be done has a line too: its status is new, changed, moved,
    /// permissions, deleted or compared. In a dry run, from says where it was before it moved. The last line has a summary. Messages
    /// go to standard error as well.
    #[arg(long)]
    json: bool,
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
        Ok(Mirrored { plan, engine: self.engine, json: self.json, sign: self.sign })
    }
}
