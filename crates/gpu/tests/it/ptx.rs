//! The committed PTX is made from the present source.

use phalanx_gpu::Module;
use phalanx_kernels::keccak::sha3_256;

#[test]
fn ptx_is_not_stale() {
    for module in Module::ALL {
        let path = format!("{}/ptx/{}.sha3-256", env!("CARGO_MANIFEST_DIR"), module.name());
        let made_of = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let digest = sha3_256(module.source().as_bytes());
        let now: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(made_of.trim(), now, "{} is stale: remake it with crates/gpu/scripts/make-ptx", module.name());
    }
}

#[test]
fn ptx_has_every_kernel_for_old_drivers_and_devices() {
    for module in Module::ALL {
        let ptx = module.ptx();
        assert!(ptx.contains(".version 8.0\n") && ptx.contains(".target sm_52\n"), "{}", module.name());
        let kernels: &[&str] = match module {
            Module::Sha3 => &["sha3_slices"],
            Module::TurboShake => &["turboshake_slices"],
            Module::Kmac => &["kmac_key_digests"],
            Module::Md5 => &["md5_key_digests"],
            Module::AesBitsliceTiles => &["aes_ctr_tiles"],
            Module::AesBitslice => &["aes_ctr_spans"],
            Module::AesBitsliceKeys => &["aes_ctr_keys"],
            Module::AesBitslicePapers => &["aes_ctr", "aes_ctr_users", "aes_ecb_encrypt", "aes_ecb_decrypt"],
            _ => &["aes_ctr", "aes_ctr_spans", "aes_ctr_users", "aes_ecb_encrypt", "aes_ecb_decrypt"],
        };
        for kernel in kernels {
            assert!(ptx.contains(&format!(".visible .entry {kernel}(")), "{} has no {kernel}", module.name());
        }
        assert_eq!(ptx.matches(".visible .entry ").count(), kernels.len(), "{} has others", module.name());
        // The instructions that the kernels are written for: byte permutations, any function of three bits, and
        // rotations by funnel shift.
        let wanted: &[&str] = match module {
            Module::Md5 => &["shf.l"],
            Module::Sha3 | Module::TurboShake | Module::Kmac => &["shf.l", "lop3.b32"],
            _ => &["prmt.b32", "lop3.b32"],
        };
        assert!(wanted.iter().all(|wanted| ptx.contains(wanted)), "{} lacks one of {wanted:?}", module.name());
    }
}

#[test]
fn the_engine_compiles_no_code_of_the_papers() {
    let papers = Module::AesBitslicePapers.source() + &Module::Kmac.source();
    for engine in
        [Module::AesBitsliceTiles, Module::AesBitslice, Module::AesBitsliceKeys, Module::Sha3, Module::TurboShake]
    {
        for function in ["inverse_cipher", "ecb_blocks", "expand_key", "absorb_key"] {
            assert!(papers.contains(function) && !engine.source().contains(function), "{function}");
        }
    }
}
