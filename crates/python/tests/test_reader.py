"""Reading by range: everything that Python's file objects promise."""

import gc
import io
import lzma
import os
import pickle
import random
import tarfile
import threading
import warnings
import weakref
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import phalanx
from conftest import CIPHERS, painted

KEY = phalanx.Key.from_bytes(bytes(range(32)))
DATA = painted(5 * 4096 + 777)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("reader") / "data.phx"
    with phalanx.open(path, "wb", key=KEY, chunk_size=4096, sync=False) as file:
        file.write(DATA)
    return path


@pytest.fixture
def file(path):
    with phalanx.open(path, key=KEY) as file:
        yield file


def protected(data, **options):
    """The bytes of a protected file."""
    out = io.BytesIO()
    with phalanx.open(out, "wb", key=KEY, **options) as file:
        file.write(data)
    return out.getvalue()


def test_a_reader_is_a_raw_file_object(file, path):
    assert isinstance(file, phalanx.ProtectedReader) and isinstance(file, io.RawIOBase)
    assert (file.size, file.chunk_size, file.cipher) == (len(DATA), 4096, "aes-256")
    assert file.readable() and file.seekable() and not file.writable()
    assert not file.closed and not file.isatty()
    assert file.mode == "rb" and os.fspath(file.name) == os.fspath(path)
    assert str(path) in repr(file)


def test_a_reader_is_not_writable(file):
    with pytest.raises(OSError):
        file.fileno()
    for call in (lambda: file.write(b"x"), lambda: file.truncate(), lambda: file.truncate(0)):
        with pytest.raises(OSError):
            call()
    for name in ("size", "chunk_size", "cipher"):
        with pytest.raises(AttributeError):
            setattr(file, name, 1)
    with pytest.raises(TypeError):
        pickle.dumps(file)


@pytest.mark.parametrize("kind", [str, os.fsencode, lambda path: path])
def test_all_kinds_of_paths_are_opened(path, kind):
    with phalanx.open(kind(path), key=KEY) as file:
        assert file.read() == DATA


def test_read_returns_the_plaintext(file):
    assert file.read(0) == b""
    assert file.read(10) == DATA[:10]
    assert file.tell() == 10
    assert file.read(5000) == DATA[10:5010], "reads across chunks are not short"
    assert file.read() == DATA[5010:]
    assert file.tell() == len(DATA)
    for at_end in (file.read(), file.read(10), file.readall(), file.read(None), file.read(-1)):
        assert at_end == b"" and type(at_end) is bytes
    file.seek(0)
    assert file.read(-1) == DATA
    file.seek(0)
    assert file.read(None) == DATA
    file.seek(1)
    assert file.readall() == DATA[1:]
    file.seek(0)
    assert file.read(1 << 62) == DATA, "no memory is taken for what is not there"


def test_readinto_fills_buffers(file):
    buffer = bytearray(b"x" * 100)
    assert file.readinto(buffer) == 100 and buffer == DATA[:100]
    assert file.readinto(bytearray()) == 0
    assert file.readinto(memoryview(buffer)[10:20]) == 10
    assert buffer == DATA[:10] + DATA[100:110] + DATA[20:100]
    large = bytearray(len(DATA) * 2)
    assert file.readinto(large) == len(DATA) - 110
    assert large[: len(DATA) - 110] == DATA[110:]
    assert not any(large[len(DATA) - 110 :]), "bytes after the data are not changed"
    assert file.readinto(buffer) == 0
    file.seek(0)
    import array

    words = array.array("i", [0] * 25)
    assert file.readinto(words) == 100 and words.tobytes() == DATA[:100]


@pytest.mark.parametrize("buffer", [b"read-only", memoryview(b"read-only"), "text", None, 10, [0] * 10, memoryview(bytearray(20))[::2]])
def test_readinto_refuses_read_only_buffers(file, buffer):
    with pytest.raises((TypeError, BufferError, ValueError)):
        file.readinto(buffer)
    assert file.tell() == 0 and file.read(4) == DATA[:4]
    assert b"read-only" == bytes([114, 101, 97, 100, 45, 111, 110, 108, 121])


def test_readinto_releases_its_buffer(file):
    buffer = bytearray(10)
    file.readinto(buffer)
    buffer.extend(b"it can be resized")


