//! Queries on the transcript other than rows, and the search.

use std::sync::Arc;

use parallax_protocol::Object;
use parallax_protocol::ids::CallId;
use parallax_screen::Line;

use super::describe;
use super::draw::ItemRenderer;
use super::find::SearchNeedle;
use super::item::Item;
use super::{Transcript, ViewOptions, read_group};
use crate::diff_view::{self, DiffOptions};
use crate::theme::Theme;

/// Maximum number of remembered strings that were sent and not echoed yet.
const MAX_TYPED: usize = 50;

impl Transcript {
    /// Returns the arguments of an unfinished call as the model wrote them.
    pub fn arguments(&self, call: &CallId) -> Option<Object> {
        match self.calls.get(call).and_then(|at| self.items.get(*at)) {
            Some(Item::Tool(tool)) => tool.arguments().cloned(),
            _ => None,
        }
    }

    /// Returns the last finished call, command, or prompt before item `before` that was truncated:
    /// its index and all its rows.
    pub fn find_truncated_before(
        &self,
        before: usize,
        width: usize,
        theme: &Theme,
    ) -> Option<(usize, Vec<Line>)> {
        let whole = ViewOptions { expanded: true, ..self.options };
        let folded = ItemRenderer::new(theme, width, self.options, 0);
        let whole = ItemRenderer::new(theme, width, whole, 0);
        let items = self.items.iter().enumerate().take(before);
        items.rev().find_map(|(at, item)| {
            let folds = matches!(item, Item::Tool(_) | Item::Shell(_) | Item::User { .. });
            if item.is_open() || !folds {
                return None;
            }
            if let Some(group) = read_group::find_group(&self.items, at) {
                let rows = self.items[group.clone()].iter().flat_map(|item| whole.item(item).0);
                return Some((group.start, rows.collect()));
            }
            let rows = whole.item(item).0;
            (rows.len() > folded.item(item).0.len()).then_some((at, rows))
        })
    }

    /// Remembers the typed form of text that is about to be sent: with labels instead of pasted
    /// text.
    pub fn remember_typed(&mut self, text: &str, input: &str) {
        if text != input {
            self.typed_forms.push((text.to_owned(), input.into()));
            let surplus = self.typed_forms.len().saturating_sub(MAX_TYPED);
            self.typed_forms.drain(..surplus);
        }
    }

    /// Returns the typed form of text that is about to be sent, if it differs.
    pub fn typed_form(&self, text: &str) -> Option<&str> {
        let found = self.typed_forms.iter().find(|(sent, _)| sent.trim() == text.trim());
        found.map(|(_, typed)| &**typed)
    }

    /// Returns the typed form of text that is sent.
    pub(super) fn take_typed(&mut self, text: &str) -> Option<Arc<str>> {
        let index = self.typed_forms.iter().position(|(sent, _)| sent.trim() == text.trim())?;
        Some(self.typed_forms.remove(index).1)
    }

    /// Returns all file changes made by edits, one after another.
    pub fn diffs(&self, width: usize, theme: &Theme) -> Vec<Line> {
        let mut rows = Vec::new();
        for item in &self.items {
            let Item::Tool(tool) = item else { continue };
            if let Some(diff) = tool.diff() {
                let name = crate::sanitize::one_row(&diff.file_path.to_string_lossy()).into_owned();
                let counts = format!("  {}", describe::format_line_counts(diff));
                rows.push(Line::styled(name, theme.accent).with_span(counts, theme.secondary));
                rows.extend(diff_view::rows(diff, &DiffOptions::new(theme, width)));
                rows.push(Line::EMPTY);
            }
        }
        rows
    }

    /// Returns the next row with a match as item and row: the first one at or after the given
    /// position, or the last one before it. Items are rendered one by one until a match is found.
    pub fn find(
        &mut self,
        needle: &SearchNeedle,
        (item, row): (usize, usize),
        forward: bool,
        width: usize,
        theme: &Theme,
    ) -> Option<(usize, usize)> {
        let draw = ItemRenderer::new(theme, width, self.options, 0);
        self.row_cache.fits(&draw);
        let item = item.min(self.items.len());
        let items: Vec<usize> = match forward {
            true => (item..self.items.len()).collect(),
            false => (0..=item).rev().collect(),
        };
        for index in items {
            let worth = match self.items.get(index) {
                Some(Item::Answer(answer)) => needle.may_match(answer.text()),
                Some(_) => true,
                None => false,
            };
            if !worth {
                continue;
            }
            let mut rows = self.item_rows(index, &draw).iter().enumerate();
            let found = match forward {
                true => rows
                    .find(|(here, line)| (index, *here) >= (item, row) && needle.matches_row(line)),
                false => rows
                    .rfind(|(here, line)| (index, *here) < (item, row) && needle.matches_row(line)),
            };
            if let Some((here, _)) = found {
                return Some((index, here));
            }
        }
        None
    }
}
