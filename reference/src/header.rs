//! The header (§2.1): writing it, reading it, and opening it with a password or key.

use crate::keys::{Suite, file_keys, header_tag};
use crate::slot::{
    KEY_WRAP, Slot, VOLUME_WRAP, costs_are_affordable, key_id, key_kek_under, password_kek_under, read_service,
    read_slots, slot_cost, slot_is_valid, unwrap_file_key, write_slot_under,
};
use crate::{Cost, Error, MAGIC, Recipe, TAG_LEN, VERSION, array, u32_at};

/// Where the slots begin (§2.1).
const SLOTS_AT: usize = 18;
/// The lengths that a header may have (§2.1).
const HEADER_LENS: std::ops::RangeInclusive<u32> = 53..=65536;
/// The type of the slot that makes a header a volume's config (§10.2).
pub(crate) const SLOT_VOLUME: u8 = 16;
/// The most password slots that a header may have (§4).
const MAX_PASSWORD_SLOTS: usize = 4;
/// The most service slots of one file that are tried (§4).
const MAX_SERVICES_TRIED: usize = 8;

/// A key service that the user has named (§4): its URI, and what it unwraps. `None` is a refusal.
pub struct Service<'a> {
    /// The URI.
    pub uri: &'a str,
    /// Unwraps a run key.
    pub unwrap: &'a dyn Fn(&[u8]) -> Option<[u8; 32]>,
}

/// A header that was read (§2.1). Its form is valid, and its tag is not checked yet.
#[derive(Clone, Debug)]
pub struct Header {
    /// The length of the whole header, tag included.
    pub len: usize,
    /// 1 to 5.
    pub suite: u8,
    /// The binary logarithm of a chunk's length.
    pub chunk_log2: u8,
    /// Each slot's type and body.
    pub slots: Vec<(u8, Vec<u8>)>,
}

/// Writes a header with its tag (§2.1). With a slot of type 16, it is that of a volume's config (§10.2).
pub fn seal_header(recipe: &Recipe) -> Vec<u8> {
    let of_volume = recipe.slots.iter().any(|slot| matches!(slot, Slot::Raw { kind: SLOT_VOLUME, .. }));
    let label = if of_volume { VOLUME_WRAP } else { KEY_WRAP };
    let slots: Vec<u8> = recipe.slots.iter().flat_map(|slot| write_slot_under(label, slot, &recipe.file_key)).collect();
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
    if !slots.iter().all(|(kind, body)| slot_is_valid(*kind, body)) {
        return Err(Error::Header);
    }
    if slots.iter().filter(|(kind, _)| *kind == 1).count() > MAX_PASSWORD_SLOTS {
        return Err(Error::Header);
    }
    Ok(Header { len: header.len(), suite, chunk_log2, slots })
}

/// Steps 1 to 4 of §5: reads the header, and finds the file key that matches the header tag.
///
/// Key slots come first because they cost nothing. So a key opens its file, whatever the password slots ask for.
pub fn open_header(file: &[u8], passwords: &[&[u8]], keys: &[[u8; 32]]) -> Result<(Header, [u8; 32]), Error> {
    let header = read_header(file)?;
    // The config of a volume is no file (§10.2).
    if header.slots.iter().any(|(kind, _)| *kind == SLOT_VOLUME) {
        return Err(Error::Header);
    }
    let file_key = find_file_key(KEY_WRAP, file, &header, passwords, keys, &[])?;
    Ok((header, file_key))
}

/// [`open_header`] with keys and key services, and without passwords.
pub fn open_header_with(file: &[u8], keys: &[[u8; 32]], services: &[Service]) -> Result<(Header, [u8; 32]), Error> {
    let header = read_header(file)?;
    let file_key = find_file_key(KEY_WRAP, file, &header, &[], keys, services)?;
    Ok((header, file_key))
}

/// Step 4 of §5, with the label under which the slots' key-encrypting keys are derived.
pub(crate) fn find_file_key(
    label: &str,
    file: &[u8],
    header: &Header,
    passwords: &[&[u8]],
    keys: &[[u8; 32]],
    services: &[Service],
) -> Result<[u8; 32], Error> {
    let opens = |file_key: &[u8; 32]| {
        let (bytes, tag) = file[..header.len].split_at(header.len - TAG_LEN);
        header_tag(&file_keys(file_key, header.suite), bytes) == tag
    };
    let slots_of = |wanted| header.slots.iter().filter(move |(kind, _)| *kind == wanted).map(|(_, body)| body);

    for body in slots_of(2) {
        let (id, wrapped) = body.split_at(16);
        for key in keys.iter().filter(|key| key_id(key) == id) {
            if let Some(file_key) = unwrap_file_key(&key_kek_under(label, key), wrapped).filter(opens) {
                return Ok(file_key);
            }
        }
    }

    let named = slots_of(4).filter_map(|body| read_service(body)).filter_map(|(uri, wrapped_run_key, wrapped)| {
        services.iter().find(|service| service.uri == uri).map(|service| (service, wrapped_run_key, wrapped))
    });
    for (service, wrapped_run_key, wrapped) in named.take(MAX_SERVICES_TRIED) {
        let file_key = (service.unwrap)(wrapped_run_key)
            .and_then(|run_key| unwrap_file_key(&key_kek_under(label, &run_key), wrapped))
            .filter(opens);
        if let Some(file_key) = file_key {
            return Ok(file_key);
        }
    }

    let costs: Vec<Cost> = slots_of(1).map(|body| slot_cost(body)).collect();
    if !passwords.is_empty() && !costs_are_affordable(&costs) {
        return Err(Error::KdfLimit);
    }
    for body in slots_of(1) {
        for password in passwords {
            let kek = password_kek_under(label, password, &array(&body[..16]), slot_cost(body));
            if let Some(file_key) = unwrap_file_key(&kek, &body[25..]).filter(opens) {
                return Ok(file_key);
            }
        }
    }
    Err(Error::NoKey)
}
