"""Ctrl-C, kills, forks, and the end of the interpreter."""

import os
import signal
import subprocess
import sys
import time

import pytest

import phalanx
from conftest import child, child_args, child_env, names, painted, sparse

LONG = """
import resource, signal, sys, time
import phalanx
what, source, output = sys.argv[1:]
# Where the tests run in the background of a shell, it is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
# If Ctrl-C does nothing, the disk is not filled.
resource.setrlimit(resource.RLIMIT_FSIZE, (5 << 30, 5 << 30))
key = phalanx.Key.from_bytes(bytes(32))
try:
    print("ready", flush=True)
    if what == "protect":
        phalanx.protect(source, key=key, output=output, sync=False, threads=1)
    elif what == "unprotect":
        # No devices are measured with the slow kernels of this test.
        phalanx.unprotect(source, key=key, output=output, sync=False, engine="serial")
    elif what == "verify":
        while True:
            phalanx.verify(source, key=key)
    elif what == "write":
        with phalanx.open(output, "wb", key=key, sync=False) as file:
            while True:
                file.write(bytes(1 << 20))
    elif what == "seal_many":
        records = [bytes(256)] * 20000
        while True:
            phalanx.seal_many(key, records)
    print("done")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.fixture
def long_file(tmp_path):
    """4 GiB, which one thread does not protect before the test ends it. The output takes as much room on the disk."""
    yield sparse(tmp_path / "source", 4 << 30)
    # pytest keeps folders, and a killed run may have left gigabytes.
    for path in tmp_path.iterdir():
        path.unlink()


def interrupt(arguments, after, **env):
    process = subprocess.Popen(arguments, env=child_env() | env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(after)
        assert process.poll() is None, ("it ended before it was interrupted", *process.communicate())
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out = process.stdout.readline()
        took = time.monotonic() - began
        rest, err = process.communicate(timeout=120)
        return took, out + rest, err, process.returncode
    finally:
        process.kill()


@pytest.mark.parametrize("what", ["protect", "write", "seal_many"])
def test_ctrl_c_ends_a_call_and_leaves_no_output(tmp_path, long_file, what):
    took, out, err, code = interrupt(child_args(LONG, what, long_file, tmp_path / "output"), 0.3)
    assert (out, code) == ("interrupted\n", 0), err
    # A slow disk may keep the removal of the output waiting.
    assert took < 120, "Ctrl-C is to be followed soon"
    assert names(tmp_path) == ["source"]


@pytest.mark.parametrize("what", ["unprotect", "verify"])
def test_ctrl_c_ends_opening(tmp_path, what):
    sparse(tmp_path / "plain", 768 << 20)
    key = phalanx.Key.from_bytes(bytes(32))
    source = phalanx.protect(tmp_path / "plain", key=key, output=tmp_path / "source", sync=False)
    (tmp_path / "plain").unlink()
    # Unprotecting is done by kernels so slow that it is interrupted before its end. Verifying has none.
    slow = {"PHALANX_KERNELS": "portable,portable"} if what == "unprotect" else {}
    took, out, err, code = interrupt(child_args(LONG, what, source, tmp_path / "output"), 0.05, **slow)
    assert (out, code) == ("interrupted\n", 0), err
    assert took < 120
    assert names(tmp_path) == ["source"]
    source.unlink()


SLOW = """
import io, signal, sys, time
import phalanx
# Where the tests run in the background of a shell, it is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
key = phalanx.Key.generate()
out = io.BytesIO()
with phalanx.open(out, "wb", key=key, chunk_size=4096) as file:
    file.write(bytes(4 << 20))
stored = out.getvalue()
class Far:
    size = len(stored)
    is_slow = False
    def read_at(self, offset, n):
        if self.is_slow:
            time.sleep(0.2)
        # As few bytes at once as a far store returns.
        return stored[offset : offset + min(n, 8192)]
far = Far()
file = phalanx.open(far, key=key)
far.is_slow = True
try:
    print("ready", flush=True)
    {call}
    print("done")
except KeyboardInterrupt:
    print("interrupted", flush=True)
    # The end of the interpreter waits for the threads that read ahead.
    far.is_slow = False
"""


@pytest.mark.parametrize("call", ["file.read()", "file.readinto(bytearray(4 << 20))", "file.read_at(0, 4 << 20)"])
def test_ctrl_c_ends_a_read_of_a_slow_source(call):
    """It would take two minutes."""
    took, out, err, code = interrupt(child_args(SLOW.format(call=call)), 0.5)
    assert (out, code) == ("interrupted\n", 0), err
    assert took < 60, "Ctrl-C is to be followed soon"


# Without devices: compilers in their drivers take SIGUSR1 for themselves while they work.
HANDLED = """
import signal, sys
import phalanx
class Mine(Exception): pass
def handler(number, frame): raise Mine("of the handler")
signal.signal(signal.SIGUSR1, handler)
signal.setitimer(signal.ITIMER_REAL, 0)
import os, threading
try:
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
    phalanx.protect(sys.argv[1], key=phalanx.Key.generate(), output=sys.argv[2], sync=False, engine="serial")
