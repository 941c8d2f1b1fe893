"""The test vectors of the format, which the reference implementation made: every file and every message.

vectors/README.md states their schema."""

import io
import json

import pytest

import phalanx
from conftest import REPOSITORY, missing

CIPHERS = {1: "aes-256", 2: "aes-192", 3: "aes-128", 4: "aes-256-gcm", 5: "aes-256-turbo"}

OUTCOMES = {
    "altered": phalanx.AuthenticationError,
    "header": phalanx.NotPhalanxError,
    "not-phalanx": phalanx.NotPhalanxError,
    "version": phalanx.UnsupportedError,
    "no-key": phalanx.WrongKeyError,
    "kdf-limit": phalanx.Error,
}


def scenarios(kind, fewest):
    """The vectors of a kind, each with its name. Fails if there are fewer than expected."""
    folder = REPOSITORY / "vectors" / kind
    if not folder.is_dir():
        missing("vectors")
    found = [(file.stem, json.loads(file.read_text())) for file in sorted(folder.glob("*.json"))]
    assert len(found) >= fewest
    return found


def field(scenario, name):
    return bytes.fromhex(scenario[name]) if name in scenario else None


def expected_of(error_class, scenario):
    """Truncated headers are distinguished from other malformed headers."""
    return error_class if scenario["expect"] != "header" else (phalanx.NotPhalanxError, phalanx.TruncatedError)


def ways(scenario):
    found = {}
    if "key" in scenario:
        found["key"] = phalanx.Key.from_bytes(field(scenario, "key"))
    # An empty password is refused before any file is looked at.
    if scenario.get("password"):
        found["password"] = field(scenario, "password")
    return found


def test_file_vectors_open_or_fail_as_they_should(tmp_path):
    counts = {}
    for name, scenario in scenarios("format", 527):
        expected, path = scenario["expect"], tmp_path / "scenario.phx"
        path.write_bytes(field(scenario, "file"))
        if scenario.get("password") == "":
            with pytest.raises(ValueError):
                phalanx.verify(path, password=b"")
            continue
        counts[expected] = counts.get(expected, 0) + 1
        by = ways(scenario)

        def by_path():
            return phalanx.unprotect(path, **by, output=tmp_path / "output", overwrite=True, sync=False).read_bytes()

        def by_object():
            with phalanx.open(io.BytesIO(field(scenario, "file")), **by) as file:
                assert file.cipher == CIPHERS[scenario["suite"]]
                assert file.chunk_size == 1 << scenario["chunk_log2"]
                return file.read()

        for read in (by_path, by_object):
            if expected == "ok":
                assert read() == field(scenario, "plaintext"), name
            else:
                try:
                    read()
                except expected_of(OUTCOMES[expected], scenario) as error:
                    assert "\n" not in str(error) and str(error), name
                except Exception as error:
                    raise AssertionError(f"{name}: {expected}, but {type(error).__name__}: {error}") from error
                else:
                    pytest.fail(f"{name} opens")
    assert counts["ok"] > 100 and set(counts) == {"ok", *OUTCOMES}


def test_message_vectors_open_or_fail_as_they_should():
    counts = {}
    for name, scenario in scenarios("messages", 153):
        expected, cipher = scenario["expect"], CIPHERS[scenario["suite"]]
        key, ad, message = phalanx.Key.from_bytes(field(scenario, "key")), field(scenario, "ad"), field(scenario, "message")
        counts[expected] = counts.get(expected, 0) + 1
        many = phalanx.unseal_many([key], [message], [ad], cipher=cipher, errors="none")
        if expected == "ok":
            assert phalanx.unseal(key, message, ad=ad, cipher=cipher) == field(scenario, "plaintext"), name
            assert many == [field(scenario, "plaintext")], name
        else:
            assert many == [None], name
            with pytest.raises(phalanx.AuthenticationError):
                phalanx.unseal(key, message, ad=ad, cipher=cipher)
    assert counts["ok"] > 50 and counts["altered"] > 50


def test_age_vectors_open(tmp_path):
    seen = set()
    for name, scenario in scenarios("age", 12):
        path = tmp_path / "scenario.phx"
        path.write_bytes(field(scenario, "file"))
        assert phalanx.verify(path, key=phalanx.Key.from_bytes(field(scenario, "key"))) == len(field(scenario, "plaintext"))
        for recipient, opens in [(r, True) for r in scenario["recipients"]] + [(r, False) for r in scenario.get("refused", [])]:
            identity = tmp_path / "identity"
            identity.unlink(missing_ok=True)
            identity.touch(mode=0o600)
            identity.write_text(recipient["identity"])
            seen.add((recipient["recipient"][:6], opens))
            if opens:
                opened = phalanx.unprotect(path, identities=[identity], output=tmp_path / "output", overwrite=True)
                assert opened.read_bytes() == field(scenario, "plaintext"), (name, recipient["recipient"])
            else:
                with pytest.raises(phalanx.WrongKeyError):
                    phalanx.verify(path, identities=[identity])
    assert {("age1pq", True), ("age1pq", False), ("age1vk", True), ("ssh-ed", True), ("ssh-rs", True)} <= seen
