"""Columns of Apache Arrow. pyarrow is imported when a column is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from . import _native
from ._errors import AuthenticationError

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

    from ._native import Key


def seal_column(
    keys: Key | str | Sequence[Key],
    array: pa.Array | pa.ChunkedArray,
    ads: Sequence[Buffer] | None = None,
    *,
    cipher: str = "aes-256",
    threads: int | None = None,
    engine: str = "auto",
    memory_pool: pa.MemoryPool | None = None,
) -> Any:
    """Seals the values of a column, and returns a column of ``large_binary``.

    ``array`` is an array or a chunked array of binary or string values. Each value becomes what :func:`phalanx.seal` makes of
    it; what is null stays null. ``keys`` is one key, or a sequence with one for each row, and so are ``ads``. The values are read
    where they lie, and no Python object is made for them: do not change the array's buffers meanwhile. The result's memory comes
    from ``memory_pool``, or from pyarrow's default one.

    >>> import pyarrow as pa
    >>> key = phalanx.Key.generate()
    >>> sealed = phalanx.seal_column(key, pa.array(["Ada", None, "Grace"]))
    >>> phalanx.unseal_column(key, sealed, type=pa.string()).to_pylist()
    ['Ada', None, 'Grace']
    """

    def one(array: pa.Array, keys: Any, ads: Any) -> pa.Array:
        return _array(_native.seal_column(keys, *_parts(array), ads, _allocate(memory_pool), cipher, threads, engine), len(array))

    return _each(array, keys, ads, one)


def unseal_column(
    keys: Key | str | Sequence[Key],
    array: pa.Array | pa.ChunkedArray,
    ads: Sequence[Buffer] | None = None,
    *,
    type: pa.DataType | None = None,
    cipher: str = "aes-256",
    threads: int | None = None,
    engine: str = "auto",
    errors: str = "raise",
    memory_pool: pa.MemoryPool | None = None,
) -> Any:
    """Opens the values of a column that :func:`seal_column` made, and returns one of ``large_binary``, or of ``type``.

    If some are not authentic, :class:`phalanx.AuthenticationError` has their rows in ``failed``; with ``errors="none"`` they are
    null instead.
    """
    failed: list[int] = []
    start = 0

    def one(array: pa.Array, keys: Any, ads: Any) -> pa.Array:
        nonlocal start
        try:
            buffers = _native.unseal_column(keys, *_parts(array), ads, _allocate(memory_pool), cipher, threads, engine, errors)
        except AuthenticationError as error:
            if error.failed is None:
                # It is not about the column: what gives the keys may open messages itself.
                raise
            failed.extend(start + row for row in error.failed)
            return _nulls(len(array), type)
        finally:
            start += len(array)
        opened = _array(buffers, len(array))
        return opened if type is None else opened.cast(type)

    opened = _each(array, keys, ads, one, type)
    if failed:
        error = AuthenticationError(f"not authentic: {len(failed)} of the messages (the first is message {failed[0]})")
        error.failed = failed
        raise error
    return opened


def _parts(array: pa.Array) -> tuple[tuple[Any, Any, Any], int, int, int]:
    """The buffers of an array, the width of its offsets in bytes, its first value and its length."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type):
        width = 8
    elif pa.types.is_binary(array.type) or pa.types.is_string(array.type):
        width = 4
    elif array.type in (pa.binary_view(), pa.string_view()) or pa.types.is_fixed_size_binary(array.type):
        array, width = array.cast(pa.large_binary()), 8
    elif pa.types.is_null(array.type):
        array, width = array.cast(pa.large_binary()), 8
    else:
        raise TypeError(f"a column of binary or string values is needed, not of {array.type}")
    _, offsets, data = array.buffers()
    # The validity is that of the array's own values, from the first one on.
    valid = pc.is_valid(array).buffers()[1] if array.null_count else None
    return (valid, offsets, data), width, array.offset, len(array)


def _allocate(memory_pool: pa.MemoryPool | None) -> Callable[[int], pa.Buffer]:
    import pyarrow as pa

    return partial(pa.allocate_buffer, memory_pool=memory_pool)


def _array(buffers: tuple[pa.Buffer, pa.Buffer, pa.Buffer], length: int) -> pa.Array:
    import pyarrow as pa

    return pa.Array.from_buffers(pa.large_binary(), length, list(buffers))


def _nulls(length: int, type: Any) -> pa.Array:
    import pyarrow as pa

    return pa.nulls(length, type or pa.large_binary())


def _each(array: Any, keys: Any, ads: Any, one: Any, type: Any = None) -> Any:
    """Does the same for an array and for the arrays of a chunked one."""
    import pyarrow as pa

    # What an iterator raises is not about the column.
    keys, ads = (list(values) if isinstance(values, Iterator) else values for values in (keys, ads))
    if isinstance(array, pa.Array):
        return one(array, keys, ads)
    if not isinstance(array, pa.ChunkedArray):
        raise TypeError(f"a pyarrow.Array or pyarrow.ChunkedArray is needed, not {array.__class__.__name__}")
    keys_of = _rows("keys", keys, array) if not isinstance(keys, (str, _native.Key)) else lambda _: keys
    ads_of = _rows("ads", ads, array) if ads is not None else lambda _: None
    chunks = [one(chunk, keys_of(rows), ads_of(rows)) for chunk, rows in zip(array.chunks, _slices(array))]
    return pa.chunked_array(chunks, type=type or pa.large_binary())


def _rows(what: str, values: Any, array: Any) -> Any:
    values = list(values)
    if len(values) != len(array):
        raise ValueError(f"{len(values)} {what} for {len(array)} messages")
    return values.__getitem__


def _slices(array: Any) -> Iterator[slice]:
    start = 0
    for chunk in array.chunks:
        yield slice(start, start + len(chunk))
        start += len(chunk)
