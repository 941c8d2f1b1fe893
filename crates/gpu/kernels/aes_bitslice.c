// AES-CTR in bit planes, where all threads of a group have the same key: files, and long messages. The parameters are those of
// the kernels with tables, except for the local memory. No tables are needed: `t` is not read.

// AES-CTR of `count` > 0 spans. Each has its own counter, and takes parts × 2^stride_log threads. Either all spans have the
// same key, or that number is a multiple of the group's threads.
KERNEL(aes_ctr_spans)(
    GLOBAL block_t *data, GLOBAL const u32 *keys, GLOBAL const u32 *t, GLOBAL const span_t *spans, u32 count, u32 rounds,
    u32 stride_log, u32 parts
) {
    LOCAL_ARRAY(block_t, planes, PLANE_BLOCKS * 15);
    const u32 thread = GROUP * THREADS + THREAD, each = parts << stride_log;
    // The last threads of the last group may have no span.
    const u32 at = thread / each < count ? thread / each : count - 1;
    GLOBAL const span_t *span = spans + at;
    spread_key((LOCAL u32 *)planes, keys + span->key * KEY_WORDS, rounds);
    BARRIER();
    const u32 first = FIRST_BLOCK(thread - at * each);
    const u32 whole = span->len / 16, tail = span->len % 16;
    if (first < whole + (tail != 0)) {
        const counter_t counter = counter_add(counter_of(span), first);
        round_keys_t round_keys;
        round_keys.words = keys;
        round_keys.planes = planes;
        ctr_blocks(data + span->at, whole, tail, first, stride_log, counter, round_keys, rounds, 1);
    }
}
