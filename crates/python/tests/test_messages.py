"""Messages: one, and many."""

import array
import gc
import itertools
import random
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import phalanx
from conftest import CIPHERS, flipped, is_one_line, painted

KEY = phalanx.Key.from_bytes(bytes(range(32)))
OTHER = phalanx.Key.from_bytes(bytes(range(1, 33)))
OVERHEAD = {cipher: 28 if cipher.endswith("gcm") else 48 for cipher in CIPHERS}


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 4095, 4096, 4097, 100_000])
def test_sealed_records_open_again(cipher, size):
    record = painted(size)
    sealed = phalanx.seal(KEY, record, ad=b"ad", cipher=cipher)
    assert type(sealed) is bytes and len(sealed) == size + OVERHEAD[cipher]
    assert size < 16 or record[:16] not in sealed
    opened = phalanx.unseal(KEY, sealed, ad=b"ad", cipher=cipher)
    assert type(opened) is bytes and opened == record
    assert phalanx.unseal_many(KEY, [sealed], [b"ad"], cipher=cipher) == [record]
    (again,) = phalanx.seal_many([KEY], [record], [b"ad"], cipher=cipher)
    assert len(again) == len(sealed) and phalanx.unseal(KEY, again, ad=b"ad", cipher=cipher) == record


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.binary(max_size=300), st.binary(max_size=40), st.integers(0, 2)), max_size=30),
    st.sampled_from(CIPHERS),
    st.sampled_from([None, 1, 2, 5]),
)
def test_many_messages_are_sealed_like_single_ones(messages, cipher, threads):
    keys = [KEY, OTHER, phalanx.Key.from_bytes(bytes(32))]
    each = [keys[which] for _, _, which in messages]
    records, ads = [m[0] for m in messages], [m[1] for m in messages]
    sealed = phalanx.seal_many(each, records, ads, cipher=cipher, threads=threads)
    assert type(sealed) is list and all(type(message) is bytes for message in sealed)
    assert [phalanx.unseal(key, message, ad=ad, cipher=cipher) for key, message, ad in zip(each, sealed, ads)] == records
    alone = [phalanx.seal(key, record, ad=ad, cipher=cipher) for key, record, ad in zip(each, records, ads)]
    assert phalanx.unseal_many(each, alone, ads, cipher=cipher, threads=threads) == records


def test_equal_records_are_sealed_differently():
    sealed = phalanx.seal_many(KEY, [b"the same"] * 1000)
    assert len(set(sealed)) == 1000
    assert len({message[:16] for message in sealed}) == 1000, "each message has a nonce of its own"


def test_empty_lists_are_sealed():
    for empty in ([], (), iter([]), {}.values()):
        assert phalanx.seal_many(KEY, empty) == []
    assert phalanx.seal_many([], []) == phalanx.unseal_many([], []) == phalanx.unseal_many(KEY, [], [], errors="none") == []


def test_very_many_messages_are_sealed():
    count = 200_000
    records = [b"%d" % n for n in range(count)]
    sealed = phalanx.seal_many(KEY, records, [b"%d" % -n for n in range(count)])
    assert len(sealed) == count
    assert phalanx.unseal_many(KEY, sealed, [b"%d" % -n for n in range(count)]) == records


def test_large_messages_among_small_ones_are_sealed():
    """One message is larger than what is done at once, and the others are small."""
    records = [b"small", bytes(70 << 20), b"", painted(1 << 20), bytes(33 << 20)]
    for cipher in ("aes-256", "aes-256-gcm"):
        sealed = phalanx.seal_many(KEY, records, cipher=cipher)
        assert phalanx.unseal_many(KEY, sealed, cipher=cipher) == records
    assert phalanx.unseal(KEY, phalanx.seal(KEY, records[1])) == records[1]


def kinds(data):
    yield data
    yield bytearray(data)
    yield memoryview(data)
    yield memoryview(b"<" + data + b">")[1:-1]
    yield memoryview(bytearray(data))
    yield array.array("B", data)


def test_all_kinds_of_buffers_are_sealed():
    record = painted(1000)
    for given_, ad in itertools.product(kinds(record), kinds(b"associated data")):
        sealed = phalanx.seal(KEY, given_, ad=ad)
        assert phalanx.unseal(KEY, sealed, ad=ad) == record
        for again in kinds(sealed):
            assert phalanx.unseal(KEY, again, ad=b"associated data") == record
    assert phalanx.unseal_many(KEY, phalanx.seal_many(KEY, kinds(record), kinds(b"x")), kinds(b"x")) == [record] * 6


