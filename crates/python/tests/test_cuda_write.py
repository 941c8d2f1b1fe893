"""Writing what lies in the memory of a GPU, with the devices of the tests of reading."""

from conftest import needs
from on_gpu import LOOK, OTHERS, PRODUCERS, THERE, TORCH, both, compiled, gpu, protected, simulated  # noqa: F401 (fixtures)


@simulated
def test_arrays_of_others_are_sealed_on_the_gpu(gpu, tmp_path):
    """The bytes are those of the file that the CPU makes, and the memory of others stays as it is."""
    code = (
        LOOK
        + OTHERS
        + """
plain = painted(90_000)
memory = Memory(90_000).put(plain)
for cipher, chunk_sizes in [("aes-256", [4096, 1 << 20]), ("aes-192", [1 << 16]), ("aes-128", [1 << 18]), ("aes-256-turbo", [4096])]:
    for chunk_size in chunk_sizes:
        with phalanx.cuda.open(path, "wb", key=key, cipher=cipher, chunk_size=chunk_size) as file:
            assert file.write(b"header") == 6
            assert file.write(Array(memory.at(), (30_000,))) == 30_000
            assert file.write(Array(memory.at(30_000), (5, 10, 300), "<f2", strides=(6000, 600, 2))) == 30_000
            # Where there is one element, its stride says nothing.
            assert file.write(Array(memory.at(60_000), (1, 7500), "<f4", strides=(7, 4))) == 30_000
            assert file.write(Array(memory.at(), (0, 9))) == file.write(Array(ctypes.c_uint64(0), (0,))) == 0
            assert file.write(memoryview(b"end")) == 3 and file.tell() == 90_009
        assert read_back(path) == b"header" + plain + b"end"
        with phalanx.open(path + ".cpu", "wb", key=key, cipher=cipher, chunk_size=chunk_size) as file:
            file.write(b"header" + plain + b"end")
        assert os.path.getsize(path) == os.path.getsize(path + ".cpu")
        with phalanx.cuda.open(path, key=key) as file:
            assert file.read_at(0, 2**40).tobytes() == b"header" + plain + b"end"
assert peek(memory.address.value, 90_000) == plain
memory.free()
print("ok")
"""
    )
    assert gpu(code, tmp_path / "a.phx") == ["ok"]


@both
def test_what_was_read_to_the_gpu_is_written_from_there(gpu, tmp_path):
    """By OpenCL too. The file may be longer than all that is on the GPU at once."""
    protected(tmp_path / "a.phx", 17 << 20, cipher="aes-256-turbo")
    code = """
plain = painted(17 << 20)
with phalanx.cuda.open(f"{path}/a.phx", key=key) as file:
    first, rest = file.read_at(0, 999), file.read_at(999, 2**40)
with phalanx.cuda.open(f"{path}/b.phx", "wb", cipher="aes-256-turbo", key=key) as file:
    for part in (first, rest, rest, first):
        file.write(part)
with phalanx.open(f"{path}/b.phx", key=key) as file:
    assert file.read() == plain + plain[999:] + plain[:999]
with phalanx.cuda.open(f"{path}/b.phx", "wb", password="a long password") as file:
    file.write(first)
with phalanx.open(f"{path}/b.phx", password="a long password") as file:
    assert file.read() == plain[:999]
assert rest.tobytes() == plain[999:]
print(repr(file).partition(" name=")[0], repr(phalanx.cuda.GpuWriter))
"""
    assert gpu(code, tmp_path) == ["<phalanx.ProtectedReader <class 'phalanx.cuda.GpuWriter'>"]


