// AES-CTR in bit planes, where each thread may have its own key: short messages. The parameters are those of aes_ctr_spans.

// AES-CTR of `count` spans. Each has its own key and counter, and takes parts × 2^stride_log threads.
KERNEL(aes_ctr_keys)(
    GLOBAL block_t *data, GLOBAL const u32 *keys, GLOBAL const u32 *t, GLOBAL const span_t *spans, u32 count, u32 rounds,
    u32 stride_log, u32 parts
) {
    const u32 thread = GROUP * THREADS + THREAD, each = parts << stride_log;
    if (thread / each >= count) {
        return;
    }
    GLOBAL const span_t *span = spans + thread / each;
    const u32 first = FIRST_BLOCK(thread % each);
    const u32 whole = span->len / 16, tail = span->len % 16;
    if (first < whole + (tail != 0)) {
        const counter_t counter = counter_add(counter_of(span), first);
        round_keys_t round_keys;
        round_keys.words = keys + span->key * KEY_WORDS;
        round_keys.planes = 0;
        ctr_blocks(data + span->at, whole, tail, first, stride_log, counter, round_keys, rounds, 0);
    }
}
