//! Arrays of other libraries in the memory of a GPU, by the protocols that they share: DLPack and the CUDA array interface.
//! Both say where the bytes are, and which work has to be waited for before they are read or overwritten.

use crate::cuda::GpuBytes;
use crate::dlpack::{self, CUDA, Given, Wait};
use crate::tensor::packed;
use phalanx_gpu::Device;
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Bytes in the memory of a GPU.
pub enum Array<'py> {
    /// Phalanx's own.
    Ours(Bound<'py, GpuBytes>),
    /// Another library's. The object keeps them.
    Theirs(Given, Bound<'py, PyAny>),
}

/// What is done with an array.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It is sealed.
    Source,
    /// A file is opened there.
    Target,
}

/// The bytes of an array on this device. `None` if it is not in the memory of a GPU.
pub fn of<'py>(array: &Bound<'py, PyAny>, device: &Device, purpose: Purpose) -> PyResult<Option<Array<'py>>> {
    if let Ok(bytes) = array.cast::<GpuBytes>() {
        let info = bytes.get().memory().device().info();
        if (info.api, info.index) != (device.info().api, device.info().index) {
            return Err(elsewhere(info.index as i64, device, purpose));
        }
        return Ok(Some(Array::Ours(bytes.clone())));
    }
    if let Some(ask) = attribute(array, "__dlpack_device__")? {
        let (kind, number): (i32, i64) = ask.call0()?.extract()?;
        return if kind == CUDA { by_dlpack(array, device, number, purpose).map(Some) } else { Ok(None) };
    }
    match attribute(array, "__cuda_array_interface__")? {
        Some(interface) => by_interface(&interface, array.clone(), purpose).map(Some),
        None => Ok(None),
    }
}

/// An attribute, if there is one. Those that are computed may raise other errors than that they are missing.
fn attribute<'py>(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    match object.getattr(name) {
        Err(error) if error.is_instance_of::<PyAttributeError>(object.py()) => Ok(None),
        found => found.map(Some),
    }
}

fn by_dlpack<'py>(array: &Bound<'py, PyAny>, device: &Device, number: i64, purpose: Purpose) -> PyResult<Array<'py>> {
    let py = array.py();
    if number != device.info().index as i64 {
        return Err(elsewhere(number, device, purpose));
    }
    let gate = py.detach(|| device.gate()).map_err(|why| PyValueError::new_err(why.to_string()))?;
    let options = PyDict::new(py);
    options.set_item("stream", gate.stream())?;
    options.set_item("max_version", (1, 0))?;
    let give = array.getattr(intern!(py, "__dlpack__"))?;
    let capsule = match give.call((), Some(&options)) {
        // Before version 1 it had no other argument.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            options.del_item("max_version")?;
            give.call((), Some(&options))?
        }
        given => given?,
    };
    let (address, len, flags) = dlpack::bytes_of(&capsule)?;
    if purpose == Purpose::Target {
        if flags & dlpack::READ_ONLY != 0 {
            return Err(read_only());
        }
        if flags & dlpack::COPIED != 0 {
            return Err(PyBufferError::new_err("the array gives a copy of itself, which is no place to read to"));
        }
    }
    Ok(Array::Theirs(Given { address, len, wait: Wait::Gate(gate) }, capsule))
}

fn elsewhere(number: i64, device: &Device, purpose: Purpose) -> PyErr {
    let ours = device.info().index;
    let done = if purpose == Purpose::Source { "sealed" } else { "opened" };
    PyValueError::new_err(format!("the array is on GPU {number}, and this file is {done} on GPU {ours}"))
}

fn read_only() -> PyErr {
    PyBufferError::new_err("the array is read-only")
}

fn by_interface<'py>(
    interface: &Bound<'py, PyAny>,
    array: Bound<'py, PyAny>,
    purpose: Purpose,
) -> PyResult<Array<'py>> {
    let of = |name: &str| -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = interface.call_method1(intern!(array.py(), "get"), (name,))?;
        Ok(if value.is_none() { None } else { Some(value) })
    };
    let needed = |name: &str| {
        of(name)?.ok_or_else(|| PyTypeError::new_err(format!("the CUDA array interface of the array has no {name}")))
    };
    let shape: Vec<i64> = needed("shape")?.extract()?;
    let typestr: String = needed("typestr")?.extract()?;
    let (address, is_read_only): (Option<u64>, Bound<'py, PyAny>) = needed("data")?.extract()?;
    if purpose == Purpose::Target && is_read_only.is_truthy()? {
        return Err(read_only());
    }
    let strides: Option<Vec<i64>> = of("strides")?.map(|strides| strides.extract()).transpose()?;
    if of("mask")?.is_some() {
        return Err(PyBufferError::new_err("the array has a mask"));
    }
    let item = item_len(&typestr)
        .ok_or_else(|| PyTypeError::new_err(format!("the array has the type {typestr}, which is not made of bytes")))?;
    let len = packed(&shape, strides.as_deref(), item, item).map_err(PyBufferError::new_err)?;
    let wait = match (needed("version")?.extract::<u32>()?, of("stream")?.map(|stream| stream.extract::<u64>())) {
        // Earlier versions do not say what has to be waited for.
        (0..=2, _) => Wait::All,
        // This should mean that the bytes are complete. But Numba does not name CUDA's default stream either, for which our
        // streams do not wait.
        (_, None) => Wait::All,
        (_, Some(stream)) => match stream? {
            0 => {
                return Err(PyValueError::new_err(
                    "the CUDA array interface of the array has the stream 0, which is none",
                ));
            }
            stream => Wait::Stream(stream),
        },
    };
    Ok(Array::Theirs(Given { address: address.unwrap_or(0), len, wait }, array))
}

/// The length of an element by its type as numpy writes it: `<f4`. `None` if it is not made of bytes.
fn item_len(typestr: &str) -> Option<i64> {
    let (order, rest) = typestr.split_at_checked(1)?;
    let (kind, digits) = rest.split_at_checked(1)?;
    let is_known = "<>|=".contains(order) && "biufcmMV".contains(kind);
    digits.split('[').next()?.parse().ok().filter(|len| is_known && *len > 0)
}