@simulated
def test_work_on_the_streams_of_others_is_waited_for(gpu, tmp_path, monkeypatch):
    """Nothing is done before somebody waits for it: what is not waited for would be read before it was ever written."""
    monkeypatch.setenv("PHALANX_SIMULATE", "late")
    code = (
        LOOK
        + OTHERS
        + PRODUCERS
        + """
with phalanx.cuda.open(path, "wb", key=key) as file:
    # DLPack: the producer makes our stream wait.
    for value, versioned in [(1, True), (2, False)]:
        file.write(Producer(Memory(5000), (50, 100), value, versioned))
    file.write(Producer(Memory(1000), (10, 1, 25), 3, strides=(25, 999, 1), bits=32, offset=64))
    file.write(Producer(None, (0, 5), 0))
    # The CUDA array interface names a stream. Before version 3, or if it names none, as Numba's default one, all work is waited for.
    for value, rest in [(4, lambda stream: {"stream": stream.value}), (5, lambda stream: {"version": 2}), (6, lambda stream: {})]:
        memory, stream = Memory(5000), new_stream()
        call("cuMemsetD8Async", memory.at(), value, ctypes.c_size_t(5000), stream)
        file.write(Array(memory.at(), (5000,), **rest(stream)))
    file.write(Array(memory.at(), (10,), stream=1))
assert read_back(path) == b"".join(bytes([value]) * n for value, n in [(1, 5000), (2, 5000), (3, 1000), (4, 5000), (5, 5000), (6, 5010)])
memory = Memory(100).put(painted(100))
with phalanx.cuda.open(path, "wb", key=key) as file:
    wrong = Producer(memory, (100,), 0)
    wrong.__class__ = type("Wrong", (Producer,), {"__dlpack__": lambda self, **options: 5})
    for array in [
        Producer(memory, (10, 10), 0, strides=(1, 10)), Producer(memory, (10, 5), 0, strides=(10, 1)), Producer(memory, (-1,), 0),
        Producer(memory, (2**40, 2**40), 0), Producer(memory, (100,), 0, bits=4), Producer(memory, (100,), 0, major=2), wrong,
        Producer(memory, (100,), 0, device=(2, 1)), Producer(memory, (100,), 0, device=(1, 0)), Producer(memory, (101,), 0),
    ]:
        print(errors_of(lambda: file.write(array)).replace(hex(memory.address.value + 100), "END"))
assert read_back(path) == b""
"""
    )
    assert gpu(code, tmp_path / "a.phx") == [
        "BufferError: the array is not contiguous",
        "BufferError: the array is not contiguous",
        "BufferError: the array has a shape that cannot be",
        "BufferError: the array has a shape that cannot be",
        "BufferError: the elements of the array are not made of bytes",
        "BufferError: the array has a version of DLPack that is not known",
        "BufferError: what __dlpack__ gave is no capsule of DLPack",
        "ValueError: the array is on GPU 1, and this file is sealed on GPU 0",
        "TypeError: an array on the GPU, or bytes, are needed, not Producer",
        "ValueError: simulated GPU (CUDA): the memory at END is not of a GPU, or was freed",
    ]


@simulated
def test_a_gpu_is_opened_once_whether_its_number_is_given_or_not(gpu, tmp_path):
    """Also if several threads need it first."""
    code = (
        LOOK
        + OTHERS
        + """
from concurrent.futures import ThreadPoolExecutor
with phalanx.open(f"{path}/a", "wb", key=key) as file:
    file.write(painted(5000))
together = threading.Barrier(4)
def read(device):
    together.wait()
    return phalanx.cuda.open(f"{path}/a", device=device, key=key).read_at(0, 5000)
with ThreadPoolExecutor(4) as pool:
    arrays = list(pool.map(read, [0, None, 0, None]))
for device in (0, None):
    with phalanx.cuda.open(f"{path}/b", "wb", device=device, key=key) as file:
        for array in arrays:
            file.write(array)
    assert read_back(f"{path}/b") == painted(5000) * 4
print("ok")
"""
    )
    assert gpu(code, tmp_path) == ["ok"]


