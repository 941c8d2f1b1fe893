"""Keys: where they come from, what they show, how they are compared and pickled, and the keyring."""

import copy
import os
import pickle
import stat
import sys

import pytest

import phalanx
from conftest import child, is_one_line

SECRET = bytes(range(32))


def test_generated_keys_differ():
    keys = {phalanx.Key.generate().to_bytes() for _ in range(20)}
    assert len(keys) == 20
    assert all(type(key) is bytes and len(key) == 32 for key in keys)


def test_the_id_is_that_of_the_format():
    """From the worked example of docs/format.md."""
    assert phalanx.Key.from_bytes(SECRET).id == "b42bb09364eaf4761ec4a8efb6bae11c"


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, lambda b: memoryview(bytearray(b))])
def test_from_bytes_takes_any_buffer(make):
    key = phalanx.Key.from_bytes(make(SECRET))
    assert key.to_bytes() == SECRET
    assert key.name is None


def test_a_key_does_not_change_with_its_source_buffer():
    buffer = bytearray(SECRET)
    key = phalanx.Key.from_bytes(buffer)
    buffer[:] = bytes(32)
    assert key.to_bytes() == SECRET


@pytest.mark.parametrize("length", [0, 1, 16, 31, 33, 64, 4096])
def test_keys_of_other_lengths_are_refused(length):
    with pytest.raises(ValueError) as caught:
        phalanx.Key.from_bytes(bytes(length))
    assert is_one_line(caught.value)


@pytest.mark.parametrize("value", [None, "x" * 32, 32, [0] * 32, object(), memoryview(bytes(64))[::2]])
def test_objects_without_a_buffer_are_refused(value):
    with pytest.raises((TypeError, BufferError)):
        phalanx.Key.from_bytes(value)


def test_a_key_has_no_constructor():
    with pytest.raises(TypeError):
        phalanx.Key()
    with pytest.raises(TypeError):
        phalanx.Key(SECRET)


def test_a_key_is_frozen():
    key = phalanx.Key.from_bytes(SECRET)
    for name in ("id", "name", "secret", "anything"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(key, name, "x")


def test_keys_with_equal_bytes_are_equal():
    one, same, other = phalanx.Key.from_bytes(SECRET), phalanx.Key.from_bytes(SECRET), phalanx.Key.generate()
    assert one == same and not one != same and hash(one) == hash(same)
    assert one != other and not one == other
    assert len({one, same, other}) == 2
    for stranger in (None, SECRET, one.id, 0, object()):
        assert one != stranger
    with pytest.raises(TypeError):
        _ = one < other


def test_keys_that_differ_in_one_byte_are_not_equal():
    key = phalanx.Key.from_bytes(SECRET)
    for at in range(32):
        changed = bytearray(SECRET)
        changed[at] ^= 1
        assert phalanx.Key.from_bytes(changed) != key


def secret_texts(secret):
    return [secret.hex(), secret.hex().upper(), repr(secret), repr(secret)[2:-1], str(list(secret))]


def test_no_representation_shows_the_secret():
    key = phalanx.Key.from_bytes(SECRET).store("work")
    for text in (repr(key), str(key), f"{key}", f"{[key]}"):
        assert key.id in text and "work" in text
        assert not any(secret in text for secret in secret_texts(SECRET))
    assert not hasattr(key, "__dict__")
    assert SECRET.hex() not in repr(dir(key))


def test_an_unnamed_key_is_not_pickled():
    key = phalanx.Key.from_bytes(SECRET)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError) as caught:
            pickle.dumps(key, protocol)
        assert is_one_line(caught.value)
    for holder in ([key], {"key": key}, (key,)):
        with pytest.raises(TypeError):
            pickle.dumps(holder)


def test_a_named_key_is_pickled_as_its_name(keyring, monkeypatch, tmp_path):
    key = phalanx.Key.generate().store("work")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        pickled = pickle.dumps(key, protocol)
        assert key.to_bytes() not in pickled
        assert not any(secret.encode() in pickled for secret in secret_texts(key.to_bytes()))
        assert pickle.loads(pickled) == key
        assert pickle.loads(pickled).name == "work"
    # Where it is unpickled, the key must be in the keyring.
    monkeypatch.setenv("PHALANX_KEYRING", str(tmp_path / "another"))
    with pytest.raises(phalanx.KeyringError):
        pickle.loads(pickled)


