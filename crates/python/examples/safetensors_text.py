"""A model in a protected safetensors file: it is trained, saved, loaded again, and writes text.

Run it in any folder: `python safetensors_text.py`. It needs numpy, and no GPU.
"""

# %% A tiny model: the last eight characters determine the next one. It learns this text in some seconds.
import tempfile
from pathlib import Path

import numpy as np

import phalanx
import phalanx.safetensors

TEXT = (
    "a file is sealed and its key is kept. whoever has the key opens the file, and whoever has no key reads nothing. "
    "a bit that was changed is found, and a chunk that was moved is found, because every chunk has a tag. "
)
LETTERS = sorted(set(TEXT))
WINDOW, WIDTH, HIDDEN = 8, 12, 96


def forward(model, windows):
    """For each window of letters: the inputs of the layers, and how likely each next letter is."""
    inputs = model["embedding"][windows].reshape(len(windows), WINDOW * WIDTH)
    hidden = np.tanh(inputs @ model["hidden.weight"] + model["hidden.bias"])
    scores = hidden @ model["output.weight"] + model["output.bias"]
    likely = np.exp(scores - scores.max(axis=1, keepdims=True))
    return inputs, hidden, likely / likely.sum(axis=1, keepdims=True)


def train(steps=400, rate=0.01):
    """A model that has learnt the text, by Adam."""
    random = np.random.default_rng(0)
    shapes = {
        "embedding": (len(LETTERS), WIDTH),
        "hidden.weight": (WINDOW * WIDTH, HIDDEN),
        "hidden.bias": (HIDDEN,),
        "output.weight": (HIDDEN, len(LETTERS)),
        "output.bias": (len(LETTERS),),
    }
    model = {name: (random.standard_normal(shape) * 0.1).astype(np.float32) for name, shape in shapes.items()}
    first = {name: np.zeros_like(weights) for name, weights in model.items()}
    second = {name: np.zeros_like(weights) for name, weights in model.items()}
    letters = np.array([LETTERS.index(letter) for letter in TEXT + TEXT[:WINDOW]])
    windows = np.lib.stride_tricks.sliding_window_view(letters, WINDOW)[:-1]
    wanted = letters[WINDOW:]
    for step in range(1, steps + 1):
        inputs, hidden, error = forward(model, windows)
        error[np.arange(len(wanted)), wanted] -= 1
        error /= len(wanted)
        back = (error @ model["output.weight"].T) * (1 - hidden**2)
        embedding = np.zeros_like(model["embedding"])
        np.add.at(embedding, windows, (back @ model["hidden.weight"].T).reshape(*windows.shape, WIDTH))
        slopes = {
            "embedding": embedding,
            "hidden.weight": inputs.T @ back,
            "hidden.bias": back.sum(axis=0),
            "output.weight": hidden.T @ error,
            "output.bias": error.sum(axis=0),
        }
        for name, slope in slopes.items():
            first[name] = 0.9 * first[name] + 0.1 * slope
            second[name] = 0.999 * second[name] + 0.001 * slope**2
            change = first[name] / (1 - 0.9**step) / (np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8)
            model[name] -= (rate * change).astype(np.float32)
    return model


def write(model, beginning, length):
    """Goes on with a text."""
    letters = [LETTERS.index(letter) for letter in beginning]
    while len(letters) < length:
        likely = forward(model, np.array([letters[-WINDOW:]]))[2][0]
        letters.append(int(likely.argmax()))
    return "".join(LETTERS[letter] for letter in letters)


# %% The weights are saved under a key: no plaintext of them is written anywhere.
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "model.safetensors.phx"
key = phalanx.Key.generate()
phalanx.safetensors.save_file(train(), path, key=key, metadata={"letters": "".join(LETTERS)})
print(f"{path.name}: {path.stat().st_size:,} bytes, which begin with {path.read_bytes()[:8]}")

# %% They are loaded, and the model writes. The call is the same with device="cuda" and PyTorch.
loaded = phalanx.safetensors.load_file(path, key=key)
print(write(loaded, "a file i", 80))

# %% Single tensors can be read by themselves.
with phalanx.safetensors.open(path, key=key) as file:
    print(", ".join(f"{name} {tensor.dtype} {tensor.shape}" for name, tensor in file.items()))
    print("letters of the model:", repr(file.metadata["letters"]))
    print("embedding of the first:", file.read("embedding")[0].shape)

# %% A changed weight is no weight: nothing is loaded.
data = bytearray(path.read_bytes())
data[len(data) // 2] ^= 1
path.write_bytes(data)
try:
    phalanx.safetensors.load_file(path, key=key)
except phalanx.AuthenticationError as error:
    print("after one changed bit:", str(error).replace(folder.name + "/", ""))
folder.cleanup()
