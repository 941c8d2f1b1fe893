"""Reading into memory of a GPU that exists already, with the devices of the other tests of reading."""

from conftest import needs
from on_gpu import LOOK, OTHERS, PRODUCERS, THERE, TORCH, both, compiled, gpu, protected, simulated  # noqa: F401 (fixtures)


@both
def test_ranges_come_to_the_beginning_of_the_array(gpu, tmp_path):
    """By OpenCL too. What lies behind the range stays as it is, whether the read succeeds or not."""
    protected(tmp_path / "a", 20_000, chunk_size=4096)
    stored = bytearray(protected(tmp_path / "wrong", 20_000, chunk_size=4096).read_bytes())
    stored[-9000] ^= 1
    (tmp_path / "wrong").write_bytes(stored)
    code = """
plain = painted(20_000)
with phalanx.cuda.open(f"{path}/a", key=key) as file, phalanx.cuda.open(f"{path}/wrong", key=key) as wrong:
    first = file.read_at(0, 9001)
    for start, n, want in [(0, None, 9001), (5, 9001, 9001), (4097, 8000, 8000), (19_990, None, 10), (20_000, 1, 0), (2**63, 1, 0), (7, 0, 0)]:
        place = file.read_at(0, 9001)
        assert file.readinto_at(start, place, n) == want
        assert place.tobytes() == plain[start : start + want] + plain[want:9001]
    for n in (9002, 2**63):
        try:
            file.readinto_at(0, first, n)
        except ValueError as error:
            print(error)
    # Chunk 2 is wrong, so those before it are not given out either.
    for start, n in [(8191, 100), (0, 9000), (10_000, 1)]:
        place = file.read_at(0, 9001)
        try:
            wrong.readinto_at(start, place, n)
        except phalanx.AuthenticationError as error:
            assert error.chunk == 2 and place.tobytes() == bytes(n) + plain[n:9001]
            print("wiped")
    assert wrong.readinto_at(10, first, 8000) == 8000 and first.tobytes() == plain[10:8010] + plain[8000:9001]
try:
    file.readinto_at(0, first)
except ValueError as error:
    print(error)
"""
    assert gpu(code, tmp_path) == [
        "the array has 9001 bytes, and 9002 are to be read there",
        f"the array has 9001 bytes, and {2**63} are to be read there",
        "wiped",
        "wiped",
        "wiped",
        "I/O operation on closed file",
    ]


@simulated
def test_work_on_the_streams_of_others_is_done_before(gpu, tmp_path, monkeypatch):
    """Nothing is done before somebody waits for it: what is not waited for would overwrite later what was read."""
    monkeypatch.setenv("PHALANX_SIMULATE", "late")
    path = protected(tmp_path / "a.phx", 9000, chunk_size=4096)
    code = (
        LOOK
        + OTHERS
        + PRODUCERS
        + """
plain = painted(9000)
with phalanx.cuda.open(path, key=key) as file:
    before = driver.simulate_allocations()
    # The array may begin and end anywhere in memory of its library's.
    memory = Memory(9100).put(bytes([7]) * 9100)
    assert file.readinto_at(100, Array(memory.at(33), (3, 2, 500), "<u2")) == 6000
    assert peek(memory.address.value, 9100) == bytes([7]) * 33 + plain[100:6100] + bytes([7]) * (9100 - 6033)
    memory.free()
    # DLPack: the producer makes our stream wait. The interface names a stream, or none, so that all work is waited for.
    arrays = [
        lambda memory, stream: Producer(memory, (50, 100), 1),
        lambda memory, stream: Producer(memory, (50, 100), 2, versioned=False),
        lambda memory, stream: Array(memory.at(), (5000,), stream=stream.value),
        lambda memory, stream: Array(memory.at(), (5000,)),
        lambda memory, stream: Array(memory.at(), (5000,), version=2),
    ]
    for array in arrays:
        memory, stream = Memory(5000), new_stream()
        call("cuMemsetD8Async", memory.at(), 9, ctypes.c_size_t(5000), stream)
        if array(memory, stream).__class__ is Producer:
            # Its work is on our stream only.
            call("cuStreamSynchronize", stream)
        assert file.readinto_at(3000, array(memory, stream)) == 5000
        # When the call returns, other streams find it.
        assert peek(memory.address.value, 5000) == plain[3000:8000]
        call("cuStreamSynchronize", stream)
        assert peek(memory.address.value, 5000) == plain[3000:8000]
        memory.free()
    assert file.readinto_at(0, Array(ctypes.c_uint64(0), (0,))) == file.readinto_at(0, Producer(None, (0, 5), 0)) == 0
    assert driver.simulate_allocations() >= before
print("ok")
"""
    )
    assert gpu(code, path) == ["ok"]


