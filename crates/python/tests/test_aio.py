"""Messages in tasks of asyncio."""

import asyncio
import gc
import threading
import time
import warnings
import weakref

import pytest

import phalanx
import phalanx.aio
from conftest import CIPHERS, child, flipped, is_one_line, painted

KEY = phalanx.Key.from_bytes(bytes(range(32)))
OTHER = phalanx.Key.from_bytes(bytes(range(1, 33)))


def run(main):
    """Runs a coroutine to its end, and fails if that takes too long."""
    return asyncio.run(asyncio.wait_for(main, 120))


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("size", [0, 1, 100, 5000])
def test_sealed_records_open_again(cipher, size):
    record = painted(size)

    async def main():
        sealed = await phalanx.aio.seal(KEY, record, ad=b"ad", cipher=cipher)
        assert type(sealed) is bytes
        assert phalanx.unseal(KEY, sealed, ad=b"ad", cipher=cipher) == record
        opened = await phalanx.aio.unseal(KEY, phalanx.seal(KEY, record, ad=b"ad", cipher=cipher), ad=b"ad", cipher=cipher)
        assert type(opened) is bytes and opened == record

    run(main())


def test_thousands_of_tasks_get_their_own_results():
    count = 20_000
    keys = [phalanx.Key.generate() for _ in range(100)]

    async def one(n):
        sealed = await phalanx.aio.seal(keys[n % 100], b"record %d" % n, ad=b"%d" % n)
        assert phalanx.unseal(keys[n % 100], sealed, ad=b"%d" % n) == b"record %d" % n
        return await phalanx.aio.unseal(keys[n % 100], sealed, ad=b"%d" % n)

    async def main():
        return await asyncio.gather(*(one(n) for n in range(count)))

    assert run(main()) == [b"record %d" % n for n in range(count)]


def test_a_single_message_does_not_wait_for_others():
    async def main():
        for _ in range(20):
            sealed = await asyncio.wait_for(phalanx.aio.seal(KEY, b"alone"), 120)
            assert phalanx.unseal(KEY, sealed) == b"alone"

    run(main())


def test_the_loop_runs_while_messages_are_sealed():
    ticks = [0]

    async def tick():
        while True:
            ticks[0] += 1
            await asyncio.sleep(0)

    async def main():
        ticking = asyncio.ensure_future(tick())
        await asyncio.gather(*(phalanx.aio.seal(KEY, bytes(1000)) for _ in range(2000)))
        ticking.cancel()

    run(main())
    assert ticks[0] > 1


def test_only_altered_messages_raise():
    async def main():
        sealed = [await phalanx.aio.seal(KEY, b"%d" % n) for n in range(10)]
        sealed[3] = flipped(sealed[3])
        sealed[7] = b"short"
        return await asyncio.gather(*(phalanx.aio.unseal(KEY, message) for message in sealed), return_exceptions=True)

    results = run(main())
    for n, result in enumerate(results):
        if n in (3, 7):
            assert type(result) is phalanx.AuthenticationError and is_one_line(result)
            assert result.failed is None and result.chunk is None
        else:
            assert result == b"%d" % n


def test_wrong_keys_associated_data_and_ciphers_raise():
    async def main():
        sealed = await phalanx.aio.seal(KEY, b"record", ad=b"user 7")
        for key, ad, cipher in ((OTHER, b"user 7", "aes-256"), (KEY, b"user 8", "aes-256"), (KEY, b"user 7", "aes-128"), (KEY, b"user 7", "aes-256-gcm")):
            with pytest.raises(phalanx.AuthenticationError):
                await phalanx.aio.unseal(key, sealed, ad=ad, cipher=cipher)
        assert await phalanx.aio.unseal(KEY, sealed, ad=b"user 7") == b"record"

    run(main())


@pytest.mark.parametrize(
    "arguments, options, error",
    [
        ((KEY, "text"), {}, TypeError),
        ((KEY, None), {}, TypeError),
        ((None, b"x"), {}, TypeError),
        ((b"x" * 32, b"x"), {}, TypeError),
        ((KEY, b"x"), {"ad": "text"}, TypeError),
        ((KEY, b"x"), {"cipher": "aes-512"}, ValueError),
        ((KEY, memoryview(bytes(20))[::2]), {}, (BufferError, TypeError, ValueError)),
        (("absent", b"x"), {}, phalanx.KeyringError),
    ],
)
def test_impossible_values_raise(arguments, options, error):
    async def main():
        for call in (phalanx.aio.seal, phalanx.aio.unseal):
            with pytest.raises(error):
                await call(*arguments, **options)
        assert await phalanx.aio.unseal(KEY, await phalanx.aio.seal(KEY, b"still works")) == b"still works"

    run(main())


def test_calls_outside_of_a_loop_raise():
    coroutine = phalanx.aio.seal(KEY, b"x")
    with pytest.raises(RuntimeError):
        coroutine.send(None)
    with pytest.warns(RuntimeWarning, match="never awaited"):
        phalanx.aio.seal(KEY, b"x")
        gc.collect()


def test_a_buffer_may_change_after_the_call():
    async def main():
        buffer = bytearray(b"before")
        task = asyncio.ensure_future(phalanx.aio.seal(KEY, buffer))
        await asyncio.sleep(0)
        buffer[:] = b"after, and longer"
        return phalanx.unseal(KEY, await task)

    assert run(main()) == b"before"


