//! Many threads at once, on few names.

use super::{Volume, owner, read};
use phalanx_volume::VolumeError;
use phalanx_volume::tree::{Attr, Kind, ROOT, RenameMode};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;

/// Numbers that look random: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// What one thread does to the volume, as the kernel would: each node that it gets is forgotten at the end.
struct Worker<'a> {
    volume: &'a Volume,
    random: Random,
    held: Vec<u64>,
}

impl Worker<'_> {
    fn hold(&mut self, attr: Attr) -> Attr {
        self.held.push(attr.number);
        attr
    }

    fn name(&mut self) -> Vec<u8> {
        let name = ["a", "b", "c", "d"][self.random.below(4)];
        if self.random.below(4) == 0 { name.repeat(200) } else { name.to_owned() }.into_bytes()
    }

    fn folder(&mut self) -> Result<u64, VolumeError> {
        let mut number = ROOT;
        for _ in 0..self.random.below(4) {
            let name = self.name();
            let attr = self.volume.tree.lookup(number, &name)?;
            let attr = self.hold(attr);
            if attr.kind == Kind::Folder {
                number = attr.number;
            }
        }
        Ok(number)
    }

    fn step(&mut self) -> Result<(), VolumeError> {
        let tree = &self.volume.tree;
        let (folder, name) = (self.folder()?, self.name());
        match self.random.below(10) {
            0 => {
                let write = |mut file: File| {
                    file.write_all(b"content").unwrap();
                    Ok(())
                };
                let (attr, ()) = tree.create(folder, &name, 0o644, owner(), write)?;
                self.hold(attr);
            }
            1 => drop(tree.mkdir(folder, &name, 0o755, owner()).map(|attr| self.hold(attr))?),
            2 => drop(tree.symlink(folder, &name, b"target", owner()).map(|attr| self.hold(attr))?),
            3 => tree.unlink(folder, &name)?,
            4 => tree.rmdir(folder, &name)?,
            5 | 6 => {
                let (to, new) = (self.folder()?, self.name());
                let mode = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange][self.random.below(3)];
                tree.rename(folder, &name, to, &new, mode)?;
            }
            7 => {
                let attr = tree.lookup(folder, &name).map(|attr| self.hold(attr))?;
                let (to, new) = (self.folder()?, self.name());
                tree.link(attr.number, to, &new).map(|attr| self.hold(attr))?;
            }
            8 => {
                let list = tree.list(folder)?;
                for index in 0..list.len() {
                    if tree.entry(&list, index).unwrap().is_some() {
                        tree.lookup_entry(&list, index).map(|attr| self.hold(attr))?;
                    }
                }
            }
            _ => {
                let attr = tree.lookup(folder, &name).map(|attr| self.hold(attr))?;
                assert_eq!(tree.getattr(attr.number)?.kind, attr.kind);
                match attr.kind {
                    Kind::File => assert_eq!(read(tree.open_file(attr.number, false)?), b"content"),
                    Kind::Link => assert_eq!(tree.readlink(attr.number)?, b"target"),
                    _ => tree.sync_folder(attr.number)?,
                }
            }
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.held.drain(..).for_each(|number| self.volume.tree.forget(number, 1));
    }
}

#[test]
fn eight_threads_leave_a_whole_tree() {
    let volume = Volume::new();
    let rounds = if std::env::var_os("PHALANX_EXHAUSTIVE").is_some() { 20_000 } else { 1500 };
    if rounds == 1500 {
        eprintln!("skipped: exhaustive sweep (PHALANX_EXHAUSTIVE=1)");
    }
    std::thread::scope(|scope| {
        for thread in 1..=8 {
            let volume = &volume;
            scope.spawn(move || {
                let random = Random(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(thread));
                let mut worker = Worker { volume, random, held: Vec::new() };
                let mut done = 0;
                for round in 0..rounds {
                    match worker.step() {
                        Ok(()) => done += 1,
                        Err(error) => {
                            let usual = [
                                Errno::NOENT,
                                Errno::EXIST,
                                Errno::NOTEMPTY,
                                Errno::NOTDIR,
                                Errno::ISDIR,
                                Errno::INVAL,
                                Errno::PERM,
                            ];
                            assert!(usual.contains(&error.errno()), "{error:?}");
                        }
                    }
                    if round % 16 == 0 {
                        worker.forget();
                    }
                }
                worker.forget();
                assert!(done > rounds / 10, "{done}");
            });
        }
    });
    assert_eq!(volume.tree.count(), 1);
    assert_eq!(volume.damage(), [""; 0]);
    let before = volume.snapshot();
    volume.check_backing();
    let volume = volume.again();
    assert_eq!(volume.snapshot(), before);
    assert_eq!(volume.damage(), [""; 0]);
}
