// SHA3-256 (FIPS 202), KMAC256 (SP 800-185) and TurboSHAKE256 (RFC 9861), one input a thread.

// What one permutation absorbs, in lanes of 64 bits.
#define RATE_LANES 17

CONSTANT u64 ROUND_CONSTANTS[24] = {
    0x0000000000000001u, 0x0000000000008082u, 0x800000000000808au, 0x8000000080008000u, 0x000000000000808bu,
    0x0000000080000001u, 0x8000000080008081u, 0x8000000000008009u, 0x000000000000008au, 0x0000000000000088u,
    0x0000000080008009u, 0x000000008000000au, 0x000000008000808bu, 0x800000000000008bu, 0x8000000000008089u,
    0x8000000000008003u, 0x8000000000008002u, 0x8000000000000080u, 0x000000000000800au, 0x800000008000000au,
    0x8000000080008081u, 0x8000000000008080u, 0x0000000080000001u, 0x8000000080008008u,
};

// The first round of the permutations: of Keccak-f[1600], and of Keccak-p[1600, 12], which is its second half.
#define KECCAK_F 0
#define TURBO 12

// The rounds of Keccak-f[1600] from `first` on, on lane (x, y) at x + 5y. θ, then ρ and π as one chain of moves, then χ and ι. All sums and
// a ^ (~b & c) are operations of three inputs, which GPUs have: 122 of them a round, and 58 shifts.
DEVICE void keccak(u64 *a, int first) {
    for (int round = first; round < 24; round++) {
        u64 c[5];
        UNROLL
        for (int x = 0; x < 5; x++) {
            c[x] = XOR3(XOR3(a[x], a[x + 5], a[x + 10]), a[x + 15], a[x + 20]);
        }
        UNROLL
        for (int x = 0; x < 5; x++) {
            const u64 turned = ROTL64(c[(x + 1) % 5], 1);
            UNROLL
            for (int y = 0; y < 25; y += 5) {
                a[x + y] = XOR3(a[x + y], c[(x + 4) % 5], turned);
            }
        }
        u64 moved = a[1], t;
#define MOVE(to, by) \
    t = a[to]; \
    a[to] = ROTL64(moved, by); \
    moved = t;
        MOVE(10, 1)
        MOVE(7, 3)
        MOVE(11, 6)
        MOVE(17, 10)
        MOVE(18, 15)
        MOVE(3, 21)
        MOVE(5, 28)
        MOVE(16, 36)
        MOVE(8, 45)
        MOVE(21, 55)
        MOVE(24, 2)
        MOVE(4, 14)
        MOVE(15, 27)
        MOVE(23, 41)
        MOVE(19, 56)
        MOVE(13, 8)
        MOVE(12, 25)
        MOVE(2, 43)
        MOVE(20, 62)
        MOVE(14, 18)
        MOVE(22, 39)
        MOVE(9, 61)
        MOVE(6, 20)
        MOVE(1, 44)
        UNROLL
        for (int y = 0; y < 25; y += 5) {
            UNROLL
            for (int x = 0; x < 5; x++) {
                c[x] = a[y + x];
            }
            UNROLL
            for (int x = 0; x < 5; x++) {
                a[y + x] = c[x] ^ (~c[(x + 1) % 5] & c[(x + 2) % 5]);
            }
        }
        a[0] ^= ROUND_CONSTANTS[round];
    }
}

DEVICE void store_digest(GLOBAL u64 *out, const u64 *a) {
    UNROLL
    for (int i = 0; i < 4; i++) {
        out[i] = a[i];
    }
}

// A slice of the data: its first block, and its length in bytes.
typedef struct {
    u32 at;
    u32 len;
} slice_t;

