//! GPUs, and reading protected files into their memory. Other libraries use that memory without a copy.

use crate::arrays::{self, Array, Purpose};
use crate::bytes::new_bytes;
use crate::error::{self, check_process, closed};
use crate::reader::Reader;
use crate::source::Source;
use crate::{dlpack, reader};
use phalanx_gpu::{Api, Buffer, CPU_VARIABLE, Device, DeviceReader, Reason, SharedMemory};
use phalanx_host::engines::levels;
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::collections::HashMap;
use std::env;
use std::mem::ManuallyDrop;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// The device with this number of CUDA's, or the first of them. Without one, OpenCL's on the CPU if that is admitted. Each is opened once, because that takes long.
fn device(py: Python<'_>, number: Option<usize>) -> PyResult<Device> {
    // Those of CUDA have their number, and OpenCL's has none.
    type Opened = Mutex<HashMap<(u32, Option<usize>), Device>>;
    static OPENED: LazyLock<Opened> = LazyLock::new(Opened::default);
    // The lock is held only for a look-up or an insertion.
    let opened = || OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let alive = |opened: &HashMap<_, Device>, of: Option<usize>| {
        opened.get(&(std::process::id(), of)).filter(|device| !device.is_dead()).cloned()
    };
    let known = {
        let opened = opened();
        alive(&opened, Some(number.unwrap_or(0))).or_else(|| alive(&opened, None).filter(|_| number.is_none()))
    };
    if let Some(device) = known {
        return Ok(device);
    }
    let find = || match phalanx_gpu::find_cuda(number.unwrap_or(0)) {
        Err(_) if number.is_none() && env::var_os(CPU_VARIABLE).is_some_and(|value| value == "1") => {
            phalanx_gpu::find()
        }
        found => found,
    };
    let found = py.detach(find).map_err(|why| error::engine(py, &format!("no GPU: {why}")))?;
    let of = (found.info().api == Api::Cuda).then_some(found.info().index);
    let mut opened = opened();
    // Another thread may have been faster. Memory of one cannot be used by the other, though they are the same GPU.
    let kept = alive(&opened, of).unwrap_or_else(|| found.clone());
    opened.insert((std::process::id(), of), kept.clone());
    drop(opened);
    py.detach(|| drop(found));
    Ok(kept)
}

/// The exception of a GPU's failure. What it refuses is the argument's fault.
pub fn of_gpu(py: Python<'_>) -> impl Fn(phalanx_gpu::Error) -> PyErr {
    move |error| match &error.reason {
        Reason::Refused(_) => PyValueError::new_err(error.to_string()),
        _ => error::engine(py, &error.to_string()),
    }
}

/// A GPU that is open.
#[pyclass(frozen, module = "phalanx._native")]
pub struct Gpu {
    device: Device,
    pid: u32,
}

#[pymethods]
impl Gpu {
    #[new]
    #[pyo3(signature = (number))]
    fn new(py: Python<'_>, number: Option<usize>) -> PyResult<Self> {
        Ok(Self { device: device(py, number)?, pid: std::process::id() })
    }

    /// Its name.
    #[getter]
    fn name(&self) -> String {
        self.device.info().name.clone()
    }
}

impl Gpu {
    /// The device, in the process that opened it.
    pub fn get(&self, py: Python<'_>) -> PyResult<Device> {
        check_process(py, self.pid)?;
        Ok(self.device.clone())
    }
}

/// A protected file that is read into the memory of a GPU. `phalanx.cuda.open` makes it.
#[pyclass(frozen, module = "phalanx._native")]
pub struct GpuReader {
    /// `None` when it is closed.
    inner: Mutex<Option<Arc<DeviceReader<Source>>>>,
    /// The reader of the same file on the host.
    reader: Py<Reader>,
    device: Device,
    pid: u32,
}

#[pymethods]
impl GpuReader {
    #[new]
    #[pyo3(signature = (reader, number))]
    fn new(py: Python<'_>, reader: Py<Reader>, number: Option<usize>) -> PyResult<Self> {
        let file = reader.get().file(py)?;
        let levels = levels().map_err(|failure| error::of_failure(py, &failure))?;
        let device = device(py, number)?;
        let inner = DeviceReader::new(file, device.clone(), levels.keccak);
        let inner = inner.map_err(|why| error::engine(py, &why.to_string()))?;
        Ok(Self { inner: Mutex::new(Some(Arc::new(inner))), reader, device, pid: std::process::id() })
    }

    /// The device's name.
    #[getter]
    fn device(&self) -> String {
        self.device.info().name.clone()
    }

    /// Reads up to `n` bytes from `offset` on into new memory of the GPU.
    fn read_at(&self, py: Python<'_>, offset: u64, n: u64) -> PyResult<GpuBytes> {
        check_process(py, self.pid)?;
        let reader = self.reader.get();
        let wanted = reader.size().saturating_sub(offset).min(n);
        let inner = self.inner()?;
        // If the file is closed meanwhile, this drops the last reference, and frees the lanes. That waits for the device,
        // so the thread is still detached.
        let read = move || inner.read(offset..offset + wanted).map_err(reader::Failed::Library);
        let memory = reader.detached(py, read)?;
        // Whoever drops it has the interpreter, which the device's work may need: a host function of CuPy's, for example.
        memory.free_elsewhere();
        Ok(GpuBytes { memory: Some(memory), len: wanted as usize, pid: self.pid })
    }

