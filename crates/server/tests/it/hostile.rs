//! Clients who are slow, too many, or do not keep to the protocol: they harm themselves alone.

use crate::common::{Client, PATIENCE, Server, until};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// What the server sends until it closes the connection.
fn answer_to(server: &Server, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(server.folder.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // It may close the connection before everything is sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn malformed_requests_are_refused_and_the_connection_closed() {
    let server = Server::start(&[]);
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n folded: c\r\n\r\n",
        b"POST /v1/a HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/a HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na",
        b"POST /v1/a HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999999\r\n\r\n",
        b"POST /v1/a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST /v1/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST /v1/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"POST /v1/a HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let answer = answer_to(&server, bytes);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
            "{}: {answer}",
            String::from_utf8_lossy(bytes)
        );
        assert!(answer.matches("HTTP/1.1 ").count() <= 1, "{answer}");
    }
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn a_request_has_one_host() {
    let server = Server::start(&[]);
    let close = "Connection: close\r\n\r\n";
    for (hosts, status) in [("", "400"), ("Host: a\r\nHost: b\r\n", "400"), ("Host: a\r\n", "200")] {
        let answer = answer_to(&server, format!("GET /healthz HTTP/1.1\r\n{hosts}{close}").as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{hosts:?}: {answer}");
    }
    let old = answer_to(&server, b"GET /healthz HTTP/1.0\r\n\r\n");
    assert!(old.starts_with("HTTP/1.0 200") && old.ends_with("ok\n"), "{old}");
}

#[test]
fn no_request_can_be_hidden_in_another_one() {
    let server = Server::start(&[]);
    let hidden = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    let chunked = format!("0\r\n\r\n{hidden}");
    for headers in [
        format!("Content-Length: {}\r\nTransfer-Encoding: chunked", chunked.len()),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {}", chunked.len()),
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity".to_owned(),
        "Transfer-Encoding: chunked, chunked\r\nContent-Length: 3".to_owned(),
        "Transfer-Encoding : chunked".to_owned(),
        "Transfer-Encoding: \x0bchunked".to_owned(),
    ] {
        let answer = answer_to(
            &server,
            format!("POST /v1/nothing HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n{chunked}").as_bytes(),
        );
        assert!(!answer.contains("ok\n") && answer.matches("HTTP/1.1 ").count() == 1, "{headers}: {answer}");
    }
}

#[test]
fn a_head_is_bounded() {
    let server = Server::start(&[]);
    let long = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "a".repeat(1 << 20));
    assert!(answer_to(&server, long.as_bytes()).starts_with("HTTP/1.1 431"));
    let many = format!("GET /healthz HTTP/1.1\r\nHost: x\r\n{}\r\n", "a: b\r\n".repeat(200));
    assert!(answer_to(&server, many.as_bytes()).starts_with("HTTP/1.1 431"));
    let path = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(100_000));
    assert!(answer_to(&server, path.as_bytes()).starts_with("HTTP/1.1 4"));
    let endless = "GET /healthz HTTP/1.1\r\n".to_owned() + &"a: b\r\n".repeat(1 << 20);
    assert!(answer_to(&server, endless.as_bytes()).starts_with("HTTP/1.1 431"));
}