@simulated
def test_what_cannot_be_written_is_one_line_and_spoils_nothing(gpu, tmp_path):
    code = (
        LOOK
        + OTHERS
        + """
memory, freed = Memory(5000).put(painted(5000)), Memory(64)
freed.put(bytes(64)).free()
host = ctypes.c_uint64()
call("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(64), 2)
there = Array(memory.at(), (5000,))
with phalanx.cuda.open(path, "wb", key=key) as file:
    for array in [
        Array(memory.at(), (50, 50), strides=(1, 50)), Array(memory.at(), (50, 50), strides=(100, 1)), Array(memory.at(), (5001,)),
        Array(freed.at(), (64,)), Array(host, (64,)), Array(ctypes.c_uint64(0), (64,)), Array(memory.at(), (10,), "|O8"),
        Array(memory.at(), (10,), "|u1", mask=there), Array(memory.at(), (10,), stream=0), Array(memory.at(), (-10,)),
        "text", 5, object(),
    ]:
        told = errors_of(lambda: file.write(array))
        for known in (memory, freed, host):
            told = told.replace(hex(getattr(known, "address", known).value), "ADDRESS").replace(hex(getattr(known, "address", known).value + 5000), "END")
        print(told)
    # The file goes on.
    file.write(there)
assert read_back(path) == painted(5000)
"""
    )
    assert gpu(code, tmp_path / "a.phx") == [
        "BufferError: the array is not contiguous",
        "BufferError: the array is not contiguous",
        "ValueError: simulated GPU (CUDA): the memory at END is not of a GPU, or was freed",
        "ValueError: simulated GPU (CUDA): the memory at ADDRESS is not of a GPU, or was freed",
        "ValueError: simulated GPU (CUDA): the memory at ADDRESS is the host's",
        "ValueError: simulated GPU (CUDA): the memory at 0x0 is not of a GPU, or was freed",
        "TypeError: the array has the type |O8, which is not made of bytes",
        "BufferError: the array has a mask",
        "ValueError: the CUDA array interface of the array has the stream 0, which is none",
        "BufferError: the array has a shape that cannot be",
        "TypeError: an array on the GPU, or bytes, are needed, not str",
        "TypeError: an array on the GPU, or bytes, are needed, not int",
        "TypeError: an array on the GPU, or bytes, are needed, not object",
    ]


@simulated
def test_a_file_of_the_gpu_appears_whole_or_not_at_all(gpu, tmp_path):
    code = (
        LOOK
        + OTHERS
        + """
folder = os.path.dirname(path)
there = Array(Memory(5000).put(painted(5000)).at(), (5000,))
class Stop(Exception):
    pass
with contextlib.suppress(Stop), phalanx.cuda.open(path, "wb", key=key) as file:
    file.write(there)
    raise Stop
assert os.listdir(folder) == ["driver"]
before = driver.simulate_allocations()
file = phalanx.cuda.open(path, "wb", key=key)
file.write(there)
assert os.listdir(folder) != ["driver"] and not os.path.exists(path)
file.discard()
assert os.listdir(folder) == ["driver"] and driver.simulate_allocations() == before
with phalanx.cuda.open(path, "xb", key=key) as file:
    file.write(there)
print(errors_of(lambda: file.write(there)))
print(errors_of(lambda: phalanx.cuda.open(path, "xb", key=key).close())[:45])
print(errors_of(lambda: phalanx.cuda.open(path, "ab", key=key)))
print(errors_of(lambda: phalanx.cuda.open(path, "wb", key=key, cipher="aes-256-gcm")).replace(f"{path}: ", ""))
print(errors_of(lambda: phalanx.cuda.open(path, "wb", key=key, device=7)))
# Objects are written to as well, and raise what they raise.
class Sink:
    def __init__(self):
        self.stored = b""
    def write(self, data):
        if len(self.stored) > 100_000:
            raise Stop("full")
        self.stored += data
        return len(data)
sink = Sink()
with phalanx.cuda.open(sink, "wb", key=key) as file:
    file.write(there)
open(path, "wb").write(sink.stored)
assert read_back(path) == painted(5000)
memory = Memory(18 << 20).put(bytes(18 << 20))
def fill():
    with phalanx.cuda.open(Sink(), "wb", key=key) as file:
        for _ in range(3):
            file.write(Array(memory.at(), (18 << 20,)))
print(errors_of(fill))
memory.free()
assert driver.simulate_allocations() == before
"""
    )
    told = gpu(code, tmp_path / "a.phx")
    assert told == [
        "ValueError: I/O operation on closed file",
        "FileExistsError: [Errno 17] exists already (o",
        "ValueError: mode is rb, wb or xb, not 'ab'",
        "EngineError: engine gpu failed: simulated GPU (CUDA): it has no AES-256-GCM",
        "EngineError: no GPU: CUDA: no device 7, of 1",
        "Stop: full",
    ]


