/*
 * Phalanx: files and messages protected with AES and SHA-3.
 *
 * A function that can fail returns an error, or NULL if it succeeded. What it gives back through a
 * pointer is set only if it succeeded. A pointer may be NULL where this says so, and nowhere else.
 * Objects may be used by several threads at once, as long as none of them changes or frees one. No
 * function calls back, writes to the terminal (unless it has found an error in the library itself),
 * asks for anything, or changes how the process handles signals.
 *
 * This file is made from the sources: PHALANX_RENEW=1 cargo test -p phalanx-capi
 */

#ifndef PHALANX_H
#define PHALANX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Any other failure: an engine, memory, an error in the library.
 */
#define PHALANX_OTHER 1

/**
 * A wrong argument.
 */
#define PHALANX_USAGE 2

/**
 * Not a whole, authentic Phalanx file or message for the keys at hand.
 */
#define PHALANX_NOT_AUTHENTIC 3

/**
 * Input or output failed: a file or key is missing or exists already, the disk is full, access is denied.
 */
#define PHALANX_IO 4

/**
 * Why a call failed: a code and a line of text. phalanx_error_free() frees it.
 */
typedef struct phalanx_error phalanx_error;

/**
 * A secret key of 32 bytes. phalanx_key_free() wipes it.
 */
typedef struct phalanx_key phalanx_key;

/**
 * How a file is processed. Where none are given: the cipher aes-256, chunks of 1 MiB, an existing output stays and is an
 * error, and an output is on the disk when the call returns.
 */
typedef struct phalanx_options phalanx_options;

/**
 * A protected file that is open for reading by range, from any threads.
 */
typedef struct phalanx_reader phalanx_reader;

/**
 * The keys of many users, derived from one root key.
 */
typedef struct phalanx_user_keys phalanx_user_keys;

/**
 * The ways into files that a program names: keys, passwords, public keys, identities and key services. Those that open a
 * file are tried on it; new files are protected for all but the identities.
 */
typedef struct phalanx_ways phalanx_ways;

/**
 * Many values, one after another, as Arrow's large binary columns have them: value i is bytes[offsets[i]] up to
 * bytes[offsets[i + 1]], so there is one offset more than values. If offsets is null, all values are empty.
 */
typedef struct {
    /**
     * The values.
     */
    const uint8_t *bytes;
    /**
     * Where each begins, and where the last one ends: in ascending order.
     */
    const uint64_t *offsets;
} phalanx_column;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library, such as "0.2.0".
 */
const char *phalanx_version(void);

/**
 * The code of an error, as the command's exit codes: PHALANX_OTHER, PHALANX_USAGE, PHALANX_NOT_AUTHENTIC or PHALANX_IO. 0
 * if the error is null.
 *
 * # Safety
 * error is null or an error that was not freed.
 */
int32_t phalanx_error_code(const phalanx_error *error);

/**
 * The kind of an error in a word, for programs that treat some kinds in their own way. It lives as long as the library. Null
 * if the error is null.
 *
 * - What is not a file for the keys at hand: not-phalanx, version, header, volume, wrong-key, no-key,
 *   no-password, no-way and keys-refused.
 * - What was changed: altered, truncated, extended, and messages for those of phalanx_open_many() and
 *   phalanx_open_each().
 * - Keys: key, no-such-key and key-locked; derivation-limit and derivation-memory for those of passwords.
 * - Files: exists, same-file, output, changed, protected, not-found, access and input.
 * - All else: argument and other. Later versions may have more words.
 *
 * # Safety
 * error is null or an error that was not freed.
 */
const char *phalanx_error_kind(const phalanx_error *error);

/**
 * One line that says what failed, and at which path. It belongs to the error. Null if the error is null.
 *
 * # Safety
 * error is null or an error that was not freed.
 */
const char *phalanx_error_text(const phalanx_error *error);

/**
 * What to do about it, in one line of advice that names the command's options; null if there is none. It belongs to the error.
 *
 * # Safety
 * error is null or an error that was not freed.
 */
const char *phalanx_error_hint(const phalanx_error *error);

