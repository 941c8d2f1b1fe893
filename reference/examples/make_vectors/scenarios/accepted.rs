//! Files that open.

use super::*;

pub(super) fn add(all: &mut Scenarios) {
    lengths(all);
    suites_and_chunk_sizes(all);
    passwords(all);
    slots(all);
    counters(all);
    worked_example(all);
}

fn lengths(all: &mut Scenarios) {
    let lengths = [
        (12, 0, "one chunk without ciphertext"),
        (12, 1, "one byte"),
        (12, 15, "a byte less than a block"),
        (12, 16, "one block"),
        (12, 17, "a byte more than a block"),
        (12, 511, "a byte less than a slice"),
        (12, 512, "one slice"),
        (12, 513, "two slices, the second of one byte"),
        (12, 4095, "a byte less than a chunk"),
        (12, 4096, "exactly one chunk"),
        (12, 4097, "the last chunk holds one byte"),
        (12, 8192, "exactly two chunks"),
        (12, 8193, "three chunks, the last of one byte"),
        (12, 9000, "three chunks, the last ragged"),
        (13, 0, "one chunk without ciphertext"),
        (13, 1024, "one slice"),
        (13, 4096, "four slices, half a chunk"),
        (13, 4097, "five slices, the last of one byte"),
        (13, 8191, "a byte less than a chunk"),
        (13, 8192, "exactly one chunk of eight slices"),
        (13, 8193, "the last chunk holds one byte"),
        (13, 16384, "exactly two chunks"),
        (13, 17000, "three chunks, the last ragged"),
    ];
    for suite in [1, 4, 5] {
        for (chunk_log2, len, what) in lengths {
            let name = format!("{}len-{len}-chunk-{chunk_log2}", prefix(suite));
            let comment = format!("{len} bytes in chunks of 2^{chunk_log2}: {what}");
            let recipe = for_len(recipe(&name, suite, chunk_log2, vec![key_slot()]), len);
            all.accept(&name, &comment, Hand::key(), &recipe, &painted(len));
        }
    }
}

fn suites_and_chunk_sizes(all: &mut Scenarios) {
    let suites = [
        (1, "AES-256-CTR"),
        (2, "AES-192-CTR"),
        (3, "AES-128-CTR"),
        (4, "AES-256-GCM"),
        (5, "AES-256-CTR with TurboSHAKE256"),
    ];
    for (suite, cipher) in suites {
        for len in [0, 33, 5000] {
            let name = format!("suite-{suite}-len-{len}");
            let comment = format!("suite {suite}, {cipher}: {len} bytes in chunks of 2^12");
            let recipe = for_len(recipe(&name, suite, 12, vec![key_slot()]), len);
            all.accept(&name, &comment, Hand::key(), &recipe, &painted(len));
        }
    }
    for suite in [1, 4, 5] {
        for (chunk_log2, len) in [(14, 9000), (15, 9000), (16, 12288), (20, 5000), (24, 100)] {
            let name = format!("{}chunk-{chunk_log2}-len-{len}", prefix(suite));
            let comment = format!("chunks of 2^{chunk_log2}: {len} bytes in one chunk");
            let recipe = for_len(recipe(&name, suite, chunk_log2, vec![key_slot()]), len);
            all.accept(&name, &comment, Hand::key(), &recipe, &painted(len));
        }
    }
}

fn passwords(all: &mut Scenarios) {
    for (name, comment, password) in [
        ("password", "a password slot", PASSWORD),
        ("password-empty", "a password of 0 bytes", b""),
        ("password-not-utf8", "a password's bytes are used as they are", b"\xff\xfe\x00\x80\n"),
        ("password-nul", "a NUL does not end a password, and a line feed is part of it", b"before\0after\n"),
        ("password-long", "a password of 1000 bytes", &painted(1000)),
    ] {
        let recipe = for_len(recipe(name, 1, 12, vec![password_slot(password, CHEAP)]), 100);
        all.accept(name, comment, Hand::password(password), &recipe, &painted(100));
    }
    for (memory, passes, lanes, comment) in [
        (8, 1, 1, "the least that Argon2id can spend"),
        (64, 2, 4, "two passes over 64 KiB in four lanes"),
        (37, 1, 2, "memory that is no multiple of 4 x lanes"),
        (24, 5, 3, "memory is exactly 8 x lanes"),
        (2040, 1, 255, "the most lanes"),
        (65536, 3, 4, "what writers should use: 64 MiB, 3 passes, 4 lanes"),
    ] {
        let name = format!("cost-{memory}-{passes}-{lanes}");
        let cost = Cost { memory, passes, lanes };
        let recipe = for_len(recipe(&name, 1, 12, vec![password_slot(PASSWORD, cost)]), 10);
        all.accept(&name, comment, Hand::password(PASSWORD), &recipe, &painted(10));
    }
}

