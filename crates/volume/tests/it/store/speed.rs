//! How fast it is: `cargo test --release -p phalanx-volume --test it -- --ignored --nocapture speed`.

use crate::store::{Random, Volume};
use phalanx_core::Suite;
use std::time::Instant;

#[test]
#[ignore = "a measurement: PHALANX_SPEED_DIR names the folder, or /dev/shm"]
fn speed() {
    let dir = std::env::var_os("PHALANX_SPEED_DIR").unwrap_or("/dev/shm".into());
    let all: usize = 1 << 30;
    let rate = |begun: Instant, bytes: usize| bytes as f64 / begun.elapsed().as_secs_f64() / 1e6;
    for (suite, chunk_len) in
        [(Suite::default(), 65_536), (Suite::default(), 1 << 20), (Suite::Aes256CtrTurboShake, 65_536)]
    {
        let volume = Volume::within(tempfile::tempdir_in(&dir).unwrap(), suite, chunk_len);
        let store = volume.store();
        for len in [128 << 10, 1 << 20] {
            let data = vec![0x5a; len];
            let file = volume.create(&store, &len.to_string());
            let begun = Instant::now();
            for at in (0..all).step_by(len) {
                file.write_at(at as u64, &data).unwrap();
            }
            file.sync(false).unwrap();
            println!("{} {chunk_len}: written by {len}: {:.0} MB/s", suite.name(), rate(begun, all));
            let begun = Instant::now();
            let mut bytes = vec![0; len];
            for at in (0..all).step_by(len) {
                assert_eq!(file.read_into(at as u64, &mut bytes).unwrap(), len);
            }
            println!("{} {chunk_len}: read by {len}: {:.0} MB/s", suite.name(), rate(begun, all));
        }
        let file = volume.open(&store, &(1 << 20).to_string());
        let (mut random, count, page) = (Random(1), 20_000, [7; 4096]);
        let begun = Instant::now();
        for _ in 0..count {
            file.write_at(random.below(all as u64 / 4096) * 4096, &page).unwrap();
        }
        file.sync(false).unwrap();
        println!("{} {chunk_len}: 4 KiB at random: {:.0} MB/s", suite.name(), rate(begun, count * 4096));
        let begun = Instant::now();
        let mut bytes = [0; 4096];
        for _ in 0..count {
            file.read_into(random.below(all as u64 / 4096) * 4096, &mut bytes).unwrap();
        }
        println!("{} {chunk_len}: 4 KiB read at random: {:.0} MB/s", suite.name(), rate(begun, count * 4096));
        store.close().unwrap();
    }
}
