//! A store whose disk is full.

use crate::common::{Folder, Small, base64};
use serde_json::json;
use std::fs::File;
use std::io::Write;

#[test]
fn a_full_disk_is_a_matter_of_asking_again() {
    let folder = Folder::bare();
    let Some(small) = Small::new(folder.dir(), "1m") else { return };
    assert!(folder.run(["init"]).status.success());
    let server = folder.start(&["--audit", "off"]);
    assert!(folder.run(["key", "new", "people", "--mode", "shreddable"]).status.success());
    let filler = small.0.join("filler");
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    let seal = |user: usize| {
        let item = |i: usize| json!({ "plaintext": "QQ==", "context": base64(format!("user {user} {i}")) });
        let batch: Vec<_> = (0..200).map(item).collect();
        server
            .post("/v1/transit/encrypt/people", &json!({ "batch_input": batch, "partial_failure_response_code": 200 }))
    };
    // There is some room left in the store's own files.
    let full = (0..1000).map(seal).find(|answer| answer.status != 200).expect("the disk is never full");
    assert_eq!((full.status, full.header("retry-after")), (503, Some("1")), "{}", full.text());
    assert!(full.text().contains("\"error\":\"the store's disk is full\""), "{}", full.text());
    server.line("the store's disk is full");
    let refused = folder.run(["key", "new", "more"]);
    assert_eq!(refused.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("the store's disk is full"));
    drop(file);
    std::fs::remove_file(filler).unwrap();
    let served = seal(2000);
    assert_eq!(served.status, 200, "{}", served.text());
    assert!(folder.run(["check"]).status.success());
}
