"""Readers and writers over Python's own objects, which can do anything."""

import io
import os
import sys
import tempfile
import threading
import time

import pytest

import phalanx
from conftest import painted
from test_reader import DATA, KEY, LARGE, LARGE_STORED, STORED, Recorded


class Mine(Exception):
    """An exception that only these tests raise."""


class NotSeekable(io.BytesIO):
    def seekable(self):
        return False

    def seek(self, *_):
        raise io.UnsupportedOperation("seek")


class ShortReads(io.BytesIO):
    def read(self, n=-1):
        return super().read(min(n, 7) if n >= 0 else n)


class Wrapped:
    """A file object, one method of which is replaced."""

    def __init__(self, inner, **replaced):
        self.inner = inner
        for name, method in replaced.items():
            setattr(self, name, method)

    def __getattr__(self, name):
        return getattr(self.inner, name)


def source(read_at, size=len(STORED)):
    class Source:
        pass

    Source.size = size
    Source.read_at = staticmethod(read_at)
    return Source()


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda b: memoryview(bytearray(b))])
def test_read_at_may_return_any_bytes_like_object(kind):
    with phalanx.open(source(lambda offset, n: kind(STORED[offset : offset + n])), key=KEY) as file:
        assert file.read() == DATA


def test_read_at_may_return_fewer_bytes():
    with phalanx.open(source(lambda offset, n: STORED[offset : offset + min(n, 100)]), key=KEY) as file:
        assert file.read() == DATA


def test_read_at_gets_whole_numbers():
    seen = []

    def read_at(offset, n):
        seen.append((type(offset), type(n), offset + n <= len(STORED) + (1 << 20)))
        return STORED[offset : offset + n]

    with phalanx.open(source(read_at), key=KEY) as file:
        file.read()
    assert set(seen) == {(int, int, True)}


@pytest.mark.parametrize("kind", ["bytesio", "file", "unbuffered", "temporary", "short"])
def test_seekable_file_objects_are_read(tmp_path, kind):
    path = tmp_path / "stored"
    path.write_bytes(STORED)
    if kind == "temporary":
        inner = tempfile.TemporaryFile()
        inner.write(STORED)
    else:
        inner = {"bytesio": lambda: io.BytesIO(STORED), "file": lambda: open(path, "rb"),
                 "unbuffered": lambda: open(path, "rb", 0), "short": lambda: ShortReads(STORED)}[kind]()
    with inner:
        with phalanx.open(inner, key=KEY) as file:
            assert file.size == len(DATA)
            assert file.read() == DATA
            assert file.read_at(5000, 100) == DATA[5000:5100]
        assert not inner.closed, "the caller closes it"


def test_a_raw_file_with_only_readinto_is_read():
    class Raw(io.RawIOBase):
        def __init__(self):
            self.inner = io.BytesIO(STORED)

        def readable(self):
            return True

        def seekable(self):
            return True

        def seek(self, offset, whence=0):
            return self.inner.seek(offset, whence)

        def tell(self):
            return self.inner.tell()

        def readinto(self, buffer):
            return self.inner.readinto(buffer)

    with phalanx.open(Raw(), key=KEY) as file:
        assert file.read() == DATA


def test_a_protected_file_in_a_protected_file_is_read():
    outer = io.BytesIO()
    with phalanx.open(outer, "wb", key=KEY, chunk_size=4096) as file:
        file.write(STORED)
    with phalanx.open(phalanx.open(outer, key=KEY), key=KEY) as file:
        assert file.read() == DATA


@pytest.mark.parametrize("thing", [None, 3, 3.5, object(), [], b"".join, len])
def test_other_objects_are_refused(thing):
    with pytest.raises(TypeError):
        phalanx.open(thing, key=KEY)


@pytest.mark.parametrize("thing", [io.StringIO("text"), NotSeekable(STORED)])
def test_unsuitable_file_objects_are_refused(thing):
    with pytest.raises((TypeError, OSError, ValueError, phalanx.Error)):
        phalanx.open(thing, key=KEY)


def test_a_file_object_in_text_mode_is_refused(tmp_path):
    (tmp_path / "text").write_text("x" * 10_000)
    with open(tmp_path / "text") as text, pytest.raises((TypeError, ValueError, phalanx.Error)):
        phalanx.open(text, key=KEY)


@pytest.mark.parametrize("raised", [Mine("mine"), OSError(5, "of the source"), KeyboardInterrupt("k"), SystemExit(3), StopIteration(), MemoryError(), InterruptedError(4, "again")])
def test_exceptions_of_a_source_are_raised_unchanged(raised):
    calls = []

    def fail(offset, n):
        calls.append(offset)
        if len(calls) > 1000:
            return STORED[offset : offset + n]
        raise raised

    with pytest.raises(type(raised)) as caught:
        phalanx.open(source(fail), key=KEY)
    assert caught.value is raised
    assert len(calls) <= 2
    # The exception comes later, while reading.
    healthy = [True]

    def sometimes(offset, n):
        if not healthy[0]:
            raise raised
        return STORED[offset : offset + n]

    with phalanx.open(source(sometimes), key=KEY, cache=0, read_ahead=0) as file:
        healthy[0] = False
        for call in (lambda: file.read(100), lambda: file.read_at(9000, 100), lambda: file.readinto(bytearray(10)), lambda: file.read()):
            with pytest.raises(type(raised)) as caught:
                call()
            assert caught.value is raised
        assert file.tell() == 0
        healthy[0] = True
        assert file.read() == DATA, "a source that works again is read again"


