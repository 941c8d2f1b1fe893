// This is compiled after the source of each module and a definition of MODULE_<its name>. It calls a kernel by its name, once
// for each group of one thread.

#include <string.h>

#define M(type, i) ((type *)memory[i])
#define N(i) numbers[i]
#define IS(name) (strcmp(entry, #name) == 0)
#define EACH(count, call) \
    for (phx_group = 0; phx_group < (count); phx_group++) { \
        call; \
    } \
    return 0;

// A kernel that numbers the threads of all groups runs with a group for each thread. One whose groups each have their own
// part of the work runs with the groups of the launch.
#if defined(KEY_WORDS) && !defined(PLANES)
#define UNITS groups
#else
#define UNITS (groups * threads)
#endif

// Returns 1 if the module has no such kernel.
int run(const char *entry, void **memory, const u32 *numbers, u32 groups, u32 threads) {
    (void)threads;
#ifdef KEY_WORDS
// The papers' module in bit planes defines GROUP_KEY, and the modules with tables define COPIES.
#if defined(MODULE_aes_bitslice_tiles)
    if (IS(aes_ctr_tiles)) {
        EACH(UNITS, aes_ctr_tiles(M(block_t, 0), M(u32, 1), M(u32, 2), M(span_t, 3), N(0), N(1)))
    }
#elif defined(MODULE_aes_bitslice_keys)
    if (IS(aes_ctr_keys)) {
        EACH(UNITS, aes_ctr_keys(M(block_t, 0), M(u32, 1), M(u32, 2), M(span_t, 3), N(0), N(1), N(2), N(3)))
    }
#elif !defined(GROUP_KEY)
    if (IS(aes_ctr_spans)) {
        EACH(UNITS, aes_ctr_spans(M(block_t, 0), M(u32, 1), M(u32, 2), M(span_t, 3), N(0), N(1), N(2), N(3)))
    }
#endif
#if defined(GROUP_KEY) || defined(COPIES)
    if (IS(aes_ctr)) {
        EACH(
            UNITS,
            aes_ctr(M(block_t, 0), M(u32, 1), M(u32, 2), N(0), N(1), N(2), N(3), N(4), N(5), N(6), N(7), N(8), N(9))
        )
    }
    if (IS(aes_ctr_users)) {
        EACH(groups, aes_ctr_users(M(block_t, 0), M(u32, 1), M(u32, 2), M(u32, 3), M(span_t, 4), N(0)))
    }
    if (IS(aes_ecb_encrypt)) {
        EACH(UNITS, aes_ecb_encrypt(M(block_t, 0), M(u32, 1), M(u32, 2), N(0), N(1), N(2), N(3), N(4)))
    }
    if (IS(aes_ecb_decrypt)) {
        EACH(UNITS, aes_ecb_decrypt(M(block_t, 0), M(u32, 1), M(u32, 2), N(0), N(1), N(2), N(3), N(4)))
    }
#endif
#elif defined(MODULE_sha3)
    if (IS(sha3_slices)) {
        EACH(UNITS, sha3_slices(M(u64, 0), M(slice_t, 1), M(u64, 2), N(0)))
    }
#elif defined(MODULE_turboshake)
    if (IS(turboshake_slices)) {
        EACH(UNITS, turboshake_slices(M(u64, 0), M(slice_t, 1), M(u64, 2), N(0)))
    }
#elif defined(MODULE_kmac)
    if (IS(kmac_key_digests)) {
        EACH(UNITS, kmac_key_digests(M(u64, 0), M(u8, 1), M(u64, 2), N(0), N(1)))
    }
#elif defined(MODULE_md5)
    if (IS(md5_key_digests)) {
        EACH(UNITS, md5_key_digests(M(u8, 0), M(u32, 1), N(0), N(1)))
    }
#endif
    return 1;
}
