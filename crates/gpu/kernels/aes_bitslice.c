// AES without tables: bit planes, 32 blocks a thread, all of them in registers. Nothing that is looked up, or branched
// on, depends on a secret. Plane p holds bit p of each block; bit j of a plane belongs to block j.
//
// A thread's blocks lie 2^stride_log apart, so that neighbouring threads read and write neighbouring blocks.

#define PLANES 128

// planes[k] bit j = words[j] bit k, in place.
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
        u32 t = ((a[k] >> (bits)) ^ a[k + (bits)]) & (mask); \
        a[k + (bits)] ^= t; \
        a[k] ^= t << (bits); \
    }
    EXCHANGE(4, 0x0f0f0f0fu)
    EXCHANGE(2, 0x33333333u)
    EXCHANGE(1, 0x55555555u)
}

// Between blocks, four words each, and planes: the same both ways.
DEVICE void transpose_all(u32 *s) {
    transpose(s);
    transpose(s + 32);
    transpose(s + 64);
    transpose(s + 96);
}

// All bits of a plane are bit `bit` of `word`.
#define SPREAD(word, bit) ((u32)((int)((word) << (31 - (bit))) >> 31))

// The round keys of a thread: those of its key, spread where they are used; or, where all threads of a group have one
// key, spread beforehand in local memory, which saves a tenth of all work.
typedef struct {
    GLOBAL const block_t *words;
    LOCAL const block_t *planes;
} round_keys_t;

#define PLANE_BLOCKS (PLANES / 4)

// The planes of a key's round keys, by the whole group.
DEVICE void spread_key(LOCAL u32 *planes, GLOBAL const u32 *key, u32 rounds) {
    for (u32 i = THREAD; i < PLANES * (rounds + 1); i += THREADS) {
        planes[i] = SPREAD(key[i / 32], i % 32);
    }
}

DEVICE void add_round_key(u32 *s, round_keys_t keys, u32 round, const u32 spread) {
    if (spread) {
        LOCAL const block_t *planes = keys.planes + PLANE_BLOCKS * round;
        UNROLL
        for (int i = 0; i < PLANE_BLOCKS; i++) {
            const block_t k = planes[i];
            s[4 * i] ^= k.x;
            s[4 * i + 1] ^= k.y;
            s[4 * i + 2] ^= k.z;
            s[4 * i + 3] ^= k.w;
        }
    } else {
        const block_t k = keys.words[round];
        UNROLL
        for (int i = 0; i < 32; i++) {
            s[i] ^= SPREAD(k.x, i);
            s[i + 32] ^= SPREAD(k.y, i);
            s[i + 64] ^= SPREAD(k.z, i);
            s[i + 96] ^= SPREAD(k.w, i);
        }
    }
}

// The inverse of SubBytes' affine map, without its constant: bit i is the sum of bits i + 2, i + 5 and i + 7.
DEVICE void inverse_affine(u32 *q) {
    u32 x[8];
    UNROLL
    for (int i = 0; i < 8; i++) {
        x[i] = q[i];
    }
    UNROLL
    for (int i = 0; i < 8; i++) {
        q[i] = x[(i + 2) & 7] ^ x[(i + 5) & 7] ^ x[(i + 7) & 7];
    }
    q[0] = ~q[0];
    q[2] = ~q[2];
}

// The inversion in the field is SubBytes and then its affine map undone; InvSubBytes undoes that map before it.
DEVICE void inverse_sub_planes(u32 *q) {
    inverse_affine(q);
    sub_planes(q);
    inverse_affine(q);
}

// MixColumns of one column: byte r in a[8r …], lowest bit first.
DEVICE void mix_column(const u32 *a, u32 *out) {
    u32 t[32]; // the sums of each byte and the next
    UNROLL
    for (int i = 0; i < 32; i++) {
        t[i] = a[i] ^ a[(i + 8) & 31];
    }
    UNROLL
    for (int r = 0; r < 4; r++) {
        const u32 high = t[8 * r + 7];
        UNROLL
        for (int b = 0; b < 8; b++) {
            u32 twice = b == 0 ? high : t[8 * r + ((b - 1) & 7)];
            if (b == 1 || b == 3 || b == 4) {
                twice ^= high;
            }
            out[8 * r + b] = twice ^ a[(8 * r + 8 + b) & 31] ^ t[(8 * r + 16 + b) & 31];
        }
    }
}

