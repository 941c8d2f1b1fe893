"""Mirrors: protected copies of folders, with a manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _native
from ._errors import MirrorError, TreeError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._native import Key, _Path


@dataclass(frozen=True)
class MirrorResult:
    """What a run of :func:`mirror` did. Files and links are counted, folders are not."""

    new: int
    """How many are new in the mirror."""
    changed: int
    """How many were written again."""
    moved: int
    """How many files were renamed in the mirror."""
    metadata: int
    """How many files got other permissions or times only."""
    deleted: int
    """How many were deleted in the mirror."""
    unchanged: int
    """How many needed nothing."""
    bytes: int
    """How many bytes of plaintext were protected."""
    generation: int
    """The generation of the mirror's manifest, for ``at_least`` of :func:`verify_tree`."""
    digest: str
    """The digest of the mirror's manifest, for ``expect`` of :func:`verify_tree`."""
    left_out: tuple[tuple[Path, str], ...]
    """The paths in the source of what is neither a file nor a folder nor a link, and what it is."""


@dataclass(frozen=True)
class MirrorChange:
    """What a run of :func:`mirror` would do with an entry."""

    path: Path
    """Its path in the source, from there on."""
    what: str
    """One of new, changed, compared, permissions, moved and deleted."""
    moved_from: Path | None
    """Where it was, if it is moved."""


@dataclass(frozen=True)
class Finding:
    """Something in a mirror that is not what its manifest lists."""

    path: Path
    """Its path in the mirror, from there on."""
    kind: str
    """One of missing, renamed, additional, copy, exchanged, replaced, other version, damaged, wrong key and unreadable."""
    detail: str
    """What the command says of it."""


@dataclass(frozen=True)
class TreeReport:
    """What :func:`verify_tree` found."""

    files: int
    """How many files are what the manifest lists."""
    bytes: int
    """How many bytes of plaintext they have."""
    generation: int
    """The manifest's generation. It grows with each manifest."""
    digest: str
    """The manifest's digest. It stands for the whole mirror."""
    findings: tuple[Finding, ...]
    """What is wrong, in the order of the paths."""
    signer: str | None
    """Who has signed the manifest, if ``signers`` was given."""


@overload
def mirror(
    source: _Path,
    mirror: _Path,
    *,
    key: Key | str | None = None,
    keys: Sequence[Key | str] = (),
    password: str | Buffer | None = None,
    recipients: Sequence[str] = (),
    kms: Sequence[str] = (),
    cipher: str = "aes-256",
    chunk_size: int = 1 << 20,
    delete: bool = False,
    max_delete: int | None = None,
    delete_excluded: bool = False,
    backup_dir: _Path | None = None,
    checksum: bool = False,
    new: bool = False,
    dry_run: Literal[False] = False,
    exclude: Sequence[str] = (),
    exclude_from: Sequence[_Path] = (),
    only: Sequence[_Path] | None = None,
    exclude_caches: bool = False,
    exclude_if_present: Sequence[str] = (),
    one_file_system: bool = False,
    sync: bool = True,
    threads: int | None = None,
    engine: str = "auto",
    storage_options: Mapping[str, Any] | None = None,
    sign: _Path | None = None,
) -> MirrorResult: ...
@overload
def mirror(
    source: _Path,
    mirror: _Path,
    *,
    key: Key | str | None = None,
    keys: Sequence[Key | str] = (),
    password: str | Buffer | None = None,
    recipients: Sequence[str] = (),
    kms: Sequence[str] = (),
    cipher: str = "aes-256",
    chunk_size: int = 1 << 20,
    delete: bool = False,
    max_delete: int | None = None,
    delete_excluded: bool = False,
    backup_dir: _Path | None = None,
    checksum: bool = False,
    new: bool = False,
    dry_run: Literal[True],
    exclude: Sequence[str] = (),
    exclude_from: Sequence[_Path] = (),
    only: Sequence[_Path] | None = None,
    exclude_caches: bool = False,
    exclude_if_present: Sequence[str] = (),
    one_file_system: bool = False,
    sync: bool = True,
    threads: int | None = None,
    engine: str = "auto",
    storage_options: Mapping[str, Any] | None = None,
    sign: _Path | None = None,
) -> tuple[MirrorChange, ...]: ...
def mirror(
    source: _Path,
    mirror: _Path,
    *,
    key: Key | str | None = None,
    keys: Sequence[Key | str] = (),
    password: str | Buffer | None = None,
    recipients: Sequence[str] = (),
    kms: Sequence[str] = (),
    cipher: str = "aes-256",
    chunk_size: int = 1 << 20,
    delete: bool = False,
    max_delete: int | None = None,
    delete_excluded: bool = False,
    backup_dir: _Path | None = None,
    checksum: bool = False,
    new: bool = False,
    dry_run: bool = False,
    exclude: Sequence[str] = (),
    exclude_from: Sequence[_Path] = (),
    only: Sequence[_Path] | None = None,
    exclude_caches: bool = False,
    exclude_if_present: Sequence[str] = (),
    one_file_system: bool = False,
    sync: bool = True,
    threads: int | None = None,
    engine: str = "auto",
    storage_options: Mapping[str, Any] | None = None,
    sign: _Path | None = None,
) -> MirrorResult | tuple[MirrorChange, ...]:
    """Makes or renews the protected mirror of a folder, and writes only what has changed since the last run.

    ``key``, ``keys``, ``password`` and ``recipients`` say who can open the mirror, as for :func:`phalanx.protect`. With public keys
    alone, this machine can write the mirror and cannot read it. The manifest is written last.

    ``delete`` deletes what is gone at the source. A run that would delete suspiciously much, or more files than ``max_delete``, does
    nothing and raises :class:`phalanx.Error`. Files that have become links or folders count without ``delete`` too: they are replaced. ``backup_dir`` keeps what is replaced or deleted. ``checksum`` compares contents.
    If the mirror that this machine has seen there is gone, or its manifest is, ``new`` makes another one.

    ``exclude`` has patterns of what is left out, in order, and the first that matches decides. Each one is like a line of a file
    for ``exclude_from``: ``"+ PATTERN"`` keeps what it matches. ``only`` names the only paths that are taken, relative to the
    source. ``exclude_caches``, ``exclude_if_present`` and ``one_file_system`` are the command's options. What is left out stays in
    the mirror, but for ``delete_excluded``.

    ``sign`` is the path of an SSH key that signs the manifest, which stands for the whole mirror, as for :func:`phalanx.protect`. If
    somebody else may have written the old manifest, such a run fails.

    ``dry_run`` writes nothing, and returns what would be done.

    ``mirror`` can be the URL of a folder in an object store, as a str. ``storage_options`` is as for :func:`phalanx.protect`.

    If some files cannot be mirrored, the others are, nothing is deleted, and :class:`phalanx.MirrorError` is raised at the end.
    Ctrl-C ends a run and leaves the old manifest. The next run goes on.

    >>> import os
    >>> key = phalanx.Key.generate()
    >>> os.mkdir("project")
    >>> with open("project/notes.txt", "w") as f: _ = f.write("one")
    >>> phalanx.mirror("project", "backup", key=key).new
    1
    >>> phalanx.mirror("project", "backup", key=key).unchanged
    1
    >>> os.rename("project/notes.txt", "project/old.txt")
    >>> for change in phalanx.mirror("project", "backup", key=key, dry_run=True): print(change.what, change.path)
    moved old.txt
    """
    numbers, changes, left_out, failures = _native.mirror(
        source,
        mirror,
        key=key,
        keys=keys,
        password=password,
        recipients=recipients,
        kms=kms,
        cipher=cipher,
        chunk_size=chunk_size,
        delete=delete,
        max_delete=max_delete,
        delete_excluded=delete_excluded,
        backup_dir=backup_dir,
        checksum=checksum,
        new=new,
        dry_run=dry_run,
        exclude=exclude,
        exclude_from=exclude_from,
        only=only,
        exclude_caches=exclude_caches,
        exclude_if_present=exclude_if_present,
        one_file_system=one_file_system,
        sync=sync,
        threads=threads,
        engine=engine,
        storage_options=storage_options,
        sign=sign,
    )
    result = MirrorResult(*numbers, left_out=tuple(left_out)) if numbers else None
    if failures:
        first = str(failures[0])
        error = MirrorError(first if len(failures) == 1 else f"{len(failures)} failures, the first is {first}")
        error.result, error.failures = result, tuple(failures)
        raise error
    return result if result else tuple(MirrorChange(*change) for change in changes)