@simulated
def test_a_write_waits_without_the_interpreter(gpu, tmp_path):
    """Work of others, such as a host function of CuPy's, may need it."""
    code = (
        LOOK
        + OTHERS
        + """
there = Array(Memory(5000).put(painted(5000)).at(), (5000,), version=2)
with phalanx.cuda.open(path, "wb", key=key) as file:
    with device_at_work():
        thread = threading.Thread(target=lambda: file.write(there))
        thread.start()
        wait_for(lambda: driver.simulate_held() == 1)
        # The writer is not locked, so another thread goes on, too.
        assert file.tell() == 0
    thread.join()
    assert file.tell() == 5000
# A file that is dropped frees its memory without the interpreter.
file, dropped = phalanx.cuda.open(path + "2", "wb", key=key), []
def drop():
    global file
    with __import__("warnings").catch_warnings(action="ignore"):
        del file
    dropped.append(None)
with device_at_work():
    thread = threading.Thread(target=drop)
    thread.start()
    wait_for(lambda: driver.simulate_held() == 1)
    assert dropped == []
thread.join()
assert read_back(path) == painted(5000) and not os.path.exists(path + "2")
print("ok")
"""
    )
    assert gpu(code, tmp_path / "a.phx") == ["ok"]


@simulated
def test_a_file_that_was_begun_before_a_fork_is_the_parents(gpu, tmp_path):
    code = (
        LOOK
        + OTHERS
        + """
there = Array(Memory(5000).put(painted(5000)).at(), (5000,))
file = phalanx.cuda.open(path, "wb", key=key)
file.write(there)
child = os.fork()
if child == 0:
    before = driver.simulate_allocations()
    # A call that waits for all work would never return.
    driver.simulate_hold(1)
    for call in (lambda: file.write(there), file.close):
        try:
            call()
            os._exit(2)
        except phalanx.Error as error:
            assert "forked" in str(error)
    del file
    gc.collect()
    os._exit(0 if driver.simulate_allocations() == before and driver.simulate_held() == 0 else 3)
print(os.waitpid(child, 0)[1])
file.write(there)
file.close()
assert read_back(path) == painted(5000) * 2
"""
    )
    assert gpu(code, tmp_path / "a.phx") == ["0"]


