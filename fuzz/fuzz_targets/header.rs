//! `Header::read` compared with the reference: any bytes, and headers put together from pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::format::{FileKeys, Header, Slot};
use phalanx_core::{Error, SecretKey, Suite};
use phalanx_fuzz::{Steer, hash};
use phalanx_reference as reference;
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, Read};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fuzz_target!(|data: &[u8]| {
    let mut steer = Steer(data);
    let kind = steer.byte();
    let bytes = if kind & 1 == 0 { steer.0.to_vec() } else { pieces(&mut steer) };
    check(&bytes, usize::from(kind >> 1), hash(data));
});

/// A header made from few bytes, mostly valid, so that long ones are reached too.
fn pieces(steer: &mut Steer) -> Vec<u8> {
    let mut bytes = b"PHALANX\x01\0\0\0\0".to_vec();
    bytes.push(steer.byte() % 6);
    bytes.push(11 + steer.byte() % 15);
    bytes.extend_from_slice(&[steer.byte() / 255, 0]);
    let count = steer.below(70) as u16;
    bytes.extend_from_slice(&count.to_le_bytes());
    for _ in 0..count.saturating_add_signed(i16::from(steer.byte() as i8) / 100) {
        slot(&mut bytes, steer);
        if bytes.len() > 70_000 {
            break;
        }
    }
    bytes.extend_from_slice(&[0xA5; 32]);
    let len = (bytes.len() as u32).wrapping_add_signed(i32::from(steer.byte() as i8) / 60);
    bytes[8..12].copy_from_slice(&len.to_le_bytes());
    match steer.byte() {
        0..128 => {}
        128..160 => bytes.extend(steer.take(40)),
        160..192 => bytes.truncate(bytes.len().saturating_sub(1 + steer.below(300))),
        _ => {
            let at = steer.below(bytes.len().min(65536));
            bytes[at] ^= steer.byte();
        }
    }
    bytes
}

fn slot(bytes: &mut Vec<u8>, steer: &mut Steer) {
    let kind = steer.byte();
    let body = match kind % 8 {
        0 => vec![0; steer.below(300)],
        1 | 2 => {
            let mut body = vec![steer.byte(); 65];
            let lanes = steer.byte() % 8;
            let memory = u32::from(lanes) * 8 + u32::from(steer.byte() >> 1);
            body[16..20].copy_from_slice(&memory.wrapping_sub(u32::from(steer.byte() / 200)).to_le_bytes());
            body[20..24].copy_from_slice(&u32::from(steer.byte() % 4).to_le_bytes());
            body[24] = lanes;
            body
        }
        3 => vec![steer.byte(); 56],
        4 => steer.take(66).to_vec(),
        5 => vec![steer.byte(); usize::from(steer.u16() >> (steer.byte() % 12))],
        // Around the shortest age slot, and now and then the longest.
        7 => vec![steer.byte(); 10 + steer.below(40) + 16370 * usize::from(steer.byte() / 200)],
        // A slot of a key service, mostly sound, and sometimes cut.
        6 => {
            let mut field = |most: usize| {
                let len = steer.below(most);
                let byte = if most == 40 { b'!' + steer.byte() % 95 } else { steer.byte() };
                [&(len as u16).to_le_bytes()[..], &vec![byte; len]].concat()
            };
            let body = [field(40), field(80), vec![7; 40]].concat();
            body[..body.len() - usize::from(steer.byte() / 200)].to_vec()
        }
        _ => Vec::new(),
    };
    bytes.push([0, 1, 1, 2, 1, 200, 4, 3][usize::from(kind % 8)]);
    bytes.extend_from_slice(&(body.len() as u16).to_le_bytes());
    bytes.extend_from_slice(&body);
}

