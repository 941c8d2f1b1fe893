//! Files with slots of key services.

use super::*;

/// What a key service answers: the run key that it wrapped so, or a refusal.
struct Answer {
    uri: String,
    wrapped_run_key: Vec<u8>,
    run_key: Option<[u8; 32]>,
}

const URI: &str = "test://orders";
const OTHER: &str = "test://archive";

pub(super) fn all() -> Vec<Made> {
    let mut all = All::default();
    opened(&mut all);
    refused(&mut all);
    malformed(&mut all);
    all.0
}

fn opened(all: &mut All) {
    for suite in 1..=5 {
        let name = format!("suite-{suite}");
        all.add(&name, "a service opens it", "ok", suite, vec![slot(URI, 1)], &[answer(URI, 1)]);
    }
    let slots = || vec![slot(OTHER, 2), slot(URI, 1)];
    all.add("stranger-first", "a service that is not named is passed over", "ok", 1, slots(), &[answer(URI, 1)]);
    let refuses = || Answer { run_key: None, ..answer(OTHER, 2) };
    let comment = "a service that refuses does not stop the search";
    all.add("refusal-first", comment, "ok", 1, slots(), &[refuses(), answer(URI, 1)]);
    let comment = "a run key that does not open its slot does not stop the search";
    let wrong = || Answer { run_key: Some(random("another run key")), ..answer(OTHER, 2) };
    all.add("wrong-run-key-first", comment, "ok", 1, slots(), &[wrong(), answer(URI, 1)]);
    let same = vec![slot(URI, 2), slot(URI, 1)];
    let answers = [Answer { run_key: None, ..answer(URI, 2) }, answer(URI, 1)];
    all.add("two-run-keys", "two slots of one service with two run keys", "ok", 1, same, &answers);
    let comment = "two services wrap two run keys as the same bytes";
    let twin = service(OTHER, &wrapped(1), random("the run key of the twin"));
    let other = Answer { uri: OTHER.into(), ..answer(URI, 1) };
    let answers = [Answer { run_key: Some(random("the run key of the twin")), ..other }];
    all.add("same-bytes", comment, "ok", 1, vec![slot(URI, 1), twin], &answers);
    for uri in ["t".to_string(), format!("test://{}", "x".repeat(1017)), "test://!~%20?a=b&c#d".into()] {
        let comment = "URIs of 1 and of 1024 bytes, and with all kinds of characters";
        let answers = [Answer { uri: uri.clone(), ..answer(URI, 1) }];
        let slots = vec![service(&uri, &wrapped(1), run_key(1))];
        all.add(&format!("uri-{}", uri.len()), comment, "ok", 1, slots, &answers);
    }
    for len in [1, 4096] {
        let answers = [Answer { wrapped_run_key: painted(len), ..answer(URI, 1) }];
        let slots = vec![service(URI, &painted(len), run_key(1))];
        all.add(&format!("run-key-{len}"), "the shortest and the longest wrapped run key", "ok", 1, slots, &answers);
    }
    let mut eight: Vec<Slot> = (2..9).map(|n| slot(URI, n)).collect();
    eight.splice(0..0, (0..20).map(|_| slot(OTHER, 1)));
    eight.push(slot(URI, 1));
    let comment = "the eighth slot of a named service opens it; 20 of another do not count";
    all.add("eighth", comment, "ok", 1, eight, &[answer(URI, 1)]);
    let slots = vec![slot(URI, 1), key_slot()];
    let comment = "a key opens it, and no service is named";
    all.make("key-besides", comment, "ok", &recipe_of("key-besides", 1, slots), &[], Some(key()), None);
}