def test_empty_buffers_are_sealed():
    for empty in (b"", bytearray(), memoryview(b""), array.array("B"), array.array("d")):
        assert phalanx.unseal(KEY, phalanx.seal(KEY, empty, ad=empty), ad=b"") == b""
    assert phalanx.unseal_many(KEY, phalanx.seal_many(KEY, [b""] * 10)) == [b""] * 10


@pytest.mark.parametrize("kind", [list, tuple, iter, lambda values: (value for value in values), dict.fromkeys])
def test_all_kinds_of_iterables_are_accepted(kind):
    keys = [KEY, OTHER, KEY]
    records = [b"a", b"b", b"c"]
    ads = [b"1", b"2", b"3"]
    sealed = phalanx.seal_many(list(keys) if kind == dict.fromkeys else kind(keys), kind(records), kind(ads))
    assert phalanx.unseal_many(keys, kind(sealed), kind(ads)) == records


def test_exceptions_of_generators_are_raised_unchanged():
    class Mine(Exception):
        pass

    raised = Mine()

    def generator():
        yield b"a"
        raise raised

    for call in (
        lambda: phalanx.seal_many(KEY, generator()),
        lambda: phalanx.seal_many(KEY, [b"a", b"b"], generator()),
        lambda: phalanx.unseal_many(KEY, generator()),
        lambda: phalanx.unseal_many(KEY, [b"a", b"b"], generator(), errors="none"),
    ):
        with pytest.raises(Mine) as caught:
            call()
        assert caught.value is raised

    def keys():
        yield KEY
        raise raised

    with pytest.raises(Mine) as caught:
        phalanx.seal_many(keys(), [b"a", b"b"])


@pytest.mark.parametrize("count", [0, 1, 2, 4, 100])
def test_unequal_lengths_are_refused(count):
    records = [b"a", b"b", b"c"]
    for call in (phalanx.seal_many, phalanx.unseal_many):
        with pytest.raises(ValueError) as caught:
            call([KEY] * count, records)
        assert is_one_line(caught.value)
        with pytest.raises(ValueError) as caught:
            call(KEY, records, [b"ad"] * count)
        assert is_one_line(caught.value)


@pytest.mark.parametrize("wrong", ["text", None, 5, 1.5, [1], object()])
def test_records_without_a_buffer_are_refused(wrong):
    for call in (
        lambda: phalanx.seal(KEY, wrong),
        lambda: phalanx.unseal(KEY, wrong),
        lambda: phalanx.seal_many(KEY, [b"a", wrong]),
        lambda: phalanx.unseal_many(KEY, [b"a", wrong]),
        lambda: phalanx.unseal_many(KEY, [b"a", wrong], errors="none"),
        lambda: phalanx.seal_many(KEY, [b"a", b"b"], [b"a", wrong]),
        lambda: phalanx.seal(KEY, b"x", ad=wrong) if wrong is not None else phalanx.seal(KEY, wrong),
    ):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("wrong", [memoryview(bytes(20))[::2], memoryview(bytes(20))[::-1]])
def test_buffers_that_are_not_contiguous_are_refused(wrong):
    for call in (
        lambda: phalanx.seal(KEY, wrong),
        lambda: phalanx.seal(KEY, b"x", ad=wrong),
        lambda: phalanx.unseal(KEY, wrong),
        lambda: phalanx.seal_many(KEY, [b"x", wrong]),
    ):
        with pytest.raises((BufferError, TypeError, ValueError)) as caught:
            call()
        assert not isinstance(caught.value, phalanx.Error)


@pytest.mark.parametrize("wrong", [None, 5, b"x" * 32, [], [b"x" * 32], [None], object()])
def test_other_objects_are_refused_as_keys(wrong):
    for call in (
        lambda: phalanx.seal_many(wrong, [b"a"]),
        lambda: phalanx.unseal_many(wrong, [b"a"]),
        lambda: phalanx.seal(wrong, b"a"),
        lambda: phalanx.unseal(wrong, b"a"),
    ):
        with pytest.raises((TypeError, ValueError)):
            call()


