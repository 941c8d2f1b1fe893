//! Ranges as the command line writes them: `1G-1G+64K`, `1G-`, `-64K`.

use phalanx_host::args::bytes;
use std::ops::Range;
use std::str::FromStr;

/// Which bytes of the plaintext are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteRange {
    /// From the first number on, up to the second, which does not belong to it.
    Between(u64, u64),
    /// From here on.
    From(u64),
    /// This many bytes at the end.
    Last(u64),
}

const FORM: &str = "A-B (B exclusive), A- or -N, in bytes, such as 1G-1G+64K";

impl FromStr for ByteRange {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |text| sum(text).ok_or(FORM);
        let (start, end) = text.split_once('-').ok_or(FORM)?;
        match (start, end) {
            ("", end) => Some(number(end)?).filter(|n| *n > 0).map(ByteRange::Last),
            (start, "") => Some(ByteRange::From(number(start)?)),
            (start, end) => {
                let (start, end) = (number(start)?, number(end)?);
                (start < end).then_some(ByteRange::Between(start, end))
            }
        }
        .ok_or("a range with at least one byte (B is exclusive)")
    }
}

impl ByteRange {
    /// The range in a plaintext of `len` bytes, cut at its end. `None` if the plaintext has none of these bytes.
    pub fn within(self, len: u64) -> Option<Range<u64>> {
        let range = match self {
            ByteRange::Between(start, end) => start..end.min(len),
            ByteRange::From(start) => start..len,
            ByteRange::Last(count) => len.saturating_sub(count)..len,
        };
        (range.start < range.end).then_some(range)
    }
}

/// Sizes with a plus between them.
fn sum(text: &str) -> Option<u64> {
    text.split('+').try_fold(0u64, |sum, text| sum.checked_add(bytes(text)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_range_is_parsed() {
        let cases = [
            ("0-1", ByteRange::Between(0, 1)),
            ("5-", ByteRange::From(5)),
            ("0-", ByteRange::From(0)),
            ("-5", ByteRange::Last(5)),
            ("-64K", ByteRange::Last(65536)),
            ("1G-1G+64K", ByteRange::Between(1 << 30, (1 << 30) + 65536)),
            ("1k+1-2M+3+1K", ByteRange::Between(1025, (2 << 20) + 1027)),
            ("1T-", ByteRange::From(1 << 40)),
            ("18446744073709551615-", ByteRange::From(u64::MAX)),
        ];
        for (text, range) in cases {
            assert_eq!(text.parse(), Ok(range), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "-",
            "--",
            "5",
            "a-b",
            "5-4",
            "5-5",
            "-0",
            "1-2-3",
            "1G--5",
            "+1-2",
            "1+-2",
            "1-2+",
            "1.5G-2G",
            "1KB-2KB",
            "1 -2",
            "0x10-0x20",
            "18446744073709551616-",
            "16777216T-",
            "-18446744073709551615+1",
            "1-٣",
            "K-2K",
        ] {
            assert!(text.parse::<ByteRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn ranges_are_cut_at_the_end_of_the_plaintext() {
        let cases = [
            (ByteRange::Between(2, 5), 10, Some(2..5)),
            (ByteRange::Between(2, 50), 10, Some(2..10)),
            (ByteRange::Between(10, 50), 10, None),
            (ByteRange::From(9), 10, Some(9..10)),
            (ByteRange::From(10), 10, None),
            (ByteRange::From(0), 0, None),
            (ByteRange::Last(3), 10, Some(7..10)),
            (ByteRange::Last(30), 10, Some(0..10)),
            (ByteRange::Last(1), 0, None),
        ];
        for (range, len, expected) in cases {
            assert_eq!(range.within(len), expected, "{range:?} of {len}");
        }
    }
}
