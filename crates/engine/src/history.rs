//! The contents of a session, append-only and journaled first, and the view of them that is
//! sent.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parallax_protocol::content::{Content, Part, PartView, Role, SealedContent};
use parallax_protocol::context::ResultLocation;
use parallax_protocol::event::CompactionMethod;
use parallax_protocol::store::{
    CompactionRecord, ContentRecord, HookContinuation, PinRecord, Record, Store,
};

use crate::view::{self, EntryOrigin, ViewEntry};

/// What the journal stores about a content besides its wire form.
#[derive(Debug, Default)]
pub(crate) struct ContentMetadata {
    pub(crate) display: Option<String>,
    pub(crate) labeled_text: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) usage: Option<parallax_protocol::model::Usage>,
    pub(crate) thoughts: Vec<String>,
    pub(crate) partial: bool,
    pub(crate) synthetic: bool,
    pub(crate) turn: Option<u64>,
    pub(crate) command: Option<String>,
    pub(crate) continuation: Option<HookContinuation>,
}

impl ContentMetadata {
    /// Creates the metadata of a content that the program generated.
    pub(crate) fn synthetic() -> Self {
        Self { synthetic: true, ..Self::default() }
    }
}

/// How long providers keep a prompt in their caches, at least.
const CACHE_TIME: Duration = Duration::from_secs(5 * 60);

/// Prompt tokens that a provider had in its cache.
struct CachedPrompt {
    model: String,
    tokens: u64,
    /// When the request ended.
    time: Instant,
    epoch: u64,
}

pub(crate) struct History {
    contents: Vec<SealedContent>,
    /// The view that is sent.
    view: Vec<ViewEntry>,
    /// The active compactions, oldest first: the newest defines the view.
    compactions: Vec<CompactionRecord>,
    pins: BTreeSet<ResultLocation>,
    /// Incremented when the view changes other than by appending.
    epoch: u64,
    /// The service's token count of a request with this many contents.
    counted_tokens: Option<(usize, u64)>,
    /// What the provider read from its cache for the last request.
    cached: Option<CachedPrompt>,
    store: Arc<dyn Store>,
    /// The first storage error, until it is reported.
    storage_error: Option<String>,
    storage_error_reported: bool,
}

impl History {
    pub(crate) fn new(
        contents: Vec<SealedContent>,
        compactions: Vec<CompactionRecord>,
        pins: BTreeSet<ResultLocation>,
        store: Arc<dyn Store>,
    ) -> Self {
        let mut history = Self {
            contents,
            view: Vec::new(),
            compactions,
            pins,
            epoch: 0,
            counted_tokens: None,
            cached: None,
            store,
            storage_error: None,
            storage_error_reported: false,
        };
        history.rebuild_view();
        history
    }

    /// Rebuilds the view. A compaction that does not fit is skipped.
    fn rebuild_view(&mut self) {
        self.epoch += 1;
        let newest = self.compactions.iter().rev();
        let mut views = newest.map(|compaction| view::compacted_view(compaction, &self.contents));
        self.view = views.find_map(|view| view).unwrap_or_else(|| {
            let contents = self.contents.iter().cloned().zip(0..);
            contents
                .map(|(content, at)| ViewEntry::new(content, EntryOrigin::Original(at)))
                .collect()
        });
    }

    /// Identifies the view, ignoring appended entries.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the view that is sent.
    pub(crate) fn view(&self) -> &[ViewEntry] {
        &self.view
    }

    /// Records a compaction and uses its view. `after` is the estimated size of a request with it.
    pub(crate) fn compact(
        &mut self,
        view: Vec<ViewEntry>,
        how: CompactionMethod,
        before: u64,
        after: u64,
    ) {
        let compaction = CompactionRecord {
            time: now(),
            at: self.contents.len(),
            how,
            before,
            after,
            pieces: view::pieces_of(&view),
        };
        self.record(&Record::Compaction(compaction.clone()));
        self.compactions.push(compaction);
        self.epoch += 1;
        self.counted_tokens = Some((self.contents.len(), after));
        self.view = view;
    }

    /// Uses this view until the next compaction, without recording it.
    pub(crate) fn show(&mut self, view: Vec<ViewEntry>) {
        self.epoch += 1;
        self.view = view;
    }

    /// Undoes the newest compaction, if there is one.
    pub(crate) fn undo_compaction(&mut self) -> bool {
        if self.compactions.pop().is_none() {
            return false;
        }
        self.record(&Record::CompactionUndone { time: now() });
        self.counted_tokens = None;
        self.rebuild_view();
        true
    }

    /// Results that no compaction changes.
    pub(crate) fn pins(&self) -> &BTreeSet<ResultLocation> {
        &self.pins
    }

    /// Pins or unpins a result.
    pub(crate) fn pin(&mut self, position: ResultLocation, on: bool) {
        let changed = if on { self.pins.insert(position) } else { self.pins.remove(&position) };
        if changed {
            self.record(&Record::Pin(PinRecord { place: position, on }));
        }
    }

    pub(crate) fn contents(&self) -> &[SealedContent] {
        &self.contents
    }

    pub(crate) fn len(&self) -> usize {
        self.contents.len()
    }

    pub(crate) fn last_role(&self) -> Option<Role> {
        self.contents.last().map(SealedContent::role)
    }

