"""Many threads at once, and Pythons without a global lock, where they really run at once."""

import asyncio
import io
import sysconfig
import threading

import pytest

import phalanx
import phalanx.aio
from conftest import child, names, painted

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
THREADS = 8


def at_once(work, count=THREADS):
    """Calls work(number) in as many threads, which begin together. Returns what they return or raise, in their order."""
    together, results = threading.Barrier(count), [None] * count

    def one(number):
        together.wait(120)
        try:
            results[number] = work(number)
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    return results


@pytest.mark.skipif(not FREE_THREADED, reason="skipped: no free-threaded Python")
def test_the_global_lock_stays_disabled():
    """An extension module that does not declare that it works without the lock enables it."""
    done = child("import sys, phalanx, phalanx.aio; print(sys._is_gil_enabled())")
    assert (done.stdout, done.stderr) == ("False\n", "")


FIRST = """
import asyncio, io, sys, threading
import phalanx, phalanx.aio
together = threading.Barrier(8)
wrong = []
def work(number):
    together.wait()
    try:
        key = phalanx.Key.from_bytes(bytes(32))
        assert phalanx.unseal_many(key, phalanx.seal_many(key, [b"x"] * 100)) == [b"x"] * 100
        path = phalanx.protect(sys.argv[1], key=key, output=f"{sys.argv[1]}.{number}", sync=False)
        assert phalanx.verify(path, key=key) == 100000
        with phalanx.open(path, key=key) as file:
            assert len(file.read()) == 100000
        async def main():
            return await phalanx.aio.unseal(key, await phalanx.aio.seal(key, b"x"))
        assert asyncio.run(main()) == b"x"
        try:
            phalanx.unseal(key, b"x")
            wrong.append("opened")
        except phalanx.AuthenticationError:
            pass
    except BaseException as error:
        wrong.append(repr(error))
threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(wrong)
"""


def test_the_first_use_may_be_in_many_threads(tmp_path):
    """Objects that are made once for a process are made only once."""
    (tmp_path / "plain").write_bytes(painted(100_000))
    for _ in range(3):
        done = child(FIRST, tmp_path / "plain")
        assert done.stdout == "[]\n", done.stderr
        for number in range(8):
            (tmp_path / f"plain.{number}").unlink()


LOOPS = """
import asyncio, sys, threading
import phalanx, phalanx.aio
sys.setswitchinterval(1e-6)
key = phalanx.Key.from_bytes(bytes(32))
together = threading.Barrier(8)
wrong = []
async def main():
    return await phalanx.aio.unseal(key, await phalanx.aio.seal(key, b"x"))
def work():
    together.wait()
    for _ in range(50):
        try:
            assert asyncio.run(main()) == b"x"
        except BaseException as error:
            wrong.append(repr(error))
threads = [threading.Thread(target=work) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(wrong)
"""


def test_loops_of_many_threads_may_come_and_go():
    """Each forgets the closed loops of all, and another thread may do so at the same time."""
    done = child(LOOPS)
    assert done.stdout == "[]\n", done.stderr


LOOPS_AT_THE_END = """
import asyncio, random, threading, time
import phalanx, phalanx.aio
key = phalanx.Key.from_bytes(bytes(32))
def work():
    async def main():
        while True:
            await asyncio.gather(*(phalanx.aio.seal(key, bytes(1000)) for _ in range(50)))
    asyncio.run(main())
for _ in range(3): threading.Thread(target=work, daemon=True).start()
time.sleep(0.2 + random.random() * 0.05)
"""


def test_the_interpreter_ends_while_loops_seal():
    for _ in range(10):
        done = child(LOOPS_AT_THE_END)
        assert done.returncode == 0, done.stderr


def test_one_of_many_threads_writes_an_output(tmp_path, key):
    """One of them writes it, and the others say that it exists, or that another run is writing it."""
    for number in range(THREADS):
        (tmp_path / f"{number}").write_bytes(painted(50_000, number))
    results = at_once(lambda number: phalanx.protect(tmp_path / f"{number}", key=key, output=tmp_path / "output", sync=False))
    assert sum(result == tmp_path / "output" for result in results) == 1
    assert sum(isinstance(result, OSError) for result in results) == THREADS - 1, results
    (winner,) = (number for number, result in enumerate(results) if result == tmp_path / "output")
    assert phalanx.unprotect(tmp_path / "output", key=key, output=tmp_path / "back").read_bytes() == painted(50_000, winner)
    assert names(tmp_path) == sorted(["back", "output", *map(str, range(THREADS))])


def test_many_threads_may_replace_one_output(tmp_path, key):
    def write(number):
        with phalanx.open(tmp_path / "output", "wb", key=key, sync=False) as file:
            for _ in range(20):
                file.write(bytes([number]) * 5000)

    results = at_once(write)
    # Some may find that the name was just taken. Those that raise nothing have written the whole file.
    assert results.count(None) >= 1 and all(result is None or isinstance(result, OSError) for result in results), results
    with phalanx.open(tmp_path / "output", key=key) as file:
        data = file.read()
    assert len(data) == 100_000 and len(set(data)) == 1, "it is the one or the other"
    assert names(tmp_path) == ["output"]


def test_one_of_many_keys_gets_a_name():
    keys = [phalanx.Key.generate() for _ in range(THREADS)]
    results = at_once(lambda number: keys[number].store("work"))
    winners = [number for number, result in enumerate(results) if isinstance(result, phalanx.Key)]
    assert len(winners) == 1
    # The others find that it exists, or that another thread is about to write it.
    assert all(isinstance(result, OSError) for number, result in enumerate(results) if number not in winners), results
    assert phalanx.Key.named("work") == keys[winners[0]]


