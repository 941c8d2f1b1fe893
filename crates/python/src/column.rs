//! Columns of Apache Arrow: many messages in one buffer, with an offset for each.

use crate::bytes::{Bytes, Shared};
use crate::engines::{crew, engines, suite};
use crate::error;
use crate::fresh;
use crate::messages::raises;
use crate::set::{Keys, Messages, Room, all_ads, in_groups};
use phalanx_core::batch::{self, Copied};
use phalanx_core::engine::Op;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::mem;
use std::ops::Range;

/// A column's buffers: validity, offsets of 64 bits, and data.
type Buffers<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);
/// The buffers of the column that is given. Where all values are there, it may have no validity.
type Given<'py> = (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

/// Seals the values of a column of `len` values. The offsets have `width` bytes each; the column's first value has the offset
/// with the number `first`. A bit of the validity is 0 where there is no value.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "phalanx.seal_column knows them")]
pub fn seal_column<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    column: Given<'py>,
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
    let column = Column::new(keys, column, width, first, len, ads)?;
    let crew = crew(py, &engines, Op::Seal, suite, column.cost());
    let total = column.bytes() + column.len() * suite.overhead();
    let seal = |inputs: &[Copied<'_>], room: &mut Room| {
        let len = inputs.iter().map(|input| input.bytes.len() + suite.overhead()).sum();
        batch::seal_into(&crew.roster, suite, inputs, room.of(len)?).map(|_| len)
    };
    let data = fresh::bytes(py, total, |out| {
        in_groups(py, &column, suite.overhead(), seal, |room, len| out.put(&room.bytes[..len]))
    })?;
    let lens = column.places().map(|(place, value)| (place, value.len() + suite.overhead()));
    let (validity, offsets) = layout(len, lens);
    Ok((PyBytes::new(py, &validity), PyBytes::new(py, &offsets), data))
}

/// Opens the values of a column. Those that are not authentic are not there in the result, unless they raise an exception.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "phalanx.unseal_column knows them")]
pub fn unseal_column<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    column: Given<'py>,
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
    let column = Column::new(keys, column, width, first, len, ads)?;
    let crew = crew(py, &engines, Op::Open, suite, column.cost());
    let open = |inputs: &[Copied<'_>], room: &mut Room| {
        let len = inputs.iter().map(|input| input.bytes.len()).sum();
        batch::open_into(&crew.roster, suite, inputs, room.of(len)?)
    };
    let mut lens = Vec::with_capacity(column.len());
    let mut failed = Vec::new();
    let most = column.places().map(|(_, value)| value.len().saturating_sub(suite.overhead())).sum();
    let data = fresh::bytes(py, most, |out| {
        let mut places = column.places().map(|(place, _)| place);
        let take = |room: &Room, opened: Vec<Option<Range<usize>>>| {
            for (plaintext, place) in opened.into_iter().zip(&mut places) {
                let Some(plaintext) = plaintext else {
                    failed.push(place);
                    continue;
                };
                lens.push((place, plaintext.len()));
                out.put(&room.bytes[plaintext]);
            }
        };
        in_groups(py, &column, 0, open, take)?;
        if raises && !failed.is_empty() { Err(error::not_authentic(py, mem::take(&mut failed))) } else { Ok(()) }
    })?;
    let (validity, offsets) = layout(len, lens.into_iter());
    Ok((PyBytes::new(py, &validity), PyBytes::new(py, &offsets), data))
}

/// A column and its keys.
struct Column<'py> {
    keys: Keys<'py>,
    ads: Option<Vec<Bytes<'py>>>,
    data: Option<Shared>,
    /// Where the values lie, one after another.
    offsets: Vec<usize>,
    /// The rows with a value, if there are others.
    rows: Option<Vec<usize>>,
}

