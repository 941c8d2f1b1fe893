//! What Valgrind's memcheck is asked to do: to count bytes as undefined or defined.
//!
//! Memcheck reports each branch and each address that depends on undefined bytes, through all copies and computations. So
//! secrets are marked as undefined (Langley's ctgrind). Outside Valgrind the requests do nothing.

use std::hint::black_box;

/// `VG_USERREQ_TOOL_BASE('M', 'C')`: the first of memcheck's requests.
#[cfg(target_arch = "x86_64")]
const MEMCHECK: usize = (b'M' as usize) << 24 | (b'C' as usize) << 16;

/// Marks bytes as secret.
pub fn secret(bytes: &mut [u8]) {
    request(1, bytes);
}

/// Marks bytes as public. Each caller says why they are.
pub fn public(bytes: &[u8]) {
    request(2, bytes);
}

/// Declares a verdict public, after the work that came to it.
pub fn known(verdict: bool) -> bool {
    let byte = [u8::from(verdict)];
    public(black_box(&byte));
    black_box(byte)[0] == 1
}

/// Whether this runs under Valgrind: `RUNNING_ON_VALGRIND`.
pub fn is_running() -> bool {
    #[cfg(target_arch = "x86_64")]
    return ask(&[0x1001, 0, 0, 0, 0, 0]) != 0;
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// A request of memcheck, by its number, about bytes.
fn request(number: usize, bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    ask(&[MEMCHECK + number, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (number, bytes);
}

/// Valgrind finds requests by instructions that do nothing on a processor (`valgrind.h`).
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn ask(request: &[usize; 6]) -> usize {
    let mut answer = 0_usize;
    // SAFETY: on a processor these instructions change nothing but flags, which the block may change: the rotations of rdi
    // add up to 128 bits, so that it is as before, and rbx is exchanged with itself. Valgrind reads the six words that rax
    // points to, which are those of `request`, and writes its answer to rdx. The requests made here change only what
    // memcheck notes of bytes, and not the bytes. They lie in a slice, so they are this program's.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") request.as_ptr(),
            inout("rdx") answer,
            options(nostack),
        );
    }
    answer
}
