//! Arrays of other libraries in the memory of a GPU, by the protocols that they share: DLPack and the CUDA array interface.
//! Both say where the bytes are, and which work has to be waited for before they are read.

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

/// The bytes of an array on this device. `None` if it is not in the memory of a GPU.
pub fn of<'py>(array: &Bound<'py, PyAny>, device: &Device) -> PyResult<Option<Array<'py>>> {
    if let Ok(bytes) = array.cast::<GpuBytes>() {
        let info = bytes.get().memory().device().info();
        if (info.api, info.index) != (device.info().api, device.info().index) {
            return Err(elsewhere(info.index as i64, device));
        }
        return Ok(Some(Array::Ours(bytes.clone())));
    }
    if let Some(ask) = attribute(array, "__dlpack_device__")? {
        let (kind, number): (i32, i64) = ask.call0()?.extract()?;
        return if kind == CUDA { by_dlpack(array, device, number).map(Some) } else { Ok(None) };
    }
    match attribute(array, "__cuda_array_interface__")? {
        Some(interface) => by_interface(&interface, array.clone()).map(Some),
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

fn by_dlpack<'py>(array: &Bound<'py, PyAny>, device: &Device, number: i64) -> PyResult<Array<'py>> {
    let py = array.py();
    if number != device.info().index as i64 {
        return Err(elsewhere(number, device));
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
    let (address, len) = dlpack::bytes_of(&capsule)?;
    Ok(Array::Theirs(Given { address, len, wait: Wait::Gate(gate) }, capsule))
}

fn elsewhere(number: i64, device: &Device) -> PyErr {
    let ours = device.info().index;
    PyValueError::new_err(format!("the array is on GPU {number}, and this file is sealed on GPU {ours}"))
}

fn by_interface<'py>(interface: &Bound<'py, PyAny>, array: Bound<'py, PyAny>) -> PyResult<Array<'py>> {
    let of = |name: &str| -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = interface.call_method1(intern!(array.py(), "get"), (name,))?;
        Ok(if value.is_none() { None } else { Some(value) })
    };
    let needed = |name: &str| {
        of(name)?.ok_or_else(|| PyTypeError::new_err(format!("the CUDA array interface of the array has no {name}")))
    };
    let shape: Vec<i64> = needed("shape")?.extract()?;
    let typestr: String = needed("typestr")?.extract()?;
    let (address, _): (Option<u64>, Bound<'py, PyAny>) = needed("data")?.extract()?;
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
        (_, None) => Wait::Nothing,
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
