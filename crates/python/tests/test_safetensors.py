"""Protected safetensors files: the arrays are those of the package safetensors, and hostile headers are one clear error each."""

import collections.abc
import json
import math
import os
import sys
import threading
import tracemalloc
import types

import hypothesis
import hypothesis.strategies as st
import pytest
from conftest import CIPHERS, child, is_one_line, names, needs

import phalanx
import phalanx.safetensors
from phalanx._tensors import BYTES_OF_A_SIGN, SIZES, build, parse

np = needs("numpy")
KEY = phalanx.Key.from_bytes(bytes(range(32)))
KINDS = ["?", "u1", "i1", "i2", "u2", "f2", "i4", "u4", "f4", "i8", "u8", "f8", "c8"]


# One {, two [, and a comma after the type, the shape, the first offset and the whole tensor.
SIGNS_OF_A_TENSOR = 7


def arrays():
    """An array of every type of numpy, and unusual shapes."""
    found = {f"of.{kind}": (np.arange(35) % 2 if kind == "?" else np.arange(35)).astype(kind).reshape(5, 7) for kind in KINDS}
    found["a number"] = np.full((), 2.5, np.float32)
    found["nothing"] = np.empty((3, 0, 2), np.float16)
    found["wide"] = np.arange(300_001, dtype=np.int64)
    return found


def write_plain(path, header, data=b"", length=None):
    """A protected file with these bytes as its safetensors file."""
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    with phalanx.open(path, "wb", key=KEY) as file:
        file.write((len(header) if length is None else length).to_bytes(8, "little") + header + data)


def equal(got, want):
    assert list(got) and set(got) == set(want)
    for name, array in want.items():
        assert got[name].dtype == array.dtype and got[name].shape == array.shape, name
        assert (got[name] == array).all(), name


@pytest.mark.parametrize("cipher", CIPHERS)
def test_arrays_come_back(tmp_path, cipher):
    path = tmp_path / "a.safetensors.phx"
    phalanx.safetensors.save_file(arrays(), path, key=KEY, cipher=cipher, metadata={"format": "np", "ä": "\n"})
    equal(phalanx.safetensors.load_file(path, key=KEY), arrays())
    with phalanx.safetensors.open(path, key=KEY) as file:
        assert file.metadata == {"format": "np", "ä": "\n"}
        assert set(file) == set(arrays()) and len(file) == len(arrays())
        assert (file["of.f4"].dtype, file["of.f4"].shape) == ("F32", (5, 7))
        for name, array in arrays().items():
            one = file.read(name)
            assert one.dtype == array.dtype and one.shape == array.shape and (one == array).all()
        with pytest.raises(KeyError):
            file.read("absent")
    two = phalanx.safetensors.load_file(path, key=KEY, names=["wide", "nothing"])
    equal(two, {name: arrays()[name] for name in ("wide", "nothing")})


def test_files_are_those_of_the_package(tmp_path):
    theirs = needs("safetensors.numpy")
    phalanx.safetensors.save_file(arrays(), tmp_path / "ours.phx", key=KEY, metadata={"a": "b"})
    plain = phalanx.unprotect(tmp_path / "ours.phx", key=KEY, output=tmp_path / "ours")
    equal(theirs.load_file(plain), arrays())
    theirs.save_file(arrays(), tmp_path / "theirs", metadata={"a": "b"})
    assert plain.read_bytes() == (tmp_path / "theirs").read_bytes()
    protected = phalanx.protect(tmp_path / "theirs", key=KEY)
    equal(phalanx.safetensors.load_file(protected, key=KEY), arrays())


def test_the_bytes_are_those_of_the_package(tmp_path):
    """Every type, names whose order or escapes could differ, and with or without an entry of metadata."""
    theirs, ml = needs("safetensors.numpy", "ml_dtypes")
    kinds = [*KINDS, ml.bfloat16, ml.float8_e4m3fn, ml.float8_e5m2]
    given = {f"{name}{i}": np.ones((2, 3), kind) for i, kind in enumerate(kinds) for name in ("z", "B", "é", "\U0001f600", "\uffff", "")}
    given |= {name: np.ones(3, np.uint8) for name in ("", '"\\/', "\0\b\t\n\f\r\x1f\x7f", "\u2028", "a b")}
    for metadata in (None, {"ä\n": "\0\x7f"}):
        phalanx.safetensors.save_file(given, tmp_path / "ours.phx", key=KEY, metadata=metadata)
        theirs.save_file(given, tmp_path / "theirs", metadata=metadata)
        with phalanx.open(tmp_path / "ours.phx", key=KEY) as file:
            assert file.read() == (tmp_path / "theirs").read_bytes()


