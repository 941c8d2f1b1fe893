//! DLPack's structures in memory (its C header, version 1.0). Nothing here needs Python, so that Miri can run its tests
//! (`tests/memory`).

use std::ffi::{CStr, c_void};
use std::mem::ManuallyDrop;

/// The kind of device: `kDLCUDA`.
pub const CUDA: i32 = 2;

/// `DLTensor`: one row of bytes.
#[repr(C)]
pub struct Tensor {
    pub data: u64,
    pub device_type: i32,
    pub device_id: i32,
    pub ndim: i32,
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
    pub shape: *mut i64,
    pub strides: *mut i64,
    pub byte_offset: u64,
}

/// The length in bytes of an array with this shape, if its elements lie one after another in the order of rows. Strides are
/// in units of which an element has `unit`: its bytes, or 1 for the element itself. `item` is its length in bytes.
pub fn packed(shape: &[i64], strides: Option<&[i64]>, unit: i64, item: i64) -> Result<usize, &'static str> {
    const WRONG: &str = "the array has a shape that cannot be";
    if strides.is_some_and(|strides| strides.len() != shape.len()) || shape.iter().any(|len| *len < 0) {
        return Err(WRONG);
    }
    if shape.contains(&0) {
        return Ok(0);
    }
    let mut count: i64 = 1;
    for (i, len) in shape.iter().enumerate().rev() {
        // Where there is one element, there is no next one.
        let is_next = |strides: &[i64]| *len == 1 || Some(strides[i]) == count.checked_mul(unit);
        if !strides.is_none_or(is_next) {
            return Err("the array is not contiguous");
        }
        count = count.checked_mul(*len).ok_or(WRONG)?;
    }
    count.checked_mul(item).and_then(|len| usize::try_from(len).ok()).ok_or(WRONG)
}

impl Tensor {
    /// The address and the length of the bytes, if they lie one after another.
    ///
    /// # Safety
    /// There are `ndim` numbers at `shape`, and at `strides` unless that is null.
    #[expect(unsafe_code)]
    pub unsafe fn bytes(&self) -> Result<(u64, usize), &'static str> {
        let Ok(count) = usize::try_from(self.ndim) else { return Err("the array has fewer than no dimensions") };
        // SAFETY: this is what the caller promises.
        let list = |start: *mut i64| if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(start, count) } };
        let strides = (!self.strides.is_null()).then(|| list(self.strides));
        let bits = i64::from(self.bits) * i64::from(self.lanes);
        if bits == 0 || bits % 8 != 0 {
            return Err("the elements of the array are not made of bytes");
        }
        let len = packed(list(self.shape), strides, 1, bits / 8)?;
        Ok((self.data.wrapping_add(self.byte_offset), len))
    }
}

/// What a consumer's deleter frees. `M` keeps the memory that the tensor names.
struct Owner<M> {
    memory: ManuallyDrop<M>,
    pid: u32,
    shape: [i64; 1],
    strides: [i64; 1],
}

/// `DLManagedTensor`.
#[repr(C)]
pub struct Managed {
    pub tensor: Tensor,
    owner: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
pub struct Versioned {
    pub major: u32,
    pub minor: u32,
    owner: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
    pub flags: u64,
    pub tensor: Tensor,
}

/// A tensor that libraries give to each other.
pub trait Exchanged {
    /// The name of a capsule that has one.
    const NAME: &'static CStr;

    /// Frees it, as a consumer does.
    ///
    /// # Safety
    /// It is a box of `boxed`'s, and is not used again.
    #[expect(unsafe_code)]
    unsafe fn delete(this: *mut Self);
}

impl Exchanged for Managed {
    const NAME: &'static CStr = c"dltensor";

    #[expect(unsafe_code)]
    unsafe fn delete(this: *mut Self) {
        // SAFETY: this is what the caller promises.
        unsafe { (*this).deleter.map_or((), |delete| delete(this)) }
    }
}

impl Exchanged for Versioned {
    const NAME: &'static CStr = c"dltensor_versioned";

    #[expect(unsafe_code)]
    unsafe fn delete(this: *mut Self) {
        // SAFETY: this is what the caller promises.
        unsafe { (*this).deleter.map_or((), |delete| delete(this)) }
    }
}

impl Managed {
    /// A tensor of the `len` bytes at the address `data`. Its deleter has to be called once, with the box as a pointer: it
    /// frees the box, and drops `memory`.
    pub fn boxed<M>(memory: M, data: u64, len: usize, device_id: i32) -> Box<Self> {
        let (tensor, owner) = tensor(memory, data, len, device_id);
        Box::new(Self { tensor, owner, deleter: Some(delete::<M>) })
    }
}

impl Versioned {
    /// As [`Managed::boxed`].
    pub fn boxed<M>(memory: M, data: u64, len: usize, device_id: i32) -> Box<Self> {
        let (tensor, owner) = tensor(memory, data, len, device_id);
        Box::new(Self { major: 1, minor: 0, owner, deleter: Some(delete_versioned::<M>), flags: 0, tensor })
    }
}

/// A tensor, and the owner of what it points to.
fn tensor<M>(memory: M, data: u64, len: usize, device_id: i32) -> (Tensor, *mut c_void) {
    let shape = [i64::try_from(len).unwrap_or(i64::MAX)];
    let owner = Owner { memory: ManuallyDrop::new(memory), pid: std::process::id(), shape, strides: [1] };
    let owner = Box::into_raw(Box::new(owner));
    // SAFETY: the box was made just now, and stays until the deleter frees it.
    #[expect(unsafe_code)]
    let (shape, strides) = unsafe { ((&raw mut (*owner).shape).cast(), (&raw mut (*owner).strides).cast()) };
    let tensor = Tensor {
        data: if len == 0 { 0 } else { data },
        device_type: CUDA,
        device_id,
        ndim: 1,
        // An unsigned integer of 8 bits.
        code: 1,
        bits: 8,
        lanes: 1,
        shape,
        strides,
        byte_offset: 0,
    };
    (tensor, owner.cast())
}

/// Frees the owner.
///
/// # Safety
/// It is one that `tensor` has made for the same `M`, and is not used again.
#[expect(unsafe_code)]
unsafe fn drop_owner<M>(owner: *mut c_void) {
    // SAFETY: the caller's owner is such a box.
    let owner = unsafe { Box::from_raw(owner.cast::<Owner<M>>()) };
    // The driver does not survive a fork.
    if owner.pid == std::process::id() {
        drop(ManuallyDrop::into_inner(owner.memory));
    }
}

/// The deleter that consumers call, once.
#[expect(unsafe_code)]
unsafe extern "C" fn delete<M>(managed: *mut Managed) {
    // SAFETY: the pointer is that of a box of `Managed::boxed`'s, and is not used after this.
    unsafe { drop_owner::<M>(Box::from_raw(managed).owner) }
}

/// The deleter that consumers call, once.
#[expect(unsafe_code)]
unsafe extern "C" fn delete_versioned<M>(managed: *mut Versioned) {
    // SAFETY: the pointer is that of a box of `Versioned::boxed`'s, and is not used after this.
    unsafe { drop_owner::<M>(Box::from_raw(managed).owner) }
}
