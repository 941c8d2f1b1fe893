"""The file system for fsspec: what it reads, caches and writes, and that it reveals no secrets."""

import asyncio
import contextlib
import gc
import gzip
import io
import json
import os
import pickle
import random
import threading
import warnings
import zipfile

import pytest
from conftest import child, is_one_line, needs, painted

import phalanx

fsspec = needs("fsspec")

from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402

from phalanx.fsspec import PhalanxFileSystem  # noqa: E402


class Counting(MemoryFileSystem):
    """A store in memory that notes every range that is read."""

    protocol = "counting"
    cachable = False

    def __init__(self, **options):
        super().__init__(global_store=False, **options)
        self.reads, self.infos = [], 0

    def cat_file(self, path, start=None, end=None, **kwargs):
        self.reads.append((self._strip_protocol(path), start, end))
        return super().cat_file(path, start, end, **kwargs)

    def info(self, path, **kwargs):
        self.infos += 1
        return super().info(path, **kwargs)

    def fetched(self):
        """How many bytes were read since the last call."""
        sizes = [len(self.store[path].getbuffer()[start:end]) for path, start, end in self.reads]
        self.reads.clear()
        return sum(sizes)


@pytest.fixture
def below():
    return Counting()


@pytest.fixture
def fs(below, key):
    return PhalanxFileSystem(fs=below, key=key)


@pytest.fixture
def memory():
    store = fsspec.filesystem("memory")
    store.store.clear()
    store.pseudo_dirs[:] = [""]
    yield store
    store.store.clear()
    store.pseudo_dirs[:] = [""]


CHUNK = 64 << 10
LENGTHS = [0, 1, 4095, 4096, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 130_000, 5 * CHUNK + 77]


# Reading


