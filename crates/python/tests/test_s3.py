"""Protected objects in a store like S3, on the loopback interface: what they cost in requests and bytes."""

import io
import pickle

import pytest
from conftest import needs, painted

import phalanx

fsspec, _, _, numpy = needs("fsspec", "s3fs", "moto", "numpy")

from servers import Server  # noqa: E402

CHUNK = 64 << 10


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def plain_options(server):
    return {"endpoint_url": server.url, "key": "loopback", "secret": "loopback", "default_cache_type": "none"}


@pytest.fixture
def bucket(server, plain_options, tmp_path):
    """The name of a bucket that no other test has."""
    name = f"bucket-{abs(hash(tmp_path))}"
    fsspec.filesystem("s3", **plain_options).mkdir(name)
    yield name
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    fsspec.get_filesystem_class("phalanx").clear_instance_cache()


@pytest.fixture
def options(key, plain_options):
    key.store("work")
    return {"phalanx": {"key": "work"}, "s3": plain_options}


@pytest.fixture
def fs(plain_options, key):
    return fsspec.filesystem("phalanx", target_protocol="s3", target_options=plain_options, key=key)


def forget(fs):
    fs.invalidate_cache()
    fs._chunk_cache.clear()


# One column of many: what the file system is made for.


def table(rows=800_000, columns=10):
    pyarrow = needs("pyarrow")
    values = numpy.random.default_rng(1)
    return pyarrow.table({f"c{column}": values.random(rows) for column in range(columns)})


def parquet(table, **how):
    parquet = needs("pyarrow.parquet")
    file = io.BytesIO()
    parquet.write_table(table, file, **how)
    return file.getvalue()