def test_arrays_that_do_not_lie_in_order_are_saved(tmp_path):
    grid = np.arange(24, dtype=np.float32).reshape(4, 6)
    given = {"turned": grid.T, "stepped": grid[::2, ::-3], "big-endian": grid.astype(">f4"), "native": grid.astype("=f4")}
    phalanx.safetensors.save_file(given, tmp_path / "a.phx", key=KEY)
    got = phalanx.safetensors.load_file(tmp_path / "a.phx", key=KEY)
    assert all((got[name] == array).all() and got[name].dtype == "<f4" for name, array in given.items())


def test_loaded_arrays_are_aligned_and_can_be_written(tmp_path):
    phalanx.safetensors.save_file(arrays(), tmp_path / "a.phx", key=KEY)
    for array in phalanx.safetensors.load_file(tmp_path / "a.phx", key=KEY).values():
        assert array.flags.aligned and array.flags.writeable
    # A file whose elements lie at odd places is read too.
    header = {
        "byte": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
        "word": {"dtype": "F64", "shape": [2], "data_offsets": [1, 17]},
    }
    write_plain(tmp_path / "odd.phx", header, b"\x07" + np.array([1.5, -2.0]).tobytes())
    got = phalanx.safetensors.load_file(tmp_path / "odd.phx", key=KEY)
    assert got["word"].flags.aligned and got["word"].tolist() == [1.5, -2.0] and got["byte"].tolist() == [7]


def test_a_damaged_tensor_is_not_returned(tmp_path):
    path = tmp_path / "a.phx"
    data = {"first": np.arange(100_000, dtype=np.int64), "second": np.arange(100_000, dtype=np.int32)}
    phalanx.safetensors.save_file(data, path, key=KEY, chunk_size=4096)
    stored = bytearray(path.read_bytes())
    stored[len(stored) * 9 // 10] ^= 1
    path.write_bytes(stored)
    with pytest.raises(phalanx.AuthenticationError):
        phalanx.safetensors.load_file(path, key=KEY)
    # What is whole can be read.
    assert (phalanx.safetensors.load_file(path, key=KEY, names=["first"])["first"] == data["first"]).all()
    with pytest.raises(phalanx.WrongKeyError):
        phalanx.safetensors.load_file(path, key=phalanx.Key.generate())


def test_names_and_types_are_checked_before_tensors_are_opened(tmp_path, monkeypatch):
    path = tmp_path / "a.phx"
    header = {
        "first": {"dtype": "U8", "shape": [100_000], "data_offsets": [0, 100_000]},
        "last": {"dtype": "BF16", "shape": [50_000], "data_offsets": [100_000, 200_000]},
    }
    write_plain(path, header, bytes(200_000))
    phalanx.unprotect(path, key=KEY, output=tmp_path / "plain")
    phalanx.protect(tmp_path / "plain", key=KEY, chunk_size=4096, output=path, overwrite=True)
    stored = bytearray(path.read_bytes())
    stored[50_000] ^= 1
    path.write_bytes(stored)
    # Whoever opens the first tensor sees the damage.
    with pytest.raises(phalanx.AuthenticationError):
        phalanx.safetensors.load_file(path, key=KEY, names=["first"])
    with pytest.raises(KeyError, match="absent"):
        phalanx.safetensors.load_file(path, key=KEY, names=["first", "absent"])
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    for some in (None, ["first", "last"], iter(["first", "last"])):
        with pytest.raises(ModuleNotFoundError, match="BF16 in numpy needs the package ml_dtypes"):
            phalanx.safetensors.load_file(path, key=KEY, names=some)
    # A PyTorch that is older than the type.
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(uint8=1))
    with pytest.raises(phalanx.safetensors.SafetensorsError, match="PyTorch does not have the type BF16"):
        phalanx.safetensors.load_file(path, key=KEY, framework="torch")


