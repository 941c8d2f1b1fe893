//! The encoding of SSH's messages (RFC 4251, section 5), as far as keys, signatures and agents need it.

/// Reads a message from its beginning. Each call returns `None` where the message ends too early.
#[derive(Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32::from_be_bytes(bytes.try_into().expect("four bytes")))
    }

    /// Bytes after their length.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(len.try_into().ok()?)
    }

    pub fn text(&mut self) -> Option<&'a str> {
        str::from_utf8(self.string()?).ok()
    }

    /// A number that is positive, without leading zeros. One that is not written in the shortest way is refused.
    pub fn number(&mut self) -> Option<&'a [u8]> {
        match self.string()? {
            [0, rest @ ..] if rest.first().is_some_and(|first| *first > 127) => Some(rest),
            bytes @ [1..=127, ..] => Some(bytes),
            _ => None,
        }
    }

    /// What was not read.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    /// `Some` if all was read.
    pub fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// Appends bytes after their length, which fits 32 bits: all that is written here is short.
pub fn put_string(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend((bytes.len() as u32).to_be_bytes());
    to.extend(bytes);
}

/// Appends a positive number, which may have leading zeros.
pub fn put_number(to: &mut Vec<u8>, bytes: &[u8]) {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let bytes = &bytes[zeros..];
    let sign = usize::from(bytes.first().is_some_and(|first| *first > 127));
    to.extend(((bytes.len() + sign) as u32).to_be_bytes());
    to.extend(&[0][..sign]);
    to.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_form() {
        for (bytes, written) in [
            (&[0, 0, 1][..], &[0, 0, 0, 1, 1][..]),
            (&[127, 2], &[0, 0, 0, 2, 127, 2]),
            (&[0, 128, 2], &[0, 0, 0, 3, 0, 128, 2]),
        ] {
            let mut to = Vec::new();
            put_number(&mut to, bytes);
            assert_eq!(to, written);
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            assert_eq!(Reader::new(&to).number(), Some(&bytes[zeros..]));
        }
        // Zero, a negative number, and numbers with a zero too many.
        for hostile in [&[0, 0, 0, 0][..], &[0, 0, 0, 1, 128], &[0, 0, 0, 1, 0], &[0, 0, 0, 2, 0, 1], &[0, 0, 0, 2, 1]]
        {
            assert_eq!(Reader::new(hostile).number(), None, "{hostile:?}");
        }
    }

    #[test]
    fn a_length_beyond_the_end_is_refused() {
        assert_eq!(Reader::new(&[0xff; 9]).string(), None);
        assert_eq!(Reader::new(&[0, 0, 0, 4, 1, 2, 3]).string(), None);
        assert_eq!(Reader::new(&[0, 0, 0]).u32(), None);
        assert_eq!(Reader::new(&[]).byte(), None);
    }
}
