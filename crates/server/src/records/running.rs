//! Batches that workers seal or open, in the order of their records.

use super::collect::Full;
use crate::audit::Note;
use crate::batch::Batch;
use crate::refusal::Refusal;
use crate::rights::Action;
use crate::server::Server;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

/// What comes of a batch.
type Outcome = Result<Batch, Refusal>;

/// The batches on which work goes on.
#[derive(Default)]
pub struct Running(VecDeque<Run>);

struct Run {
    future: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    outcome: Option<Outcome>,
    count: usize,
    cost: usize,
    note: Note,
}

/// A batch on which the work is over.
pub struct Done {
    /// What came of it.
    pub outcome: Outcome,
    /// The number of its records.
    pub count: usize,
    /// What they count as.
    pub cost: usize,
    /// For the audit log.
    pub note: Note,
}

impl Running {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a batch. Its work begins when [`Running::first`] is awaited next.
    pub fn add(&mut self, server: &Arc<Server>, action: Action, full: Full) {
        let Full { batch, cost, note } = full;
        let (count, server) = (batch.len(), server.clone());
        let future: Pin<Box<dyn Future<Output = Outcome> + Send>> = if action == Action::Rewrap {
            Box::pin(async move { server.rewrap(batch).await })
        } else {
            Box::pin(async move { server.run(batch).await })
        };
        self.0.push_back(Run { future, outcome: None, count, cost, note });
    }

    /// Goes on with all of them until the first one is done.
    pub async fn first(&mut self) -> Done {
        poll_fn(|context| {
            for run in &mut self.0 {
                if run.outcome.is_none()
                    && let Poll::Ready(outcome) = run.future.as_mut().poll(context)
                {
                    run.outcome = Some(outcome);
                }
            }
            let is_done = self.0.front().is_some_and(|run| run.outcome.is_some());
            match if is_done { self.0.pop_front() } else { None } {
                Some(Run { outcome: Some(outcome), count, cost, note, .. }) => {
                    Poll::Ready(Done { outcome, count, cost, note })
                }
                _ => Poll::Pending,
            }
        })
        .await
    }
}
