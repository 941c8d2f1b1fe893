"""Whole files: protect, unprotect and verify, against themselves and against the command."""

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

import phalanx
from conftest import CIPHERS, names, painted

SIZES = [0, 1, 4095, 4096, 4097, 8192, 100_000]


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("size", SIZES)
def test_protected_files_open_again(tmp_path, key, cipher, size):
    data = painted(size)
    source = tmp_path / "a.bin"
    source.write_bytes(data)
    path = phalanx.protect(source, key=key, cipher=cipher, chunk_size=4096, sync=False)
    assert path == tmp_path / "a.bin.phx" and isinstance(path, Path)
    stored = path.read_bytes()
    assert stored[:8] == b"PHALANX\x01"
    assert size < 32 or data[:32] not in stored
    assert phalanx.verify(path, key=key) == size
    back = phalanx.unprotect(path, key=key, output=tmp_path / "back", sync=False)
    assert back == tmp_path / "back" and isinstance(back, Path)
    assert back.read_bytes() == data
    assert names(tmp_path) == ["a.bin", "a.bin.phx", "back"]


@pytest.mark.parametrize("cipher", CIPHERS)
def test_the_command_opens_what_python_protects(tmp_path, command, key, key_file, plain, content, cipher):
    path = phalanx.protect(plain, key=key, cipher=cipher, chunk_size=8192)
    command("verify", path, "--key-file", key_file)
    command("unprotect", path, "--key-file", key_file, "--output", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content
    seen = json.loads(command("inspect", "--json", path).stdout)
    assert key.id in json.dumps(seen)
    assert command("unprotect", path, "--key-file", key_file, "--range", "5000-6000", "--output", "-").stdout == content[5000:6000]


@pytest.mark.parametrize("cipher", CIPHERS)
def test_python_opens_what_the_command_protects(tmp_path, command, key, key_file, plain, content, cipher):
    path = tmp_path / "by-the-command.phx"
    command("protect", plain, "--key-file", key_file, "--cipher", cipher, "--chunk-size", "4K", "--output", path)
    assert phalanx.verify(path, key=key) == len(content)
    assert phalanx.unprotect(path, key=key, output=tmp_path / "back").read_bytes() == content
    with phalanx.open(path, key=key) as file:
        assert (file.cipher, file.chunk_size, file.size) == (cipher, 4096, len(content))
        assert file.read() == content


def test_the_command_opens_what_a_writer_wrote(tmp_path, command, key, key_file):
    data = painted(3_000_000)
    with phalanx.open(tmp_path / "written.phx", "wb", key=key) as file:
        file.write(data)
    command("unprotect", tmp_path / "written.phx", "--key-file", key_file, "--output", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data


def test_passwords_work_in_python_and_the_command(tmp_path, command, plain, content):
    password_file = tmp_path / "password"
    password_file.touch(mode=0o600)
    password_file.write_text("correct horse battery staple\n")
    by_python = phalanx.protect(plain, password="correct horse battery staple", output=tmp_path / "p.phx")
    command("unprotect", by_python, "--password-file", password_file, "--output", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content
    command("protect", plain, "--password-file", password_file, "--output", tmp_path / "c.phx")
    for password in ("correct horse battery staple", b"correct horse battery staple"):
        assert phalanx.verify(tmp_path / "c.phx", password=password) == len(content)
    for wrong in ("correct horse battery stapl", "correct horse battery staple\n", "x"):
        with pytest.raises(phalanx.WrongKeyError):
            phalanx.verify(tmp_path / "c.phx", password=wrong)


def test_each_of_several_keys_and_passwords_opens_a_file(tmp_path, plain, content):
    first, second, third, stranger = (phalanx.Key.generate() for _ in range(4))
    path = phalanx.protect(plain, key=first, keys=[second, third], password="pass")
    for way in ({"key": first}, {"key": second}, {"keys": [third]}, {"keys": [stranger, second]}, {"password": "pass"}):
        assert phalanx.unprotect(path, **way, output=tmp_path / "back", overwrite=True).read_bytes() == content
    for way in ({"key": stranger}, {"keys": [stranger]}, {"password": "Pass"}, {"key": stranger, "password": "Pass"}):
        with pytest.raises(phalanx.WrongKeyError):
            phalanx.verify(path, **way)


def test_the_keyring_is_tried_when_no_key_is_named(plain, content):
    key = phalanx.Key.generate()
    path = phalanx.protect(plain, key=key)
    with pytest.raises(phalanx.WrongKeyError):
        phalanx.verify(path)
    phalanx.Key.generate().store("unrelated")
    key.store("work")
    assert phalanx.verify(path) == len(content)
    assert phalanx.unprotect(path, overwrite=True).read_bytes() == content
    # But the keyring is not used if something is named.
    with pytest.raises(phalanx.WrongKeyError):
        phalanx.verify(path, key=phalanx.Key.generate())
    with pytest.raises(phalanx.WrongKeyError):
        phalanx.verify(path, password="x")


def test_a_refused_key_of_the_keyring_does_not_hide_the_others(keyring, plain, content):
    key = phalanx.Key.generate().store("work")
    refused = phalanx.Key.generate().store("refused")
    for_both = phalanx.protect(plain, key=key, keys=[refused])
    for_refused = phalanx.protect(plain, key=refused, output=plain.with_name("r.phx"))
    (file,) = (keyring / name for name in os.listdir(keyring) if "refused" in name)
    file.chmod(0o644)
    assert phalanx.verify(for_both) == len(content)
    with pytest.raises((phalanx.WrongKeyError, phalanx.KeyringError)) as caught:
        phalanx.verify(for_refused)
    assert "refused" in str(caught.value) and "\n" not in str(caught.value)


def test_a_path_is_refused_as_a_key_name(plain, key_file, tmp_path):
    with pytest.raises((ValueError, phalanx.KeyringError)):
        phalanx.protect(plain, key=str(key_file))
    assert names(tmp_path) == ["plain.bin"]


def test_an_absent_engine_raises(plain, key, content, tmp_path):
    """Where there is no GPU, that is an error, and nothing is left."""
    for engine in ("gpu", "hybrid"):
        try:
            path = phalanx.protect(plain, key=key, engine=engine, overwrite=True)
        except phalanx.EngineError as error:
            assert "\n" not in str(error) and str(error)
            assert names(tmp_path) in (["plain.bin"], ["plain.bin", "plain.bin.phx"])
        else:
            assert phalanx.verify(path, key=key) == len(content)


def test_keys_are_found_by_name(plain, content):
    phalanx.Key.generate().store("work")
    phalanx.Key.generate().store("lab")
    path = phalanx.protect(plain, key="work", keys=["lab"])
    assert phalanx.verify(path, key="work") == phalanx.verify(path, key="lab") == len(content)
    assert phalanx.verify(path, key=phalanx.Key.named("lab")) == len(content)


def test_the_command_opens_files_with_the_keyring(tmp_path, command, plain, content):
    phalanx.Key.generate().store("work")
    path = phalanx.protect(plain, key="work")
    command("unprotect", path, "--output", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content


RECIPIENT = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"
IDENTITY = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX"


def made_by_the_command(command, tmp_path):
    """A post-quantum pair of age."""
    file = tmp_path / "pq.txt"
    recipient = command("key", "new", "--identity", file).stdout.decode().strip()
    return recipient, file.read_text()


@pytest.mark.parametrize("is_post_quantum", [False, True])
def test_identities_open_files_of_recipients(tmp_path, command, plain, content, is_post_quantum):
    """The other pair is the one of age's own test vectors."""
    recipient, text = made_by_the_command(command, tmp_path) if is_post_quantum else (RECIPIENT, IDENTITY + "\n")
    identity = tmp_path / "identity"
    identity.touch(mode=0o600)
    identity.write_text(text)
    path = phalanx.protect(plain, recipients=[recipient])
    assert phalanx.verify(path, identities=[identity]) == len(content)
    assert phalanx.unprotect(path, identities=[str(identity)], output=tmp_path / "back").read_bytes() == content
    with phalanx.open(path, identities=[identity]) as file:
        assert file.read() == content
    with pytest.raises(phalanx.WrongKeyError):
        phalanx.verify(path)
    command("unprotect", path, "--identity", identity, "--output", tmp_path / "by-the-command")
    assert (tmp_path / "by-the-command").read_bytes() == content
    for wrong in ("age1x", "", "ssh-rsa", recipient[:-1] + ("p" if recipient[-1] == "q" else "q")):
        with pytest.raises(ValueError) as caught:
            phalanx.protect(plain, recipients=[wrong], output=tmp_path / "never")
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("kind", [str, os.fsencode, lambda path: path, lambda path: os.path.relpath(path)])
def test_all_kinds_of_paths_are_accepted(tmp_path, monkeypatch, key, kind):
    monkeypatch.chdir(tmp_path)
    name = tmp_path / "ä b\n.bin"
    name.write_bytes(b"x")
    try:
        path = phalanx.protect(kind(name), key=key)
    except TypeError:
        # The functions promise PathLike and str, but not bytes.
        assert kind is os.fsencode
        return
    assert phalanx.verify(kind(path), key=key) == 1


def test_names_that_are_not_utf8_are_kept(tmp_path, key):
    name = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.bin"))
    name.write_bytes(b"x")
    path = phalanx.protect(name, key=key)
    assert os.fsencode(path).endswith(b"/\xff\xfe.bin.phx")
    assert phalanx.unprotect(path, key=key, output=tmp_path / "back").read_bytes() == b"x"


def test_outputs_are_named_after_inputs(tmp_path, key, plain, content):
    path = phalanx.protect(plain, key=key)
    assert path.name == "plain.bin.phx"
    plain.unlink()
    assert phalanx.unprotect(path, key=key) == plain
    assert plain.read_bytes() == content
    path.rename(tmp_path / "nameless")
    with pytest.raises(ValueError):
        phalanx.unprotect(tmp_path / "nameless", key=key)
    assert names(tmp_path) == ["nameless", "plain.bin"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_input_and_output_are_not_the_same_file(tmp_path, key, plain, content, overwrite):
    other = tmp_path / "other"
    os.link(plain, other)
    for output in (plain, other):
        with pytest.raises(shutil.SameFileError, match=f"{output.name}: input and output are the same file"):
            phalanx.protect(plain, key=key, output=output, overwrite=overwrite)
    path = phalanx.protect(plain, key=key)
    before = path.read_bytes()
    with pytest.raises(shutil.SameFileError):
        phalanx.unprotect(path, key=key, output=path, overwrite=overwrite)
    assert (plain.read_bytes(), path.read_bytes()) == (content, before)


def test_existing_files_are_replaced_only_on_request(tmp_path, key, plain, content):
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    path = phalanx.protect(plain, key=key)
    for call in (
        lambda **o: phalanx.protect(plain, key=key, output=target, **o),
        lambda **o: phalanx.unprotect(path, key=key, output=target, **o),
    ):
        target.write_bytes(b"precious")
        with pytest.raises(FileExistsError) as caught:
            call()
        assert caught.value.errno and caught.value.filename is not None
        assert os.fspath(caught.value.filename) == os.fspath(target)
        assert target.read_bytes() == b"precious"
        call(overwrite=True)
        assert target.read_bytes() != b"precious"
    assert target.read_bytes() == content


def test_files_that_nothing_opens_are_not_made(plain, tmp_path):
    for way in ({}, {"keys": []}, {"keys": (), "recipients": []}, {"key": None, "password": None}):
        with pytest.raises(ValueError):
            phalanx.protect(plain, **way)
    with pytest.raises(ValueError):
        phalanx.protect(plain, password="")
    assert names(tmp_path) == ["plain.bin"]


def test_a_protected_file_is_not_protected_again(tmp_path, key, plain):
    path = phalanx.protect(plain, key=key)
    with pytest.raises((phalanx.Error, OSError, ValueError)):
        phalanx.protect(path, key=key)
    assert names(tmp_path) == ["plain.bin", "plain.bin.phx"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"cipher": "aes-512"},
        {"cipher": ""},
        {"cipher": "AES-256"},
        {"chunk_size": 0},
        {"chunk_size": 4095},
        {"chunk_size": 4097},
        {"chunk_size": 1 << 25},
        {"threads": 0},
        {"engine": "steam"},
        {"keys": [phalanx.Key.generate() for _ in range(65)]},
    ],
)
def test_impossible_values_are_refused(tmp_path, key, plain, wrong):
    with pytest.raises(ValueError) as caught:
        phalanx.protect(plain, key=key, **wrong)
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == ["plain.bin"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": b"x" * 32},
        {"key": 3},
        {"keys": 3},
        {"keys": [b"x" * 32]},
        {"password": 3},
        {"recipients": [3]},
        {"cipher": 256},
        {"cipher": None},
        {"chunk_size": "1M"},
        {"chunk_size": 4096.0},
        {"output": 3},
        {"threads": "2"},
        {"engine": None},
        {"nonsense": 1},
    ],
)
def test_wrong_types_are_refused(tmp_path, key, plain, wrong):
    with pytest.raises(TypeError):
        phalanx.protect(plain, **{"key": key, **wrong})
    assert names(tmp_path) == ["plain.bin"]


@pytest.mark.parametrize("wrong", [{"chunk_size": -1}, {"chunk_size": 1 << 64}, {"threads": -1}, {"threads": 1 << 70}])
def test_numbers_out_of_range_are_refused(tmp_path, key, plain, wrong):
    with pytest.raises((ValueError, OverflowError)):
        phalanx.protect(plain, key=key, **wrong)
    assert names(tmp_path) == ["plain.bin"]


def test_impossible_numbers_of_threads_abort_nothing(tmp_path, key, plain):
    """A number of threads that no system has is refused or cut down, and aborts nothing."""
    try:
        phalanx.protect(plain, key=key, threads=1 << 40)
    except (ValueError, OSError, MemoryError, phalanx.Error):
        assert names(tmp_path) == ["plain.bin"]


@pytest.mark.parametrize("call", [phalanx.protect, phalanx.unprotect, phalanx.verify, phalanx.open])
def test_options_must_be_named(plain, key, call):
    with pytest.raises((TypeError, ValueError)):
        call(plain, key)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("engine", ["auto", "cpu", "serial"])
def test_all_engines_and_thread_numbers_work(tmp_path, key, threads, engine):
    data = painted(300_000)
    (tmp_path / "a").write_bytes(data)
    path = phalanx.protect(tmp_path / "a", key=key, threads=threads, engine=engine, chunk_size=4096, sync=False)
    assert phalanx.verify(path, key=key, threads=threads, engine=engine) == len(data)
    assert phalanx.unprotect(path, key=key, threads=threads, engine=engine, overwrite=True, sync=False).read_bytes() == data


def test_outputs_are_not_more_readable_than_inputs(tmp_path, key, plain):
    """Plaintext has the permissions of a new file of this process. A protected file has no more than its input."""
    plain.chmod(0o600)
    path = phalanx.protect(plain, key=key)
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    old = os.umask(0o027)
    try:
        back = phalanx.unprotect(path, key=key, output=tmp_path / "back")
        ordinary = tmp_path / "ordinary"
        ordinary.touch()
    finally:
        os.umask(old)
    assert stat.S_IMODE(back.stat().st_mode) & ~stat.S_IMODE(ordinary.stat().st_mode) == 0


def test_an_input_of_unknown_length_is_protected(tmp_path, key):
    """Files under /proc report a length of zero."""
    if not os.path.exists("/proc/cpuinfo"):
        pytest.skip("skipped: no /proc/cpuinfo")
    path = phalanx.protect("/proc/version", key=key, output=tmp_path / "version.phx")
    assert phalanx.verify(path, key=key) == len(Path("/proc/version").read_bytes()) > 0
