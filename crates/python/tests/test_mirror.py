"""Mirrors: making, renewing, checking, and everything that somebody could change in one."""

import os
import pickle
import shutil
import signal
import subprocess
import time
import warnings
from pathlib import Path

import pytest

import phalanx
from conftest import child, child_args, child_env, is_one_line, names, painted, sparse

ODD = ["a name", "-rf", "ümläut", "line\nfeed", os.fsdecode(b"\xff\xfe"), "'\"\\", "x.phx"]


@pytest.fixture
def source(tmp_path):
    """Files, links and folders, with odd names, and some that are empty."""
    root = tmp_path / "source"
    (root / "folder" / "deep").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "a").write_bytes(painted(10_000, 1))
    (root / "b").write_bytes(painted(10_000, 2))
    (root / "nothing").touch()
    (root / "folder" / "c").write_bytes(painted(300_000, 3))
    (root / "folder" / "deep" / "d").write_bytes(b"deep")
    (root / "link").symlink_to("folder/c")
    (root / "dangling").symlink_to("/nowhere")
    for name in ODD:
        (root / name).write_bytes(os.fsencode(name))
    return root


@pytest.fixture
def backup(tmp_path):
    return tmp_path / "backup"


FILES = 5 + len(ODD)
LINKS = 2


def run(source, backup, key, **options):
    return phalanx.mirror(source, backup, key=key, chunk_size=4096, sync=False, **options)


