"""The libraries that people read their data with, over protected files."""

import io

import pytest
from conftest import child, needs, painted

import phalanx

fsspec, numpy = needs("fsspec", "numpy")


@pytest.fixture(params=["memory", "file"])
def url(request, tmp_path):
    """Where the files go: in memory, and on the disk."""
    if request.param == "file":
        yield f"phalanx::file://{tmp_path}/stored"
        return
    store = fsspec.filesystem("memory")
    store.store.clear()
    store.pseudo_dirs[:] = [""]
    yield "phalanx::memory://stored"
    store.store.clear()
    store.pseudo_dirs[:] = [""]


@pytest.fixture
def options(key):
    """The options that name a key of the keyring."""
    key.store("work")
    return {"phalanx": {"key": "work", "sync": False}}


def all_are_protected(url, options):
    """Every file below a URL is protected in the store, and there are some."""
    fs, path = fsspec.url_to_fs(url, **options)
    found = fs.fs.find(path)
    return bool(found) and all(fs.fs.cat_file(name)[:7] == b"PHALANX" for name in found)


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*pandas:FutureWarning")


def frame():
    pandas = needs("pandas")
    rows = numpy.arange(10_000)
    return pandas.DataFrame(
        {"row": rows, "root": numpy.sqrt(rows), "name": [f"row {row}" for row in rows], "part": rows % 3}
    )


# HDF5


def hdf5(h5py):
    """A file with groups, chunked, compressed and plain data sets."""
    file = io.BytesIO()
    with h5py.File(file, "w") as h5:
        h5["plain"] = numpy.arange(1_000_000)
        h5.create_dataset("a/chunked", data=painted_array(), chunks=(50, 50), compression="gzip")
        h5["a"].attrs["unit"] = "m"
    return file.getvalue()


def painted_array():
    return numpy.frombuffer(painted(500 * 500 * 8), dtype="u8").reshape(500, 500)


def test_h5py_reads_slices(url, options, tmp_path):
    h5py = needs("h5py")
    with fsspec.open(f"{url}/run.h5", "wb", **options) as file:
        file.write(hdf5(h5py))
    with fsspec.open(f"{url}/run.h5", **options) as file, h5py.File(file) as h5:
        assert h5["plain"][500_000:500_003].tolist() == [500_000, 500_001, 500_002]
        assert (h5["a/chunked"][100:200, 7] == painted_array()[100:200, 7]).all()
        assert h5["a"].attrs["unit"] == "m"
    assert all_are_protected(url, options)


@pytest.mark.parametrize("chunk_size", [4096, 1 << 20])
def test_h5py_reads_what_the_package_opens(key, tmp_path, chunk_size):
    h5py = needs("h5py")
    (tmp_path / "run.h5").write_bytes(hdf5(h5py))
    path = phalanx.protect(tmp_path / "run.h5", key=key, chunk_size=chunk_size)
    with phalanx.open(path, key=key) as file, h5py.File(file) as h5:
        assert h5["plain"][-1] == 999_999
        assert (h5["a/chunked"][...] == painted_array()).all()


def test_h5py_raises_for_damaged_chunks(key, tmp_path):
    """An altered chunk is an error, and never other numbers."""
    h5py = needs("h5py")
    (tmp_path / "run.h5").write_bytes(hdf5(h5py))
    path = phalanx.protect(tmp_path / "run.h5", key=key, chunk_size=4096)
    stored = bytearray(path.read_bytes())
    stored[3_000_000] ^= 1
    path.write_bytes(stored)
    code = """
import sys, h5py, phalanx
key = phalanx.Key.from_bytes(bytes.fromhex(sys.argv[1]))
with phalanx.open(sys.argv[2], key=key) as file, h5py.File(file) as h5:
    assert h5["plain"][0] == 0
    try:
        h5["plain"][...]
    except Exception as error:
        print(type(error).__name__)
"""
    done = child(code, key.to_bytes().hex(), path)
    assert done.stdout in ("AuthenticationError\n", "OSError\n"), done.stderr


def test_netcdf_files_are_read(url, options):
    xarray, _ = needs("xarray", "h5netcdf")
    data = xarray.Dataset({"t": (("x", "y"), painted_array())})
    with fsspec.open(f"{url}/data.nc", "wb", **options) as file:
        file.write(bytes(data.to_netcdf(engine="h5netcdf")))
    with fsspec.open(f"{url}/data.nc", **options) as file, xarray.open_dataset(file, engine="h5netcdf") as found:
        assert found["t"][100, 50] == data["t"][100, 50]
        assert found.equals(data)


