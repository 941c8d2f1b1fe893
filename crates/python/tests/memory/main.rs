//! The package's unsafe code that needs no Python: slices of buffers, and DLPack's structures. `.ci/undefined` runs it under
//! Miri and under AddressSanitizer. The calls of Python are in `bytes.rs` and `dlpack.rs`, whose tests are Python's.
#![expect(unsafe_code)]

#[path = "../../src/memory.rs"]
mod memory;
#[path = "../../src/tensor.rs"]
mod tensor;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::thread;
use tensor::{CUDA, Exchanged, Managed, Tensor, Versioned, packed};

/// Memory as an exporter has it: known to others by its address alone.
struct Exporter(*mut u8, usize);

impl Exporter {
    fn new(bytes: &[u8]) -> Self {
        let memory = Box::into_raw(Box::<[u8]>::from(bytes));
        Self(memory.cast(), bytes.len())
    }

    fn start(&self) -> *mut c_void {
        self.0.cast()
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.1];
        // SAFETY: the memory is as long, and the copy is elsewhere.
        unsafe { memory::copy(self.start(), &mut bytes) };
        bytes
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // SAFETY: it was such a box, and the tests use no slice of it any more.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.0, self.1)) });
    }
}

#[test]
fn a_buffer_is_read_in_place_and_copied() {
    let exporter = Exporter::new(b"some bytes");
    // SAFETY: the memory exists, and nobody changes it.
    let (all, some) = unsafe { (memory::slice(exporter.start(), 10), memory::slice(exporter.start(), 4)) };
    assert_eq!((all, some), (&b"some bytes"[..], &b"some"[..]));
    assert_eq!((all.as_ptr(), exporter.bytes()), (exporter.0.cast_const(), b"some bytes".to_vec()));
}

#[test]
fn no_bytes_may_have_no_place() {
    // SAFETY: no bytes are asked for.
    unsafe {
        assert_eq!(memory::slice(null_mut(), 0), b"");
        assert_eq!(memory::slice_mut(null_mut(), 0), b"");
        memory::copy(null_mut(), &mut []);
    }
}

#[test]
fn what_is_written_is_in_the_buffer() {
    let exporter = Exporter::new(&[0; 12]);
    {
        // SAFETY: the memory exists, and this is the only reference.
        let mut rest = unsafe { memory::slice_mut(exporter.start(), 12) };
        // As the values of a column are written, one after another.
        for (value, len) in [(1, 3), (2, 0), (3, 8)] {
            rest.split_off_mut(..len).unwrap().fill(value);
        }
        assert_eq!(rest, [0]);
    }
    assert_eq!(exporter.bytes(), [1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3, 0]);
}

#[test]
fn pieces_are_written_side_by_side() {
    let exporter = Exporter::new(&[0; 100]);
    // SAFETY: the memory exists, and this is the only reference.
    let pieces = memory::pieces(unsafe { memory::slice_mut(exporter.start(), 100) }, 1015, 32);
    let places: Vec<_> = pieces.iter().map(|(at, piece)| (*at, piece.len())).collect();
    assert_eq!(places, [(1015, 9), (1024, 32), (1056, 32), (1088, 27)]);
    thread::scope(|scope| {
        for (at, piece) in pieces {
            scope.spawn(move || (at..).zip(piece).for_each(|(at, byte)| *byte = at as u8));
        }
    });
    assert_eq!(exporter.bytes(), (1015..1115).map(|at| at as u8).collect::<Vec<_>>());
    assert!(memory::pieces(&mut [], 7, 32).is_empty());
}

/// What a consumer finds in a tensor.
fn check(tensor: &Tensor, (data, len): (u64, i64)) {
    assert_eq!((tensor.data, tensor.device_type, tensor.device_id, tensor.byte_offset), (data, CUDA, 3, 0));
    assert_eq!((tensor.ndim, tensor.code, tensor.bits, tensor.lanes), (1, 1, 8, 1));
    // SAFETY: a tensor has as many of them as dimensions.
    assert_eq!(unsafe { (*tensor.shape, *tensor.strides) }, (len, 1));
}