@pytest.mark.parametrize("wrong", [5, b"x", None])
def test_bytes_are_refused_as_lists(wrong):
    """Bytes are a sequence of numbers, and no records."""
    with pytest.raises(TypeError):
        phalanx.seal_many(KEY, wrong)
    with pytest.raises(TypeError):
        phalanx.unseal_many(KEY, wrong)


@pytest.mark.parametrize("options", [{"cipher": "aes-512"}, {"cipher": ""}, {"threads": 0}, {"errors": "ignore"}, {"errors": ""}])
def test_impossible_options_are_refused(options):
    call = phalanx.unseal_many if "errors" in options else phalanx.seal_many
    with pytest.raises(ValueError) as caught:
        call(KEY, [b"x"], **options)
    assert is_one_line(caught.value)


@pytest.mark.parametrize("engine", ["auto", "cpu", "serial"])
def test_all_engines_seal_messages(engine):
    records = [painted(n) for n in range(300)]
    sealed = phalanx.seal_many(KEY, records, engine=engine)
    assert phalanx.unseal_many(KEY, sealed, engine=engine) == records
    with pytest.raises(ValueError):
        phalanx.seal_many(KEY, records, engine="steam")


def test_keys_of_the_keyring_seal_messages():
    key = phalanx.Key.generate().store("work")
    sealed = phalanx.seal("work", b"record")
    assert phalanx.unseal(key, sealed) == b"record"
    assert phalanx.unseal_many("work", phalanx.seal_many("work", [b"record"])) == [b"record"]
    for call in (lambda: phalanx.seal("absent", b"x"), lambda: phalanx.seal_many("absent", [b"x"]), lambda: phalanx.unseal_many("absent", [b"x"] * 6)):
        with pytest.raises(phalanx.KeyringError):
            call()


def refused(*arguments, **options):
    with pytest.raises(phalanx.AuthenticationError) as caught:
        phalanx.unseal(*arguments, **options)
    assert caught.value.failed is None and caught.value.chunk is None
    assert is_one_line(caught.value)


@pytest.mark.parametrize("cipher", CIPHERS)
def test_altered_messages_are_refused(cipher):
    record = painted(100)
    sealed = phalanx.seal(KEY, record, ad=b"user 7", cipher=cipher)
    for at in range(len(sealed)):
        changed = bytearray(sealed)
        changed[at] ^= 1 << at % 8
        refused(KEY, changed, ad=b"user 7", cipher=cipher)
    for length in (0, 1, OVERHEAD[cipher] - 1, OVERHEAD[cipher], len(sealed) - 1):
        refused(KEY, sealed[:length], ad=b"user 7", cipher=cipher)
    refused(KEY, sealed + b"\0", ad=b"user 7", cipher=cipher)
    refused(OTHER, sealed, ad=b"user 7", cipher=cipher)
    for ad in (b"", b"user 8", b"user 7\0", b"User 7", b"user"):
        refused(KEY, sealed, ad=ad, cipher=cipher)
    for other in CIPHERS:
        if other != cipher:
            refused(KEY, sealed, ad=b"user 7", cipher=other)
    assert phalanx.unseal(KEY, sealed, ad=b"user 7", cipher=cipher) == record


@settings(max_examples=100)
@given(st.integers(1, 40), st.sets(st.integers(0, 39)), st.sampled_from(["byte", "ad", "key", "short"]))
def test_exactly_the_altered_messages_fail(count, bad, how):
    bad = sorted(place for place in bad if place < count)
    records, ads, keys = [b"record %d" % n for n in range(count)], [b"%d" % n for n in range(count)], [KEY] * count
    sealed = phalanx.seal_many(keys, records, ads)
    for place in bad:
        if how == "byte":
            sealed[place] = flipped(sealed[place])
        elif how == "ad":
            ads[place] = b"moved"
        elif how == "key":
            keys[place] = OTHER
        else:
            sealed[place] = sealed[place][:20]
    expected = [None if n in bad else record for n, record in enumerate(records)]
    assert phalanx.unseal_many(keys, sealed, ads, errors="none") == expected
    if bad:
        with pytest.raises(phalanx.AuthenticationError) as caught:
            phalanx.unseal_many(keys, sealed, ads)
        assert caught.value.failed == bad and type(caught.value.failed) is list
        assert caught.value.chunk is None and is_one_line(caught.value)
    else:
        assert phalanx.unseal_many(keys, sealed, ads, errors="raise") == records


