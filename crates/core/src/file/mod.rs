//! Files: protecting and unprotecting them, and how programs read, write and delete them without data loss.

mod anew;
mod cache;
mod disk;
mod fetch;
pub(crate) mod input;
pub(crate) mod made;
pub(crate) mod marks;
pub(crate) mod metadata;
pub(crate) mod obstacle;
pub(crate) mod output;
pub(crate) mod pipeline;
pub(crate) mod protected;
pub(crate) mod read_at;
pub(crate) mod reader;
pub(crate) mod records;
pub(crate) mod rekey;
pub(crate) mod resume;
pub(crate) mod salvage;
pub(crate) mod shared;
pub(crate) mod source;
mod stream;
mod survey;
pub(crate) mod temporary;
mod todo;
pub(crate) mod writer;

pub use crate::io::read_full;
pub use crate::keys::private::check_file as check_private;
pub use input::{InputFile, Removal, Stamp};
pub use made::{Made, Spared};
pub use metadata::{Attributes, Carry};
pub use obstacle::Obstacle;
pub use output::{Committed, Existing, Output, Sync, check_close, sync_folder};
pub use rekey::{InPlace, Unfinished, is_unfinished};
pub use resume::{Begun, Past};
pub use shared::SharedFile;
pub use temporary::{is_temporary, remove_unfinished, remove_unfinished_at_once, unused_name};
