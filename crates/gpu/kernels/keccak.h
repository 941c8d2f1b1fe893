// The sponge of SHA3-256 (FIPS 202), KMAC256 (SP 800-185) and TurboSHAKE256 (RFC 9861), and digests of slices.

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
            c[x] = XOR3_64(XOR3_64(a[x], a[x + 5], a[x + 10]), a[x + 15], a[x + 20]);
        }
        UNROLL
        for (int x = 0; x < 5; x++) {
            const u64 turned = ROTL64(c[(x + 1) % 5], 1);
            UNROLL
            for (int y = 0; y < 25; y += 5) {
                a[x + y] = XOR3_64(a[x + y], c[(x + 4) % 5], turned);
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
    // The rest, the suffix, and the last bit of pad10*1. The last lane may be read beyond the slice, but not beyond its last
    // block of 16 bytes, which the data have whole.
    UNROLL
    for (int k = 0; k < RATE_LANES; k++) {
        const u32 at = 8 * k;
        if (at < left) {
            const u64 lane = from[k];
            a[k] ^= left - at >= 8 ? lane : lane & (((u64)1 << (8 * (left - at))) - 1);
        }
        if (left / 8 == (u32)k) {
            a[k] ^= (u64)suffix << (8 * (left % 8));
        }
    }
    a[RATE_LANES - 1] ^= (u64)0x80 << 56;
    keccak(a, first);
    store_digest(digests + 4 * (u64)i, a);
}
