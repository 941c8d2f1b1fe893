"""Protected safetensors files: models and arrays, read tensor by tensor.

:func:`load_file` and :func:`save_file` are called as those of the package ``safetensors``, which is not needed. :func:`open` reads
single tensors. Arrays are numpy's, or PyTorch's with ``framework="torch"``.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import math
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from . import _files, cuda
from ._errors import EngineError
from ._tensors import SIZES, SafetensorsError, Tensor, build, header_length, is_text, parse

if TYPE_CHECKING:
    from ._native import _Path

__all__ = ["SafetensorsError", "TensorFile", "load_file", "open", "save_file"]

# Tensors begin at multiples of this in the memory of :func:`load_file`, if they do in the file.
_ALIGNMENT = 64
# ``cpu``, ``cuda`` or ``cuda:1``, PyTorch's object for it, or the number of a GPU.
_Device: TypeAlias = str | int | Any
# The kind of NVIDIA's GPUs in DLPack.
_CUDA = 2
# Opened chunks that a reader keeps, in bytes. Each thread opens its own range of the file, so few are used again.
_CACHE = 4 << 20
_NUMPY = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "U16": "<u2", "F16": "<f2", "I32": "<i4", "U32": "<u4", "F32": "<f4",
    "I64": "<i8", "U64": "<u8", "F64": "<f8", "C64": "<c8",
}  # fmt: skip
# Types that numpy does not have: they need the package ml_dtypes.
_ML = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
_TORCH = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16", "F16": "float16", "BF16": "bfloat16",
    "I32": "int32", "U32": "uint32", "F32": "float32", "I64": "int64", "U64": "uint64", "F64": "float64", "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
}  # fmt: skip


def load_file(
    file: _Path | object,
    *,
    device: _Device | Mapping[str, _Device] = "cpu",
    framework: str = "numpy",
    names: Iterable[str] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Reads a protected safetensors file: all tensors, or those with these ``names``.

    ``file``, and ``key``, ``keys``, ``password``, ``identities``, ``kms`` and ``threads`` are as for :func:`phalanx.open`. Every byte is
    authenticated before it is returned. ``framework`` is ``numpy`` or ``torch``. With ``device="cuda"``, or ``cuda:1``, the result is
    PyTorch's on that GPU: ciphertext crosses, and is opened there (:mod:`phalanx.cuda`). A file with the cipher ``aes-256-gcm``, and any
    file for a GPU that is not NVIDIA's, is opened by the CPU, and crosses as plaintext. So is any file, with a ``RuntimeWarning``, if the
    GPU cannot be opened here. If its memory is full, PyTorch's cache is emptied, and the file is read once more.

    ``device`` may also say where each tensor goes, as the device maps of Hugging Face do: ``{"model.layers.0": 0, "model": "cuda:1",
    "": "cpu"}``. The longest prefix that ends at a dot decides, or the whole name, and ``""`` is for all others. If one device is a GPU,
    all tensors are PyTorch's. Tensors that follow each other in the file and go to the same device are read at once.

    Without ``names``, all tensors that are read at once share one piece of memory, which lives as long as one of them. With one device,
    these are all. What is not a safetensors file raises :class:`SafetensorsError`, a ``ValueError``.

    >>> import numpy as np
    >>> import phalanx.safetensors
    >>> key = phalanx.Key.generate()
    >>> phalanx.safetensors.save_file({"weight": np.ones((2, 3), np.float32)}, "model.safetensors.phx", key=key)
    >>> float(phalanx.safetensors.load_file("model.safetensors.phx", key=key)["weight"].sum())
    6.0
    """
    maker_of = _chooser(framework, device)
    if isinstance(names, (str, bytes)):
        raise TypeError(f"names is a list of names, not the single name {names!r}")
    wanted = None if names is None else list(names)
    with open(file, **options) as tensors:
        # Before any tensor is opened: that all are there, and that there is a type for each.
        makers = {}
        for name in tensors if wanted is None else wanted:
            tensor, makers[name] = tensors[name], maker_of(name)
            makers[name].dtype(tensor)
        if wanted is not None:
            return {name: make(tensors._bytes_of(name, make.gpu), tensors[name]) for name, make in makers.items()}
        loaded: dict[str, Any] = {}
        for make, run in itertools.groupby(tensors, makers.__getitem__):
            loaded |= tensors._run(list(run), make)
        return loaded