/**
 * Frees an error. Null is allowed.
 *
 * # Safety
 * error is null or an error that was not freed. It is not used afterwards.
 */
void phalanx_error_free(phalanx_error *error);

/**
 * Protects a file. The output appears under its name when it is complete and on the disk, or not at all. length, if it
 * is not null, gets the content's length in bytes.
 *
 * # Safety
 * input and output are strings that end with a zero byte, ways are ways that were not freed, options is null or
 * options that were not freed, and length is null or leads to 8 bytes.
 */
phalanx_error *phalanx_protect(const char *input,
                               const char *output,
                               const phalanx_ways *ways,
                               const phalanx_options *options,
                               uint64_t *length);

/**
 * Opens a protected file. The output appears under its name when all of it is authentic and on the disk, or not at all.
 * ways may be null: then the keys of the keyring are tried. length, if it is not null, gets the content's length in
 * bytes.
 *
 * # Safety
 * input and output are strings that end with a zero byte, ways is null or ways that were not freed, options is null
 * or options that were not freed, and length is null or leads to 8 bytes.
 */
phalanx_error *phalanx_unprotect(const char *input,
                                 const char *output,
                                 const phalanx_ways *ways,
                                 const phalanx_options *options,
                                 uint64_t *length);

/**
 * Checks every chunk of a protected file, and writes nothing. ways may be null, as for phalanx_unprotect(). length, if
 * it is not null, gets the content's length in bytes.
 *
 * # Safety
 * input is a string that ends with a zero byte, ways is null or ways that were not freed, and length is null or
 * leads to 8 bytes.
 */
phalanx_error *phalanx_verify(const char *input,
                              const phalanx_ways *ways,
                              uint64_t *length);

/**
 * A new random key.
 *
 * # Safety
 * key leads to room for a pointer.
 */
phalanx_error *phalanx_key_random(phalanx_key **key);

/**
 * The key of 32 bytes. The caller wipes its own copy.
 *
 * # Safety
 * bytes leads to 32 bytes, and key to room for a pointer.
 */
phalanx_error *phalanx_key_from_bytes(const uint8_t *bytes, phalanx_key **key);

/**
 * The key with this name in the keyring, as the command phalanx key has it.
 *
 * # Safety
 * name is a string that ends with a zero byte, and key leads to room for a pointer.
 */
phalanx_error *phalanx_key_named(const char *name, phalanx_key **key);

/**
 * The key in a file of exactly 32 bytes, which only its owner may read. From then on, no output of this process replaces
 * that file.
 *
 * # Safety
 * path is a string that ends with a zero byte, and key leads to room for a pointer.
 */
phalanx_error *phalanx_key_from_file(const char *path,
                                     phalanx_key **key);

/**
 * The key's public name in files.
 *
 * # Safety
 * key is a key that was not freed, and id leads to 16 bytes.
 */
phalanx_error *phalanx_key_id(const phalanx_key *key, uint8_t *id);

/**
 * The key's bytes. The caller wipes them.
 *
 * # Safety
 * key is a key that was not freed, and bytes leads to 32 bytes.
 */
phalanx_error *phalanx_key_bytes(const phalanx_key *key, uint8_t *bytes);

/**
 * Wipes and frees a key. Null is allowed.
 *
 * # Safety
 * key is null or a key that was not freed. It is not used afterwards.
 */
void phalanx_key_free(phalanx_key *key);

/**
 * The keys of users that are derived from a root under a label, which says what the keys are for. It has at most 122 bytes,
 * and does not begin with "phalanx v1".
 *
 * # Safety
 * root is a key that was not freed, label leads to len bytes, and keys to room for a pointer.
 */
phalanx_error *phalanx_user_keys_new(const phalanx_key *root,
                                     const uint8_t *label,
                                     size_t len,
                                     phalanx_user_keys **keys);

/**
 * Wipes and frees the keys of users. Null is allowed.
 *
 * # Safety
 * keys is null, or keys that were not freed. They are not used afterwards.
 */
void phalanx_user_keys_free(phalanx_user_keys *keys);

