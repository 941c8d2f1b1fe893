"""The native half of reading by range: it says which stored bytes it needs, and gets them from Python."""

import io
import threading

import pytest
from conftest import painted

import phalanx
from phalanx import _native

KEY = phalanx.Key.from_bytes(bytes(range(32)))
CHUNK = 4096
LENGTHS = [0, 1, CHUNK, CHUNK + 1, 3 << 20, (5 << 20) + 77]


def protected(data, chunk_size=CHUNK):
    sink = io.BytesIO()
    with phalanx.open(sink, "wb", key=KEY, chunk_size=chunk_size) as file:
        file.write(data)
    return sink.getvalue()


def opening_of(stored, size=None):
    opening = _native.RangeOpening(len(stored) if size is None else size)
    while needs := opening.needs():
        opening.feed(stored[slice(*needs)])
    return opening


def reader_of(stored, **options):
    return opening_of(stored).open(key=KEY, **options)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("length", LENGTHS)
def test_ranges_are_equal_to_the_plaintext(length, threads):
    data = painted(length)
    stored = protected(data)
    reader = reader_of(stored, threads=threads)
    assert (reader.size, reader.chunk_size) == (length, CHUNK)
    edges = {0, 1, CHUNK - 1, CHUNK, (1 << 20) - 1, 1 << 20, length // 2, length - 1, length, length + 5, 1 << 60} - {-1}
    for start in edges:
        for stop in edges:
            first, last = reader.needs(start, stop)
            assert reader.read(start, stop, stored[first:last], first) == data[start:stop]
            assert reader.read(start, stop, stored, 0) == data[start:stop]


def test_large_chunks_are_read():
    data = painted(9 << 20)
    stored = protected(data, 4 << 20)
    reader = reader_of(stored)
    assert reader.read(0, 9 << 20, stored, 0) == data
    assert reader.read((4 << 20) - 1, (8 << 20) + 1, bytearray(stored), 0) == data[(4 << 20) - 1 : (8 << 20) + 1]


@pytest.mark.parametrize("threads", [1, 4])
def test_the_first_damaged_chunk_is_reported(threads):
    stored = bytearray(protected(painted(8 << 20)))
    reader = reader_of(bytes(stored), threads=threads)
    for chunk in (1000, 1999, 700):
        stored[reader.needs(chunk * CHUNK, chunk * CHUNK + 1)[0] + 100] ^= 1
    for _ in range(20):
        with pytest.raises(phalanx.AuthenticationError) as raised:
            reader.read(0, 8 << 20, stored, 0)
        assert raised.value.chunk == 700
    with pytest.raises(phalanx.AuthenticationError) as raised:
        reader.read(701 * CHUNK, 8 << 20, stored, 0)
    assert raised.value.chunk == 1000
    assert reader.read(0, 700 * CHUNK, stored, 0) == painted(8 << 20)[: 700 * CHUNK]


def test_stored_bytes_that_are_missing_are_an_error():
    stored = protected(painted(100_000))
    reader = reader_of(stored)
    first, last = reader.needs(50_000, 60_000)
    for part, start in ((stored[first : last - 1], first), (stored[first + 1 : last], first + 1), (b"", 0), (stored, 1 << 60)):
        with pytest.raises(OSError, match="changed"):
            reader.read(50_000, 60_000, part, start)


def test_other_numbers_of_bytes_than_needed_are_an_error():
    stored = protected(painted(10_000))
    opening = _native.RangeOpening(len(stored))
    for wrong in (b"", stored[:10], stored):
        with pytest.raises(OSError, match="changed"):
            opening.feed(wrong)
    assert opening.needs() == (0, 4096)
    with pytest.raises(OSError, match="changed"):
        opening.open(key=KEY)


def test_a_file_is_opened_once():
    opening = opening_of(protected(b"data"))
    opening.open(key=KEY)
    assert opening.needs() is None
    for again in (lambda: opening.open(key=KEY), lambda: opening.feed(b"")):
        with pytest.raises(ValueError, match="has been opened"):
            again()


def test_a_wrong_key_raises(other_key):
    stored = protected(b"data")
    for options in ({"key": other_key}, {"keys": [other_key]}, {}):
        with pytest.raises(phalanx.WrongKeyError):
            opening_of(stored).open(**options)
    assert opening_of(stored).open(keys=[other_key, KEY]).size == 4


def test_threads_share_a_reader():
    data = painted(4 << 20)
    stored = protected(data)
    reader, wrong = reader_of(stored, threads=3), []

    def read(number):
        for start in range(number * 1000, len(data), 900_000):
            if reader.read(start, start + 2_000_000, stored, 0) != data[start : start + 2_000_000]:
                wrong.append(start)

    threads = [threading.Thread(target=read, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
