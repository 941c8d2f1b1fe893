"""One Parquet column of many over S3: protected, against the plain file.

    go install github.com/versity/versitygw/cmd/versitygw@latest
    python benches/s3_column.py --server $(go env GOPATH)/bin/versitygw
    python benches/s3_column.py --server http://127.0.0.1:9000    # with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
    python benches/s3_column.py                                   # moto's server: see below

Both ways read with pandas through s3fs without read-ahead, which is the faster way for the plain file. The reads take turns, and
nothing is kept from one to the next but the connections. All requests go through a relay, which counts the bytes and can hold
each request back for as long as a far store would (--latency).

moto reads a whole object for each range of it, so that its times say how many ranges were asked for, and little else.
"""

import argparse
import asyncio
import contextlib
import io
import json
import multiprocessing
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import fsspec
import numpy
import pandas
import pyarrow
import pyarrow.parquet

import phalanx

CREDENTIALS = ("loopback", "loopback-secret")


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@contextlib.contextmanager
def running(server):
    """The host and port of an S3 server, and what it is called."""
    if server.startswith("http://"):
        host, _, port = server.removeprefix("http://").rstrip("/").partition(":")
        yield host, int(port or 80), server
        return
    port, folder = free_port(), tempfile.mkdtemp()
    if server == "moto":
        code = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
        command = [sys.executable, "-c", code]
    else:
        access, secret = CREDENTIALS
        command = [
            server,
            "--access",
            access,
            "--secret",
            secret,
            "--port",
            f"127.0.0.1:{port}",
            "--keep-alive",
            "--quiet",
        ]
        command += ["posix", "--sidecar", tempfile.mkdtemp(dir=folder), tempfile.mkdtemp(dir=folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        else:
            raise SystemExit(f"{command[0]}: it does not answer")
        yield "127.0.0.1", port, os.path.basename(server)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def relay(host, port, latency, ready, received):
    """Passes connections on, counts what comes back, and holds back what goes out."""

    async def connected(reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection(host, port)
        except OSError:
            writer.close()
            return

        async def out():
            while data := await reader.read(1 << 16):
                # A store answers so much later. What follows at once is the same request.
                if latency and len(data) < 1 << 15:
                    await asyncio.sleep(latency)
                far_writer.write(data)
                await far_writer.drain()
            far_writer.close()

        async def back():
            while data := await far_reader.read(1 << 20):
                with received.get_lock():
                    received.value += len(data)
                writer.write(data)
                await writer.drain()
            writer.close()

        with contextlib.suppress(OSError):
            await asyncio.gather(out(), back())

    async def serve():
        server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=1 << 20)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--server", default="moto", help="moto, the path of versitygw, or http://HOST:PORT (default: moto)"
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table (default: %(default)s)")
    parser.add_argument("--columns", type=int, default=20, help="columns of the table (default: %(default)s)")
    parser.add_argument("--groups", type=int, default=1, help="row groups of the file (default: %(default)s)")
    parser.add_argument("--chunk-size", type=int, default=64 << 10, help="of the protected file (default: %(default)s)")
    parser.add_argument(
        "--latency", type=float, default=0, help="milliseconds that each request is held back (default: 0)"
    )
    parser.add_argument("--rounds", type=int, default=15, help="(default: %(default)s)")
    parser.add_argument("--json", help="where the raw times go")
    args = parser.parse_args()

    received = multiprocessing.Value("Q", 0)
    ready, send = multiprocessing.Pipe(duplex=False)
    with running(args.server) as (host, port, server):
        process = multiprocessing.Process(
            target=relay, args=(host, port, args.latency / 1000, send, received), daemon=True
        )
        process.start()
        endpoint = f"http://127.0.0.1:{ready.recv()}"
        try:
            result = measure(args, endpoint, received, server)
        finally:
            process.kill()
    show(args, result)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(result, file, indent=1)


def measure(args, endpoint, received, server):
    access, secret = CREDENTIALS
    if args.server.startswith("http://"):
        access, secret = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
    s3 = {"endpoint_url": endpoint, "key": access, "secret": secret, "default_cache_type": "none"}
    key = phalanx.Key.generate()
    ways = {"plain": s3, "protected": {"phalanx": {"key": key, "chunk_size": args.chunk_size}, "s3": s3}}
    store = fsspec.filesystem("s3", **s3)
    bucket = f"phalanx-bench-{os.getpid()}"
    store.mkdir(bucket)
    urls = {"plain": f"s3://{bucket}/plain.parquet", "protected": f"phalanx::s3://{bucket}/table.parquet.phx"}
    content = parquet(args)
    for way, url in urls.items():
        with fsspec.open(url, "wb", **ways[way]) as file:
            file.write(content)
    column = f"c{args.columns // 2}"
    times, fetched = {way: [] for way in ways}, {}
    try:
        for turn in range(args.rounds + 1):
            for way in sorted(ways, reverse=turn % 2):
                fs, _ = fsspec.url_to_fs(urls[way], **ways[way])
                fs.invalidate_cache()
                if way == "protected":
                    fs._cache.clear()
                before, start = received.value, time.perf_counter()
                found = pandas.read_parquet(urls[way], columns=[column], storage_options=ways[way])
                taken = time.perf_counter() - start
                assert len(found) == args.rows
                fetched[way] = received.value - before
                if turn:
                    times[way].append(taken)
    finally:
        store.rm(bucket, recursive=True)
    return {
        "server": server,
        "latency_ms": args.latency,
        "file_bytes": len(content),
        "fetched_bytes": fetched,
        "seconds": times,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {
            "python": platform.python_version(),
            **{module.__name__: module.__version__ for module in (phalanx, pandas, pyarrow, fsspec)},
        },
        "commit": commit(),
    }


def parquet(args):
    values = numpy.random.default_rng(1)
    table = pyarrow.table({f"c{column}": values.random(args.rows) for column in range(args.columns)})
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file, row_group_size=-(-args.rows // args.groups), use_dictionary=False)
    return file.getvalue()


def commit():
    done = subprocess.run(
        ["git", "-C", os.path.dirname(__file__), "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    )
    return done.stdout.strip() or "unknown"


def show(args, result):
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    print(
        f"{result['server']}, {result['latency_ms']:g} ms held back; {result['machine']}; {versions}; {result['commit']}"
    )
    print(f"one of {args.columns} columns, {args.groups} row groups, a file of {result['file_bytes'] / 2**20:.1f} MiB")
    print(f"{'':12}{'MiB fetched':>12}{'median ms':>12}{'fastest ms':>12}")
    medians = {way: statistics.median(times) for way, times in result["seconds"].items()}
    for way, times in result["seconds"].items():
        fetched = result["fetched_bytes"][way] / 2**20
        print(f"{way:12}{fetched:12.2f}{medians[way] * 1000:12.1f}{min(times) * 1000:12.1f}")
    more = result["fetched_bytes"]["protected"] / result["fetched_bytes"]["plain"]
    print(f"{'ratio':12}{more:12.3f}{medians['protected'] / medians['plain']:12.3f}")


if __name__ == "__main__":
    main()
