//! Going on in the background, for `--daemon`.
//!
//! A process with threads and secrets is not forked here. The program starts itself again, before it has read anything
//! secret, as a child with the same arguments, terminal and standard input. The child does everything: it reads keys,
//! asks for passwords and mounts. Then it leaves the terminal and its session, and says so on its standard output,
//! which is a pipe to its parent. Until then it fails as any run does, with a line on the same standard error, and its
//! parent ends with its exit code. So no secret goes from one process to another, and none is in arguments or the
//! environment.

use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::lines;
use phalanx_host::lines::complain;
use phalanx_host::{Error, home, signals, stdio};
use rustix::io::{FdFlags, fcntl_setfd};
use std::collections::HashSet;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};

/// The hidden option of the child.
const SWITCH: &str = "--detached";
/// What the child says when it is ready.
const READY: &str = "ready";
const HINT: &str = "without --daemon it says more";

/// Starts the child, and waits until it is ready or has failed.
pub fn start() -> Outcome {
    let mut args: Vec<_> = env::args_os().collect();
    // The options before a command take no values.
    let command = args.iter().skip(1).position(|arg| !arg.as_bytes().starts_with(b"-")).unwrap_or(0) + 1;
    args.insert(command + 1, SWITCH.into());
    let failed = |e: io::Error| Failure::new(Code::Other, format!("cannot go on in the background: {e}"));
    let settings = env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(b"PHALANX_"));
    let named = args.iter().cloned().chain(settings.map(|(_, value)| value));
    keep_from_child(&named.flat_map(|text| descriptors_in(&text)).collect()).map_err(failed)?;
    // This is the program that runs, even if another one has its name by now.
    let mut command = Command::new("/proc/self/exe");
    command.arg0(&args[0]).args(&args[1..]).stdout(Stdio::piped());
    // It leaves this folder, and looks for them afterwards too.
    command.envs(home::named_absolutely());
    // It takes signals as this process does, but not those that it finds blocked.
    let mut child = signals::start(&mut command).map_err(failed)?;
    let mut said = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut said).map_err(failed)?;
    }
    if said.trim_end() == READY {
        return Ok(());
    }
    Err(ended(child.wait().map_err(failed)?))
}

/// Lets the child inherit only standard input, output and error, and the descriptors that are named. The child lives
/// long: if it had descriptors that other programs have left open here, they would wait for it to close a pipe or
/// release a lock.
fn keep_from_child(named: &HashSet<RawFd>) -> io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(number) = number.filter(|number| *number > 2 && !named.contains(number)) else { continue };
        // SAFETY: the number was listed, so it is open. Nothing closes it: this thread only lists, and no other one
        // runs.
        #[expect(unsafe_code)]
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    }
    Ok(())
}

/// The descriptors that a text names, such as `/dev/fd/63` or `/proc/self/fd/63`, which shells put in place of `<(…)`.
fn descriptors_in(text: &OsStr) -> Vec<RawFd> {
    let text = text.to_string_lossy();
    let number = |rest: &str| rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok());
    text.split("/fd/").skip(1).filter_map(number).collect()
}

/// The child's failure. The child has reported it, unless a signal ended it.
fn ended(status: ExitStatus) -> Failure {
    match (status.code(), status.signal()) {
        (Some(2), _) => Failure::written(Code::Usage),
        (Some(3), _) => Failure::written(Code::NotAuthentic),
        (Some(4), _) => Failure::written(Code::InputOutput),
        (Some(0), _) => Failure::new(Code::Other, "the mount in the background ended at once").hint(HINT),
        (_, Some(signal)) => {
            Failure::new(Code::Other, format!("the mount in the background was ended by signal {signal}")).hint(HINT)
        }
        _ => Failure::written(Code::Other),
    }
}

/// In the child: leaves the terminal, the session and the folder. Then it says that it is ready.
pub fn detach(quiet: bool) -> Outcome {
    let failed = |e: io::Error| Failure::new(Code::Other, format!("cannot go on in the background: {e}"));
    rustix::process::setsid().map_err(|e| failed(e.into()))?;
    env::set_current_dir("/").map_err(failed)?;
    // It was started as /proc/self/exe, and `ps` and `pkill` would know it as `exe`.
    rustix::thread::set_name(c"phalanx").map_err(|e| failed(e.into()))?;
    if lines::complain_to_system().is_err() && !quiet {
        complain("warning: there is no system log (/dev/log): nobody will be told what goes wrong later");
    }
    let nowhere = File::options().read(true).write(true).open("/dev/null").map_err(failed)?;
    rustix::stdio::dup2_stdin(&nowhere).map_err(|e| failed(e.into()))?;
    rustix::stdio::dup2_stderr(&nowhere).map_err(|e| failed(e.into()))?;
    // If the parent has ended, no user knows about this process, so this fails.
    stdio::write_line(READY).map_err(Error::write)?;
    rustix::stdio::dup2_stdout(&nowhere).map_err(|e| failed(e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_named_by_their_paths() {
        let found = |text: &str| descriptors_in(OsStr::new(text));
        assert_eq!(found("--password-file=/dev/fd/63"), [63]);
        assert_eq!(found("/proc/self/fd/4/a/proc/7/fd/5"), [4, 5]);
        assert!(found("/dev/fd/x /dev/fd/ fd/3 /dev/fd/99999999999").is_empty());
    }
}