@simulated
def test_what_is_no_place_to_read_to_is_one_line_and_stays(gpu, tmp_path, monkeypatch):
    needs("numpy")
    monkeypatch.setenv("PHALANX_SIMULATE_DEVICES", "2")
    path = protected(tmp_path / "a.phx", 5000)
    code = (
        LOOK
        + OTHERS
        + PRODUCERS
        + """
import types
import numpy
memory, freed = Memory(5000).put(bytes([7]) * 5000), Memory(64)
freed.put(bytes(64)).free()
host = ctypes.c_uint64()
call("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(64), 2)
there = Array(memory.at(), (5000,))
class OfJax(Array):
    pass
sys.modules["jax"] = types.SimpleNamespace(Array=OfJax)
with phalanx.cuda.open(path, key=key) as file, phalanx.cuda.open(path, key=key, device=1) as elsewhere:
    other = elsewhere.read_at(0, 100)
    assert other.__dlpack_device__() == (2, 1)
    known = {memory.address.value: "HERE", memory.address.value + 5000: "END", freed.address.value: "FREED", host.value: "HOST"}
    def told(array, *n, file=file):
        line = errors_of(lambda: file.readinto_at(0, array, *n))
        for address, name in known.items():
            line = line.replace(hex(address), name)
        print(line)
    told(Array(memory.at(), (5000,), data=(memory.address.value, True)))
    # The producer of DLPack has work of its own, so it gets other memory.
    scratch = Memory(100)
    told(Producer(scratch, (100,), 1, flags=1))
    told(Producer(scratch, (100,), 1, flags=2))
    told(Producer(scratch, (10, 10), 1, strides=(1, 10)))
    told(Producer(scratch, (100,), 1, device=(2, 1)))
    told(Producer(scratch, (100,), 1, device=(1, 0)))
    told(OfJax(memory.at(), (5000,)))
    told(Array(memory.at(), (50, 50), strides=(100, 1)))
    told(other)
    told(there, file=elsewhere)
    told(there, 5001)
    told(Array(memory.at(1), (5000,)))
    told(Array(freed.at(), (64,)))
    told(Array(host, (64,)))
    told(Array(memory.at(), (10,), stream=0))
    for array in (bytearray(10), numpy.zeros(10), None):
        told(array)
    assert file.readinto_at(0, there, 0) == 0
    assert peek(memory.address.value, 5000) == bytes([7]) * 5000
    assert file.readinto_at(100, there) == 4900
    assert peek(memory.address.value, 5000) == painted(5000)[100:] + bytes([7]) * 100
"""
    )
    assert gpu(code, path) == [
        "BufferError: the array is read-only",
        "BufferError: the array is read-only",
        "BufferError: the array gives a copy of itself, which is no place to read to",
        "BufferError: the array is not contiguous",
        "ValueError: the array is on GPU 1, and this file is opened on GPU 0",
        "TypeError: an array on the GPU is needed, not Producer",
        "BufferError: the array is read-only",
        "BufferError: the array is not contiguous",
        "ValueError: the array is on GPU 1, and this file is opened on GPU 0",
        "ValueError: simulated GPU (CUDA): the memory at HERE is of GPU 0",
        "ValueError: the array has 5000 bytes, and 5001 are to be read there",
        "ValueError: simulated GPU (CUDA): the memory at END is not of a GPU, or was freed",
        "ValueError: simulated GPU (CUDA): the memory at FREED is not of a GPU, or was freed",
        "ValueError: simulated GPU (CUDA): the memory at HOST is the host's",
        "ValueError: the CUDA array interface of the array has the stream 0, which is none",
        "TypeError: an array on the GPU is needed, not bytearray",
        "TypeError: an array on the GPU is needed, not ndarray",
        "TypeError: an array on the GPU is needed, not NoneType",
    ]


