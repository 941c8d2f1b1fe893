"""Reading into the memory of a GPU. Without one, through OpenCL on the CPU, and with the simulated GPU of crates/gpu/simulate."""

import subprocess

from conftest import child_args, child_env, needs
from on_gpu import KEY, LOOK, SETUP, TORCH, both, compiled, gpu, opencl, protected, simulated  # noqa: F401 (fixtures)

import phalanx
import phalanx.safetensors


@both
def test_ranges_are_those_of_the_file(gpu, tmp_path):
    for cipher in ("aes-256", "aes-128", "aes-256-turbo"):
        protected(tmp_path / cipher, 20_000, cipher=cipher, chunk_size=4096)
    code = """
plain = painted(20_000)
for cipher in ("aes-256", "aes-128", "aes-256-turbo"):
    with phalanx.cuda.open(f"{path}/{cipher}", key=key) as file:
        assert (file.size, file.chunk_size, file.cipher) == (20_000, 4096, cipher)
        for start in (0, 1, 4095, 4096, 19_999, 20_000, 30_000):
            for n in (0, 1, 4096, 20_000, 2**63):
                got, want = file.read_at(start, n), plain[start : start + n]
                assert got.tobytes() == want and len(got) == got.nbytes == len(want)
        kept = file.read_at(5, 5000)
        assert repr(file) == f"<phalanx.cuda.GpuFile name={file._reader.name!r} 20000 bytes on {file.device}>"
# What was read stays when the file is closed.
assert kept.tobytes() == plain[5:5005]
try:
    file.read_at(0, 1)
except ValueError as error:
    print(error)
"""
    assert gpu(code, tmp_path) == ["I/O operation on closed file"]


@both
def test_what_is_altered_is_an_authentication_error(gpu, tmp_path):
    path = protected(tmp_path / "a.phx", 20_000, chunk_size=4096)
    stored = bytearray(path.read_bytes())
    stored[-9000] ^= 1
    path.write_bytes(stored)
    code = """
with phalanx.cuda.open(path, key=key) as file:
    for _ in range(2):
        try:
            file.read_at(0, 20_000)
        except phalanx.AuthenticationError as error:
            print(error.chunk)
    assert file.read_at(0, 8192).tobytes() == painted(20_000)[:8192]
"""
    assert gpu(code, path) == ["2", "2"]


@both
def test_a_file_object_and_threads(gpu, tmp_path):
    path = protected(tmp_path / "a.phx", 20 << 20, cipher="aes-256-turbo")
    code = """
from concurrent.futures import ThreadPoolExecutor
plain = painted(20 << 20)
with open(path, "rb") as stored, phalanx.cuda.open(stored, key=key) as file:
    assert file.read_at(3, 2**40).tobytes() == plain[3:]
with phalanx.cuda.open(path, key=key) as file, ThreadPoolExecutor(3) as pool:
    ranges = [(7 << 20, 4 << 20), (0, 5), (19 << 20, 2**30), (1, 18 << 20)]
    for (start, n), got in zip(ranges, pool.map(lambda r: file.read_at(*r), ranges)):
        assert got.tobytes() == plain[start : start + n]
print("ok")
"""
    assert gpu(code, path) == ["ok"]


@simulated
def test_other_libraries_get_the_memory_by_dlpack(gpu, tmp_path):
    path = protected(tmp_path / "a.phx", 5000)
    code = LOOK + """
class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64)]
Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("owner", ctypes.c_void_p), ("deleter", Deleter)]
class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("owner", ctypes.c_void_p), ("deleter", Deleter),
        ("flags", ctypes.c_uint64), ("tensor", Tensor)]
api = ctypes.pythonapi
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
file = phalanx.cuda.open(path, device=0, key=key)
first, empty = file.read_at(0, 10), file.read_at(5000, 10)
before = driver.simulate_allocations()
for versions, name, kind in [(None, b"dltensor", Managed), ((0, 8), b"dltensor", Managed), ((1, 1), b"dltensor_versioned", Versioned)]:
    memory = file.read_at(100, 10)
    assert memory.__dlpack_device__() == (2, 0)
    address = address_of(memory)
    assert memory.__cuda_array_interface__ == {
        "shape": (10,), "typestr": "|u1", "data": (address, False), "strides": None, "version": 3}
    capsule = memory.__dlpack__(stream=1, max_version=versions, dl_device=(2, 0), copy=False)
    managed = kind.from_address(api.PyCapsule_GetPointer(capsule, name))
    tensor = managed.tensor
    assert (tensor.data, tensor.device_type, tensor.device_id) == (address, 2, 0) and address % 256 == 0
    assert (tensor.ndim, tensor.code, tensor.bits, tensor.lanes, tensor.byte_offset) == (1, 1, 8, 1, 0)
    assert (tensor.shape[0], tensor.strides[0]) == (10, 1)
    if kind is Versioned:
        assert (managed.major, managed.flags) == (1, 0)
    # A consumer takes it, outlives the bytes, and frees it once.
    api.PyCapsule_SetName(capsule, b"used_" + name)
    del memory, capsule
    gc.collect()
    assert peek(address, 10) == painted(5000)[100:110] and driver.simulate_allocations() == before + 1
    managed.deleter(ctypes.addressof(managed))
    wait_for(lambda: driver.simulate_allocations() == before)
    assert peek(address, 1) is None
    # A capsule that nobody takes frees it itself.
    del managed, tensor
    file.read_at(0, 10).__dlpack__(max_version=versions)
    wait_for(lambda: driver.simulate_allocations() == before)
assert empty.__cuda_array_interface__["data"] == (0, False) and empty.__cuda_array_interface__["shape"] == (0,)
for wrong in ({"copy": True}, {"dl_device": (1, 0)}):
    try:
        file.read_at(0, 10).__dlpack__(**wrong)
    except BufferError as error:
        print(error)
"""
    assert gpu(code, path) == ["the memory is given as it is: no copy, and on its own device"] * 2


