//! `phalanx-server key`: makes, lists, changes and deletes keys.

use super::client;
use super::say::{say, say_json};
use crate::args::{Key, KeyConfig, KeyList, KeyName, KeyNew, KeyTrim, Mode};
use crate::keys::check_name;
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::lines::complain;
use phalanx_host::verbosity::Verbosity;
use serde_json::{Value, json};

/// Runs a command for keys.
///
/// # Errors
/// If the server refuses it, or cannot be reached or opened.
pub fn run(key: Key, verbosity: Verbosity) -> Outcome {
    match key {
        Key::New(new) => make(&new, verbosity),
        Key::List(list) => show_all(&list, verbosity),
        Key::Rotate(name) => rotate(&name, verbosity),
        Key::Config(config) => configure(&config, verbosity),
        Key::Trim(trim) => cut(&trim, verbosity),
        Key::Delete(name) => delete(&name, verbosity),
    }
}

/// A path with the name of a key in it.
pub fn path(start: &str, name: &str, end: &str) -> Outcome<String> {
    check_name(name).map_err(|refusal| Failure::usage(refusal.text))?;
    Ok(format!("{start}/{name}{end}"))
}

fn tell(verbosity: Verbosity, line: impl FnOnce() -> String) {
    if !verbosity.quiet {
        complain(line());
    }
}

fn make(new: &KeyNew, verbosity: Verbosity) -> Outcome {
    let path = path("/v2/manage/keys", &new.name, "")?;
    let mode = if new.mode == Mode::Shreddable { "shreddable" } else { "derived" };
    let wanted = json!({ "mode": mode, "type": new.r#type, "needs_user": !new.no_user });
    let key = client(&new.place, verbosity)?.post(&path, &wanted)?;
    if new.json {
        return say_json(&key);
    }
    tell(verbosity, || format!("{}: new {mode} key made", new.name));
    Ok(())
}

fn show_all(list: &KeyList, verbosity: Verbosity) -> Outcome {
    let answer = client(&list.place, verbosity)?.get("/v2/manage/keys")?;
    let keys = answer["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
    keys.iter().try_for_each(|key| if list.json { say_json(key) } else { say(line(key)) })
}

fn line(key: &Value) -> String {
    let text = |name: &str| key[name].as_str().unwrap_or_default().to_owned();
    let versions = match (&key["min_decryption_version"], &key["latest_version"]) {
        (oldest, latest) if oldest == latest => format!("version {latest}"),
        (oldest, latest) => format!("versions {oldest} to {latest}"),
    };
    let mut line = format!("{}  {}  {}  {versions}", text("name"), text("mode"), text("type"));
    if key["needs_user"] == false {
        line.push_str("  no user needed");
    }
    if key["deletion_allowed"] == true {
        line.push_str("  may be deleted");
    }
    line
}

fn rotate(name: &KeyName, verbosity: Verbosity) -> Outcome {
    let path = path("/v1/transit/keys", &name.name, "/rotate")?;
    client(&name.place, verbosity)?.post(&path, &json!({}))?;
    tell(verbosity, || format!("{}: new version made", name.name));
    Ok(())
}

fn configure(config: &KeyConfig, verbosity: Verbosity) -> Outcome {
    let path = path("/v1/transit/keys", &config.name, "/config")?;
    let mut wanted = serde_json::Map::new();
    if let Some(oldest) = config.min_open {
        wanted.insert("min_decryption_version".into(), oldest.into());
    }
    if let Some(oldest) = config.min_seal {
        wanted.insert("min_encryption_version".into(), oldest.into());
    }
    if config.allow_deletion || config.forbid_deletion {
        wanted.insert("deletion_allowed".into(), config.allow_deletion.into());
    }
    if wanted.is_empty() {
        let hint = "--min-open, --min-seal, --allow-deletion or --forbid-deletion does";
        return Err(Failure::usage("nothing says what to change").hint(hint));
    }
    client(&config.place, verbosity)?.post(&path, &wanted.into())?;
    tell(verbosity, || format!("{}: changed", config.name));
    Ok(())
}

fn cut(trim: &KeyTrim, verbosity: Verbosity) -> Outcome {
    let path = path("/v1/transit/keys", &trim.name, "/trim")?;
    client(&trim.place, verbosity)?.post(&path, &json!({ "min_available_version": trim.oldest }))?;
    tell(verbosity, || format!("{}: versions before {} destroyed", trim.name, trim.oldest));
    Ok(())
}

fn delete(name: &KeyName, verbosity: Verbosity) -> Outcome {
    let path = path("/v1/transit/keys", &name.name, "")?;
    client(&name.place, verbosity)?.delete(&path)?;
    tell(verbosity, || format!("{}: destroyed", name.name));
    Ok(())
}