def test_moved_associated_data_are_detected():
    ads = [b"a", b"b", b"c", b"d"]
    sealed = phalanx.seal_many(KEY, [b"1", b"2", b"3", b"4"], ads)
    with pytest.raises(phalanx.AuthenticationError) as caught:
        phalanx.unseal_many(KEY, sealed, [b"a", b"c", b"b", b"d"])
    assert caught.value.failed == [1, 2]
    with pytest.raises(phalanx.AuthenticationError) as caught:
        phalanx.unseal_many(KEY, sealed)
    assert caught.value.failed == [0, 1, 2, 3]
    with pytest.raises(phalanx.AuthenticationError) as caught:
        phalanx.unseal_many(KEY, [sealed[1], sealed[0], *sealed[2:]], ads)
    assert caught.value.failed == [0, 1]


def test_failures_in_later_groups_have_the_right_places():
    """More bytes than are opened at once."""
    records = [bytes(1 << 20)] * 80
    sealed = phalanx.seal_many(KEY, records)
    for place in (3, 50, 79):
        sealed[place] = flipped(sealed[place])
    with pytest.raises(phalanx.AuthenticationError) as caught:
        phalanx.unseal_many(KEY, sealed)
    assert caught.value.failed == [3, 50, 79]
    opened = phalanx.unseal_many(KEY, sealed, errors="none")
    assert [n for n, record in enumerate(opened) if record is None] == [3, 50, 79]


def test_very_many_messages_can_all_fail():
    with pytest.raises(phalanx.AuthenticationError) as caught:
        phalanx.unseal_many(KEY, [bytes(60)] * 100_000)
    assert caught.value.failed == list(range(100_000))
    assert len(str(caught.value)) < 1000, "the text does not list them all"


def test_exceptions_do_not_share_their_lists():
    assert phalanx.AuthenticationError.failed is None
    caught = []
    for count in (1, 2):
        try:
            phalanx.unseal_many(KEY, [b"x"] * count)
        except phalanx.AuthenticationError as error:
            caught.append(error)
    assert [error.failed for error in caught] == [[0], [0, 1]]


def changing(buffer, stop):
    """Changes a buffer's bytes all the time."""
    value = 0
    while not stop.is_set():
        value = (value + 1) % 256
        buffer[:] = bytes([value]) * len(buffer)


def test_a_record_may_be_changed_by_another_thread():
    """The opened message is what the buffer had at some moment, or a mixture. There is no crash."""
    buffer, stop = bytearray(1 << 20), threading.Event()
    thread = threading.Thread(target=changing, args=(buffer, stop))
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        for _ in range(30):
            for cipher in ("aes-256", "aes-256-gcm"):
                opened = phalanx.unseal(KEY, phalanx.seal(KEY, buffer, cipher=cipher), cipher=cipher)
                assert len(opened) == 1 << 20
            opened = phalanx.unseal_many(KEY, phalanx.seal_many(KEY, [buffer, memoryview(buffer)[:10]]))
            assert [len(record) for record in opened] == [1 << 20, 10]
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(old)


def test_sealed_bytes_may_be_changed_by_another_thread():
    """The bytes that are checked are the bytes that are opened."""
    record = painted(1 << 20)
    whole = phalanx.seal(KEY, record)
    buffer, stop = bytearray(whole), threading.Event()

    def flip():
        while not stop.is_set():
            buffer[5000] ^= 1

    thread = threading.Thread(target=flip)
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        for _ in range(100):
            for opened in (
                phalanx.unseal_many(KEY, [buffer], errors="none")[0],
                attempt(phalanx.unseal, KEY, buffer),
            ):
                assert opened is None or opened == record, "nothing false is returned"
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(old)


def attempt(function, *arguments):
    try:
        return function(*arguments)
    except phalanx.AuthenticationError:
        return None


def test_a_buffer_may_be_resized_by_another_thread():
    """An exported bytearray cannot be resized. Without an export it can."""
    stop, buffer = threading.Event(), bytearray(10_000)

    def resize():
        rng = random.Random(3)
        while not stop.is_set():
            try:
                buffer[:] = bytes(rng.randrange(20_000))
            except BufferError:
                pass

    thread = threading.Thread(target=resize)
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        for _ in range(500):
            sealed = phalanx.seal_many(KEY, [buffer] * 3)
            assert all(len(record) < 20_000 for record in phalanx.unseal_many(KEY, sealed))
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(old)


