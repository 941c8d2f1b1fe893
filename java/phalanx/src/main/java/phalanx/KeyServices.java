package phalanx;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.LongSupplier;

/**
 * The key services that the user has named, for one run. {@link Recipients} that have them protect files which each of them opens,
 * and as a {@link KeyProvider} they open files. Several threads may use them.
 *
 * <p><b>Only these are asked.</b> Anybody can write a file that names a service. Those that are not here, by exactly the URI in
 * the file, are passed over.
 *
 * <p><b>One run key each.</b> A run key is drawn and wrapped for each service once, so one call protects all files, and one opens
 * them all. What a service has unwrapped is kept. What it did not unwrap is asked for again after ten seconds. A service that did not
 * answer in time is left alone for five minutes. Make new ones for each run of your program, and in a program that runs for long from
 * time to time.
 *
 * <p>Who has unwrapped a run key opens all files that were protected with it. That a service opens a file says little about who
 * wrote it: anybody for whom it wraps, or who could open one such file.
 *
 * <p>{@link #close} overwrites the run keys, as far as Java allows: see {@link PhalanxKey}.
 */
public final class KeyServices implements KeyProvider, AutoCloseable {
    /** No more are asked for one file. */
    static final int MOST = 8;

    private final Map<String, NamedService> services;

    private KeyServices(Map<String, NamedService> services) {
        this.services = services;
    }

    /**
     * Names services. None is asked yet.
     *
     * @param services the services, 1 to 8
     * @return the services: close them
     * @throws IllegalArgumentException if a URI is malformed or named twice, or if there are too many
     */
    public static KeyServices of(KeyService... services) {
        return of(List.of(services));
    }

    /**
     * Names services. None is asked yet.
     *
     * @param services the services, 1 to 8
     * @return the services: close them
     * @throws IllegalArgumentException if a URI is malformed or named twice, or if there are too many
     */
    public static KeyServices of(List<KeyService> services) {
        return of(services, System::nanoTime);
    }

    /** With another clock, for tests. */
    static KeyServices of(List<KeyService> services, LongSupplier clock) {
        if (services.isEmpty() || services.size() > MOST) {
            throw new IllegalArgumentException("a file has at most " + MOST + " key services, and here are " + services.size());
        }
        Map<String, NamedService> named = new LinkedHashMap<>();
        for (KeyService service : services) {
            String uri = service.uri();
            if (!Slots.isServiceUri(uri)) {
                throw new IllegalArgumentException("a key service's URI has 1 to 1024 printable characters, and no space");
            }
            if (named.put(uri, new NamedService(uri, service, clock)) != null) {
                throw new IllegalArgumentException("the key service " + Slots.brief(uri) + " is named twice");
            }
        }
        return new KeyServices(named);
    }

    @Override
    public Optional<PhalanxKey> key(KeyId id) {
        return Optional.empty();
    }

    @Override
    public Optional<PhalanxKey> runKey(String uri, byte[] wrapped) throws IOException {
        NamedService service = services.get(uri);
        return service == null ? Optional.empty() : Optional.of(service.unwrap(wrapped));
    }

    /** All of them, as recipients of files. */
    List<NamedService.RunKey> runKeys() throws IOException {
        List<NamedService.RunKey> all = new ArrayList<>();
        for (NamedService service : services.values()) {
            all.add(service.wrapped());
        }
        return all;
    }

    /** Shows the URIs. */
    @Override
    public String toString() {
        return "KeyServices" + services.keySet().stream().map(Slots::brief).toList();
    }

    /** Overwrites the run keys. They cannot be used any more. */
    @Override
    public void close() {
        services.values().forEach(NamedService::close);
    }
}