except Mine as mine:
    print("mine:", mine)
"""


def test_exceptions_of_signal_handlers_end_a_call(tmp_path, long_file):
    done = child(HANDLED, long_file, tmp_path / "output")
    assert (done.stdout, done.returncode) == ("mine: of the handler\n", 0), done.stderr
    assert names(tmp_path) == ["source"]


HARMLESS = """
import signal, sys, os, threading
import phalanx
seen = []
signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
stop = threading.Event()
def shoot():
    while True:
        os.kill(os.getpid(), signal.SIGUSR1)
        if stop.wait(0.02):
            break
thread = threading.Thread(target=shoot)
thread.start()
key = phalanx.Key.generate()
path = phalanx.protect(sys.argv[1], key=key, output=sys.argv[2], sync=False)
length = phalanx.verify(path, key=key)
with phalanx.open(path, key=key) as file:
    read = sum(len(piece) for piece in iter(lambda: file.read(1 << 20), b""))
stop.set()
thread.join()
print(length, read, len(seen) > 0)
"""


def test_signal_handlers_that_do_not_raise_end_no_call(tmp_path):
    source = sparse(tmp_path / "source", 200 << 20)
    done = child(HARMLESS, source, tmp_path / "output")
    assert done.stdout == f"{200 << 20} {200 << 20} True\n", done.stderr
    (tmp_path / "output").unlink()


ASKING = """
import signal, sys
import phalanx
told, during = [], 0
def handler(number, frame):
    global during
    told.append(file.tell())
    # Python handles signals between the pieces of a write, for whom the method has been called.
    during += frame.f_code.co_name == "write"
signal.signal(signal.SIGALRM, handler)
piece = bytearray(33 << 20)
with phalanx.open(sys.argv[1], "wb", key=phalanx.Key.generate(), sync=False) as file:
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    writes = 0
    while during < 5:
        file.write(piece)
        writes += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(file.tell() == writes * len(piece), told == sorted(told), all(each % len(piece) == 0 for each in told))
try:
    file.tell()
except ValueError as error:
    print(error)
"""


def test_a_signal_handler_may_ask_how_much_was_written(tmp_path):
    done = child(ASKING, tmp_path / "output")
    assert (done.stdout, done.returncode) == ("True True True\nI/O operation on closed file\n", 0), done.stderr
    (tmp_path / "output").unlink()


def test_calls_in_other_threads_are_not_interrupted(tmp_path):
    """Signals belong to the main thread. A call in another one does its work."""
    from concurrent.futures import ThreadPoolExecutor

    key = phalanx.Key.generate()
    sources = []
    for i in range(4):
        sources.append(tmp_path / f"{i}")
        sources[-1].write_bytes(painted(300_000, i))
    with ThreadPoolExecutor(4) as pool:
        stored = list(pool.map(lambda source: phalanx.protect(source, key=key, sync=False, chunk_size=4096), sources))
        lengths = list(pool.map(lambda path: phalanx.verify(path, key=key), stored))
    assert lengths == [300_000] * 4


def test_a_killed_run_leaves_no_output(tmp_path, long_file):
    process = subprocess.Popen(child_args(LONG, "protect", long_file, tmp_path / "output"), env=child_env(), stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    process.kill()
    process.communicate()
    assert "output" not in names(tmp_path)


WITHOUT_GIL = """
import sys, threading, time
import phalanx
ticks = 0
stop = False
def tick():
    global ticks
    while not stop:
        ticks += 1
        time.sleep(0.001)
thread = threading.Thread(target=tick)
thread.start()
key = phalanx.Key.generate()
def during(work):
    global ticks
    ticks = 0
    work()
    return ticks