#[test]
fn a_tensor_keeps_its_memory_until_it_is_deleted() {
    for (len, data) in [(500, 0x7000), (0, 0)] {
        let memory = Arc::new("the device's memory");
        let managed = Box::into_raw(Managed::boxed(memory.clone(), 0x7000, len, 3));
        let versioned = Box::into_raw(Versioned::boxed(memory.clone(), 0x7000, len, 3));
        assert_eq!(Arc::strong_count(&memory), 3);
        // SAFETY: the boxes are deleted once, and not used after that. A consumer calls the deleter itself, perhaps in
        // another thread, and a capsule that nobody has taken by its type.
        unsafe {
            check(&(*managed).tensor, (data, len as i64));
            check(&(*versioned).tensor, (data, len as i64));
            assert_eq!(((*versioned).major, (*versioned).minor, (*versioned).flags), (1, 0, 0));
            let deleter = (*managed).deleter.unwrap();
            deleter(managed);
            assert_eq!(Arc::strong_count(&memory), 2);
            Exchanged::delete(versioned);
        }
        assert_eq!(Arc::strong_count(&memory), 1);
    }
    assert_eq!((Managed::NAME, Versioned::NAME), (c"dltensor", c"dltensor_versioned"));
}

/// What a producer says of its memory is believed only if it makes one piece of it.
#[test]
fn bytes_of_others_lie_one_after_another() {
    let (lies, wrong) = (Err("the array is not contiguous"), Err("the array has a shape that cannot be"));
    for (shape, strides, want) in [
        (&[][..], None, Ok(4)),
        (&[5], None, Ok(20)),
        (&[5], Some(&[4][..]), Ok(20)),
        (&[2, 3], Some(&[12, 4]), Ok(24)),
        (&[2, 3], Some(&[4, 8]), lies),
        (&[2, 3], Some(&[16, 4]), lies),
        (&[5], Some(&[-4]), lies),
        (&[5], Some(&[0]), lies),
        // Where there is one element, or none, strides say nothing.
        (&[2, 1, 3], Some(&[12, 99, 4]), Ok(24)),
        (&[2, 0, 3], Some(&[1, 1, 1]), Ok(0)),
        (&[i64::MAX, i64::MAX, 0], None, Ok(0)),
        (&[2, 3], Some(&[4]), wrong),
        (&[2, -3], None, wrong),
        (&[i64::MAX, 2], None, wrong),
        (&[i64::MAX / 2], None, wrong),
        (&[i64::MAX, 2], Some(&[4, 4]), lies),
    ] {
        assert_eq!(packed(shape, strides, 4, 4), want, "{shape:?} {strides:?}");
        // The same as a tensor has it, whose strides count elements.
        let mut numbers = (shape.to_vec(), strides.map(|strides| strides.iter().map(|by| by / 4).collect::<Vec<_>>()));
        if strides.is_some_and(|strides| strides.len() != shape.len() || strides.iter().any(|by| by % 4 != 0)) {
            continue;
        }
        let tensor = |bits| Tensor {
            data: 0x7000,
            device_type: CUDA,
            device_id: 0,
            ndim: shape.len() as i32,
            code: 2,
            bits,
            lanes: 2,
            shape: null_mut(),
            strides: null_mut(),
            byte_offset: 16,
        };
        let mut whole = tensor(16);
        whole.shape = numbers.0.as_mut_ptr();
        whole.strides = numbers.1.as_mut().map_or(null_mut(), |strides| strides.as_mut_ptr());
        // SAFETY: there are as many numbers as dimensions.
        unsafe {
            assert_eq!(whole.bytes(), want.map(|len| (0x7010, len)), "{shape:?} {strides:?}");
            for (bits, lanes) in [(4, 1), (0, 1), (8, 0)] {
                (whole.bits, whole.lanes) = (bits, lanes);
                assert_eq!(whole.bytes(), Err("the elements of the array are not made of bytes"));
            }
            whole.ndim = -1;
            assert!(whole.bytes().is_err());
        }
    }
}

#[test]
fn structures_lie_as_the_header_says() {
    use std::mem::{offset_of, size_of};
    let tensor = [
        offset_of!(Tensor, device_type),
        offset_of!(Tensor, ndim),
        offset_of!(Tensor, code),
        offset_of!(Tensor, lanes),
        offset_of!(Tensor, shape),
        offset_of!(Tensor, strides),
        offset_of!(Tensor, byte_offset),
        size_of::<Tensor>(),
    ];
    assert_eq!(tensor, [8, 16, 20, 22, 24, 32, 40, 48]);
    assert_eq!((offset_of!(Managed, deleter), size_of::<Managed>()), (56, 64));
    let versioned = [
        offset_of!(Versioned, minor),
        offset_of!(Versioned, deleter),
        offset_of!(Versioned, flags),
        offset_of!(Versioned, tensor),
        size_of::<Versioned>(),
    ];
    assert_eq!(versioned, [4, 16, 24, 32, 80]);
}
