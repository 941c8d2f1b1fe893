"""Memory is bounded, whatever the size of a file: measured in processes of their own."""

import subprocess
import sys

import pytest

import phalanx
from conftest import child, sparse

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="skipped: no /proc/self/status")

MIB = 1 << 20

MEASURED = """
import gc, re, sys
import phalanx
def peak():
    with open("/proc/self/status") as status:
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read())[1]) << 10
what, source, output = sys.argv[1:]
key = phalanx.Key.from_bytes(bytes(32))
# Threads and engines are made before the measurement.
phalanx.unseal_many(key, phalanx.seal_many(key, [b"x"] * 1000))
before = peak()
if what == "protect":
    phalanx.protect(source, key=key, output=output, sync=False)
elif what == "unprotect":
    phalanx.unprotect(source, key=key, output=output, sync=False)
elif what == "verify":
    phalanx.verify(source, key=key)
elif what == "read":
    with phalanx.open(source, key=key) as file:
        while file.read(1 << 20):
            pass
elif what == "readinto":
    buffer = bytearray(1 << 16)
    with phalanx.open(source, key=key) as file:
        while file.readinto(buffer):
            pass
elif what == "object":
    with open(source, "rb") as plain, phalanx.open(plain, key=key) as file:
        while file.read(1 << 20):
            pass
elif what == "random":
    import random
    rng = random.Random(1)
    with phalanx.open(source, key=key) as file:
        for _ in range(600):
            file.read_at(rng.randrange(file.size), 1000)
elif what == "write":
    with phalanx.open(output, "wb", key=key, sync=False) as file:
        for _ in range(400):
            file.write(bytes(1 << 20))
elif what == "sink":
    class Sink:
        def write(self, piece): return len(piece)
    with phalanx.open(Sink(), "wb", key=key) as file:
        for _ in range(400):
            file.write(bytes(1 << 20))
elif what == "open":
    for _ in range(300):
        phalanx.open(source, key=key).close()
elif what == "kept":
    files = [phalanx.open(source, key=key) for _ in range(300)]
print(peak() - before)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A folder with a file of 400 MiB, plain and protected."""
    folder = tmp_path_factory.mktemp("large")
    sparse(folder / "plain", 400 * MIB)
    phalanx.protect(folder / "plain", key=phalanx.Key.from_bytes(bytes(32)), output=folder / "stored", sync=False)
    yield folder
    # pytest keeps folders.
    for path in folder.iterdir():
        path.unlink()


def grown(what, source, output):
    done = child(MEASURED, what, source, output)
    assert done.returncode == 0, done.stderr
    output.unlink(missing_ok=True)
    return int(done.stdout)


@pytest.mark.parametrize("what", ["protect", "unprotect", "verify", "read", "readinto", "object", "random", "write", "sink", "open"])
def test_calls_take_bounded_memory(large, tmp_path, what):
    source = large / ("plain" if what == "protect" else "stored")
    assert grown(what, source, tmp_path / "output") < 160 * MIB


def test_an_open_file_takes_little_memory(large, tmp_path):
    assert grown("kept", large / "stored", tmp_path / "output") / 300 < 2 * MIB


# In a small process of its own: a child begins with the peak of its parent, and this one is large.
COMMAND = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)
"""


def command_peak(arguments):
    done = child(COMMAND, *arguments)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("what", ["protect", "unprotect", "verify"])
def test_calls_take_no_more_memory_than_the_command(large, tmp_path, binary, what):
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_bytes(bytes(32))
    source = large / ("plain" if what == "protect" else "stored")
    output = [] if what == "verify" else ["--output", tmp_path / "by-the-command", "--no-sync"]
    peak = command_peak([binary, what, source, "--key-file", key, "--quiet", *output])
    (tmp_path / "by-the-command").unlink(missing_ok=True)
    assert grown(what, source, tmp_path / "output") < peak + 32 * MIB


def test_nothing_leaks():
    """Many calls of every kind, most of which fail, and as many objects that are dropped."""
    code = """
import gc, io, re, sys
import phalanx
def now():
    with open("/proc/self/status") as status:
        return int(re.search(r"VmRSS:\\s+(\\d+) kB", status.read())[1]) << 10
key = phalanx.Key.generate()
out = io.BytesIO()
with phalanx.open(out, "wb", key=key, chunk_size=4096) as file:
    file.write(bytes(20000))
stored = out.getvalue()
damaged = stored[:-1] + bytes([stored[-1] ^ 1])
class Failing:
    size = len(stored)
    def __init__(self): self.ballast = bytearray(100000)
    def read_at(self, offset, n): raise ValueError(self)
def attempt(call):
    try:
        call()
    except Exception:
        pass
def round():
    for _ in range(60):
        phalanx.open(io.BytesIO(stored), key=key).read(100)
        attempt(lambda: phalanx.open(io.BytesIO(damaged), key=key))
        attempt(lambda: phalanx.open(Failing(), key=key))
        attempt(lambda: phalanx.open(io.BytesIO(stored), key=phalanx.Key.generate()))
        attempt(lambda: phalanx.unseal_many(key, [bytes(10000)] * 20))
        attempt(lambda: phalanx.seal_many(key, [bytes(10000)] * 20 + ["text"]))
        phalanx.unseal(key, phalanx.seal(key, bytes(100000)))
        phalanx.seal_many(key, [bytearray(10000)] * 20)
        writer = phalanx.open(io.BytesIO(), "wb", key=key)
        writer.write(bytes(100000))
        writer.discard()
    gc.collect()
for _ in range(3):
    round()
before = now()
for _ in range(10):
    round()
print(now() - before)
"""
    done = child(code)
    assert done.returncode == 0, done.stderr
    # 600 rounds: a leak of any of the buffers of 100,000 bytes would be 60 MB.
    assert int(done.stdout) < 30 * MIB


SCARCE = """
import re, resource
import phalanx
def used():
    with open("/proc/self/status") as status:
        return int(re.search(r"VmSize:\\s+(\\d+) kB", status.read())[1]) << 10
size = 64 << 20
key, record = phalanx.Key.generate(), bytearray(size)
plain = bytes(record)
sealed = phalanx.seal(key, plain)
many = phalanx.seal_many(key, [b"a", plain])
calls = {
    "seal": lambda: phalanx.seal(key, record),
    "unseal": lambda: phalanx.unseal(key, sealed),
    "seal_many": lambda: phalanx.seal_many(key, [record, b"a"]),
    "unseal_many": lambda: phalanx.unseal_many(key, many),
}
for name, call in calls.items():
    outcomes = []
    for more in range(40 << 20, 12 * size, size):
        resource.setrlimit(resource.RLIMIT_AS, (used() + more, resource.RLIM_INFINITY))
        try:
            call()
            outcomes.append("done")
        except MemoryError:
            outcomes.append("MemoryError")
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    # With too little memory at first, and enough at last.
    assert outcomes[0] == "MemoryError" and outcomes[-1] == "done", (name, outcomes)
"""


def test_lack_of_memory_raises_memory_error():
    done = subprocess.run([sys.executable, "-c", SCARCE], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