@simulated
def test_altered_bytes_leave_zeros_in_memory_of_others(gpu, tmp_path):
    stored = bytearray(protected(tmp_path / "a.phx", 40_000, chunk_size=4096).read_bytes())
    stored[-9000] ^= 1
    (tmp_path / "a.phx").write_bytes(stored)
    code = (
        LOOK
        + OTHERS
        + """
memory = Memory(40_100).put(bytes([7]) * 40_100)
with phalanx.cuda.open(path, key=key) as file:
    print(errors_of(lambda: file.readinto_at(1, Array(memory.at(50), (40_000,)))).partition(": ")[0])
    assert peek(memory.address.value, 40_100) == bytes([7]) * 50 + bytes(39_999) + bytes([7]) * 51
    assert file.readinto_at(1, Array(memory.at(50), (20_000,))) == 20_000
assert peek(memory.address.value, 20_100) == bytes([7]) * 50 + painted(40_000)[1:20_001] + bytes(50)
# What was read is its owner's, and is not wiped.
gc.collect()
assert peek(memory.address.value + 50, 20_000) == painted(40_000)[1:20_001]
"""
    )
    assert gpu(code, tmp_path / "a.phx") == ["AuthenticationError"]


@simulated
def test_tensors_of_pytorch_are_filled(gpu, tmp_path, monkeypatch):
    """With a stand-in for PyTorch. Work on its current stream is waited for."""
    needs("numpy")
    monkeypatch.setenv("PHALANX_SIMULATE", "late")
    path = protected(tmp_path / "a.phx", 9000)
    code = (
        TORCH
        + LOOK
        + OTHERS
        + THERE
        + """
stream = new_stream()
streams[0] = stream.value
with phalanx.cuda.open(path, key=key) as file:
    # What is freed waits for all work, so the lane is made before.
    kept = file.read_at(0, 9000)
    tensor = There(np.full((30, 100), 5, np.uint8), stream=stream)
    assert file.readinto_at(4, tensor) == 3000
    call("cuStreamSynchronize", stream)
    assert peek(tensor.memory.address.value, 3000) == painted(9000)[4:3004]
    tensor.requires_grad = True
    print(errors_of(lambda: file.readinto_at(0, tensor)))
    print(errors_of(lambda: file.readinto_at(0, There(np.zeros((3, 4)).T))))
    class Conjugated(There):
        def resolve_conj(self):
            return There(self.array)
    print(errors_of(lambda: file.readinto_at(0, Conjugated(np.zeros(4, np.uint8)))))
    print(errors_of(lambda: file.readinto_at(0, Here(np.zeros(4, np.uint8)))))
    assert peek(tensor.memory.address.value, 3000) == painted(9000)[4:3004]
"""
    )
    assert gpu(code, path) == [
        "BufferError: the tensor requires grad, which would not follow what is read: give its detach()",
        "BufferError: the array is not contiguous",
        "BufferError: the tensor is conjugated or negated by a bit only, so its bytes are not its elements",
        "TypeError: an array on the GPU is needed, not Here",
    ]


@simulated
def test_a_read_into_waits_without_the_interpreter(gpu, tmp_path):
    """Work of others, such as a host function of CuPy's, may need it. The file may be closed meanwhile."""
    path = protected(tmp_path / "a.phx", 9000)
    code = (
        LOOK
        + OTHERS
        + """
memory, got = Memory(5000).put(bytes(5000)), []
file = phalanx.cuda.open(path, key=key)
file.read_at(0, 1)
with device_at_work():
    thread = threading.Thread(target=lambda: got.append(file.readinto_at(9, Array(memory.at(), (5000,)))))
    thread.start()
    wait_for(lambda: driver.simulate_held() >= 1)
    closing = threading.Thread(target=file.close)
    closing.start()
    assert got == []
thread.join()
closing.join()
assert got == [5000] and peek(memory.address.value, 5000) == painted(9000)[9:5009]
print(errors_of(lambda: file.readinto_at(0, Array(memory.at(), (5000,)))))
"""
    )
    assert gpu(code, path) == ["ValueError: I/O operation on closed file"]


@simulated
def test_a_forked_process_reads_into_nothing(gpu, tmp_path):
    path = protected(tmp_path / "a.phx", 9000)
    code = (
        LOOK
        + OTHERS
        + """
there = Array(Memory(5000).put(bytes(5000)).at(), (5000,))
file = phalanx.cuda.open(path, key=key)
child = os.fork()
if child == 0:
    # A call that waits for all work would never return.
    driver.simulate_hold(1)
    told = errors_of(lambda: file.readinto_at(0, there))
    os._exit(0 if "forked" in told and driver.simulate_held() == 0 else 3)
print(os.waitpid(child, 0)[1], file.readinto_at(0, there))
"""
    )
    assert gpu(code, path) == ["0 5000"]