def test_copies_are_the_same_key():
    for key in (phalanx.Key.generate(), phalanx.Key.generate().store("work")):
        assert copy.copy(key) == key and copy.deepcopy(key) == key and copy.deepcopy([key]) == [key]


def test_stored_keys_are_found_by_name(keyring):
    key = phalanx.Key.generate()
    named = key.store("work")
    assert (key.name, named.name) == (None, "work")
    assert named == key
    assert phalanx.Key.named("work") == key
    assert phalanx.Key.named("work").name == "work"
    # One file, which only its owner may read, in a folder that only its owner may enter.
    files = [keyring / name for name in os.listdir(keyring)]
    assert len(files) == 1 and files[0].read_bytes() == key.to_bytes()
    assert stat.S_IMODE(files[0].stat().st_mode) == 0o600
    assert stat.S_IMODE(keyring.stat().st_mode) == 0o700


def test_an_unknown_name_raises(keyring):
    for _ in range(2):
        with pytest.raises(phalanx.KeyringError) as caught:
            phalanx.Key.named("work")
        assert is_one_line(caught.value) and "work" in str(caught.value)
        # With a keyring that has another key, too.
        if not keyring.exists():
            phalanx.Key.generate().store("another")
    for call in (lambda: phalanx.protect("x", key="work"), lambda: phalanx.seal("work", b"x")):
        with pytest.raises((phalanx.KeyringError, TypeError)):
            call()


def test_a_stored_key_is_not_replaced():
    key = phalanx.Key.generate().store("work")
    with pytest.raises(FileExistsError) as caught:
        phalanx.Key.generate().store("work")
    assert is_one_line(caught.value)
    assert phalanx.Key.named("work") == key


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "/etc/passwd", "-x", ".x", "x" * 65, "a b", "a\0b", "a\nb", "ä", "\udcff"])
def test_impossible_names_are_refused(name, keyring):
    for call in (phalanx.Key.named, phalanx.Key.generate().store):
        with pytest.raises((ValueError, phalanx.KeyringError)) as caught:
            call(name)
        assert is_one_line(caught.value)
    assert not keyring.exists() or os.listdir(keyring) == []


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o602, 0o666])
def test_a_key_that_others_could_read_or_change_is_refused(keyring, mode):
    key = phalanx.Key.generate().store("work")
    (file,) = keyring.iterdir()
    file.chmod(mode)
    with pytest.raises(phalanx.KeyringError) as caught:
        phalanx.Key.named("work")
    assert is_one_line(caught.value)
    file.chmod(0o600)
    assert phalanx.Key.named("work") == key


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702])
def test_a_keyring_that_others_could_change_is_refused(keyring, mode):
    phalanx.Key.generate().store("work")
    keyring.chmod(mode)
    with pytest.raises(phalanx.KeyringError) as caught:
        phalanx.Key.named("work")
    assert is_one_line(caught.value)
    keyring.chmod(0o700)
    phalanx.Key.named("work")


@pytest.mark.parametrize("content", [b"", b"x", bytes(31), bytes(33), bytes(4096)])
def test_a_damaged_key_is_refused(keyring, content):
    phalanx.Key.generate().store("work")
    (file,) = keyring.iterdir()
    file.write_bytes(content)
    with pytest.raises(phalanx.KeyringError) as caught:
        phalanx.Key.named("work")
    assert is_one_line(caught.value)


def test_from_file_reads_exactly_32_bytes(tmp_path):
    path = tmp_path / "key"
    path.touch(mode=0o600)
    path.write_bytes(SECRET)
    for given in (path, str(path)):
        key = phalanx.Key.from_file(given)
        assert key.to_bytes() == SECRET and key.name is None
    for length in (0, 31, 33):
        path.write_bytes(bytes(length))
        with pytest.raises((ValueError, phalanx.KeyringError)) as caught:
            phalanx.Key.from_file(path)
        assert is_one_line(caught.value)
    with pytest.raises(FileNotFoundError) as caught:
        phalanx.Key.from_file(tmp_path / "absent")
    assert str(tmp_path / "absent") in str(caught.value)
    with pytest.raises((OSError, ValueError)):
        phalanx.Key.from_file(tmp_path)
    with pytest.raises(TypeError):
        phalanx.Key.from_file(3.5)


