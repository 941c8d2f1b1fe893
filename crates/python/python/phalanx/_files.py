"""The file objects of :func:`phalanx.open`."""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import warnings
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _native

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

    from ._native import Key, _Path

# Before the interpreter ends, threads that read ahead from Python objects must have ended, and unfinished files must be gone.
# This is not a set of weak references, because that cannot be listed in one step while other threads open files.
_files: weakref.WeakKeyDictionary[ProtectedReader | ProtectedWriter, None] = weakref.WeakKeyDictionary()


@atexit.register
def _end() -> None:
    for reference in _files.keyrefs():
        file = reference()
        with contextlib.suppress(Exception):
            if isinstance(file, ProtectedWriter):
                file.discard()
            elif file is not None:
                file.close()


class ProtectedReader(io.RawIOBase):
    """A protected file that is read by range. :func:`phalanx.open` makes it.

    Each chunk is authenticated before any of its bytes is given out, and so is the size. It is a binary file object, which
    other libraries take in place of a plain file.
    """

    def __init__(self, native: _native.Reader, name: Any) -> None:
        self._native = native
        self.name = name
        self.mode = "rb"
        _files[self] = None

    @property
    def size(self) -> int:
        """The length of the plaintext in bytes."""
        return self._native.size

    @property
    def chunk_size(self) -> int:
        """How many bytes of plaintext a chunk has: what is read and opened at once."""
        return self._native.chunk_size

    @property
    def cipher(self) -> str:
        """The cipher of the file."""
        return self._native.cipher

    def read_at(self, offset: int, n: int) -> bytes:
        """Reads ``n`` bytes from ``offset`` on, or fewer at the end of the file. Any number of threads may call it."""
        return self._native.read_at(offset, n)

    def readinto_at(self, offset: int, buffer: Buffer, /) -> int:
        """Fills a buffer with the bytes from ``offset`` on, with several threads if it is long, and returns how many bytes it got.

        They are fewer than it has only at the end of the file. The cursor does not move, and any number of threads may call it.
        """
        with memoryview(buffer) as view, view.cast("B") as data:
            return self._native.readinto_at(offset, data)

    def protected_range(self, start: int, stop: int) -> tuple[int, int]:
        """The bytes of the stored file that a range of the plaintext needs, besides those that were read at the opening.

        For a file in a far store, they can be fetched by one request. An empty range needs ``(0, 0)``.
        """
        return self._native.protected_range(start, stop)

    def readable(self) -> bool:
        self._check()
        return True

    def seekable(self) -> bool:
        self._check()
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Reads ``size`` bytes, or fewer only at the end of the file; without a size, all that is left."""
        return self._native.read(None if size is None or size < 0 else size)

    def readall(self) -> bytes:
        """Reads all that is left."""
        return self._native.read(None)

    def readinto(self, buffer: Buffer, /) -> int:
        """Fills a buffer, and returns how many bytes it got: fewer than it has only at the end of the file."""
        with memoryview(buffer) as view, view.cast("B") as data:
            return self._native.readinto(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Moves the cursor, also beyond the end, and returns its new place."""
        return self._native.seek(offset, whence)

    def tell(self) -> int:
        """Where the cursor is."""
        return self._native.tell()

    def writable(self) -> bool:
        self._check()
        return False

    def write(self, data: Any, /) -> int:
        """It cannot be written to."""
        raise io.UnsupportedOperation("not writable")

    def close(self) -> None:
        """Closes the file, and wipes the opened chunks."""
        if not self.closed:
            super().close()
            self._native.close()

    def __del__(self) -> None:
        # The native reader ends by itself. Closing it here would wait for its threads, in the middle of any other code.
        pass

    def __reduce__(self) -> Any:
        raise TypeError("an open file is not pickled: open it again, or use phalanx.fsspec")

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.size} bytes"
        return f"<phalanx.ProtectedReader name={self.name!r} {state}>"


