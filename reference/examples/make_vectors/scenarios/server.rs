//! Ciphertexts and streams of the server (`docs/server-format.md`).

use super::*;
use reference::server::{Place, Record, ciphertext_text, write_answer};

/// The secret of a version.
fn secret(version: u32) -> [u8; 32] {
    random(&format!("secret of version {version}"))
}

fn place(name: &str, version: u32, user: &[u8], salt: Option<[u8; 32]>) -> Place {
    Place { secret: secret(version), name: name.to_owned(), version, user: user.to_vec(), salt }
}

pub(super) fn ciphertexts() -> Vec<Made> {
    let mut all = Ciphertexts(Vec::new());
    let salt = random::<32>("salt of a user");
    for suite in 1..=5 {
        for (mode, salt) in [("derived", None), ("shreddable", Some(salt))] {
            for len in [0, 1, 5000] {
                let at = place("orders", 1, b"ada", salt);
                all.accept(
                    &format!("suite-{suite}-{mode}-len-{len}"),
                    &format!("a text of {len} bytes, {mode} mode"),
                    &at,
                    suite,
                    b"v1",
                    len,
                );
            }
        }
    }
    let accepted: [(&str, &str, Place, &[u8]); 6] = [
        ("no-user", "no user", place("orders", 1, b"", None), b""),
        ("no-ad", "no associated data", place("orders", 1, b"ada", None), b""),
        ("version", "a version of four bytes", place("orders", 0x0403_0201, b"ada", None), b""),
        ("long-name", "the longest name of a key", place(&"k".repeat(128), 2, b"ada", None), b""),
        ("long-user", "the longest user", place("orders", 1, &painted(4096), None), b"v1"),
        ("any-user", "a user of bytes that are no text", place("orders", 1, &[0, 255, 128, 10], None), b"v1"),
    ];
    for (name, comment, at, ad) in accepted {
        all.accept(name, comment, &at, 1, ad, 20);
    }
    refused(&mut all, salt);
    all.0
}

fn refused(all: &mut Ciphertexts, salt: [u8; 32]) {
    for suite in [1, 4] {
        let at = place("orders", 1, b"ada", Some(salt));
        let sealed = at.seal(suite, b"v1", &nonce(suite, "refused"), &painted(20));
        let secret = at.secret;
        let with = |change: &dyn Fn(&mut Place)| {
            let mut other = at.clone();
            change(&mut other);
            other
        };
        let others = [
            ("other-secret", "another secret", with(&|at| at.secret = random("another secret"))),
            ("other-name", "another key of the same secret", with(&|at| at.name = "order".into())),
            ("other-user", "another user", with(&|at| at.user = b"adb".to_vec())),
            (
                "other-salt",
                "another salt, as after the user was shredded",
                with(&|at| at.salt = Some(random("a newer salt"))),
            ),
            ("other-mode", "the same key in derived mode", with(&|at| at.salt = None)),
        ];
        let prefix = prefix(suite);
        for (name, comment, at) in others {
            all.refuse(&format!("{prefix}{name}"), comment, &at, suite, b"v1", sealed.clone());
        }
        // The border between user and associated data.
        let moved = with(&|at| at.user = b"adav".to_vec());
        all.refuse(
            &format!("{prefix}moved-border"),
            "the first byte of the associated data is the user's last",
            &moved,
            suite,
            b"1",
            sealed.clone(),
        );
        all.refuse(&format!("{prefix}other-ad"), "other associated data", &at, suite, b"v2", sealed.clone());
        let newer = Place { secret, ..place("orders", 2, b"ada", Some(salt)) };
        let renumbered = [&2_u32.to_le_bytes()[..], &sealed[4..]].concat();
        all.refuse(
            &format!("{prefix}other-version"),
            "the version is altered, and has the same secret",
            &newer,
            suite,
            b"v1",
            renumbered,
        );
        let mut other_suite = sealed.clone();
        other_suite[4] = 2;
        all.refuse(
            &format!("{prefix}other-suite"),
            "the number of the suite is altered",
            &at,
            suite,
            b"v1",
            other_suite,
        );
        for len in [0, 4, 5, 5 + shape(suite).overhead() - 1, sealed.len() - 1] {
            all.refuse(&format!("{prefix}cut-to-{len}"), "it is cut", &at, suite, b"v1", sealed[..len].to_vec());
        }
    }
}

struct Ciphertexts(Vec<Made>);

impl Ciphertexts {
    fn accept(&mut self, name: &str, comment: &str, at: &Place, suite: u8, ad: &[u8], len: usize) {
        let nonce = nonce(suite, &format!("server: {name}"));
        let ciphertext = at.seal(suite, ad, &nonce, &painted(len));
        let more = [
            ("text", string(&ciphertext_text(&ciphertext))),
            ("context", hex(&at.context())),
            ("user_key", hex(&at.user_key())),
            ("nonce", hex(&nonce)),
            ("plaintext", hex(&painted(len))),
        ];
        self.add(name, comment, "ok", at, suite, ad, &ciphertext, &more);
    }

    fn refuse(&mut self, name: &str, comment: &str, at: &Place, suite: u8, ad: &[u8], ciphertext: Vec<u8>) {
        assert!(at.open(suite, ad, &ciphertext).is_err(), "{name}");
        self.add(name, comment, "altered", at, suite, ad, &ciphertext, &[]);
    }

