"""The examples run, and print what they are to show."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import needs

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

# What each needs, its arguments, and what it prints.
SHOWN = {
    "hdf5_slice": (["h5py", "numpy"], [], ["step 70, a corner: 343.38, ", "were read", "after one changed bit: "]),
    "parquet_column_s3": (
        ["pandas", "pyarrow", "s3fs", "moto"],
        [],
        [
            "count  200000.0",
            "in S3 it begins with b'PHALANX\\x01'",
            "with another key: measurements/table.parquet.phx: ",
        ],
    ),
    "million_records": (
        ["pyarrow"],
        ["20000"],
        ["not authentic: [7, 8, 9]", "opened all the same: 997 of 1000", "seal_column"],
    ),
    "safetensors_text": (
        ["numpy"],
        [],
        ["which begin with b'PHALANX\\x01'", "a file is sealed and its key is kept", "embedding F32 (25, 12)", "after one changed bit: "],
    ),
    "asyncio_service": ([], [], ["10,000 requests", "the record of another user: ", "its last line: b'a line\\n'"]),
}


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_examples_print_what_they_promise(name, tmp_path):
    modules, arguments, shown = SHOWN[name]
    if modules:
        needs(*modules)
    # An example must not need or leave anything in the folder, and must not use the user's keyring.
    environment = {**os.environ, "PHALANX_KEYRING": str(tmp_path / "unused"), "TMPDIR": str(tmp_path)}
    folder = tmp_path / "here"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", EXAMPLES / f"{name}.py", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for text in shown:
        assert text in done.stdout, done.stdout
    assert os.listdir(folder) == [] and not (tmp_path / "unused").exists()
    assert [left for left in os.listdir(tmp_path) if left != "here"] == []
