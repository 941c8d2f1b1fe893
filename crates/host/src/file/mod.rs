//! Both ends of a file: reading inputs, writing and naming outputs, and going on after interrupted runs. Also the
//! keyring.

#[cfg_attr(windows, path = "../windows/acl.rs")]
mod acl;
mod disk;
mod ending;
mod ends;
mod folder;
mod input;
mod keyring;
mod made;
mod marks;
mod metadata;
mod names;
mod objects;
mod obstacle;
mod output;
#[cfg_attr(windows, path = "../windows/private.rs")]
mod private;
mod regular;
mod rekey;
mod resume;
mod resume_upload;
mod temporary;

pub use acl::is_for_user_alone;
pub(crate) use acl::without_list;
pub use disk::{Disk, sink};
pub use ending::{protected_name, refuse_protected, refuse_protected_source, unprotected_name};
pub use ends::{Ends, Input, OutputPlace, OutputRules, Target, carry};
pub use folder::NewFolder;
pub use input::{InputFile, Removal, Stamp};
pub use keyring::Keyring;
pub use made::{Made, Spared};
pub(crate) use made::{counterpart, is_listed, swap_case};
pub use metadata::{Attributes, Carry, umask};
pub(crate) use metadata::{has_resource_fork, remove_acls, set_mode, tolerate};
pub(crate) use objects::object_error;
pub use objects::{
    InputObject, Left, ListedObject, NewObject, ObjectFolder, OutputObject, Plan, Stores, Url, give_up,
    install as install_stores, is_url, stores,
};
pub use obstacle::Obstacle;
pub use output::{Committed, Existing, Output, Sync, check_close, keep_output, sync_folder};
pub use private::{check_file as check_private, check_folder as check_private_folder, check_unwritable};
pub use regular::{regular, source};
pub use rekey::{InPlace, Unfinished, is_unfinished};
pub use resume::{
    Begun, Past, Resumable, begin_plaintext, begin_protected, begins_with, not_opened, not_sealed, note_synced,
};
pub use resume_upload::ResumableUpload;
pub use temporary::{is_temporary, remove_if_left, remove_unfinished, remove_unfinished_at_once, unused_name};