@pytest.mark.parametrize("name", ["weight", "", b"weight"])
def test_one_name_is_no_list_of_names(tmp_path, name):
    phalanx.safetensors.save_file({letter: np.zeros(1) for letter in "weight"}, tmp_path / "a.phx", key=KEY)
    with pytest.raises(TypeError, match="not the single name") as raised:
        phalanx.safetensors.load_file(tmp_path / "a.phx", key=KEY, names=name)
    assert is_one_line(raised.value)


def test_threads_read_tensors_at_once(tmp_path):
    phalanx.safetensors.save_file(arrays(), tmp_path / "a.phx", key=KEY, chunk_size=4096)
    failed = []
    with phalanx.safetensors.open(tmp_path / "a.phx", key=KEY) as file:

        def work():
            for name, array in arrays().items():
                if not (file.read(name) == array).all():
                    failed.append(name)

        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert failed == []


def test_a_file_object_of_the_callers_is_read(tmp_path):
    phalanx.safetensors.save_file(arrays(), tmp_path / "a.phx", key=KEY)
    with open(tmp_path / "a.phx", "rb") as file:
        equal(phalanx.safetensors.load_file(file, key=KEY), arrays())


def test_what_cannot_be_saved_leaves_nothing(tmp_path):
    for wrong in [{"a": np.array(["text"])}, {"a": np.zeros(2, np.complex128)}, {"__metadata__": np.zeros(2)}, {"\ud800": np.zeros(2)}, {1: np.zeros(2)}]:
        with pytest.raises(phalanx.safetensors.SafetensorsError) as raised:
            phalanx.safetensors.save_file(wrong, tmp_path / "a.phx", key=KEY)
        assert is_one_line(raised.value)
    for metadata in ({"a": 1}, {"a": "\udfff"}, {"\ud800": "a"}):
        with pytest.raises(phalanx.safetensors.SafetensorsError, match="not a table of texts"):
            phalanx.safetensors.save_file({}, tmp_path / "a.phx", key=KEY, metadata=metadata)
    assert names(tmp_path) == []
    phalanx.safetensors.save_file({}, tmp_path / "a.phx", key=KEY)
    assert phalanx.safetensors.load_file(tmp_path / "a.phx", key=KEY) == {}
    with pytest.raises(FileExistsError):
        phalanx.safetensors.save_file({}, tmp_path / "a.phx", key=KEY, overwrite=False)


class Growing(collections.abc.Mapping):
    """A mapping whose array is longer each time that it is asked for."""

    asked = 0

    def __getitem__(self, name):
        self.asked += 1
        return np.arange(self.asked, dtype=np.int32)

    def __iter__(self):
        return iter(["a"])

    def __len__(self):
        return 1


def test_a_mapping_that_computes_is_asked_once(tmp_path):
    given = Growing()
    phalanx.safetensors.save_file(given, tmp_path / "a.phx", key=KEY)
    assert given.asked == 1
    assert phalanx.safetensors.load_file(tmp_path / "a.phx", key=KEY)["a"].tolist() == [0]


def test_an_array_that_changes_meanwhile_leaves_the_old_file(tmp_path):
    class Shrinking:
        """Says that it has four elements, and gives three when its bytes are taken."""

        dtype, shape = np.dtype("<i4"), (4,)

        def __array__(self, dtype=None, copy=None):
            return np.zeros(3, np.int32)

    phalanx.safetensors.save_file(arrays(), tmp_path / "a.phx", key=KEY)
    with pytest.raises(phalanx.safetensors.SafetensorsError, match="'b' had 16 bytes, and now it has 12") as raised:
        phalanx.safetensors.save_file({"a": np.zeros(9), "b": Shrinking()}, tmp_path / "a.phx", key=KEY)
    assert is_one_line(raised.value) and names(tmp_path) == ["a.phx"]
    equal(phalanx.safetensors.load_file(tmp_path / "a.phx", key=KEY), arrays())


ONE = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}


