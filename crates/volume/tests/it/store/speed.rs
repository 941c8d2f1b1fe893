//! How fast it is: `cargo test --release -p phalanx-volume --test it -- --ignored --nocapture speed`.

use crate::store::{Random, Volume};
use phalanx_core::Suite;
use std::time::Instant;

#[test]
#[ignore = "a measurement: PHALANX_SPEED_DIR names the folder, or /dev/shm"]
fn speed() {
    let dir = std::env::var_os("PHALANX_SPEED_DIR").unwrap_or("/dev/shm".into());
    let all: usize = 1 << 30;
    // A busy machine gives a process less than its cores: its own time is printed too.
    let rate = |(begun, used): (Instant, f64), bytes: usize| {
        let rate = bytes as f64 / begun.elapsed().as_secs_f64() / 1e6;
        format!("{rate:.0} MB/s, {:.2} s of CPU", cpu_time() - used)
    };
    let now = || (Instant::now(), cpu_time());
    for (suite, chunk_len) in
        [(Suite::default(), 65_536), (Suite::default(), 1 << 20), (Suite::Aes256CtrTurboShake, 65_536)]
    {
        let volume = Volume::within(tempfile::tempdir_in(&dir).unwrap(), suite, chunk_len);
        let store = volume.store();
        for len in [128 << 10, 1 << 20] {
            let data = vec![0x5a; len];
            let file = volume.create(&store, &len.to_string());
            let begun = now();
            for at in (0..all).step_by(len) {
                file.write_at(at as u64, &data).unwrap();
            }
            file.sync(&file.witness(), false).unwrap();
            println!("{} {chunk_len}: written by {len}: {}", suite.name(), rate(begun, all));
            let begun = now();
            let mut bytes = vec![0; len];
            for at in (0..all).step_by(len) {
                assert_eq!(file.read_into(at as u64, &mut bytes).unwrap(), len);
            }
            println!("{} {chunk_len}: read by {len}: {}", suite.name(), rate(begun, all));
        }
        let file = volume.open(&store, &(1 << 20).to_string());
        let (mut random, count, page) = (Random(1), 20_000, [7; 4096]);
        let begun = now();
        for _ in 0..count {
            file.write_at(random.below(all as u64 / 4096) * 4096, &page).unwrap();
        }
        file.sync(&file.witness(), false).unwrap();
        println!("{} {chunk_len}: 4 KiB at random: {}", suite.name(), rate(begun, count * 4096));
        let begun = now();
        let mut bytes = [0; 4096];
        for _ in 0..count {
            file.read_into(random.below(all as u64 / 4096) * 4096, &mut bytes).unwrap();
        }
        println!("{} {chunk_len}: 4 KiB read at random: {}", suite.name(), rate(begun, count * 4096));
        store.close().unwrap();
    }
}

/// The CPU time of this process in seconds.
fn cpu_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |field: usize| fields[field].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}
