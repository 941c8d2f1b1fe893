//! Steps 5 and 6 of section 5: truncated, extended and altered files with a valid header.

use super::*;

pub(super) fn add(all: &mut Scenarios) {
    for suite in [1, 4, 5] {
        let mut of_suite = OfSuite { all, suite };
        flipped_bits(&mut of_suite);
        moved(&mut of_suite);
        cut(&mut of_suite);
        extended(&mut of_suite);
        wrongly_made(&mut of_suite);
        empty(&mut of_suite);
    }
    slices(all);
    digests(all);
    not_as_suite_4_is(all);
}

/// The scenarios of one suite.
struct OfSuite<'a> {
    all: &'a mut Scenarios,
    suite: u8,
}

impl OfSuite<'_> {
    /// The common recipe: chunks of 4096, one key slot.
    fn plan(&self, name: &str) -> Recipe {
        recipe(&format!("{}{name}", prefix(self.suite)), self.suite, 12, vec![key_slot()])
    }

    fn alter(&mut self, name: &str, comment: &str, recipe: &Recipe, file: Vec<u8>) {
        self.all.alter(&format!("{}{name}", prefix(self.suite)), comment, recipe, file);
    }

    /// The lengths of a nonce, and of nonce and tag.
    fn lens(&self) -> (usize, usize) {
        (shape(self.suite).nonce_len, shape(self.suite).overhead())
    }
}

/// A file's header, and its chunks.
fn parts(recipe: &Recipe, len: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let header = reference::seal_header(recipe);
    let file = reference::seal_file(recipe, &painted(len));
    let chunks = file[header.len()..].chunks(shape(recipe.suite).overhead() + (1 << recipe.chunk_log2));
    (header, chunks.map(<[u8]>::to_vec).collect())
}

/// Three chunks of 4096, 4096 and 100 bytes.
fn three(all: &OfSuite) -> (Recipe, Vec<u8>, Vec<Vec<u8>>) {
    let recipe = all.plan("three chunks");
    let (header, chunks) = parts(&recipe, 8292);
    (recipe, header, chunks)
}

fn join(header: &[u8], chunks: &[&Vec<u8>]) -> Vec<u8> {
    chunks.iter().fold(header.to_vec(), |file, chunk| [&file[..], chunk].concat())
}

fn flipped_bits(all: &mut OfSuite) {
    let (recipe, header, chunks) = three(all);
    let (tag, ciphertext) = all.lens();
    for i in 0..3 {
        let end = chunks[i].len() - 1;
        for (name, what, at, bit) in [
            ("nonce-first-bit", "the first bit of the nonce", 0, 0x80),
            ("nonce-last-bit", "the last bit of the nonce", tag - 1, 1),
            ("tag-first-bit", "the first bit of the tag", tag, 0x80),
            ("tag-last-bit", "the last bit of the tag", ciphertext - 1, 1),
            ("ciphertext-first-bit", "the first bit of the ciphertext", ciphertext, 0x80),
            ("ciphertext-last-bit", "the last bit of the ciphertext", end, 1),
        ] {
            let mut flipped = chunks.clone();
            flipped[i][at] ^= bit;
            let file = join(&header, &flipped.iter().collect::<Vec<_>>());
            all.alter(
                &format!("flip-{name}-chunk-{i}"),
                &format!("{what} of chunk {i} of 3 is altered"),
                &recipe,
                file,
            );
        }
    }
}

