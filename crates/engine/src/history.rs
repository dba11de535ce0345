//! The contents of a session: append-only, sealed, journalled before anything
//! else happens.

use std::sync::Arc;

use parallax_protocol::content::{Content, Part, PartView, Role, Sealed};
use parallax_protocol::store::{ContentRecord, Record, Store};

use crate::tokens;

/// What a journal keeps of a content beside its wire form.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    pub(crate) display: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) usage: Option<parallax_protocol::model::Usage>,
    pub(crate) thoughts: Vec<String>,
    pub(crate) partial: bool,
    pub(crate) synthetic: bool,
}

impl Remarks {
    /// A content of the program's making.
    pub(crate) fn synthetic() -> Self {
        Self { synthetic: true, ..Self::default() }
    }
}

pub(crate) struct History {
    contents: Vec<Sealed>,
    estimates: Vec<u64>,
    /// The service's own count of a request that held this many contents.
    counted: Option<(usize, u64)>,
    store: Arc<dyn Store>,
    /// The first failure of the journal, until somebody is told.
    trouble: Option<String>,
    trouble_told: bool,
}

impl History {
    pub(crate) fn new(contents: Vec<Sealed>, store: Arc<dyn Store>) -> Self {
        let estimates = contents.iter().map(|content| tokens::of_content(content.json())).collect();
        Self { contents, estimates, counted: None, store, trouble: None, trouble_told: false }
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
            partial: remarks.partial,
            synthetic: remarks.synthetic,
        }));
        self.keep(sealed);
    }

    /// Keeps a content whose records are in the journal already.
    pub(crate) fn keep(&mut self, content: Sealed) {
        self.estimates.push(tokens::of_content(content.json()));
        self.contents.push(content);
    }

    /// Puts a text of ours at the end of the user's side.
    pub(crate) fn push_note(&mut self, text: &str) {
        self.push(&Content::user(vec![Part::text(text)]), Remarks::synthetic());
    }

    /// Takes back what came after the first `keep` contents.
    pub(crate) fn truncate(&mut self, keep: usize) {
        self.contents.truncate(keep);
        self.estimates.truncate(keep);
        self.record(&Record::Truncate { keep });
    }

    /// Replaces the contents in memory (a repair the service asked for); the
    /// journal keeps what was really said.
    pub(crate) fn replace(&mut self, contents: Vec<Sealed>) {
        self.contents = contents;
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
            Some((contents, count)) if contents <= self.estimates.len() => {
                count + self.estimates.iter().skip(contents).sum::<u64>()
            }
            _ => fixed + self.estimates.iter().sum::<u64>(),
        }
    }
}

/// The time of a record: RFC 3339, UTC, milliseconds.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
