//! Messages (section 7).

use super::*;

pub(super) fn all() -> Vec<Made> {
    let mut all = Messages(Vec::new());
    let (none, some) = (&b""[..], &b"from: alice\0to: bob"[..]);
    for suite in 1..=5 {
        for len in [0, 1, 15, 16, 17, 4095, 4096, 4097, 9000] {
            // The long ones once for each suite, with associated data in every other one.
            for (which, ad) in [("no-ad", none), ("ad", some)] {
                if len > 17 && (which == "ad") != (suite == 2) {
                    continue;
                }
                let message = Message::new(&format!("suite-{suite}-len-{len}-{which}"), suite, ad, len);
                all.accept(&format!("a message of {len} bytes, associated data of {}", ad.len()), &message);
            }
        }
    }
    let long = Message::new("long-ad", 1, &painted(5000), 10);
    all.accept("associated data of 5000 bytes: one digest, whatever its length", &long);
    let wrap = Message { nonce: vec![255; 16], ..Message::new("counter-all-ones", 1, none, 4200) };
    all.accept("the counter block wraps to 0 at the second block", &wrap);
    let long = Message::new("suite-4-long-ad", 4, &painted(5000), 10);
    all.accept("associated data of 5000 bytes, which GCM takes as they are", &long);
    let ones = Message { nonce: vec![255; 12], ..Message::new("suite-4-nonce-all-ones", 4, none, 4200) };
    all.accept("GCM counts in the 32 bits behind the nonce, from 1", &ones);
    for suite in [1, 4, 5] {
        refused(&mut all, suite, some);
    }
    all.0
}

fn refused(all: &mut Messages, suite: u8, ad: &[u8]) {
    let (tag, head) = (shape(suite).nonce_len, shape(suite).overhead());
    let prefix = prefix(suite);
    let good = || Message::new(&format!("{prefix}good"), suite, ad, 4100);
    let sealed = good().seal();
    let end = sealed.len() - 1;
    for (name, comment, at, bit) in [
        ("nonce-first-bit", "the first bit of the nonce is altered", 0, 0x80),
        ("nonce-last-bit", "the last bit of the nonce is altered", tag - 1, 1),
        ("tag-first-bit", "the first bit of the tag is altered", tag, 0x80),
        ("tag-last-bit", "the last bit of the tag is altered", head - 1, 1),
        ("ciphertext-first-bit", "the first bit of the ciphertext is altered", head, 0x80),
        ("ciphertext-slice-1", "a bit of the second slice is altered", head + 4096, 1),
        ("ciphertext-last-bit", "the last bit of the ciphertext is altered", end, 1),
    ] {
        let mut message = sealed.clone();
        message[at] ^= bit;
        all.refuse(&format!("{prefix}flip-{name}"), comment, &good(), message);
    }
    for (len, comment) in [
        (0, "nothing is there"),
        (1, "one byte is there"),
        (tag, "only the nonce is there"),
        (head - 1, "the tag is cut"),
        (head, "only nonce and tag are there"),
        (head + 4096, "cut at the end of a slice"),
        (end, "the last byte is missing"),
    ] {
        all.refuse(&format!("{prefix}cut-to-{len}"), comment, &good(), sealed[..len].to_vec());
    }
    let longer = [&sealed[..], &[0]].concat();
    all.refuse(&format!("{prefix}append-1-byte"), "a byte of 0 after the message", &good(), longer);

    let other = Message { key: random("another key"), ..good() };
    all.refuse(&format!("{prefix}wrong-key"), "another key", &other, sealed.clone());
    for other in (1..=5).filter(|other| *other != suite) {
        let other = Message { suite: other, ..good() };
        let name = format!("{prefix}wrong-suite-{}", other.suite);
        all.refuse(&name, &format!("sealed in suite {suite}"), &other, sealed.clone());
    }
    let longer = [ad, b"\0"].concat();
    for (name, comment, other) in [
        ("ad-missing", "sealed with associated data, opened without", &b""[..]),
        ("ad-altered", "a bit of the associated data is altered", b"from: alice\0to: bOb"),
        ("ad-longer", "a NUL more of associated data", &longer),
    ] {
        let other = Message { ad: other.to_vec(), ..good() };
        all.refuse(&format!("{prefix}{name}"), comment, &other, sealed.clone());
    }
    let added = format!("{prefix}ad-added");
    let without = Message::new(&added, suite, b"", 20);
    let other = Message { ad: b"x".to_vec(), ..Message::new(&added, suite, b"", 20) };
    all.refuse(&added, "sealed without associated data, opened with", &other, without.seal());
    // A message's binding is not a chunk's: a chunk's tag over the same bytes is not a message's.
    let keys = reference::message_keys(&without.key, suite);
    let chunk = reference::seal_chunk(&keys, 12, 0, 1, &without.nonce, &painted(20));
    all.refuse(&format!("{prefix}tag-of-a-chunk"), "the tag is that of a chunk under the same keys", &without, chunk);
    let keys = reference::file_keys(&without.key, suite);
    let message = if suite == 4 {
        gcm(&keys, &without.nonce, b"", 20)
    } else {
        let ciphertext = reference::ctr(&keys.encrypt, without.nonce[..].try_into().unwrap(), &painted(20));
        let bound = [&without.nonce[..], &reference::sha3_256(b""), &digest(suite, &ciphertext)].concat();
        let tag = reference::kmac256(&keys.mac, &bound, 256, "phalanx v1 message");
        [&without.nonce[..], &tag, &ciphertext].concat()
    };
    let comment = "sealed with the keys that a file of this key would have";
    all.refuse(&format!("{prefix}keys-of-a-file"), comment, &without, message);
    if suite == 4 {
        let keys = reference::message_keys(&good().key, 4);
        let hashed = gcm(&keys, &good().nonce, &reference::sha3_256(ad), 4100);
        let comment = "sealed with the digest of the associated data in their place";
        all.refuse("suite-4-ad-hashed", comment, &good(), hashed);
    }
}

