"""The file system for fsspec in many threads: files, options, and file systems below that allow one call at a time."""

import asyncio
import gc
import threading
import time

import pytest
from conftest import needs, painted

fsspec = needs("fsspec")

from fsspec.asyn import AsyncFileSystem, get_loop, sync  # noqa: E402
from fsspec.implementations.cached import SimpleCacheFileSystem  # noqa: E402
from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem  # noqa: E402

from phalanx.fsspec import PhalanxFileSystem  # noqa: E402


def in_threads(count, work):
    """Calls work(number) in as many threads, and returns what they raised."""
    raised = []

    def one(number):
        try:
            work(number)
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    return raised


class Store(MemoryFileSystem):
    protocol = "store"
    cachable = False


def test_close_waits_for_a_write_of_another_thread(key):
    fs, began = PhalanxFileSystem(fs=Store(global_store=False), key=key), threading.Event()
    file = fs.open("/f", "wb")
    write = file._writer.write

    def slowly(data):
        began.set()
        time.sleep(0.2)
        return write(data)

    file._writer.write = slowly
    data = painted(100_000)
    writer = threading.Thread(target=file.write, args=(data,))
    writer.start()
    assert began.wait(60)
    file.close()
    writer.join(60)
    assert fs.cat_file("/f") == data, "what was being written when it was closed is there"


def test_concurrent_closes_create_one_object(key):
    """The object appears once, and it exists when any of the calls to close it returns."""
    fs = PhalanxFileSystem(fs=Store(global_store=False), key=key)
    for number in range(20):
        path, together = f"/{number}", threading.Barrier(8)
        file = fs.open(path, "xb")
        file.write(b"x" * 1000)

        def close(_):
            together.wait(60)
            file.close()
            assert fs.cat_file(path) == b"x" * 1000

        assert in_threads(8, close) == []


class Watched(PhalanxFileSystem):
    """Notes which of its attributes are set."""

    def __setattr__(self, name, value):
        self.__dict__.setdefault("set", []).append(name)
        super().__setattr__(name, value)


def test_describing_a_file_system_does_not_change_it():
    """If attributes changed, another thread would not find the password, or would store it."""
    fs = Watched(fs=Store(global_store=False), password="p")
    fs.set.clear()
    assert "password" not in fs.to_dict(include_password=False)
    with pytest.raises(TypeError, match="holds a secret"):
        fs.to_dict()
    assert fs.set == [] and "password" in fs.storage_options


class OneAtATime(AbstractFileSystem):
    """A store in memory that counts the threads that call it at once."""

    protocol = "one"
    cachable = False

    def __init__(self):
        super().__init__()
        self._store, self._inside, self.most = Store(global_store=False), 0, 0

    def _called(self, method, *args, **kwargs):
        self._inside += 1
        self.most = max(self.most, self._inside)
        time.sleep(0.002)
        try:
            return getattr(self._store, method)(*args, **kwargs)
        finally:
            self._inside -= 1


def calling(method):
    return lambda self, *args, **kwargs: self._called(method, *args, **kwargs)


for method in ["_open", "cat_file", "exists", "info", "isdir", "ls", "modified", "mv", "open", "pipe_file", "rm_file", "rmdir"]:
    setattr(OneAtATime, method, calling(method))


def test_a_blocking_store_gets_one_call_at_a_time(key):
    below = OneAtATime()
    fs = PhalanxFileSystem(fs=below, key=key)

    def work(number):
        path = f"/{number}"
        for _ in range(5):
            with fs.open(path, "wb") as file:
                file.write(b"x" * 100)
            assert fs.cat_file(path, 10, 20) == b"x" * 10
            fs.modified(path)
            fs.mv(path, f"{path}.old")
            assert not fs.exists(path)

    assert in_threads(4, work) == []
    assert below.most == 1


class Resolving(AsyncFileSystem):
    """An asynchronous store that needs a thread of the event loop for each request, as sockets do for names of hosts."""

    protocol = "resolving"
    cachable = False

    def __init__(self, stored):
        super().__init__()
        self._stored = stored

    async def _info(self, path, **kwargs):
        await asyncio.to_thread(time.sleep, 0.001)
        return {"name": path, "size": len(self._stored), "type": "file"}

    async def _cat_file(self, path, start=None, end=None, **kwargs):
        await asyncio.to_thread(time.sleep, 0.001)
        return self._stored[start:end]

    async def _get_file(self, rpath, lpath, **kwargs):
        await asyncio.to_thread(time.sleep, 0.001)
        with open(lpath, "wb") as file:
            file.write(self._stored)


def test_waiting_calls_leave_threads_to_the_loop(stored, content, key, tmp_path):
    """The loop has few threads. If they wait for a call that needs one of them, there is a deadlock."""
    cached = SimpleCacheFileSystem(fs=Resolving(stored.read_bytes()), cache_storage=str(tmp_path))
    fs = PhalanxFileSystem(fs=cached, key=key)
    assert in_threads(1, lambda _: check(fs.cat([f"/{number}" for number in range(100)]), content)) == []


def check(found, content):
    assert len(found) == 100 and all(data == content for data in found.values())


class Uploads(AsyncFileSystem):
    """A store whose uploads are completed or aborted by requests, as those of S3."""

    protocol = "uploads"
    cachable = False

    def __init__(self):
        super().__init__()
        self.uploads = {}

    async def _end(self, path, how):
        self.uploads[path] = how

    def _open(self, path, mode="rb", **kwargs):
        return Part(self, path, mode, autocommit=False)


class Part(AbstractBufferedFile):
    def __init__(self, fs, path, mode, **kwargs):
        super().__init__(fs, path, mode, **kwargs)
        fs.uploads[path] = "begun"

    def write(self, data):
        return len(data)

    def close(self):
        self.closed = True

    def commit(self):
        sync(self.fs.loop, self.fs._end, self.path, "completed")

    def discard(self):
        sync(self.fs.loop, self.fs._end, self.path, "aborted")


@pytest.mark.filterwarnings("ignore:.*was not closed:ResourceWarning")
def test_uploads_collected_by_the_loop_are_aborted(key):
    """The garbage is collected in any thread, and so in that of fsspec's loop, which has to send the request."""
    below = Uploads()
    fs = PhalanxFileSystem(fs=below, key=key)

    class Cycle:
        pass

    cycle = Cycle()
    cycle.itself, cycle.file = cycle, fs.open("/f", "wb")
    cycle.file.write(bytes(40 << 20))
    assert below.uploads == {"/f": "begun"}
    del cycle

    async def collect():
        gc.collect()

    sync(get_loop(), collect)
    began = time.monotonic()
    while below.uploads == {"/f": "begun"} and time.monotonic() - began < 60:
        time.sleep(0.01)
    assert below.uploads == {"/f": "aborted"}
