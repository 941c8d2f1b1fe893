"""Objects in stores, by URL: what `protect`, `unprotect`, `verify` and `mirror` do with them. Servers on the loopback interface."""

import errno
import os
import signal
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import REPOSITORY, child, child_args, child_env, is_one_line, names, needs, painted

import phalanx

needs("moto", "boto3")

from servers import ID, SECRET, Server, Versity, client  # noqa: E402

# More than a part of an upload has: 8 MiB.
LARGE = (20 << 20) + 12345


@pytest.fixture(scope="module")
def moto():
    server = Server()
    yield server
    server.release()
    server.stop()


@pytest.fixture(scope="module", params=["moto", "versitygw"])
def server(request, tmp_path_factory):
    if request.param == "moto":
        yield request.getfixturevalue("moto")
    else:
        server = Versity(tmp_path_factory.mktemp("versitygw"))
        yield server
        server.stop()


def new_bucket(server, tmp_path):
    name = f"bucket-{abs(hash(tmp_path))}"
    client(server.url).create_bucket(Bucket=name)
    return name


@pytest.fixture
def bucket(server, tmp_path):
    """The name of a bucket that no other test has."""
    return new_bucket(server, tmp_path)


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path_factory):
    """Nothing of the user's own counts."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")


@pytest.fixture
def options(server):
    return {"endpoint_url": server.url}


def listed(server, bucket):
    """The names of the objects in a bucket."""
    return [item["Key"] for item in client(server.url).list_objects_v2(Bucket=bucket).get("Contents", [])]


def unfinished(server, bucket):
    return client(server.url).list_multipart_uploads(Bucket=bucket).get("Uploads", [])


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


# Files


@pytest.mark.parametrize("length", [0, 1000, LARGE])
def test_files_go_to_a_store_and_come_back(tmp_path, server, bucket, options, key, length):
    data = painted(length)
    (tmp_path / "plain").write_bytes(data)
    url = f"s3://{bucket}/folder/plain.phx"
    returned = phalanx.protect(tmp_path / "plain", key=key, output=url, storage_options=options)
    assert (returned, type(returned)) == (url, str)
    assert listed(server, bucket) == ["folder/plain.phx"]
    assert phalanx.verify(url, key=key, storage_options=options) == length
    path = phalanx.unprotect(url, key=key, output=tmp_path / "back", storage_options=options)
    assert isinstance(path, Path) and path.read_bytes() == data
    # What lies there is a protected file like any other.
    body = client(server.url).get_object(Bucket=bucket, Key="folder/plain.phx")["Body"].read()
    (tmp_path / "fetched.phx").write_bytes(body)
    assert phalanx.unprotect(tmp_path / "fetched.phx", key=key).read_bytes() == data
    assert names(tmp_path) == ["back", "fetched", "fetched.phx", "plain"]


def test_objects_go_from_url_to_url(tmp_path, server, bucket, options, key, content):
    client(server.url).put_object(Bucket=bucket, Key="plain", Body=content)
    protected, back = f"s3://{bucket}/plain.phx", f"s3://{bucket}/back"
    assert phalanx.protect(f"s3://{bucket}/plain", key=key, output=protected, storage_options=options) == protected
    assert phalanx.unprotect(protected, key=key, output=back, storage_options=options) == back
    assert client(server.url).get_object(Bucket=bucket, Key="back")["Body"].read() == content
    with pytest.raises(phalanx.Error, match="protected already"):
        phalanx.protect(protected, key=key, output=back, overwrite=True, storage_options=options)


def test_an_object_is_replaced_only_with_overwrite(tmp_path, server, bucket, options, key, plain):
    url = f"s3://{bucket}/x.phx"
    for length in (100, LARGE):
        plain.write_bytes(painted(length))
        phalanx.protect(plain, key=key, output=url, overwrite=True, storage_options=options)
        with pytest.raises(FileExistsError) as caught:
            phalanx.protect(plain, key=key, output=url, storage_options=options)
        assert (caught.value.errno, caught.value.filename) == (errno.EEXIST, url)
        assert phalanx.verify(url, key=key, storage_options=options) == length
    assert unfinished(server, bucket) == []


def test_damage_and_wrong_keys_are_found(tmp_path, server, bucket, options, key, other_key, plain, content):
    url = f"s3://{bucket}/x.phx"
    phalanx.protect(plain, key=key, output=url, chunk_size=4096, storage_options=options)
    with pytest.raises(phalanx.WrongKeyError, match="s3://"):
        phalanx.verify(url, key=other_key, storage_options=options)
    body = bytearray(client(server.url).get_object(Bucket=bucket, Key="x.phx")["Body"].read())
    body[-5000] ^= 1
    client(server.url).put_object(Bucket=bucket, Key="x.phx", Body=bytes(body))
    with pytest.raises(phalanx.AuthenticationError) as caught:
        phalanx.unprotect(url, key=key, output=tmp_path / "back", storage_options=options)
    assert caught.value.chunk == 2 and is_one_line(caught.value)
    with pytest.raises(phalanx.AuthenticationError):
        phalanx.unprotect(url, key=key, output=f"s3://{bucket}/back", storage_options=options)
    assert listed(server, bucket) == ["x.phx"] and names(tmp_path) == ["plain.bin"]


# Errors


def test_missing_objects_and_buckets(tmp_path, bucket, options, key, plain):
    for url in (f"s3://{bucket}/none.phx", "s3://no-such-bucket/x.phx"):
        for work in (
            lambda url=url: phalanx.verify(url, key=key, storage_options=options),
            lambda url=url: phalanx.unprotect(url, key=key, output=tmp_path / "back", storage_options=options),
        ):
            with pytest.raises(FileNotFoundError) as caught:
                work()
            assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, url)
    with pytest.raises(FileNotFoundError) as caught:
        phalanx.protect(plain, key=key, output="s3://no-such-bucket/x.phx", storage_options=options)
    assert caught.value.filename == "s3://no-such-bucket/x.phx"
    with pytest.raises(FileNotFoundError) as caught:
        phalanx.protect(tmp_path / "none", key=key, output=f"s3://{bucket}/x.phx", storage_options=options)
    assert caught.value.filename == str(tmp_path / "none")


# moto takes any.
@pytest.mark.parametrize("server", ["versitygw"], indirect=True)
def test_credentials_that_a_store_refuses(bucket, options, key, plain, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    with pytest.raises(PermissionError) as caught:
        phalanx.protect(plain, key=key, output=f"s3://{bucket}/x.phx", storage_options=options)
    assert (caught.value.errno, caught.value.filename) == (errno.EACCES, f"s3://{bucket}/x.phx")
    assert "another-secret" not in str(caught.value)


def test_a_server_that_is_not_there(key, plain):
    options = {"endpoint_url": f"http://127.0.0.1:{free_port()}"}
    with pytest.raises(OSError) as caught:
        phalanx.protect(plain, key=key, output="s3://bucket/x.phx", storage_options=options)
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, "s3://bucket/x.phx")
    assert is_one_line(caught.value)


@pytest.mark.parametrize(
    ("url", "options", "why"),
    [
        ("s3://bucket", {}, "names no object"),
        ("s3://bucket/a//b", {}, "empty parts"),
        ("s3://bucket/x", {"endpoint_url": "http://store.invalid"}, "allow_http=True in storage_options"),
        ("s3://bucket/x", {"endpoint_url": "https://user:password@store.invalid"}, "credentials do not belong in a URL"),
        ("s3://bucket/x", {"region": "here and there"}, "region"),
        ("https://store.invalid/x", {}, "can only be read"),
    ],
)
def test_urls_and_options_that_cannot_be_used(key, plain, url, options, why):
    with pytest.raises(ValueError, match=why) as caught:
        phalanx.protect(plain, key=key, output=url, storage_options=options)
    assert "password" not in str(caught.value) and is_one_line(caught.value)


@pytest.mark.parametrize(
    ("options", "kind", "why"),
    [
        ({"secret": "hidden"}, ValueError, "no secret: credentials come from"),
        ({"requests": 0}, ValueError, "from 1 to 64"),
        ({"requests": 65}, ValueError, "from 1 to 64"),
        ({"requests": "four"}, ValueError, "from 1 to 64"),
        ({"region": 1}, TypeError, "region that is text"),
        ({"allow_http": "no"}, TypeError, "allow_http that is a bool"),
        ({1: 2}, TypeError, "names that are text"),
        ("region", TypeError, "a mapping"),
    ],
)
def test_storage_options_that_there_are_not(key, options, kind, why):
    with pytest.raises(kind, match=why) as caught:
        phalanx.verify("s3://bucket/x", key=key, storage_options=options)
    assert "hidden" not in str(caught.value)


def test_storage_options_are_for_urls(key, plain, tmp_path):
    options = {"region": "us-east-1"}
    for work in (
        lambda: phalanx.protect(plain, key=key, storage_options=options),
        lambda: phalanx.mirror(tmp_path, tmp_path.with_name("mirror"), key=key, storage_options=options),
    ):
        with pytest.raises(ValueError, match="for URLs"):
            work()
    assert phalanx.protect(plain, key=key, storage_options={}).exists()


def test_what_takes_no_urls_says_so(key, plain, tmp_path):
    url = "s3://bucket/x.phx"
    for work in (
        lambda: phalanx.open(url, key=key),
        lambda: phalanx.open(url, "wb", key=key),
        lambda: phalanx.mirror(url, tmp_path / "mirror", key=key),
        lambda: phalanx.mirror(tmp_path, url, key=key, backup_dir=tmp_path / "backup"),
        lambda: phalanx.unprotect(url, key=key),
        lambda: phalanx.protect(url, key=key),
        # It has lost a slash.
        lambda: phalanx.protect(plain, key=key, output=Path(url)),
        lambda: phalanx.verify(Path(url), key=key),
    ):
        with pytest.raises(ValueError) as caught:
            work()
        assert is_one_line(caught.value) and "s3:/" in str(caught.value) or "backup_dir" in str(caught.value)


def test_an_object_is_not_its_own_output(bucket, options, key, plain):
    import shutil

    url = f"s3://{bucket}/x"
    phalanx.protect(plain, key=key, output=url, storage_options=options)
    with pytest.raises(shutil.SameFileError, match="s3://"):
        phalanx.protect(url, key=key, output=url, overwrite=True, storage_options=options)


def test_servers_of_the_web_are_read(tmp_path, key, stored, content):
    """A signature in the address is not shown."""
    import functools
    import http.server

    class Ranges(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            data = stored.read_bytes()
            if "signature=right" not in self.path:
                return self.send_error(403)
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            part = data[int(first) : int(last) + 1]
            self.send_response(206)
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
            self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            return self.wfile.write(part)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Ranges, directory=tmp_path))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/x.phx"
    try:
        path = phalanx.unprotect(f"{url}?signature=right", key=key, output=tmp_path / "back")
        assert path.read_bytes() == content
        with pytest.raises(PermissionError) as caught:
            phalanx.verify(f"{url}?signature=wrong", key=key)
        assert caught.value.filename == url and "wrong" not in str(caught.value)
    finally:
        server.shutdown()
        server.server_close()


# The environment


def test_the_environment_of_each_call_counts(server, bucket, key, plain, monkeypatch):
    """Also what changes between calls, and what Python alone has set."""
    url = f"s3://{bucket}/x.phx"
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(OSError):
        phalanx.verify(url, key=key)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    phalanx.protect(plain, key=key, output=url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(OSError):
        phalanx.verify(url, key=key)
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    assert phalanx.verify(url, key=key) == plain.stat().st_size


def test_profiles_have_credentials_and_addresses(server, bucket, key, plain, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name)
    folder = Path(os.environ["HOME"], ".aws")
    folder.mkdir()
    (folder / "config").write_text(f"[profile work]\nregion = us-east-1\nendpoint_url = {server.url}\n")
    # The program gets the environment of Python.
    monkeypatch.setenv("OF_PYTHON", SECRET)
    process = f"""printf '{{"Version":1,"AccessKeyId":"{ID}","SecretAccessKey":"%s"}}' "$OF_PYTHON" """
    (folder / "credentials").write_text(f"[work]\ncredential_process = {process}\n")
    monkeypatch.setenv("AWS_PROFILE", "work")
    url = f"s3://{bucket}/x.phx"
    assert phalanx.protect(plain, key=key, output=url) == url
    monkeypatch.setenv("AWS_PROFILE", "other")
    with pytest.raises(ValueError, match="no AWS profile other"):
        phalanx.verify(url, key=key)


def test_calls_in_threads_have_options_of_their_own(tmp_path, key, moto):
    """They go to several servers."""
    others = [Server() for _ in range(3)]
    servers = [moto, *others]
    for server in servers:
        client(server.url).create_bucket(Bucket="threads")
        server.requests.clear()
    wrong = {"endpoint_url": f"http://127.0.0.1:{free_port()}"}

    def work(number):
        server = servers[number % len(servers)]
        options = {"endpoint_url": server.url, "requests": 1 + number % 3}
        source, url = tmp_path / f"{number}", f"s3://threads/{number}.phx"
        source.write_bytes(painted(100_000 + number, number))
        before = len(server.requests)
        phalanx.protect(source, key=key, output=url, storage_options=options)
        with pytest.raises(OSError):
            phalanx.verify(url, key=key, storage_options=wrong)
        assert len(server.requests) > before
        return phalanx.verify(url, key=key, storage_options=options)

    try:
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(work, range(16))) == [100_000 + number for number in range(16)]
        # All servers of moto in a process have the same objects, so each one says what was sent to it.
        for place, server in enumerate(servers):
            written = {path for method, path, *_ in server.requests if method == "PUT" and path.endswith(".phx")}
            assert written == {f"/threads/{number}.phx" for number in range(16) if number % 4 == place}
    finally:
        for server in others:
            server.stop()


# Mirrors


def test_a_mirror_in_a_store_is_made_and_renewed(tmp_path, server, bucket, options, key):
    source, url = tmp_path / "source", f"s3://{bucket}/mirror.phx"
    (source / "folder").mkdir(parents=True)
    for number in range(5):
        (source / "folder" / f"{number}").write_bytes(painted(1000 * number, number))
    (source / "large").write_bytes(painted(LARGE))

    def mirror(**more):
        return phalanx.mirror(source, url, key=key, storage_options=options, **more)

    changes = mirror(dry_run=True)
    assert {change.what for change in changes} == {"new"} and listed(server, bucket) == []
    result = mirror()
    assert (result.new, result.unchanged) == (6, 0)
    assert {"mirror.phx/large.phx", "mirror.phx/folder/3.phx"} <= set(listed(server, bucket))
    again = mirror()
    assert (again.new, again.changed, again.unchanged) == (0, 0, 6)
    for quick in (True, False):
        report = phalanx.verify_tree(url, key=key, quick=quick, storage_options=options)
        assert (report.files, report.digest, report.findings) == (6, again.digest, ())
    (source / "folder" / "3").write_bytes(b"another")
    (source / "large").unlink()
    result = mirror(delete=True)
    assert (result.changed, result.deleted, result.unchanged) == (1, 1, 4)
    assert "mirror.phx/large.phx" not in listed(server, bucket)
    back = phalanx.unprotect(f"{url}/folder/3.phx", key=key, output=tmp_path / "3", storage_options=options)
    assert back.read_bytes() == b"another"
    client(server.url).delete_object(Bucket=bucket, Key="mirror.phx/folder/1.phx")
    with pytest.raises(phalanx.TreeError) as caught:
        phalanx.verify_tree(url, key=key, storage_options=options)
    assert [(str(finding.path), finding.kind) for finding in caught.value.findings] == [("folder/1.phx", "missing")]


def test_a_mirror_that_cannot_be_reached(tmp_path, key, plain, server, options):
    with pytest.raises(FileNotFoundError) as caught:
        phalanx.mirror(tmp_path, "s3://no-such-bucket/mirror", key=key, storage_options=options)
    assert caught.value.filename.startswith("s3://no-such-bucket/mirror")


# Interruptions

INTERRUPTED = """
import signal, sys
import phalanx
# Where the tests run in the background of a shell, it is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
what, source, url, endpoint = sys.argv[1:]
key = phalanx.Key.from_bytes(bytes(32))
options = {"endpoint_url": endpoint}
try:
    print("ready", flush=True)
    if what == "protect":
        phalanx.protect(source, key=key, output=url, storage_options=options)
    elif what == "verify":
        phalanx.verify(url, key=key, storage_options=options)
    elif what == "mirror":
        phalanx.mirror(source, url, key=key, storage_options=options)
    print("done")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