def field(**changes):
    return {"a": {**ONE, **changes}}


# What is wrong, the header, the bytes behind it, and what the error says.
HOSTILE = [
    ("no JSON", b"{", b"", "no JSON"),
    ("not UTF-8", b'{"\xff":1}', b"", "no JSON"),
    ("not a table", b"[]", b"", "does not begin with {"),
    ("a space first", b" {}", b"", "does not begin with {"),
    ("empty", b"", b"", "does not begin with {"),
    ("something behind it", b"{} x", b"", "no JSON"),
    ("deep", b'{"a":' + b"[" * 200_000, b"", "nested too deeply"),
    ("deep beyond the limit", b'{"a":' + b"[" * 500_000, b"", "has 500001 brackets and commas, more than 250000 for 0 bytes"),
    ("many lists", b'{"a":[' + b"[]," * 1_000_000 + b"[]]}", b"", "brackets and commas, more than 250000"),
    ("deep tables", b'{"a":' * 200_000, b"", "nested too deeply"),
    ("a number of many digits", b'{"a":' + b"9" * 10_000 + b"}", b"", "no JSON"),
    ("NaN", b'{"a":NaN}', b"", "no JSON: NaN"),
    ("a name twice", b'{"a":1,"a":1}', b"", "names 'a' twice"),
    ("a field twice", b'{"a":{"dtype":"U8","dtype":"I8","shape":[2],"data_offsets":[0,2]}}', b"ab", "names 'dtype' twice"),
    ("a tensor that is a number", {"a": 1}, b"", "other fields"),
    ("a field is missing", {"a": {"dtype": "U8", "shape": [0]}}, b"", "other fields"),
    ("a field too many", field(more=1), b"ab", "other fields"),
    ("an unknown type", field(dtype="F7"), b"ab", "has the type 'F7'"),
    ("a type that is a table", field(dtype={}), b"ab", "has the type {}"),
    ("a long type", field(dtype="x" * 10_000), b"ab", "..., which is not known"),
    ("a negative dimension", field(shape=[-2]), b"ab", "not whole numbers"),
    ("a dimension of -0", b'{"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}}', b"", "has -0, which is not a whole number"),
    ("an offset of -0", b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[-0,0]}}', b"", "has -0, which is not a whole number"),
    ("a fraction", field(shape=[2.0]), b"ab", "not whole numbers"),
    ("a truth value", field(shape=[2, True]), b"ab", "not whole numbers"),
    ("a shape that is a number", field(shape=2), b"ab", "not whole numbers"),
    ("a text for an offset", field(data_offsets=[0, "2"]), b"ab", "not whole numbers"),
    ("three offsets", field(data_offsets=[0, 1, 2]), b"ab", "not whole numbers"),
    ("beyond 64 bits", field(data_offsets=[0, 2**64 + 2]), b"ab", "not whole numbers"),
    ("an overflow of the shape", field(shape=[2**62, 8], data_offsets=[0, 0]), b"", "too large"),
    ("an overflow that 0 hides", field(shape=[0, 2**62, 2**62], data_offsets=[0, 0]), b"", "too large"),
    ("many dimensions", field(shape=[1] * 65 + [2]), b"ab", "66 dimensions"),
    ("a shape for other bytes", field(shape=[3]), b"ab", "has the shape [3] of U8, and 2 bytes"),
    ("offsets that go back", field(shape=[0], data_offsets=[2, 0]), b"ab", "and -2 bytes"),
    ("beyond the end", field(), b"a", "the tensors have 2 bytes, and 1 follow"),
    ("bytes that nothing names", field(), b"abc", "the tensors have 2 bytes, and 3 follow"),
    ("an overlap", {"a": ONE, "b": {**ONE, "data_offsets": [1, 3]}}, b"abc", "'b' overlaps the one before it"),
    ("the same bytes twice", {"a": ONE, "b": ONE}, b"ab", "'b' overlaps"),
    ("a hole", {"a": ONE, "b": {**ONE, "data_offsets": [3, 5]}}, b"abcde", "leaves 1 bytes before it unused"),
    ("a hole at the beginning", field(data_offsets=[1, 3]), b"abc", "leaves 1 bytes"),
    ("metadata of numbers", {"__metadata__": {"a": 1}}, b"", "not a table of texts"),
    ("metadata that are a text", {"__metadata__": "a"}, b"", "not a table of texts"),
    ("metadata with half a character", b'{"__metadata__":{"a":"\\ud800"}}', b"", "not a table of texts"),
    ("a name with half a character", b'{"a\\udc00":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}', b"ab", r"'a\udc00' has a name that is not UTF-8"),
    ("a name of lines", {"a\n\x1b[31m": 1}, b"", r"'a\n\x1b[31m'"),
]