def test_a_key_file_that_others_could_read_is_refused(tmp_path):
    path = tmp_path / "key"
    path.write_bytes(SECRET)
    path.chmod(0o644)
    with pytest.raises((phalanx.KeyringError, PermissionError)) as caught:
        phalanx.Key.from_file(path)
    assert is_one_line(caught.value)


def test_the_command_uses_the_same_keyring(command, tmp_path):
    command("key", "new", "of-the-command")
    key = phalanx.Key.named("of-the-command")
    assert key.id in command("key", "show", "of-the-command").stdout.decode()
    ours = phalanx.Key.generate().store("of-python")
    assert ours.id in command("key", "list").stdout.decode()
    command("key", "export", "of-python", "--output", tmp_path / "exported")
    assert (tmp_path / "exported").read_bytes() == ours.to_bytes()


WIPED = """
import gc, hashlib, os
import phalanx

# The key is 8 bytes of the seed, then 24 that are computed from it: the search does not need to hold it in one piece.
seed = os.urandom(16)
rest = hashlib.sha3_224(seed).digest()[:24]
window = bytearray(1 << 20)

def occurrences():
    # Reads all writable memory of this process through one window, and copies nothing out of it.
    count = 0
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for region in [line.split() for line in maps]:
            if not region[1].startswith("rw"):
                continue
            start, end = (int(x, 16) for x in region[0].split("-"))
            while start < end:
                try:
                    memory.seek(start)
                    read = memory.readinto(memoryview(window)[: min(len(window), end - start)])
                except (OSError, OverflowError):
                    read = 0
                if not read:
                    # The region has changed since it was listed.
                    break
                at = window.find(seed[:8])
                while at >= 0:
                    count += memoryview(window)[at + 8 : at + 32] == rest
                    at = window.find(seed[:8], at + 1)
                window[:] = bytes(len(window))
                # The next piece begins with what may be the first half of a match.
                start += read if start + read == end or read < 64 else read - 31
    return count

def make():
    secret = bytearray(seed[:8] + bytes(24))
    secret[8:] = rest
    key = phalanx.Key.from_bytes(secret)
    secret[:] = bytes(32)
    return key

key = make()
sealed = phalanx.seal(key, b"record")
assert phalanx.unseal(key, sealed) == b"record"
before = occurrences()
del key
gc.collect()
print(before, occurrences())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="skipped: no /proc/self/mem")
def test_a_key_is_wiped_when_it_is_collected():
    done = child(WIPED)
    assert done.returncode == 0, done.stderr
    before, after = map(int, done.stdout.split())
    assert before >= 1, "the search does not find a key that is there"
    assert after == 0


def test_no_output_replaces_a_key(tmp_path):
    plain, given = tmp_path / "plain", tmp_path / "given"
    plain.write_bytes(b"content")
    given.write_bytes(bytes(range(32)))
    given.chmod(0o600)
    key = phalanx.Key.from_file(given)
    protected = phalanx.protect(plain, key=key)
    calls = [
        lambda: phalanx.protect(plain, key=key, output=given, overwrite=True),
        lambda: phalanx.unprotect(protected, key=key, output=given, overwrite=True),
        lambda: phalanx.open(given, "wb", key=key).close(),
    ]
    for call in calls:
        with pytest.raises(OSError, match="it holds a key or password, which no output replaces"):
            call()
        assert given.read_bytes() == bytes(range(32))


# The key of SECRET, from docs/design-format.md.
TEXT = "phalanx-key-1-AAAQE-AYEAU-DAOCA-JBIFQ-YDIOB-4IBCE-QTCQK-RMFYY-DENBW-HA5DY-PWQAM-QBYAQ"


@pytest.mark.parametrize("make", [str, str.encode, lambda text: bytearray(text.encode()), str.lower, lambda text: f" {text}\n"])
def test_from_text_reads_exported_keys(make):
    key = phalanx.Key.from_text(make(TEXT))
    assert key.to_bytes() == SECRET and key.name is None


@pytest.mark.parametrize("text", ["", "work", TEXT[1:], TEXT[:-1], TEXT + "A", TEXT[:-1] + "R", TEXT.replace("E", "9"), "\udcff" + TEXT, TEXT + "ä"])
def test_a_wrong_text_is_not_in_the_message(text):
    for given in (text, text.encode(errors="surrogateescape")):
        with pytest.raises(phalanx.KeyringError) as caught:
            phalanx.Key.from_text(given)
        assert is_one_line(caught.value) and "AYEAU" not in repr(caught.value)
        assert caught.value.__cause__ is None and caught.value.__context__ is None
    with pytest.raises(TypeError):
        phalanx.Key.from_text(5)


def test_a_text_given_as_a_name_is_not_in_the_message(tmp_path):
    for text in (TEXT, TEXT.replace("-", ""), TEXT.lower(), f"env:{TEXT}", f"call:{TEXT}", f"env:{TEXT.replace('-', '')}"):
        for call in (phalanx.Key.named, lambda text: phalanx.seal(text, b""), lambda text: phalanx.open(tmp_path / "x", "wb", key=text)):
            with pytest.raises(ValueError) as caught:
                call(text)
            assert is_one_line(caught.value) and "AYEAU" not in str(caught.value).upper()


def test_environment_keys_are_found_and_pickled_as_names(monkeypatch, tmp_path):
    monkeypatch.setenv("WORK_KEY", TEXT)
    key = phalanx.Key.named("env:WORK_KEY")
    assert key.to_bytes() == SECRET and key.name == "env:WORK_KEY"
    pickled = pickle.dumps(key)
    assert SECRET not in pickled and b"AYEAU" not in pickled and "AYEAU" not in repr(key)
    assert pickle.loads(pickled) == key
    sealed = phalanx.seal("env:WORK_KEY", b"record")
    assert phalanx.unseal(key, sealed) == b"record"
    with phalanx.open(tmp_path / "file.phx", "wb", keys=["env:WORK_KEY"]) as file:
        file.write(b"data")
    assert phalanx.open(tmp_path / "file.phx", key=key).read() == b"data"


@pytest.mark.parametrize("name", ["env:", "env:1", "env:A=B", "env:" + "A" * 65, "other:x", ":", "call:", "call:os", "call:os:", "call::getcwd", "call:os:a b", "call:os.path"])
def test_other_names_with_colons_are_refused(name):
    with pytest.raises(ValueError) as caught:
        phalanx.Key.named(name)
    assert is_one_line(caught.value)


@pytest.mark.parametrize("value", [None, "", TEXT[:-1], TEXT[:-1] + "R", "AYEAU"])
def test_the_value_of_the_environment_is_not_in_the_message(monkeypatch, value):
    monkeypatch.delenv("WORK_KEY", raising=False) if value is None else monkeypatch.setenv("WORK_KEY", value)
    with pytest.raises(phalanx.KeyringError, match="env:WORK_KEY") as caught:
        phalanx.Key.named("env:WORK_KEY")
    assert is_one_line(caught.value) and "AYEAU" not in str(caught.value)
    assert caught.value.__cause__ is None and "AYEAU" not in str(caught.value.__context__)
    # Tools that show the variables of a traceback do not show it either.
    trace = caught.value.__traceback__.tb_next
    while trace:
        assert "AYEAU" not in repr(trace.tb_frame.f_locals)
        trace = trace.tb_next


def test_function_keys_are_found_and_pickled_as_names(monkeypatch, tmp_path):
    (tmp_path / "of_vault.py").write_text(
        "import phalanx\n"
        "def key(): return phalanx.Key.from_bytes(bytes(range(32)))\n"
        "def fails(): raise OSError('two\\nlines')\n"
        "def text(): return 'AYEAU'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    key = phalanx.Key.named("call:of_vault:key")
    assert key.to_bytes() == SECRET and key.name == "call:of_vault:key"
    pickled = pickle.dumps(key)
    assert SECRET not in pickled and pickle.loads(pickled) == key
    assert phalanx.unseal(key, phalanx.seal("call:of_vault:key", b"x")) == b"x"
    for path, why in [("of_vault:fails", "it raised OSError"), ("of_vault:text", "returned str"), ("no_vault:key", "no module named no_vault"), ("of_vault:absent", "AttributeError")]:
        with pytest.raises(phalanx.KeyringError, match=why) as caught:
            phalanx.Key.named(f"call:{path}")
        assert is_one_line(caught.value) and path in str(caught.value) and "AYEAU" not in str(caught.value)
