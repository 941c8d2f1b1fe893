package phalanx.ffi;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import phalanx.AuthenticationException;
import phalanx.ForeignFailures;
import phalanx.Message;
import phalanx.MessagesException;
import phalanx.Suite;

/**
 * Seals and opens short messages in batches as {@link phalanx.Messages} does, each under its own key, by libphalanx, on all processors. A batch
 * is one call of the library. One value may be used from many threads.
 *
 * <pre>{@code
 * NativeMessages messages = new NativeMessages(Suite.AES_256_CTR_SHA3);
 * List<byte[]> sealed = messages.seal(List.of(new Message(key, plaintext)));
 * List<byte[]> opened = messages.open(List.of(new Message(key, sealed.get(0))));
 * }</pre>
 *
 * <p>A value keeps the native memory of a batch for the next one, 64 MiB at most. Keys and plaintexts in it are wiped after each batch. Consecutive messages under
 * one key cost less.
 */
public final class NativeMessages {
    private final Calls calls;
    private final Suite suite;
    private final MemorySegment cipher;
    private final Scratch scratch = new Scratch();

    /**
     * Messages of a suite, by the usual library.
     *
     * @param suite the suite
     * @throws NativeLibraryException if there is no library
     */
    public NativeMessages(Suite suite) {
        this(NativeLibrary.usual(), suite);
    }

    /**
     * Messages of a suite, by a library.
     *
     * @param library the library
     * @param suite the suite
     */
    public NativeMessages(NativeLibrary library, Suite suite) {
        this.calls = library.calls();
        this.suite = suite;
        cipher = Strings.text(Arena.ofAuto(), "a cipher", Settings.cipher(suite));
    }

    /**
     * Seals messages.
     *
     * @param batch the messages, with plaintexts
     * @return the sealed messages, in the same order, each 48 bytes longer than its plaintext, or 28 in suite 4
     * @throws ArithmeticException if a sealed message is too long for an array
     */
    public List<byte[]> seal(List<Message> batch) {
        Batch messages = batch(batch, true);
        return scratch.with(messages.bytes(), messages.secretBytes(), memory -> {
            messages.write(memory);
            call(arena -> {
                MemorySegment keys = messages.keys(memory);
                MemorySegment ads = messages.associatedData(memory, arena);
                MemorySegment texts = messages.contents(memory, arena);
                MemorySegment out = messages.results(memory);
                return (MemorySegment) calls.sealEach.invokeExact(
                        cipher, keys, (long) messages.count(), ads, texts, out, messages.resultBytes());
            });
            return List.of(messages.read(memory));
        });
    }

    /**
     * Opens messages. Either all of them are authentic, or none is released.
     *
     * @param batch the messages, sealed
     * @return the plaintexts, in the same order
     * @throws MessagesException if some are not authentic. The exception names them
     */
    public List<byte[]> open(List<Message> batch) throws MessagesException {
        Batch messages = batch(batch, false);
        return scratch.<List<byte[]>, MessagesException>with(messages.bytes(), messages.secretBytes(), memory -> {
            if (opens(messages, memory)) {
                return List.of(messages.read(memory));
            }
            List<Integer> failed = new ArrayList<>();
            for (int i = 0; i < messages.count(); i++) {
                if (messages.failed(memory, i)) {
                    failed.add(i);
                }
            }
            throw ForeignFailures.messages(failed);
        });
    }

    /**
     * Opens those messages that are authentic.
     *
     * @param batch the messages, sealed
     * @return the plaintexts, in the same order, and nothing for each message that is not authentic
     */
    public List<Optional<byte[]>> openEach(List<Message> batch) {
        Batch messages = batch(batch, false);
        return scratch.with(messages.bytes(), messages.secretBytes(), memory -> {
            opens(messages, memory);
            return Arrays.stream(messages.read(memory)).map(Optional::ofNullable).toList();
        });
    }

    /** The native memory that is kept for the next batch, or null. For tests. */
    MemorySegment kept() {
        return scratch.kept();
    }

    /** Of a copy of the list, which others could change. */
    private Batch batch(List<Message> batch, boolean seals) {
        return new Batch(batch.toArray(Message[]::new), suite.overhead(), seals);
    }

    /** Opens messages in the memory, and returns whether all are authentic. */
    private boolean opens(Batch messages, MemorySegment memory) {
        messages.write(memory);
        return call(arena -> {
            MemorySegment keys = messages.keys(memory);
            MemorySegment ads = messages.associatedData(memory, arena);
            MemorySegment sealed = messages.contents(memory, arena);
            MemorySegment out = messages.results(memory);
            MemorySegment verdicts = messages.verdicts(memory);
            return (MemorySegment) calls.openEach.invokeExact(
                    cipher, keys, (long) messages.count(), ads, sealed, out, messages.resultBytes(), verdicts);
        });
    }

    /** A call with arguments in an arena. */
    @FunctionalInterface
    private interface WithArena {
        MemorySegment invoke(Arena arena) throws Throwable;
    }

    /** Makes a call, and returns whether all messages are authentic. */
    private boolean call(WithArena call) {
        try (Arena arena = Arena.ofConfined()) {
            calls.run(() -> call.invoke(arena));
            return true;
        } catch (AuthenticationException e) {
            return false;
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }
}
