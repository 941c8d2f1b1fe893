//! Which endpoint a path leads to.

use super::crypt::Kinds;
use super::envelope::{self, Mount};
use super::{auth, crypt, datakey, keys, random, sys};
use crate::http::Call;
use crate::http::body::Body;
use crate::keys::check_name;
use crate::refusal::{Kind, Refusal};
use hyper::{Method, Response};
use serde_json::json;

/// What a method means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Read,
    List,
    Write,
    Delete,
    Other,
}

/// Answers a request under `/v1` of a known caller.
///
/// # Errors
/// Why it is refused.
pub async fn answer(call: &mut Call) -> Result<Response<Body>, Refusal> {
    refuse_headers(call)?;
    let verb = verb(&call.method);
    let path = call.path.clone();
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["transit", rest @ ..] => transit(call, verb, rest).await,
        ["auth", "token", rest @ ..] => token(call, verb, rest).await,
        ["sys", rest @ ..] => system(call, verb, rest).await,
        other => Err(no_route(other)),
    }
}

/// Refuses a namespace: its client thinks that it is apart from others.
fn refuse_headers(call: &Call) -> Result<(), Refusal> {
    let namespace =
        envelope::header(&call.headers, "x-vault-namespace").map_or("", |value| value.trim_matches(['/', ' ']));
    if matches!(namespace, "" | "root") { Ok(()) } else { Err(super::unsupported("a namespace")) }
}

fn verb(method: &Method) -> Verb {
    match *method {
        Method::GET => Verb::Read,
        Method::POST | Method::PUT => Verb::Write,
        Method::DELETE => Verb::Delete,
        ref other if other.as_str() == "LIST" => Verb::List,
        _ => Verb::Other,
    }
}

async fn transit(call: &mut Call, verb: Verb, path: &[&str]) -> Result<Response<Body>, Refusal> {
    let name = match path {
        ["encrypt" | "decrypt" | "rewrap" | "keys", name, ..] | ["datakey", _, name] => Some(*name),
        _ => None,
    };
    if let Some(name) = name {
        check_name(name).map_err(|_| no_path())?;
        name.clone_into(&mut call.note.key);
    }
    let mut noted = |action| call.note.action = action;
    use Verb::{Delete, List, Read, Write};
    match (path, verb) {
        (["encrypt", name], Write) => {
            noted("seal");
            crypt::answer(call, Kinds::Encrypt, name).await
        }
        (["decrypt", name], Write) => {
            noted("open");
            crypt::answer(call, Kinds::Decrypt, name).await
        }
        (["rewrap", name], Write) => {
            noted("rewrap");
            crypt::answer(call, Kinds::Rewrap, name).await
        }
        (["datakey", form, name], Write) => {
            noted("datakey");
            datakey::answer(call, form, name).await
        }
        (["keys"], List) => {
            noted("key-list");
            keys::list(call)
        }
        (["keys", name], Read) => {
            noted("key-read");
            keys::read(call, name).await
        }
        (["keys", name], Write) => {
            noted("key-new");
            keys::create(call, name).await
        }
        (["keys", name], Delete) => {
            noted("key-delete");
            keys::delete(call, name).await
        }
        (["keys", name, "rotate"], Write) => {
            noted("key-rotate");
            keys::rotate(call, name).await
        }
        (["keys", name, "config"], Write) => {
            noted("key-config");
            keys::configure(call, name).await
        }
        (["keys", name, "trim"], Write) => {
            noted("key-trim");
            keys::trim(call, name).await
        }
        (["random", rest @ ..], Write) if rest.len() <= 2 => {
            noted("random");
            random::answer(call, rest, Mount::Transit).await
        }
        (["config", "keys"], Read) => {
            noted("config-read");
            let data = json!({ "disable_upsert": !call.server.creates_keys });
            Ok(envelope::data(call, &data, &[], Mount::Transit))
        }
        _ if is_transit(path) => Err(sys::no_method()),
        _ => Err(no_path()),
    }
}

async fn token(call: &mut Call, verb: Verb, path: &[&str]) -> Result<Response<Body>, Refusal> {
    let mut noted = |action| call.note.action = action;
    use Verb::{Read, Write};
    match (path, verb) {
        (["lookup-self"], Read | Write) => {
            noted("token-lookup");
            auth::lookup_self(call).await
        }
        (["lookup"], Read | Write) => {
            noted("token-lookup");
            auth::lookup(call).await
        }
        (["lookup-accessor"], Write) => {
            noted("token-lookup");
            auth::lookup_accessor(call).await
        }
        (["renew-self"], Write) => {
            noted("token-renew");
            auth::renew(call, true).await
        }
        (["renew"], Write) => {
            noted("token-renew");
            auth::renew(call, false).await
        }
        (["create"], Write) => {
            noted("token-new");
            auth::create(call, false).await
        }
        (["create-orphan"], Write) => {
            noted("token-new");
            auth::create(call, true).await
        }
        (["revoke-self"], Write) => {
            noted("token-revoke");
            auth::revoke_self(call).await
        }
        (["revoke"], Write) => {
            noted("token-revoke");
            auth::revoke(call).await
        }
        (["revoke-accessor"], Write) => {
            noted("token-revoke");
            auth::revoke_accessor(call).await
        }
        ([one], _) if TOKEN.contains(one) => Err(sys::no_method()),
        _ => Err(no_path()),
    }
}

async fn system(call: &mut Call, verb: Verb, path: &[&str]) -> Result<Response<Body>, Refusal> {
    use Verb::{Read, Write};
    call.note.action = "sys";
    match (path, verb) {
        (["mounts"], Read) => Ok(sys::mounts(call)),
        (["mounts", path], Write) => Err(sys::mount(path)),
        (["capabilities-self"], Write) => sys::capabilities_self(call).await,
        (["internal", "ui", "mounts", rest @ ..], Read) => sys::ui_mount(call, rest),
        (["tools", "random", rest @ ..], Write) if rest.len() <= 2 => {
            call.note.action = "random";
            random::answer(call, rest, Mount::System).await
        }
        (
            ["mounts" | "capabilities-self" | "health" | "seal-status" | "leader" | "init"]
            | ["mounts", _]
            | ["tools", "random", ..],
            _,
        ) => Err(sys::no_method()),
        _ => Err(no_path()),
    }
}

/// The paths of `auth/token`.
const TOKEN: [&str; 10] = [
    "lookup-self",
    "lookup",
    "lookup-accessor",
    "renew-self",
    "renew",
    "create",
    "create-orphan",
    "revoke-self",
    "revoke",
    "revoke-accessor",
];

/// Whether there is such a path under `transit`.
fn is_transit(path: &[&str]) -> bool {
    match path {
        ["random", rest @ ..] => rest.len() <= 2,
        ["encrypt" | "decrypt" | "rewrap" | "keys", _] | ["datakey", _, _] | ["keys"] | ["config", "keys"] => true,
        ["keys", _, last] => ["rotate", "config", "trim"].contains(last),
        _ => false,
    }
}

fn no_path() -> Refusal {
    envelope::listed(Kind::NotFound, "unsupported path")
}

fn no_route(path: &[&str]) -> Refusal {
    let path: String = path.join("/").chars().filter(|c| !c.is_control()).take(200).collect();
    Refusal::not_found(format!("no handler for route \"{path}\". route entry not found."))
}