HOLDS = {
    # The first look, the beginning of an upload, its parts, its end, an object of one request, and reading.
    "look": ("protect", LARGE, lambda environ: environ["REQUEST_METHOD"] == "HEAD"),
    "begin": ("protect", LARGE, lambda environ: environ["REQUEST_METHOD"] == "POST" and "uploads" in environ["QUERY_STRING"]),
    "parts": ("protect", LARGE, lambda environ: "partNumber=2" in environ["QUERY_STRING"]),
    "complete": ("protect", LARGE, lambda environ: environ["REQUEST_METHOD"] == "POST" and "uploadId" in environ["QUERY_STRING"]),
    "put": ("protect", 1000, lambda environ: environ["REQUEST_METHOD"] == "PUT"),
    "verify": ("verify", LARGE, lambda environ: environ.get("HTTP_RANGE", "bytes=0-").split("-")[0] != "bytes=0"),
    "mirror": ("mirror", LARGE, lambda environ: "partNumber=2" in environ["QUERY_STRING"]),
}


@pytest.mark.parametrize("held", HOLDS)
def test_ctrl_c_ends_a_call_while_a_store_is_slow(tmp_path, moto, held):
    what, length, holds = HOLDS[held]
    bucket = new_bucket(moto, tmp_path)
    (tmp_path / "source").mkdir()
    source = tmp_path / "source" / "file"
    source.write_bytes(painted(length))
    url = f"s3://{bucket}/x.phx"
    if what == "verify":
        phalanx.protect(source, key=phalanx.Key.from_bytes(bytes(32)), output=url, storage_options={"endpoint_url": moto.url})
    before = listed(moto, bucket)
    arguments = child_args(INTERRUPTED, what, source.parent if what == "mirror" else source, url, moto.url)
    moto.hold(holds)
    process = subprocess.Popen(arguments, env=child_env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        assert moto.held.wait(60), "the request that is held has not come"
        process.send_signal(signal.SIGINT)
        # The server still holds the request.
        out, err = process.communicate(timeout=60)
        assert (out, err, process.returncode) == ("interrupted\n", "", 0)
    finally:
        process.kill()
        moto.release()
    if held in ("look", "parts", "verify", "mirror"):
        assert listed(moto, bucket) == before and unfinished(moto, bucket) == []


def test_an_upload_that_begins_slowly_is_aborted(tmp_path, moto):
    """Ctrl-C comes while the request is under way that begins it."""
    bucket = new_bucket(moto, tmp_path)
    (tmp_path / "source").write_bytes(painted(LARGE))
    moto.hold(HOLDS["begin"][2])
    arguments = child_args(INTERRUPTED, "protect", tmp_path / "source", f"s3://{bucket}/x.phx", moto.url)
    process = subprocess.Popen(arguments, env=child_env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert moto.held.wait(60)
        process.send_signal(signal.SIGINT)
        threading.Timer(1, moto.release).start()
        out, err = process.communicate(timeout=60)
        assert (out, err) == ("ready\ninterrupted\n", "")
    finally:
        process.kill()
        moto.release()
    assert listed(moto, bucket) == [] and unfinished(moto, bucket) == []


FORKED = """
import os, sys
import phalanx
source, url, endpoint = sys.argv[1:]
key, options = phalanx.Key.from_bytes(bytes(32)), {"endpoint_url": endpoint}
phalanx.protect(source, key=key, output=url, storage_options=options)
pid = os.fork()
length = phalanx.verify(url, key=key, storage_options=options)
print(length, flush=True)
if pid == 0:
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="skipped: no fork")
def test_a_forked_child_reaches_stores(tmp_path, moto):
    bucket = new_bucket(moto, tmp_path)
    (tmp_path / "source").write_bytes(painted(LARGE))
    done = child(FORKED, tmp_path / "source", f"s3://{bucket}/x.phx", moto.url)
    assert done.stdout == f"{LARGE}\n" * 2 and done.returncode == 0, done.stderr


def test_signatures_lie_beside_their_objects(server, bucket, options, key, tmp_path):
    data = REPOSITORY / "crates/age/tests/data"
    signers = tmp_path / "signers"
    signers.write_text(f"alice@example.org {(data / 'ssh-ed25519.pub').read_text()}")
    private = tmp_path / "alice"
    private.touch(mode=0o600)
    private.write_bytes((data / "ssh-ed25519").read_bytes())
    source, url = tmp_path / "f", f"s3://{bucket}/f.phx"
    source.write_bytes(painted(100_000))
    phalanx.protect(source, key=key, output=url, storage_options=options, sign=private)
    assert listed(server, bucket) == ["f.phx", "f.phx.sig"]
    by = {"key": key, "storage_options": options, "signers": signers}
    assert phalanx.verify(url, **by).signer == "alice@example.org"
    assert phalanx.unprotect(url, output=tmp_path / "back", **by).read_bytes() == painted(100_000)
    phalanx.protect(source, key=key, output=url, storage_options=options, overwrite=True)
    for opens in (lambda: phalanx.verify(url, **by), lambda: phalanx.unprotect(url, output=tmp_path / "other", **by)):
        with pytest.raises(phalanx.AuthenticationError, match="has signed is something else"):
            opens()
    assert not (tmp_path / "other").exists()
    client(server.url).delete_object(Bucket=bucket, Key="f.phx.sig")
    with pytest.raises(phalanx.AuthenticationError, match="f.phx: it is not signed: there is no s3://"):
        phalanx.verify(url, **by)
