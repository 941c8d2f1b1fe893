"""Protected files opened in the memory of a GPU, and sealed there, for arrays of PyTorch, CuPy and JAX.

Ciphertext crosses. It is decrypted on the GPU when its tags have been checked, and what is written is encrypted there. The host has no
plaintext of what is read or written so, but it opens the last chunk once, when a file is opened, to prove its length. It needs
NVIDIA's driver; none of these libraries has to be installed.

The GPU has no kernels for AES-256-GCM: files with the cipher ``aes-256-gcm`` raise :class:`phalanx.EngineError`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _files, _native
from ._native import GpuBytes

if TYPE_CHECKING:
    from types import TracebackType

    from ._native import _Path

__all__ = ["GpuBytes", "GpuFile", "GpuWriter", "open"]


@overload
def open(file: _Path | object, mode: Literal["rb"] = "rb", *, device: int | None = None, **options: Any) -> GpuFile: ...
@overload
def open(file: _Path | object, mode: Literal["wb", "xb"], *, device: int | None = None, **options: Any) -> GpuWriter: ...
def open(file: Any, mode: str = "rb", *, device: int | None = None, **options: Any) -> GpuFile | GpuWriter:
    """Opens a protected file, to read ranges of it into the memory of a GPU: a :class:`GpuFile`. Or a new one, to write arrays that lie
    there (``wb``, or ``xb`` if it must not exist): a :class:`GpuWriter`.

    ``file`` and the options are as for :func:`phalanx.open`. At most eight threads read into the GPU, and one writes, whatever
    ``threads`` says. ``device`` is the number of the GPU, as PyTorch and CuPy count them; without one, it is CUDA's first. If it cannot be
    used, this raises :class:`phalanx.EngineError`.

    >>> import phalanx.cuda, torch                                                                      # doctest: +SKIP
    >>> with phalanx.cuda.open("weights.phx", key=key) as file:                                         # doctest: +SKIP
    ...     weights = torch.from_dlpack(file.read_at(0, file.size)).view(torch.float16)
    >>> with phalanx.cuda.open("copy.phx", "wb", key=key) as file:                                      # doctest: +SKIP
    ...     file.write(weights)
    """
    if mode in ("wb", "xb"):
        gpu = _native.Gpu(device)
        return GpuWriter(*_files._new(file, mode, gpu=gpu, **options), gpu.name)
    if mode != "rb":
        raise ValueError(f"mode is rb, wb or xb, not {mode!r}")
    # Nothing is read ahead on the host.
    reader = _files._reader(file, **{"read_ahead": 0, "cache": 0, **options})
    try:
        return GpuFile(reader, device)
    except BaseException:
        reader.close()
        raise


class GpuFile:
    """A protected file whose ranges are read into the memory of a GPU. :func:`phalanx.cuda.open` makes it."""

    def __init__(self, reader: _files.ProtectedReader, device: int | None) -> None:
        self._native = _native.GpuReader(reader._native, device)
        self._reader = reader

    @property
    def size(self) -> int:
        """The length of the plaintext in bytes."""
        return self._reader.size

    @property
    def chunk_size(self) -> int:
        """How many bytes of plaintext a chunk has: what is copied and opened at once."""
        return self._reader.chunk_size

    @property
    def cipher(self) -> str:
        """The cipher of the file."""
        return self._reader.cipher

    @property
    def device(self) -> str:
        """The name of the GPU."""
        return self._native.device

    def read_at(self, offset: int, n: int) -> GpuBytes:
        """Reads ``n`` bytes from ``offset`` on into new memory of the GPU, or fewer at the end of the file.

        When it returns, they are all authentic and there, for any stream. Any number of threads may call it. The memory is wiped when
        the last array that shares it is gone, and all work of the process on the GPU is over.
        """
        return self._native.read_at(offset, n)

    def readinto_at(self, offset: int, array: Any, n: int | None = None) -> int:
        """Reads bytes from ``offset`` on to the beginning of ``array``, and returns how many: ``n``, or as many as the array has,
        or fewer at the end of the file.

        ``array`` is a contiguous array on this GPU that can be written to: a tensor of PyTorch, an array of CuPy or Numba, :class:`GpuBytes`,
        or any other with DLPack or the CUDA array interface. What was started on PyTorch's or CuPy's current stream before is waited
        for, or on the stream that the array names; if it names none, all work on the GPU. When this returns, the bytes are all authentic
        and there, for any stream. If it raises, and the read had begun, their place holds zeros. What lies behind them stays as it is.
        """
        read = self._native.readinto_at(offset, _place(array), n)
        if read is None:
            raise TypeError(f"an array on the GPU is needed, not {type(array).__name__}")
        return read

    def close(self) -> None:
        """Closes the file, and frees its memory on the GPU. What was read stays."""
        try:
            self._native.close()
        finally:
            self._reader.close()

    def __enter__(self) -> GpuFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("an open file is not pickled: open it again")

    def __repr__(self) -> str:
        return f"<phalanx.cuda.GpuFile name={self._reader.name!r} {self.size} bytes on {self.device}>"


class GpuWriter(_files.ProtectedWriter):
    """A protected file to which arrays are written that lie in the memory of a GPU. :func:`phalanx.cuda.open` makes it.

    As with every :class:`phalanx.ProtectedWriter`, the file has its name when :meth:`close` has succeeded, which is at the end of a
    ``with`` block. If the block raises, nothing is left.
    """

    def __init__(self, native: _native.Writer, name: Any, mode: str, device: str) -> None:
        super().__init__(native, name, mode)
        self.device = device

    def write(self, data: Any, /) -> int:
        """Writes all bytes of ``data``, and returns how many.

        ``data`` is a contiguous array on this GPU: a tensor of PyTorch, an array of CuPy or JAX, :class:`GpuBytes`, or any other
        with DLPack or the CUDA array interface. It is sealed on the GPU, and when this returns, it may change. What was started on
        PyTorch's or CuPy's current stream before is waited for, or on the stream that the array names; if it names none, all work on
        the GPU. ``data`` may also be bytes that the host has: they are copied to the GPU as they are.
        """
        written = self._native.write_array(_shown(data))
        if written is not None:
            return written
        try:
            view = memoryview(data)
        except TypeError:
            raise TypeError(f"an array on the GPU, or bytes, are needed, not {type(data).__name__}") from None
        with view:
            return super().write(view)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"open on {self.device}"
        return f"<phalanx.cuda.GpuWriter name={self.name!r} {state}>"


class _OfTorch:
    """The memory of a tensor, and the stream that is PyTorch's current one on its GPU. PyTorch's own interface has no stream."""

    def __init__(self, tensor: Any, torch: Any, *, read_only: bool) -> None:
        # What its bits only say, such as that it is conjugated, is computed.
        self.tensor = tensor.detach().resolve_conj().resolve_neg()
        # The default stream has the number 0 there, and 1 in the interface.
        stream = torch.cuda.current_stream(tensor.device).cuda_stream or 1
        self.__cuda_array_interface__ = {
            "shape": (self.tensor.numel() * self.tensor.element_size(),),
            "typestr": "|u1",
            "data": (self.tensor.data_ptr(), read_only),
            "strides": None,
            "stream": stream,
            "version": 3,
        }


def _shown(data: Any) -> Any:
    """The array as its bytes are found."""
    torch = _torch_of(data)
    return data if torch is None else _OfTorch(data, torch, read_only=True)


def _place(array: Any) -> Any:
    """The array as the place of its bytes is found, which are to be written."""
    # Arrays of JAX do not change, which its DLPack does not say. Who has one has imported it.
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(array, jax.Array):
        raise BufferError("the array is read-only")
    torch = _torch_of(array)
    if torch is None:
        return array
    if array.requires_grad:
        raise BufferError("the tensor requires grad, which would not follow what is read: give its detach()")
    place = _OfTorch(array, torch, read_only=False)
    if place.tensor.data_ptr() != array.data_ptr():
        raise BufferError("the tensor is conjugated or negated by a bit only, so its bytes are not its elements")
    return place


def _torch_of(data: Any) -> Any:
    """PyTorch, if this is a tensor of its on an NVIDIA GPU, which has to be contiguous."""
    # Who has a tensor of PyTorch has imported it.
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(data, torch.Tensor) or not data.is_cuda or torch.version.cuda is None:
        return None
    if not data.is_contiguous():
        raise BufferError("the array is not contiguous")
    return torch
