//! Somebody who can write to a store, or to a backup of it, and does not have the root key.

use crate::common::{Folder, Server};
use crate::store::{failed, settle};
use rusqlite::Connection;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// A folder with a server that has ended, its key, and the texts of two tokens: for sealing, and of an administrator.
fn used() -> (Arc<Folder>, String, String) {
    let server = Server::start(&[]);
    let folder = server.folder.clone();
    assert!(folder.run(["key", "new", "orders"]).status.success());
    let tokens = (server.token(&["seal:orders"]), server.token(&["admin"]));
    assert!(server.terminate().success());
    settle(&folder);
    (folder, tokens.0, tokens.1)
}

fn change(database: &Path, sql: &str) {
    Connection::open(database).unwrap().execute_batch(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
}

const NOT_OURS: &str = "its tables, views and triggers are not those that this program makes";

#[test]
fn a_token_that_was_changed_is_refused() {
    let (folder, seals, admin) = used();
    let store = folder.dir().join("server.db");
    let whole = fs::read(&store).unwrap();
    let is_sealing = "rights = 'seal:orders'";
    for sql in [
        format!("UPDATE tokens SET rights = 'admin' WHERE {is_sealing}"),
        format!("UPDATE tokens SET expires = expires + 1 WHERE {is_sealing}"),
        format!("UPDATE tokens SET user = x'61' WHERE {is_sealing}"),
        format!("UPDATE tokens SET renewable = 0, ttl = 9 WHERE {is_sealing}"),
        format!("UPDATE tokens SET parent = (SELECT accessor FROM tokens WHERE rights = 'admin') WHERE {is_sealing}"),
        format!("UPDATE tokens SET mac = zeroblob(32) WHERE {is_sealing}"),
        // The text of one with the rights of the other one.
        format!(
            "DELETE FROM tokens WHERE {is_sealing}; INSERT INTO tokens SELECT zeroblob(32), 'evil', rights, user, created, expires, ttl, renewable, parent, name, mac FROM tokens"
        ),
    ] {
        fs::write(&store, &whole).unwrap();
        change(&store, &sql);
        let server = folder.start(&[]);
        assert_eq!(server.post_by(&seals, "/v1/auth/token/lookup-self", &json!({})).status, 403, "{sql}");
        assert_eq!(server.post_by(&admin, "/v1/auth/token/lookup-self", &json!({})).status, 200, "{sql}");
        server.line("warning: the token");
        assert!(server.terminate().success());
        settle(&folder);
        failed(&folder.run(["check"]), 3, "damaged: token");
    }
}

#[test]
fn a_key_that_was_changed_is_refused() {
    let (folder, ..) = used();
    let store = folder.dir().join("server.db");
    let whole = fs::read(&store).unwrap();
    for sql in [
        "UPDATE keys SET deletion_allowed = 1",
        "UPDATE keys SET min_decryption = 0",
        "UPDATE keys SET needs_user = 0",
        "UPDATE keys SET name = 'others'",
        "UPDATE keys SET suite = 3",
        "UPDATE versions SET created = 0",
        "DELETE FROM versions",
        "UPDATE keys SET mac = zeroblob(32)",
    ] {
        fs::write(&store, &whole).unwrap();
        change(&store, sql);
        for command in ["run", "check"] {
            failed(&folder.run([command]), 3, "the settings of key");
        }
    }
    fs::write(&store, &whole).unwrap();
    assert!(folder.run(["check"]).status.success());
}

#[test]
fn a_backup_that_was_changed_is_not_restored() {
    let (folder, ..) = used();
    let backup = folder.beside("backup");
    assert!(
        folder
            .run(["backup", backup.to_str().unwrap(), "--key-file", folder.key_file().to_str().unwrap()])
            .status
            .success()
    );
    let rows = backup.join("rows.db");
    let whole = fs::read(&rows).unwrap();
    let restored = folder.beside("restored");
    let restore = || folder.run(["restore", backup.to_str().unwrap(), "--dir", restored.to_str().unwrap()]);
    for (sql, text) in [
        (
            "INSERT INTO tokens SELECT zeroblob(32), 'evil', 'admin', NULL, 1, NULL, 0, 0, NULL, NULL, mac FROM tokens LIMIT 1",
            "damaged: token \"evil\"",
        ),
        ("UPDATE keys SET deletion_allowed = 1", "the settings of key \"orders\""),
        ("CREATE TRIGGER evil AFTER INSERT ON tokens BEGIN DELETE FROM keys; END", NOT_OURS),
        ("CREATE VIEW evil AS SELECT * FROM keys", NOT_OURS),
        ("ALTER TABLE tokens RENAME TO own; CREATE VIEW tokens AS SELECT * FROM own", NOT_OURS),
    ] {
        fs::write(&rows, &whole).unwrap();
        change(&rows, sql);
        failed(&restore(), 3, text);
        assert!(!restored.exists(), "{sql}");
    }
    fs::write(&rows, &whole).unwrap();
    assert!(restore().status.success());
}

/// The count of changes, which no MAC protects, and which only the running server needs.
#[test]
fn a_count_of_changes_that_was_altered_does_no_harm() {
    let (folder, ..) = used();
    let store = folder.dir().join("server.db");
    let serves = || {
        let server = folder.start(&[]);
        let rotated = folder.run(["key", "rotate", "orders"]);
        assert!(rotated.status.success(), "{}", String::from_utf8_lossy(&rotated.stderr));
        assert!(server.terminate().success());
        settle(&folder);
    };
    let backup = folder.beside("backup");
    let made = folder.run(["backup", backup.to_str().unwrap(), "--key-file", folder.key_file().to_str().unwrap()]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for sql in [
        "DELETE FROM state",
        "INSERT INTO state VALUES (7)",
        "UPDATE state SET generation = 9223372036854775807",
        "UPDATE state SET generation = -9223372036854775808",
    ] {
        change(&store, sql);
        assert!(folder.run(["check"]).status.success(), "{sql}");
        change(&store, sql);
        serves();
        change(&backup.join("rows.db"), sql);
        assert!(folder.run(["check", "--dir", backup.to_str().unwrap()]).status.success(), "{sql}");
        let restored = folder.run(["restore", "--replace", backup.to_str().unwrap()]);
        assert!(restored.status.success(), "{sql}: {}", String::from_utf8_lossy(&restored.stderr));
        serves();
    }
}

#[test]
fn a_store_with_a_trigger_is_refused() {
    let (folder, ..) = used();
    let store = folder.dir().join("server.db");
    change(&store, "CREATE TRIGGER evil AFTER UPDATE ON tokens BEGIN UPDATE tokens SET expires = NULL; END");
    failed(&folder.run(["run"]), 3, NOT_OURS);
}
