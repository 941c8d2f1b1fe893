//! The Phalanx format, version 1, written from `docs/format.md` alone: slow and meant to be read.
//!
//! It exists to compare other implementations with, and to make and check the files in `vectors/`. **Nobody ships it**: it is not
//! constant-time, it wipes no secrets, it draws no randomness (every nonce, salt and key is an argument), and it works on whole
//! files in memory. Argon2id is the only part that it borrows.
//!
//! Top-down: files, header and slots, chunks, messages, keys, then the primitives: KMAC256, Keccak, AES, GCM, key wrap, Argon2id.
//! "§" with a number alone is a section of `docs/format.md`.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

use argon2::{Algorithm, Argon2, AssociatedData, ParamsBuilder, Version};

/// `"PHALANX"`, the first 7 bytes of every file (§2.1).
pub const MAGIC: [u8; 7] = *b"PHALANX";
/// The version in byte 7 (§2.1).
pub const VERSION: u8 = 1;
/// The length of a header tag (§2.1).
pub const TAG_LEN: usize = 32;
/// What is hashed at once (§1).
pub const SLICE: usize = 4096;

/// Where the slots begin (§2.1).
const SLOTS_AT: usize = 18;
/// The lengths that a header may have (§2.1).
const HEADER_LENS: std::ops::RangeInclusive<u32> = 53..=65536;
/// At most so many password slots (§4).
const MAX_PASSWORD_SLOTS: usize = 4;
/// The most memory that a slot may ask for, in KiB: 1 GiB (§4).
const MAX_MEMORY: u64 = 1 << 20;
/// The most memory × passes that all password slots together may ask for: 1 GiB × 16 (§4).
const MAX_WORK: u64 = 16 << 20;

const FILE_KEYS: &str = "phalanx v1 file keys";
const MESSAGE_KEYS: &str = "phalanx v1 message keys";
const HEADER: &str = "phalanx v1 header";
const CHUNK: &str = "phalanx v1 chunk";
const MESSAGE: &str = "phalanx v1 message";
const KEY_WRAP: &str = "phalanx v1 key wrap";
const KEY_ID: &str = "phalanx v1 key id";

/// Why a file or message does not open, in the order of §5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Step 1: it does not begin with the magic and a version byte.
    NotPhalanx,
    /// Step 2: a version other than 1.
    Version,
    /// Step 3: a malformed header.
    Header,
    /// Step 4: no key at hand opens it, and to try the passwords would exceed the limits of §4.
    KdfLimit,
    /// Step 4: no key at hand opens it; or the header or a slot was altered, which nobody can tell apart.
    NoKey,
    /// Steps 5 and 6: it was cut, extended or altered.
    Altered,
}

// ---- Files (§2, §5) ------------------------------------------------------------------------------------------------

/// All that makes a file but its plaintext.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The file key (§3).
    pub file_key: [u8; 32],
    /// 1 to 4 (§2.2).
    pub suite: u8,
    /// The binary logarithm of a chunk's length (§2.1).
    pub chunk_log2: u8,
    /// The slots, in order (§4).
    pub slots: Vec<Slot>,
    /// One nonce a chunk, each as long as the suite's are.
    pub nonces: Vec<Vec<u8>>,
}

/// Writes a file (§2).
///
/// # Panics
/// Where the recipe has an unknown suite or too few nonces.
pub fn seal_file(recipe: &Recipe, plaintext: &[u8]) -> Vec<u8> {
    let keys = file_keys(&recipe.file_key, recipe.suite);
    let mut file = seal_header(recipe);
    let chunks = split(plaintext, 1 << recipe.chunk_log2);
    for (i, chunk) in chunks.iter().enumerate() {
        let last = i + 1 == chunks.len();
        file.extend(seal_chunk(&keys, i as u64, u8::from(last), &recipe.nonces[i], chunk));
    }
    file
}

/// Reads a file with the passwords and keys at hand, checking in the order of §5, and gives its plaintext.
pub fn open_file(file: &[u8], passwords: &[&[u8]], keys: &[[u8; 32]]) -> Result<Vec<u8>, Error> {
    let (header, file_key) = open_header(file, passwords, keys)?; // steps 1 to 4
    let keys = file_keys(&file_key, header.suite);

    // Step 5, length: every chunk but the last is whole; the last is not empty, unless it is the only one.
    let overhead = keys.suite.overhead();
    let chunks = split(&file[header.len..], overhead + (1 << header.chunk_log2));
    let last = chunks.len() - 1;
    if chunks[last].len() < overhead || (chunks[last].len() == overhead && last != 0) {
        return Err(Error::Altered);
    }

    // Step 6, chunks: nothing is given before all tags are found right.
    let open = |(i, chunk): (usize, &&[u8])| open_chunk(&keys, i as u64, u8::from(i == last), chunk);
    let opened: Option<Vec<Vec<u8>>> = chunks.iter().enumerate().map(open).collect();
    opened.map(|plaintexts| plaintexts.concat()).ok_or(Error::Altered)
}

