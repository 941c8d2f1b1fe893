//! An object as the source of a reader.

use phalanx_core::ReadAt;
use phalanx_host::lock::lock;
use std::io;
use std::sync::{Arc, Mutex};

/// The most bytes of a chunk's nonce and tag.
const HEAD: usize = 48;

/// An object that is opened. Its last chunk is read as a whole when it is opened, and its nonce and tag are kept: they are
/// compared with the manifest, without another request.
pub struct ObjectSource {
    object: Arc<dyn ReadAt + Send + Sync>,
    /// Where the last chunk begins, and its first bytes: all of them, if they are fewer than those of a nonce and a tag.
    last: Mutex<Option<(u64, Vec<u8>)>>,
}

impl ObjectSource {
    pub fn new(object: Arc<dyn ReadAt + Send + Sync>) -> Self {
        Self { object, last: Mutex::default() }
    }
}

impl ReadAt for ObjectSource {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some((at, head)) = &*lock(&self.last)
            && *at == offset
            && buf.len() <= HEAD
        {
            let len = buf.len().min(head.len());
            buf[..len].copy_from_slice(&head[..len]);
            return Ok(len);
        }
        let len = self.object.read_at(buf, offset)?;
        if len > 0 && offset.checked_add(len as u64) == self.object.size().ok() {
            let mut last = lock(&self.last);
            // A long header may be read up to the end too.
            if last.as_ref().is_none_or(|(at, _)| *at <= offset) {
                *last = Some((offset, buf[..len.min(HEAD)].to_vec()));
            }
        }
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        self.object.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Counted(Vec<u8>, AtomicUsize);

    impl ReadAt for Counted {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.read_at(buf, offset)
        }

        fn size(&self) -> io::Result<u64> {
            self.0.size()
        }
    }

    #[test]
    fn the_head_of_the_last_read_to_the_end_is_kept() {
        let object = Arc::new(Counted((0..200).collect(), AtomicUsize::new(0)));
        let source = ObjectSource::new(object.clone());
        let mut buf = [0; 100];
        assert_eq!(source.read_at(&mut buf, 100).unwrap(), 100);
        for len in [28, 48] {
            assert_eq!(source.read_at(&mut buf[..len], 100).unwrap(), len);
            assert!((100..).zip(&buf[..len]).all(|(expected, byte)| *byte == expected));
        }
        assert_eq!(object.1.load(Ordering::Relaxed), 1);
        assert_eq!(source.read_at(&mut buf[..49], 100).unwrap(), 49);
        assert_eq!(source.read_at(&mut buf[..10], 190).unwrap(), 10);
        assert_eq!(source.read_at(&mut buf[..10], 101).unwrap(), 10);
        assert_eq!((object.1.load(Ordering::Relaxed), buf[0]), (4, 101));
    }

    /// In the suite aes-256-gcm nonce and tag have 28 bytes.
    #[test]
    fn the_head_of_a_short_last_chunk_is_kept_too() {
        for len in [28, 30] {
            let object = Arc::new(Counted((0..200).collect(), AtomicUsize::new(0)));
            let (source, mut buf, at) = (ObjectSource::new(object.clone()), [0; 200], 200 - len as u64);
            assert_eq!(source.read_at(&mut buf[..len], at).unwrap(), len);
            // Neither the end itself nor a longer read up to it takes its place.
            assert_eq!(source.read_at(&mut buf, 200).unwrap(), 0);
            assert_eq!(source.read_at(&mut buf, 0).unwrap(), 200);
            assert_eq!(source.read_at(&mut buf[..28], at).unwrap(), 28);
            assert_eq!((u64::from(buf[0]), u64::from(buf[27])), (at, at + 27));
            assert_eq!(source.read_at(&mut buf[..HEAD], at).unwrap(), len);
            assert_eq!(object.1.load(Ordering::Relaxed), 3);
        }
    }
}