/// The digest of a slice in a suite with SHA-3.
fn digest(suite: u8, slice: &[u8]) -> Vec<u8> {
    if suite == 5 { reference::turboshake256(slice, 0x50, 32) } else { reference::sha3_256(slice).to_vec() }
}

struct Message {
    name: String,
    suite: u8,
    key: [u8; 32],
    ad: Vec<u8>,
    nonce: Vec<u8>,
    len: usize,
}

impl Message {
    fn new(name: &str, suite: u8, ad: &[u8], len: usize) -> Self {
        let nonce = nonce(suite, &format!("message {name}: nonce"));
        Self { name: name.to_string(), suite, key: key(), ad: ad.to_vec(), nonce, len }
    }

    fn seal(&self) -> Vec<u8> {
        reference::seal_message(&self.key, self.suite, &self.ad, &self.nonce, &painted(self.len))
    }

    fn fields(&self, comment: &str, expect: &str) -> Vec<(&'static str, String)> {
        vec![
            ("comment", string(comment)),
            ("expect", string(expect)),
            ("suite", self.suite.to_string()),
            ("key", hex(&self.key)),
            ("ad", hex(&self.ad)),
        ]
    }
}

struct Messages(Vec<Made>);

impl Messages {
    fn accept(&mut self, comment: &str, message: &Message) {
        let mut fields = message.fields(comment, "ok");
        fields.push(("nonce", hex(&message.nonce)));
        fields.push(("plaintext", hex(&painted(message.len))));
        fields.push(("message", hex(&message.seal())));
        self.0.push((message.name.clone(), object(&fields)));
    }

    /// A message that does not open with the key, suite and associated data of `with`.
    fn refuse(&mut self, name: &str, comment: &str, with: &Message, message: Vec<u8>) {
        let mut fields = with.fields(comment, "altered");
        fields.push(("message", hex(&message)));
        self.0.push((name.to_string(), object(&fields)));
    }
}
