//! SHA3-256 and KECCAK (FIPS 202), the functions derived from them (SP 800-185), and TurboSHAKE256 (RFC 9861).

use crate::array;

/// The rate of SHA3-256 and cSHAKE256 in bytes: a capacity of 512 bits (FIPS 202 §6.1, SP 800-185 §3.3).
const RATE: usize = 136;

/// KMAC256 (SP 800-185 §4.3), with the output length in bits, which must be whole bytes.
pub fn kmac256(key: &[u8], message: &[u8], bits: usize, customization: &str) -> Vec<u8> {
    assert_eq!(bits % 8, 0, "whole bytes");
    let mut input = bytepad(&encode_string(key), RATE);
    input.extend(message);
    input.extend(right_encode(bits as u64));
    cshake256(&input, bits, b"KMAC", customization.as_bytes())
}

/// cSHAKE256 (SP 800-185 §3.3), with the output length in bits, which must be whole bytes.
pub fn cshake256(message: &[u8], bits: usize, name: &[u8], customization: &[u8]) -> Vec<u8> {
    if name.is_empty() && customization.is_empty() {
        return sponge(24, message, 0b1_1111, bits / 8); // SHAKE256: the suffix bits 1111, then padding
    }
    let mut input = bytepad(&[encode_string(name), encode_string(customization)].concat(), RATE);
    input.extend(message);
    sponge(24, &input, 0b100, bits / 8) // the suffix bits 00, then padding
}

/// SP 800-185 §2.3.3.
fn bytepad(bytes: &[u8], width: usize) -> Vec<u8> {
    let mut padded = left_encode(width as u64);
    padded.extend(bytes);
    padded.resize(padded.len().next_multiple_of(width), 0);
    padded
}

/// SP 800-185 §2.3.2.
fn encode_string(bytes: &[u8]) -> Vec<u8> {
    [&left_encode(8 * bytes.len() as u64)[..], bytes].concat()
}

/// SP 800-185 §2.3.1.
fn left_encode(number: u64) -> Vec<u8> {
    let digits = digits(number);
    [&[digits.len() as u8][..], &digits].concat()
}

/// SP 800-185 §2.3.1.
fn right_encode(number: u64) -> Vec<u8> {
    let digits = digits(number);
    [&digits[..], &[digits.len() as u8]].concat()
}

/// The fewest big-endian bytes that hold a number, at least one.
fn digits(number: u64) -> Vec<u8> {
    let zeros = (number.leading_zeros() / 8).min(7) as usize;
    number.to_be_bytes()[zeros..].to_vec()
}

/// SHA3-256 (FIPS 202 §6.1).
pub fn sha3_256(message: &[u8]) -> [u8; 32] {
    array(&sponge(24, message, 0b110, 32)) // the suffix bits 01, then padding
}

/// TurboSHAKE256 (RFC 9861 §2.2) with the domain separation byte `domain`, 0x01 to 0x7F, and the output length in bytes.
pub fn turboshake256(message: &[u8], domain: u8, len: usize) -> Vec<u8> {
    assert!((0x01..=0x7F).contains(&domain), "a domain separation byte");
    sponge(12, message, domain, len) // the byte holds its bits and the first 1 of the padding
}

/// KECCAK[512] (FIPS 202 §4, §5.2) on whole bytes, with KECCAK-p\[1600, `rounds`\]. `suffix` holds, lowest bit first, the bits that follow the message, then the first
/// 1 of pad10*1 (§5.1, B.2).
fn sponge(rounds: usize, message: &[u8], suffix: u8, out_len: usize) -> Vec<u8> {
    let mut padded = message.to_vec();
    padded.push(suffix);
    padded.resize(padded.len().next_multiple_of(RATE), 0);
    *padded.last_mut().unwrap() |= 0x80; // the last 1 of pad10*1

    let mut state = [[0u64; 5]; 5];
    for block in padded.chunks(RATE) {
        for (i, lane) in block.chunks(8).enumerate() {
            state[i % 5][i / 5] ^= u64::from_le_bytes(array(lane));
        }
        state = keccak_p(state, rounds);
    }
    let mut output = Vec::new();
    loop {
        for i in 0..RATE / 8 {
            output.extend(state[i % 5][i / 5].to_le_bytes());
        }
        if output.len() >= out_len {
            output.truncate(out_len);
            return output;
        }
        state = keccak_p(state, rounds);
    }
}

/// The state array A\[x\]\[y\], whose lanes along z are integers: bit z has the value 2^z (FIPS 202 §3.1).
type State = [[u64; 5]; 5];

/// KECCAK-p\[1600, 24\] (FIPS 202 §3.3, §3.4).
pub fn keccak_f(a: State) -> State {
    keccak_p(a, 24)
}

/// KECCAK-p\[1600, `rounds`\] (FIPS 202 §3.3): the last rounds of the 24.
fn keccak_p(mut a: State, rounds: usize) -> State {
    for round in 24 - rounds..24 {
        a = iota(chi(pi(rho(theta(a)))), round);
    }
    a
}

/// FIPS 202 §3.2.1.
fn theta(a: State) -> State {
    let c = |x: usize| a[x % 5].iter().fold(0, |sum, lane| sum ^ lane);
    lanes(|x, y| a[x][y] ^ c(x + 4) ^ c(x + 1).rotate_left(1))
}

/// FIPS 202 §3.2.2, Algorithm 2.
fn rho(a: State) -> State {
    let mut out = a;
    let (mut x, mut y) = (1, 0);
    for t in 0..24 {
        out[x][y] = a[x][y].rotate_left((t + 1) * (t + 2) / 2 % 64);
        (x, y) = (y, (2 * x + 3 * y) % 5);
    }
    out
}

/// FIPS 202 §3.2.3.
fn pi(a: State) -> State {
    lanes(|x, y| a[(x + 3 * y) % 5][x])
}

/// FIPS 202 §3.2.4.
fn chi(a: State) -> State {
    lanes(|x, y| a[x][y] ^ (!a[(x + 1) % 5][y] & a[(x + 2) % 5][y]))
}

/// FIPS 202 §3.2.5, Algorithm 6, where l = 6.
fn iota(mut a: State, round: usize) -> State {
    for j in 0..=6 {
        a[0][0] ^= u64::from(rc(j + 7 * round)) << ((1 << j) - 1);
    }
    a
}

/// FIPS 202 §3.2.5, Algorithm 5: a linear feedback shift register, in which R\[i\] has the value 2^i.
fn rc(t: usize) -> bool {
    let mut r = 1u16;
    for _ in 0..t % 255 {
        r <<= 1;
        if r & 0x100 != 0 {
            r ^= 0b1_0111_0001; // R[8] goes into R[0], R[4], R[5] and R[6], and falls away
        }
    }
    r & 1 == 1
}

fn lanes(lane: impl Fn(usize, usize) -> u64) -> State {
    std::array::from_fn(|x| std::array::from_fn(|y| lane(x, y)))
}