@pytest.mark.parametrize("method", ["seek", "tell", "read"])
def test_exceptions_of_a_file_object_are_raised_unchanged(method):
    raised = Mine(method)

    def fail(*_):
        raise raised

    with pytest.raises(Mine) as caught:
        phalanx.open(Wrapped(io.BytesIO(STORED), **{method: fail}), key=KEY)
    assert caught.value is raised


@pytest.mark.parametrize(
    "answer", ["text", None, 5, 3.5, [1, 2], object(), Ellipsis, memoryview(b"abcdefgh")[::2], True], ids=lambda answer: type(answer).__name__
)
def test_answers_of_a_wrong_type_raise(answer):
    for thing in (source(lambda offset, n: answer), Wrapped(io.BytesIO(STORED), read=lambda n: answer)):
        with pytest.raises((TypeError, ValueError, BufferError, OSError, phalanx.Error)):
            phalanx.open(thing, key=KEY)


@pytest.mark.parametrize("more", [1, 4096, 1 << 20])
def test_answers_longer_than_the_request_raise(more):
    for thing in (
        source(lambda offset, n: STORED[offset : offset + n] + bytes(more)),
        Wrapped(io.BytesIO(STORED), read=lambda n: bytes(n + more)),
    ):
        with pytest.raises((ValueError, OSError, phalanx.Error)):
            phalanx.open(thing, key=KEY)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 100, len(STORED) - 1, len(STORED) + 1, len(STORED) * 2, (1 << 63) - 1, (1 << 64) - 1])
def test_a_false_size_is_detected_at_opening(size):
    """It is detected at the opening, and takes no memory for bytes that are not there."""
    with pytest.raises((phalanx.Error, OSError)):
        phalanx.open(source(lambda offset, n: STORED[offset : offset + n], size), key=KEY)


@pytest.mark.parametrize("size", [-1, 1 << 64, 1.5, "100", None, b"x"])
def test_an_impossible_size_is_refused(size):
    with pytest.raises((TypeError, ValueError, OverflowError)):
        phalanx.open(source(lambda offset, n: STORED[offset : offset + n], size), key=KEY)


def test_exceptions_of_size_are_raised():
    class Source:
        @property
        def size(self):
            raise Mine("size")

        def read_at(self, offset, n):
            return b""

    with pytest.raises(Mine):
        phalanx.open(Source(), key=KEY)


def test_a_source_that_returns_other_bytes_later_is_detected():
    """The source returns other bytes when the same place is read again. This is found like any other change."""
    calls = {}

    def read_at(offset, n):
        calls[offset] = calls.get(offset, 0) + 1
        data = bytearray(LARGE_STORED[offset : offset + n])
        if calls[offset] > 1 and data:
            data[-1] ^= 1
        return bytes(data)

    with phalanx.open(source(read_at, len(LARGE_STORED)), key=KEY, cache=0, read_ahead=0) as file:
        at = 300_000
        assert file.read_at(at, 10) == LARGE[at : at + 10]
        assert file.read_at(at * 2, 10) == LARGE[at * 2 : at * 2 + 10]
        with pytest.raises(phalanx.AuthenticationError):
            file.read_at(at, 10)


def test_empty_answers_raise():
    """The source is not called again and again."""
    with pytest.raises((phalanx.Error, OSError)):
        phalanx.open(source(lambda offset, n: b""), key=KEY)


