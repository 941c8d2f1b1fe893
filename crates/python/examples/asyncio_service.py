"""A service in asyncio that keeps short records of its users, each under its user's key.

Run it in any folder: `python asyncio_service.py`. It needs nothing but phalanx.
"""

# %% What one request does: seal a record, or open one. `phalanx.aio` gathers those of all tasks, and works on them together.
import asyncio
import tempfile
import time

import phalanx
from phalanx import aio


class Records:
    """The records of many users, sealed."""

    def __init__(self, users):
        self.keys = {user: phalanx.Key.generate() for user in range(users)}
        self.sealed = {}

    async def put(self, user, name, record):
        # The name is bound to the record: it opens under this name only.
        self.sealed[user, name] = await aio.seal(self.keys[user], record, ad=name.encode())

    async def get(self, user, name):
        return await aio.unseal(self.keys[user], self.sealed[user, name], ad=name.encode())


# %% Many users at once.
async def main():
    service, users = Records(5000), range(5000)
    start = time.perf_counter()
    await asyncio.gather(*(service.put(user, "address", b"%d Main Street" % user) for user in users))
    found = await asyncio.gather(*(service.get(user, "address") for user in users))
    assert found == [b"%d Main Street" % user for user in users]
    taken = time.perf_counter() - start
    print(f"{2 * len(users):,} requests in {taken:.2f} s, {2 * len(users) / taken:,.0f} a second")

    # An attacker who can write to the store gives a user the record of another user.
    service.sealed[1, "address"] = service.sealed[2, "address"]
    try:
        await service.get(1, "address")
    except phalanx.AuthenticationError as error:
        print("the record of another user:", error)

    # Files are read in threads, and do not hold up the others.
    print(await asyncio.to_thread(read_a_file))


def read_a_file():
    key = phalanx.Key.generate()
    with tempfile.TemporaryDirectory() as folder:
        with phalanx.open(f"{folder}/log.phx", "wb", key=key) as file:
            file.write(b"a line\n" * 100_000)
        with phalanx.open(f"{folder}/log.phx", key=key) as file:
            return f"a file of {file.size:,} bytes, its last line: {file.read_at(file.size - 7, 7)!r}"


asyncio.run(main())
