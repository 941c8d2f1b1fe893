package phalanx;

import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/** Two providers of keys, of which either may refuse: the other may still have what opens a file. */
final class FirstOf {
    private FirstOf() {}

    /** A question to a provider. */
    @FunctionalInterface
    interface Question<T> {
        T ask(KeyProvider provider) throws IOException;
    }

    /** What the first one has, or else the other. A refusal is thrown only if neither has it. */
    static <T> Optional<T> both(KeyProvider first, KeyProvider other, Question<Optional<T>> question) throws IOException {
        Answer<Optional<T>> before = Answer.of(first, question, Optional.empty());
        if (before.value().isPresent()) {
            return before.value();
        }
        Answer<Optional<T>> after = Answer.of(other, question, Optional.empty());
        if (after.value().isEmpty()) {
            throwRefusals(before, after);
        }
        return after.value();
    }

    /** What both have. A refusal is thrown only if neither has any. */
    static <T> List<T> all(KeyProvider first, KeyProvider other, Question<List<T>> question) throws IOException {
        Answer<List<T>> before = Answer.of(first, question, List.of());
        Answer<List<T>> after = Answer.of(other, question, List.of());
        if (before.value().isEmpty() && after.value().isEmpty()) {
            throwRefusals(before, after);
        }
        return Stream.concat(before.value().stream(), after.value().stream()).toList();
    }

    /** What a provider has, and its refusal, or null. */
    private record Answer<T>(T value, KeyException refusal) {
        static <T> Answer<T> of(KeyProvider provider, Question<T> question, T nothing) throws IOException {
            try {
                return new Answer<>(question.ask(provider), null);
            } catch (KeyException e) {
                return new Answer<>(nothing, e);
            }
        }
    }

    private static void throwRefusals(Answer<?> first, Answer<?> other) throws KeyException {
        if (first.refusal() != null && other.refusal() != null) {
            KeyException both = KeyException.of(List.of(first.refusal(), other.refusal()));
            both.initCause(first.refusal());
            both.addSuppressed(other.refusal());
            throw both;
        }
        if (first.refusal() != null || other.refusal() != null) {
            throw first.refusal() != null ? first.refusal() : other.refusal();
        }
    }
}