impl<'py> Column<'py> {
    /// Checks that all values lie within the data.
    fn new(
        keys: &Bound<'py, PyAny>,
        (valid, offsets, data): Given<'py>,
        width: usize,
        first: usize,
        len: usize,
        ads: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let wrong = |why: &str| PyValueError::new_err(format!("the array is malformed: {why}"));
        let shared = |object: Option<Bound<'_, PyAny>>| object.as_ref().map(Shared::new).transpose();
        let (valid, offsets, data) = (shared(valid)?, shared(offsets)?, shared(data)?);
        let (keys, ads) = (Keys::new(keys, len)?, all_ads(ads, len)?);
        if len == 0 {
            return Ok(Self { keys, ads, data, offsets: vec![0], rows: None });
        }
        let end = first.checked_add(len).and_then(|end| end.checked_add(1)).and_then(|end| end.checked_mul(width));
        let stored = offsets.as_deref().unwrap_or_default();
        let stored =
            end.and_then(|end| stored.get(first * width..end)).ok_or_else(|| wrong("it has too few offsets"))?;
        // Copied, because what is checked must not change.
        let offset = |bytes: &[u8]| match bytes.try_into() {
            Ok(bytes) => usize::try_from(i64::from_le_bytes(bytes)).ok(),
            Err(_) => usize::try_from(i32::from_le_bytes(bytes.try_into().ok()?)).ok(),
        };
        let offsets: Option<Vec<usize>> = stored.chunks_exact(width).map(offset).collect();
        let offsets = offsets.ok_or_else(|| wrong("an offset is negative"))?;
        if !offsets.is_sorted() || offsets[len] > data.as_deref().map_or(0, <[u8]>::len) {
            return Err(wrong("an offset lies outside of its data"));
        }
        let is_valid = |bits: &[u8], row: usize| Some(bits.get(row / 8)? >> (row % 8) & 1 == 1);
        let rows = match valid.as_deref() {
            None => None,
            Some(bits) if bits.len() < len.div_ceil(8) => return Err(wrong("its validity is too short")),
            Some(bits) => Some((0..len).filter(|row| is_valid(bits, *row) == Some(true)).collect()),
        };
        Ok(Self { keys, ads, data, offsets, rows })
    }

    /// The row of a value.
    fn row(&self, index: usize) -> usize {
        self.rows.as_ref().map_or(index, |rows| rows[index])
    }

    /// The rows that have a value, and where it lies.
    fn places(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        (0..self.len()).map(|index| self.row(index)).map(|row| (row, self.offsets[row]..self.offsets[row + 1]))
    }
}

impl Messages for Column<'_> {
    fn len(&self) -> usize {
        self.rows.as_ref().map_or(self.offsets.len() - 1, Vec::len)
    }

    fn get(&self, index: usize) -> Copied<'_> {
        let row = self.row(index);
        let ad = self.ads.as_ref().map_or(&[][..], |ads| &ads[row]);
        let bytes = &self.data.as_deref().unwrap_or_default()[self.offsets[row]..self.offsets[row + 1]];
        Copied { key: self.keys.get(row), ad, bytes }
    }

    fn bytes(&self) -> usize {
        self.places().map(|(_, value)| value.len()).sum()
    }
}

/// The validity and the offsets of a column with values of these lengths in these rows.
fn layout(len: usize, mut lens: impl Iterator<Item = (usize, usize)>) -> (Vec<u8>, Vec<u8>) {
    let (mut validity, mut offsets) = (vec![0; len.div_ceil(8)], Vec::with_capacity((len + 1) * 8));
    let (mut at, mut next) = (0u64, lens.next());
    offsets.extend_from_slice(&at.to_le_bytes());
    for row in 0..len {
        if let Some((_, value)) = next.filter(|(place, _)| *place == row) {
            validity[row / 8] |= 1 << (row % 8);
            at += value as u64;
            next = lens.next();
        }
        offsets.extend_from_slice(&at.to_le_bytes());
    }
    (validity, offsets)
}
