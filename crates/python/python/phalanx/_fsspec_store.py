"""The opened objects of a file system by their paths: how they are opened, their versions, and when they are forgotten."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections import OrderedDict
from datetime import datetime
from typing import Any, NamedTuple

from fsspec.implementations.local import LocalFileSystem

from ._errors import AuthenticationError, Error
from ._files import ProtectedWriter
from ._files import open as _open
from ._fsspec_chained import ChainedBase
from ._fsspec_object import FOOTER, ChunkCache, Fetch, ProtectedObject, with_path

#: A remote store is asked again whether an object has changed after this time, in seconds.
FRESH = 1.0
#: The most objects that are kept open.
OPEN = 128
#: The most sizes that are remembered.
SIZES = 1 << 16

# The fields in which fsspec's file systems have the version of an object. One of the first group is enough.
_VERSIONS = ("ETag", "etag", "generation", "md5Hash", "content_md5", "VersionId", "version_id")
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created", "ino")


class KnownObject(NamedTuple):
    """The object of a path, as it was when it was looked up."""

    version: Any
    #: When the version was looked up, in seconds of the monotonic clock.
    looked_up: float
    #: The entry in the listing of the file system below.
    info: dict[str, Any]
    opened: ProtectedObject


class ProtectedStore(ChainedBase):
    """A file system whose files are protected objects of another one. It opens them, makes them, and keeps them open."""

    def __init__(
        self,
        opening: dict[str, Any],
        sealing: dict[str, Any],
        cache_size: int,
        sync: bool,
        *below: Any,
        **storage_options: Any,
    ) -> None:
        super().__init__(*below, **storage_options)
        self._opening, self._sealing = opening, sealing
        self._is_local = isinstance(self.fs, LocalFileSystem)
        self._durable = {"sync": sync} if self._is_local else {}
        self._chunk_cache = ChunkCache(cache_size)
        self._objects: OrderedDict[str, KnownObject] = OrderedDict()
        # The version and the size of each path.
        self._known_sizes: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._tasks: dict[str, asyncio.Task[ProtectedObject]] = {}
        # Counts how often something was forgotten. Results of earlier look-ups are not remembered after that.
        self._epoch = 0
        self._lock = threading.Lock()

    # Opened objects

    async def _open_object(
        self, path: str, info: dict[str, Any] | None = None, tail_len: int = FOOTER
    ) -> ProtectedObject:
        """The opened object of a path. It is the one that was opened before, unless the object has changed since."""
        if info is None and (recent := self._recent(path)):
            return recent.opened
        task = self._tasks.get(path)
        if info is not None or task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            task = asyncio.ensure_future(self._look_up(path, info, tail_len))
            task.add_done_callback(lambda task: self._looked_up(path, task))
            if info is None:
                self._tasks[path] = task
        # Others may wait for it.
        return await asyncio.shield(task)

    def _recent(self, path: str) -> KnownObject | None:
        known = self._objects.get(path)
        is_fresh = known is not None and self.fs.async_impl and time.monotonic() - known.looked_up < FRESH
        return known if is_fresh else None

    def _looked_up(self, path: str, task: asyncio.Task[ProtectedObject]) -> None:
        if self._tasks.get(path) is task:
            del self._tasks[path]
        if not task.cancelled():
            task.exception()

    async def _look_up(self, path: str, info: dict[str, Any] | None, tail_len: int) -> ProtectedObject:
        epoch, now = self._epoch, time.monotonic()
        info = info or await self._below("info", path)
        if info["type"] == "directory":
            raise IsADirectoryError(path)
        try:
            return await self._open_version(path, info, tail_len, epoch, now)
        except (AuthenticationError, OSError) as error:
            # The file system below may remember an object that does not exist any more.
            self._invalidate_below(path)
            epoch, now = self._epoch, time.monotonic()
            current = await self._below("info", path)
            if version_of(current) == version_of(info):
                raise with_path(path, error)
        except Error as error:
            raise with_path(path, error)
        try:
            return await self._open_version(path, current, tail_len, epoch, now)
        except (Error, OSError) as error:
            raise with_path(path, error)

    async def _open_version(
        self, path: str, info: dict[str, Any], tail_len: int, epoch: int, now: float
    ) -> ProtectedObject:
        version = version_of(info)
        known = self._objects.get(path)
        if known is not None and known.version == version:
            opened = known.opened
        else:
            size, fetch = info["size"], self._fetch_of(path)
            if self._is_local:
                fetch = (await asyncio.to_thread(_LocalFile, path)).fetch
            elif size is None:
                # Some servers do not report the size.
                data = await self._below("cat_file", path)
                size, fetch = len(data), _fetch_from(data)
            opened = await ProtectedObject.open(size, fetch, self._chunk_cache, self._opening, tail_len)
        with self._lock:
            if epoch == self._epoch:
                _remember(self._objects, path, KnownObject(version, now, info, opened), OPEN)
                _remember(self._known_sizes, path, (version, opened.size), SIZES)
        return opened

    def _fetch_of(self, path: str) -> Fetch:
        async def fetch(start: int, stop: int) -> bytes:
            return await self._below("cat_file", path, start=start, end=stop)

        return fetch

    # What is forgotten

    def invalidate_cache(self, path: Any = None) -> None:
        """Forgets what is known about a path and everything in it, or about all paths, here and in the file system below."""
        path = None if path is None else self._strip_protocol(path)
        self._forget(path)
        self._invalidate_below(path)
        super().invalidate_cache(path)

    def _invalidate_below(self, path: str | None) -> None:
        for fs in (self.fs, self._blocking_fs):
            if fs is not None:
                fs.invalidate_cache(path)

    def _forget(self, path: str | None) -> None:
        with self._lock:
            self._epoch += 1
            for known in (self._objects, self._known_sizes):
                if not path:
                    known.clear()
                    continue
                known.pop(path, None)
                for below in [name for name in known if name.startswith(path.rstrip("/") + "/")]:
                    del known[below]

    # New objects

    def _new_file(self, path: str, mode: str) -> ProtectedWriter:
        """A new local file."""
        if self.fs.auto_mkdir:
            self.fs.makedirs(self.fs._parent(path), exist_ok=True)
        options: dict[str, Any] = {**self._sealing, **self._durable}
        return _open(path, "xb" if mode == "xb" else "wb", **options)

    def _written(self, path: str) -> None:
        """A path has a new object."""
        self._forget(path)
        self._invalidate_below(path)
        self._invalidate_below(self.fs._parent(path))


class _LocalFile:
    """A local file that is open: it stays the same file if another one takes its name."""

    def __init__(self, path: str) -> None:
        # Opening a pipe must not wait for its writer. Reading it is an error.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._descriptor).atexit = False

    async def fetch(self, start: int, stop: int) -> bytes:
        return await asyncio.to_thread(os.pread, self._descriptor, stop - start, start)


def version_of(info: dict[str, Any]) -> Any:
    """The version of an object, from its entry in a listing."""
    strong = tuple((field, str(info[field])) for field in _VERSIONS if info.get(field))
    weak = tuple((field, _time(info[field])) for field in _TIMES if info.get(field) is not None)
    return (info["size"], strong[:1] or weak)


def _time(value: Any) -> str:
    # Some times have another type in listings than elsewhere.
    return str(value.timestamp() if isinstance(value, datetime) else value)


def _fetch_from(data: bytes) -> Fetch:
    async def fetch(start: int, stop: int) -> bytes:
        return data[start:stop]

    return fetch


def _remember(known: OrderedDict[str, Any], path: str, value: Any, limit: int) -> None:
    known[path] = value
    known.move_to_end(path)
    while len(known) > limit:
        known.popitem(last=False)
