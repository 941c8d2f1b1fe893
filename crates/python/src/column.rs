//! Columns of Apache Arrow: many messages in one buffer, with an offset for each.

use crate::bytes::{Bytes, Shared};
use crate::engines::{engines, suite};
use crate::error;
use crate::messages::{Keys, all_ads, cost, groups, open_group, raises};
use phalanx_core::batch::{self, Copied};
use phalanx_core::engine::Op;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::Range;

/// Which messages of a column fail, and its buffers: validity, offsets of 64 bits, and data.
type Buffers<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Seals the values of a column. `offsets` has one more than the column is long, `width` bytes each, from the one with the
/// number `first` on; a bit of `valid` is 0 where there is no value.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "phalanx.seal_column knows them")]
pub fn seal_column<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    column: (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>),
    width: usize,
    first: usize,
    len: usize,
    ads: Option<&Bound<'py, PyAny>>,
    cipher: &str,
    threads: Option<usize>,
    engine: &str,
) -> PyResult<Buffers<'py>> {
    let suite = suite(cipher)?;
    let engines = engines(py, engine, threads)?;
    let column = Column::new(column, width, first, len)?;
    let keys = Keys::new(keys, len)?;
    let ads = all_ads(ads, len)?;
    let (inputs, places) = column.inputs(&keys, ads.as_deref());
    let stored = |input: &Copied<'_>| input.bytes.len() + suite.overhead();
    let crew = engines.crew(Op::Seal, suite, Some(cost(&inputs)));
    let total = inputs.iter().map(stored).sum();
    let data = PyBytes::new_with(py, total, |mut out| {
        for group in groups(&inputs, stored) {
            let inputs = &inputs[group];
            let (room, rest) = out.split_at_mut(inputs.iter().map(stored).sum());
            let sealed = py.detach(|| batch::seal_into(&crew.roster, suite, inputs, room).map(drop));
            sealed.map_err(|e| error::plain(py, e))?;
            out = rest;
            py.check_signals()?;
        }
        Ok(())
    })?;
    let lens = places.iter().zip(&inputs).map(|(place, input)| (*place, stored(input)));
    let (validity, offsets) = layout(len, lens);
    Ok((PyBytes::new(py, &validity), PyBytes::new(py, &offsets), data))
}

/// Opens the values of a column. Those that are not authentic are not there in the result, unless they raise an exception.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "phalanx.unseal_column knows them")]
pub fn unseal_column<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    column: (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>),
    width: usize,
    first: usize,
    len: usize,
    ads: Option<&Bound<'py, PyAny>>,
    cipher: &str,
    threads: Option<usize>,
    engine: &str,
    errors: &str,
) -> PyResult<Buffers<'py>> {
    let (suite, raises) = (suite(cipher)?, raises(errors)?);
    let engines = engines(py, engine, threads)?;
    let column = Column::new(column, width, first, len)?;
    let keys = Keys::new(keys, len)?;
    let ads = all_ads(ads, len)?;
    let (inputs, places) = column.inputs(&keys, ads.as_deref());
    let crew = engines.crew(Op::Open, suite, Some(cost(&inputs)));
    let most = inputs.iter().map(|input| input.bytes.len().saturating_sub(suite.overhead())).sum();
    let mut lens = Vec::with_capacity(inputs.len());
    let mut failed = Vec::new();
    let data = PyBytes::new_with(py, most, |out| {
        let mut at = 0;
        for group in groups(&inputs, |input| input.bytes.len()) {
            let start = group.start;
            let (room, opened) = open_group(py, crew, suite, &inputs[group])?;
            for (i, plaintext) in opened.into_iter().enumerate() {
                let place = places[start + i];
                let Some(plaintext) = plaintext else {
                    failed.push(place);
                    continue;
                };
                out[at..at + plaintext.len()].copy_from_slice(&room[plaintext.clone()]);
                at += plaintext.len();
                lens.push((place, plaintext.len()));
            }
            py.check_signals()?;
        }
        if raises && !failed.is_empty() { Err(error::not_authentic(py, failed)) } else { Ok(()) }
    })?;
    let (validity, offsets) = layout(len, lens.into_iter());
    Ok((PyBytes::new(py, &validity), PyBytes::new(py, &offsets), data))
}