/// Cuts bytes into parts of `len`, the last being shorter or not; of nothing there is one empty part.
fn split(bytes: &[u8], len: usize) -> Vec<&[u8]> {
    if bytes.is_empty() { vec![bytes] } else { bytes.chunks(len).collect() }
}

// ---- Header and slots (§2.1, §4) -----------------------------------------------------------------------------------

/// A slot to write (§4).
#[derive(Clone, Debug)]
pub enum Slot {
    /// Type 1.
    Password {
        /// The password's bytes, taken as they are.
        password: Vec<u8>,
        /// The salt.
        salt: [u8; 16],
        /// The work.
        cost: Cost,
    },
    /// Type 2.
    Key {
        /// The key that reader and writer share.
        key: [u8; 32],
    },
    /// Any type with any body: padding, types unknown, and malformed ones for tests.
    Raw {
        /// The type.
        kind: u8,
        /// The body.
        body: Vec<u8>,
    },
}

/// What Argon2id is to spend (RFC 9106 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Memory size m, in KiB.
    pub memory: u32,
    /// Number of passes t.
    pub passes: u32,
    /// Degree of parallelism p.
    pub lanes: u8,
}

/// A header that was read (§2.1), whose form is lawful and whose tag is unchecked.
#[derive(Clone, Debug)]
pub struct Header {
    /// The length of the whole header, tag included.
    pub len: usize,
    /// 1 to 4.
    pub suite: u8,
    /// The binary logarithm of a chunk's length.
    pub chunk_log2: u8,
    /// Each slot's type and body.
    pub slots: Vec<(u8, Vec<u8>)>,
}

/// Writes a header with its tag (§2.1).
pub fn seal_header(recipe: &Recipe) -> Vec<u8> {
    let slots: Vec<u8> = recipe.slots.iter().flat_map(|slot| write_slot(slot, &recipe.file_key)).collect();
    let mut header = Vec::new();
    header.extend(MAGIC);
    header.push(VERSION);
    header.extend(((SLOTS_AT + slots.len() + TAG_LEN) as u32).to_le_bytes());
    header.push(recipe.suite);
    header.push(recipe.chunk_log2);
    header.extend(0u16.to_le_bytes()); // flags
    header.extend((recipe.slots.len() as u16).to_le_bytes());
    header.extend(slots);
    header.extend(header_tag(&file_keys(&recipe.file_key, recipe.suite), &header));
    header
}

/// Writes a slot that holds the file key (§4).
pub fn write_slot(slot: &Slot, file_key: &[u8; 32]) -> Vec<u8> {
    let (kind, body) = match slot {
        Slot::Raw { kind, body } => (*kind, body.clone()),
        Slot::Password { password, salt, cost } => {
            let mut body = salt.to_vec();
            body.extend(cost.memory.to_le_bytes());
            body.extend(cost.passes.to_le_bytes());
            body.push(cost.lanes);
            body.extend(wrap(&password_kek(password, salt, *cost), file_key));
            (1, body)
        }
        Slot::Key { key } => (2, [key_id(key).to_vec(), wrap(&key_kek(key), file_key)].concat()),
    };
    let mut slot = vec![kind];
    slot.extend((body.len() as u16).to_le_bytes());
    slot.extend(body);
    slot
}

/// Steps 1 to 3 of §5: reads a file's header and checks its form.
pub fn read_header(file: &[u8]) -> Result<Header, Error> {
    if file.len() < 8 || file[..7] != MAGIC {
        return Err(Error::NotPhalanx);
    }
    if file[7] != VERSION {
        return Err(Error::Version);
    }
    let header_len = u32_at(file, 8).ok_or(Error::Header)?;
    if !HEADER_LENS.contains(&header_len) || file.len() < header_len as usize {
        return Err(Error::Header);
    }
    let header = &file[..header_len as usize];
    let (suite, chunk_log2) = (header[12], header[13]);
    let flags = u16::from_le_bytes([header[14], header[15]]);
    let slot_count = u16::from_le_bytes([header[16], header[17]]);
    if Suite::of(suite).is_none() || !(12..=24).contains(&chunk_log2) || flags != 0 || !(1..=64).contains(&slot_count) {
        return Err(Error::Header);
    }
    let slots = read_slots(&header[SLOTS_AT..header.len() - TAG_LEN], slot_count).ok_or(Error::Header)?;
    if !slots.iter().all(|(kind, body)| slot_is_lawful(*kind, body)) {
        return Err(Error::Header);
    }
    if slots.iter().filter(|(kind, _)| *kind == 1).count() > MAX_PASSWORD_SLOTS {
        return Err(Error::Header);
    }
    Ok(Header { len: header.len(), suite, chunk_log2, slots })
}

/// Cuts the slots apart; nothing where they do not end exactly at the end of the bytes.
fn read_slots(mut bytes: &[u8], count: u16) -> Option<Vec<(u8, Vec<u8>)>> {
    let mut slots = Vec::new();
    for _ in 0..count {
        let [kind, low, high, rest @ ..] = bytes else { return None };
        let (body, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([*low, *high])))?;
        slots.push((*kind, body.to_vec()));
        bytes = rest;
    }
    bytes.is_empty().then_some(slots)
}

