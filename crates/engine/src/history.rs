//! The contents of a session: append-only, sealed, journalled before anything
//! else happens; and the view of them that goes out.

use std::collections::BTreeSet;
use std::sync::Arc;

use parallax_protocol::content::{Content, Part, PartView, Role, Sealed};
use parallax_protocol::context::ResultPlace;
use parallax_protocol::event::CompactionHow;
use parallax_protocol::store::{CompactionRecord, ContentRecord, PinRecord, Record, Store};

use crate::view::{self, Entry, Origin};

/// What a journal keeps of a content beside its wire form.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    pub(crate) display: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) usage: Option<parallax_protocol::model::Usage>,
    pub(crate) thoughts: Vec<String>,
    pub(crate) partial: bool,
    pub(crate) synthetic: bool,
    pub(crate) turn: Option<u64>,
    pub(crate) command: Option<String>,
}

impl Remarks {
    /// A content of the program's making.
    pub(crate) fn synthetic() -> Self {
        Self { synthetic: true, ..Self::default() }
    }
}

pub(crate) struct History {
    contents: Vec<Sealed>,
    /// What goes out.
    view: Vec<Entry>,
    /// The compactions that count, oldest first: the newest makes the view.
    compactions: Vec<CompactionRecord>,
    pins: BTreeSet<ResultPlace>,
    /// Grows when the view changes otherwise than at its end.
    epoch: u64,
    /// The service's own count of a request that stood for this many contents.
    counted: Option<(usize, u64)>,
    store: Arc<dyn Store>,
    /// The first failure of the journal, until somebody is told.
    trouble: Option<String>,
    trouble_told: bool,
}

impl History {
    pub(crate) fn new(
        contents: Vec<Sealed>,
        compactions: Vec<CompactionRecord>,
        pins: BTreeSet<ResultPlace>,
        store: Arc<dyn Store>,
    ) -> Self {
        let mut history = Self {
            contents,
            view: Vec::new(),
            compactions,
            pins,
            epoch: 0,
            counted: None,
            store,
            trouble: None,
            trouble_told: false,
        };
        history.look_again();
        history
    }

    /// Makes the view anew. A compaction that does not fit is passed over.
    fn look_again(&mut self) {
        self.epoch += 1;
        let newest = self.compactions.iter().rev();
        let mut views = newest.map(|compaction| view::under(compaction, &self.contents));
        self.view = views.find_map(|view| view).unwrap_or_else(|| {
            let contents = self.contents.iter().cloned().zip(0..);
            contents.map(|(content, at)| Entry::new(content, Origin::Whole(at))).collect()
        });
    }

    /// A number that stands for the view, up to what is added to its end.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What goes out.
    pub(crate) fn view(&self) -> &[Entry] {
        &self.view
    }

    /// Journals and takes a shorter form of all contents so far. `after` is the
    /// estimate of a request with it.
    pub(crate) fn compact(
        &mut self,
        view: Vec<Entry>,
        how: CompactionHow,
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
        self.counted = Some((self.contents.len(), after));
        self.view = view;
    }

    /// Sends this instead until the next compaction; nothing is recorded.
    pub(crate) fn show(&mut self, view: Vec<Entry>) {
        self.epoch += 1;
        self.view = view;
    }

    /// Takes the newest compaction back, if there is one.
    pub(crate) fn undo_compaction(&mut self) -> bool {
        if self.compactions.pop().is_none() {
            return false;
        }
        self.record(&Record::CompactionUndone { time: now() });
        self.counted = None;
        self.look_again();
        true
    }

    /// Results that no compaction touches.
    pub(crate) fn pins(&self) -> &BTreeSet<ResultPlace> {
        &self.pins
    }

    /// Holds on to a result, or lets go of it.
    pub(crate) fn pin(&mut self, place: ResultPlace, on: bool) {
        let changed = if on { self.pins.insert(place) } else { self.pins.remove(&place) };
        if changed {
            self.record(&Record::Pin(PinRecord { place, on }));
        }
    }