// What InvMixColumns does before MixColumns: each byte gains four times the sum of itself and the one after the next.
DEVICE void before_mix_column(u32 *a) {
    UNROLL
    for (int r = 0; r < 2; r++) {
        u32 x[8], y[8];
        UNROLL
        for (int b = 0; b < 8; b++) {
            x[b] = a[8 * r + b] ^ a[8 * r + 16 + b];
        }
        y[0] = x[6];
        y[1] = x[7] ^ x[6];
        y[2] = x[0] ^ x[7];
        y[3] = x[1] ^ x[6];
        y[4] = x[2] ^ x[7] ^ x[6];
        y[5] = x[3] ^ x[7];
        y[6] = x[4];
        y[7] = x[5];
        UNROLL
        for (int b = 0; b < 8; b++) {
            a[8 * r + b] ^= y[b];
            a[8 * r + 16 + b] ^= y[b];
        }
    }
}

// ShiftRows, or its inverse, and then, but in the last round, MixColumns, or its inverse.
DEVICE void shift_and_mix(u32 *s, const int inverse, const u32 mix) {
    u32 n[PLANES];
    UNROLL
    for (int c = 0; c < 4; c++) {
        UNROLL
        for (int r = 0; r < 4; r++) {
            const int from = inverse ? (c - r) & 3 : (c + r) & 3;
            UNROLL
            for (int b = 0; b < 8; b++) {
                n[32 * c + 8 * r + b] = s[32 * from + 8 * r + b];
            }
        }
    }
    if (mix) {
        UNROLL
        for (int c = 0; c < 4; c++) {
            if (inverse) {
                before_mix_column(n + 32 * c);
            }
            mix_column(n + 32 * c, s + 32 * c);
        }
    } else {
        UNROLL
        for (int i = 0; i < PLANES; i++) {
            s[i] = n[i];
        }
    }
}

// The cipher, or the equivalent inverse cipher (FIPS 197, section 5.3.5), on planes.
DEVICE void cipher(u32 *s, round_keys_t keys, u32 rounds, const u32 spread, const int inverse) {
    add_round_key(s, keys, 0, spread);
    for (u32 r = 1; r <= rounds; r++) {
        UNROLL
        for (int i = 0; i < 16; i++) {
            if (inverse) {
                inverse_sub_planes(s + 8 * i);
            } else {
                sub_planes(s + 8 * i);
            }
        }
        shift_and_mix(s, inverse, r < rounds);
        add_round_key(s, keys, r, spread);
    }
}

// Bit `bit` of the number of a block among its thread's 32, for all of them.
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

