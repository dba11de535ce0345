//! What fills the window: every part of a request with about how many tokens
//! it takes.

use std::collections::BTreeMap;

use parallax_protocol::content::{Part, PartView, Role};
use parallax_protocol::context::{
    BlockKind, ContextBlock, ContextItem, ContextPicture, ResultPlace,
};
use parallax_protocol::event::{ContextUsed, EventBody};

use crate::compaction::{Answered, answered, call_words, place_of};
use crate::session::Session;
use crate::tokens;
use crate::view::{Entry, Origin};

/// How the context before a prompt begins.
const PREFACE: &str = "<session_context>";

/// Tokens and pieces by kind and name.
#[derive(Default)]
struct Sums(BTreeMap<(BlockKind, Option<String>), (u64, u64)>);

impl Sums {
    fn add(&mut self, kind: BlockKind, name: Option<String>, tokens: u64) {
        let (sum, count) = self.0.entry((kind, name)).or_default();
        *sum += tokens;
        *count += 1;
    }

    /// The parts in the order of a request, larger ones first within a kind.
    fn blocks(self) -> Vec<ContextBlock> {
        let mut blocks: Vec<ContextBlock> = self
            .0
            .into_iter()
            .map(|((kind, name), (tokens, count))| ContextBlock { kind, name, tokens, count })
            .collect();
        blocks.sort_by_key(|block| (block.kind, std::cmp::Reverse(block.tokens)));
        blocks
    }
}

impl Session {
    /// Tells what fills the context, if that was asked.
    pub(crate) fn describe_context(&mut self) {
        if std::mem::take(&mut self.inbox.describe_context) {
            let picture = self.picture();
            self.hub.send(EventBody::ContextPicture(Box::new(picture)));
        }
    }

    fn picture(&mut self) -> ContextPicture {
        let model = self.main_model();
        let ContextUsed { tokens, window } = self.context(&model);
        let mark = self.mark(window);
        let mut sums = Sums::default();
        let mut in_system = 0;
        let mut in_preface = 0;
        for source in &self.sources {
            *(if source.in_system { &mut in_system } else { &mut in_preface }) += source.tokens;
            sums.add(BlockKind::Memory, Some(source.name.clone()), source.tokens);
        }
        let (system, tools) = self.fixed_parts();
        sums.add(BlockKind::System, None, system.saturating_sub(in_system));
        sums.add(BlockKind::Tools, None, tools);
        let view = self.history.view();
        let mut environment = 0;
        for entry in view {
            environment += add_entry(entry, &mut sums);
        }
        sums.add(BlockKind::Environment, None, environment.saturating_sub(in_preface));
        let results = answered(view.iter().map(|entry| &entry.content));
        for result in &results {
            let size = tokens::of_text(&result.text);
            sums.add(BlockKind::Results, Some(result.name.clone()), size);
        }
        ContextPicture {
            tokens,
            window,
            mark,
            blocks: sums.blocks(),
            items: self.items_of(view, &results),
        }
    }

    /// The results, the newest first; those behind an account only when they
    /// are pinned.
    fn items_of(&self, view: &[Entry], results: &[Answered]) -> Vec<ContextItem> {
        let pins = self.history.pins();
        let originals = answered(self.history.contents().iter());
        let mut shown: BTreeMap<ResultPlace, &Answered> = BTreeMap::new();
        for result in results {
            if let Some(place) = place_of(view, result) {
                shown.insert(place, result);
            }
        }
        let items = originals.iter().rev().filter_map(|original| {
            let place = ResultPlace { content: original.content, part: original.part };
            let (now, pinned) = (shown.get(&place), pins.contains(&place));
            if now.is_none() && !pinned {
                return None;
            }
            Some(ContextItem {
                place,
                tool: original.name.clone(),
                title: call_words(original),
                tokens: tokens::of_text(now.map_or(&original.text, |now| &now.text)),
                dropped: now.is_some_and(|now| now.text != original.text),
                pinned,
            })
        });
        items.collect()
    }
}

/// Adds a content without its results. Gives the tokens of the session context
/// in it.
fn add_entry(entry: &Entry, sums: &mut Sums) -> u64 {
    let Ok(content) = entry.content.open() else { return 0 };
    if content.role == Role::Model {
        sums.add(BlockKind::Answers, None, entry.tokens);
        return 0;
    }
    let is_preface =
        |part: &Part| matches!(part.view(), PartView::Text(text) if text.starts_with(PREFACE));
    let is_result = |part: &Part| matches!(part.view(), PartView::Response(_));
    let size =
        |part: &Part| serde_json::to_string(part).map_or(0, |json| tokens::of_content(&json));
    let environment = content.parts.iter().filter(|part| is_preface(part)).map(size).sum();
    let rest = content.parts.iter().filter(|part| !is_preface(part) && !is_result(part));
    let (rest, count) = rest.fold((0, 0), |(sum, count), part| (sum + size(part), count + 1));
    if count > 0 {
        let kind =
            if entry.origin == Origin::Made { BlockKind::Accounts } else { BlockKind::Prompts };
        sums.add(kind, None, rest);
    }
    environment
}
