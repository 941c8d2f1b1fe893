"""Protected objects in a store, read by range: which of their bytes are fetched, and what is kept of them.

A reader of :func:`phalanx.open` asks its source for bytes, and waits. Here no thread waits for a store: what a reader will ask
for is known beforehand, is fetched by coroutines, and is laid ready for it in a :class:`Fetched`.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from ._errors import Error
from ._files import ProtectedReader
from ._files import open as _open

#: What is fetched of the beginning of an object before anything is known of it: most headers, in bytes.
HEAD = 4096
#: What is fetched of its end at the same time: a chunk of the size that ``phalanx.fsspec`` writes.
TAIL = (64 << 10) + 48
#: Objects up to this length are fetched as a whole.
WHOLE = 128 << 10
#: The most that one request fetches. More is fetched by several at once.
PIECE = 8 << 20
#: As many requests for one read are under way at once.
AT_ONCE = 16
#: How many bytes one thread opens at least, before others help it.
SHARE = 1 << 20

CORES = os.cpu_count() or 1

#: Fetches the bytes of an object from an offset to another.
Fetch = Callable[[int, int], Awaitable[bytes]]
#: For a chunk, where the bytes begin that it lies in, and these bytes, or why there are none.
Chunks = dict[int, tuple[int, bytes | Exception]]


class Changed(OSError):
    """An object is not as long as it was said to be: somebody has replaced it."""


class Missing(Exception):
    """A reader asked for bytes that have not been fetched."""

    def __init__(self, start: int, stop: int) -> None:
        super().__init__(start, stop)
        self.start, self.stop = start, stop


class Fetched:
    """The source of a reader: what has been fetched of an object. It raises :class:`Missing` for all else."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._parts: tuple[tuple[int, bytes], ...] = ()
        self._lock = threading.Lock()

    def add(self, start: int, data: bytes) -> tuple[int, bytes]:
        part = (start, data)
        with self._lock:
            self._parts = (*self._parts, part)
        return part

    def remove(self, part: tuple[int, bytes]) -> None:
        with self._lock:
            self._parts = tuple(one for one in self._parts if one is not part)

    def clear(self) -> None:
        with self._lock:
            self._parts = ()

    def read_at(self, offset: int, n: int) -> bytes:
        if offset >= self.size:
            return b""
        for start, data in reversed(self._parts):
            if start <= offset < start + len(data):
                return data[offset - start : offset - start + n]
        raise Missing(offset, min(offset + n, self.size))


class Cache:
    """Opened chunks of all objects, as many as have room. Those that nobody has used for longest go first."""

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


