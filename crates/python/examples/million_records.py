"""A million short records, each under the key of its own user.

Run it in any folder: `python million_records.py`. The last part needs pyarrow. `python million_records.py 10000` is shorter.
"""

# %% The records and keys of many users.
import sys
import time

import phalanx

count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
users = 1000
keys = [phalanx.Key.generate() for _ in range(users)]
records = [b"record %9d: " % i + bytes(234) for i in range(count)]
key_of_record = [keys[i % users] for i in range(count)]


def timed(what, work):
    start = time.perf_counter()
    result = work()
    taken = time.perf_counter() - start
    print(f"{what:32}{taken:7.2f} s, {count / taken:12,.0f} a second")
    return result


# %% One call seals all of them, on all cores. Each is bound to its place, so that records cannot change places unseen.
ads = [b"place %d" % i for i in range(count)]
sealed = timed("seal_many", lambda: phalanx.seal_many(key_of_record, records, ads))
opened = timed("unseal_many", lambda: phalanx.unseal_many(key_of_record, sealed, ads))
assert opened == records
print(f"a record of {len(records[0])} bytes becomes {len(sealed[0])}")

# %% What was altered, or has changed places, is found. The rest is not lost.
few = slice(0, 1000)
sealed[7], sealed[8] = sealed[8], sealed[7]
sealed[9] = sealed[9][:-1] + bytes([sealed[9][-1] ^ 1])
try:
    phalanx.unseal_many(key_of_record[few], sealed[few], ads[few])
except phalanx.AuthenticationError as error:
    print("not authentic:", error.failed)
opened = phalanx.unseal_many(key_of_record[few], sealed[few], ads[few], errors="none")
print("opened all the same:", sum(record is not None for record in opened), "of", len(opened))

# %% Columns of Arrow are sealed as they are: no Python object is made for a value.
try:
    import pyarrow as pa
except ModuleNotFoundError:
    sys.exit("for columns, install pyarrow")
column = pa.array(records)
sealed = timed("seal_column", lambda: phalanx.seal_column(key_of_record, column))
assert phalanx.unseal_column(keys[5], sealed[5:6], type=pa.binary()) == column[5:6]
