// What all AES kernels share: spans, counters, the last block, and the S-box without tables (FIPS 197).
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

// SubBytes on bit planes: q[i] holds bit i of 32 bytes. The straight-line program and its names are those of Boyar and
// Peralta, "A small depth-16 circuit for the AES S-box" (2012).
DEVICE void sub_planes(u32 *q) {
    u32 x0 = q[7], x1 = q[6], x2 = q[5], x3 = q[4], x4 = q[3], x5 = q[2], x6 = q[1], x7 = q[0];
    u32 y14 = x3 ^ x5, y13 = x0 ^ x6, y9 = x0 ^ x3, y8 = x0 ^ x5, t0 = x1 ^ x2, y1 = t0 ^ x7;
    u32 y4 = y1 ^ x3, y12 = y13 ^ y14, y2 = y1 ^ x0, y5 = y1 ^ x6, y3 = y5 ^ y8, t1 = x4 ^ y12;
    u32 y15 = t1 ^ x5, y20 = t1 ^ x1, y6 = y15 ^ x7, y10 = y15 ^ t0, y11 = y20 ^ y9, y7 = x7 ^ y11;
    u32 y17 = y10 ^ y11, y19 = y10 ^ y8, y16 = t0 ^ y11, y21 = y13 ^ y16, y18 = x0 ^ y16;

    u32 t2 = y12 & y15, t4 = (y3 & y6) ^ t2, t6 = (y4 & x7) ^ t2, t7 = y13 & y16;
    u32 t9 = (y5 & y1) ^ t7, t11 = (y2 & y7) ^ t7, t12 = y9 & y11, t14 = (y14 & y17) ^ t12, t16 = (y8 & y10) ^ t12;
    u32 t21 = t4 ^ t14 ^ y20, t22 = t6 ^ t16 ^ y19, t23 = t9 ^ t14 ^ y21, t24 = t11 ^ t16 ^ y18;
    u32 t25 = t21 ^ t22, t26 = t21 & t23, t27 = t24 ^ t26, t29 = (t25 & t27) ^ t22;
    u32 t30 = t23 ^ t24, t31 = t22 ^ t26, t33 = (t31 & t30) ^ t24, t34 = t23 ^ t33, t35 = t27 ^ t33;
    u32 t36 = t24 & t35, t37 = t36 ^ t34, t38 = t27 ^ t36, t40 = t25 ^ (t29 & t38);
    u32 t41 = t40 ^ t37, t42 = t29 ^ t33, t43 = t29 ^ t40, t44 = t33 ^ t37, t45 = t42 ^ t41;

    u32 z0 = t44 & y15, z1 = t37 & y6, z2 = t33 & x7, z3 = t43 & y16, z4 = t40 & y1, z5 = t29 & y7;
    u32 z6 = t42 & y11, z7 = t45 & y17, z8 = t41 & y10, z9 = t44 & y12, z10 = t37 & y3, z11 = t33 & y4;
    u32 z12 = t43 & y13, z13 = t40 & y5, z14 = t29 & y2, z15 = t42 & y9, z16 = t45 & y14, z17 = t41 & y8;

    u32 t46 = z15 ^ z16, t47 = z10 ^ z11, t48 = z5 ^ z13, t49 = z9 ^ z10, t50 = z2 ^ z12, t51 = z2 ^ z5;
    u32 t52 = z7 ^ z8, t53 = z0 ^ z3, t54 = z6 ^ z7, t55 = z16 ^ z17, t56 = z12 ^ t48, t57 = t50 ^ t53;
    u32 t58 = z4 ^ t46, t59 = z3 ^ t54, t60 = t46 ^ t57, t61 = z14 ^ t57, t62 = t52 ^ t58, t63 = t49 ^ t58;
    u32 t64 = z4 ^ t59, t65 = t61 ^ t62, t66 = z1 ^ t63, s3 = t53 ^ t66, t67 = t64 ^ t65;
    q[7] = t59 ^ t63;
    q[6] = t64 ^ ~s3;
    q[5] = t55 ^ ~t67;
    q[4] = s3;
    q[3] = t51 ^ t66;
    q[2] = t47 ^ t65;
    q[1] = t56 ^ ~t62;
    q[0] = t48 ^ ~t60;
}