def test_seek_moves_the_cursor(file):
    assert file.seek(100) == 100 and file.read(5) == DATA[100:105]
    assert file.seek(-5, os.SEEK_CUR) == 100
    assert file.seek(7, os.SEEK_CUR) == 107 and file.tell() == 107
    assert file.seek(-3, os.SEEK_END) == len(DATA) - 3 and file.read() == DATA[-3:]
    assert file.seek(0, os.SEEK_END) == len(DATA)
    assert file.seek(1000, os.SEEK_END) == len(DATA) + 1000, "beyond the end, as in any file"
    assert file.tell() == len(DATA) + 1000 and file.read() == b"" and file.read(5) == b"" and file.readinto(bytearray(5)) == 0
    assert file.seek(0) == 0 and file.read(3) == DATA[:3]


def test_impossible_seeks_move_nothing(file):
    file.seek(10)
    for arguments in ((-1,), (-11, os.SEEK_CUR), (-len(DATA) - 1, os.SEEK_END), (0, 3), (0, -1)):
        with pytest.raises((ValueError, OSError)):
            file.seek(*arguments)
        assert file.tell() == 10
    for arguments in ((1 << 70,), (-(1 << 70), os.SEEK_END)):
        with pytest.raises((ValueError, OSError, OverflowError)):
            file.seek(*arguments)
        assert file.tell() == 10
    for arguments in ((1.5,), ("1",), (None,), (0, None), ()):
        with pytest.raises(TypeError):
            file.seek(*arguments)
    for arguments in ((1.5,), ("1",), ([],)):
        with pytest.raises(TypeError):
            file.read(*arguments)
    # The largest offsets there are.
    for offset in ((1 << 63) - 1, (1 << 62)):
        assert file.seek(offset) == offset and file.read(10) == b""
        with pytest.raises((ValueError, OSError, OverflowError)):
            file.seek((1 << 63) - 1, os.SEEK_CUR)
            file.seek((1 << 63) - 1, os.SEEK_CUR)
            file.seek((1 << 63) - 1, os.SEEK_CUR)


def test_read_at_returns_the_plaintext(file):
    file.seek(33)
    assert file.read_at(0, 10) == DATA[:10]
    assert file.read_at(4090, 10) == DATA[4090:4100]
    assert file.read_at(0, len(DATA)) == DATA
    assert file.read_at(len(DATA) - 5, 100) == DATA[-5:]
    assert file.read_at(len(DATA), 10) == file.read_at(len(DATA) + 5000, 10) == file.read_at(0, 0) == b""
    assert file.read_at((1 << 64) - 1, 1 << 62) == b""
    assert file.tell() == 33, "the cursor stays where it is"
    for arguments in ((-1, 10), (0, -1), (1 << 64, 1), (0, 1 << 64)):
        with pytest.raises((ValueError, OverflowError)):
            file.read_at(*arguments)
    for arguments in ((0.0, 1), ("0", 1), (0, None), (0,), ()):
        with pytest.raises(TypeError):
            file.read_at(*arguments)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from("rsSeaib"), st.integers(0, len(DATA) + 5000)), max_size=20))
def test_a_reader_behaves_like_bytesio(steps):
    """Any sequence of calls gives what io.BytesIO gives."""
    with phalanx.open(io.BytesIO(STORED), key=KEY, cache=4 * 4096) as file:
        model = io.BytesIO(DATA)
        for step, n in steps:
            if step == "r":
                assert file.read(n) == model.read(n)
            elif step == "s":
                assert file.seek(n) == model.seek(n)
            elif step == "S":
                n = min(n, model.tell())
                assert file.seek(-n, 1) == model.seek(-n, 1)
            elif step == "e":
                assert file.seek(-min(n, len(DATA)), 2) == model.seek(-min(n, len(DATA)), 2)
            elif step == "a":
                assert file.read_at(n, 3000) == DATA[n : n + 3000]
            elif step == "i":
                ours, theirs = bytearray(n), bytearray(n)
                assert file.readinto(ours) == model.readinto(theirs) and ours == theirs
            else:
                assert file.readline(n) == model.readline(n)
            assert file.tell() == model.tell()


STORED = protected(DATA, chunk_size=4096)

