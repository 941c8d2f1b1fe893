// The key schedule on the device (FIPS 197), without tables. Only the papers' kernels expand keys there.

// SubWord (FIPS 197, section 5.2) by the circuit of sub_planes: no lookups.
DEVICE u32 sub_word(u32 word) {
    u32 q[8];
    UNROLL
    for (int i = 0; i < 8; i++) {
        q[i] = (word >> i) & 0x01010101u;
    }
    sub_planes(q);
    word = 0;
    UNROLL
    for (int i = 0; i < 8; i++) {
        word |= (q[i] & 0x01010101u) << i;
    }
    return word;
}

// KeyExpansion (FIPS 197, section 5.2) of a key of `words` = 4, 6 or 8 words.
DEVICE void expand_key(GLOBAL const u32 *key, u32 words, GLOBAL u32 *w) {
    u32 rcon = 1, before = 0;
    for (u32 i = 0; i < 4 * (words + 7); i++) {
        if (i < words) {
            before = key[i];
        } else {
            u32 place = i % words;
            if (place == 0) {
                before = sub_word(ROTL32(before, 24)) ^ rcon;
                rcon = (rcon << 1) ^ ((rcon >> 7) * 0x11b);
            } else if (words > 6 && place == 4) {
                before = sub_word(before);
            }
            before ^= w[i - words];
        }
        w[i] = before;
    }
}
