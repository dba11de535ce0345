//! The handle of a running session.

use parallax_protocol::op::Op;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The handle of a running session.
pub struct SessionHandle {
    /// Where operations go.
    pub ops: mpsc::Sender<Op>,
    pub(crate) task: JoinHandle<()>,
}

impl SessionHandle {
    /// Waits until the session is over. Send [`Op::Shutdown`] or drop every sender first.
    pub async fn join(self) {
        drop(self.ops);
        // A panic in the actor is a bug that the crash report has already covered.
        let _ = self.task.await;
    }
}
