"""Protects files, messages and columns with AES and SHA-3.

Files: :func:`protect`, :func:`unprotect` and :func:`verify` do what the command ``phalanx`` does. :func:`open` reads a protected
file by range, and writes one piece by piece. ``phalanx.fsspec`` does so for every file system of fsspec.

Folders: :func:`mirror` keeps a protected copy of a folder up to date, and :func:`verify_tree` finds what somebody has changed in it.

Messages: :func:`seal` and :func:`unseal` one, :func:`seal_many` and :func:`unseal_many` a million, each under its own key.
:func:`seal_column` and :func:`unseal_column` take columns of Apache Arrow. ``phalanx.aio`` is for tasks of asyncio.

A server: :class:`Server` is a client of ``phalanx-server``, which has the keys and seals and opens the records of many users.

Keys are :class:`Key` objects. Everything that is not authentic raises :class:`AuthenticationError`.

Ciphers are ``aes-256`` (the default: AES-256-CTR with SHA-3), ``aes-192``, ``aes-128``, ``aes-256-turbo`` and ``aes-256-gcm``.
"""

from importlib.metadata import version as _version

from ._columns import seal_column, unseal_column
from ._errors import (
    AuthenticationError,
    EngineError,
    Error,
    KeyringError,
    MirrorError,
    NotPhalanxError,
    ServerError,
    TreeError,
    TruncatedError,
    UnsupportedError,
    WrongKeyError,
)
from ._files import ProtectedReader, ProtectedWriter, open
from ._native import Key, protect, seal, seal_many, unprotect, unseal, unseal_many, verify
from ._server import RecordFailure, Server
from ._signed import SignedLength
from ._trees import Finding, MirrorChange, MirrorResult, TreeReport, mirror, verify_tree

__version__ = _version("phalanx")

__all__ = [
    "AuthenticationError",
    "EngineError",
    "Error",
    "Finding",
    "Key",
    "KeyringError",
    "MirrorChange",
    "MirrorError",
    "MirrorResult",
    "NotPhalanxError",
    "ProtectedReader",
    "ProtectedWriter",
    "RecordFailure",
    "Server",
    "ServerError",
    "SignedLength",
    "TreeError",
    "TreeReport",
    "TruncatedError",
    "UnsupportedError",
    "WrongKeyError",
    "mirror",
    "open",
    "protect",
    "seal",
    "seal_column",
    "seal_many",
    "unprotect",
    "unseal",
    "unseal_column",
    "unseal_many",
    "verify",
    "verify_tree",
]
