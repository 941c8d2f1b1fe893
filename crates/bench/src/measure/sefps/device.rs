//! AES-ECB as in the paper's GPU and hybrid programs: all blocks on the device, or the part that Eq. 1 gives. All CPU
//! cores except the one that drives the device encrypt the others.
//!
//! The file is in ordinary memory, as in the paper's programs, and passes through the device's memory in windows.

use crate::measure::Result;
use crate::measure::device::Aes;
use crate::measure::sefps::layout::{BlockCipher, in_parallel};
use phalanx_gpu::{AesLaunch, Device, Direction};
use phalanx_kernels::aes::BLOCK;
use std::sync::Arc;
use std::thread;

/// The device's part of all blocks, and the threads and the cipher of the others.
pub type Beside = (f64, usize, Arc<dyn BlockCipher + Send>);

/// A stream of the device, and the cipher beside it.
pub struct Ecb {
    aes: Aes,
    beside: Option<Beside>,
}

impl Ecb {
    /// A stream with `room` bytes of the device's memory.
    pub fn new(
        device: &Device,
        launch: AesLaunch,
        key: &[u8],
        room: usize,
        beside: Option<Beside>,
    ) -> phalanx_gpu::Result<Self> {
        Ok(Self { aes: Aes::new(device, launch, key, None, room)?, beside })
    }

    pub fn crypt(&mut self, direction: Direction, blocks: &mut [u8]) -> Result<()> {
        let Some((part, threads, cipher)) = self.beside.clone() else { return self.on_device(direction, blocks) };
        let (mine, others) = blocks.split_at_mut(device_part(blocks.len(), part));
        thread::scope(|scope| {
            scope.spawn(move || {
                in_parallel(threads, others, |blocks| match direction {
                    Direction::Encrypt => cipher.encrypt(blocks),
                    Direction::Decrypt => cipher.decrypt(blocks),
                });
            });
            self.on_device(direction, mine)
        })
    }

    fn on_device(&mut self, direction: Direction, blocks: &mut [u8]) -> Result<()> {
        // The key is sent with the data, as a program that is started for one file must do.
        self.aes.bring_key(direction)?;
        Ok(self.aes.run(blocks)?)
    }
}

/// The number of the `len` bytes, in whole blocks, that the device takes.
fn device_part(len: usize, part: f64) -> usize {
    let blocks = len / BLOCK;
    ((blocks as f64 * part).round() as usize).min(blocks) * BLOCK
}

#[cfg(test)]
mod tests {
    use super::super::layout::{self, Kernels};
    use super::*;
    use crate::error::Error;
    use phalanx_gpu::Variant;

    #[test]
    fn the_device_takes_whole_blocks() {
        assert_eq!(device_part(160, 0.907), 144);
        assert_eq!((device_part(160, 0.0), device_part(160, 1.0), device_part(0, 0.9)), (0, 160, 0));
    }

    /// Files are protected and unprotected, in one window and in several.
    #[test]
    fn files_are_those_of_the_cpus_programs() {
        let Some(device) = crate::measure::device::tests::device() else { return };
        let level = phalanx_kernels::aes::Level::detect();
        let key = [7; 16];
        let cpu: Arc<dyn BlockCipher + Send> = Arc::new(Kernels::new(level, &key).unwrap());
        let as_printed = AesLaunch { variant: Variant::Table4, threads: 256, granularity: 1 };
        for launch in [as_printed, AesLaunch::default()] {
            for part in [None, Some(0.5), Some(0.9)] {
                for len in [0, 15, 16, 100_003] {
                    let beside = part.map(|part| (part, 3, cpu.clone()));
                    let mut ecb = Ecb::new(&device, launch, &key, 4096, beside).unwrap();
                    let plain: Vec<u8> = (0..=250).cycle().take(len).collect();
                    let (mut want, mut got) = (plain.clone(), plain.clone());
                    layout::protect(&*cpu, 1, &mut want);
                    layout::protect_by(&mut got, |blocks| ecb.crypt(Direction::Encrypt, blocks)).unwrap();
                    assert!(got == want, "{launch:?}, {part:?}, {len} bytes");
                    layout::unprotect_by(&mut got, |blocks| ecb.crypt(Direction::Decrypt, blocks)).unwrap();
                    assert!(got == plain, "{launch:?}, {part:?}, {len} bytes: back");
                    want[0] ^= 1;
                    let refused = layout::unprotect_by(&mut want, |blocks| ecb.crypt(Direction::Decrypt, blocks));
                    assert!(matches!(refused, Err(Error::Program(_))), "{refused:?}");
                }
            }
        }
    }
}
