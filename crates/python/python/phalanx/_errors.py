"""The exceptions of the package."""


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