fn refused(all: &mut All) {
    all.add("not-named", "no service is named", "no-key", 1, vec![slot(URI, 1)], &[]);
    all.add("other-named", "another service is named", "no-key", 1, vec![slot(URI, 1)], &[answer(OTHER, 1)]);
    for uri in ["test://Orders", "TEST://orders", "test://orders/", "test://order"] {
        let answers = [Answer { uri: uri.into(), ..answer(URI, 1) }];
        let comment = format!("{uri} is named, which is another service");
        all.add(
            &format!("named-{}", uri.replace("://", "-").replace('/', "-")),
            &comment,
            "no-key",
            1,
            vec![slot(URI, 1)],
            &answers,
        );
    }
    let refuses = [Answer { run_key: None, ..answer(URI, 1) }];
    all.add("refusal", "the service refuses", "no-key", 1, vec![slot(URI, 1)], &refuses);
    let wrong = [Answer { run_key: Some(random("another run key")), ..answer(URI, 1) }];
    all.add("wrong-run-key", "the service gives another run key", "no-key", 1, vec![slot(URI, 1)], &wrong);
    let mut nine: Vec<Slot> = (2..10).map(|n| slot(URI, n)).collect();
    nine.push(slot(URI, 1));
    all.add("ninth", "only the ninth slot of the service would open it", "no-key", 1, nine, &[answer(URI, 1)]);

    // What is right in every other way, under a wrong key-encrypting key.
    let file_key = |name: &str| recipe_of(name, 1, Vec::new()).file_key;
    let with_kek =
        |name: &str, kek: [u8; 32]| body(URI.as_bytes(), &wrapped(1), &reference::wrap(&kek, &file_key(name)));
    let volume = reference::kmac256(&run_key(1), b"", 256, "phalanx v1 volume wrap").try_into().unwrap();
    for (name, comment, kek) in [
        ("kek-of-a-volume", "the file key is wrapped under the label of volumes", volume),
        ("kek-is-run-key", "the file key is wrapped under the run key itself", run_key(1)),
    ] {
        all.add(name, comment, "no-key", 1, vec![raw(4, &with_kek(name, kek))], &[answer(URI, 1)]);
    }
    // Bytes that are altered after the header was made.
    let at = 18 + 3;
    for (name, comment, place) in [
        ("altered-uri", "the URI is altered into that of another service, which gives the same run key", at + 2 + 12),
        ("altered-run-key", "the wrapped run key is altered, and the service gives the same", at + 2 + URI.len() + 2),
        ("altered-wrapped", "the wrapped file key is altered", at + 2 + URI.len() + 2 + 60 + 39),
    ] {
        let answers = [answer(URI, 1)].into_iter().chain([
            Answer { uri: "test://orderr".into(), ..answer(URI, 1) },
            Answer { wrapped_run_key: altered(wrapped(1)), ..answer(URI, 1) },
        ]);
        let answers: Vec<_> = answers.collect();
        all.make(name, comment, "no-key", &recipe_of(name, 1, vec![slot(URI, 1)]), &answers, None, Some(place));
    }
}

/// Bodies that are no way in, although the service would give the right run key.
fn malformed(all: &mut All) {
    for (name, comment, uri) in [
        ("uri-0", "an empty URI", String::new()),
        ("uri-1025", "a URI of 1025 bytes", "x".repeat(1025)),
        ("uri-space", "a URI with a space", "test://a b".into()),
        ("uri-line", "a URI with a line feed", "test://a\nb".into()),
        ("uri-delete", "a URI with the byte 7f", "test://a\u{7f}".into()),
        ("uri-not-ascii", "a URI in UTF-8", "test://é".into()),
    ] {
        let answers = [Answer { uri: uri.clone(), ..answer(URI, 1) }];
        all.add(name, comment, "no-key", 1, vec![service(&uri, &wrapped(1), run_key(1))], &answers);
    }
    for len in [0, 4097] {
        let answers = [Answer { wrapped_run_key: painted(len), ..answer(URI, 1) }];
        let comment = format!("a wrapped run key of {len} bytes");
        let slots = vec![service(URI, &painted(len), run_key(1))];
        all.add(&format!("run-key-{len}"), &comment, "no-key", 1, slots, &answers);
    }
    let kek = reference::key_kek(&run_key(1));
    let wrap = |name: &str| reference::wrap(&kek, &recipe_of(name, 1, Vec::new()).file_key);
    let whole = |name: &str| body(URI.as_bytes(), &wrapped(1), &wrap(name));
    let longer = |name: &str| [whole(name), vec![0]].concat();
    all.add(
        "byte-after-wrapped",
        "a byte follows what is wrapped",
        "no-key",
        1,
        vec![raw(4, &longer("byte-after-wrapped"))],
        &[answer(URI, 1)],
    );
    let name = "big-endian";
    let swapped = |len: usize| (len as u16).to_be_bytes();
    let parts = [&swapped(URI.len())[..], URI.as_bytes(), &swapped(60), &wrapped(1), &wrap(name)].concat();
    all.add(name, "the lengths are big-endian", "no-key", 1, vec![raw(4, &parts)], &[answer(URI, 1)]);
    for len in [0, 1, 2, 14, 15, 16, 17, 45, 116] {
        let name = format!("cut-{len}-then-good");
        let slots = vec![raw(4, &whole(&name)[..len]), slot(URI, 1)];
        let comment = format!("a slot that is cut to {len} bytes is skipped, and the next one opens");
        all.add(&name, &comment, "ok", 1, slots, &[answer(URI, 1)]);
    }
}

