"""Keys by names that are looked up outside the keyring: ``env:NAME`` and ``call:package.module:function``.

A name comes from the caller alone, never from a file: what ``call:`` names is run.
"""

from __future__ import annotations

import os
import pkgutil
import re

from ._errors import KeyringError
from ._native import Key


def find(name: str) -> Key:
    """The key of a name with a colon."""
    kind, _, rest = name.partition(":")
    if kind == "env":
        return _of_environment(rest)
    if kind == "call":
        return _of_call(rest)
    raise ValueError("a key's name with a colon is env:NAME or call:package.module:function")


def _of_environment(variable: str) -> Key:
    # A text that does not look like a name may be a secret, so it is not repeated.
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", variable):
        raise ValueError("env: is followed by the name of an environment variable: letters, digits and _")
    if variable not in os.environ:
        raise KeyringError(f"env:{variable}: the environment variable is not set here: it holds a key's text")
    try:
        # No variable here has the text, because some tools show the variables of a traceback.
        return Key.from_text(os.environ[variable])
    except KeyringError as error:
        raise KeyringError(f"env:{variable}: {error}") from None


def _of_call(path: str) -> Key:
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*", path):
        raise ValueError("call: is followed by package.module:function")
    try:
        function = pkgutil.resolve_name(path)
    except ModuleNotFoundError as error:
        raise KeyringError(f"call:{path}: no module named {error.name}") from error
    except Exception as error:
        raise KeyringError(f"call:{path}: the import raised {type(error).__name__}") from error
    try:
        key = function()
    except Exception as error:
        raise KeyringError(f"call:{path}: it raised {type(error).__name__}") from error
    if not isinstance(key, Key):
        raise KeyringError(f"call:{path}: it returned {type(key).__name__} instead of a phalanx.Key")
    return key