def save_file(
    tensors: Mapping[str, Any],
    file: _Path | object,
    *,
    metadata: Mapping[str, str] | None = None,
    overwrite: bool = True,
    **options: Any,
) -> None:
    """Writes arrays of numpy, PyTorch, CuPy or JAX, by their names, to a protected safetensors file.

    ``file``, and ``key``, ``keys``, ``password``, ``recipients``, ``kms``, ``cipher``, ``chunk_size``, ``sync`` and ``threads`` are as for
    :func:`phalanx.open`. The file has its name when it is complete. Unless ``overwrite`` is set, it must not exist. If this fails, the file
    that was there stays. The plaintext is what the package ``safetensors`` writes, byte for byte, except that it writes several entries of
    metadata in any order. Each tensor is asked for once, and all are held until the file is written.

    Tensors on an NVIDIA GPU are sealed there, and ciphertext crosses (:mod:`phalanx.cuda`); those of the host that are in the same file are
    copied to the GPU. With the cipher ``aes-256-gcm``, and for a GPU that is not NVIDIA's, the CPU seals, and plaintext crosses. So it is,
    with a ``RuntimeWarning``, if the GPU cannot be used here, or if the tensors are on several GPUs. If its memory is full, PyTorch's
    cache is emptied, and it is tried once more.
    """
    # A mapping may make another array each time that it is asked.
    tensors = dict(tensors)
    kinds = {name: _kind_of(name, tensor) for name, tensor in tensors.items()}
    lengths = {name: SIZES[dtype] * math.prod(shape) for name, (dtype, shape) in kinds.items()}
    header, order = build(
        {name: (*kind, lengths[name]) for name, kind in kinds.items()}, None if metadata is None else dict(metadata)
    )
    with _new_file(file, "wb" if overwrite else "xb", _gpu_of(tensors.values()), options) as writer:
        writer.write(header)
        for name in order:
            is_there = isinstance(writer, cuda.GpuWriter) and _gpu_with(tensors[name]) is not None
            data = _flat_there(tensors[name]) if is_there else _flat(tensors[name])
            # Another thread may have changed the array.
            if data.nbytes != lengths[name]:
                raise SafetensorsError(f"tensor {name!r} had {lengths[name]} bytes, and now it has {data.nbytes}")
            writer.write(data)


def _new_file(file: Any, mode: Literal["wb", "xb"], gpu: int | str | None, options: dict[str, Any]) -> _files.ProtectedWriter:
    """The file that tensors on this GPU are written to. If the GPU cannot seal it, the CPU does; a text says why."""
    if gpu is None or options.get("cipher") == "aes-256-gcm":
        return _files._writer(file, mode, **options)
    try:
        if isinstance(gpu, str):
            raise EngineError(gpu)
        writer: cuda.GpuWriter = _with_room(lambda: cuda.open(file, mode, device=gpu, **options))
        return writer
    except EngineError as error:
        warnings.warn(f"tensors are sealed by the CPU, and cross as plaintext: {error}", RuntimeWarning, stacklevel=3)
    return _files._writer(file, mode, **options)


def _gpu_of(tensors: Iterable[Any]) -> int | str | None:
    """The number of NVIDIA's GPU that has tensors, or why none seals them. ``None`` if there is no tensor on one."""
    numbers = {number for number in map(_gpu_with, tensors) if number is not None}
    if len(numbers) > 1:
        return f"they are on {len(numbers)} GPUs"
    return numbers.pop() if numbers else None


def _gpu_with(tensor: Any) -> int | None:
    """The number of NVIDIA's GPU that has this array."""
    if _is_torch(tensor):
        is_there = tensor.is_cuda and _module("torch", "tensors of PyTorch").version.cuda is not None
        return tensor.device.index if is_there else None
    if hasattr(tensor, "__dlpack_device__"):
        # An array that is spread over several devices has no such place.
        with contextlib.suppress(BufferError, RuntimeError, TypeError, ValueError):
            kind, number = tensor.__dlpack_device__()
            return int(number) if kind == _CUDA else None
        return None
    # The interface does not say which.
    return 0 if hasattr(tensor, "__cuda_array_interface__") else None


def open(file: _Path | object, **options: Any) -> TensorFile:  # noqa: A001 (phalanx.open, too)
    """Opens a protected safetensors file, to read single tensors: a :class:`TensorFile`. The options are those of :func:`phalanx.open`."""
    options.setdefault("cache", _CACHE)
    # Whole tensors are read, by all threads: nothing is to be read ahead.
    options.setdefault("read_ahead", 0)
    reader = _files._reader(file, **options)
    try:
        return TensorFile(reader)
    except BaseException:
        reader.close()
        raise


