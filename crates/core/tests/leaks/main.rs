//! What the batch call, the coalescer, the reader and the writer leave in memory after everything is dropped and the
//! caller has wiped its own buffers. No block of 16 bytes may be left of plaintexts, keystream, users' keys, derived
//! keys and round keys. (Beyond the first 4 KiB only every sixteenth block is searched for.) Freed memory and the
//! stacks of threads are searched too, including threads that have ended.
//!
//! Registers are not searched, and secrets in another form, such as the words of bitsliced AES, are not found.

#[cfg(target_os = "linux")]
mod batch;
#[cfg(target_os = "linux")]
mod coalescer;
#[cfg(target_os = "linux")]
#[path = "../common/mod.rs"]
mod common;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod reader;
#[cfg(target_os = "linux")]
mod schedule;
#[cfg(target_os = "linux")]
mod set;

/// There is only one test, because a search covers the memory of all threads, and no thread may start or end during it.
#[test]
fn nothing_secret_stays_in_memory() {
    #[cfg(not(target_os = "linux"))]
    println!("skipped: not Linux");
    #[cfg(target_os = "linux")]
    {
        memory::secrets_that_are_left_are_found();
        schedule::the_schedule_is_that_of_the_standard();
        batch::by_every_engine();
        batch::messages_that_are_not_authentic();
        batch::into_one_buffer();
        batch::engines_that_fail_midway();
        coalescer::results_that_are_taken();
        coalescer::messages_that_are_given_up();
        coalescer::abandoned_results();
        coalescer::engines_that_fail();
        coalescer::shut_down_with_work_queued();
        reader::written_files();
        reader::read_files();
    }
}
