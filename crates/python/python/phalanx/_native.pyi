import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, final, overload

from typing_extensions import Buffer

from ._signed import SignedLength

__all__ = [
    "Gatherer",
    "Gpu",
    "GpuBytes",
    "GpuReader",
    "Key",
    "RangeOpening",
    "RangeReader",
    "Reader",
    "Writer",
    "check_key_name",
    "check_output",
    "mirror",
    "protect",
    "seal",
    "seal_column",
    "seal_many",
    "unprotect",
    "unseal",
    "unseal_column",
    "unseal_many",
    "verify",
    "verify_tree",
]

_Path: TypeAlias = str | os.PathLike[str]

@final
class Key:
    @staticmethod
    def generate() -> Key: ...
    @staticmethod
    def from_bytes(data: Buffer) -> Key: ...
    @staticmethod
    def from_text(text: str | Buffer) -> Key: ...
    @staticmethod
    def from_file(path: _Path) -> Key: ...
    @staticmethod
    def named(name: str) -> Key: ...
    def store(self, name: str) -> Key: ...
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str | None: ...
    def to_bytes(self) -> bytes: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __dask_tokenize__(self) -> tuple[str, str]: ...
    def __copy__(self) -> Key: ...
    def __deepcopy__(self, _memo: Any) -> Key: ...
    def __reduce__(self) -> tuple[Any, tuple[str]]: ...

def check_key_name(name: str) -> None: ...
def check_output(path: _Path) -> None: ...
# An output that is a URL is returned as a str, and one that is a path as a Path. Types cannot tell the two apart.
@overload
def protect(
    path: _Path,
    *,
    key: Key | str | None = None,
    keys: Sequence[Key | str] = ...,
    password: str | Buffer | None = None,
    recipients: Sequence[str] = ...,
    kms: Sequence[str] = ...,
    cipher: str = "aes-256",
    chunk_size: int = ...,
    output: os.PathLike[str] | None = None,
    overwrite: bool = False,
    sync: bool = True,
    threads: int | None = None,
    engine: str = "auto",
    storage_options: Mapping[str, Any] | None = None,
    sign: _Path | None = None,
) -> Path: ...
@overload
def protect(
    path: _Path,
    *,
    key: Key | str | None = None,
    keys: Sequence[Key | str] = ...,
    password: str | Buffer | None = None,
    recipients: Sequence[str] = ...,
    kms: Sequence[str] = ...,
    cipher: str = "aes-256",
    chunk_size: int = ...,
    output: str,
    overwrite: bool = False,
    sync: bool = True,
    threads: int | None = None,
    engine: str = "auto",
    storage_options: Mapping[str, Any] | None = None,
    sign: _Path | None = None,
) -> Path | Any: ...
@overload
def unprotect(
    path: _Path,
    *,
    key: Key | str | None = None,
    keys: Sequence[Key | str] = ...,
    password: str | Buffer | None = None,
    identities: Sequence[_Path] = ...,
    kms: Sequence[str] = ...,
    output: os.PathLike[str] | None = None,
    overwrite: bool = False,
    sync: bool = True,
    threads: int | None = None,
    engine: str = "auto",
    storage_options: Mapping[str, Any] | None = None,
    signers: _Path | None = None,
    revoked: _Path | None = None,
) -> Path: ...
@overload
def unprotect(
    path: _Path,
    *,
    key: Key | str | None = None,
    keys: Sequence[Key | str] = ...,
    password: str | Buffer | None = None,
    identities: Sequence[_Path] = ...,
    kms: Sequence[str] = ...,
    output: str,
    overwrite: bool = False,
    sync: bool = True,
    threads: int | None = None,
    engine: str = "auto",
    storage_options: Mapping[str, Any] | None = None,
    signers: _Path | None = None,
    revoked: _Path | None = None,
) -> Path | Any: ...
@overload
def verify(
    path: _Path,
    *,
    key: Key | str | None = None,
    keys: Sequence[Key | str] = ...,
    password: str | Buffer | None = None,
    identities: Sequence[_Path] = ...,
    kms: Sequence[str] = ...,
    threads: int | None = None,
    engine: str = "auto",
    storage_options: Mapping[str, Any] | None = None,
    signers: None = None,
    revoked: None = None,
) -> int: ...
@overload
def verify(
    path: _Path,
    *,
    key: Key | str | None = None,
    keys: Sequence[Key | str] = ...,
    password: str | Buffer | None = None,
    identities: Sequence[_Path] = ...,
    kms: Sequence[str] = ...,
    threads: int | None = None,
    engine: str = "auto",
    storage_options: Mapping[str, Any] | None = None,
    signers: _Path,
    revoked: _Path | None = None,
) -> SignedLength: ...
def mirror(
    source: _Path,
    mirror: _Path,
    *,
    key: Key | str | None,
    keys: Sequence[Key | str],
    password: str | Buffer | None,
    recipients: Sequence[str],
    kms: Sequence[str],
    cipher: str,
    chunk_size: int,
    delete: bool,
    max_delete: int | None,
    delete_excluded: bool,
    backup_dir: _Path | None,
    checksum: bool,
    new: bool,
    dry_run: bool,
    exclude: Sequence[str],
    exclude_from: Sequence[_Path],
    only: Sequence[_Path] | None,
    exclude_caches: bool,
    exclude_if_present: Sequence[str],
    one_file_system: bool,
    sync: bool,
    threads: int | None,
    engine: str,
    storage_options: Mapping[str, Any] | None,
    sign: _Path | None,
) -> tuple[
    tuple[int, int, int, int, int, int, int, int, str] | None,
    list[tuple[Path, str, Path | None]],
    list[tuple[Path, str]],
    list[Exception],
]: ...
def verify_tree(
    path: _Path,
    *,
    key: Key | str | None,
    keys: Sequence[Key | str],
    password: str | Buffer | None,
    identities: Sequence[_Path],
    kms: Sequence[str],
    quick: bool,
    expect: str | None,
    at_least: int | None,
    accept: bool,
    threads: int | None,
    engine: str,
    storage_options: Mapping[str, Any] | None,
    signers: _Path | None,
    revoked: _Path | None,
) -> tuple[int, int, int, str, str | None, list[tuple[Path, str, str]], str | None]: ...
def seal(key: Key | str, record: Buffer, *, ad: Buffer | None = None, cipher: str = "aes-256") -> bytes: ...
def unseal(key: Key | str, sealed: Buffer, *, ad: Buffer | None = None, cipher: str = "aes-256") -> bytes: ...
def seal_many(
    keys: Key | str | Iterable[Key],
    records: Iterable[Buffer],
    ads: Iterable[Buffer] | None = None,
    *,
    cipher: str = "aes-256",
    threads: int | None = None,
    engine: str = "auto",
) -> list[bytes]: ...
@overload
def unseal_many(
    keys: Key | str | Iterable[Key],
    sealed: Iterable[Buffer],
    ads: Iterable[Buffer] | None = None,
    *,
    cipher: str = "aes-256",
    threads: int | None = None,
    engine: str = "auto",
    errors: Literal["raise"] = "raise",
) -> list[bytes]: ...
@overload
def unseal_many(
    keys: Key | str | Iterable[Key],
    sealed: Iterable[Buffer],
    ads: Iterable[Buffer] | None = None,
    *,
    cipher: str = "aes-256",
    threads: int | None = None,
    engine: str = "auto",
    errors: Literal["none"],
) -> list[bytes | None]: ...
def seal_column(
    keys: Any,
    column: tuple[Any, Any, Any],
    width: int,
    first: int,
    len: int,
    ads: Any,
    allocate: Callable[[int], Any],
    cipher: str,
    threads: int | None,
    engine: str,
) -> tuple[Any, Any, Any]: ...
def unseal_column(
    keys: Any,
    column: tuple[Any, Any, Any],
    width: int,
    first: int,
    len: int,
    ads: Any,
    allocate: Callable[[int], Any],
    cipher: str,
    threads: int | None,
    engine: str,
    errors: str,
) -> tuple[Any, Any, Any]: ...
@final
class Gpu:
    def __new__(cls, number: int | None) -> Gpu: ...
    @property
    def name(self) -> str: ...

