"""Writing piece by piece: a finished file has its name, and an unfinished one leaves nothing."""

import gc
import io
import os
import pickle
import signal
import stat
import tarfile
import threading
import time
import warnings
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import phalanx
from conftest import CIPHERS, names, painted

KEY = phalanx.Key.from_bytes(bytes(range(32)))


def opened(stored):
    with phalanx.open(stored if hasattr(stored, "read") else io.BytesIO(stored), key=KEY) as file:
        return file.read()


def test_a_write_that_fails_between_its_pieces_ends_the_file(tmp_path):
    """The pieces before it were taken, so neither the rest nor the same again may follow, and the old file stays."""
    path = tmp_path / "f.phx"
    with phalanx.open(path, "wb", key=KEY) as file:
        file.write(b"old")

    def stop(*_):
        raise Mine

    def interrupt():
        # Something of the first piece is in the file that will be renamed. Much is left.
        deadline = time.monotonic() + 60
        while sum(entry.stat().st_size for entry in os.scandir(tmp_path)) < 1 << 20 and time.monotonic() < deadline:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        file = phalanx.open(path, "wb", key=KEY, sync=False)
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(Mine):
            file.write(bytearray(1 << 30))
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    for data in (bytearray(12), b"more"):
        with pytest.raises(OSError, match="earlier write failed"):
            file.write(data)
    with pytest.raises(OSError, match="earlier write failed"):
        file.close()
    assert opened(path.open("rb")) == b"old"
    assert [path.name] == names(tmp_path)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 9000), max_size=12), st.sampled_from(CIPHERS))
def test_pieces_of_any_size_are_written(sizes, cipher):
    data = painted(sum(sizes))
    out, at = io.BytesIO(), 0
    with phalanx.open(out, "wb", key=KEY, chunk_size=4096, cipher=cipher) as file:
        for size in sizes:
            assert file.write(data[at : at + size]) == size
            at += size
            assert file.tell() == at
    assert opened(out) == data


def test_a_writer_is_a_raw_file_object(tmp_path):
    with phalanx.open(tmp_path / "new", "wb", key=KEY) as file:
        assert isinstance(file, phalanx.ProtectedWriter) and isinstance(file, io.RawIOBase)
        assert file.writable() and not file.readable() and not file.seekable()
        assert file.mode == "wb" and os.fspath(file.name) == os.fspath(tmp_path / "new")
        for call in (lambda: file.read(), lambda: file.readinto(bytearray(1)), lambda: file.seek(0), lambda: file.truncate(0), lambda: file.fileno(), lambda: file.readline()):
            with pytest.raises(OSError):
                call()
        with pytest.raises(TypeError):
            pickle.dumps(file)
        file.flush()
        assert not file.closed and not file.isatty()


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda b: memoryview(bytearray(b))])
def test_all_kinds_of_data_are_written(kind):
    out, data = io.BytesIO(), painted(5000)
    with phalanx.open(out, "wb", key=KEY) as file:
        assert file.write(kind(data)) == 5000
        assert file.write(kind(b"")) == 0
    assert opened(out) == data


def test_arrays_of_larger_items_are_written_as_bytes():
    import array

    out, words = io.BytesIO(), array.array("q", range(1000))
    with phalanx.open(out, "wb", key=KEY) as file:
        assert file.write(words) == 8000
    assert opened(out) == words.tobytes()


@pytest.mark.parametrize("data", ["text", None, 10, 1.5, [1, 2], object(), memoryview(bytes(20))[::2]])
def test_other_objects_are_refused(data):
    out = io.BytesIO()
    with phalanx.open(out, "wb", key=KEY) as file:
        file.write(b"before")
        with pytest.raises((TypeError, BufferError, ValueError)):
            file.write(data)
        assert file.tell() == 6
        file.write(b" after")
    assert opened(out) == b"before after"


def test_a_buffer_may_change_after_it_was_written():
    out, buffer = io.BytesIO(), bytearray(b"a" * 100_000)
    with phalanx.open(out, "wb", key=KEY) as file:
        file.write(buffer)
        buffer[:] = b"b" * 100_000
        buffer.extend(b"it can be resized")
    assert opened(out) == b"a" * 100_000


