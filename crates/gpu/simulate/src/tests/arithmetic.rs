//! Each instruction, compared with its description in the PTX ISA, bit by bit.

use super::{Device, ptx};
use std::fmt::Write;

const TUPLES: usize = 4096;

/// Tuples of four words: numbers at the edges of what instructions treat differently, and any numbers.
fn tuples() -> Vec<[u32; 4]> {
    const EDGES: [u32; 20] = [
        0,
        1,
        2,
        5,
        15,
        16,
        31,
        32,
        33,
        63,
        64,
        65,
        255,
        256,
        0x103,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_fffe,
        u32::MAX,
        0x8421_f0a5,
    ];
    let mut x = 1u64;
    let mut next = move || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 32) as u32
    };
    let mut word = move || {
        let any = next();
        if next() % 4 == 0 { any } else { EDGES[any as usize % EDGES.len()] }
    };
    (0..TUPLES).map(|_| [word(), word(), word(), word()]).collect()
}

type Model = fn([u32; 4]) -> u64;

/// Runs `instruction`, which leaves its result in %rd90, for each tuple, which is in %r10 to %r13 and in %rd10 and %rd11.
fn results(instructions: &[(&str, Model)]) -> Vec<Vec<u64>> {
    let mut body = String::from(
        "mad.lo.s32 %r5, %r2, %r4, %r3;\nmul.wide.u32 %rd3, %r5, 16;\nadd.s64 %rd3, %rd1, %rd3;
ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd3];\nld.global.u64 %rd10, [%rd3];\nld.global.u64 %rd11, [%rd3+8];
mul.lo.s32 %r6, %r5, %r1;\nmul.wide.u32 %rd4, %r6, 8;\nadd.s64 %rd4, %rd2, %rd4;\n",
    );
    for (at, (instruction, _)) in instructions.iter().enumerate() {
        let instruction = instruction.replace("SELF", &(8 * at).to_string());
        let _ = writeln!(body, "mov.u64 %rd90, 0;\n{instruction}\nst.global.u64 [%rd4+{}], %rd90;", 8 * at);
    }
    let mut device = Device::new();
    let function = device.function(&ptx("", "", &body));
    let input: Vec<u8> = tuples().into_iter().flatten().flat_map(u32::to_le_bytes).collect();
    let (from, len) = (device.upload(&input), TUPLES * instructions.len() * 8);
    let to = device.state.allocate(len).unwrap();
    device.run(function, (TUPLES as u32 / 128, 128), [from, to, instructions.len() as u64]).unwrap();
    let bytes = device.download(to, len).unwrap();
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    words.chunks(instructions.len()).map(<[u64]>::to_vec).collect()
}

fn check(instructions: &[(&str, Model)]) {
    for (tuple, got) in tuples().into_iter().zip(results(instructions)) {
        for ((instruction, model), got) in instructions.iter().zip(got) {
            assert_eq!(got, model(tuple), "{instruction} of {tuple:x?}");
        }
    }
}

