//! Base64 of secrets (RFC 4648, section 4), in blocks of 64 characters that the compiler turns into vector instructions. It has
//! no tables and no branch that depends on a character, so that its time says nothing of a text. `base64ct`, which gives the
//! same, takes one group of four characters after another: it was a third of the time of a batch in JSON.

use zeroize::Zeroizing;

/// The characters of a block.
const CHARS: usize = 64;
/// The bytes of a block.
const BYTES: usize = 48;

/// 0xff if true, or else 0.
#[inline(always)]
fn mask(is: bool) -> u8 {
    0_u8.wrapping_sub(u8::from(is))
}

/// The six bits of each character, and 0xff in the second if one of them is none of the alphabet.
#[inline(always)]
fn values(chars: &[u8; CHARS]) -> ([u8; CHARS], u8) {
    let (mut values, mut wrong) = ([0; CHARS], [0; CHARS]);
    for i in 0..CHARS {
        let c = chars[i];
        // One more than the value, so that 0 is none.
        let range = |first: u8, count: u8, value: u8| {
            mask(c.wrapping_sub(first) < count) & c.wrapping_sub(first).wrapping_add(value + 1)
        };
        let next =
            range(b'A', 26, 0) | range(b'a', 26, 26) | range(b'0', 10, 52) | range(b'+', 1, 62) | range(b'/', 1, 63);
        values[i] = next.wrapping_sub(1) & 63;
        wrong[i] = mask(next == 0);
    }
    (values, wrong.iter().fold(0, |all, one| all | one))
}

/// Decodes a block. The result is not 0 if a character is none of the alphabet.
#[inline(always)]
fn decode_block(chars: &[u8; CHARS], bytes: &mut [u8; BYTES]) -> u8 {
    let (values, wrong) = values(chars);
    for (out, four) in bytes.chunks_exact_mut(3).zip(values.chunks_exact(4)) {
        let [_, a, b, c] = four.iter().fold(0, |word, value| word << 6 | u32::from(*value)).to_be_bytes();
        out.copy_from_slice(&[a, b, c]);
    }
    wrong
}

/// Encodes a block.
#[inline(always)]
fn encode_block(bytes: &[u8; BYTES], chars: &mut [u8; CHARS]) {
    for (four, three) in chars.chunks_exact_mut(4).zip(bytes.chunks_exact(3)) {
        let word = three.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        four.copy_from_slice(&[18, 12, 6, 0].map(|shift| (word >> shift & 63) as u8));
    }
    for c in chars {
        let value = *c;
        // How much farther each range of the alphabet begins than the one before it would go on.
        let more = |from: u8, by: u8| mask(value >= from) & by;
        let steps = [more(26, 6), more(52, 75_u8.wrapping_neg()), more(62, 15_u8.wrapping_neg()), more(63, 3)];
        *c = steps.into_iter().fold(value + b'A', u8::wrapping_add);
    }
}

/// Decodes characters without their padding to the front of a place, and returns the number of bytes. `None` means that
/// one is none of the alphabet, that bits after the last byte are set, or that there is no such length or no room.
#[must_use]
pub fn decode(chars: &[u8], place: &mut [u8]) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    {
        if has!("avx512f", "avx512bw", "avx512vl", "avx512vbmi") {
            // SAFETY: the processor has these features.
            return unsafe { x86::decode_avx512(chars, place) };
        }
        if has!("avx2") {
            // SAFETY: the processor has this feature.
            return unsafe { x86::decode_avx2(chars, place) };
        }
    }
    decode_here(chars, place)
}

#[inline(always)]
fn decode_here(chars: &[u8], place: &mut [u8]) -> Option<usize> {
    if chars.len() % 4 == 1 {
        return None;
    }
    let len = chars.len() / 4 * 3 + (chars.len() % 4).saturating_sub(1);
    let place = place.get_mut(..len)?;
    let (blocks, rest) = chars.as_chunks::<CHARS>();
    let (places, rest_place) = place.as_chunks_mut::<BYTES>();
    let mut wrong = 0;
    for (chars, bytes) in blocks.iter().zip(places) {
        wrong |= decode_block(chars, bytes);
    }
    // The rest is a block too: its missing characters have no bits.
    let (mut block, mut bytes) = (Zeroizing::new([b'A'; CHARS]), Zeroizing::new([0; BYTES]));
    block[..rest.len()].copy_from_slice(rest);
    wrong |= decode_block(&block, &mut bytes);
    let (decoded, behind) = bytes.split_at(rest_place.len());
    rest_place.copy_from_slice(decoded);
    wrong |= behind[0];
    (wrong == 0).then_some(len)
}