/**
 * By how many bytes a message grows when it is sealed: 48, or 28 with aes-256-gcm. 0 if there is no such cipher. A null
 * cipher is aes-256.
 *
 * # Safety
 * cipher is null, or a string that ends with a zero byte.
 */
size_t phalanx_overhead(const char *cipher);

/**
 * Seals messages on all cores. All have one key, or each has the key of its user: one of key and users is null. user
 * has the users, and is not read if users is null; ad has associated data, to which each message is bound, and
 * which is not stored. A null cipher is aes-256.
 *
 * The sealed messages are written to out one after another, from its beginning. Message i begins at offsets[i] -
 * offsets[0] of the texts plus i times phalanx_overhead(). So out needs the length of all texts, plus
 * phalanx_overhead() for each. If the call fails, out holds zeros or nothing of use, and no text.
 *
 * # Safety
 * cipher is null or a string that ends with a zero byte. key and users are null or were not freed. The columns that are
 * read have count + 1 offsets, and bytes up to the last of these. out leads to out_len bytes, which overlap
 * nothing else.
 */
phalanx_error *phalanx_seal_many(const char *cipher,
                                 const phalanx_key *key,
                                 const phalanx_user_keys *users,
                                 size_t count,
                                 phalanx_column user,
                                 phalanx_column ad,
                                 phalanx_column text,
                                 uint8_t *out,
                                 size_t out_len);

/**
 * Seals messages as phalanx_seal_many() does, but each under a key of its own: keys has 32 bytes for each, one after another.
 * Messages that follow each other and have the same key cost less, so whether neighbouring keys are equal is not secret: the
 * time tells it. The caller wipes the keys.
 *
 * # Safety
 * As for phalanx_seal_many(). keys leads to 32 times count bytes.
 */
phalanx_error *phalanx_seal_each(const char *cipher,
                                 const uint8_t *keys,
                                 size_t count,
                                 phalanx_column ad,
                                 phalanx_column text,
                                 uint8_t *out,
                                 size_t out_len);

/**
 * Opens sealed messages on all cores, with the keys, associated data and cipher that they were sealed with.
 *
 * out must be as long as all messages together. Text i begins in it at offsets[i] - offsets[0] of the messages plus
 * phalanx_overhead(), and ends at offsets[i + 1] - offsets[0]. If a message is not authentic, the call fails with
 * PHALANX_NOT_AUTHENTIC. Then failed, if it is not null, has 1 for each message that is not authentic, whose place in
 * out is wiped, and 0 for the others, whose texts are in out.
 *
 * # Safety
 * As for phalanx_seal_many(). failed is null or leads to count bytes.
 */
phalanx_error *phalanx_open_many(const char *cipher,
                                 const phalanx_key *key,
                                 const phalanx_user_keys *users,
                                 size_t count,
                                 phalanx_column user,
                                 phalanx_column ad,
                                 phalanx_column message,
                                 uint8_t *out,
                                 size_t out_len,
                                 uint8_t *failed);

/**
 * Opens messages as phalanx_open_many() does, but each with a key of its own, as in phalanx_seal_each(). Here too, whether
 * neighbouring keys are equal is not secret.
 *
 * # Safety
 * As for phalanx_open_many() and phalanx_seal_each().
 */
phalanx_error *phalanx_open_each(const char *cipher,
                                 const uint8_t *keys,
                                 size_t count,
                                 phalanx_column ad,
                                 phalanx_column message,
                                 uint8_t *out,
                                 size_t out_len,
                                 uint8_t *failed);

/**
 * The default options.
 *
 * # Safety
 * options leads to room for a pointer.
 */
phalanx_error *phalanx_options_new(phalanx_options **options);

/**
 * Sets the cipher of new files: aes-256, aes-192, aes-128, aes-256-turbo or aes-256-gcm.
 *
 * # Safety
 * options are options that were not freed, and cipher is a string that ends with a zero byte.
 */
phalanx_error *phalanx_options_set_cipher(phalanx_options *options, const char *cipher);

/**
 * Sets the chunk size of new files in bytes: a power of two from 4096 to 16777216.
 *
 * # Safety
 * options are options that were not freed.
 */