@pytest.mark.parametrize("what, header, data, says", HOSTILE, ids=[case[0] for case in HOSTILE])
def test_a_hostile_header_is_one_clear_error(tmp_path, what, header, data, says):
    write_plain(tmp_path / "a.phx", header, data)
    for read in (phalanx.safetensors.load_file, phalanx.safetensors.open):
        with pytest.raises(phalanx.safetensors.SafetensorsError) as raised:
            read(tmp_path / "a.phx", key=KEY)
        assert is_one_line(raised.value) and says in str(raised.value) and len(str(raised.value)) < 400


@pytest.mark.parametrize("filler", [b"[],", b"{},", b"1,"])
def test_a_header_of_many_objects_is_refused_before_they_are_made(filler):
    header = b'{"a":[' + filler * (10_000_000 // len(filler)) + b"1]}"
    tracemalloc.start()
    try:
        with pytest.raises(phalanx.safetensors.SafetensorsError, match="brackets and commas"):
            parse(header, 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_large_tensors_allow_a_large_header():
    many = {f"t{i}": ("U8", (SIGNS_OF_A_TENSOR * BYTES_OF_A_SIGN,), SIGNS_OF_A_TENSOR * BYTES_OF_A_SIGN) for i in range(40_000)}
    header, order = build(many, None)
    tensors, _ = parse(header[8:], 40_000 * SIGNS_OF_A_TENSOR * BYTES_OF_A_SIGN)
    assert list(tensors) == order and len(order) == 40_000
    # What cannot be read again is not written. Metadata may have commas too.
    with pytest.raises(phalanx.safetensors.SafetensorsError, match="brackets and commas") as raised:
        build({name: ("U8", (0,), 0) for name in many}, None)
    assert is_one_line(raised.value)
    header, _ = build({f"t{i}": ("U8", (0,), 0) for i in range(25_000)}, {"tags": "," * 50_000})
    assert len(parse(header[8:], 0)[0]) == 25_000


def test_too_little_memory_is_no_fault_of_the_header(monkeypatch):
    def loads(*_, **__):
        raise MemoryError

    monkeypatch.setattr(json, "loads", loads)
    with pytest.raises(MemoryError):
        parse(b"{}", 0)


@pytest.mark.parametrize("length, says", [(3, "'"), (10**8 + 1, "more than 100000000"), (2**64 - 1, "more than"), (99, "only 2 after")])
def test_a_wrong_length_of_the_header_is_one_clear_error(tmp_path, length, says):
    write_plain(tmp_path / "a.phx", b"{}", length=length) if length != 3 else write_plain(tmp_path / "a.phx", b'{"\'', length=3)
    with pytest.raises(phalanx.safetensors.SafetensorsError) as raised:
        phalanx.safetensors.load_file(tmp_path / "a.phx", key=KEY)
    assert is_one_line(raised.value) and (length == 3 or says in str(raised.value))


@pytest.mark.parametrize("size", range(8))
def test_a_file_that_is_too_short_is_one_clear_error(tmp_path, size):
    with phalanx.open(tmp_path / "a.phx", "wb", key=KEY) as file:
        file.write(bytes(size))
    with pytest.raises(phalanx.safetensors.SafetensorsError, match=f"it has {size} bytes"):
        phalanx.safetensors.load_file(tmp_path / "a.phx", key=KEY)


LENGTHS = st.one_of(st.integers(-1, 20), st.sampled_from([2**31, 2**63 - 1, 2**63, 2**64]))
TENSORS = st.fixed_dictionaries(
    {
        "dtype": st.one_of(st.sampled_from([*SIZES, "F4"]), st.integers()),
        "shape": st.lists(LENGTHS, max_size=3),
        "data_offsets": st.lists(LENGTHS, min_size=1, max_size=3),
    }
)
ANYTHING = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3), lambda x: st.lists(x, max_size=3))
HEADERS = st.dictionaries(st.sampled_from(["a", "b", "__metadata__", ""]), st.one_of(TENSORS, ANYTHING), max_size=3)