@simulated
def test_no_drop_waits_for_the_device(gpu, tmp_path):
    """Work of others may need the interpreter, which a thread that drops memory has. The memory is wiped when that work is over."""
    path = protected(tmp_path / "a.phx", 20_000, chunk_size=4096)
    code = (
        LOOK
        + """
plain = painted(20_000)
file = phalanx.cuda.open(path, key=key)
first = file.read_at(0, 9000)
before = driver.simulate_allocations()
shared, own = file.read_at(0, 9000), file.read_at(0, 9000)
capsule, address = shared.__dlpack__(), address_of(shared)
with device_at_work():
    del shared, capsule, own
    gc.collect()
    # A thread waits for the device, for both.
    wait_for(lambda: driver.simulate_held() == 1)
    assert peek(address, 9000) == plain[:9000] and driver.simulate_allocations() == before + 2
wait_for(lambda: driver.simulate_allocations() == before)
assert peek(address, 1) is None
# However many are dropped, one thread frees them. The first is already waiting when the others come.
many = [file.read_at(0, 10) for _ in range(300)]
assert driver.simulate_allocations() == before + 300
threads = len(os.listdir("/proc/self/task"))
with device_at_work():
    many.pop()
    wait_for(lambda: driver.simulate_held() == 1)
    many.clear()
    assert len(os.listdir("/proc/self/task")) <= threads + 1 and driver.simulate_allocations() == before + 300
wait_for(lambda: driver.simulate_allocations() == before)
# A reader that is collected frees its lanes so, too.
with device_at_work():
    del file
    gc.collect()
    wait_for(lambda: driver.simulate_held() == 1)
wait_for(lambda: driver.simulate_allocations() < before)
print("ok")
"""
    )
    assert gpu(code, path) == ["ok"]


@simulated
def test_a_file_is_closed_during_a_read(gpu, tmp_path):
    """The reading thread frees the lanes then. It waits for the device without the interpreter."""
    path = protected(tmp_path / "a.phx", 20_000, chunk_size=4096)
    code = (
        LOOK
        + """
class Stored:
    def __init__(self, stored):
        self.stored, self.size = stored, len(stored)
    def read_at(self, offset, n):
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            go_on.wait()
        return self.stored[offset : offset + n]
inside, go_on, got = threading.Event(), threading.Event(), []
file = phalanx.cuda.open(Stored(open(path, "rb").read()), key=key)
first = file.read_at(0, 10)
thread = threading.Thread(target=lambda: got.append(file.read_at(5, 9000)))
thread.start()
inside.wait()
file.close()
driver.simulate_hold(1)
go_on.set()
wait_for(lambda: driver.simulate_held() >= 1)
driver.simulate_hold(0)
thread.join()
assert got[0].tobytes() == painted(20_000)[5:9005]
try:
    file.read_at(0, 1)
except ValueError as error:
    print(error)
"""
    )
    assert gpu(code, path) == ["I/O operation on closed file"]


