//! Notices to the user.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parallax_protocol::event::{EventBody, ItemDone, Level};
use parallax_protocol::ids::ItemId;

use crate::event_bus::EventBus;

/// Shows notices to the user. Cheap to clone; all clones share the numbering.
#[derive(Clone)]
pub(crate) struct Notices {
    bus: EventBus,
    count: Arc<AtomicU64>,
}

impl Notices {
    pub(crate) fn new(bus: EventBus) -> Self {
        Self { bus, count: Arc::default() }
    }

    fn next(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Shows a notice.
    pub(crate) fn show(&self, level: Level, text: impl Into<String>) {
        self.send(ItemDone::notice(level, text));
    }

    /// Shows a notice of a kind whose wording differs.
    pub(crate) fn show_kind(&self, level: Level, kind: &str, text: impl Into<String>) {
        let kind = Some(kind.to_owned());
        self.send(ItemDone::Notice { level, text: text.into(), kind });
    }

    /// Shows a prepared notice.
    pub(crate) fn send(&self, done: ItemDone) {
        let item = ItemId::new(format!("notice-{}", self.next()));
        self.bus.send(EventBody::ItemDone { item, done });
    }

    /// Returns ids for notices that are sent later, outside the session.
    pub(crate) fn reserve_ids(&self) -> impl Iterator<Item = ItemId> + Send + 'static {
        let number = self.next();
        (1..).map(move |part: u32| ItemId::new(format!("notice-{number}-{part}")))
    }
}
