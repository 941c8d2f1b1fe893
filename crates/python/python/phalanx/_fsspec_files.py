"""File objects of the file system for fsspec: what ``PhalanxFileSystem.open`` returns."""

from __future__ import annotations

import asyncio
import contextlib
import io
import secrets
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

from fsspec.asyn import AbstractAsyncStreamedFile, sync
from fsspec.core import OpenFile
from fsspec.spec import AbstractBufferedFile
from fsspec.transaction import Transaction as _Transaction

from ._errors import Error
from ._files import ProtectedWriter
from ._files import open as _open
from ._fsspec_object import ProtectedObject, with_path
from ._fsspec_store import ProtectedStore

#: A new object up to this length is written by one request, in bytes.
SPOOL = 16 << 20
#: The most that is read ahead of a sequential reader, in bytes.
AHEAD = 4 << 20


class ReadAhead:
    """Decides how much to read ahead: at most as much as was read in order before."""

    def __init__(self) -> None:
        self._next = self._run = 0

    def of(self, opened: ProtectedObject, start: int, end: int) -> int:
        goes_on = start == self._next
        ahead = min(self._run, AHEAD, opened.cache.limit // 8) if goes_on else 0
        self._run = (self._run if goes_on else 0) + end - start
        self._next = end
        return ahead


class PhalanxFile(AbstractBufferedFile):
    """A protected file of a :class:`PhalanxFileSystem`.

    When it is read, nothing is read ahead at first, and later no more than was read in order before. A ``cache_type`` of fsspec
    is used only if it is named. When it is written, the object appears when :meth:`close` has succeeded.
    """

    def __init__(
        self,
        fs: ProtectedStore,
        path: str,
        mode: str = "rb",
        block_size: Any = None,
        autocommit: bool = True,
        cache_type: str = "none",
        cache_options: Any = None,
        size: Any = None,
        **kwargs: Any,
    ) -> None:
        # Until the file is open, there is nothing to close.
        self.closed = True
        # Closing the file waits for a write of another thread. A finalizer may discard the file in the middle of a call.
        self._turn = threading.RLock()
        self._object: ProtectedObject | None = None
        self._ahead = ReadAhead()
        if mode == "rb":
            if fs._is_local:
                self._reader = _open(path, **fs._opening)
                size, chunk_size = self._reader.size, self._reader.chunk_size
            else:
                self._object = sync(fs.loop, fs._open_object, path)
                size, chunk_size = self._object.size, self._object.chunk_size
            super().__init__(
                fs, path, mode, block_size or chunk_size, autocommit, cache_type, cache_options, size, **kwargs
            )
            return
        if mode == "ab":
            raise NotImplementedError(f"{path}: nothing is appended to a protected file: write it whole (wb)")
        if mode not in ("wb", "xb"):
            raise NotImplementedError(f"a protected file is read or written whole: rb, wb or xb, not {mode}")
        if mode == "xb" and fs.exists(path):
            raise FileExistsError(path)
        self._is_failed = self._is_discarded = False
        self._sink = None if fs._is_local else Upload(fs._blocking, fs._turn, path, mode)
        self._writer: ProtectedWriter = (
            _open(self._sink, "wb", **fs._sealing) if self._sink is not None else fs._new_file(path, mode)
        )
        super().__init__(fs, path, mode, block_size, autocommit, **kwargs)

    def _fetch_range(self, start: int, end: int) -> bytes:
        if self._object is None:
            return self._reader.read_at(start, end - start)
        ahead = self._ahead.of(self._object, start, end)
        data = self._object.cached(start, end)
        if data is not None:
            return data
        try:
            return sync(self.fs.loop, self._object.read, start, end, ahead)
        except (Error, OSError) as error:
            self.fs._forget(self.path)
            raise with_path(self.path, error)

    def write(self, data: Any) -> int:
        """Protects data. Large amounts are sent at once, and the rest at the end."""
        with self._turn:
            if self.closed:
                raise ValueError("I/O operation on closed file.")
            if self.mode == "rb":
                raise ValueError("File not in write mode")
            self._is_failed = True
            written = self._writer.write(data)
            self._is_failed = False
            self.loc += written
            return written

    def flush(self, force: bool = False) -> None:
        if self.closed:
            raise ValueError("Flush on closed file")

    def close(self) -> None:
        """Closes the file. A new object is complete then, and appears, unless a write has failed."""
        is_left_by_exception = _is_left_by_exception()
        with self._turn:
            self._close(is_left_by_exception)

    def _close(self, is_left_by_exception: bool) -> None:
        if self.closed:
            return
        if self.mode == "rb":
            super().close()
            if self._object is None:
                self._reader.close()
            self._object = None
        elif self._is_failed or is_left_by_exception:
            self.discard()
        else:
            try:
                if self._sink is not None:
                    self._writer.close()
                self.closed = True
                if self.autocommit:
                    self.commit()
            except BaseException:
                self.discard()
                raise

    def commit(self) -> None:
        """Gives the new object its name, unless it was discarded. A transaction calls it at its end."""
        with self._turn:
            if self._is_discarded:
                return
            try:
                self.check_closed()
                if self._sink is not None:
                    self._sink.commit()
                else:
                    self._writer.close()
            except BaseException:
                self.discard()
                raise
            self.fs._written(self.path)

    def check_closed(self) -> None:
        """Raises if it is still open: something above it may still have data."""
        if not self.closed:
            raise ValueError(f"{self.path}: still open at the end of the transaction, so it is not written")

    def discard(self) -> None:
        """Leaves nothing of the new object."""
        with self._turn:
            self.closed = self._is_discarded = True
            self._writer.discard()
            if self._sink is not None:
                self._sink.discard()

    def abandon(self) -> None:
        """Discards a file that is collected without having been closed: it is not complete."""
        warnings.warn(f"{self!r} was not closed, and is discarded", ResourceWarning, source=self, stacklevel=3)
        self.closed = True
        if _is_in(self.fs._loop):
            # This thread runs fsspec's loop, which must do the work. So it must not wait.
            threading.Thread(target=self.discard).start()
        else:
            self.discard()

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is not None and self.mode != "rb" and not self.closed:
            self.discard()
        self.close()

    def __del__(self) -> None:
        if not self.closed:
            self.close() if self.mode == "rb" else self.abandon()


class Transaction(_Transaction):
    """Objects that appear together, at its end. If one of them is still open then, none does. If one fails, those after it do not.

    However it ends, it is over, and what is written later has nothing to do with it. fsspec itself sees to that only since 2026.
    """

    fs: Any

    def complete(self, commit: bool = True) -> None:
        """Commits or discards all files."""
        fs, files, self.fs = self.fs, list(self.files), None
        self.files.clear()
        try:
            if commit:
                for file in files:
                    file.check_closed()
                while files:
                    # One that fails discards itself.
                    files.pop(0).commit()
        finally:
            fs._intrans, fs._transaction = False, None
            with contextlib.ExitStack() as rest:
                for file in files:
                    rest.callback(file.discard)


class CompressedWriter(io.RawIOBase):
    """Compresses data and writes them to a protected file."""

    def __init__(self, compress: Any, below: PhalanxFile) -> None:
        self._below = below
        self._valve = _Valve(below)
        self._file = compress(self._valve, mode="w")

    def writable(self) -> bool:
        return not self.closed

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def close(self) -> None:
        if self.closed:
            return
        if getattr(self, "_finalizing", False):
            self.abandon()
            return
        super().close()
        self._file.close()
        self._below.close()

    def discard(self) -> None:
        """Leaves nothing of the new object."""
        self._end(self._below.discard)

    def abandon(self) -> None:
        """Discards a file that is collected without having been closed."""
        self._end(self._below.abandon)

    def _end(self, end: Callable[[], None]) -> None:
        self._valve.is_open = False
        end()
        super().close()
        self._file.close()

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is not None and not self.closed:
            self.discard()
        self.close()


class _Valve:
    """Passes on what a compressor writes, until the object is discarded."""

    def __init__(self, below: PhalanxFile) -> None:
        self._below = below
        self.is_open = True

    def write(self, data: Any) -> int:
        return self._below.write(data) if self.is_open else len(data)

    def flush(self) -> None:
        pass


class TextWriter(io.TextIOWrapper):
    """Writes text to a protected file."""

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is not None and not self.closed:
            self.discard()
        self.close()

    def close(self) -> None:
        if getattr(self, "_finalizing", False) and not self.closed:
            self.buffer.abandon()  # type: ignore[attr-defined]
        super().close()

    def discard(self) -> None:
        """Leaves nothing of the new object."""
        self.buffer.discard()  # type: ignore[attr-defined]


class AsyncPhalanxFile(AbstractAsyncStreamedFile):
    """A protected file that is read by coroutines."""

    def __init__(self, fs: ProtectedStore, path: str, opened: ProtectedObject) -> None:
        self._object, self._ahead = opened, ReadAhead()
        super().__init__(fs, path, "rb", opened.chunk_size, cache_type="none", size=opened.size)

    async def _fetch_range(self, start: int, end: int) -> bytes:
        try:
            return await self._object.read(start, end, self._ahead.of(self._object, start, end))
        except (Error, OSError) as error:
            raise with_path(self.path, error)


class Upload:
    """Writes the stored bytes of a new object. The object appears under its name when it is complete."""

    def __init__(self, fs: Any, turn: contextlib.AbstractContextManager[Any], path: str, mode: str) -> None:
        self._fs, self._path, self._mode = fs, path, mode
        # The lock of the file system below. Few file systems may be called by several threads at once.
        self._turn = turn
        self._spool = io.BytesIO()
        self._file: Any = None
        # The name of the incomplete object, if the file system below cannot hide it.
        self._temporary: str | None = None

    def write(self, data: bytes) -> int:
        with self._turn:
            if self._file is None and self._spool.tell() + len(data) > SPOOL:
                self._begin()
            (self._spool if self._file is None else self._file).write(data)
        return len(data)

    def _begin(self) -> None:
        fs, path = self._fs, self._path
        if fs.async_impl:
            # Files of stores can complete or abort an upload. `fs.open` would make it a part of a transaction.
            self._file = fs._open(path, mode=self._mode, autocommit=False)
        else:
            self._temporary = f"{path}.phalanx-{secrets.token_hex(8)}"
            self._file = fs.open(self._temporary, "wb")
        self._file.write(self._spool.getvalue())
        self._spool = io.BytesIO()

    def commit(self) -> None:
        with self._turn:
            self._commit()

    def _commit(self) -> None:
        fs, path = self._fs, self._path
        if self._file is None:
            only_new = {"mode": "create"} if self._mode == "xb" else {}
            fs.pipe_file(path, self._spool.getvalue(), **only_new)
            return
        self._file.close()
        if self._temporary is None:
            self._file.commit()
            return
        if self._mode == "xb" and fs.exists(path):
            raise FileExistsError(path)
        fs.mv(self._temporary, path)
        self._temporary = None

    def discard(self) -> None:
        with self._turn:
            self._discard()

    def _discard(self) -> None:
        file, self._file = self._file, None
        self._spool = io.BytesIO()
        if file is None:
            return
        if self._temporary is None:
            # So the file is not closed when it is collected.
            file.discard()
            file.closed = True
            return
        with contextlib.suppress(Exception):
            file.close()
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm(self._temporary)


def _is_in(loop: asyncio.AbstractEventLoop | None) -> bool:
    """Whether this thread runs the event loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _is_left_by_exception() -> bool:
    """Whether an exception is leaving a ``with fsspec.open(…)`` block, which closes its file without passing it on."""
    frame = sys._getframe(1)
    for _ in range(4):
        frame = frame.f_back  # type: ignore[assignment]
        if frame is None:
            return False
        if frame.f_code is OpenFile.__exit__.__code__:
            return frame.f_locals["args"][:1] not in ((), (None,))
    return False
