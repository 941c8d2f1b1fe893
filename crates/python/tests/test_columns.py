"""Columns of Apache Arrow, also with false buffers."""

import gc
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import phalanx
from conftest import CIPHERS, child, flipped, is_one_line, needs, painted

pa = needs("pyarrow")

KEY = phalanx.Key.from_bytes(bytes(range(32)))
OTHER = phalanx.Key.from_bytes(bytes(range(1, 33)))

BINARY = [pa.binary(), pa.large_binary()]
TEXT = [pa.string(), pa.large_string()]


def values_of(type_, values):
    return [v if v is None else (v.decode("latin-1") if type_ in TEXT else v) for v in values]


@pytest.mark.parametrize("type_", BINARY + TEXT, ids=str)
@pytest.mark.parametrize(
    "values",
    [[], [None], [b""], [None, None, None], [b"a", None, b"", b"bcd" * 100, None], [b"x"] * 1000, [None, b"y"] * 13],
    ids=lambda values: f"{len(values)} values",
)
def test_sealed_columns_open_again(type_, values):
    values = values_of(type_, values)
    array = pa.array(values, type_)
    sealed = phalanx.seal_column(KEY, array)
    assert isinstance(sealed, pa.LargeBinaryArray) and sealed.type == pa.large_binary()
    sealed.validate(full=True)
    assert len(sealed) == len(array) and sealed.null_count == array.null_count
    assert [value is None for value in sealed.to_pylist()] == [value is None for value in values]
    opened = phalanx.unseal_column(KEY, sealed)
    opened.validate(full=True)
    assert opened.type == pa.large_binary()
    back = phalanx.unseal_column(KEY, sealed, type=type_)
    back.validate(full=True)
    assert back.type == type_ and back.equals(array) and back.to_pylist() == values


@pytest.mark.parametrize("cipher", CIPHERS)
def test_each_value_is_a_message(cipher):
    records, ads = [painted(n * 37, n) for n in range(50)], [b"%d" % n for n in range(50)]
    keys = [KEY if n % 3 else OTHER for n in range(50)]
    sealed = phalanx.seal_column(keys, pa.array(records, pa.binary()), ads, cipher=cipher)
    assert phalanx.unseal_many(keys, sealed.to_pylist(), ads, cipher=cipher) == records
    by_many = pa.array(phalanx.seal_many(keys, records, ads, cipher=cipher), pa.large_binary())
    assert phalanx.unseal_column(keys, by_many, ads, cipher=cipher).to_pylist() == records


@settings(max_examples=150)
@given(
    st.lists(st.none() | st.binary(max_size=60), max_size=60),
    st.sampled_from(BINARY),
    st.integers(0, 60),
    st.integers(0, 60),
)
def test_slices_of_columns_are_sealed(values, type_, start, length):
    """A slice shares the buffers of the whole; its validity begins within a byte."""
    array = pa.array(values, type_).slice(min(start, len(values)), length)
    expected = values[start : start + length]
    sealed = phalanx.seal_column(KEY, array)
    sealed.validate(full=True)
    assert phalanx.unseal_column(KEY, sealed).to_pylist() == expected
    assert [value and phalanx.unseal(KEY, value) for value in sealed.to_pylist()] == [value if value is None else value for value in expected]
    cut = sealed.slice(min(3, len(sealed)), 20)
    assert phalanx.unseal_column(KEY, cut).to_pylist() == expected[3:23]


@pytest.mark.parametrize("start", range(0, 20))
def test_nulls_of_slices_stay_null(start):
    values = [None if n % 3 == 0 else b"%d" % n for n in range(40)]
    for end in (start, start + 1, start + 7, start + 8, start + 9, 40):
        array = pa.array(values, pa.binary())[start:end]
        assert phalanx.unseal_column(KEY, phalanx.seal_column(KEY, array)).to_pylist() == values[start:end]