    pub(crate) fn contents(&self) -> &[Sealed] {
        &self.contents
    }

    pub(crate) fn len(&self) -> usize {
        self.contents.len()
    }

    pub(crate) fn last_role(&self) -> Option<Role> {
        self.contents.last().map(Sealed::role)
    }

    /// Whether the newest content holds results of tools.
    pub(crate) fn ends_with_results(&self) -> bool {
        let opened = self.contents.last().and_then(|content| content.open().ok());
        opened.is_some_and(|content| {
            content.parts.iter().any(|part| matches!(part.view(), PartView::Response(_)))
        })
    }

    /// Seals, journals and keeps a content.
    pub(crate) fn push(&mut self, content: &Content, remarks: Remarks) {
        let sealed = content.seal();
        self.record(&Record::Content(ContentRecord {
            time: now(),
            wire: sealed.clone(),
            display: remarks.display,
            model: remarks.model,
            usage: remarks.usage,
            thoughts: remarks.thoughts,
            turn: remarks.turn,
            command: remarks.command,
            partial: remarks.partial,
            synthetic: remarks.synthetic,
        }));
        self.keep(sealed);
    }

    /// Keeps a content whose records are in the journal already.
    pub(crate) fn keep(&mut self, content: Sealed) {
        self.view.push(Entry::new(content.clone(), Origin::Whole(self.contents.len())));
        self.contents.push(content);
    }

    /// Puts a text of ours at the end of the user's side.
    pub(crate) fn push_note(&mut self, text: &str) {
        self.push(&Content::user(vec![Part::text(text)]), Remarks::synthetic());
    }

    /// Takes back what came after the first `keep` contents.
    pub(crate) fn truncate(&mut self, keep: usize) {
        self.contents.truncate(keep);
        self.pins.retain(|place| place.content < keep);
        let made = self.compactions.len();
        self.compactions.retain(|compaction| compaction.at <= keep);
        if self.compactions.len() < made {
            self.counted = None;
        }
        self.look_again();
        self.counted = self.counted.filter(|(contents, _)| *contents <= keep);
        self.record(&Record::Truncate { keep });
    }

    /// Replaces the contents in memory (a repair the service asked for); the
    /// journal keeps what was really said.
    pub(crate) fn replace(&mut self, contents: Vec<Sealed>) {
        self.contents = contents;
        self.look_again();
    }

    pub(crate) fn record(&mut self, record: &Record) {
        if let Err(error) = self.store.append(record) {
            self.note_trouble(error.message);
        }
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    pub(crate) fn note_trouble(&mut self, trouble: String) {
        self.trouble.get_or_insert(trouble);
    }

    /// The failure, once in a session.
    pub(crate) fn take_trouble(&mut self) -> Option<String> {
        let trouble = self.trouble.take()?;
        let told = std::mem::replace(&mut self.trouble_told, true);
        (!told).then_some(trouble)
    }

    /// The service counted a request that held the first `contents` contents.
    pub(crate) fn counted(&mut self, contents: usize, prompt_tokens: u64) {
        if prompt_tokens > 0 {
            self.counted = Some((contents, prompt_tokens));
        }
    }

    /// Tokens of the next request, `fixed` (system prompt, tools) included:
    /// the service's last count and an estimate of what came since.
    pub(crate) fn estimate(&self, fixed: u64) -> u64 {
        match self.counted {
            Some((contents, count)) if contents <= self.contents.len() => {
                let newest = self.view.iter().rev();
                let since = newest.take_while(|entry| {
                    entry.origin.place().is_some_and(|place| place >= contents)
                });
                count + since.map(|entry| entry.tokens).sum::<u64>()
            }
            _ => fixed + view::tokens_of(&self.view),
        }
    }
}

/// The time of a record: RFC 3339, UTC, milliseconds.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