def test_the_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "new"
    file = phalanx.open(path, "wb", key=KEY)
    file.write(painted(3_000_000))
    assert not path.exists()
    file.close()
    assert names(tmp_path) == ["new"]
    assert phalanx.verify(path, key=KEY) == 3_000_000
    file.close()
    assert file.closed


def test_an_exception_in_the_block_leaves_the_old_file(tmp_path):
    (tmp_path / "old").write_bytes(b"precious")
    for raised in (ValueError("x"), KeyboardInterrupt(), SystemExit(1), GeneratorExit()):
        for name in ("old", "new"):
            with pytest.raises(type(raised)) as caught:
                with phalanx.open(tmp_path / name, "wb", key=KEY) as file:
                    file.write(painted(3_000_000))
                    raise raised
            assert caught.value is raised and file.closed
            assert names(tmp_path) == ["old"]
            assert (tmp_path / "old").read_bytes() == b"precious"


def test_a_collected_unclosed_writer_leaves_no_file(tmp_path):
    file = phalanx.open(tmp_path / "new", "wb", key=KEY)
    file.write(painted(3_000_000))
    with pytest.warns(ResourceWarning):
        del file
        gc.collect()
    assert names(tmp_path) == []


def test_a_writer_collected_in_a_cycle_leaves_no_file(tmp_path):
    class Holder:
        pass

    holder = Holder()
    holder.file, holder.me = phalanx.open(tmp_path / "new", "wb", key=KEY), holder
    holder.file.write(b"x" * 10_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        del holder
        gc.collect()
    assert names(tmp_path) == []


def test_modes_replace_or_refuse_existing_files(tmp_path):
    path = tmp_path / "new"
    with phalanx.open(path, "xb", key=KEY) as file:
        file.write(b"first")
    with pytest.raises(FileExistsError) as caught:
        phalanx.open(path, "xb", key=KEY)
    assert os.fspath(caught.value.filename) == os.fspath(path)
    assert opened(path.read_bytes()) == b"first"
    with phalanx.open(path, "wb", key=KEY) as file:
        file.write(b"second")
        assert opened(path.read_bytes()) == b"first", "the old one is there until the new one is complete"
    assert opened(path.read_bytes()) == b"second"
    for mode in ("ab", "r+b", "w+b", "a", "bw", "", "wbx"):
        with pytest.raises(ValueError):
            phalanx.open(tmp_path / "other", mode, key=KEY)
    assert names(tmp_path) == ["new"]


def test_xb_does_not_replace_a_file_that_appeared_meanwhile(tmp_path):
    path = tmp_path / "new"
    file = phalanx.open(path, "xb", key=KEY)
    file.write(b"mine")
    path.write_bytes(b"of another program")
    with pytest.raises(FileExistsError):
        file.close()
    assert file.closed
    assert path.read_bytes() == b"of another program" and names(tmp_path) == ["new"]


@pytest.mark.parametrize(
    "options, error",
    [
        ({"key": None}, ValueError),
        ({"cipher": "aes-512"}, ValueError),
        ({"chunk_size": 5000}, ValueError),
        ({"threads": 0}, ValueError),
        ({"password": ""}, ValueError),
        ({"recipients": ["age1x"]}, ValueError),
        ({"key": b"x" * 32}, TypeError),
        ({"cache": 10}, TypeError),
        ({"identities": []}, TypeError),
        ({"nonsense": 10}, TypeError),
    ],
)
def test_impossible_options_are_refused(tmp_path, options, error):
    (tmp_path / "old").write_bytes(b"precious")
    for name in ("new", "old"):
        with pytest.raises(error):
            phalanx.open(tmp_path / name, "wb", **{"key": KEY, **options})
    assert names(tmp_path) == ["old"] and (tmp_path / "old").read_bytes() == b"precious"


def test_a_closed_writer_raises(tmp_path):
    file = phalanx.open(tmp_path / "new", "wb", key=KEY)
    file.close()
    for call in (lambda: file.write(b"x"), lambda: file.write(b""), lambda: file.tell(), lambda: file.writable(), lambda: file.flush(), lambda: file.__enter__(), lambda: file.writelines([b"x"])):
        with pytest.raises(ValueError):
            call()
    assert opened((tmp_path / "new").read_bytes()) == b""


def test_discard_leaves_no_file(tmp_path):
    file = phalanx.open(tmp_path / "new", "wb", key=KEY)
    file.write(b"x" * 10_000)
    file.discard()
    assert file.closed and names(tmp_path) == []
    file.discard()
    file.close()
    assert names(tmp_path) == []


def test_each_key_password_and_identity_opens_the_file(tmp_path):
    other = phalanx.Key.generate()
    KEY.store("work")
    with phalanx.open(tmp_path / "new", "wb", key="work", keys=[other], password="pass") as file:
        file.write(b"content")
    for way in ({"key": "work"}, {"key": KEY}, {"keys": [other]}, {"password": "pass"}, {}):
        with phalanx.open(tmp_path / "new", **way) as file:
            assert file.read() == b"content"


def test_a_new_file_has_no_more_permissions_than_usual(tmp_path):
    old = os.umask(0o027)
    try:
        with phalanx.open(tmp_path / "new", "wb", key=KEY) as file:
            file.write(b"x")
        (tmp_path / "ordinary").touch()
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) & ~stat.S_IMODE((tmp_path / "ordinary").stat().st_mode) == 0