def test_keys_and_ads_belong_to_the_rows_of_a_slice():
    """They belong to the rows of the slice."""
    array = pa.array([b"a", None, b"c", b"d", b"e"])[2:4]
    sealed = phalanx.seal_column([KEY, OTHER], array, [b"1", b"2"])
    assert phalanx.unseal(KEY, sealed[0].as_py(), ad=b"1") == b"c"
    assert phalanx.unseal(OTHER, sealed[1].as_py(), ad=b"2") == b"d"


def test_keys_and_ads_of_nulls_are_not_used():
    array = pa.array([b"a", None, b"c"])
    sealed = phalanx.seal_column([KEY, OTHER, KEY], array, [b"1", b"2", b"3"])
    assert phalanx.unseal_column([KEY, KEY, KEY], sealed, [b"1", b"", b"3"]).to_pylist() == [b"a", None, b"c"]


@pytest.mark.parametrize("count", [0, 2, 4])
def test_unequal_lengths_are_refused(count):
    array = pa.array([b"a", b"b", None])
    for call, column in ((phalanx.seal_column, array), (phalanx.unseal_column, phalanx.seal_column(KEY, array)), (phalanx.seal_column, pa.chunked_array([array]))):
        with pytest.raises(ValueError) as caught:
            call([KEY] * count, column)
        assert is_one_line(caught.value)
        with pytest.raises(ValueError) as caught:
            call(KEY, column, [b"ad"] * count)
        assert is_one_line(caught.value)


@pytest.mark.parametrize("sizes", [[], [0], [3], [2, 0, 3], [1] * 7])
def test_chunked_arrays_are_sealed(sizes):
    chunks, n = [], 0
    for size in sizes:
        chunks.append(pa.array([None if (n + i) % 4 == 2 else b"%d" % (n + i) for i in range(size)], pa.binary()))
        n += size
    column = pa.chunked_array(chunks, pa.binary())
    keys, ads = [KEY if i % 2 else OTHER for i in range(n)], [b"ad %d" % i for i in range(n)]
    sealed = phalanx.seal_column(keys, column, ads)
    assert sealed.type == pa.large_binary() and len(sealed) == n
    sealed.validate(full=True)
    opened = phalanx.unseal_column(keys, sealed, ads, type=pa.binary())
    assert opened.type == pa.binary() and opened.to_pylist() == column.to_pylist()
    # The same key for all, keys from a generator, and a table.
    assert phalanx.unseal_column(KEY, phalanx.seal_column(KEY, column)).to_pylist() == column.to_pylist()
    assert phalanx.unseal_column(iter(keys), phalanx.seal_column(iter(keys), column, iter(ads)), iter(ads)).to_pylist() == column.to_pylist()
    table = pa.table({"plain": column, "sealed": sealed})
    assert phalanx.unseal_column(keys, table["sealed"], ads).to_pylist() == column.to_pylist()


def test_failed_rows_of_chunked_arrays_are_counted_from_the_beginning():
    column = pa.chunked_array([[b"a", b"b"], [b"c"], [b"d", b"e", b"f"]])
    sealed = [chunk.to_pylist() for chunk in phalanx.seal_column(KEY, column).chunks]
    sealed[0][1] = sealed[2][2] = b"altered"
    damaged = pa.chunked_array([pa.array(chunk, pa.large_binary()) for chunk in sealed])
    assert phalanx.unseal_column(KEY, damaged, errors="none").to_pylist() == [b"a", None, b"c", b"d", b"e", None]
    with pytest.raises(phalanx.AuthenticationError) as caught:
        phalanx.unseal_column(KEY, damaged)
    # All of them, as the documentation says, and as it is for an array in one piece.
    assert caught.value.failed == [1, 5]


def altered(sealed, places):
    return pa.array([flipped(value) if n in places else value for n, value in enumerate(sealed.to_pylist())], sealed.type)