/// Encodes bytes with padding.
///
/// # Panics
/// If the place has not the length of `4 * bytes.len().div_ceil(3)` characters.
pub fn encode(bytes: &[u8], place: &mut [u8]) {
    assert_eq!(place.len(), 4 * bytes.len().div_ceil(3), "the room for base64");
    #[cfg(target_arch = "x86_64")]
    {
        if has!("avx512f", "avx512bw", "avx512vl", "avx512vbmi") {
            // SAFETY: the processor has these features.
            return unsafe { x86::encode_avx512(bytes, place) };
        }
        if has!("avx2") {
            // SAFETY: the processor has this feature.
            return unsafe { x86::encode_avx2(bytes, place) };
        }
    }
    encode_here(bytes, place);
}

/// The same, compiled for more than the least of these processors.
#[cfg(target_arch = "x86_64")]
mod x86 {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    pub fn decode_avx512(chars: &[u8], place: &mut [u8]) -> Option<usize> {
        super::decode_here(chars, place)
    }

    #[target_feature(enable = "avx2")]
    pub fn decode_avx2(chars: &[u8], place: &mut [u8]) -> Option<usize> {
        super::decode_here(chars, place)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    pub fn encode_avx512(bytes: &[u8], place: &mut [u8]) {
        super::encode_here(bytes, place);
    }

    #[target_feature(enable = "avx2")]
    pub fn encode_avx2(bytes: &[u8], place: &mut [u8]) {
        super::encode_here(bytes, place);
    }
}

#[inline(always)]
fn encode_here(bytes: &[u8], place: &mut [u8]) {
    let (blocks, rest) = bytes.as_chunks::<BYTES>();
    let (places, rest_place) = place.split_at_mut(blocks.len() * CHARS);
    for (bytes, chars) in blocks.iter().zip(places.as_chunks_mut::<CHARS>().0) {
        encode_block(bytes, chars);
    }
    let (mut block, mut chars) = (Zeroizing::new([0; BYTES]), Zeroizing::new([0; CHARS]));
    block[..rest.len()].copy_from_slice(rest);
    encode_block(&block, &mut chars);
    let padding = (3 - rest.len() % 3) % 3;
    let (own, padded) = rest_place.split_at_mut(rest_place.len() - padding);
    own.copy_from_slice(&chars[..own.len()]);
    padded.fill(b'=');
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64ct::{Base64, Encoding};

    type Decode = fn(&[u8], &mut [u8]) -> Option<usize>;
    type Encode = fn(&[u8], &mut [u8]);

    /// All that this processor has.
    fn levels() -> Vec<(Decode, Encode)> {
        let mut levels: Vec<(Decode, Encode)> = vec![(decode, encode), (decode_here, encode_here)];
        #[cfg(target_arch = "x86_64")]
        if has!("avx2") {
            // SAFETY: the processor has this feature.
            levels.push((|c, p| unsafe { x86::decode_avx2(c, p) }, |b, p| unsafe { x86::encode_avx2(b, p) }));
        }
        levels
    }

    fn decoded(by: Decode, text: &str) -> Option<Vec<u8>> {
        let chars = text.trim_end_matches('=');
        let mut place = vec![0xa5; text.len()];
        let len = by(chars.as_bytes(), &mut place)?;
        place.truncate(len);
        Some(place)
    }

    #[test]
    fn every_length_is_encoded_and_decoded_as_a_library_does() {
        let bytes: Vec<u8> = (0..200_u32).map(|i| (i * 151 + 7) as u8).collect();
        for (decode, encode) in levels() {
            for len in (0..bytes.len()).step_by(if cfg!(miri) { 37 } else { 1 }) {
                let wanted = Base64::encode_string(&bytes[..len]);
                let mut place = vec![0; wanted.len()];
                encode(&bytes[..len], &mut place);
                assert_eq!(str::from_utf8(&place).unwrap(), wanted);
                assert_eq!(decoded(decode, &wanted).unwrap(), &bytes[..len], "{len}");
            }
        }
    }

    #[test]
    fn every_character_at_every_place_is_taken_as_a_library_does() {
        // Miri takes a few places and bytes.
        for len in [4, 64, 68, 128, 132] {
            for place in (0..len).step_by(if cfg!(miri) { 61 } else { 1 }) {
                for byte in (0..=127).step_by(if cfg!(miri) { 43 } else { 1 }).filter(|byte| *byte != b'=') {
                    let mut text = vec![b'Q'; len];
                    text[place] = byte;
                    let text = String::from_utf8(text).unwrap();
                    let wanted = Base64::decode_vec(&text).ok();
                    levels().iter().for_each(|(by, _)| assert_eq!(decoded(*by, &text), wanted, "{text:?}"));
                }
            }
        }
    }

    #[test]
    fn bits_after_the_end_are_refused_and_so_is_too_little_room() {
        for (by, _) in levels() {
            for end in ["QR==", "QUJ=", "Q", "QUJDR"] {
                assert_eq!(decoded(by, end), None, "{end}");
            }
            assert_eq!(by(b"QUJD", &mut [0; 2]), None);
        }
    }
}
