// AES by lookups in local memory. TABLES is 1 (T0, whose words are rotated by byte permutation) or 4 (T0 … T3). There are
// 2^COPIES_LOG copies of each table, with word i of copy c at (i << COPIES_LOG) + c. With 32 copies each thread of a warp
// has its own memory bank, and no two lookups collide. With fewer copies some lookups do, but four tables take less memory.
// The same code decrypts with the inverse tables and the round keys of the equivalent inverse cipher (FIPS 197, 5.3.5).

#define COPIES (1u << COPIES_LOG)
#define TABLE_WORDS (256u << COPIES_LOG)
// This thread's copy, times 4.
#define LANE ((THREAD & (COPIES - 1)) * 4)

// Where the entry for byte `row` of a word lies, in bytes from the beginning of a table.
DEVICE u32 entry_at(u32 lane, u32 word, const int row) {
    const int right = 8 * row - (COPIES_LOG + 2);
    u32 shifted = right >= 0 ? word >> (right & 31) : word << (-right & 31);
    return (shifted & (0xffu << (COPIES_LOG + 2))) | lane;
}

// T_row[byte `row` of `word`]
DEVICE u32 lookup(LOCAL const u32 *tables, u32 lane, u32 word, const int row) {
    LOCAL const u8 *table = (LOCAL const u8 *)(tables + (TABLES == 4 ? row * TABLE_WORDS : 0));
    u32 entry = *(LOCAL const u32 *)(table + entry_at(lane, word, row));
    return TABLES == 4 ? entry : ROTL32(entry, 8 * row);
}

// T_0[byte `row` of `word`]
DEVICE u32 lookup_first(LOCAL const u32 *tables, u32 lane, u32 word, const int row) {
    return *(LOCAL const u32 *)((LOCAL const u8 *)tables + entry_at(lane, word, row));
}

#define T(word, row) lookup(tables, lane, (word), (row))
#define S(word, row) lookup_first(tables, lane, (word), (row))

// `t`: the 256 words of T0, or of its inverse.
DEVICE void fill_tables(LOCAL u32 *tables, GLOBAL const u32 *t) {
    for (u32 i = THREAD; i < TABLES * TABLE_WORDS; i += THREADS) {
        u32 row = i >> (COPIES_LOG + 8);
        tables[i] = ROTL32(t[(i >> COPIES_LOG) & 255], 8 * row);
    }
}

DEVICE void load_key(LOCAL u32 *rk, GLOBAL const u32 *key, u32 rounds) {
    for (u32 i = THREAD; i < 4 * (rounds + 1); i += THREADS) {
        rk[i] = key[i];
    }
}

// The cipher from round `from` to the last. Bytes 1 and 2 of T0 = (2s, s, s, 3s) are SubBytes.
DEVICE block_t encrypt_from(LOCAL const u32 *tables, LOCAL const u32 *rk, u32 lane, block_t s, u32 from, u32 rounds) {
    block_t n;
    for (u32 r = from; r < rounds; r++) {
        n.x = T(s.x, 0) ^ T(s.y, 1) ^ T(s.z, 2) ^ T(s.w, 3) ^ rk[4 * r];
        n.y = T(s.y, 0) ^ T(s.z, 1) ^ T(s.w, 2) ^ T(s.x, 3) ^ rk[4 * r + 1];
        n.z = T(s.z, 0) ^ T(s.w, 1) ^ T(s.x, 2) ^ T(s.y, 3) ^ rk[4 * r + 2];
        n.w = T(s.w, 0) ^ T(s.x, 1) ^ T(s.y, 2) ^ T(s.z, 3) ^ rk[4 * r + 3];
        s = n;
    }
#define LAST(a, b, c, d) \
    (((S(a, 0) >> 8) & 0xffu) | (S(b, 1) & 0xff00u) | (S(c, 2) & 0xff0000u) | ((S(d, 3) << 8) & 0xff000000u))
    n.x = LAST(s.x, s.y, s.z, s.w) ^ rk[4 * rounds];
    n.y = LAST(s.y, s.z, s.w, s.x) ^ rk[4 * rounds + 1];
    n.z = LAST(s.z, s.w, s.x, s.y) ^ rk[4 * rounds + 2];
    n.w = LAST(s.w, s.x, s.y, s.z) ^ rk[4 * rounds + 3];
    return n;
}

// InvSubBytes of a byte, from its entry (14s, 9s, 13s, 11s), whose four bytes add up to s.
DEVICE u32 inverse_byte(u32 entry) {
    entry ^= entry >> 16;
    return (entry ^ (entry >> 8)) & 0xffu;
}

