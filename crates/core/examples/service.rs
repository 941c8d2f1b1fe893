//! A small service. Many threads submit records, and a coalescer seals those that arrive together in one batch.

use phalanx_core::batch::coalescer::{Coalescer, Limits};
use phalanx_core::{Roster, SecretKey, Suite};
use std::sync::Arc;
use std::thread;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let suite = Suite::default();
    let sealing = Coalescer::to_seal(Roster::cpu(), suite, Limits::default())?;
    let opening = Coalescer::to_open(Roster::cpu(), suite, Limits::default())?;
    thread::scope(|scope| {
        for user in 0..8 {
            let (sealing, opening) = (&sealing, &opening);
            scope.spawn(move || {
                let key = Arc::new(SecretKey::random().expect("the system gives random bytes"));
                let record = format!("the record of user {user}");
                let ticket = sealing.submit(&key, b"v1", record.as_bytes()).expect("the service runs");
                let stored = ticket.wait().expect("it is sealed").into_vec();
                let ticket = opening.submit(&key, b"v1", &stored).expect("the service runs");
                assert_eq!(*ticket.wait().expect("it is authentic"), *record.as_bytes());
            });
        }
    });
    println!("8 records were sealed and opened");
    Ok(())
}
