/*
 * Protects a file, and prints a part of it.
 *
 *     cargo build --release -p phalanx-capi
 *     cc crates/capi/examples/range.c -I crates/capi/include -L target/release -lphalanx_capi -o range
 *     LD_LIBRARY_PATH=target/release ./range FILE OFFSET LENGTH
 */
#include <phalanx.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program if a call failed. */
static void check(phalanx_error *error)
{
    if (error == NULL)
        return;
    fprintf(stderr, "range: %s\n", phalanx_error_text(error));
    int code = phalanx_error_code(error);
    phalanx_error_free(error);
    exit(code);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: range FILE OFFSET LENGTH\n");
        return PHALANX_USAGE;
    }
    char output[4096];
    snprintf(output, sizeof output, "%s.phx", argv[1]);

    /* Who holds one of the ways may open the file. A program would rather take a key of the keyring, by phalanx_key_named(). */
    phalanx_key *key;
    phalanx_ways *ways;
    check(phalanx_key_random(&key));
    check(phalanx_ways_new(&ways));
    check(phalanx_ways_add_key(ways, key));
    check(phalanx_protect(argv[1], output, ways, NULL, NULL));

    /* Opening authenticates the length, and reading what is read. */
    phalanx_reader *reader;
    check(phalanx_open(output, ways, &reader));
    size_t length = strtoul(argv[3], NULL, 10);
    size_t read = 0;
    unsigned char *part = malloc(length ? length : 1);
    if (part == NULL)
        return PHALANX_OTHER;
    check(phalanx_read_at(reader, strtoull(argv[2], NULL, 10), part, length, &read));
    fwrite(part, 1, read, stdout);
    fprintf(stderr, "%zu of %llu bytes\n", read, (unsigned long long)phalanx_size(reader));

    free(part);
    phalanx_close(reader);
    phalanx_ways_free(ways);
    phalanx_key_free(key);
    return 0;
}
