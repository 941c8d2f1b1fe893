"""The client of phalanx-server: its streams against the vectors, and itself against the program."""

import contextlib
import http.server
import os
import struct
import subprocess
import threading
import time
import traceback

import pytest

import phalanx
from conftest import REPOSITORY, missing
from phalanx import _server
from test_vectors import scenarios


# An answer to one record.
ONE = struct.pack("<HHI", 0, 0, 3) + b"one"


def texts(failures):
    return [(failure.index, failure.status) for failure in failures]


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    """The address of a server that runs, which has the keys ``orders`` and ``log``."""
    program = os.environ.get("PHALANX_SERVER", REPOSITORY / "target" / "debug" / "phalanx-server")
    if not os.access(program, os.X_OK):
        missing("phalanx-server")
    folder = tmp_path_factory.mktemp("server")
    key, place = folder / "key", folder / "dir"
    key.write_bytes(bytes(32))
    key.chmod(0o600)
    subprocess.run([program, "init", "--dir", place, "--key-file", key], check=True, stdin=subprocess.DEVNULL)
    with subprocess.Popen([program, "run", "--dir", place, "--key-file", key], stdin=subprocess.DEVNULL) as process:
        try:
            end = time.monotonic() + 60
            while not (place / "server.sock").exists():
                assert process.poll() is None and time.monotonic() < end
                time.sleep(0.005)
            for name in ["orders", "log"]:
                subprocess.run([program, "key", "new", name, "--dir", place], check=True, stdin=subprocess.DEVNULL)
            yield f"unix:{place / 'server.sock'}"
        finally:
            process.kill()


@pytest.fixture
def server(address):
    with phalanx.Server(address) as server:
        yield server


def test_streams_are_those_of_the_vectors():
    for name, vector in scenarios("streams", 9):
        parts = [{field: bytes.fromhex(value) for field, value in record.items()} for record in vector["records"]]
        records = [_server._record(part["key"].decode(), part["user"], part["ad"], part["text"]) for part in parts]
        assert bytes.fromhex(vector["request"]).startswith(b"".join(records)), name
        answers, last = _server._answers(bytes.fromhex(vector["answer"]), len(records))
        expected = [(answer["status"], bytes.fromhex(answer["bytes"])) for answer in vector["answers"]]
        assert answers == expected[: len(records)], name
        assert (last is None) == (len(expected) == len(records)), name
        if last is not None:
            assert last == (expected[-1][0], expected[-1][1].decode()), name


def test_an_answer_that_is_cut_is_seen():
    answer = bytes.fromhex(dict(scenarios("streams", 9))["open"]["answer"])
    for length in range(len(answer)):
        try:
            answers, last = _server._answers(answer[:length], 3)
        except phalanx.ServerError:
            continue
        assert len(answers) < 3 and last is None


def test_ciphertexts_have_two_forms():
    for name, vector in scenarios("server", 64):
        if "text" in vector:
            ciphertext = bytes.fromhex(vector["ciphertext"])
            assert phalanx.Server.to_text(ciphertext) == vector["text"], name
            assert phalanx.Server.from_text(vector["text"]) == ciphertext, name
    for text in ["", "vault:v1", "vault:v1:", "vault:v0:AA==", "vault:v-1:AA==", "vault:v4294967296:AA==", "v1:AA==", "vault:v1:A"]:
        with pytest.raises(ValueError):
            phalanx.Server.from_text(text)


def test_texts_leave_this_machine_only_by_tls():
    for address in ["", "host:8200", "http://example.org:1", "http://127.0.0.1.example.org", "https://host/path", "ftp://localhost"]:
        with pytest.raises(ValueError):
            phalanx.Server(address)
    for address in ["https://host:8200", "https://host/", "http://127.0.0.1:1", "http://[::1]:1", "unix:/a/b"]:
        phalanx.Server(address).close()


@pytest.mark.parametrize("token", ["secret\n", "sec ret", "secret\r\nX: y", "secretü", "secret\ud800", "secret\x7f", "", b"secret"])
def test_a_token_that_cannot_be_sent_is_not_shown(token):
    with pytest.raises(ValueError, match="a token is text") as raised:
        phalanx.Server("http://127.0.0.1:1", token=token).seal("orders", b"one", user="ada")
    for shown in (str(raised.value), repr(raised.value), "".join(traceback.format_exception(raised.value))):
        assert "secret" not in shown


def test_a_busy_server_is_asked_again_and_not_for_ever():
    asked = []

    class Busy(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(self.rfile.read(int(self.headers["Content-Length"])))
            body = b'{"errors":["too many bytes are in flight"]}'
            self.send_response(429)
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Busy) as busy:
        threading.Thread(target=busy.serve_forever).start()
        try:
            with (
                phalanx.Server(f"http://127.0.0.1:{busy.server_port}") as server,
                pytest.raises(phalanx.ServerError, match="in flight") as caught,
            ):
                server.seal("orders", [b"one"], user="ada")
        finally:
            busy.shutdown()
    assert caught.value.status == 429 and caught.value.results == [None]
    assert len(asked) == 6


@pytest.fixture
def answering():
    """Starts servers that answer with what a function writes to the connection, and returns their addresses."""
    servers = []

    def start(answer):
        class Answers(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                with contextlib.suppress(ConnectionError):
                    answer(self.wfile.write)
                self.close_connection = True

            def log_message(self, *_):
                pass

        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers))
        threading.Thread(target=servers[-1].serve_forever).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("status", [200, 403])
