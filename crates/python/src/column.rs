//! Columns of Apache Arrow: many messages in one buffer, with an offset for each.

use crate::bytes::{Shared, contiguous, memory};
use crate::engines::{Team, engines, suite};
use crate::error;
use crate::messages::raises;
use crate::set::{Ads, Keys, Messages, One, Room, Rooms, in_groups};
use phalanx_core::Roster;
use phalanx_core::batch::{self, Copied};
use phalanx_core::engine::Op;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::ops::Range;

/// A column's buffers: validity, offsets of 64 bits, and data.
type Buffers<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);
/// The buffers of a given column. If no value is missing, it may have no validity.
type Given<'py> = (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

/// Seals the values of a column of `len` values. The offsets have `width` bytes each; the column's first value has the offset
/// with the number `first`. A bit of the validity is 0 where there is no value. `allocate` makes a new buffer of so many bytes.
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
    allocate: &Bound<'py, PyAny>,
    cipher: &str,
    threads: Option<usize>,
    engine: &str,
) -> PyResult<Buffers<'py>> {
    let suite = suite(cipher)?;
    let engines = engines(py, engine, threads)?;
    let column = &Column::new(keys, column, width, first, len, ads)?;
    let team = &Team::new(py, &engines, Op::Seal, suite, column.cost(), threads);
    let (data, mut exported) = buffer(allocate, column.bytes() + column.len() * suite.overhead())?;
    let mut rest = memory(&mut exported);
    let place = |len| rest.split_off_mut(..len).expect("it is as long as all together");
    let seal =
        |roster: &Roster, inputs: &[Copied<'_>], out: &mut [u8]| batch::seal_into(roster, suite, inputs, out).map(drop);
    in_groups(py, team, &column, suite.overhead(), place, seal, Ok)?;
    let lens = column.places().map(|(row, value)| (row, value.len() + suite.overhead()));
    let (validity, offsets) = layout(allocate, len, lens)?;
    Ok((validity, offsets, data))
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
    allocate: &Bound<'py, PyAny>,
    cipher: &str,
    threads: Option<usize>,
    engine: &str,
    errors: &str,
) -> PyResult<Buffers<'py>> {
    let (suite, raises) = (suite(cipher)?, raises(errors)?);
    let engines = engines(py, engine, threads)?;
    let column = &Column::new(keys, column, width, first, len, ads)?;
    let team = &Team::new(py, &engines, Op::Open, suite, column.cost(), threads);
    let open = |roster: &Roster, inputs: &[Copied<'_>], (mut room, len): (Room, usize)| {
        batch::open_into(roster, suite, inputs, room.of(len)?).map(|places| (room, places))
    };
    let most = column.places().map(|(_, value)| value.len().saturating_sub(suite.overhead())).sum();
    let (data, mut exported) = buffer(allocate, most)?;
    let mut rest = memory(&mut exported);
    let (rooms, mut rows) = (Rooms::default(), column.places().map(|(row, _)| row));
    let (mut lens, mut failed) = (Vec::with_capacity(column.len()), Vec::new());
    let take = |(room, opened): (Room, Vec<Option<Range<usize>>>)| {
        for (plaintext, row) in opened.into_iter().zip(&mut rows) {
            let Some(plaintext) = plaintext else {
                failed.push(row);
                continue;
            };
            lens.push((row, plaintext.len()));
            let out = rest.split_off_mut(..plaintext.len()).expect("it is as long as all together");
            out.copy_from_slice(&room[plaintext]);
        }
        rooms.put(room);
        Ok(())
    };
    in_groups(py, team, &column, 0, |len| (rooms.take(), len), open, take)?;
    if raises && !failed.is_empty() {
        return Err(error::not_authentic(py, failed));
    }
    // Other code may read the buffer, and new memory may contain anything.
    rest.fill(0);
    let (validity, offsets) = layout(allocate, len, lens.into_iter())?;
    Ok((validity, offsets, data))
}

/// A new buffer, which no other code uses yet, and its memory.
fn buffer<'py>(allocate: &Bound<'py, PyAny>, len: usize) -> PyResult<(Bound<'py, PyAny>, PyUntypedBuffer)> {
    let buffer = allocate.call1((len,))?;
    let exported = contiguous(&buffer)?;
    if exported.readonly() || exported.len_bytes() != len {
        return Err(PyValueError::new_err("the allocated buffer is read-only, or has another length"));
    }
    Ok((buffer, exported))
}

/// A column and its keys.
struct Column<'py> {
    keys: Keys<'py>,
    ads: Ads<'py>,
    data: Option<Shared>,
    /// Where the values lie, one after another.
    offsets: Vec<usize>,
    /// The rows with a value. `None` if all rows have one.
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
        let (keys, ads) = (Keys::new(keys, len)?, Ads::new(ads, len)?);
        if len == 0 {
            return Ok(Self { keys, ads, data, offsets: vec![0], rows: None });
        }
        let end = first.checked_add(len).and_then(|end| end.checked_add(1)).and_then(|end| end.checked_mul(width));
        let stored = offsets.as_deref().unwrap_or_default();
        let stored =
            end.and_then(|end| stored.get(first * width..end)).ok_or_else(|| wrong("it has too few offsets"))?;
        // The offset is copied, because it must not change after the check.
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

    /// The rows that have a value, and the place of the value.
    fn places(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        (0..self.len()).map(|index| self.row(index)).map(|row| (row, self.offsets[row]..self.offsets[row + 1]))
    }
}

impl<'a> Messages for &'a Column<'_> {
    type Text = &'a [u8];

    fn len(&self) -> usize {
        self.rows.as_ref().map_or(self.offsets.len() - 1, Vec::len)
    }

    fn get(&self, index: usize) -> PyResult<One<&'a [u8]>> {
        let row = self.row(index);
        let data = self.data.as_deref().unwrap_or_default();
        Ok(One::new(self.keys.get(row)?, self.ads.get(row)?, &data[self.offsets[row]..self.offsets[row + 1]]))
    }

    fn bytes(&self) -> usize {
        self.places().map(|(_, value)| value.len()).sum()
    }
}

/// The validity and the offsets of a column with values of these lengths in these rows.
fn layout<'py>(
    allocate: &Bound<'py, PyAny>,
    len: usize,
    mut lens: impl Iterator<Item = (usize, usize)>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let (validity, mut bits) = buffer(allocate, len.div_ceil(8))?;
    let (offsets, mut numbers) = buffer(allocate, (len + 1) * 8)?;
    let bits = memory(&mut bits);
    bits.fill(0);
    let numbers = memory(&mut numbers).as_chunks_mut::<8>().0;
    let (mut at, mut next) = (0u64, lens.next());
    for (row, number) in numbers.iter_mut().enumerate() {
        *number = at.to_le_bytes();
        if let Some((_, value)) = next.filter(|(place, _)| *place == row) {
            bits[row / 8] |= 1 << (row % 8);
            at += value as u64;
            next = lens.next();
        }
    }
    Ok((validity, offsets))
}
