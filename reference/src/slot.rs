//! Slots (§4): how a header holds the file key for each password and key.

use argon2::{Algorithm, Argon2, AssociatedData, ParamsBuilder, Version};

use crate::modes::{unwrap, wrap};
use crate::sha3::kmac256;
use crate::{array, u32_at};

/// The most memory that a slot may ask for, in KiB: 1 GiB (§4).
const MAX_MEMORY: u64 = 1 << 20;
/// The most memory × passes that all password slots together may ask for: 1 GiB × 16 (§4).
const MAX_WORK: u64 = 16 << 20;

/// The label of the key-encrypting keys of files (§4).
pub(crate) const KEY_WRAP: &str = "phalanx v1 key wrap";
/// The label of the key-encrypting keys of a volume's config (§10.2).
pub(crate) const VOLUME_WRAP: &str = "phalanx v1 volume wrap";
const KEY_ID: &str = "phalanx v1 key id";

/// A slot to write (§4).
#[derive(Clone, Debug)]
pub enum Slot {
    /// Type 1.
    Password {
        /// The password's bytes, used as they are.
        password: Vec<u8>,
        /// The salt.
        salt: [u8; 16],
        /// The cost of Argon2id.
        cost: Cost,
    },
    /// Type 2.
    Key {
        /// The key that reader and writer share.
        key: [u8; 32],
    },
    /// Type 4.
    Service {
        /// The URI of the key service.
        uri: String,
        /// The run key as the service wrapped it.
        wrapped_run_key: Vec<u8>,
        /// The run key.
        run_key: [u8; 32],
    },
    /// Any type with any body: padding, unknown types, and malformed slots for tests.
    Raw {
        /// The type.
        kind: u8,
        /// The body.
        body: Vec<u8>,
    },
}

/// The cost parameters of Argon2id (RFC 9106 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Memory size m, in KiB.
    pub memory: u32,
    /// Number of passes t.
    pub passes: u32,
    /// Degree of parallelism p.
    pub lanes: u8,
}

/// Writes a slot that holds the file key (§4).
pub fn write_slot(slot: &Slot, file_key: &[u8; 32]) -> Vec<u8> {
    write_slot_under(KEY_WRAP, slot, file_key)
}

/// Writes a slot whose key-encrypting key is derived under `label`.
pub(crate) fn write_slot_under(label: &str, slot: &Slot, file_key: &[u8; 32]) -> Vec<u8> {
    let (kind, body) = match slot {
        Slot::Raw { kind, body } => (*kind, body.clone()),
        Slot::Password { password, salt, cost } => {
            let mut body = salt.to_vec();
            body.extend(cost.memory.to_le_bytes());
            body.extend(cost.passes.to_le_bytes());
            body.push(cost.lanes);
            body.extend(wrap(&password_kek_under(label, password, salt, *cost), file_key));
            (1, body)
        }
        Slot::Key { key } => (2, [key_id(key).to_vec(), wrap(&key_kek_under(label, key), file_key)].concat()),
        Slot::Service { uri, wrapped_run_key, run_key } => {
            let mut body = (uri.len() as u16).to_le_bytes().to_vec();
            body.extend(uri.as_bytes());
            body.extend((wrapped_run_key.len() as u16).to_le_bytes());
            body.extend(wrapped_run_key);
            body.extend(wrap(&key_kek_under(label, run_key), file_key));
            (4, body)
        }
    };
    let mut slot = vec![kind];
    slot.extend((body.len() as u16).to_le_bytes());
    slot.extend(body);
    slot
}

/// The URI, the wrapped run key and the wrapped file key in the body of a service slot (§4). `None` if the body has another
/// form, and is no way in.
pub(crate) fn read_service(body: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    let (uri, rest) = read_field(body)?;
    let (wrapped_run_key, wrapped) = read_field(rest)?;
    let is_uri = (1..=1024).contains(&uri.len()) && uri.iter().all(|byte| (0x21..=0x7e).contains(byte));
    let fits = is_uri && (1..=4096).contains(&wrapped_run_key.len()) && wrapped.len() == 40;
    fits.then(|| (std::str::from_utf8(uri).expect("ASCII"), wrapped_run_key, wrapped))
}