/// Known types have their lengths, and passwords lawful parameters (§4).
fn slot_is_lawful(kind: u8, body: &[u8]) -> bool {
    match kind {
        1 => body.len() == 65 && cost_is_lawful(slot_cost(body)),
        2 => body.len() == 56,
        3 => (17..=16400).contains(&body.len()),
        _ => true,
    }
}

fn cost_is_lawful(cost: Cost) -> bool {
    cost.passes != 0 && cost.lanes != 0 && cost.memory >= 8 * u32::from(cost.lanes)
}

/// The parameters in the body of a password slot (§4).
fn slot_cost(body: &[u8]) -> Cost {
    Cost { memory: u32_at(body, 16).unwrap(), passes: u32_at(body, 20).unwrap(), lanes: body[24] }
}

/// Steps 1 to 4 of §5: reads the header, and finds the file key by which the header tag is right.
///
/// Key slots come first, for they cost nothing; so a file that a key opens opens whatever its password slots ask for.
pub fn open_header(file: &[u8], passwords: &[&[u8]], keys: &[[u8; 32]]) -> Result<(Header, [u8; 32]), Error> {
    let header = read_header(file)?;
    let opens = |file_key: &[u8; 32]| {
        let (bytes, tag) = file[..header.len].split_at(header.len - TAG_LEN);
        header_tag(&file_keys(file_key, header.suite), bytes) == tag
    };
    let slots_of = |wanted| header.slots.iter().filter(move |(kind, _)| *kind == wanted).map(|(_, body)| body);

    for body in slots_of(2) {
        let (id, wrapped) = body.split_at(16);
        for key in keys.iter().filter(|key| key_id(key) == id) {
            if let Some(file_key) = unwrap_file_key(&key_kek(key), wrapped).filter(opens) {
                return Ok((header, file_key));
            }
        }
    }

    let costs: Vec<Cost> = slots_of(1).map(|body| slot_cost(body)).collect();
    if !passwords.is_empty() && !costs_are_affordable(&costs) {
        return Err(Error::KdfLimit);
    }
    for body in slots_of(1) {
        for password in passwords {
            let kek = password_kek(password, &array(&body[..16]), slot_cost(body));
            if let Some(file_key) = unwrap_file_key(&kek, &body[25..]).filter(opens) {
                return Ok((header, file_key));
            }
        }
    }
    Err(Error::NoKey)
}

/// The limits that a reader keeps before it derives anything from a password (§4). Each memory comes first: only then can the sum
/// not overflow.
fn costs_are_affordable(costs: &[Cost]) -> bool {
    costs.iter().all(|cost| u64::from(cost.memory) <= MAX_MEMORY)
        && costs.iter().map(|cost| u64::from(cost.memory) * u64::from(cost.passes)).sum::<u64>() <= MAX_WORK
}

/// The key-encrypting key of a password slot (§4).
pub fn password_kek(password: &[u8], salt: &[u8; 16], cost: Cost) -> [u8; 32] {
    array(&kmac256(&argon2id(password, salt, &[], &[], cost, 32), b"", 256, KEY_WRAP))
}

/// The key-encrypting key of a key slot (§4).
pub fn key_kek(key: &[u8; 32]) -> [u8; 32] {
    array(&kmac256(key, b"", 256, KEY_WRAP))
}

/// By which a reader finds its key (§4).
pub fn key_id(key: &[u8; 32]) -> [u8; 16] {
    array(&kmac256(key, b"", 256, KEY_ID)[..16])
}

fn unwrap_file_key(kek: &[u8; 32], wrapped: &[u8]) -> Option<[u8; 32]> {
    unwrap(kek, wrapped).map(|key| array(&key))
}

// ---- Chunks and messages (§2.3, §3, §7) ----------------------------------------------------------------------------

/// Writes a chunk (§2.3, §3). `last` is the byte `final`: 1 for the last chunk, 0 for the others, anything for tests.
///
/// # Panics
/// Where the nonce is not as long as the suite's are.
pub fn seal_chunk(keys: &Keys, index: u64, last: u8, nonce: &[u8], plaintext: &[u8]) -> Vec<u8> {
    seal(keys, CHUNK, &place(index, last), nonce, plaintext)
}

/// Reads a chunk (§2.3, §3); nothing where its tag is wrong.
pub fn open_chunk(keys: &Keys, index: u64, last: u8, chunk: &[u8]) -> Option<Vec<u8>> {
    open(keys, CHUNK, &place(index, last), chunk)
}

/// `u64 i ‖ u8 final` (§3).
fn place(index: u64, last: u8) -> Vec<u8> {
    [&index.to_le_bytes()[..], &[last]].concat()
}

/// Writes a message (§7).
///
/// # Panics
/// Where the suite is unknown, or the nonce is not as long as its are.
pub fn seal_message(key: &[u8; 32], suite: u8, ad: &[u8], nonce: &[u8], plaintext: &[u8]) -> Vec<u8> {
    let keys = message_keys(key, suite);
    seal(&keys, MESSAGE, &bound_ad(&keys, ad), nonce, plaintext)
}