phalanx_error *phalanx_options_set_chunk_size(phalanx_options *options, uint64_t bytes);

/**
 * Sets whether an output replaces an existing file.
 *
 * # Safety
 * options are options that were not freed.
 */
phalanx_error *phalanx_options_set_overwrite(phalanx_options *options, bool overwrite);

/**
 * Sets whether an output is on the disk before it gets its name. Otherwise it may be lost in a power cut.
 *
 * # Safety
 * options are options that were not freed.
 */
phalanx_error *phalanx_options_set_sync(phalanx_options *options,
                                        bool sync);

/**
 * Frees options. Null is allowed.
 *
 * # Safety
 * options is null, or options that were not freed. They are not used afterwards.
 */
void phalanx_options_free(phalanx_options *options);

/**
 * Opens a protected file, and authenticates its header and its length. ways may be null: then the keys of the keyring are
 * tried.
 *
 * # Safety
 * path is a string that ends with a zero byte, ways is null or ways that were not freed, and reader leads to room for
 * a pointer.
 */
phalanx_error *phalanx_open(const char *path,
                            const phalanx_ways *ways,
                            phalanx_reader **reader);

/**
 * The length of the content in bytes. It is authentic.
 *
 * # Safety
 * reader is a reader that was not closed.
 */
uint64_t phalanx_size(const phalanx_reader *reader);

/**
 * Reads len bytes of the content from offset on into buf, and sets read to how many there were: fewer only at the
 * end, and none after it. They are authentic. If it fails, what buf holds means nothing.
 *
 * # Safety
 * reader is a reader that was not closed, buf leads to len bytes, and read to room for a size.
 */
phalanx_error *phalanx_read_at(const phalanx_reader *reader,
                               uint64_t offset,
                               uint8_t *buf,
                               size_t len,
                               size_t *read);

/**
 * Closes a reader, and wipes what it holds. Null is allowed.
 *
 * # Safety
 * reader is null, or a reader that was not closed. It is not used afterwards.
 */
void phalanx_close(phalanx_reader *reader);

/**
 * No ways yet. If nothing is added that opens files, they open by the keys of the keyring, as with the command.
 *
 * # Safety
 * ways leads to room for a pointer.
 */
phalanx_error *phalanx_ways_new(phalanx_ways **ways);

/**
 * Adds a key. The caller may free its own afterwards.
 *
 * # Safety
 * ways are ways that were not freed, and key is a key that was not freed.
 */
phalanx_error *phalanx_ways_add_key(phalanx_ways *ways, const phalanx_key *key);

/**
 * Sets the password: any bytes but none. The caller wipes its own copy.
 *
 * # Safety
 * ways are ways that were not freed, and password leads to len bytes.
 */
phalanx_error *phalanx_ways_set_password(phalanx_ways *ways, const uint8_t *password, size_t len);

/**
 * Adds a public key of age ("age1…") or SSH ("ssh-ed25519 …"), for new files.
 *
 * # Safety
 * ways are ways that were not freed, and recipient is a string that ends with a zero byte.
 */
phalanx_error *phalanx_ways_add_recipient(phalanx_ways *ways, const char *recipient);

/**
 * Adds a file of identities of age, or of a private key of SSH, to open files with. No output of this process replaces it.
 *
 * # Safety
 * ways are ways that were not freed, and path is a string that ends with a zero byte.
 */
phalanx_error *phalanx_ways_add_identity_file(phalanx_ways *ways,
                                              const char *path);

/**
 * Adds the URI of a key service, as the command's --kms takes it. It is asked only where a file needs it.
 *
 * # Safety
 * ways are ways that were not freed, and uri is a string that ends with a zero byte.
 */
phalanx_error *phalanx_ways_add_service(phalanx_ways *ways,
                                        const char *uri);

/**
 * Wipes and frees ways. Null is allowed.
 *
 * # Safety
 * ways is null, or ways that were not freed. They are not used afterwards.
 */
void phalanx_ways_free(phalanx_ways *ways);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PHALANX_H */
