//! An output that is complete gets the metadata of its input, and then its name.

use phalanx_core::{Error as CoreError, NewFile, Recipient, Roster, SecretKey, Suite};
use phalanx_host::Error;
use phalanx_host::file::{Ends, OutputRules};
use std::fs::{self, File};
use std::time::{Duration, SystemTime};

/// The check that an input has not changed comes before its time is taken over, which may be much later: the output is
/// synced before. With the new time and the old content it would be taken for done.
#[test]
fn no_output_gets_the_time_of_what_was_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("input"), dir.path().join("output"));
    let rules = OutputRules::default();
    let begin = || {
        let ends = Ends::of_paths(&input, &output, &rules).unwrap();
        let new = NewFile::new(Suite::default(), &[Recipient::key(&SecretKey::random().unwrap())]).unwrap();
        new.protect(&Roster::cpu(), ends.source().unwrap(), ends.sink(), &()).unwrap();
        ends
    };
    fs::write(&input, "version 1").unwrap();
    let ends = begin();
    fs::write(&input, "version 2").unwrap();
    File::options().write(true).open(&input).unwrap().set_modified(SystemTime::now() + Duration::from_secs(9)).unwrap();
    assert!(matches!(ends.commit(&rules), Err(Error::Core(CoreError::Changed))));
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    begin().commit(&rules).unwrap();
    let modified = |path| fs::metadata(path).unwrap().modified().unwrap();
    assert_eq!(modified(&input), modified(&output));
}