def test_cancelled_tasks_do_not_disturb_others():
    async def main():
        tasks = [asyncio.ensure_future(phalanx.aio.seal(KEY, b"%d" % n)) for n in range(3000)]
        await asyncio.sleep(0)
        for task in tasks[::3]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        cancelled = sum(isinstance(result, asyncio.CancelledError) for result in results[::3])
        assert cancelled > 0
        for n, result in enumerate(results):
            assert (n % 3 == 0 and isinstance(result, asyncio.CancelledError)) or phalanx.unseal(KEY, result) == b"%d" % n
        # Cancelled messages cause no error later.
        await asyncio.sleep(0.05)
        assert phalanx.unseal(KEY, await phalanx.aio.seal(KEY, b"and on")) == b"and on"

    problems = []

    async def watched():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
        await main()

    run(watched())
    assert problems == []


def test_messages_are_sealed_after_timeouts():
    async def main():
        for _ in range(50):
            try:
                await asyncio.wait_for(phalanx.aio.seal(KEY, bytes(10_000)), 0.0001)
            except (TimeoutError, asyncio.TimeoutError):
                pass
        assert phalanx.unseal(KEY, await phalanx.aio.seal(KEY, b"x")) == b"x"

    run(main())


def test_loops_work_one_after_another():
    for n in range(30):
        assert phalanx.unseal(KEY, run(phalanx.aio.seal(KEY, b"%d" % n))) == b"%d" % n


def test_a_loop_may_end_before_its_messages_are_done():
    """Nothing hangs, nothing is raised in other threads, and the next loop works."""
    for _ in range(20):

        async def main():
            for n in range(200):
                asyncio.ensure_future(phalanx.aio.seal(KEY, bytes(1000)))
            await asyncio.sleep(0)

        asyncio.run(main())
    assert run(phalanx.aio.seal(KEY, b"x"))


def test_a_loop_may_be_closed_with_futures_pending():
    loop = asyncio.new_event_loop()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        task = loop.create_task(phalanx.aio.seal(KEY, bytes(1 << 20)))
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        task._log_destroy_pending = False
        del task
        gc.collect()
    time.sleep(0.05)
    assert run(phalanx.aio.seal(KEY, b"x"))


def test_a_loop_is_collected():
    loop = asyncio.new_event_loop()
    loop.run_until_complete(phalanx.aio.seal(KEY, b"x"))
    gone = weakref.ref(loop)
    loop.close()
    del loop
    # The thread that woke the loop may still hold it.
    for _ in range(1000):
        gc.collect()
        if gone() is None:
            break
        time.sleep(0.01)
    assert gone() is None
    assert len(phalanx.aio._gatherers) == 0 or gone() not in phalanx.aio._gatherers


def test_loops_work_in_several_threads():
    errors, results = [], []

    def work(seed):
        try:

            async def main():
                sealed = await asyncio.gather(*(phalanx.aio.seal(KEY, b"%d %d" % (seed, n)) for n in range(500)))
                return await asyncio.gather(*(phalanx.aio.unseal(KEY, message) for message in sealed))

            assert run(main()) == [b"%d %d" % (seed, n) for n in range(500)]
            results.append(seed)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert errors == [] and sorted(results) == list(range(6))


def test_large_messages_are_sealed_or_refused():
    async def main():
        record = bytes(20 << 20)
        try:
            sealed = await phalanx.aio.seal(KEY, record)
        except ValueError as error:
            # There may be a limit, if the exception reports it.
            assert is_one_line(error)
            return
        assert await phalanx.aio.unseal(KEY, sealed) == record

    run(main())


def test_more_messages_than_fit_at_once_are_sealed():
    """Many large messages wait for each other, and none is lost."""

    async def main():
        records = [painted(300_000, n) for n in range(200)]
        sealed = await asyncio.gather(*(phalanx.aio.seal(KEY, record) for record in records))
        assert await asyncio.gather(*(phalanx.aio.unseal(KEY, message) for message in sealed)) == records

    run(main())


ENDING = """
import asyncio, phalanx, phalanx.aio
key = phalanx.Key.generate()
async def main():
    global tasks
    tasks = [asyncio.ensure_future(phalanx.aio.seal(key, bytes(10000))) for _ in range(2000)]
    await asyncio.sleep(0)
    print("end", flush=True)
    {end}
asyncio.run(main())
"""


@pytest.mark.parametrize("end", ["pass", "raise SystemExit(0)", "asyncio.get_running_loop().stop()"])
def test_the_interpreter_ends_while_messages_are_sealed(end):
    for _ in range(3):
        done = child(ENDING.format(end=end))
        assert done.stdout == "end\n"
        assert done.returncode in (0, 1) and "Fatal" not in done.stderr and "panicked" not in done.stderr, done.stderr


def test_messages_are_sealed_after_a_fork():
    code = """
import asyncio, os, phalanx, phalanx.aio, warnings
warnings.simplefilter("ignore")
key = phalanx.Key.generate()
async def one():
    return await phalanx.aio.unseal(key, await phalanx.aio.seal(key, b"x"))
assert asyncio.run(one()) == b"x"
pid = os.fork()
if pid == 0:
    assert asyncio.run(one()) == b"x"
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
assert asyncio.run(one()) == b"x"
print("done")
"""
    done = child(code)
    assert done.stdout == "done\n", done.stderr
