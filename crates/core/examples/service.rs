//! A small service. Many threads submit records of their users, whose keys are derived from one root. Free cores seal
//! them at once, and those that arrive while all are busy in one batch.

use phalanx_core::batch::coalescer::{Coalescer, Limits};
use phalanx_core::{Roster, SecretKey, Suite, UserKeys};
use std::sync::Arc;
use std::thread;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let suite = Suite::default();
    let sealing = Coalescer::to_seal(Roster::cpu(), suite, Limits::default())?;
    let opening = Coalescer::to_open(Roster::cpu(), suite, Limits::default())?;
    // A service would keep the root, and nothing for each user.
    let keys = Arc::new(UserKeys::new(&SecretKey::random()?, b"example.org records"));
    thread::scope(|scope| {
        for user in 0..8 {
            let (sealing, opening, keys) = (&sealing, &opening, &keys);
            scope.spawn(move || {
                let name = format!("user {user}");
                let record = format!("the record of {name}");
                let key = (keys, name.as_bytes());
                let ticket = sealing.submit(key, b"v1", record.as_bytes()).expect("the service runs");
                let stored = ticket.wait().expect("it is sealed").into_vec();
                let ticket = opening.submit(key, b"v1", &stored).expect("the service runs");
                assert_eq!(*ticket.wait().expect("it is authentic"), *record.as_bytes());
            });
        }
    });
    println!("8 records were sealed and opened");
    Ok(())
}