@pytest.mark.parametrize("is_chunked", [True, False], ids=["in pieces", "with a length"])
def test_an_answer_without_end_is_given_up(answering, status, is_chunked):
    """It is not collected: a server that lies must not take the memory of the program."""
    told, sent = [], 0

    def answer(write):
        nonlocal sent
        told.append(None)
        write(f"HTTP/1.1 {status} OK\r\n".encode())
        write(b"Transfer-Encoding: chunked\r\n\r\n" if is_chunked else b"Content-Length: 4000000000\r\n\r\n")
        for _ in range(1000):
            write(b"10000\r\n" * is_chunked + bytes(1 << 16) + b"\r\n" * is_chunked)
            sent += 1 << 16

    with phalanx.Server(answering(answer)) as server:
        for _ in range(2):
            with pytest.raises(phalanx.ServerError, match="longer than it can be"):
                server.seal("orders", [b"one"], user="ada")
    # What is sent beyond that is in the buffers of the connection.
    assert len(told) == 2 and sent < 60 << 20


@pytest.mark.parametrize(
    ("first", "next_"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n" + ONE + b"\r\n0\r\n", b"X: y\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", b"x"),
    ],
    ids=["announced", "trailer", "negative"],
)
def test_lines_without_end_are_given_up(answering, first, next_):
    """Not all versions of http.client have a bound of their own."""
    sent, block = 0, next_ * ((1 << 16) // len(next_))

    def answer(write):
        nonlocal sent
        write(first)
        for _ in range(1000):
            write(block)
            sent += len(block)

    with phalanx.Server(answering(answer)) as server, pytest.raises(phalanx.ServerError, match="the server does not answer: "):
        server.seal("orders", [b"one"], user="ada")
    # What is sent beyond that is in the buffers of the connection.
    assert sent < 60 << 20


@pytest.mark.parametrize("length", [1, 2, 11])
def test_an_answer_may_come_in_short_pieces(answering, length):
    pieces = [ONE[at : at + length] for at in range(0, len(ONE), length)]

    def answer(write):
        for _ in range(3):
            write(b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\n")
        write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in pieces:
            write(b"%x\r\n" % len(piece) + piece + b"\r\n")
        write(b"0\r\nX: y\r\n\r\n")

    with phalanx.Server(answering(answer)) as server:
        assert server.seal("orders", [b"one"], user="ada") == [b"one"]


def test_an_answer_that_ends_before_its_length_is_an_error(answering):
    def answer(write):
        write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (len(ONE) + 1))
        write(ONE)

    with phalanx.Server(answering(answer)) as server, pytest.raises(phalanx.ServerError, match="does not answer"):
        server.seal("orders", [b"one"], user="ada")


def test_records_come_back(server):
    many = [bytes([i % 251]) * (i % 700) for i in range(20_000)]
    users = [b"user %d" % i for i in range(len(many))]
    keys = ["orders" if i % 2 else "log" for i in range(len(many))]
    sealed = server.seal(keys, many, users=users, ad=b"v1")
    assert server.open(keys, sealed, users=users, ad=b"v1") == many
    again = server.rewrap(keys, sealed, users=users, ad=b"v1")
    assert server.open(keys, again, users=users, ad=b"v1") == many
    assert server.seal("orders", []) == []


def test_one_text_has_one_ciphertext(server):
    sealed = server.seal("orders", bytearray(b"one"), user="ada")
    assert server.open("orders", memoryview(sealed), user=b"ada") == b"one"
    assert server.open("orders", [server.rewrap("orders", sealed, user="ada")], user="ada") == [b"one"]


def test_refusals_are_those_of_their_records(server):
    one = server.seal("orders", b"one", user="ada", ad=b"v1")
    with pytest.raises(phalanx.ServerError, match="record 1: .*status 404") as caught:
        server.open(["orders", "none", "orders"], [one, one, one[:-1]], user="ada", ad=b"v1")
    assert texts(caught.value.failures) == [(1, 404), (2, 400)]
    assert caught.value.results == [b"one", None, None]
    for other in [{"user": "bob", "ad": b"v1"}, {"user": "ada"}, {"user": "ada", "ad": b"v2"}]:
        with pytest.raises(phalanx.ServerError) as caught:
            server.open("orders", one, **other)
        assert caught.value.status == 400


def test_what_breaks_a_stream_off_leaves_what_came_before(server):
    many = [b"one", bytes((1 << 20) + 1), b"three"]
    with pytest.raises(phalanx.ServerError, match="longer than 1048576 bytes") as caught:
        server.seal("orders", many, user="ada")
    assert caught.value.results[0] is not None and caught.value.results[1:] == [None, None]
    # The next request has a connection of its own.
    assert len(server.seal("orders", [b"one"], user="ada")) == 1


def test_arguments_that_do_not_fit_are_refused(server):
    for arguments in [
        {"texts": "text"},
        {"texts": ["text"]},
        {"texts": [b"one"], "user": "ada", "users": ["ada"]},
        {"texts": [b"one"], "users": "a"},
        {"texts": b"one", "users": ["ada"]},
    ]:
        with pytest.raises(TypeError):
            server.seal("orders", **arguments)
    with pytest.raises(ValueError):
        server.seal("orders", [b"one"], users=["ada", "bob"])
    with pytest.raises(ValueError):
        server.seal("orders", [b"one"], user=bytes(70_000))


def test_threads_take_turns(server):
    failures = []

    def work(name):
        try:
            for _ in range(20):
                sealed = server.seal("orders", [name], user=name)
                assert server.open("orders", sealed, user=name) == [name]
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(b"%d" % i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_server_that_is_not_there_is_an_error(tmp_path):
    with phalanx.Server(f"unix:{tmp_path / 'nothing'}") as server, pytest.raises(phalanx.ServerError, match="does not answer"):
        server.seal("orders", b"one", user="ada")
