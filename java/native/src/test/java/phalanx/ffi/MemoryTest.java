package phalanx.ffi;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import phalanx.AuthenticationException;
import phalanx.ForeignFailures;
import phalanx.Message;
import phalanx.PhalanxKey;

/** Objects of the library are freed once, and not while they are used. What secrets were in is wiped. This needs no library. */
class MemoryTest {
    private static final MemorySegment OBJECT = MemorySegment.ofAddress(64);

    private final AtomicInteger freed = new AtomicInteger();

    /** Called in place of a function of the library. */
    private static void free(AtomicInteger freed, MemorySegment object) {
        assertEquals(OBJECT, object);
        freed.incrementAndGet();
    }

    private MethodHandle free() throws ReflectiveOperationException {
        MethodType type = MethodType.methodType(void.class, AtomicInteger.class, MemorySegment.class);
        return MethodHandles.lookup().findStatic(MemoryTest.class, "free", type).bindTo(freed);
    }

    private static long address(Handle handle) {
        return handle.use(() -> new IllegalStateException("closed"), MemorySegment::address);
    }

    @Test
    void anObjectIsFreedOnce() throws ReflectiveOperationException {
        Handle handle = new Handle(OBJECT, free());
        assertEquals(64, address(handle));
        handle.close();
        handle.close();
        assertEquals(1, freed.get());
        assertThrows(IllegalStateException.class, () -> address(handle));
    }

    /** It ends when the object is freed, and otherwise by the limit. */
    @Test
    @Timeout(value = 5, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void anObjectThatNobodyCanReachIsFreed() throws ReflectiveOperationException {
        assertEquals(64, address(new Handle(OBJECT, free())));
        while (freed.get() == 0) {
            System.gc();
        }
        assertEquals(1, freed.get());
    }

    @Test
    void closingWaitsForThoseWhoUseTheObject() throws Exception {
        Handle handle = new Handle(OBJECT, free());
        CountDownLatch using = new CountDownLatch(1);
        CountDownLatch goOn = new CountDownLatch(1);
        AtomicInteger freedInUse = new AtomicInteger(-1);
        Thread user = Thread.ofPlatform().start(() -> handle.use(() -> new IllegalStateException("closed"), object -> {
            using.countDown();
            try {
                goOn.await();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            freedInUse.set(freed.get());
            return null;
        }));
        using.await();
        Thread closer = Thread.ofPlatform().start(handle::close);
        // Until it waits for the user.
        while (closer.isAlive() && closer.getState() != Thread.State.WAITING) {
            Thread.onSpinWait();
        }
        assertEquals(0, freed.get());
        goOn.countDown();
        user.join();
        closer.join();
        assertEquals(0, freedInUse.get());
        assertEquals(1, freed.get());
    }

    @Test
    void whatWasUsedIsWiped() {
        Scratch scratch = new Scratch();
        MemorySegment[] used = new MemorySegment[1];
        assertThrows(IllegalStateException.class, () -> scratch.with(100_000, memory -> {
            used[0] = memory.fill((byte) 7);
            throw new IllegalStateException("stop");
        }));
        assertEquals(-1, used[0].mismatch(MemorySegment.ofArray(new byte[100_000])));
        scratch.with(100_000, memory -> {
            assertEquals(used[0].address(), memory.address(), "the memory is kept");
            memory.set(ValueLayout.JAVA_BYTE, 99_999, (byte) 7);
            return null;
        });
        assertEquals(-1, used[0].mismatch(MemorySegment.ofArray(new byte[100_000])));
        scratch.with(100_000, 60_000, memory -> memory.fill((byte) 7));
        assertEquals(60_000, used[0].mismatch(MemorySegment.ofArray(new byte[100_000])));
        long most = (64L << 20) + 1;
        assertEquals(most, scratch.<Long, RuntimeException>with(most, MemorySegment::byteSize));
    }

    /** As in the pure library, and before any work. */
    @Test
    void aMessageWithoutRoomForItsTagIsRefused() {
        Message[] messages = {new Message(PhalanxKey.random(), new byte[1])};
        assertThrows(ArithmeticException.class, () -> new Batch(messages, Integer.MAX_VALUE, true));
        assertEquals(1, new Batch(messages, Integer.MAX_VALUE, false).count());
        assertEquals(1, new Batch(messages, Integer.MAX_VALUE - 1, true).count());
    }

    /** Also where the library has no word for it. */
    @Test
    void whatIsNotAuthenticIsThatInJavaToo() {
        String kind = Calls.kind("other", Calls.NOT_AUTHENTIC);
        assertInstanceOf(AuthenticationException.class, ForeignFailures.of(kind, "text", null, null, null));
        assertEquals("other", Calls.kind("other", 1));
        assertEquals("truncated", Calls.kind("truncated", Calls.NOT_AUTHENTIC));
    }

    /** Keys and plaintexts lie in the part of a batch that is wiped, and sealed messages do not. */
    @Test
    void theSecretsOfABatchAreInItsWipedPart() {
        byte[] content = new byte[500];
        Arrays.fill(content, (byte) 9);
        byte[] secret = new byte[PhalanxKey.BYTES];
        Arrays.fill(secret, (byte) 8);
        Message[] messages = {new Message(PhalanxKey.of(secret), new byte[3], content)};
        for (boolean seals : new boolean[] {true, false}) {
            Batch batch = new Batch(messages, 48, seals);
            MemorySegment memory = Arena.ofAuto().allocate(batch.bytes(), 64);
            batch.write(memory);
            byte[] all = memory.toArray(ValueLayout.JAVA_BYTE);
            int firstKey = new String(all, ISO_8859_1).indexOf(new String(secret, ISO_8859_1));
            int firstContent = new String(all, ISO_8859_1).indexOf(new String(content, ISO_8859_1));
            assertTrue(firstKey >= 0 && firstKey + secret.length <= batch.secretBytes());
            assertTrue(firstContent >= 0);
            assertEquals(seals, firstContent + content.length <= batch.secretBytes());
            long results = batch.results(memory).address() - memory.address();
            assertEquals(!seals, results + batch.resultBytes() <= batch.secretBytes());
        }
    }
}
