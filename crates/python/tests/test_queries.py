"""Polars and DuckDB over protected Parquet files: the rows, what they cost, and what damage does."""

import pytest
from conftest import needs, painted

fsspec, numpy, pyarrow, parquet = needs("fsspec", "numpy", "pyarrow", "pyarrow.parquet")

from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402

from phalanx.fsspec import PhalanxFileSystem  # noqa: E402

ROWS = 200_000
PATH = "/table.parquet.phx"


class Counting(MemoryFileSystem):
    """A store in memory that counts the bytes that are read."""

    protocol = "counting"
    cachable = False

    def __init__(self, **options):
        super().__init__(global_store=False, **options)
        self.store, self.pseudo_dirs, self.bytes = {}, [""], 0

    def cat_file(self, path, start=None, end=None, **kwargs):
        found = super().cat_file(path, start, end, **kwargs)
        self.bytes += len(found)
        return found

    def cost(self, work):
        """What the work returns, and the part of the stored table that it read."""
        self.bytes = 0
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
    sealed = bytearray(below.cat_file(PATH))
    sealed[len(sealed) // 2] ^= 1
    below.pipe_file(PATH, bytes(sealed))


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
    fs.invalidate_cache()
    fs._chunk_cache.clear()
    found, part = below.cost(lambda: lazy.filter(polars.col("row") < 10).select("c3").collect())
    assert found["c3"].to_list() == table()["c3"].to_pylist()[:10]
    assert part < 0.15


def test_polars_writes(below, fs):
    polars = needs("polars")
    data = polars.DataFrame({"a": range(1000)})
    with fs.open("/new.parquet.phx", "wb") as file:
        data.write_parquet(file)
    assert below.cat_file("/new.parquet.phx")[:7] == b"PHALANX"
    with fs.open("/new.parquet.phx") as file:
        assert polars.read_parquet(file).equals(data)


def test_polars_and_damage(below, fs):
    polars, dataset = needs("polars", "pyarrow.dataset")
    damage(below)
    lazy = polars.scan_pyarrow_dataset(dataset.dataset(PATH, filesystem=fs))
    with pytest.raises(Exception, match="damaged in chunk"):
        lazy.collect()
    # Polars panics when a file object raises, and its exception is no Exception.
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
    # A maximum would come from the footer alone.
    assert found == [(int((table()["c3"].to_numpy() % 1000).sum()),)]
    assert 0.1 < part < 0.35


def test_duckdb_skips_row_groups(below, duck):
    query = f"SELECT c3 FROM read_parquet('phalanx://{PATH}') WHERE row < 10 ORDER BY row"
    found, part = below.cost(lambda: duck.sql(query).fetchall())
    assert [row[0] for row in found] == table()["c3"].to_pylist()[:10]
    assert part < 0.15


def test_duckdb_writes_by_copy(below, fs, duck):
    duck.sql("COPY (SELECT range AS a FROM range(1000)) TO 'phalanx:///new.parquet.phx' (FORMAT parquet)")
    assert below.cat_file("/new.parquet.phx")[:7] == b"PHALANX"
    assert parquet.read_table("/new.parquet.phx", filesystem=fs)["a"].to_pylist() == list(range(1000))


def test_duckdb_and_damage(below, duck):
    damage(below)
    with pytest.raises(Exception, match="damaged in chunk"):
        duck.sql(f"SELECT * FROM read_parquet('phalanx://{PATH}')").fetchall()


def test_duckdb_and_another_key(below, fs, other_key):
    duckdb = needs("duckdb")
    with duckdb.connect() as connection:
        connection.register_filesystem(ForDuckDB(fs=below, key=other_key))
        with pytest.raises(Exception, match="key"):
            connection.sql(f"SELECT * FROM read_parquet('phalanx://{PATH}')").fetchall()