    /// Reads up to `n` bytes from `offset` on, as many as the array has if it is `None`, to the beginning of an array on the GPU,
    /// and returns how many; `None` if the array is not there.
    fn readinto_at(
        &self,
        py: Python<'_>,
        offset: u64,
        array: &Bound<'_, PyAny>,
        n: Option<u64>,
    ) -> PyResult<Option<usize>> {
        check_process(py, self.pid)?;
        let inner = self.inner()?;
        let Some(array) = arrays::of(array, &self.device, Purpose::Target)? else { return Ok(None) };
        let room = match &array {
            Array::Ours(bytes) => bytes.get().len_here(py)?,
            Array::Theirs(given, _) => given.len,
        };
        let n = n.unwrap_or(room as u64);
        if n > room as u64 {
            return Err(PyValueError::new_err(format!("the array has {room} bytes, and {n} are to be read there")));
        }
        let reader = self.reader.get();
        // This is no more than the room.
        let wanted = reader.size().saturating_sub(offset).min(n) as usize;
        if wanted == 0 {
            return Ok(Some(0));
        }
        let target = match &array {
            Array::Ours(bytes) => {
                let memory = bytes.get().memory();
                py.detach(|| memory.finish_others().map(|()| memory.target()))
            }
            Array::Theirs(given, _) => py.detach(|| given.target(&self.device, wanted)),
        };
        let mut target = target.map_err(of_gpu(py))?;
        // As in `read_at`, this may drop the last reference.
        let range = offset..offset + wanted as u64;
        let read = move || inner.read_into(range, &mut target).map_err(reader::Failed::Library);
        reader.detached(py, read).map(Some)
    }

    fn close(&self, py: Python<'_>) {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        if self.pid == std::process::id() {
            py.detach(|| drop(inner));
        } else {
            let _ = ManuallyDrop::new(inner);
        }
    }
}

impl GpuReader {
    fn inner(&self) -> PyResult<Arc<DeviceReader<Source>>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(closed)
    }
}

impl Drop for GpuReader {
    fn drop(&mut self) {
        let Some(inner) = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).take() else { return };
        if self.pid == std::process::id() {
            // Freeing the lanes waits for the device, and the source may be a Python object.
            self.device.drop_elsewhere(inner);
        } else {
            // The driver does not survive a fork.
            let _ = ManuallyDrop::new(inner);
        }
    }
}

/// Plaintext in the memory of a GPU, which is wiped when the last of its users has released it. Arrays of other libraries
/// share it: `torch.from_dlpack`, `cupy.from_dlpack` and `jax.dlpack.from_dlpack` take it.
#[pyclass(frozen, module = "phalanx.cuda")]
pub struct GpuBytes {
    /// `None` only while it is dropped.
    memory: Option<Buffer>,
    len: usize,
    pid: u32,
}

#[pymethods]
impl GpuBytes {
    /// The length in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.len
    }

    fn __len__(&self) -> usize {
        self.len
    }

    /// A copy in the memory of the host. Other libraries may be writing, so their work is waited for.
    fn tobytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        check_process(py, self.pid)?;
        let memory = self.memory();
        if self.len == 0 {
            return new_bytes(py, b"");
        }
        PyBytes::new_with(py, self.len, |out| {
            let copied = py.detach(|| {
                memory.finish_others()?;
                memory.device().stream()?.download(memory, 0, out)
            });
            copied.map_err(|why| error::engine(py, &why.to_string()))
        })
    }

    /// The memory as CuPy, PyTorch and Numba take it. Nothing needs to be waited for.
    #[getter(__cuda_array_interface__)]
    fn cuda_array_interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let memory = self.share().map_err(PyAttributeError::new_err)?;
        let interface = PyDict::new(py);
        interface.set_item("shape", (self.len,))?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("data", (if self.len == 0 { 0 } else { memory.address() }, false))?;
        interface.set_item("strides", py.None())?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }

    /// The memory as a capsule of DLPack. Its content is complete, so `stream` needs no wait.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        drop(stream);
        let memory = self.share().map_err(PyBufferError::new_err)?;
        if copy == Some(true) || dl_device.is_some_and(|device| device != self.place()) {
            return Err(PyBufferError::new_err("the memory is given as it is: no copy, and on its own device"));
        }
        let is_versioned = max_version.is_some_and(|(major, _)| major >= 1);
        dlpack::capsule(py, memory, self.len, self.place().1, is_versioned)
    }

    /// The kind and number of the device, as DLPack has them.
    fn __dlpack_device__(&self) -> PyResult<(i32, i32)> {
        self.share().map(|_| self.place()).map_err(PyBufferError::new_err)
    }

    fn __repr__(&self) -> String {
        format!("<phalanx.cuda.GpuBytes {} bytes on {}>", self.len, self.memory().device().info().name)
    }
}

impl GpuBytes {
    pub fn memory(&self) -> &Buffer {
        self.memory.as_ref().expect("it is there until the drop")
    }

    /// Its length, in the process that made it.
    pub fn len_here(&self, py: Python<'_>) -> PyResult<usize> {
        check_process(py, self.pid)?;
        Ok(self.len)
    }

    fn place(&self) -> (i32, i32) {
        (dlpack::CUDA, i32::try_from(self.memory().device().info().index).unwrap_or(i32::MAX))
    }

    /// The memory for CUDA's libraries, or why they cannot use it.
    fn share(&self) -> Result<SharedMemory, String> {
        let info = self.memory().device().info();
        let shared = if info.api == Api::Cuda { self.memory().share() } else { None };
        shared
            .ok_or_else(|| format!("the memory is of {} ({}), which CUDA's libraries do not take", info.name, info.api))
    }
}

impl Drop for GpuBytes {
    fn drop(&mut self) {
        // The driver does not survive a fork.
        if self.pid != std::process::id() {
            let _ = ManuallyDrop::new(self.memory.take());
        }
    }
}
