"""Exceptions: each failure raises the right one, with its attributes and one line of text, and leaves no output."""

import errno
import os
import random
import shutil
import tempfile
from pathlib import Path

import pytest

import phalanx
from conftest import CIPHERS, child, is_one_line, names, sparse

ALL = {
    "AuthenticationError": phalanx.Error,
    "ServerError": phalanx.Error,
    "TruncatedError": phalanx.AuthenticationError,
    "WrongKeyError": phalanx.Error,
    "NotPhalanxError": phalanx.Error,
    "UnsupportedError": phalanx.NotPhalanxError,
    "KeyringError": phalanx.Error,
    "EngineError": phalanx.Error,
}


def test_exceptions_have_their_documented_bases():
    assert issubclass(phalanx.Error, Exception) and not issubclass(phalanx.Error, (OSError, ValueError))
    for name, parent in ALL.items():
        assert issubclass(getattr(phalanx, name), parent)
        assert getattr(phalanx, name).__module__ == "phalanx", "a traceback shows the name that people import"
    assert not issubclass(phalanx.WrongKeyError, phalanx.AuthenticationError)


def test_exceptions_are_pickled():
    """Worker processes send exceptions to their parents."""
    import pickle

    try:
        phalanx.unseal_many(phalanx.Key.generate(), [b"x", b"y"])
    except phalanx.AuthenticationError as error:
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error) and again.failed == [0, 1]


class Calls:
    """All calls that open a whole protected file."""

    def __init__(self, folder):
        self.folder = folder

    def unprotect(self, path, **way):
        phalanx.unprotect(path, output=self.folder / "output", **way)

    def replace(self, path, **way):
        phalanx.unprotect(path, output=self.folder / "existing", overwrite=True, **way)

    def verify(self, path, **way):
        phalanx.verify(path, **way)

    def read(self, path, **way):
        with phalanx.open(path, **way) as file:
            file.read()

    def read_at(self, path, **way):
        with phalanx.open(path, **way) as file:
            for offset in range(0, file.size, 1000):
                file.read_at(offset, 1000)

    def read_object(self, path, **way):
        with open(path, "rb") as plain, phalanx.open(plain, **way) as file:
            file.read()


CALLS = ["unprotect", "replace", "verify", "read", "read_at", "read_object"]


@pytest.fixture(params=CALLS)
def call(request, tmp_path):
    """One of the calls. After the test, it must have left nothing."""
    (tmp_path / "existing").write_bytes(b"precious")
    yield getattr(Calls(tmp_path), request.param)
    assert names(tmp_path) == ["existing"]
    assert (tmp_path / "existing").read_bytes() == b"precious"


def test_a_wrong_key_raises(call, stored):
    for way in ({"key": phalanx.Key.generate()}, {"keys": [phalanx.Key.generate() for _ in range(3)]}, {"password": "x"}, {}):
        with pytest.raises(phalanx.WrongKeyError) as caught:
            call(stored, **way)
        assert is_one_line(caught.value)
        assert not isinstance(caught.value, phalanx.AuthenticationError)


@pytest.mark.parametrize("where", ["nonce", "tag", "begin", "end"])
@pytest.mark.parametrize("chunk", [0, 1, 2, 3])
def test_a_changed_byte_is_detected_in_its_chunk(call, stored, key, header_len, chunk, where):
    data = bytearray(stored.read_bytes())
    begin = header_len + chunk * (48 + 4096)
    end = min(begin + 48 + 4096, len(data))
    position = {"nonce": begin, "tag": begin + 16, "begin": begin + 48, "end": end - 1}[where]
    data[position] ^= 1
    stored.write_bytes(data)
    with pytest.raises(phalanx.AuthenticationError) as caught:
        call(stored, key=key)
    assert caught.value.chunk == chunk
    assert caught.value.failed is None
    assert is_one_line(caught.value) and str(chunk) in str(caught.value)


@pytest.mark.parametrize("cipher", CIPHERS)
def test_any_changed_bit_is_detected(tmp_path, key, plain, content, cipher):
    """Bits in all parts of the file."""
    path = phalanx.protect(plain, key=key, cipher=cipher, chunk_size=4096, sync=False)
    whole = path.read_bytes()
    header = int.from_bytes(whole[8:12], "little")
    rng = random.Random(cipher)
    places = [rng.randrange(len(whole)) for _ in range(60)] + list(range(16)) + [header - 1, header, len(whole) - 1]
    for place in places:
        data = bytearray(whole)
        data[place] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        with pytest.raises(phalanx.Error) as caught:
            phalanx.unprotect(path, key=key, output=tmp_path / "output", sync=False)
        assert is_one_line(caught.value)
        assert names(tmp_path) == ["plain.bin", "plain.bin.phx"]


