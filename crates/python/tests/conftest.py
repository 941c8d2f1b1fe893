"""Shared fixtures and helpers: data, keys, the command, and modules that may be absent."""

import hashlib
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest

import phalanx

# No database of examples in the source folder. In CI, every run tries the same examples.
hypothesis.settings.register_profile("phalanx", database=None, deadline=None, print_blob=True, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("phalanx")

CIPHERS = ["aes-256", "aes-192", "aes-128", "aes-256-turbo", "aes-256-gcm"]

REPOSITORY = Path(__file__).resolve().parents[3]


def required(name):
    """Whether PHALANX_REQUIRE (names with commas between them) names this, so that no test may be skipped if it is missing."""
    return name in os.environ.get("PHALANX_REQUIRE", "").split(",")


def missing(name):
    """Skips the test (or the file, where it is called outside tests), or fails it if PHALANX_REQUIRE names what is missing."""
    if required(name):
        pytest.fail(f"no {name}, and PHALANX_REQUIRE names it", pytrace=False)
    pytest.skip(f"skipped: no {name}", allow_module_level=True)


def needs(*modules):
    """The modules with these import names: one by itself, several as a tuple. The test is skipped if one is not installed."""
    found = []
    for module in modules:
        try:
            found.append(importlib.import_module(module))
        except ModuleNotFoundError as error:
            # A module that is installed but lacks another one is broken. That is not a reason to skip a test.
            if error.name is None or module.split(".")[0] != error.name.split(".")[0]:
                raise
            missing(module.split(".")[0])
    return found[0] if len(found) == 1 else tuple(found)


def painted(n, seed=0):
    """Bytes without a pattern, always the same for the same arguments."""
    return hashlib.shake_128(b"painted %d" % seed).digest(n)


def flipped(sealed):
    """The bytes with one bit of the last byte flipped. A constant in its place would sometimes change nothing."""
    return sealed[:-1] + bytes([sealed[-1] ^ 1])


def sparse(path, n):
    """A file of n zero bytes that takes no room on the disk."""
    with open(path, "wb") as file:
        file.truncate(n)
    return path


def names(folder):
    """Everything in a folder, hidden or not."""
    return sorted(os.listdir(folder))


def child(code, *arguments, **options):
    """Runs Python code in a new process, with the tests' own folder on its path."""
    return subprocess.run(child_args(code, *arguments), env=child_env(), capture_output=True, text=True, timeout=300, **options)


def child_args(code, *arguments):
    return [sys.executable, "-c", code, *map(str, arguments)]


def child_env():
    path = os.pathsep.join([str(Path(__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    return {**os.environ, "PYTHONPATH": path.rstrip(os.pathsep)}


def is_one_line(error):
    text = str(error)
    return bool(text) and "\n" not in text


@pytest.fixture(autouse=True)
def keyring(tmp_path_factory, monkeypatch):
    """An empty keyring, so that no test sees the user's own."""
    folder = tmp_path_factory.mktemp("keyring") / "keys"
    monkeypatch.setenv("PHALANX_KEYRING", str(folder))
    return folder


@pytest.fixture(autouse=True)
def state(tmp_path_factory, monkeypatch):
    """An empty state folder, so that no test sees or changes what the user's own remembers."""
    folder = tmp_path_factory.mktemp("state") / "state"
    monkeypatch.setenv("PHALANX_STATE", str(folder))
    return folder


@pytest.fixture
def key():
    return phalanx.Key.generate()


@pytest.fixture
def other_key():
    return phalanx.Key.generate()


@pytest.fixture
def key_file(tmp_path_factory, key):
    """A file with the bytes of the key, which the command takes with --key-file."""
    path = tmp_path_factory.mktemp("key") / "key"
    path.touch(mode=0o600)
    path.write_bytes(key.to_bytes())
    return path


@pytest.fixture
def content():
    """Three chunks of 4096 bytes, and a part of a fourth."""
    return painted(3 * 4096 + 1000)


@pytest.fixture
def plain(tmp_path, content):
    path = tmp_path / "plain.bin"
    path.write_bytes(content)
    return path


@pytest.fixture
def stored(tmp_path_factory, key, content):
    """A protected file of four small chunks, alone in its folder."""
    folder = tmp_path_factory.mktemp("stored")
    source = tmp_path_factory.mktemp("source") / "plain.bin"
    source.write_bytes(content)
    return phalanx.protect(source, key=key, chunk_size=4096, output=folder / "stored.phx", sync=False)


@pytest.fixture
def header_len(stored):
    """The length of the header of `stored`: four bytes at offset 8."""
    return int.from_bytes(stored.read_bytes()[8:12], "little")


@pytest.fixture(scope="session")
def binary():
    """The path of the command: $PHALANX_BIN, or what cargo has built."""
    given = os.environ.get("PHALANX_BIN")
    candidates = [Path(given)] if given else [REPOSITORY / "target" / kind / "phalanx" for kind in ("release", "debug")]
    for candidate in candidates:
        if candidate.is_file() and shutil.which(candidate):
            return candidate.resolve()
    missing("phalanx")


@pytest.fixture
def command(binary):
    """Runs the command, which must succeed unless check=False."""

    def run(*arguments, check=True, **options):
        done = subprocess.run([binary, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, timeout=300, **options)
        assert not check or done.returncode == 0, done.stderr
        return done

    return run
