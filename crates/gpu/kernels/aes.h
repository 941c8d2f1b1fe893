// What all AES kernels share: spans, counters and the last block (FIPS 197).
// A block is four little-endian words, one for each column. Row r of a column is byte r of its word.

// The number of words that the round keys of one key take. AES-256 has the most.
#define KEY_WORDS 60

// A part of the data with its own key and counter.
typedef struct {
    u32 at;         // its first block in the data
    u32 len;        // its length in bytes
    u32 key;        // the index of its key
    u32 unused;
    u32 counter[4]; // the counter block of its first block, as big-endian words
} span_t;

typedef struct {
    u32 a, b, c, d; // big-endian words, the most significant first
} counter_t;

// counter + n modulo 2^128
DEVICE counter_t counter_add(counter_t counter, u32 n) {
    counter_t sum;
    sum.d = counter.d + n;
    u32 carry = sum.d < n;
    sum.c = counter.c + carry;
    carry = carry & (sum.c == 0);
    sum.b = counter.b + carry;
    carry = carry & (sum.b == 0);
    sum.a = counter.a + carry;
    return sum;
}

DEVICE counter_t counter_of(GLOBAL const span_t *span) {
    counter_t counter;
    counter.a = span->counter[0];
    counter.b = span->counter[1];
    counter.c = span->counter[2];
    counter.d = span->counter[3];
    return counter;
}

DEVICE void xor_block(GLOBAL block_t *data, u32 a, u32 b, u32 c, u32 d) {
    block_t block = *data;
    block.x ^= a;
    block.y ^= b;
    block.z ^= c;
    block.w ^= d;
    *data = block;
}

// The first `len` < 16 bytes of a block. The bytes behind them may belong to another span.
DEVICE void xor_bytes(GLOBAL block_t *data, u32 len, u32 a, u32 b, u32 c, u32 d) {
    GLOBAL u8 *bytes = (GLOBAL u8 *)data;
    for (u32 i = 0; i < len; i++) {
        u32 word = i < 4 ? a : i < 8 ? b : i < 12 ? c : d;
        bytes[i] ^= (u8)(word >> (8 * (i & 3)));
    }
}