// Rounds 1 to the last of the equivalent inverse cipher.
DEVICE block_t decrypt(LOCAL const u32 *tables, LOCAL const u32 *rk, u32 lane, block_t s, u32 rounds) {
    block_t n;
    for (u32 r = 1; r < rounds; r++) {
        n.x = T(s.x, 0) ^ T(s.w, 1) ^ T(s.z, 2) ^ T(s.y, 3) ^ rk[4 * r];
        n.y = T(s.y, 0) ^ T(s.x, 1) ^ T(s.w, 2) ^ T(s.z, 3) ^ rk[4 * r + 1];
        n.z = T(s.z, 0) ^ T(s.y, 1) ^ T(s.x, 2) ^ T(s.w, 3) ^ rk[4 * r + 2];
        n.w = T(s.w, 0) ^ T(s.z, 1) ^ T(s.y, 2) ^ T(s.x, 3) ^ rk[4 * r + 3];
        s = n;
    }
#define INVERSE(a, b, c, d) \
    (inverse_byte(S(a, 0)) | (inverse_byte(S(b, 1)) << 8) | (inverse_byte(S(c, 2)) << 16) | (inverse_byte(S(d, 3)) << 24))
    n.x = INVERSE(s.x, s.w, s.z, s.y) ^ rk[4 * rounds];
    n.y = INVERSE(s.y, s.x, s.w, s.z) ^ rk[4 * rounds + 1];
    n.z = INVERSE(s.z, s.y, s.x, s.w) ^ rk[4 * rounds + 2];
    n.w = INVERSE(s.w, s.z, s.y, s.x) ^ rk[4 * rounds + 3];
    return n;
}

// Counter caching. A tile is 256 counter blocks that differ only in their last byte. They share 15 of the 16 lookups of
// round 1, because that byte goes only into column 0, and 12 of the 16 of round 2, because column 0 goes into each column
// once.
#define TILE 256u
// What a tile keeps: column 0 after round 1 and the four columns after round 2, each without its one changing lookup.
#define TILE_WORDS 5
// The number of blocks that a group handles at once, and the number of tiles that they can touch.
#define MAX_SPAN 16384u
#define MAX_TILES 65

DEVICE void cache_tile(LOCAL const u32 *tables, LOCAL const u32 *rk, u32 lane, counter_t counter, LOCAL u32 *tile) {
    block_t s, n;
    s.x = SWAP_BYTES(counter.a) ^ rk[0];
    s.y = SWAP_BYTES(counter.b) ^ rk[1];
    s.z = SWAP_BYTES(counter.c) ^ rk[2];
    s.w = SWAP_BYTES(counter.d) ^ rk[3];
    tile[0] = T(s.x, 0) ^ T(s.y, 1) ^ T(s.z, 2) ^ rk[4];
    n.y = T(s.y, 0) ^ T(s.z, 1) ^ T(s.w, 2) ^ T(s.x, 3) ^ rk[5];
    n.z = T(s.z, 0) ^ T(s.w, 1) ^ T(s.x, 2) ^ T(s.y, 3) ^ rk[6];
    n.w = T(s.w, 0) ^ T(s.x, 1) ^ T(s.y, 2) ^ T(s.z, 3) ^ rk[7];
    tile[1] = T(n.y, 1) ^ T(n.z, 2) ^ T(n.w, 3) ^ rk[8];
    tile[2] = T(n.y, 0) ^ T(n.z, 1) ^ T(n.w, 2) ^ rk[9];
    tile[3] = T(n.z, 0) ^ T(n.w, 1) ^ T(n.y, 3) ^ rk[10];
    tile[4] = T(n.w, 0) ^ T(n.y, 2) ^ T(n.z, 3) ^ rk[11];
}

// The whole group computes AES-CTR of `whole` blocks and `tail` bytes, at most MAX_SPAN blocks in all. Tables and round keys
// are in local memory already.
DEVICE void ctr_span(
    GLOBAL block_t *data, u32 whole, u32 tail, counter_t counter, LOCAL const u32 *tables, LOCAL const u32 *rk,
    LOCAL u32 *tiles, u32 rounds
) {
    const u32 lane = LANE;
    const u32 low = counter.d & (TILE - 1), blocks = whole + (tail != 0);
    counter.d -= low;
    for (u32 i = THREAD; i * TILE < low + blocks; i += THREADS) {
        cache_tile(tables, rk, lane, counter_add(counter, i * TILE), tiles + i * TILE_WORDS);
    }
    BARRIER();
    for (u32 i = THREAD; i < blocks; i += THREADS) {
        LOCAL const u32 *tile = tiles + (low + i) / TILE * TILE_WORDS;
        u32 x = tile[0] ^ T((((low + i) % TILE) << 24) ^ rk[3], 3);
        block_t s;
        s.x = tile[1] ^ T(x, 0);
        s.y = tile[2] ^ T(x, 3);
        s.z = tile[3] ^ T(x, 2);
        s.w = tile[4] ^ T(x, 1);
        s = encrypt_from(tables, rk, lane, s, 3, rounds);
        if (i < whole) {
            xor_block(data + i, s.x, s.y, s.z, s.w);
        } else {
            xor_bytes(data + i, tail, s.x, s.y, s.z, s.w);
        }
    }
}

#define LOCALS \
    LOCAL_ARRAY(u32, rk, KEY_WORDS); \
    LOCAL_ARRAY(u32, tiles, MAX_TILES * TILE_WORDS); \
    DYNAMIC_LOCAL(u32, tables, TABLES * TABLE_WORDS)

