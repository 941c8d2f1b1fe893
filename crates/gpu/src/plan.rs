//! How a job is laid out in a device's memory. A job that does not fit is processed in windows, one after another.

use crate::cipher::Span;
use crate::hash::Slice;
use phalanx_core::engine::Unit;
use phalanx_kernels::aes::{BLOCK, counter_after};
use std::ops::Range;

/// Two units at most this far apart in the job, in bytes, are copied together with the bytes between them.
const GAP: usize = 4096;

/// The limits of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Its length in bytes: a slice or more.
    pub len: usize,
    /// Its number of slices, whole or not: one or more.
    pub slices: usize,
}

/// The units, or parts of units, that are on the device at the same time.
#[derive(Debug)]
pub(crate) struct Window {
    slice_len: usize,
    parts: Vec<Part>,
    /// The copies, in ascending order both in the job and on the device.
    pub copies: Vec<Copy>,
    /// The number of slices in all parts.
    pub slices: usize,
}

/// A part of a unit. It consists of whole slices, except at the end of the unit.
#[derive(Debug)]
struct Part {
    unit: usize,
    bytes: Range<usize>,
    /// Where it lies on the device, in bytes: a multiple of the block length.
    at: usize,
}

/// Bytes of the job that one call copies.
#[derive(Debug)]
pub(crate) struct Copy {
    /// Where they lie in the job's buffer.
    pub bytes: Range<usize>,
    /// Where they lie on the device.
    pub at: usize,
}

/// Divides a job into windows. They have all units in their order, except those without bytes.
pub(crate) fn windows(units: &[Unit], slice_len: usize, limits: Limits) -> Vec<Window> {
    assert!(limits.len >= slice_len && limits.slices > 0);
    let (mut windows, mut window) = (Vec::new(), Window::new(slice_len));
    for (unit, Unit { data, .. }) in units.iter().enumerate() {
        let mut start = data.start;
        while start < data.end {
            let at = window.place(start);
            let room = limits.len.saturating_sub(at).min((limits.slices - window.slices) * slice_len);
            let whole = data.end - start;
            let len = if whole <= room { whole } else { room / slice_len * slice_len };
            if len == 0 {
                windows.push(std::mem::replace(&mut window, Window::new(slice_len)));
            } else {
                window.push(Part { unit, bytes: start..start + len, at });
                start += len;
            }
        }
    }
    if !window.parts.is_empty() {
        windows.push(window);
    }
    windows
}

impl Window {
    fn new(slice_len: usize) -> Self {
        Self { slice_len, parts: Vec::new(), copies: Vec::new(), slices: 0 }
    }

    /// Where byte `start` of the job would lie on the device. If it is near the bytes before it and a number of whole
    /// blocks after their beginning, it keeps that distance. Otherwise it lies right after them.
    fn place(&self, start: usize) -> usize {
        let Some(last) = self.copies.last() else { return 0 };
        let from = start - last.bytes.start;
        if start - last.bytes.end <= GAP && from.is_multiple_of(BLOCK) { last.at + from } else { self.end() }
    }

    /// The length of the device's memory that this takes, in bytes: whole blocks.
    pub fn end(&self) -> usize {
        self.copies.last().map_or(0, |last| (last.at + last.bytes.len()).next_multiple_of(BLOCK))
    }

    fn push(&mut self, part: Part) {
        match self.copies.last_mut() {
            Some(last) if last.at + (part.bytes.start - last.bytes.start) == part.at => last.bytes.end = part.bytes.end,
            _ => self.copies.push(Copy { bytes: part.bytes.clone(), at: part.at }),
        }
        self.slices += part.bytes.len().div_ceil(self.slice_len);
        self.parts.push(part);
    }

    /// The spans for AES-CTR, of at most `longest` bytes, a number of whole blocks. All but the first of a unit begin
    /// at counters that are multiples of that number. The units in `left_out`, in ascending order, are left out.
    pub fn spans(&self, units: &[Unit], left_out: &[usize], longest: usize) -> Vec<Span> {
        let mut spans = Vec::new();
        for Part { unit, bytes, at } in &self.parts {
            if left_out.binary_search(unit).is_ok() {
                continue;
            }
            let Unit { key, nonce, data, .. } = &units[*unit];
            let mut from = 0;
            while from < bytes.len() {
                let counter = counter_after(nonce, ((bytes.start - data.start + from) / BLOCK) as u64);
                let before = (u128::from_be_bytes(counter) % (longest / BLOCK) as u128) as usize * BLOCK;
                let len = (longest - before).min(bytes.len() - from);
                spans.push(Span { at: at + from, len, key: *key, counter });
                from += len;
            }
        }
        spans
    }

