//! The program for AWS, against a server of this test.

use super::{WITH_SECRETS, ask_with, error, request, server};
use base64ct::{Base64, Encoding};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_phalanx-kms-awskms");
const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "AKID"), ("AWS_SECRET_ACCESS_KEY", "secret")];

#[test]
fn a_run_key_is_wrapped_and_unwrapped_under_its_context() {
    let (key, blob) = ([7; 32], [0, 255, 1, 2]);
    let context = json!({ "purpose": "phalanx v1 run key" });
    let given = json!({ "CiphertextBlob": Base64::encode_string(&blob), "KeyId": "arn" }).to_string();
    let (address, asked) = server("200 OK", "", &given);
    let wrap = request("wrap", "awskms://alias/orders?region=eu-west-3", "plaintext", &key);
    let variables = [KEYS[0], KEYS[1], ("AWS_SESSION_TOKEN", "session"), ("AWS_ENDPOINT_URL_KMS", &*address)];
    let answer = ask_with(PROGRAM, &wrap.to_string(), &variables);
    assert_eq!(answer, json!({ "ciphertext": Base64::encode_string(&blob) }));
    let asked = asked.recv().unwrap();
    assert_eq!(asked.line, "POST / HTTP/1.1");
    let plaintext = Base64::encode_string(&key);
    assert_eq!(asked.body, json!({ "KeyId": "alias/orders", "Plaintext": plaintext, "EncryptionContext": context }));
    for header in [
        "x-amz-target: trentservice.encrypt",
        "content-type: application/x-amz-json-1.1",
        "x-amz-security-token: session",
    ] {
        assert!(asked.headers.iter().any(|line| line == header), "{header}: {:?}", asked.headers);
    }
    let signature = asked.headers.iter().find(|line| line.starts_with("authorization: ")).unwrap();
    assert!(signature.starts_with("authorization: aws4-hmac-sha256 credential=akid/"), "{signature}");
    let signed = "/eu-west-3/kms/aws4_request, signedheaders=content-type;host;x-amz-content-sha256;x-amz-date;\
                  x-amz-security-token;x-amz-target, signature=";
    assert!(signature.contains(signed), "{signature}");

    let (address, asked) = server("200 OK", "", &json!({ "Plaintext": plaintext, "KeyId": "arn" }).to_string());
    let arn = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab";
    let unwrap = request("unwrap", &format!("awskms:///{arn}"), "ciphertext", &blob);
    let answer = ask_with(PROGRAM, &unwrap.to_string(), &[KEYS[0], KEYS[1], ("AWS_ENDPOINT_URL_KMS", &address)]);
    assert_eq!(answer, json!({ "plaintext": plaintext }));
    let asked = asked.recv().unwrap();
    let blob = Base64::encode_string(&blob);
    assert_eq!(asked.body, json!({ "KeyId": arn, "CiphertextBlob": blob, "EncryptionContext": context }));
    assert!(asked.headers.iter().any(|line| line == "x-amz-target: trentservice.decrypt"));
    assert!(asked.headers.iter().any(|line| line.contains("/us-east-1/kms/aws4_request")), "{:?}", asked.headers);
}