@hypothesis.given(header=HEADERS, room=st.integers(0, 40), data=st.data())
def test_any_header_is_parsed_or_refused(header, room, data):
    """Nothing but the one error comes of any header, and what is accepted lies in the file and does not overlap."""
    text = json.dumps(header).encode()
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(text) - 1))
        text = text[:place] + data.draw(st.binary(max_size=2)) + text[place + 1 :]
    try:
        tensors, _ = parse(text, room)
    except phalanx.safetensors.SafetensorsError as error:
        assert is_one_line(error)
        return
    covered = sorted((tensor.start, tensor.stop) for tensor in tensors.values())
    assert all(0 <= start <= stop <= room for start, stop in covered) and sum(b - a for a, b in covered) == room


SHAPES = st.lists(st.tuples(st.sampled_from(list(SIZES)), st.lists(st.integers(0, 4), max_size=3)), max_size=3)
# Also texts that JSON can write and UTF-8 cannot.
TEXTS = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=3)


@st.composite
def nearly_right(draw):
    """A header's text that is right but for a name, a sign or a few bytes that may be wrong, and how many bytes of tensors follow."""
    fields, end = {}, 0
    for dtype, shape in draw(SHAPES):
        start, end = end, end + SIZES[dtype] * math.prod(shape)
        fields[draw(TEXTS.filter(lambda name: name not in fields))] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    if draw(st.booleans()):
        fields["__metadata__"] = draw(st.dictionaries(TEXTS, TEXTS, max_size=2))
    text = json.dumps(fields).encode()
    what = draw(st.sampled_from(["nothing", "a sign", "bytes"]))
    place = draw(st.integers(0, len(text)))
    if what == "a sign":
        text = text[:place] + text[place:].replace(b"0", b"-0", 1)
    elif what == "bytes":
        text = text[:place] + draw(st.sampled_from([b" ", b"\n", b"\f", b"0", b".", b"-", b"\\", b'"', b",", b"\x00"]) | st.binary(max_size=2)) + text[place + draw(st.integers(0, 2)) :]
    return text, end


@pytest.fixture(scope="module")
def package():
    return needs("safetensors")


@hypothesis.given(header=nearly_right())
@hypothesis.example(header=(b'{"\\ud800":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}', 0))
@hypothesis.example(header=(b'{"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}}', 0))
def test_what_is_accepted_here_is_accepted_by_the_package(package, header):
    text, room = header
    try:
        tensors, _ = parse(text, room)
    except phalanx.safetensors.SafetensorsError as error:
        assert is_one_line(error)
        return
    theirs = package.deserialize(len(text).to_bytes(8, "little") + text + bytes(room))
    assert {name: (has["dtype"], tuple(has["shape"])) for name, has in theirs} == {name: tensor[:2] for name, tensor in tensors.items()}


def test_what_is_missing_is_said_in_one_line(tmp_path):
    phalanx.safetensors.save_file({"a": np.zeros(4, np.float32)}, tmp_path / "a.phx", key=KEY)
    for options, says in [({"framework": "jax"}, "numpy or torch, not 'jax'"), ({"device": "tpu"}, "cpu or cuda, not 'tpu'")]:
        with pytest.raises(ValueError, match=says):
            phalanx.safetensors.load_file(tmp_path / "a.phx", key=KEY, **options)
    # Without PyTorch, and with one that finds no GPU.
    code = """
import sys, types
import phalanx.safetensors
if sys.argv[2] == "none":
    sys.modules["torch"] = None
else:
    sys.modules["torch"] = types.SimpleNamespace(cuda=types.SimpleNamespace(is_available=lambda: False))
try:
    phalanx.safetensors.load_file(sys.argv[1], key=phalanx.Key.from_bytes(bytes(range(32))), device="cuda")
except (ModuleNotFoundError, RuntimeError) as error:
    print(type(error).__name__, error)
"""
    path = tmp_path / "a.phx"
    assert child(code, path, "none").stdout == (
        "ModuleNotFoundError device='cuda' needs the package torch, which is not installed\n"
    )
    assert child(code, path, "no GPU").stdout == "RuntimeError device='cuda' needs a GPU, and PyTorch finds none\n"


