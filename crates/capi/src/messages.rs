//! Sealing and opening many messages in a call.

use crate::error::{self, Error, Result};
use crate::key::Key;
use crate::memory::{bytes, bytes_mut, free, give, object};
use crate::options::{roster, suite};
use phalanx_core::batch::{self, Copied, KeyOf};
use phalanx_core::{SecretKey, Suite, UserKeys as Inner};
use std::ffi::c_char;
use std::ops::Range;
use std::slice;
use zeroize::Zeroize as _;

/// The keys of many users, derived from one root key.
pub struct UserKeys(Inner);

/// Many values, one after another, as Arrow's large binary columns have them: value i is `bytes[offsets[i]]` up to
/// `bytes[offsets[i + 1]]`, so there is one offset more than values. If `offsets` is null, all values are empty.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Column {
    /// The values.
    bytes: *const u8,
    /// Where each begins, and where the last one ends: in ascending order.
    offsets: *const u64,
}

/// The keys of users that are derived from a root under a label, which says what the keys are for. It has at most 122 bytes,
/// and does not begin with "phalanx v1".
///
/// # Safety
/// `root` is a key that was not freed, `label` leads to `len` bytes, and `keys` to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_user_keys_new(
    root: *const Key,
    label: *const u8,
    len: usize,
    keys: *mut *mut UserKeys,
) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let (root, label) = unsafe { (object(root, "root")?, bytes(label, len, "label")?) };
        if label.len() > 122 || label.starts_with(b"phalanx v1") {
            return Err(Error::usage("a label has at most 122 bytes, and does not begin with phalanx v1"));
        }
        // SAFETY: the caller's promise.
        unsafe { give(keys, UserKeys(Inner::new(&root.0, label)), "keys") }
    })
}

/// Wipes and frees the keys of users. Null is allowed.
///
/// # Safety
/// `keys` is null, or keys that were not freed. They are not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_user_keys_free(keys: *mut UserKeys) {
    // SAFETY: the caller's promise.
    unsafe { free(keys) }
}

/// By how many bytes a message grows when it is sealed: 48, or 28 with aes-256-gcm. 0 if there is no such cipher. A null
/// cipher is aes-256.
///
/// # Safety
/// `cipher` is null, or a string that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_overhead(cipher: *const c_char) -> usize {
    // SAFETY: the caller's promise.
    unsafe { suite(cipher) }.map_or(0, |suite| suite.overhead())
}

/// Seals messages on all cores. All have one key, or each has the key of its user: one of `key` and `users` is null. `user`
/// has the users, and is not read if `users` is null; `ad` has associated data, to which each message is bound, and
/// which is not stored. A null cipher is aes-256.
///
/// The sealed messages are written to `out` one after another, from its beginning. Message i begins at `offsets[i] -
/// offsets[0]` of the texts plus i times phalanx_overhead(). So `out` needs the length of all texts, plus
/// phalanx_overhead() for each. If the call fails, `out` holds zeros or nothing of use, and no text.
///
/// # Safety
/// `cipher` is null or a string that ends with a zero byte. `key` and `users` are null or were not freed. The columns that are
/// read have `count + 1` offsets, and bytes up to the last of these. `out` leads to `out_len` bytes, which overlap
/// nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_seal_many(
    cipher: *const c_char,
    key: *const Key,
    users: *const UserKeys,
    count: usize,
    user: Column,
    ad: Column,
    text: Column,
    out: *mut u8,
    out_len: usize,
) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let (suite, keys) = unsafe { (suite(cipher)?, Keys::new(key, users)?) };
        // SAFETY: the caller's promise.
        let (inputs, out) = unsafe { (keys.inputs(count, user, ad, text)?, bytes_mut(out, out_len, "out")?) };
        seal(suite, &inputs, out)
    })
}

/// Seals messages as phalanx_seal_many() does, but each under a key of its own: `keys` has 32 bytes for each, one after another.
/// Messages that follow each other and have the same key cost less, so whether neighbouring keys are equal is not secret: the
/// time tells it. The caller wipes the keys.
///
/// # Safety
/// As for phalanx_seal_many(). `keys` leads to 32 times `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_seal_each(
    cipher: *const c_char,
    keys: *const u8,
    count: usize,
    ad: Column,
    text: Column,
    out: *mut u8,
    out_len: usize,
) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let (suite, keys) = unsafe { (suite(cipher)?, OwnKeys::new(keys, count)?) };
        // SAFETY: the caller's promise.
        let (inputs, out) = unsafe { (keys.inputs(ad, text)?, bytes_mut(out, out_len, "out")?) };
        seal(suite, &inputs, out)
    })
}