@settings(max_examples=80)
@given(st.lists(st.none() | st.binary(max_size=20), max_size=30), st.sets(st.integers(0, 29)))
def test_exactly_the_altered_values_fail(values, places):
    places = sorted(n for n in places if n < len(values) and values[n] is not None)
    sealed = altered(phalanx.seal_column(KEY, pa.array(values, pa.binary())), places)
    opened = phalanx.unseal_column(KEY, sealed, errors="none")
    opened.validate(full=True)
    assert opened.to_pylist() == [None if n in places else value for n, value in enumerate(values)]
    if places:
        with pytest.raises(phalanx.AuthenticationError) as caught:
            phalanx.unseal_column(KEY, sealed)
        assert caught.value.failed == places and is_one_line(caught.value)
    else:
        assert phalanx.unseal_column(KEY, sealed).to_pylist() == values


def test_plaintext_of_refused_values_is_not_in_the_buffers():
    """No byte of a value that is not authentic is given out, not even in an unused part of a buffer."""
    secret = painted(1000)
    sealed = altered(phalanx.seal_column(KEY, pa.array([b"a", secret, b"b"])), [1])
    opened = phalanx.unseal_column(KEY, sealed, errors="none")
    assert opened.to_pylist() == [b"a", None, b"b"]
    assert all(secret[:16] not in buffer.to_pybytes() for buffer in opened.buffers() if buffer is not None)


def test_values_that_are_too_short_fail():
    short = pa.array([b"", b"x" * 10, b"x" * 47, b"x" * 48], pa.binary())
    assert phalanx.unseal_column(KEY, short, errors="none").to_pylist() == [None] * 4
    with pytest.raises(phalanx.AuthenticationError) as caught:
        phalanx.unseal_column(KEY, short)
    assert caught.value.failed == [0, 1, 2, 3]


@pytest.mark.parametrize("type_", [pa.int64(), pa.float32(), pa.bool_(), pa.list_(pa.binary()), pa.struct([("a", pa.binary())]), pa.timestamp("s"), pa.decimal128(5)], ids=str)
def test_columns_of_other_types_are_refused(type_):
    with pytest.raises(TypeError) as caught:
        phalanx.seal_column(KEY, pa.array([None, None], type_))
    assert is_one_line(caught.value) and str(type_).split("<")[0] in str(caught.value)


