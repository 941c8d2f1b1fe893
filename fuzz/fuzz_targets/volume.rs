//! The slots in the headers of a volume's files (`docs/format-volumes.md`, section 10.6, and `docs/format-versions.md`), read
//! by the core and by the reference. The tags are right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::format::{FileKeys, Header, Slot};
use phalanx_core::volume::{Config, Features, HEADER_LEN};
use phalanx_core::{ChunkSize, Recipient, SecretKey, Suite};
use phalanx_fuzz::Steer;
use phalanx_reference::volume as reference;
use std::sync::LazyLock;

/// A volume, as both see it, with the header and the keys of one file.
struct Volume {
    config: Config,
    reference: reference::Config,
    header: Header,
    keys: FileKeys,
}

/// One without rollback protection, and one with it.
static VOLUMES: LazyLock<[Volume; 2]> = LazyLock::new(|| [false, true].map(volume));

fn volume(rollback_protection: bool) -> Volume {
    let key = SecretKey::from_slice(&[7; 32]).expect("32 bytes");
    let features = Features { rollback_protection };
    let size = ChunkSize::new(4096).expect("a lawful size");
    let made = Config::create_with(Suite::default(), size, features, &[Recipient::key(&key)]);
    let (bytes, config) = made.expect("a lawful volume");
    let reference = reference::open_config(&bytes, &[], &[[7; 32]]).expect("a whole config");
    let (header, keys) = config.new_file().expect("random bytes");
    Volume { config, reference, header, keys }
}

fuzz_target!(|data: &[u8]| {
    let mut steer = Steer(data);
    let Volume { config, reference, header, keys } = &VOLUMES[usize::from(steer.flag())];
    let mut slots: Vec<Slot> = header.slots().iter().filter(|slot| matches!(slot, Slot::Key { .. })).cloned().collect();
    for _ in 0..steer.below(4) {
        let kind = steer.pick(&[17, 18, 17, 18, 19]);
        let len = steer.below(2200);
        slots.push(Slot::Unknown { kind, body: body(&mut steer, kind, len) });
    }
    let used = 18 + 32 + slots.iter().map(|slot| 3 + len_of(slot)).sum::<usize>();
    let Some(room) = HEADER_LEN.checked_sub(used + 3) else { return };
    slots.insert(steer.below(slots.len() + 1), Slot::Padding(vec![0; room]));
    let header = Header::new(config.suite(), 12, slots, keys).expect("lawful slots");

    let (opened, expected) = (config.open_file(&header), reference::read_backing(reference, header.bytes()));
    assert_eq!(opened.is_ok(), expected.is_some());
    let (Ok((_, holes, state)), Some(expected)) = (opened, expected) else { return };
    let ranges: Vec<_> = holes.ranges().iter().map(|hole| (hole.start, hole.end - hole.start)).collect();
    assert_eq!(ranges, expected.holes);
    let sums = state.as_ref().map(|state| (state.group_log2, state.sums.clone()));
    assert_eq!(sums, expected.state.map(|state| (state.group_log2, state.sums)));
    // What was read is written in the same way.
    let again = config.with(&header, keys, &holes, state.as_ref()).expect("the slots fit");
    let (_, holes_again, state_again) = config.open_file(&again).expect("a lawful header");
    assert_eq!((holes_again, state_again), (holes, state));
});

/// A body of a slot, often a lawful one.
fn body(steer: &mut Steer, kind: u8, len: usize) -> Vec<u8> {
    match (kind, steer.byte() % 4) {
        // Holes one after another.
        (17, 0 | 1) => {
            let mut first = 0u64;
            let hole = |_| {
                first += u64::from(steer.byte());
                let count = u64::from(steer.byte());
                let bytes = [first.to_le_bytes(), count.to_le_bytes()].concat();
                first = first.saturating_add(count);
                bytes
            };
            (0..len / 16).flat_map(hole).collect()
        }
        (18, 0 | 1) => {
            let mut body = vec![steer.byte()];
            body.resize(1 + len / 16 * 16, steer.byte());
            body
        }
        _ => {
            let mut body = steer.take(len).to_vec();
            body.resize(len, 0);
            body
        }
    }
}

fn len_of(slot: &Slot) -> usize {
    match slot {
        Slot::Key { .. } => 56,
        Slot::Padding(body) | Slot::Unknown { body, .. } => body.len(),
        _ => unreachable!("no other slots are made"),
    }
}