class Object:
    """A protected object that has been opened, in one version."""

    _numbers = itertools.count()

    def __init__(self, reader: ProtectedReader, source: Fetched | None, fetch: Fetch, cache: Cache) -> None:
        self.reader = reader
        self.size = reader.size
        self.chunk_size = reader.chunk_size
        self.cache = cache
        self._number = next(self._numbers)
        self._source = source
        self._fetch = fetch
        # Bytes in front of the last chunk that came with it.
        self._spare: tuple[int, bytes] = (0, b"")
        # The tasks that fetch chunks, of the loop that they run in.
        self._pending: dict[int, asyncio.Task[Chunks]] = {}

    @classmethod
    async def open(cls, size: int, fetch: Fetch, cache: Cache, options: dict[str, Any]) -> Object:
        """Opens an object of this length in the store with two requests at once, or with one if it is short.

        Raises what :func:`phalanx.open` raises, and :class:`Changed` if the object has another length.
        """
        source = Fetched(size)
        begin = 0 if size <= WHOLE else size - TAIL
        if begin:
            head, tail = await _lay(source, fetch, [(0, HEAD), (begin, size)])
            header_end, last = _outline(head, size)
            spans = [(HEAD, max(HEAD, header_end)), (min(last, begin), begin)]
            _, front = await _lay(source, fetch, spans)
            begin, tail = begin - len(front), front + tail
        else:
            (tail,) = await _lay(source, fetch, [(0, size)])

        def opened() -> Object:
            reader = _open(source, cache=0, read_ahead=0, **options)
            self = cls(reader, source, fetch, cache)
            self._keep_end(begin, tail)
            return self

        # What is missing after all is fetched, and it is tried again.
        for _ in range(8):
            try:
                return await asyncio.to_thread(opened)
            except Missing as missing:
                await _lay(source, fetch, [(missing.start, missing.stop)])
        raise Changed(f"it has {size} bytes, but cannot be read")

    @classmethod
    def open_file(cls, path: str, fetch: Fetch, cache: Cache, options: dict[str, Any]) -> Object:
        """Opens a local file, which its reader reads by itself."""
        return cls(_open(path, cache=0, read_ahead=0, **options), None, fetch, cache)

    def _keep_end(self, begin: int, tail: bytes) -> None:
        """Keeps the chunks that came with the opening, and what came of the one before."""
        assert self._source is not None
        if self.size:
            first = last = (self.size - 1) // self.chunk_size
            while first and self.reader.protected_range((first - 1) * self.chunk_size, self.size)[0] >= begin:
                first -= 1
            for chunk in range(first, last + 1):
                at = chunk * self.chunk_size
                self.cache.put(self._number, chunk, self.reader.read_at(at, self.chunk_size))
            start = self.reader.protected_range(first * self.chunk_size, self.size)[0]
            if start > begin:
                self._spare = (begin, tail[: start - begin])
        self._source.clear()

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
        """Reads a range of the plaintext, and keeps ``ahead`` bytes behind it for whoever goes on reading."""
        (data,) = await self.read_many([(start, stop)], ahead)
        if isinstance(data, Exception):
            raise data
        return data

    async def read_many(
        self, ranges: Sequence[tuple[int, int]], ahead: int = 0, max_gap: int = 0
    ) -> list[bytes | Exception]:
        """Reads ranges of the plaintext. What several of them need is fetched once, and what is adjacent by one request."""
        loop = asyncio.get_running_loop()
        ranges = [(start, min(stop, self.size)) for start, stop in ranges]
        wanted = sorted({chunk for start, stop in ranges for chunk in self._span(start, stop)})
        have: Chunks = {}
        tasks: dict[int, asyncio.Task[Chunks]] = {}
        need = []
        for chunk in wanted:
            data = self.cache.get(self._number, chunk)
            task = self._pending.get(chunk)
            if data is not None:
                have[chunk] = (chunk * self.chunk_size, data)
            elif task is not None and task.get_loop() is loop and not task.done():
                tasks[chunk] = task
            else:
                need.append(chunk)
        # Of what is large, the ends are kept: whoever reads on begins there. What is read ahead is kept.
        keep = set(need) if len(need) * self.chunk_size <= SHARE else {*need[:1], *need[-1:]}
        if need and ahead:
            behind = list(self._behind(need[-1], ahead))
            need.extend(behind)
            keep.update(behind)
        limit = asyncio.Semaphore(AT_ONCE)
        for first, stop in self._runs(need, max_gap):
            task = loop.create_task(self._open_run(first, stop, keep, limit))
            for chunk in range(first, stop):
                self._pending[chunk] = tasks[chunk] = task
            task.add_done_callback(functools.partial(self._ended, range(first, stop)))
        if tasks:
            # If this read is cancelled, others may wait for the same chunks: they go on.
            await asyncio.wait(set(tasks.values()))
        for chunk, task in tasks.items():
            if task.cancelled():
                raise asyncio.CancelledError
            error = task.exception()
            if error is None:
                have[chunk] = task.result()[chunk]
            elif isinstance(error, Exception):
                have[chunk] = (0, error)
            else:
                raise error
        return [self._result(start, stop, have) for start, stop in ranges]

    def _span(self, start: int, stop: int) -> range:
        if start >= stop:
            return range(0)
        return range(start // self.chunk_size, (stop - 1) // self.chunk_size + 1)

    def _behind(self, chunk: int, ahead: int) -> Iterable[int]:
        """The chunks behind one that are neither at hand nor on their way, up to the first that is."""
        end = -(-self.size // self.chunk_size)
        for behind in range(chunk + 1, min(end, chunk + 1 + ahead // self.chunk_size)):
            if behind in self._pending or self.cache.get(self._number, behind) is not None:
                return
            yield behind

    def _runs(self, chunks: list[int], max_gap: int) -> Iterable[tuple[int, int]]:
        """Adjacent chunks, and those with so few bytes between them, in runs that one request fetches."""
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
            # Somebody has looked at it, even if nobody waits any more.
            task.exception()
        for chunk in chunks:
            if self._pending.get(chunk) is task:
                del self._pending[chunk]

    async def _open_run(self, first: int, stop: int, keep: set[int], limit: asyncio.Semaphore) -> Chunks:
        """Fetches a run of chunks, and opens them."""
        begin, end = first * self.chunk_size, min(stop * self.chunk_size, self.size)
        async with limit:
            if self._source is None:
                return await self._open_shares(first, stop, keep)
            start, behind = self.reader.protected_range(begin, end)
            at, spare = self._spare
            if at <= start and behind <= at + len(spare):
                data = spare[start - at : behind - at]
            elif start < at < behind <= at + len(spare):
                data = await fetch_all(self._fetch, start, at) + spare[: behind - at]
            else:
                data = await fetch_all(self._fetch, start, behind)
            part = self._source.add(start, data)
            try:
                return await self._open_shares(first, stop, keep)
            finally:
                self._source.remove(part)

    async def _open_shares(self, first: int, stop: int, keep: set[int]) -> Chunks:
        """Opens a run of chunks, by several threads if it is long."""
        share = max(SHARE // self.chunk_size, -(-(stop - first) // CORES))
        shares = [(begin, min(begin + share, stop)) for begin in range(first, stop, share)]
        have: Chunks = {}
        for some in await asyncio.gather(*(asyncio.to_thread(self._opened, *share, keep) for share in shares)):
            have.update(some)
        return have

    def _opened(self, first: int, stop: int, keep: set[int]) -> Chunks:
        begin, end = first * self.chunk_size, min(stop * self.chunk_size, self.size)
        have: Chunks
        try:
            data: bytes | Exception = self.reader.read_at(begin, end - begin)
            have = dict.fromkeys(range(first, stop), (begin, data))
        except Error:
            if stop - first == 1:
                raise
            # Only who needs the chunk that is not authentic shall hear of it.
            have = {}
            for chunk in range(first, stop):
                at = chunk * self.chunk_size
                try:
                    data = self.reader.read_at(at, self.chunk_size)
                except Error as error:
                    data = error
                have[chunk] = (at, data)
        for chunk in keep.intersection(range(first, stop)):
            at, data = have[chunk]
            if isinstance(data, bytes):
                skip = chunk * self.chunk_size - at
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


def unsealed(data: bytes, options: dict[str, Any]) -> bytes:
    """The plaintext of a whole protected object."""
    source = Fetched(len(data))
    source.add(0, data)
    # For what is short, threads are not worth their start.
    ahead = None if len(data) > (4 << 20) else 0
    with _open(source, read_ahead=ahead, **options) as reader:
        return reader.read_at(0, reader.size)


def at(path: str, error: Exception) -> Exception:
    """The error, with the path in its text."""
    if isinstance(error, (Error, Changed)) and not str(error).startswith(path):
        error.args = (f"{path}: {error}",)
    return error


async def fetch_all(fetch: Fetch, start: int, stop: int) -> bytes:
    """Fetches exactly these bytes."""
    data = await fetch(start, stop) if start < stop else b""
    if len(data) != stop - start:
        raise Changed(f"it ends {stop - start - len(data)} bytes too early: it has changed")
    return bytes(data)


async def _lay(source: Fetched, fetch: Fetch, spans: list[tuple[int, int]]) -> list[bytes]:
    found = await asyncio.gather(*(fetch_all(fetch, start, stop) for start, stop in spans))
    for (start, _), data in zip(spans, found):
        source.add(start, data)
    return found


def _outline(head: bytes, size: int) -> tuple[int, int]:
    """Where the header ends, and where the last chunk begins, going by an unchecked header: only to know what to fetch.

    The offsets are those of section 2 of the format. Where they make no sense, the reader will say so.
    """
    length, suite, chunk_log2 = int.from_bytes(head[8:12], "little"), head[12], head[13]
    if not 53 <= length <= min(1 << 16, size - 1) or not 12 <= chunk_log2 <= 24:
        return 0, size
    chunk = (1 << chunk_log2) + (28 if suite == 4 else 48)
    # Readers fetch whole blocks of the header.
    return min(-(-length // HEAD) * HEAD, size), length + (size - length - 1) // chunk * chunk
