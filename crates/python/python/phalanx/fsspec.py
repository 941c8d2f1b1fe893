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
import io
import os
import tempfile
from collections.abc import Sequence
from typing import Any

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.compression import compr
from fsspec.core import get_compression

from . import _native
from ._chained import Password
from ._files import ProtectedWriter
from ._files import open as _open
from ._native import Key
from ._store_files import AsyncFile, Compressed, PhalanxFile, Text
from ._stored import Stored

__all__ = ["PhalanxFile", "PhalanxFileSystem"]


class PhalanxFileSystem(Stored):
    """A file system whose files are protected in another one, and plain here. fsspec calls it ``phalanx``.

    It is chained to the other one: ``phalanx::s3://bucket/table.parquet``. Every object is one protected file, as
    :func:`phalanx.protect` makes it, and keeps its name: nothing is appended to it.

    **Reading** needs ``key`` (a :class:`phalanx.Key`, or the name of one: see :meth:`phalanx.Key.named`), ``keys``, ``password`` or ``identities``, as
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
    the object itself, and ``mtime`` when it was written, in seconds, if the other file system says so. Listings are cached as the other file system does it.

    ``mv``, ``cp`` and ``rm`` move, copy and remove the objects as they are. ``put`` makes the protected file in the folder for
    temporary files first, unless it goes to a local one.

    Nothing is appended to a file: mode ``ab`` raises :class:`NotImplementedError`.

    A file system whose keys are names can be pickled, and whoever unpickles it needs keys with these names. With
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
        password = password.reveal() if isinstance(password, Password) else password
        ways = {"key": key, "keys": list(keys), "password": password, "threads": threads}
        opening = {**ways, "identities": list(identities)}
        super().__init__(opening, cache_size, fs, target_protocol, target_options, **storage_options)
        self._sealing = {**ways, "recipients": list(recipients), "cipher": cipher, "chunk_size": chunk_size}
        self._durable = {"sync": sync} if self._is_local else {}

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

    def _new_file(self, path: str, mode: str) -> ProtectedWriter:
        """A new local file."""
        if self.fs.auto_mkdir:
            self.fs.makedirs(self.fs._parent(path), exist_ok=True)
        options: dict[str, Any] = {**self._sealing, **self._durable}
        return _open(path, "xb" if mode == "xb" else "wb", **options)

    def _written(self, path: str) -> None:
        self._forget(path)
        self._invalidate_below(path)
        self._invalidate_below(self.fs._parent(path))

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
                await asyncio.to_thread(_native.protect, lpath, output=rpath, **{**options, **self._durable})
                return
            # Protected, it lies on the disk until it is sent.
            with tempfile.TemporaryDirectory(prefix="phalanx-") as folder:
                sealed = os.path.join(folder, "sealed")
                await asyncio.to_thread(_native.protect, lpath, output=sealed, **options)
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
        # What others put over a file closes it whatever has happened, or never does.
        text = {option: kwargs.pop(option) for option in ("encoding", "errors", "newline") if option in kwargs}
        compression = get_compression(path, kwargs.pop("compression", None))
        file = below = super().open(path, mode.replace("t", "").replace("b", "") + "b", **kwargs)
        if compression is not None:
            file = Compressed(compr[compression], below)
        return file if "b" in mode else Text(file, **text)

    async def open_async(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        if mode != "rb" or kwargs.get("compression"):
            raise ValueError("only rb is asynchronous: pipe_file writes")
        path = self._strip_protocol(path)
        return AsyncFile(self, path, await self._object(path))


def _sealed(value: Any, options: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    with _open(sink, "wb", **options) as file:
        file.write(value)
    return sink.getvalue()
