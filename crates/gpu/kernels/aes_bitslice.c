// AES-CTR in bit planes, for the engine. The parameters are those of the kernels with tables, except for the local memory.
// No tables are needed: `t` is not read.

// AES-CTR of `count` spans. Each has its own key and counter, and takes parts × 2^stride_log threads.
KERNEL(aes_ctr_spans)(
    GLOBAL block_t *data, GLOBAL const u32 *keys, GLOBAL const u32 *t, GLOBAL const span_t *spans, u32 count, u32 rounds,
    u32 stride_log, u32 parts
) {
    LOCAL_ARRAY(block_t, planes, PLANE_BLOCKS * 15);
    const u32 thread = GROUP * THREADS + THREAD, each = parts << stride_log;
    // Whether all threads of the group belong to the same span, which exists.
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