fn moved(all: &mut OfSuite) {
    let (recipe, header, c) = three(all);
    let other = all.plan("another file");
    let other_key_of_chunk_1 = parts(&other, 8292).1;
    for (name, comment, chunks) in [
        ("chunks-0-1-swapped", "chunks 0 and 1 of 3 change places", vec![&c[1], &c[0], &c[2]]),
        (
            "chunks-1-2-swapped",
            "chunks 1 and 2 of 3 change places, so that the short one is not last",
            vec![&c[0], &c[2], &c[1]],
        ),
        ("chunk-0-repeated", "chunk 0 stands twice", vec![&c[0], &c[0], &c[1], &c[2]]),
        ("chunk-0-in-place-of-1", "chunk 0 stands in the place of chunk 1", vec![&c[0], &c[0], &c[2]]),
        ("chunk-2-repeated", "the last chunk stands twice", vec![&c[0], &c[1], &c[2], &c[2]]),
        ("chunk-0-dropped", "chunk 0 of 3 is left out", vec![&c[1], &c[2]]),
        ("chunk-1-dropped", "chunk 1 of 3 is left out", vec![&c[0], &c[2]]),
        ("chunk-2-dropped", "the last chunk of 3 is left out: cut at the edge of a chunk", vec![&c[0], &c[1]]),
        ("chunks-1-2-dropped", "the last two chunks of 3 are left out", vec![&c[0]]),
        ("only-last-chunk", "only the last chunk of 3 is there", vec![&c[2]]),
        (
            "chunk-0-of-another-file",
            "chunk 0 is that of another file of the same key",
            vec![&other_key_of_chunk_1[0], &c[1], &c[2]],
        ),
        (
            "chunk-2-of-another-file",
            "the last chunk is that of another file of the same key",
            vec![&c[0], &c[1], &other_key_of_chunk_1[2]],
        ),
        (
            "header-of-another-file",
            "all chunks are those of another file of the same key",
            other_key_of_chunk_1.iter().collect(),
        ),
    ] {
        all.alter(name, comment, &recipe, join(&header, &chunks));
    }
    let recipe = all.plan("two whole chunks");
    let (header, c) = parts(&recipe, 8192);
    let comment = "chunks of the same length, both whole, change places";
    all.alter("whole-chunks-swapped", comment, &recipe, join(&header, &[&c[1], &c[0]]));
    let comment = "two whole chunks, the last left out";
    all.alter("whole-chunk-dropped", comment, &recipe, join(&header, &[&c[0]]));
}

fn cut(all: &mut OfSuite) {
    let (recipe, header, c) = three(all);
    let whole = join(&header, &c.iter().collect::<Vec<_>>());
    let (nonce, head) = all.lens();
    let (chunk_1, chunk_2) = (header.len() + c[0].len(), header.len() + c[0].len() + c[1].len());
    let to = |what: &str, len: usize| format!("cut-{what}-to-{len}");
    for (name, comment, len) in [
        ("cut-by-1".into(), "the last byte is missing", whole.len() - 1),
        (to("last-chunk", head + 1), "the last chunk is cut to one byte of ciphertext", chunk_2 + head + 1),
        (to("last-chunk", head), "the last chunk is cut to its nonce and tag", chunk_2 + head),
        (to("last-chunk", head - 1), "the last chunk is cut inside of its tag", chunk_2 + head - 1),
        (to("last-chunk", nonce), "the last chunk is cut to its nonce", chunk_2 + nonce),
        (to("last-chunk", 1), "the last chunk is cut to one byte", chunk_2 + 1),
        ("cut-chunk-1-by-1".into(), "cut a byte before the end of chunk 1 of 3", chunk_2 - 1),
        (to("chunk-1", head), "chunk 1 of 3 is cut to its nonce and tag, and is the last", chunk_1 + head),
        ("cut-chunk-0-by-1".into(), "cut a byte before the end of chunk 0 of 3", chunk_1 - 1),
        (
            to("chunk-0", head + 1),
            "chunk 0 is cut to one byte of ciphertext, and is the only one",
            header.len() + head + 1,
        ),
        (to("chunk-0", head), "chunk 0 is cut to its nonce and tag: the length of an empty file", header.len() + head),
        (to("chunk-0", head - 1), "chunk 0 is cut inside of its tag", header.len() + head - 1),
        (to("chunk-0", 1), "chunk 0 is cut to one byte", header.len() + 1),
        ("no-chunk".into(), "a header and no chunk", header.len()),
    ] {
        all.alter(&name, comment, &recipe, whole[..len].to_vec());
    }
}

