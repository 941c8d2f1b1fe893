package phalanx.command;

import java.io.BufferedInputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import phalanx.Header;
import phalanx.KeyId;
import phalanx.Keyring;
import phalanx.Layout;
import phalanx.Slot;
import phalanx.primitives.Sponge;

/** {@code inspect}: the contents of the header, which are not authenticated before the file is opened. */
final class Inspect {
    private Inspect() {}

    static void run(Options options) throws Failure {
        Places.checkStandard(options);
        Failures failures = new Failures();
        for (String name : options.paths()) {
            failures.attempt(() -> {
                if (!name.equals(Places.STANDARD) && Files.isDirectory(Places.path(name))) {
                    throw Failure.folder(name);
                }
                try {
                    one(name, options.has("--json"));
                } catch (IOException e) {
                    throw Failure.at(name, e);
                }
            });
        }
        failures.end();
    }

    private static void one(String name, boolean json) throws IOException, Failure {
        if (name.equals(Places.STANDARD)) {
            Header header = Header.read(new BufferedInputStream(new FileInputStream(FileDescriptor.in)));
            print(name, header, null, false, json);
            return;
        }
        Path path = Places.path(name);
        if (Files.exists(path) && !Files.isRegularFile(path)) {
            throw new IOException("not a regular file");
        }
        Header header;
        try (var in = Files.newInputStream(path)) {
            header = Header.read(in);
        }
        print(name, header, header.layout(Files.size(path)), isInterrupted(path), json);
    }

    /** Whether a change of the slots may have been interrupted: docs/format.md, section 8. */
    private static boolean isInterrupted(Path path) {
        byte[] name = path.getFileName().toString().getBytes(StandardCharsets.UTF_8);
        byte[] hash = new byte[Sponge.DIGEST];
        Sponge.sha3().hash(name, 0, name.length, hash, 0, hash.length);
        String side = ".phalanx-" + HexFormat.of().formatHex(hash, 0, 16) + ".rekey";
        return Files.exists(path.resolveSibling(side), LinkOption.NOFOLLOW_LINKS);
    }

    private static void print(String name, Header header, Layout layout, boolean isInterrupted, boolean json)
            throws Failure {
        if (json) {
            Terminal.say(json(name, header, layout, isInterrupted));
            return;
        }
        for (String line : lines(name, header, layout, isInterrupted)) {
            Terminal.say(line);
        }
    }

    private static List<String> lines(String name, Header header, Layout layout, boolean isInterrupted) {
        String chunks = layout == null ? "?" : String.valueOf(layout.chunks());
        String plaintext = layout == null ? "? bytes" : Text.count(layout.plaintextLength(), "byte");
        String file = layout == null ? "? bytes" : Text.count(layout.fileLength(), "byte");
        List<String> lines = new ArrayList<>();
        lines.add(Text.shown(name));
        lines.add("  format     Phalanx 1");
        lines.add("  cipher     " + header.suite().title() + " (suite " + header.suite().number() + ")");
        lines.add("  chunks     " + chunks + " of up to " + (1 << header.chunkLog2()) + " bytes");
        lines.add("  plaintext  " + plaintext);
        lines.add("  file       " + file + ", " + header.length() + " of them header");
        for (int i = 0; i < header.slots().size(); i++) {
            lines.add(String.format("  slot %-5d %s", i + 1, text(header.slots().get(i))));
        }
        if (isInterrupted) {
            lines.add("  rekey      was interrupted: phalanx rekey finishes it, with a key that opens the file");
        }
        return lines;
    }