/// Opens sealed messages on all cores, with the keys, associated data and cipher that they were sealed with.
///
/// `out` must be as long as all messages together. Text i begins in it at `offsets[i] - offsets[0]` of the messages plus
/// phalanx_overhead(), and ends at `offsets[i + 1] - offsets[0]`. If a message is not authentic, the call fails with
/// PHALANX_NOT_AUTHENTIC. Then `failed`, if it is not null, has 1 for each message that is not authentic, whose place in
/// `out` is wiped, and 0 for the others, whose texts are in `out`.
///
/// # Safety
/// As for phalanx_seal_many(). `failed` is null or leads to `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_open_many(
    cipher: *const c_char,
    key: *const Key,
    users: *const UserKeys,
    count: usize,
    user: Column,
    ad: Column,
    message: Column,
    out: *mut u8,
    out_len: usize,
    failed: *mut u8,
) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let (suite, keys) = unsafe { (suite(cipher)?, Keys::new(key, users)?) };
        // SAFETY: the caller's promise.
        let (inputs, out) = unsafe { (keys.inputs(count, user, ad, message)?, bytes_mut(out, out_len, "out")?) };
        // SAFETY: the caller's promise.
        open(suite, &inputs, out, || unsafe { verdicts(failed, count) })
    })
}

/// Opens messages as phalanx_open_many() does, but each with a key of its own, as in phalanx_seal_each(). Here too, whether
/// neighbouring keys are equal is not secret.
///
/// # Safety
/// As for phalanx_open_many() and phalanx_seal_each().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_open_each(
    cipher: *const c_char,
    keys: *const u8,
    count: usize,
    ad: Column,
    message: Column,
    out: *mut u8,
    out_len: usize,
    failed: *mut u8,
) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let (suite, keys) = unsafe { (suite(cipher)?, OwnKeys::new(keys, count)?) };
        // SAFETY: the caller's promise.
        let (inputs, out) = unsafe { (keys.inputs(ad, message)?, bytes_mut(out, out_len, "out")?) };
        // SAFETY: the caller's promise.
        open(suite, &inputs, out, || unsafe { verdicts(failed, count) })
    })
}

fn seal(suite: Suite, inputs: &[Copied<'_>], out: &mut [u8]) -> Result<()> {
    check_room(inputs, suite.overhead(), out)?;
    let (roster, mut out) = (roster()?, Unfinished(out));
    batch::seal_into(&roster, suite, inputs, out.0)?;
    out.0 = &mut [];
    Ok(())
}

/// Opens messages. Where the caller wants them, the verdicts are written too.
fn open<'a>(
    suite: Suite,
    inputs: &[Copied<'_>],
    out: &mut [u8],
    failed: impl FnOnce() -> Result<&'a mut [u8]>,
) -> Result<()> {
    check_room(inputs, 0, out)?;
    let opened = batch::open_into(&*roster()?, suite, inputs, out)?;
    failed()?.iter_mut().zip(&opened).for_each(|(failed, place)| *failed = u8::from(place.is_none()));
    let bad: Vec<usize> = (0..opened.len()).filter(|&i| opened[i].is_none()).collect();
    if bad.is_empty() { Ok(()) } else { Err(phalanx_core::Error::NotAuthentic { failed: bad }.into()) }
}

/// Where the verdicts go: nowhere if it is null.
///
/// # Safety
/// It is null or leads to `count` bytes that nobody else uses for `'a`.
unsafe fn verdicts<'a>(failed: *mut u8, count: usize) -> Result<&'a mut [u8]> {
    let len = if failed.is_null() { 0 } else { count };
    // SAFETY: the caller's promise.
    unsafe { bytes_mut(failed, len, "failed") }
}

/// An output that is wiped unless it is finished: a failure must leave no text in it.
struct Unfinished<'a>(&'a mut [u8]);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Refuses an output that has no room for all results, each of which is this much longer than its input.
fn check_room(inputs: &[Copied<'_>], more: usize, out: &[u8]) -> Result<()> {
    let needed = inputs.iter().try_fold(0usize, |sum, input| sum.checked_add(input.bytes.len())?.checked_add(more));
    match needed {
        Some(needed) if needed <= out.len() => Ok(()),
        Some(needed) => Err(Error::usage(&format!("out has {} bytes, and {needed} are needed", out.len()))),
        None => Err(Error::usage("there are too many bytes")),
    }
}

/// The keys of messages.
enum Keys<'a> {
    One(&'a SecretKey),
    Users(&'a Inner),
}

impl<'a> Keys<'a> {
    /// # Safety
    /// Both are null or lead to what lives, and nobody changes, for `'a`.
    unsafe fn new(key: *const Key, users: *const UserKeys) -> Result<Self> {
        // SAFETY: the caller's promise.
        match unsafe { (key.as_ref(), users.as_ref()) } {
            (Some(key), None) => Ok(Self::One(&key.0)),
            (None, Some(users)) => Ok(Self::Users(&users.0)),
            _ => Err(Error::usage("one of key and users is null, and the other is not")),
        }
    }

    /// # Safety
    /// As for [`Column::values`].
    unsafe fn inputs(&self, count: usize, user: Column, ad: Column, text: Column) -> Result<Vec<Copied<'a>>> {
        // SAFETY: the caller's promise.
        let (mut ads, mut texts) = unsafe { (ad.values(count, "ad")?, text.values(count, "text")?) };
        let mut users = match self {
            Keys::One(_) => None,
            // SAFETY: the caller's promise.
            Keys::Users(_) => Some(unsafe { user.values(count, "user") }?),
        };
        let mut inputs = reserved(count)?;
        for _ in 0..count {
            let key: KeyOf<'a> = match (self, &mut users) {
                (Keys::Users(keys), Some(users)) => (*keys, users.next()?).into(),
                (Keys::One(key), _) => (*key).into(),
                (Keys::Users(_), None) => return Err(Error::usage("user is missing")),
            };
            inputs.push(Copied { key, ad: ads.next()?, bytes: texts.next()? });
        }
        Ok(inputs)
    }
}

