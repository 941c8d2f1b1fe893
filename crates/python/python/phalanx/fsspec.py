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
import io
import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from fsspec.asyn import _run_coros_in_chunks
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.utils import isfilelike

from . import _native
from ._errors import Error
from ._files import open as _open
from ._fsspec_chained import Password
from ._fsspec_files import AsyncPhalanxFile, CompressedWriter, PhalanxFile, TextWriter, Transaction
from ._fsspec_object import FOOTER, PIECE, TAIL, ProtectedObject, unprotected, with_path
from ._fsspec_store import ProtectedStore, version_of
from ._native import Key

__all__ = ["PhalanxFile", "PhalanxFileSystem"]


#: The most objects that are opened at once for the sizes in a listing.
LISTED = 32

# The fields in which fsspec's file systems have the time of writing. Objects are always written whole, so creation counts too.
_MODIFIED = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")


class PhalanxFileSystem(ProtectedStore):
    """A file system whose files are protected in another one, and plain here. fsspec calls it ``phalanx``.

    It is chained to the other one: ``phalanx::s3://bucket/table.parquet``. Every object is one protected file, as
    :func:`phalanx.protect` makes it, and keeps its name: nothing is appended to it.

    **Reading** needs ``key`` (a :class:`phalanx.Key`, or the name of one: see :meth:`phalanx.Key.named`), ``keys``,
    ``password`` or ``identities``, as :func:`phalanx.open` does. A range of the plaintext costs the chunks that it lies in: they are fetched at once, adjacent ones
    by one request, and checked before anything is given out. Opened objects, and ``cache_size`` bytes of opened chunks, are
    kept. They belong to a version of an object (its ETag, or its time and length), and a changed object is opened
    again. Where it takes a request to find out whether an object has changed, this is done once a second at most.

    **Writing** needs ``key``, ``keys``, ``password``, ``recipients`` or ``kms``; ``cipher`` and ``chunk_size`` say how. The default of
    ``chunk_size``, 64 KiB, suits reading by range from far away. A new object appears when it is complete: if a write fails, or
    ``with fs.open(…)`` is left by an exception, the old one stays. Those of a transaction appear at its end: none, if one of them is
    still open then, and if one fails, none after it. ``sync`` is whether local files are on the disk then.

    **Sizes** are those of the plaintext, and authentic: ``info``, and ``ls``, ``find``, ``walk`` and ``glob`` with
    ``detail=True``, read the beginning and the end of every file whose size is not known yet. In listings, a file that does not
    open has no size (``None``); ``info`` raises why. Calls that return only names read nothing. ``stored_size`` is the length
    of the object itself, and ``mtime`` the time when it was written, in seconds, if the other file system has it. Listings are
    cached as the other file system does it.

    ``mv``, ``cp`` and ``rm`` move, copy and remove the objects as they are. ``put`` makes the protected file in the folder for
    temporary files first, unless it goes to a local one.

    Nothing is appended to a file: mode ``ab`` raises :class:`NotImplementedError`.

    A file system whose keys are names can be pickled, and needs keys with these names where it is unpickled. With
    other keys, or a password, it refuses to be pickled or written as JSON. Libraries such as dask send the options themselves to
    their workers: give them names only. ``threads`` is how many threads protect a file, or open one.

    Parameters
    ----------
    fo: str
        The path in a chain. It is not needed.
    fs: AbstractFileSystem
        The file system to be chained to, or
    target_protocol, target_options: str, dict
        what it is made from. Without any, it is that of local files, whose folders are made as they are needed.
    """

    protocol = "phalanx"
    transaction_type = Transaction

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
        kms: Sequence[str] = (),
        cipher: str = "aes-256",
        chunk_size: int = 64 << 10,
        sync: bool = True,
        threads: int | None = None,
        cache_size: int = 32 << 20,
        **storage_options: Any,
    ) -> None:
        password = password.reveal() if isinstance(password, Password) else password
        ways = {"key": key, "keys": list(keys), "password": password, "kms": list(kms), "threads": threads}
        opening = {**ways, "identities": list(identities)}
        sealing = {**ways, "recipients": list(recipients), "cipher": cipher, "chunk_size": chunk_size}
        below = (fs, target_protocol, target_options)
        super().__init__(opening, sealing, cache_size, sync, *below, **storage_options)

    # Listings

    async def _info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if not kwargs and (recent := self._recent(path)):
            return _sized(recent.info, recent.opened.size)
        info = await self._below("info", path, **kwargs)
        return await self._with_size(info, path, FOOTER) if info["type"] == "file" else info

    async def _with_size(self, info: dict[str, Any], path: str, tail_len: int) -> dict[str, Any]:
        known = self._known_sizes.get(path)
        if known is not None and known[0] == version_of(info):
            return _sized(info, known[1])
        return _sized(info, (await self._open_object(path, info, tail_len)).size)

    async def _with_sizes(self, infos: list[dict[str, Any]], strict: bool = False) -> list[dict[str, Any]]:
        """Entries of a listing with the sizes of their plaintexts. Objects that vanish meanwhile are left out."""

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
        # If only names are wanted, no sizes are read.
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
        # The entry of a path that is itself a file may be missing.
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
        """A value that changes when the stored object changes. No size is read for it."""
        return self._call_below("ukey", self._strip_protocol(path))

    def created(self, path: str) -> Any:
        return self._call_below("created", self._strip_protocol(path))

    def modified(self, path: str) -> Any:
        return self._call_below("modified", self._strip_protocol(path))

    # Reading

    async def _ranges(self, path: str, ranges: list[tuple[Any, Any]], max_gap: int = 0) -> list[Any]:
        """Ranges of a file as slices have them, each as its bytes or as an exception."""
        path = self._strip_protocol(path)
        opened = await self._open_object(path)
        found = await _slices(opened, ranges, max_gap)
        if any(isinstance(data, (Error, OSError)) for data in found):
            # The object may have been replaced while it was read. All ranges are read again, so that they are of one version.
            self.invalidate_cache(path)
            found = await _slices(await self._open_object(path), ranges, max_gap)
        return [with_path(path, data) if isinstance(data, (Error, OSError)) else data for data in found]

    async def _cat_file(self, path: str, start: Any = None, end: Any = None, **kwargs: Any) -> bytes:
        path = self._strip_protocol(path)
        if kwargs or (start is None and end is None and not self._is_local):
            # The whole object is read by one request, so that it cannot change meanwhile. Options may name a version.
            data = await self._below("cat_file", path, **kwargs)
            try:
                return (await asyncio.to_thread(unprotected, data, self._opening))[start:end]
            except Error as error:
                raise with_path(path, error)
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
            opened = await self._open_object(rpath)
        except IsADirectoryError:
            os.makedirs(lpath, exist_ok=True)
            return
        if isfilelike(lpath):
            await self._copy_out(rpath, opened, lpath, callback)
        elif not os.path.isdir(lpath):
            lpath = os.path.abspath(lpath)
            os.makedirs(os.path.dirname(lpath), exist_ok=True)
            _native.check_output(lpath)
            # It gets its name when it is complete. Its first name cannot be guessed, so no other program opens or replaces it.
            new = os.path.join(os.path.dirname(lpath), f".phalanx-{secrets.token_hex(16)}-{secrets.token_hex(8)}.tmp")
            try:
                with open(new, "xb") as file:
                    await self._copy_out(rpath, opened, file, callback)
                os.replace(new, lpath)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(new)
                raise

    async def _copy_out(self, path: str, opened: ProtectedObject, file: Any, callback: Any) -> None:
        callback.set_size(opened.size)
        step = 4 * PIECE
        for start in range(0, opened.size, step):
            try:
                data = await opened.read(start, start + step)
            except (Error, OSError) as error:
                self.invalidate_cache(path)
                raise with_path(path, error)
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
        with self._new_file(path, mode) as file:
            file.write(value)

    async def _put_file(
        self, lpath: Any, rpath: str, callback: Any = DEFAULT_CALLBACK, mode: str = "overwrite", **kwargs: Any
    ) -> None:
        rpath = self._strip_protocol(rpath)
        only_new = {"mode": mode} if mode != "overwrite" else {}
        if os.path.isdir(lpath):
            await self._makedirs(rpath, exist_ok=True)
            return
        if mode == "create" and await self._exists(rpath):
            raise FileExistsError(rpath)
        if not self.fs.async_impl:
            await self._makedirs(self.fs._parent(rpath), exist_ok=True)
        options = {**self._sealing, "overwrite": not only_new, "sync": False}
        try:
            if self._is_local:
                options |= self._durable
                await asyncio.to_thread(lambda: _native.protect(Path(lpath), output=Path(rpath), **options))
                return
            # The protected file is on the disk until it is sent.
            with tempfile.TemporaryDirectory(prefix="phalanx-") as folder:
                sealed = os.path.join(folder, "sealed")
                await asyncio.to_thread(lambda: _native.protect(Path(lpath), output=Path(sealed), **options))
                await self._below("put_file", sealed, rpath, callback=callback, **only_new, **kwargs)
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
        self._call_below("mv", self._own(path1), self._own(path2), **kwargs)
        self._forget(None)

    async def _mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        await self._below("mkdir", self._strip_protocol(path), create_parents=create_parents, **kwargs)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        await self._below("makedirs", self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        self._call_below("rmdir", self._strip_protocol(path))

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        """Makes an empty protected file, or marks one as changed, if the file system below can."""
        if truncate or not self.exists(path):
            super().touch(path, truncate=True, **kwargs)
        else:
            self._call_below("touch", self._strip_protocol(path), truncate=False)
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
        if kwargs.get("version_id") is not None:
            raise ValueError("name the version in the path")
        return PhalanxFile(self, path, mode, block_size, autocommit, cache_options=cache_options, **kwargs)

    def open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        if "r" in mode or ("b" in mode and kwargs.get("compression") is None):
            return super().open(path, mode, **kwargs)
        # The wrappers of fsspec close a file even after an exception, or never close it.
        text = {option: kwargs.pop(option) for option in ("encoding", "errors", "newline") if option in kwargs}
        compression = get_compression(path, kwargs.pop("compression", None))
        file = below = super().open(path, mode.replace("t", "").replace("b", "") + "b", **kwargs)
        if compression is not None:
            file = CompressedWriter(compr[compression], below)
        return file if "b" in mode else TextWriter(file, **text)

    async def open_async(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        if mode != "rb" or kwargs.get("compression"):
            raise ValueError("only rb is asynchronous: pipe_file writes")
        path = self._strip_protocol(path)
        return AsyncPhalanxFile(self, path, await self._open_object(path))


def _sealed(value: Any, options: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    with _open(sink, "wb", **options) as file:
        file.write(value)
    return sink.getvalue()


async def _slices(opened: ProtectedObject, ranges: list[tuple[Any, Any]], max_gap: int) -> list[Any]:
    return await opened.read_many([slice(*one).indices(opened.size)[:2] for one in ranges], max_gap=max_gap)


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