fn extended(all: &mut OfSuite) {
    let head = all.lens().1;
    for (what, len) in [("ragged", 4196), ("whole", 8192), ("empty", 0)] {
        let recipe = all.plan(&format!("extended {what}"));
        let file = reference::seal_file(&recipe, &painted(len));
        for extra in [1, head, head + 1] {
            let bytes = if extra == 1 { "byte" } else { "bytes" };
            let comment = format!("{extra} {bytes} of zeros after a last chunk that is {what}");
            let file = [&file[..], &vec![0; extra]].concat();
            all.alter(&format!("append-{extra}-{bytes}-after-{what}"), &comment, &recipe, file);
        }
    }
    let recipe = all.plan("extended by itself");
    let file = reference::seal_file(&recipe, &painted(4096));
    let comment = "a whole file after the file";
    all.alter("append-file", comment, &recipe, [&file[..], &file].concat());
    let keys = reference::file_keys(&recipe.file_key, recipe.suite);
    let more = reference::seal_chunk(&keys, 12, 1, 1, &recipe.nonces[1], &painted(50));
    let comment = "a chunk, itself sound, after one that says that it is the last";
    all.alter("append-sound-chunk", comment, &recipe, [&file[..], &more].concat());
}

/// Files made by somebody who has the file key. Every tag is right over some bytes.
fn wrongly_made(all: &mut OfSuite) {
    let mut make = |name: &str, comment: &str, chunks: &[(u64, u8, usize)]| {
        let recipe = all.plan(name);
        let keys = reference::file_keys(&recipe.file_key, recipe.suite);
        let mut file = reference::seal_header(&recipe);
        for (i, (index, last, len)) in chunks.iter().enumerate() {
            file.extend(reference::seal_chunk(&keys, 12, *index, *last, &recipe.nonces[i], &painted(*len)));
        }
        all.alter(name, comment, &recipe, file);
    };
    make("final-1-in-first", "chunk 0 of 3 is sealed as the last", &[(0, 1, 4096), (1, 0, 4096), (2, 1, 100)]);
    make("final-1-in-middle", "chunk 1 of 3 is sealed as the last", &[(0, 0, 4096), (1, 1, 4096), (2, 1, 100)]);
    make(
        "final-0-in-last",
        "the last chunk of 3 is not sealed as the last",
        &[(0, 0, 4096), (1, 0, 4096), (2, 0, 100)],
    );
    make("final-0-in-only", "the only chunk is not sealed as the last", &[(0, 0, 100)]);
    make("final-0-in-empty", "the chunk of an empty file is not sealed as the last", &[(0, 0, 0)]);
    make("final-255", "final is 255 in the last chunk", &[(0, 0, 4096), (1, 255, 100)]);
    make("empty-last-chunk", "after a whole chunk comes an empty one, sealed as the last", &[(0, 0, 4096), (1, 1, 0)]);
    let comment = "after two whole chunks comes an empty one, sealed as the last";
    make("empty-third-chunk", comment, &[(0, 0, 4096), (1, 0, 4096), (2, 1, 0)]);
    make("empty-first-chunk", "an empty chunk comes first", &[(0, 0, 0), (1, 1, 100)]);
    make("short-middle-chunk", "a chunk that is not the last is short", &[(0, 0, 4096), (1, 0, 100), (2, 1, 4096)]);
    make("overlong-chunk", "the only chunk holds a byte more than a chunk may", &[(0, 1, 4097)]);
    make("index-from-1", "the chunks are counted from 1", &[(1, 0, 4096), (2, 1, 100)]);
    make("index-always-0", "each chunk is sealed as the first", &[(0, 0, 4096), (0, 1, 100)]);
    make("index-big-endian", "the index is sealed big-endian", &[(0, 0, 4096), (1u64.swap_bytes(), 1, 100)]);
    make("index-above-32-bits", "the index differs above its low 32 bits", &[(0, 0, 4096), (1 + (1 << 32), 1, 100)]);
}

/// A file of one chunk without ciphertext.
fn empty(all: &mut OfSuite) {
    let recipe = all.plan("empty");
    let (header, c) = parts(&recipe, 0);
    for (name, comment, at) in [("nonce", "the nonce", 0), ("tag", "the tag", all.lens().1 - 1)] {
        let mut chunk = c[0].clone();
        chunk[at] ^= 1;
        let file = join(&header, &[&chunk]);
        all.alter(
            &format!("empty-flip-{name}"),
            &format!("{comment} of an empty file's chunk is altered"),
            &recipe,
            file,
        );
    }
}