fn check(bytes: &[u8], piece: usize, hash: u64) {
    let expected = reference::read_header(bytes);
    let mut input = Pieces { bytes, at: 0, piece, asked: 0 };
    ALLOCATED.store(0, Relaxed);
    let found = Header::read(&mut input);
    let allocated = ALLOCATED.load(Relaxed);
    let (at, asked) = (input.at, input.asked);

    // At most as much is read and allocated as the checks so far allow.
    assert!(allocated <= 4 * 65536, "{allocated} bytes allocated");
    let most = match (&expected, bytes) {
        (Err(reference::Error::NotPhalanx | reference::Error::Version), _) => 8,
        (_, [_, _, _, _, _, _, _, _, a, b, c, d, ..])
            if (53..=65536).contains(&u32::from_le_bytes([*a, *b, *c, *d])) =>
        {
            u32::from_le_bytes([*a, *b, *c, *d]) as usize
        }
        _ => 12,
    };
    assert!(asked <= most && at <= most && at <= bytes.len(), "{at} read, {asked} asked for, of {most}");

    match (found, expected) {
        (Ok(header), Ok(expected)) => {
            assert_eq!(at, expected.len);
            assert_eq!(header.bytes(), &bytes[..at]);
            assert_eq!((header.suite().id(), header.chunk_log2()), (expected.suite, expected.chunk_log2));
            let slots: Vec<_> = header.slots().iter().map(|slot| (slot.kind(), body(slot))).collect();
            assert_eq!(slots, expected.slots);
            // The tag of a long header takes long.
            if at < 1000 || hash.is_multiple_of(16) {
                write_again(&header);
            }
        }
        (Err(Error::NotPhalanx), Err(reference::Error::NotPhalanx)) => {}
        (Err(Error::Version(version)), Err(reference::Error::Version)) => assert_eq!(version, bytes[7]),
        (Err(Error::Header(_)), Err(reference::Error::Header)) => {}
        (found, expected) => panic!("{found:?}, but the reference says {expected:?}"),
    }
}

/// A header that was read can be written, and is the same except for the tag.
fn write_again(header: &Header) {
    static KEYS: LazyLock<Vec<FileKeys>> = LazyLock::new(|| {
        let key = SecretKey::from_slice(&[7; 32]).expect("32 bytes");
        Suite::ALL.iter().map(|suite| key.file_keys(*suite)).collect()
    });
    let keys = &KEYS[usize::from(header.suite().id()) - 1];
    let again = Header::new(header.suite(), header.chunk_log2(), header.slots().to_vec(), keys).expect("it was read");
    let (written, tag) = again.bytes().split_at(again.bytes().len() - 32);
    assert_eq!(written, &header.bytes()[..header.bytes().len() - 32]);
    assert_eq!(tag, keys.header_tag(written));
    assert!(again.is_authentic(keys));
    assert!(!header.is_authentic(keys) || header.bytes() == again.bytes());
    let read = Header::read(&mut again.bytes()).expect("what was written");
    assert_eq!(read.slots(), header.slots());
}

fn body(slot: &Slot) -> Vec<u8> {
    match slot {
        Slot::Age { tag, file } => [&tag[..], file].concat(),
        Slot::Padding(body) | Slot::Unknown { body, .. } => body.clone(),
        Slot::Password { kdf, wrapped } => {
            let (memory, passes) = (kdf.memory_kib.to_le_bytes(), kdf.passes.to_le_bytes());
            [&kdf.salt[..], &memory, &passes, &[kdf.lanes], wrapped].concat()
        }
        Slot::Key { id, wrapped } => [&id.0[..], wrapped].concat(),
        Slot::Service { uri, run_key, wrapped } => {
            let len = |bytes: &[u8]| (bytes.len() as u16).to_le_bytes();
            [&len(uri.as_bytes())[..], uri.as_bytes(), &len(run_key), run_key, wrapped].concat()
        }
    }
}

/// Returns its first bytes in pieces, and counts the requested bytes.
struct Pieces<'a> {
    bytes: &'a [u8],
    at: usize,
    piece: usize,
    asked: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.asked = self.asked.max(self.at + buf.len());
        let piece = if self.piece == 0 || self.at > 400 { usize::MAX } else { self.piece };
        let n = buf.len().min(piece).min(self.bytes.len() - self.at);
        buf[..n].copy_from_slice(&self.bytes[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// Counts allocated bytes.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: all calls are passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.dealloc(at, layout) }
    }
}