def test_swapped_chunks_are_detected(call, stored, key, header_len):
    data = bytearray(stored.read_bytes())
    first, second = (slice(header_len + i * 4144, header_len + (i + 1) * 4144) for i in (0, 1))
    data[first], data[second] = data[second], data[first]
    stored.write_bytes(data)
    with pytest.raises(phalanx.AuthenticationError) as caught:
        call(stored, key=key)
    assert caught.value.chunk in (0, 1)


def test_a_chunk_of_another_file_is_detected(call, stored, key, content, tmp_path_factory, header_len):
    other = tmp_path_factory.mktemp("other") / "other"
    other.write_bytes(content)
    other = phalanx.protect(other, key=key, chunk_size=4096, sync=False)
    data = bytearray(stored.read_bytes())
    piece = slice(header_len + 4144, header_len + 2 * 4144)
    data[piece] = other.read_bytes()[piece]
    stored.write_bytes(data)
    with pytest.raises(phalanx.AuthenticationError) as caught:
        call(stored, key=key)
    assert caught.value.chunk == 1


@pytest.mark.parametrize("cut", [1, 900, 1000, 1047, 1048, 1048 + 1, 1048 + 4144, 3 * 4144])
def test_a_cut_file_is_detected(call, stored, key, cut):
    os.truncate(stored, stored.stat().st_size - cut)
    with pytest.raises(phalanx.AuthenticationError) as caught:
        call(stored, key=key)
    assert is_one_line(caught.value)


@pytest.mark.parametrize("left", [12, 100])
def test_a_file_that_ends_in_its_header_is_refused(call, stored, key, left):
    os.truncate(stored, left)
    with pytest.raises((phalanx.TruncatedError, phalanx.NotPhalanxError)) as caught:
        call(stored, key=key)
    assert is_one_line(caught.value)


def test_a_file_that_ends_with_its_header_is_truncated(call, stored, key, header_len):
    os.truncate(stored, header_len)
    with pytest.raises(phalanx.TruncatedError) as caught:
        call(stored, key=key)
    assert is_one_line(caught.value)


@pytest.mark.parametrize("more", [1, 47, 48, 49, 4144, 10000])
def test_bytes_after_the_end_are_detected(call, stored, key, more):
    with open(stored, "ab") as file:
        file.write(bytes(more))
    with pytest.raises(phalanx.AuthenticationError) as caught:
        call(stored, key=key)
    assert is_one_line(caught.value)


@pytest.mark.parametrize("content", [b"", b"P", b"PHALANX", b"not a protected file", bytes(100_000), b"phalanx\x01" + bytes(5000)])
def test_other_files_are_refused(call, stored, key, content):
    stored.write_bytes(content)
    with pytest.raises((phalanx.NotPhalanxError, phalanx.TruncatedError)) as caught:
        call(stored, key=key)
    assert is_one_line(caught.value)
    if len(content) > 7:
        assert type(caught.value) is phalanx.NotPhalanxError


@pytest.mark.parametrize("version", [0, 2, 255])
def test_an_unknown_version_is_refused(call, stored, key, version):
    data = bytearray(stored.read_bytes())
    data[7] = version
    stored.write_bytes(data)
    with pytest.raises(phalanx.UnsupportedError) as caught:
        call(stored, key=key)
    assert is_one_line(caught.value)


@pytest.mark.parametrize("place, value", [(8, 1), (11, 255), (12, 9), (13, 3), (13, 25), (14, 1), (16, 0), (17, 255)])
def test_a_malformed_header_is_refused(call, stored, key, place, value):
    data = bytearray(stored.read_bytes())
    data[place] = value
    stored.write_bytes(data)
    with pytest.raises((phalanx.NotPhalanxError, phalanx.TruncatedError)) as caught:
        call(stored, key=key)
    assert is_one_line(caught.value)


def test_an_absent_file_raises_file_not_found_error(call, stored, key):
    stored.unlink()
    with pytest.raises(FileNotFoundError) as caught:
        call(stored, key=key)
    assert caught.value.errno == errno.ENOENT
    assert os.fspath(caught.value.filename) == os.fspath(stored)


def test_a_folder_is_not_opened(call, stored, key):
    stored.unlink()
    stored.mkdir()
    with pytest.raises((OSError, phalanx.NotPhalanxError)):
        call(stored, key=key)


def test_a_path_with_a_zero_byte_is_refused(tmp_path, key):
    for function in (phalanx.protect, phalanx.unprotect, phalanx.verify, phalanx.open):
        with pytest.raises((ValueError, OSError)):
            function("a\0b", key=key)


