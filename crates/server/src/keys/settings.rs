//! What can be set of a key, by the rules of Vault.

use crate::refusal::Refusal;
use crate::store::{KeyId, KeyRecord, VersionRecord};
use phalanx_core::Suite;

/// What a new key is to be.
#[derive(Clone, Copy, Debug)]
pub struct NewKey {
    /// The suite of its messages.
    pub suite: Suite,
    /// Whether each user has a salt of its own, so that one user can be deleted.
    pub shreddable: bool,
    /// Whether every request must name a user.
    pub needs_user: bool,
}

impl NewKey {
    pub(super) fn record(self, id: KeyId, name: &str) -> KeyRecord {
        KeyRecord {
            id,
            name: name.to_owned(),
            suite: self.suite.id(),
            shreddable: self.shreddable,
            needs_user: self.needs_user || self.shreddable,
            deletion_allowed: false,
            min_decryption: 1,
            min_encryption: 0,
            min_available: 0,
            versions: Vec::new(),
            mac: [0; 32],
        }
    }
}

/// Changes to a key. `None` leaves a setting as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {
    /// The oldest version that opens.
    pub min_decryption: Option<u32>,
    /// The oldest version that seals; 0 is the newest.
    pub min_encryption: Option<u32>,
    /// Whether the key may be deleted.
    pub deletion_allowed: Option<bool>,
}

impl Config {
    pub(super) fn apply(self, record: &mut KeyRecord) -> Result<(), Refusal> {
        let latest = record.latest();
        if let Some(oldest) = self.min_decryption {
            // As in Vault, 0 is 1.
            let oldest = oldest.max(1);
            if oldest > latest {
                return Err(Refusal::invalid(format!(
                    "cannot set min decryption version of {oldest}, latest key version is {latest}"
                )));
            }
            record.min_decryption = oldest;
        }
        if let Some(oldest) = self.min_encryption {
            if oldest > latest {
                return Err(Refusal::invalid(format!(
                    "cannot set min encryption version of {oldest}, latest key version is {latest}"
                )));
            }
            record.min_encryption = oldest;
        }
        let (seals, opens) = (record.min_encryption, record.min_decryption);
        if seals > 0 && seals < opens {
            return Err(Refusal::invalid(format!(
                "cannot set min encryption/decryption values; min encryption version of {seals} must be greater than or equal to min decryption version of {opens}"
            )));
        }
        // The words are Vault's.
        if seals < record.min_available {
            return Err(Refusal::invalid("min encryption version should not be less than min available version"));
        }
        if opens < record.min_available {
            return Err(Refusal::invalid("min decryption version should not be less then min available version"));
        }
        if let Some(allowed) = self.deletion_allowed {
            record.deletion_allowed = allowed;
        }
        Ok(())
    }
}

/// Destroys the versions before `min_available`.
pub(super) fn trim(record: &mut KeyRecord, min_available: u32) -> Result<(), Refusal> {
    let refuse = |text: &'static str| Err(Refusal::invalid(text));
    if min_available < record.min_available {
        return refuse("minimum available version cannot be decremented");
    }
    if record.min_encryption == 0 {
        return refuse("minimum available version cannot be set when minimum encryption version is not set");
    }
    if record.min_decryption == 0 {
        return refuse("minimum available version cannot be set when minimum decryption version is not set");
    }
    // The spelling is Vault's.
    if min_available > record.min_encryption {
        return refuse("minimum available version cannot be greater than minmum encryption version");
    }
    if min_available > record.min_decryption {
        return refuse("minimum available version cannot be greater than minimum decryption version");
    }
    if min_available == 0 {
        return refuse("minimum available version should be positive");
    }
    record.min_available = min_available;
    record.versions.retain(|version| version.number >= min_available);
    Ok(())
}

impl KeyRecord {
    /// The number of the newest version.
    pub fn latest(&self) -> u32 {
        self.versions.last().map_or(0, |version| version.number)
    }

    /// Whether it has this very version.
    pub fn has_version(&self, wanted: &VersionRecord) -> bool {
        let found = self.versions.binary_search_by_key(&wanted.number, |version| version.number);
        found.is_ok_and(|at| self.versions[at] == *wanted)
    }
}