/// Reads a message (§7).
///
/// # Panics
/// Where the suite is unknown.
pub fn open_message(key: &[u8; 32], suite: u8, ad: &[u8], message: &[u8]) -> Result<Vec<u8>, Error> {
    let keys = message_keys(key, suite);
    open(&keys, MESSAGE, &bound_ad(&keys, ad), message).ok_or(Error::Altered)
}

/// How a message's tag takes in the associated data: GCM by itself, KMAC by a digest (§7).
fn bound_ad(keys: &Keys, ad: &[u8]) -> Vec<u8> {
    if keys.suite.is_gcm { ad.to_vec() } else { sha3_256(ad).to_vec() }
}

/// Nonce, tag and ciphertext, bound to what stands in `bound`.
fn seal(keys: &Keys, label: &str, bound: &[u8], nonce: &[u8], plaintext: &[u8]) -> Vec<u8> {
    let (ciphertext, tag) = if keys.suite.is_gcm {
        let (ciphertext, tag) = gcm_encrypt(&keys.encrypt, &array(nonce), bound, plaintext);
        (ciphertext, tag.to_vec())
    } else {
        let ciphertext = ctr(&keys.encrypt, &array(nonce), plaintext);
        let tag = sha3_tag(keys, label, bound, nonce, &ciphertext);
        (ciphertext, tag)
    };
    [nonce, &tag, &ciphertext].concat()
}

/// The plaintext of what [`seal`] gave; nothing where it is too short or its tag is wrong.
fn open(keys: &Keys, label: &str, bound: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (head, ciphertext) = sealed.split_at_checked(keys.suite.overhead())?;
    let (nonce, tag) = head.split_at(keys.suite.nonce_len);
    if keys.suite.is_gcm {
        gcm_decrypt(&keys.encrypt, &array(nonce), bound, ciphertext, &array(tag))
    } else {
        let right = sha3_tag(keys, label, bound, nonce, ciphertext) == tag;
        right.then(|| ctr(&keys.encrypt, &array(nonce), ciphertext))
    }
}

/// The tag of a chunk or message of the suites with SHA-3 (§3, §7).
fn sha3_tag(keys: &Keys, label: &str, bound: &[u8], nonce: &[u8], ciphertext: &[u8]) -> Vec<u8> {
    kmac256(&keys.mac, &[nonce, bound, &digests(ciphertext)].concat(), 256, label)
}

/// `D_0 ‖ … ‖ D_{m−1}`: the digest of each slice of a ciphertext (§3).
fn digests(ciphertext: &[u8]) -> Vec<u8> {
    ciphertext.chunks(SLICE).flat_map(sha3_256).collect()
}

// ---- Keys and the header tag (§2.2, §3, §7) ------------------------------------------------------------------------

/// A suite's lengths in bytes (§2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite {
    /// Of the AES key.
    pub aes_key_len: usize,
    /// Of a chunk's or message's nonce.
    pub nonce_len: usize,
    /// Of a chunk's or message's tag.
    pub tag_len: usize,
    /// Whether it is AES-GCM, and not AES-CTR with SHA-3.
    pub is_gcm: bool,
}

impl Suite {
    /// Those suites that are known (§2.2).
    pub fn of(suite: u8) -> Option<Self> {
        let sha3 = |aes_key_len| Self { aes_key_len, nonce_len: 16, tag_len: 32, is_gcm: false };
        match suite {
            1 => Some(sha3(32)),
            2 => Some(sha3(24)),
            3 => Some(sha3(16)),
            4 => Some(Self { aes_key_len: 32, nonce_len: 12, tag_len: 16, is_gcm: true }),
            _ => None,
        }
    }

    /// What a chunk or message has before its ciphertext: nonce and tag (§2.3).
    pub fn overhead(&self) -> usize {
        self.nonce_len + self.tag_len
    }
}

/// What chunks and messages are encrypted and authenticated with (§3, §7).
#[derive(Clone, Debug)]
pub struct Keys {
    /// The suite that the keys are for.
    pub suite: Suite,
    /// `K_encrypt`: 32, 24 or 16 bytes.
    pub encrypt: Vec<u8>,
    /// `K_mac`.
    pub mac: [u8; 32],
}

/// The keys of a file (§3).
pub fn file_keys(file_key: &[u8; 32], suite: u8) -> Keys {
    derive_keys(file_key, suite, FILE_KEYS)
}

/// The keys of messages (§7).
pub fn message_keys(key: &[u8; 32], suite: u8) -> Keys {
    derive_keys(key, suite, MESSAGE_KEYS)
}

fn derive_keys(key: &[u8; 32], suite: u8, label: &str) -> Keys {
    let shape = Suite::of(suite).expect("a known suite");
    let both = kmac256(key, &[suite], 8 * shape.aes_key_len + 256, label);
    let (encrypt, mac) = both.split_at(shape.aes_key_len);
    Keys { suite: shape, encrypt: encrypt.to_vec(), mac: array(mac) }
}

