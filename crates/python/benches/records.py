"""A million records of 256 bytes, each under its own key: seal_many and seal_column against a loop over pyca/cryptography.

Each is called once for all records, and once for each batch of 65,536, as record batches of Arrow have: a batch's result is
dropped before the next batch.

The loop is as lean as it can be: its keys are prepared beforehand, and it does not keep the nonces that it draws.

    python records.py [--count 1000000] [--size 256] [--rounds 5] [--threads N] [--json FILE]

A million records take about 7 GB of memory, most of them for the prepared keys of the loop.
"""

import argparse
import os
import sys

import pyarrow as pa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import phalanx
from common import compared, report, rounds

BATCH = 1 << 16
SUITES = {"suite 1": "aes-256", "suite 5": "aes-256-turbo"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000, help="how many records")
    parser.add_argument("--size", type=int, default=256, help="bytes of a record")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    count, size, threads = options.count, options.size, options.threads

    data = os.urandom(count * size)
    records = [data[at * size : (at + 1) * size] for at in range(count)]
    array = pa.array(records, pa.large_binary())
    secrets = [os.urandom(32) for _ in range(count)]
    keys = [phalanx.Key.from_bytes(secret) for secret in secrets]
    aeads = [AESGCM(secret) for secret in secrets]
    del data, secrets

    def loop(urandom=os.urandom):
        return [aead.encrypt(urandom(12), record, None) for aead, record in zip(aeads, records)]

    cases = {"AESGCM.encrypt in a loop": loop}
    ratios = []
    for suite, cipher in SUITES.items():
        sealed = phalanx.seal_many(keys, records, cipher=cipher, threads=threads)
        column = pa.array(sealed, pa.large_binary())
        # Nothing is measured that does not work.
        assert phalanx.unseal_many(keys, sealed, cipher=cipher, threads=threads) == records
        assert phalanx.unseal_column(keys, phalanx.seal_column(keys, array, cipher=cipher), cipher=cipher).equals(array)
        assert phalanx.unseal_column(keys, column, cipher=cipher).equals(array)

        def made(function, *arguments, cipher=cipher):
            return lambda: function(*arguments, cipher=cipher, threads=threads)

        def batches(function, values, cipher=cipher):
            def run():
                for at in range(0, count, BATCH):
                    function(keys[at : at + BATCH], values[at : at + BATCH], cipher=cipher, threads=threads)

            return run

        cases[f"seal_many, {suite}"] = made(phalanx.seal_many, keys, records)
        cases[f"seal_column, {suite}"] = made(phalanx.seal_column, keys, array)
        cases[f"seal_many, {suite}, in batches"] = batches(phalanx.seal_many, records)
        cases[f"seal_column, {suite}, in batches"] = batches(phalanx.seal_column, array)
        cases[f"unseal_many, {suite}"] = made(phalanx.unseal_many, keys, sealed)
        cases[f"unseal_column, {suite}"] = made(phalanx.unseal_column, keys, column)

    taken = rounds(cases, options.rounds, log=sys.stderr)
    for suite, bar in (("suite 1", 2), ("suite 5", 4)):
        ratios.append({**compared(taken, f"seal_many, {suite}", "AESGCM.encrypt in a loop"), "bar": bar})
    for suite in SUITES:
        ratios.append({**compared(taken, f"seal_column, {suite}", f"seal_many, {suite}"), "bar": 1.5})
        ratios.append({**compared(taken, f"seal_column, {suite}, in batches", f"seal_many, {suite}, in batches"), "bar": 1.5})
        ratios.append(compared(taken, f"unseal_many, {suite}", f"seal_many, {suite}"))
        ratios.append(compared(taken, f"unseal_column, {suite}", f"unseal_many, {suite}"))
    report(
        f"{count:,} records of {size} bytes, {count:,} keys, {options.rounds} rounds",
        taken,
        ratios,
        lambda name, seconds: f"{count / seconds / 1e6:.2f} million a second",
        ["phalanx", "cryptography", "pyarrow"],
        options.json,
    )


if __name__ == "__main__":
    main()
