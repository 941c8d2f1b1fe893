//! Empty objects that some tools make for folders: their names end in a slash.

use super::Store;
use super::servers::Kind;
use crate::common::{difference, entries, painted, without_inodes};
use std::fs;

#[test]
fn markers_of_folders_are_no_files() {
    let Some(store) = Store::start(Kind::Moto) else { return };
    for folder in ["src/notes", "src/x.phx", "src/empty.phx"] {
        fs::create_dir_all(store.s.path(folder)).unwrap();
    }
    for name in ["w", "notes/y", "x.phx/z"] {
        store.s.write(&format!("src/{name}"), painted(1000));
    }
    let (backups, url) = ("s3://bucket/backups", "s3://bucket/backups/project.phx");
    store.run(&["mirror", "src", url, "-k", "k"]).ok();
    let mark = |name: &str| {
        let answer = store.server.ask("PUT", &format!("/bucket/backups/{name}"), b"");
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{name}");
    };
    ["", "project.phx/", "project.phx/notes/", "project.phx/x.phx/"].into_iter().for_each(&mark);
    let source = without_inodes(entries(&store.s.path("src")));
    let back = |url: &str, out: &str| {
        store.run(&["unprotect", "-R", url, "-o", out]).ok();
        without_inodes(entries(&store.s.path(out)))
    };
    // Here the names are all that is known.
    assert!(store.run(&["verify", "-R", backups]).text().contains("3 files"));
    assert_eq!(back(backups, "all").keys().filter(|path| store.s.path("all").join(path).is_file()).count(), 3);
    for _ in 0..2 {
        let said = store.run(&["mirror", "src", url, "-k", "k", "--delete"]);
        assert!(said.0.status.success() && said.error().contains("0 files new, 3 unchanged"), "{}", said.error());
    }
    // That nothing lies in this one is known to the manifest.
    mark("project.phx/empty.phx/");
    for more in [&[][..], &["--quick"]] {
        store.run(&[&["verify", "-R", url], more].concat()).ok();
    }
    assert_eq!(difference(&source, &back(url, "out")), None);
}
