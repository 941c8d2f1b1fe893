"""A file system of fsspec that is chained to another one, and holds secrets.

The other one is *below*. It may be asynchronous or not, and so may its callers.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from fsspec import filesystem, get_filesystem_class
from fsspec.asyn import AsyncFileSystem, get_loop
from fsspec.config import apply_config
from fsspec.implementations.cached import CachingFileSystem
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.utils import stringify_path

from ._native import Key, check_key_name

_SECRET = (
    "this file system holds a secret, which is not written down: store the key in the keyring (key.store), and give the file"
    " system its name"
)


class Password:
    """A password in the options of a file system. Nothing shows it, and it is not pickled."""

    _salt = secrets.token_bytes(32)

    def __init__(self, password: Any) -> None:
        if not isinstance(password, (str, bytes, bytearray, memoryview)):
            raise TypeError("a password is text or bytes")
        self._password = password
        data = password.encode() if isinstance(password, str) else bytes(password)
        self._name = hashlib.blake2b(data, key=self._salt, digest_size=8).hexdigest()

    def reveal(self) -> Any:
        return self._password

    # fsspec makes tokens from this text. It distinguishes passwords within this process, and has no meaning outside it.
    def __repr__(self) -> str:
        return f"<password {self._name}>"

    def __reduce__(self) -> Any:
        raise TypeError(_SECRET)


class SecretsGuard(type(AsyncFileSystem)):  # type: ignore[misc]
    """Checks secrets in the options, and wraps passwords, before fsspec makes a token of the options and stores them."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        kwargs = apply_config(cls, kwargs)
        for option in ("keys", "identities", "recipients", "kms"):
            if isinstance(kwargs.get(option), (str, bytes)):
                raise TypeError(f"{option} is a sequence")
        for key in (kwargs.get("key"), *kwargs.get("keys", ())):
            # The bytes of a key would get into tokens.
            if not isinstance(key, (Key, str, type(None))):
                raise TypeError("a key is a phalanx.Key, or the name of one")
            if isinstance(key, str):
                check_key_name(key)
        password = kwargs.get("password")
        if password is not None and not isinstance(password, Password):
            kwargs["password"] = Password(password)
        return super().__call__(*args, **kwargs)


class ChainedBase(AsyncFileSystem, ChainedFileSystem, metaclass=SecretsGuard):  # type: ignore[misc]
    """The base of the file system: its chain, its paths, its tokens, and calls of the file system below."""

    storage_options: dict[str, Any]
    # One file system for all paths.
    _strip_tokenize_options = ("fo",)

    def __init__(
        self, fs: Any, target_protocol: str | None, target_options: dict[str, Any] | None, **storage_options: Any
    ) -> None:
        super().__init__(**storage_options)
        if fs is not None and (target_protocol is not None or target_options is not None):
            raise ValueError("either fs, or target_protocol and target_options")
        self._target = (target_protocol or "file", dict(target_options or {})) if fs is None else None
        self._blocking_fs: Any = None
        self.fs = fs = self._make_below(self.asynchronous) if fs is None else fs
        if fs.async_impl and fs.asynchronous and not self.asynchronous:
            raise ValueError("an asynchronous file system below needs an asynchronous one above: asynchronous=True")
        if self.asynchronous:
            # fsspec's own loop serves callers that block. They can get here too, because zarr writes `asynchronous` into the
            # options that it gets (by fsspec's `_un_chain`), where other callers find it.
            self._loop = get_loop()
        # Few blocking file systems may be called by several threads at once. The caches of fsspec must not be asked for a file
        # that they are still fetching. A finalizer may call a file system in the middle of a call.
        is_parallel = fs.async_impl or isinstance(fs, (LocalFileSystem, MemoryFileSystem))
        self._is_parallel = is_parallel and not isinstance(fs, CachingFileSystem)
        self._turn: contextlib.AbstractContextManager[Any] = contextlib.nullcontext() if self._is_parallel else threading.RLock()
        # This thread waits for the turn. Threads of the event loop must not wait, because the running call may need one of them.
        self._caller = None if self._is_parallel else ThreadPoolExecutor(1, "phalanx")
        # These are attributes of the instance, because the class does not know the file system below.
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

    def _named(self, options: dict[str, Any]) -> dict[str, Any]:
        """These options, with the names of keys for keys."""

        def name(key: Any) -> Any:
            if isinstance(key, Key) and key.name is None:
                raise TypeError(_SECRET)
            return key.name if isinstance(key, Key) else key

        options = {option: value for option, value in options.items() if value is not None}
        if isinstance(options.get("password"), Password):
            raise TypeError(_SECRET)
        if "key" in options:
            options["key"] = name(options["key"])
        if "keys" in options:
            options["keys"] = [name(key) for key in options["keys"]]
        return options

    def __reduce__(self) -> Any:
        make, (cls, args, _) = super().__reduce__()
        return make, (cls, args, self._named(self.storage_options))

    def to_dict(self, *, include_password: bool = True) -> dict[str, Any]:
        """A description that :meth:`from_dict` makes the file system from. Keys are in it by their names."""
        options = dict(self.storage_options)
        if not include_password:
            options.pop("password", None)
        # fsspec reads the attribute. Other threads need it as it is.
        named = object.__new__(type(self))
        named.__dict__.update(self.__dict__, storage_options=self._named(options))
        return super(ChainedBase, named).to_dict(include_password=include_password)

    # The file system below

    def _make_below(self, asynchronous: bool) -> Any:
        if self._target is None:
            raise ValueError("the file system below is asynchronous, and only coroutines can use it")
        protocol, options = self._target
        kind = get_filesystem_class(protocol)
        if issubclass(kind, LocalFileSystem):
            # As in a store of objects, folders need not be made first.
            options = {"auto_mkdir": True, **options}
        if kind.async_impl:
            options = {"asynchronous": asynchronous, **options}
            if not asynchronous:
                options.setdefault("loop", self._loop)
        return filesystem(protocol, **options)

    @property
    def _blocking(self) -> Any:
        """The file system below for callers that block, and for fsspec's own loop."""
        if not (self.fs.async_impl and self.fs.asynchronous):
            return self.fs
        if self._blocking_fs is None:
            self._blocking_fs = self._make_below(False)
        return self._blocking_fs

    async def _below(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Calls the file system below, in a thread if it is not asynchronous."""
        loop = asyncio.get_running_loop()
        fs = self._blocking if loop is self._loop else self.fs
        if not fs.async_impl or not self._is_parallel:
            return await loop.run_in_executor(self._caller, partial(self._call, fs, method, *args, **kwargs))
        call = getattr(fs, f"_{method}")(*args, **kwargs)
        if fs.asynchronous or fs.loop is loop:
            return await call
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, fs.loop))

    def _call(self, fs: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        with self._turn:
            return getattr(fs, method)(*args, **kwargs)

    def _call_below(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Calls the file system below for a caller that blocks."""
        return self._call(self._blocking, method, *args, **kwargs)

    async def set_session(self, *args: Any, **kwargs: Any) -> Any:
        """The session of the file system below."""
        return await self.fs.set_session(*args, **kwargs)
