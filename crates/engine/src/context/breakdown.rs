//! Breaks down the context usage: every part of a request with its approximate token count.

use std::collections::BTreeMap;

use parallax_protocol::content::{Part, PartView, Role};
use parallax_protocol::context::{
    BlockKind, ContextBlock, ContextBreakdown, ContextItem, ResultLocation,
};
use parallax_protocol::event::ContextUsed;

use super::compaction::{CallResult, answered_calls, call_title, position_of_result};
use super::{ContextManager, RequestFrame, usage};
use crate::conversation::Conversation;
use crate::tokens;
use crate::view::{EntryOrigin, ViewEntry};

/// The prefix of the session context.
const PREFACE: &str = "<session_context>";

/// Tokens and counts by kind and name.
#[derive(Default)]
struct TokenSums(BTreeMap<(BlockKind, Option<String>), (u64, u64)>);

impl TokenSums {
    fn add(&mut self, kind: BlockKind, name: Option<String>, tokens: u64) {
        let (sum, count) = self.0.entry((kind, name)).or_default();
        *sum += tokens;
        *count += 1;
    }

    /// Returns the blocks in the order of a request, larger ones first within a kind.
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

impl ContextManager {
    /// Returns the parts of the next request with their tokens.
    pub(super) fn breakdown(
        &self,
        frame: &RequestFrame,
        conversation: &Conversation,
    ) -> ContextBreakdown {
        let ContextUsed { tokens, window } = usage(frame, conversation.history());
        let mut sums = TokenSums::default();
        let mut in_system = 0;
        let mut in_preface = 0;
        for source in &self.sources {
            *(if source.in_system { &mut in_system } else { &mut in_preface }) += source.tokens;
            sums.add(BlockKind::Memory, Some(source.name.clone()), source.tokens);
        }
        sums.add(BlockKind::System, None, frame.system.saturating_sub(in_system));
        sums.add(BlockKind::Tools, None, frame.tools);
        let view = conversation.history().view();
        let mut environment = 0;
        for entry in view {
            environment += add_entry(entry, &mut sums);
        }
        sums.add(BlockKind::Environment, None, environment.saturating_sub(in_preface));
        let results = answered_calls(view.iter().map(|entry| &entry.content));
        for result in &results {
            let size = tokens::estimate_text(&result.text);
            sums.add(BlockKind::Results, Some(result.name.clone()), size);
        }
        ContextBreakdown {
            tokens,
            window,
            mark: self.threshold(frame),
            blocks: sums.blocks(),
            items: context_items(conversation, view, &results),
        }
    }
}

/// Returns the results, newest first; summarized ones only when pinned.
fn context_items(
    conversation: &Conversation,
    view: &[ViewEntry],
    results: &[CallResult],
) -> Vec<ContextItem> {
    let pins = conversation.history().pins();
    let originals = answered_calls(conversation.history().contents().iter());
    let mut shown: BTreeMap<ResultLocation, &CallResult> = BTreeMap::new();
    for result in results {
        if let Some(position) = position_of_result(view, result) {
            shown.insert(position, result);
        }
    }
    let items = originals.iter().rev().filter_map(|original| {
        let position = ResultLocation { content: original.content, part: original.part };
        let (now, pinned) = (shown.get(&position), pins.contains(&position));
        if now.is_none() && !pinned {
            return None;
        }
        Some(ContextItem {
            place: position,
            tool: original.name.clone(),
            title: call_title(original),
            tokens: tokens::estimate_text(now.map_or(&original.text, |now| &now.text)),
            is_dropped: now.is_some_and(|now| now.text != original.text),
            pinned,
        })
    });
    items.collect()
}

/// Adds a content without its results. Returns the tokens of the session context in it.
fn add_entry(entry: &ViewEntry, sums: &mut TokenSums) -> u64 {
    let Ok(content) = entry.content.open() else { return 0 };
    if content.role == Role::Model {
        sums.add(BlockKind::Answers, None, entry.tokens);
        return 0;
    }
    let is_preface =
        |part: &Part| matches!(part.view(), PartView::Text(text) if text.starts_with(PREFACE));
    let is_result = |part: &Part| matches!(part.view(), PartView::Response(_));
    let size =
        |part: &Part| serde_json::to_string(part).map_or(0, |json| tokens::estimate_content(&json));
    let environment = content.parts.iter().filter(|part| is_preface(part)).map(size).sum();
    let rest = content.parts.iter().filter(|part| !is_preface(part) && !is_result(part));
    let (rest, count) = rest.fold((0, 0), |(sum, count), part| (sum + size(part), count + 1));
    if count > 0 {
        let kind = if entry.origin == EntryOrigin::Generated {
            BlockKind::Accounts
        } else {
            BlockKind::Prompts
        };
        sums.add(kind, None, rest);
    }
    environment
}
