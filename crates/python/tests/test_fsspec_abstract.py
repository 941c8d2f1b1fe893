"""The tests that fsspec has for all file systems, over memory and over local files."""

import pytest
from conftest import needs

fsspec = needs("fsspec")

import fsspec.tests.abstract as abstract  # noqa: E402


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs_join(self):
        return lambda *parts: "/".join(str(part) for part in parts)


class InMemory(Fixtures):
    @pytest.fixture
    def fs(self, key):
        below = fsspec.filesystem("memory")
        below.store.clear()
        below.pseudo_dirs[:] = [""]
        yield fsspec.filesystem("phalanx", target_protocol="memory", key=key)
        below.store.clear()
        below.pseudo_dirs[:] = [""]

    @pytest.fixture
    def fs_path(self):
        return ""


class InFiles(Fixtures):
    @pytest.fixture
    def fs(self, key):
        options = {"auto_mkdir": True}
        return fsspec.filesystem("phalanx", target_protocol="file", target_options=options, key=key, sync=False)

    @pytest.fixture
    def fs_path(self, tmp_path):
        return str(tmp_path / "stored")


class TestMemoryCopy(abstract.AbstractCopyTests, InMemory):
    pass


class TestMemoryGet(abstract.AbstractGetTests, InMemory):
    pass


class TestMemoryPut(abstract.AbstractPutTests, InMemory):
    pass


class TestMemoryOpen(abstract.AbstractOpenTests, InMemory):
    pass


class TestMemoryPipe(abstract.AbstractPipeTests, InMemory):
    pass


class TestFilesCopy(abstract.AbstractCopyTests, InFiles):
    pass


class TestFilesGet(abstract.AbstractGetTests, InFiles):
    pass


class TestFilesPut(abstract.AbstractPutTests, InFiles):
    pass


class TestFilesOpen(abstract.AbstractOpenTests, InFiles):
    pass


class TestFilesPipe(abstract.AbstractPipeTests, InFiles):
    pass