@pytest.mark.parametrize("groups", [1, 4])
def test_a_parquet_column_costs_little_more_than_in_a_plain_file(server, bucket, options, plain_options, groups, monkeypatch):
    monkeypatch.setattr("phalanx._fsspec_store.FRESH", 60)
    pandas, data = needs("pandas"), table()
    content = parquet(data, row_group_size=len(data) // groups)
    fsspec.filesystem("s3", **plain_options).pipe_file(f"{bucket}/plain.parquet", content)
    with fsspec.open(f"phalanx::s3://{bucket}/table.parquet.phx", "wb", **options) as file:
        file.write(content)
    fsspec.get_filesystem_class("phalanx").clear_instance_cache()

    def read(url, options):
        return pandas.read_parquet(url, columns=["c3"], storage_options=options)

    plain, requests, most = server.cost(lambda: read(f"s3://{bucket}/plain.parquet", plain_options))
    found, protected_requests, sent = server.cost(lambda: read(f"phalanx::s3://{bucket}/table.parquet.phx", options))
    pandas.testing.assert_frame_equal(found, plain)
    assert sent <= 1.1 * most, f"{sent} bytes, and {most} of the plain file"
    assert len(protected_requests) <= len(requests), f"{protected_requests}, and {requests} for the plain file"
    assert 800_000 * 8 < sent < len(content) / 5


def test_read_ahead_of_s3fs_does_not_multiply_traffic(server, bucket, fs, plain_options, key):
    """Its default is to read 5 MiB ahead. Nothing is read by its file objects."""
    plain_options = {option: value for option, value in plain_options.items() if option != "default_cache_type"}
    fs = fsspec.filesystem("phalanx", target_protocol="s3", target_options=plain_options, key=key)
    data = painted(300 * CHUNK)
    fs.pipe_file(f"{bucket}/file", data)

    def read():
        with fs.open(f"{bucket}/file") as file:
            for chunk in (5, 200, 100):
                file.seek(chunk * CHUNK)
                assert file.read(100) == data[chunk * CHUNK : chunk * CHUNK + 100]

    _, requests, sent = server.cost(read)
    assert requests == ["HEAD"] + 5 * ["GET"]
    assert sent == 4096 + 5 * (CHUNK + 48)


# Requests


def test_whole_objects_cost_what_plain_ones_cost(server, bucket, fs, plain_options):
    plain = fsspec.filesystem("s3", **plain_options)
    for length in (1000, 3_000_000):
        fs.pipe_file(f"{bucket}/file", painted(length))
        plain.pipe_file(f"{bucket}/plain", painted(length))
        _, plain_requests, _ = server.cost(lambda: plain.cat_file(f"{bucket}/plain"))
        found, requests, _ = server.cost(lambda: fs.cat_file(f"{bucket}/file"))
        assert found == painted(length)
        assert requests == plain_requests


def test_small_objects_are_written_by_one_request(server, bucket, fs):
    def pipe():
        fs.pipe_file(f"{bucket}/piped", painted(100_000))

    def write():
        with fs.open(f"{bucket}/written", "wb") as file:
            for _ in range(8):
                file.write(painted(1 << 20))

    for work in (pipe, write):
        _, requests, _ = server.cost(work)
        assert requests == ["PUT"]
    assert fs.size(f"{bucket}/written") == 8 << 20


def test_opening_costs_a_head_request_and_two_parallel_reads(server, bucket, fs, monkeypatch):
    monkeypatch.setattr("phalanx._fsspec_store.FRESH", 60)
    fs.pipe_file(f"{bucket}/large", painted(50 * CHUNK))
    fs.pipe_file(f"{bucket}/small", painted(CHUNK))
    for name, most in (("large", 2), ("small", 1)):
        info, requests, sent = server.cost(lambda name=name: fs.info(f"{bucket}/{name}"))
        assert requests == ["HEAD"] + most * ["GET"] and sent <= 4096 + 2 * (CHUNK + 48)
        # Later calls within the time need no request.
        _, requests, _ = server.cost(lambda name=name: (fs.info(f"{bucket}/{name}"), fs.isfile(f"{bucket}/{name}")))
        assert requests == []


def test_listings_read_each_object_once_and_names_read_none(server, bucket, fs):
    for i in range(20):
        fs.pipe_file(f"{bucket}/many/{i:02}", painted(1000 * i))
    forget(fs)
    names, requests, _ = server.cost(lambda: fs.ls(f"{bucket}/many", detail=False))
    assert len(names) == 20 and requests == ["GET"]
    forget(fs)
    found, requests, _ = server.cost(lambda: fs.find(bucket))
    assert len(found) == 20 and len(requests) == 1
    entries, requests, _ = server.cost(lambda: fs.ls(f"{bucket}/many"))
    assert [entry["size"] for entry in entries] == [1000 * i for i in range(20)]
    assert len(requests) <= 21
    _, requests, _ = server.cost(lambda: (fs.ls(f"{bucket}/many"), fs.du(f"{bucket}/many")))
    assert len(requests) <= 1
    assert fs.glob(f"{bucket}/many/1*") == [f"{bucket}/many/{i}" for i in range(10, 20)]


def test_ranges_of_many_objects_are_fetched_together(server, bucket, fs):
    data = [painted(20 * CHUNK, seed) for seed in range(5)]
    for seed in range(5):
        fs.pipe_file(f"{bucket}/{seed}", data[seed])
    paths = [f"{bucket}/{seed}" for seed in range(5) for _ in range(4)]
    starts = [start * CHUNK + 100 for _ in range(5) for start in (3, 4, 5, 12)]
    ends = [start + CHUNK for start in starts]
    found, requests, sent = server.cost(lambda: fs.cat_ranges(paths, starts, ends))
    assert found == [data[place // 4][start:end] for place, (start, end) in enumerate(zip(starts, ends))]
    # For each object a look, its beginning and its end, and two runs of chunks.
    assert sorted(requests) == 20 * ["GET"] + 5 * ["HEAD"]
    assert sent <= 5 * (4096 + (2 + 4 + 2) * (CHUNK + 48))


# Versions


def test_a_replaced_object_is_read_in_one_version(bucket, fs, key, plain_options, monkeypatch):
    """After a second the new object is read. Before that, either is read, but never a part of each."""
    target_options = {**plain_options, "default_block_size": 5 << 20}
    other = fsspec.filesystem("phalanx", target_protocol="s3", target_options=target_options, key=key)
    path, old = f"{bucket}/file", None
    for version, length in enumerate([10 * CHUNK, 10 * CHUNK, 3 * CHUNK, 200]):
        data = painted(length, version)
        other.pipe_file(path, data)
        assert fs.cat_file(path, 0, 150) in (data[:150], old and old[:150])
        monkeypatch.setattr("phalanx._fsspec_store.FRESH", 0)
        assert fs.cat_file(path, 0, 100) == data[:100]
        assert fs.cat_file(path, -100) == data[-100:]
        assert fs.info(path)["size"] == length
        monkeypatch.undo()
        old = data


def test_outdated_listings_are_corrected(bucket, key, plain_options):
    """s3fs remembers listings. An outdated listing is dropped when the object does not match it."""
    target_options = {**plain_options, "default_block_size": 5 << 20}
    other = fsspec.filesystem("phalanx", target_protocol="s3", target_options=target_options, key=key)
    for place, (before, after) in enumerate([(5, 5), (5, 3), (3, 9), (1, 1)]):
        path = f"{bucket}/{place}"
        other.pipe_file(path, painted(before * CHUNK))
        fs = fsspec.filesystem(
            "phalanx", target_protocol="s3", target_options=plain_options, key=key, skip_instance_cache=True
        )
        fs.fs.invalidate_cache()
        fs.fs.ls(bucket)
        other.pipe_file(path, painted(after * CHUNK, 1))
        assert fs.cat_file(path, 100, 2 * CHUNK) == painted(after * CHUNK, 1)[100 : 2 * CHUNK]
        assert fs.info(path)["size"] == after * CHUNK


def test_damage_in_the_store_is_detected(bucket, fs, plain_options):
    fs.pipe_file(f"{bucket}/file", painted(20 * CHUNK))
    plain = fsspec.filesystem("s3", **plain_options)
    stored = bytearray(plain.cat_file(f"{bucket}/file"))
    stored[10 * CHUNK] ^= 1
    plain.pipe_file(f"{bucket}/file", bytes(stored))
    with pytest.raises(phalanx.AuthenticationError) as raised:
        fs.cat_file(f"{bucket}/file", 9 * CHUNK, 11 * CHUNK)
    assert raised.value.chunk in (9, 10) and str(raised.value).startswith(f"{bucket}/file: ")
    assert fs.cat_file(f"{bucket}/file", 15 * CHUNK, 16 * CHUNK) == painted(20 * CHUNK)[15 * CHUNK : 16 * CHUNK]


# Writing


def test_large_objects_are_uploaded_in_parts_and_appear_when_complete(server, bucket, fs, plain_options):
    plain = fsspec.filesystem("s3", **plain_options)
    data = painted(1 << 20)
    with fs.open(f"{bucket}/large", "wb") as file:
        for _ in range(70):
            file.write(data)
        assert plain.find(bucket) == []
        plain.invalidate_cache()
    assert fs.size(f"{bucket}/large") == 70 << 20
    assert fs.cat_file(f"{bucket}/large", 69 << 20) == data
    with pytest.raises(RuntimeError), fs.open(f"{bucket}/other", "wb") as file:
        for _ in range(70):
            file.write(data)
        raise RuntimeError
    plain.invalidate_cache()
    assert plain.find(bucket) == [f"{bucket}/large"]
    assert plain.list_multipart_uploads(bucket) == []


def test_objects_are_put_copied_and_removed(bucket, fs, tmp_path):
    data = painted(30_000_000)
    (tmp_path / "plain").write_bytes(data)
    fs.put_file(str(tmp_path / "plain"), f"{bucket}/a/file")
    assert fs.size(f"{bucket}/a/file") == len(data)
    fs.get_file(f"{bucket}/a/file", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data
    fs.mv(f"{bucket}/a/file", f"{bucket}/b/file")
    fs.cp_file(f"{bucket}/b/file", f"{bucket}/c/file")
    assert fs.find(bucket) == [f"{bucket}/b/file", f"{bucket}/c/file"]
    assert fs.cat_file(f"{bucket}/c/file", 0, 100) == data[:100]
    fs.rm(bucket + "/b", recursive=True)
    fs.rm_file(f"{bucket}/c/file")
    assert fs.find(bucket) == []
    with pytest.raises(FileExistsError):
        fs.pipe_file(f"{bucket}/x", b"first")
        fs.put_file(str(tmp_path / "plain"), f"{bucket}/x", mode="create")


# Libraries


@pytest.mark.filterwarnings("ignore")
def test_arrays_and_tables_are_written_and_read(bucket, options):
    xarray, _, pandas, frames, h5py = needs("xarray", "zarr", "pandas", "dask.dataframe", "h5py")
    url = f"phalanx::s3://{bucket}"
    data = xarray.Dataset({"t": (("x", "y"), numpy.arange(10_000).reshape(100, 100))})
    data.to_zarr(f"{url}/cube.zarr", storage_options=options, encoding={"t": {"chunks": (10, 100)}})
    found = xarray.open_zarr(f"{url}/cube.zarr", storage_options=options, chunks=None)
    assert found.equals(data)
    # The same options, which zarr has made asynchronous, for blocking callers.
    table = pandas.DataFrame({"row": range(1000), "part": [row % 2 for row in range(1000)]})
    table.to_parquet(f"{url}/table", partition_cols=["part"], storage_options=options)
    assert pandas.read_parquet(f"{url}/table", storage_options=options)["row"].sum() == 499_500
    assert frames.read_parquet(f"{url}/table", storage_options=options)["row"].sum().compute() == 499_500
    file = io.BytesIO()
    with h5py.File(file, "w") as h5:
        h5["x"] = numpy.arange(1_000_000)
    with fsspec.open(f"{url}/run.h5", "wb", **options) as target:
        target.write(file.getvalue())
    with fsspec.open(f"{url}/run.h5", **options) as source, h5py.File(source) as h5:
        assert h5["x"][500_000:500_003].tolist() == [500_000, 500_001, 500_002]
    plain = fsspec.filesystem("s3", **options["s3"])
    plain.invalidate_cache()
    stored = plain.find(bucket)
    foreign = [path for path in stored if plain.cat_file(path, start=0, end=7) != b"PHALANX"]
    assert len(stored) > 10 and foreign == []


def test_a_slice_of_hdf5_costs_its_chunks(server, bucket, fs):
    h5py = needs("h5py")
    file = io.BytesIO()
    with h5py.File(file, "w") as h5:
        h5["x"] = numpy.frombuffer(painted(32 << 20), dtype="u8")
    with fs.open(f"{bucket}/run.h5", "wb") as target:
        target.write(file.getvalue())

    def read():
        with fs.open(f"{bucket}/run.h5") as source, h5py.File(source) as h5:
            return h5["x"][1_000_000:1_000_100]

    found, requests, sent = server.cost(read)
    assert found.tobytes() == painted(32 << 20)[8_000_000:8_000_800]
    assert sent <= 6 * (CHUNK + 48) and len(requests) <= 6


def test_caches_below_hold_only_protected_bytes(server, bucket, options, tmp_path):
    data = painted(3_000_000)
    with fsspec.open(f"phalanx::s3://{bucket}/file", "wb", **options) as file:
        file.write(data)
    caches = {
        "simplecache": {"cache_storage": str(tmp_path / "simple")},
        "filecache": {"cache_storage": str(tmp_path / "file")},
        "blockcache": {"cache_storage": str(tmp_path / "block"), "block_size": 1 << 20},
    }
    for name, cache in caches.items():
        url = f"phalanx::{name}::s3://{bucket}/file"
        with fsspec.open(url, **options, **{name: cache}) as file:
            file.seek(2_000_000)
            assert file.read(100) == data[2_000_000:2_000_100], name
            file.seek(0)
            assert file.read() == data, name
        with fsspec.open(url, **options, **{name: cache}) as file:
            assert file.read() == data, name
        plain = data[1_000_000:1_000_100]
        assert all(plain not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_file_systems_over_s3_are_pickled(bucket, options):
    fs, path = fsspec.url_to_fs(f"phalanx::s3://{bucket}/file", **options)
    fs.pipe_file(path, b"data")
    pickled = pickle.dumps(fs)
    fsspec.get_filesystem_class("phalanx").clear_instance_cache()
    other = pickle.loads(pickled)
    assert other is not fs and other.cat_file(path, 1, 3) == b"at"
    assert fs.unstrip_protocol(path) == f"phalanx::s3://{bucket}/file"
