// KMAC256 of keys (SP 800-185), by which P5's experiments find a key, one input a thread.

// KMAC256 with a label, which fills the sponge's first block, absorbed: 25 lanes that the host computed.
DEVICE void load_label(u64 *a, GLOBAL const u64 *label) {
    UNROLL
    for (int k = 0; k < 25; k++) {
        a[k] = label[k];
    }
}

// Byte `i` of bytepad(encode_string(key), 136), for a key of at most 125 bytes.
DEVICE u32 key_block_byte(GLOBAL const u8 *key, u32 len, u32 i) {
    const u32 bits = 8 * len, wide = bits > 255;
    if (i < 2) {
        return i == 0 ? 1 : 136;
    }
    if (i == 2) {
        return 1 + wide;
    }
    if (i < 4 + wide) {
        return (bits >> (8 * (3 + wide - i))) & 255;
    }
    i -= 4 + wide;
    return i < len ? key[i] : 0;
}

DEVICE void absorb_key(u64 *a, GLOBAL const u8 *key, u32 len) {
    UNROLL
    for (int k = 0; k < RATE_LANES; k++) {
        u64 lane = 0;
        for (u32 b = 0; b < 8; b++) {
            lane |= (u64)key_block_byte(key, len, 8 * k + b) << (8 * b);
        }
        a[k] ^= lane;
    }
    keccak(a, KECCAK_F);
}

// KMAC256(key, "", 256, label) of each key, `key_len` bytes each.
KERNEL(kmac_key_digests)(GLOBAL const u64 *label, GLOBAL const u8 *keys, GLOBAL u64 *out, u32 count, u32 key_len) {
    const u32 i = GROUP * THREADS + THREAD;
    if (i >= count) {
        return;
    }
    u64 a[25];
    load_label(a, label);
    absorb_key(a, keys + key_len * (u64)i, key_len);
    a[0] ^= 0x04020001u;
    a[RATE_LANES - 1] ^= (u64)0x80 << 56;
    keccak(a, KECCAK_F);
    store_digest(out + 4 * (u64)i, a);
}
