//! `phalanx-server token`: makes, lists and revokes tokens.

use super::client;
use super::dates::date;
use super::say::{json, say, say_json};
use crate::args::{Token, TokenList, TokenNew, TokenRevoke};
use crate::rights::{ALL_FOR_ONE, Right, Rights};
use crate::tokens::PREFIX;
use base64ct::{Base64, Encoding};
use phalanx_core::Zeroizing;
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::lines::complain;
use phalanx_host::stdio;
use phalanx_host::verbosity::Verbosity;
use serde_json::{Value, json};

/// Runs a command for tokens.
///
/// # Errors
/// If the server refuses it, or cannot be reached or opened.
pub fn run(token: Token, verbosity: Verbosity) -> Outcome {
    match token {
        Token::New(new) => make(&new, verbosity),
        Token::List(list) => show_all(&list, verbosity),
        Token::Revoke(revoke) => end(&revoke, verbosity),
    }
}

fn make(new: &TokenNew, verbosity: Verbosity) -> Outcome {
    let (mut texts, mut user) = (Vec::new(), None);
    for text in &new.allow {
        match text.strip_prefix("user=") {
            Some(_) if user.is_some() => return Err(Failure::usage("a token is for one user or for all of them")),
            Some("") => return Err(Failure::usage("a user has a name")),
            Some(name) => user = Some(name.as_bytes().to_vec()),
            None => texts.push(text.as_str()),
        }
    }
    let Rights { list, user } = Rights::parse(texts, user).map_err(no_rights)?;
    if list.is_empty() {
        return Err(Failure::usage("a token needs a right").hint("--allow seal:orders,open:orders gives two"));
    }
    let rights: Vec<String> = list.iter().map(Right::to_string).collect();
    let user = user.as_deref().map(Base64::encode_string);
    let wanted =
        json!({ "rights": rights, "user": user, "ttl": new.ttl, "renewable": new.renewable, "name": new.name });
    let client = client(&new.place, verbosity)?;
    let token = client.post("/v2/manage/tokens", &wanted)?;
    let accessor = token["accessor"].as_str().unwrap_or_default();
    let line = Zeroizing::new(if new.json { json(&token) } else { text(&token).to_owned() });
    if let Err(error) = stdio::write_line(&line) {
        // Nobody knows it, and it would live on.
        let ended = client.post("/v2/manage/revoke", &json!({ "accessor": accessor }));
        let failure = Failure::at_stdout(error);
        return Err(match ended {
            Ok(_) => failure.hint("the token is revoked again"),
            Err(_) => failure.hint(format!("phalanx-server token revoke {accessor} ends the token, which nobody has")),
        });
    }
    if !verbosity.quiet {
        complain(format!("accessor {accessor}, which token revoke takes"));
    }
    Ok(())
}

fn no_rights(why: String) -> Failure {
    let is_for_all = why == ALL_FOR_ONE;
    let failure = Failure::usage(why);
    if is_for_all { failure.hint("--allow 'seal:*,open:*,user=USER' gives all that a user needs") } else { failure }
}

fn text(token: &Value) -> &str {
    token["token"].as_str().unwrap_or_default()
}

fn show_all(list: &TokenList, verbosity: Verbosity) -> Outcome {
    let answer = client(&list.place, verbosity)?.get("/v2/manage/tokens")?;
    let tokens = answer["tokens"].as_array().map(Vec::as_slice).unwrap_or_default();
    tokens.iter().try_for_each(|token| if list.json { say_json(token) } else { say(line(token)) })
}

fn line(token: &Value) -> String {
    let rights: Vec<_> = token["rights"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let name = token["name"].as_str().map(|name| format!("{name}  ")).unwrap_or_default();
    let mut line = format!("{}  {name}{}", token["accessor"].as_str().unwrap_or_default(), rights.join(","));
    if let Some(user) = token["user"].as_str() {
        let name = Base64::decode_vec(user).ok().and_then(|name| String::from_utf8(name).ok());
        line.push_str(&format!(",user={}", name.unwrap_or_else(|| user.to_owned())));
    }
    line.push_str(&format!("  created {}", date(&token["created"])));
    match token["left"].as_u64() {
        Some(left) => line.push_str(&format!("  ends {}, in {}", date(&token["expires"]), time(left))),
        None => line.push_str("  never ends"),
    }
    line
}

fn time(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn end(revoke: &TokenRevoke, verbosity: Verbosity) -> Outcome {
    let by = if revoke.token.starts_with(PREFIX) { "token" } else { "accessor" };
    let answer = client(&revoke.place, verbosity)?.post("/v2/manage/revoke", &json!({ by: revoke.token }))?;
    if !verbosity.quiet {
        complain(format!("{}: revoked", answer["accessor"].as_str().unwrap_or_default()));
    }
    Ok(())
}
