//! Seals and opens a thousand users' records, each under its own key, in two calls.

use phalanx_core::batch::{self, Copied};
use phalanx_core::{Roster, SecretKey, Suite};

fn main() -> phalanx_core::Result<()> {
    let (roster, suite) = (Roster::cpu(), Suite::default());
    let keys = (0..1000).map(|_| SecretKey::random()).collect::<Result<Vec<_>, _>>()?;
    let records: Vec<Vec<u8>> = (0..1000).map(|i| format!("the record of user {i}").into_bytes()).collect();
    let ads: Vec<Vec<u8>> = (0..1000).map(|i| format!("user {i}").into_bytes()).collect();

    let users = || keys.iter().zip(&ads);
    let inputs: Vec<_> =
        users().zip(&records).map(|((key, ad), bytes)| Copied { key: key.into(), ad, bytes }).collect();
    let mut stored = vec![0; records.iter().map(|record| record.len() + suite.overhead()).sum()];
    let places = batch::seal_into(&roster, suite, &inputs, &mut stored)?;
    println!("1000 records lie in {} bytes", stored.len());

    stored[places[7].end - 1] ^= 1; // somebody alters the record of user 7
    let bytes = places.iter().map(|place| &stored[place.clone()]);
    let inputs: Vec<_> = users().zip(bytes).map(|((key, ad), bytes)| Copied { key: key.into(), ad, bytes }).collect();
    let mut opened = vec![0; stored.len()];
    let places = batch::open_into(&roster, suite, &inputs, &mut opened)?;
    for (user, place) in places.into_iter().enumerate() {
        match place {
            Some(place) => assert_eq!(opened[place], records[user][..]),
            None => println!("the record of user {user} is not authentic"),
        }
    }
    Ok(())
}
