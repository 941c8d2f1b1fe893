//! Kernels from PTX: translated, compiled by the machine's C compiler and loaded.

use crate::launch::{Area, Run, Touch};
use crate::ptx;
use crate::translate::{self, Kernel, Placed, function};
use libloading::Library;
use sha3::{Digest, Sha3_256};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null_mut;

/// Shared memory of a block without and with the attribute that raises it, as on an H100.
pub const SHARED: u64 = 48 << 10;
pub const MOST_SHARED: u64 = 232_448;

const RUNTIME: &str = include_str!("runtime.c");
const OPTIONS: &str = "-std=gnu11 -O2 -fPIC -shared -fno-strict-aliasing -w";

/// A module that is loaded.
pub struct Module {
    /// The SHA3-256 of the PTX.
    pub digest: String,
    kernels: Vec<Kernel>,
    constants: Variables,
    library: Library,
}

/// The memory of variables.
pub struct Variables {
    pub areas: Vec<Area>,
    _bytes: Vec<Vec<u8>>,
    _touched: Vec<Vec<Touch>>,
}

// SAFETY: the addresses are of memory that the value owns.
unsafe impl Send for Variables {}

impl Variables {
    /// Makes memory for variables. `dynamic` is the length of those that have none. What can be written is recorded.
    pub fn new(placed: &[Placed], dynamic: u64, is_writable: bool) -> Self {
        let mut variables = Self { areas: Vec::new(), _bytes: Vec::new(), _touched: Vec::new() };
        for variable in placed {
            let len = variable.len.unwrap_or(dynamic);
            let mut bytes = variable.bytes.clone();
            bytes.resize(len as usize, 0);
            let mut written = vec![0u8; if is_writable { len as usize } else { 0 }];
            let mut touched = vec![Touch::default(); written.len().div_ceil(4)];
            variables.areas.push(Area {
                address: variable.address,
                len,
                bytes: bytes.as_mut_ptr(),
                written: if is_writable { written.as_mut_ptr() } else { null_mut() },
                touched: if is_writable { touched.as_mut_ptr() } else { null_mut() },
            });
            variables._bytes.extend([bytes, written]);
            variables._touched.push(touched);
        }
        variables
    }
}

impl Module {
    /// Builds a module from its PTX.
    pub fn new(ptx: &str) -> Result<Self, String> {
        let digest = digest(ptx);
        let replaced = replacement(&digest)?;
        let module = ptx::parse(replaced.as_deref().unwrap_or(ptx)).map_err(|refused| refused.to_string())?;
        let translated = translate::translate(&module).map_err(|refused| refused.to_string())?;
        let code = format!("{RUNTIME}\n{}", translated.code);
        let library = library(&code)?;
        let constants = Variables::new(&translated.constants, 0, false);
        Ok(Self { digest, kernels: translated.kernels, constants, library })
    }

    /// A kernel by its name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.kernels.iter().position(|kernel| kernel.name == name)
    }

    pub fn kernel(&self, index: usize) -> &Kernel {
        &self.kernels[index]
    }

    pub fn constants(&mut self) -> &mut [Area] {
        &mut self.constants.areas
    }

    /// The function that runs a kernel, and the kernel's own.
    pub fn functions(&self, index: usize) -> Result<(Run, unsafe extern "C" fn()), String> {
        let name = function(&self.kernels[index].name);
        // SAFETY: the code was compiled here, and its functions of these names have these types.
        unsafe {
            let run = self.library.get::<Run>(b"simulate_run").map_err(|e| e.to_string())?;
            let kernel = self.library.get::<unsafe extern "C" fn()>(name.as_bytes()).map_err(|e| e.to_string())?;
            Ok((*run, *kernel))
        }
    }
}

fn digest(text: &str) -> String {
    Sha3_256::digest(text.as_bytes()).iter().fold(String::new(), |mut digest, byte| {
        let _ = write!(digest, "{byte:02x}");
        digest
    })
}

/// The PTX that a test runs instead of the one with this digest.
fn replacement(digest: &str) -> Result<Option<String>, String> {
    let Some(folder) = std::env::var_os("PHALANX_SIMULATE_REPLACE") else { return Ok(None) };
    let path = Path::new(&folder).join(digest);
    if !path.exists() {
        return Ok(None);
    }
    std::fs::read_to_string(&path).map(Some).map_err(|e| format!("{}: {e}", path.display()))
}

/// Compiles code, unless the cache has it, and loads it.
fn library(code: &str) -> Result<Library, String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let scratch = tempfile::tempdir().map_err(|e| format!("a temporary folder: {e}"))?;
    let cache = std::env::var_os("PHALANX_SIMULATE_CACHE").map(PathBuf::from);
    let name = format!("{}.so", digest(&format!("{compiler} {OPTIONS}\n{code}")));
    let path = cache.as_deref().unwrap_or(scratch.path()).join(&name);
    if cache.is_none() || !path.exists() {
        let folder = path.parent().unwrap_or(Path::new("."));
        compile(&compiler, code, scratch.path(), folder, &path)?;
    }
    // SAFETY: the library was compiled from this code, and does nothing when it is loaded.
    unsafe { Library::new(&path) }.map_err(|e| format!("loading the kernels: {e:?}"))
}

fn compile(compiler: &str, code: &str, scratch: &Path, folder: &Path, path: &Path) -> Result<(), String> {
    let failed = |what: &dyn std::fmt::Display| format!("compiling the kernels: {what}");
    let source = scratch.join("kernels.c");
    std::fs::write(&source, code).map_err(|e| failed(&e))?;
    // It appears whole under its name.
    let made = tempfile::Builder::new().suffix(".so").tempfile_in(folder).map_err(|e| failed(&e))?;
    let mut command = Command::new(compiler);
    command.args(OPTIONS.split(' ')).arg("-o").arg(made.path()).arg(&source);
    let done = command.output().map_err(|e| failed(&e))?;
    if !done.status.success() {
        return Err(failed(&String::from_utf8_lossy(&done.stderr)));
    }
    made.persist(path).map_err(|e| failed(&e))?;
    Ok(())
}
