//! Opening every secret of the store, to know that it is whole.

use super::{Users, ended, rows};
use crate::keys::damaged_versions;
use crate::store::{self, KeyRecord, Transaction};
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
        let (keys, tokens) = self.store.run(|store| Ok((store.keys()?, store.tokens()?))).await?;
        report.tokens = tokens.len() as u64;
        for token in tokens.iter().filter(|token| !self.root.has_token(token)) {
            report.blame(format!("token {:?}", token.accessor));
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
            self.check_users(key, &mut report).await?;
        }
        Ok(report)
    }

    async fn check_users(&self, key: KeyRecord, report: &mut Report) -> store::Result<()> {
        let id = key.id;
        for bucket in self.store.run(move |store| store.buckets(&id)).await? {
            let read = move |store: &mut dyn Transaction| {
                Ok((store.bucket(&id, bucket, false)?, store.users_of_bucket(&id, bucket)?))
            };
            let (sealed, users) = self.store.run(read).await?;
            report.buckets += u64::from(sealed.is_some());
            report.users += users.len() as u64;
            let (root, roster) = (self.root.clone(), self.roster.clone());
            let open = move || rows::check_bucket(&root, &roster, &id, bucket, sealed.as_deref(), &users);
            let damage = tokio::task::spawn_blocking(open).await.map_err(|_| ended())??;
            if damage.bucket {
                report.blame(format!("bucket {bucket} of key {}, with {} users", key.name, damage.users));
            } else if damage.users > 0 {
                report.blame(format!("{} users in bucket {bucket} of key {}", damage.users, key.name));
            }
        }
        Ok(())
    }
}