class TensorFile(Mapping[str, Tensor]):
    """A protected safetensors file that is open: its tensors' types and shapes by their names, in the order of their bytes."""

    def __init__(self, reader: _files.ProtectedReader) -> None:
        length = header_length(reader.read_at(0, 8), reader.size)
        self._reader = reader
        # For each GPU, how the file is read there; ``None`` if the GPU cannot be opened.
        self._on_gpu: dict[int, cuda.GpuFile | None] = {}
        self._opening = threading.Lock()
        self._closed = False
        self._begin = 8 + length
        self._tensors, self.metadata = parse(reader.read_at(8, length), reader.size - self._begin)

    def read(self, name: str, *, device: _Device = "cpu", framework: str = "numpy") -> Any:
        """Reads one tensor, into memory of its own. Any number of threads may call it."""
        make = _maker(framework, _named(device))
        make.dtype(self[name])
        return make(self._bytes_of(name, make.gpu), self[name])

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def close(self) -> None:
        """Closes the file, and wipes the opened chunks."""
        with self._opening:
            self._closed = True
            opened = [there for there in self._on_gpu.values() if there is not None]
        try:
            for there in opened:
                there.close()
        finally:
            self._reader.close()

    def __enter__(self) -> TensorFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _bytes_of(self, name: str, gpu: int | None = None) -> Any:
        tensor = self[name]
        return self._filled(tensor.start, tensor.stop, gpu)

    def _run(self, names: list[str], make: _Maker) -> dict[str, Any]:
        """Arrays of tensors that follow each other in the file, in one piece of memory."""
        # Up to 63 bytes before them are read, too, so that each lies at a multiple of its type's size if it does in the file.
        start = self[names[0]].start // _ALIGNMENT * _ALIGNMENT
        memory = self._filled(start, self[names[-1]].stop, make.gpu)
        return {name: make(memory[self[name].start - start : self[name].stop - start], self[name]) for name in names}

    def _filled(self, start: int, stop: int, gpu: int | None) -> Any:
        """The bytes in numpy's memory, or as a tensor of PyTorch on the GPU with this number."""
        there = None if gpu is None or self._reader.cipher == "aes-256-gcm" else self._opened_on(gpu)
        if there is not None:
            memory = _with_room(lambda: there.read_at(self._begin + start, stop - start))
            return _module("torch", "memory of a GPU").from_dlpack(memory)
        memory = _aligned(stop - start)
        if len(memory) and self._reader.readinto_at(self._begin + start, memory) != len(memory):
            raise SafetensorsError("the file ended early")
        return memory

    def _opened_on(self, gpu: int) -> cuda.GpuFile | None:
        """The file on the GPU with this number, which is opened once; ``None`` if it cannot be."""
        with self._opening:
            if self._closed:
                raise ValueError("I/O operation on closed file")
            if gpu not in self._on_gpu:
                try:
                    self._on_gpu[gpu] = _with_room(lambda: cuda.GpuFile(self._reader, gpu))
                except EngineError as error:
                    self._on_gpu[gpu] = None
                    warnings.warn(f"tensors are opened by the CPU, and cross as plaintext: {error}", RuntimeWarning, stacklevel=2)
            return self._on_gpu[gpu]


def _with_room(call: Callable[[], Any]) -> Any:
    """The call's result. If the GPU's memory is full, it is called once more without what PyTorch keeps for later."""
    # Who has a tensor of PyTorch has imported it.
    torch = sys.modules.get("torch")
    try:
        return call()
    except EngineError as error:
        if torch is None or "out of device memory" not in str(error):
            raise
    torch.cuda.empty_cache()
    return call()


def _aligned(length: int) -> Any:
    """Bytes of numpy's, without content, at a multiple of 64."""
    np = _module("numpy", "numpy")
    memory = np.empty(length + _ALIGNMENT, np.uint8)
    skipped = -memory.ctypes.data % _ALIGNMENT
    return memory[skipped : skipped + length]


class _Maker(NamedTuple):
    """Makes an array of bytes and what is known of the tensor. ``dtype`` is its type, or an error if there is none."""

    dtype: Callable[[Tensor], Any]
    array: Callable[[Any, Tensor], Any]
    device: str | None = None
    # The number of NVIDIA's GPU that opens the bytes itself.
    gpu: int | None = None

    def __call__(self, memory: Any, tensor: Tensor) -> Any:
        array = self.array(memory, tensor)
        return array if self.device is None else array.to(self.device)


def _named(device: _Device) -> str:
    """A device's name: PyTorch has objects for them, and device maps have the numbers of GPUs."""
    return f"cuda:{device}" if isinstance(device, int) else str(device)


def _chooser(framework: str, device: _Device | Mapping[str, _Device]) -> Callable[[str], _Maker]:
    """What makes a tensor's array, by the tensor's name."""
    if not isinstance(device, Mapping):
        make = _maker(framework, _named(device))
        return lambda name: make
    places = {prefix: _named(place) for prefix, place in device.items()}
    if any(place.startswith("cuda") for place in places.values()):
        framework = "torch"
    makers = {place: _maker(framework, place) for place in dict.fromkeys(places.values())}

    def maker_of(name: str) -> _Maker:
        prefix = name
        while prefix and prefix not in places:
            prefix = prefix.rpartition(".")[0]
        if prefix not in places:
            raise ValueError(f"device names no device for tensor {name!r}")
        return makers[places[prefix]]

    return maker_of