/// A file of one chunk that has two slices.
fn slices(all: &mut Scenarios) {
    let recipe = recipe("two slices", 1, 13, vec![key_slot()]);
    let (header, c) = parts(&recipe, 2048);
    let at = shape(1).overhead();
    let middle = at + 1024;
    let swapped = [&header[..], &c[0][..at], &c[0][middle..], &c[0][at..middle]].concat();
    all.alter("slices-swapped", "the two slices of a chunk change places", &recipe, swapped);
    let cut = [&header[..], &c[0][..middle]].concat();
    all.alter("slice-dropped", "a chunk of two slices is cut to one", &recipe, cut);
}

/// One chunk each, whose tag covers other digests of the ciphertext than its suite and chunk size require.
fn digests(all: &mut Scenarios) {
    for (name, comment, suite, chunk_log2, made_for, authentication) in [
        ("slices-of-4096", "slices of 4096 bytes, in chunks of 2^12", 1, 12, 20, Authentication::Sha3),
        ("slices-of-512", "slices of 512 bytes, in chunks of 2^15", 1, 15, 12, Authentication::Sha3),
        ("slices-of-1024", "slices of 1024 bytes, in chunks of 2^12", 5, 12, 13, Authentication::TurboShake),
        ("turboshake-in-suite-1", "the digests are those of suite 5", 1, 12, 12, Authentication::TurboShake),
        ("sha3-in-suite-5", "the digests are those of suite 1", 5, 12, 12, Authentication::Sha3),
    ] {
        let recipe = recipe(name, suite, chunk_log2, vec![key_slot()]);
        let mut keys = reference::file_keys(&recipe.file_key, suite);
        keys.suite.authentication = authentication;
        let chunk = reference::seal_chunk(&keys, made_for, 0, 1, &recipe.nonces[0], &painted(4096));
        all.alter(name, comment, &recipe, [reference::seal_header(&recipe), chunk].concat());
    }
}

/// One chunk each, in which suite 4 was confused with another suite.
fn not_as_suite_4_is(all: &mut Scenarios) {
    let mut alter = |name: &str, comment: &str, recipe: &Recipe, chunk: Vec<u8>| {
        all.alter(name, comment, recipe, [reference::seal_header(recipe), chunk].concat());
    };
    let aad = [0, 0, 0, 0, 0, 0, 0, 0, 1];
    let digest = reference::sha3_256(&aad);
    for (name, comment, keys_of, aad) in [
        ("aad-missing", "the chunk has no additional authenticated data", 4, &[][..]),
        ("aad-final-first", "final stands before the index", 4, &[1, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("aad-hashed", "the additional authenticated data are the digest of index and final", 4, &digest),
        ("keys-of-suite-1", "the chunk is sealed with the K_encrypt of suite 1", 1, &aad),
    ] {
        let name = format!("suite-4-{name}");
        let recipe = recipe(&name, 4, 12, vec![key_slot()]);
        let keys = reference::file_keys(&recipe.file_key, keys_of);
        alter(&name, comment, &recipe, gcm(&keys, &recipe.nonces[0], aad, 100));
    }
    let last = recipe("suite-4-tag-last", 4, 12, vec![key_slot()]);
    let mut chunk = gcm(&reference::file_keys(&last.file_key, 4), &last.nonces[0], &aad, 100);
    chunk[12..].rotate_left(16);
    alter("suite-4-tag-last", "the tag stands behind the ciphertext", &last, chunk);
    for (said, made) in [(1, 4), (4, 1)] {
        let name = format!("suite-{said}-chunk-of-suite-{made}");
        let comment = format!("the header says suite {said}, the chunk is one of suite {made}");
        let recipe = recipe(&name, said, 12, vec![key_slot()]);
        let keys = reference::file_keys(&recipe.file_key, made);
        let chunk = reference::seal_chunk(&keys, 12, 0, 1, &nonce(made, &name), &painted(100));
        alter(&name, &comment, &recipe, chunk);
    }
}
