//! Launches only for the papers' experiments: AES-ECB, AES-CTR of one run of data, and of users whose keys the device
//! expands.

use super::{AesLaunch, Direction, RoundKeys, Span, Spans, stride_log};
use crate::device::{ALIGN, Buffer, Stream};
use crate::error::Result;
use crate::schedule::KEY_WORDS;
use std::ops::Range;
use zeroize::Zeroizing;

/// Users on a device: a span for each, their keys, and room for the round keys that the device expands from them.
#[derive(Debug)]
pub struct Users {
    spans: Spans,
    raw: Buffer,
    round_keys: Buffer,
    key_words: u32,
}

impl AesLaunch {
    /// The parameter that divides one run of `blocks` blocks among threads, and the number of groups.
    fn cut(&self, blocks: u64) -> (u32, u64) {
        if self.bitsliced() {
            let stride_log = stride_log(blocks);
            let threads = blocks.div_ceil(32 << stride_log) << stride_log;
            (stride_log, threads.div_ceil(self.threads.into()))
        } else {
            let span = self.threads * self.granularity;
            (span, blocks.div_ceil(span.into()))
        }
    }
}

impl Stream {
    /// Copies users to the device: a span for each, and the keys that the spans name. The keys are not expanded.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if a span names a missing key. Otherwise as for
    /// [`Stream::round_keys`] and [`Stream::spans`].
    pub fn users(&mut self, spans: &[Span], keys: &[&[u8]]) -> Result<Users> {
        self.users_again(spans, keys, None)
    }

    /// Copies users to the device, as [`Stream::users`] does, into the memory of `old` if that is large enough.
    ///
    /// # Errors
    /// As for [`Stream::users`], and [`Reason::Refused`](crate::Reason::Refused) if `old` is on another device. On an
    /// error, `old` is freed.
    pub fn users_again(&mut self, spans: &[Span], keys: &[&[u8]], old: Option<Users>) -> Result<Users> {
        let len = self.key_len(keys)?;
        let mut raw = Zeroizing::new(vec![0u8; keys.len() * 32]);
        for (to, key) in raw.chunks_mut(32).zip(keys) {
            to[..len].copy_from_slice(key);
        }
        let (old_spans, old_raw, old_round_keys) = match old {
            Some(old) => (Some(old.spans), Some(old.raw), Some(old.round_keys)),
            None => (None, None, None),
        };
        let spans = self.spans_again(spans, old_spans)?;
        if spans.keys as usize > keys.len() {
            return self.device().refuse("a user has no key");
        }
        let room = spans.count as usize * KEY_WORDS * 4;
        let round_keys = match old_round_keys.filter(|old| old.len() >= room) {
            Some(old) => old,
            None => self.buffer(room)?,
        };
        Ok(Users { spans, raw: self.buffer_again(&raw, old_raw)?, round_keys, key_words: len as u32 / 4 })
    }

    /// Starts AES-CTR of the bytes `range` of `data`, in place, under the key with index `key`. The range begins at a
    /// multiple of 16. `counter` is the counter block of its first block.
    ///
    /// P2's GNC is one such launch for each user.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if the range does not begin at a multiple of 16, does not lie in the
    /// data or ends beyond 32 GiB. Otherwise as for [`Stream::aes_ctr_spans`].
    pub fn aes_ctr(
        &mut self,
        launch: &AesLaunch,
        keys: &RoundKeys,
        key: u32,
        counter: &[u8; 16],
        data: &mut Buffer,
        range: Range<usize>,
    ) -> Result<()> {
        launch.check(self)?;
        self.check_keys(keys, key, Direction::Encrypt)?;
        let (at, blocks) = self.blocks(data, &range)?;
        let tail = (range.len() % ALIGN) as u32;
        let (cut, groups) = launch.cut(u64::from(blocks) + u64::from(tail != 0));
        let mut numbers = vec![at, blocks, tail, key, keys.rounds, cut];
        numbers.extend(counter.as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word)));
        let memory = [data.argument(), keys.buffer.argument(), self.table(launch, &keys.buffer, false)?];
        // SAFETY: the kernel writes `blocks` blocks and `tail` bytes of data from `at` on, which `blocks` found there,
        // and reads the round keys of `key`, which are there, and T0.
        unsafe { self.aes(launch, "aes_ctr", groups, &memory, &numbers) }
    }

    /// Starts AES-CTR of users, in place, one in each group. The device expands their keys: P2's GCNS.
    ///
    /// # Errors
    /// As for [`Stream::aes_ctr_spans`], but a span can have any length.
    pub fn aes_ctr_users(&mut self, launch: &AesLaunch, users: &mut Users, data: &mut Buffer) -> Result<()> {
        launch.check(self)?;
        self.check(&users.raw, 0..0)?;
        self.check(data, 0..users.spans.end)?;
        let round_keys = users.round_keys.argument();
        let memory = [
            data.argument(),
            round_keys,
            self.table(launch, &users.raw, false)?,
            users.raw.argument(),
            users.spans.buffer.argument(),
        ];
        // SAFETY: the kernel writes the users' spans, which end within data, and their round keys, for which there is
        // room, and reads the spans, the keys that they name, and T0.
        unsafe { self.aes(launch, "aes_ctr_users", users.spans.count.into(), &memory, &[users.key_words]) }
    }

    /// Starts AES-ECB of the bytes `range` of `data`, in place, under the key with index `key`: P1's layout. The range
    /// is whole blocks from a multiple of 16 on. The direction is that of the keys. With tables, a thread can take any
    /// number of blocks.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if the range is not whole blocks. Otherwise as for
    /// [`Stream::aes_ctr`].
    pub fn aes_ecb(
        &mut self,
        launch: &AesLaunch,
        keys: &RoundKeys,
        key: u32,
        data: &mut Buffer,
        range: Range<usize>,
    ) -> Result<()> {
        let blocks_a_group = launch.threads.checked_mul(launch.granularity);
        if launch.bitsliced() || blocks_a_group.is_none_or(|blocks| blocks == 0) {
            launch.check(self)?;
        }
        self.check_keys(keys, key, keys.direction)?;
        if !range.len().is_multiple_of(ALIGN) {
            return self.device().refuse("AES-ECB takes whole blocks");
        }
        let (at, blocks) = self.blocks(data, &range)?;
        let (cut, groups) = launch.cut(blocks.into());
        let inverse = keys.direction == Direction::Decrypt;
        let memory = [data.argument(), keys.buffer.argument(), self.table(launch, &keys.buffer, inverse)?];
        let entry = if inverse { "aes_ecb_decrypt" } else { "aes_ecb_encrypt" };
        // SAFETY: the kernel writes `blocks` blocks of data from `at` on, which `blocks` found there, and reads the
        // round keys of `key`, which are there, and the table.
        unsafe { self.aes(launch, entry, groups, &memory, &[at, blocks, key, keys.rounds, cut]) }
    }

    /// The first block and the number of whole blocks of a range.
    fn blocks(&self, data: &Buffer, range: &Range<usize>) -> Result<(u32, u32)> {
        self.check(data, range.clone())?;
        if !range.start.is_multiple_of(ALIGN) || range.end.div_ceil(ALIGN) >= 1 << 31 {
            return self.device().refuse("ranges start at multiples of 16 and end within 32 GiB");
        }
        Ok(((range.start / ALIGN) as u32, (range.len() / ALIGN) as u32))
    }
}