def _maker(framework: str, device: str) -> _Maker:
    kind = device.partition(":")[0]
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"device is cpu or cuda, not {device!r}")
    if framework not in ("numpy", "torch"):
        raise ValueError(f"framework is numpy or torch, not {framework!r}")
    if kind == "cuda":
        torch = _module("torch", f"device={device!r}")
        if not torch.cuda.is_available():
            raise RuntimeError(f"device={device!r} needs a GPU, and PyTorch finds none")
        if torch.version.cuda is None:
            return _Maker(_torch_dtype, _of_torch, device)
        number = torch.device(device).index
        return _Maker(_torch_dtype, _of_torch, device, torch.cuda.current_device() if number is None else number)
    if framework == "torch":
        _module("torch", "framework='torch'")
        return _Maker(_torch_dtype, _of_torch)
    return _Maker(_numpy_dtype, _of_numpy)


def _numpy_dtype(tensor: Tensor) -> Any:
    np = _module("numpy", "numpy")
    if tensor.dtype in _NUMPY:
        return np.dtype(_NUMPY[tensor.dtype])
    return np.dtype(getattr(_module("ml_dtypes", f"the type {tensor.dtype} in numpy"), _ML[tensor.dtype]))


def _of_numpy(memory: Any, tensor: Tensor) -> Any:
    dtype = _numpy_dtype(tensor)
    return _fit(memory, dtype.itemsize).view(dtype).reshape(tensor.shape)


def _torch_dtype(tensor: Tensor) -> Any:
    dtype = getattr(_module("torch", "framework='torch'"), _TORCH[tensor.dtype], None)
    if dtype is None:
        raise SafetensorsError(f"this version of PyTorch does not have the type {tensor.dtype}")
    return dtype


def _of_torch(memory: Any, tensor: Tensor) -> Any:
    torch = _module("torch", "framework='torch'")
    dtype = _torch_dtype(tensor)
    if not len(memory):
        return torch.empty(tensor.shape, dtype=dtype)
    if not _is_torch(memory):
        memory = torch.from_numpy(_fit(memory, SIZES[tensor.dtype]))
    elif memory.data_ptr() % SIZES[tensor.dtype]:
        memory = memory.clone()
    return memory.view(dtype).reshape(tensor.shape)


def _fit(memory: Any, size: int) -> Any:
    """The bytes at a place for elements of this size: they are copied if a file has them at another one."""
    return memory if memory.ctypes.data % size == 0 else memory.copy()


def _kind_of(name: str, tensor: Any) -> tuple[str, tuple[int, ...]]:
    """The type of an array by its name in the format, and its shape."""
    if not is_text(name) or name == "__metadata__":
        raise SafetensorsError(f"a tensor cannot be called {name!r}")
    kind = str(tensor.dtype).removeprefix("torch.")
    for known, torch_name in _TORCH.items():
        if kind == torch_name:
            return known, tuple(tensor.shape)
    for known, code in _NUMPY.items():
        # In either order of bytes.
        if not _is_torch(tensor) and tensor.dtype.newbyteorder("<") == code:
            return known, tuple(tensor.shape)
    raise SafetensorsError(f"tensor {name!r} has the type {kind}, which the format does not have")


def _is_torch(tensor: Any) -> bool:
    # Who has a tensor of PyTorch has imported it.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def _flat(tensor: Any) -> Any:
    """The bytes of an array, little-endian, in the order of rows. They are copied only if they do not lie so."""
    np = _module("numpy", "numpy")
    if _is_torch(tensor):
        torch = _module("torch", "tensors of PyTorch")
        tensor = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    elif hasattr(tensor, "__cuda_array_interface__") and hasattr(tensor, "get"):
        # CuPy copies to the host only if it is told to.
        tensor = tensor.get()
    array = np.ascontiguousarray(tensor)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return array.reshape(-1).view(np.uint8)


def _flat_there(tensor: Any) -> Any:
    """An array on a GPU whose bytes lie in the order of rows. They are copied there only if they do not lie so."""
    if _is_torch(tensor):
        return tensor.detach().contiguous()
    cupy = sys.modules.get("cupy")
    return cupy.ascontiguousarray(tensor) if cupy is not None and isinstance(tensor, cupy.ndarray) else tensor


def _module(name: str, use: str) -> Any:
    with contextlib.suppress(ImportError):
        return importlib.import_module(name)
    raise ModuleNotFoundError(f"{use} needs the package {name}, which is not installed", name=name)