seen = [
    during(lambda: phalanx.protect(sys.argv[1], key=key, output=sys.argv[2], sync=False)),
    during(lambda: phalanx.verify(sys.argv[2], key=key)),
    during(lambda: phalanx.seal(key, bytes(200 << 20))),
    during(lambda: phalanx.open(sys.argv[2], key=key).read()),
]
stop = True
thread.join()
print(*seen)
"""


def test_other_threads_run_during_a_call(tmp_path):
    source = sparse(tmp_path / "source", 300 << 20)
    done = child(WITHOUT_GIL, source, tmp_path / "output")
    seen = list(map(int, done.stdout.split()))
    (tmp_path / "output").unlink()
    # Hundreds on an idle machine; one or two in all if the GIL is held.
    assert len(seen) == 4 and all(ticks >= 5 for ticks in seen), (seen, done.stderr)


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="skipped: no fork")


def in_fork(work):
    """What `work` prints in a forked child: it returns a text, or raises."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            try:
                text = str(work())
            except BaseException as error:
                text = f"{type(error).__name__}: {error}"
            os.write(write, text.encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert status == 0
    return text


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_cannot_use_a_reader_of_its_parent(stored, key, content):
    with phalanx.open(stored, key=key) as file:
        file.read(100)
        for work in (lambda: file.read(10), lambda: file.read_at(0, 10), lambda: file.seek(0), lambda: file.readinto(bytearray(5))):
            assert in_fork(work).startswith("Error: ")
        # Closing and collecting it is allowed, and does nothing to the parent's.
        assert in_fork(file.close) == "None"
        assert file.read() == content[100:]


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_cannot_use_a_writer_of_its_parent(tmp_path, key, content):
    with phalanx.open(tmp_path / "output", "wb", key=key, sync=False) as file:
        file.write(content[:5000])
        before = names(tmp_path)
        assert in_fork(lambda: file.write(b"x")).startswith("Error: ")
        assert in_fork(file.close).startswith(("Error: ", "None"))
        assert names(tmp_path) == before, "only the parent may give the file its name, or remove it"
        file.write(content[5000:])
    with phalanx.open(tmp_path / "output", key=key) as file:
        assert file.read() == content


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_works_with_its_own_threads(tmp_path, stored, key, content):
    """After the parent has used threads, a child starts its own."""
    phalanx.verify(stored, key=key)
    phalanx.seal_many(key, [b"x"] * 10_000)

    def work():
        with phalanx.open(stored, key=key) as file:
            assert file.read() == content
        assert phalanx.verify(stored, key=key) == len(content)
        sealed = phalanx.seal_many(key, [b"x"] * 10_000)
        assert phalanx.unseal_many(key, sealed) == [b"x"] * 10_000
        path = phalanx.unprotect(stored, key=key, output=tmp_path / "in-the-child", sync=False)
        assert path.read_bytes() == content
        return "done"

    assert in_fork(work) == "done"


def fork_worker(arguments):
    path, key = arguments
    return phalanx.verify(path, key=key)


@needs_fork
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_worker_processes_find_keys_by_name(stored, content, method):
    """Keys are sent to workers by name."""
    import multiprocessing

    key = phalanx.Key.generate().store("work")
    plain = stored.with_name("plain")
    plain.write_bytes(content)
    path = phalanx.protect(plain, key=key, sync=False)
    phalanx.verify(path, key=key)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(fork_worker, [(path, key)] * 4) == [len(content)] * 4


ENDING = """
import sys, threading
import phalanx
key = phalanx.Key.generate()
class Source:
    def __init__(self, data): self.data, self.size = data, len(data)
    def read_at(self, offset, n): return self.data[offset:offset + n]
path = phalanx.protect(sys.argv[1], key=key, output=sys.argv[2], sync=False, chunk_size=4096)
file = phalanx.open(Source(path.read_bytes()), key=key)
file.read(5000)
unfinished = phalanx.open(sys.argv[3], "wb", key=key)
unfinished.write(bytes(100000))
def busy():
    while True:
        phalanx.seal_many(key, [b"x" * 100] * 1000)
        file.read_at(0, 10000)
for _ in range(3):
    threading.Thread(target=busy, daemon=True).start()
cycle = [file, unfinished]
cycle.append(cycle)
print("end")
"""


def test_the_interpreter_ends_with_files_open(tmp_path):
    """Open files, threads in the middle of their work: no crash, no hang, and nothing left."""
    (tmp_path / "source").write_bytes(painted(100_000))
    for _ in range(5):
        done = child(ENDING, tmp_path / "source", tmp_path / "output", tmp_path / "unfinished")
        assert (done.stdout, done.returncode) == ("end\n", 0), done.stderr
        (tmp_path / "output").unlink()
        assert names(tmp_path) == ["source"]


SUBINTERPRETERS = sys.version_info >= (3, 14)


@pytest.mark.skipif(not SUBINTERPRETERS, reason="skipped: no concurrent.interpreters before Python 3.14")
def test_subinterpreters_work_or_are_refused():
    code = """
from concurrent import interpreters
interpreter = interpreters.create()
try:
    interpreter.exec("import phalanx; k = phalanx.Key.generate(); assert phalanx.unseal(k, phalanx.seal(k, b'x')) == b'x'")
    print("works")
except interpreters.ExecutionFailed as error:
    print("refused" if "ImportError" in str(error) else error)
"""
    done = child(code)
    assert done.returncode == 0 and done.stdout.strip() in ("works", "refused"), (done.stdout, done.stderr)
