//! The options of a mount: those that are always given, and those of `-o`.

use super::MountError;
use fuser::{Config, MountOption, SessionACL};
use std::path::Path;

/// The options of a mount.
///
/// Permissions are always checked by the kernel (`default_permissions`). Set-user-ID bits and devices count only if `suid`
/// and `dev` are asked for.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Whether nothing can be written.
    pub read_only: bool,
    /// Whether other users than the one who mounts get in.
    pub allow_other: bool,
    allow_root: bool,
    auto_unmount: bool,
    name: String,
    subtype: String,
    max_read: Option<u32>,
    /// All others.
    flags: Vec<MountOption>,
}

impl MountOptions {
    /// Those of a writable mount, which lists of mounts name after its source.
    #[must_use]
    pub fn new(source: &Path) -> Self {
        Self {
            read_only: false,
            allow_other: false,
            allow_root: false,
            auto_unmount: false,
            name: safe(&source.to_string_lossy()),
            subtype: "phalanx".into(),
            max_read: None,
            flags: Vec::new(),
        }
    }

    /// Adds options as `-o` takes them: words with commas between them.
    ///
    /// # Errors
    /// If one is unknown, has a wrong value, or contradicts another.
    pub fn add(&mut self, words: &str) -> Result<(), MountError> {
        words.split(',').try_for_each(|word| self.add_one(word))
    }

    fn add_one(&mut self, word: &str) -> Result<(), MountError> {
        let flag = match word {
            "ro" => MountOption::RO,
            "rw" => MountOption::RW,
            "suid" => MountOption::Suid,
            "nosuid" => MountOption::NoSuid,
            "dev" => MountOption::Dev,
            "nodev" => MountOption::NoDev,
            "exec" => MountOption::Exec,
            "noexec" => MountOption::NoExec,
            "atime" => MountOption::Atime,
            "noatime" => MountOption::NoAtime,
            "sync" => MountOption::Sync,
            "async" => MountOption::Async,
            "dirsync" => MountOption::DirSync,
            _ => return self.add_other(word),
        };
        if flag == MountOption::RO {
            self.read_only = true;
        }
        if let Some(other) = opposite(&flag).filter(|other| self.flags.contains(other)) {
            return Err(MountError::Option(format!(
                "the mount options {word} and {} exclude each other",
                text(&other)
            )));
        }
        if !self.flags.contains(&flag) {
            self.flags.push(flag);
        }
        Ok(())
    }

    fn add_other(&mut self, word: &str) -> Result<(), MountError> {
        match word.split_once('=') {
            None if word == "allow_other" => self.allow_other = true,
            None if word == "allow_root" => self.allow_root = true,
            None if word == "auto_unmount" => self.auto_unmount = true,
            // It is always on.
            None if word == "default_permissions" => {}
            Some(("fsname", name)) if !name.is_empty() => self.name = safe(name),
            Some(("subtype", name)) if !name.is_empty() => self.subtype = safe(name),
            Some(("max_read", number)) => {
                let number = number.parse().ok().filter(|number| *number >= 4096);
                let wrong = || MountError::Option("max_read: a number of bytes, at least 4096".into());
                self.max_read = Some(number.ok_or_else(wrong)?);
            }
            _ => return Err(MountError::UnknownOption(word.into())),
        }
        Ok(())
    }

    /// Checks what can be said of all options together.
    ///
    /// # Errors
    /// If two of them contradict each other, or one lacks another.
    pub fn check(&self) -> Result<(), MountError> {
        let line = match () {
            () if self.allow_other && self.allow_root => {
                "the mount options allow_other and allow_root exclude each other"
            }
            () if self.auto_unmount && !self.lets_others() => {
                "the mount option auto_unmount needs allow_other or allow_root"
            }
            () if self.read_only && self.is_writable_asked() => {
                "the mount option rw is not possible here: it is mounted for reading only"
            }
            () => return Ok(()),
        };
        Err(MountError::Option(line.into()))
    }

    /// Whether `rw` was asked for.
    #[must_use]
    pub fn is_writable_asked(&self) -> bool {
        self.flags.contains(&MountOption::RW)
    }

    /// Whether users other than the one who mounts get in.
    #[must_use]
    pub fn lets_others(&self) -> bool {
        self.allow_other || self.allow_root
    }