def test_many_threads_share_a_key():
    key = phalanx.Key.generate()

    def work(number):
        for n in range(100):
            record = b"%d %d" % (number, n)
            assert phalanx.unseal(key, phalanx.seal(key, record)) == record
            assert key == phalanx.Key.from_bytes(key.to_bytes()) and hash(key) == hash(key)
        return "done"

    assert at_once(work) == ["done"] * THREADS


def test_many_threads_share_a_reader(key):
    """All threads move the same cursor, so each result is some part of the file."""
    data = painted(200_000)
    out = io.BytesIO()
    with phalanx.open(out, "wb", key=key, chunk_size=4096) as file:
        file.write(data)
    with phalanx.open(out, key=key, cache=40_000) as file:

        def work(number):
            buffer = bytearray(300)
            for n in range(200):
                if number % 4 == 0:
                    file.seek((number + n) * 991 % len(data))
                elif number % 4 == 1:
                    assert file.read(300) in data
                elif number % 4 == 2:
                    read = file.readinto(buffer)
                    assert bytes(buffer[:read]) in data
                else:
                    at = n * 997 % len(data)
                    assert file.read_at(at, 300) == data[at : at + 300]
                assert 0 <= file.tell() <= len(data)
            return "done"

        assert at_once(work) == ["done"] * THREADS


def test_a_writer_may_be_closed_while_others_write(tmp_path, key):
    """Pieces that were written before are there, each whole. Later writes raise."""
    for round_ in range(10):
        path = tmp_path / f"{round_}"
        file = phalanx.open(path, "wb", key=key, chunk_size=4096, sync=False)

        def work(number):
            written = 0
            if number == 0:
                file.write(b"\xff" * 100)
                file.close()
                return 1
            try:
                while True:
                    written += file.write(bytes([number]) * 100) // 100
            except ValueError:
                return written

        results = at_once(work)
        assert all(isinstance(result, int) for result in results), results
        with phalanx.open(path, key=key) as stored:
            data = stored.read()
        pieces = [data[at : at + 100] for at in range(0, len(data), 100)]
        for number, result in enumerate(results):
            letter = 0xFF if number == 0 else number
            assert pieces.count(bytes([letter]) * 100) == result


def test_many_threads_may_close_a_file_at_once(tmp_path, key):
    for round_ in range(20):
        writer = phalanx.open(tmp_path / f"{round_}", "wb", key=key, sync=False)
        writer.write(b"content")
        assert at_once(lambda number: writer.close()) == [None] * THREADS
        reader = phalanx.open(tmp_path / f"{round_}", key=key)
        assert reader.read() == b"content"
        assert at_once(lambda number: reader.close()) == [None] * THREADS


def test_a_file_may_be_closed_and_discarded_at_once(tmp_path, key):
    """Either of them wins, and there is a whole file or none."""
    for round_ in range(20):
        path = tmp_path / f"{round_}"
        file = phalanx.open(path, "wb", key=key, sync=False)
        file.write(b"content")
        at_once(lambda number: file.close() if number % 2 else file.discard())
        assert file.closed
        assert not path.exists() or phalanx.verify(path, key=key) == 7
    assert all(not name.startswith(".") for name in names(tmp_path))


def test_lists_may_be_changed_by_other_threads(key):
    """A list of records, which another thread changes while it is read: an error or a result, and no crash."""
    records, stop = [b"record"] * 1000, threading.Event()

    def change():
        while not stop.is_set():
            records.append(b"x")
            records.pop(0)
            if len(records) > 500:
                del records[500:]
            records.extend([b"y" * 50] * 600)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(200):
            try:
                opened = phalanx.unseal_many(key, phalanx.seal_many(key, records))
                assert set(opened) <= {b"record", b"x", b"y" * 50}
            except RuntimeError as error:
                assert "changed size" in str(error)
            try:
                phalanx.seal_many([key] * 1000, records)
            except (RuntimeError, ValueError):
                pass
    finally:
        stop.set()
        thread.join()


def test_loops_and_calls_work_together(key):
    def work(number):
        if number % 2:
            for _ in range(30):
                assert phalanx.unseal_many(key, phalanx.seal_many(key, [b"x"] * 300)) == [b"x"] * 300
            return "done"

        async def main():
            sealed = await asyncio.gather(*(phalanx.aio.seal(key, b"%d" % n) for n in range(1000)))
            return await asyncio.gather(*(phalanx.aio.unseal(key, message) for message in sealed))

        assert asyncio.run(main()) == [b"%d" % n for n in range(1000)]
        return "done"

    assert at_once(work) == ["done"] * THREADS


def test_many_threads_share_a_source(key):
    """A source that is read by range gets calls of all threads."""
    data = painted(300_000)
    out = io.BytesIO()
    with phalanx.open(out, "wb", key=key, chunk_size=4096) as file:
        file.write(data)
    stored, inside = out.getvalue(), []

    class Source:
        size = len(stored)

        def read_at(self, offset, n):
            inside.append(threading.get_ident())
            return stored[offset : offset + n]

    with phalanx.open(Source(), key=key, cache=20_000) as file:

        def work(number):
            for n in range(100):
                at = (number * 7919 + n * 104_729) % len(data)
                assert file.read_at(at, 5000) == data[at : at + 5000]
            return "done"

        assert at_once(work) == ["done"] * THREADS
    assert inside
