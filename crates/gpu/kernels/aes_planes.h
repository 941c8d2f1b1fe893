// AES on bit planes: 32 blocks for each thread, all of them in registers. No lookup and no branch depends on a secret.
// Plane p holds bit p of each block. Bit j of a plane belongs to block j.
//
// The blocks of a thread lie 2^stride_log apart, so that neighbouring threads read and write neighbouring blocks.

#define PLANES 128

// Transposes 32 words of 32 bits in place: bit j of word k and bit k of word j change places.
DEVICE void transpose(u32 *a) {
    UNROLL
    for (int i = 0; i < 16; i++) {
        u32 low = a[i], high = a[i + 16];
        a[i] = LOW_HALVES(low, high);
        a[i + 16] = HIGH_HALVES(low, high);
    }
    UNROLL
    for (int i = 0; i < 16; i++) {
        const int k = (i & 7) | ((i & 8) << 1);
        u32 low = a[k], high = a[k + 8];
        a[k] = EVEN_BYTES(low, high);
        a[k + 8] = ODD_BYTES(low, high);
    }
#define EXCHANGE(bits, mask) \
    UNROLL \
    for (int i = 0; i < 16; i++) { \
        const int k = (i & ((bits) - 1)) | ((i & ~((bits) - 1)) << 1); \
        u32 low = a[k], high = a[k + (bits)]; \
        a[k] = SELECT((mask), low, high << (bits)); \
        a[k + (bits)] = SELECT((mask), low >> (bits), high); \
    }
    EXCHANGE(4, 0x0f0f0f0fu)
    EXCHANGE(2, 0x33333333u)
    EXCHANGE(1, 0x55555555u)
}

// Turns blocks of four words into planes, and planes into blocks.
DEVICE void transpose_all(u32 *s) {
    transpose(s);
    transpose(s + 32);
    transpose(s + 64);
    transpose(s + 96);
}

// A plane whose bits all are bit `bit` of `word`.
#define SPREAD(word, bit) ((u32)((int)((word) << (31 - (bit))) >> 31))

// The round keys of a thread. Usually each bit is spread into a plane when it is used. If all threads of a group have the
// same key, its planes are made once, in local memory, which saves a tenth of all work.
typedef struct {
    GLOBAL const u32 *words;
    LOCAL const block_t *planes;
} round_keys_t;

#define PLANE_BLOCKS (PLANES / 4)

// The whole group makes the planes of one key's round keys.
DEVICE void spread_key(LOCAL u32 *planes, GLOBAL const u32 *key, u32 rounds) {
    for (u32 i = THREAD; i < PLANES * (rounds + 1); i += THREADS) {
        planes[i] = SPREAD(key[i / 32], i % 32);
    }
}

// The planes of column `c` of a round key.
DEVICE void column_of_key(u32 *k, round_keys_t keys, u32 round, const int c, const u32 spread) {
    if (spread) {
        LOCAL const block_t *planes = keys.planes + PLANE_BLOCKS * round + 8 * c;
        UNROLL
        for (int i = 0; i < 8; i++) {
            const block_t four = planes[i];
            k[4 * i] = four.x;
            k[4 * i + 1] = four.y;
            k[4 * i + 2] = four.z;
            k[4 * i + 3] = four.w;
        }
    } else {
        const u32 word = keys.words[4 * round + c];
        UNROLL
        for (int i = 0; i < 32; i++) {
            k[i] = SPREAD(word, i);
        }
    }
}

DEVICE void add_round_key(u32 *s, round_keys_t keys, u32 round, const u32 spread) {
    UNROLL
    for (int c = 0; c < 4; c++) {
        u32 k[32];
        column_of_key(k, keys, round, c, spread);
        UNROLL
        for (int i = 0; i < 32; i++) {
            s[32 * c + i] ^= k[i];
        }
    }
}

// MixColumns and AddRoundKey of one column: byte r is in a[8r …], lowest bit first. The key takes a place that is free in the
// sums of three: 96 of them.
DEVICE void mix_column(const u32 *a, const u32 *k, u32 *out) {
    u32 t[32]; // each byte plus the next
    UNROLL
    for (int i = 0; i < 32; i++) {
        t[i] = a[i] ^ a[(i + 8) & 31];
    }
    UNROLL
    for (int r = 0; r < 4; r++) {
        const u32 high = t[8 * r + 7];
        UNROLL
        for (int b = 0; b < 8; b++) {
            const int i = 8 * r + b;
            u32 twice = b == 0 ? high : t[8 * r + ((b - 1) & 7)];
            twice = b == 1 || b == 3 || b == 4 ? XOR3(twice, high, k[i]) : twice ^ k[i];
            out[i] = XOR3(twice, a[(i + 8) & 31], t[(i + 16) & 31]);
        }
    }
}

// ShiftRows, where `left` is 1: row r moves r columns to the left. Where `left` is 3, its inverse.
DEVICE void shift_rows(const u32 *s, u32 *out, const int left) {
    UNROLL
    for (int c = 0; c < 4; c++) {
        UNROLL
        for (int r = 0; r < 4; r++) {
            const int from = (c + left * r) & 3;
            UNROLL
            for (int b = 0; b < 8; b++) {
                out[32 * c + 8 * r + b] = s[32 * from + 8 * r + b];
            }
        }
    }
}

