"""A protected object of a store, opened and read by range in coroutines.

The native :class:`RangeOpening` and :class:`RangeReader` say which stored bytes they need. Here these are fetched, each once,
and what is opened of them is kept.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from ._errors import Error
from ._native import RangeOpening, RangeReader

#: How many bytes of an object's beginning are fetched before anything is known about it: enough for most headers.
HEAD = 4096
#: How many bytes of its end are fetched at the same time for a listing: a chunk of the size that ``phalanx.fsspec`` writes.
TAIL = (64 << 10) + 48
#: How many bytes of its end are fetched for a reader, which may need a footer there: readers of Parquet begin with the last
#: 64 KiB, which are in two chunks.
FOOTER = 2 * TAIL
#: Objects up to this length are fetched as a whole.
WHOLE = HEAD + FOOTER
#: The most bytes that one request fetches. More bytes are fetched by several requests at once.
PIECE = 8 << 20
#: The most requests that are under way at once for one read.
AT_ONCE = 16
#: Reads of more new bytes than this are large: only their ends are kept.
LARGE = 1 << 20

#: The key of an object's stored end among its chunks in the cache.
_STORED_END = -1

#: Fetches the bytes of an object from an offset to another.
Fetch = Callable[[int, int], Awaitable[bytes]]
#: For each chunk, where the bytes begin that contain it, and these bytes, or why there are none.
Chunks = dict[int, tuple[int, bytes | Exception]]


class ObjectChanged(OSError):
    """An object does not have the length from the listing, because another program has replaced it."""


class ChunkCache:
    """Opened chunks of all objects, as many as there is room for. The least recently used ones are dropped first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._chunks: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    def get(self, owner: int, chunk: int) -> bytes | None:
        with self._lock:
            data = self._chunks.get((owner, chunk))
            if data is not None:
                self._chunks.move_to_end((owner, chunk))
            return data

    def put(self, owner: int, chunk: int, data: bytes) -> None:
        if len(data) > self.limit:
            return
        with self._lock:
            self._held += len(data) - len(self._chunks.pop((owner, chunk), b""))
            self._chunks[owner, chunk] = data
            while self._held > self.limit:
                self._held -= len(self._chunks.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            self._chunks.clear()
            self._held = 0


class ProtectedObject:
    """A protected object that has been opened, in one version."""

    _numbers = itertools.count()

    def __init__(self, reader: RangeReader, stored_size: int, fetch: Fetch, cache: ChunkCache) -> None:
        self.size = reader.size
        self.chunk_size = reader.chunk_size
        self.cache = cache
        self._reader = reader
        self._stored_size = stored_size
        self._fetch = fetch
        self._number = next(self._numbers)
        # The tasks that fetch chunks. Each belongs to the event loop that it runs in.
        self._pending: dict[int, asyncio.Task[Chunks]] = {}

    @classmethod
    async def open(
        cls, size: int, fetch: Fetch, cache: ChunkCache, options: dict[str, Any], tail_len: int = FOOTER
    ) -> ProtectedObject:
        """Opens an object of this length in the store with two requests at once, or with one if it is short.

        Raises what :func:`phalanx.open` raises, and :class:`ObjectChanged` if the object has another length.
        """
        if size <= WHOLE:
            head, tail = b"", await fetch_all(fetch, 0, size)
        else:
            ends = fetch_all(fetch, 0, HEAD), fetch_all(fetch, size - tail_len, size)
            head, tail = await asyncio.gather(*ends)
        opening = RangeOpening(size)
        while needs := opening.needs():
            start, stop = needs
            data = head[start:stop] if stop <= len(head) else await _stored(fetch, start, stop, size, tail)
            opening.feed(data)
            if stop == size and len(data) > len(tail):
                tail = data
        reader = await asyncio.to_thread(opening.open, **options)
        opened = cls(reader, size, fetch, cache)
        cache.put(opened._number, _STORED_END, tail)
        return opened

    def cached(self, start: int, stop: int) -> bytes | None:
        """A range of the plaintext, if all of it is at hand."""
        stop = min(stop, self.size)
        if start >= stop:
            return b""
        have: Chunks = {}
        for chunk in self._span(start, stop):
            data = self.cache.get(self._number, chunk)
            if data is None:
                return None
            have[chunk] = (chunk * self.chunk_size, data)
        return self._cut(start, stop, have)

    async def read(self, start: int, stop: int, ahead: int = 0) -> bytes:
        """Reads a range of the plaintext, and keeps ``ahead`` bytes after it for a reader that continues there."""
        (data,) = await self.read_many([(start, stop)], ahead)
        if isinstance(data, Exception):
            raise data
        return data

    async def read_many(
        self, ranges: Sequence[tuple[int, int]], ahead: int = 0, max_gap: int = 0
    ) -> list[bytes | Exception]:
        """Reads ranges of the plaintext. Chunks that several of them need are fetched once, and adjacent ones by one request."""
        ranges = [(start, min(stop, self.size)) for start, stop in ranges]
        have, tasks, need = self._at_hand({chunk for start, stop in ranges for chunk in self._span(start, stop)})
        # The ends of a large read are kept, because a reader that continues begins there. What is read ahead is kept too.
        keep = set(need) if len(need) * self.chunk_size <= LARGE else {*need[:1], *need[-1:]}
        if need and ahead:
            after = list(self._after(need[-1], ahead))
            need.extend(after)
            keep.update(after)
        limit = asyncio.Semaphore(AT_ONCE)
        for first, stop in self._runs(need, max_gap):
            task = asyncio.ensure_future(self._open_run(first, stop, keep, limit))
            for chunk in range(first, stop):
                self._pending[chunk] = tasks[chunk] = task
            task.add_done_callback(functools.partial(self._ended, range(first, stop)))
        if tasks:
            # If this read is cancelled, the tasks go on, because others may wait for the same chunks.
            await asyncio.wait(set(tasks.values()))
        for chunk, task in tasks.items():
            have[chunk] = _outcome(chunk, task)
        return [self._result(start, stop, have) for start, stop in ranges]

    def _at_hand(self, chunks: set[int]) -> tuple[Chunks, dict[int, asyncio.Task[Chunks]], list[int]]:
        """Divides chunks into those that are at hand, those that this loop is fetching, and the others."""
        loop = asyncio.get_running_loop()
        have: Chunks = {}
        tasks: dict[int, asyncio.Task[Chunks]] = {}
        need = []
        for chunk in sorted(chunks):
            data = self.cache.get(self._number, chunk)
            task = self._pending.get(chunk)
            if data is not None:
                have[chunk] = (chunk * self.chunk_size, data)
            elif task is not None and task.get_loop() is loop and not task.done():
                tasks[chunk] = task
            else:
                need.append(chunk)
        return have, tasks, need

    def _span(self, start: int, stop: int) -> range:
        if start >= stop:
            return range(0)
        return range(start // self.chunk_size, (stop - 1) // self.chunk_size + 1)

    def _after(self, chunk: int, ahead: int) -> Iterable[int]:
        """The chunks after one that are neither at hand nor being fetched, up to the first that is."""
        end = -(-self.size // self.chunk_size)
        for after in range(chunk + 1, min(end, chunk + 1 + ahead // self.chunk_size)):
            if after in self._pending or self.cache.get(self._number, after) is not None:
                return
            yield after

    def _runs(self, chunks: list[int], max_gap: int) -> Iterable[tuple[int, int]]:
        """Adjacent chunks, and those with at most ``max_gap`` bytes between them, in runs that one request fetches."""
        most = max(1, PIECE // self.chunk_size)
        begin = end = None
        for chunk in chunks:
            if begin is None or end is None:
                begin, end = chunk, chunk + 1
            elif (chunk - end) * self.chunk_size <= max_gap and chunk < begin + most:
                end = chunk + 1
            else:
                yield begin, end
                begin, end = chunk, chunk + 1
        if begin is not None and end is not None:
            yield begin, end

    def _ended(self, chunks: Iterable[int], task: asyncio.Task[Chunks]) -> None:
        if not task.cancelled():
            # asyncio warns about exceptions that no code has retrieved, and perhaps no task waits for this one any more.
            task.exception()
        for chunk in chunks:
            if self._pending.get(chunk) is task:
                del self._pending[chunk]

    async def _open_run(self, first: int, stop: int, keep: set[int], limit: asyncio.Semaphore) -> Chunks:
        """Fetches a run of chunks, and opens them."""
        start, end = self._reader.needs(first * self.chunk_size, stop * self.chunk_size)
        async with limit:
            tail = self.cache.get(self._number, _STORED_END) or b""
            stored = await _stored(self._fetch, start, end, self._stored_size, tail)
            return await asyncio.to_thread(self._opened, first, stop, stored, start, keep)

    def _opened(self, first: int, stop: int, stored: bytes, stored_start: int, keep: set[int]) -> Chunks:
        """Opens a run of chunks, given their stored bytes."""

        def opened(first: int, stop: int) -> bytes:
            return self._reader.read(first * self.chunk_size, stop * self.chunk_size, stored, stored_start)

        have: Chunks
        try:
            have = dict.fromkeys(range(first, stop), (first * self.chunk_size, opened(first, stop)))
        except Error:
            if stop - first == 1:
                raise
            # Only reads that need the chunk that is not authentic get the error.
            have = {}
            for chunk in range(first, stop):
                data: bytes | Exception
                try:
                    data = opened(chunk, chunk + 1)
                except Error as error:
                    data = error
                have[chunk] = (chunk * self.chunk_size, data)
        for chunk in keep.intersection(have):
            start, data = have[chunk]
            if isinstance(data, bytes):
                skip = chunk * self.chunk_size - start
                self.cache.put(self._number, chunk, data[skip : skip + self.chunk_size])
        return have

    def _result(self, start: int, stop: int, have: Chunks) -> bytes | Exception:
        for chunk in self._span(start, stop):
            data = have[chunk][1]
            if isinstance(data, Exception):
                return data
        return self._cut(start, stop, have)

    def _cut(self, start: int, stop: int, have: Chunks) -> bytes:
        parts: list[Any] = []
        while start < stop:
            at, data = have[start // self.chunk_size]
            assert isinstance(data, bytes)
            end = min(stop, at + len(data))
            parts.append(data if (start, end) == (at, at + len(data)) else memoryview(data)[start - at : end - at])
            start = end
        return parts[0] if len(parts) == 1 and isinstance(parts[0], bytes) else b"".join(parts)


def unprotected(data: bytes, options: dict[str, Any]) -> bytes:
    """The plaintext of a whole protected object."""
    opening = RangeOpening(len(data))
    while needs := opening.needs():
        opening.feed(data[slice(*needs)])
    reader = opening.open(**options)
    return reader.read(0, reader.size, data, 0)


def with_path(path: str, error: Exception) -> Exception:
    """The error, with the path in its text."""
    if isinstance(error, (Error, ObjectChanged)) and not str(error).startswith(path):
        error.args = (f"{path}: {error}",)
    return error


async def fetch_all(fetch: Fetch, start: int, stop: int) -> bytes:
    """Fetches exactly these bytes."""
    data = await fetch(start, stop) if start < stop else b""
    if len(data) != stop - start:
        raise ObjectChanged(f"it ends {stop - start - len(data)} bytes too early: it has changed")
    return bytes(data)


async def _stored(fetch: Fetch, start: int, stop: int, size: int, tail: bytes) -> bytes:
    """The stored bytes of a range. The last bytes of the object, ``tail``, are at hand."""
    tail_start = size - len(tail)
    front = await fetch_all(fetch, start, min(stop, tail_start)) if start < tail_start else b""
    return front + tail[max(start - tail_start, 0) : max(stop - tail_start, 0)]


def _outcome(chunk: int, task: asyncio.Task[Chunks]) -> tuple[int, bytes | Exception]:
    """The result of an ended task for a chunk."""
    if task.cancelled():
        raise asyncio.CancelledError
    error = task.exception()
    if error is None:
        return task.result()[chunk]
    if isinstance(error, Exception):
        return (0, error)
    raise error