def tree(root):
    """All paths in a folder with what they hold."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = Path(folder) / name
            if path.is_symlink():
                found[path.relative_to(root)] = os.readlink(path)
            else:
                found[path.relative_to(root)] = path.read_bytes() if path.is_file() else None
    return found


def opened(backup, key):
    """What a mirror holds, with its files opened one by one."""
    found = {}
    for path, stored in tree(backup).items():
        if isinstance(stored, bytes) and path.name != "phalanx.tree":
            with phalanx.open(backup / path, key=key) as file:
                found[path.with_name(path.name.removesuffix(".phx"))] = file.read()
        elif path.name != "phalanx.tree":
            found[path] = stored
    return found


def kinds(call, *arguments, **options):
    """What is wrong, by its path."""
    with pytest.raises(phalanx.TreeError) as caught:
        call(*arguments, **options)
    assert is_one_line(caught.value)
    assert caught.value.report.findings == caught.value.findings != ()
    return {str(finding.path): finding.kind for finding in caught.value.findings}


def test_a_mirror_holds_what_the_source_holds(source, backup, key):
    result = run(source, backup, key)
    size = sum(len(held) for held in tree(source).values() if isinstance(held, bytes))
    assert (result.new, result.unchanged, result.bytes) == (FILES + LINKS, 0, size)
    assert opened(backup, key) == tree(source)
    report = phalanx.verify_tree(backup, key=key)
    assert (report.files, report.bytes, report.findings) == (FILES, size, ())
    assert (report.generation, report.digest) == (result.generation, result.digest)
    assert phalanx.verify_tree(str(backup), keys=[key], quick=True) == report


def test_a_second_run_writes_nothing(source, backup, key):
    first = run(source, backup, key)
    before = tree(backup), {path: os.lstat(backup / path).st_mtime_ns for path in tree(backup)}
    second = run(source, backup, key)
    assert (second.unchanged, second.new, second.changed, second.bytes) == (FILES + LINKS, 0, 0, 0)
    assert (second.generation, second.digest) == (first.generation, first.digest)
    assert (tree(backup), {path: os.lstat(backup / path).st_mtime_ns for path in tree(backup)}) == before


def test_a_run_writes_what_has_changed(source, backup, key):
    first = run(source, backup, key)
    (source / "a").write_bytes(b"changed")
    (source / "b").rename(source / "folder" / "moved")
    (source / "new").write_bytes(b"new")
    (source / "nothing").chmod(0o600)
    result = run(source, backup, key)
    assert (result.new, result.changed, result.moved, result.metadata, result.deleted) == (1, 1, 1, 1, 0)
    assert (result.unchanged, result.bytes) == (FILES + LINKS - 3, 10)
    assert result.generation > first.generation
    assert opened(backup, key) == tree(source)
    phalanx.verify_tree(backup, key=key)


def test_what_is_gone_stays_without_delete(source, backup, key):
    run(source, backup, key)
    shutil.rmtree(source / "folder")
    assert run(source, backup, key).deleted == 0
    assert (backup / "folder" / "c.phx").exists()
    assert run(source, backup, key, delete=True).deleted == 2
    assert opened(backup, key) == tree(source)
    phalanx.verify_tree(backup, key=key)


def test_deletions_that_are_suspiciously_many_are_refused(source, backup, key):
    run(source, backup, key)
    before = tree(backup)
    shutil.rmtree(source)
    source.mkdir()
    with pytest.raises(phalanx.Error, match=rf"all {FILES + LINKS} .*max_delete={FILES + LINKS} insists") as caught:
        run(source, backup, key, delete=True)
    assert type(caught.value) is phalanx.Error and is_one_line(caught.value) and "--" not in str(caught.value)
    with pytest.raises(phalanx.Error, match="max_delete allows 3"):
        run(source, backup, key, delete=True, max_delete=3)
    assert tree(backup) == before
    assert run(source, backup, key, delete=True, max_delete=FILES + LINKS).deleted == FILES + LINKS
    assert names(backup) == ["phalanx.tree"]


def test_an_empty_source_is_a_warning(source, backup, key):
    run(source, backup, key)
    shutil.rmtree(source)
    source.mkdir()
    with pytest.warns(RuntimeWarning, match="none of the mirror's") as caught:
        run(source, backup, key)
    assert caught[0].filename == __file__


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(source, backup, key):
    assert {change.path for change in run(source, backup, key, dry_run=True)} == set(tree(source))
    assert not backup.exists()
    run(source, backup, key)
    before = tree(backup)
    (source / "a").write_bytes(b"changed")
    (source / "b").rename(source / "moved")
    (source / "nothing").unlink()
    changes = run(source, backup, key, dry_run=True, delete=True)
    found = {(str(change.path), change.what, change.moved_from and str(change.moved_from)) for change in changes}
    assert found == {("a", "changed", None), ("moved", "moved", "b"), ("nothing", "deleted", None)}
    assert tree(backup) == before


def test_what_is_replaced_or_deleted_is_kept_in_the_backup_folder(tmp_path, source, backup, key):
    run(source, backup, key)
    (source / "a").write_bytes(b"changed")
    (source / "folder" / "deep" / "d").unlink()
    run(source, backup, key, delete=True, backup_dir=tmp_path / "old")
    assert phalanx.open(tmp_path / "old" / "a.phx", key=key).read() == painted(10_000, 1)
    assert phalanx.open(tmp_path / "old" / "folder" / "deep" / "d.phx", key=key).read() == b"deep"
    with pytest.raises(FileNotFoundError):
        run(source, backup, key, checksum=True, backup_dir=tmp_path / "none" / "old")


def test_checksum_finds_changes_that_keep_length_and_time(source, backup, key):
    run(source, backup, key)
    stat = (source / "a").stat()
    (source / "a").write_bytes(painted(10_000, 9))
    os.utime(source / "a", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert run(source, backup, key).changed == 0
    result = run(source, backup, key, checksum=True)
    assert (result.changed, result.unchanged) == (1, FILES + LINKS - 1)
    assert opened(backup, key) == tree(source)


@pytest.fixture
def varied(tmp_path):
    root = tmp_path / "source"
    for name in ("cache", "results", "marked"):
        (root / name).mkdir(parents=True)
    for path in ("a.txt", "a.tmp", "cache/page", "results/final.dat", "results/step.dat", "marked/.nobackup", "marked/x"):
        (root / path).write_text(path)
    (root / "cache" / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n")
    return root


def left(varied, backup, key, **options):
    changes = run(varied, backup, key, dry_run=True, **options)
    return {str(change.path) for change in changes if (varied / change.path).is_file()}


ALL = {"a.txt", "a.tmp", "cache/page", "cache/CACHEDIR.TAG", "results/final.dat", "results/step.dat", "marked/.nobackup", "marked/x"}


def test_patterns_say_what_is_left_out(tmp_path, varied, backup, key):
    assert left(varied, backup, key) == ALL
    assert left(varied, backup, key, exclude=["*.tmp", "+ final.dat", "- *.dat", "/cache/"]) == {
        "a.txt", "results/final.dat", "marked/.nobackup", "marked/x",
    }
    assert left(varied, backup, key, exclude=["*.dat", "+ final.dat"]) == ALL - {"results/final.dat", "results/step.dat"}
    (tmp_path / "patterns").write_text("# a comment\n+ final.dat\n*.dat\n")
    assert left(varied, backup, key, exclude_from=[tmp_path / "patterns"]) == ALL - {"results/step.dat"}
    assert left(varied, backup, key, exclude=["final.dat"], exclude_from=[str(tmp_path / "patterns")]) == ALL - {
        "results/step.dat", "results/final.dat",
    }
    assert left(varied, backup, key, only=["cache", Path("results/step.dat")]) == {
        "cache/page", "cache/CACHEDIR.TAG", "results/step.dat",
    }
    assert left(varied, backup, key, only=[]) == set()
    assert left(varied, backup, key, exclude_caches=True) == ALL - {"cache/page"}
    assert left(varied, backup, key, exclude_if_present=[".nobackup"]) == ALL - {"marked/x"}
    assert left(varied, backup, key, one_file_system=True) == ALL


def test_wrong_patterns_are_refused(tmp_path, varied, backup, key):
    for options in ({"exclude": ["["]}, {"exclude": [""]}, {"exclude_if_present": ["a/b"]}, {"only": ["../x"]}):
        with pytest.raises(ValueError) as caught:
            run(varied, backup, key, **options)
        assert is_one_line(caught.value) and "--" not in str(caught.value)
    with pytest.raises(FileNotFoundError) as caught:
        run(varied, backup, key, exclude_from=[tmp_path / "none"])
    assert caught.value.filename == str(tmp_path / "none")
    with pytest.raises(TypeError, match="exclude"):
        run(varied, backup, key, exclude="*.tmp")
    assert not backup.exists()


def test_what_is_left_out_later_stays_but_for_delete_excluded(varied, backup, key):
    run(varied, backup, key)
    run(varied, backup, key, delete=True, exclude=["*.tmp"])
    assert (backup / "a.tmp.phx").exists()
    phalanx.verify_tree(backup, key=key)
    assert run(varied, backup, key, delete=True, delete_excluded=True, exclude=["*.tmp"]).deleted == 1
    assert not (backup / "a.tmp.phx").exists()


RECIPIENT = "age1t7rxyev2z3rw82stdlrrepyc39nvn86l5078zqkf5uasdy86jp6svpy7pa"


def test_a_machine_with_public_keys_alone_writes_a_mirror_that_it_cannot_read(source, backup, key, state):
    assert phalanx.mirror(source, backup, recipients=[RECIPIENT], sync=False).new == FILES + LINKS
    with pytest.raises(phalanx.WrongKeyError):
        phalanx.verify_tree(backup, key=key)
    (source / "a").write_bytes(b"changed")
    again = phalanx.mirror(source, backup, recipients=[RECIPIENT], sync=False)
    assert (again.changed, again.unchanged) == (1, FILES + LINKS - 1)
    with pytest.raises(ValueError, match="checksum"):
        phalanx.mirror(source, backup, recipients=[RECIPIENT], sync=False, checksum=True)
    # Without its memory it cannot renew the mirror.
    shutil.rmtree(state)
    with pytest.raises(phalanx.WrongKeyError, match="not the one that this machine wrote last"):
        phalanx.mirror(source, backup, recipients=[RECIPIENT], sync=False)


def test_a_key_opens_what_public_keys_were_added_to(source, backup, key):
    phalanx.mirror(source, backup, key=key, recipients=[RECIPIENT], sync=False)
    assert phalanx.verify_tree(backup, key=key).files == FILES


def test_keys_of_the_keyring_are_tried(source, backup, key):
    key.store("work")
    phalanx.mirror(source, backup, key="work", sync=False)
    assert phalanx.verify_tree(backup).files == FILES


def test_passwords_open_a_mirror(tmp_path, backup):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a").write_bytes(b"a")
    phalanx.mirror(tmp_path / "source", backup, password="secret", sync=False)
    assert phalanx.mirror(tmp_path / "source", backup, password="secret", sync=False).unchanged == 1
    assert phalanx.verify_tree(backup, password="secret").files == 1
    with pytest.raises(phalanx.WrongKeyError):
        phalanx.verify_tree(backup, password="wrong")


def test_wrong_arguments_are_refused(source, backup, key):
    for options in (
        {"cipher": "rot13"}, {"chunk_size": 5}, {"threads": 0}, {"engine": "abacus"}, {"key": None},
    ):
        with pytest.raises(ValueError):
            phalanx.mirror(source, backup, **{"key": key, **options})
    with pytest.raises((TypeError, OverflowError)):
        run(source, backup, key, max_delete=-1)
    for digest in ("", "00", "x" * 64):
        with pytest.raises(ValueError, match="expect"):
            phalanx.verify_tree(source, key=key, expect=digest)
    assert not backup.exists()


@pytest.mark.parametrize("options", [{"cipher": "aes-256-gcm"}, {"cipher": "aes-128", "chunk_size": 1 << 16}, {"engine": "serial"}, {"threads": 1}])
def test_options_of_new_files(source, backup, key, options):
    phalanx.mirror(source, backup, key=key, sync=False, **options)
    assert phalanx.verify_tree(backup, key=key).files == FILES
    with phalanx.open(backup / "a.phx", key=key) as file:
        assert file.cipher == options.get("cipher", "aes-256")
        assert file.chunk_size == options.get("chunk_size", 1 << 20)


def test_missing_folders_are_the_errors_of_the_system(tmp_path, source, backup, key):
    with pytest.raises(FileNotFoundError) as caught:
        run(tmp_path / "none", backup, key)
    assert caught.value.filename == str(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        run(source, tmp_path / "none" / "backup", key)
    with pytest.raises(FileNotFoundError) as caught:
        phalanx.verify_tree(backup, key=key)
    assert caught.value.filename == str(backup)
    (tmp_path / "file").touch()
    for call in (lambda: run(tmp_path / "file", backup, key), lambda: phalanx.verify_tree(tmp_path / "file", key=key)):
        with pytest.raises(NotADirectoryError):
            call()


def test_a_mirror_within_its_source_is_refused(source, key):
    with pytest.raises(ValueError):
        run(source, source / "backup", key)


def test_two_runs_at_once_are_refused(source, backup, key):
    import fcntl

    run(source, backup, key)
    folder = os.open(backup, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with pytest.raises(phalanx.Error, match="another run"):
            run(source, backup, key)
    finally:
        os.close(folder)
    run(source, backup, key)


def test_a_mirror_that_is_gone_is_made_again_only_if_that_is_meant(source, backup, key):
    run(source, backup, key)
    (backup / "phalanx.tree").unlink()
    with pytest.raises(phalanx.Error, match="is gone.*new=True"):
        run(source, backup, key)
    assert not (backup / "phalanx.tree").exists()
    assert run(source, backup, key, new=True).unchanged == 0
    assert phalanx.verify_tree(backup, key=key).files == FILES


def test_what_is_no_file_is_left_out(source, backup, key):
    os.mkfifo(source / "pipe")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = run(source, backup, key)
    [(path, what)] = result.left_out
    assert path == Path("pipe") and "pipe" in what
    phalanx.verify_tree(backup, key=key)


# With its ending it is longer than a name can be. Unlike permissions, that stops root too.
TOO_LONG = "n" * 253


def test_files_that_fail_stop_no_others(source, backup, key):
    (source / TOO_LONG).write_bytes(b"x")
    (source / "folder" / TOO_LONG).write_bytes(b"x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(phalanx.MirrorError) as caught:
            run(source, backup, key)
    assert is_one_line(caught.value) and str(caught.value).startswith("2 failures")
    assert caught.value.result.new == FILES + LINKS
    assert {type(failure) for failure in caught.value.failures} == {OSError}
    assert {failure.errno for failure in caught.value.failures} == {36}
    assert {Path(failure.filename) for failure in caught.value.failures} == {
        backup / f"{TOO_LONG}.phx", backup / "folder" / f"{TOO_LONG}.phx",
    }
    assert phalanx.verify_tree(backup, key=key).files == FILES
    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.result == caught.value.result and len(copy.failures) == 2
    for path in (source / TOO_LONG, source / "folder" / TOO_LONG):
        path.unlink()
    assert run(source, backup, key).unchanged == FILES + LINKS


def test_nothing_is_deleted_if_something_failed(source, backup, key):
    run(source, backup, key)
    (source / "a").unlink()
    (source / TOO_LONG).write_bytes(b"x")
    with pytest.warns(RuntimeWarning, match="nothing more is deleted"), pytest.raises(phalanx.MirrorError) as caught:
        run(source, backup, key, delete=True)
    assert caught.value.result.deleted == 0 and len(caught.value.failures) == 1
    assert (backup / "a.phx").exists()


def test_paths_of_a_list_that_are_missing_are_failures(source, backup, key):
    for dry_run in (True, False):
        with pytest.raises(phalanx.MirrorError) as caught:
            run(source, backup, key, only=["a", "none"], dry_run=dry_run)
        [failure] = caught.value.failures
        assert type(failure) is FileNotFoundError and failure.filename == str(source / "none")
        assert caught.value.result is None if dry_run else caught.value.result.new == 1


def test_a_folder_that_has_become_a_file_needs_delete(source, backup, key):
    run(source, backup, key)
    shutil.rmtree(source / "folder")
    (source / "folder").symlink_to("a")
    with pytest.raises(phalanx.MirrorError, match="delete=True removes it"):
        run(source, backup, key)
    run(source, backup, key, delete=True)
    phalanx.verify_tree(backup, key=key)


@pytest.fixture
def made(source, backup, key):
    run(source, backup, key)
    return backup


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(
    "attack, findings",
    [
        (lambda made: (made / "a.phx").unlink(), {"a.phx": "missing"}),
        (lambda made: (made / "link").unlink(), {"link": "missing"}),
        (lambda made: shutil.rmtree(made / "folder"), {"folder": "missing"}),
        (lambda made: (made / "foreign").write_bytes(b"x"), {"foreign": "additional"}),
        (lambda made: (made / "empty" / "more").mkdir(), {"empty/more": "additional"}),
        (lambda made: shutil.copy(made / "a.phx", made / "copy.phx"), {"copy.phx": "copy"}),
        (lambda made: (made / "a.phx").rename(made / "z.phx"), {"a.phx": "renamed", "z.phx": "copy"}),
        (lambda made: exchange(made / "a.phx", made / "b.phx"), {"a.phx": "exchanged", "b.phx": "exchanged"}),
        (lambda made: shutil.copy(made / "a.phx", made / "b.phx"), {"b.phx": "exchanged"}),
        (lambda made: ((made / "a.phx").unlink(), (made / "a.phx").mkdir()), {"a.phx": "replaced"}),
        (lambda made: ((made / "link").unlink(), (made / "link").symlink_to("a")), {"link": "other version"}),
        (lambda made: os.truncate(made / "a.phx", 5000), {"a.phx": "other version"}),
        (lambda made: os.truncate(made / "a.phx", 20), {"a.phx": "damaged"}),
        (lambda made: (made / "a.phx").write_bytes(b"nothing of the kind"), {"a.phx": "damaged"}),
    ],
)
def test_every_change_of_a_mirror_is_found(made, key, quick, attack, findings):
    attack(made)
    assert kinds(phalanx.verify_tree, made, key=key, quick=quick) == findings


def exchange(a, b):
    a.rename(a.with_name("aside"))
    b.rename(a)
    a.with_name("aside").rename(b)


@pytest.mark.parametrize("quick", [True, False])
def test_an_older_version_of_a_file_is_found(source, made, key, quick):
    old = (made / "a.phx").read_bytes()
    (source / "a").write_bytes(painted(10_000, 7))
    run(source, made, key)
    (made / "a.phx").write_bytes(old)
    assert kinds(phalanx.verify_tree, made, key=key, quick=quick) == {"a.phx": "other version"}


def test_a_damaged_byte_is_found_by_the_full_check(made, key):
    path = made / "folder" / "c.phx"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert phalanx.verify_tree(made, key=key, quick=True).files == FILES
    with pytest.raises(phalanx.TreeError) as caught:
        phalanx.verify_tree(made, key=key)
    [finding] = caught.value.findings
    assert (finding.path, finding.kind) == (Path("folder/c.phx"), "damaged") and "chunk 36" in finding.detail
    assert caught.value.report.files == FILES - 1
    assert isinstance(caught.value, phalanx.AuthenticationError)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.findings == caught.value.findings


def test_all_findings_are_told_in_the_order_of_their_paths(made, key):
    data = bytearray((made / "folder" / "c.phx").read_bytes())
    data[len(data) // 2] ^= 1
    (made / "folder" / "c.phx").write_bytes(data)
    (made / "a.phx").unlink()
    (made / "z").touch()
    with pytest.raises(phalanx.TreeError, match="^3 findings, the first is .*a.phx: missing") as caught:
        phalanx.verify_tree(made, key=key)
    assert [str(finding.path) for finding in caught.value.findings] == ["a.phx", "folder/c.phx", "z"]


def test_a_checksum_run_mends_what_a_check_has_found(source, made, key):
    (made / "a.phx").unlink()
    data = bytearray((made / "b.phx").read_bytes())
    data[5000] ^= 1
    (made / "b.phx").write_bytes(data)
    assert kinds(phalanx.verify_tree, made, key=key) == {"a.phx": "missing", "b.phx": "damaged"}
    run(source, made, key, checksum=True)
    assert phalanx.verify_tree(made, key=key).files == FILES


def test_a_file_for_another_key_is_found(source, made, key, other_key):
    phalanx.protect(source / "a", key=other_key, output=made / "a.phx", overwrite=True, chunk_size=4096, sync=False)
    assert kinds(phalanx.verify_tree, made, key=key) == {"a.phx": "other version"}


def test_a_damaged_manifest_is_not_authentic(made, key):
    manifest = made / "phalanx.tree"
    data = bytearray(manifest.read_bytes())
    data[-60] ^= 1
    manifest.write_bytes(data)
    with pytest.raises(phalanx.AuthenticationError) as caught:
        phalanx.verify_tree(made, key=key)
    assert caught.value.chunk == 0 and "phalanx.tree" in str(caught.value)
    manifest.write_bytes(b"nothing of the kind")
    with pytest.raises(phalanx.NotPhalanxError):
        phalanx.verify_tree(made, key=key)


def test_a_mirror_without_its_manifest_is_not_what_it_was(made, key):
    (made / "phalanx.tree").unlink()
    for options in ({}, {"quick": True}, {"at_least": 1}):
        with pytest.raises(phalanx.TreeError, match="no manifest") as caught:
            phalanx.verify_tree(made, key=key, **options)
        assert caught.value.report is None and caught.value.findings == ()


def manifest_of_the_future(folder, key):
    """A manifest of a version that this package does not know."""
    with phalanx.open(folder / "phalanx.tree", key=key) as file:
        data = bytearray(file.read())
    data[7] += 1
    with phalanx.open(folder / "phalanx.tree", "wb", key=key, sync=False) as file:
        file.write(data)


def test_a_manifest_of_a_newer_version_is_unsupported(source, made, key):
    manifest_of_the_future(made, key)
    for call in (lambda: phalanx.verify_tree(made, key=key), lambda: run(source, made, key)):
        with pytest.raises(phalanx.UnsupportedError) as caught:
            call()
        assert is_one_line(caught.value) and "phalanx.tree" in str(caught.value)


def test_wrong_keys_are_refused(source, made, key, other_key):
    with pytest.raises(phalanx.WrongKeyError):
        phalanx.verify_tree(made, key=other_key)
    before = tree(made)
    with pytest.raises(phalanx.WrongKeyError):
        run(source, made, other_key)
    assert tree(made) == before


def test_a_mirror_is_pinned_by_generation_and_digest(made, key, source):
    first = phalanx.verify_tree(made, key=key)
    assert phalanx.verify_tree(made, key=key, expect=first.digest, at_least=first.generation) == first
    for options in ({"expect": "00" * 32}, {"at_least": first.generation + 1}):
        with pytest.raises(phalanx.TreeError, match="its manifest has") as caught:
            phalanx.verify_tree(made, key=key, quick=True, **options)
        assert caught.value.report is None


def test_a_mirror_that_was_set_back_is_a_warning(tmp_path, source, made, key):
    shutil.copytree(made, tmp_path / "old", symlinks=True)
    (source / "a").write_bytes(b"newer")
    newer = run(source, made, key)
    shutil.rmtree(made)
    shutil.copytree(tmp_path / "old", made, symlinks=True)
    with pytest.warns(RuntimeWarning, match=f"generation {newer.generation} was seen before.*set back") as caught:
        older = phalanx.verify_tree(made, key=key)
    assert caught[0].filename == __file__
    assert older.generation < newer.generation
    with pytest.raises(phalanx.TreeError):
        phalanx.verify_tree(made, key=key, at_least=newer.generation)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        phalanx.verify_tree(made, key=key, accept=True)
        phalanx.verify_tree(made, key=key)


def test_the_command_and_the_package_share_mirrors(source, backup, key, key_file, command):
    ours = run(source, backup, key)
    done = command("verify", "-R", "--quick", "--json", backup, "--key-file", key_file)
    assert ours.digest.encode() in done.stdout
    command("mirror", source, backup, "--key-file", key_file)
    (source / "a").write_bytes(b"changed")
    command("mirror", source, backup, "--key-file", key_file)
    assert run(source, backup, key).unchanged == FILES + LINKS
    assert phalanx.verify_tree(backup, key=key).files == FILES


def test_results_cannot_be_changed(source, backup, key):
    result = run(source, backup, key)
    with pytest.raises(AttributeError):
        result.new = 0
    assert hash(result) == hash(result)


MIRROR = """
import signal, sys
import phalanx
signal.signal(signal.SIGINT, signal.default_int_handler)
key = phalanx.Key.from_bytes(bytes(32))
try:
    phalanx.mirror(sys.argv[1], sys.argv[2], key=key, sync=False, threads=2, engine="serial")
    print("done")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def interrupted_run(source, backup, key):
    """Ends a run by Ctrl-C while it writes a file of 4 GiB with slow kernels, of which nothing is left."""
    sparse(source / "large", 4 << 30)
    before = set(names(backup))
    env = child_env() | {"PHALANX_KERNELS": "portable,portable"}
    process = subprocess.Popen(child_args(MIRROR, source, backup), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        # Until bytes are written under a name that is not there before or afterwards.
        while process.poll() is None and not any(is_being_written(backup / name) for name in set(names(backup)) - before):
            time.sleep(0.01)
        assert process.poll() is None, process.communicate()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (out, process.returncode) == ("interrupted\n", 0), err
    finally:
        process.kill()


def is_being_written(path):
    try:
        return path.name.startswith(".") and path.stat().st_size > 0
    except FileNotFoundError:
        return False


def test_ctrl_c_ends_a_run_and_the_next_one_goes_on(source, backup):
    key = phalanx.Key.from_bytes(bytes(32))
    run(source, backup, key)
    manifest = (backup / "phalanx.tree").read_bytes()
    (source / "a").write_bytes(b"changed")
    (source / "b").unlink()
    interrupted_run(source, backup, key)
    assert (backup / "phalanx.tree").read_bytes() == manifest
    assert "large.phx" not in names(backup) and not [name for name in names(backup) if name.startswith(".")]
    (source / "large").write_bytes(b"not so large any more")
    result = run(source, backup, key, delete=True)
    assert result.deleted == 1
    assert opened(backup, key) == tree(source)
    phalanx.verify_tree(backup, key=key)


VERIFY = """
import signal, sys
import phalanx
signal.signal(signal.SIGINT, signal.default_int_handler)
key = phalanx.Key.from_bytes(bytes(32))
try:
    phalanx.verify_tree(sys.argv[1], key=key, quick=True)
    print("ready", flush=True)
    while True:
        phalanx.verify_tree(sys.argv[1], key=key)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_check(source, backup):
    sparse(source / "large", 64 << 20)
    phalanx.mirror(source, backup, key=phalanx.Key.from_bytes(bytes(32)), sync=False)
    env = child_env() | {"PHALANX_KERNELS": "portable,portable"}
    process = subprocess.Popen(child_args(VERIFY, backup), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n", process.communicate()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (out, process.returncode) == ("interrupted\n", 0), err
    finally:
        process.kill()


def test_other_threads_run_meanwhile_and_several_mirrors_are_made_at_once(tmp_path, source, key):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda n: run(source, tmp_path / f"backup{n}", key), range(4)))
        assert {result.new for result in made} == {FILES + LINKS}
        reports = list(pool.map(lambda n: phalanx.verify_tree(tmp_path / f"backup{n}", key=key), range(4)))
    assert {report.files for report in reports} == {FILES}


HARMLESS = """
import os, signal, sys, threading
import phalanx
seen = []
signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
stop = threading.Event()
def shoot():
    while not stop.wait(0.01):
        os.kill(os.getpid(), signal.SIGUSR1)
thread = threading.Thread(target=shoot)
thread.start()
key = phalanx.Key.generate()
made = phalanx.mirror(sys.argv[1], sys.argv[2], key=key, sync=False, engine="serial")
report = phalanx.verify_tree(sys.argv[2], key=key, engine="serial")
stop.set()
thread.join()
print(made.new, report.files, len(seen) > 0)
"""


def test_signal_handlers_that_do_not_raise_end_nothing(source, backup):
    sparse(source / "large", 64 << 20)
    done = child(HARMLESS, source, backup)
    assert done.stdout == f"{FILES + LINKS + 1} {FILES + 1} True\n", done.stderr
