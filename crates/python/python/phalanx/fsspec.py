"""Protected files on every file system of fsspec: ``phalanx::s3://…``, ``phalanx::file://…``, ``phalanx::memory://…``.

With this package installed, fsspec knows the protocol ``phalanx``, and so does everything that opens files by fsspec:

>>> import pandas as pd
>>> _ = phalanx.Key.generate().store("pandas")
>>> options = {"phalanx": {"key": "pandas"}}
>>> pd.DataFrame({"a": [1, 2, 3]}).to_parquet("phalanx::memory://table.parquet.phx", storage_options=options)
>>> int(pd.read_parquet("phalanx::memory://table.parquet.phx", storage_options=options)["a"].sum())
6
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import os
import secrets
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from typing import Any

from fsspec import filesystem, get_filesystem_class
from fsspec.asyn import AbstractAsyncStreamedFile, AsyncFileSystem, _run_coros_in_chunks, sync
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.config import apply_config
from fsspec.core import OpenFile
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractBufferedFile
from fsspec.utils import isfilelike, stringify_path

from . import _native
from ._errors import Error, NotPhalanxError, WrongKeyError
from ._files import ProtectedWriter
from ._files import open as _open
from ._native import Key
from ._objects import PIECE, Cache, Changed, Object, unsealed

__all__ = ["PhalanxFile", "PhalanxFileSystem"]

#: How long a far store is not asked again whether an object has changed, in seconds.
FRESH = 1.0
#: As many objects are kept open at most.
OPEN = 128
#: As many sizes are remembered at most.
SIZES = 1 << 16
#: As many objects are opened at once for the sizes in a listing.
LISTED = 32
#: A new object up to this length is written by one request, in bytes.
SPOOL = 16 << 20
#: The most that is read ahead of somebody who reads on and on, in bytes.
AHEAD = 4 << 20

# In these fields, the file systems of fsspec say which version of an object there is. One of the first group is enough.
_VERSIONS = ("ETag", "etag", "generation", "md5Hash", "content_md5", "VersionId", "version_id")
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created", "ino")


class _Password:
    """A password in the options of a file system. Nothing shows it, and it is not pickled."""

    _salt = secrets.token_bytes(32)

    def __init__(self, password: Any) -> None:
        self._password = password
        data = password.encode() if isinstance(password, str) else bytes(password)
        self._name = hashlib.blake2b(data, key=self._salt, digest_size=8).hexdigest()

    def reveal(self) -> Any:
        return self._password

    # fsspec makes tokens of this. It tells passwords apart within this process, and says nothing outside it.
    def __repr__(self) -> str:
        return f"<password {self._name}>"

    def __reduce__(self) -> Any:
        raise TypeError(_SECRET)


_SECRET = (
    "this file system holds a secret, which is not written down: store the key in the keyring (key.store), and give the file"
    " system its name"
)


class _Guard(type(AsyncFileSystem)):  # type: ignore[misc]
    """Hides a password before fsspec makes a token of it and stores it among the options."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        kwargs = apply_config(cls, kwargs)
        password = kwargs.get("password")
        if password is not None and not isinstance(password, _Password):
            kwargs["password"] = _Password(password)
        return super().__call__(*args, **kwargs)


