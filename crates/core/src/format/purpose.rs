//! What a header is for.

/// What a header is for. This determines the label of its key-encrypting keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A file, protected on its own or in a volume.
    File,
    /// The config of a volume: a slot of type 16 says so.
    Volume,
}