# More than is read at the opening.
LARGE = painted(1_000_000, 9)
LARGE_STORED = protected(LARGE, chunk_size=4096)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 8192])
@pytest.mark.parametrize("cipher", CIPHERS)
def test_files_of_all_sizes_and_ciphers_are_read(size, cipher):
    with phalanx.open(io.BytesIO(protected(DATA[:size], chunk_size=4096, cipher=cipher)), key=KEY) as file:
        assert (file.size, file.cipher) == (size, cipher)
        assert file.read() == DATA[:size]
        assert file.read_at(max(size - 3, 0), 10) == DATA[max(size - 3, 0) : size]


@pytest.mark.parametrize("options", [{"cache": 0}, {"cache": 1}, {"cache": 1 << 30}, {"read_ahead": 0}, {"read_ahead": 1 << 20}, {"threads": 1}, {"threads": 3}])
def test_options_do_not_change_the_plaintext(path, options):
    with phalanx.open(path, key=KEY, **options) as file:
        assert file.read() == DATA
        rng = random.Random(1)
        for _ in range(50):
            at, n = rng.randrange(len(DATA)), rng.randrange(9000)
            assert file.read_at(at, n) == DATA[at : at + n]


@pytest.mark.parametrize(
    "options, error",
    [
        ({"mode": "ab"}, ValueError),
        ({"mode": "r+b"}, ValueError),
        ({"mode": ""}, ValueError),
        ({"mode": None}, (TypeError, ValueError)),
        ({"threads": 0}, ValueError),
        ({"cache": -1}, (ValueError, OverflowError)),
        ({"cache": "1M"}, TypeError),
        ({"cipher": "aes-256"}, TypeError),
        ({"nonsense": 1}, TypeError),
    ],
)
def test_impossible_options_are_refused(path, options, error):
    with pytest.raises(error):
        phalanx.open(path, key=KEY, **options)


def test_a_closed_reader_raises(path):
    file = phalanx.open(path, key=KEY)
    file.read(10)
    assert file.close() is None
    assert file.closed
    file.close()
    calls = [
        lambda: file.read(),
        lambda: file.read(0),
        lambda: file.readall(),
        lambda: file.readinto(bytearray(1)),
        lambda: file.readinto(bytearray()),
        lambda: file.readline(),
        lambda: file.readlines(),
        lambda: next(file),
        lambda: iter(file).__next__(),
        lambda: file.seek(0),
        lambda: file.tell(),
        lambda: file.read_at(0, 1),
        lambda: file.protected_range(0, 1),
        lambda: file.readable(),
        lambda: file.seekable(),
        lambda: file.writable(),
        lambda: file.isatty(),
        lambda: file.flush(),
        lambda: file.__enter__(),
    ]
    for number, call in enumerate(calls):
        with pytest.raises(ValueError):
            call()
            pytest.fail(f"call {number} works on a closed file")
    assert "closed" in repr(file)


def test_with_closes_a_reader_after_an_exception(path):
    with pytest.raises(KeyError):
        with phalanx.open(path, key=KEY) as file:
            raise KeyError
    assert file.closed


def test_a_closed_reader_holds_no_descriptor(path):
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("skipped: no /proc/self/fd")

    def opens():
        return sum(os.path.realpath(f"/proc/self/fd/{fd}") == os.path.realpath(path) for fd in os.listdir("/proc/self/fd"))

    files = [phalanx.open(path, key=KEY) for _ in range(5)]
    assert opens() == 5
    for file in files:
        file.read(5000)
        file.close()
    assert opens() == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = phalanx.open(path, key=KEY)
        file.read(10)
        del file
        gc.collect()
    assert opens() == 0


def test_readers_are_collected(path):
    """Also as a part of a cycle."""

    class Holder:
        pass

    holder = Holder()
    holder.file = phalanx.open(io.BytesIO(STORED), key=KEY)
    holder.me = holder
    collected = weakref.ref(holder.file)
    del holder
    gc.collect()
    assert collected() is None


def test_a_reader_may_be_closed_while_others_read(path):
    """No crash, and either the bytes or an error."""
    for _ in range(20):
        file = phalanx.open(path, key=KEY, cache=0)
        wrong = []

        def read(seed):
            rng = random.Random(seed)
            try:
                while True:
                    at = rng.randrange(len(DATA))
                    if file.read_at(at, 5000) != DATA[at : at + 5000]:
                        wrong.append(at)
            except ValueError:
                pass

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        file.read(5000)
        file.close()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
        assert wrong == []