    /// Whether the model called tools.
    pub(crate) fn has_calls(&self) -> bool {
        let calls =
            |content: &SealedContent| content.open().is_ok_and(|it| it.calls().next().is_some());
        self.contents.iter().any(calls)
    }

    /// Whether the newest content holds tool results.
    pub(crate) fn ends_with_results(&self) -> bool {
        let opened = self.contents.last().and_then(|content| content.open().ok());
        opened.is_some_and(|content| {
            content.parts.iter().any(|part| matches!(part.view(), PartView::Response(_)))
        })
    }

    /// Seals, journals, and appends a content.
    pub(crate) fn push(&mut self, content: &Content, remarks: ContentMetadata) {
        let sealed = match &remarks.model {
            Some(model) => content.seal_for(model),
            None => content.seal(),
        };
        let opaque = sealed.origin().map(|origin| origin.opaque.clone()).unwrap_or_default();
        self.record(&Record::Content(ContentRecord {
            time: now(),
            wire: sealed.clone(),
            display: remarks.display,
            labeled_text: remarks.labeled_text,
            model: remarks.model,
            opaque,
            usage: remarks.usage,
            thoughts: remarks.thoughts,
            turn: remarks.turn,
            command: remarks.command,
            continuation: remarks.continuation,
            partial: remarks.partial,
            synthetic: remarks.synthetic,
        }));
        self.append(sealed);
    }

    /// Appends a content whose records are already in the journal.
    pub(crate) fn append(&mut self, content: SealedContent) {
        self.view.push(ViewEntry::new(content.clone(), EntryOrigin::Original(self.contents.len())));
        self.contents.push(content);
    }

    /// Removes the last content from memory. The journal drops it when the complete answer that
    /// contains it is recorded.
    pub(crate) fn take_last(&mut self) {
        self.contents.pop();
        self.rebuild_view();
    }

    /// Appends a generated user content.
    pub(crate) fn push_note(&mut self, text: &str) {
        self.push(&Content::user(vec![Part::text(text)]), ContentMetadata::synthetic());
    }

    /// Removes the contents after the first `keep_contents`.
    pub(crate) fn truncate(&mut self, keep_contents: usize) {
        self.contents.truncate(keep_contents);
        self.pins.retain(|position| position.content < keep_contents);
        let compactions = self.compactions.len();
        self.compactions.retain(|compaction| compaction.at <= keep_contents);
        if self.compactions.len() < compactions {
            self.counted_tokens = None;
        }
        self.rebuild_view();
        self.counted_tokens =
            self.counted_tokens.filter(|(contents, _)| *contents <= keep_contents);
        self.record(&Record::Truncate { keep_contents });
    }

    /// Replaces the contents in memory (a repair that the service required); the journal keeps the
    /// originals.
    pub(crate) fn replace(&mut self, contents: Vec<SealedContent>) {
        self.contents = contents;
        self.rebuild_view();
    }

    pub(crate) fn record(&mut self, record: &Record) {
        if let Err(error) = self.store.append(record) {
            self.record_storage_error(error.message);
        }
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    pub(crate) fn record_storage_error(&mut self, error: String) {
        self.storage_error.get_or_insert(error);
    }

    /// Returns the storage error; returned once per session.
    pub(crate) fn take_storage_error(&mut self) -> Option<String> {
        let error = self.storage_error.take()?;
        let was_reported = std::mem::replace(&mut self.storage_error_reported, true);
        (!was_reported).then_some(error)
    }

    /// Sets the service's token count of a request with the first `contents` contents.
    pub(crate) fn set_token_count(&mut self, contents: usize, prompt_tokens: u64) {
        if prompt_tokens > 0 {
            self.counted_tokens = Some((contents, prompt_tokens));
        }
    }

    /// Sets how many prompt tokens of the last request the provider read from its cache.
    pub(crate) fn set_cached(&mut self, model: &str, tokens: u64) {
        let (model, time, epoch) = (model.to_owned(), Instant::now(), self.epoch);
        self.cached = Some(CachedPrompt { model, tokens, time, epoch });
    }

    /// Returns how many prompt tokens of the next request the provider probably reads from its
    /// cache: those of the last one, if it was a moment ago and has the same beginning.
    pub(crate) fn cached_tokens(&self, model: &str) -> u64 {
        let is_same = |cached: &&CachedPrompt| {
            cached.model == model
                && cached.epoch == self.epoch
                && cached.time.elapsed() < CACHE_TIME
        };
        self.cached.as_ref().filter(is_same).map_or(0, |cached| cached.tokens)
    }

    /// Returns the estimated tokens of the next request, including `fixed` (system prompt and
    /// tools): the service's last count plus an estimate of later contents.
    pub(crate) fn estimate(&self, fixed: u64) -> u64 {
        match self.counted_tokens {
            Some((contents, count)) if contents <= self.contents.len() => {
                let newest = self.view.iter().rev();
                let since = newest.take_while(|entry| {
                    entry.origin.content_index().is_some_and(|position| position >= contents)
                });
                count + since.map(|entry| entry.tokens).sum::<u64>()
            }
            _ => fixed + view::tokens_of(&self.view),
        }
    }
}

/// Returns the time of a record: RFC 3339, UTC, milliseconds.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