@simulated
def test_what_was_opened_before_a_fork_is_left_alone(gpu, tmp_path):
    """The driver does not survive a fork: nothing in the child calls it."""
    path = protected(tmp_path / "a.phx", 20_000, chunk_size=4096)
    code = (
        LOOK
        + """
file = phalanx.cuda.open(path, key=key)
shared = file.read_at(0, 9000)
capsule, closed = shared.__dlpack__(), phalanx.cuda.open(path, key=key)
first = closed.read_at(0, 10)
child = os.fork()
if child == 0:
    before = driver.simulate_allocations()
    # A call that waits for all work would never return.
    driver.simulate_hold(1)
    for call in (lambda: file.read_at(0, 1), shared.tobytes):
        try:
            call()
            os._exit(2)
        except phalanx.Error as error:
            assert "forked" in str(error)
    closed.close()
    del file, shared, capsule, closed
    gc.collect()
    os._exit(0 if driver.simulate_allocations() == before and driver.simulate_held() == 0 else 3)
print(os.waitpid(child, 0)[1], shared.tobytes() == painted(20_000)[:9000])
"""
    )
    assert gpu(code, path) == ["0 True"]


@simulated
def test_a_copy_is_made_when_the_work_of_others_is_over(gpu, tmp_path):
    path = protected(tmp_path / "a.phx", 5000)
    code = (
        LOOK
        + """
file = phalanx.cuda.open(path, key=key)
shared, own = file.read_at(0, 5000), file.read_at(0, 5000)
capsule, got = shared.__dlpack__(), []
with device_at_work():
    # Nobody else knows this one.
    assert own.tobytes() == painted(5000)
    thread = threading.Thread(target=lambda: got.append(shared.tobytes()))
    thread.start()
    wait_for(lambda: driver.simulate_held() == 1)
    assert got == []
thread.join()
print(got == [painted(5000)])
"""
    )
    assert gpu(code, path) == ["True"]


@opencl
def test_memory_of_opencl_is_not_taken_for_that_of_cuda(gpu, tmp_path):
    path = protected(tmp_path / "a.phx", 100)
    code = """
memory = phalanx.cuda.open(path, key=key).read_at(0, 100)
assert not hasattr(memory, "__cuda_array_interface__")
for call in (memory.__dlpack__, memory.__dlpack_device__):
    try:
        call()
    except BufferError as error:
        print(str(error).partition(" is of ")[0], str(error).partition("(OpenCL), ")[2])
"""
    assert gpu(code, path) == ["the memory which CUDA's libraries do not take"] * 2


@both
def test_what_cannot_be_opened_there_is_one_line(gpu, tmp_path):
    path = protected(tmp_path / "a.phx", 100, cipher="aes-256-gcm")
    code = """
for device in (None, 7):
    try:
        phalanx.cuda.open(path, key=key, device=device)
    except phalanx.EngineError as error:
        print(str(error).partition(": ")[2])
"""
    told = gpu(code, path)
    assert told[0] == "it has no AES-256-GCM" or told[0].endswith("it has no AES-256-GCM")
    assert told[1].startswith("CUDA: ")


@simulated
def test_safetensors_are_opened_on_the_gpu(gpu, tmp_path):
    """With a stand-in for PyTorch, whose tensors are numpy's: what it gets is what the GPU's memory holds."""
    np = needs("numpy")
    tensors = {"a": np.arange(3000, dtype=np.float32).reshape(30, 100), "b": np.arange(7, dtype=np.uint8), "c": np.zeros((0, 2))}
    for cipher in ("aes-256", "aes-256-gcm"):
        phalanx.safetensors.save_file(tensors, tmp_path / cipher, key=KEY, cipher=cipher, chunk_size=4096)
    # A tensor at a place that is no multiple of its type's size.
    header = b'{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"y":{"dtype":"F32","shape":[2],"data_offsets":[3,11]}}'
    with phalanx.open(tmp_path / "odd", "wb", key=KEY) as file:
        file.write(len(header).to_bytes(8, "little") + header + b"abc" + np.array([1, 2], np.float32).tobytes())
    code = (
        TORCH
        + """
for path, lengths in [("aes-256", [12007]), ("aes-256-gcm", []), ("odd", [11])]:
    opened_there.clear()
    loaded = load(sys.argv[1] + "/" + path, key=key, device="cuda:0")
    assert opened_there == lengths, opened_there
    assert all(tensor.is_there == bool(lengths) for name, tensor in loaded.items() if name != "c")
    if path == "odd":
        assert loaded["x"].array.tobytes() == b"abc" and loaded["y"].array.tolist() == [1, 2]
    else:
        assert (loaded["a"].array == np.arange(3000).reshape(30, 100)).all() and loaded["a"].array.dtype == np.float32
        assert loaded["b"].array.tolist() == list(range(7)) and loaded["c"].array.shape == (0, 2)
opened_there.clear()
assert load(sys.argv[1] + "/aes-256", names=["b"], key=key, device="cuda:0")["b"].array.tolist() == list(range(7))
with phalanx.safetensors.open(sys.argv[1] + "/aes-256", key=key) as file:
    assert file.read("b", device="cuda:0").array.tolist() == file.read("b").tolist()
assert opened_there == [7, 7] and emptied == []
print("ok")
"""
    )
    assert gpu(code, tmp_path) == ["ok"]


