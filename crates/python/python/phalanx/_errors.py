"""The exceptions of the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._server import RecordFailure
    from ._trees import Finding, MirrorResult, TreeReport


class Error(Exception):
    """Something that Phalanx refuses, or cannot do."""

    __module__ = "phalanx"


class AuthenticationError(Error):
    """The data are not authentic: altered, damaged, or bound to something else. Nothing of them was given out."""

    __module__ = "phalanx"

    failed: list[int] | None = None
    """The places of the messages that are not authentic, if there were several messages."""

    chunk: int | None = None
    """The number of the damaged chunk of a file, from 0."""


class TruncatedError(AuthenticationError):
    """A file ends too early."""

    __module__ = "phalanx"


class ServerError(Error):
    """A server refuses a request, or some of its records, or does not answer as it should."""

    __module__ = "phalanx"

    status: int | None = None
    """The status of HTTP: that of the request, or of the first record that was refused. None if there was no whole answer."""

    failures: tuple[RecordFailure, ...] = ()
    """The records that were refused, in their order. Empty if the whole request was."""

    results: list[bytes | None] | None = None
    """What became of each record: None for those that were refused, and for those that were not answered."""


class TreeError(AuthenticationError):
    """A mirror is not what its manifest lists, or is not the one that was asked for, or has no manifest."""

    __module__ = "phalanx"

    report: TreeReport | None = None
    """What the check found, if it compared the mirror with its manifest."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong, in the order of the paths."""
        return self.report.findings if self.report else ()


class MirrorError(Error):
    """Some files could not be mirrored. Everything else was."""

    __module__ = "phalanx"

    result: MirrorResult | None = None
    """What was done. Nothing, if it was a dry run."""

    failures: tuple[Exception, ...] = ()
    """An exception for each entry that failed, such as :class:`FileNotFoundError` with its ``filename``."""


class WrongKeyError(Error):
    """No key at hand opens the file, or its header was altered."""

    __module__ = "phalanx"


class NotPhalanxError(Error):
    """It is no Phalanx file, or its header is malformed."""

    __module__ = "phalanx"


class UnsupportedError(NotPhalanxError):
    """A file that this version cannot open: a newer one, or the config of a volume."""

    __module__ = "phalanx"


class KeyringError(Error):
    """A key or an identity is missing, damaged, or refused because others could read or change it."""

    __module__ = "phalanx"


class EngineError(Error):
    """An engine failed, or is not there."""

    __module__ = "phalanx"