def test_types_that_numpy_lacks_need_ml_dtypes_or_torch(tmp_path):
    header = {"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}
    write_plain(tmp_path / "a.phx", header, b"\x80\x3f\x00\x40")
    code = """
import sys
import phalanx.safetensors
sys.modules["ml_dtypes"] = None
try:
    phalanx.safetensors.load_file(sys.argv[1], key=phalanx.Key.from_bytes(bytes(range(32))))
except ModuleNotFoundError as error:
    print(error)
"""
    assert child(code, tmp_path / "a.phx").stdout == (
        "the type BF16 in numpy needs the package ml_dtypes, which is not installed\n"
    )


def test_ml_dtypes_are_read_and_written(tmp_path):
    ml = needs("ml_dtypes")
    given = {name: np.array([1, 2, -4], getattr(ml, name)) for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")}
    phalanx.safetensors.save_file(given, tmp_path / "a.phx", key=KEY)
    equal(phalanx.safetensors.load_file(tmp_path / "a.phx", key=KEY), given)


def test_tensors_of_torch_are_read_and_written(tmp_path):
    torch = needs("torch")
    given = {kind: torch.arange(12).to(getattr(torch, kind)).reshape(3, 4) for kind in ("float32", "bfloat16", "int64", "bool")}
    given["turned"] = torch.arange(12.0).reshape(3, 4).T
    given["empty"] = torch.empty(0, 3)
    phalanx.safetensors.save_file(given, tmp_path / "a.phx", key=KEY)
    got = phalanx.safetensors.load_file(tmp_path / "a.phx", key=KEY, framework="torch")
    assert set(got) == set(given)
    for name, tensor in given.items():
        assert got[name].dtype == tensor.dtype and torch.equal(got[name], tensor), name


def test_tensors_of_classes_made_of_those_of_torch_are_written(tmp_path, monkeypatch):
    """PyTorch is a small one of the test's own here: what counts is that the module of the class is not asked."""

    class Tensor:
        dtype = "torch.bfloat16"

        def __init__(self, array):
            self.array, self.shape = array, array.shape

        def detach(self):
            return self

        cpu = contiguous = detach
        is_cuda = False

        def reshape(self, length):
            return Tensor(self.array.reshape(length))

        def view(self, dtype):
            return Tensor(self.array.view(dtype))

        def numpy(self):
            return self.array

    class Mine(Tensor):
        pass

    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(Tensor=Tensor, uint8=np.uint8))
    phalanx.safetensors.save_file({"a": Mine(np.arange(6, dtype="<u2").reshape(2, 3))}, tmp_path / "a.phx", key=KEY)
    with phalanx.safetensors.open(tmp_path / "a.phx", key=KEY) as file:
        assert file["a"] == ("BF16", (2, 3), 0, 12)
        assert file._bytes_of("a").view("<u2").tolist() == list(range(6))


def test_readinto_at_fills_any_range(tmp_path):
    data = os.urandom(5_000_003)
    with phalanx.open(tmp_path / "a.phx", "wb", key=KEY, chunk_size=65536) as file:
        file.write(data)
    with phalanx.open(tmp_path / "a.phx", key=KEY) as file:
        for start, length in [(0, 5_000_003), (1, 4_194_304), (65_535, 2), (4_999_999, 10), (5_000_003, 3), (9_000_000, 1), (0, 0)]:
            buffer = bytearray(length)
            assert file.readinto_at(start, buffer) == len(data[start : start + length])
            assert buffer[: len(data[start : start + length])] == data[start : start + length]
        assert file.tell() == 0
        with pytest.raises(BufferError):
            file.readinto_at(0, b"1234")
    with pytest.raises(ValueError):
        file.readinto_at(0, bytearray(3))
