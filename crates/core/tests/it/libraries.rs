//! The libraries whose ciphers the core uses, in the versions and with the features that it uses, against official vectors and
//! foreign suites. What the core makes of them is compared with the reference elsewhere.

use aes_kw::{KeyInit, KwAes256};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use phalanx_vectors::primitives::{AesGcm, AesKw, Argon2id, tests};

#[test]
fn key_wrap_passes_the_official_vectors_and_wycheproof() {
    let (mut opened, mut refused) = (0, 0);
    for test in tests::<AesKw>("aes-kw") {
        // The core has keys of 256 bits only. Two samples of RFC 3394 have others.
        let Ok(kek) = <[u8; 32]>::try_from(&test.kek[..]) else { continue };
        let kek = KwAes256::new(&kek.into());
        let mut room = vec![0; test.wrapped.len()];
        let found = kek.unwrap_key(&test.wrapped, &mut room).map(<[u8]>::to_vec).ok();
        assert_eq!(found.as_deref(), test.key.as_deref(), "{}", test.name);
        match &test.key {
            Some(key) => {
                assert_eq!(kek.wrap_key(key, &mut room).unwrap(), &*test.wrapped, "{}", test.name);
                opened += 1;
            }
            None => refused += 1,
        }
    }
    println!("AES key wrap: {opened} keys, {refused} refused");
    assert!(opened >= 60 && refused >= 40, "{opened}, {refused}");
}

#[test]
fn aes_gcm_passes_the_official_vectors_and_wycheproof() {
    let (mut opened, mut refused) = (0, 0);
    for test in tests::<AesGcm>("aes-256-gcm") {
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &test.key).unwrap());
        let nonce = || Nonce::assume_unique_for_key(test.iv.array());
        let mut data = test.ciphertext.to_vec();
        let found = key.open_in_place_separate_tag(nonce(), Aad::from(&*test.aad), &test.tag, &mut data).is_ok();
        assert_eq!(found, test.plaintext.is_some(), "{}", test.name);
        let Some(plaintext) = &test.plaintext else {
            refused += 1;
            continue;
        };
        assert_eq!(data, **plaintext, "{}", test.name);
        let tag = key.seal_in_place_separate_tag(nonce(), Aad::from(&*test.aad), &mut data).unwrap();
        assert_eq!((&data[..], tag.as_ref()), (&*test.ciphertext, &*test.tag), "{}", test.name);
        opened += 1;
    }
    println!("AES-256-GCM: {opened} texts, {refused} refused");
    assert!(opened >= 150 && refused >= 60, "{opened}, {refused}");
}

#[test]
fn argon2id_passes_the_official_vectors() {
    let tests = tests::<Argon2id>("argon2id");
    for test in &tests {
        let mut params = argon2::ParamsBuilder::new();
        params.m_cost(test.memory).t_cost(test.passes).p_cost(test.lanes.into()).output_len(test.output.len());
        if !test.ad.is_empty() {
            params.data(argon2::AssociatedData::new(&test.ad).unwrap());
        }
        let (algorithm, version) = (argon2::Algorithm::Argon2id, argon2::Version::V0x13);
        let params = params.build().unwrap();
        let argon2 = argon2::Argon2::new_with_secret(&test.secret, algorithm, version, params).unwrap();
        let mut output = vec![0; test.output.len()];
        argon2.hash_password_into(&test.password, &test.salt, &mut output).unwrap();
        assert_eq!(output, *test.output, "{}", test.name);
    }
    println!("Argon2id: {}", tests.len());
}