fn slots(all: &mut Scenarios) {
    let mut accept = |name: &str, comment: &str, hand: Hand, slots: Vec<Slot>| {
        let recipe = for_len(recipe(name, 1, 12, slots), 100);
        all.accept(name, comment, hand, &recipe, &painted(100));
    };
    let mixed = || {
        vec![
            password_slot(b"one", CHEAP),
            Slot::Key { key: random("key one") },
            padding(7),
            password_slot(PASSWORD, CHEAP),
            key_slot(),
        ]
    };
    accept("slots-mixed-by-key", "slots of both kinds, opened by the last, a key", Hand::key(), mixed());
    accept("slots-mixed-by-password", "slots of both kinds, opened by a password", Hand::password(PASSWORD), mixed());
    let both = Hand::wrong_key().and_password(PASSWORD);
    accept(
        "slots-mixed-wrong-key-and-password",
        "a wrong key at hand does not keep a password from opening",
        both,
        mixed(),
    );
    let both = Hand::key().and_password(b"wrong");
    accept("slots-mixed-key-and-wrong-password", "a wrong password does not keep a key from opening", both, mixed());

    let four = [b"one", b"two", b"six", b"ten"].map(|password| password_slot(password, CHEAP)).to_vec();
    accept("password-slots-4", "as many password slots as may be, opened by the last", Hand::password(b"ten"), four);
    let twice = vec![password_slot(b"one", CHEAP), password_slot(PASSWORD, CHEAP)];
    accept(
        "password-second-slot",
        "a wrong password's slot first, the right one second",
        Hand::password(PASSWORD),
        twice,
    );
    let twice = vec![other_key_slot(), key_slot()];
    accept("key-second-slot", "a slot for another key first, the right one second", Hand::key(), twice);

    let file_key = random("key-slot-damaged-then-right: file key");
    let mut damaged = reference::write_slot(&key_slot(), &file_key)[3..].to_vec();
    damaged[55] ^= 1;
    let slots = vec![raw(2, &damaged), key_slot()];
    accept(
        "key-slot-damaged-then-right",
        "a slot whose unwrapping fails, then the right one for the same key",
        Hand::key(),
        slots,
    );
    let other = reference::write_slot(&key_slot(), &random("another file key"))[3..].to_vec();
    let slots = vec![raw(2, &other), key_slot()];
    let comment =
        "a slot that unwraps a file key by which the header tag is wrong, then the right one for the same key";
    accept("key-slot-of-another-file-then-right", comment, Hand::key(), slots);
    let other = reference::write_slot(&password_slot(PASSWORD, CHEAP), &random("another file key"))[3..].to_vec();
    let slots = vec![raw(1, &other), password_slot(PASSWORD, CHEAP)];
    let comment =
        "a slot that unwraps a file key by which the header tag is wrong, then the right one for the same password";
    accept("password-slot-of-another-file-then-right", comment, Hand::password(PASSWORD), slots);

    let slots = vec![key_slot(), raw(2, &damaged)];
    accept(
        "key-slot-right-then-damaged",
        "the right slot first: what comes after it does not matter",
        Hand::key(),
        slots,
    );
    let slots = vec![password_slot(PASSWORD, CHEAP), password_slot(b"two", CHEAP)];
    let comment = "the right slot first: what comes after it does not matter";
    accept("password-slot-right-then-other", comment, Hand::password(PASSWORD), slots);

    accept("padding-0", "a padding slot without body", Hand::key(), vec![padding(0), key_slot()]);
    accept("padding-100", "a padding slot after the key", Hand::key(), vec![key_slot(), padding(100)]);
    let slots = vec![raw(0, &painted(300)), key_slot()];
    accept("padding-not-zeros", "the body of padding means nothing", Hand::key(), slots);
    let slots = vec![key_slot(), padding(65536 - 50 - 59 - 3)];
    accept("header-len-65536", "the longest header", Hand::key(), slots);
    for kind in [4, 5, 127, 255] {
        let name = format!("unknown-slot-{kind}");
        let slots = vec![raw(kind, &painted(65)), raw(kind, b""), key_slot()];
        accept(&name, "slots of a type that version 1 does not know are skipped", Hand::key(), slots);
    }
    let slots = vec![key_slot(), raw(17, &[0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])];
    accept("unknown-slot-17", "a slot with a hole, which only files of volumes have, is skipped", Hand::key(), slots);
    for len in [17, 100, 16400] {
        let comment = "an age slot is passed over by whoever has no identity, whatever its age file is";
        accept(&format!("age-slot-{len}"), comment, Hand::key(), vec![raw(3, &painted(len)), key_slot()]);
    }
    let mut most = vec![padding(1); 62];
    most.push(other_key_slot());
    most.push(key_slot());
    accept("slots-64", "as many slots as may be, opened by the last", Hand::key(), most);

    let over = Cost { memory: 1 << 20, passes: 1000, lanes: 4 };
    let slots = || vec![raw(1, &password_body(over)), key_slot()];
    let comment = "a password slot above the limits does not matter to a reader that derives nothing from a password";
    accept("over-limit-opened-by-key", comment, Hand::key(), slots());
    let comment = "a password slot above the limits, a password and the right key at hand: the key opens it";
    accept("over-limit-opened-by-key-with-password", comment, Hand::key().and_password(PASSWORD), slots());
}