class PhalanxFileSystem(AsyncFileSystem, ChainedFileSystem, metaclass=_Guard):  # type: ignore[misc]
    """A file system whose files are protected in another one, and plain here. fsspec calls it ``phalanx``.

    It is chained to the other one: ``phalanx::s3://bucket/table.parquet``. Every object is one protected file, as
    :func:`phalanx.protect` makes it, and keeps its name: nothing is appended to it.

    **Reading** needs ``key`` (a :class:`phalanx.Key`, or a name in the keyring), ``keys``, ``password`` or ``identities``, as
    :func:`phalanx.open` does. A range of the plaintext costs the chunks that it lies in: they are fetched at once, adjacent ones
    by one request, and checked before anything is given out. Opened objects, and ``cache_size`` bytes of opened chunks, are
    kept. They belong to a version of an object (its ETag, or its time and length), and a changed object is opened anew; whether
    it has changed is asked once a second at most where asking is a request.

    **Writing** needs ``key``, ``keys``, ``password`` or ``recipients``; ``cipher`` and ``chunk_size`` say how. The default of
    ``chunk_size``, 64 KiB, suits reading by range from far away. A new object appears when it is complete: if a write fails, or
    ``with fs.open(…)`` is left by an exception, the old one stays. ``sync`` is whether local files are on the disk then.

    **Sizes** are those of the plaintext, and authentic: ``info``, and ``ls``, ``find``, ``walk`` and ``glob`` with
    ``detail=True``, read the beginning and the end of every file whose size is not known yet. In listings, a file that does not
    open has no size (``None``); ``info`` raises why. All that asks for names only reads nothing. ``stored_size`` is the length of
    the object itself. Listings are cached as the other file system does it.

    ``mv``, ``cp`` and ``rm`` move, copy and remove the objects as they are.

    A file system whose keys are names in the keyring can be pickled, and whoever unpickles it needs keys with these names. With
    other keys, or a password, it refuses to be pickled or written as JSON. ``threads`` is how many threads open a range.

    Parameters
    ----------
    fo: str
        The path in a chain. It is not needed.
    fs: AbstractFileSystem
        The file system to be chained to, or
    target_protocol, target_options: str, dict
        what it is made from. Without any, it is that of local files.
    """

    protocol = "phalanx"
    # One file system for all paths.
    _strip_tokenize_options = ("fo",)

    def __init__(
        self,
        fo: str | None = None,
        fs: Any = None,
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        *,
        key: Key | str | None = None,
        keys: Sequence[Key | str] = (),
        password: Any = None,
        identities: Sequence[Any] = (),
        recipients: Sequence[str] = (),
        cipher: str = "aes-256",
        chunk_size: int = 64 << 10,
        sync: bool = True,
        threads: int | None = None,
        cache_size: int = 32 << 20,
        **storage_options: Any,
    ) -> None:
        super().__init__(**storage_options)
        if fs is not None and (target_protocol is not None or target_options is not None):
            raise ValueError("either fs, or target_protocol and target_options")
        if fs is None:
            target = target_protocol or "file"
            options = dict(target_options or {})
            if get_filesystem_class(target).async_impl:
                options.setdefault("asynchronous", self.asynchronous)
                if storage_options.get("loop") is not None:
                    options.setdefault("loop", storage_options["loop"])
            fs = filesystem(target, **options)
        if fs.async_impl and fs.asynchronous and not self.asynchronous:
            raise ValueError("an asynchronous file system below needs an asynchronous one above: asynchronous=True")
        self.fs = fs
        password = password.reveal() if isinstance(password, _Password) else password
        self._ways = {"key": key, "keys": list(keys), "password": password, "threads": threads}
        self._opening = {**self._ways, "identities": list(identities)}
        self._sealing = {**self._ways, "recipients": list(recipients), "cipher": cipher, "chunk_size": chunk_size}
        self._is_local = isinstance(fs, LocalFileSystem)
        self._durable = {"sync": sync} if self._is_local else {}
        self._cache = Cache(cache_size)
        # Of each path: the version, when it was looked up, the entry of its listing, and the opened object.
        self._objects: OrderedDict[str, tuple[Any, float, dict[str, Any], Object]] = OrderedDict()
        self._sizes: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        # How often anything was forgotten: what was looked up before is not remembered after.
        self._epoch = 0
        self._lock = threading.Lock()
        # As methods of the class, these know nothing of the file system below.
        self.root_marker = fs.root_marker
        self._strip_protocol = self._stripped
        self._parent = fs._parent

    # Names and tokens

    def _own(self, path: Any) -> Any:
        """A path without this file system's own protocol."""
        if isinstance(path, (list, tuple, set)):
            return [self._own(one) for one in path]
        path = stringify_path(path)
        for prefix in ("phalanx::", "phalanx://"):
            path = path.removeprefix(prefix)
        return path

    def _stripped(self, path: Any) -> Any:
        if isinstance(path, (list, tuple, set)):
            return [self._stripped(one) for one in path]
        return self.fs._strip_protocol(self._own(path))

    def unstrip_protocol(self, name: str) -> str:
        """The chained URL of a path."""
        return f"phalanx::{self.fs.unstrip_protocol(self._own(name))}"

    @property
    def fsid(self) -> str:
        return f"phalanx_{self.fs.fsid}"

    @property
    def sep(self) -> str:  # type: ignore[override]
        return self.fs.sep

    def _named(self) -> dict[str, Any]:
        """The options, with the names of keys for keys."""

        def name(key: Any) -> Any:
            if isinstance(key, Key) and key.name is None:
                raise TypeError(_SECRET)
            return key.name if isinstance(key, Key) else key

        options = {option: value for option, value in self.storage_options.items() if value is not None}
        if isinstance(options.get("password"), _Password):
            raise TypeError(_SECRET)
        if "key" in options:
            options["key"] = name(options["key"])
        if "keys" in options:
            options["keys"] = [name(key) for key in options["keys"]]
        return options

    def __reduce__(self) -> Any:
        make, (cls, args, _) = super().__reduce__()
        return make, (cls, args, self._named())

    def to_dict(self, *, include_password: bool = True) -> dict[str, Any]:
        """A description that :meth:`from_dict` makes the file system from. Keys are in it by their names."""
        options = self.storage_options
        try:
            if not include_password:
                self.storage_options = {option: value for option, value in options.items() if option != "password"}
            self.storage_options = self._named()
            return super().to_dict(include_password=include_password)
        finally:
            self.storage_options = options

    # The file system below

    async def _below(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Calls the file system below, in a thread if it is not asynchronous."""
        fs = self.fs
        if not fs.async_impl:
            return await asyncio.to_thread(getattr(fs, method), *args, **kwargs)
        call = getattr(fs, f"_{method}")(*args, **kwargs)
        if fs.asynchronous or fs.loop is asyncio.get_running_loop():
            return await call
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, fs.loop))

    async def set_session(self, *args: Any, **kwargs: Any) -> Any:
        """The session of the file system below."""
        return await self.fs.set_session(*args, **kwargs)

    def invalidate_cache(self, path: Any = None) -> None:
        """Forgets what is known of a path and what is below it, or of everything, here and in the file system below."""
        path = None if path is None else self._strip_protocol(path)
        self._forget(path)
        self.fs.invalidate_cache(path)
        super().invalidate_cache(path)

    def _forget(self, path: str | None) -> None:
        with self._lock:
            self._epoch += 1
            for known in (self._objects, self._sizes):
                if not path:
                    known.clear()
                    continue
                known.pop(path, None)
                for below in [name for name in known if name.startswith(path.rstrip("/") + "/")]:
                    del known[below]

    # Opened objects

    async def _object(self, path: str, info: dict[str, Any] | None = None) -> Object:
        """The opened object of a path. It is the one that was opened before, if nobody has changed it since."""
        if info is None and (recent := self._recent(path)):
            return recent[3]
        task = self._tasks.get(path)
        if info is not None or task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            task = asyncio.ensure_future(self._look_up(path, info))
            if info is None:
                self._tasks[path] = task
                task.add_done_callback(lambda task: self._looked_up(path, task))
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

    async def _look_up(self, path: str, info: dict[str, Any] | None) -> Object:
        epoch, now = self._epoch, time.monotonic()
        info = info or await self._below("info", path)
        if info["type"] == "directory":
            raise IsADirectoryError(path)
        try:
            return await self._open_version(path, info, epoch, now)
        except (Error, OSError) as error:
            # The file system below may have remembered an object that is not there any more.
            self.fs.invalidate_cache(path)
            epoch, now = self._epoch, time.monotonic()
            current = await self._below("info", path)
            if _version(current) == _version(info):
                raise _at(path, error)
        try:
            return await self._open_version(path, current, epoch, now)
        except (Error, OSError) as error:
            raise _at(path, error)

    async def _open_version(self, path: str, info: dict[str, Any], epoch: int, now: float) -> Object:
        version = _version(info)
        known = self._objects.get(path)
        if known is not None and known[0] == version:
            opened = known[3]
        elif self._is_local:
            opened = await asyncio.to_thread(Object.open_file, path, self._fetcher(path), self._cache, self._opening)
        else:
            opened = await Object.open(info["size"], self._fetcher(path), self._cache, self._opening)
        with self._lock:
            if epoch == self._epoch:
                _remember(self._objects, path, (version, now, info, opened), OPEN)
                _remember(self._sizes, path, (version, opened.size), SIZES)
        return opened

    def _fetcher(self, path: str) -> Any:
        async def fetch(start: int, stop: int) -> bytes:
            return await self._below("cat_file", path, start=start, end=stop)

        return fetch

    async def _ranges(self, path: str, ranges: list[tuple[Any, Any]], max_gap: int = 0) -> list[Any]:
        """Ranges of a file as slices have them, each as its bytes or as an exception."""
        path = self._strip_protocol(path)
        opened = await self._object(path)
        found = await opened.read_many([slice(*one).indices(opened.size)[:2] for one in ranges], max_gap=max_gap)
        failed = [place for place, data in enumerate(found) if isinstance(data, (Error, OSError))]
        if failed:
            # The object may have been replaced while it was read. If so, all of it is read anew: never half of each.
            self.invalidate_cache(path)
            known, opened = opened, await self._object(path)
            if known is not opened:
                found = await opened.read_many([slice(*one).indices(opened.size)[:2] for one in ranges], max_gap=max_gap)
        return [_at(path, data) if isinstance(data, (Error, OSError)) else data for data in found]

    # Listings

    async def _info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if not kwargs and (recent := self._recent(path)):
            return _sized(recent[2], recent[3].size)
        info = await self._below("info", path, **kwargs)
        return await self._with_size(info, path) if info["type"] == "file" else info

    async def _with_size(self, info: dict[str, Any], path: str | None = None) -> dict[str, Any]:
        path = info["name"] if path is None else path
        known = self._sizes.get(path)
        if known is not None and known[0] == _version(info):
            return _sized(info, known[1])
        return _sized(info, (await self._object(path, info)).size)

    async def _with_sizes(self, infos: list[dict[str, Any]], strict: bool = False) -> list[dict[str, Any]]:
        """Entries of a listing with the sizes of their plaintexts. Those that vanish meanwhile are left out."""

        async def one(info: dict[str, Any]) -> dict[str, Any] | None:
            if info["type"] != "file":
                return info
            try:
                return await self._with_size(info)
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
        return self.fs.checksum(self._strip_protocol(path))

    def ukey(self, path: str) -> str:
        """What tells whether the stored object has changed. No size is read for it."""
        return self.fs.ukey(self._strip_protocol(path))

    def created(self, path: str) -> Any:
        return self.fs.created(self._strip_protocol(path))

    def modified(self, path: str) -> Any:
        return self.fs.modified(self._strip_protocol(path))

    # Reading

    async def _cat_file(self, path: str, start: Any = None, end: Any = None, **kwargs: Any) -> bytes:
        path = self._strip_protocol(path)
        if start is None and end is None and not self._is_local:
            # All of it: one request, and nothing that could have changed in between.
            data = await self._below("cat_file", path)
            try:
                return await asyncio.to_thread(unsealed, data, self._opening)
            except Error as error:
                raise _at(path, error)
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
                if ranges == [(None, None)]:
                    results: list[Any] = [await self._cat_file(path)]
                else:
                    results = await self._ranges(path, ranges, max_gap or 0)
            except Exception as error:
                results = [error] * len(places)
            for place, result in zip(places, results):
                out[place] = result

        out: list[Any] = [None] * len(paths)
        await _run_coros_in_chunks(
            [one(path, places) for path, places in places.items()], batch_size=batch_size or self.batch_size, nofiles=True
        )
        if on_error != "return":
            for result in out:
                if isinstance(result, Exception):
                    raise result
        return out

    async def _get_file(self, rpath: str, lpath: Any, callback: Any = DEFAULT_CALLBACK, **kwargs: Any) -> None:
        rpath = self._strip_protocol(rpath)
        if isfilelike(lpath):
            await self._copy_out(rpath, lpath, callback)
        elif await self._isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
        elif not os.path.isdir(lpath):
            lpath = os.path.abspath(lpath)
            os.makedirs(os.path.dirname(lpath), exist_ok=True)
            # It has its name when all of it is there.
            with tempfile.TemporaryDirectory(prefix=".phalanx-", dir=os.path.dirname(lpath)) as folder:
                new = os.path.join(folder, "new")
                with open(new, "wb") as file:
                    await self._copy_out(rpath, file, callback)
                os.replace(new, lpath)

    async def _copy_out(self, path: str, file: Any, callback: Any) -> None:
        opened = await self._object(path)
        callback.set_size(opened.size)
        step = 2 * PIECE
        for start in range(0, opened.size, step):
            try:
                data = await opened.read(start, start + step)
            except (Error, OSError) as error:
                self.invalidate_cache(path)
                raise _at(path, error)
            await asyncio.to_thread(file.write, data)
            callback.relative_update(len(data))

    # Writing

    async def _pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        only_new = {"mode": mode} if mode != "overwrite" else {}
        try:
            if self._is_local:
                await asyncio.to_thread(self._write_file, path, value, "xb" if only_new else "wb")
            else:
                sealed = await asyncio.to_thread(_sealed, value, self._sealing)
                await self._below("pipe_file", path, sealed, **only_new, **kwargs)
        finally:
            self._written(path)

    def _write_file(self, path: str, value: Any, mode: str) -> None:
        self._make_parent(path)
        with _open(path, mode, **self._sealing, **self._durable) as file:
            file.write(value)

    def _make_parent(self, path: str) -> None:
        if self._is_local and self.fs.auto_mkdir:
            self.fs.makedirs(self.fs._parent(path), exist_ok=True)

    def _written(self, path: str) -> None:
        self._forget(path)
        self.fs.invalidate_cache(path)
        self.fs.invalidate_cache(self.fs._parent(path))

    async def _put_file(
        self, lpath: Any, rpath: str, callback: Any = DEFAULT_CALLBACK, mode: str = "overwrite", **kwargs: Any
    ) -> None:
        rpath = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            await self._makedirs(rpath, exist_ok=True)
            return
        if mode == "create" and await self._exists(rpath):
            raise FileExistsError(rpath)
        if not self.fs.async_impl:
            await self._makedirs(self.fs._parent(rpath), exist_ok=True)
        options = {**self._sealing, "overwrite": mode != "create", "sync": False}
        try:
            if self._is_local:
                await asyncio.to_thread(_native.protect, lpath, output=rpath, **{**options, **self._durable})
                return
            # Protected, it lies on the disk until it is sent.
            with tempfile.TemporaryDirectory(prefix="phalanx-") as folder:
                sealed = os.path.join(folder, "sealed")
                await asyncio.to_thread(_native.protect, lpath, output=sealed, **options)
                await self._below("put_file", sealed, rpath, callback=callback, **kwargs)
        finally:
            self._written(rpath)

    async def _rm_file(self, path: str, **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        await self._below("rm_file", path, **kwargs)
        self._forget(path)

    async def _rm(self, path: Any, recursive: bool = False, maxdepth: Any = None, **kwargs: Any) -> None:
        await self._below("rm", self._own(path), recursive=recursive, maxdepth=maxdepth)
        for one in self._strip_protocol(path) if isinstance(path, list) else [self._strip_protocol(path)]:
            self._forget(None if "*" in one else one)

    async def _cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        await self._below("cp_file", path1, path2, **kwargs)
        self._written(path2)

    def mv(self, path1: Any, path2: Any, **kwargs: Any) -> None:
        """Moves objects as they are."""
        self.fs.mv(self._own(path1), self._own(path2), **kwargs)
        self._forget(None)

    async def _mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        await self._below("mkdir", self._strip_protocol(path), create_parents=create_parents, **kwargs)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        await self._below("makedirs", self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        self.fs.rmdir(self._strip_protocol(path))

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        """Makes an empty protected file, or marks one as changed, if the file system below can."""
        if truncate or not self.exists(path):
            super().touch(path, truncate=True, **kwargs)
        else:
            self.fs.touch(self._strip_protocol(path), truncate=False)
            self._forget(self._strip_protocol(path))

    # File objects

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: Any = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **kwargs: Any,
    ) -> PhalanxFile:
        return PhalanxFile(self, path, mode, block_size, autocommit, cache_options=cache_options, **kwargs)

    def open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        file = super().open(path, mode, **kwargs)
        if isinstance(file, io.TextIOWrapper) and "r" not in mode:
            # Left by an exception, it shall leave nothing either.
            text = {option: kwargs.get(option) for option in ("encoding", "errors", "newline")}
            file = _Text(file.detach(), **text)
        return file

    async def open_async(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        if mode != "rb" or kwargs.get("compression"):
            raise ValueError("only rb is asynchronous: pipe_file writes")
        path = self._strip_protocol(path)
        return _AsyncFile(self, path, await self._object(path))


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
        self._object: Object | None = None
        self._next = self._run = 0
        if mode == "rb":
            if fs._is_local:
                self._reader = _open(path, **fs._opening)
                size, chunk_size = self._reader.size, self._reader.chunk_size
            else:
                self._object = sync(fs.loop, fs._object, path)
                size, chunk_size = self._object.size, self._object.chunk_size
            super().__init__(fs, path, mode, block_size or chunk_size, autocommit, cache_type, cache_options, size, **kwargs)
            return
        if mode not in ("wb", "xb"):
            raise NotImplementedError(f"a protected file is read or written whole: rb, wb or xb, not {mode}")
        if mode == "xb" and fs.exists(path):
            raise FileExistsError(path)
        self._is_failed = False
        fs._make_parent(path)
        self._sink = None if fs._is_local else _Upload(fs.fs, path, mode)
        self._writer: ProtectedWriter = (
            _open(path, mode, **fs._sealing, **fs._durable)
            if self._sink is None
            else _open(self._sink, "wb", **fs._sealing)
        )
        super().__init__(fs, path, mode, block_size, autocommit, **kwargs)

    def _fetch_range(self, start: int, end: int) -> bytes:
        if self._object is None:
            return self._reader.read_at(start, end - start)
        goes_on = start == self._next
        ahead = min(self._run, AHEAD) if goes_on else 0
        self._run = (self._run if goes_on else 0) + end - start
        self._next = end
        data = self._object.cached(start, end)
        if data is not None:
            return data
        try:
            return sync(self.fs.loop, self._object.read, start, end, ahead)
        except (Error, OSError) as error:
            self.fs._forget(self.path)
            raise _at(self.path, error)

    def write(self, data: Any) -> int:
        """Protects data. They are sent when they are many, or at the end."""
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
        if self.closed:
            return
        if self.mode == "rb":
            super().close()
            if self._object is None:
                self._reader.close()
            self._object = None
        elif self._is_failed or _is_left_by_exception():
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
        self.closed = True
        if self._sink is not None:
            self._sink.commit()
        else:
            self._writer.close()
        self.fs._written(self.path)

    def discard(self) -> None:
        """Leaves nothing of the new object."""
        self.closed = True
        self._writer.discard()
        if self._sink is not None:
            self._sink.discard()

    def __exit__(self, kind: Any, *exc: Any) -> None:
        if kind is not None and self.mode != "rb" and not self.closed:
            self.discard()
        self.close()

    def __del__(self) -> None:
        if not self.closed and self.mode != "rb":
            self.discard()
        self.close()


class _Text(io.TextIOWrapper):
    """Text that is being written to a protected file."""

    def __exit__(self, kind: Any, *exc: Any) -> None:
        if kind is not None and not self.closed:
            self.buffer.discard()  # type: ignore[attr-defined]
        self.close()

    def close(self) -> None:
        # Collected without having been closed, it is not complete.
        if getattr(self, "_finalizing", False) and not self.closed:
            self.buffer.discard()  # type: ignore[attr-defined]
        super().close()


class _AsyncFile(AbstractAsyncStreamedFile):
    """A protected file that is read by coroutines."""

    def __init__(self, fs: PhalanxFileSystem, path: str, opened: Object) -> None:
        self._object = opened
        super().__init__(fs, path, "rb", opened.chunk_size, cache_type="none", size=opened.size)

    async def _fetch_range(self, start: int, end: int) -> bytes:
        try:
            return await self._object.read(start, end, min(start, AHEAD))
        except (Error, OSError) as error:
            raise _at(self.path, error)


class _Upload:
    """Where the bytes of a new object go. It appears under its name when it is complete, and not before."""

    def __init__(self, fs: Any, path: str, mode: str) -> None:
        self._fs, self._path, self._mode = fs, path, mode
        self._spool = io.BytesIO()
        self._file: Any = None
        # The name that the object has meanwhile, where the file system cannot hold it back.
        self._temporary: str | None = None

    def write(self, data: bytes) -> int:
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


def _sealed(value: Any, options: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    with _open(sink, "wb", **options) as file:
        file.write(value)
    return sink.getvalue()


def _version(info: dict[str, Any]) -> Any:
    """What tells one version of an object from another."""
    strong = tuple((field, str(info[field])) for field in _VERSIONS if info.get(field))
    weak = tuple((field, str(info[field])) for field in _TIMES if info.get(field) is not None)
    return (info["size"], strong[:1] or weak)


def _sized(info: dict[str, Any], size: int | None) -> dict[str, Any]:
    """An entry of a listing with the size of the plaintext, in place of the object's."""
    if info["type"] != "file":
        return info
    info = {field: value for field, value in info.items() if field != "Size"}
    return {**info, "size": size, "stored_size": info["size"]}


def _remember(known: OrderedDict[str, Any], path: str, value: Any, limit: int) -> None:
    known[path] = value
    known.move_to_end(path)
    while len(known) > limit:
        known.popitem(last=False)


def _at(path: str, error: Exception) -> Exception:
    """The error, with the path in its text."""
    if isinstance(error, (Error, Changed)) and not str(error).startswith(path):
        error.args = (f"{path}: {error}",)
    return error


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
