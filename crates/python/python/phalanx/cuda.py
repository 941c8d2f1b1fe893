"""Protected files opened in the memory of a GPU, for arrays of PyTorch, CuPy and JAX.

Ciphertext crosses to the GPU, and is decrypted there when all tags have been checked. The host has no plaintext of what is read so, but
it opens the last chunk once, when a file is opened, to prove its length. It needs NVIDIA's driver; none of these libraries has to be
installed.

The GPU has no kernels for AES-256-GCM: files with the cipher ``aes-256-gcm`` raise :class:`phalanx.EngineError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _files, _native
from ._native import GpuBytes

if TYPE_CHECKING:
    from types import TracebackType

    from ._native import _Path

__all__ = ["GpuBytes", "GpuFile", "open"]


def open(file: _Path | object, *, device: int | None = None, **options: Any) -> GpuFile:  # noqa: A001 (phalanx.open, too)
    """Opens a protected file, to read ranges of it into the memory of a GPU: a :class:`GpuFile`.

    ``file``, and ``key``, ``keys``, ``password``, ``identities``, ``kms`` and ``threads`` are as for :func:`phalanx.open`; reads into the GPU
    have at most eight threads, whatever ``threads`` says. ``device`` is the number of the GPU, as PyTorch and CuPy count them; without one,
    it is CUDA's first. If it cannot be used, this raises :class:`phalanx.EngineError`.

    >>> import phalanx.cuda, torch                                                                      # doctest: +SKIP
    >>> with phalanx.cuda.open("weights.phx", key=key) as file:                                         # doctest: +SKIP
    ...     weights = torch.from_dlpack(file.read_at(0, file.size)).view(torch.float16)
    """
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
