"""A sharded model: protected safetensors files against plain ones.

    python safetensors_shards.py [--shards 16] [--size 64M] [--folder /dev/shm] [--rounds 5] [--cipher aes-256-turbo]
                                 [--framework torch] [--json FILE]

Each case loads all shards one after another, as a model is loaded, and then reads every byte of them once: `safetensors.torch.load_file`
maps plain files, so without that it would measure nothing. With --framework numpy, `safetensors.numpy.load_file` takes its place, which copies, and a third
case maps the plain files as PyTorch's does. The folder needs room for twice the size of all shards, and the memory for as much again.

The ratios are of elapsed times, and below them of the processor's times, which other programs disturb less.
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

import phalanx
import phalanx.safetensors
from common import compared, report, rounds
from files import size_of


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--size", type=size_of, default=64 << 20, help="bytes of each, such as 64M or 1G")
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cipher", default="aes-256-turbo")
    parser.add_argument("--framework", choices=["numpy", "torch"], default="torch")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measure(Path(folder), options)


def shards(folder, options, key):
    """The paths of the shards, plain and protected. Their tensors are of several sizes, as in a model."""
    random = np.random.default_rng(1)
    plain, protected = [], []
    for shard in range(options.shards):
        layers = 8
        # Per layer: one large matrix, one of a quarter of it, and a vector.
        large = max(options.size // layers // 5 * 4 // 4, 1)
        tensors = {}
        for layer in range(layers):
            tensors[f"layers.{layer}.mlp"] = random.random(large, np.float32)
            tensors[f"layers.{layer}.attention"] = random.random(large // 4, np.float32)
            tensors[f"layers.{layer}.norm"] = random.random(4096, np.float32)
        protected.append(folder / f"model-{shard:05}.safetensors.phx")
        phalanx.safetensors.save_file(tensors, protected[-1], key=key, cipher=options.cipher, sync=False)
        plain.append(phalanx.unprotect(protected[-1], key=key, sync=False))
    return plain, protected


def measure(folder, options):
    key = phalanx.Key.generate()
    plain, protected = shards(folder, options, key)
    total = sum(path.stat().st_size for path in plain)
    if options.framework == "torch":
        from safetensors.torch import load_file
    else:
        from safetensors.numpy import load_file
    used = {}

    def all_of(name, load, paths):
        def work():
            before = os.times()
            # If each file were summed up before the next is loaded, PyTorch's threads would slow loading down: docs/performance-gpu.md.
            loaded = [load(path) for path in paths]
            for tensors in loaded:
                sum(float(tensor.sum()) for tensor in tensors.values())
            after = os.times()
            used.setdefault(name, []).append(after.user + after.system - before.user - before.system)

        return work

    def opened(path):
        return phalanx.safetensors.load_file(path, key=key, framework=options.framework)

    ours, base = "protected, phalanx.safetensors.load_file", f"plain, safetensors.{options.framework}.load_file"
    loads = {base: (load_file, plain), ours: (opened, protected)}
    if options.framework == "numpy":
        loads["plain, mapped"] = (lambda path: {"": np.memmap(path, np.float32, offset=path.stat().st_size % 4)}, plain)
    cases = {name: all_of(name, *of) for name, of in loads.items()}
    # Nothing is measured that does not work.
    want, got = load_file(plain[0]), opened(protected[0])
    assert want.keys() == got.keys() and all((want[name] == got[name]).all() for name in want)

    taken = rounds(cases, options.rounds, log=sys.stderr)
    others = [name for name in cases if name != ours]
    ratios = [{**compared(taken, ours, base), "bar": 0.9}, *(compared(taken, ours, other) for other in others[1:])]
    report(
        f"{options.shards} shards, {total / (1 << 20):,.0f} MiB in all, in {options.folder}, {options.cipher}, {options.rounds} rounds",
        taken,
        ratios,
        lambda name, seconds: f"{total / seconds / 1e6:,.0f} MB/s",
        ["phalanx", "safetensors", options.framework],
        options.json,
    )
    for other in others:
        ratio = statistics.median(used[other]) / statistics.median(used[ours])
        print(f"  the processor's time: {ours} / {other}: {ratio:.2f} x")


if __name__ == "__main__":
    main()