@simulated
def test_safetensors_are_sealed_on_the_gpu(gpu, tmp_path, monkeypatch):
    """With a stand-in for PyTorch: what is saved is what the GPU's memory holds, and the same as the CPU saves."""
    needs("numpy")
    monkeypatch.setenv("PHALANX_SIMULATE", "late")
    code = (
        TORCH
        + LOOK
        + OTHERS
        + THERE
        + """
import warnings
warnings.simplefilter("error")
folder = sys.argv[1]
arrays = {
    "a": np.arange(3000, dtype=np.float32).reshape(30, 100), "b": np.arange(7, dtype=np.uint8), "c": np.zeros((0, 2), np.float32),
    "d": np.arange(12, dtype=np.float64).reshape(3, 4).T, "e": np.full(5000, 7, np.uint8), "host": np.arange(9, dtype=np.float64),
}
stream = new_stream()
streams[0] = stream.value
tensors = {name: There(array, stream=stream if name == "e" else None) if name != "host" else array for name, array in arrays.items()}
opened, real = [], phalanx.cuda.open
phalanx.cuda.open = lambda *arguments, **options: opened.append(options.get("device")) or real(*arguments, **options)
for cipher, count in [("aes-256", 1), ("aes-128", 2), ("aes-256-turbo", 3), ("aes-256-gcm", 3)]:
    save(tensors, f"{folder}/{cipher}", key=key, cipher=cipher, chunk_size=4096, metadata={"a": "b"})
    assert opened == [0] * count
    assert same(f"{folder}/{cipher}", arrays)
    save(arrays, f"{folder}/cpu", key=key, cipher=cipher, chunk_size=4096, metadata={"a": "b"})
    assert read_back(f"{folder}/cpu") == read_back(f"{folder}/{cipher}") and os.path.getsize(f"{folder}/cpu") == os.path.getsize(f"{folder}/{cipher}")
# An array of CuPy's, by the CUDA array interface, and one of JAX's would come by DLPack.
class Cupy(Array):
    def __init__(self, array):
        super().__init__(Memory(array.nbytes).put(array.tobytes()).at(), array.shape, array.dtype.str)
        self.dtype, self.shape, self.nbytes = array.dtype, array.shape, array.nbytes
save({"a": Cupy(arrays["a"])}, f"{folder}/cupy", password="a long password")
assert (load(f"{folder}/cupy", password="a long password")["a"] == arrays["a"]).all()
assert all(peek(there.memory.address.value, there.nbytes) == np.ascontiguousarray(there.array).tobytes() for there in made if there.nbytes)
# If it fails in the middle, the file that was there stays.
before = open(f"{folder}/aes-256", "rb").read()
class Freed(There):
    def contiguous(self):
        self.memory.free()
        return self
print(errors_of(lambda: save({"a": tensors["a"], "z": Freed(arrays["b"])}, f"{folder}/aes-256", key=key)).partition(": the memory at ")[0])
print(errors_of(lambda: save(tensors, f"{folder}/aes-256", key=key, overwrite=False)).partition(":")[0])
assert open(f"{folder}/aes-256", "rb").read() == before
print(sorted(os.listdir(folder)))
"""
    )
    told = gpu(code, tmp_path)
    assert told[:2] == ["ValueError: simulated GPU (CUDA)", "FileExistsError"]
    assert told[2] == str(sorted(["aes-128", "aes-256", "aes-256-gcm", "aes-256-turbo", "cpu", "cupy", "driver"]))


@simulated
def test_safetensors_when_no_gpu_seals_them(gpu, tmp_path):
    needs("numpy")
    code = (
        TORCH
        + LOOK
        + OTHERS
        + THERE
        + """
import warnings
path = sys.argv[1] + "/a"
array = np.arange(3000, dtype=np.float32)
def warned(tensors):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        save(tensors, path, key=key)
    assert same(path, {name: array for name in tensors})
    return [(warning.category.__name__, str(warning.message), warning.filename == "<string>") for warning in told]
print(warned({"a": There(array)}), warned({"a": array}))
print(warned({"a": There(array, gpu=7)}))
print(warned({"a": There(array), "b": There(array, gpu=1)}))
# What PyTorch's allocator keeps leaves no room, until it is told to give it back.
there, kept, n = There(array), [], 128 << 20
while n > 1 << 20:
    kept.append(ctypes.c_uint64())
    if driver.cuMemAlloc_v2(ctypes.byref(kept[-1]), ctypes.c_size_t(n)) != 0:
        kept.pop()
        n //= 2
print(warned({"a": there})[0][1].startswith("tensors are sealed by the CPU, and cross as plaintext: "), len(emptied))
def empty():
    emptied.append(None)
    while kept:
        assert driver.cuMemFree_v2(kept.pop()) == 0
print(warned({"a": there}), len(emptied))
# Without a driver of NVIDIA's, PyTorch's tensors are another maker's.
sys.modules["torch"].version.cuda = None
print(warned({"a": there}))
"""
    )
    told = "tensors are sealed by the CPU, and cross as plaintext: "
    assert gpu(code, tmp_path) == [
        "[] []",
        str([("RuntimeWarning", told + "no GPU: CUDA: no device 7, of 1", True)]),
        str([("RuntimeWarning", told + "they are on 2 GPUs", True)]),
        "True 1",
        "[] 2",
        "[]",
    ]
