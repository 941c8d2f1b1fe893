//! `phalanx-server key`: makes, lists, changes and deletes keys.

use super::client;
use super::dates::date;
use super::say::{say, say_json};
use crate::args::{Key, KeyConfig, KeyList, KeyName, KeyNew, KeyShow, KeyTrim, Mode};
use crate::client::Client;
use crate::keys::check_name;
use phalanx_host::failure::{Code, Failure, Outcome};
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
        Key::Show(show) => show_one(&show, verbosity),
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
    if new.no_user && new.mode == Mode::Shreddable {
        return Err(Failure::usage("a shreddable key needs a user in every request: leave out --no-user"));
    }
    let wanted = json!({ "mode": mode, "type": new.r#type, "needs_user": !new.no_user });
    let key = client(&new.place, verbosity)?.post(&path, &wanted)?;
    if new.json {
        return say_json(&key);
    }
    tell(verbosity, || format!("{}: {mode} key created", new.name));
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

fn show_one(show: &KeyShow, verbosity: Verbosity) -> Outcome {
    let key = read(&client(&show.place, verbosity)?, &show.name)?;
    if show.json {
        return say_json(&key);
    }
    details(&key).into_iter().try_for_each(|(name, value)| say(format!("{:<10} {value}", format!("{name}:"))))
}

/// What there is to say of a key.
fn details(key: &Value) -> Vec<(&'static str, String)> {
    let text = |name: &str| key[name].as_str().unwrap_or_default().to_owned();
    let number = |name: &str| key[name].as_u64().unwrap_or_default();
    let min_seal = match number("min_encryption_version") {
        0 => "0 (the newest unless a request names another)".to_owned(),
        oldest => oldest.to_string(),
    };
    let mut all = vec![
        ("name", text("name")),
        ("type", text("type")),
        ("mode", text("mode")),
        ("user", if key["needs_user"] == true { "required" } else { "optional" }.to_owned()),
        ("min-open", number("min_decryption_version").to_string()),
        ("min-seal", min_seal),
        ("deletion", if key["deletion_allowed"] == true { "allowed" } else { "forbidden" }.to_owned()),
    ];
    if let Some(users) = key["users"].as_u64() {
        all.push(("users", users.to_string()));
    }
    let versions = key["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.extend(versions.iter().map(|version| {
        let number = version["version"].as_u64().unwrap_or_default();
        ("version", format!("{number}, created {}", date(&version["created"])))
    }));
    all
}

/// What the server says of a key.
///
/// # Errors
/// If there is none, or the server cannot be reached.
pub fn read(client: &Client, name: &str) -> Outcome<Value> {
    client.get(&path("/v2/manage/keys", name, "")?)
}

fn rotate(name: &KeyName, verbosity: Verbosity) -> Outcome {
    let path = path("/v1/transit/keys", &name.name, "/rotate")?;
    let client = client(&name.place, verbosity)?;
    read(&client, &name.name)?;
    let key = client.post(&path, &json!({}))?;
    tell(verbosity, || format!("{}: version {} seals from now on", name.name, key["data"]["latest_version"]));
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
    let client = client(&config.place, verbosity)?;
    must_fit(&config.name, config.min_open, config.min_seal, &read(&client, &config.name)?)?;
    client.post(&path, &wanted.into())?;
    tell(verbosity, || format!("{}: changed", config.name));
    Ok(())
}

/// Refuses what the server would refuse, in the words of the options.
fn must_fit(name: &str, min_open: Option<u32>, min_seal: Option<u32>, key: &Value) -> Outcome {
    let now = |field: &str| key[field].as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or_default();
    let (latest, oldest) = (now("latest_version"), now("min_available_version"));
    let refuse = |line: String| Err(Failure::new(Code::Other, line));
    for (option, wanted) in [("--min-open", min_open), ("--min-seal", min_seal)] {
        if let Some(wanted) = wanted.filter(|wanted| *wanted > latest) {
            return refuse(format!("{option} {wanted}: the newest version of {name} is {latest}"));
        }
        let is_gone = |wanted: &u32| *wanted < oldest;
        if let Some(wanted) = wanted.filter(is_gone) {
            return refuse(format!("{option} {wanted}: the versions of {name} before {oldest} are destroyed"));
        }
    }
    let opens = min_open.unwrap_or(now("min_decryption_version"));
    let seals = min_seal.unwrap_or(now("min_encryption_version"));
    if seals > 0 && seals < opens {
        let line = format!("{name}: version {seals} would seal, and only versions from {opens} on would open");
        return Err(Failure::new(Code::Other, line).hint(format!("give --min-seal {opens} too")));
    }
    Ok(())
}

fn cut(trim: &KeyTrim, verbosity: Verbosity) -> Outcome {
    let path = path("/v1/transit/keys", &trim.name, "/trim")?;
    let client = client(&trim.place, verbosity)?;
    may_trim(trim, &read(&client, &trim.name)?)?;
    client.post(&path, &json!({ "min_available_version": trim.oldest }))?;
    tell(verbosity, || format!("{}: versions before {} destroyed", trim.name, trim.oldest));
    Ok(())
}

fn may_trim(trim: &KeyTrim, key: &Value) -> Outcome {
    let (name, wanted) = (&trim.name, u64::from(trim.oldest));
    let now = |field: &str| key[field].as_u64().unwrap_or_default();
    let refuse = |line: String| Failure::new(Code::Other, line);
    if wanted > now("latest_version") {
        return Err(refuse(format!("the newest version of {name} is {}", now("latest_version"))));
    }
    if wanted < now("min_available_version") {
        let oldest = now("min_available_version");
        return Err(refuse(format!("the versions of {name} before {oldest} are destroyed already")));
    }
    let lacking: Vec<String> = [("--min-open", "min_decryption_version"), ("--min-seal", "min_encryption_version")]
        .into_iter()
        .filter(|(_, field)| now(field) < wanted)
        .map(|(option, _)| format!("{option} {wanted}"))
        .collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let hint = format!("give phalanx-server key config {name} {} first", lacking.join(" "));
    Err(refuse(format!("{name}: versions before {wanted} may still open or seal")).hint(hint))
}

fn delete(name: &KeyName, verbosity: Verbosity) -> Outcome {
    let path = path("/v1/transit/keys", &name.name, "")?;
    let client = client(&name.place, verbosity)?;
    if read(&client, &name.name)?["deletion_allowed"] != true {
        let hint = format!("give phalanx-server key config {} --allow-deletion first", name.name);
        return Err(Failure::new(Code::Other, format!("{}: its deletion is not allowed", name.name)).hint(hint));
    }
    client.delete(&path)?;
    tell(verbosity, || format!("{}: destroyed", name.name));
    Ok(())
}
