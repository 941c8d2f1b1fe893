//! No secret is left in the program's memory at its end, where a core dump would show it if the program allowed one.

use crate::common::*;
use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// The process that runs the program in the folder.
fn process(s: &Sandbox) -> String {
    let here = fs::canonicalize(s.path("")).unwrap();
    let program = fs::canonicalize(env!("CARGO_BIN_EXE_phalanx")).unwrap();
    let leads_to = |id: &str, link: &str, to| fs::read_link(format!("/proc/{id}/{link}")).is_ok_and(|path| path == to);
    let ids = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut ids = ids.filter(|id| leads_to(id, "cwd", here.clone()) && leads_to(id, "exe", program.clone()));
    ids.next().expect("it runs")
}

/// Which of the secrets are in memory that the process can write to, apart from the stack of its first thread.
fn left(id: &str, secrets: &[(&'static str, Vec<u8>)]) -> Vec<String> {
    let memory = File::open(format!("/proc/{id}/mem")).unwrap();
    let maps = fs::read_to_string(format!("/proc/{id}/maps")).unwrap();
    let (mut found, mut searched) = (Vec::new(), 0);
    for line in maps.lines().filter(|line| line.contains(" rw") && !line.ends_with("[stack]")) {
        let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let (from, to) = (u64::from_str_radix(from, 16).unwrap(), u64::from_str_radix(to, 16).unwrap());
        for at in (from..to).step_by(1 << 20) {
            // A secret that begins in one piece and ends in the next is read with the first.
            let mut bytes = vec![0; ((1 << 20) + 64).min((to - at) as usize)];
            if memory.read_exact_at(&mut bytes, at).is_err() {
                continue;
            }
            searched += bytes.len();
            for (name, secret) in secrets {
                for half in secret.chunks(16) {
                    let first = half[0];
                    let places = bytes.iter().enumerate().filter(|(_, byte)| **byte == first).map(|(i, _)| i);
                    for place in places.filter(|i| bytes[*i..].starts_with(half)) {
                        found.push(format!("{name} at {:#x} in {line}", at + place as u64));
                    }
                }
            }
        }
    }
    assert!(searched > 1 << 16, "{searched} bytes of\n{maps}");
    found
}

#[test]
fn no_key_is_left_in_freed_memory() {
    if !rustix::process::getuid().is_root() {
        return skip("root");
    }
    let s = Sandbox::new();
    let key: [u8; 32] = std::array::from_fn(|i| (i * i + 7) as u8);
    s.secret("raw", key);
    s.write("f", painted(1024));
    for args in [
        &["protect", "-f", "--no-sync", "--key-file", "raw", "f"][..],
        &["unprotect", "-f", "--no-sync", "--key-file", "raw", "f.phx", "-o", "g"],
    ] {
        let found = RefCell::new(Vec::new());
        let search = || {
            let file = s.read("f.phx");
            let (header, file_key) = phalanx_reference::open_header(&file, &[], &[key]).unwrap();
            let keys = phalanx_reference::file_keys(&file_key, header.suite);
            let secrets = [
                ("the key", key.to_vec()),
                ("the file key", file_key.to_vec()),
                ("K_encrypt", keys.encrypt),
                ("K_mac", keys.mac.to_vec()),
            ];
            *found.borrow_mut() = left(&process(&s), &secrets);
        };
        let Some(ended) = s.meanwhile("exit_group", args, || true, search) else { return };
        ended.ok();
        assert!(found.borrow().is_empty(), "{args:?}: {:#?}", found.borrow());
    }
}