    /// The same for fuser.
    pub(super) fn config(&self) -> Config {
        let mut options = vec![
            MountOption::FSName(self.name.clone()),
            MountOption::Subtype(self.subtype.clone()),
            MountOption::DefaultPermissions,
        ];
        options.extend(self.flags.iter().cloned());
        let is_absent = |flag: &MountOption| !self.flags.contains(flag);
        for (asked, usual) in [(MountOption::Suid, MountOption::NoSuid), (MountOption::Dev, MountOption::NoDev)] {
            if is_absent(&asked) && is_absent(&usual) {
                options.push(usual);
            }
        }
        if self.read_only && is_absent(&MountOption::RO) {
            options.push(MountOption::RO);
        }
        if self.auto_unmount {
            options.push(MountOption::AutoUnmount);
        }
        options.extend(self.max_read.map(|number| MountOption::CUSTOM(format!("max_read={number}"))));
        let mut config = Config::default();
        config.mount_options = options;
        config.acl = match (self.allow_other, self.allow_root) {
            (true, _) => SessionACL::All,
            (_, true) => SessionACL::RootAndOwner,
            _ => SessionACL::Owner,
        };
        config
    }
}

fn opposite(flag: &MountOption) -> Option<MountOption> {
    Some(match flag {
        MountOption::RO => MountOption::RW,
        MountOption::RW => MountOption::RO,
        MountOption::Suid => MountOption::NoSuid,
        MountOption::NoSuid => MountOption::Suid,
        MountOption::Dev => MountOption::NoDev,
        MountOption::NoDev => MountOption::Dev,
        MountOption::Exec => MountOption::NoExec,
        MountOption::NoExec => MountOption::Exec,
        MountOption::Atime => MountOption::NoAtime,
        MountOption::NoAtime => MountOption::Atime,
        MountOption::Sync => MountOption::Async,
        MountOption::Async => MountOption::Sync,
        _ => return None,
    })
}

fn text(flag: &MountOption) -> String {
    format!("{flag:?}").to_lowercase()
}

/// A name that cannot be taken for more options: fusermount3 takes all of them in one argument, with commas between them.
fn safe(name: &str) -> String {
    name.chars().map(|c| if c == ',' || c == '\\' || c.is_control() { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(words: &str) -> Config {
        let mut options = MountOptions::new(Path::new("/a,suid\\"));
        options.add(words).unwrap();
        options.check().unwrap();
        options.config()
    }

    #[test]
    fn what_is_not_asked_for_is_safe() {
        let usual = config("default_permissions").mount_options;
        for option in [MountOption::NoSuid, MountOption::NoDev, MountOption::DefaultPermissions] {
            assert!(usual.contains(&option), "{option:?}");
        }
        assert!(usual.contains(&MountOption::FSName("/a_suid_".into())), "{usual:?}");
        assert_eq!(config("exec").acl, SessionACL::Owner);
        let asked = config("suid,dev,ro,max_read=65536,fsname=x,subtype=y").mount_options;
        for option in [MountOption::Suid, MountOption::Dev, MountOption::RO] {
            assert_eq!(asked.iter().filter(|o| **o == option).count(), 1, "{option:?}");
        }
        for option in [MountOption::NoSuid, MountOption::NoDev] {
            assert!(!asked.contains(&option), "{option:?}");
        }
        assert!(asked.contains(&MountOption::CUSTOM("max_read=65536".into())), "{asked:?}");
        assert_eq!(config("allow_root").acl, SessionACL::RootAndOwner);
        assert_eq!(config("allow_other,auto_unmount").acl, SessionACL::All);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |words: &str| {
            let mut options = MountOptions::new(Path::new("/a"));
            options.add(words).and_then(|()| options.check()).unwrap_err().to_string()
        };
        assert_eq!(wrong("noatime,bogus"), "unknown mount option bogus");
        assert_eq!(wrong("fsname="), "unknown mount option fsname=");
        assert_eq!(wrong("rw,ro"), "the mount options ro and rw exclude each other");
        assert_eq!(wrong("nosuid,suid"), "the mount options suid and nosuid exclude each other");
        assert!(wrong("max_read=12").starts_with("max_read: "));
        assert!(wrong("auto_unmount").contains("needs allow_other"));
        assert!(wrong("allow_other,allow_root").contains("exclude"));
        assert!(wrong("").starts_with("unknown mount option"));
    }
}
