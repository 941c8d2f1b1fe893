//! Which keys, passwords and public keys are meant.

use crate::failure::Outcome;
use crate::paths;
use std::path::PathBuf;

/// The keys for protecting. Each of them opens the file. Without any, a password is asked for.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args), group(skip))]
pub struct ProtectKeys {
    /// Keys and a password of the user.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub keys: KeyArgs,
    /// Ask for a password in addition to the keys
    #[cfg_attr(feature = "clap", arg(short, long, conflicts_with_all = ["password_file", "password_command"]))]
    pub password: bool,
    /// Whether a new password is made and printed. Only commands whose standard output is free for it have the option.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub generate_password: bool,
    /// Protect for a public key (repeatable)
    ///
    /// The key is one of age or SSH: it begins with age1, ssh-ed25519 or ssh-rsa. Whoever holds its private key can get the
    /// file back with --identity. An age1 key of another kind than age's own is for a plugin: age1NAME1... needs the
    /// program age-plugin-NAME.
    #[cfg_attr(feature = "clap", arg(short, long = "recipient", value_name = "KEY"))]
    pub recipients: Vec<String>,
    /// Protect for all public keys in a file
    ///
    /// May be repeated. There is one key on each line. Lines that are empty or begin with # do not count.
    #[cfg_attr(feature = "clap", arg(long = "recipients-file", value_name = "FILE"))]
    pub recipients_files: Vec<PathBuf>,
    /// Protect by a key service (repeatable)
    ///
    /// The URI names the service and its key: hashivault://orders is the key orders of Vault's Transit, and the program
    /// phalanx-kms-hashivault asks it. Whoever the service serves can get the file back with --kms. Without the service nobody
    /// can, so name a key, a password or a public key too.
    #[cfg_attr(feature = "clap", arg(long = "kms", value_name = "URI"))]
    pub services: Vec<String>,
}

impl ProtectKeys {
    /// Whether there are public keys, and neither a key nor a password.
    pub fn only_recipients(&self) -> bool {
        let keys = &self.keys;
        let has_own =
            !keys.keys.is_empty() || !keys.key_files.is_empty() || keys.names_password() || !self.services.is_empty();
        let has_recipients = !self.recipients.is_empty() || !self.recipients_files.is_empty();
        has_recipients && !has_own && !self.password && !self.generate_password
    }
}

/// The keys for opening. Those that are named are the only ones that are tried.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args), group(skip))]
pub struct OpenKeys {
    /// Keys and a password of the user.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub keys: KeyArgs,
    /// Use the private keys in a file (repeatable)
    ///
    /// The file holds age identities, perhaps behind a passphrase, or is an OpenSSH private key. A passphrase is asked for when
    /// it is needed. Anybody can protect a file for a public key, so nothing is known about who wrote what an identity opens.
    #[cfg_attr(feature = "clap", arg(short, long = "identity", value_name = "FILE"))]
    pub identities: Vec<PathBuf>,
    /// Ask a key service (repeatable)
    ///
    /// Only services that are named are asked, whatever a file says. If nothing is named that opens it, those are that the
    /// user's file phalanx/key-services names, in ~/.config by default.
    #[cfg_attr(feature = "clap", arg(long = "kms", value_name = "URI"))]
    pub services: Vec<String>,
}

/// Keys and a password.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args), group(skip))]
pub struct KeyArgs {
    /// Read the password from a file
    ///
    /// One newline at its end is not part of the password. Without this option the password is the value of
    /// PHALANX_PASSWORD, or systemd's credential phalanx.password, or is asked for.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub password_file: Option<PathBuf>,
    /// Use the password that a shell command prints
    ///
    /// One newline at its end is not part of the password. The command gets no standard input. It may ask at the terminal.
    #[cfg_attr(feature = "clap", arg(long, value_name = "CMD", conflicts_with = "password_file"))]
    pub password_command: Option<String>,
    /// Use a key of the keyring (repeatable)
    #[cfg_attr(feature = "clap", arg(short, long = "key", value_name = "NAME"))]
    pub keys: Vec<String>,
    /// Use a 32-byte file as a key (repeatable)
    #[cfg_attr(feature = "clap", arg(long = "key-file", value_name = "FILE"))]
    pub key_files: Vec<PathBuf>,
}

impl OpenKeys {
    /// Refuses options of which two are standard input, one of the paths among them.
    ///
    /// # Errors
    /// If `-` is given more than once.
    pub fn validate(&self, paths: &[PathBuf]) -> Outcome {
        paths::one_stdin(paths.iter().chain(self.keys.files()).chain(&self.identities))
    }
}

impl KeyArgs {
    /// The files of keys and of the password.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.key_files.iter().chain(&self.password_file)
    }

    /// Whether an option says where the password comes from.
    pub fn names_password(&self) -> bool {
        self.password_file.is_some() || self.password_command.is_some()
    }
}
