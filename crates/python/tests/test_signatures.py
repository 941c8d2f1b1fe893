"""Signatures. The tests of the command have more; this is what Python adds."""

import pickle
import shutil

import pytest
from conftest import REPOSITORY

import phalanx

DATA = REPOSITORY / "crates/age/tests/data"
KEY = phalanx.Key.from_bytes(bytes(range(32)))


def allowed(path, **names):
    """A file of signers: for each name a kind of key."""
    lines = [f"{name}@example.org {(DATA / f'{kind}.pub').read_text().strip()}\n" for name, kind in names.items()]
    path.write_text("".join(lines))
    return path


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    """Private keys `alice` and `bob`, a file `signers` with alice, and a file `f`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PHALANX_STATE", str(tmp_path / "state"))
    for name, kind in (("alice", "ssh-ed25519"), ("bob", "ssh-ecdsa")):
        shutil.copy(DATA / kind, tmp_path / name)
        (tmp_path / name).chmod(0o600)
    allowed(tmp_path / "signers", alice="ssh-ed25519")
    (tmp_path / "f").write_bytes(bytes(200_000))
    return tmp_path


def test_what_is_signed_opens_and_its_signer_is_named(ssh):
    path = phalanx.protect("f", key=KEY, chunk_size=65536, sign="alice")
    assert path.with_name("f.phx.sig").read_text().startswith("-----BEGIN SSH SIGNATURE-----")
    length = phalanx.verify(path, key=KEY, signers="signers")
    assert (length, length.signer) == (200_000, "alice@example.org")
    assert isinstance(length, phalanx.SignedLength) and repr(length) == "200000"
    copy = pickle.loads(pickle.dumps(length))
    assert (copy, copy.signer) == (length, length.signer)
    out = phalanx.unprotect(path, key=KEY, signers=ssh / "signers", output="out")
    assert out.read_bytes() == bytes(200_000)
    # Without signers nothing has changed.
    assert type(phalanx.verify(path, key=KEY)) is int
    # A change of content needs a new signature, and overwrite replaces both.
    with pytest.raises(FileExistsError):
        phalanx.protect("f", key=KEY, sign="alice")
    allowed(ssh / "both", alice="ssh-ed25519", bob="ssh-ecdsa")
    phalanx.protect("f", key=KEY, sign="bob", overwrite=True)
    assert phalanx.verify(path, key=KEY, signers="both").signer == "bob@example.org"


def test_nothing_else_opens(ssh):
    path = phalanx.protect("f", key=KEY, chunk_size=65536, sign="alice")
    signature = path.with_name("f.phx.sig")
    own = signature.read_bytes()

    def refused(match, **more):
        by = {"key": KEY, "signers": "signers", **more}
        with pytest.raises(phalanx.AuthenticationError, match=match):
            phalanx.verify(path, **by)
        before = sorted(ssh.iterdir())
        with pytest.raises(phalanx.AuthenticationError, match=match):
            phalanx.unprotect(path, output="out", **by)
        assert sorted(ssh.iterdir()) == before

    refused("no line has this key", signers=allowed(ssh / "others", bob="ssh-ecdsa"))
    refused("the key is revoked", revoked=DATA / "ssh-ed25519.pub")
    signature.unlink()
    refused("f.phx: it is not signed: there is no f.phx.sig")
    signature.write_bytes(own * 2)
    refused("not a signature of ssh-keygen")
    signature.write_bytes(own)
    assert phalanx.verify(path, key=KEY, signers="signers") == 200_000
    phalanx.protect("f", key=KEY, chunk_size=65536, overwrite=True)
    refused("has signed is something else")


def test_keys_and_lists_that_cannot_be_used(ssh):
    with pytest.raises(FileNotFoundError) as missing:
        phalanx.protect("f", key=KEY, sign="nobody")
    assert missing.value.filename == "nobody"
    with pytest.raises(phalanx.Error, match="signers: "):
        phalanx.protect("f", key=KEY, sign="signers")
    with pytest.raises(ValueError, match="sign does not work with aes-256-gcm"):
        phalanx.protect("f", key=KEY, sign="alice", cipher="aes-256-gcm")
    (ssh / "x.sig").write_text("mine")
    with pytest.raises(ValueError, match="x.sig: it has the name of a signature, which sign could replace"):
        phalanx.protect("x.sig", key=KEY, sign="alice", output="x", overwrite=True)
    assert (ssh / "x.sig").read_text() == "mine" and not (ssh / "f.phx").exists()
    path = phalanx.protect("f", key=KEY, sign="alice")
    with pytest.raises(FileNotFoundError):
        phalanx.verify(path, key=KEY, signers="nowhere")
    with pytest.raises(ValueError, match="revoked takes keys away from signers"):
        phalanx.verify(path, key=KEY, revoked="signers")
    (ssh / "wrong").write_bytes(b"\xff")
    with pytest.raises(phalanx.Error, match="wrong: "):
        phalanx.verify(path, key=KEY, signers="wrong")


def test_mirrors_are_signed(ssh):
    source = ssh / "d"
    source.mkdir()
    (source / "a").write_text("one")
    phalanx.mirror(source, "m", key=KEY, sign="alice")
    report = phalanx.verify_tree("m", key=KEY, signers="signers")
    assert (report.files, report.signer) == (1, "alice@example.org")
    assert phalanx.verify_tree("m", key=KEY, signers="signers", quick=True).signer == "alice@example.org"
    assert phalanx.verify_tree("m", key=KEY).signer is None
    (source / "a").write_text("two!")
    phalanx.mirror(source, "m", key=KEY)
    with pytest.raises(phalanx.TreeError, match="has signed is something else"):
        phalanx.verify_tree("m", key=KEY, signers="signers")
    phalanx.mirror(source, "m", key=KEY, sign="alice")
    assert phalanx.verify_tree("m", key=KEY, signers="signers").signer == "alice@example.org"
    (ssh / "m/phalanx.tree.sig").unlink()
    with pytest.raises(phalanx.TreeError, match="it is not signed"):
        phalanx.verify_tree("m", key=KEY, signers="signers")
    shutil.rmtree(ssh / "state")
    with pytest.raises(phalanx.TreeError, match="this machine has not written it"):
        phalanx.mirror(source, "m", key=KEY, sign="alice")
