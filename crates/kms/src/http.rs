//! One request to a server, and its bounded answer.

use reqwest::blocking::{Client, ClientBuilder};
use reqwest::header::HeaderMap;
use reqwest::{Certificate, StatusCode, Url, redirect};
use std::env;
use std::io::Read;
use std::net::IpAddr;
use std::time::Duration;

/// How long a server may take. `phalanx` waits for 30 seconds, and then does not know why nothing came.
const TIME: Duration = Duration::from_secs(25);
/// The longest answer, in bytes.
const LONGEST: u64 = 64 << 10;

/// Posts a body. The answer's status and body.
pub fn post(
    server: &str,
    url: &str,
    headers: HeaderMap,
    body: String,
    trusted: Option<Vec<Certificate>>,
) -> Result<(StatusCode, Vec<u8>), String> {
    check_secrecy(server, url)?;
    // A redirection would take tokens to another server.
    let mut builder: ClientBuilder = Client::builder().timeout(TIME).redirect(redirect::Policy::none());
    if let Some(trusted) = trusted {
        builder = builder.tls_certs_only(trusted);
    }
    let client = builder.build().map_err(|e| format!("no connection can be made: {}", causes(&e)))?;
    let response = client.post(url).headers(headers).body(body).send();
    let response = response.map_err(|e| format!("{server} cannot be asked: {}", causes(&e.without_url())))?;
    let (status, mut bytes) = (response.status(), Vec::new());
    response.take(LONGEST).read_to_end(&mut bytes).map_err(|e| format!("{server} broke off its answer: {e}"))?;
    Ok((status, bytes))
}

/// Refuses to send a run key over a network in the clear.
fn check_secrecy(server: &str, url: &str) -> Result<(), String> {
    let url = Url::parse(url).map_err(|e| format!("{server} is not the address of a server: {e}"))?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    match url.scheme() == "https" || is_here {
        true => Ok(()),
        false => Err(format!("{server} would show keys to the network: only https: may lead to another machine")),
    }
}

/// A variable that is set and not empty.
pub fn variable(name: &str) -> Result<Option<String>, String> {
    match env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(format!("{name} is not UTF-8")),
    }
}

/// An error with its causes: the last one says what happened.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
