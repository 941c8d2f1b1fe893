"""A slice of a protected HDF5 file, read as if the file were plain.

Run it in any folder: `python hdf5_slice.py`. It needs h5py and numpy.
"""

# %% A simulation writes its output, and `phalanx.protect` protects it. The command `phalanx protect` does the same.
import os
import tempfile
from pathlib import Path

import h5py
import numpy as np

import phalanx

folder = tempfile.TemporaryDirectory()
run = Path(folder.name) / "run42.h5"
with h5py.File(run, "w") as h5:
    steps = h5.create_dataset("temperature", shape=(100, 300, 400), dtype="f4", chunks=(1, 300, 400))
    for step in range(100):
        steps[step] = 273 + step + np.random.default_rng(step).random((300, 400))

key = phalanx.Key.generate()
protected = phalanx.protect(run, key=key)
print(f"{run.name}: {run.stat().st_size:,} bytes; {protected.name}: {protected.stat().st_size:,} bytes")
run.unlink()

# %% Only what a slice needs is read and decrypted. Every byte of it is authenticated before h5py sees it.
with phalanx.open(protected, key=key) as file, h5py.File(file) as h5:
    corner = h5["temperature"][70, 0, :3]
    print("step 70, a corner:", ", ".join(f"{value:.2f}" for value in corner))


class Counted:
    """A file that counts what is read of it."""

    def __init__(self, path):
        self.file, self.size, self.count = os.open(path, os.O_RDONLY), os.path.getsize(path), 0

    def read_at(self, offset, n):
        data = os.pread(self.file, n, offset)
        self.count += len(data)
        return data


counted = Counted(protected)
with phalanx.open(counted, key=key) as file, h5py.File(file) as h5:
    print(f"step 70, the mean: {h5['temperature'][70].mean():.2f}")
print(f"of {counted.size:,} bytes, {counted.count:,} were read")

# %% Every changed byte is detected.
data = bytearray(protected.read_bytes())
data[len(data) // 2] ^= 1
protected.write_bytes(data)
try:
    phalanx.verify(protected, key=key)
except phalanx.AuthenticationError as error:
    print("after one changed bit:", str(error).replace(folder.name + "/", ""))
folder.cleanup()
