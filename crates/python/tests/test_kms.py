"""Key services. The tests of the command have more; this is what Python adds."""

import pytest

import phalanx

SERVICE = r"""#!/bin/sh
read -r request
echo "$request" >> "$0.log"
case $request in
*'"operation":"wrap"'*) text=${request##*'"plaintext":"'}; text=$(printf %s "${text%%\"*}" | tr A-LM-X M-XA-L); echo "{\"ciphertext\":\"$text\"}" ;;
*'"operation":"unwrap"'*) text=${request##*'"ciphertext":"'}; text=$(printf %s "${text%%\"*}" | tr A-LM-X M-XA-L); echo "{\"plaintext\":\"$text\"}" ;;
esac
"""


@pytest.fixture
def service(tmp_path, monkeypatch):
    """A service `test://…` that gives back what it gets: the file in which it notes what it is asked."""
    folder = tmp_path / "services"
    folder.mkdir()
    program = folder / "phalanx-kms-test"
    program.write_text(SERVICE)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return folder / "phalanx-kms-test.log"


def test_a_service_opens_what_it_protects(tmp_path, service):
    plain = tmp_path / "f"
    plain.write_bytes(b"precious")
    path = phalanx.protect(plain, kms=["test://k"])
    assert phalanx.verify(path, kms=["test://k"]) == 8
    assert phalanx.unprotect(path, kms=["test://k"], output=tmp_path / "g").read_bytes() == b"precious"
    with phalanx.open(path, kms=["test://k"]) as f:
        assert f.read() == b"precious"
    with phalanx.open(tmp_path / "new.phx", "wb", kms=["test://k"]) as f:
        f.write(b"more")
    assert phalanx.verify(tmp_path / "new.phx", kms=["test://k"]) == 4
    asked = len(service.read_text().splitlines())
    with pytest.raises(phalanx.WrongKeyError, match="it needs the key service test://k"):
        phalanx.verify(path, key=phalanx.Key.generate())
    with pytest.raises(phalanx.WrongKeyError):
        phalanx.verify(path, kms=["test://other"])
    assert len(service.read_text().splitlines()) == asked


def test_mirrors_take_services(tmp_path, service):
    source = tmp_path / "d"
    source.mkdir()
    for name in "abc":
        (source / name).write_text(name)
    phalanx.mirror(source, tmp_path / "m", kms=["test://k"])
    assert len(service.read_text().splitlines()) == 1
    phalanx.verify_tree(tmp_path / "m", kms=["test://k"])
    assert len(service.read_text().splitlines()) == 2


def test_failures_name_the_service(tmp_path, service):
    plain = tmp_path / "f"
    plain.write_bytes(b"precious")
    with pytest.raises(phalanx.Error, match="cannot protect for none://k: it needs the program phalanx-kms-none"):
        phalanx.protect(plain, kms=["none://k"])
    with pytest.raises(ValueError, match="kms: k is not the URI of a key service"):
        phalanx.protect(plain, kms=["k"])
    assert not plain.with_name("f.phx").exists()


def test_a_file_of_the_user_names_services(tmp_path, service, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PHALANX_KEYRING", str(tmp_path / "keyring"))
    plain = tmp_path / "f"
    plain.write_bytes(b"precious")
    path = phalanx.protect(plain, kms=["test://team/k"])
    with pytest.raises(phalanx.WrongKeyError):
        phalanx.verify(path)
    asked = len(service.read_text().splitlines())
    named = tmp_path / "config/phalanx/key-services"
    named.parent.mkdir(parents=True, mode=0o700)
    named.write_text("test://other\n")
    named.chmod(0o600)
    with pytest.raises(phalanx.WrongKeyError, match="it needs the key service test://team/k"):
        phalanx.verify(path)
    named.write_text("# ours\ntest://team/*\n")
    # What a call names is all that is tried.
    with pytest.raises(phalanx.WrongKeyError):
        phalanx.verify(path, kms=["test://other"])
    assert len(service.read_text().splitlines()) == asked
    assert phalanx.verify(path) == 8
    named.chmod(0o622)
    with pytest.raises(phalanx.WrongKeyError, match="other users may write to it"):
        phalanx.verify(path)
    with pytest.raises(ValueError, match="nothing would open it"):
        phalanx.protect(plain, output=tmp_path / "g")