fn read_field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let [low, high, rest @ ..] = bytes else { return None };
    rest.split_at_checked(usize::from(u16::from_le_bytes([*low, *high])))
}

/// Splits the bytes into slots. `None` if the slots do not end exactly where the bytes end.
pub(crate) fn read_slots(mut bytes: &[u8], count: u16) -> Option<Vec<(u8, Vec<u8>)>> {
    let mut slots = Vec::new();
    for _ in 0..count {
        let [kind, low, high, rest @ ..] = bytes else { return None };
        let (body, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([*low, *high])))?;
        slots.push((*kind, body.to_vec()));
        bytes = rest;
    }
    bytes.is_empty().then_some(slots)
}

/// Whether a slot of a known type has the length of its type, and a password slot valid parameters (§4).
pub(crate) fn slot_is_valid(kind: u8, body: &[u8]) -> bool {
    match kind {
        1 => body.len() == 65 && cost_is_valid(slot_cost(body)),
        2 => body.len() == 56,
        3 => (17..=16400).contains(&body.len()),
        _ => true,
    }
}

fn cost_is_valid(cost: Cost) -> bool {
    cost.passes != 0 && cost.lanes != 0 && cost.memory >= 8 * u32::from(cost.lanes)
}

/// The parameters in the body of a password slot (§4).
pub(crate) fn slot_cost(body: &[u8]) -> Cost {
    Cost { memory: u32_at(body, 16).unwrap(), passes: u32_at(body, 20).unwrap(), lanes: body[24] }
}

/// The limits that a reader checks before it derives anything from a password (§4). Each slot's memory is checked first, so that the
/// sum cannot overflow.
pub(crate) fn costs_are_affordable(costs: &[Cost]) -> bool {
    costs.iter().all(|cost| u64::from(cost.memory) <= MAX_MEMORY)
        && costs.iter().map(|cost| u64::from(cost.memory) * u64::from(cost.passes)).sum::<u64>() <= MAX_WORK
}

/// The key-encrypting key of a password slot (§4).
pub fn password_kek(password: &[u8], salt: &[u8; 16], cost: Cost) -> [u8; 32] {
    password_kek_under(KEY_WRAP, password, salt, cost)
}

pub(crate) fn password_kek_under(label: &str, password: &[u8], salt: &[u8; 16], cost: Cost) -> [u8; 32] {
    array(&kmac256(&argon2id(password, salt, &[], &[], cost, 32), b"", 256, label))
}

/// The key-encrypting key of a key slot (§4).
pub fn key_kek(key: &[u8; 32]) -> [u8; 32] {
    key_kek_under(KEY_WRAP, key)
}

pub(crate) fn key_kek_under(label: &str, key: &[u8; 32]) -> [u8; 32] {
    array(&kmac256(key, b"", 256, label))
}

/// The identifier by which a reader finds its key (§4).
pub fn key_id(key: &[u8; 32]) -> [u8; 16] {
    array(&kmac256(key, b"", 256, KEY_ID)[..16])
}

pub(crate) fn unwrap_file_key(kek: &[u8; 32], wrapped: &[u8]) -> Option<[u8; 32]> {
    unwrap(kek, wrapped).map(|key| array(&key))
}

/// Argon2id, version 0x13 (RFC 9106 §3), from the `argon2` crate. The format uses neither a secret nor associated data. They are
/// here for the RFC's test vector.
///
/// # Panics
/// If an argument is outside the limits of the RFC or of the crate.
pub fn argon2id(password: &[u8], salt: &[u8], secret: &[u8], ad: &[u8], cost: Cost, out_len: usize) -> Vec<u8> {
    let params = ParamsBuilder::new()
        .m_cost(cost.memory)
        .t_cost(cost.passes)
        .p_cost(u32::from(cost.lanes))
        .output_len(out_len)
        .data(AssociatedData::new(ad).expect("at most 32 bytes of associated data"))
        .build()
        .expect("valid Argon2 parameters");
    let argon2 =
        Argon2::new_with_secret(secret, Algorithm::Argon2id, Version::V0x13, params).expect("a secret of valid length");
    let mut output = vec![0; out_len];
    argon2.hash_password_into(password, salt, &mut output).expect("valid lengths");
    output
}