@pytest.mark.parametrize("type_", [pa.binary_view(), pa.string_view(), pa.binary(3), pa.dictionary(pa.int8(), pa.string()), pa.null()], ids=str)
def test_related_types_work_or_are_refused(type_):
    """None of them may be read with the wrong layout."""
    values = [None, None] if type_ == pa.null() else [b"abc", None, b"xyz"]
    if type_ in (pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        values = ["abc", None, "xyz"]
    array = pa.array(values, type_)
    for column in (array, array[1:], pa.chunked_array([array, array[1:]])):
        try:
            sealed = phalanx.seal_column(KEY, column)
        except TypeError:
            continue
        opened = phalanx.unseal_column(KEY, sealed).to_pylist()
        assert opened == [v.encode() if isinstance(v, str) else v for v in column.to_pylist()]


@pytest.mark.parametrize("thing", [None, [b"a"], (b"a",), b"a", "text", 5, object(), pa.scalar(b"a"), pa.table({"a": [b"a"]}), memoryview(b"a")], ids=lambda t: type(t).__name__)
def test_other_objects_are_refused(thing):
    for call in (phalanx.seal_column, phalanx.unseal_column):
        with pytest.raises(TypeError):
            call(KEY, thing)


def test_arrays_of_numpy_and_pandas_are_refused():
    numpy = needs("numpy")
    with pytest.raises(TypeError):
        phalanx.seal_column(KEY, numpy.array([b"a", b"b"]))


@pytest.mark.parametrize("options", [{"cipher": "aes-512"}, {"threads": 0}, {"errors": "ignore"}])
def test_impossible_options_are_refused(options):
    call = phalanx.unseal_column if "errors" in options else phalanx.seal_column
    with pytest.raises(ValueError):
        call(KEY, pa.array([b"x"]), **options)


def test_plaintext_of_another_type_is_refused():
    sealed = phalanx.seal_column(KEY, pa.array([b"\xff\xfe"]))
    with pytest.raises((ValueError, phalanx.Error)):
        phalanx.unseal_column(KEY, sealed, type=pa.string())
    with pytest.raises((TypeError, ValueError, NotImplementedError)):
        phalanx.unseal_column(KEY, sealed, type=pa.list_(pa.int8()))


def offsets(type_, numbers):
    code = "q" if type_ in (pa.large_binary(), pa.large_string()) else "i"
    return pa.py_buffer(struct.pack(f"={len(numbers)}{code}", *numbers))


LIMITS = {pa.binary(): (1 << 31) - 1, pa.large_binary(): (1 << 63) - 1}


@pytest.mark.parametrize("type_", BINARY + TEXT, ids=str)
@pytest.mark.parametrize(
    "numbers",
    [
        [0, 5, 101],
        [0, 101, 101],
        [101, 101, 101],
        [-1, 5, 10],
        [0, -1, 10],
        [5, 3, 10],
        [10, 10, 0],
        [0, 5, "most"],
        ["most", "most", "most"],
        [0, "most", 5],
        ["least", 0, 0],
        [0, "least", 0],
        [0, 0, "least"],
    ],
    ids=str,
)
@pytest.mark.parametrize("start", [0, 1])
def test_false_offsets_are_refused(type_, numbers, start):
    """Reading what they say would crash, or read other memory."""
    most = LIMITS.get(type_) or LIMITS[pa.large_binary() if type_ == pa.large_string() else pa.binary()]
    numbers = [{"most": most, "least": -most - 1}.get(number, number) for number in numbers]
    whole = [0] * start + numbers
    # pyarrow checks the first and the last offset once, when the array is made. They can be changed afterwards.
    changed = bytearray(offsets(type_, [0] * len(whole)))
    array = pa.Array.from_buffers(type_, 2, [None, pa.py_buffer(changed), pa.py_buffer(bytes(100))], offset=start)
    changed[:] = offsets(type_, whole)
    for call in (phalanx.seal_column, phalanx.unseal_column):
        with pytest.raises(ValueError) as caught:
            call(KEY, array)
        assert is_one_line(caught.value)


def test_a_wrong_null_count_does_not_matter():
    """The null count and the validity contradict each other."""
    for bits, null_count in ((b"\x00", 0), (b"\xff", 2)):
        array = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(bits), offsets(pa.binary(), [0, 1, 3]), pa.py_buffer(b"abc")], null_count=null_count)
        try:
            sealed = phalanx.seal_column(KEY, array)
        except ValueError:
            continue
        assert len(sealed) == 2
        sealed.validate(full=True)


def test_data_of_nulls_do_not_matter():
    """A null may have any extent in the data; it is not read."""
    array = pa.Array.from_buffers(pa.binary(), 3, [pa.py_buffer(b"\x05"), offsets(pa.binary(), [0, 1, 7, 10]), pa.py_buffer(b"a??????bcd")])
    assert array.to_pylist() == [b"a", None, b"bcd"]
    sealed = phalanx.seal_column(KEY, array)
    assert phalanx.unseal_column(KEY, sealed).to_pylist() == [b"a", None, b"bcd"]


def test_offsets_may_begin_after_0():
    array = pa.Array.from_buffers(pa.binary(), 2, [None, offsets(pa.binary(), [4, 6, 9]), pa.py_buffer(b"....abcde")])
    sealed = phalanx.seal_column(KEY, array)
    assert phalanx.unseal_column(KEY, sealed).to_pylist() == [b"ab", b"cde"]


def test_writable_buffers_are_sealed():
    """pyarrow takes a bytearray as a buffer, which may be changed later. The checked bytes are the bytes that are read."""
    numbers, data = bytearray(struct.pack("=3i", 0, 2, 5)), bytearray(b"abcde")
    array = pa.Array.from_buffers(pa.binary(), 2, [None, pa.py_buffer(numbers), pa.py_buffer(data)])
    assert phalanx.unseal_column(KEY, phalanx.seal_column(KEY, array)).to_pylist() == [b"ab", b"cde"]
    import sys
    import threading

    stop = threading.Event()

    def change():
        while not stop.is_set():
            numbers[4:8] = struct.pack("=i", 1 << 30)
            numbers[4:8] = struct.pack("=i", 2)

    thread = threading.Thread(target=change)
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        for _ in range(2000):
            try:
                assert len(phalanx.seal_column(KEY, array)) == 2
            except ValueError:
                pass
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(old)