def test_read_at_is_called_by_several_threads_at_once():
    data = painted(64 * 4096)
    out = io.BytesIO()
    with phalanx.open(out, "wb", key=KEY, chunk_size=4096) as file:
        file.write(data)
    stored = out.getvalue()
    together = threading.Barrier(4, timeout=120)

    def read_at(offset, n):
        if meeting[0]:
            together.wait()
        return stored[offset : offset + n]

    meeting = [False]
    with phalanx.open(source(read_at, len(stored)), key=KEY, cache=0, read_ahead=0) as file:
        meeting[0] = True
        answers = {}
        threads = [threading.Thread(target=lambda i=i: answers.update({i: file.read_at(i * 4096, 10)})) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        meeting[0] = False
    assert answers == {i: data[i * 4096 : i * 4096 + 10] for i in range(4)}


def test_a_seekable_file_is_used_by_one_thread_at_a_time():
    inside, most = [0], [0]

    class Watched(io.BytesIO):
        def read(self, n=-1):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0.002)
            data = super().read(n)
            inside[0] -= 1
            return data

    with phalanx.open(Watched(STORED), key=KEY, cache=0) as file:
        results = []
        threads = [threading.Thread(target=lambda i=i: results.append(file.read_at(i * 2000, 100) == DATA[i * 2000 : i * 2000 + 100])) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert results == [True] * 8
    assert most == [1]


def test_a_source_may_read_the_file_that_reads_it():
    """The source is called while the reader waits for it. An error is allowed, a deadlock is not."""
    state = {}

    def read_at(offset, n):
        if "file" in state and not state.get("inside"):
            state["inside"] = True
            try:
                state["inner"] = state["file"].read_at(0, 10)
            except Exception as error:
                state["inner"] = error
        return STORED[offset : offset + n]

    with phalanx.open(source(read_at), key=KEY, cache=0, read_ahead=0) as file:
        state["file"] = file
        done = threading.Event()
        result = []

        def work():
            result.append(file.read_at(9000, 10))
            done.set()

        threading.Thread(target=work, daemon=True).start()
        assert done.wait(30), "it waits for itself"
        state.pop("file")
    assert result == [DATA[9000:9010]]
    assert state["inner"] == DATA[:10] or isinstance(state["inner"], Exception)


def test_a_source_may_close_the_file_that_reads_it():
    state = {}

    def read_at(offset, n):
        if "file" in state:
            state.pop("file").close()
        return STORED[offset : offset + n]

    file = phalanx.open(source(read_at), key=KEY, cache=0, read_ahead=0)
    state["file"] = file
    done = []

    def work():
        try:
            done.append(file.read_at(9000, 10))
        except ValueError as error:
            done.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(120)
    assert not thread.is_alive(), "it waits for itself"
    assert done[0] == DATA[9000:9010] or isinstance(done[0], ValueError)
    assert file.closed


def test_a_slow_source_does_not_block_other_reads():
    begun, go_on = threading.Event(), threading.Event()
    slow = [False]

    def read_at(offset, n):
        if slow[0]:
            begun.set()
            assert go_on.wait(30)
        return STORED[offset : offset + n]

    with phalanx.open(source(read_at), key=KEY, cache=1 << 20, read_ahead=0) as file:
        file.read_at(0, 10)
        slow[0] = True
        result = []
        thread = threading.Thread(target=lambda: result.append(file.read_at(9000, 10)))
        thread.start()
        assert begun.wait(120)
        assert file.read_at(0, 10) == DATA[:10], "an opened chunk needs no source"
        assert phalanx.unseal(KEY, phalanx.seal(KEY, b"x")) == b"x"
        go_on.set()
        thread.join(120)
    assert result == [DATA[9000:9010]]


def test_a_source_is_released_with_its_reader(tmp_path):
    """The reader keeps its source alive, and no longer than itself."""
    import gc
    import weakref

    recorded = Recorded(STORED)
    gone = weakref.ref(recorded)
    file = phalanx.open(recorded, key=KEY)
    del recorded
    gc.collect()
    assert gone() is not None and file.read() == DATA
    file.close()
    del file
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("path_type", ["int", "descriptor"])
def test_descriptors_are_refused(tmp_path, path_type):
    (tmp_path / "stored").write_bytes(STORED)
    with open(tmp_path / "stored", "rb") as inner:
        thing = inner.fileno() if path_type == "descriptor" else 10**6
        with pytest.raises(TypeError):
            phalanx.open(thing, key=KEY)


def test_endless_recursion_raises_recursion_error():
    def read_at(offset, n):
        return read_at(offset, n)

    sys.setrecursionlimit(max(1000, sys.getrecursionlimit()))
    with pytest.raises(RecursionError):
        phalanx.open(source(read_at), key=KEY)
    assert os.getpid()


@pytest.mark.parametrize("read", [lambda file: file.read(), lambda file: file.read_at(0, len(LARGE)), lambda file: file.readinto(bytearray(len(LARGE)))])
@pytest.mark.parametrize("raised", [KeyboardInterrupt(), Mine("once")], ids=lambda raised: type(raised).__name__)
def test_an_exception_that_occurs_once_is_raised(read, raised):
    """Ctrl-C, above all: if one call of the source is interrupted, the next call does not hide it.

    An OSError may be hidden: if bytes around a chunk cannot be read, the chunk itself can still be read.
    """
    for place in range(1, 8):
        # How many calls of the main thread are left until one fails; None for none. What fails in a thread that reads ahead is
        # tried again by the main thread.
        left = [None]

        def read_at(offset, n):
            if left[0] is not None and threading.current_thread() is threading.main_thread():
                left[0] -= 1
                if left[0] == 0:
                    left[0] = None
                    raise raised
            return LARGE_STORED[offset : offset + min(n, 20_000)]

        with phalanx.open(source(read_at, len(LARGE_STORED)), key=KEY, read_ahead=0, threads=1) as file:
            left[0] = place
            with pytest.raises(type(raised)) as caught:
                read(file)
            assert caught.value is raised
            assert file.tell() == 0
            assert file.read() == LARGE