#[derive(Default)]
struct All(Vec<Made>);

impl All {
    fn add(&mut self, name: &str, comment: &str, expect: &str, suite: u8, slots: Vec<Slot>, answers: &[Answer]) {
        self.make(name, comment, expect, &recipe_of(name, suite, slots), answers, None, None);
    }

    /// A scenario with a key at hand, or with a byte that is altered afterwards.
    #[allow(clippy::too_many_arguments, reason = "they are the fields of a scenario")]
    fn make(
        &mut self,
        name: &str,
        comment: &str,
        expect: &str,
        recipe: &Recipe,
        answers: &[Answer],
        key: Option<[u8; 32]>,
        altered: Option<usize>,
    ) {
        let mut file = reference::seal_file(recipe, &painted(LEN));
        altered.into_iter().for_each(|at| file[at] ^= 1);
        let answers: Vec<String> = answers.iter().map(Answer::json).collect();
        let mut fields = vec![("comment", string(comment)), ("expect", string(expect))];
        fields.extend(key.map(|key| ("key", hex(&key))));
        fields.push(("services", format!("[{}]", answers.join(", "))));
        if expect == "ok" {
            let header_len = reference::read_header(&file).expect("a sound header").len;
            fields.push(("suite", recipe.suite.to_string()));
            fields.push(("chunk_log2", recipe.chunk_log2.to_string()));
            fields.push(("header_len", header_len.to_string()));
            fields.push(("file_key", hex(&recipe.file_key)));
            fields.push(("nonces", format!("[{}]", hex(&recipe.nonces[0]))));
            fields.push(("plaintext", hex(&painted(LEN))));
        }
        fields.push(("file", hex(&file)));
        self.0.push((name.into(), object(&fields)));
    }
}

impl Answer {
    fn json(&self) -> String {
        let uri = format!("\"uri\": {}, \"wrapped_run_key\": {}", string(&self.uri), hex(&self.wrapped_run_key));
        let run_key = self.run_key.map(|run_key| format!(", \"run_key\": {}", hex(&run_key)));
        format!("{{{uri}{}}}", run_key.unwrap_or_default())
    }
}

/// The length of each plaintext.
const LEN: usize = 100;

fn recipe_of(name: &str, suite: u8, slots: Vec<Slot>) -> Recipe {
    for_len(recipe(&format!("services: {name}"), suite, 12, slots), LEN)
}

fn answer(uri: &str, n: u8) -> Answer {
    Answer { uri: uri.into(), wrapped_run_key: wrapped(n), run_key: Some(run_key(n)) }
}

fn slot(uri: &str, n: u8) -> Slot {
    service(uri, &wrapped(n), run_key(n))
}

fn service(uri: &str, wrapped_run_key: &[u8], run_key: [u8; 32]) -> Slot {
    Slot::Service { uri: uri.into(), wrapped_run_key: wrapped_run_key.into(), run_key }
}

fn run_key(n: u8) -> [u8; 32] {
    random(&format!("run key {n}"))
}

/// The run key as a service wrapped it: 60 bytes that mean nothing to anybody else.
fn wrapped(n: u8) -> Vec<u8> {
    let first: [u8; 32] = random(&format!("wrapped run key {n}"));
    [&first[..], &first[..28]].concat()
}

fn altered(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[0] ^= 1;
    bytes
}

fn body(uri: &[u8], wrapped_run_key: &[u8], wrapped: &[u8]) -> Vec<u8> {
    let len = |bytes: &[u8]| (bytes.len() as u16).to_le_bytes();
    [&len(uri)[..], uri, &len(wrapped_run_key), wrapped_run_key, wrapped].concat()
}