def verify_tree(
    path: _Path,
    *,
    key: Key | str | None = None,
    keys: Sequence[Key | str] = (),
    password: str | Buffer | None = None,
    identities: Sequence[_Path] = (),
    kms: Sequence[str] = (),
    quick: bool = False,
    expect: str | None = None,
    at_least: int | None = None,
    accept: bool = False,
    threads: int | None = None,
    engine: str = "auto",
    storage_options: Mapping[str, Any] | None = None,
    signers: _Path | None = None,
    revoked: _Path | None = None,
) -> TreeReport:
    """Checks a mirror against its manifest, and every chunk of its files. Writes nothing to it.

    If anything is damaged, missing, additional, exchanged, renamed or another version, :class:`phalanx.TreeError` is raised, which is
    an :class:`phalanx.AuthenticationError` and has all ``findings``. So it is if the mirror has no manifest. ``key``, ``keys``,
    ``password`` and ``identities`` open the mirror, as for :func:`phalanx.verify`.

    ``quick`` compares names, links, lengths and last chunks, and reads no other content. ``expect`` is the digest of the manifest
    that the mirror must have, and ``at_least`` the generation that it must have reached. This machine remembers the last generation
    of each mirror, and an older one is a :class:`RuntimeWarning`. ``accept`` takes the mirror as it is from now on.
    With ``signers``, the manifest must be signed by one of them, as for :func:`phalanx.unprotect`.
    ``path`` can be the URL of a folder in an object store, as a str. ``storage_options`` is as for :func:`phalanx.protect`.

    >>> import os
    >>> key = phalanx.Key.generate()
    >>> os.mkdir("photos")
    >>> with open("photos/1.jpg", "w") as f: _ = f.write("a picture")
    >>> _ = phalanx.mirror("photos", "safe", key=key)
    >>> phalanx.verify_tree("safe", key=key).files
    1
    >>> os.rename("safe/1.jpg.phx", "safe/2.jpg.phx")
    >>> try: phalanx.verify_tree("safe", key=key)
    ... except phalanx.TreeError as error: print(*[finding.kind for finding in error.findings])
    renamed copy
    """
    files, length, generation, digest, signer, findings, line = _native.verify_tree(
        path,
        key=key,
        keys=keys,
        password=password,
        identities=identities,
        kms=kms,
        quick=quick,
        expect=expect,
        at_least=at_least,
        accept=accept,
        threads=threads,
        engine=engine,
        storage_options=storage_options,
        signers=signers,
        revoked=revoked,
    )
    report = TreeReport(files, length, generation, digest, tuple(Finding(*finding) for finding in findings), signer)
    if report.findings:
        error = TreeError(line)
        error.report = report
        raise error
    return report