    private static String text(Slot slot) {
        if (slot instanceof Slot.Padding padding) {
            return "padding, " + Text.count(padding.bytes(), "byte");
        }
        if (slot instanceof Slot.OfPassword password) {
            return "password, Argon2id with " + Text.size(password.memory() * 1024) + ", "
                    + Text.count(password.passes(), "pass") + ", " + Text.count(password.lanes(), "lane");
        }
        if (slot instanceof Slot.OfKey key) {
            return "key " + key.id() + nameOf(key.id()).map(name -> " (" + name + " in the keyring)").orElse(" (not in the keyring)");
        }
        if (slot instanceof Slot.OfAge age) {
            String bytes = Text.count(age.bytes(), "byte");
            return age.stanzas().isEmpty()
                    ? "age, but nothing that could open: " + bytes
                    : "age recipient, " + String.join(" and ", age.stanzas()) + ", " + bytes;
        }
        if (slot instanceof Slot.OfService service) {
            return "key service " + service.uri() + ", run key of " + Text.count(service.bytes(), "byte");
        }
        Slot.Unknown unknown = (Slot.Unknown) slot;
        return switch (unknown.type()) {
            case 16 -> "marks the config of a volume";
            case 17 -> "holes in a volume's file, " + Text.count(unknown.bytes(), "byte");
            case 18 -> "sums of the chunks of a volume's file, " + Text.count(unknown.bytes(), "byte");
            default -> "of type " + unknown.type() + ", not known to this program, " + Text.count(unknown.bytes(), "byte");
        };
    }

    private static Optional<String> nameOf(KeyId id) {
        try {
            Optional<Keyring.Named> found = Keyring.usual().find(id);
            found.ifPresent(named -> named.key().close());
            return found.map(Keyring.Named::name);
        } catch (IOException | IllegalStateException e) {
            // The names of keys are only a convenience.
            return Optional.empty();
        }
    }

    private static String json(String name, Header header, Layout layout, boolean isInterrupted) {
        List<String> slots = header.slots().stream().map(Inspect::json).toList();
        return "{\"path\":" + quoted(Text.shown(name))
                + ",\"version\":1,\"suite\":" + header.suite().number()
                + ",\"cipher\":" + quoted(header.suite().title())
                + ",\"header_bytes\":" + header.length()
                + ",\"chunk_bytes\":" + (1 << header.chunkLog2())
                + ",\"chunks\":" + (layout == null ? "null" : layout.chunks())
                + ",\"plaintext_bytes\":" + (layout == null ? "null" : layout.plaintextLength())
                + ",\"file_bytes\":" + (layout == null ? "null" : layout.fileLength())
                + ",\"slots\":[" + String.join(",", slots)
                + "],\"rekey_interrupted\":" + isInterrupted + "}";
    }

    private static String json(Slot slot) {
        if (slot instanceof Slot.Padding padding) {
            return "{\"type\":\"padding\",\"bytes\":" + padding.bytes() + "}";
        }
        if (slot instanceof Slot.OfPassword password) {
            return "{\"type\":\"password\",\"memory_kib\":" + password.memory() + ",\"passes\":" + password.passes()
                    + ",\"lanes\":" + password.lanes() + "}";
        }
        if (slot instanceof Slot.OfKey key) {
            String name = nameOf(key.id()).map(Inspect::quoted).orElse("null");
            return "{\"type\":\"key\",\"id\":\"" + key.id() + "\",\"name\":" + name + "}";
        }
        if (slot instanceof Slot.OfAge age) {
            String stanzas = age.stanzas().stream().map(Inspect::quoted).collect(Collectors.joining(","));
            return "{\"type\":\"age\",\"stanzas\":[" + stanzas + "],\"bytes\":" + age.bytes() + "}";
        }
        if (slot instanceof Slot.OfService service) {
            return "{\"type\":\"service\",\"uri\":" + quoted(service.uri()) + ",\"bytes\":" + service.bytes() + "}";
        }
        Slot.Unknown unknown = (Slot.Unknown) slot;
        return "{\"type\":\"unknown\",\"number\":" + unknown.type() + ",\"bytes\":" + unknown.bytes() + "}";
    }

    /** Control characters are escaped already. */
    private static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }
}