#[test]
fn a_slow_head_ends_and_others_are_served_meanwhile() {
    let server = Server::start(&["--head-timeout", "1"]);
    let mut slow = server.client();
    let mut silent = server.client();
    slow.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\n").unwrap();
    let begun = Instant::now();
    for letter in b"a-header-of-somebody-who-has-much-time" {
        assert_eq!(server.get("/healthz").status, 200);
        if slow.raw(&[*letter]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(slow.is_closed() && silent.is_closed());
    assert!(begun.elapsed() < PATIENCE);
}

#[test]
fn a_connection_without_a_request_ends_after_a_while() {
    let server = Server::start(&["--keep-alive", "1"]);
    let mut client = server.client();
    assert_eq!(client.request("GET", "/healthz", &[], b"").status, 200);
    assert!(client.is_closed());
}

#[test]
fn a_thousand_requests_may_be_sent_before_the_first_is_answered() {
    let server = Server::start(&["--listen", "127.0.0.1:0"]);
    let token = server.token(&["seal:a"]);
    for mut client in [server.client(), Client::tcp(&server.address())] {
        let one = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Vault-Token: {token}\r\n\r\n");
        client.raw(one.repeat(1000).as_bytes()).unwrap();
        for _ in 0..1000 {
            let answer = client.answer().unwrap();
            assert_eq!((answer.status, answer.text().as_str()), (200, "ok\n"));
        }
    }
}

#[test]
fn who_sends_nothing_more_still_gets_answers() {
    let server = Server::start(&["--listen", "127.0.0.1:0"]);
    let token = server.token(&["seal:a"]);
    for mut client in [server.client(), Client::tcp(&server.address())] {
        let known = format!("Host: x\r\nX-Vault-Token: {token}\r\n\r\n");
        let two = format!("GET /healthz HTTP/1.1\r\n{known}GET /v2/limits HTTP/1.1\r\n{known}");
        client.raw(two.as_bytes()).unwrap();
        client.end_sending();
        assert_eq!(client.answer().unwrap().text(), "ok\n");
        assert_eq!(client.answer().unwrap().status, 200);
        assert!(client.is_closed());
    }
}

#[test]
fn an_upgrade_is_ignored() {
    let server = Server::start(&[]);
    let headers =
        [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABkAAQAAP__")];
    let mut client = server.client();
    for _ in 0..2 {
        assert_eq!(client.request("GET", "/healthz", &headers, b"").text(), "ok\n");
    }
}

#[test]
fn who_asks_before_sending_is_answered() {
    let server = Server::start(&[]);
    let headers = [("Expect", "100-continue"), ("X-Vault-Token", "wrong")];
    let mut client = server.client();
    client.raw(b"POST /v1/transit/encrypt/a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n").unwrap();
    headers.iter().for_each(|(name, value)| client.raw(format!("{name}: {value}\r\n").as_bytes()).unwrap());
    client.raw(b"\r\n").unwrap();
    // There is no reason to send a megabyte for this.
    assert_eq!(client.head().unwrap().status, 403);
}

#[test]
fn who_is_refused_while_sending_learns_why() {
    let server = Server::start(&["--listen", "127.0.0.1:0"]);
    let body = vec![b'a'; 16 << 20];
    for mut client in [server.client(), Client::tcp(&server.address())] {
        let answer = client.request("POST", "/v1/transit/encrypt/a", &[("X-Vault-Token", "wrong")], &body);
        assert_eq!(answer.json()["errors"][0], "permission denied");
        assert!(client.is_closed());
    }
}

#[test]
fn idle_strangers_make_room_and_memory_stays_bounded() {
    let server = Server::start(&["--listen", "127.0.0.1:0", "--max-connections", "50"]);
    let address = server.address();
    let before = server.memory();
    // More than there may be, and each with a part of a head that is never finished.
    let mut idle: Vec<Client> = Vec::new();
    let mut refused = 0;
    for i in 0..300 {
        let mut client = Client::tcp(&address);
        let part = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nA: {}", "a".repeat(10_000));
        if i % 2 == 0 {
            let _ = client.raw(part.as_bytes());
        }
        idle.push(client);
    }
    // The server's own user is served all the time, and others as soon as the strangers have been idle for a moment.
    assert_eq!(server.get("/healthz").status, 200);
    until("others are served", || {
        let mut client = Client::tcp(&address);
        let status = client.try_request("GET", "/healthz", &[], b"").map(|answer| answer.status);
        refused += u32::from(matches!(status, Ok(429 | 503)));
        matches!(status, Ok(200))
    });
    let metrics = server.get("/metrics").text();
    let open = metrics.lines().find_map(|line| line.strip_prefix("phalanx_server_connections ")).unwrap().to_owned();
    assert!(open.parse::<u32>().unwrap() <= 52, "{open}");
    assert!(server.memory() < before + (64 << 20), "{} and before {before}", server.memory());
    drop(idle);
    until("all are gone", || server.get("/metrics").text().contains("phalanx_server_connections 1\n"));
}

/// The answers to clients who connect at the same time.
fn answers_to(clients: &mut [Client]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for client in clients {
        let Ok(answer) = client.try_request("GET", "/healthz", &[], b"") else { continue };
        if answer.status != 200 {
            assert_eq!(answer.header("retry-after"), Some("1"));
            let which = if answer.status == 429 { " of one caller" } else { "" };
            assert_eq!(answer.json()["errors"][0], format!("there are too many connections{which}"));
            assert!(client.is_closed());
        }
        statuses.push(answer.status);
    }
    statuses
}

#[test]
fn too_many_connections_are_refused_politely() {
    let server = Server::start(&["--listen", "127.0.0.1:0", "--max-connections", "4"]);
    let address = server.address();
    // Those who have just come do not have to go, so that of many who come at the same time some are refused.
    until("some are refused", || {
        let from = |i: usize| Client::tcp_from(if i.is_multiple_of(2) { "127.0.0.1" } else { "127.0.0.2" }, &address);
        let statuses = answers_to(&mut (0..20).map(from).collect::<Vec<_>>());
        assert!(statuses.iter().all(|status| [200, 429, 503].contains(status)), "{statuses:?}");
        statuses.contains(&503)
    });
    assert_eq!(server.get("/healthz").status, 200, "the server's own user");
    assert!(!server.get("/metrics").text().contains("connections_refused_total 0\n"));
}

#[test]
fn one_caller_does_not_have_all_connections() {
    let server = Server::start(&["--listen", "127.0.0.1:0", "--max-connections", "8"]);
    assert_eq!(server.get("/v2/limits").json()["connections_of_one"], 4);
    let (address, token) = (server.address(), server.token(&["seal:orders"]));
    let is_served = |client: &mut Client| {
        let answer = client.request("GET", "/v1/auth/token/lookup-self", &[("X-Vault-Token", &token)], b"");
        answer.status == 200
    };
    let mut held: Vec<Client> = (0..4).map(|_| Client::tcp(&address)).collect();
    assert!(held.iter_mut().all(is_served));
    assert_eq!(answers_to(&mut [Client::tcp(&address), Client::tcp(&address)]), [429, 429]);
    let mut others: Vec<Client> = (0..2).map(|_| Client::tcp_from("127.0.0.2", &address)).collect();
    assert!(others.iter_mut().chain(&mut held).all(is_served));
    drop(held.pop());
    until("there is room again", || answers_to(&mut [Client::tcp(&address)]) == [200]);
}
