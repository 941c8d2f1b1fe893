"""Cells of a notebook, by IPython's own shell, whose cells run in a loop of asyncio."""

import pytest
from conftest import child, needs

CELLS = r"""
import asyncio, os, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.history_manager.enabled = False

async def cells():
    # As a kernel of Jupyter does: the loop runs already.
    for cell in sys.argv[1:]:
        done = await shell.run_cell_async(cell, store_history=False, transformed_cell=shell.transform_cell(cell))
        done.raise_error()
        print("->", shell.display_formatter.format(done.result)[0].get("text/plain"))

asyncio.run(cells())
"""


@pytest.fixture(autouse=True)
def no_history(tmp_path, monkeypatch):
    """IPython's own files of the user are not for tests."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))


def run(tmp_path, *cells):
    done = child(CELLS, *cells, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_messages_are_awaited_in_a_cell(tmp_path):
    needs("IPython")
    shown = run(
        tmp_path,
        "import phalanx, phalanx.aio; key = phalanx.Key.generate()",
        "sealed = await phalanx.aio.seal(key, b'record')",
        "await phalanx.aio.unseal(key, sealed)",
    )
    assert shown.splitlines()[-1] == "-> b'record'", shown


def test_a_file_system_works_in_a_cell(tmp_path):
    """Its own loop is in another thread, so that the one of the notebook may run."""
    needs("IPython", "fsspec")
    shown = run(
        tmp_path,
        "import fsspec, phalanx; fs = fsspec.filesystem('phalanx', target_protocol='memory', key=phalanx.Key.generate())",
        "fs.pipe('/a', b'abc'); fs.cat('/a')",
    )
    assert shown.splitlines()[-1] == "-> b'abc'", shown


def test_a_cell_shows_no_secret(tmp_path):
    needs("IPython")
    shown = run(
        tmp_path,
        "import phalanx; key = phalanx.Key.from_bytes(bytes(range(32)))",
        "key",
        "[key, {'key': key}]",
        "print(key)",
    )
    assert "Key" in shown
    text = "phalanx-key-1-AAAQE-AYEAU"
    for secret in (text, bytes(range(32)).hex(), repr(bytes(range(32)))):
        assert secret not in shown, shown
