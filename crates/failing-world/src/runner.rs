//! Runs of commands in a folder of their own, in a world that fails.

use crate::random::Random;
use crate::tree::{self, Tree};
use crate::world::{Fault, Met, Op, Plan, World, removed};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// The command with these arguments.
    Command(Vec<String>),
    /// A script of requests to a volume, by its seed.
    Volume(crate::volume::Script),
}

impl Run {
    pub fn command(line: &str) -> Self {
        Self::Command(line.split_whitespace().map(str::to_owned).collect())
    }
}

/// How a run ended.
pub struct Ended {
    /// The exit code, or one of the numbers of `world.rs`; 256 and more for a signal.
    pub code: i32,
    pub out: Vec<u8>,
    pub error: String,
    /// The faults that it met, and where.
    pub met: Vec<Met>,
    /// How many operations there were.
    pub count: u32,
}

/// A place where runs happen.
pub struct Runner {
    world: World,
    /// The folder in which commands run. Each case gets a new one.
    pub case: PathBuf,
    input: File,
    output: File,
    error: File,
}

impl Runner {
    /// A runner in a new folder.
    pub fn new(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let stream =
            |name: &str| File::options().read(true).write(true).create(true).truncate(true).open(folder.join(name));
        let (input, output, error) = (stream("in")?, stream("out")?, stream("error")?);
        Ok(Self { world: World::new(), case: folder.join("case"), input, output, error })
    }

    /// Replaces the folder by a new one.
    pub fn put(&self, tree: &Tree) {
        tree::put(&self.case, tree).expect("the folder of a case");
    }

    /// Makes the folder hold this tree, in the files that are there or that the last run has removed. False if one of them is gone.
    pub fn change(&self, tree: &Tree) -> bool {
        let aside = self.case.with_file_name("aside");
        tree::change(&self.case, &removed(&self.case), &aside, tree).expect("the folder of a case")
    }

    /// What is in the folder now.
    pub fn take(&self) -> Tree {
        tree::take(&self.case).expect("the folder of a case")
    }

    /// Runs something.
    pub fn run(&mut self, run: &Run, input: &[u8], faults: &[Fault], keep_data: bool, fs_type: u32) -> Ended {
        let here = fs::metadata(&self.case).expect("the folder of a case");
        self.input.set_len(0).expect("standard input");
        self.input.write_all_at(input, 0).expect("standard input");
        for mut stream in [&self.input, &self.output, &self.error] {
            stream.rewind().expect("a stream");
        }
        self.output.set_len(0).expect("standard output");
        self.error.set_len(0).expect("standard error");
        // Only what a volume's journal says is said of inodes.
        let keep_inodes = keep_data && matches!(run, Run::Volume(_));
        let removed = removed(&self.case);
        let _ = fs::remove_dir_all(&removed);
        if keep_inodes {
            fs::create_dir(&removed).expect("a folder for what is removed");
        }
        let (device, root, path) = (here.dev(), here.ino(), &*self.case);
        let plan = Plan { faults, keep_data, keep_inodes, fs_type, device, root, path };
        let text = |text: &str| CString::new(text).expect("an argument");
        let mut arguments = vec![text("phalanx")];
        if let Run::Command(line) = run {
            arguments.extend(line.iter().map(|word| text(word)));
        }
        let streams = [self.input.as_fd(), self.output.as_fd(), self.error.as_fd()];
        let code = self.world.run(&plan, streams, &arguments, || match run {
            Run::Command(_) => command(),
            Run::Volume(script) => script.run(),
        });
        let mut error = Vec::new();
        self.error.rewind().expect("standard error");
        (&self.error).read_to_end(&mut error).expect("standard error");
        let mut out = Vec::new();
        self.output.rewind().expect("standard output");
        (&self.output).read_to_end(&mut out).expect("standard output");
        let error = String::from_utf8_lossy(&error).into_owned();
        Ended { code, out, error, met: self.world.met(faults), count: self.world.count() }
    }

    /// The operations of the last run.
    pub fn ops(&mut self) -> Vec<Op> {
        self.world.ops()
    }

    /// The inode of the folder.
    pub fn root(&self) -> u64 {
        fs::metadata(&self.case).expect("the folder of a case").ino()
    }
}

/// The command itself, with the arguments that this process has by now. Returns its exit code.
fn command() -> u8 {
    let code = phalanx::main();
    let _ = io::stdout().flush();
    (0..=255).find(|number| ExitCode::from(*number) == code).unwrap_or(255)
}

/// Bytes that look random.
pub fn painted(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..len).map(|_| random.next() as u8).collect()
}