@final
class GpuReader:
    def __new__(cls, reader: Reader, number: int | None) -> GpuReader: ...
    @property
    def device(self) -> str: ...
    def read_at(self, offset: int, n: int) -> GpuBytes: ...
    def readinto_at(self, offset: int, array: Any, n: int | None) -> int | None: ...
    def close(self) -> None: ...

@final
class GpuBytes:
    @property
    def nbytes(self) -> int: ...
    def __len__(self) -> int: ...
    def tobytes(self) -> bytes: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

@final
class RangeOpening:
    def __new__(cls, size: int) -> RangeOpening: ...
    def needs(self) -> tuple[int, int] | None: ...
    def feed(self, data: Buffer) -> None: ...
    def open(
        self,
        *,
        key: Key | str | None = None,
        keys: Sequence[Key | str] = ...,
        password: str | Buffer | None = None,
        identities: Sequence[_Path] = ...,
        kms: Sequence[str] = ...,
        threads: int | None = None,
    ) -> RangeReader: ...

@final
class RangeReader:
    @property
    def size(self) -> int: ...
    @property
    def chunk_size(self) -> int: ...
    def needs(self, start: int, stop: int) -> tuple[int, int]: ...
    def read(self, start: int, stop: int, stored: Buffer, stored_start: int) -> bytes: ...

@final
class Reader:
    def __new__(
        cls,
        path: _Path | None,
        object: Any,
        key: Key | str | None,
        keys: Sequence[Key | str],
        password: str | Buffer | None,
        identities: Sequence[_Path],
        kms: Sequence[str],
        cache: int | None,
        read_ahead: int | None,
        threads: int | None,
    ) -> Reader: ...
    @property
    def size(self) -> int: ...
    @property
    def chunk_size(self) -> int: ...
    @property
    def cipher(self) -> str: ...
    def read_at(self, offset: int, n: int) -> bytes: ...
    def read(self, n: int | None) -> bytes: ...
    def readinto(self, buffer: Buffer) -> int: ...
    def readinto_at(self, offset: int, buffer: Buffer) -> int: ...
    def seek(self, offset: int, whence: int) -> int: ...
    def tell(self) -> int: ...
    def protected_range(self, start: int, stop: int) -> tuple[int, int]: ...
    def close(self) -> None: ...

@final
class Writer:
    def __new__(
        cls,
        path: _Path | None,
        object: Any,
        overwrite: bool,
        key: Key | str | None,
        keys: Sequence[Key | str],
        password: str | Buffer | None,
        recipients: Sequence[str],
        kms: Sequence[str],
        cipher: str,
        chunk_size: int,
        sync: bool,
        threads: int | None,
        gpu: Gpu | None = None,
    ) -> Writer: ...
    def write(self, data: Buffer) -> int: ...
    def write_array(self, array: Any) -> int | None: ...
    def tell(self) -> int: ...
    def finish(self) -> None: ...
    def abort(self) -> None: ...

@final
class Gatherer:
    def __new__(cls, schedule: Any) -> Gatherer: ...
    def submit(
        self, future: Any, seals: bool, key: Key | str, data: Buffer, ad: Buffer, cipher: str
    ) -> None: ...
    def drain(self) -> None: ...
    def close(self) -> None: ...
