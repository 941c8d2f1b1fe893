//! Messages (section 7).

use super::*;

pub(super) fn all() -> Vec<Made> {
    let mut all = Messages(Vec::new());
    let (none, some) = (&b""[..], &b"from: alice\0to: bob"[..]);
    for suite in 1..=3 {
        for len in [0, 1, 15, 16, 17, 4095, 4096, 4097, 9000] {
            // The long ones once a suite, with associated data in every other.
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
    let wrap = Message { nonce: [255; NONCE_LEN], ..Message::new("counter-all-ones", 1, none, 4200) };
    all.accept("the counter block wraps to 0 at the second block", &wrap);
    refused(&mut all, some);
    all.0
}

fn refused(all: &mut Messages, ad: &[u8]) {
    let good = || Message::new("good", 1, ad, 4100);
    let sealed = good().seal();
    let end = sealed.len() - 1;
    for (name, comment, at, bit) in [
        ("nonce-first-bit", "the first bit of the nonce is altered", 0, 0x80),
        ("nonce-last-bit", "the last bit of the nonce is altered", 15, 1),
        ("tag-first-bit", "the first bit of the tag is altered", 16, 0x80),
        ("tag-last-bit", "the last bit of the tag is altered", 47, 1),
        ("ciphertext-first-bit", "the first bit of the ciphertext is altered", 48, 0x80),
        ("ciphertext-slice-1", "a bit of the second slice is altered", 48 + 4096, 1),
        ("ciphertext-last-bit", "the last bit of the ciphertext is altered", end, 1),
    ] {
        let mut message = sealed.clone();
        message[at] ^= bit;
        all.refuse(&format!("flip-{name}"), comment, &good(), message);
    }
    for (len, comment) in [
        (0, "nothing is there"),
        (1, "one byte is there"),
        (16, "only the nonce is there"),
        (47, "the tag is cut"),
        (48, "only nonce and tag are there"),
        (48 + 4096, "cut at the end of a slice"),
        (end, "the last byte is missing"),
    ] {
        all.refuse(&format!("cut-to-{len}"), comment, &good(), sealed[..len].to_vec());
    }
    all.refuse("append-1-byte", "a byte of 0 after the message", &good(), [&sealed[..], &[0]].concat());

    let other = Message { key: random("another key"), ..good() };
    all.refuse("wrong-key", "another key", &other, sealed.clone());
    for suite in [2, 3] {
        let other = Message { suite, ..good() };
        all.refuse(&format!("wrong-suite-{suite}"), "sealed in suite 1", &other, sealed.clone());
    }
    let longer = [ad, b"\0"].concat();
    for (name, comment, other) in [
        ("ad-missing", "sealed with associated data, opened without", &b""[..]),
        ("ad-altered", "a bit of the associated data is altered", b"from: alice\0to: bOb"),
        ("ad-longer", "a NUL more of associated data", &longer),
    ] {
        let other = Message { ad: other.to_vec(), ..good() };
        all.refuse(name, comment, &other, sealed.clone());
    }
    let without = Message::new("ad-added", 1, b"", 20);
    let other = Message { ad: b"x".to_vec(), ..Message::new("ad-added", 1, b"", 20) };
    all.refuse("ad-added", "sealed without associated data, opened with", &other, without.seal());
    // What binds the message binds no chunk: a chunk's tag over the same bytes is no message's.
    let keys = reference::message_keys(&without.key, 1);
    let chunk = reference::seal_chunk(&keys, 0, 1, &without.nonce, &painted(20));
    all.refuse("tag-of-a-chunk", "the tag is that of a chunk under the same keys", &without, chunk);
    let keys = reference::file_keys(&without.key, 1);
    let ciphertext = reference::ctr(&keys.encrypt, &without.nonce, &painted(20));
    let bound = [&without.nonce[..], &reference::sha3_256(b""), &reference::sha3_256(&ciphertext)].concat();
    let tag = reference::kmac256(&keys.mac, &bound, 256, "phalanx v1 message");
    let message = [&without.nonce[..], &tag, &ciphertext].concat();
    all.refuse("keys-of-a-file", "sealed with the keys that a file of this key would have", &without, message);
}

struct Message {
    name: String,
    suite: u8,
    key: [u8; 32],
    ad: Vec<u8>,
    nonce: [u8; NONCE_LEN],
    len: usize,
}

impl Message {
    fn new(name: &str, suite: u8, ad: &[u8], len: usize) -> Self {
        let nonce = nonce(&format!("message {name}: nonce"));
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
