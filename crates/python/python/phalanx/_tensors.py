"""The header of a safetensors file: where each tensor lies, and what it is. It is checked as if an enemy had written it."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

# The longest header that the format allows, in bytes.
MAX_HEADER = 100_000_000
# How many of the characters [ { and , a header may have, however small the file is: enough for 25,000 tensors. Each may become
# an object in memory, so more of them are taken only from a file whose tensors are large as well.
MAX_SIGNS = 250_000
# So many bytes of tensors allow one more of them.
BYTES_OF_A_SIGN = 8
# More dimensions than this no library takes.
MAX_DIMENSIONS = 64
# Lengths in bytes that fit everywhere.
_MAX_BYTES = 2**63 - 1
# The names of the types, and the bytes of one element, in the order in which the package safetensors writes tensors. Large elements come
# first, so that all are aligned.
SIZES = {
    "U64": 8,
    "I64": 8,
    "F64": 8,
    "C64": 8,
    "F32": 4,
    "U32": 4,
    "I32": 4,
    "BF16": 2,
    "F16": 2,
    "U16": 2,
    "I16": 2,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
}
_ORDER = {dtype: place for place, dtype in enumerate(SIZES)}
# What JSON's escapes can write, and no UTF-8.
_SURROGATES = re.compile("[\ud800-\udfff]")


class SafetensorsError(ValueError):
    """A file that is not a safetensors file, or one that cannot be read here. Its text is one line."""


class Tensor(NamedTuple):
    """A tensor's type, its shape, and the range of its bytes behind the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def header_length(head: bytes, size: int) -> int:
    """The length of the header, by the first eight bytes of a file of ``size`` bytes."""
    if len(head) < 8:
        raise SafetensorsError(f"not a safetensors file: it has {size} bytes")
    length = int.from_bytes(head, "little")
    if length > MAX_HEADER:
        raise SafetensorsError(f"not a safetensors file: its header would have {length} bytes, more than {MAX_HEADER}")
    if length > size - 8:
        raise SafetensorsError(f"the header has {length} bytes, and the file only {size - 8} after the length")
    return length


def parse(header: bytes, room: int) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors in the order of their bytes, and the metadata. ``room`` is how many bytes follow the header."""
    if header[:1] != b"{":
        raise SafetensorsError("the header does not begin with {")
    _check_signs(header, room)
    try:
        fields = json.loads(header.decode(), object_pairs_hook=_once, parse_constant=_constant, parse_int=_whole)
    except SafetensorsError:
        raise
    except RecursionError:
        raise SafetensorsError("the header is nested too deeply") from None
    except ValueError as error:
        raise SafetensorsError(f"the header is no JSON: {_one_line(str(error))}") from None
    metadata = _metadata(fields.pop("__metadata__", {}))
    tensors = {name: _tensor(name, field) for name, field in fields.items()}
    ordered = dict(sorted(tensors.items(), key=lambda item: (item[1].start, item[1].stop, item[0])))
    end = 0
    for name, tensor in ordered.items():
        if tensor.start != end:
            what = "overlaps the one before it" if tensor.start < end else f"leaves {tensor.start - end} bytes before it unused"
            raise SafetensorsError(f"tensor {_shown(name)} {what}")
        end = tensor.stop
    if end != room:
        raise SafetensorsError(f"the tensors have {end} bytes, and {room} follow the header")
    return ordered, metadata


def build(tensors: dict[str, tuple[str, tuple[int, ...], int]], metadata: dict[str, str] | None) -> tuple[bytes, list[str]]:
    """A header with its length, and the order of the tensors' bytes. A tensor is its type, its shape, and its bytes' number."""
    order = sorted(tensors, key=lambda name: (_ORDER[tensors[name][0]], name))
    fields: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(_metadata(metadata))}
    at = 0
    for name in order:
        dtype, shape, length = tensors[name]
        fields[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + length]}
        at += length
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER:
        raise SafetensorsError(f"the header has {len(text)} bytes, more than {MAX_HEADER}")
    _check_signs(text, at)
    return len(text).to_bytes(8, "little") + text, order


def _check_signs(header: bytes, room: int) -> None:
    """Refuses a header that would become far more objects than the file has bytes. Nothing is parsed for it."""
    signs = sum(header.count(sign) for sign in (b"[", b"{", b","))
    limit = MAX_SIGNS + room // BYTES_OF_A_SIGN
    if signs > limit:
        raise SafetensorsError(f"the header has {signs} brackets and commas, more than {limit} for {room} bytes of tensors")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise SafetensorsError(f"the header names {_shown(twice)} twice")
    return fields


def _constant(text: str) -> Any:
    raise SafetensorsError(f"the header is no JSON: {text}")


def _whole(text: str) -> int:
    # Python takes it for 0, and other libraries for a fraction.
    if text == "-0":
        raise SafetensorsError("the header has -0, which is not a whole number")
    return int(text)


def is_text(text: Any) -> bool:
    """Whether this is a text that UTF-8 can write: no surrogate is alone in it."""
    return isinstance(text, str) and (text.isascii() or not _SURROGATES.search(text))


def _metadata(metadata: Any) -> dict[str, str]:
    if not isinstance(metadata, dict) or not all(is_text(text) for pair in metadata.items() for text in pair):
        raise SafetensorsError("__metadata__ is not a table of texts")
    return metadata


def _tensor(name: str, field: Any) -> Tensor:
    def wrong(why: str) -> SafetensorsError:
        return SafetensorsError(f"tensor {_shown(name)} {why}")

    if not is_text(name):
        raise wrong("has a name that is not UTF-8")
    if not isinstance(field, dict) or set(field) != {"dtype", "shape", "data_offsets"}:
        raise wrong("has other fields than dtype, shape and data_offsets")
    dtype, shape, offsets = field["dtype"], field["shape"], field["data_offsets"]
    if not isinstance(dtype, str) or dtype not in SIZES:
        raise wrong(f"has the type {_shown(dtype)}, which is not known")
    if not _are_lengths(shape) or not _are_lengths(offsets) or len(offsets) != 2:
        raise wrong("has a shape or offsets that are not whole numbers")
    if len(shape) > MAX_DIMENSIONS:
        raise wrong(f"has {len(shape)} dimensions, more than {MAX_DIMENSIONS}")
    # Dimensions of 0 must not hide others that no memory has.
    if math.prod(length or 1 for length in shape) * SIZES[dtype] > _MAX_BYTES:
        raise wrong("has a shape that is too large")
    start, stop = offsets
    if stop - start != math.prod(shape) * SIZES[dtype]:
        raise wrong(f"has the shape {shape} of {dtype}, and {stop - start} bytes")
    return Tensor(dtype, tuple(shape), start, stop)


def _are_lengths(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(number) is int and 0 <= number <= _MAX_BYTES for number in numbers)


def _shown(value: Any) -> str:
    """A value of the header in an error: one line, and not all of a long one."""
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _one_line(text: str) -> str:
    return ascii(text)[1:-1][:200]
