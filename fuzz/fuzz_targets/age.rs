//! An altered age slot: only the sound age file gives a file key, and nothing panics, not even inside the crate `age`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_age::{Identities, Outline, Plugins};
use phalanx_core::KeySource;
use phalanx_fuzz::Steer;
use std::sync::LazyLock;

/// Made by age for the identities below; their payload is 32 bytes of 42.
const SOUND: [&[u8]; 2] = [include_bytes!("../src/alice.age"), include_bytes!("../src/pq.age")];
const POST_QUANTUM: &str = "AGE-SECRET-KEY-PQ-1TSCCQYNWFMCLACH3TDE9MM5JZMXALKN2N92DXC4RGAFH7KSGVGWQSECTQD";
const IDENTITY: &str = "AGE-SECRET-KEY-16AX85DCFAQEPJDPK8XSQGP4MEQSYVUF8Q7CZ3G9RNFRST4YZ5TLQND2W0U";

fuzz_target!(|data: &[u8]| {
    static HAND: LazyLock<Identities> = LazyLock::new(|| {
        let mut hand = Identities::new(Plugins::default());
        hand.add("alice", IDENTITY.as_bytes()).expect("an identity");
        hand.add("pq", POST_QUANTUM.as_bytes()).expect("an identity");
        hand
    });
    let mut steer = Steer(data);
    let way = steer.byte();
    let sound = SOUND[usize::from(way >> 7)];
    let file = match way % 4 {
        0 => steer.0.to_vec(),
        1 => [b"age-encryption.org/v1\n", steer.0].concat(),
        _ => altered(sound, &mut steer),
    };
    let outline = Outline::of(&file);
    if let Ok(outline) = &outline {
        assert!((1..=8).contains(&outline.stanzas().len()));
        assert!(outline.stanzas().iter().all(|stanza| stanza.kind() != "scrypt" && !stanza.kind().is_empty()));
    }
    // The sound one comes after it.
    let mut gave = false;
    let name = HAND.identity(&[&file, sound], &mut |at, key| {
        assert_eq!(key.expose(), &[42; 32]);
        gave |= at == 0;
        at == 1
    });
    assert!(name.expect("nothing is refused").is_some(), "what was altered hides the sound one");
    assert_eq!(gave, SOUND.contains(&&file[..]));
});

/// The sound file with pieces removed, inserted or changed.
fn altered(sound: &[u8], steer: &mut Steer) -> Vec<u8> {
    let mut file = sound.to_vec();
    for _ in 0..=steer.below(4) {
        let (from, to) = (steer.below(file.len() + 1), steer.below(file.len() + 1));
        match steer.byte() % 5 {
            0 => file[from.min(to)..from.max(to)].reverse(),
            1 => drop(file.drain(from.min(to)..from.max(to))),
            2 => {
                let piece = file[from.min(to)..from.max(to)].to_vec();
                file.splice(from..from, piece);
            }
            3 => {
                let piece: &[&[u8]] = &[
                    b"\n",
                    b"-> ",
                    b"-> X25519 ",
                    b"-> mlkem768x25519 ",
                    b"-> x\n\n",
                    b"--- ",
                    b" ",
                    b"-> scrypt a 40\nAAAA\n",
                ];
                file.splice(from..from, piece[steer.below(piece.len())].iter().copied());
            }
            _ if from < file.len() => file[from] ^= 1 << steer.below(8),
            _ => {}
        }
        file.truncate(16384);
        if file.is_empty() {
            file.push(steer.byte());
        }
    }
    file
}
