//! Signatures in the format of `ssh-keygen -Y sign` (SSHSIG), by SSH keys.
//!
//! - [`SigningKey`] is a private key in a file, or one that an agent holds.
//! - [`Signature`] is what it makes, and what a file `NAME.phx.sig` has.
//! - [`Signers`] are those whose signatures count: a file `allowed_signers` of `ssh-keygen`.
//!
//! All cryptography is AWS-LC's, but for the derivation of keys from passphrases (`bcrypt-pbkdf`). The few messages of SSH that are
//! needed are read here, by `wire`: what comes from others is bounded and has one meaning, or is refused.

mod agent;
mod dates;
mod error;
mod key;
mod patterns;
mod private;
mod public;
mod signers;
mod sshsig;
mod wire;

pub use agent::{AGENT_TIME, Agent};
pub use error::KeyError;
pub use key::SigningKey;
pub(crate) use private::rounds;
pub use public::{NotAKey, PublicKey};
pub use signers::{Listing, NotAllowed, Signers, SignersError};
pub use sshsig::{LONGEST_SIGNATURE, Signature, SignatureError};

/// The namespace of all signatures here: what a key signs for another purpose never counts, and the other way round.
pub const NAMESPACE: &str = "phalanx";
