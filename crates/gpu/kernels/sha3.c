// SHA3-256 of each slice.
KERNEL(sha3_slices)(GLOBAL const u64 *data, GLOBAL const slice_t *slices, GLOBAL u64 *digests, u32 count) {
    const u32 i = GROUP * THREADS + THREAD;
    if (i < count) {
        digest_slice(data, slices, digests, i, 0x06, KECCAK_F);
    }
}
