//! What ends a process from outside: Ctrl-C, Ctrl-Break, and a window that is closed. Of logging off and of shutting down, Windows tells
//! services only. Temporary files are removed first. Whoever ends a process by force does not let it do that; the next run removes them then.

use crate::failure::{Code, Failure, Outcome};
use crate::{ask, file};
use phalanx_system::process;
use std::io;
use std::process::{Child, Command};

/// Windows has no limits on file sizes that end a process.
pub fn survive_limits() -> Outcome {
    Ok(())
}

/// Sets up what happens on Ctrl-C and the like: temporary files are removed, and then the process ends.
pub fn clean_up() -> Outcome {
    process::on_end(take).map_err(|e| Failure::new(Code::Other, format!("cannot catch signals: {e}")))
}

/// Does what Ctrl-C does, for the user who has typed it at a prompt.
pub(crate) fn interrupt() {
    take();
}

/// The exit code of what Ctrl-C ends.
const INTERRUPTED: u32 = 0xc000_013a;

/// Starts a program. Ctrl-C in the same console reaches it too.
pub fn start(command: &mut Command) -> io::Result<Child> {
    command.spawn()
}

fn take() {
    let _none_begins = file::remove_unfinished();
    file::give_up();
    ask::restore();
    process::end(INTERRUPTED)
}
