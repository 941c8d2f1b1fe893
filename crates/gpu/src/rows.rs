//! Chunks as rows: which of them one call can copy.

use crate::driver::Rows;
use phalanx_core::engine::Unit;

/// Rows of chunks, from these places on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Where the first lies in the sealed memory.
    pub sealed_at: usize,
    /// Where the first lies in the plain memory.
    pub plain_at: usize,
    pub rows: Rows,
}

/// Groups chunks that follow one another, have one length and keep their distances in both memories. `placed` has their
/// places in the plain memory. Those without bytes are left out.
pub(crate) fn runs(units: &[Unit], placed: &[Unit]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (unit, placed) in units.iter().zip(placed).filter(|(unit, _)| !unit.data.is_empty()) {
        let (sealed_at, plain_at, len) = (unit.data.start, placed.data.start, unit.data.len());
        if let Some(last) = runs.last_mut() {
            let Run { sealed_at: first_sealed, plain_at: first_plain, rows } = last;
            let [here, there] = [sealed_at - *first_sealed, plain_at - *first_plain];
            if rows.count == 1 {
                (rows.pitch_here, rows.pitch_there) = (here, there);
            }
            let goes_on = here == rows.count * rows.pitch_here && there == rows.count * rows.pitch_there;
            if rows.len == len && goes_on {
                rows.count += 1;
                continue;
            }
        }
        let rows = Rows { len, count: 1, pitch_here: len, pitch_there: len };
        runs.push(Run { sealed_at, plain_at, rows });
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::engine::Bind;
    use std::ops::Range;

    fn units(ranges: impl IntoIterator<Item = Range<usize>>) -> Vec<Unit> {
        let bind = Bind::Chunk { index: 0, last: false };
        let unit = |data| Unit { key: 0, nonce: [9; 16], bind: bind.clone(), data, tag: [0; 32] };
        ranges.into_iter().map(unit).collect()
    }

    /// Each byte of each chunk is copied once, to its place, whatever the lengths and distances.
    #[test]
    fn runs_have_all_chunks() {
        for case in 0..4000usize {
            let mut random = case;
            let mut next = |most: usize| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % most
            };
            let (mut sealed, mut plain, mut ends) = (Vec::new(), Vec::new(), (next(5), 0));
            for _ in 0..next(12) {
                // Few lengths and distances, so that many are equal.
                let (gap, len) = (1 + next(2), [0, 3, 4][next(3)]);
                sealed.push(ends.0 + gap..ends.0 + gap + len);
                plain.push(ends.1..ends.1 + len);
                ends = (ends.0 + gap + len, ends.1 + len);
            }
            let runs = runs(&units(sealed.clone()), &units(plain.clone()));
            let got: Vec<_> = runs
                .iter()
                .flat_map(|Run { sealed_at, plain_at, rows }| {
                    assert!(rows.count == 1 || (rows.pitch_here >= rows.len && rows.pitch_there >= rows.len));
                    let [here, there] = rows.spans();
                    assert!(sealed_at + here <= ends.0 && plain_at + there <= ends.1);
                    (0..rows.count).map(move |row| {
                        let (here, there) = (sealed_at + row * rows.pitch_here, plain_at + row * rows.pitch_there);
                        (here..here + rows.len, there..there + rows.len)
                    })
                })
                .collect();
            let want: Vec<_> = sealed.into_iter().zip(plain).filter(|(sealed, _)| !sealed.is_empty()).collect();
            assert_eq!(got, want, "case {case}");
        }
    }

    #[test]
    fn the_chunks_of_a_file_are_one_run_and_a_short_last_one() {
        let sealed = (0..9).map(|i| 48 + i * 4144..48 + i * 4144 + if i == 8 { 77 } else { 4096 });
        let plain = (0..9).map(|i| i * 4096..i * 4096 + if i == 8 { 77 } else { 4096 });
        let rows = Rows { len: 4096, count: 8, pitch_here: 4144, pitch_there: 4096 };
        let last = Rows { len: 77, count: 1, pitch_here: 77, pitch_there: 77 };
        assert_eq!(
            runs(&units(sealed), &units(plain)),
            [
                Run { sealed_at: 48, plain_at: 0, rows },
                Run { sealed_at: 48 + 8 * 4144, plain_at: 8 * 4096, rows: last }
            ]
        );
    }
}
