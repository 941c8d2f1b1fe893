// MD5 (RFC 1321), one input a thread.

// floor(2^32 × |sin(i + 1)|)
CONSTANT u32 MD5_SINES[64] = {
    0xd76aa478u, 0xe8c7b756u, 0x242070dbu, 0xc1bdceeeu, 0xf57c0fafu, 0x4787c62au, 0xa8304613u, 0xfd469501u,
    0x698098d8u, 0x8b44f7afu, 0xffff5bb1u, 0x895cd7beu, 0x6b901122u, 0xfd987193u, 0xa679438eu, 0x49b40821u,
    0xf61e2562u, 0xc040b340u, 0x265e5a51u, 0xe9b6c7aau, 0xd62f105du, 0x02441453u, 0xd8a1e681u, 0xe7d3fbc8u,
    0x21e1cde6u, 0xc33707d6u, 0xf4d50d87u, 0x455a14edu, 0xa9e3e905u, 0xfcefa3f8u, 0x676f02d9u, 0x8d2a4c8au,
    0xfffa3942u, 0x8771f681u, 0x6d9d6122u, 0xfde5380cu, 0xa4beea44u, 0x4bdecfa9u, 0xf6bb4b60u, 0xbebfbc70u,
    0x289b7ec6u, 0xeaa127fau, 0xd4ef3085u, 0x04881d05u, 0xd9d4d039u, 0xe6db99e5u, 0x1fa27cf8u, 0xc4ac5665u,
    0xf4292244u, 0x432aff97u, 0xab9423a7u, 0xfc93a039u, 0x655b59c3u, 0x8f0ccc92u, 0xffeff47du, 0x85845dd1u,
    0x6fa87e4fu, 0xfe2ce6e0u, 0xa3014314u, 0x4e0811a1u, 0xf7537e82u, 0xbd3af235u, 0x2ad7d2bbu, 0xeb86d391u,
};

// MD5 of each key, `key_len` <= 55 bytes each: P5's key digest as printed. MD5 is broken; nothing but P5's experiments
// uses this.
KERNEL(md5_key_digests)(GLOBAL const u8 *keys, GLOBAL u32 *out, u32 count, u32 key_len) {
    const u32 i = GROUP * THREADS + THREAD;
    if (i >= count) {
        return;
    }
    GLOBAL const u8 *key = keys + key_len * (u64)i;
    u32 m[16];
    UNROLL
    for (int w = 0; w < 16; w++) {
        m[w] = w == 14 ? 8 * key_len : 0;
        for (u32 b = 4 * w; b < 4 * (u32)w + 4; b++) {
            u32 byte = b < key_len ? key[b] : b == key_len ? 0x80 : 0;
            m[w] |= byte << (8 * (b & 3));
        }
    }
    u32 a = 0x67452301u, b = 0xefcdab89u, c = 0x98badcfeu, d = 0x10325476u, sum, t;
#define STEPS(from, f, word, r0, r1, r2, r3) \
    UNROLL \
    for (int k = (from); k < (from) + 16; k++) { \
        sum = a + (f) + MD5_SINES[k] + m[(word) & 15]; \
        t = d; \
        d = c; \
        c = b; \
        b += ROTL32(sum, (k & 3) == 0 ? (r0) : (k & 3) == 1 ? (r1) : (k & 3) == 2 ? (r2) : (r3)); \
        a = t; \
    }
    STEPS(0, (b & c) | (~b & d), k, 7, 12, 17, 22)
    STEPS(16, (d & b) | (~d & c), 5 * k + 1, 5, 9, 14, 20)
    STEPS(32, b ^ c ^ d, 3 * k + 5, 4, 11, 16, 23)
    STEPS(48, c ^ (b | ~d), 7 * k, 6, 10, 15, 21)
    out[4 * i] = a + 0x67452301u;
    out[4 * i + 1] = b + 0xefcdab89u;
    out[4 * i + 2] = c + 0x98badcfeu;
    out[4 * i + 3] = d + 0x10325476u;
}
