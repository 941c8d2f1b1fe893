//! PTX that is not simulated is refused, with its line, and never ignored.

use super::ptx;
use crate::{ptx as parser, translate};
use std::path::Path;

#[test]
fn every_committed_module_is_translated() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ptx");
    let mut count = 0;
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "ptx") {
            let ptx = std::fs::read_to_string(&path).unwrap();
            let module = parser::parse(&ptx).unwrap_or_else(|refused| panic!("{}: {refused}", path.display()));
            let translated = translate::translate(&module);
            let translated = translated.unwrap_or_else(|refused| panic!("{}: {refused}", path.display()));
            assert_eq!(translated.kernels.len(), ptx.matches(".visible .entry").count());
            count += 1;
        }
    }
    assert!(count > 0);
}

/// Why PTX is refused, with its line.
fn refused(ptx: &str) -> String {
    let done = parser::parse(ptx).and_then(|module| translate::translate(&module));
    done.err().map_or_else(|| panic!("this is not refused:\n{ptx}"), |refused| refused.to_string())
}

#[test]
fn unknown_instructions() {
    for (body, why) in [
        ("shfl.sync.up.b32 %r10, %r11, 1, 0, 255;", "line 22: shfl.sync.up.b32 with 5 operands is not simulated"),
        ("vote.sync.any.pred %p1, %p2, 15;", "line 22: vote.sync.any.pred with 3 operands is not simulated"),
        ("bar.sync 1;", "line 22: bar.sync with 1 operands is not simulated"),
        ("bar.warp.sync 15;", "line 22: bar.warp.sync with 1 operands is not simulated"),
        ("atom.global.add.u32 %r10, [%rd1], 1;", "line 22: atom.global.add.u32 with 3 operands is not simulated"),
        ("ld.global.nc.u32 %r10, [%rd1];", "line 22: a load of type nc.u32 is not simulated"),
        ("ld.global.u16 %rs1, [%rd1];", "line 22: accesses of type u16 are not simulated"),
        ("ld.local.u32 %r10, [%rd1];", "line 22: memory of kind local is not simulated"),
        ("ld.u32 %r10, [%rd1];", "line 22: memory of kind u32 is not simulated"),
        ("st.shared.u8 [%rd1], %rs1;", "line 22: single bytes in shared memory are not simulated"),
        ("st.const.u32 [%rd1], %r1;", "line 22: memory of kind const is not simulated"),
        ("shf.l.clamp.b32 %r10, %r11, %r12, 3;", "line 22: shf.l.clamp.b32 with 4 operands is not simulated"),
        ("prmt.b32.f4e %r10, %r11, %r12, 3;", "line 22: prmt.b32.f4e with 4 operands is not simulated"),
        ("lop3.b32 %r10, %r11, %r12, %r13, 256;", "line 22: lop3.b32 with 5 operands is not simulated"),
        ("add.f32 %r10, %r11, %r12;", "line 22: add.f32 with 3 operands is not simulated"),
        ("and.b8 %r10, %r11, %r12;", "line 22: "),
        ("call f;", "line 22: call with 1 operands is not simulated"),
        ("mov.u32 %r10, %laneid;", "line 22: %laneid is not a register"),
        ("add.s32 %r10, %rd11, 1;", "line 22: %rd11 has 64 bits where 32 are needed"),
        ("add.s32 %r10, %r11, 4294967296;", "line 22: Number(4294967296) does not fit 32 bits"),
        ("add.s32 %r10, %r1000, 1;", "line 22: %r1000 is not a register"),
        ("bra $nowhere;", "line 22: there is no label $nowhere"),
        ("ld.global.u32 %rs1, [%rd1];", "line 22: Name(\"%rs1\") does not take 32 bits"),
        ("ld.param.u64 %rd10, [k_param_2];", "line 22: k_param_2 has another width"),
        ("mov.f32 %r10, 0f3f800000;", "line 22: 0f3f800000 is no number that is simulated"),
        ("{ .reg .b32 %t; }", "line 22: a word is missing before Some(Sign('{'))"),
    ] {
        let text = refused(&ptx("", "", body));
        assert!(text.starts_with(why), "{text}");
    }
}

#[test]
fn unknown_declarations() {
    let plain = ptx("", "", "");
    for (ptx, why) in [
        (plain.replace("sm_52", "sm_90"), "line 2: .target sm_90: only sm_52 is simulated"),
        (plain.replace("8.0", "8.4"), "line 1: .version 8.4: only 8.0 is simulated"),
        (ptx(".func f() { ret; }", "", ""), "line 4: .func is not simulated"),
        (ptx(".const .f32 x = 1;", "", ""), "line 4: a variable of type .f32 is not simulated"),
        (ptx("", ".local .align 4 .b8 x[4];", ""), "line 15: , is missing before"),
        (ptx("", ".reg .f32 %f<3>;", ""), "line 15: a register of type .f32 is not simulated"),
        (
            plain.replace(".param .u32 k_param_2", ".param .align 4 .b8 k_param_2[4]"),
            "line 8: a parameter of type .align",
        ),
        (plain.replace(")\n{", ")\n.maxntid 64, 1, 1\n{"), "line 10: { is missing before"),
    ] {
        let text = refused(&ptx);
        assert!(text.starts_with(why), "{text}");
    }
}
