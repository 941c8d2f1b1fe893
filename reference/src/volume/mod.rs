//! Volumes (§10). The folder's content is a [`Stored`], in memory.
//!
//! The modules, top-down: `read` opens a volume, `write` makes one, `journal` and `apply` are §10.7, `backing` is §10.6, `names` are
//! §10.4 and §10.5, `versions` is §10.9, `config` is §10.2 and §10.3, and `stored` is the folder itself.

mod apply;
mod backing;
mod config;
mod journal;
mod names;
mod read;
mod stored;
mod versions;
mod write;

pub use apply::{Applied, LeftOut, apply_journal, apply_journal_with};
pub use backing::{BACKING_HEADER_LEN, Backing, file_id, read_backing, seal_backing};
pub use config::{Config, VolumeKeys, open_config, volume_slot};
pub use journal::{Record, Transaction, What, read_journal, read_journal_of, seal_transaction};
pub use names::{
    base64url, folder_id, folder_record, full_is_needed, link_target, name_is_valid, plain_name, plain_xattr,
    seal_link, seal_name, seal_xattr, stored_name, unbase64url,
};
pub use read::{Opened, Plain, PlainEntry, Refusal, open_volume};
#[cfg(unix)]
pub use stored::load_folder;
pub use stored::{Entry, Kind, Special, Stored, Xattrs, join};
pub use versions::{State, Table, groups, is_same, sum, tags_of, version};
pub use write::{Made, Place, Writer, with_state};