    #[allow(clippy::too_many_arguments, reason = "they are the fields of a file")]
    fn add(
        &mut self,
        name: &str,
        comment: &str,
        expect: &str,
        at: &Place,
        suite: u8,
        ad: &[u8],
        ciphertext: &[u8],
        more: &[(&str, String)],
    ) {
        let mut fields = vec![
            ("comment", string(comment)),
            ("expect", string(expect)),
            ("secret", hex(&at.secret)),
            ("name", string(&at.name)),
            ("version", at.version.to_string()),
            ("user", hex(&at.user)),
        ];
        fields.extend(at.salt.as_ref().map(|salt| ("salt", hex(salt))));
        fields.extend([("suite", suite.to_string()), ("ad", hex(ad)), ("ciphertext", hex(ciphertext))]);
        fields.extend_from_slice(more);
        self.0.push((name.to_owned(), object(&fields)));
    }
}

pub(super) fn streams() -> Vec<Made> {
    let text = |i: usize| painted(20 * i);
    let users: [&[u8]; 3] = [b"ada", b"bob", b""];
    let sealed = |i: usize, version: u32, user: &[u8]| {
        place("orders", version, user, None).seal(1, b"v1", &nonce(1, &format!("stream {i} {version}")), &text(i))
    };
    let record =
        |user: &[u8], text: Vec<u8>| Record { key: b"orders".to_vec(), user: user.to_vec(), ad: b"v1".to_vec(), text };
    let texts: Vec<Record> = users.iter().enumerate().map(|(i, user)| record(user, text(i))).collect();
    let olds: Vec<Record> = users.iter().enumerate().map(|(i, user)| record(user, sealed(i, 1, user))).collect();
    let ciphertexts =
        |version| users.iter().enumerate().map(|(i, user)| (0, sealed(i, version, user))).collect::<Vec<_>>();
    let plain: Vec<(u16, Vec<u8>)> = (0..3).map(|i| (0, text(i))).collect();
    let refusal = |status: u16, reason: &str| (status, reason.as_bytes().to_vec());

    let mut unknown = olds.clone();
    unknown[1].key = b"none".to_vec();
    let mut altered = olds.clone();
    altered[0].text[40] ^= 1;
    let mixed = vec![plain[0].clone(), refusal(404, "encryption key not found"), plain[2].clone()];
    let tampered = vec![refusal(400, "cipher: message authentication failed"), plain[1].clone(), plain[2].clone()];
    let cut = refusal(400, "the stream breaks off inside a record");
    let long = refusal(413, "a key's name is longer than 128 bytes");
    let with = |answers: &[(u16, Vec<u8>)], last: &(u16, Vec<u8>)| [answers, std::slice::from_ref(last)].concat();
    vec![
        stream("nothing", "no record", "seal", &[], &[], &[]),
        stream("seal", "three users", "seal", &texts, &[], &ciphertexts(1)),
        stream("open", "three users", "open", &olds, &[], &plain),
        stream("rewrap", "three users, from version 1 to version 2", "rewrap", &olds, &[], &ciphertexts(2)),
        stream("unknown-key", "the second record names a key that does not exist", "open", &unknown, &[], &mixed),
        stream("not-authentic", "the first ciphertext is altered", "open", &altered, &[], &tampered),
        stream("cut-in-lengths", "it breaks off inside the lengths", "open", &olds, &[6, 0, 3], &with(&plain, &cut)),
        stream(
            "cut-in-text",
            "it breaks off inside a text",
            "open",
            &olds,
            &olds[0].write()[..70],
            &with(&plain, &cut),
        ),
        stream(
            "too-long",
            "lengths above the limits end it, whatever follows",
            "open",
            &olds,
            &[[255; 12].to_vec(), olds[0].write()].concat(),
            &with(&plain, &long),
        ),
    ]
}

/// A request of these records and some bytes more, and its answer.
fn stream(
    name: &str,
    comment: &str,
    action: &str,
    records: &[Record],
    more: &[u8],
    answers: &[(u16, Vec<u8>)],
) -> Made {
    let list = |objects: Vec<String>| {
        if objects.is_empty() { "[]".to_owned() } else { format!("[\n    {}\n  ]", objects.join(",\n    ")) }
    };
    let record = |record: &Record| {
        let [key, user, ad, text] = [&record.key, &record.user, &record.ad, &record.text].map(|part| hex(part));
        format!("{{ \"key\": {key}, \"user\": {user}, \"ad\": {ad}, \"text\": {text} }}")
    };
    let answer = |(status, bytes): &(u16, Vec<u8>)| format!("{{ \"status\": {status}, \"bytes\": {} }}", hex(bytes));
    let request: Vec<u8> = records.iter().flat_map(Record::write).chain(more.iter().copied()).collect();
    let whole: Vec<u8> = answers.iter().flat_map(|(status, bytes)| write_answer(*status, bytes)).collect();
    let fields = [
        ("comment", string(comment)),
        ("action", string(action)),
        ("secrets", format!("[{}, {}]", hex(&secret(1)), hex(&secret(2)))),
        ("records", list(records.iter().map(record).collect())),
        ("request", hex(&request)),
        ("answers", list(answers.iter().map(answer).collect())),
        ("answer", hex(&whole)),
    ];
    (name.to_owned(), object(&fields))
}