# Tables


@pytest.mark.parametrize("engine", ["pyarrow", "fastparquet"])
def test_pandas_writes_and_reads_parquet(url, options, engine):
    needs(engine)
    pandas, data = needs("pandas"), frame()
    data.to_parquet(f"{url}/table.parquet", engine=engine, storage_options=options)
    found = pandas.read_parquet(f"{url}/table.parquet", engine=engine, storage_options=options)
    pandas.testing.assert_frame_equal(found, data)
    found = pandas.read_parquet(f"{url}/table.parquet", engine=engine, columns=["root"], storage_options=options)
    pandas.testing.assert_frame_equal(found, data[["root"]])
    assert all_are_protected(url, options)


def test_pandas_writes_and_reads_partitions(url, options):
    needs("pyarrow")
    pandas, data = needs("pandas"), frame()
    data.to_parquet(f"{url}/parts", partition_cols=["part"], storage_options=options)
    assert len(pandas.read_parquet(f"{url}/parts", storage_options=options)) == len(data)
    found = pandas.read_parquet(f"{url}/parts", filters=[("part", "=", 1)], storage_options=options)
    assert found["row"].tolist() == data["row"][data["part"] == 1].tolist()
    assert all_are_protected(url, options)


def test_pandas_writes_and_reads_text_and_pickles(url, options):
    pandas, data = needs("pandas"), frame()
    for name in ("table.csv", "table.csv.gz"):
        data.to_csv(f"{url}/{name}", index=False, storage_options=options)
        pandas.testing.assert_frame_equal(pandas.read_csv(f"{url}/{name}", storage_options=options), data)
    data.to_json(f"{url}/table.json", storage_options=options)
    assert len(pandas.read_json(f"{url}/table.json", storage_options=options)) == len(data)
    data.to_pickle(f"{url}/table.pkl", storage_options=options)
    pandas.testing.assert_frame_equal(pandas.read_pickle(f"{url}/table.pkl", storage_options=options), data)
    assert all_are_protected(url, options)


def test_pyarrow_writes_and_reads_data_sets(url, options):
    pyarrow, dataset = needs("pyarrow", "pyarrow.dataset")
    fs, path = fsspec.url_to_fs(url, **options)
    table = pyarrow.Table.from_pandas(frame())
    dataset.write_dataset(table, f"{path}/data", format="parquet", partitioning=["part"], filesystem=fs)
    found = dataset.dataset(f"{path}/data", filesystem=fs, partitioning=["part"])
    assert found.to_table(filter=dataset.field("part") == 2, columns=["row"]).num_rows == 3333
    assert sorted(found.to_table()["row"].to_pylist()) == list(range(10_000))
    # Again, over what is there.
    dataset.write_dataset(
        table.slice(0, 9), f"{path}/data", format="parquet", filesystem=fs, existing_data_behavior="delete_matching"
    )
    assert all_are_protected(f"{url}/data", options)


def test_pyarrow_reads_files(url, options):
    pyarrow, parquet, feather, csv = needs("pyarrow", "pyarrow.parquet", "pyarrow.feather", "pyarrow.csv")
    fs, path = fsspec.url_to_fs(url, **options)
    table = pyarrow.Table.from_pandas(frame())
    parquet.write_table(table, f"{path}/table.parquet", filesystem=fs, row_group_size=1000)
    assert parquet.read_metadata(f"{path}/table.parquet", filesystem=fs).num_row_groups == 10
    file = parquet.ParquetFile(f"{path}/table.parquet", filesystem=fs)
    assert file.read_row_group(7, columns=["row"])["row"][0].as_py() == 7000
    with fs.open(f"{path}/table.arrow", "wb") as sink:
        feather.write_feather(table, sink)
    with fs.open(f"{path}/table.arrow") as source:
        assert feather.read_table(source).equals(table)
    with fs.open(f"{path}/table.csv", "wb") as sink:
        csv.write_csv(table, sink)
    with fs.open(f"{path}/table.csv") as source:
        assert csv.read_csv(source).num_rows == 10_000
    with phalanx.open(io.BytesIO(fs.fs.cat_file(f"{path}/table.parquet")), key="work") as source:
        assert parquet.read_table(source).equals(table)
    assert all_are_protected(url, options)


