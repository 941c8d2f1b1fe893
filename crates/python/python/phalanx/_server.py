"""A client of phalanx-server: records of many users in one request, over ``/v2`` (``docs/server-format.md``)."""

from __future__ import annotations

import base64
import http.client
import io
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload
from urllib.parse import urlsplit

from ._errors import ServerError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from typing_extensions import Buffer

_T = TypeVar("_T")

_RECORD = struct.Struct("<HHII")
_ANSWER = struct.Struct("<HHI")
_VERSION = struct.Struct("<I")

# A request is cut so that the server takes all of it before the first answer must be read.
_REQUEST = 4 << 20
# What a record counts as beside its bytes.
_OVERHEAD = 256
# What an answer may have beside the bytes of the request: so much for each record, and once more. A reason takes a line of it.
_MORE = 4096
# How many bytes of lines an answer may have, and so many more for each byte of its content.
_LINES, _LINE = 1 << 20, 16
# How often, and for how many seconds at most, a server that has too much to do is waited for.
_RETRIES, _LONGEST_WAIT = 5, 10.0

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


@dataclass(frozen=True)
class RecordFailure:
    """A record that the server refused."""

    index: int
    """The place of the record, from 0."""
    status: int
    """The status of HTTP that such a request would have: 403 without the right, 400 if a ciphertext is not authentic."""
    reason: str
    """A line that says why."""


class _Input(io.BufferedReader):
    """What a server sends. Lines without end are given up: answers that only announce another one, and what follows the content."""

    _left = _LINES

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        self._left -= len(line)
        if self._left < 0:
            raise http.client.HTTPException("its answer has no end")
        return line

    def read(self, size: int | None = -1, /) -> bytes:
        # A piece of a negative length would be all that comes.
        if size is None or size < 0:
            raise http.client.HTTPException("its answer is malformed")
        data = super().read(size)
        # Content in pieces has more lines, the shorter they are.
        self._left += _LINE * len(data)
        return data


class _Response(http.client.HTTPResponse):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.fp = _Input(self.fp.detach())


class _Connection(http.client.HTTPConnection):
    response_class = _Response


class _TlsConnection(http.client.HTTPSConnection):
    response_class = _Response