def test_an_empty_path_is_refused(tmp_path, key, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for function in (phalanx.protect, phalanx.unprotect, phalanx.verify, phalanx.open):
        with pytest.raises((ValueError, OSError)):
            function("", key=key)
    assert names(tmp_path) == []


def test_an_absent_output_folder_raises(tmp_path, key, plain):
    with pytest.raises(FileNotFoundError) as caught:
        phalanx.protect(plain, key=key, output=tmp_path / "absent" / "output")
    assert caught.value.errno == errno.ENOENT and "absent" in os.fspath(caught.value.filename)


def test_a_folder_is_not_protected(tmp_path, key):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        phalanx.protect(tmp_path / "folder", key=key)
    assert names(tmp_path) == ["folder"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="skipped: no /dev/full")
def test_a_full_disk_raises(tmp_path, key, plain):
    """A disk that is full from the start."""
    with pytest.raises(OSError):
        phalanx.protect(plain, key=key, output="/dev/full", overwrite=True)
    assert os.path.exists("/dev/full")
    assert names(tmp_path) == ["plain.bin"]


LIMITED = """
import errno, os, resource, sys
import phalanx
source, output = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
key = phalanx.Key.generate()
try:
    phalanx.protect(source, key=key, output=output, sync=False)
except OSError as error:
    print("protect", errno.errorcode[error.errno])
try:
    with phalanx.open(output, "wb", key=key) as file:
        for _ in range(8):
            file.write(bytes(1 << 20))
except OSError as error:
    print("write", errno.errorcode[error.errno])
"""


def test_a_disk_that_becomes_full_raises_and_leaves_no_output(tmp_path):
    source = sparse(tmp_path / "source", 8 << 20)
    done = child(LIMITED, source, tmp_path / "output")
    assert done.stdout.split("\n")[:2] == ["protect EFBIG", "write EFBIG"], done.stderr
    assert names(tmp_path) == ["source"]


UNPRIVILEGED = """
import errno, os, sys
import phalanx
folder = sys.argv[1]
if os.geteuid() == 0:
    # Root can do everything.
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
key = phalanx.Key.generate()
def attempt(call):
    try:
        call()
    except OSError as error:
        print(type(error).__name__, errno.errorcode[error.errno], os.path.relpath(error.filename, folder))
attempt(lambda: phalanx.protect(folder + "/readable", key=key, output=folder + "/closed/output"))
attempt(lambda: phalanx.open(folder + "/closed/output", "wb", key=key))
attempt(lambda: phalanx.protect(folder + "/secret", key=key, output=folder + "/open/output"))
attempt(lambda: phalanx.verify(folder + "/secret", key=key))
attempt(lambda: phalanx.open(folder + "/secret", key=key))
"""


def test_missing_permissions_raise():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        folder.chmod(0o755)
        for name, mode in (("closed", 0o555), ("open", 0o777)):
            (folder / name).mkdir()
            (folder / name).chmod(mode)
        for name, mode in (("readable", 0o444), ("secret", 0)):
            (folder / name).write_bytes(b"content")
            (folder / name).chmod(mode)
        done = child(UNPRIVILEGED, folder)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            "PermissionError EACCES closed/output",
            "PermissionError EACCES closed/output",
            "PermissionError EACCES secret",
            "PermissionError EACCES secret",
            "PermissionError EACCES secret",
        ]
        assert names(folder / "closed") == names(folder / "open") == []


def test_messages_contain_no_secrets(tmp_path, key, stored):
    password = "a secret password"
    for way in ({"password": password}, {"key": phalanx.Key.from_bytes(b"secret bytes of a key, 32 bytes.")}):
        with pytest.raises(phalanx.WrongKeyError) as caught:
            phalanx.verify(stored, **way)
        shown = repr(caught.value) + str(caught.value) + repr(caught.value.__dict__)
        assert password not in shown and "secret bytes" not in shown and b"secret bytes".hex() not in shown


def test_exceptions_of_verify_do_not_keep_the_file_open(stored, key):
    """A failed call leaves no file descriptor."""
    shutil.copy(stored, stored.with_name("damaged"))
    with open(stored.with_name("damaged"), "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\0\0")
    def descriptors():
        return len(os.listdir("/proc/self/fd"))
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("skipped: no /proc/self/fd")
    for function in (phalanx.verify, phalanx.open):
        with pytest.raises(phalanx.AuthenticationError):
            function(stored.with_name("damaged"), key=key)
    before = descriptors()
    for _ in range(20):
        for function in (phalanx.verify, phalanx.open):
            with pytest.raises(phalanx.AuthenticationError):
                function(stored.with_name("damaged"), key=key)
    assert descriptors() <= before + 1
