//! Mounting: root uses the kernel directly, other users the program fusermount3. The result is the kernel's device, on
//! which the file system is served.

use super::place::{self, Mountpoint};
use super::{MountError, MountOptions};
use rustix::fs::{Mode, OFlags, fstat};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{getegid, geteuid};
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

/// A mount that is not served yet.
pub(super) struct Attached {
    pub device: OwnedFd,
    /// While this is open, fusermount3 waits. If the program dies, fusermount3 unmounts.
    pub watch: Option<UnixStream>,
}

/// Mounts on a folder that has been checked.
pub(super) fn attach(mountpoint: &Mountpoint, options: &MountOptions) -> Result<Attached, MountError> {
    if !options.auto_unmount {
        match directly(mountpoint, options) {
            Err(Errno::PERM) => {}
            Ok(device) => return Ok(Attached { device, watch: None }),
            Err(e) => return Err(MountError::io("mounting")(e)),
        }
    }
    by_fusermount(mountpoint, options)
}

fn directly(mountpoint: &Mountpoint, options: &MountOptions) -> rustix::io::Result<OwnedFd> {
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let folder = mountpoint.folder();
    let data = format!(
        "fd={},rootmode={:o},user_id={},group_id={},{}",
        device.as_raw_fd(),
        fstat(folder)?.st_mode,
        geteuid().as_raw(),
        getegid().as_raw(),
        options.data()
    );
    // This is the folder that was checked, even if something else has its name by now.
    let target = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let data = std::ffi::CString::new(data).map_err(|_| Errno::INVAL)?;
    rustix::mount::mount(options.name(), target, options.kind(), options.flags(), data.as_c_str())?;
    Ok(device)
}

fn by_fusermount(mountpoint: &Mountpoint, options: &MountOptions) -> Result<Attached, MountError> {
    let failed = |source| MountError::Io { doing: "running fusermount3", source };
    let program = place::fusermount().ok_or(MountError::NoFusermount)?;
    let (watch, theirs) = UnixStream::pair().map_err(failed)?;
    // It sends the device through its standard input.
    let mut child = Command::new(program)
        .args(["-o", &options.words().join(","), "--"])
        .arg(mountpoint.path())
        .env("_FUSE_COMMFD", "0")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    match receive(&watch) {
        Ok(device) if options.auto_unmount => Ok(Attached { device, watch: Some(watch) }),
        Ok(device) => child.wait().map(|_| Attached { device, watch: None }).map_err(failed),
        Err(e) => {
            let mut text = String::new();
            child.stderr.take().map_or(Ok(0), |mut said| said.read_to_string(&mut text)).map_err(failed)?;
            child.wait().map_err(failed)?;
            Err(explain(&text, e))
        }
    }
}

/// The device that fusermount3 has sent.
fn receive(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut read = || recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC);
    rustix::io::retry_on_intr(&mut read)?;
    let rights = |message| if let RecvAncillaryMessage::ScmRights(rights) = message { Some(rights) } else { None };
    let device = control.drain().filter_map(rights).flatten().next();
    device.ok_or_else(|| io::Error::other("it sent no device"))
}

/// What fusermount3 refused, in one line.
fn explain(text: &str, error: io::Error) -> MountError {
    if text.contains("user_allow_other") {
        return MountError::NoAllowOther;
    }
    let line = text.lines().find(|line| !line.trim().is_empty());
    let source = line.map_or(error, |line| io::Error::other(line.to_owned()));
    MountError::Io { doing: "mounting", source }
}