fn long(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// A number made of bits.
fn of_bits(count: u32, bit: impl Fn(u32) -> bool) -> u64 {
    (0..count).map(|i| u64::from(bit(i)) << i).sum()
}

fn bit(word: u64, i: u32) -> bool {
    word >> i & 1 == 1
}

/// `bfe`: the bits of `a` from `at` on, `len` of them, and zeros or copies of the sign above.
fn bfe(a: u32, at: u32, len: u32, signed: bool) -> u64 {
    let (at, len) = (at & 255, len & 255);
    let sign = signed && len != 0 && bit(a.into(), (at + len - 1).min(31));
    of_bits(32, |i| if i < len && at + i <= 31 { bit(a.into(), at + i) } else { sign })
}

/// `bfi`: `b`, with the lowest `len` bits of `a` from `at` on.
fn bfi(bits: u32, a: u64, b: u64, at: u32, len: u32) -> u64 {
    let (at, len) = (at & 255, len & 255);
    of_bits(bits, |i| if i >= at && i - at < len { bit(a, i - at) } else { bit(b, i) })
}

fn prmt(a: u32, b: u32, selector: u32) -> u64 {
    let bytes: Vec<u8> = a.to_le_bytes().into_iter().chain(b.to_le_bytes()).collect();
    let chosen = (0..4).map(|i| {
        let nibble = selector >> (4 * i) & 15;
        let byte = bytes[nibble as usize % 8];
        let byte = if nibble < 8 {
            byte
        } else if byte >= 128 {
            255
        } else {
            0
        };
        u64::from(byte) << (8 * i)
    });
    chosen.sum()
}

#[test]
fn shifts() {
    check(&[
        ("shl.b32 %r90, %r10, %r11; cvt.u64.u32 %rd90, %r90;", |[a, n, ..]| {
            of_bits(32, |i| i >= n && bit(a.into(), i - n))
        }),
        ("shl.b64 %rd90, %rd10, %r12;", |[a, b, n, _]| of_bits(64, |i| i >= n && bit(long(a, b), i - n))),
        ("shr.u32 %r90, %r10, %r11; cvt.u64.u32 %rd90, %r90;", |[a, n, ..]| {
            of_bits(32, |i| n < 32 && i + n < 32 && bit(a.into(), i + n))
        }),
        ("shr.s32 %r90, %r10, %r11; cvt.u64.u32 %rd90, %r90;", |[a, n, ..]| {
            of_bits(32, |i| bit(a.into(), i.saturating_add(n).min(31)))
        }),
        ("shr.u64 %rd90, %rd10, %r12;", |[a, b, n, _]| of_bits(64, |i| n < 64 && i + n < 64 && bit(long(a, b), i + n))),
        ("shf.l.wrap.b32 %r90, %r10, %r11, %r12; cvt.u64.u32 %rd90, %r90;", |[a, b, n, _]| {
            let n = n % 32;
            of_bits(32, |i| bit(long(a, b), 32 + i - n))
        }),
        (
            "cvt.u16.u32 %rs1, %r10; shr.u16 %rs2, %rs1, 7; st.global.u8 [%rd4+SELF], %rs2; ld.global.u8 %rd90, [%rd4+SELF];",
            |[a, ..]| u64::from(a as u16 >> 7) & 255,
        ),
    ]);
}

#[test]
fn parts_of_words() {
    check(&[
        ("bfe.u32 %r90, %r10, %r11, %r12; cvt.u64.u32 %rd90, %r90;", |[a, at, len, _]| bfe(a, at, len, false)),
        ("bfe.s32 %r90, %r10, %r11, %r12; cvt.u64.u32 %rd90, %r90;", |[a, at, len, _]| bfe(a, at, len, true)),
        (
            "bfe.s32 %r90, %r10, 5, 1; cvt.u64.u32 %rd90, %r90;",
            |[a, ..]| if bit(a.into(), 5) { u32::MAX.into() } else { 0 },
        ),
        ("bfi.b32 %r90, %r10, %r11, %r12, %r13; cvt.u64.u32 %rd90, %r90;", |[a, b, at, len]| {
            bfi(32, a.into(), b.into(), at, len)
        }),
        ("bfi.b64 %rd90, %rd10, %rd11, %r10, %r12;", |[a, b, c, d]| bfi(64, long(a, b), long(c, d), a, c)),
        ("prmt.b32 %r90, %r10, %r11, %r12; cvt.u64.u32 %rd90, %r90;", |[a, b, s, _]| prmt(a, b, s)),
        ("prmt.b32 %r90, %r10, %r11, 29495; cvt.u64.u32 %rd90, %r90;", |[a, b, ..]| prmt(a, b, 0x7337)),
        ("cvt.u32.u64 %r90, %rd10; cvt.u64.u32 %rd90, %r90;", |[a, ..]| a.into()),
        ("st.global.u32 [%rd4+SELF], %r11; ld.global.u32 %rd90, [%rd4+SELF];", |[_, b, ..]| b.into()),
    ]);
}

#[test]
fn sums_products_and_logic() {
    check(&[
        ("add.s32 %r90, %r10, %r11; cvt.u64.u32 %rd90, %r90;", |[a, b, ..]| a.wrapping_add(b).into()),
        ("sub.s32 %r90, %r10, %r11; cvt.u64.u32 %rd90, %r90;", |[a, b, ..]| a.wrapping_sub(b).into()),
        ("add.s32 %r90, %r10, -3; cvt.u64.u32 %rd90, %r90;", |[a, ..]| a.wrapping_sub(3).into()),
        ("add.s64 %rd90, %rd10, %rd11;", |[a, b, c, d]| long(a, b).wrapping_add(long(c, d))),
        ("add.s64 %rd90, %rd10, -8;", |[a, b, ..]| long(a, b).wrapping_sub(8)),
        ("neg.s32 %r90, %r10; cvt.u64.u32 %rd90, %r90;", |[a, ..]| a.wrapping_neg().into()),
        ("mul.lo.s32 %r90, %r10, %r11; cvt.u64.u32 %rd90, %r90;", |[a, b, ..]| a.wrapping_mul(b).into()),
        ("mul.wide.u32 %rd90, %r10, %r11;", |[a, b, ..]| u64::from(a) * u64::from(b)),
        ("mad.lo.s32 %r90, %r10, %r11, %r12; cvt.u64.u32 %rd90, %r90;", |[a, b, c, _]| {
            a.wrapping_mul(b).wrapping_add(c).into()
        }),
        ("or.b32 %r91, %r11, 1; div.u32 %r90, %r10, %r91; cvt.u64.u32 %rd90, %r90;", |[a, b, ..]| (a / (b | 1)).into()),
        ("or.b32 %r91, %r11, 1; rem.u32 %r90, %r10, %r91; cvt.u64.u32 %rd90, %r90;", |[a, b, ..]| (a % (b | 1)).into()),
        ("min.u32 %r90, %r10, %r11; cvt.u64.u32 %rd90, %r90;", |[a, b, ..]| a.min(b).into()),
        ("and.b32 %r90, %r10, %r11; cvt.u64.u32 %rd90, %r90;", |[a, b, ..]| (a & b).into()),
        ("or.b64 %rd90, %rd10, %rd11;", |[a, b, c, d]| long(a, b) | long(c, d)),
        ("and.b64 %rd90, %rd10, %rd11;", |[a, b, c, d]| long(a, b) & long(c, d)),
        ("xor.b64 %rd90, %rd10, %rd11;", |[a, b, c, d]| long(a, b) ^ long(c, d)),
        ("not.b64 %rd90, %rd10;", |[a, b, ..]| !long(a, b)),
        ("not.b32 %r90, %r10; cvt.u64.u32 %rd90, %r90;", |[a, ..]| (!a).into()),
        ("xor.b32 %r90, %r10, %r11; cvt.u64.u32 %rd90, %r90;", |[a, b, ..]| (a ^ b).into()),
        (
            "cvt.u16.u32 %rs1, %r10; cvt.u16.u32 %rs2, %r11; xor.b16 %rs3, %rs1, %rs2; st.global.u8 [%rd4+SELF], %rs3; ld.global.u8 %rd90, [%rd4+SELF];",
            |[a, b, ..]| u64::from((a ^ b) & 255),
        ),
    ]);
}

#[test]
fn choices() {
    // A predicate becomes a number by selp.
    check(&[
        ("setp.lt.u32 %p1, %r10, %r11; selp.b64 %rd90, 1, 0, %p1;", |[a, b, ..]| (a < b).into()),
        ("setp.ge.u32 %p1, %r10, %r11; selp.b64 %rd90, 1, 0, %p1;", |[a, b, ..]| (a >= b).into()),
        ("setp.gt.u32 %p1, %r10, %r11; selp.b64 %rd90, 1, 0, %p1;", |[a, b, ..]| (a > b).into()),
        ("setp.eq.s32 %p1, %r10, %r11; selp.b64 %rd90, 1, 0, %p1;", |[a, b, ..]| (a == b).into()),
        ("setp.ne.s32 %p1, %r10, %r11; selp.b64 %rd90, 1, 0, %p1;", |[a, b, ..]| (a != b).into()),
        ("setp.lt.s32 %p1, %r10, %r11; selp.b64 %rd90, 1, 0, %p1;", |[a, b, ..]| {
            (a.cast_signed() < b.cast_signed()).into()
        }),
        (
            "setp.eq.s32 %p1, %r10, %r11; setp.lt.u32 %p2, %r12, 64; or.pred %p3, %p1, %p2; and.pred %p4, %p1, %p2; xor.pred %p5, %p3, %p4; selp.b64 %rd90, 1, 0, %p5;",
            |[a, b, c, _]| ((a == b) != (c < 64)).into(),
        ),
        (
            "setp.lt.u32 %p1, %r10, 64; not.pred %p2, %p1; selp.b32 %r90, %r11, %r12, %p2; cvt.u64.u32 %rd90, %r90;",
            |[a, b, c, _]| if a < 64 { c } else { b }.into(),
        ),
        ("setp.lt.u32 %p1, %r10, 64; @!%p1 mov.u64 %rd90, 7;", |[a, ..]| if a < 64 { 0 } else { 7 }),
    ]);
}

#[test]
fn every_function_of_three_bits() {
    let mut body = String::from("mov.u32 %r10, 240;\nmov.u32 %r11, 204;\nmov.u32 %r12, 170;\n");
    for table in 0..256 {
        let _ = writeln!(body, "lop3.b32 %r13, %r10, %r11, %r12, {table};\nst.global.u32 [%rd2+{}], %r13;", 4 * table);
    }
    let mut device = Device::new();
    let function = device.function(&ptx("", "", &body));
    let to = device.state.allocate(1024).unwrap();
    device.run(function, (1, 1), [to, to, 0]).unwrap();
    let got = device.download(to, 1024).unwrap();
    for (table, got) in got.as_chunks::<4>().0.iter().enumerate() {
        // Above the low byte, all three are zero.
        let high = if table & 1 == 1 { 0xffff_ff00 } else { 0 };
        assert_eq!(u32::from_le_bytes(*got), high | table as u32);
    }
}