class _UnixConnection(_Connection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(self._path)
        except OSError:
            self.close()
            raise


class Server:
    """A connection to a phalanx-server, which stays open. Several threads may use it, one at a time.

    ``address`` is ``unix:/path`` of the server's socket or ``https://host:port``. ``http://`` is for this machine only. ``token``
    is the caller's token; a Unix socket needs none for the server's own user. ``ca`` is a file with the certificates to trust
    (default: the system's), ``cert`` and ``cert_key`` are files with the client's own certificate. ``timeout`` is how many seconds
    the server may be silent.

    ::

        with phalanx.Server("unix:/run/phalanx/server.sock") as server:
            sealed = server.seal("orders", [b"one", b"two"], users=["ada", "grace"])
            assert server.open("orders", sealed, users=["ada", "grace"]) == [b"one", b"two"]
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        ca: str | None = None,
        cert: str | None = None,
        cert_key: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        self._connection = _connection(address, ca, cert, cert_key, timeout)
        self._headers = {"Content-Type": "application/octet-stream"}
        if token is not None:
            # Whatever sends a header with anything else in it would show it in its exception.
            if not isinstance(token, str) or not token or not all("!" <= letter <= "~" for letter in token):
                raise ValueError("a token is text of printable ASCII characters, without spaces or line ends")
            self._headers["X-Vault-Token"] = token
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. The next request opens a new one."""
        with self._lock:
            self._connection.close()

    @overload
    def seal(
        self,
        key: str | Sequence[str],
        texts: Buffer,
        *,
        user: str | Buffer | None = None,
        users: None = None,
        ad: Buffer | None = None,
    ) -> bytes: ...
    @overload
    def seal(
        self,
        key: str | Sequence[str],
        texts: Iterable[Buffer],
        *,
        user: str | Buffer | None = None,
        users: Sequence[str | Buffer] | None = None,
        ad: Buffer | Sequence[Buffer] | None = None,
    ) -> list[bytes]: ...
    def seal(self, key: Any, texts: Any, *, user: Any = None, users: Any = None, ad: Any = None) -> Any:
        """Seals texts, and returns the ciphertexts in the same order, or the only one if ``texts`` is a single text.

        ``key`` is the name of the key, or a sequence with one for each text; ``user`` is the user of all texts, or ``users`` are
        those of each; ``ad`` is the associated data of all, or a sequence with those of each. If some are refused, a
        :class:`ServerError` has the ``failures``, and the ``results`` of the others.
        """
        return self._records("/v2/seal", key, texts, user, users, ad)

    @overload
    def open(
        self,
        key: str | Sequence[str],
        ciphertexts: Buffer,
        *,
        user: str | Buffer | None = None,
        users: None = None,
        ad: Buffer | None = None,
    ) -> bytes: ...
    @overload
    def open(
        self,
        key: str | Sequence[str],
        ciphertexts: Iterable[Buffer],
        *,
        user: str | Buffer | None = None,
        users: Sequence[str | Buffer] | None = None,
        ad: Buffer | Sequence[Buffer] | None = None,
    ) -> list[bytes]: ...
    def open(self, key: Any, ciphertexts: Any, *, user: Any = None, users: Any = None, ad: Any = None) -> Any:
        """Opens ciphertexts, and returns the texts. Everything else is as in :meth:`seal`."""
        return self._records("/v2/open", key, ciphertexts, user, users, ad)

    @overload
    def rewrap(
        self,
        key: str | Sequence[str],
        ciphertexts: Buffer,
        *,
        user: str | Buffer | None = None,
        users: None = None,
        ad: Buffer | None = None,
    ) -> bytes: ...
    @overload
    def rewrap(
        self,
        key: str | Sequence[str],
        ciphertexts: Iterable[Buffer],
        *,
        user: str | Buffer | None = None,
        users: Sequence[str | Buffer] | None = None,
        ad: Buffer | Sequence[Buffer] | None = None,
    ) -> list[bytes]: ...
    def rewrap(self, key: Any, ciphertexts: Any, *, user: Any = None, users: Any = None, ad: Any = None) -> Any:
        """Seals again what is sealed, under the newest version of the key. Everything else is as in :meth:`seal`."""
        return self._records("/v2/rewrap", key, ciphertexts, user, users, ad)

    @staticmethod
    def to_text(ciphertext: Buffer) -> str:
        """The form of a ciphertext under ``/v1``: ``vault:v1:…``."""
        data = bytes(ciphertext)
        if len(data) <= _VERSION.size:
            raise ValueError("a ciphertext is longer")
        return f"vault:v{_VERSION.unpack_from(data)[0]}:{base64.b64encode(data[_VERSION.size :]).decode()}"

    @staticmethod
    def from_text(text: str) -> bytes:
        """The form of a ciphertext under ``/v2``, from ``vault:v1:…``."""
        scheme, _, rest = text.partition(":v")
        version, _, encoded = rest.partition(":")
        is_number = version.isascii() and version.isdecimal() and 0 < int(version) < 1 << 32
        if scheme != "vault" or not is_number or not encoded:
            raise ValueError("it does not begin with vault:v and a version")
        return _VERSION.pack(int(version)) + base64.b64decode(encoded, validate=True)

    def _records(self, path: str, key: Any, texts: Any, user: Any, users: Any, ad: Any) -> Any:
        if isinstance(texts, str):
            raise TypeError("texts are bytes, not str")
        try:
            only = memoryview(texts)
        except TypeError:
            texts = list(texts)
        else:
            # A single text, with one of everything.
            if users is not None:
                raise TypeError("a single text has a user, not users")
            return self._all(path, [_record(key, user, ad, only)])[0]
        count = len(texts)
        keys = [key] * count if isinstance(key, str) else _each("key", key, count)
        if users is not None and user is not None:
            raise TypeError("either user or users")
        users = [user] * count if users is None else _each("users", users, count)
        ads = [ad] * count if ad is None or _is_buffer(ad) else _each("ad", ad, count)
        return self._all(path, list(map(_record, keys, users, ads, texts)))

    def _all(self, path: str, records: list[bytes]) -> list[bytes]:
        """The results of all records."""
        results: list[bytes | None] = []
        failures: list[RecordFailure] = []
        with self._lock:
            for part in _parts(records):
                first = len(results)
                try:
                    answers, last = _answers(self._request(path, part), len(part))
                except ServerError as error:
                    error.results = results + [None] * (len(records) - first)
                    error.failures = tuple(failures)
                    raise
                for status, data in answers:
                    if status:
                        failures.append(RecordFailure(len(results), status, data.decode("utf-8", "replace")))
                    results.append(None if status else data)
                if len(answers) < len(part) or last is not None:
                    self._connection.close()
                    results += [None] * (len(records) - len(results))
                    raise _broken(last, results, failures)
        if failures:
            raise _refused(results, failures)
        return results  # type: ignore[return-value]

    def _request(self, path: str, records: list[bytes]) -> bytes:
        """The body of the answer. While the server has too much to do, it is asked again, but not for ever."""
        body = b"".join(records)
        most = len(body) + _MORE * (len(records) + 1)
        for left in range(_RETRIES, -1, -1):
            status, wait, data = self._once(path, body, most)
            if status == 200:
                return data
            if wait is None or left == 0:
                break
            time.sleep(wait)
        error = ServerError(f"the server refuses the request: {_reason(data)} (status {status})")
        error.status = status
        raise error

    def _once(self, path: str, body: bytes, most: int) -> tuple[int, float | None, bytes]:
        """The status, how long to wait if it may be asked again, and the body, which has so many bytes at most."""
        is_fresh = self._connection.sock is None
        try:
            try:
                response = self._send(path, body)
            except (ConnectionError, http.client.RemoteDisconnected):
                # The server may have closed a connection that was idle. Sealing or opening twice changes nothing.
                self._connection.close()
                if is_fresh:
                    raise
                response = self._send(path, body)
            data = response.read(most + 1)
            if len(data) > most:
                raise ServerError("the server's answer is longer than it can be")
            if response.length:
                raise http.client.IncompleteRead(data, response.length)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            failure = ServerError(f"the server does not answer: {error or type(error).__name__}")
            raise failure from error
        except BaseException:
            # What is left of the answer would be taken for the next one.
            self._connection.close()
            raise
        wait = _wait(response) if response.status in (429, 503) else None
        return response.status, wait, data

    def _send(self, path: str, body: bytes) -> http.client.HTTPResponse:
        try:
            self._connection.request("POST", path, body, self._headers)
        except (BrokenPipeError, ConnectionResetError):
            # The server may have refused the request, and closed, before it was sent.
            if self._connection.sock is None:
                raise
            return self._connection.getresponse()
        return self._connection.getresponse()


def _connection(
    address: str, ca: str | None, cert: str | None, cert_key: str | None, timeout: float
) -> http.client.HTTPConnection:
    if address.startswith("unix:"):
        return _UnixConnection(address.removeprefix("unix:").removeprefix("//"), timeout)
    parts = urlsplit(address)
    if parts.path not in ("", "/") or parts.query or parts.hostname is None:
        raise ValueError("an address is unix:/path, https://host:port, or http://localhost:port")
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=ca)
        if cert is not None:
            context.load_cert_chain(cert, cert_key)
        return _TlsConnection(parts.hostname, parts.port or 443, timeout=timeout, context=context)
    if parts.scheme == "http" and parts.hostname in _LOOPBACK:
        return _Connection(parts.hostname, parts.port or 80, timeout=timeout)
    raise ValueError("texts leave this machine only by https://")


