// Counter caching on bit planes. A tile is 2^16 counter blocks that differ only in their last two bytes. They share 14 of the 16
// bytes of round 1 and, since these two bytes go into two columns, 8 of the 16 of round 2. A group makes the shared part once.
// Each of its threads takes 32 blocks that differ only in bits 5 to 9 of the counter, and begins behind round 2.

// What a group keeps: columns 0 and 1 after round 1 and the four columns after round 2, each without what its changing bytes add.
#define TILE_COLUMNS 6
#define TILE_PLANES (32 * TILE_COLUMNS)

// SubBytes of 16 bytes in four words.
DEVICE void sub_words(u32 *s) {
    u32 q[8];
    UNROLL
    for (int i = 0; i < 8; i++) {
        q[i] = 0;
        UNROLL
        for (int k = 0; k < 4; k++) {
            q[i] |= ((s[k] >> i) & 0x01010101u) << k;
        }
    }
    sub_planes(q);
    UNROLL
    for (int k = 0; k < 4; k++) {
        s[k] = 0;
        UNROLL
        for (int i = 0; i < 8; i++) {
            s[k] |= ((q[i] >> k) & 0x01010101u) << i;
        }
    }
}

// Column `c` of ShiftRows.
DEVICE u32 shifted_word(const u32 *s, const int c) {
    return (s[c] & 0xffu) | (s[(c + 1) & 3] & 0xff00u) | (s[(c + 2) & 3] & 0xff0000u) | (s[(c + 3) & 3] & 0xff000000u);
}

// MixColumns of a column.
DEVICE u32 mix_word(u32 x) {
    const u32 twice = ((x & 0x7f7f7f7fu) << 1) ^ (((x >> 7) & 0x01010101u) * 0x1bu);
    return twice ^ ROTL32(twice ^ x, 24) ^ ROTL32(x, 16) ^ ROTL32(x, 8);
}

// One thread prepares the tile of a counter.
DEVICE void make_tile(LOCAL u32 *tile, GLOBAL const u32 *key, counter_t counter) {
    u32 s[4];
    s[0] = SWAP_BYTES(counter.a) ^ key[0];
    s[1] = SWAP_BYTES(counter.b) ^ key[1];
    s[2] = SWAP_BYTES(counter.c) ^ key[2];
    s[3] = SWAP_BYTES(counter.d) ^ key[3];
    sub_words(s);
    // The last two bytes of the counter are rows 2 and 3 of column 3. They go to columns 1 and 0.
    tile[0] = mix_word(shifted_word(s, 0) & 0x00ffffffu) ^ key[4];
    tile[1] = mix_word(shifted_word(s, 1) & 0xff00ffffu) ^ key[5];
    const u32 third = mix_word(shifted_word(s, 2)) ^ key[6], fourth = mix_word(shifted_word(s, 3)) ^ key[7];
    s[0] = s[1] = 0;
    s[2] = third;
    s[3] = fourth;
    sub_words(s);
    s[0] = s[1] = 0;
    UNROLL
    for (int c = 0; c < 4; c++) {
        tile[2 + c] = mix_word(shifted_word(s, c)) ^ key[8 + c];
    }
}

// Round 1 of a column whose only changing byte, `x`, is in row `row`.
DEVICE void mix_one(const u32 *x, LOCAL const u32 *rest, u32 *out, const int row) {
    UNROLL
    for (int r = 0; r < 4; r++) {
        const int times = (row - r) & 3; // 0: twice, 1: three times, otherwise once
        UNROLL
        for (int b = 0; b < 8; b++) {
            u32 sum = rest[8 * r + b];
            if (times < 2) {
                sum = b == 1 || b == 3 || b == 4 ? XOR3(sum, x[b - 1], x[7]) : sum ^ x[(b - 1) & 7];
            }
            out[8 * r + b] = times > 0 ? sum ^ x[b] : sum;
        }
    }
}

// Round 2 of a column whose changing bytes are `x`, in row `row`, and `y` in the next.
DEVICE void mix_two(const u32 *x, const u32 *y, LOCAL const u32 *rest, u32 *out, const int row) {
    u32 t[8];
    UNROLL
    for (int b = 0; b < 8; b++) {
        t[b] = x[b] ^ y[b];
    }
    UNROLL
    for (int r = 0; r < 4; r++) {
        const u32 *doubled = r == 0 ? t : r == 1 ? y : x; // not for r == 2
        const u32 *once = r == 0 ? y : r == 1 ? x : t;
        UNROLL
        for (int b = 0; b < 8; b++) {
            const int i = 8 * ((row + r) & 3) + b;
            u32 sum = rest[i];
            if (r == 2) {
                sum ^= once[b];
            } else {
                sum = XOR3(sum, once[b], doubled[(b - 1) & 7]);
                if (b == 1 || b == 3 || b == 4) {
                    sum ^= doubled[7];
                }
            }
            out[i] = sum;
        }
    }
}

// The state after round 2. `rests`: the planes of the tile's columns. `low`: the last word of the counter.
DEVICE void begin_in_tile(u32 *s, LOCAL const u32 *rests, LOCAL const u32 *key, u32 low) {
    u32 x[8], y[8], n[64];
    UNROLL
    for (int i = 0; i < 8; i++) {
        x[i] = key[120 + i] ^ (i < 5 ? SPREAD(low, i) : number_bits((u32)i - 5));
        y[i] = key[112 + i] ^ (i < 2 ? number_bits((u32)i + 3) : SPREAD(low, i + 8));
    }
    sub_planes(x);
    sub_planes(y);
    mix_one(x, rests, n, 3);
    mix_one(y, rests + 32, n + 32, 2);
    UNROLL
    for (int i = 0; i < 8; i++) {
        sub_planes(n + 8 * i);
    }
    UNROLL
    for (int c = 0; c < 4; c++) {
        // ShiftRows brings bytes of columns 0 and 1 into rows −c and 1 − c.
        const int row = -c & 3, next = (1 - c) & 3;
        mix_two(n + 8 * row, n + 32 + 8 * next, rests + 64 + 32 * c, s + 32 * c, row);
    }
}
