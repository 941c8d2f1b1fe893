"""Whole files and sequential reads, against the command.

    python files.py [--size 1G] [--folder /dev/shm] [--rounds 5] [--cipher aes-256] [--sync] [--phalanx PATH] [--json FILE]

`protect` and `unprotect` write files; without --sync neither side waits for the disk. The folder needs room for three times the
size. The command is a process of its own, which takes a few milliseconds to start.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import phalanx
from common import compared, report, rounds

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(text):
    """Bytes, of which K, M and G are 2^10, 2^20 and 2^30."""
    return int(text[:-1]) * UNITS[text[-1].upper()] if text[-1].upper() in UNITS else int(text)


def default_binary():
    repository = Path(__file__).resolve().parents[3]
    return os.environ.get("PHALANX_BIN") or shutil.which("phalanx", path=repository / "target" / "release") or shutil.which("phalanx")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=size_of, default=1 << 30, help="bytes of the file, such as 512M or 2G")
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cipher", default="aes-256")
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--phalanx", default=default_binary(), help="the command")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if not options.phalanx:
        parser.error("no command phalanx: build it (cargo build --release) or name it with --phalanx")

    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measure(Path(folder), options)


def measure(folder, options):
    plain, stored, output, key_file = (folder / name for name in ("plain", "stored.phx", "output", "key"))
    piece = os.urandom(min(options.size, 16 << 20) or 1)
    with open(plain, "wb") as file:
        for at in range(0, options.size, len(piece)):
            file.write(piece[: options.size - at])
    key = phalanx.Key.generate()
    key_file.touch(mode=0o600)
    key_file.write_bytes(key.to_bytes())
    sync = options.sync

    def command(*arguments, to=subprocess.DEVNULL):
        flags = ["--key-file", key_file, "--quiet", *([] if sync or arguments[0] == "verify" else ["--no-sync"])]
        subprocess.run([options.phalanx, *arguments, *flags], check=True, stdin=subprocess.DEVNULL, stdout=to)

    def with_output(work):
        def timed():
            work()
            return output.unlink

        return timed

    def stream():
        command("unprotect", stored, "--output", "-")

    def read(piece=1 << 20):
        with phalanx.open(stored, key=key) as file:
            while file.read(piece):
                pass

    def readinto():
        buffer = bytearray(1 << 20)
        with phalanx.open(stored, key=key) as file:
            while file.readinto(buffer):
                pass

    phalanx.protect(plain, key=key, cipher=options.cipher, output=stored, sync=False)
    cases = {
        "protect, command": with_output(lambda: command("protect", plain, "--cipher", options.cipher, "--output", output)),
        "protect, Python": with_output(lambda: phalanx.protect(plain, key=key, cipher=options.cipher, output=output, sync=sync)),
        "unprotect, command": with_output(lambda: command("unprotect", stored, "--output", output)),
        "unprotect, Python": with_output(lambda: phalanx.unprotect(stored, key=key, output=output, sync=sync)),
        "verify, command": lambda: command("verify", stored),
        "verify, Python": lambda: phalanx.verify(stored, key=key),
        "unprotect -o - >/dev/null": stream,
        "open and read 1 MiB at a time": read,
        "open and readinto 1 MiB at a time": readinto,
    }
    # Nothing is measured that does not work.
    command("verify", stored)
    assert phalanx.verify(stored, key=key) == options.size

    taken = rounds(cases, options.rounds, log=sys.stderr)
    ratios = [
        {**compared(taken, "protect, Python", "protect, command"), "bar": 0.97},
        {**compared(taken, "unprotect, Python", "unprotect, command"), "bar": 0.97},
        compared(taken, "verify, Python", "verify, command"),
        {**compared(taken, "open and read 1 MiB at a time", "unprotect -o - >/dev/null"), "bar": 0.8},
        {**compared(taken, "open and readinto 1 MiB at a time", "unprotect -o - >/dev/null"), "bar": 0.8},
    ]
    report(
        f"a file of {options.size / (1 << 20):,.0f} MiB in {options.folder}, {options.cipher}, {options.rounds} rounds",
        taken,
        ratios,
        lambda name, seconds: f"{options.size / seconds / 1e6:,.0f} MB/s",
        ["phalanx"],
        options.json,
    )


if __name__ == "__main__":
    main()
