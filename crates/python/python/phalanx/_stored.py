"""The protected objects of a file system: opened, listed with the sizes of their plaintexts, and read."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from datetime import datetime, timezone
from typing import Any

from fsspec.asyn import _run_coros_in_chunks
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import isfilelike

from . import _native
from ._chained import Chained
from ._errors import AuthenticationError, Error
from ._objects import FOOTER, PIECE, TAIL, Cache, Object, at, unsealed

#: How long a far store is not asked again whether an object has changed, in seconds.
FRESH = 1.0
#: As many objects are kept open at most.
OPEN = 128
#: As many sizes are remembered at most.
SIZES = 1 << 16
#: As many objects are opened at once for the sizes in a listing.
LISTED = 32

# In these fields, the file systems of fsspec say which version of an object there is. One of the first group is enough.
_VERSIONS = ("ETag", "etag", "generation", "md5Hash", "content_md5", "VersionId", "version_id")
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created", "ino")
# And in these, when it was written. An object is always written whole, so that its creation will do.
_MODIFIED = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")


class Stored(Chained):
    """A file system whose files are protected objects of another one: what reads them."""

    def __init__(self, opening: dict[str, Any], cache_size: int, *below: Any, **storage_options: Any) -> None:
        super().__init__(*below, **storage_options)
        self._opening = opening
        self._is_local = isinstance(self.fs, LocalFileSystem)
        self._chunk_cache = Cache(cache_size)
        # Of each path: the version, when it was looked up, the entry of its listing, and the opened object.
        self._objects: OrderedDict[str, tuple[Any, float, dict[str, Any], Object]] = OrderedDict()
        self._known_sizes: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        # How often anything was forgotten: what was looked up before is not remembered after.
        self._epoch = 0
        self._lock = threading.Lock()

    # Opened objects

    def invalidate_cache(self, path: Any = None) -> None:
        """Forgets what is known of a path and what is below it, or of everything, here and in the file system below."""
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

    async def _object(self, path: str, info: dict[str, Any] | None = None, tail_len: int = FOOTER) -> Object:
        """The opened object of a path. It is the one that was opened before, if nobody has changed it since."""
        if info is None and (recent := self._recent(path)):
            return recent[3]
        task = self._tasks.get(path)
        if info is not None or task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            task = asyncio.ensure_future(self._look_up(path, info, tail_len))
            task.add_done_callback(lambda task: self._looked_up(path, task))
            if info is None:
                self._tasks[path] = task
        # Others may wait for it.
        return await asyncio.shield(task)

    def _recent(self, path: str) -> Any:
        known = self._objects.get(path)
        is_fresh = known is not None and self.fs.async_impl and time.monotonic() - known[1] < FRESH
        return known if is_fresh else None

    def _looked_up(self, path: str, task: asyncio.Task[Any]) -> None:
        if self._tasks.get(path) is task:
            del self._tasks[path]
        if not task.cancelled():
            task.exception()

    async def _look_up(self, path: str, info: dict[str, Any] | None, tail_len: int) -> Object:
        epoch, now = self._epoch, time.monotonic()
        info = info or await self._below("info", path)
        if info["type"] == "directory":
            raise IsADirectoryError(path)
        try:
            return await self._open_version(path, info, tail_len, epoch, now)
        except (AuthenticationError, OSError) as error:
            # The file system below may have remembered an object that is not there any more.
            self._invalidate_below(path)
            epoch, now = self._epoch, time.monotonic()
            current = await self._below("info", path)
            if _version(current) == _version(info):
                raise at(path, error)
        except Error as error:
            raise at(path, error)
        try:
            return await self._open_version(path, current, tail_len, epoch, now)
        except (Error, OSError) as error:
            raise at(path, error)

    async def _open_version(self, path: str, info: dict[str, Any], tail_len: int, epoch: int, now: float) -> Object:
        version = _version(info)
        known = self._objects.get(path)
        if known is not None and known[0] == version:
            opened = known[3]
        elif self._is_local:
            opened = await asyncio.to_thread(Object.open_file, path, self._fetcher(path), self._chunk_cache, self._opening)
        else:
            size, fetch = info["size"], self._fetcher(path)
            if size is None:
                # Some servers do not say it.
                data = await self._below("cat_file", path)
                size, fetch = len(data), _fetcher_of(data)
            opened = await Object.open(size, fetch, self._chunk_cache, self._opening, tail_len)
        with self._lock:
            if epoch == self._epoch:
                _remember(self._objects, path, (version, now, info, opened), OPEN)
                # Each holds a chunk.
                while sum(one[3].chunk_size for one in self._objects.values()) > max(self._chunk_cache.limit, opened.chunk_size):
                    self._objects.popitem(last=False)
                _remember(self._known_sizes, path, (version, opened.size), SIZES)
        return opened

    def _fetcher(self, path: str) -> Any:
        async def fetch(start: int, stop: int) -> bytes:
            return await self._below("cat_file", path, start=start, end=stop)

        return fetch

    async def _ranges(self, path: str, ranges: list[tuple[Any, Any]], max_gap: int = 0) -> list[Any]:
        """Ranges of a file as slices have them, each as its bytes or as an exception."""
        path = self._strip_protocol(path)
        opened = await self._object(path)
        found = await _slices(opened, ranges, max_gap)
        if any(isinstance(data, (Error, OSError)) for data in found):
            # The object may have been replaced while it was read. All of it is read anew: never half of each.
            self.invalidate_cache(path)
            found = await _slices(await self._object(path), ranges, max_gap)
        return [at(path, data) if isinstance(data, (Error, OSError)) else data for data in found]

    # Listings

    async def _info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if not kwargs and (recent := self._recent(path)):
            return _sized(recent[2], recent[3].size)
        info = await self._below("info", path, **kwargs)
        return await self._with_size(info, path, FOOTER) if info["type"] == "file" else info

    async def _with_size(self, info: dict[str, Any], path: str, tail_len: int) -> dict[str, Any]:
        known = self._known_sizes.get(path)
        if known is not None and known[0] == _version(info):
            return _sized(info, known[1])
        return _sized(info, (await self._object(path, info, tail_len)).size)

    async def _with_sizes(self, infos: list[dict[str, Any]], strict: bool = False) -> list[dict[str, Any]]:
        """Entries of a listing with the sizes of their plaintexts. Those that vanish meanwhile are left out."""

        async def one(info: dict[str, Any]) -> dict[str, Any] | None:
            if info["type"] != "file":
                return info
            try:
                return await self._with_size(info, info["name"], TAIL)
            except FileNotFoundError:
                return None
            except Error:
                if strict:
                    raise
                return _sized(info, None)

        found = await _run_coros_in_chunks([one(info) for info in infos], batch_size=self.batch_size or LISTED)
        return [info for info in found if info is not None]

    async def _ls(self, path: str, detail: bool = True, sizes: bool = True, **kwargs: Any) -> list[Any]:
        path = self._strip_protocol(path)
        found = await self._below("ls", path, detail=detail, **kwargs)
        if not detail:
            return found
        return await self._with_sizes(found) if sizes else [_sized(info, None) for info in found]

    async def _walk(self, path: str, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        # Where only names are wanted, no sizes are read.
        kwargs.setdefault("sizes", kwargs.get("detail", False))
        async for found in super()._walk(path, *args, **kwargs):
            yield found

    async def _find(self, path: str, maxdepth: Any = None, withdirs: bool = False, **kwargs: Any) -> Any:
        detail = kwargs.pop("detail", False)
        path = self._own(path)
        found = await self._below("find", path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **kwargs)
        return await self._detailed(found) if detail else found

    async def _glob(self, path: str, maxdepth: Any = None, **kwargs: Any) -> Any:
        detail = kwargs.pop("detail", False)
        found = await self._below("glob", self._own(path), maxdepth=maxdepth, detail=detail, **kwargs)
        return await self._detailed(found) if detail else found

    async def _detailed(self, found: dict[str, Any], strict: bool = False) -> dict[str, Any]:
        # A path that is a file itself may come without an entry.
        infos = [info or await self._below("info", path) for path, info in found.items()]
        return {info["name"]: info for info in await self._with_sizes(infos, strict)}

    async def _du(self, path: str, total: bool = True, maxdepth: Any = None, **kwargs: Any) -> Any:
        found = await self._below("find", self._own(path), maxdepth=maxdepth, detail=True, **kwargs)
        sizes = {name: info["size"] for name, info in (await self._detailed(found, strict=True)).items()}
        return sum(sizes.values()) if total else sizes

    async def _exists(self, path: str, **kwargs: Any) -> bool:
        path = self._strip_protocol(path)
        return bool(self._recent(path)) or await self._below("exists", path, **kwargs)

    async def _isfile(self, path: str) -> bool:
        path = self._strip_protocol(path)
        return bool(self._recent(path)) or await self._below("isfile", path)

    async def _isdir(self, path: str) -> bool:
        path = self._strip_protocol(path)
        return not self._recent(path) and await self._below("isdir", path)

    def checksum(self, path: str) -> Any:
        """The checksum of the stored object. No size is read for it."""
        return self._call_below("checksum", self._strip_protocol(path))

    def ukey(self, path: str) -> str:
        """What tells whether the stored object has changed. No size is read for it."""
        return self._call_below("ukey", self._strip_protocol(path))

    def created(self, path: str) -> Any:
        return self._call_below("created", self._strip_protocol(path))

    def modified(self, path: str) -> Any:
        return self._call_below("modified", self._strip_protocol(path))

    # Reading

    async def _cat_file(self, path: str, start: Any = None, end: Any = None, **kwargs: Any) -> bytes:
        path = self._strip_protocol(path)
        if kwargs or (start is None and end is None and not self._is_local):
            # All of it: one request, and nothing that could have changed in between. Options may name a version.
            data = await self._below("cat_file", path, **kwargs)
            try:
                return (await asyncio.to_thread(unsealed, data, self._opening))[start:end]
            except Error as error:
                raise at(path, error)
        (data,) = await self._ranges(path, [(start, end)])
        if isinstance(data, Exception):
            raise data
        return data

    async def _cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        batch_size: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        if not isinstance(paths, list):
            raise TypeError("paths is a list")
        starts = starts if isinstance(starts, (list, tuple)) else [starts] * len(paths)
        ends = ends if isinstance(ends, (list, tuple)) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("as many starts and ends as paths are needed")
        places: dict[str, list[int]] = {}
        for place, path in enumerate(paths):
            places.setdefault(path, []).append(place)

        async def one(path: str, places: list[int]) -> None:
            try:
                ranges = [(starts[place], ends[place]) for place in places]
                if kwargs or ranges == [(None, None)]:
                    results: list[Any] = [await self._cat_file(path, *one, **kwargs) for one in ranges]
                else:
                    results = await self._ranges(path, ranges, max_gap or 0)
            except Exception as error:
                results = [error] * len(places)
            for place, result in zip(places, results):
                out[place] = result

        out: list[Any] = [None] * len(paths)
        await _run_coros_in_chunks(
            [one(path, places) for path, places in places.items()],
            batch_size=batch_size or self.batch_size,
            nofiles=True,
        )
        if on_error != "return":
            for result in out:
                if isinstance(result, Exception):
                    raise result
        return out

    async def _get_file(self, rpath: str, lpath: Any, callback: Any = DEFAULT_CALLBACK, **kwargs: Any) -> None:
        rpath = self._strip_protocol(rpath)
        try:
            opened = await self._object(rpath)
        except IsADirectoryError:
            os.makedirs(lpath, exist_ok=True)
            return
        if isfilelike(lpath):
            await self._copy_out(rpath, opened, lpath, callback)
        elif not os.path.isdir(lpath):
            lpath = os.path.abspath(lpath)
            os.makedirs(os.path.dirname(lpath), exist_ok=True)
            _native.check_output(lpath)
            # It has its name when all of it is there. Nobody else can have opened a new file, nor put another in its place.
            new = os.path.join(os.path.dirname(lpath), f".phalanx-{secrets.token_hex(16)}-{secrets.token_hex(8)}.tmp")
            try:
                with open(new, "xb") as file:
                    await self._copy_out(rpath, opened, file, callback)
                os.replace(new, lpath)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(new)
                raise

    async def _copy_out(self, path: str, opened: Object, file: Any, callback: Any) -> None:
        callback.set_size(opened.size)
        step = 4 * PIECE
        for start in range(0, opened.size, step):
            try:
                data = await opened.read(start, start + step)
            except (Error, OSError) as error:
                self.invalidate_cache(path)
                raise at(path, error)
            await asyncio.to_thread(file.write, data)
            callback.relative_update(len(data))


def _fetcher_of(data: bytes) -> Any:
    async def fetch(start: int, stop: int) -> bytes:
        return data[start:stop]

    return fetch


async def _slices(opened: Object, ranges: list[tuple[Any, Any]], max_gap: int) -> list[Any]:
    return await opened.read_many([slice(*one).indices(opened.size)[:2] for one in ranges], max_gap=max_gap)


def _version(info: dict[str, Any]) -> Any:
    """What tells one version of an object from another."""
    strong = tuple((field, str(info[field])) for field in _VERSIONS if info.get(field))
    weak = tuple((field, _time(info[field])) for field in _TIMES if info.get(field) is not None)
    return (info["size"], strong[:1] or weak)


def _time(value: Any) -> str:
    # Some say it in two ways, in listings and otherwise.
    return str(value.timestamp() if isinstance(value, datetime) else value)


def _sized(info: dict[str, Any], size: int | None) -> dict[str, Any]:
    """An entry of a listing with the size of the plaintext, in place of the object's."""
    if info["type"] != "file":
        return info
    info = {field: value for field, value in info.items() if field != "Size"}
    times = (info[field] for field in _MODIFIED if info.get(field) is not None)
    modified = next(times, None)
    info = {**info, "size": size, "stored_size": info["size"]}
    if isinstance(modified, datetime):
        utc = modified if modified.tzinfo is not None else modified.replace(tzinfo=timezone.utc)
        modified = utc.timestamp()
    if isinstance(modified, (int, float)):
        # The field that pyarrow looks for, as local files have it.
        info["mtime"] = modified
    return info


def _remember(known: OrderedDict[str, Any], path: str, value: Any, limit: int) -> None:
    known[path] = value
    known.move_to_end(path)
    while len(known) > limit:
        known.popitem(last=False)