/// The tag over a header's bytes before it (§3).
pub fn header_tag(keys: &Keys, header_before_tag: &[u8]) -> [u8; TAG_LEN] {
    array(&kmac256(&keys.mac, header_before_tag, 256, HEADER))
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the right length")
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).map(|four| u32::from_le_bytes(array(four)))
}

// ---- SHA-3 derived functions (SP 800-185) --------------------------------------------------------------------------

/// The rate of SHA3-256 and cSHAKE256 in bytes: a capacity of 512 bits (FIPS 202 §6.1, SP 800-185 §3.3).
const RATE: usize = 136;

/// KMAC256 (SP 800-185 §4.3), with the output length in bits, which must be whole bytes.
pub fn kmac256(key: &[u8], message: &[u8], bits: usize, customization: &str) -> Vec<u8> {
    assert_eq!(bits % 8, 0, "whole bytes");
    let mut input = bytepad(&encode_string(key), RATE);
    input.extend(message);
    input.extend(right_encode(bits as u64));
    cshake256(&input, bits, b"KMAC", customization.as_bytes())
}

/// cSHAKE256 (SP 800-185 §3.3), with the output length in bits, which must be whole bytes.
pub fn cshake256(message: &[u8], bits: usize, name: &[u8], customization: &[u8]) -> Vec<u8> {
    if name.is_empty() && customization.is_empty() {
        return sponge(message, 0b1_1111, bits / 8); // SHAKE256: the suffix bits 1111, then padding
    }
    let mut input = bytepad(&[encode_string(name), encode_string(customization)].concat(), RATE);
    input.extend(message);
    sponge(&input, 0b100, bits / 8) // the suffix bits 00, then padding
}

/// SP 800-185 §2.3.3.
fn bytepad(bytes: &[u8], width: usize) -> Vec<u8> {
    let mut padded = left_encode(width as u64);
    padded.extend(bytes);
    padded.resize(padded.len().next_multiple_of(width), 0);
    padded
}

/// SP 800-185 §2.3.2.
fn encode_string(bytes: &[u8]) -> Vec<u8> {
    [&left_encode(8 * bytes.len() as u64)[..], bytes].concat()
}

/// SP 800-185 §2.3.1.
fn left_encode(number: u64) -> Vec<u8> {
    let digits = digits(number);
    [&[digits.len() as u8][..], &digits].concat()
}

/// SP 800-185 §2.3.1.
fn right_encode(number: u64) -> Vec<u8> {
    let digits = digits(number);
    [&digits[..], &[digits.len() as u8]].concat()
}

/// The fewest big-endian bytes that hold a number, at least one.
fn digits(number: u64) -> Vec<u8> {
    let zeros = (number.leading_zeros() / 8).min(7) as usize;
    number.to_be_bytes()[zeros..].to_vec()
}

// ---- SHA-3 (FIPS 202) ----------------------------------------------------------------------------------------------

/// SHA3-256 (FIPS 202 §6.1).
pub fn sha3_256(message: &[u8]) -> [u8; 32] {
    array(&sponge(message, 0b110, 32)) // the suffix bits 01, then padding
}

/// KECCAK[512] (FIPS 202 §4, §5.2) on whole bytes. `suffix` holds, lowest first, the bits that follow the message and then the first
/// 1 of pad10*1 (§5.1, B.2).
fn sponge(message: &[u8], suffix: u8, out_len: usize) -> Vec<u8> {
    let mut padded = message.to_vec();
    padded.push(suffix);
    padded.resize(padded.len().next_multiple_of(RATE), 0);
    *padded.last_mut().unwrap() |= 0x80; // the last 1 of pad10*1

    let mut state = [[0u64; 5]; 5];
    for block in padded.chunks(RATE) {
        for (i, lane) in block.chunks(8).enumerate() {
            state[i % 5][i / 5] ^= u64::from_le_bytes(array(lane));
        }
        state = keccak_f(state);
    }
    let mut output = Vec::new();
    loop {
        for i in 0..RATE / 8 {
            output.extend(state[i % 5][i / 5].to_le_bytes());
        }
        if output.len() >= out_len {
            output.truncate(out_len);
            return output;
        }
        state = keccak_f(state);
    }
}

/// The state array A\[x\]\[y\], whose lanes along z are integers: bit z is of value 2^z (FIPS 202 §3.1).
type State = [[u64; 5]; 5];

/// KECCAK-p\[1600, 24\] (FIPS 202 §3.3, §3.4).
pub fn keccak_f(mut a: State) -> State {
    for round in 0..24 {
        a = iota(chi(pi(rho(theta(a)))), round);
    }
    a
}

/// FIPS 202 §3.2.1.
fn theta(a: State) -> State {
    let c = |x: usize| a[x % 5].iter().fold(0, |sum, lane| sum ^ lane);
    lanes(|x, y| a[x][y] ^ c(x + 4) ^ c(x + 1).rotate_left(1))
}

