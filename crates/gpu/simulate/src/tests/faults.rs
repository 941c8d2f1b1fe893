//! Every mistake of a kernel, or of who calls the driver, is found and named.

use super::{Device, ptx};
use crate::memory::Place;
use std::cell::Cell;

/// The text of a kernel's failure. %rd1 and %rd2 are memory of 64 bytes, of which the first was written.
fn failure(declared: &str, body: &str, shape: (u32, u32)) -> String {
    let mut texts = [Device::new(), Device::late()].map(|mut device| {
        let function = device.function(&ptx("", declared, body));
        let (from, to) = (device.upload(&[7; 64]), device.state.allocate(64).unwrap());
        let failed = device.run(function, shape, [from, to, 1]).expect_err(body);
        // The context does not recover.
        assert!(device.state.check(0).is_err());
        failed
    });
    println!("{}", texts.join("\n"));
    std::mem::take(&mut texts[0])
}

fn expect(declared: &str, body: &str, shape: (u32, u32), parts: &[&str]) {
    let text = failure(declared, body, shape);
    assert!(!text.contains('\n') && parts.iter().all(|part| text.contains(part)), "{text}\n{parts:?}");
}

fn passes(declared: &str, body: &str, shape: (u32, u32)) {
    for mut device in [Device::new(), Device::late()] {
        let function = device.function(&ptx("", declared, body));
        let (from, to) = (device.upload(&[7; 64]), device.state.allocate(64).unwrap());
        device.run(function, shape, [from, to, 1]).unwrap_or_else(|text| panic!("{text}\n{body}"));
    }
}

/// The address of each thread's own word: %rd3 of what is read, %rd4 of what is written.
const OWN: &str = "mad.lo.s32 %r5, %r2, %r4, %r3;\nmul.wide.u32 %rd5, %r5, 4;\nadd.s64 %rd3, %rd1, %rd5;\nadd.s64 %rd4, %rd2, %rd5;\n";

#[test]
fn accesses_beyond_memory() {
    passes("", &format!("{OWN}ld.global.u32 %r10, [%rd3];\nst.global.u32 [%rd4], %r10;"), (2, 8));
    let beyond = "in global memory is in no memory";
    expect(
        "",
        &format!("{OWN}st.global.u32 [%rd4+4], %r3;"),
        (2, 8),
        &["k, line 26", "block 1, thread 7: a write of 4 bytes", beyond],
    );
    expect(
        "",
        &format!("{OWN}ld.global.u32 %r10, [%rd3+-4];"),
        (2, 8),
        &["block 0, thread 0: a read of 4 bytes", beyond],
    );
    // Partly beyond the end.
    expect("", "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1+56];", (1, 1), &["a read of 16 bytes", beyond]);
    // Not the device's memory at all.
    expect("", "mov.u64 %rd3, 16;\nst.global.u8 [%rd3], %rs1;", (1, 1), &["a write of 1 bytes at 0x10", beyond]);
    let shared = ".shared .align 4 .b8 words[32];\n.shared .align 4 .b8 others[32];";
    let store =
        "mov.u64 %rd3, words;\nmul.wide.u32 %rd4, %r3, 4;\nadd.s64 %rd3, %rd3, %rd4;\nst.shared.u32 [%rd3], %r3;";
    passes(shared, store, (1, 8));
    expect(shared, store, (1, 9), &["thread 8", "in shared memory is in no memory"]);
    expect("", "mov.u64 %rd3, 16777216;\nld.global.u32 %r10, [%rd3];", (1, 1), &["0x1000000", beyond]);
}

#[test]
fn accesses_that_are_not_aligned_or_never_written() {
    expect("", "ld.global.u32 %r10, [%rd1+2];", (1, 1), &["is not at a multiple of its length"]);
    expect("", "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1+8];", (1, 1), &["a read of 16 bytes", "multiple"]);
    expect("", "ld.global.u32 %r10, [%rd2];", (1, 1), &["was never written"]);
    expect(
        "",
        "st.global.u8 [%rd2], %rs1;\nld.global.u32 %r10, [%rd2];",
        (1, 1),
        &["a read of 4 bytes", "never written"],
    );
    let shared = ".shared .align 4 .b8 words[32];";
    expect(shared, "mov.u64 %rd3, words;\nld.shared.u32 %r10, [%rd3];", (1, 1), &["shared memory was never written"]);
    // What an earlier block left in shared memory is gone.
    let left =
        "mov.u64 %rd3, words;\nsetp.ne.s32 %p1, %r2, 0;\n@!%p1 st.shared.u32 [%rd3], %r3;\nld.shared.u32 %r10, [%rd3];";
    expect(shared, left, (2, 1), &["block 1", "shared memory was never written"]);
}

#[test]
fn races_in_shared_memory() {
    let shared = ".shared .align 4 .b8 words[32];";
    let mine =
        "mov.u64 %rd3, words;\nmul.wide.u32 %rd4, %r3, 4;\nadd.s64 %rd4, %rd3, %rd4;\nst.shared.u32 [%rd4], %r3;\n";
    let read = "ld.shared.u32 %r10, [%rd3+4];\n";
    passes(shared, &format!("{mine}bar.sync 0;\n{read}"), (2, 8));
    let again = format!("{mine}bar.sync 0;\n{mine}{read}");
    expect(shared, &again, (1, 8), &["races with a"]);
    // Threads of a warp are not in step: nothing orders them but a barrier.
    expect(shared, &again, (1, 2), &["races with a"]);
    // All threads read and then one writes, without a barrier between.
    let then = "setp.ne.s32 %p1, %r3, 2;\n@!%p1 st.shared.u32 [%rd3+4], %r3;";
    expect(shared, &format!("{mine}bar.sync 0;\n{read}{then}"), (1, 8), &["races with a"]);
    passes(shared, &format!("{mine}bar.sync 0;\n{read}bar.sync 0;\n{then}"), (1, 8));
    // The same value by all threads is a race too.
    expect(shared, "mov.u64 %rd3, words;\nst.shared.u32 [%rd3], 1;", (1, 2), &["races with a write"]);
}

