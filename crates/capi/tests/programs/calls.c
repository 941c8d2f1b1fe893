/* Calls every function, in a folder of its own with a keyring. Stops at the first thing that is not as the header says. */
#define _POSIX_C_SOURCE 200809L
#include <phalanx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUIRE(condition)                                                       \
    do {                                                                         \
        if (!(condition)) {                                                      \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);      \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

static void ok_at(phalanx_error *error, int line)
{
    if (error != NULL) {
        fprintf(stderr, "line %d: %d, %s\n", line, phalanx_error_code(error), phalanx_error_text(error));
        exit(1);
    }
}

static void fails_at(phalanx_error *error, int code, const char *part, int line)
{
    if (phalanx_error_code(error) != code || strstr(phalanx_error_text(error), part) == NULL) {
        fprintf(stderr, "line %d: %d, %s\n", line, phalanx_error_code(error),
                error ? phalanx_error_text(error) : "no error");
        exit(1);
    }
    phalanx_error_free(error);
}

static void is_at(phalanx_error *error, const char *kind, int line)
{
    if (error == NULL || strcmp(phalanx_error_kind(error), kind) != 0) {
        fprintf(stderr, "line %d: %s\n", line, error ? phalanx_error_kind(error) : "no error");
        exit(1);
    }
    phalanx_error_free(error);
}

#define OK(call) ok_at(call, __LINE__)
#define IS(call, kind) is_at(call, kind, __LINE__)
#define FAILS(call, code, part) fails_at(call, code, part, __LINE__)

static void write_file(const char *path, const unsigned char *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    REQUIRE(file && fwrite(bytes, 1, len, file) == len && fclose(file) == 0);
}

static size_t read_file(const char *path, unsigned char *bytes, size_t room)
{
    FILE *file = fopen(path, "rb");
    REQUIRE(file);
    size_t len = fread(bytes, 1, room, file);
    fclose(file);
    return len;
}

enum { LEN = 100000 };
static unsigned char content[LEN], again[LEN + 1];

static void keys(void)
{
    unsigned char bytes[32], same[32], id[16], other_id[16];
    phalanx_key *key, *other;
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    OK(phalanx_key_from_bytes(bytes, &key));
    OK(phalanx_key_bytes(key, same));
    REQUIRE(memcmp(bytes, same, 32) == 0);
    /* docs/format-volumes.md has the id of this key. */
    OK(phalanx_key_id(key, id));
    REQUIRE(id[0] == 0xb4 && id[15] == 0x1c);
    write_file("raw.key", bytes, 32);
    FAILS(phalanx_key_from_file("missing.key", &other), PHALANX_IO, "missing.key");
    FAILS(phalanx_key_named("work", &other), PHALANX_IO, "no key named work");
    FAILS(phalanx_key_named("no/name", &other), PHALANX_USAGE, "not a name for a key");
    FAILS(phalanx_key_named(NULL, &other), PHALANX_USAGE, "name is null");
    FAILS(phalanx_key_random(NULL), PHALANX_USAGE, "key is null");
    IS(phalanx_key_from_file("missing.key", &other), "not-found");
    IS(phalanx_key_named("work", &other), "no-such-key");
    IS(phalanx_key_named("no/name", &other), "argument");
    IS(phalanx_key_named(NULL, &other), "argument");
    OK(phalanx_key_random(&other));
    OK(phalanx_key_id(other, other_id));
    REQUIRE(memcmp(id, other_id, 16) != 0);
    phalanx_key_free(other);
    phalanx_key_free(key);
    phalanx_key_free(NULL);
}

static void files(void)
{
    phalanx_key *key, *stranger;
    phalanx_ways *ways, *others;
    phalanx_options *options;
    uint64_t length = 0;
    OK(phalanx_key_random(&key));
    OK(phalanx_key_random(&stranger));
    OK(phalanx_ways_new(&ways));
    OK(phalanx_ways_new(&others));
    write_file("plain", content, LEN);

    FAILS(phalanx_protect("plain", "plain.phx", ways, NULL, NULL), PHALANX_USAGE, "nothing would open it");
    OK(phalanx_ways_add_key(ways, key));
    OK(phalanx_ways_add_key(others, stranger));
    OK(phalanx_protect("plain", "plain.phx", ways, NULL, &length));
    REQUIRE(length == LEN);
    FAILS(phalanx_protect("plain", "plain.phx", ways, NULL, NULL), PHALANX_IO, "plain.phx: exists already");
    FAILS(phalanx_protect("plain.phx", "twice.phx", ways, NULL, NULL), PHALANX_IO, "protected already");
    FAILS(phalanx_protect("gone", "gone.phx", ways, NULL, NULL), PHALANX_IO, "gone: ");
    FAILS(phalanx_protect("plain", NULL, ways, NULL, NULL), PHALANX_USAGE, "output is null");

    IS(phalanx_protect("plain", "plain.phx", ways, NULL, NULL), "exists");
    IS(phalanx_protect("plain.phx", "twice.phx", ways, NULL, NULL), "protected");
    IS(phalanx_protect("gone", "gone.phx", ways, NULL, NULL), "not-found");
    IS(phalanx_protect("plain", "no folder/plain.phx", ways, NULL, NULL), "output");

    length = 0;
    OK(phalanx_verify("plain.phx", ways, &length));
    REQUIRE(length == LEN);
    FAILS(phalanx_verify("plain.phx", others, NULL), PHALANX_NOT_AUTHENTIC, "plain.phx: ");
    FAILS(phalanx_verify("plain.phx", NULL, NULL), PHALANX_NOT_AUTHENTIC, "plain.phx: ");
    FAILS(phalanx_verify("plain", ways, NULL), PHALANX_NOT_AUTHENTIC, "not a Phalanx file");
    IS(phalanx_verify("plain.phx", others, NULL), "no-key");
    IS(phalanx_verify("plain", ways, NULL), "not-phalanx");
    OK(phalanx_unprotect("plain.phx", "again", ways, NULL, &length));
    REQUIRE(read_file("again", again, sizeof again) == LEN && memcmp(content, again, LEN) == 0);

    OK(phalanx_options_new(&options));
    FAILS(phalanx_options_set_cipher(options, "rot13"), PHALANX_USAGE, "aes-256-turbo");
    FAILS(phalanx_options_set_chunk_size(options, 5000), PHALANX_USAGE, "power of two");
    OK(phalanx_options_set_cipher(options, "aes-256-turbo"));
    OK(phalanx_options_set_chunk_size(options, 4096));
    OK(phalanx_options_set_overwrite(options, true));
    OK(phalanx_options_set_sync(options, false));
    OK(phalanx_protect("plain", "plain.phx", ways, options, NULL));
    OK(phalanx_unprotect("plain.phx", "again", ways, options, NULL));

    /* A file from which a key was read is never replaced, whatever its name. */
    unsigned char kept[33];
    phalanx_key *from_file;
    REQUIRE(chmod("raw.key", 0600) == 0 && link("raw.key", "linked.key") == 0);
    OK(phalanx_protect("plain", "raw.phx", ways, NULL, NULL));
    OK(phalanx_key_from_file("raw.key", &from_file));
    phalanx_key_free(from_file);
    FAILS(phalanx_protect("plain", "raw.key", ways, options, NULL), PHALANX_IO, "raw.key: ");
    FAILS(phalanx_unprotect("raw.phx", "linked.key", ways, options, NULL), PHALANX_IO, "it holds a key or password");
    REQUIRE(read_file("raw.key", kept, sizeof kept) == 32 && kept[31] == 31);

    OK(phalanx_ways_set_password(others, (const uint8_t *)"correct horse", 13));
    FAILS(phalanx_ways_set_password(others, NULL, 0), PHALANX_USAGE, "empty password");
    OK(phalanx_protect("plain", "password.phx", others, NULL, NULL));
    OK(phalanx_verify("password.phx", others, NULL));
    IS(phalanx_verify("password.phx", ways, NULL), "no-key");
    FAILS(phalanx_ways_add_recipient(ways, "age1nobody"), PHALANX_USAGE, "not a recipient");
    FAILS(phalanx_ways_add_identity_file(ways, "missing"), PHALANX_IO, "missing");
    FAILS(phalanx_ways_add_service(ways, "no uri"), PHALANX_USAGE, "no uri");

    phalanx_options_free(options);
    phalanx_ways_free(others);
    phalanx_ways_free(ways);
    phalanx_key_free(stranger);
    phalanx_key_free(key);
}

static void reading(void)
{
    phalanx_key *key;
    phalanx_ways *ways;
    phalanx_options *options;
    phalanx_reader *reader;
    size_t read = 7;
    OK(phalanx_key_random(&key));
    OK(phalanx_ways_new(&ways));
    OK(phalanx_ways_add_key(ways, key));
    OK(phalanx_options_new(&options));
    OK(phalanx_options_set_chunk_size(options, 4096));
    OK(phalanx_protect("plain", "range.phx", ways, options, NULL));
    OK(phalanx_open("range.phx", ways, &reader));
    REQUIRE(phalanx_size(reader) == LEN);
    OK(phalanx_read_at(reader, 4090, again, 20, &read));
    REQUIRE(read == 20 && memcmp(again, content + 4090, 20) == 0);
    OK(phalanx_read_at(reader, LEN - 5, again, 20, &read));
    REQUIRE(read == 5 && memcmp(again, content + LEN - 5, 5) == 0);
    OK(phalanx_read_at(reader, UINT64_MAX, again, 20, &read));
    REQUIRE(read == 0);
    OK(phalanx_read_at(reader, 0, NULL, 0, &read));
    FAILS(phalanx_read_at(reader, 0, NULL, 1, &read), PHALANX_USAGE, "buf is null");
    FAILS(phalanx_read_at(reader, 0, again, SIZE_MAX, &read), PHALANX_USAGE, "buf is too long");
    phalanx_close(reader);

    /* One byte of the second chunk. */
    FILE *file = fopen("range.phx", "r+b");
    REQUIRE(file && fseek(file, -(LEN - 5000), SEEK_END) == 0);
    int byte = fgetc(file);
    REQUIRE(byte != EOF && fseek(file, -1, SEEK_CUR) == 0 && fputc(byte ^ 1, file) != EOF && fclose(file) == 0);
    OK(phalanx_open("range.phx", ways, &reader));
    OK(phalanx_read_at(reader, 90000, again, 20, &read));
    FAILS(phalanx_read_at(reader, 0, again, 50000, &read), PHALANX_NOT_AUTHENTIC, "damaged in chunk");
    IS(phalanx_read_at(reader, 0, again, 50000, &read), "altered");
    phalanx_close(reader);
    phalanx_close(NULL);
    phalanx_options_free(options);
    phalanx_ways_free(ways);
    phalanx_key_free(key);
}

static void messages(void)
{
    enum { COUNT = 3 };
    const uint8_t texts[] = "onetwothree";
    const uint64_t offsets[COUNT + 1] = {0, 3, 6, 11};
    const uint64_t descending[COUNT + 1] = {0, 6, 3, 11};
    const uint8_t names[] = "adabobeve";
    const uint64_t name_offsets[COUNT + 1] = {0, 3, 6, 9};
    const phalanx_column text = {texts, offsets}, user = {names, name_offsets}, none = {NULL, NULL};
    const size_t more = phalanx_overhead(NULL);
    REQUIRE(more == 48 && phalanx_overhead("aes-256-gcm") == 28 && phalanx_overhead("rot13") == 0);

    uint8_t sealed[11 + COUNT * 48], opened[sizeof sealed], failed[COUNT];
    uint64_t sealed_offsets[COUNT + 1];
    for (int i = 0; i <= COUNT; i++)
        sealed_offsets[i] = offsets[i] + (uint64_t)i * more;
    const phalanx_column message = {sealed, sealed_offsets};

    phalanx_key *root;
    phalanx_user_keys *users;
    OK(phalanx_key_random(&root));
    OK(phalanx_user_keys_new(root, (const uint8_t *)"records", 7, &users));
    FAILS(phalanx_user_keys_new(root, (const uint8_t *)"phalanx v1 x", 12, &users), PHALANX_USAGE, "label");
    OK(phalanx_seal_many(NULL, NULL, users, COUNT, user, text, text, sealed, sizeof sealed));
    OK(phalanx_open_many(NULL, NULL, users, COUNT, user, text, message, opened, sizeof opened, failed));
    for (int i = 0; i < COUNT; i++) {
        size_t len = offsets[i + 1] - offsets[i];
        REQUIRE(failed[i] == 0 && memcmp(opened + sealed_offsets[i] + more, texts + offsets[i], len) == 0);
    }
    /* Other associated data; another key; one altered message. */
    FAILS(phalanx_open_many(NULL, NULL, users, COUNT, user, none, message, opened, sizeof opened, NULL),
          PHALANX_NOT_AUTHENTIC, "not authentic");
    FAILS(phalanx_open_many(NULL, root, NULL, COUNT, none, text, message, opened, sizeof opened, NULL),
          PHALANX_NOT_AUTHENTIC, "not authentic");
    sealed[sealed_offsets[1] + more] ^= 1;
    FAILS(phalanx_open_many(NULL, NULL, users, COUNT, user, text, message, opened, sizeof opened, failed),
          PHALANX_NOT_AUTHENTIC, "not authentic");
    REQUIRE(failed[0] == 0 && failed[1] == 1 && failed[2] == 0);
    REQUIRE(memcmp(opened + sealed_offsets[2] + more, "three", 5) == 0);

    /* A slice of a column begins at an offset that is not 0. */
    const phalanx_column part = {texts, offsets + 1};
    uint8_t sealed_part[8 + 2 * 48], opened_part[sizeof sealed_part];
    const uint64_t part_offsets[3] = {0, 3 + 48, 8 + 2 * 48};
    const phalanx_column message_part = {sealed_part, part_offsets};
    OK(phalanx_seal_many(NULL, root, NULL, 2, none, none, part, sealed_part, sizeof sealed_part));
    OK(phalanx_open_many(NULL, root, NULL, 2, none, none, message_part, opened_part, sizeof opened_part, NULL));
    REQUIRE(memcmp(opened_part + 48, "two", 3) == 0 && memcmp(opened_part + 3 + 2 * 48, "three", 5) == 0);

    /* All under one key. */
    OK(phalanx_seal_many("aes-256-turbo", root, NULL, COUNT, none, none, text, sealed, sizeof sealed));
    OK(phalanx_open_many("aes-256-turbo", root, NULL, COUNT, none, none, message, opened, sizeof opened, NULL));
    OK(phalanx_seal_many(NULL, root, NULL, 0, none, none, none, NULL, 0));

    FAILS(phalanx_seal_many(NULL, root, users, COUNT, user, none, text, sealed, sizeof sealed), PHALANX_USAGE, "null");
    FAILS(phalanx_seal_many("rot13", root, NULL, COUNT, none, none, text, sealed, sizeof sealed), PHALANX_USAGE, "cipher");
    FAILS(phalanx_seal_many(NULL, root, NULL, COUNT, none, none, text, sealed, sizeof sealed - 1), PHALANX_USAGE, "are needed");
    const phalanx_column wrong = {texts, descending};
    FAILS(phalanx_seal_many(NULL, root, NULL, COUNT, none, none, wrong, sealed, sizeof sealed), PHALANX_USAGE,
          "ascending order");
    phalanx_user_keys_free(users);
    phalanx_key_free(root);
}

/* Each message under a key of its own; the last two share one. */
static void own_keys(void)
{
    enum { COUNT = 3 };
    const uint8_t texts[] = "onetwothree";
    const uint64_t offsets[COUNT + 1] = {0, 3, 6, 11};
    const phalanx_column text = {texts, offsets}, none = {NULL, NULL};
    const size_t more = phalanx_overhead(NULL);
    uint8_t keys[COUNT * 32], sealed[11 + COUNT * 48], opened[sizeof sealed], failed[COUNT];
    uint64_t sealed_offsets[COUNT + 1];
    for (int i = 0; i <= COUNT; i++)
        sealed_offsets[i] = offsets[i] + (uint64_t)i * more;
    for (int i = 0; i < COUNT * 32; i++)
        keys[i] = (uint8_t)(i < 32 ? 1 : 2);
    const phalanx_column message = {sealed, sealed_offsets};
    OK(phalanx_seal_each(NULL, keys, COUNT, text, text, sealed, sizeof sealed));
    OK(phalanx_open_each(NULL, keys, COUNT, text, message, opened, sizeof opened, failed));
    for (int i = 0; i < COUNT; i++) {
        size_t len = offsets[i + 1] - offsets[i];
        REQUIRE(failed[i] == 0 && memcmp(opened + sealed_offsets[i] + more, texts + offsets[i], len) == 0);
    }
    /* They are those of the keys. */
    phalanx_key *second;
    const phalanx_column two = {sealed, sealed_offsets + 1}, ads = {texts, offsets + 1};
    OK(phalanx_key_from_bytes(keys + 32, &second));
    OK(phalanx_open_many(NULL, second, NULL, 2, none, ads, two, opened, sizeof opened, NULL));
    REQUIRE(memcmp(opened + more, "two", 3) == 0);
    phalanx_key_free(second);
    keys[64] ^= 1;
    FAILS(phalanx_open_each(NULL, keys, COUNT, text, message, opened, sizeof opened, failed), PHALANX_NOT_AUTHENTIC,
          "not authentic: 1 of the messages");
    REQUIRE(failed[0] == 0 && failed[1] == 0 && failed[2] == 1);
    IS(phalanx_open_each(NULL, keys, COUNT, none, message, opened, sizeof opened, NULL), "messages");
    OK(phalanx_seal_each(NULL, NULL, 0, none, none, NULL, 0));
    FAILS(phalanx_seal_each(NULL, NULL, COUNT, none, text, sealed, sizeof sealed), PHALANX_USAGE, "keys is null");
    FAILS(phalanx_seal_each(NULL, keys, SIZE_MAX, none, text, sealed, sizeof sealed), PHALANX_USAGE, "too many keys");
    FAILS(phalanx_seal_each(NULL, keys, COUNT, none, text, sealed, sizeof sealed - 1), PHALANX_USAGE, "are needed");
}

/* A child makes calls of its own after the parent has made some. */
static void child(void)
{
    phalanx_key *key;
    phalanx_ways *ways;
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        OK(phalanx_key_random(&key));
        OK(phalanx_ways_new(&ways));
        OK(phalanx_ways_add_key(ways, key));
        OK(phalanx_protect("plain", "child.phx", ways, NULL, NULL));
        OK(phalanx_verify("child.phx", ways, NULL));
        exit(0);
    }
    int status;
    REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(void)
{
    for (int i = 0; i < LEN; i++)
        content[i] = (unsigned char)(i * 7 + i / 251);
    REQUIRE(strcmp(phalanx_version(), VERSION) == 0);
    REQUIRE(phalanx_error_code(NULL) == 0 && phalanx_error_text(NULL) == NULL && phalanx_error_hint(NULL) == NULL);
    REQUIRE(phalanx_error_kind(NULL) == NULL);
    keys();
    files();
    reading();
    messages();
    own_keys();
    child();
    puts("all as the header says");
    return 0;
}
