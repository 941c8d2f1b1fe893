"""Ray over protected Parquet files. Its workers get the name of a key, and look it up themselves."""

import os
import tempfile
from pathlib import Path

import pytest
from conftest import needs

fsspec, parquet, pyarrow, ray = needs("fsspec", "pyarrow.parquet", "pyarrow", "ray")

import phalanx  # noqa: E402

ROWS = 10_000
TEXT = "phalanx-key-1-AAAQE-AYEAU-DAOCA-JBIFQ-YDIOB-4IBCE-QTCQK-RMFYY-DENBW-HA5DY-PWQAM-QBYAQ"
SECRETS = [TEXT.encode(), phalanx.Key.from_text(TEXT).to_bytes()]

# A function for `call:` that notes which process called it.
MODULE = """
import os, pathlib, phalanx

def key():
    (pathlib.Path(os.environ["CALLERS"]) / str(os.getpid())).touch()
    return phalanx.Key.from_text(os.environ["TABLES_KEY"])
"""


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory):
    """Workers on this machine: what they need is in their environment. The fixture is the folder of Ray's own files."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "key_of_ray_tests.py").write_text(MODULE)
    (folder / "callers").mkdir()
    # Ray makes sockets in its folder, whose paths must be short. It writes a token into the home folder as it starts.
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as own:
        patch.setenv("HOME", str(folder))
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("TABLES_KEY", TEXT)
        patch.setenv("CALLERS", str(folder / "callers"))
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        patch.syspath_prepend(str(folder))
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=own)
        yield Path(own)
        ray.shutdown()


@pytest.fixture
def stored(tmp_path):
    """Two protected tables."""
    fs = fsspec.filesystem("phalanx", key=phalanx.Key.from_text(TEXT), skip_instance_cache=True)
    for part in range(2):
        rows = pyarrow.table({"row": range(part * ROWS, (part + 1) * ROWS), "other": [b"x"] * ROWS})
        parquet.write_table(rows, f"{tmp_path}/{part}.parquet.phx", filesystem=fs)
    return tmp_path


def read(stored, key="env:TABLES_KEY"):
    fs = fsspec.filesystem("phalanx", key=key)
    paths = [f"{stored}/{part}.parquet.phx" for part in range(2)]
    return ray.data.read_parquet(paths, filesystem=fs, file_extensions=["phx"]).select_columns(["row"])


def test_workers_read_with_the_name_of_a_variable(stored):
    data = read(stored)
    assert data.count() == 2 * ROWS
    assert data.sum("row") == sum(range(2 * ROWS))


def test_workers_read_with_the_name_of_a_function(stored):
    assert read(stored, "call:key_of_ray_tests:key").sum("row") == sum(range(2 * ROWS))
    # It was called in the workers too, and not here alone.
    assert set(os.listdir(os.environ["CALLERS"])) - {str(os.getpid())}


def test_workers_write(tmp_path):
    fs = fsspec.filesystem("phalanx", key="env:TABLES_KEY")
    ray.data.range(ROWS).write_parquet(f"{tmp_path}/written", filesystem=fs)
    files = list((tmp_path / "written").iterdir())
    assert files and all(file.read_bytes()[:7] == b"PHALANX" for file in files)
    assert ray.data.read_parquet(f"{tmp_path}/written", filesystem=fs).sum("id") == sum(range(ROWS))


@pytest.mark.parametrize("key", ["env:TABLES_KEY", "call:key_of_ray_tests:key"])
def test_no_secret_is_sent(stored, cluster, key):
    data = read(stored, key)
    sent = ray.cloudpickle.dumps(data)
    assert key.encode() in sent and not any(secret in sent for secret in SECRETS)
    data.sum("row")
    kept = [path for path in cluster.rglob("*") if path.is_file()]
    assert kept and not [path for path in kept if any(secret in path.read_bytes() for secret in SECRETS)]


def test_a_key_without_a_name_is_not_sent(stored):
    with pytest.raises(TypeError, match="this file system holds a secret"):
        read(stored, phalanx.Key.from_text(TEXT)).sum("row")


def test_a_worker_without_the_key_gives_no_rows(stored, monkeypatch):
    monkeypatch.setenv("ONLY_HERE", TEXT)
    with pytest.raises(Exception, match="ONLY_HERE: the environment variable is not set here"):
        read(stored, "env:ONLY_HERE").sum("row")


def test_a_damaged_file_gives_no_rows(stored):
    data = read(stored)
    path = stored / "1.parquet.phx"
    sealed = bytearray(path.read_bytes())
    sealed[len(sealed) // 4] ^= 1
    path.write_bytes(sealed)
    with pytest.raises(Exception, match="damaged"):
        data.sum("row")
