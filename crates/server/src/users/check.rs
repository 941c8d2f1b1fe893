//! Opening every secret of the store, to know that it is whole.

use super::{Users, ended, rows};
use crate::keys::damaged_versions;
use crate::store::{self, KeyRecord, Transaction};
use crate::tokens::damaged_tokens;
use phalanx_core::Suite;
use phalanx_host::words::count;
use serde::{Deserialize, Serialize};

/// The most lines of damage in a report.
const MOST: usize = 100;

/// What is in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How many keys there are.
    pub keys: u64,
    /// How many versions they have.
    pub versions: u64,
    /// How many buckets have a key.
    pub buckets: u64,
    /// How many users have a salt.
    pub users: u64,
    /// How many of them cannot be opened, although the key of their bucket is whole or missing.
    #[serde(default)]
    pub lost: u64,
    /// How many tokens there are.
    pub tokens: u64,
    /// A line for each thing that is damaged.
    pub damage: Vec<String>,
}

impl Report {
    fn blame(&mut self, line: String) {
        if self.damage.len() < MOST {
            self.damage.push(line);
        }
    }
}

impl Users {
    /// Opens the secrets of all versions, buckets and users.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn check(&self) -> store::Result<Report> {
        let mut report = Report { damage: self.store.damage().await?, ..Report::default() };
        let (keys, tokens) = match self.store.run(|store| Ok((store.keys()?, store.tokens()?))).await {
            Err(store::Error::Damaged(text)) => {
                report.blame(format!("keys and tokens: {text}"));
                return Ok(report);
            }
            read => read?,
        };
        report.tokens = tokens.len() as u64;
        for token in tokens.iter().filter(|token| !self.root.has_token(token)) {
            report.blame(format!("token {:?}", token.accessor));
        }
        for accessor in damaged_tokens(tokens) {
            report.blame(format!("rights of token {accessor}"));
        }
        for key in keys {
            report.keys += 1;
            report.versions += key.versions.len() as u64;
            if !self.root.has_key(&key) {
                report.blame(format!("the settings of key {:?}", key.name));
            }
            for version in damaged_versions(&key, &self.root) {
                report.blame(format!("version {version} of key {}", key.name));
            }
            if Suite::from_id(key.suite).is_none() {
                report.blame(format!("type of key {}", key.name));
            }
            self.check_users(key, &mut report).await?;
        }
        Ok(report)
    }

    async fn check_users(&self, key: KeyRecord, report: &mut Report) -> store::Result<()> {
        let id = key.id;
        for bucket in self.store.run(move |store| store.buckets(&id)).await? {
            let read = move |store: &mut dyn Transaction| {
                Ok((store.bucket(&id, bucket)?, store.users_of_bucket(&id, bucket)?))
            };
            let (sealed, users) = self.store.run(read).await?;
            report.buckets += u64::from(sealed.is_some());
            report.users += users.len() as u64;
            let (root, roster) = (self.root.clone(), self.roster.clone());
            let open = move || rows::check_bucket(&root, &roster, &id, bucket, sealed.as_deref(), &users);
            let damage = tokio::task::spawn_blocking(open).await.map_err(|_| ended())??;
            report.lost += damage.lost;
            if damage.bucket {
                report.blame(format!("bucket {bucket} of key {}, with {}", key.name, count(damage.users, "user")));
            } else if damage.users > 0 {
                report.blame(format!("{} in bucket {bucket} of key {}", count(damage.users, "user"), key.name));
            }
        }
        Ok(())
    }

    /// Deletes the users whose salts do not open, as after a restore from the rows and the buckets of two backups. Returns
    /// how many there were.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn drop_lost(&self) -> store::Result<u64> {
        let mut many = 0;
        for key in self.store.run(|store| store.keys()).await? {
            let id = key.id;
            for bucket in self.store.run(move |store| store.buckets(&id)).await? {
                let (root, roster) = (self.root.clone(), self.roster.clone());
                let drop = move |store: &mut dyn Transaction| {
                    let (sealed, users) = (store.bucket(&id, bucket)?, store.users_of_bucket(&id, bucket)?);
                    let lost = rows::lost(&root, &roster, &id, bucket, sealed.as_deref(), &users)?;
                    for user in &lost {
                        store.delete_user(&id, bucket, user)?;
                    }
                    Ok(lost.len() as u64)
                };
                many += self.store.run(drop).await?;
            }
        }
        self.store.scrub().await?;
        Ok(many)
    }
}