/// FIPS 202 §3.2.2, Algorithm 2.
fn rho(a: State) -> State {
    let mut out = a;
    let (mut x, mut y) = (1, 0);
    for t in 0..24 {
        out[x][y] = a[x][y].rotate_left((t + 1) * (t + 2) / 2 % 64);
        (x, y) = (y, (2 * x + 3 * y) % 5);
    }
    out
}

/// FIPS 202 §3.2.3.
fn pi(a: State) -> State {
    lanes(|x, y| a[(x + 3 * y) % 5][x])
}

/// FIPS 202 §3.2.4.
fn chi(a: State) -> State {
    lanes(|x, y| a[x][y] ^ (!a[(x + 1) % 5][y] & a[(x + 2) % 5][y]))
}

/// FIPS 202 §3.2.5, Algorithm 6, where l = 6.
fn iota(mut a: State, round: usize) -> State {
    for j in 0..=6 {
        a[0][0] ^= u64::from(rc(j + 7 * round)) << ((1 << j) - 1);
    }
    a
}

/// FIPS 202 §3.2.5, Algorithm 5: a linear feedback shift register, R\[i\] being of value 2^i.
fn rc(t: usize) -> bool {
    let mut r = 1u16;
    for _ in 0..t % 255 {
        r <<= 1;
        if r & 0x100 != 0 {
            r ^= 0b1_0111_0001; // R[8] goes into R[0], R[4], R[5] and R[6], and falls away
        }
    }
    r & 1 == 1
}

fn lanes(lane: impl Fn(usize, usize) -> u64) -> State {
    std::array::from_fn(|x| std::array::from_fn(|y| lane(x, y)))
}

// ---- AES modes (SP 800-38A) ----------------------------------------------------------------------------------------

/// ECB encryption of whole blocks (SP 800-38A §6.1).
pub fn ecb_encrypt(key: &[u8], plaintext: &[u8]) -> Vec<u8> {
    let aes = Aes::new(key);
    plaintext.chunks(16).flat_map(|block| aes.encrypt(array(block))).collect()
}

/// ECB decryption of whole blocks (SP 800-38A §6.1).
pub fn ecb_decrypt(key: &[u8], ciphertext: &[u8]) -> Vec<u8> {
    let aes = Aes::new(key);
    ciphertext.chunks(16).flat_map(|block| aes.decrypt(array(block))).collect()
}

/// CTR (SP 800-38A §6.5) with the standard incrementing function (B.1) over the whole block: encrypts and decrypts.
pub fn ctr(key: &[u8], initial: &[u8; 16], input: &[u8]) -> Vec<u8> {
    let aes = Aes::new(key);
    let mut counter = u128::from_be_bytes(*initial);
    let mut output = Vec::new();
    for block in input.chunks(16) {
        let pad = aes.encrypt(counter.to_be_bytes());
        output.extend(block.iter().zip(pad).map(|(byte, pad)| byte ^ pad));
        counter = counter.wrapping_add(1);
    }
    output
}

// ---- GCM (SP 800-38D) ----------------------------------------------------------------------------------------------

/// GCM-AE_K(IV, P, A) (SP 800-38D §7.1) with an IV of 96 bits and a tag of 128: the ciphertext and the tag.
pub fn gcm_encrypt(key: &[u8], iv: &[u8; 12], aad: &[u8], plaintext: &[u8]) -> (Vec<u8>, [u8; 16]) {
    let ciphertext = ctr(key, &gcm_counter(iv, 2), plaintext);
    let tag = gcm_tag(key, iv, aad, &ciphertext);
    (ciphertext, tag)
}

/// GCM-AD_K(IV, C, A, T) (SP 800-38D §7.2), likewise; nothing where the tag is wrong.
pub fn gcm_decrypt(key: &[u8], iv: &[u8; 12], aad: &[u8], ciphertext: &[u8], tag: &[u8; 16]) -> Option<Vec<u8>> {
    (gcm_tag(key, iv, aad, ciphertext) == *tag).then(|| ctr(key, &gcm_counter(iv, 2), ciphertext))
}

/// Steps 4 to 6 of GCM-AE_K: GHASH_H of the associated data and the ciphertext, each padded with zeros, and their lengths in bits;
/// encrypted with J_0.
fn gcm_tag(key: &[u8], iv: &[u8; 12], aad: &[u8], ciphertext: &[u8]) -> [u8; 16] {
    let h = u128::from_be_bytes(Aes::new(key).encrypt([0; 16]));
    let mut input = Vec::new();
    for part in [aad, ciphertext] {
        input.extend(part);
        input.resize(input.len().next_multiple_of(16), 0);
    }
    input.extend((8 * aad.len() as u64).to_be_bytes());
    input.extend((8 * ciphertext.len() as u64).to_be_bytes());
    array(&ctr(key, &gcm_counter(iv, 1), &ghash(h, &input).to_be_bytes()))
}

/// The counter block J_0, whose last 32 bits are 1, and those that inc_32 makes of it (§6.2, §7.1). GCM counts in these bits alone and
/// CTR in all, which is the same: no plaintext may be so long that they wrap.
fn gcm_counter(iv: &[u8; 12], count: u32) -> [u8; 16] {
    array(&[&iv[..], &count.to_be_bytes()].concat())
}