fn counters(all: &mut Scenarios) {
    for (name, nonce, comment) in [
        ("counter-all-ones", "ffffffffffffffffffffffffffffffff", "wraps to 0 at the second block"),
        ("counter-wraps-inside", "ffffffffffffffffffffffffffffff80", "wraps to 0 inside of a slice"),
        ("counter-carry-32", "0123456789abcdef01234567ffffffff", "carries out of the low 32 bits at the second block"),
        (
            "counter-carry-32-inside",
            "0123456789abcdef01234567fffffff9",
            "carries out of the low 32 bits inside of a slice",
        ),
        ("counter-carry-64", "0123456789abcdefffffffffffffffff", "carries out of the low 64 bits at the second block"),
        (
            "counter-carry-64-inside",
            "0123456789abcdefffffffffffffff01",
            "carries out of the low 64 bits at the end of a slice",
        ),
        ("counter-carry-96", "01234567fffffffffffffffffffffffe", "carries out of the low 96 bits at the third block"),
        ("counter-zero", "00000000000000000000000000000000", "begins at 0"),
    ] {
        let nonce = u128::from_str_radix(nonce, 16).unwrap().to_be_bytes();
        let recipe = Recipe { nonces: vec![nonce.to_vec()], ..recipe(name, 1, 13, vec![key_slot()]) };
        let comment = format!("the counter block {comment}");
        all.accept(name, &comment, Hand::key(), &recipe, &painted(4200));
    }
    for (name, byte) in [("ones", 0xFF), ("zeros", 0)] {
        let name = format!("suite-4-nonce-all-{name}");
        let recipe = Recipe { nonces: vec![vec![byte; 12]], ..recipe(&name, 4, 13, vec![key_slot()]) };
        let comment = "GCM counts in the 32 bits behind the nonce, from 1";
        all.accept(&name, comment, Hand::key(), &recipe, &painted(8192));
    }
}

/// The worked example of `docs/format.md`.
fn worked_recipe() -> (Recipe, [u8; 32], Vec<u8>) {
    let count = |from: u8| (0..16).map(|i| from + i).collect();
    let key: [u8; 32] = std::array::from_fn(|i| i as u8);
    let recipe = Recipe {
        file_key: std::array::from_fn(|i| 0x20 + i as u8),
        suite: 1,
        chunk_log2: 12,
        slots: vec![Slot::Key { key }],
        nonces: vec![count(0x40), count(0x50)],
    };
    (recipe, key, painted(4097))
}

fn worked_example(all: &mut Scenarios) {
    let (recipe, key, plaintext) = worked_recipe();
    let hand = Hand { key: Some(key), password: None };
    all.accept("worked-example", "the example that docs/format.md works out", hand, &recipe, &plaintext);
}
