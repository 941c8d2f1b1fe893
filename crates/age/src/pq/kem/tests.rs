//! ML-KEM-768 against foreign suites: Wycheproof's and NIST's. `vectors/scripts/foreign` makes the file of the tests.

use super::*;
use phalanx_vectors::{hex, unhex};
use sha3_0_10::Digest;

const TESTS: &str = include_str!("../../../tests/data/ml-kem-768.txt");

/// The point of X25519 that everybody multiplies.
const BASE: [u8; 32] = {
    let mut point = [0; 32];
    point[0] = 9;
    point
};

/// Both halves of a public key, checked as keys of strangers are. `None` if it is refused.
fn public(mlkem: &[u8]) -> Option<PublicKey> {
    PublicKey::from_bytes(&[mlkem, &BASE].concat()).ok()
}

fn generated(seed: &[u8]) -> (Decapsulation, Encapsulation) {
    let [d, z] = [&seed[..32], &seed[32..]].map(|half| <[u8; 32]>::try_from(half).unwrap().into());
    MlKem768::generate_deterministic(&d, &z)
}

/// The file names long bytes by their digest.
fn digest(bytes: &[u8]) -> String {
    format!("#{}", hex(&Sha3_256::digest(bytes)))
}

/// The random bytes of a test: what encapsulation draws.
struct Given<'a>(&'a [u8]);

impl RngCore for Given<'_> {
    fn next_u32(&mut self) -> u32 {
        unreachable!("ML-KEM draws bytes")
    }
    fn next_u64(&mut self) -> u64 {
        unreachable!("ML-KEM draws bytes")
    }
    fn fill_bytes(&mut self, out: &mut [u8]) {
        let (now, later) = self.0.split_at(out.len());
        out.copy_from_slice(now);
        self.0 = later;
    }
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), rand_core::Error> {
        self.fill_bytes(out);
        Ok(())
    }
}

impl CryptoRng for Given<'_> {}

#[test]
fn ml_kem_passes_the_foreign_suites() {
    let mut counts = std::collections::BTreeMap::new();
    for line in TESTS.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<_> = line.split(' ').collect();
        let bytes = |i: usize| if words[i] == "." { Vec::new() } else { unhex(words[i]) };
        let name = words[1];
        match words[0] {
            "keygen" => {
                let (_, key) = generated(&bytes(2));
                assert_eq!(digest(&key.as_bytes()), words[3], "{name}");
                assert!(public(&key.as_bytes()).is_some(), "{name}");
            }
            "decaps" => {
                // A ciphertext of another length is refused with the whole of what was encapsulated.
                let sent = [&bytes(3)[..], &BASE].concat();
                let secret = EncappedKey::from_bytes(&sent).ok().filter(|_| bytes(2).len() == 64).map(|sent| {
                    let ciphertext = <[u8; CIPHERTEXT]>::try_from(&sent.0[..CIPHERTEXT]).unwrap();
                    hex(&generated(&bytes(2)).0.decapsulate(&ciphertext.into()).unwrap())
                });
                assert_eq!(secret.as_deref().unwrap_or("-"), words[4], "{name}");
            }
            "encaps" => {
                let done = public(&bytes(3)).map(|key| key.mlkem.encapsulate(&mut Given(&bytes(2))).unwrap());
                let done = done.map(|(ciphertext, secret)| (digest(&ciphertext), hex(&secret)));
                let (ciphertext, secret) = done.unwrap_or_else(|| ("-".into(), "-".into()));
                assert_eq!((&*ciphertext, &*secret), (words[4], words[5]), "{name}");
            }
            "check" => assert_eq!(public(&bytes(2)).map_or("-", |_| "right"), words[3], "{name}"),
            other => panic!("{name}: {other}"),
        }
        *counts.entry(words[0]).or_insert(0) += 1;
    }
    println!("ML-KEM-768: {counts:?}");
    let counts: Vec<_> = counts.into_iter().collect();
    assert_eq!(counts, [("check", 10), ("decaps", 80), ("encaps", 77), ("keygen", 125)]);
}
