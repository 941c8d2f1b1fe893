"""Polars and DuckDB over protected Parquet files: the rows, what they cost, and what damage does."""

import pytest
from conftest import needs, painted

fsspec, numpy, pyarrow, parquet = needs("fsspec", "numpy", "pyarrow", "pyarrow.parquet")

from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402

import phalanx  # noqa: E402
from phalanx.fsspec import PhalanxFileSystem  # noqa: E402

ROWS = 200_000
PATH = "/table.parquet.phx"


class Counting(MemoryFileSystem):
    """A store in memory that counts the requests that read, and their bytes."""

    protocol = "counting"
    cachable = False

    def __init__(self, **options):
        super().__init__(global_store=False, **options)
        self.store, self.pseudo_dirs, self.bytes, self.requests = {}, [""], 0, 0

    def cat_file(self, path, start=None, end=None, **kwargs):
        found = super().cat_file(path, start, end, **kwargs)
        self.bytes += len(found)
        self.requests += 1
        return found

    def cost(self, work):
        """What the work returns, and the part of the stored table that it read."""
        self.bytes = self.requests = 0
        found = work()
        return found, self.bytes / self.size(PATH)


@pytest.fixture
def below():
    return Counting()


@pytest.fixture
def fs(below, key):
    """The file system of a reader: nothing of the table is in its cache."""
    writer = PhalanxFileSystem(fs=below, key=key, skip_instance_cache=True)
    parquet.write_table(table(), PATH, filesystem=writer, row_group_size=ROWS // 4, use_dictionary=False)
    return PhalanxFileSystem(fs=below, key=key, skip_instance_cache=True)


def table():
    """Eight columns, seven of which do not compress."""
    values = numpy.frombuffer(painted(7 * ROWS * 8), dtype="u8").reshape(7, ROWS)
    return pyarrow.table({"row": numpy.arange(ROWS), **{f"c{n}": values[n] for n in range(7)}})


def damage(below):
    """Changes a bit in the middle, where the rows are: the header and the Parquet footer stay as they were."""
    below.pipe_file(PATH, altered(below.cat_file(PATH), below.size(PATH) // 2))


def altered(sealed, offset):
    return sealed[:offset] + bytes([sealed[offset] ^ 1]) + sealed[offset + 1 :]


# Polars


def test_polars_reads_file_objects(fs):
    polars = needs("polars")
    with fs.open(PATH) as file:
        assert polars.read_parquet(file, columns=["row"])["row"].sum() == ROWS * (ROWS - 1) // 2
    with fs.open(PATH) as file:
        found = polars.scan_parquet(file).filter(polars.col("row") >= ROWS - 3).select("row", "c1").collect()
    assert found.to_arrow().equals(polars.from_arrow(table().select(["row", "c1"]).slice(ROWS - 3)).to_arrow())


def test_polars_reads_only_the_columns_and_row_groups_of_a_query(below, fs):
    polars, dataset = needs("polars", "pyarrow.dataset")
    lazy = polars.scan_pyarrow_dataset(dataset.dataset(PATH, filesystem=fs))
    found, part = below.cost(lambda: lazy.select(polars.col("c3").max()).collect())
    assert found.item() == numpy.max(table()["c3"].to_numpy())
    assert 0.1 < part < 0.25
    # The two ends, and the column's four row groups.
    assert below.requests <= 6
    fs.invalidate_cache()
    fs._chunk_cache.clear()
    found, part = below.cost(lambda: lazy.filter(polars.col("row") < 10).select("c3").collect())
    assert found["c3"].to_list() == table()["c3"].to_pylist()[:10]
    assert part < 0.15


def test_polars_reads_only_the_columns_of_file_objects_by_pyarrow(below, fs):
    polars = needs("polars")
    with fs.open(PATH) as file:
        found, part = below.cost(lambda: polars.read_parquet(file, columns=["c3"], use_pyarrow=True))
    assert found["c3"].to_numpy().tolist() == table()["c3"].to_pylist()
    assert 0.1 < part < 0.25
    assert below.requests <= 6


def test_polars_writes_protected_files(below, fs):
    polars = needs("polars")
    data = polars.DataFrame({"a": range(1000)})
    with fs.open("/new.parquet.phx", "wb") as file:
        data.write_parquet(file)
    assert below.cat_file("/new.parquet.phx")[:7] == b"PHALANX"
    with fs.open("/lazy.parquet.phx", "wb") as file:
        data.lazy().sink_parquet(file)
    assert below.cat_file("/lazy.parquet.phx")[:7] == b"PHALANX"
    for path in ("/new.parquet.phx", "/lazy.parquet.phx"):
        with fs.open(path) as file:
            assert polars.read_parquet(file).equals(data)


def test_polars_raises_for_damaged_files(below, fs):
    polars, dataset = needs("polars", "pyarrow.dataset")
    damage(below)
    lazy = polars.scan_pyarrow_dataset(dataset.dataset(PATH, filesystem=fs))
    with pytest.raises(Exception, match="damaged in chunk"):
        lazy.collect()
    with fs.open(PATH) as file, pytest.raises(phalanx.AuthenticationError, match="damaged in chunk"):
        polars.read_parquet(file, use_pyarrow=True)
    # Polars itself panics when a file object raises, and what it raises is not an Exception.
    with fs.open(PATH) as file, pytest.raises(BaseException, match="damaged in chunk"):
        polars.read_parquet(file)
    with fs.open(PATH) as file, pytest.raises(BaseException, match="damaged in chunk"):
        polars.scan_parquet(file).collect()


# DuckDB


class ForDuckDB(PhalanxFileSystem):
    """DuckDB sends a file to the file system only if its whole name begins as this, also after it was found by a pattern."""

    cachable = False

    def unstrip_protocol(self, name):
        return "phalanx://" + name


@pytest.fixture
def duck(below, key, fs):
    duckdb = needs("duckdb")
    with duckdb.connect() as connection:
        connection.register_filesystem(ForDuckDB(fs=below, key=key))
        yield connection


def test_duckdb_reads_only_the_columns_and_row_groups_of_a_query(below, duck):
    found, part = below.cost(lambda: duck.sql(f"SELECT sum(c3 % 1000)::BIGINT FROM read_parquet('phalanx://{PATH}') WHERE row >= 0").fetchall())
    # A maximum would be read from the footer alone.
    assert found == [(int((table()["c3"].to_numpy() % 1000).sum()),)]
    assert 0.1 < part < 0.35


def test_duckdb_skips_row_groups(below, duck):
    query = f"SELECT c3 FROM read_parquet('phalanx://{PATH}') WHERE row < 10 ORDER BY row"
    found, part = below.cost(lambda: duck.sql(query).fetchall())
    assert [row[0] for row in found] == table()["c3"].to_pylist()[:10]
    assert part < 0.15
    # The two ends, and the first row group of both columns.
    assert below.requests <= 4


@pytest.fixture
def many(fs):
    """Three small files, each in the folder of its part."""
    for part in range(3):
        parquet.write_table(table().slice(part * 1000, 1000), f"/many/part={part}/rows.parquet.phx", filesystem=fs)


def test_duckdb_reads_several_files(below, duck, many):
    query = "SELECT count(*), sum(row)::BIGINT, count(DISTINCT filename) FROM read_parquet({}, filename=true)"
    assert duck.sql(query.format("'phalanx:///many/*/*.phx'")).fetchall() == [(3000, sum(range(3000)), 3)]
    names = [f"phalanx:///many/part={part}/rows.parquet.phx" for part in (0, 2)]
    assert duck.sql(query.format(names)).fetchall() == [(2000, sum(range(1000)) + sum(range(2000, 3000)), 2)]


def test_duckdb_reads_no_partitions_that_a_query_does_not_need(below, duck, many):
    below.pipe_file("/many/part=2/rows.parquet.phx", b"damaged")
    query = "SELECT min(row), max(row) FROM read_parquet('phalanx:///many/*/*.phx', hive_partitioning=true) WHERE part = 1"
    assert duck.sql(query).fetchall() == [(1000, 1999)]


def test_duckdb_writes_by_copy(below, fs, duck):
    duck.sql("COPY (SELECT range AS a FROM range(1000)) TO 'phalanx:///new.parquet.phx' (FORMAT parquet)")
    assert below.cat_file("/new.parquet.phx")[:7] == b"PHALANX"
    assert parquet.read_table("/new.parquet.phx", filesystem=fs)["a"].to_pylist() == list(range(1000))


def test_a_copy_that_fails_leaves_the_file_that_was_there(below, duck):
    """DuckDB writes beside it, closes what is not complete, and removes it."""
    before = below.find("/")
    failing = """COPY (SELECT random() AS a, CASE WHEN range < 2_999_000 THEN range ELSE error('on purpose') END AS b
        FROM range(3_000_000)) TO 'phalanx://{}' (FORMAT parquet)"""
    sealed = below.cat_file(PATH)
    for path in (PATH, "/new.parquet.phx"):
        with pytest.raises(Exception, match="on purpose"):
            duck.sql(failing.format(path))
    assert below.find("/") == before
    assert below.cat_file(PATH) == sealed


def test_duckdb_raises_for_damaged_files(below, duck):
    damage(below)
    with pytest.raises(Exception, match="damaged in chunk"):
        duck.sql(f"SELECT * FROM read_parquet('phalanx://{PATH}')").fetchall()


def test_duckdb_gives_no_rows_where_one_of_several_files_is_damaged(below, duck, many):
    """Wherever that is, and also where it ends too early."""
    path = "/many/part=1/rows.parquet.phx"
    sealed = below.cat_file(path)
    offsets = [0, 7, 100, *range(1000, len(sealed), len(sealed) // 20), len(sealed) - 1]
    for damaged in [*(altered(sealed, offset) for offset in offsets), sealed[:-1000], sealed[: len(sealed) // 2]]:
        below.pipe_file(path, damaged)
        with pytest.raises(Exception, match="AuthenticationError|TruncatedError|WrongKeyError|NotPhalanxError|UnsupportedError"):
            duck.sql("SELECT * FROM read_parquet('phalanx:///many/*/*.phx')").fetchall()


def test_duckdb_raises_for_a_wrong_key(below, fs, other_key):
    duckdb = needs("duckdb")
    with duckdb.connect() as connection:
        connection.register_filesystem(ForDuckDB(fs=below, key=other_key))
        with pytest.raises(Exception, match="key"):
            connection.sql(f"SELECT * FROM read_parquet('phalanx://{PATH}')").fetchall()