/// GHASH_H (§6.4) of whole blocks. A block is an integer, its first bit the highest.
fn ghash(h: u128, blocks: &[u8]) -> u128 {
    blocks.chunks(16).fold(0, |y, block| gcm_times(y ^ u128::from_be_bytes(array(block)), h))
}

/// The product of blocks (§6.3, Algorithm 1).
fn gcm_times(x: u128, y: u128) -> u128 {
    const R: u128 = 0b1110_0001 << 120;
    let (mut z, mut v) = (0, y);
    for i in 0..128 {
        if x >> (127 - i) & 1 == 1 {
            z ^= v;
        }
        v = if v & 1 == 0 { v >> 1 } else { (v >> 1) ^ R };
    }
    z
}

// ---- Key wrap (RFC 3394) -------------------------------------------------------------------------------------------

/// The default initial value (RFC 3394 §2.2.3.1).
const WRAP_IV: [u8; 8] = [0xA6; 8];

/// Key wrap (RFC 3394 §2.2.1) of two or more 8-byte blocks.
pub fn wrap(kek: &[u8], key: &[u8]) -> Vec<u8> {
    let aes = Aes::new(kek);
    let mut a = WRAP_IV;
    let mut r: Vec<[u8; 8]> = key.chunks(8).map(array).collect();
    let n = r.len();
    for j in 0..6 {
        for (i, r_i) in r.iter_mut().enumerate() {
            let b = aes.encrypt(array(&[a, *r_i].concat()));
            let t = (n * j + i + 1) as u64;
            a = (u64::from_be_bytes(array(&b[..8])) ^ t).to_be_bytes();
            *r_i = array(&b[8..]);
        }
    }
    [&a[..], &r.concat()].concat()
}

/// Key unwrap (RFC 3394 §2.2.2); nothing where the integrity check fails (§2.2.3).
pub fn unwrap(kek: &[u8], wrapped: &[u8]) -> Option<Vec<u8>> {
    if wrapped.len() < 24 || !wrapped.len().is_multiple_of(8) {
        return None;
    }
    let aes = Aes::new(kek);
    let mut a: [u8; 8] = array(&wrapped[..8]);
    let mut r: Vec<[u8; 8]> = wrapped[8..].chunks(8).map(array).collect();
    let n = r.len();
    for j in (0..6).rev() {
        for (i, r_i) in r.iter_mut().enumerate().rev() {
            let t = (n * j + i + 1) as u64;
            let a_xor_t = (u64::from_be_bytes(a) ^ t).to_be_bytes();
            let b = aes.decrypt(array(&[a_xor_t, *r_i].concat()));
            a = array(&b[..8]);
            *r_i = array(&b[8..]);
        }
    }
    (a == WRAP_IV).then(|| r.concat())
}

// ---- AES (FIPS 197) ------------------------------------------------------------------------------------------------

/// AES with a key of 16, 24 or 32 bytes. A state is 16 bytes, column after column: s\[r, c\] is byte r + 4c (FIPS 197 §3.4).
pub struct Aes {
    round_keys: Vec<[u8; 16]>,
}

impl Aes {
    /// KEYEXPANSION() (FIPS 197 §5.2).
    ///
    /// # Panics
    /// Where the key has another length.
    pub fn new(key: &[u8]) -> Self {
        assert!([16, 24, 32].contains(&key.len()), "an AES key");
        let nk = key.len() / 4;
        let rounds = nk + 6;
        let mut words: Vec<[u8; 4]> = key.chunks(4).map(array).collect();
        let mut rcon = 1;
        for i in nk..4 * (rounds + 1) {
            let mut word = words[i - 1];
            if i % nk == 0 {
                word.rotate_left(1); // ROTWORD()
                word = word.map(|byte| SBOX[usize::from(byte)]);
                word[0] ^= rcon;
                rcon = times(rcon, 2);
            } else if nk > 6 && i % nk == 4 {
                word = word.map(|byte| SBOX[usize::from(byte)]);
            }
            words.push(std::array::from_fn(|byte| words[i - nk][byte] ^ word[byte]));
        }
        Self { round_keys: words.chunks(4).map(|four| array(&four.concat())).collect() }
    }

    /// CIPHER() (FIPS 197 §5.1).
    pub fn encrypt(&self, block: [u8; 16]) -> [u8; 16] {
        let (first, rest) = self.round_keys.split_first().unwrap();
        let (last, middle) = rest.split_last().unwrap();
        let mut state = add_round_key(block, first);
        for key in middle {
            state = add_round_key(mix_columns(shift_rows(state.map(|byte| SBOX[usize::from(byte)]))), key);
        }
        add_round_key(shift_rows(state.map(|byte| SBOX[usize::from(byte)])), last)
    }

