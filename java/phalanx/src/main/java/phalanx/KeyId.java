package phalanx;

import java.util.Arrays;
import java.util.HexFormat;

/** The public id of a {@link PhalanxKey}: 16 bytes. It reveals nothing about the key. */
public final class KeyId implements Comparable<KeyId> {
    /** Its length in bytes. */
    static final int BYTES = 16;

    private final byte[] bytes;

    KeyId(byte[] bytes) {
        this.bytes = bytes;
    }

    /**
     * Its bytes.
     *
     * @return a copy of 16 bytes
     */
    public byte[] toBytes() {
        return bytes.clone();
    }

    @Override
    public int compareTo(KeyId other) {
        return Arrays.compareUnsigned(bytes, other.bytes);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof KeyId id && Arrays.equals(bytes, id.bytes);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(bytes);
    }

    /** 32 hexadecimal digits. */
    @Override
    public String toString() {
        return HexFormat.of().formatHex(bytes);
    }
}
