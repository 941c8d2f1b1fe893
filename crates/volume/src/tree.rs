//! The tree of a volume: its folders and their entries, found by their plain names. Everything is reached from the
//! root's descriptor, one folder at a time, so moving things in the backing folder never leads out of it.

mod attr;
mod base;
mod descriptors;
mod kind;
mod list;
mod listing;
mod lookup;
mod make;
mod node;
mod opened;
mod removals;
mod remove;
mod rename;
mod stored;
mod xattr;

pub use attr::{Attr, SetAttr};
pub use base::{OnDamage, PlainLen, Tree, TreeOptions};
pub use kind::Kind;
pub use list::Entry;
pub use listing::Listing;
pub use make::Owner;
pub use node::ROOT;
pub use removals::{Act, Removal, Removals};
pub use rename::RenameMode;
pub use xattr::SetMode;
