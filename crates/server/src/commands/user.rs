//! `phalanx-server user`: shows a user of a shreddable key, or deletes one for ever.

use super::say::{say, say_json};
use super::{client, key};
use crate::args::{User, UserOf, UserShow, UserShred};
use base64ct::{Base64, Encoding};
use phalanx_host::ask;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::lines::{complain, one_line};
use phalanx_host::verbosity::Verbosity;
use serde_json::{Value, json};

/// Runs a command for users.
///
/// # Errors
/// If the server refuses it, or cannot be reached or opened; if the user is not there.
pub fn run(user: User, verbosity: Verbosity) -> Outcome {
    match user {
        User::Show(show) => tell(&show, verbosity),
        User::Shred(shred) => delete(&shred, verbosity),
    }
}

fn wanted(user: &UserOf) -> Outcome<Value> {
    let base64 = match (&user.user, &user.user_base64) {
        (Some(user), _) => Base64::encode_string(user.as_bytes()),
        (None, base64) => base64.clone().unwrap_or_default(),
    };
    let bytes = Base64::decode_vec(&base64).map_err(|_| Failure::usage("--user-base64 is not base64"))?;
    if bytes.is_empty() {
        return Err(Failure::usage("a user has a name"));
    }
    Ok(json!({ "user": base64 }))
}

fn tell(show: &UserShow, verbosity: Verbosity) -> Outcome {
    let path = key::path("/v2/manage/users", &show.user.key, "")?;
    let answer = client(&show.place, verbosity)?.post(&path, &wanted(&show.user)?)?;
    let exists = answer["exists"] == true;
    if show.json {
        say_json(&answer)?;
        return if exists { Ok(()) } else { Err(Failure::written(Code::Other)) };
    }
    if exists { say(format!("{} has this user", show.user.key)) } else { Err(none(&show.user)) }
}

fn none(user: &UserOf) -> Failure {
    Failure::new(Code::Other, format!("{} has no such user", user.key))
}

fn delete(shred: &UserShred, verbosity: Verbosity) -> Outcome {
    let path = key::path("/v2/manage/shred", &shred.user.key, "")?;
    let wanted = wanted(&shred.user)?;
    if !shred.yes {
        confirm(&shred.user)?;
    }
    let answer = client(&shred.place, verbosity)?.post(&path, &wanted)?;
    let existed = answer["existed"] == true;
    if shred.json {
        say_json(&answer)?;
        return if existed { Ok(()) } else { Err(Failure::written(Code::Other)) };
    }
    if !existed {
        return Err(none(&shred.user));
    }
    if !verbosity.quiet {
        complain(format!("{}: user deleted for ever", shred.user.key));
    }
    Ok(())
}

fn confirm(user: &UserOf) -> Outcome {
    let question = question(user);
    match ask::line(&question) {
        Some(line) if line.trim() == "yes" => Ok(()),
        Some(_) => Err(Failure::new(Code::Other, "nothing is deleted")),
        None => Err(Failure::usage("there is no terminal to ask at").hint("--yes deletes the user without a question")),
    }
}

/// It names what is lost: a command that was repeated from a shell's history may be about another user.
fn question(user: &UserOf) -> String {
    let name = match (&user.user, &user.user_base64) {
        (Some(user), _) => format!("user {}", one_line(user)),
        (None, base64) => format!("user with the base64 {}", base64.as_deref().unwrap_or_default()),
    };
    format!("Delete the {name} of the key {} for ever? Type yes: ", user.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_names_the_key_and_the_user() {
        let of = |user: Option<&str>, base64: Option<&str>| {
            let (user, user_base64) = (user.map(str::to_owned), base64.map(str::to_owned));
            question(&UserOf { key: "orders".into(), user, user_base64 })
        };
        assert_eq!(of(Some("ada"), None), "Delete the user ada of the key orders for ever? Type yes: ");
        let wanted = "Delete the user with the base64 YWRh of the key orders for ever? Type yes: ";
        assert_eq!(of(None, Some("YWRh")), wanted);
        assert!(!of(Some("a\u{1b}[2K"), None).contains('\u{1b}'));
    }
}
