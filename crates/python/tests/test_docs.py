"""Docstrings, whose examples run, and stubs, which say what is there."""

import doctest
import inspect
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import phalanx
import phalanx.aio
import phalanx.safetensors
from conftest import REPOSITORY, missing, needs

PACKAGE = Path(phalanx.__file__).parent


def public():
    """Everything that people call, by its name: functions, classes and their methods."""
    for module in (phalanx, phalanx.aio, phalanx.safetensors):
        yield module.__name__, module
        for name in module.__all__:
            thing = getattr(module, name)
            yield f"{module.__name__}.{name}", thing
            if inspect.isclass(thing) and not issubclass(thing, Exception):
                for method in vars(thing):
                    if not method.startswith("_"):
                        yield f"{module.__name__}.{name}.{method}", getattr(thing, method)


EVERYTHING = dict(public())


def test_all_public_names_are_listed():
    assert sorted(phalanx.__all__) == phalanx.__all__
    assert {"Key", "open", "protect", "seal_column", "unseal_many", "Error"} <= set(phalanx.__all__)
    assert {"seal", "unseal"} <= set(phalanx.aio.__all__)
    assert phalanx.__version__
    visible = {name for name in vars(phalanx) if not name.startswith("_")}
    modules = {name for name in visible if inspect.ismodule(getattr(phalanx, name))}
    assert visible - modules == set(phalanx.__all__)


# What io.RawIOBase documents.
OF_FILES = ("readable", "seekable", "writable")


@pytest.mark.parametrize("name", EVERYTHING)
def test_public_names_have_docstrings(name):
    if name.rsplit(".", 1)[-1] in OF_FILES:
        return
    doc = inspect.getdoc(EVERYTHING[name])
    assert doc and len(doc) > 10 and doc.splitlines()[0].rstrip().endswith((".", ":")), doc


def examples():
    parser = doctest.DocTestParser()
    for name, thing in EVERYTHING.items():
        doc = inspect.getdoc(thing)
        if doc and ">>>" in doc and not (inspect.ismodule(thing) and thing is not phalanx and thing is not phalanx.aio):
            yield parser.get_doctest(doc, {"phalanx": phalanx}, name, None, None)


EXAMPLES = {example.name: example for example in examples()}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_in_docstrings_run(name, tmp_path, monkeypatch):
    if "pyarrow" in "".join(example.source for example in EXAMPLES[name].examples):
        needs("pyarrow")
    if name.startswith("phalanx.safetensors"):
        needs("numpy")
    monkeypatch.chdir(tmp_path)
    output = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    result = runner.run(EXAMPLES[name], out=output.append, clear_globs=False)
    assert result.attempted > 0 and result.failed == 0, "".join(output)


@pytest.mark.parametrize("name", ["protect", "unprotect", "verify", "open", "seal", "unseal", "seal_many", "unseal_many", "seal_column", "mirror", "verify_tree"])
def test_main_functions_have_examples(name):
    assert f"phalanx.{name}" in EXAMPLES
    assert "phalanx.safetensors.load_file" in EXAMPLES


@pytest.mark.parametrize("path", [Path(__file__).parents[1] / "README.md", REPOSITORY / "GUIDE.md"], ids=lambda path: path.name)
def test_examples_in_guides_run(path, tmp_path):
    """Each block that is Python, in their order, in one empty folder."""
    if not path.exists():
        missing(path.name)
    blocks = [block.split("```", 1)[0] for block in path.read_text().split("```python\n")[1:]]
    assert blocks
    code = "\n".join(textwrap.dedent(block) for block in blocks)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    wanted = [line for line in done.stderr.splitlines() if line.startswith("ModuleNotFoundError")]
    if wanted:
        missing(wanted[0].split("'")[1].split(".")[0])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [name for name, thing in EVERYTHING.items() if callable(thing) and not inspect.isclass(thing)])
def test_signatures_are_visible(name):
    """help() and editors show them."""
    signature = inspect.signature(EVERYTHING[name])
    # A tuple of any length has three dots in its type.
    assert "..." not in str(signature.replace(return_annotation=inspect.Signature.empty))


def test_the_package_is_typed():
    assert (PACKAGE / "py.typed").exists()
    assert (PACKAGE / "_native.pyi").exists()