@simulated
def test_safetensors_when_the_gpu_is_full_or_cannot_be_opened(gpu, tmp_path):
    np = needs("numpy")
    phalanx.safetensors.save_file({"a": np.arange(3 << 20, dtype=np.uint8)}, tmp_path / "a", key=KEY)
    code = (
        TORCH
        + LOOK
        + """
import warnings
warnings.simplefilter("error")
path = sys.argv[1] + "/a"
want = np.arange(3 << 20, dtype=np.uint8)
phalanx.cuda.open(path, key=key, device=0).close()
# What PyTorch's allocator keeps leaves no room, until it is told to give it back.
context, kept, n = ctypes.c_uint64(), [], 128 << 20
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == driver.cuCtxPushCurrent_v2(context) == 0
while n > 1 << 20:
    kept.append(ctypes.c_uint64())
    if driver.cuMemAlloc_v2(ctypes.byref(kept[-1]), ctypes.c_size_t(n)) != 0:
        kept.pop()
        n //= 2
try:
    load(path, key=key, device="cuda:0")
except phalanx.EngineError as error:
    print(len(emptied), "out of device memory" in str(error))
def empty():
    emptied.append(None)
    while kept:
        assert driver.cuMemFree_v2(kept.pop()) == 0
assert (load(path, key=key, device="cuda:0")["a"].array == want).all()
print(len(emptied), opened_there)
# There is no such GPU: the CPU opens the file, and says so once for each file.
sys.modules["torch"].device = lambda text: types.SimpleNamespace(index=7)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    with phalanx.safetensors.open(path, key=key) as file:
        for _ in range(2):
            assert (file.read("a", device="cuda:0").array == want).all()
print(len(opened_there), [(warning.category.__name__, str(warning.message)) for warning in told])
"""
    )
    told = "tensors are opened by the CPU, and cross as plaintext: no GPU: CUDA: no device 7, of 1"
    assert gpu(code, tmp_path) == ["1 True", "2 [3145728]", f"1 [('RuntimeWarning', {told!r})]"]


@simulated
def test_safetensors_are_closed_while_a_thread_opens_them_on_the_gpu(gpu, tmp_path):
    """Whoever comes first: the file on the GPU is closed with the other one."""
    np = needs("numpy")
    phalanx.safetensors.save_file({"a": np.arange(9000, dtype=np.uint8)}, tmp_path / "a", key=KEY)
    code = (
        TORCH
        + LOOK
        + """
path = sys.argv[1] + "/a"
load(path, key=key, device="cuda:0")
inside, go_on, got = threading.Event(), threading.Event(), []
made = phalanx.cuda.GpuFile
def slow(*arguments):
    inside.set()
    go_on.wait()
    got.append(made(*arguments))
    return got[-1]
phalanx.cuda.GpuFile = slow
class Noted:
    def __init__(self, lock):
        self.lock = lock
    def __enter__(self):
        tried.append(None)
        self.lock.acquire()
    def __exit__(self, *why):
        self.lock.release()
file, tried = phalanx.safetensors.open(path, key=key), []
file._opening = Noted(file._opening)
def read():
    with contextlib.suppress(ValueError):
        file.read("a", device="cuda:0")
reading = threading.Thread(target=read)
reading.start()
inside.wait()
closing = threading.Thread(target=file.close)
closing.start()
wait_for(lambda: len(tried) == 2 or not closing.is_alive())
go_on.set()
closing.join()
reading.join()
for call in (lambda: got[0].read_at(0, 1), lambda: file.read("a", device="cuda:0")):
    try:
        call()
    except ValueError as error:
        print(error)
print(len(got))
"""
    )
    assert gpu(code, tmp_path) == ["I/O operation on closed file"] * 2 + ["1"]


def test_without_a_gpu_it_says_so(tmp_path):
    path = protected(tmp_path / "a.phx", 100)
    code = SETUP + """
try:
    phalanx.cuda.open(path, key=key)
except phalanx.EngineError as error:
    print(error)
"""
    environment = {**child_env(), "CUDA_VISIBLE_DEVICES": "", "OCL_ICD_VENDORS": str(tmp_path), "PHALANX_OPENCL_CPU": "0"}
    done = subprocess.run(child_args(code, path), env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.startswith("no GPU: CUDA: ") and done.stdout.count("\n") == 1, done.stderr
