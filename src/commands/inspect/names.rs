//! The names of recipients, from files of recipients.

use phalanx_age::{Outline, Recipient};
use phalanx_core::Ways;
use phalanx_host::age;
use phalanx_host::failure::Outcome;
use phalanx_host::lines::shown;
use serde::Serialize;
use std::path::PathBuf;

/// The recipients that the files list.
pub struct Names(Vec<(Recipient, Known)>);

/// A recipient that a file lists. The names of the fields are those of `--json`.
#[derive(Clone, Serialize)]
pub struct Known {
    /// The public key.
    key: String,
    /// Its name, or its number and the file.
    name: String,
}

impl Known {
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Names {
    /// Reads the files. `None` if there are none.
    pub fn read(files: &[PathBuf]) -> Outcome<Option<Self>> {
        let mut all = Vec::new();
        for file in files {
            for (number, listed) in (1..).zip(age::listed(file)?) {
                let name = listed.name.unwrap_or_else(|| format!("number {number} in {}", shown(file)));
                let key = listed.recipient.text().to_owned();
                all.push((listed.recipient, Known { key, name }));
            }
        }
        Ok((!files.is_empty()).then_some(Self(all)))
    }

    /// The recipients that a slot is for. With the `ways` of an opened file this is certain. `None` if the slot does
    /// not show it.
    pub fn of(&self, number: usize, file: &[u8], ways: Option<&Ways>) -> Option<Vec<Known>> {
        let outline = Outline::of(file).ok();
        let shows = |recipient: &Recipient| match (ways, recipient.ssh_stanza()) {
            (Some(ways), _) => ways.is_for(number, recipient.text()),
            (None, Some((kind, tag))) => outline
                .iter()
                .flat_map(Outline::stanzas)
                .any(|stanza| stanza.kind() == kind && stanza.arguments().next() == Some(&tag)),
            (None, None) => false,
        };
        let is_ssh = || outline.iter().flat_map(Outline::stanzas).any(|stanza| stanza.kind().starts_with("ssh-"));
        let found = self.0.iter().filter(|(recipient, _)| shows(recipient)).map(|(_, known)| known.clone());
        (ways.is_some() || is_ssh()).then(|| found.collect())
    }
}