    /// INVCIPHER() (FIPS 197 §5.3).
    pub fn decrypt(&self, block: [u8; 16]) -> [u8; 16] {
        let (first, rest) = self.round_keys.split_first().unwrap();
        let (last, middle) = rest.split_last().unwrap();
        let mut state = inv_shift_rows(add_round_key(block, last)).map(|byte| INV_SBOX[usize::from(byte)]);
        for key in middle.iter().rev() {
            state = inv_shift_rows(inv_mix_columns(add_round_key(state, key))).map(|byte| INV_SBOX[usize::from(byte)]);
        }
        add_round_key(state, first)
    }
}

/// ADDROUNDKEY() (FIPS 197 §5.1.4).
fn add_round_key(state: [u8; 16], key: &[u8; 16]) -> [u8; 16] {
    std::array::from_fn(|i| state[i] ^ key[i])
}

/// SHIFTROWS() (FIPS 197 §5.1.2): row r turns left by r columns.
fn shift_rows(state: [u8; 16]) -> [u8; 16] {
    std::array::from_fn(|i| state[(i + 4 * (i % 4)) % 16])
}

/// INVSHIFTROWS() (FIPS 197 §5.3.1).
fn inv_shift_rows(state: [u8; 16]) -> [u8; 16] {
    std::array::from_fn(|i| state[(i + 12 * (i % 4)) % 16])
}

/// MIXCOLUMNS() (FIPS 197 §5.1.3).
fn mix_columns(state: [u8; 16]) -> [u8; 16] {
    multiply_columns(state, [2, 3, 1, 1])
}

/// INVMIXCOLUMNS() (FIPS 197 §5.3.3).
fn inv_mix_columns(state: [u8; 16]) -> [u8; 16] {
    multiply_columns(state, [14, 11, 13, 9])
}

/// Multiplies each column by the matrix whose first row is given and whose other rows are it, turned right (FIPS 197 §4.3).
fn multiply_columns(state: [u8; 16], row: [u8; 4]) -> [u8; 16] {
    std::array::from_fn(|i| {
        let (r, column) = (i % 4, &state[i - i % 4..]);
        (0..4).fold(0, |sum, k| sum ^ times(row[(k + 4 - r) % 4], column[k]))
    })
}

/// SBOX() (FIPS 197 §5.1.1) of every byte. The compiler computes it from the definition below: one byte after another, the
/// tests that compare with this crate would take minutes.
static SBOX: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = sub_byte(byte as u8);
        byte += 1;
    }
    table
};

/// INVSBOX() (FIPS 197 §5.3.2) of every byte, likewise.
static INV_SBOX: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = inv_sub_byte(byte as u8);
        byte += 1;
    }
    table
};

/// SBOX() (FIPS 197 §5.1.1): the inverse in GF(2^8), then the affine transformation.
const fn sub_byte(byte: u8) -> u8 {
    let b = inverse(byte);
    b ^ b.rotate_left(1) ^ b.rotate_left(2) ^ b.rotate_left(3) ^ b.rotate_left(4) ^ 0x63
}

/// INVSBOX() (FIPS 197 §5.3.2): the inverse of the affine transformation, then the inverse in GF(2^8).
const fn inv_sub_byte(byte: u8) -> u8 {
    inverse(byte.rotate_left(1) ^ byte.rotate_left(3) ^ byte.rotate_left(6) ^ 0x05)
}

/// The multiplicative inverse, and 0 of 0 (FIPS 197 §4.4): b^254 = b^2 · b^4 · … · b^128.
const fn inverse(b: u8) -> u8 {
    let (mut square, mut product) = (b, 1);
    let mut factors = 0;
    while factors < 7 {
        square = times(square, square);
        product = times(product, square);
        factors += 1;
    }
    product
}

/// The product in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1 (FIPS 197 §4.2).
const fn times(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while a != 0 {
        if a & 1 == 1 {
            product ^= b;
        }
        a >>= 1;
        b = if b & 0x80 == 0 { b << 1 } else { (b << 1) ^ 0x1B }; // XTIMES()
    }
    product
}

// ---- Argon2id (RFC 9106) -------------------------------------------------------------------------------------------

/// Argon2id, version 0x13 (RFC 9106 §3), of the `argon2` crate. The format uses no secret and no associated data; both are here for
/// the RFC's test vector.
///
/// # Panics
/// Where an argument is outside of what the RFC or the crate allows.
pub fn argon2id(password: &[u8], salt: &[u8], secret: &[u8], ad: &[u8], cost: Cost, out_len: usize) -> Vec<u8> {
    let params = ParamsBuilder::new()
        .m_cost(cost.memory)
        .t_cost(cost.passes)
        .p_cost(u32::from(cost.lanes))
        .output_len(out_len)
        .data(AssociatedData::new(ad).expect("at most 32 bytes of associated data"))
        .build()
        .expect("lawful Argon2 parameters");
    let argon2 = Argon2::new_with_secret(secret, Algorithm::Argon2id, Version::V0x13, params)
        .expect("a secret of lawful length");
    let mut output = vec![0; out_len];
    argon2.hash_password_into(password, salt, &mut output).expect("lawful lengths");
    output
}