#[test]
fn failures_are_one_line() {
    let wrap = request("wrap", "awskms://orders", "plaintext", &[7; 32]).to_string();
    let denied = r#"{"__type":"AccessDeniedException","Message":"User is not authorized"}"#;
    for (status, answer, expected) in [
        ("400 Bad Request", denied, "answers 400 Bad Request: AccessDeniedException: User is not authorized"),
        ("400 Bad Request", r#"{"__type":"NotFoundException"}"#, "answers 400 Bad Request: NotFoundException"),
        ("500 Internal Server Error", "", "answers 500 Internal Server Error"),
        ("200 OK", "{}", "does not answer like KMS"),
        ("200 OK", r#"{"CiphertextBlob":"?"}"#, "does not answer like KMS"),
    ] {
        let (address, _asked) = server(status, "", answer);
        let variables = [KEYS[0], KEYS[1], ("AWS_REGION", "r"), ("AWS_ENDPOINT_URL_KMS", &*address)];
        assert_eq!(error(&ask_with(PROGRAM, &wrap, &variables)), format!("{address} {expected}"));
    }
    assert_eq!(
        error(&ask_with(PROGRAM, &wrap, &KEYS)),
        "no region: neither the URI (?region=NAME) nor AWS_REGION has one"
    );
    for uri in [
        "awskms://k?region=",
        "awskms://k?region=a.b",
        "awskms://k?x=y",
        "awskms:///?region=r",
        "awskms://k@x?region=r",
    ] {
        let request = request("wrap", uri, "plaintext", &[7; 32]).to_string();
        assert!(error(&ask_with(PROGRAM, &request, &KEYS)).starts_with("the URI has the form awskms://KEY?"), "{uri}");
    }
    let other = "awskms:///arn:aws:kms:us-east-1:111122223333:key/1234?region=cn-north-1";
    let elsewhere = request("wrap", other, "plaintext", &[7; 32]).to_string();
    let line = "the region of the URI, cn-north-1, is not that of the ARN, us-east-1";
    assert_eq!(error(&ask_with(PROGRAM, &elsewhere, &KEYS)), line);
    for url in ["nonsense", "http://", "http://a b"] {
        let variables = [KEYS[0], KEYS[1], ("AWS_REGION", "r"), ("AWS_ENDPOINT_URL_KMS", url)];
        let said = ask_with(PROGRAM, &wrap, &variables);
        assert!(error(&said).starts_with("AWS_ENDPOINT_URL_KMS is not the address of a server: "), "{said}");
    }
    for url in WITH_SECRETS {
        let variables = [KEYS[0], KEYS[1], ("AWS_REGION", "r"), ("AWS_ENDPOINT_URL_KMS", url)];
        let said = ask_with(PROGRAM, &wrap, &variables);
        assert!(error(&said).starts_with("AWS_ENDPOINT_URL_KMS ") && !error(&said).contains("secret"), "{said}");
    }
    let variables = [KEYS[0], KEYS[1], ("AWS_REGION", "r"), ("AWS_SESSION_TOKEN", "a\nb")];
    assert_eq!(
        error(&ask_with(PROGRAM, &wrap, &variables)),
        "the credentials of AWS have characters that no header may have"
    );
}

#[test]
fn credentials_that_never_come_are_not_waited_for() {
    // Connections wait there, and nobody takes them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let wrap = request("wrap", "awskms://orders?region=r", "plaintext", &[7; 32]).to_string();
    let said = ask_with(PROGRAM, &wrap, &[("AWS_METADATA_ENDPOINT", &*address)]);
    assert!(error(&said).starts_with("no credentials of AWS: "), "{said}");
}

/// A server that refuses all that it is asked, and how often that was.
fn refusing() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, asked) = (format!("http://{}", listener.local_addr().unwrap()), Arc::new(AtomicUsize::new(0)));
    let counted = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            counted.fetch_add(1, Relaxed);
            BufReader::new(&stream).lines().map_while(Result::ok).find(String::is_empty);
            let _ = (&stream).write_all(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    (address, asked)
}

#[test]
fn no_proxy_sees_the_service_that_gives_credentials() {
    let ((service, asked), (proxy, seen)) = (refusing(), refusing());
    let wrap = request("wrap", "awskms://orders?region=r", "plaintext", &[7; 32]).to_string();
    let variables = [("AWS_METADATA_ENDPOINT", &*service), ("HTTP_PROXY", &proxy), ("http_proxy", &proxy)];
    let said = ask_with(PROGRAM, &wrap, &variables);
    assert!(error(&said).starts_with("no credentials of AWS: "), "{said}");
    assert!(asked.load(Relaxed) > 0 && seen.load(Relaxed) == 0);
}