def test_buffers_are_released_after_a_call():
    buffer = bytearray(100)
    sealed = bytearray(phalanx.seal(KEY, buffer, ad=buffer))
    phalanx.unseal(KEY, sealed, ad=buffer)
    phalanx.seal_many(KEY, [buffer], [buffer])
    with pytest.raises(phalanx.AuthenticationError):
        phalanx.unseal_many(KEY, [buffer], [sealed])
    buffer.extend(b"x")
    sealed.extend(b"x")


def test_a_false_length_hint_does_not_matter():
    class Liar:
        def __init__(self, says):
            self.says = says

        def __len__(self):
            return self.says

        def __length_hint__(self):
            return self.says

        def __iter__(self):
            return iter([b"a", b"b"])

    for says in (0, 1, 1 << 40):
        assert phalanx.unseal_many(KEY, phalanx.seal_many(KEY, Liar(says))) == [b"a", b"b"]


def test_a_sequence_may_shrink_while_it_is_read():
    records = [b"a"] * 10

    class Odd(bytes):
        pass

    class Shrinking:
        def __iter__(self):
            for record in list(records):
                records.clear()
                gc.collect()
                yield Odd(record)

    assert len(phalanx.seal_many(KEY, Shrinking())) == 10


def test_subclasses_of_bytes_are_sealed():
    class Mine(bytes):
        def __len__(self):
            return 1 << 40

        def __getitem__(self, _):
            raise RuntimeError

    sealed = phalanx.seal(KEY, Mine(b"record"))
    assert phalanx.unseal(KEY, Mine(sealed)) == b"record"


def test_records_may_be_dropped_while_they_are_sealed():
    """A sequence that makes its records and forgets them."""

    def records():
        for n in range(100):
            yield b"record %d" % n * 10
            gc.collect(0)

    sealed = phalanx.seal_many(KEY, records())
    gc.collect()
    assert phalanx.unseal_many(KEY, sealed) == [b"record %d" % n * 10 for n in range(100)]


def test_eight_threads_seal_at_once():
    from concurrent.futures import ThreadPoolExecutor

    def work(seed):
        key = phalanx.Key.generate()
        for n in range(20):
            records = [painted(50, seed * 100 + n), b"%d" % n] * 50
            assert phalanx.unseal_many(key, phalanx.seal_many([key] * 100, records)) == records
            assert phalanx.unseal(key, phalanx.seal(key, records[0])) == records[0]
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_arrays_of_numpy_are_sealed():
    from conftest import needs

    numpy = needs("numpy")
    rows = numpy.arange(300, dtype="<i8").reshape(100, 3)
    assert phalanx.unseal(KEY, phalanx.seal(KEY, rows)) == rows.tobytes()
    assert phalanx.unseal_many(KEY, phalanx.seal_many(KEY, rows)) == [row.tobytes() for row in rows]
    with pytest.raises((BufferError, TypeError, ValueError)):
        phalanx.seal(KEY, rows[:, ::2])
    with pytest.raises((BufferError, TypeError, ValueError)):
        phalanx.seal(KEY, numpy.asfortranarray(rows))


def test_a_list_may_be_shortened_by_another_thread():
    """Another thread shortens the list. Removed entries are not read."""
    records = [b"x" * 256] * 50_000
    keys = [phalanx.Key.generate()] * len(records)
    stop = threading.Event()

    def change():
        while not stop.is_set():
            del records[100:]
            records.extend([b"y" * 256] * 49_900)

    thread = threading.Thread(target=change)
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        for _ in range(20):
            try:
                assert all(len(sealed) == 304 for sealed in phalanx.seal_many(keys, records))
            except (RuntimeError, ValueError):
                pass
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(old)


def test_one_object_of_a_wrong_type_is_refused():
    key = phalanx.Key.generate()
    records = [b"x" * 256] * 20_000 + ["text"] + [b"x" * 256] * 20_000
    with pytest.raises(TypeError):
        phalanx.seal_many(key, records)
    with pytest.raises(TypeError, match="keys is"):
        phalanx.seal_many([key] * 20_000 + [1], records[:20_000] + [b"x"])
