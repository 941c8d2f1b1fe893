//! One request to a server, and its bounded answer.

use reqwest::header::HeaderMap;
use reqwest::{Certificate, Client, ClientBuilder, RequestBuilder, StatusCode, Url, redirect};
use std::env;
use std::net::IpAddr;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::time::timeout;

/// How long a server may take as a whole.
const TIME: Duration = Duration::from_secs(24);
/// How long all may take that are asked. `phalanx` waits for 30 seconds, and then does not know why nothing came.
const ALL: Duration = Duration::from_secs(25);
/// The longest answer, in bytes.
const LONGEST: usize = 64 << 10;

/// Posts a body. The answer's status and body.
pub async fn post(
    server: &str,
    url: &str,
    headers: HeaderMap,
    body: String,
    trusted: Option<Vec<Certificate>>,
) -> Result<(StatusCode, Vec<u8>), String> {
    let is_here = check_secrecy(server, url)?;
    // A proxy would see run keys, which go to this machine without TLS.
    let mut builder = if is_here { builder().no_proxy() } else { builder() };
    if let Some(trusted) = trusted {
        builder = builder.tls_certs_only(trusted);
    }
    let client = builder.build().map_err(|e| format!("no connection can be made: {}", causes(&e)))?;
    let request = client.post(url).headers(headers).body(body);
    ask(server, request).await
}

/// A client of a service. A redirection would take tokens to another server. For one request, HTTP/2 has nothing to give.
pub fn builder() -> ClientBuilder {
    Client::builder().http1_only().timeout(TIME).redirect(redirect::Policy::none()).referer(false)
}

/// Waits for what comes of some requests in their time, and not for the name of a host that is still being looked up.
pub fn wait<T>(requests: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("no connection can be made: {e}"))?;
    let done = runtime.block_on(async { timeout(ALL, requests).await });
    runtime.shutdown_background();
    done.unwrap_or_else(|_| Err(format!("nothing is answered within {} seconds", ALL.as_secs())))
}

/// The answer's status and the beginning of its body. The time of the client is that of both together.
async fn ask(server: &str, request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), String> {
    let response = request.send().await;
    let mut response = response.map_err(|e| format!("{server} cannot be asked: {}", causes(&e.without_url())))?;
    let (status, mut bytes) = (response.status(), Vec::new());
    let broken = |e: reqwest::Error| format!("{server} broke off its answer: {}", causes(&e.without_url()));
    while bytes.len() < LONGEST
        && let Some(piece) = response.chunk().await.map_err(broken)?
    {
        bytes.extend_from_slice(&piece[..piece.len().min(LONGEST - bytes.len())]);
    }
    Ok((status, bytes))
}

/// The address of a server in a variable, if it is set. Messages show the address, so one with a user or a password, or that
/// cannot be read, is refused without it.
pub fn address(name: &str) -> Result<Option<String>, String> {
    let Some(server) = variable(name)? else { return Ok(None) };
    let refused = |why: &dyn std::fmt::Display| format!("{name} is not the address of a server: {why}");
    let url = Url::parse(&server).map_err(|e| refused(&e))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused(&"it begins with neither https: nor http:"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!("{name} has a user or a password in it, which has no place there"));
    }
    Ok(Some(server))
}

/// Refuses to send a run key over a network in the clear. Whether the server is on this machine.
fn check_secrecy(server: &str, url: &str) -> Result<bool, String> {
    let url = Url::parse(url).map_err(|e| format!("the address of the server cannot be read: {e}"))?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    match url.scheme() == "https" || is_here {
        true => Ok(is_here),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread::{self, sleep};
    use std::time::Instant;

    #[test]
    fn an_answer_that_drips_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            BufReader::new(&stream).lines().map_while(Result::ok).find(String::is_empty);
            let mut written = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10000\r\n\r\n");
            while written.is_ok() {
                sleep(Duration::from_millis(50));
                written = stream.write_all(b" ");
            }
        });
        let (client, begun) =
            (builder().timeout(Duration::from_millis(500)).no_proxy().build().unwrap(), Instant::now());
        let asked = wait(ask(&address, client.get(&address)));
        let said = asked.unwrap_err();
        assert!(said.starts_with(&format!("{address} broke off its answer: ")), "{said}");
        // All its bytes would take 500 seconds.
        assert!(begun.elapsed() < Duration::from_secs(120));
    }
}