#[test]
fn races_in_global_memory() {
    let one = "setp.ne.s32 %p1, %r3, 0;\n@!%p1 st.global.u32 [%rd2], %r3;\n";
    passes("", &format!("{one}bar.sync 0;\nld.global.u32 %r10, [%rd2];"), (1, 8));
    expect("", &format!("{one}ld.global.u32 %r10, [%rd2];"), (1, 8), &["global memory races with a"]);
    // A barrier orders the threads of its block only.
    expect("", &format!("{one}bar.sync 0;\nld.global.u32 %r10, [%rd2];"), (2, 8), &["global memory races with a"]);
    // One reads and a thread of another block writes.
    let other =
        "setp.ne.s32 %p1, %r2, 0;\n@!%p1 ld.global.u32 %r10, [%rd1];\nbar.sync 0;\n@%p1 st.global.u32 [%rd1], %r3;";
    expect("", other, (2, 1), &["global memory races with a"]);
    // The next launch comes later.
    let mut device = Device::new();
    let function = device.function(&ptx("", "", "st.global.u32 [%rd1], %r3;"));
    let to = device.upload(&[0; 64]);
    device.run(function, (1, 1), [to, to, 0]).unwrap();
    device.run(function, (1, 1), [to, to, 0]).unwrap();
}

#[test]
fn barriers_that_not_all_threads_reach() {
    expect(
        "",
        "setp.lt.u32 %p1, %r3, 3;\n@%p1 bra $end;\nbar.sync 0;\n$end:",
        (1, 8),
        &["line 24", "thread 0: it ended, and other threads wait"],
    );
    let two = "setp.lt.u32 %p1, %r3, 3;\n@%p1 bra $other;\nbar.sync 0;\nbra.uni $end;\n$other:\nbar.sync 0;\n$end:";
    expect("", two, (1, 8), &["waits at the barrier of line"]);
}

#[test]
fn what_does_not_end_and_divisions_by_zero() {
    expect("", "$again:\nbra.uni $again;", (1, 1), &["it runs for ever"]);
    expect("", "mov.u32 %r10, 0;\nrem.u32 %r11, %r1, %r10;", (1, 1), &["a division by zero"]);
}

#[test]
fn memory_that_was_freed() {
    let mut device = Device::new();
    let function = device.function(&ptx("", "", "ld.global.u32 %r10, [%rd1];"));
    let gone = device.upload(&[1; 64]);
    device.state.free(gone).unwrap();
    let text = device.run(function, (1, 1), [gone, gone, 0]).unwrap_err();
    assert!(text.contains("is in memory that was freed"), "{text}");
}

#[test]
fn work_that_is_late_reads_and_writes_late() {
    let (mut device, bytes) = (Device::late(), [const { Cell::new(1u8) }; 16]);
    let to = device.state.allocate(16).unwrap();
    device.state.copy(Place::Host(bytes.as_ptr() as usize), Place::Device(to), 16, device.stream).unwrap();
    bytes[0].set(9);
    assert_eq!(device.state.query(device.stream), Err(crate::driver::NOT_READY));
    device.state.query(device.stream).unwrap();
    assert_eq!(device.download(to, 16).unwrap()[..2], [9, 1]);
    // Pinned memory that is freed too early.
    let pinned = device.state.pin(16, true).unwrap();
    let mapped = device.state.memory.mapped(pinned).unwrap();
    device.state.copy(Place::Device(mapped), Place::Device(to), 16, device.stream).unwrap();
    device.state.unpin(pinned).unwrap();
    assert!(device.state.finish(device.stream).is_err());
}

#[test]
fn guard_zones() {
    let mut device = Device::new();
    let pinned = device.state.pin(16, false).unwrap();
    device.state.memory.check_guards().unwrap();
    for at in [pinned + 16, pinned - 1] {
        // SAFETY: the guard zones are of the allocation, and this is a mistake that they are for.
        unsafe { (at as *mut u8).write(1) };
        let text = device.state.memory.check_guards().unwrap_err();
        assert!(text.contains("wrote before or behind the 16 bytes"), "{text}");
        // SAFETY: as above.
        unsafe { (at as *mut u8).write(0xc3) };
    }
    assert!(device.state.memory.mapped(pinned).is_none(), "it was not mapped");
    device.state.unpin(pinned).unwrap();
}

#[test]
fn copies_of_what_was_never_written() {
    let mut device = Device::new();
    let memory = device.state.allocate(16).unwrap();
    assert!(device.download(memory, 16).unwrap_err().contains("never written"));
}

#[test]
fn shapes_that_the_driver_refuses() {
    let mut device = Device::new();
    let function = device.function(&ptx("", "", ""));
    for (blocks, threads, dynamic) in [(0, 1, 0), (1, 0, 0), (1, 1025, 0), (1, 1, 16)] {
        let done = device.state.launch(function, (blocks, threads), dynamic, vec![0; 3], device.stream);
        assert!(done.is_err(), "{blocks} {threads} {dynamic}");
    }
    assert!(device.state.allocate(0).is_err() && device.state.allocate(1 << 40).is_err());
    device.run(function, (1, 1), [0; 3]).unwrap();
}