// AES-CTR of `blocks` blocks and `tail` bytes from block `at` on, under one key and one counter. Each group takes `span`
// blocks, at most MAX_SPAN.
KERNEL(aes_ctr)(
    GLOBAL block_t *data, GLOBAL const u32 *keys, GLOBAL const u32 *t, u32 at, u32 blocks, u32 tail, u32 key, u32 rounds,
    u32 span, u32 counter_a, u32 counter_b, u32 counter_c, u32 counter_d DYNAMIC_PARAMETER(u32, tables)
) {
    LOCALS;
    fill_tables(tables, t);
    load_key(rk, keys + key * KEY_WORDS, rounds);
    BARRIER();
    counter_t counter;
    counter.a = counter_a;
    counter.b = counter_b;
    counter.c = counter_c;
    counter.d = counter_d;
    const u32 first = GROUP * span, left = blocks - first;
    ctr_span(
        data + at + first, left < span ? left : span, left < span ? tail : 0, counter_add(counter, first), tables, rk,
        tiles, rounds
    );
}

// AES-CTR of one span in each group, with its own key and counter. This is P2's GCS if a span is a slice.
KERNEL(aes_ctr_spans)(
    GLOBAL block_t *data, GLOBAL const u32 *keys, GLOBAL const u32 *t, GLOBAL const span_t *spans, u32 count, u32 rounds,
    u32 stride_log, u32 parts DYNAMIC_PARAMETER(u32, tables)
) {
    LOCALS;
    GLOBAL const span_t *span = spans + GROUP;
    fill_tables(tables, t);
    load_key(rk, keys + span->key * KEY_WORDS, rounds);
    BARRIER();
    ctr_span(data + span->at, span->len / 16, span->len % 16, counter_of(span), tables, rk, tiles, rounds);
}

// AES-CTR of one user in each group: P2's GCNS. One thread expands the user's key of `key_words` words. `keys` is room for
// the round keys of all users.
KERNEL(aes_ctr_users)(
    GLOBAL block_t *data, GLOBAL u32 *keys, GLOBAL const u32 *t, GLOBAL const u32 *raw, GLOBAL const span_t *users,
    u32 key_words DYNAMIC_PARAMETER(u32, tables)
) {
    LOCALS;
    GLOBAL const span_t *user = users + GROUP;
    GLOBAL u32 *key = keys + GROUP * KEY_WORDS;
    const u32 rounds = key_words + 6;
    if (THREAD == 0) {
        expand_key(raw + user->key * 8, key_words, key);
    }
    fill_tables(tables, t);
    BARRIER();
    load_key(rk, key, rounds);
    const u32 whole = user->len / 16, tail = user->len % 16;
    for (u32 first = 0; first < whole + (tail != 0); first += MAX_SPAN) {
        BARRIER();
        const u32 left = whole - first;
        ctr_span(
            data + user->at + first, left < MAX_SPAN ? left : MAX_SPAN, left < MAX_SPAN ? tail : 0,
            counter_add(counter_of(user), first), tables, rk, tiles, rounds
        );
    }
}

// AES-ECB of `blocks` whole blocks from block `at` on: encryption. Each group takes `span` blocks. `t` is T0.
KERNEL(aes_ecb_encrypt)(
    GLOBAL block_t *data, GLOBAL const u32 *keys, GLOBAL const u32 *t, u32 at, u32 blocks, u32 key, u32 rounds, u32 span
        DYNAMIC_PARAMETER(u32, tables)
) {
    LOCAL_ARRAY(u32, rk, KEY_WORDS);
    DYNAMIC_LOCAL(u32, tables, TABLES * TABLE_WORDS);
    fill_tables(tables, t);
    load_key(rk, keys + key * KEY_WORDS, rounds);
    BARRIER();
    const u32 first = GROUP * span, left = blocks - first;
    for (u32 i = THREAD; i < (left < span ? left : span); i += THREADS) {
        block_t s = data[at + first + i];
        s.x ^= rk[0];
        s.y ^= rk[1];
        s.z ^= rk[2];
        s.w ^= rk[3];
        data[at + first + i] = encrypt_from(tables, rk, LANE, s, 1, rounds);
    }
}

// Decryption. `t` is the inverse table, and the round keys are those of the equivalent inverse cipher.
KERNEL(aes_ecb_decrypt)(
    GLOBAL block_t *data, GLOBAL const u32 *keys, GLOBAL const u32 *t, u32 at, u32 blocks, u32 key, u32 rounds, u32 span
        DYNAMIC_PARAMETER(u32, tables)
) {
    LOCAL_ARRAY(u32, rk, KEY_WORDS);
    DYNAMIC_LOCAL(u32, tables, TABLES * TABLE_WORDS);
    fill_tables(tables, t);
    load_key(rk, keys + key * KEY_WORDS, rounds);
    BARRIER();
    const u32 first = GROUP * span, left = blocks - first;
    for (u32 i = THREAD; i < (left < span ? left : span); i += THREADS) {
        block_t s = data[at + first + i];
        s.x ^= rk[0];
        s.y ^= rk[1];
        s.z ^= rk[2];
        s.w ^= rk[3];
        data[at + first + i] = decrypt(tables, rk, LANE, s, rounds);
    }
}
