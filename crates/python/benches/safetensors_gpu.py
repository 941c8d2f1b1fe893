"""A safetensors file loaded into the memory of a GPU: protected and opened there, against plain. Or saved from there.

    python safetensors_gpu.py [--save] [--size 16G] [--folder /dev/shm] [--rounds 3] [--cipher aes-256-turbo ...] [--json FILE]

It needs PyTorch and an NVIDIA GPU, and room for the plain file and a protected one for each cipher, in the folder and on the GPU. The last
case is the protected file that the CPU opens, or seals, so that plaintext crosses. Saved files are not synced, as the package safetensors
does not sync its own.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import phalanx
import phalanx.safetensors
from common import compared, report, rounds
from files import size_of


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", action="store_true", help="measure saving instead of loading")
    parser.add_argument("--size", type=size_of, default=16 << 30, help="bytes of the file, such as 1G")
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cipher", nargs="+", default=["aes-256-turbo", "aes-256"])
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        (measure_saving if options.save else measure)(Path(folder), options)


def tensors_of(total):
    """Tensors of half precision, of several sizes as in a model, whose bytes have no pattern."""
    import torch

    rows = total // 32 // 4 // 8192 // 2
    random = torch.Generator(device="cuda").manual_seed(1)
    made = {}
    for layer in range(32):
        for part in ("query", "mlp.up", "mlp.down", "output"):
            words = torch.randint(-(2**15), 2**15, (rows, 8192), dtype=torch.int16, device="cuda", generator=random)
            made[f"layers.{layer}.{part}"] = words.view(torch.float16).cpu()
        made[f"layers.{layer}.norm"] = torch.ones(8192, dtype=torch.float16)
    return made


def measure(folder, options):
    import torch
    from safetensors.torch import load_file, save_file

    key = phalanx.Key.generate()
    plain = folder / "model.safetensors"
    save_file(tensors_of(options.size), plain)
    total = plain.stat().st_size
    protected = {
        cipher: phalanx.protect(plain, key=key, cipher=cipher, output=folder / f"{cipher}.phx", sync=False)
        for cipher in options.cipher
    }

    def all_of(load):
        def work():
            tensors = load()
            torch.cuda.synchronize()
            # What it loaded is freed when nothing is timed.
            return tensors.clear

        return work

    def through_cpu():
        opened = phalanx.safetensors.load_file(protected[options.cipher[0]], key=key, framework="torch")
        return {name: tensor.to("cuda") for name, tensor in opened.items()}

    base = "plain, safetensors.torch.load_file"
    cases = {base: all_of(lambda: load_file(plain, device="cuda"))}
    for cipher, path in protected.items():
        cases[f"opened on the GPU, {cipher}"] = all_of(lambda p=path: phalanx.safetensors.load_file(p, key=key, device="cuda"))
    cases[f"opened by the CPU, {options.cipher[0]}"] = all_of(through_cpu)
    # Nothing is measured that does not work, and the first of each makes room.
    want = load_file(plain, device="cuda")
    for path in protected.values():
        got = phalanx.safetensors.load_file(path, key=key, device="cuda")
        assert want.keys() == got.keys()
        assert all(torch.equal(want[name].view(torch.int16), got[name].view(torch.int16)) for name in want)
        del got
    del want
    taken = rounds(cases, options.rounds, log=sys.stderr)
    ratios = [compared(taken, name, base) for name in cases if name != base]
    ratios[0]["bar"] = 1 / 1.3
    report(
        f"{total / 1e9:.1f} GB in {options.folder} to {torch.cuda.get_device_name()}, {options.rounds} rounds",
        taken,
        ratios,
        lambda name, seconds: f"{total / seconds / 1e9:.1f} GB/s",
        ["phalanx", "safetensors", "torch"],
        options.json,
    )


def measure_saving(folder, options):
    import torch
    from safetensors.torch import save_file

    key = phalanx.Key.generate()
    tensors = {name: tensor.to("cuda") for name, tensor in tensors_of(options.size).items()}
    total = sum(tensor.nbytes for tensor in tensors.values())
    torch.cuda.synchronize()

    def to(name, save):
        path = folder / name

        def work():
            save(path)
            # What it saved is deleted when nothing is timed.
            return path.unlink

        return work

    def protect(path, cipher, source=tensors):
        phalanx.safetensors.save_file(source, path, key=key, cipher=cipher, sync=False)

    def through_cpu(path):
        protect(path, options.cipher[0], {name: tensor.cpu() for name, tensor in tensors.items()})

    base = "plain, safetensors.torch.save_file"
    cases = {base: to("plain", lambda path: save_file(tensors, path))}
    for cipher in options.cipher:
        cases[f"sealed on the GPU, {cipher}"] = to(cipher, lambda path, cipher=cipher: protect(path, cipher))
    cases[f"sealed by the CPU, {options.cipher[0]}"] = to("cpu", through_cpu)
    # Nothing is measured that does not work, and the first of each makes room.
    for cipher in options.cipher:
        protect(folder / cipher, cipher)
        got = phalanx.safetensors.load_file(folder / cipher, key=key, device="cuda")
        assert tensors.keys() == got.keys()
        assert all(torch.equal(tensors[name].view(torch.int16), got[name].view(torch.int16)) for name in tensors)
        del got
        (folder / cipher).unlink()
    taken = rounds(cases, options.rounds, log=sys.stderr)
    report(
        f"{total / 1e9:.1f} GB from {torch.cuda.get_device_name()} to {options.folder}, {options.rounds} rounds",
        taken,
        [compared(taken, name, base) for name in cases if name != base],
        lambda name, seconds: f"{total / seconds / 1e9:.1f} GB/s",
        ["phalanx", "safetensors", "torch"],
        options.json,
    )


if __name__ == "__main__":
    main()