def test_fsspec_reads_parts_of_parquet(url, options):
    needs("pyarrow")
    pandas, data = needs("pandas"), frame()
    data.to_parquet(f"{url}/table.parquet", storage_options=options)
    from fsspec.parquet import open_parquet_file

    with open_parquet_file(f"{url}/table.parquet", columns=["root"], storage_options=options) as file:
        found = pandas.read_parquet(file, columns=["root"])
    pandas.testing.assert_frame_equal(found, data[["root"]])


def test_dask_writes_and_reads_tables_and_text(url, options):
    dask, frames, _ = needs("dask", "dask.dataframe", "pyarrow")
    data = frame()
    with dask.config.set(scheduler="threads"):
        frames.from_pandas(data, npartitions=4).to_parquet(f"{url}/table", storage_options=options)
        found = frames.read_parquet(f"{url}/table", storage_options=options)
        assert found["row"].sum().compute() == data["row"].sum()
        found = frames.read_parquet(f"{url}/table/*.parquet", columns=["root"], storage_options=options)
        assert len(found) == len(data)
        frames.from_pandas(data, npartitions=4).to_csv(f"{url}/text/*.csv", storage_options=options)
        found = frames.read_csv(f"{url}/text/*.csv", storage_options=options, blocksize=100_000)
        assert found["row"].sum().compute() == data["row"].sum()
        bags = needs("dask.bag")
        bags.from_sequence(["a", "b", "c"], npartitions=3).to_textfiles(f"{url}/bag/*.txt", storage_options=options)
        assert bags.read_text(f"{url}/bag/*.txt", storage_options=options).str.strip().compute() == ["a", "b", "c"]
    assert all_are_protected(url, options)


def test_dask_workers_find_the_key_by_name(options, tmp_path):
    """Workers have the same keyring, and get the key's name."""
    needs("dask.dataframe", "pyarrow")
    code = """
import sys, dask, dask.dataframe
if __name__ == "__main__":
    import pandas
    url, options = sys.argv[1], {"phalanx": {"key": "work"}}
    with dask.config.set(scheduler="processes", num_workers=2):
        data = pandas.DataFrame({"row": range(1000)})
        dask.dataframe.from_pandas(data, npartitions=2).to_parquet(url, storage_options=options)
        print(dask.dataframe.read_parquet(url, storage_options=options)["row"].sum().compute())
"""
    done = child(code, f"phalanx::file://{tmp_path}/table")
    assert done.stdout == "499500\n", done.stderr


# Arrays


def cube():
    xarray = needs("xarray")
    values = numpy.frombuffer(painted(20 * 50 * 60 * 4), dtype="u4").reshape(20, 50, 60)
    return xarray.Dataset({"t": (("time", "x", "y"), values)}, {"time": numpy.arange(20)}, {"title": "cube"})


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_xarray_writes_and_reads_zarr(url, options, zarr_format, consolidated):
    xarray, _ = needs("xarray", "zarr")
    data = cube()
    how = {"zarr_format": zarr_format, "consolidated": consolidated, "storage_options": options}
    data.to_zarr(f"{url}/cube.zarr", encoding={"t": {"chunks": (5, 25, 60)}}, **how)
    found = xarray.open_zarr(f"{url}/cube.zarr", **how, chunks=None)
    assert found.equals(data) and found.attrs["title"] == "cube"
    assert (found["t"][7, 30:40, 3] == data["t"][7, 30:40, 3]).all()
    # Append to it, and overwrite a part.
    more = data.assign_coords(time=numpy.arange(20, 40))
    more.to_zarr(f"{url}/cube.zarr", append_dim="time", **how)
    assert xarray.open_zarr(f"{url}/cube.zarr", **how, chunks=None).equals(xarray.concat([data, more], "time"))
    data.to_zarr(f"{url}/cube.zarr", mode="w", **how)
    assert xarray.open_zarr(f"{url}/cube.zarr", **how, chunks=None).equals(data)
    assert all_are_protected(url, options)
    # The same options work for blocking callers.
    with fsspec.open(f"{url}/text", "w", **options) as file:
        file.write("text")
    assert fsspec.open(f"{url}/text", "r", **options).open().read() == "text"


def test_xarray_computes_with_dask(url, options):
    xarray, _, dask = needs("xarray", "zarr", "dask")
    data = cube().chunk({"time": 5})
    with dask.config.set(scheduler="threads"):
        data.to_zarr(f"{url}/cube.zarr", storage_options=options, zarr_format=2)
        found = xarray.open_zarr(f"{url}/cube.zarr", storage_options=options, zarr_format=2)
        assert int(found["t"].sum()) == int(cube()["t"].sum())


