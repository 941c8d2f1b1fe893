//! The scenarios, and the parts that they are made of.

mod accepted;
mod chunks;
mod headers;
mod keys;
mod message;
mod server;
mod services;
mod tree;
pub mod volume;

use phalanx_reference::{self as reference, Authentication, Cost, Keys, Recipe, Slot, Suite};
use serde_json::Value;
use std::fmt::Write;
use std::sync::OnceLock;

/// A file's name without its suffix, and its text.
pub type Made = (String, String);

/// All files of `vectors/format`, made once.
pub fn format() -> &'static [Made] {
    static MADE: OnceLock<Vec<Made>> = OnceLock::new();
    MADE.get_or_init(|| {
        let mut scenarios = Scenarios::default();
        accepted::add(&mut scenarios);
        headers::add(&mut scenarios);
        keys::add(&mut scenarios);
        chunks::add(&mut scenarios);
        unique(scenarios.0.iter().map(Scenario::json).collect())
    })
}

/// All files of `vectors/messages`, made once.
pub fn messages() -> &'static [Made] {
    static MADE: OnceLock<Vec<Made>> = OnceLock::new();
    MADE.get_or_init(|| unique(message::all()))
}

/// All files of `vectors/volume`, made once.
pub fn volumes() -> &'static [Made] {
    static MADE: OnceLock<Vec<Made>> = OnceLock::new();
    MADE.get_or_init(|| unique(volume::all()))
}

/// All files of `vectors/contents`, made once.
pub fn contents() -> &'static [Made] {
    static MADE: OnceLock<Vec<Made>> = OnceLock::new();
    MADE.get_or_init(|| unique(tree::contents()))
}

/// All files of `vectors/manifests`, made once.
pub fn manifests() -> &'static [Made] {
    static MADE: OnceLock<Vec<Made>> = OnceLock::new();
    MADE.get_or_init(|| unique(tree::manifests()))
}

/// All files of `vectors/services`, made once.
pub fn services() -> &'static [Made] {
    static MADE: OnceLock<Vec<Made>> = OnceLock::new();
    MADE.get_or_init(|| unique(services::all()))
}

/// All files of `vectors/server`, made once.
pub fn server() -> &'static [Made] {
    static MADE: OnceLock<Vec<Made>> = OnceLock::new();
    MADE.get_or_init(|| unique(server::ciphertexts()))
}

/// All files of `vectors/streams`, made once.
pub fn streams() -> &'static [Made] {
    static MADE: OnceLock<Vec<Made>> = OnceLock::new();
    MADE.get_or_init(|| unique(server::streams()))
}

/// All folders that the generator writes, each with its files.
pub fn folders() -> [(&'static str, &'static [Made]); 8] {
    [
        ("format", format()),
        ("messages", messages()),
        ("volume", volumes()),
        ("contents", contents()),
        ("manifests", manifests()),
        ("server", server()),
        ("services", services()),
        ("streams", streams()),
    ]
}

fn unique(made: Vec<Made>) -> Vec<Made> {
    let mut names: Vec<&str> = made.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|two| two[0] != two[1]), "two scenarios of one name");
    made
}

/// One file of `vectors/format`.
#[derive(Clone)]
struct Scenario {
    name: String,
    comment: String,
    file: Vec<u8>,
    password: Option<Vec<u8>>,
    key: Option<[u8; 32]>,
    expect: &'static str,
    /// The parts of the file, if its header opens, and the plaintext, if everything opens.
    made_of: Option<Recipe>,
    plaintext: Option<Vec<u8>>,
}

impl Scenario {
    fn json(&self) -> Made {
        let mut fields = vec![("comment", string(&self.comment)), ("expect", string(self.expect))];
        fields.extend(self.password.as_ref().map(|password| ("password", hex(password))));
        fields.extend(self.key.as_ref().map(|key| ("key", hex(key))));
        if let Some(recipe) = &self.made_of {
            let header_len = reference::read_header(&self.file).expect("a sound header").len;
            fields.push(("suite", recipe.suite.to_string()));
            fields.push(("chunk_log2", recipe.chunk_log2.to_string()));
            fields.push(("header_len", header_len.to_string()));
            fields.push(("file_key", hex(&recipe.file_key)));
            if let Some(plaintext) = &self.plaintext {
                let nonces: Vec<String> = recipe.nonces.iter().map(|nonce| hex(nonce)).collect();
                fields.push(("nonces", format!("[{}]", nonces.join(", "))));
                fields.push(("plaintext", hex(plaintext)));
            }
        }
        fields.push(("file", hex(&self.file)));
        (self.name.clone(), object(&fields))
    }
}

/// The scenarios so far.
#[derive(Default)]
struct Scenarios(Vec<Scenario>);

impl Scenarios {
    /// A file that opens with the keys and passwords of `hand`.
    fn accept(&mut self, name: &str, comment: &str, hand: Hand, recipe: &Recipe, plaintext: &[u8]) {
        let (file, recipe) = (reference::seal_file(recipe, plaintext), recipe.clone());
        self.add(name, comment, "ok", hand, file);
        let scenario = self.0.last_mut().unwrap();
        (scenario.made_of, scenario.plaintext) = (Some(recipe), Some(plaintext.to_vec()));
    }