class ProtectedWriter(io.RawIOBase):
    """A protected file that is being written. :func:`phalanx.open` makes it.

    The file has its name when :meth:`close` has succeeded, which is at the end of a ``with`` block. If the block raises, or if
    the object is collected before it was closed, nothing is left.
    """

    def __init__(self, native: _native.Writer, name: Any, mode: str) -> None:
        self._native = native
        self.name = name
        self.mode = mode
        _files[self] = None

    def writable(self) -> bool:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return True

    def write(self, data: Buffer, /) -> int:
        """Writes all of ``data``, and returns its length in bytes. After a write that has failed, nothing can follow.

        Any number of threads may call it. What each writes stays together.
        """
        if isinstance(data, bytes):
            return self._native.write(data)
        with memoryview(data) as view, view.cast("B") as flat:
            return self._native.write(flat if flat else b"")

    def readable(self) -> bool:
        return not self.writable()

    def seekable(self) -> bool:
        return not self.writable()

    def read(self, size: int | None = -1, /) -> bytes:
        """It cannot be read."""
        raise io.UnsupportedOperation("not readable")

    def readall(self) -> bytes:
        """It cannot be read."""
        raise io.UnsupportedOperation("not readable")

    def readinto(self, buffer: Any, /) -> int:
        """It cannot be read."""
        raise io.UnsupportedOperation("not readable")

    def tell(self) -> int:
        """How many bytes were written, without those of a write that has not ended."""
        return self._native.tell()

    def close(self) -> None:
        """Seals what is left, and gives the file its name. If that fails, nothing is left."""
        if self.closed:
            return
        super().close()
        self._native.finish()

    def discard(self) -> None:
        """Closes the file and leaves nothing of it. What was written to a file object stays there, and no reader opens it."""
        if not self.closed:
            super().close()
            self._native.abort()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def _dealloc_warn(self, source: object) -> None:
        # Called by a BufferedWriter or TextIOWrapper that is collected without having been closed, before it closes this.
        self.__del__()

    def __del__(self) -> None:
        # If the constructor has failed, there is no `_native`.
        if hasattr(self, "_native") and not self.closed:
            warnings.warn(f"{self!r} was not closed, and is discarded", ResourceWarning, source=self, stacklevel=2)
            self.discard()

    def __reduce__(self) -> Any:
        raise TypeError("an open file is not pickled")

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<phalanx.ProtectedWriter name={self.name!r} {state}>"


class _TextWriter(io.TextIOWrapper):
    """Text that is being written to a protected file, which is not finished if a ``with`` block raises."""

    buffer: ProtectedWriter  # type: ignore[assignment]

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None and not self.closed:
            self.buffer.discard()
        self.close()


