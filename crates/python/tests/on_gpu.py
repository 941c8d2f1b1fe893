"""The devices of the tests of GPUs, and code that these run in processes of their own: a device is opened once in a process."""

import shutil
import subprocess

import pytest
from conftest import REPOSITORY, child_args, child_env, missing, painted

import phalanx

KEY = phalanx.Key.from_bytes(bytes(range(32)))
SIMULATED = REPOSITORY / "target/debug/libphalanx_gpu_simulate.so"
SETUP = """
import ctypes, gc, sys
import phalanx, phalanx.cuda
from conftest import painted
key = phalanx.Key.from_bytes(bytes(range(32)))
path = sys.argv[1]
"""


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """Where the simulated GPU keeps what it has compiled."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture
def gpu(tmp_path, compiled, request):
    """Runs code with the device that the parameter names, and returns the lines that it prints."""

    def run(code, *arguments):
        environment = {**child_env(), "PHALANX_OPENCL_CPU": "1"}
        if request.param == "simulated":
            if not SIMULATED.exists():
                missing("simulate")
            folder = tmp_path / "driver"
            folder.mkdir(exist_ok=True)
            shutil.copy(SIMULATED, folder / "libcuda.so.1")
            environment |= {"LD_LIBRARY_PATH": str(folder), "PHALANX_SIMULATE_CACHE": str(compiled)}
        done = subprocess.run(
            child_args(SETUP + code, *arguments), env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        if request.param == "opencl" and "EngineError: no GPU" in done.stderr:
            missing("opencl")
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


both = pytest.mark.parametrize("gpu", ["simulated", "opencl"], indirect=True)
simulated = pytest.mark.parametrize("gpu", ["simulated"], indirect=True)
opencl = pytest.mark.parametrize("gpu", ["opencl"], indirect=True)


def protected(path, n, **options):
    with phalanx.open(path, "wb", key=KEY, **options) as file:
        file.write(painted(n))
    return path


# How a test looks into the simulated GPU.
LOOK = """
import contextlib, os, threading, time
driver = ctypes.CDLL("libcuda.so.1")
driver.simulate_peek.argtypes = [ctypes.c_uint64, ctypes.c_size_t, ctypes.c_char_p]
def peek(address, n):
    held = ctypes.create_string_buffer(n)
    return held.raw if driver.simulate_peek(address, n, held) == 0 else None
def wait_for(is_so):
    while not is_so():
        time.sleep(0.001)
def address_of(memory):
    return memory.__cuda_array_interface__["data"][0]
@contextlib.contextmanager
def device_at_work():
    # Calls that wait for all work of the device do not return.
    driver.simulate_hold(1)
    yield
    driver.simulate_hold(0)
"""


# A stand-in for PyTorch, whose tensors are numpy's.
TORCH = """
import types
import numpy as np
import phalanx.safetensors
opened_there, emptied = [], []
empty = lambda: emptied.append(None)
class Tensor:
    def __init__(self, array, is_there=False):
        self.array, self.is_there = array, is_there
    def __len__(self):
        return len(self.array)
    def __getitem__(self, place):
        return Tensor(self.array[place], self.is_there)
    def data_ptr(self):
        return self.array.ctypes.data
    def clone(self):
        return Tensor(self.array.copy(), self.is_there)
    def view(self, dtype):
        return Tensor(self.array.view(dtype), self.is_there)
    def reshape(self, shape):
        return Tensor(self.array.reshape(shape), self.is_there)
    def to(self, device):
        assert device == "cuda:0"
        return self
def from_dlpack(memory):
    opened_there.append(len(memory))
    aligned = np.empty(len(memory) + 64, np.uint8)
    aligned = aligned[-aligned.ctypes.data % 64:][:len(memory)]
    aligned[:] = np.frombuffer(memory.tobytes(), np.uint8)
    return Tensor(aligned, True)
sys.modules["torch"] = types.SimpleNamespace(
    Tensor=Tensor, from_dlpack=from_dlpack, from_numpy=Tensor, version=types.SimpleNamespace(cuda="13.0"),
    empty=lambda shape, dtype: Tensor(np.empty(shape, dtype)), device=lambda text: types.SimpleNamespace(index=0),
    cuda=types.SimpleNamespace(is_available=lambda: True, current_device=lambda: 0, empty_cache=lambda: empty()),
    float32=np.float32, uint8=np.uint8, float64=np.float64)
load = phalanx.safetensors.load_file
"""


# How a test writes what lies in the simulated GPU's memory, with calls that other libraries would make.
OTHERS = """
context = ctypes.c_uint64()
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == driver.cuCtxPushCurrent_v2(context) == 0
def call(name, *arguments):
    code = getattr(driver, name)(*arguments)
    assert code == 0, f"{name}: {code}"
