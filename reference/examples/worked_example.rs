//! Prints the worked example of `docs/format.md` as Markdown: `cargo run -p phalanx-reference --example worked_example`.
//! `vectors/format/worked-example.json` is the same file.

use phalanx_reference::{self as reference, Cost, Recipe, Slot, TAG_LEN};

fn main() {
    file();
    password();
    gcm();
    turboshake();
}

fn file() {
    let key = count(0);
    let recipe = Recipe {
        file_key: count(0x20),
        suite: 1,
        chunk_log2: 12,
        slots: vec![Slot::Key { key }],
        nonces: vec![count::<16>(0x40).to_vec(), count::<16>(0x50).to_vec()],
    };
    let plaintext: Vec<u8> = (0..4097).map(|i| (i % 251) as u8).collect();
    let file = reference::seal_file(&recipe, &plaintext);
    assert_eq!(reference::open_file(&file, &[], &[key]).as_ref(), Ok(&plaintext));

    let keys = reference::file_keys(&recipe.file_key, recipe.suite);
    println!("Suite 1, chunk_log2 12, one key slot. Plaintext: 4097 bytes, byte i being i mod 251; so two chunks.\n");
    println!("```");
    line("key", &key);
    line("file_key", &recipe.file_key);
    println!();
    line("key_id", &reference::key_id(&key));
    line("kek", &reference::key_kek(&key));
    line("wrapped", &reference::wrap(&reference::key_kek(&key), &recipe.file_key));
    line("K_encrypt", &keys.encrypt);
    line("K_mac", &keys.mac);
    println!("```\n");

    println!("The header:\n\n```");
    let mut at = 0;
    for (name, len) in [
        ("magic", 7),
        ("version", 1),
        ("header_len", 4),
        ("suite", 1),
        ("chunk_log2", 1),
        ("flags", 2),
        ("slot_count", 2),
        ("slot: type", 1),
        ("slot: body_len", 2),
        ("slot: key_id", 16),
        ("slot: wrapped", 40),
        ("tag", TAG_LEN),
    ] {
        line(&format!("{at:3}  {name}"), &file[at..at + len]);
        at += len;
    }
    println!("```\n");

    println!("The chunks:\n\n```");
    for (i, chunk) in file[at..].chunks(keys.suite.overhead() + 4096).enumerate() {
        let (head, ciphertext) = chunk.split_at(keys.suite.overhead());
        println!("chunk {i}, at {at}, {} bytes of ciphertext", ciphertext.len());
        line(&format!("{at:4}  nonce"), &head[..16]);
        line(&format!("{:4}  tag", at + 16), &head[16..]);
        let slices: Vec<_> = ciphertext.chunks(reference::slice_len(12)).map(reference::sha3_256).collect();
        for (j, digest) in slices.iter().enumerate() {
            line(&format!("      D_{j}"), digest);
        }
        let mut bound = head[..16].to_vec();
        bound.extend((i as u64).to_le_bytes());
        bound.push(i as u8); // final: of these two chunks, the one with index 1 is the last
        bound.extend(slices.concat());
        assert_eq!(reference::kmac256(&keys.mac, &bound, 256, "phalanx v1 chunk"), head[16..]);
        line("      nonce ‖ i ‖ final", &bound[..25]);
        if ciphertext.len() > 32 {
            line(&format!("{:4}  ciphertext, first 16", at + 48), &ciphertext[..16]);
            line(&format!("{:4}  ciphertext, last 16", at + chunk.len() - 16), &ciphertext[ciphertext.len() - 16..]);
        } else {
            line(&format!("{:4}  ciphertext", at + 48), ciphertext);
        }
        println!();
        at += chunk.len();
    }
    println!("file length {}", file.len());
    line("SHA3-256 of the whole file", &reference::sha3_256(&file));
    println!("```\n");
}

fn password() {
    let password = "correct horse battery staple";
    let salt = count(0);
    let cost = Cost { memory: 64, passes: 1, lanes: 1 };
    let derived = reference::argon2id(password.as_bytes(), &salt, &[], &[], cost, 32);
    let kek = reference::password_kek(password.as_bytes(), &salt, cost);
    println!("A password slot's key, from the password `{password}` (its {} ASCII bytes):\n", password.len());
    println!("```");
    line("salt", &salt);
    println!("{:29} {} KiB, {} pass, {} lane", "memory, passes, lanes", cost.memory, cost.passes, cost.lanes);
    line("Argon2id", &derived);
    line("kek", &kek);
    line("wrapped (file_key as above)", &reference::wrap(&kek, &count::<32>(0x20)));
    println!("```");
}

fn gcm() {
    let keys = reference::file_keys(&count(0x20), 4);
    let (nonce, aad, plaintext) = (count(0x50), [1, 0, 0, 0, 0, 0, 0, 0, 1], [0x50]);
    let (ciphertext, tag) = reference::gcm_encrypt(&keys.encrypt, &nonce, &aad, &plaintext);
    let chunk = [&nonce[..], &tag, &ciphertext].concat();
    assert_eq!(reference::seal_chunk(&keys, 12, 1, 1, &nonce, &plaintext), chunk);
    println!("\nThe same plaintext's chunk 1 of 2 in suite 4, under the same file_key:\n");
    println!("```");
    line("K_encrypt", &keys.encrypt);
    line("K_mac", &keys.mac);
    line("nonce", &nonce);
    line("i ‖ final", &aad);
    line("plaintext", &plaintext);
    line("ciphertext", &ciphertext);
    line("tag", &tag);
    line("chunk", &chunk);
    println!("```");
}

fn turboshake() {
    let keys = reference::file_keys(&count(0x20), 5);
    let (nonce, place, plaintext) = (count::<16>(0x50), [1, 0, 0, 0, 0, 0, 0, 0, 1], [0x50]);
    let ciphertext = reference::ctr(&keys.encrypt, &nonce, &plaintext);
    let digest = reference::turboshake256(&ciphertext, 0x50, 32);
    let tag = reference::kmac256(&keys.mac, &[&nonce[..], &place, &digest].concat(), 256, "phalanx v1 chunk");
    let chunk = [&nonce[..], &tag, &ciphertext].concat();
    assert_eq!(reference::seal_chunk(&keys, 12, 1, 1, &nonce, &plaintext), chunk);
    println!("\nThe same chunk in suite 5:\n");
    println!("```");
    line("K_encrypt", &keys.encrypt);
    line("K_mac", &keys.mac);
    line("nonce ‖ i ‖ final", &[&nonce[..], &place].concat());
    line("ciphertext", &ciphertext);
    line("D_0", &digest);
    line("tag", &tag);
    println!("```");
}

/// Bytes that count upwards.
fn count<const N: usize>(from: u8) -> [u8; N] {
    std::array::from_fn(|i| from + i as u8)
}

fn line(name: &str, bytes: &[u8]) {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{name:29} {hex}");
}