/// A key for each message. Consecutive equal ones are one, so that what follows from it is derived once.
struct OwnKeys {
    keys: Vec<SecretKey>,
    /// Which of them each message has.
    which: Vec<usize>,
}

impl OwnKeys {
    /// # Safety
    /// `keys` leads to 32 times `count` bytes that nobody changes meanwhile.
    unsafe fn new(keys: *const u8, count: usize) -> Result<Self> {
        let len = count.checked_mul(32).ok_or_else(|| Error::usage("there are too many keys"))?;
        // SAFETY: the caller's promise.
        let bytes = unsafe { bytes(keys, len, "keys") }?;
        let (mut keys, mut which) = (reserved::<SecretKey>(count)?, reserved(count)?);
        for key in bytes.chunks_exact(32).filter_map(SecretKey::from_slice) {
            // This branches on whether neighbouring keys are equal, which is not secret, as the header says. Their bytes are: they
            // are compared in constant time.
            if !keys.last().is_some_and(|last| last.matches(&key)) {
                keys.push(key);
            }
            which.push(keys.len() - 1);
        }
        Ok(Self { keys, which })
    }

    /// # Safety
    /// As for [`Column::values`].
    unsafe fn inputs(&self, ad: Column, text: Column) -> Result<Vec<Copied<'_>>> {
        let count = self.which.len();
        // SAFETY: the caller's promise.
        let (mut ads, mut texts) = unsafe { (ad.values(count, "ad")?, text.values(count, "text")?) };
        let mut inputs = reserved(count)?;
        for &which in &self.which {
            inputs.push(Copied { key: (&self.keys[which]).into(), ad: ads.next()?, bytes: texts.next()? });
        }
        Ok(inputs)
    }
}

/// Room for so many values. Keys in it are never moved, so no copy of them is left.
fn reserved<T>(count: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(count).map_err(|e| phalanx_core::Error::Memory(e.to_string()))?;
    Ok(values)
}

impl Column {
    /// # Safety
    /// `offsets` is null or leads to `count + 1` offsets, and `bytes` to as many bytes as the last of these says. Nobody
    /// changes either for `'a`.
    unsafe fn values<'a>(self, count: usize, name: &'static str) -> Result<Values<'a>> {
        if self.offsets.is_null() || count == 0 {
            return Ok(Values { bytes: &[], offsets: &[], name });
        }
        let too_many = || Error::usage(&format!("{name} has too many values"));
        let offsets = count.checked_add(1).filter(|n| n.checked_mul(8).is_some_and(|len| isize::try_from(len).is_ok()));
        if !self.offsets.is_aligned() {
            return Err(Error::usage(&format!("the offsets of {name} are not aligned")));
        }
        // SAFETY: the caller's promise. They are aligned, and shorter than any allocation can be.
        let offsets = unsafe { slice::from_raw_parts(self.offsets, offsets.ok_or_else(too_many)?) };
        let end = usize::try_from(offsets[count]).map_err(|_| too_many())?;
        // SAFETY: the caller's promise.
        Ok(Values { bytes: unsafe { bytes(self.bytes, end, name) }?, offsets, name })
    }
}

/// The values of a column, in their order.
struct Values<'a> {
    bytes: &'a [u8],
    offsets: &'a [u64],
    name: &'static str,
}

impl<'a> Values<'a> {
    fn next(&mut self) -> Result<&'a [u8]> {
        let [start, end, ..] = *self.offsets else { return Ok(&[]) };
        self.offsets = &self.offsets[1..];
        let place = || Some(Range { start: usize::try_from(start).ok()?, end: usize::try_from(end).ok()? });
        let wrong = || Error::usage(&format!("the offsets of {} are not in ascending order", self.name));
        place().and_then(|place| self.bytes.get(place)).ok_or_else(wrong)
    }
}