def test_zarr_writes_and_reads_groups(url, options):
    zarr = needs("zarr")
    group = zarr.open_group(f"{url}/group", mode="w", storage_options=options)
    array = group.create_array("a/b", shape=(1000, 1000), chunks=(100, 100), dtype="i4")
    array[:] = numpy.arange(1_000_000).reshape(1000, 1000)
    array.attrs["unit"] = "m"
    found = zarr.open_group(f"{url}/group", mode="r", storage_options=options)
    assert [name for name, _ in found.members(max_depth=None)] == ["a", "a/b"]
    assert (found["a/b"][123, 100:110] == numpy.arange(123_100, 123_110)).all()
    assert found["a/b"].attrs["unit"] == "m"
    assert found["a/b"].nbytes_stored() < 4_000_000
    del group["a/b"]
    assert list(group["a"]) == []
    assert all_are_protected(url, options)


def test_zarr_writes_and_reads_shards(url, options):
    zarr = needs("zarr")
    fs, path = fsspec.url_to_fs(f"{url}/a.zarr", **options)
    array = zarr.create_array(
        f"{url}/a.zarr", storage_options=options, shape=(1000, 1000), chunks=(50, 50), shards=(500, 500), dtype="u8"
    )
    values = numpy.frombuffer(painted(8_000_000), dtype="u8").reshape(1000, 1000)
    array[:] = values
    found = zarr.open_array(f"{url}/a.zarr", storage_options=options, mode="r")
    assert (found[480:520, 90:110] == values[480:520, 90:110]).all()
    assert (found[:] == values).all()
    assert len(fs.find(path)) == 5


def test_zarr_reads_mappings(url, options):
    zarr = needs("zarr")
    mapper = fsspec.get_mapper(f"{url}/mapped", **options)
    zarr.create_array(mapper, shape=100, chunks=10, dtype="i4")[:] = numpy.arange(100)
    assert zarr.open_array(mapper)[50:53].tolist() == [50, 51, 52]


def test_zarr_refuses_mappings_with_unnamed_keys_or_reads_them(key):
    """Older ones write the file system down as JSON, which it refuses."""
    zarr = needs("zarr")
    mapper = fsspec.get_mapper("phalanx::memory://mapped", phalanx={"key": key})
    if tuple(map(int, zarr.__version__.split(".")[:2])) < (3, 2):
        with pytest.raises(TypeError, match="keyring"):
            zarr.create_array(mapper, shape=100, chunks=10, dtype="i4")
        return
    zarr.create_array(mapper, shape=100, chunks=10, dtype="i4")[:] = numpy.arange(100)
    assert zarr.open_array(mapper)[50:53].tolist() == [50, 51, 52]


def test_zarr_stores_behave_as_zarr_requires(key):
    """The checks that zarr has for its own stores: what is missing, ranges, listings, removals."""
    import asyncio

    zarr = needs("zarr")
    from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.buffer.cpu import Buffer

    fs = fsspec.filesystem("phalanx", target_protocol="memory", asynchronous=True, key=key)
    fs.fs.store.clear()
    data = painted(200_000)

    async def check():
        store = zarr.storage.FsspecStore(fs, path="/store")
        prototype = default_buffer_prototype()
        await store.set("a/b", Buffer.from_bytes(data))
        assert (await store.get("a/b", prototype)).to_bytes() == data
        assert await store.get("missing", prototype) is None
        for request, part in [
            (RangeByteRequest(10, 70_000), data[10:70_000]),
            (OffsetByteRequest(150_000), data[150_000:]),
            (SuffixByteRequest(5), data[-5:]),
        ]:
            assert (await store.get("a/b", prototype, request)).to_bytes() == part
            assert await store.get("missing", prototype, request) is None
        found = await store.get_partial_values(
            prototype, [("a/b", RangeByteRequest(5, 6)), ("missing", None), ("a/b", SuffixByteRequest(2))]
        )
        assert [one and one.to_bytes() for one in found] == [data[5:6], None, data[-2:]]
        assert await store.exists("a/b") and not await store.exists("a/c")
        assert await store.getsize("a/b") == len(data)
        assert [name async for name in store.list()] == ["a/b"]
        assert [name async for name in store.list_dir("a")] == ["b"]
        assert [name async for name in store.list_prefix("a/")] == ["a/b"]
        await store.delete("a/b")
        await store.delete("a/b")
        assert not await store.exists("a/b")
        await store.set("c", Buffer.from_bytes(b"c"))
        await store.clear()
        assert [name async for name in store.list()] == []

    asyncio.run(check())
    fs.fs.store.clear()