def test_an_absent_folder_raises(tmp_path):
    with pytest.raises(FileNotFoundError):
        phalanx.open(tmp_path / "absent" / "new", "wb", key=KEY)
    with pytest.raises(OSError):
        phalanx.open(tmp_path, "wb", key=KEY)


def test_a_folder_that_vanishes_raises(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    file = phalanx.open(folder / "new", "wb", key=KEY)
    file.write(b"x")
    for left in folder.iterdir():
        left.unlink()
    folder.rmdir()
    with pytest.raises(OSError):
        file.close()
    assert names(tmp_path) == []


def test_buffered_and_text_wrappers_write(tmp_path):
    with io.BufferedWriter(phalanx.open(tmp_path / "new", "wb", key=KEY)) as file:
        for n in range(1000):
            file.write(b"%d\n" % n)
    assert opened((tmp_path / "new").read_bytes()) == b"".join(b"%d\n" % n for n in range(1000))
    with io.TextIOWrapper(phalanx.open(tmp_path / "new", "wb", key=KEY), encoding="utf-8") as file:
        print("äöü", file=file)
    assert opened((tmp_path / "new").read_bytes()) == "äöü\n".encode()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_exception_with_an_open_wrapper_leaves_no_file(tmp_path):
    """The wrapper is not closed by itself, so the writer sees the exception."""
    for wrap in (io.BufferedWriter, io.TextIOWrapper, lambda raw: zipfile.ZipFile(raw, "w")):
        with pytest.raises(ZeroDivisionError):
            with phalanx.open(tmp_path / "new", "wb", key=KEY) as file:
                wrapper = wrap(file)
                if isinstance(wrapper, zipfile.ZipFile):
                    wrapper.writestr("member", b"x")
                else:
                    wrapper.write("x" if isinstance(wrapper, io.TextIOWrapper) else b"x")
                1 / 0
        assert file.closed
        del wrapper
        gc.collect()
        assert names(tmp_path) == []


def test_print_writes_lines(tmp_path):
    out = io.BytesIO()
    with phalanx.open(out, "wb", key=KEY) as file:
        file.writelines([b"a\n", bytearray(b"b\n")])
    assert opened(out) == b"a\nb\n"


def test_archives_are_written_as_streams():
    """zipfile and tarfile write to what cannot seek."""
    members = {f"member {n}": painted(3000 + n, n) for n in range(5)}
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with phalanx.open(zipped, "wb", key=KEY) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with zipfile.ZipFile(io.BytesIO(opened(zipped))) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == members
    with phalanx.open(tarred, "wb", key=KEY) as file, tarfile.open(fileobj=file, mode="w|gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    with tarfile.open(fileobj=io.BytesIO(opened(tarred))) as archive:
        assert {info.name: archive.extractfile(info).read() for info in archive} == members


class Sink:
    """Collects what is written, in the way that a test wants."""

    def __init__(self, answer=lambda piece: len(piece), take=None):
        self.got, self.answer, self.take = bytearray(), answer, take

    def write(self, piece):
        assert isinstance(piece, (bytes, bytearray, memoryview))
        self.got += piece if self.take is None else piece[: self.take]
        return self.answer(piece)


def test_a_sink_needs_only_write():
    sink, data = Sink(), painted(3_000_000)
    with phalanx.open(sink, "wb", key=KEY) as file:
        file.write(data)
    assert opened(bytes(sink.got)) == data
    # Some say nothing, and mean all.
    sink = Sink(answer=lambda piece: None)
    with phalanx.open(sink, "wb", key=KEY) as file:
        file.write(data)
    assert opened(bytes(sink.got)) == data


def test_a_sink_may_take_few_bytes_at_a_time():
    sink, data = Sink(answer=lambda piece: min(len(piece), 1000), take=1000), painted(300_000)
    with phalanx.open(sink, "wb", key=KEY) as file:
        file.write(data)
    assert opened(bytes(sink.got)) == data


def test_a_sink_is_not_closed():
    out = io.BytesIO()
    with phalanx.open(out, "wb", key=KEY) as file:
        file.write(b"x")
    assert not out.closed


@pytest.mark.parametrize("answer", [0, -1, 1 << 62, 1 << 70, "3", 1.5, object()], ids=repr)
def test_impossible_answers_of_a_sink_raise(answer):
    with pytest.raises((OSError, ValueError, TypeError, OverflowError)):
        with phalanx.open(Sink(answer=lambda piece: answer), "wb", key=KEY, chunk_size=4096) as file:
            for _ in range(2000):
                file.write(painted(10_000))


class Mine(Exception):
    pass


@pytest.mark.parametrize("raised", [Mine("mine"), OSError(28, "no space"), KeyboardInterrupt(), SystemExit(2), BlockingIOError(11, "later"), InterruptedError(4, "again")])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_exceptions_of_a_sink_are_raised_unchanged(raised, after):
    calls = []

    def fail(piece):
        calls.append(len(piece))
        if len(calls) > after:
            raise raised
        return len(piece)

    with pytest.raises(type(raised)) as caught:
        with phalanx.open(Sink(answer=fail), "wb", key=KEY, chunk_size=4096) as file:
            for _ in range(2000):
                file.write(painted(10_000))
    assert caught.value is raised
    assert len(calls) <= after + 2, "a sink that failed is not written to again"


def test_exceptions_at_the_end_are_raised_by_close():
    raised, is_over = Mine("at the end"), [False]

    def fail(piece):
        if is_over[0]:
            raise raised
        return len(piece)

    file = phalanx.open(Sink(answer=fail), "wb", key=KEY)
    file.write(b"x")
    is_over[0] = True
    with pytest.raises(Mine) as caught:
        file.close()
    assert caught.value is raised and file.closed


def test_a_writer_fails_after_a_failed_write(tmp_path):
    """After a failed write, the file never counts as complete, even if the exception is caught."""
    state = {"fails": True}

    def answer(piece):
        if state["fails"]:
            raise Mine("once")
        return len(piece)

    sink = Sink(answer=answer)
    sink_file = phalanx.open(sink, "wb", key=KEY, chunk_size=4096)
    with pytest.raises(Mine):
        for _ in range(2000):
            sink_file.write(painted(10_000))
    state["fails"] = False
    with pytest.raises((phalanx.Error, OSError, ValueError)):
        sink_file.write(b"more")
        sink_file.close()
    with pytest.raises(Exception):
        opened(bytes(sink.got))


def test_close_after_a_failed_write_raises():
    """A `with` block raises even if its body has caught the exception."""
    with pytest.raises((phalanx.Error, OSError, ValueError)):
        with phalanx.open(Sink(answer=lambda piece: 1 / 0), "wb", key=KEY, chunk_size=4096) as file:
            for _ in range(2000):
                try:
                    file.write(painted(10_000))
                except ZeroDivisionError:
                    break


@pytest.mark.parametrize("thing", [3, None, object(), b"".join, [], len])
def test_objects_without_write_are_refused(thing):
    with pytest.raises((TypeError, AttributeError)):
        with phalanx.open(thing, "wb", key=KEY) as file:
            file.write(b"x")


def test_a_sink_in_text_mode_is_refused():
    with pytest.raises(TypeError):
        with phalanx.open(io.StringIO(), "wb", key=KEY) as file:
            file.write(b"x")


def test_an_unfinished_stream_does_not_open():
    sink = Sink()
    with pytest.raises(Mine):
        with phalanx.open(sink, "wb", key=KEY, chunk_size=4096) as file:
            file.write(painted(5_000_000))
            raise Mine
    with pytest.raises(phalanx.Error):
        opened(bytes(sink.got))


def test_a_sink_may_write_to_its_writer():
    """The sink is called while the writer waits for it. An error is allowed, a deadlock is not."""
    state = {}

    def answer(piece):
        if "file" in state:
            file = state.pop("file")
            try:
                file.write(b"from inside")
            except Exception as error:
                state["error"] = error
        return len(piece)

    file = phalanx.open(Sink(answer=answer), "wb", key=KEY, chunk_size=4096)
    state["file"] = file

    def work():
        try:
            for _ in range(2000):
                file.write(painted(10_000))
            file.close()
        except Exception as error:
            state["outer"] = error

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(120)
    assert not thread.is_alive(), "it waits for itself"


def test_threads_may_write_to_one_file():
    """In any order, but each piece whole."""
    out = io.BytesIO()
    with phalanx.open(out, "wb", key=KEY, chunk_size=4096) as file:

        def write(letter):
            for _ in range(200):
                file.write(letter * 97)

        threads = [threading.Thread(target=write, args=(bytes([65 + i]),)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    data = opened(out)
    pieces = [data[i : i + 97] for i in range(0, len(data), 97)]
    assert len(data) == 6 * 200 * 97
    assert sorted(pieces) == sorted(bytes([65 + i]) * 97 for i in range(6) for _ in range(200))


def test_long_buffers_of_several_threads_stay_whole(tmp_path):
    """They are copied in pieces, and no other write, and no end of the file, gets between these."""
    path, n, raised = tmp_path / "f.phx", 34 << 20, []
    file = phalanx.open(path, "wb", key=KEY, sync=False)

    def write(letter, buffer):
        try:
            file.write(buffer(letter * n))
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=write, args=(letter, buffer)) for letter, buffer in [(b"a", bytearray), (b"b", bytearray), (b"c", bytes)]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    file.close()
    assert raised == []
    with path.open("rb") as stored:
        data = opened(stored)
    assert sorted(data[i : i + n] for i in range(0, len(data), n)) == [letter * n for letter in (b"a", b"b", b"c")]


def test_the_end_of_a_file_waits_for_a_write_of_another_thread():
    n, has_begun, raised = 34 << 20, threading.Event(), []

    def answer(piece):
        has_begun.set()
        return len(piece)

    sink = Sink(answer=answer)
    file = phalanx.open(sink, "wb", key=KEY)
    has_begun.clear()

    def write():
        try:
            file.write(bytearray(n))
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    assert has_begun.wait(60)
    file.close()
    thread.join()
    assert raised == [] and len(opened(bytes(sink.got))) == n


def test_text_is_written_and_read(tmp_path):
    path = tmp_path / "text.phx"
    with phalanx.open(path, "w", key=KEY, encoding="utf-8") as file:
        file.write("Grüße\n")
    assert opened(path.read_bytes()) == "Grüße\n".encode()
    with phalanx.open(path, "r", key=KEY, encoding="utf-8") as file:
        assert list(file) == ["Grüße\n"]
    with pytest.raises(KeyError):
        with phalanx.open(path, "w", key=KEY, encoding="utf-8") as file:
            file.write("half of ")
            raise KeyError
    assert opened(path.read_bytes()) == "Grüße\n".encode()
    with pytest.raises(FileExistsError):
        phalanx.open(path, "x", key=KEY)


@pytest.mark.parametrize("wrapper", [io.BufferedWriter, io.TextIOWrapper, lambda raw: io.TextIOWrapper(io.BufferedWriter(raw))])
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_collected_wrapper_leaves_no_file(tmp_path, wrapper):
    file = wrapper(phalanx.open(tmp_path / "new", "wb", key=KEY))
    file.write("text" if isinstance(file, io.TextIOWrapper) else b"bytes")
    del file
    gc.collect()
    assert os.listdir(tmp_path) == []