@overload
def open(
    file: _Path | object,
    mode: Literal["rb"] = "rb",
    *,
    key: Key | str | None = None,
    keys: Sequence[Key | str] = (),
    password: str | Buffer | None = None,
    identities: Sequence[_Path] = (),
    kms: Sequence[str] = (),
    cache: int | None = None,
    read_ahead: int | None = None,
    threads: int | None = None,
) -> ProtectedReader: ...
@overload
def open(
    file: _Path | object,
    mode: Literal["wb", "xb"],
    *,
    key: Key | str | None = None,
    keys: Sequence[Key | str] = (),
    password: str | Buffer | None = None,
    recipients: Sequence[str] = (),
    kms: Sequence[str] = (),
    cipher: str = "aes-256",
    chunk_size: int = 1 << 20,
    sync: bool = True,
    threads: int | None = None,
) -> ProtectedWriter: ...
@overload
def open(
    file: _Path | object,
    mode: Literal["r", "rt", "w", "wt", "x", "xt"],
    *,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    **options: Any,
) -> io.TextIOWrapper: ...
def open(file: Any, mode: str = "rb", **options: Any) -> ProtectedReader | ProtectedWriter | io.TextIOWrapper:
    """Opens a protected file for reading (``rb``), or a new one for writing (``wb``, or ``xb`` if it must not exist).

    ``r``, ``w`` and ``x`` are for text, and take ``encoding``, ``errors`` and ``newline`` as Python's own ``open`` does. (Around a
    file that is being written, use no ``io.TextIOWrapper`` or ``io.BufferedWriter`` of your own in a ``with`` statement: they
    close the file also after an exception, and so finish it.)

    ``file`` is a path, or an object. To be read, an object has ``size`` and ``read_at(offset, n)``, which is called from several
    threads at once, or is a seekable binary file object, which is read under a lock. To be written to, it has ``write``.

    Reading, ``key``, ``keys``, ``password``, ``identities`` and ``kms`` open the file; without any, the keys of the keyring are tried.
    ``cache`` is how many bytes of opened chunks are kept, and ``read_ahead`` how many are opened ahead when the
    file is read in order. Writing, ``key``, ``keys``, ``password``, ``recipients`` and ``kms`` say who can open it, and ``cipher`` and ``chunk_size`` how
    it is made. A file is replaced when the new one is complete. ``threads`` is how many threads seal or open.

    >>> key = phalanx.Key.generate()
    >>> with phalanx.open("new.phx", "wb", key=key) as f:
    ...     _ = f.write(b"The quick brown fox")
    >>> with phalanx.open("new.phx", key=key) as f:
    ...     f.size, f.read_at(4, 5)
    (19, b'quick')
    """
    if mode == "rb":
        return _reader(file, **options)
    if mode in ("wb", "xb"):
        return _writer(file, mode, **options)
    if mode in ("r", "rt", "w", "wt", "x", "xt"):
        text = {name: options.pop(name, None) for name in ("encoding", "errors", "newline")}
        if mode[0] == "r":
            return io.TextIOWrapper(io.BufferedReader(_reader(file, **options)), **text)
        return _TextWriter(_writer(file, mode[0] + "b", **options), **text)
    raise ValueError(f"mode is rb, wb, xb, r, w or x, not {mode!r}")


def _path_or_object(file: Any) -> tuple[str | None, Any]:
    if isinstance(file, (str, bytes, os.PathLike)):
        return os.fsdecode(file), None
    if file is None:
        raise TypeError("a path or a file object is needed, not None")
    return None, file


def _reader(
    file: Any,
    *,
    key: Key | str | None = None,
    keys: Sequence[Key | str] = (),
    password: str | Buffer | None = None,
    identities: Sequence[_Path] = (),
    kms: Sequence[str] = (),
    cache: int | None = None,
    read_ahead: int | None = None,
    threads: int | None = None,
) -> ProtectedReader:
    path, source = _path_or_object(file)
    native = _native.Reader(path, source, key, keys, password, identities, kms, cache, read_ahead, threads)
    return ProtectedReader(native, path if path is not None else getattr(file, "name", None))


def _writer(file: Any, mode: str, **options: Any) -> ProtectedWriter:
    return ProtectedWriter(*_new(file, mode, **options))


def _new(
    file: Any,
    mode: str,
    *,
    key: Key | str | None = None,
    keys: Sequence[Key | str] = (),
    password: str | Buffer | None = None,
    recipients: Sequence[str] = (),
    kms: Sequence[str] = (),
    cipher: str = "aes-256",
    chunk_size: int = 1 << 20,
    sync: bool = True,
    threads: int | None = None,
    gpu: _native.Gpu | None = None,
) -> tuple[_native.Writer, Any, str]:
    """A new file, its name and its mode: what a :class:`ProtectedWriter` is made of."""
    path, sink = _path_or_object(file)
    if sink is not None and not hasattr(sink, "write"):
        raise TypeError("a path, or an object with write is needed")
    overwrite = mode == "wb"
    native = _native.Writer(
        path, sink, overwrite, key, keys, password, recipients, kms, cipher, chunk_size, sync, threads, gpu
    )
    return native, path if path is not None else getattr(file, "name", None), mode