    /// A file that does not open.
    fn refuse(&mut self, name: &str, comment: &str, expect: &'static str, hand: Hand, file: Vec<u8>) {
        assert_ne!(expect, "ok");
        self.add(name, comment, expect, hand, file);
    }

    /// A file whose header opens with [`key`], and whose chunks do not.
    fn alter(&mut self, name: &str, comment: &str, recipe: &Recipe, file: Vec<u8>) {
        self.add(name, comment, "altered", Hand::key(), file);
        self.0.last_mut().unwrap().made_of = Some(recipe.clone());
    }

    fn add(&mut self, name: &str, comment: &str, expect: &'static str, hand: Hand, file: Vec<u8>) {
        let (name, comment) = (name.to_string(), comment.to_string());
        let Hand { password, key } = hand;
        self.0.push(Scenario { name, comment, file, password, key, expect, made_of: None, plaintext: None });
    }
}

/// The reader's keys and passwords.
#[derive(Clone, Default)]
struct Hand {
    password: Option<Vec<u8>>,
    key: Option<[u8; 32]>,
}

impl Hand {
    fn key() -> Self {
        Self { key: Some(key()), password: None }
    }

    fn wrong_key() -> Self {
        Self { key: Some(random("another key")), password: None }
    }

    fn password(password: &[u8]) -> Self {
        Self { key: None, password: Some(password.to_vec()) }
    }

    fn and_password(self, password: &[u8]) -> Self {
        Self { password: Some(password.to_vec()), ..self }
    }
}

/// The password of most scenarios.
const PASSWORD: &[u8] = b"correct horse battery staple";
/// The cost of most password slots: as low as possible.
const CHEAP: Cost = Cost { memory: 32, passes: 1, lanes: 1 };

/// The named key of most scenarios.
fn key() -> [u8; 32] {
    random("the key")
}

fn key_slot() -> Slot {
    Slot::Key { key: key() }
}

fn other_key_slot() -> Slot {
    Slot::Key { key: random("a key that nobody has") }
}

fn password_slot(password: &[u8], cost: Cost) -> Slot {
    Slot::Password { password: password.to_vec(), salt: random("salt"), cost }
}

/// The body of a password slot that nothing opens, made without spending its cost.
fn password_body(cost: Cost) -> Vec<u8> {
    let mut body = random::<16>("salt").to_vec();
    body.extend(cost.memory.to_le_bytes());
    body.extend(cost.passes.to_le_bytes());
    body.push(cost.lanes);
    body.extend(random::<32>("wrapped"));
    body.extend(random::<8>("more wrapped"));
    body
}

fn raw(kind: u8, body: &[u8]) -> Slot {
    Slot::Raw { kind, body: body.to_vec() }
}

fn padding(len: usize) -> Slot {
    raw(0, &vec![0; len])
}

/// A recipe with its own keys and nonces, for up to four chunks.
fn recipe(name: &str, suite: u8, chunk_log2: u8, slots: Vec<Slot>) -> Recipe {
    let nonces = (0..4).map(|i| nonce(suite, &format!("{name}: nonce {i}"))).collect();
    Recipe { file_key: random(&format!("{name}: file key")), suite, chunk_log2, slots, nonces }
}

/// Keeps one nonce for each chunk of a plaintext of this length.
fn for_len(mut recipe: Recipe, len: usize) -> Recipe {
    recipe.nonces.truncate(len.div_ceil(1 << recipe.chunk_log2).max(1));
    recipe
}

/// A chunk or message of suite 4, with any additional authenticated data.
fn gcm(keys: &Keys, nonce: &[u8], aad: &[u8], len: usize) -> Vec<u8> {
    let (ciphertext, tag) = reference::gcm_encrypt(&keys.encrypt, nonce.try_into().unwrap(), aad, &painted(len));
    [nonce, &tag, &ciphertext].concat()
}

/// Byte i is i mod 251, so that no two slices are equal.
fn painted(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// The first bytes of the SHA3-256 of a label.
fn random<const N: usize>(label: &str) -> [u8; N] {
    let digest = reference::sha3_256(format!("phalanx vectors: {label}").as_bytes());
    digest[..N].try_into().unwrap()
}

fn nonce(suite: u8, label: &str) -> Vec<u8> {
    random::<16>(label)[..shape(suite).nonce_len].to_vec()
}

fn shape(suite: u8) -> Suite {
    Suite::of(suite).expect("a known suite")
}

/// The prefix of the names of a suite's scenarios, if suite 1 has the same ones.
fn prefix(suite: u8) -> String {
    if suite == 1 { String::new() } else { format!("suite-{suite}-") }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        write!(text, "{byte:02x}").unwrap();
    }
    text + "\""
}

fn string(text: &str) -> String {
    Value::from(text).to_string()
}

/// A JSON object of fields that are JSON already, one on each line, in this order.
fn object(fields: &[(&str, String)]) -> String {
    let lines: Vec<String> = fields.iter().map(|(name, value)| format!("  \"{name}\": {value}")).collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}