// The digest of slice `i`. `suffix`: the bits that the function appends to a message, and the first bit of pad10*1.
// `first`: the permutation's first round. Both are constants once this is inlined.
DEVICE void digest_slice(
    GLOBAL const u64 *data, GLOBAL const slice_t *slices, GLOBAL u64 *digests, u32 i, u32 suffix, int first
) {
    GLOBAL const u64 *from = data + 2 * (u64)slices[i].at;
    u32 left = slices[i].len;
    u64 a[25];
    UNROLL
    for (int k = 0; k < 25; k++) {
        a[k] = 0;
    }
    for (; left >= 8 * RATE_LANES; left -= 8 * RATE_LANES, from += RATE_LANES) {
        UNROLL
        for (int k = 0; k < RATE_LANES; k++) {
            a[k] ^= from[k];
        }
        keccak(a, first);
    }
    // The rest, the suffix, and the last bit of pad10*1.
    UNROLL
    for (int k = 0; k < RATE_LANES; k++) {
        const u32 at = 8 * k;
        if (at + 8 <= left) {
            a[k] ^= from[k];
        } else if (at <= left) {
            u64 lane = (u64)suffix << (8 * (left - at));
            for (u32 b = at; b < left; b++) {
                lane |= (u64)((GLOBAL const u8 *)from)[b] << (8 * (b - at));
            }
            a[k] ^= lane;
        }
    }
    a[RATE_LANES - 1] ^= (u64)0x80 << 56;
    keccak(a, first);
    store_digest(digests + 4 * (u64)i, a);
}

// SHA3-256 of each slice.
KERNEL(sha3_slices)(GLOBAL const u64 *data, GLOBAL const slice_t *slices, GLOBAL u64 *digests, u32 count) {
    const u32 i = GROUP * THREADS + THREAD;
    if (i < count) {
        digest_slice(data, slices, digests, i, 0x06, KECCAK_F);
    }
}

// TurboSHAKE256(slice, D = 0x50, 32) of each slice.
KERNEL(turboshake_slices)(GLOBAL const u64 *data, GLOBAL const slice_t *slices, GLOBAL u64 *digests, u32 count) {
    const u32 i = GROUP * THREADS + THREAD;
    if (i < count) {
        digest_slice(data, slices, digests, i, 0x50, TURBO);
    }
}

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

// As many bytes as a tag's message may have before its digests.
#define PREFIX 48

// A tag to compute: KMAC256 under key `key` of `prefix` and then `digests` digests from `first` on.
typedef struct {
    u32 key;
    u32 prefix_len;
    u32 first;
    u32 digests;
    u8 prefix[PREFIX];
} tag_t;

// Byte `i` of a tag's message, of right_encode(256), cSHAKE's bits 00 and the first bit of the padding.
DEVICE u32 tag_byte(GLOBAL const tag_t *tag, GLOBAL const u8 *digests, u32 i) {
    if (i < tag->prefix_len) {
        return tag->prefix[i];
    }
    i -= tag->prefix_len;
    if (i < 32 * tag->digests) {
        return digests[32 * (u64)tag->first + i];
    }
    i -= 32 * tag->digests;
    return i == 0 ? 0x01 : i == 2 ? 0x02 : i == 3 ? 0x04 : 0;
}

// The tags of chunks or messages. `keys`: 32 bytes each.
KERNEL(kmac_tags)(
    GLOBAL const u64 *label, GLOBAL const u8 *keys, GLOBAL const u8 *digests, GLOBAL const tag_t *tags, GLOBAL u64 *out,
    u32 count
) {
    const u32 i = GROUP * THREADS + THREAD;
    if (i >= count) {
        return;
    }
    GLOBAL const tag_t *tag = tags + i;
    u64 a[25];
    load_label(a, label);
    absorb_key(a, keys + 32 * tag->key, 32);
    const u32 len = tag->prefix_len + 32 * tag->digests + 4;
    for (u32 at = 0; at < len; at += 8 * RATE_LANES) {
        UNROLL
        for (int k = 0; k < RATE_LANES; k++) {
            u64 lane = 0;
            for (u32 b = 0; b < 8; b++) {
                lane |= (u64)tag_byte(tag, digests, at + 8 * k + b) << (8 * b);
            }
            a[k] ^= lane;
        }
        if (len - at <= 8 * RATE_LANES) {
            a[RATE_LANES - 1] ^= (u64)0x80 << 56;
        }
        keccak(a, KECCAK_F);
    }
    store_digest(out + 4 * (u64)i, a);
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
