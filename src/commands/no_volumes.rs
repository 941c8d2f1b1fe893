//! Volumes on a system that has none. Their keys can be changed there, and what is seen of them without a key can be shown.

use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::lines::shown;
use std::path::Path;

/// A volume is not opened.
fn refuse(dir: &Path) -> Outcome {
    let line = format!("{}: it is a volume, which only phalanx on Linux opens", shown(dir));
    Err(Failure::new(Code::InputOutput, line).on(dir))
}

/// `phalanx verify` for a volume.
pub mod verify_volume {
    use super::*;
    use phalanx_core::Opener;
    use phalanx_host::args::EngineArgs;
    use phalanx_host::secrets::AtHand;
    use phalanx_host::verbosity::Verbosity;

    pub fn accept(dir: &Path, _: &Opener<AtHand>, _: &EngineArgs, _: Verbosity) -> Outcome {
        refuse(dir)
    }

    pub fn run(dir: &Path, _: &Opener<AtHand>, _: &EngineArgs, _: Verbosity) -> Outcome {
        refuse(dir)
    }
}

/// `phalanx unprotect --volume`.
pub mod volume_file {
    use super::*;
    use crate::args::UnprotectPlan;
    use phalanx_core::Opener;
    use phalanx_host::key_files::KeyFiles;
    use phalanx_host::secrets::AtHand;
    use phalanx_host::verbosity::Verbosity;

    pub fn run(_: &UnprotectPlan, dir: &Path, _: &Opener<AtHand>, _: &KeyFiles, _: Verbosity) -> Outcome {
        refuse(dir)
    }
}

/// `phalanx unprotect --recursive` of a volume.
pub mod volume_tree {
    use super::*;
    use crate::commands::volumes::Shared;

    pub fn run(_: &Shared<'_>, dir: &Path, _: &Path) -> Outcome {
        refuse(dir)
    }
}
