//! Records of keys and tokens carry a KMAC under the root key. Whoever can write to the store or to a backup of it can
//! then neither add a token nor change what a token or a key allows.

use super::root::Root;
use crate::store::{KeyRecord, TokenRecord};
use aws_lc_rs::constant_time::verify_slices_are_equal;

impl Root {
    /// Authenticates a key's settings and versions.
    pub fn sign_key(&self, record: &mut KeyRecord) {
        record.mac = self.mac(&of_key(record));
    }

    /// Whether a key is as this server has kept it.
    pub fn has_key(&self, record: &KeyRecord) -> bool {
        verify_slices_are_equal(&self.mac(&of_key(record)), &record.mac).is_ok()
    }

    /// Authenticates a token.
    pub fn sign_token(&self, record: &mut TokenRecord) {
        record.mac = self.mac(&of_token(record));
    }

    /// Whether a token is as this server has kept it.
    pub fn has_token(&self, record: &TokenRecord) -> bool {
        verify_slices_are_equal(&self.mac(&of_token(record)), &record.mac).is_ok()
    }
}

/// What is authenticated: each number as `u64` in little-endian order, and before bytes their number.
struct Fields(Vec<u8>);

impl Fields {
    fn new(kind: &str) -> Self {
        Self(Vec::new()).bytes(kind.as_bytes())
    }

    fn number(mut self, number: impl Into<u64>) -> Self {
        self.0.extend_from_slice(&number.into().to_le_bytes());
        self
    }

    fn bytes(self, bytes: &[u8]) -> Self {
        let mut fields = self.number(bytes.len() as u64);
        fields.0.extend_from_slice(bytes);
        fields
    }

    fn perhaps<T>(self, value: Option<T>, add: impl FnOnce(Self, T) -> Self) -> Self {
        let fields = self.number(value.is_some());
        match value {
            Some(value) => add(fields, value),
            None => fields,
        }
    }
}

fn of_key(record: &KeyRecord) -> Vec<u8> {
    // All fields are named, so that a new one is not forgotten.
    let KeyRecord {
        id,
        name,
        suite,
        shreddable,
        needs_user,
        deletion_allowed,
        min_decryption,
        min_encryption,
        min_available,
        versions,
        mac: _,
    } = record;
    let fields = Fields::new("key").bytes(id).bytes(name.as_bytes()).number(*suite);
    let fields = fields.number(*shreddable).number(*needs_user).number(*deletion_allowed);
    let fields = fields.number(*min_decryption).number(*min_encryption).number(*min_available);
    let fields = fields.number(versions.len() as u64);
    let add = |fields: Fields, version: &crate::store::VersionRecord| {
        fields.number(version.number).number(version.created).bytes(&version.sealed)
    };
    versions.iter().fold(fields, add).0
}

fn of_token(record: &TokenRecord) -> Vec<u8> {
    let TokenRecord { hash, accessor, rights, user, created, expires, ttl, renewable, parent, name, mac: _ } = record;
    Fields::new("token")
        .bytes(hash)
        .bytes(accessor.as_bytes())
        .bytes(rights.as_bytes())
        .perhaps(user.as_deref(), Fields::bytes)
        .number(*created)
        .perhaps(*expires, Fields::number)
        .number(*ttl)
        .number(*renewable)
        .perhaps(parent.as_deref(), |fields, parent| fields.bytes(parent.as_bytes()))
        .perhaps(name.as_deref(), |fields, name| fields.bytes(name.as_bytes()))
        .0
}