def test_eight_threads_read_at_once(path):
    with phalanx.open(path, key=KEY, cache=3 * 4096) as file:

        def read(seed):
            rng = random.Random(seed)
            for _ in range(300):
                at, n = rng.randrange(len(DATA) + 100), rng.randrange(10_000)
                assert file.read_at(at, n) == DATA[at : at + n]
            return True

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(read, range(8)))


def test_eight_threads_share_one_cursor(path):
    """Each byte is read once, by one of them."""
    with phalanx.open(path, key=KEY) as file:
        pieces = []

        def read(_):
            while piece := file.read(97):
                pieces.append(piece)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(read, range(8)))
        assert sum(map(len, pieces)) == len(DATA)
        expected = [DATA[at : at + 97] for at in range(0, len(DATA), 97)]
        assert sorted(pieces) == sorted(expected)


def test_a_buffered_reader_wraps_a_reader(path):
    with io.BufferedReader(phalanx.open(path, key=KEY), 1000) as file:
        assert file.read(10) == DATA[:10]
        assert file.peek(5)[:5] == DATA[10:15]
        assert file.seek(5000) == 5000 and file.read1(20) == DATA[5000:5020]
        assert file.read() == DATA[5020:]
        raw = file.raw
    assert raw.closed


def test_lines_and_text_are_read(tmp_path):
    lines = [f"line {n} ä €\n" for n in range(3000)]
    text = "".join(lines)
    stored = protected(text.encode(), chunk_size=4096)
    with phalanx.open(io.BytesIO(stored), key=KEY) as file:
        assert [line.decode() for line in file] == lines
    with io.TextIOWrapper(phalanx.open(io.BytesIO(stored), key=KEY), encoding="utf-8") as file:
        assert file.readline() == lines[0]
        place = file.tell()
        assert file.read() == "".join(lines[1:])
        file.seek(place)
        assert file.readlines() == lines[1:]


