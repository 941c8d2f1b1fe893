//! Listening, bounds, and what every answer has.

use crate::common::Server;

#[test]
fn a_server_serves_and_ends() {
    let server = Server::start(&[]);
    let answer = server.get("/healthz");
    assert_eq!((answer.status, answer.text().as_str()), (200, "ok\n"));
    let health = server.get("/v1/sys/health").json();
    assert_eq!(health["sealed"], false);
    assert!(server.terminate().success());
}
