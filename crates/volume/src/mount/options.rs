//! The options of a mount: those that are always set, and those of `-o`.

use super::MountError;
use crate::fuse::Admitted;
use rustix::mount::MountFlags;
use std::path::Path;

/// The options of a mount.
///
/// Permissions are always checked by the kernel (`default_permissions`). Set-user-ID bits and devices count only if
/// `suid` and `dev` are asked for.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Whether nothing can be written.
    pub read_only: bool,
    /// Whether users other than the one who mounts have access.
    pub allow_other: bool,
    allow_root: bool,
    pub(super) auto_unmount: bool,
    name: String,
    subtype: String,
    max_read: Option<u32>,
    /// All others.
    words: Vec<&'static str>,
}

impl MountOptions {
    /// The options of a writable mount, whose name in lists of mounts is its source.
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
            words: Vec::new(),
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
        let Some((word, _)) = FLAGS.into_iter().find(|(flag, _)| *flag == word) else { return self.add_other(word) };
        if word == "ro" {
            self.read_only = true;
        }
        if let Some(other) = opposite(word).filter(|other| self.has(other)) {
            return Err(MountError::Option(format!("the mount options {word} and {other} exclude each other")));
        }
        if !self.has(word) {
            self.words.push(word);
        }
        Ok(())
    }

    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
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

    /// Checks all options together.
    ///
    /// # Errors
    /// If two of them contradict each other, or one needs another that is missing.
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
        self.has("rw")
    }

    /// Whether users other than the one who mounts have access.
    #[must_use]
    pub fn lets_others(&self) -> bool {
        self.allow_other || self.allow_root
    }

    /// What lists of mounts show as its source.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The type of the file system.
    pub(super) fn kind(&self) -> String {
        format!("fuse.{}", self.subtype)
    }

    /// The words that are flags of the kernel, including the implied ones.
    fn flag_words(&self) -> Vec<&'static str> {
        let mut words = self.words.clone();
        for (asked, usual) in [("suid", "nosuid"), ("dev", "nodev")] {
            if !self.has(asked) && !self.has(usual) {
                words.push(usual);
            }
        }
        if self.read_only && !self.has("ro") {
            words.push("ro");
        }
        words
    }

    /// The flags of the mount, for the kernel.
    pub(super) fn flags(&self) -> MountFlags {
        let words = self.flag_words();
        FLAGS.into_iter().filter(|(word, _)| words.contains(word)).map(|(_, flag)| flag).collect()
    }

    /// The options of FUSE itself, for the kernel.
    pub(super) fn data(&self) -> String {
        let mut data = String::from("default_permissions");
        // The kernel admits all other users, and the session then refuses those who are not root.
        if self.lets_others() {
            data.push_str(",allow_other");
        }
        if let Some(number) = self.max_read {
            data.push_str(&format!(",max_read={number}"));
        }
        data
    }

    /// All options, for fusermount3.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = vec![format!("fsname={}", self.name), format!("subtype={}", self.subtype), self.data()];
        words.extend(self.flag_words().into_iter().map(String::from));
        if self.auto_unmount {
            words.push("auto_unmount".into());
        }
        words
    }

    /// Who has access, if this user mounts.
    pub(super) fn admitted(&self, user: u32) -> Admitted {
        match (self.allow_other, self.allow_root) {
            (false, true) => Admitted::RootAndOwner(user),
            // Without allow_other the kernel itself admits only this user.
            _ => Admitted::All,
        }
    }
}

/// The words that are flags of the kernel. Some only undo another one.
const FLAGS: [(&str, MountFlags); 13] = [
    ("ro", MountFlags::RDONLY),
    ("rw", MountFlags::empty()),
    ("suid", MountFlags::empty()),
    ("nosuid", MountFlags::NOSUID),
    ("dev", MountFlags::empty()),
    ("nodev", MountFlags::NODEV),
    ("exec", MountFlags::empty()),
    ("noexec", MountFlags::NOEXEC),
    ("atime", MountFlags::empty()),
    ("noatime", MountFlags::NOATIME),
    ("sync", MountFlags::SYNCHRONOUS),
    ("async", MountFlags::empty()),
    ("dirsync", MountFlags::DIRSYNC),
];

fn opposite(word: &str) -> Option<&'static str> {
    const PAIRS: [(&str, &str); 6] = [
        ("ro", "rw"),
        ("suid", "nosuid"),
        ("dev", "nodev"),
        ("exec", "noexec"),
        ("atime", "noatime"),
        ("sync", "async"),
    ];
    PAIRS.into_iter().find_map(|(one, other)| match word {
        _ if word == one => Some(other),
        _ if word == other => Some(one),
        _ => None,
    })
}

/// Makes a name that cannot be read as more options: fusermount3 takes all of them in one argument, separated by
/// commas.
fn safe(name: &str) -> String {
    name.chars().map(|c| if c == ',' || c == '\\' || c.is_control() { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &str) -> MountOptions {
        let mut options = MountOptions::new(Path::new("/a,suid\\"));
        options.add(words).unwrap();
        options.check().unwrap();
        options
    }

    #[test]
    fn default_options_are_safe() {
        let usual = options("default_permissions");
        assert_eq!(usual.flags(), MountFlags::NOSUID | MountFlags::NODEV);
        assert_eq!(usual.data(), "default_permissions");
        assert_eq!(usual.words().join(","), "fsname=/a_suid_,subtype=phalanx,default_permissions,nosuid,nodev");
        assert_eq!([usual.name(), &usual.kind()], ["/a_suid_", "fuse.phalanx"]);
        let asked = options("suid,dev,ro,noexec,max_read=65536,fsname=x,subtype=y,allow_root");
        assert_eq!(asked.flags(), MountFlags::RDONLY | MountFlags::NOEXEC);
        assert_eq!(asked.data(), "default_permissions,allow_other,max_read=65536");
        let words = "fsname=x,subtype=y,default_permissions,allow_other,max_read=65536,suid,dev,ro,noexec";
        assert_eq!(asked.words().join(","), words);
        let acls = ["exec", "allow_root", "allow_other,auto_unmount"].map(|words| options(words).admitted(7));
        assert_eq!(acls, [Admitted::All, Admitted::RootAndOwner(7), Admitted::All]);
        assert!(options("allow_other,auto_unmount").words().ends_with(&["auto_unmount".into()]));
    }

    #[test]
    fn wrong_options_are_named() {
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
