"""Ray over protected Parquet files. Its workers get the name of a key, and look it up themselves."""

import pytest
from conftest import needs

fsspec, parquet, pyarrow, ray = needs("fsspec", "pyarrow.parquet", "pyarrow", "ray")

import phalanx  # noqa: E402

ROWS = 10_000


@pytest.fixture(scope="module")
def text():
    return "phalanx-key-1-AAAQE-AYEAU-DAOCA-JBIFQ-YDIOB-4IBCE-QTCQK-RMFYY-DENBW-HA5DY-PWQAM-QBYAQ"


@pytest.fixture(scope="module", autouse=True)
def cluster(text, tmp_path_factory):
    # Ray writes a token into the home folder as it starts.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": {"TABLES_KEY": text}})
        yield
        ray.shutdown()


@pytest.fixture
def stored(tmp_path, text):
    """Two protected tables, and the file system for workers."""
    fs = fsspec.filesystem("phalanx", key=phalanx.Key.from_text(text), skip_instance_cache=True)
    for part in range(2):
        rows = pyarrow.table({"row": range(part * ROWS, (part + 1) * ROWS), "other": [b"x"] * ROWS})
        parquet.write_table(rows, f"{tmp_path}/{part}.parquet.phx", filesystem=fs)
    return tmp_path


def read(stored):
    fs = fsspec.filesystem("phalanx", key="env:TABLES_KEY")
    paths = [f"{stored}/{part}.parquet.phx" for part in range(2)]
    return ray.data.read_parquet(paths, filesystem=fs, file_extensions=["phx"]).select_columns(["row"])


def test_workers_read_with_the_name_of_a_key(stored, text, monkeypatch):
    # The program itself looks at the first file too.
    monkeypatch.setenv("TABLES_KEY", text)
    data = read(stored)
    assert data.count() == 2 * ROWS
    assert data.sum("row") == sum(range(2 * ROWS))


def test_a_damaged_file_gives_no_rows(stored, text, monkeypatch):
    monkeypatch.setenv("TABLES_KEY", text)
    data = read(stored)
    path = stored / "1.parquet.phx"
    sealed = bytearray(path.read_bytes())
    sealed[len(sealed) // 4] ^= 1
    path.write_bytes(sealed)
    with pytest.raises(Exception, match="damaged"):
        data.sum("row")