    /// The slices for SHA-3.
    pub fn slices(&self) -> Vec<Slice> {
        let slices = |Part { bytes, at, .. }: &Part| {
            let (len, at, slice_len) = (bytes.len(), *at, self.slice_len);
            (0..len).step_by(slice_len).map(move |from| Slice { at: at + from, len: slice_len.min(len - from) })
        };
        self.parts.iter().flat_map(slices).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::engine::Bind;

    fn units(ranges: &[Range<usize>]) -> Vec<Unit> {
        let bind = Bind::Chunk { index: 0, last: false };
        let unit =
            |data: &Range<usize>| Unit { key: 0, nonce: [9; 16], bind: bind.clone(), data: data.clone(), tag: [0; 32] };
        ranges.iter().map(unit).collect()
    }

    /// Every byte of every unit is in exactly one span and one slice, at the same place, and in exactly one copy.
    #[test]
    fn every_byte_is_at_its_place() {
        let cases: [&[Range<usize>]; 6] = [
            &[],
            &[5..5, 7..8],
            &[153..153 + 5000, 153 + 5008..20_000],
            &[0..1, 4..20_001, 20_003..20_004, 90_000..170_001],
            &[16..32, 32..48, 48..49, 64..65, 96..10_000],
            &[3..200_000, 200_000..200_000],
        ];
        for ranges in cases {
            for (len, slices, slice_len) in [
                (4096, 1, 4096),
                (8192, 3, 4096),
                (20_000, 2, 4096),
                (1 << 20, 4096, 4096),
                (4096, 5, 512),
                (9000, 99, 1024),
            ] {
                let limits = Limits { len, slices };
                let units = units(ranges);
                let (mut hashed, mut covered) = (Vec::new(), 0);
                for window in windows(&units, slice_len, limits) {
                    assert!(window.end() <= limits.len.next_multiple_of(BLOCK) && window.slices <= limits.slices);
                    // The place in the job that each byte of the device's memory comes from.
                    let mut from = vec![None; window.end()];
                    for copy in &window.copies {
                        copy.bytes.clone().zip(&mut from[copy.at..]).for_each(|(byte, place)| *place = Some(byte));
                    }
                    let mut last = 0;
                    for span in window.spans(&units, &[], 1 << 13) {
                        assert!(span.at >= last && span.at.is_multiple_of(BLOCK));
                        last = (span.at + span.len).next_multiple_of(BLOCK);
                        let first = from[span.at].unwrap();
                        let unit = units.iter().find(|unit| unit.data.contains(&first)).unwrap();
                        let blocks = ((first - unit.data.start) / BLOCK) as u64;
                        assert_eq!(span.counter, counter_after(&unit.nonce, blocks));
                        assert!((0..span.len).all(|i| from[span.at + i] == Some(first + i)));
                        covered += span.len;
                    }
                    assert_eq!(window.slices().len(), window.slices);
                    hashed.extend(window.slices().iter().map(|slice| (from[slice.at].unwrap(), slice.len)));
                }
                assert_eq!(covered, ranges.iter().map(|range| range.len()).sum());
                let slices = |range: &Range<usize>| {
                    let end = range.end;
                    range.clone().step_by(slice_len).map(move |start| (start, slice_len.min(end - start)))
                };
                assert_eq!(hashed, ranges.iter().flat_map(slices).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn chunks_of_a_file_are_copied_together() {
        // As in a job that is being sealed: after the header, with room for nonces and tags.
        let chunks: Vec<_> = (0..8).map(|i| 153 + 48 + i * 1072..153 + 48 + i * 1072 + 1024).collect();
        let windows = windows(&units(&chunks), 4096, Limits { len: 1 << 20, slices: 100 });
        assert_eq!((windows.len(), windows[0].copies.len()), (1, 1));
        let left_out = windows[0].spans(&units(&chunks), &[0, 3], 1 << 20);
        assert_eq!(left_out.len(), 6);
    }
}