@pytest.mark.parametrize("length", LENGTHS)
def test_ranges_are_equal_to_slices(fs, length):
    data = painted(length)
    fs.pipe_file("/file", data)
    edges = {None, 0, 1, -1, length, length + 5, -length, length // 2, -(length // 3), CHUNK, CHUNK - 1, -CHUNK}
    ranges = [(start, end) for start in edges for end in edges]
    for start, end in ranges:
        assert fs.cat_file("/file", start, end) == data[start:end], (start, end)
    starts, ends = zip(*ranges)
    assert fs.cat_ranges(["/file"] * len(ranges), list(starts), list(ends)) == [data[s:e] for s, e in ranges]
    fs.invalidate_cache()
    assert fs.cat_ranges(["/file"] * len(ranges), list(starts), list(ends)) == [data[s:e] for s, e in ranges]
    assert fs.size("/file") == length


@pytest.mark.parametrize("options", [{"chunk_size": 4096}, {"cipher": "aes-256-gcm"}, {"chunk_size": 1 << 20}])
def test_random_reads_return_the_plaintext(below, key, options):
    data = painted(3_000_000)
    fs = PhalanxFileSystem(fs=below, key=key, cache_size=300_000, **options)
    fs.pipe_file("/file", data)
    choose = random.Random(7)
    with fs.open("/file") as file:
        for _ in range(200):
            start, length = choose.randrange(len(data)), choose.randrange(400_000)
            file.seek(start)
            assert file.read(length) == data[start : start + length]
            assert fs.cat_file("/file", start, start + length) == data[start : start + length]
    assert fs._chunk_cache._held <= 300_000
    assert sum(map(len, fs._chunk_cache._chunks.values())) == fs._chunk_cache._held


def test_files_made_by_protect_are_read(below, key, tmp_path):
    data = painted(300_000)
    (tmp_path / "plain").write_bytes(data)
    for place, options in enumerate([{}, {"chunk_size": 4096}, {"cipher": "aes-128"}, {"chunk_size": 1 << 24}]):
        stored = phalanx.protect(tmp_path / "plain", key=key, output=tmp_path / f"{place}.phx", **options)
        below.pipe_file(f"/{place}", stored.read_bytes())
        fs = PhalanxFileSystem(fs=below, key=key)
        assert fs.cat_file(f"/{place}", 200_000, 200_100) == data[200_000:200_100]
        assert fs.cat_file(f"/{place}") == data


def test_a_large_header_is_fetched(below, tmp_path):
    keys = [phalanx.Key.generate() for _ in range(63)]
    data = painted(1_000_000)
    fs = PhalanxFileSystem(fs=below, keys=keys, recipients=[])
    fs.pipe_file("/file", data)
    below.reads.clear()
    one = PhalanxFileSystem(fs=below, key=keys[40])
    assert one.info("/file")["size"] == len(data)
    assert one.cat_file("/file", 5, 500) == data[5:500]


def test_whole_objects_cost_one_request(fs, below):
    fs.pipe_file("/file", painted(1_000_000))
    below.infos = 0
    assert fs.cat_file("/file") == painted(1_000_000)
    assert below.reads == [("/file", None, None)]
    assert below.infos == 0


def test_only_the_chunks_needed_are_fetched(fs, below):
    data = painted(100 * CHUNK)
    fs.pipe_file("/file", data)
    below.reads.clear()
    assert fs.cat_file("/file", 50 * CHUNK + 10, 50 * CHUNK + 20) == data[50 * CHUNK + 10 : 50 * CHUNK + 20]
    assert len(below.reads) == 3, "the beginning, the end, and one chunk"
    assert below.fetched() <= 4096 + 3 * (CHUNK + 48)
    # Opened chunks are in the cache.
    assert fs.cat_file("/file", 50 * CHUNK + 100, 51 * CHUNK) == data[50 * CHUNK + 100 : 51 * CHUNK]
    assert fs.cat_file("/file", -1000) == data[-1000:]
    assert below.fetched() == 0


def test_adjacent_ranges_cost_one_request(fs, below):
    data = painted(100 * CHUNK)
    fs.pipe_file("/file", data)
    fs.info("/file")
    below.reads.clear()
    starts = [10 * CHUNK + i * 20_000 for i in range(20)] + [60 * CHUNK]
    ends = [start + 20_000 for start in starts]
    assert fs.cat_ranges(["/file"] * 21, starts, ends) == [data[s:e] for s, e in zip(starts, ends)]
    assert len(below.reads) == 2
    assert below.fetched() <= (7 + 1) * (CHUNK + 48)


def test_small_gaps_are_fetched_on_request(fs, below):
    data = painted(100 * CHUNK)
    fs.pipe_file("/file", data)
    fs.info("/file")
    below.reads.clear()
    starts = [10 * CHUNK, 12 * CHUNK, 20 * CHUNK]
    ends = [start + 10 for start in starts]
    assert fs.cat_ranges(["/file"] * 3, starts, ends, max_gap=CHUNK) == [data[s:e] for s, e in zip(starts, ends)]
    assert len(below.reads) == 2


def test_large_ranges_are_fetched_in_pieces(fs, below):
    data = painted(20 << 20)
    fs.pipe_file("/file", data)
    fs.info("/file")
    below.reads.clear()
    assert fs.cat_file("/file", 100, -100) == data[100:-100]
    assert 3 <= len(below.reads) <= 4
    below.reads.clear()
    # The chunks at the ends are kept, and not all those between.
    assert fs.cat_file("/file", 50, 200) == data[50:200]
    assert below.fetched() == 0


def test_sequential_reads_fetch_more_at_once_and_nothing_twice(fs, below):
    data = painted(200 * CHUNK)
    fs.pipe_file("/file", data)
    with fs.open("/file") as file:
        below.reads.clear()
        assert file.read(100) == data[:100]
        assert below.fetched() <= CHUNK + 48, "nothing is read ahead of the first read"
        found = [data[:100]]
        while piece := file.read(10_000):
            found.append(piece)
        assert b"".join(found) == data
        requests = len(below.reads)
        assert below.fetched() <= 200 * (CHUNK + 48)
    assert requests < 20


def test_random_reads_fetch_nothing_ahead(fs, below):
    data = painted(200 * CHUNK)
    fs.pipe_file("/file", data)
    with fs.open("/file") as file:
        below.reads.clear()
        for chunk in (3, 90, 40, 150, 7):
            file.seek(chunk * CHUNK)
            assert file.read(10) == data[chunk * CHUNK : chunk * CHUNK + 10]
        assert below.fetched() == 5 * (CHUNK + 48)


def test_a_named_cache_of_fsspec_is_used(fs, below):
    data = painted(10 * CHUNK)
    fs.pipe_file("/file", data)
    with fs.open(
        "/file", cache_type="parts", cache_options={"data": {(0, 10): b"0123456789"}, "strict": False}
    ) as file:
        assert file.read(10) == b"0123456789"
    with fs.open("/file", cache_type="readahead", block_size=3 * CHUNK) as file:
        assert file.read(10) == data[:10]
        assert below.fetched() >= 3 * CHUNK


def test_concurrent_readers_fetch_a_chunk_once(below, key):
    data = painted(300 * CHUNK)
    PhalanxFileSystem(fs=below, key=key).pipe_file("/file", data)
    below.reads.clear()

    async def read():
        fs = PhalanxFileSystem(fs=below, key=key, asynchronous=True)
        spans = [(100 * CHUNK + i * 1000, 100 * CHUNK + i * 1000 + 5000) for i in range(100)]
        found = await asyncio.gather(*(fs._cat_file("/file", start, end) for start, end in spans))
        assert found == [data[start:end] for start, end in spans]

    asyncio.run(read())
    assert below.fetched() <= 4096 + 2 * (CHUNK + 48) + 2 * (CHUNK + 48)


def test_a_cancelled_read_does_not_disturb_other_reads(below, key):
    data = painted(100 * CHUNK)
    PhalanxFileSystem(fs=below, key=key).pipe_file("/file", data)

    async def read():
        fs = PhalanxFileSystem(fs=below, key=key, asynchronous=True)
        one = asyncio.ensure_future(fs._cat_file("/file", 10, 20))
        other = asyncio.ensure_future(fs._cat_file("/file", 11, 21))
        await asyncio.sleep(0)
        one.cancel()
        assert await other == data[11:21]
        with pytest.raises(asyncio.CancelledError):
            await one

    asyncio.run(read())


def test_threads_share_a_file_system(fs):
    data = painted(50 * CHUNK)
    fs.pipe_file("/file", data)
    wrong = []

    def read(seed):
        choose = random.Random(seed)
        for _ in range(50):
            start = choose.randrange(len(data))
            end = start + choose.randrange(3 * CHUNK)
            if fs.cat_file("/file", start, end) != data[start:end]:
                wrong.append((start, end))

    threads = [threading.Thread(target=read, args=[seed]) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_file_objects_behave_like_files(fs, tmp_path):
    text = "".join(f"line {i}\n" for i in range(20_000))
    with fs.open("/text", "w") as file:
        file.write(text)
    with fs.open("/text") as file:
        assert file.size == len(text)
        assert file.readable() and file.seekable() and not file.writable()
        assert list(file)[777] == b"line 777\n"
        assert file.read() == b""
        assert file.seek(-5, 2) == len(text) - 5
        buffer = bytearray(10)
        assert file.readinto(buffer) == 5
        assert file.seek(len(text) + 10) and file.read() == b""
        with pytest.raises(ValueError):
            file.write(b"")
    with pytest.raises(ValueError):
        file.read()
    with fs.open("/text", "r") as file:
        assert file.read() == text
    with fs.open("/text") as file:
        assert io.BufferedReader(file).readline() == b"line 0\n"


def test_zip_files_are_written_and_read(fs):
    with fs.open("/z.zip", "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", painted(200_000))
    with fs.open("/z.zip") as file, zipfile.ZipFile(file) as archive:
        assert archive.read("a") == painted(200_000)


def test_asynchronous_files_are_read(below, key):
    data = painted(10 * CHUNK)
    PhalanxFileSystem(fs=below, key=key).pipe_file("/file", data)

    async def read():
        fs = PhalanxFileSystem(fs=below, key=key, asynchronous=True)
        file = await fs.open_async("/file")
        assert await file.read(10) == data[:10]
        assert await file.read() == data[10:]
        await file.close()
        with pytest.raises(ValueError):
            await fs.open_async("/file", "wb")

    asyncio.run(read())


def test_an_asynchronous_file_system_serves_blocking_callers(below, key):
    fs = PhalanxFileSystem(fs=below, key=key, asynchronous=True)
    fs.pipe_file("/file", b"data")
    with fs.open("/file") as file:
        assert file.read() == b"data"


# Versions


def test_a_changed_object_is_opened_again(below, key):
    fs = PhalanxFileSystem(fs=below, key=key)
    writer = PhalanxFileSystem(fs=below, key=key, cache_size=0)
    for version in range(5):
        data = painted(3 * CHUNK + version % 2, version)
        writer.pipe_file("/file", data)
        assert fs.info("/file")["size"] == len(data)
        assert fs.cat_file("/file", 100, 200) == data[100:200]
        with fs.open("/file") as file:
            assert file.read() == data


def test_writes_of_the_same_file_system_are_seen_at_once(fs):
    for version in range(5):
        data = painted(1000, version)
        with fs.open("/file", "wb") as file:
            file.write(data)
        assert fs.cat_file("/file", 0, 500) == data[:500]
        fs.pipe_file("/file", data[::-1])
        assert fs.cat_file("/file", 0, 500) == data[::-1][:500]
    fs.cp_file("/file", "/copy")
    fs.pipe_file("/file", b"new")
    fs.mv("/file", "/copy")
    assert fs.cat_file("/copy", 0, 2) == b"ne"
    fs.rm("/copy")
    with pytest.raises(FileNotFoundError):
        fs.cat_file("/copy", 0, 2)


class Stale(Counting):
    """A store that remembers listings until its cache is invalidated, as s3fs does."""

    protocol = "stale"

    def __init__(self, **options):
        super().__init__(**options)
        self.known = {}

    def info(self, path, **kwargs):
        path = self._strip_protocol(path)
        if path not in self.known:
            self.known[path] = super().info(path)
        return self.known[path]

    def invalidate_cache(self, path=None):
        self.known.clear()


@pytest.mark.parametrize("lengths", [(5 * CHUNK, 5 * CHUNK), (5 * CHUNK, 2 * CHUNK), (2 * CHUNK, 9 * CHUNK)])
def test_outdated_listings_are_corrected(key, lengths):
    below = Stale()
    fs = PhalanxFileSystem(fs=below, key=key)
    old, new = (painted(length, seed) for seed, length in enumerate(lengths))
    fs.pipe_file("/file", old)
    assert fs.cat_file("/file", 0, 10) == old[:10]
    # Another program writes the object, and the listing stays what it was.
    other = Counting()
    PhalanxFileSystem(fs=other, key=key).pipe_file("/file", new)
    below.store["/file"] = other.store["/file"]
    assert fs.cat_file("/file", 5, 9) in (old[5:9], new[5:9])
    fs._chunk_cache.clear()
    # A chunk that has not been opened yet, or not as the last one.
    start = 5 if lengths[0] == 2 * CHUNK else CHUNK + 5
    assert fs.cat_file("/file", start, start + 4) == new[start : start + 4]
    assert fs.info("/file")["size"] == len(new)


def test_versions_of_a_changing_object_are_not_mixed(fs, below, key):
    old, new = painted(9 * CHUNK), painted(9 * CHUNK, 1)
    fs.pipe_file("/file", old)
    with fs.open("/file") as file:
        assert file.read(10) == old[:10]
        PhalanxFileSystem(fs=below, key=key, cache_size=0).pipe_file("/file", new)
        file.seek(4 * CHUNK)
        with pytest.raises(phalanx.AuthenticationError):
            file.read(10)
    assert fs.cat_file("/file", 0, 10) == new[:10]


@pytest.mark.parametrize("lengths", [(5 * CHUNK, 5 * CHUNK), (5 * CHUNK, 7 * CHUNK + 9)])
def test_concurrent_readers_get_one_whole_version(below, key, lengths):
    versions = [bytes([number]) * length for number, length in enumerate(lengths)]
    stored = []
    for data in versions:
        other = Counting()
        PhalanxFileSystem(fs=other, key=key).pipe_file("/file", data)
        stored.append(other.store["/file"].getvalue())
    below.pipe_file("/file", stored[0])
    fs = PhalanxFileSystem(fs=below, key=key, cache_size=3 * CHUNK)
    ended, wrong, failed = threading.Event(), [], []
    begun = [0] * 4

    def write():
        last = 0
        while not ended.wait(0.05):
            # On a slow machine, not more often than reads are done.
            if sum(begun) >= last + 12:
                last = sum(begun)
                stored.reverse()
                below.pipe_file("/file", stored[0])

    def read(seed):
        choose = random.Random(seed)
        for _ in range(150):
            begun[seed] += 1
            start = choose.randrange(4 * CHUNK)
            end = start + choose.randrange(1, 2 * CHUNK)
            try:
                found = fs.cat_file("/file", start, end)
            except (phalanx.Error, OSError) as error:
                # It was replaced twice in a row while it was read.
                failed.append(error)
                continue
            if found not in [data[start:end] for data in versions]:
                wrong.append((start, end, found))

    writer = threading.Thread(target=write)
    readers = [threading.Thread(target=read, args=[seed]) for seed in range(4)]
    writer.start()
    for thread in readers:
        thread.start()
    for thread in readers:
        thread.join()
    ended.set()
    writer.join()
    assert not wrong
    assert len(failed) < 60, "one of ten reads fails"
    assert fs.cat_file("/file") in versions


def test_few_objects_are_kept_open(fs, monkeypatch):
    monkeypatch.setattr("phalanx._fsspec_store.OPEN", 4)
    for i in range(10):
        fs.pipe_file(f"/{i}", painted(100, i))
    for i in range(10):
        assert fs.cat_file(f"/{i}", 0, 50) == painted(100, i)[:50]
        assert len(fs._objects) <= 4


def test_open_objects_hold_little_memory(below, key):
    fs = PhalanxFileSystem(fs=below, key=key, cache_size=8 << 20, chunk_size=1 << 20)
    for i in range(20):
        fs.pipe_file(f"/{i}", painted(100, i))
    for i in range(20):
        assert fs.cat_file(f"/{i}", 0, 50) == painted(100, i)[:50]
    assert len(fs._objects) == 20 and fs._chunk_cache._held < 100_000
    assert fs.cat_file("/0", 10, 20) == painted(100)[10:20]


@pytest.mark.parametrize("head", [0, 10, 100, 10_000])
@pytest.mark.parametrize("tail", [1, 100, 10_000, 300_000])
def test_bytes_that_were_not_fetched_at_first_are_fetched(fs, below, monkeypatch, head, tail):
    """Opening needs other bytes than were fetched at first."""
    data = painted(50 * CHUNK)
    fs.pipe_file("/file", data)
    monkeypatch.setattr("phalanx._fsspec_object.HEAD", head)
    monkeypatch.setattr("phalanx._fsspec_object.ProtectedObject.open.__func__.__defaults__", (tail,))
    monkeypatch.setattr("phalanx._fsspec_store.ProtectedStore._open_object.__defaults__", (None, tail))
    below.reads.clear()
    assert fs.cat_file("/file", -100) == data[-100:]
    assert len(below.reads) == (head > 0) + 1 + (head < 4096) + (tail < CHUNK)
    assert fs.cat_file("/file", 20 * CHUNK - 5, 20 * CHUNK + 5) == data[20 * CHUNK - 5 : 20 * CHUNK + 5]


# What is not authentic


def altered(below, path, place):
    data = bytearray(below.store[path].getvalue())
    data[place] ^= 1
    below.pipe_file(path, bytes(data))


def test_altered_chunks_fail_alone(fs, below):
    data = painted(10 * CHUNK)
    fs.pipe_file("/file", data)
    header = int.from_bytes(below.store["/file"].getvalue()[8:12], "little")
    altered(below, "/file", header + 5 * (CHUNK + 48) + 1000)
    with pytest.raises(phalanx.AuthenticationError) as raised:
        fs.cat_file("/file")
    assert raised.value.chunk == 5
    assert str(raised.value).startswith("/file: ") and is_one_line(raised.value)
    with pytest.raises(phalanx.AuthenticationError, match="^/file: ") as raised:
        fs.cat_file("/file", 5 * CHUNK + 7, 5 * CHUNK + 8)
    assert raised.value.chunk == 5 and str(raised.value).count("/file") == 1
    # The others are whole, whatever is fetched with them.
    assert fs.cat_file("/file", 6 * CHUNK, 8 * CHUNK) == data[6 * CHUNK : 8 * CHUNK]
    fs.invalidate_cache()
    starts = [4 * CHUNK, 5 * CHUNK, 6 * CHUNK]
    found = fs.cat_ranges(["/file"] * 3, starts, [start + 10 for start in starts])
    assert found[0] == data[4 * CHUNK :][:10] and found[2] == data[6 * CHUNK :][:10]
    assert isinstance(found[1], phalanx.AuthenticationError)
    with pytest.raises(phalanx.AuthenticationError):
        fs.cat_ranges(["/file"] * 3, starts, [start + 10 for start in starts], on_error="raise")
    # Also when they are read one after another, and more is read ahead.
    fs.invalidate_cache()
    with fs.open("/file") as file:
        for chunk in range(5):
            assert file.read(CHUNK) == data[chunk * CHUNK : (chunk + 1) * CHUNK]
        with pytest.raises(phalanx.AuthenticationError):
            file.read(CHUNK)


@pytest.mark.parametrize("length", [1000, 10 * CHUNK])
def test_cut_longer_and_foreign_objects_are_refused(fs, below, length):
    fs.pipe_file("/file", painted(length))
    stored = below.store["/file"].getvalue()
    for changed, error in [
        (stored[:-1], phalanx.AuthenticationError),
        (stored[: len(stored) // 2], phalanx.Error),
        (stored + b"x", phalanx.AuthenticationError),
        (stored[:100], phalanx.NotPhalanxError),
        (b"", phalanx.NotPhalanxError),
        (b"x" * len(stored), phalanx.NotPhalanxError),
        (stored[:8] + b"\xff\xff\xff\xff" + stored[12:], phalanx.NotPhalanxError),
        (stored[:13] + b"\xff" + stored[14:], phalanx.NotPhalanxError),
        (stored[:13] + b"\x0c" + stored[14:], phalanx.WrongKeyError),
    ]:
        below.pipe_file("/file", changed)
        for read in (
            lambda: fs.cat_file("/file"),
            lambda: fs.cat_file("/file", 0, 10),
            lambda: fs.info("/file"),
            lambda: fs.open("/file"),
            lambda: fs.get_file("/file", os.devnull + "x"),
        ):
            with pytest.raises(error) as raised:
                read()
            assert str(raised.value).startswith("/file: ") and is_one_line(raised.value), raised.value


def test_a_wrong_key_raises_with_the_path(fs, below, other_key):
    fs.pipe_file("/file", b"data")
    other = PhalanxFileSystem(fs=below, key=other_key)
    with pytest.raises(phalanx.WrongKeyError, match="^/file: "):
        other.cat_file("/file")
    with pytest.raises(phalanx.WrongKeyError, match="^/file: "):
        other.info("/file")


def test_missing_files_and_folders_raise(fs):
    fs.pipe_file("/folder/file", b"data")
    for read in (fs.cat_file, fs.info, fs.open, fs.size, fs.rm_file, lambda path: fs.cat_file(path, 0, 1)):
        with pytest.raises(FileNotFoundError):
            read("/missing")
    with pytest.raises(IsADirectoryError):
        fs.cat_file("/folder", 0, 1)
    assert not fs.exists("/missing") and not fs.isfile("/folder") and fs.isdir("/folder") and fs.isfile("/folder/file")
    found = fs.cat_ranges(["/missing", "/folder/file"], [0, 0], [2, 2])
    assert isinstance(found[0], FileNotFoundError) and found[1] == b"da"


# Listings


def test_listings_have_the_sizes_of_the_plaintext(fs, below):
    sizes = {f"/d/{name}": length for name, length in [("a", 0), ("b", 100), ("c", 300_000), ("e/f", 70_000)]}
    for path, length in sizes.items():
        fs.pipe_file(path, painted(length))
    entries = {info["name"]: info for info in fs.ls("/d")}
    assert {name: info["size"] for name, info in entries.items() if info["type"] == "file"} == {
        path: size for path, size in sizes.items() if path != "/d/e/f"
    }
    assert entries["/d/e"]["type"] == "directory"
    assert entries["/d/b"]["stored_size"] == below.size("/d/b")
    assert {name: info["size"] for name, info in fs.find("/d", detail=True).items()} == sizes
    assert fs.du("/d") == sum(sizes.values())
    assert fs.du("/d", total=False) == sizes
    assert {name: info["size"] for name, info in fs.glob("/d/[ab]", detail=True).items()} == {"/d/a": 0, "/d/b": 100}
    walked = {path: (dirs, files) for path, dirs, files in fs.walk("/d", detail=True)}
    assert walked["/d/e"][1]["f"]["size"] == 70_000
    assert fs.sizes(["/d/a", "/d/c"]) == [0, 300_000]
    assert fs.info("/d/c") == entries["/d/c"] | {"created": fs.info("/d/c")["created"]}
    # Known sizes are not read again.
    below.reads.clear()
    fs.ls("/d")
    fs.find("/d", detail=True)
    fs.info("/d/c")
    assert not below.reads


def test_listing_names_reads_no_object(fs, below):
    for i in range(5):
        fs.pipe_file(f"/d/{i}/file", painted(1000))
    below.pipe_file("/d/foreign", b"not protected")
    below.reads.clear()
    assert len(fs.ls("/d", detail=False)) == 6
    assert len(fs.find("/d")) == 6
    assert fs.glob("/d/*/file") == [f"/d/{i}/file" for i in range(5)]
    assert len(list(fs.walk("/d"))) == 6
    assert fs.exists("/d/0/file") and fs.isfile("/d/foreign") and fs.isdir("/d/1")
    assert len(fs.expand_path("/d", recursive=True)) == 12
    assert isinstance(fs.ukey("/d/0/file"), str) and fs.checksum("/d/0/file") != fs.checksum("/d/1/file")
    fs.created("/d/0/file"), fs.modified("/d/0/file")
    assert not below.reads


def test_objects_that_do_not_open_have_no_size_in_listings(fs, below, other_key):
    fs.pipe_file("/d/good", b"data")
    below.pipe_file("/d/foreign", b"not protected")
    PhalanxFileSystem(fs=below, key=other_key).pipe_file("/d/other", b"data")
    fs.pipe_file("/d/cut", b"data")
    below.pipe_file("/d/cut", below.cat_file("/d/cut")[:-1])
    sizes = {info["name"]: info["size"] for info in fs.ls("/d")}
    assert sizes == {"/d/good": 4, "/d/foreign": None, "/d/other": None, "/d/cut": None}
    with pytest.raises(phalanx.NotPhalanxError):
        fs.info("/d/foreign")
    with pytest.raises(phalanx.AuthenticationError):
        fs.info("/d/cut")
    with pytest.raises(phalanx.Error):
        fs.du("/d")


# Writing


def test_a_with_block_that_raises_leaves_no_object(fs, below, memory, key):
    def writes(fs, path):
        def binary():
            with fs.open(path, "wb") as file:
                file.write(painted(100_000))
                raise RuntimeError("enough")

        def large():
            with fs.open(path, "wb") as file:
                for _ in range(20):
                    file.write(painted(1 << 20))
                raise RuntimeError("enough")

        def text():
            with fs.open(path, "w") as file:
                file.write("text")
                raise RuntimeError("enough")

        def compressed():
            with fs.open(path, "wb", compression="gzip") as file:
                file.write(b"data")
                raise RuntimeError("enough")

        def compressed_text():
            with fs.open(path, "w", compression="gzip") as file:
                file.write("text")
                raise RuntimeError("enough")

        return [binary, large, text, compressed, compressed_text]

    def by_url(mode, **options):
        with fsspec.open("phalanx::memory://d/file", mode, key=key, **options) as file:
            file.write("text" if "t" in mode else b"data")
            raise RuntimeError("enough")

    for write in writes(fs, "/d/file"):
        with pytest.raises(RuntimeError, match="enough"):
            write()
        assert not below.exists("/d") and not below.store
    for options in ({"mode": "wb"}, {"mode": "wt"}, {"mode": "wb", "compression": "gzip"}):
        with pytest.raises(RuntimeError, match="enough"):
            by_url(**options)
        assert not memory.store
    fs.pipe_file("/d/file", b"old")
    for write in writes(fs, "/d/file"):
        with pytest.raises(RuntimeError, match="enough"):
            write()
        assert fs.cat_file("/d/file") == b"old" and list(below.store) == ["/d/file"]


def test_a_with_block_inside_an_exception_handler_keeps_its_file(memory, key):
    try:
        raise RuntimeError("before")
    except RuntimeError:
        # An exception is being handled, but the block is not left by it.
        with fsspec.open("phalanx::memory://file", "wb", key=key) as file:
            file.write(b"data")
    assert fsspec.open("phalanx::memory://file", key=key).open().read() == b"data"


@pytest.mark.parametrize("mode", ["wb", "w"])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_collected_unclosed_file_leaves_no_object(fs, below, mode, compression):
    file = fs.open("/file", mode, compression=compression)
    file.write("data" if mode == "w" else b"data")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        del file
        gc.collect()
    assert ["was not closed, and is discarded" in str(warning.message) for warning in warned] == [True]
    assert not below.store


def test_compressed_files_are_written_and_read(fs):
    for suffix in ("gz", "bz2", "xz"):
        with fs.open(f"/file.{suffix}", "wb", compression="infer") as file:
            file.write(b"data " * 1000)
        with fs.open(f"/file.{suffix}", compression="infer") as file:
            assert file.read() == b"data " * 1000
    assert gzip.decompress(fs.cat_file("/file.gz")) == b"data " * 1000
    with fs.open("/text.gz", "wt", compression="gzip", encoding="latin-1") as file:
        file.write("text")
    with fs.open("/text.gz", "rt", compression="gzip", encoding="latin-1") as file:
        assert file.read() == "text"


class Failing(Counting):
    """A store that refuses to be written to after some bytes."""

    protocol = "failing"

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        raise OSError(28, "No space left on device")

    def _open(self, path, mode="rb", **kwargs):
        file = super()._open(path, mode, **kwargs)
        if mode != "rb":
            write = file.write

            def failing(data):
                if file.tell() > 18 << 20:
                    raise OSError(28, "No space left on device")
                return write(data)

            file.write = failing
        return file


def test_a_store_that_fails_gets_no_object(key):
    below = Failing()
    fs = PhalanxFileSystem(fs=below, key=key)
    with pytest.raises(OSError, match="No space left") as raised:
        fs.pipe_file("/file", b"data")
    assert raised.value.errno == 28
    with pytest.raises(OSError, match="No space left"), fs.open("/file", "wb") as file:
        file.write(b"data")
    with pytest.raises(OSError, match="No space left"), fs.open("/file", "wb") as file:
        for _ in range(30):
            file.write(painted(1 << 20))
    # The file is closed after a failed write, without a block.
    file = fs.open("/file", "wb")
    with pytest.raises(OSError, match="No space left"):
        for _ in range(30):
            file.write(painted(1 << 20))
    file.close()
    assert not below.store


def test_large_files_are_streamed(fs, below):
    data = painted(1 << 20)
    with fs.open("/d/file", "wb") as file:
        for _ in range(40):
            assert file.write(data) == len(data)
        assert "/d/file" not in below.store and len(below.store) == 1
        assert file.tell() == 40 << 20
    assert list(below.store) == ["/d/file"]
    assert fs.size("/d/file") == 40 << 20
    assert fs.cat_file("/d/file", 39 << 20) == data


def test_exclusive_creation_does_not_replace(fs):
    with fs.open("/file", "xb") as file:
        file.write(b"first")
    with pytest.raises(FileExistsError):
        fs.open("/file", "xb")
    with pytest.raises(FileExistsError):
        fs.pipe_file("/file", b"second", mode="create")
    # It appears while the other one is being written.
    file = fs.open("/other", "xb")
    file.write(b"second")
    fs.pipe_file("/other", b"first")
    with pytest.raises(FileExistsError):
        file.close()
    assert fs.cat_file("/file") == b"first" == fs.cat_file("/other")


def test_other_modes_are_refused(fs):
    fs.pipe_file("/file", b"data")
    for mode in ("ab", "r+b", "w+b"):
        with pytest.raises((NotImplementedError, ValueError)):
            fs.open("/file", mode)
    assert fs.cat_file("/file") == b"data"


@pytest.mark.parametrize("store", ["counting", "file"])
def test_transactions_are_committed_or_discarded(fs, key, store, tmp_path):
    folder = "/d"
    if store == "file":
        fs, folder = PhalanxFileSystem(key=key), str(tmp_path)
    with fs.transaction:
        with fs.open(f"{folder}/a", "wb") as file:
            file.write(b"a")
        assert not fs.exists(f"{folder}/a")
    assert fs.cat_file(f"{folder}/a") == b"a"
    with pytest.raises(RuntimeError), fs.transaction:
        with fs.open(f"{folder}/b", "wb") as file:
            file.write(b"b")
        raise RuntimeError
    assert not fs.exists(f"{folder}/b")
    assert len(fs.ls(folder)) == 1


@pytest.mark.parametrize("how", ["plain", "gzip", "text", "write", "open"])
@pytest.mark.parametrize("store", ["counting", "file"])
def test_what_was_not_finished_is_not_committed(fs, key, store, how, tmp_path, monkeypatch):
    """At the end of a transaction, a file that was discarded, or is still open, does not replace the one that is there."""
    path = "/d/a"
    if store == "file":
        fs, path = PhalanxFileSystem(key=key), str(tmp_path / "a")
    fs.pipe_file(path, b"the only copy")

    def discarded():
        mode, options = {"gzip": ("wb", {"compression": "gzip"}), "text": ("w", {})}.get(how, ("wb", {}))
        with pytest.raises(KeyError), fs.open(path, mode, **options) as file:
            file.write("new" if how == "text" else b"new")
            raise KeyError

    with contextlib.ExitStack() as stack:
        if how == "open":
            stack.enter_context(pytest.raises(ValueError, match="still open"))
        stack.enter_context(fs.transaction)
        with fs.open(f"{path}-before", "wb") as before:
            before.write(b"before")
        if how == "write":
            file = fs.open(path, "wb")
            monkeypatch.setattr(file._writer, "write", lambda data: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                file.write(b"new")
            file.close()
        elif how == "open":
            file = fs.open(path, "wb")
            file.write(b"new")
        else:
            discarded()
        with fs.open(f"{path}-other", "wb") as other:
            other.write(b"other")
    assert fs.cat_file(path) == b"the only copy"
    # If one is still open, none appears.
    assert fs.exists(f"{path}-before") == fs.exists(f"{path}-other") == (how != "open")
    # The transaction is over.
    with fs.open(f"{path}-later", "wb") as later:
        later.write(b"later")
    assert fs.cat_file(f"{path}-later") == b"later"


@pytest.mark.parametrize("ends", ["with", "call"])
def test_a_transaction_that_fails_is_over(fs, below, ends, monkeypatch):
    """What was committed before the failure stays, what comes after it is discarded, and later files are written at once."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(ZeroDivisionError))
        transaction = fs.transaction if ends == "with" else fs.start_transaction()
        if ends == "with":
            stack.enter_context(transaction)
        for name in "abc":
            with fs.open(f"/d/{name}", "wb") as file:
                file.write(name.encode())
            if name == "b":
                monkeypatch.setattr(file._sink, "commit", lambda: 1 // 0)
        if ends == "call":
            fs.end_transaction()
    assert sorted(fs.ls("/d", detail=False)) == ["/d/a"]
    fs.pipe_file("/d/later", b"later")
    with fs.open("/d/last", "wb") as file:
        file.write(b"last")
    assert fs.cat_file("/d/a") == b"a" and fs.cat_file("/d/later") == b"later" and fs.cat_file("/d/last") == b"last"


def test_versions_are_not_ignored(fs, below, monkeypatch):
    """Options of the file system below reach it, or are refused."""
    fs.pipe_file("/file", b"data")
    asked = []
    monkeypatch.setattr(
        below,
        "cat_file",
        lambda path, start=None, end=None, **options: asked.append(options) or Counting.cat_file(below, path),
    )
    assert fs.cat_file("/file", 1, 3, version_id="old") == b"at"
    assert fs.cat_ranges(["/file"], [1], [3], version_id="older") == [b"at"]
    assert asked == [{"version_id": "old"}, {"version_id": "older"}]
    with pytest.raises(ValueError):
        fs.open("/file", version_id="old")


def test_touch_makes_an_empty_file(fs):
    fs.touch("/file")
    assert fs.size("/file") == 0 and fs.cat_file("/file") == b""


def test_writing_options_are_used(below, key, other_key):
    fs = PhalanxFileSystem(fs=below, keys=[key, other_key], cipher="aes-128", chunk_size=4096)
    fs.pipe_file("/file", painted(10_000))
    with fs.open("/other", "wb") as file:
        file.write(painted(10_000))
    for path in ("/file", "/other"):
        for one in (key, other_key):
            with phalanx.open(io.BytesIO(below.cat_file(path)), key=one) as file:
                assert (file.cipher, file.chunk_size, file.size) == ("aes-128", 4096, 10_000)
    with pytest.raises(ValueError):
        PhalanxFileSystem(fs=below).pipe_file("/file", b"")
    with pytest.raises(ValueError):
        PhalanxFileSystem(fs=below, key=key, cipher="rot13").pipe_file("/file", b"")
    with pytest.raises(ValueError):
        PhalanxFileSystem(fs=below, key=key, chunk_size=5000).open("/file", "wb")


# Whole files


@pytest.mark.parametrize("store", ["memory", "file"])
def test_get_and_put_copy_trees(store, key, tmp_path, memory):
    fs = fsspec.filesystem("phalanx", target_protocol=store, key=key)
    root = str(tmp_path / "store") if store == "file" else "/store"
    data = painted(50_000_000)
    (tmp_path / "plain").write_bytes(data)
    fs.put_file(str(tmp_path / "plain"), f"{root}/new/file")
    assert fs.size(f"{root}/new/file") == len(data)
    assert data[:1000] not in fs.fs.cat_file(f"{root}/new/file")
    fs.get_file(f"{root}/new/file", str(tmp_path / "back" / "file"))
    assert (tmp_path / "back" / "file").read_bytes() == data
    sink = io.BytesIO()
    fs.get_file(f"{root}/new/file", sink)
    assert sink.getvalue() == data
    with pytest.raises(FileExistsError):
        fs.put_file(str(tmp_path / "plain"), f"{root}/new/file", mode="create")
    fs.put(str(tmp_path / "back"), f"{root}/tree", recursive=True)
    fs.get(f"{root}/tree", str(tmp_path / "tree"), recursive=True)
    assert (tmp_path / "tree" / "file").read_bytes() == data


def test_get_replaces_no_key(fs, tmp_path):
    given = tmp_path / "given"
    given.write_bytes(bytes(range(32)))
    given.chmod(0o600)
    phalanx.Key.from_file(given)
    fs.pipe_file("/file", b"content")
    for get in (fs.get_file, fs.get):
        with pytest.raises(OSError, match="it holds a key or password, which no output replaces"):
            get("/file", str(given))
    assert given.read_bytes() == bytes(range(32)) and os.listdir(tmp_path) == ["given"]


PLANTED = """
import os, sys, tempfile
import phalanx
from fsspec.implementations.memory import MemoryFileSystem
from phalanx.fsspec import PhalanxFileSystem

fs = PhalanxFileSystem(fs=MemoryFileSystem(), key=phalanx.Key.generate())
fs.pipe_file("/file", b"content")
shared, held = tempfile.mkdtemp(), []

def plant(event, args):
    # Right before the file is opened, an attacker puts another one there, and holds it open.
    if event != "open" or held or not str(args[0]).startswith(shared) or not args[2] & os.O_CREAT:
        return
    held.append(None)
    above = os.path.dirname(args[0])
    if above != shared:
        os.rename(above, above + "-aside")
        os.mkdir(above)
    held[0] = open(args[0], "w+b")

sys.addaudithook(plant)
try:
    fs.get_file("/file", shared + "/out")
except FileExistsError:
    pass
print(len(held), held[0].read())
"""


def test_get_does_not_write_to_a_planted_file():
    done = child(PLANTED)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1 b''\n"


def test_get_leaves_no_output_of_an_altered_object(fs, below, tmp_path):
    fs.pipe_file("/file", painted(100 * CHUNK))
    altered(below, "/file", 5_000_000)
    with pytest.raises(phalanx.AuthenticationError):
        fs.get_file("/file", str(tmp_path / "file"))
    assert os.listdir(tmp_path) == []
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(phalanx.AuthenticationError):
        fs.get_file("/file", str(tmp_path / "file"))
    assert os.listdir(tmp_path) == ["file"] and (tmp_path / "file").read_bytes() == b"old"


def test_stored_objects_are_moved_unchanged(fs, below):
    fs.pipe_file("/a", b"data")
    stored = below.cat_file("/a")
    fs.cp_file("/a", "/b")
    fs.mv("/a", "/c")
    assert below.cat_file("/b") == below.cat_file("/c") == stored
    assert not fs.exists("/a")
    fs.rm(["/b", "/c"])
    assert not below.store


# Local files


def test_local_files_are_written_and_read(key, tmp_path):
    fs = fsspec.filesystem("phalanx", key=key)
    path = str(tmp_path / "file.phx")
    data = painted(3_000_000)
    with fs.open(path, "wb") as file:
        file.write(data)
        assert "file.phx" not in os.listdir(tmp_path)
    assert os.listdir(tmp_path) == ["file.phx"]
    with phalanx.open(path, key=key) as file:
        assert file.read() == data
    assert fs.info(path)["size"] == len(data) and fs.info(path)["stored_size"] == os.path.getsize(path)
    assert fs.cat_file(path, 1_000_000, 1_000_100) == data[1_000_000:1_000_100]
    with fs.open(path) as file:
        file.seek(2_000_000)
        assert file.read(5) == data[2_000_000:2_000_005]
    with fsspec.open(f"phalanx://{path}", key=key) as file:
        assert file.read() == data
    with fsspec.open(f"phalanx::file://{path}", key=key) as file:
        assert file.read() == data
    with pytest.raises(FileNotFoundError):
        fs.open(str(tmp_path / "missing"))
    with fs.open(str(tmp_path / "new" / "folder" / "file"), "wb") as file:
        file.write(b"data")
    assert fs.cat_file(str(tmp_path / "new" / "folder" / "file")) == b"data"
    # Others change it, and it has the same length.
    phalanx.protect(_written(tmp_path / "plain", data[::-1]), key=key, output=path, overwrite=True, chunk_size=CHUNK)
    assert fs.cat_file(path, 0, 10) == data[::-1][:10]


def _written(path, data):
    path.write_bytes(data)
    return path


def test_an_open_local_object_stays_the_same_file(key, tmp_path):
    fs = fsspec.filesystem("phalanx", key=key)
    path, old, new = str(tmp_path / "file.phx"), painted(5 * CHUNK), painted(5 * CHUNK, 1)
    fs.pipe_file(path, old)

    async def read():
        opened = await fs._open_object(path)
        fs._chunk_cache.clear()
        await fs._pipe_file(path, new)
        assert await opened.read(0, len(old)) == old
        assert await fs._cat_file(path, 0, len(new)) == new

    fsspec.asyn.sync(fs.loop, read)


def test_closed_local_objects_hold_no_descriptor(key, tmp_path):
    fs = fsspec.filesystem("phalanx", key=key)
    fs.pipe_file(str(tmp_path / "file"), painted(5 * CHUNK))

    def held():
        return [fd for fd in os.listdir("/proc/self/fd") if os.path.realpath(f"/proc/self/fd/{fd}") == str(tmp_path / "file")]

    assert fs.cat_file(str(tmp_path / "file"), 5, 10) == painted(10)[5:]
    assert len(held()) == 1
    fs.invalidate_cache()
    gc.collect()
    assert held() == []


def test_pipes_are_refused(key, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    fs = fsspec.filesystem("phalanx", key=key)
    with pytest.raises((OSError, phalanx.Error)):
        fs.cat_file(str(tmp_path / "pipe"), 0, 10)


# URLs


def test_urls_are_opened_by_fsspec(memory, key):
    options = {"phalanx": {"key": key}}
    for i in range(3):
        with fsspec.open(f"phalanx::memory://d/{i}.csv", "w", **options) as file:
            file.write(f"{i}")
    with fsspec.open("phalanx::memory://d/1.csv", "r", **options) as file:
        assert file.read() == "1"
    files = fsspec.open_files("phalanx::memory://d/*.csv", "r", **options)
    with files as opened:
        assert [file.read() for file in opened] == ["0", "1", "2"]
    fs, path = fsspec.url_to_fs("phalanx::memory://d/1.csv", **options)
    assert path == "/d/1.csv" and fs.cat(path) == b"1"
    assert fs.unstrip_protocol(path) == "phalanx::memory:///d/1.csv"
    assert fs.info("phalanx::memory:///d/1.csv")["size"] == 1
    assert fs.cat(["phalanx::memory://d/1.csv", "memory://d/2.csv"]) == {"/d/1.csv": b"1", "/d/2.csv": b"2"}
    # One file system, one cache, for all paths.
    assert fsspec.url_to_fs("phalanx::memory://d/2.csv", **options)[0] is fs
    files = fsspec.open_files("phalanx::memory://out/*.csv", "w", num=2, **options)
    for file in files:
        with file as opened:
            opened.write("out")
    assert fs.find("/out") == ["/out/0.csv", "/out/1.csv"]
    mapper = fsspec.get_mapper("phalanx::memory://map", **options)
    mapper["a/b"] = b"value"
    assert dict(mapper) == {"a/b": b"value"}
    assert memory.cat("/map/a/b")[:7] == b"PHALANX"


def test_longer_chains_work(memory, key, tmp_path):
    options = {"phalanx": {"key": key}, "simplecache": {"cache_storage": str(tmp_path / "cache")}}
    with fsspec.open("phalanx::memory://file", "wb", **options) as file:
        file.write(painted(1_000_000))
    # The cache below holds what is protected.
    with fsspec.open("phalanx::simplecache::memory://file", **options) as file:
        assert file.read() == painted(1_000_000)
    cached = [path.read_bytes()[:7] for path in (tmp_path / "cache").iterdir()]
    assert cached == [b"PHALANX"]
    fs = fsspec.filesystem("dir", path="/", fs=fsspec.filesystem("phalanx", target_protocol="memory", key=key))
    assert fs.cat_file("file", 10, 20) == painted(1_000_000)[10:20]


@pytest.mark.parametrize("reads", [1, 20])
def test_a_store_gets_one_call_at_a_time(key, reads):
    from fsspec.spec import AbstractFileSystem

    class Alone(AbstractFileSystem):
        protocol = "alone"
        cachable = False
        memory = Counting()
        busy = threading.Lock()

        def _one(self, method, *args, **kwargs):
            assert self.busy.acquire(blocking=False), "two calls at once"
            try:
                return getattr(self.memory, method)(*args, **kwargs)
            finally:
                self.busy.release()

        def info(self, path, **kwargs):
            return self._one("info", path, **kwargs)

        def cat_file(self, path, start=None, end=None, **kwargs):
            return self._one("cat_file", path, start, end)

        def pipe_file(self, path, value, mode="overwrite", **kwargs):
            return self._one("pipe_file", path, value)

    fs = PhalanxFileSystem(fs=Alone(), key=key)
    data = painted(50 * CHUNK)
    fs.pipe({f"/{i}": data for i in range(reads)})
    paths = [f"/{i}" for i in range(reads)] * 2
    assert fs.cat_ranges(paths, 5 * CHUNK, 5 * CHUNK + 10) == 2 * reads * [data[5 * CHUNK : 5 * CHUNK + 10]]


# Secrets


def reveals(text, secret):
    import base64

    text = str(text)
    return any(form in text for form in (repr(secret)[2:-1], secret.hex(), base64.b64encode(secret).decode()))


def everything_shown(fs):
    yield repr(fs)
    yield str(fs)
    yield repr(fs.storage_options)
    yield fs._fs_token
    yield repr(type(fs)._cache)
    yield fs.fsid if hasattr(fs.fs, "_fsid") else ""


def test_keys_are_not_shown(below, key):
    for fs in (PhalanxFileSystem(fs=below, key=key), PhalanxFileSystem(fs=below, keys=[key])):
        for text in everything_shown(fs):
            assert not reveals(text, key.to_bytes())
        for write in (pickle.dumps, lambda fs: fs.to_json(), lambda fs: fs.to_dict()):
            with pytest.raises(TypeError, match="keyring") as raised:
                write(fs)
            assert is_one_line(raised.value)


def test_passwords_are_not_shown(memory):
    password = b"correct horse battery"
    fs = fsspec.filesystem("phalanx", target_protocol="memory", password=password.decode())
    fs.pipe_file("/file", b"data")
    assert fs.cat_file("/file", 1, 3) == b"at"
    for text in everything_shown(fs):
        assert not reveals(text, password) and password.decode() not in text
    for write in (pickle.dumps, lambda fs: fs.to_json(), lambda fs: fs.to_dict()):
        with pytest.raises(TypeError, match="keyring") as raised:
            write(fs)
        assert password.decode() not in str(raised.value)
    assert password.decode() not in fs.to_json(include_password=False)
    # The same password is the same file system, and another one is another.
    assert fsspec.filesystem("phalanx", target_protocol="memory", password=password.decode()) is fs
    other = fsspec.filesystem("phalanx", target_protocol="memory", password="another")
    assert other is not fs and other != fs
    with pytest.raises(phalanx.WrongKeyError):
        other.cat_file("/file")


def test_tokens_reveal_nothing_about_a_password():
    """Another process cannot use a token to check a guessed password."""
    code = """
import fsspec, phalanx.fsspec
fs = fsspec.filesystem("phalanx", target_protocol="memory", password="guess")
print(repr(fs.storage_options["password"]))
"""
    shown = {child(code).stdout for _ in range(2)}
    assert len(shown) == 2 and all("guess" not in text and "<password" in text for text in shown)


def test_key_bytes_are_refused_before_they_are_stored(below):
    for options in ({"key": bytes(32)}, {"keys": [bytes(32)]}, {"keys": "work"}, {"password": 5}):
        with pytest.raises(TypeError):
            PhalanxFileSystem(fs=below, **options)


@pytest.mark.parametrize("given", ["name", "key", "keys"])
def test_named_keys_are_pickled_as_names(memory, key, given):
    named = key.store("work")
    options = {"name": {"key": "work"}, "key": {"key": named}, "keys": {"keys": [named]}}[given]
    fs = fsspec.filesystem("phalanx", target_protocol="memory", **options)
    fs.pipe_file("/file", b"data")
    for text in (pickle.dumps(fs), fs.to_json().encode(), *(shown.encode() for shown in everything_shown(fs))):
        assert not reveals(text, key.to_bytes()) and key.to_bytes() not in text
    for other in (pickle.loads(pickle.dumps(fs)), fsspec.AbstractFileSystem.from_json(fs.to_json())):
        assert other.cat_file("/file", 0, 2) == b"da"
    description = json.loads(fs.to_json())
    assert "work" in (description.get("key"), *description.get("keys", ()))
    with fs.open("/file") as file:
        file.seek(2)
        assert pickle.loads(pickle.dumps(file)).read() == b"ta"


def test_workers_find_keys_by_name(key, tmp_path):
    key.store("work")
    fs = fsspec.filesystem("phalanx", key="work")
    fs.pipe_file(str(tmp_path / "file"), b"data")
    pickled = pickle.dumps(fs)
    code = "import pickle, sys; print(pickle.loads(bytes.fromhex(sys.argv[1])).cat_file(sys.argv[2]))"
    assert child(code, pickled.hex(), tmp_path / "file").stdout == "b'data'\n"
    empty = tmp_path / "empty"
    empty.mkdir(mode=0o700)
    code = f"import os; os.environ['PHALANX_KEYRING'] = {str(empty)!r}; {code}"
    failed = child(code, pickled.hex(), tmp_path / "file")
    assert "KeyringError" in failed.stderr and "work" in failed.stderr


def test_a_forked_child_needs_its_own_file_system(key, tmp_path):
    code = """
import os, sys, phalanx, fsspec, warnings
warnings.simplefilter("ignore")
key = phalanx.Key.generate()
fs = fsspec.filesystem("phalanx", target_protocol="memory", key=key)
fs.pipe_file("/file", b"data")
assert fs.cat_file("/file", 0, 2) == b"da"
if os.fork() == 0:
    try:
        fs.cat_file("/file", 0, 2)
    except RuntimeError as error:
        assert "fork" in str(error)
        new = fsspec.filesystem("phalanx", target_protocol="memory", key=key)
        os._exit(0 if new.cat_file("/file", 1, 3) == b"at" else 2)
    os._exit(1)
_, status = os.wait()
print(os.waitstatus_to_exitcode(status))
"""
    done = child(code)
    assert done.stdout == "0\n", done.stderr


def test_sizes_of_many_paths_are_returned(tmp_path):
    """The names of fsspec's own methods are not taken by anything else."""
    phalanx.Key.generate().store("sizes")
    fs = fsspec.filesystem("phalanx", target_protocol="file", key="sizes", skip_instance_cache=True)
    for n in range(3):
        fs.pipe_file(str(tmp_path / str(n)), bytes(n))
    assert fs.sizes([str(tmp_path / str(n)) for n in range(3)]) == [0, 1, 2]


def test_environment_keys_are_pickled_as_names(monkeypatch, tmp_path):
    text = "phalanx-key-1-AAAQE-AYEAU-DAOCA-JBIFQ-YDIOB-4IBCE-QTCQK-RMFYY-DENBW-HA5DY-PWQAM-QBYAQ"
    monkeypatch.setenv("WORK_KEY", text)
    fs = fsspec.filesystem("phalanx", key="env:WORK_KEY")
    fs.pipe_file(str(tmp_path / "file"), b"data")
    pickled = pickle.dumps(fs)
    for shown in (pickled, fs.to_json().encode(), *(shown.encode() for shown in everything_shown(fs))):
        assert b"AYEAU" not in shown and bytes(range(32)) not in shown
    code = "import pickle, sys; print(pickle.loads(bytes.fromhex(sys.argv[1])).cat_file(sys.argv[2]))"
    assert child(code, pickled.hex(), tmp_path / "file").stdout == "b'data'\n"
    monkeypatch.delenv("WORK_KEY")
    failed = child(code, pickled.hex(), tmp_path / "file")
    assert "KeyringError" in failed.stderr and "env:WORK_KEY: the environment variable is not set here" in failed.stderr
    # The text itself is refused before fsspec writes it down.
    for options in ({"key": text}, {"keys": [text]}):
        with pytest.raises(ValueError, match="from_text") as raised:
            fsspec.filesystem("phalanx", **options)
        assert "AYEAU" not in str(raised.value)


@pytest.mark.parametrize("protocol", ["file", "memory"])
def test_pyarrow_sees_times_and_cannot_append(protocol, key, tmp_path):
    files = needs("pyarrow.fs")
    fs = fsspec.filesystem("phalanx", target_protocol=protocol, key=key)
    path = f"{tmp_path}/file"
    fs.pipe_file(path, b"data")
    through = files.PyFileSystem(files.FSSpecHandler(fs))
    (listed,) = through.get_file_info(files.FileSelector(str(tmp_path)))
    for info in (through.get_file_info(path), listed):
        assert info.size == 4 and info.mtime is not None
        assert abs(info.mtime.timestamp() - fs.modified(path).timestamp()) < 1
    for append in (lambda: through.open_append_stream(path), lambda: fs.open(path, "ab"), lambda: fs.open(path, "a")):
        with pytest.raises(NotImplementedError, match="nothing is appended to a protected file") as raised:
            append()
        assert is_one_line(raised.value)
    assert fs.cat_file(path) == b"data" and fs.ls(str(tmp_path), detail=False) == [fs._strip_protocol(path)]
