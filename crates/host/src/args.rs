//! Options that programs share, as values. With the feature `clap` they are parts of a command line as well: their
//! comments are then its help.

mod cipher;
mod engine;
mod excludes;
mod keys;
#[cfg(feature = "clap")]
mod mirror;
mod numbers;
#[cfg(feature = "clap")]
mod pins;
#[cfg(feature = "clap")]
mod signing;

pub use cipher::Cipher;
pub use engine::{EngineArgs, EngineName};
pub use excludes::{ExcludeArgs, RuleArg, RuleArgs, rule_of};
pub use keys::{KeyArgs, OpenKeys, ProtectKeys};
#[cfg(feature = "clap")]
pub use mirror::{MirrorArgs, MirrorPlan};
pub use numbers::{bytes, chunk_size, size, threads};
#[cfg(feature = "clap")]
pub use pins::PinArgs;
#[cfg(feature = "clap")]
pub use signing::{SignArgs, SignMirrorArgs, SignersArgs};

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(feature = "clap")]
    fn a_command_line_has_the_same_names() {
        use super::{Cipher, EngineName};
        use clap::ValueEnum;
        assert_eq!(Cipher::value_variants(), Cipher::ALL);
        assert_eq!(EngineName::value_variants(), EngineName::ALL);
        let name = |value: Option<clap::builder::PossibleValue>| value.unwrap().get_name().to_owned();
        assert!(Cipher::ALL.iter().all(|cipher| name(cipher.to_possible_value()) == cipher.name()));
        assert!(EngineName::ALL.iter().all(|engine| name(engine.to_possible_value()) == engine.name()));
    }
}
