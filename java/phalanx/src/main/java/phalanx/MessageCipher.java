package phalanx;

import java.security.MessageDigest;
import java.util.Arrays;
import phalanx.primitives.Kmac;
import phalanx.primitives.Sponge;

/** Seals and opens single messages: docs/format.md, section 7. It belongs to one thread. */
final class MessageCipher implements AutoCloseable {
    private static final int SLICE = 4096;
    private static final byte[] NOTHING = new byte[0];

    private final Suite suite;
    private final UnitCipher unit;
    private final Sponge sha3 = Sponge.sha3();

    MessageCipher(Suite suite) {
        this.suite = suite;
        this.unit = new UnitCipher(suite);
    }

    byte[] seal(MessageKeys keys, byte[] associatedData, byte[] plaintext) {
        byte[] out = room(plaintext.length);
        unit.drawNonce(out, 0);
        sealInto(keys, associatedData, plaintext, out);
        return out;
    }

    /** Seals a message under a given nonce, for tests. */
    byte[] seal(MessageKeys keys, byte[] associatedData, byte[] plaintext, byte[] nonce) {
        byte[] out = room(plaintext.length);
        System.arraycopy(nonce, 0, out, 0, nonce.length);
        sealInto(keys, associatedData, plaintext, out);
        return out;
    }

    private byte[] room(int length) {
        return new byte[Math.addExact(length, suite.overhead())];
    }

    private void sealInto(MessageKeys keys, byte[] associatedData, byte[] plaintext, byte[] out) {
        int length = plaintext.length;
        System.arraycopy(plaintext, 0, out, suite.overhead(), length);
        if (!suite.isCtr()) {
            unit.sealGcm(keys.aes(), associatedData, out, 0, length);
            return;
        }
        unit.ctr(keys.aes(), out, 0, suite.overhead(), length);
        byte[] tag = tag(keys.mac(), associatedData, out, length);
        System.arraycopy(tag, 0, out, suite.nonceBytes(), tag.length);
    }

    /** The plaintext, or null if the message is not authentic. */
    byte[] open(MessageKeys keys, byte[] associatedData, byte[] sealed) {
        int length = sealed.length - suite.overhead();
        if (length < 0) {
            return null;
        }
        byte[] unitBytes = sealed.clone();
        try {
            if (!suite.isCtr()) {
                if (!unit.openGcm(keys.aes(), associatedData, unitBytes, 0, length)) {
                    return null;
                }
            } else {
                byte[] found = Arrays.copyOfRange(sealed, suite.nonceBytes(), suite.overhead());
                if (!MessageDigest.isEqual(tag(keys.mac(), associatedData, sealed, length), found)) {
                    return null;
                }
                unit.ctr(keys.aes(), unitBytes, 0, suite.overhead(), length);
            }
            return length == 0 ? NOTHING : Arrays.copyOfRange(unitBytes, suite.overhead(), unitBytes.length);
        } finally {
            Arrays.fill(unitBytes, (byte) 0);
        }
    }

    /** Overwrites what is left of the last key. */
    @Override
    public void close() {
        unit.close();
    }

    private byte[] tag(Kmac mac, byte[] associatedData, byte[] unitBytes, int length) {
        byte[] associated = new byte[Sponge.DIGEST];
        sha3.hash(associatedData, 0, associatedData.length, associated, 0, associated.length);
        int digests = unit.digest(unitBytes, suite.overhead(), length, SLICE);
        mac.update(unitBytes, 0, suite.nonceBytes());
        mac.update(associated, 0, associated.length);
        mac.update(unit.digests(), 0, digests);
        return mac.finish(suite.tagBytes());
    }
}
