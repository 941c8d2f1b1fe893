//! Steps 5 and 6 of section 5: cut, extended and altered files, whose header is sound.

use super::*;
use reference::CHUNK_OVERHEAD;

pub(super) fn add(all: &mut Scenarios) {
    flipped_bits(all);
    moved(all);
    cut(all);
    extended(all);
    wrongly_made(all);
    one_chunk(all);
}

/// What all of these begin with: suite 1, chunks of 4096, one key slot.
fn plan(name: &str) -> Recipe {
    recipe(name, 1, 12, vec![key_slot()])
}

/// A file's header, and its chunks.
fn parts(recipe: &Recipe, len: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let header = reference::seal_header(recipe);
    let file = reference::seal_file(recipe, &painted(len));
    let chunks = file[header.len()..].chunks(CHUNK_OVERHEAD + (1 << recipe.chunk_log2));
    (header, chunks.map(<[u8]>::to_vec).collect())
}

/// Three chunks of 4096, 4096 and 100 bytes.
fn three() -> (Recipe, Vec<u8>, Vec<Vec<u8>>) {
    let recipe = plan("three chunks");
    let (header, chunks) = parts(&recipe, 8292);
    (recipe, header, chunks)
}

fn join(header: &[u8], chunks: &[&Vec<u8>]) -> Vec<u8> {
    chunks.iter().fold(header.to_vec(), |file, chunk| [&file[..], chunk].concat())
}

fn flipped_bits(all: &mut Scenarios) {
    let (recipe, header, chunks) = three();
    for i in 0..3 {
        let end = chunks[i].len() - 1;
        for (name, what, at, bit) in [
            ("nonce-first-bit", "the first bit of the nonce", 0, 0x80),
            ("nonce-last-bit", "the last bit of the nonce", 15, 1),
            ("tag-first-bit", "the first bit of the tag", 16, 0x80),
            ("tag-last-bit", "the last bit of the tag", 47, 1),
            ("ciphertext-first-bit", "the first bit of the ciphertext", 48, 0x80),
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

fn moved(all: &mut Scenarios) {
    let (recipe, header, c) = three();
    let other = plan("another file");
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
    let recipe = plan("two whole chunks");
    let (header, c) = parts(&recipe, 8192);
    let comment = "chunks of the same length, both whole, change places";
    all.alter("whole-chunks-swapped", comment, &recipe, join(&header, &[&c[1], &c[0]]));
    let comment = "two whole chunks, the last left out";
    all.alter("whole-chunk-dropped", comment, &recipe, join(&header, &[&c[0]]));
}

fn cut(all: &mut Scenarios) {
    let (recipe, header, c) = three();
    let whole = join(&header, &c.iter().collect::<Vec<_>>());
    let (chunk_1, chunk_2) = (header.len() + c[0].len(), header.len() + c[0].len() + c[1].len());
    for (name, comment, len) in [
        ("cut-by-1", "the last byte is missing", whole.len() - 1),
        ("cut-last-chunk-to-49", "the last chunk is cut to one byte of ciphertext", chunk_2 + 49),
        ("cut-last-chunk-to-48", "the last chunk is cut to its nonce and tag", chunk_2 + 48),
        ("cut-last-chunk-to-47", "the last chunk is cut inside of its tag", chunk_2 + 47),
        ("cut-last-chunk-to-16", "the last chunk is cut to its nonce", chunk_2 + 16),
        ("cut-last-chunk-to-1", "the last chunk is cut to one byte", chunk_2 + 1),
        ("cut-chunk-1-by-1", "cut a byte before the end of chunk 1 of 3", chunk_2 - 1),
        ("cut-chunk-1-to-48", "chunk 1 of 3 is cut to its nonce and tag, and is the last", chunk_1 + 48),
        ("cut-chunk-0-by-1", "cut a byte before the end of chunk 0 of 3", chunk_1 - 1),
        ("cut-chunk-0-to-49", "chunk 0 is cut to one byte of ciphertext, and is the only one", header.len() + 49),
        ("cut-chunk-0-to-48", "chunk 0 is cut to its nonce and tag: the length of an empty file", header.len() + 48),
        ("cut-chunk-0-to-47", "chunk 0 is cut inside of its tag", header.len() + 47),
        ("cut-chunk-0-to-1", "chunk 0 is cut to one byte", header.len() + 1),
        ("no-chunk", "a header and no chunk", header.len()),
    ] {
        all.alter(name, comment, &recipe, whole[..len].to_vec());
    }
}

fn extended(all: &mut Scenarios) {
    for (what, len) in [("ragged", 4196), ("whole", 8192), ("empty", 0)] {
        let recipe = plan(&format!("extended {what}"));
        let file = reference::seal_file(&recipe, &painted(len));
        for (extra, bytes) in [("1-byte", vec![0]), ("48-bytes", vec![0; 48]), ("49-bytes", vec![0; 49])] {
            let comment = format!("{extra} of zeros after a last chunk that is {what}").replacen('-', " ", 1);
            all.alter(&format!("append-{extra}-after-{what}"), &comment, &recipe, [&file[..], &bytes].concat());
        }
    }
    let recipe = plan("extended by itself");
    let file = reference::seal_file(&recipe, &painted(4096));
    let comment = "a whole file after the file";
    all.alter("append-file", comment, &recipe, [&file[..], &file].concat());
    let keys = reference::file_keys(&recipe.file_key, 1);
    let more = reference::seal_chunk(&keys, 1, 1, &recipe.nonces[1], &painted(50));
    let comment = "a chunk, itself sound, after one that says that it is the last";
    all.alter("append-sound-chunk", comment, &recipe, [&file[..], &more].concat());
}

/// Files that somebody made who has the file key: every tag is right over something.
fn wrongly_made(all: &mut Scenarios) {
    let mut make = |name: &str, comment: &str, chunks: &[(u64, u8, usize)]| {
        let recipe = plan(name);
        let keys = reference::file_keys(&recipe.file_key, recipe.suite);
        let mut file = reference::seal_header(&recipe);
        for (i, (index, last, len)) in chunks.iter().enumerate() {
            file.extend(reference::seal_chunk(&keys, *index, *last, &recipe.nonces[i], &painted(*len)));
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

/// Files of one chunk: two slices, or none.
fn one_chunk(all: &mut Scenarios) {
    let recipe = recipe("two slices", 1, 13, vec![key_slot()]);
    let (header, c) = parts(&recipe, 8192);
    let (at, middle) = (CHUNK_OVERHEAD, CHUNK_OVERHEAD + 4096);
    let swapped = [&header[..], &c[0][..at], &c[0][middle..], &c[0][at..middle]].concat();
    all.alter("slices-swapped", "the two slices of a chunk change places", &recipe, swapped);
    let cut = [&header[..], &c[0][..middle]].concat();
    all.alter("slice-dropped", "a chunk of two slices is cut to one", &recipe, cut);

    let recipe = plan("empty");
    let (header, c) = parts(&recipe, 0);
    for (name, comment, at) in [("nonce", "the nonce", 0), ("tag", "the tag", 47)] {
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
