//! Messages for engines that only run jobs: they are copied in, run and copied out.

use crate::Suite;
use crate::batch::key::derive;
use crate::batch::message::{Message, front};
use crate::error::Fault;
use crate::op::Op;
use crate::seam::{Bind, Engine, Job, Unit, Verdicts};
use phalanx_kernels::aes::BLOCK;
use phalanx_kernels::keccak;

/// Seals or opens messages through the engine's buffers. Returns those that failed. After a fault all messages are as
/// they were.
pub(crate) fn by_jobs(
    engine: &dyn Engine,
    op: Op,
    suite: Suite,
    messages: &mut [Message<'_>],
) -> Result<Verdicts, Fault> {
    let info = engine.info();
    let most = info.preferred_job.min(info.largest_job);
    let mut jobs: Vec<(Job, Verdicts)> = Vec::new();
    let mut rest = &*messages;
    while !rest.is_empty() {
        let (group, behind) = rest.split_at(front(rest, most));
        let mut job = job(engine, op, suite, group)?;
        let verdicts = engine.run(&mut job)?;
        job.wipe(&verdicts);
        jobs.push((job, verdicts));
        rest = behind;
    }
    let mut failed = Vec::new();
    let mut first = 0;
    for (job, verdicts) in &jobs {
        failed.extend(verdicts.failed().iter().map(|i| first + i));
        for (message, unit) in messages[first..].iter_mut().zip(&job.units) {
            let (head, data) = message.data.split_at_mut(suite.overhead());
            data.copy_from_slice(&job.buf[unit.data.clone()]);
            head[suite.nonce_len()..].copy_from_slice(&unit.tag[..suite.tag_len()]);
        }
        first += job.units.len();
    }
    Ok(Verdicts::from_failed(failed))
}

/// A copy of the messages, each after its associated data.
fn job(engine: &dyn Engine, op: Op, suite: Suite, messages: &[Message<'_>]) -> Result<Job, Fault> {
    let (which, keys) = derive(keccak::Level::detect(), suite, messages);
    // Devices work best on data that begin on a block boundary.
    let start = |at: usize, message: &Message| (at + message.ad.len()).next_multiple_of(BLOCK);
    let len = messages.iter().fold(0, |at, m| start(at, m) + m.data.len() - suite.overhead());
    // Cloned, because converting it would leave keys in memory that is not wiped.
    let mut job = Job::of_messages(op, suite, keys.iter().cloned().collect(), engine.buffer(len)?);
    let mut at = 0;
    for (message, key) in messages.iter().zip(which) {
        let (head, data) = message.data.split_at(suite.overhead());
        let start = start(at, message);
        let ad = start - message.ad.len()..start;
        let range = start..start + data.len();
        job.buf[ad.clone()].copy_from_slice(message.ad);
        job.buf[range.clone()].copy_from_slice(data);
        at = range.end;
        let mut unit = Unit { key: key as u32, nonce: [0; 16], bind: Bind::Message { ad }, data: range, tag: [0; 32] };
        let (nonce, tag) = head.split_at(suite.nonce_len());
        unit.nonce[..nonce.len()].copy_from_slice(nonce);
        unit.tag[..tag.len()].copy_from_slice(tag);
        job.units.push(unit);
    }
    Ok(job)
}