def test_archives_are_read(tmp_path):
    members = {f"member {n}": painted(3000 + n * 100, n) for n in range(10)}
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with tarfile.open(fileobj=tarred, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    with phalanx.open(io.BytesIO(protected(zipped.getvalue(), chunk_size=4096)), key=KEY) as file:
        with zipfile.ZipFile(file) as archive:
            assert archive.testzip() is None
            assert {name: archive.read(name) for name in reversed(archive.namelist())} == members
    with phalanx.open(io.BytesIO(protected(tarred.getvalue(), chunk_size=4096)), key=KEY) as file:
        with tarfile.open(fileobj=file) as archive:
            assert {info.name: archive.extractfile(info).read() for info in archive} == members


def test_the_standard_library_reads_readers(tmp_path):
    import shutil
    import sqlite3  # noqa: F401 - only to show that it takes no file objects

    packed = lzma.compress(DATA)
    with phalanx.open(io.BytesIO(protected(packed)), key=KEY) as file, lzma.open(file) as unpacked:
        assert unpacked.read() == DATA
    out = io.BytesIO()
    with phalanx.open(io.BytesIO(STORED), key=KEY) as file:
        shutil.copyfileobj(file, out)
    assert out.getvalue() == DATA
    pickled = pickle.dumps({"a": DATA})
    with phalanx.open(io.BytesIO(protected(pickled)), key=KEY) as file:
        assert pickle.load(file) == {"a": DATA}


def test_protected_range_is_exactly_what_a_read_needs(path):
    """A reader of exactly these bytes can give the range."""
    stored = path.read_bytes()
    rng = random.Random(7)
    with phalanx.open(path, key=KEY) as file:
        header = int.from_bytes(stored[8:12], "little")
        stride = 4096 + 48
        assert file.protected_range(0, len(DATA)) == (header, len(stored))
        assert file.protected_range(0, 1) == (header, header + stride)
        assert file.protected_range(4095, 4097) == (header, header + 2 * stride)
        assert file.protected_range(4096, 4097) == (header + stride, header + 2 * stride)
        assert file.protected_range(len(DATA) - 1, len(DATA)) == (header + 5 * stride, len(stored))
        assert file.protected_range(0, 1 << 62) == (header, len(stored))
        for empty in ((0, 0), (5, 5), (len(DATA), len(DATA) + 5), (1 << 62, 1 << 63), (10, 5)):
            assert file.protected_range(*empty) == (0, 0)
        for wrong in ((-1, 5), (0, -1)):
            with pytest.raises((ValueError, OverflowError)):
                file.protected_range(*wrong)
    for _ in range(50):
        # Not from what was read at the opening.
        start = rng.randrange(100_000, 900_000)
        stop = start + rng.choice([1, 10, 4096, 90_000])
        source = Recorded(LARGE_STORED)
        with phalanx.open(source, key=KEY, cache=0, read_ahead=0) as file:
            source.ranges.clear()
            assert file.read_at(start, stop - start) == LARGE[start:stop]
            first, last = file.protected_range(start, stop)
        assert source.ranges, "something was read"
        assert all(first <= a and b <= last for a, b in source.ranges)


class Recorded:
    """A source that remembers what was asked for."""

    def __init__(self, data):
        self.data, self.size, self.ranges = data, len(data), []

    def read_at(self, offset, n):
        self.ranges.append((offset, min(offset + n, self.size)))
        return self.data[offset : offset + n]


def test_opening_reads_only_the_header_and_the_end():
    source = Recorded(LARGE_STORED)
    with phalanx.open(source, key=KEY) as file:
        assert file.size == len(LARGE)
        assert sum(b - a for a, b in source.ranges) < 80_000
        assert max(b for a, b in source.ranges) == len(LARGE_STORED)
        assert len(source.ranges) <= 4


def test_an_opened_chunk_is_not_fetched_again():
    source = Recorded(LARGE_STORED)
    with phalanx.open(source, key=KEY, cache=1 << 20, read_ahead=0) as file:
        file.read_at(409_600, 10)
        source.ranges.clear()
        assert file.read_at(409_600, 4096) == LARGE[409_600 : 409_600 + 4096]
        assert source.ranges == []
        file.read_at(500_000, 10)
        assert source.ranges != []


def test_an_open_file_stays_the_same_when_replaced(tmp_path):
    """The opened file stays the one that was opened."""
    path = tmp_path / "data.phx"
    path.write_bytes(STORED)
    with phalanx.open(path, key=KEY, cache=0) as file:
        with phalanx.open(path, "wb", key=KEY, sync=False) as new:
            new.write(b"new content")
        assert file.read() == DATA
    with phalanx.open(path, key=KEY) as file:
        assert file.read() == b"new content"


def test_damage_after_opening_is_detected(tmp_path):
    path = tmp_path / "data.phx"
    path.write_bytes(LARGE_STORED)
    with phalanx.open(path, key=KEY, cache=0, read_ahead=0) as file:
        assert file.read(10) == LARGE[:10]
        begin, _ = file.protected_range(500_000, 500_001)
        with open(path, "r+b") as stored:
            stored.seek(begin + 1000)
            byte = stored.read(1)
            stored.seek(begin + 1000)
            stored.write(bytes([byte[0] ^ 1]))
        with pytest.raises(phalanx.AuthenticationError) as caught:
            file.read()
        assert caught.value.chunk == 500_000 // 4096
        assert file.tell() == 10, "a failed read moves nothing"
        assert file.read_at(0, 4096) == LARGE[:4096], "other chunks are read as before"
        buffer = bytearray(b"\xaa" * 4096)
        file.seek(500_000)
        with pytest.raises(phalanx.AuthenticationError):
            file.readinto(buffer)
        assert buffer == b"\xaa" * 4096 and file.tell() == 500_000, "nothing false is given out"
        os.truncate(path, 300_000)
        with pytest.raises((phalanx.AuthenticationError, OSError)):
            file.read_at(400_000, 10)


def test_a_failed_large_read_does_not_move_the_cursor():
    """A read after the error begins at the same place."""
    data = painted(3 << 20)
    stored = bytearray(protected(data, chunk_size=4096))
    with phalanx.open(io.BytesIO(stored), key=KEY) as file:
        begin, _ = file.protected_range(2_500_000, 2_500_001)
    stored[begin + 100] ^= 1
    with phalanx.open(io.BytesIO(stored), key=KEY) as file:
        file.seek(1000)
        for call in (lambda: file.read(), lambda: file.read(2_600_000), lambda: file.readall(), lambda: file.readinto(bytearray(2_600_000))):
            with pytest.raises(phalanx.AuthenticationError) as caught:
                call()
            assert caught.value.chunk == 2_500_000 // 4096
            assert file.tell() == 1000
        assert file.read(10) == data[1000:1010]