def _is_buffer(value: object) -> bool:
    try:
        memoryview(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def _each(what: str, values: Sequence[_T], count: int) -> list[_T]:
    if isinstance(values, str) or _is_buffer(values):
        raise TypeError(f"{what} has one for each text")
    values = list(values)
    if len(values) != count:
        raise ValueError(f"{what} has {len(values)} for {count} texts")
    return values


def _record(key: str, user: str | Buffer | None, ad: Buffer | None, text: Buffer) -> bytes:
    if isinstance(ad, str) or isinstance(text, str):
        raise TypeError("texts and associated data are bytes, not str")
    name = key.encode()
    person = user.encode() if isinstance(user, str) else bytes(user or b"")
    data, content = bytes(ad or b""), bytes(text)
    try:
        head = _RECORD.pack(len(name), len(person), len(data), len(content))
    except struct.error:
        raise ValueError("a part of a record is too long") from None
    return b"".join((head, name, person, data, content))


def _parts(records: list[bytes]) -> Iterator[list[bytes]]:
    """The records in requests."""
    part: list[bytes] = []
    cost = 0
    for record in records:
        own = len(record) + _OVERHEAD
        if part and cost + own > _REQUEST:
            yield part
            part, cost = [], 0
        part.append(record)
        cost += own
    if part:
        yield part


def _answers(body: bytes, count: int) -> tuple[list[tuple[int, bytes]], tuple[int, str] | None]:
    """The answers to so many records, and the one that ended the stream early."""
    answers: list[tuple[int, bytes]] = []
    view, at = memoryview(body), 0
    while at < len(view):
        if len(view) - at < _ANSWER.size:
            break
        status, zero, length = _ANSWER.unpack_from(view, at)
        at += _ANSWER.size
        if zero or length > len(view) - at or len(answers) > count:
            raise ServerError("the server's answer is malformed")
        answers.append((status, bytes(view[at : at + length])))
        at += length
    if at != len(view):
        raise ServerError("the server's answer is malformed")
    if len(answers) > count:
        status, reason = answers.pop()
        return answers, (status, reason.decode("utf-8", "replace"))
    return answers, None


def _broken(
    last: tuple[int, str] | None, results: list[bytes | None], failures: list[RecordFailure]
) -> ServerError:
    # If there is one answer for each record that was whole, and one more, the last one is about the stream.
    status, reason = last or ((failures[-1].status, failures[-1].reason) if failures else (None, "it ends too early"))
    error = ServerError(f"the server broke the answer off: {reason}")
    error.status, error.results, error.failures = status, results, tuple(failures)
    return error


def _refused(results: list[bytes | None], failures: list[RecordFailure]) -> ServerError:
    first = failures[0]
    count = "a record" if len(failures) == 1 else f"{len(failures)} records"
    error = ServerError(f"the server refuses {count}: record {first.index}: {first.reason} (status {first.status})")
    error.status, error.results, error.failures = first.status, results, tuple(failures)
    return error


def _wait(response: http.client.HTTPResponse) -> float | None:
    text = response.getheader("Retry-After", "")
    return min(float(text), _LONGEST_WAIT) if text.isascii() and text.isdecimal() else None


def _reason(body: bytes) -> str:
    """What an error in JSON says."""
    try:
        errors = json.loads(body)["errors"]
        return "; ".join(map(str, errors)) or "no reason is given"
    except (ValueError, KeyError, TypeError):
        return "no reason is given"