class Memory:
    \"\"\"Memory that a library of its own allocates.\"\"\"
    def __init__(self, n):
        self.n, self.address = n, ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(n))
    def at(self, offset=0):
        return ctypes.c_uint64(self.address.value + offset)
    def put(self, plain, offset=0):
        stream = new_stream()
        call("cuMemcpyHtoDAsync_v2", self.at(offset), plain, ctypes.c_size_t(len(plain)), stream)
        call("cuStreamSynchronize", stream)
        return self
    def free(self):
        call("cuMemFree_v2", self.address)
def new_stream():
    stream = ctypes.c_uint64()
    call("cuStreamCreate", ctypes.byref(stream), 1)
    return stream
class Array:
    \"\"\"An array with the CUDA array interface, as CuPy and Numba have it.\"\"\"
    def __init__(self, address, shape, typestr="|u1", **rest):
        self.__cuda_array_interface__ = {"data": (address.value, False), "shape": shape, "typestr": typestr, "strides": None, "version": 3, **rest}
def read_back(path, **keys):
    with phalanx.open(path, **(keys or {"key": key})) as file:
        return file.read()
def errors_of(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
"""


# Arrays with DLPack that are not ours.
PRODUCERS = """
class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64)]
class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("owner", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]
class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("owner", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("tensor", Tensor)]
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
class Producer:
    \"\"\"An array with DLPack. Its work is on no other stream than the one that it is given.\"\"\"
    def __init__(self, memory, shape, value, versioned=True, strides=None, bits=8, offset=0, major=1, device=(2, 0), flags=0):
        self.memory, self.value, self.is_versioned, self.device = memory, value, versioned, device
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = None if strides is None else (ctypes.c_int64 * len(shape))(*strides)
        address = memory.address.value if memory else 0
        tensor = Tensor(address - offset, 2, 0, len(shape), 1, bits, 1, self.shape, self.strides, offset)
        self.held = Versioned(major, 0, None, None, flags, tensor) if versioned else Managed(tensor)
    def __dlpack_device__(self):
        return self.device
    def __dlpack__(self, *, stream, **more):
        if not self.is_versioned and more:
            raise TypeError("an unexpected argument")
        if self.memory:
            call("cuMemsetD8Async", self.memory.at(), self.value, ctypes.c_size_t(self.memory.n), ctypes.c_uint64(stream))
        return new_capsule(ctypes.addressof(self.held), b"dltensor_versioned" if self.is_versioned else b"dltensor", None)
"""


# Tensors of the stand-in for PyTorch that lie in the simulated GPU's memory.
THERE = """
made = []
class Here(Tensor):
    dtype, is_cuda = "torch.uint8", False
    def contiguous(self):
        return self
    def numpy(self):
        return self.array
    def reshape(self, shape):
        return Here(self.array.reshape(shape))
    def view(self, dtype):
        return Here(self.array.view(dtype))
class There(Tensor):
    is_cuda, requires_grad = True, False
    def __init__(self, array, gpu=0, stream=None):
        self.array, self.shape, self.nbytes, self.dtype = array, array.shape, array.nbytes, f"torch.{array.dtype}"
        self.device, self.memory, self.stream = types.SimpleNamespace(index=gpu), Memory(max(array.nbytes, 1)), stream
        plain = np.ascontiguousarray(array).tobytes()
        if stream:
            # Its kernel has not run yet: it makes bytes of one value.
            call("cuMemsetD8Async", self.memory.at(), plain[0], ctypes.c_size_t(len(plain)), stream)
        else:
            self.memory.put(plain)
        made.append(self)
    def detach(self):
        return self
    resolve_conj = resolve_neg = detach
    def is_contiguous(self):
        return self.array.flags.c_contiguous
    def contiguous(self):
        return self if self.is_contiguous() else There(np.ascontiguousarray(self.array))
    def numel(self):
        return self.array.size
    def element_size(self):
        return self.array.itemsize
    def data_ptr(self):
        return self.memory.address.value if self.nbytes else 0
    def cpu(self):
        return Here(self.array)
streams = {}
sys.modules["torch"].cuda.current_stream = lambda device: types.SimpleNamespace(cuda_stream=streams.get(device.index, 0))
save = phalanx.safetensors.save_file
def same(path, want, **options):
    got = load(path, key=key, **options)
    assert got.keys() == want.keys()
    return all((got[name] == array).all() and got[name].dtype == array.dtype for name, array in want.items())
"""