def test_stubs_agree_with_the_package(tmp_path):
    needs("mypy", "fsspec")
    config = tmp_path / "mypy.ini"
    # fsspec and pyarrow have no types.
    config.write_text("[mypy]\nignore_missing_imports = True\n")
    allowed = tmp_path / "allowed"
    # The first is imported for annotations only. The classes of fsspec that the next ones come from have no types. The last is a
    # number with a field, for which there is a decorator, in a module that is not needed at run time.
    allowed.write_text(
        "phalanx\\._columns\\.pa\nphalanx\\._fsspec_files\\.(AsyncPhalanxFile|PhalanxFile)\nphalanx\\._signed\\.SignedLength\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "phalanx", "--mypy-config-file", str(config), "--allowlist", str(allowed), "--ignore-unused-allowlist"],
        cwd=tmp_path, capture_output=True, text=True, timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


TYPED = """
import asyncio
import io
from pathlib import Path

import phalanx
import phalanx.aio

key: phalanx.Key = phalanx.Key.generate()
path: Path = phalanx.protect("a", key=key, keys=[key, "work"], recipients=["age1"], cipher="aes-128", output=Path("b"))
length: int = phalanx.verify(path, keys=("work",), password=b"x")
with phalanx.open(path, key="work") as reader:
    raw: io.RawIOBase = reader
    data: bytes = reader.read_at(0, 10)
    pair: tuple[int, int] = reader.protected_range(0, reader.size)
    buffered = io.BufferedReader(reader)
with phalanx.open(path, "wb", key=key, chunk_size=4096) as writer:
    count: int = writer.write(bytearray(b"x"))
result: phalanx.MirrorResult = phalanx.mirror("a", Path("b"), key=key, delete=True, exclude=["*.tmp"], only=["c"])
changes: tuple[phalanx.MirrorChange, ...] = phalanx.mirror("a", "b", recipients=["age1"], dry_run=True)
report: phalanx.TreeReport = phalanx.verify_tree("b", key=key, quick=True, expect=result.digest, at_least=result.generation)
sealed: list[bytes] = phalanx.seal_many(key, [b"x", memoryview(b"y")], [b"", bytearray()])
opened: list[bytes] = phalanx.unseal_many([key, key], sealed)
some: list[bytes | None] = phalanx.unseal_many(key, sealed, errors="none")
async def main() -> bytes:
    return await phalanx.aio.seal(key, b"x", ad=b"y")
asyncio.run(main())
try:
    pass
except phalanx.AuthenticationError as error:
    failed: list[int] | None = error.failed
    chunk: int | None = error.chunk
try:
    pass
except phalanx.TreeError as broken:
    findings: tuple[phalanx.Finding, ...] = broken.findings
except phalanx.MirrorError as partial:
    done: phalanx.MirrorResult | None = partial.result
    failures: tuple[Exception, ...] = partial.failures
"""

WRONG = """
import phalanx
phalanx.protect("a", key=b"x")
phalanx.protect("a", "b")
phalanx.seal(phalanx.Key(), "text")
phalanx.open("a", "rw")
phalanx.open("a", "wb", cache=10)
phalanx.unseal_many(phalanx.Key.generate(), [b"x"], errors="maybe")
phalanx.mirror("a", "b", key="work", dry_run=True).new
"""


def mypy(path):
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir", os.devnull, path],
        cwd=path.parent, capture_output=True, text=True, timeout=600,
    )


def test_type_errors_of_callers_are_found(tmp_path):
    needs("mypy")
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(TYPED)
    wrong.write_text(WRONG)
    done = mypy(right)
    assert done.returncode == 0, done.stdout + done.stderr
    done = mypy(wrong)
    lines = {int(line.split(":")[1]) for line in done.stdout.splitlines() if "error:" in line}
    assert lines == set(range(3, 10)), done.stdout


def test_the_version_is_that_of_the_workspace():
    cargo = REPOSITORY / "Cargo.toml"
    if not cargo.exists():
        missing("Cargo.toml")
    import tomllib

    assert phalanx.__version__ == tomllib.loads(cargo.read_text())["workspace"]["package"]["version"]
