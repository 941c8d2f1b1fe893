"""Tensors of one file on several devices, with a stand-in for PyTorch and two simulated GPUs."""

import pytest
from conftest import needs
from on_gpu import KEY, TORCH, compiled, gpu, simulated  # noqa: F401 (fixtures)

import phalanx.safetensors

# What PyTorch does with two GPUs. Each read of one is noted, with its number and length, and each tensor knows where it lies.
TWO = """
reads, torch = [], sys.modules["torch"]
def place_of(text):
    kind, _, number = text.partition(":")
    return types.SimpleNamespace(type=kind, index=int(number) if number else None)
class Placed(Tensor):
    def __init__(self, array, where="cpu"):
        self.array, self.where = array, where
    def __getitem__(self, place):
        return Placed(self.array[place], self.where)
    def clone(self):
        return Placed(self.array.copy(), self.where)
    def view(self, dtype):
        return Placed(self.array.view(dtype), self.where)
    def reshape(self, shape):
        return Placed(self.array.reshape(shape), self.where)
    def to(self, device):
        place = place_of(device)
        return Placed(self.array, f"cuda:{place.index or 0}" if place.type == "cuda" else "cpu")
def take(memory):
    reads.append((memory.__dlpack_device__()[1], len(memory)))
    return Placed(from_dlpack(memory).array, f"cuda:{reads[-1][0]}")
torch.device, torch.from_dlpack, torch.Tensor, torch.from_numpy = place_of, take, Placed, Placed
torch.empty = lambda shape, dtype: Placed(np.empty(shape, dtype))
def where(loaded):
    for name, tensor in loaded.items():
        assert (tensor.array == NUMBERS[name]).all() and tensor.array.dtype == (np.uint8 if name == "odd" else np.float32), name
    return [tensor.where for tensor in loaded.values()]
NUMBERS = {"odd": 7, "embed": 0, "layers.0.a": 1, "layers.0.b": 2, "layers.1.a": 3, "layers.10.a": 4, "norm": 5}
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Tensors as the layers of a model have them, of 400 bytes; each has its own number in it."""
    np = needs("numpy")
    monkeypatch.setenv("PHALANX_SIMULATE_DEVICES", "2")
    names = ["embed", "layers.0.a", "layers.0.b", "layers.1.a", "layers.10.a", "norm"]
    tensors = {name: np.full((10, 10), i, np.float32) for i, name in enumerate(names)}
    tensors["odd"] = np.full(3, 7, np.uint8)
    for cipher in ("aes-256", "aes-256-gcm"):
        phalanx.safetensors.save_file(tensors, tmp_path / cipher, key=KEY, cipher=cipher, chunk_size=4096)
    return tmp_path


@simulated
def test_a_file_goes_to_another_gpu_than_the_first(gpu, model):
    code = (
        TORCH
        + TWO
        + """
path += "/aes-256"
with phalanx.safetensors.open(path, key=key) as file:
    order = list(file)
for place in ("cuda:1", 1, "cuda", 0):
    loaded = load(path, key=key, device=place)
    assert list(loaded) == order
    print(set(where(loaded)), reads)
    reads.clear()
with phalanx.safetensors.open(path, key=key) as file:
    for place in ("cuda:1", 0, 1):
        assert where({"norm": file.read("norm", device=place)}) == [f"cuda:{str(place)[-1]}"]
print(reads)
"""
    )
    assert gpu(code, model) == [
        "{'cuda:1'} [(1, 2403)]",
        "{'cuda:1'} [(1, 2403)]",
        "{'cuda:0'} [(0, 2403)]",
        "{'cuda:0'} [(0, 2403)]",
        "[(1, 400), (0, 400), (1, 400)]",
    ]


@simulated
def test_a_map_says_where_each_tensor_goes(gpu, model):
    """As those of Hugging Face: the longest prefix that ends at a dot. What follows each other on one device is read at once."""
    code = (
        TORCH
        + TWO
        + """
path += "/aes-256"
devices = {"layers.0": 0, "layers.1": "cuda:1", "layers": "cpu", "norm": "cuda:1", "": 1, "layers.0.b.more": "cpu"}
loaded = load(path, key=key, device=devices)
places = dict(zip(loaded, where(loaded)))
print(places)
# A read begins at a multiple of 64 of the file's tensors, so that they lie as they do there: up to 63 bytes are read twice.
print(reads)
reads.clear()
loaded = load(path, key=key, device=devices, names=["norm", "layers.10.a", "layers.0.b"])
print(where(loaded), list(loaded), reads)
reads.clear()
# Without a GPU, the map says nothing about the framework.
assert type(load(path, key=key, device={"": "cpu"})["norm"]) is np.ndarray and reads == []
"""
    )
    order = sorted(["embed", "layers.0.a", "layers.0.b", "layers.1.a", "layers.10.a", "norm"])
    told = gpu(code, model)
    places = {"embed": "cuda:1", "layers.0.a": "cuda:0", "layers.0.b": "cuda:0", "layers.1.a": "cuda:1", "layers.10.a": "cpu", "norm": "cuda:1"}
    assert told[0] == str({name: places[name] for name in order} | {"odd": "cuda:1"})
    # embed; layers.0.a and layers.0.b, from 400 on; layers.1.a, from 1200 on; norm and odd, from 2000 on.
    assert told[1] == str([(1, 400), (0, 800 + 400 % 64), (1, 400 + 1200 % 64), (1, 403 + 2000 % 64)])
    assert told[2] == "['cuda:1', 'cpu', 'cuda:0'] ['norm', 'layers.10.a', 'layers.0.b'] [(1, 400), (0, 400)]"


@simulated
def test_a_map_that_names_no_device_is_refused_before_anything_is_opened(gpu, model):
    code = (
        TORCH
        + TWO
        + """
for devices in ({"layers": 0}, {"layers.0": 0, "embed": 1, "norm": 1, "odd": 0, "layer": 1}, {"": "disk"}, {"": "cpu", "norm": "meta"}, {}):
    try:
        load(path + "/aes-256", key=key, device=devices)
    except ValueError as error:
        print(error)
assert reads == []
"""
    )
    assert gpu(code, model) == [
        "device names no device for tensor 'embed'",
        "device names no device for tensor 'layers.1.a'",
        "device is cpu or cuda, not 'disk'",
        "device is cpu or cuda, not 'meta'",
        "device names no device for tensor 'embed'",
    ]


@simulated
def test_what_no_gpu_opens_is_opened_by_the_cpu_and_sent(gpu, model):
    """AES-256-GCM, silently, as for one device. A GPU that cannot be opened, with one warning."""
    code = (
        TORCH
        + TWO
        + """
import warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    print(where(load(path + "/aes-256-gcm", key=key, device={"": 0, "layers": 1})), reads, len(told))
    print(where(load(path + "/aes-256", key=key, device={"": 0, "layers": 1, "layers.1": 7})), reads)
print([str(warning.message) for warning in told])
"""
    )
    assert gpu(code, model) == [
        "['cuda:0', 'cuda:1', 'cuda:1', 'cuda:1', 'cuda:1', 'cuda:0', 'cuda:0'] [] 0",
        "['cuda:0', 'cuda:1', 'cuda:1', 'cuda:7', 'cuda:1', 'cuda:0', 'cuda:0'] "
        + str([(0, 400), (1, 800 + 400 % 64), (1, 400 + 1600 % 64), (0, 403 + 2000 % 64)]),
        str(["tensors are opened by the CPU, and cross as plaintext: no GPU: CUDA: no device 7, of 2"]),
    ]