/// The values of a column.
struct Column {
    data: Option<Shared>,
    /// Where each value lies; `None` where there is none.
    values: Vec<Option<Range<usize>>>,
}

impl Column {
    /// Checks that all values lie within the data.
    fn new(
        (valid, offsets, data): (Option<Bound<'_, PyAny>>, Option<Bound<'_, PyAny>>, Option<Bound<'_, PyAny>>),
        width: usize,
        first: usize,
        len: usize,
    ) -> PyResult<Self> {
        let wrong = |why: &str| PyValueError::new_err(format!("the array is malformed: {why}"));
        let shared = |object: Option<Bound<'_, PyAny>>| object.as_ref().map(Shared::new).transpose();
        let (valid, offsets, data) = (shared(valid)?, shared(offsets)?, shared(data)?);
        if len == 0 {
            return Ok(Self { data, values: Vec::new() });
        }
        // Copied, because what is checked must not change.
        let end = first.checked_add(len).and_then(|end| end.checked_add(1)).and_then(|end| end.checked_mul(width));
        let offsets = offsets.as_deref().unwrap_or_default().get(first.saturating_mul(width)..end.unwrap_or(usize::MAX));
        let offsets = offsets.ok_or_else(|| wrong("it has too few offsets"))?;
        let offset = |bytes: &[u8]| match bytes.try_into() {
            Ok(bytes) => usize::try_from(i64::from_le_bytes(bytes)).ok(),
            Err(_) => usize::try_from(i32::from_le_bytes(bytes.try_into().ok()?)).ok(),
        };
        let offsets: Option<Vec<usize>> = offsets.chunks_exact(width).map(offset).collect();
        let offsets = offsets.ok_or_else(|| wrong("an offset is negative"))?;
        let available = data.as_deref().map_or(0, <[u8]>::len);
        let mut values = Vec::with_capacity(len);
        for (i, pair) in offsets.windows(2).enumerate() {
            if pair[0] > pair[1] || pair[1] > available {
                return Err(wrong("an offset lies outside of its data"));
            }
            let is_valid = match &valid {
                None => true,
                Some(bits) => bits.get(i / 8).ok_or_else(|| wrong("its validity is too short"))? >> (i % 8) & 1 == 1,
            };
            values.push(is_valid.then_some(pair[0]..pair[1]));
        }
        Ok(Self { data, values })
    }

    /// The values that are there, and the place of each.
    fn inputs<'a>(&'a self, keys: &'a Keys<'_>, ads: Option<&'a [Bytes<'_>]>) -> (Vec<Copied<'a>>, Vec<usize>) {
        let data = self.data.as_deref().unwrap_or_default();
        let ad = |i: usize| ads.map_or(&[][..], |ads| &ads[i]);
        let input = |(i, value): (usize, &Option<Range<usize>>)| {
            Some((Copied { key: keys.get(i), ad: ad(i), bytes: &data[value.clone()?] }, i))
        };
        self.values.iter().enumerate().filter_map(input).unzip()
    }
}

/// The validity and the offsets of a column with values of these lengths at these places.
fn layout(len: usize, mut lens: impl Iterator<Item = (usize, usize)>) -> (Vec<u8>, Vec<u8>) {
    let (mut validity, mut offsets) = (vec![0; len.div_ceil(8)], Vec::with_capacity((len + 1) * 8));
    let (mut at, mut next) = (0u64, lens.next());
    offsets.extend_from_slice(&at.to_le_bytes());
    for i in 0..len {
        if let Some((_, value)) = next.filter(|(place, _)| *place == i) {
            validity[i / 8] |= 1 << (i % 8);
            at += value as u64;
            next = lens.next();
        }
        offsets.extend_from_slice(&at.to_le_bytes());
    }
    (validity, offsets)
}
