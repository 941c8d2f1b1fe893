//! Sponges side by side, one in each lane of the vector registers: which input goes into which lane, and when.
//!
//! A lane that is done takes the next input immediately, so that inputs of different lengths keep all lanes busy. Each
//! call of the kernel absorbs as many blocks as every lane still has. For slices of equal length this is the whole
//! slice.

use super::{Input, OUTPUT, RATE, State, Suffix, single};
use core::{array, ptr};
use zeroize::Zeroize;

/// N states of Keccak-p\[1600\]. Row i holds lane i of each state.
#[repr(C, align(64))]
pub(super) struct States<const N: usize>(pub(super) [[u64; N]; 25]);

/// The progress of one of the N sponges.
#[derive(Clone, Copy)]
struct Sponge<'a> {
    /// The input's number; `None` if there was no input left for it.
    index: Option<usize>,
    /// The part of the message that is not absorbed yet.
    message: &'a [u8],
    suffix: Suffix,
    /// The part of the padding that is not absorbed yet. `None` until the last whole block of the message is absorbed.
    padding: Option<(usize, usize)>,
}

impl Sponge<'_> {
    const IDLE: Self = Sponge { index: None, message: &[], suffix: Suffix::of_one_byte(0), padding: None };
}

/// Runs a sponge over Keccak-p\[1600, ROUNDS\] for each input, and passes on the first 64 bytes of its output with the
/// input's number.
///
/// `absorb(states, data, blocks)` absorbs the first `blocks` blocks of each input into its state, by the same
/// permutation.
pub(super) fn sponges<'a, const ROUNDS: usize, const N: usize>(
    inputs: impl Iterator<Item = Input<'a>>,
    mut give: impl FnMut(usize, &[u8; OUTPUT]),
    absorb: impl Fn(&mut States<N>, &[&[u8]; N], usize),
) {
    let mut inputs = inputs.enumerate().fuse();
    let mut states = States([[0; N]; 25]);
    let mut paddings = [[0; 2 * RATE]; N];
    let mut sponges = [Sponge::IDLE; N];
    let mut out = [0; OUTPUT];
    loop {
        refill(&mut sponges, &mut states, &mut inputs);
        let mut busy = 0;
        let mut some = 0;
        for (i, (sponge, padding)) in sponges.iter_mut().zip(&mut paddings).enumerate() {
            if sponge.index.is_some() {
                (busy, some) = (busy + 1, i);
                if sponge.padding.is_none() && sponge.message.len() < RATE {
                    sponge.padding = Some((0, pad(padding, sponge.message, sponge.suffix)));
                }
            }
        }
        if busy == 0 {
            break;
        }
        if let (1, Sponge { index: Some(index), message, suffix, padding: None }) = (busy, sponges[some]) {
            // A single remaining sponge is faster without the wide kernel.
            let mut state = states.get(some);
            single::sponge::<ROUNDS>(Input { state: &state, message, suffix }, &mut out);
            give(index, &out);
            state.zeroize();
            break;
        }

        let data: [&[u8]; N] = array::from_fn(|i| {
            // An idle lane computes too, on the data of another lane.
            let i = if sponges[i].index.is_some() { i } else { some };
            match sponges[i].padding {
                Some((from, to)) => &paddings[i][from..to],
                None => sponges[i].message,
            }
        });
        let blocks = data.iter().map(|d| d.len()).min().unwrap_or(0) / RATE;
        absorb(&mut states, &data, blocks);
        for (i, sponge) in sponges.iter_mut().enumerate() {
            let Some(index) = sponge.index else { continue };
            match &mut sponge.padding {
                None => sponge.message = &sponge.message[blocks * RATE..],
                Some((from, to)) => {
                    *from += blocks * RATE;
                    if from == to {
                        states.squeeze(i, &mut out);
                        give(index, &out);
                        *sponge = Sponge::IDLE;
                    }
                }
            }
        }
    }
    states.0.as_flattened_mut().zeroize();
    out.zeroize();
}

/// Gives the next inputs, if there are any, to the idle sponges.
fn refill<'a, const N: usize>(
    sponges: &mut [Sponge<'a>; N],
    states: &mut States<N>,
    inputs: &mut impl Iterator<Item = (usize, Input<'a>)>,
) {
    let mut fresh: [Option<&State>; N] = [None; N];
    for (sponge, fresh) in sponges.iter_mut().zip(&mut fresh) {
        if sponge.index.is_none()
            && let Some((index, Input { state, message, suffix })) = inputs.next()
        {
            *sponge = Sponge { index: Some(index), message, suffix, padding: None };
            *fresh = Some(state);
        }
    }
    match fresh[0] {
        // If all start together from one state, as with the slices of a chunk, whole rows are filled.
        Some(first) if fresh.iter().all(|s| s.is_some_and(|s| ptr::eq(s, first))) => {
            for (row, lane) in states.0.iter_mut().zip(first) {
                *row = [*lane; N];
            }
        }
        _ => {
            for (i, state) in fresh.iter().enumerate() {
                if let Some(state) = state {
                    states.set(i, state);
                }
            }
        }
    }
}

/// The message's tail, the suffix and the last bit of the padding: one block or two. Returns their length.
fn pad(padding: &mut [u8; 2 * RATE], tail: &[u8], suffix: Suffix) -> usize {
    let end = tail.len() + suffix.len;
    let used = if end > RATE { 2 * RATE } else { RATE };
    // Both parts have lengths that the compiler knows.
    let (first, second) = padding.split_first_chunk_mut::<RATE>().expect("two blocks");
    first.fill(0);
    if end > RATE {
        second.fill(0);
    }
    padding[..tail.len()].copy_from_slice(tail);
    padding[tail.len()..][..suffix.bytes.len()].copy_from_slice(&suffix.bytes);
    padding[used - 1] ^= 0x80;
    used
}

impl<const N: usize> States<N> {
    fn get(&self, i: usize) -> State {
        array::from_fn(|row| self.0[row][i])
    }

    fn set(&mut self, i: usize, state: &State) {
        for (row, lane) in self.0.iter_mut().zip(state) {
            row[i] = *lane;
        }
    }

    /// A separate function. If it were inlined, the compiler would move single bytes where its words meet the caller's
    /// copy of them.
    #[inline(never)]
    fn squeeze(&self, i: usize, out: &mut [u8; OUTPUT]) {
        for (out, row) in out.as_chunks_mut::<8>().0.iter_mut().zip(&self.0) {
            *out = row[i].to_le_bytes();
        }
    }
}
