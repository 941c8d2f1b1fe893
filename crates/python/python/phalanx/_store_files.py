"""File objects of the file system."""

from __future__ import annotations

import asyncio
import contextlib
import io
import secrets
import sys
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fsspec.asyn import AbstractAsyncStreamedFile, sync
from fsspec.core import OpenFile
from fsspec.spec import AbstractBufferedFile

from ._errors import Error
from ._files import ProtectedWriter
from ._files import open as _open
from ._objects import Object, at

if TYPE_CHECKING:
    from .fsspec import PhalanxFileSystem

#: A new object up to this length is written by one request, in bytes.
SPOOL = 16 << 20
#: The most that is read ahead of somebody who reads on and on, in bytes.
AHEAD = 4 << 20


class Ahead:
    """How much to read ahead: no more than was read on and on before."""

    def __init__(self) -> None:
        self._next = self._run = 0

    def of(self, opened: Object, start: int, end: int) -> int:
        goes_on = start == self._next
        ahead = min(self._run, AHEAD, opened.cache.limit // 8) if goes_on else 0
        self._run = (self._run if goes_on else 0) + end - start
        self._next = end
        return ahead


class PhalanxFile(AbstractBufferedFile):
    """A protected file of a :class:`PhalanxFileSystem`.

    Reading, nothing is read ahead of the first read, and later no more than was read on and on before; a ``cache_type`` of
    fsspec is used only if it is named. Writing, the object appears when :meth:`close` has succeeded.
    """

    def __init__(
        self,
        fs: PhalanxFileSystem,
        path: str,
        mode: str = "rb",
        block_size: Any = None,
        autocommit: bool = True,
        cache_type: str = "none",
        cache_options: Any = None,
        size: Any = None,
        **kwargs: Any,
    ) -> None:
        # Until it is open, there is nothing to close.
        self.closed = True
        # Whoever closes the file waits for a write of another thread. A finalizer may discard it in the middle of a call.
        self._turn = threading.RLock()
        self._object: Object | None = None
        self._ahead = Ahead()
        if mode == "rb":
            if fs._is_local:
                self._reader = _open(path, **fs._opening)
                size, chunk_size = self._reader.size, self._reader.chunk_size
            else:
                self._object = sync(fs.loop, fs._object, path)
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
        self._is_failed = False
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
            raise at(self.path, error)

    def write(self, data: Any) -> int:
        """Protects data. They are sent when they are many, or at the end."""
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
        """Gives the new object its name."""
        with self._turn:
            self.closed = True
            if self._sink is not None:
                self._sink.commit()
            else:
                self._writer.close()
            self.fs._written(self.path)

    def discard(self) -> None:
        """Leaves nothing of the new object."""
        with self._turn:
            self.closed = True
            self._writer.discard()
            if self._sink is not None:
                self._sink.discard()

    def abandon(self) -> None:
        """Discards a file that is collected without having been closed: it is not complete."""
        warnings.warn(f"{self!r} was not closed, and is discarded", ResourceWarning, source=self, stacklevel=3)
        self.closed = True
        if _is_in(self.fs._loop):
            # fsspec's loop runs here, and would have to do what is waited for.
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


class Compressed(io.RawIOBase):
    """Data that are compressed and written to a protected file."""

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
    """What a compressor writes to: what it writes in the end, after the object was discarded, goes nowhere."""

    def __init__(self, below: PhalanxFile) -> None:
        self._below = below
        self.is_open = True

    def write(self, data: Any) -> int:
        return self._below.write(data) if self.is_open else len(data)

    def flush(self) -> None:
        pass


class Text(io.TextIOWrapper):
    """Text that is being written to a protected file."""

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


class AsyncFile(AbstractAsyncStreamedFile):
    """A protected file that is read by coroutines."""

    def __init__(self, fs: PhalanxFileSystem, path: str, opened: Object) -> None:
        self._object, self._ahead = opened, Ahead()
        super().__init__(fs, path, "rb", opened.chunk_size, cache_type="none", size=opened.size)

    async def _fetch_range(self, start: int, end: int) -> bytes:
        try:
            return await self._object.read(start, end, self._ahead.of(self._object, start, end))
        except (Error, OSError) as error:
            raise at(self.path, error)


class Upload:
    """Where the bytes of a new object go. It appears under its name when it is complete, and not before."""

    def __init__(self, fs: Any, turn: contextlib.AbstractContextManager[Any], path: str, mode: str) -> None:
        self._fs, self._path, self._mode = fs, path, mode
        # That of the file system: few may be called by several threads at once.
        self._turn = turn
        self._spool = io.BytesIO()
        self._file: Any = None
        # The name that the object has meanwhile, where the file system cannot hold it back.
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
            # Those of stores complete an upload, or drop it. `fs.open` would take it for a part of a transaction.
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
            # Collected, it would be closed.
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
    """Whether ``with fsspec.open(…)`` is being left by an exception: it closes its file without a word about that."""
    frame = sys._getframe(1)
    for _ in range(4):
        frame = frame.f_back  # type: ignore[assignment]
        if frame is None:
            return False
        if frame.f_code is OpenFile.__exit__.__code__:
            return frame.f_locals["args"][:1] not in ((), (None,))
    return False
