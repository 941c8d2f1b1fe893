"""Sealing and opening messages in tasks of asyncio.

Threads on all cores seal and open the messages of all tasks of an event loop, while the loop does other things. What arrives
while all of them are busy is worked on together.

>>> import asyncio
>>> async def main():
...     key = phalanx.Key.generate()
...     sealed = await asyncio.gather(*(phalanx.aio.seal(key, b"record", ad=b"user %d" % n) for n in range(1000)))
...     return await phalanx.aio.unseal(key, sealed[7], ad=b"user 7")
>>> asyncio.run(main())
b'record'
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import weakref
from typing import TYPE_CHECKING

from . import _native

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._native import Key

__all__ = ["seal", "unseal"]

_gatherers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _native.Gatherer] = weakref.WeakKeyDictionary()
_is_ending = False
# In a child process the parent's gatherers have no threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_gatherers.clear)


@atexit.register
def _end() -> None:
    # The gatherers' threads must end before the interpreter does. Other threads may be about to make more gatherers.
    global _is_ending
    _is_ending = True
    for loop in _loops():
        with contextlib.suppress(Exception):
            _forget(loop)


async def seal(key: Key | str, record: Buffer, *, ad: Buffer = b"", cipher: str = "aes-256") -> bytes:
    """Seals a record as :func:`phalanx.seal` does."""
    return await _submit(True, key, record, ad, cipher)


async def unseal(key: Key | str, sealed: Buffer, *, ad: Buffer = b"", cipher: str = "aes-256") -> bytes:
    """Opens a sealed record as :func:`phalanx.unseal` does."""
    return await _submit(False, key, sealed, ad, cipher)


def _submit(seals: bool, key: Key | str, data: Buffer, ad: Buffer, cipher: str) -> asyncio.Future[bytes]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[bytes] = loop.create_future()
    _gatherer(loop).submit(future, seals, key, data, ad, cipher)
    return future


def _loops() -> list[asyncio.AbstractEventLoop]:
    # Loops of other threads come and go meanwhile. The references are listed in one step, which items() does not do.
    return [loop for reference in _gatherers.keyrefs() if (loop := reference()) is not None]


def _forget(loop: asyncio.AbstractEventLoop) -> None:
    # Another thread may just have forgotten the loop.
    gatherer = _gatherers.pop(loop, None)
    if gatherer is not None:
        gatherer.close()


def _forget_closed() -> None:
    """Forgets loops that were closed while messages were under way: the futures of these messages keep them alive."""
    for loop in _loops():
        if loop.is_closed():
            _forget(loop)


def _gatherer(loop: asyncio.AbstractEventLoop) -> _native.Gatherer:
    gatherer = _gatherers.get(loop)
    if gatherer is None:
        _forget_closed()
        # The loop and the gatherer do not keep each other alive.
        its_loop = weakref.ref(loop)

        def schedule() -> bool:
            loop, gatherer = its_loop(), its_gatherer()
            if loop is None or gatherer is None:
                return False
            try:
                loop.call_soon_threadsafe(gatherer.drain)
            except RuntimeError:
                # The loop is closed, so no task waits any more.
                _gatherers.pop(loop, None)
                return False
            return True

        gatherer = _gatherers[loop] = _native.Gatherer(schedule)
        its_gatherer = weakref.ref(gatherer)
        if _is_ending:
            _forget(loop)
    return gatherer
