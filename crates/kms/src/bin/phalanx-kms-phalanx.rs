//! The program `phalanx-kms-phalanx`: phalanx-server has the Transit interface of Vault.
#![forbid(unsafe_code)]

#[global_allocator]
static ALLOCATOR: phalanx_kms::Allocator = phalanx_kms::ALLOCATOR;

fn main() -> std::process::ExitCode {
    phalanx_kms::answer("phalanx", phalanx_kms::transit::call)
}
