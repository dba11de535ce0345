//! The account that is written beside the work, before it is needed, so that
//! nobody waits for it.

use parallax_protocol::CancellationToken;
use tokio::task::JoinHandle;

use super::shorten::Reach;
use super::split::Split;
use super::when::goal;
use super::{ANSWERS, Material, snapshot};
use crate::session::Session;
use crate::view::tokens_of;

/// An account that is written beside the work.
pub(super) struct Job {
    writing: JoinHandle<Result<String, String>>,
    /// It covers the contents before this place.
    covers: usize,
    /// The state of the history that it is for.
    pub(super) epoch: u64,
    cancel: CancellationToken,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Session {
    /// What was written ahead, with the cut that it is for.
    pub(super) async fn written(
        &mut self,
        mut job: Job,
        material: &Material,
        cancel: &CancellationToken,
    ) -> Option<(Split, String)> {
        let split = Split::by_place(&material.short, material.active, job.covers)?;
        let writing =
            async { (&mut job.writing).await.unwrap_or_else(|_| Err("it crashed".into())) };
        let snapshot = self.inbox.during(until(writing, cancel)).await.ok()?;
        Some((split, snapshot))
    }

    pub(super) fn is_writing(&self) -> bool {
        self.compacting.job.as_ref().is_some_and(|job| !job.writing.is_finished())
    }

    /// Begins to write the account beside the work, so that nobody waits for it.
    pub(super) async fn write_ahead(&mut self, model: &str, mark: u64) {
        let epoch = self.history.epoch();
        let written = self.compacting.job.as_ref().is_some_and(|job| job.epoch == epoch);
        if written || !self.compacting.accounts.are_asked_for() {
            return;
        }
        let reach = Reach { at_least: 0, notes: true, ..self.compacting.room.reach(mark) };
        // Files are written when it comes to that.
        let keep_output = self.compacting.room.keep_output.take();
        let material = self.material(reach).await;
        self.compacting.room.keep_output = keep_output;
        if material.estimate(&material.short) <= goal(material.before) {
            return;
        }
        // More will have come when it is taken.
        let budget = tokens_of(&material.short) / 8;
        let Some(split) = Split::by_size(&material.short, material.active, budget, ANSWERS) else {
            return;
        };
        if !material.pays(split) {
            return;
        }
        let from = material.view.iter().skip(split.tail);
        let Some(covers) = from.filter_map(|entry| entry.origin.place()).next() else { return };
        let order = self.order(&material, split, None, model);
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        let writing =
            tokio::spawn(async move { until(snapshot::write(&order, &stop), &stop).await });
        self.compacting.job = Some(Job { writing, covers, epoch, cancel });
    }
}

/// Waits for a writer, or until it is not wanted any more.
pub(super) async fn until(
    writing: impl Future<Output = Result<String, String>>,
    cancel: &CancellationToken,
) -> Result<String, String> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err("it was interrupted".into()),
        written = writing => written,
    }
}
