//! The program `phalanx-kms-awskms`.
#![forbid(unsafe_code)]

#[global_allocator]
static ALLOCATOR: phalanx_kms::Allocator = phalanx_kms::ALLOCATOR;

fn main() -> std::process::ExitCode {
    phalanx_kms::answer("awskms", phalanx_kms::aws::call)
}