@pytest.mark.parametrize("name", ["system", "default"])
def test_the_result_is_in_the_named_memory_pool(name):
    pool = pa.system_memory_pool() if name == "system" else pa.default_memory_pool()
    array = pa.array([b"x" * 1000] * 1000)
    before = pool.bytes_allocated()
    sealed = phalanx.seal_column(KEY, array, memory_pool=pool if name == "system" else None)
    assert pool.bytes_allocated() - before >= 1048 * 1000
    with_sealed = pool.bytes_allocated()
    opened = phalanx.unseal_column(KEY, sealed, memory_pool=pool if name == "system" else None)
    assert opened.to_pylist() == array.to_pylist()
    assert pool.bytes_allocated() - with_sealed >= 1000 * 1000
    del sealed, opened
    gc.collect()
    assert pool.bytes_allocated() == before


def test_the_result_keeps_its_buffers():
    opened = phalanx.unseal_column(KEY, phalanx.seal_column(KEY, pa.array([b"value %d" % n for n in range(1000)])))
    gc.collect()
    assert opened[999].as_py() == b"value 999"
    piece = opened[500:501]
    del opened
    gc.collect()
    assert piece.to_pylist() == [b"value 500"]


def test_a_large_column_is_sealed():
    count = 300_000
    array = pa.array([b"%d" % n for n in range(count)])
    sealed = phalanx.seal_column([KEY, OTHER] * (count // 2), array)
    assert phalanx.unseal_column([KEY, OTHER] * (count // 2), sealed, type=pa.binary()).equals(array)


def test_more_bytes_than_fit_at_once_are_sealed():
    array = pa.array([bytes([n]) * (1 << 20) for n in range(80)] + [None, b"", bytes(40 << 20)], pa.large_binary())
    sealed = phalanx.seal_column(KEY, array)
    assert phalanx.unseal_column(KEY, sealed).equals(array)
    damaged = sealed.to_pylist()
    for n in (70, 82):
        damaged[n] = flipped(damaged[n])
    with pytest.raises(phalanx.AuthenticationError) as caught:
        phalanx.unseal_column(KEY, pa.array(damaged, pa.large_binary()))
    assert caught.value.failed == [70, 82]


def test_pyarrow_is_not_imported_before_it_is_needed():
    done = child("import sys, phalanx; phalanx.seal(phalanx.Key.generate(), b'x'); print('pyarrow' in sys.modules, 'numpy' in sys.modules, 'fsspec' in sys.modules)")
    assert done.stdout.split() == ["False"] * 3, done.stderr


def test_what_gives_the_keys_may_raise_and_nothing_is_hidden():
    """A key that is itself a message may be altered. Then there are no rows, neither of nulls nor of others' numbers."""
    wrapped = [phalanx.seal(KEY, OTHER.to_bytes()) for _ in range(3)]
    column = phalanx.seal_column(OTHER, pa.array(["a", "b", "c"]))

    def one_by_one(wrapped):
        return (phalanx.Key.from_bytes(phalanx.unseal(KEY, message)) for message in wrapped)

    def at_once(wrapped):
        yield from map(phalanx.Key.from_bytes, phalanx.unseal_many(KEY, wrapped))

    class Late(list):
        """A sequence whose keys are opened when they are taken."""

        def __iter__(self):
            return one_by_one(self[:])

    for array in (column, pa.chunked_array([column[:1], column[1:]])):
        for keys in (one_by_one, at_once, Late):
            assert phalanx.unseal_column(keys(wrapped), array).to_pylist() == [b"a", b"b", b"c"]
            for errors in ("raise", "none"):
                with pytest.raises(phalanx.AuthenticationError) as raised:
                    phalanx.unseal_column(keys([wrapped[0], flipped(wrapped[1]), wrapped[2]]), array, errors=errors)
                # Those that were opened at once have the places of the wrapped keys.
                assert raised.value.failed == ([1] if keys is at_once else None)
