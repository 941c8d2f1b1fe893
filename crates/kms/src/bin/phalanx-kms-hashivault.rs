//! The program `phalanx-kms-hashivault`.
#![forbid(unsafe_code)]

#[global_allocator]
static ALLOCATOR: phalanx_kms::Allocator = phalanx_kms::ALLOCATOR;

fn main() -> std::process::ExitCode {
    phalanx_kms::answer("hashivault", phalanx_kms::transit::call)
}
