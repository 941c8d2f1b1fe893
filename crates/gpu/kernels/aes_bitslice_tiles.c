// AES-CTR in bit planes with counter caching: files. The parameters are those of aes_ctr_spans as far as it has the same.

// AES-CTR of spans, each with its own key and counter. Each is within a tile, and takes `each` threads, whole groups: 32 for every
// 1024 blocks from the last multiple of 1024 on that its counters have before it.
KERNEL(aes_ctr_tiles)(
    GLOBAL block_t *data, GLOBAL const u32 *keys, GLOBAL const u32 *t, GLOBAL const span_t *spans, u32 rounds, u32 each
) {
    LOCAL_ARRAY(block_t, planes, PLANE_BLOCKS * 15);
    LOCAL_ARRAY(u32, rests, TILE_PLANES);
    LOCAL_ARRAY(u32, tile, TILE_COLUMNS);
    const u32 group = GROUP * THREADS;
    GLOBAL const span_t *span = spans + group / each;
    GLOBAL const u32 *key = keys + span->key * KEY_WORDS;
    spread_key((LOCAL u32 *)planes, key, rounds);
    if (THREAD == 0) {
        make_tile(tile, key, counter_of(span));
    }
    BARRIER();
    for (u32 i = THREAD; i < TILE_PLANES; i += THREADS) {
        rests[i] = SPREAD(tile[i / 32], i % 32);
    }
    BARRIER();
    const u32 stride_log = 5, low = span->counter[3], skip = low & 1023;
    const u32 place = FIRST_BLOCK(group % each + THREAD);
    const u32 whole = span->len / 16, tail = span->len % 16;
    if (place < skip + whole + (tail != 0)) {
        u32 s[PLANES];
        round_keys_t round_keys;
        round_keys.words = keys;
        round_keys.planes = planes;
        begin_in_tile(s, rests, (LOCAL const u32 *)planes, low - skip + place);
        cipher_from(s, round_keys, 3, rounds, 1);
        // Before the span's beginning this wraps around, and is beyond its end.
        xor_planes(s, data + span->at, whole, tail, place - skip, stride_log);
    }
}