// AES-CTR of those of the blocks first + (j << stride_log) that there are; `counter` is block `first`'s.
DEVICE void ctr_blocks(
    GLOBAL block_t *data, u32 whole, u32 tail, u32 first, u32 stride_log, counter_t counter, round_keys_t keys,
    u32 rounds, const u32 spread
) {
    u32 s[PLANES];
    counter_planes(s, counter, stride_log);
    cipher(s, keys, rounds, spread, 0);
    transpose_all(s);
    UNROLL
    for (int j = 0; j < 32; j++) {
        const u32 i = first + ((u32)j << stride_log);
        if (i < whole) {
            xor_block(data + i, s[j], s[j + 32], s[j + 64], s[j + 96]);
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

DEVICE void ecb_blocks(
    GLOBAL block_t *data, u32 blocks, u32 first, u32 stride_log, round_keys_t keys, u32 rounds, const int inverse
) {
    u32 s[PLANES];
    UNROLL
    for (int j = 0; j < 32; j++) {
        const u32 i = first + ((u32)j << stride_log);
        block_t block;
        block.x = block.y = block.z = block.w = 0;
        if (i < blocks) {
            block = data[i];
        }
        s[j] = block.x;
        s[j + 32] = block.y;
        s[j + 64] = block.z;
        s[j + 96] = block.w;
    }
    transpose_all(s);
    cipher(s, keys, rounds, 1, inverse);
    transpose_all(s);
    UNROLL
    for (int j = 0; j < 32; j++) {
        const u32 i = first + ((u32)j << stride_log);
        if (i < blocks) {
            block_t block;
            block.x = s[j];
            block.y = s[j + 32];
            block.z = s[j + 64];
            block.w = s[j + 96];
            data[i] = block;
        }
    }
}

// The round keys of the one key of a group, spread into local memory.
#define GROUP_KEY(key) \
    LOCAL_ARRAY(block_t, planes, PLANE_BLOCKS * 15); \
    round_keys_t round_keys; \
    round_keys.words = (GLOBAL const block_t *)(key); \
    round_keys.planes = planes; \
    spread_key((LOCAL u32 *)planes, (key), rounds); \
    BARRIER()
// The first block of a thread: 2^stride_log threads share 2^stride_log × 32 blocks.
#define FIRST_BLOCK(thread) ((((thread) >> stride_log) << (stride_log + 5)) + ((thread) & ((1u << stride_log) - 1)))

// These kernels have the parameters of their namesakes with tables, but for the local memory, and need no tables `t`.

// AES-CTR of one run of `blocks` blocks and `tail` bytes from block `at` on.
KERNEL(aes_ctr)(
    GLOBAL block_t *data, GLOBAL const u32 *keys, GLOBAL const u32 *t, u32 at, u32 blocks, u32 tail, u32 key, u32 rounds,
    u32 stride_log, u32 counter_a, u32 counter_b, u32 counter_c, u32 counter_d
) {
    GROUP_KEY(keys + key * KEY_WORDS);
    const u32 first = FIRST_BLOCK(GROUP * THREADS + THREAD);
    if (first < blocks + (tail != 0)) {
        counter_t counter;
        counter.a = counter_a;
        counter.b = counter_b;
        counter.c = counter_c;
        counter.d = counter_d;
        ctr_blocks(data + at, blocks, tail, first, stride_log, counter_add(counter, first), round_keys, rounds, 1);
    }
}

// AES-CTR of `count` spans, each with a key and a counter of its own; a span takes parts × 2^stride_log threads.
KERNEL(aes_ctr_spans)(
    GLOBAL block_t *data, GLOBAL const u32 *keys, GLOBAL const u32 *t, GLOBAL const span_t *spans, u32 count, u32 rounds,
    u32 stride_log, u32 parts
) {
    LOCAL_ARRAY(block_t, planes, PLANE_BLOCKS * 15);
    const u32 thread = GROUP * THREADS + THREAD, each = parts << stride_log;
    // Whether the group has threads of one span alone, and not of none.
    const u32 one_key = each % THREADS == 0 && GROUP * THREADS / each < count;
    if (one_key) {
        spread_key((LOCAL u32 *)planes, keys + spans[GROUP * THREADS / each].key * KEY_WORDS, rounds);
        BARRIER();
    }
    if (thread / each >= count) {
        return;
    }
    GLOBAL const span_t *span = spans + thread / each;
    const u32 first = FIRST_BLOCK(thread % each);
    const u32 whole = span->len / 16, tail = span->len % 16;
    if (first < whole + (tail != 0)) {
        const counter_t counter = counter_add(counter_of(span), first);
        round_keys_t round_keys;
        round_keys.words = (GLOBAL const block_t *)(keys + span->key * KEY_WORDS);
        round_keys.planes = planes;
        ctr_blocks(data + span->at, whole, tail, first, stride_log, counter, round_keys, rounds, one_key);
    }
}

// AES-CTR of a user a group, whose key of `key_words` words one thread expands. `keys` is room for the round keys.
KERNEL(aes_ctr_users)(
    GLOBAL block_t *data, GLOBAL u32 *keys, GLOBAL const u32 *t, GLOBAL const u32 *raw, GLOBAL const span_t *users,
    u32 key_words
) {
    GLOBAL const span_t *user = users + GROUP;
    if (THREAD == 0) {
        expand_key(raw + user->key * 8, key_words, keys + GROUP * KEY_WORDS);
    }
    BARRIER();
    const u32 stride_log = 5, rounds = key_words + 6;
    GROUP_KEY(keys + GROUP * KEY_WORDS);
    const u32 whole = user->len / 16, tail = user->len % 16;
    const u32 threads = (whole + (tail != 0) + 1023) / 1024 * 32;
    for (u32 thread = THREAD; thread < threads; thread += THREADS) {
        const u32 first = FIRST_BLOCK(thread);
        if (first < whole + (tail != 0)) {
            const counter_t counter = counter_add(counter_of(user), first);
            ctr_blocks(data + user->at, whole, tail, first, stride_log, counter, round_keys, rounds, 1);
        }
    }
}

// AES-ECB of `blocks` whole blocks from block `at` on.
KERNEL(aes_ecb_encrypt)(
    GLOBAL block_t *data, GLOBAL const u32 *keys, GLOBAL const u32 *t, u32 at, u32 blocks, u32 key, u32 rounds,
    u32 stride_log
) {
    GROUP_KEY(keys + key * KEY_WORDS);
    const u32 first = FIRST_BLOCK(GROUP * THREADS + THREAD);
    if (first < blocks) {
        ecb_blocks(data + at, blocks, first, stride_log, round_keys, rounds, 0);
    }
}

// The inverse; the round keys are those of the equivalent inverse cipher.
KERNEL(aes_ecb_decrypt)(
    GLOBAL block_t *data, GLOBAL const u32 *keys, GLOBAL const u32 *t, u32 at, u32 blocks, u32 key, u32 rounds,
    u32 stride_log
) {
    GROUP_KEY(keys + key * KEY_WORDS);
    const u32 first = FIRST_BLOCK(GROUP * THREADS + THREAD);
    if (first < blocks) {
        ecb_blocks(data + at, blocks, first, stride_log, round_keys, rounds, 1);
    }
}