DEVICE void copy_planes(const u32 *s, u32 *out) {
    UNROLL
    for (int i = 0; i < PLANES; i++) {
        out[i] = s[i];
    }
}

// SubBytes, ShiftRows, MixColumns and AddRoundKey.
DEVICE void middle_round(u32 *s, round_keys_t keys, u32 round, const u32 spread) {
    u32 n[PLANES];
    UNROLL
    for (int i = 0; i < 16; i++) {
        sub_planes(s + 8 * i);
    }
    shift_rows(s, n, 1);
    UNROLL
    for (int c = 0; c < 4; c++) {
        u32 k[32];
        column_of_key(k, keys, round, c, spread);
        mix_column(n + 32 * c, k, s + 32 * c);
    }
}

// The cipher on planes from round `from` < `rounds` on.
DEVICE void cipher_from(u32 *s, round_keys_t keys, u32 from, u32 rounds, const u32 spread) {
    for (u32 r = from; r < rounds; r++) {
        middle_round(s, keys, r, spread);
    }
    u32 n[PLANES];
    UNROLL
    for (int i = 0; i < 16; i++) {
        sub_planes(s + 8 * i);
    }
    shift_rows(s, n, 1);
    copy_planes(n, s);
    add_round_key(s, keys, rounds, spread);
}

DEVICE void cipher(u32 *s, round_keys_t keys, u32 rounds, const u32 spread) {
    add_round_key(s, keys, 0, spread);
    cipher_from(s, keys, 1, rounds, spread);
}

// The plane of bit `bit` of j, for the blocks j = 0 … 31 of a thread.
DEVICE u32 number_bits(u32 bit) {
    return bit == 0 ? 0xaaaaaaaau
        : bit == 1  ? 0xccccccccu
        : bit == 2  ? 0xf0f0f0f0u
        : bit == 3  ? 0xff00ff00u
        : bit == 4  ? 0xffff0000u
                    : 0;
}

// The planes of counter + (j << stride_log) for j = 0 … 31: a ripple adder. Bit i of the big-endian counter block is
// bit i % 8 of its byte 15 − i / 8.
DEVICE void counter_planes(u32 *s, counter_t counter, u32 stride_log) {
    u32 carry = 0;
    UNROLL
    for (int i = 0; i < PLANES; i++) {
        const u32 word = i < 32 ? counter.d : i < 64 ? counter.c : i < 96 ? counter.b : counter.a;
        const u32 bit = SPREAD(word, i & 31), add = i < 10 ? number_bits((u32)i - stride_log) : 0;
        s[8 * (15 - i / 8) + i % 8] = bit ^ add ^ carry;
        carry = (bit & add) | (carry & (bit ^ add));
    }
}

// As many blocks as are loaded before the first of them is stored.
#define BATCH 4

// Adds the keystream whose planes are in `s` to the blocks first + (j << stride_log) for j = 0 … 31. Those at or behind the end are
// left out. The last block has `tail` bytes if that is not 0.
DEVICE void xor_planes(u32 *s, GLOBAL block_t *data, u32 whole, u32 tail, u32 first, u32 stride_log) {
    transpose_all(s);
    if (whole != 0) {
        // All loads of a batch before its stores: the compiler may not move a load over a store to memory that could be the
        // same, and would wait for each load by itself.
        UNROLL
        for (int batch = 0; batch < 32; batch += BATCH) {
            block_t blocks[BATCH];
            UNROLL
            for (int j = 0; j < BATCH; j++) {
                const u32 i = first + ((u32)(batch + j) << stride_log);
                if (i < whole) {
                    blocks[j] = data[i];
                }
            }
            UNROLL
            for (int j = 0; j < BATCH; j++) {
                const u32 i = first + ((u32)(batch + j) << stride_log);
                const int p = batch + j;
                if (i < whole) {
                    blocks[j].x ^= s[p];
                    blocks[j].y ^= s[p + 32];
                    blocks[j].z ^= s[p + 64];
                    blocks[j].w ^= s[p + 96];
                    data[i] = blocks[j];
                }
            }
        }
    }
    if (tail != 0) {
        u32 found = 0, a = 0, b = 0, c = 0, d = 0;
        UNROLL
        for (int j = 0; j < 32; j++) {
            if (first + ((u32)j << stride_log) == whole) {
                found = 1;
                a = s[j];
                b = s[j + 32];
                c = s[j + 64];
                d = s[j + 96];
            }
        }
        if (found) {
            xor_bytes(data + whole, tail, a, b, c, d);
        }
    }
}

// AES-CTR of these blocks. `counter` is the counter block of block `first`.
DEVICE void ctr_blocks(
    GLOBAL block_t *data, u32 whole, u32 tail, u32 first, u32 stride_log, counter_t counter, round_keys_t keys,
    u32 rounds, const u32 spread
) {
    u32 s[PLANES];
    counter_planes(s, counter, stride_log);
    cipher(s, keys, rounds, spread);
    xor_planes(s, data, whole, tail, first, stride_log);
}

// The first block of a thread. 2^stride_log threads share 2^stride_log × 32 blocks.
#define FIRST_BLOCK(thread) ((((thread) >> stride_log) << (stride_log + 5)) + ((thread) & ((1u << stride_log) - 1)))
