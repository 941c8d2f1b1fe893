// AES in bit planes, for the papers' experiments: AES-ECB both ways, one run of AES-CTR, and users whose keys the device
// expands. The parameters are those of the kernels with tables, except for the local memory. `t` is not read.

// The inverse of SubBytes' affine map: bit i is the sum of bits i + 2, i + 5 and i + 7. Then comes the constant 0x05.
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

// InvSubBytes undoes SubBytes' affine map and then inverts in the field. The inversion is SubBytes with the map undone
// behind it.
DEVICE void inverse_sub_planes(u32 *q) {
    inverse_affine(q);
    sub_planes(q);
    inverse_affine(q);
}

// InvMixColumns is this step and then MixColumns: four times the sum of bytes r and r + 2 is added to each of the two.
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

// The equivalent inverse cipher (FIPS 197, section 5.3.5) on planes. All threads of the group have the same key.
DEVICE void inverse_cipher(u32 *s, round_keys_t keys, u32 rounds) {
    u32 n[PLANES];
    add_round_key(s, keys, 0, 1);
    for (u32 r = 1; r < rounds; r++) {
        UNROLL
        for (int i = 0; i < 16; i++) {
            inverse_sub_planes(s + 8 * i);
        }
        shift_rows(s, n, 3);
        UNROLL
        for (int c = 0; c < 4; c++) {
            u32 k[32];
            column_of_key(k, keys, r, c, 1);
            before_mix_column(n + 32 * c);
            mix_column(n + 32 * c, k, s + 32 * c);
        }
    }
    UNROLL
    for (int i = 0; i < 16; i++) {
        inverse_sub_planes(s + 8 * i);
    }
    shift_rows(s, n, 3);
    copy_planes(n, s);
    add_round_key(s, keys, rounds, 1);
}

// AES-ECB of the blocks first + (j << stride_log) for j = 0 … 31. Those at or behind `blocks` are left out.
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
    if (inverse) {
        inverse_cipher(s, keys, rounds);
    } else {
        cipher(s, keys, rounds, 1);
    }
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

// The round keys of a group whose threads all have the same key: its planes, in local memory.
#define GROUP_KEY(key) \
    LOCAL_ARRAY(block_t, planes, PLANE_BLOCKS * 15); \
    round_keys_t round_keys; \
    round_keys.words = (key); \
    round_keys.planes = planes; \
    spread_key((LOCAL u32 *)planes, (key), rounds); \
    BARRIER()

// AES-CTR of `blocks` blocks and `tail` bytes from block `at` on, under one key and one counter.
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

// AES-CTR of one user in each group. One thread expands the user's key of `key_words` words. `keys` is room for the round
// keys of all users.
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

// AES-ECB of `blocks` whole blocks from block `at` on: encryption.
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

// Decryption. The round keys are those of the equivalent inverse cipher.
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
