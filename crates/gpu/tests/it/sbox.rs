//! The S-box of the kernels in bit planes: the netlist, the code that `scripts/make-sbox` made from it, and the
//! compiled code.

use crate::devices::plain_c::compile;
use std::collections::HashMap;

const NETLIST: &str = include_str!("../../kernels/aes_sbox.blif");
const CODE: &str = include_str!("../../kernels/aes_sbox.h");

/// A value for each of the 256 input bytes.
type Bits = [bool; 256];

/// SubBytes of a byte by its definition (FIPS 197, section 5.1.1).
fn substitute(x: u8) -> u8 {
    let times = |a: u8, b: u8| {
        (0..8).fold(0, |sum, i| {
            let shifted = (0..i).fold(a, |a, _| a << 1 ^ if a & 0x80 != 0 { 0x1b } else { 0 });
            if b >> i & 1 == 1 { sum ^ shifted } else { sum }
        })
    };
    // x^254 is the inverse of x, and 0 for 0.
    let inverse = (0..254).fold(1, |power, _| times(power, x));
    (0..5).fold(0x63, |sum, i| sum ^ inverse.rotate_left(i))
}

fn byte(x: usize) -> u8 {
    u8::try_from(x).unwrap()
}

fn inputs(name: impl Fn(usize) -> String) -> HashMap<String, Bits> {
    (0..8).map(|i| (name(i), std::array::from_fn(|x| byte(x) >> i & 1 == 1))).collect()
}

/// The value of each cell of the netlist.
fn of_netlist() -> HashMap<String, Bits> {
    let mut values = inputs(|i| format!("q[{i}]"));
    let mut cells: Vec<_> = NETLIST.split(".names ").skip(1).collect();
    assert_eq!(cells.len(), 77);
    while !cells.is_empty() {
        let before = cells.len();
        cells.retain(|cell| {
            let mut lines = cell.lines();
            let names: Vec<_> = lines.next().unwrap().split(' ').collect();
            let (output, inputs) = names.split_last().unwrap();
            let Some(inputs) = inputs.iter().map(|name| values.get(*name).copied()).collect::<Option<Vec<_>>>() else {
                return true;
            };
            // Lines with the bits of the inputs and the output bit, which is the same in all of them.
            let rows: Vec<_> = lines.filter_map(|line| line.split_once(' ')).collect();
            let on = rows[0].1 == "1";
            assert!(rows.iter().all(|(_, output)| (*output == "1") == on) && inputs.len() <= 3);
            let value = std::array::from_fn(|x| {
                let fits = |(bits, _): &(&str, &str)| {
                    bits.chars().zip(&inputs).all(|(bit, input)| bit == '-' || (bit == '1') == input[x])
                };
                rows.iter().any(fits) == on
            });
            values.insert((*output).to_string(), value);
            false
        });
        assert!(cells.len() < before, "a cell's inputs are missing");
    }
    values
}

#[test]
fn netlist_is_the_s_box() {
    let values = of_netlist();
    let outputs: [Bits; 8] = std::array::from_fn(|i| values[&format!("r[{i}]")]);
    for x in 0..=255 {
        let y = (0..8).fold(0, |y, i| y | u8::from(outputs[i][usize::from(x)]) << i);
        assert_eq!(y, substitute(x), "{x:#04x}");
    }
}

/// Each operation of the code has the value of the netlist's cell of that number. Those called m… have its complement.
#[test]
fn code_matches_the_netlist() {
    let netlist = of_netlist();
    let mut values = inputs(|i| format!("q{i}"));
    for line in CODE.lines().filter(|line| line.contains("= LUT3(")) {
        let (name, call) = line.trim().strip_prefix("const u32 ").unwrap().split_once(" = LUT3(").unwrap();
        let parts: Vec<_> = call.strip_suffix(");").unwrap().split(", ").collect();
        let table = u8::from_str_radix(parts[0].strip_prefix("0x").unwrap(), 16).unwrap();
        let [a, b, c] = [1, 2, 3].map(|i| values[parts[i]]);
        let value: Bits =
            std::array::from_fn(|x| table >> (4 * u8::from(a[x]) + 2 * u8::from(b[x]) + u8::from(c[x])) & 1 == 1);
        let (kind, number) = name.split_at(1);
        let cell = if kind == "r" { format!("r[{number}]") } else { format!("new_n{number}_") };
        assert!((0..256).all(|x| netlist[&cell][x] == (value[x] ^ (kind == "m"))), "{name}");
        values.insert(name.to_string(), value);
    }
    assert_eq!(values.len(), 8 + 77);
}

#[test]
fn compiled_code_is_the_s_box() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("sbox.so");
    let platform = include_str!("../../kernels/platform.h");
    compile(&[platform, CODE, "void sub(u32 *q) { phx_group = 0, sub_planes(q); }\n"].concat(), &library);
    // SAFETY: the library was compiled just now, and does nothing when it is loaded.
    let library = unsafe { libloading::Library::new(&library) }.unwrap();
    // SAFETY: the function has that type.
    let sub = unsafe { library.get::<unsafe extern "C" fn(*mut u32)>(b"sub\0") }.unwrap();
    for first in (0..256).step_by(32) {
        let bit = |i: usize| (0..32).fold(0, |plane, k| plane | u32::from(byte(first + k) >> i & 1) << k);
        let mut planes: [u32; 8] = std::array::from_fn(bit);
        // SAFETY: it reads and writes eight words.
        unsafe { sub(planes.as_mut_ptr()) };
        for k in 0..32 {
            let y = (0..8).fold(0, |y, i| y | byte((planes[i] >> k & 1) as usize) << i);
            assert_eq!(y, substitute(byte(first + k)));
        }
    }
}
