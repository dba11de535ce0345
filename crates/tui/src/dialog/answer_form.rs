//! User questions from the model (`ask_user`): one to four, each on its own page, answered by
//! choosing or typing.

use std::cell::Cell;

use parallax_protocol::Object;
use parallax_protocol::question::{QuestionKind, UserQuestion};
use parallax_screen::{Key, Line, Span, wrap};
use serde_json::Value;

use super::field::Field;
use super::{DialogKey, DialogView, scroll_position};
use crate::layout::truncate_text;
use crate::sanitize;
use crate::theme::Theme;
use crate::tokens::{ASKS, DONE, IDLE, list_row, pointer, selectable_rows};

/// The result of a key.
#[derive(Debug, PartialEq)]
pub(super) enum FormResult {
    Stay,
    /// The answers, keyed by the index of the question.
    Done(Object),
    /// The user declined to answer.
    Dismissed,
}

/// A question and its answer so far.
#[derive(Debug)]
struct QuestionPage {
    question: UserQuestion,
    /// The options: label and description.
    options: Vec<(String, String)>,
    chosen: Vec<bool>,
    cursor: usize,
    /// A free-text answer.
    other: Field,
    is_answered: bool,
}

/// A row of a page that the cursor can be on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FormRow {
    Option(usize),
    Other,
    /// Ends a question with several answers.
    Done,
}

impl QuestionPage {
    fn new(question: &UserQuestion) -> Self {
        let words = |text: &str| sanitize::one_row(text).into_owned();
        let options: Vec<(String, String)> = match question.kind {
            QuestionKind::Choice => question
                .options
                .iter()
                .map(|option| (words(&option.label), words(&option.description)))
                .collect(),
            QuestionKind::YesNo => {
                vec![("Yes".to_owned(), String::new()), ("No".to_owned(), String::new())]
            }
            QuestionKind::Text => Vec::new(),
        };
        Self {
            question: question.clone(),
            chosen: vec![false; options.len()],
            options,
            cursor: 0,
            other: Field::default(),
            is_answered: false,
        }
    }

    fn rows(&self) -> usize {
        self.options.len() + 1 + usize::from(self.question.multi_select)
    }

    fn row(&self) -> FormRow {
        match self.cursor {
            at if at < self.options.len() => FormRow::Option(at),
            at if at == self.options.len() => FormRow::Other,
            _ => FormRow::Done,
        }
    }

    /// Returns the answer for the model; empty without one.
    fn answer(&self) -> String {
        let chosen = self.options.iter().zip(&self.chosen).filter(|(_, chosen)| **chosen);
        let mut words: Vec<&str> = chosen.map(|((label, _), _)| label.as_str()).collect();
        let other = self.other.text().trim();
        if !other.is_empty() {
            words.push(other);
        }
        words.join(", ")
    }

    /// Selects an option. Returns whether the question is answered.
    fn choose(&mut self, at: usize) -> bool {
        if self.question.multi_select {
            if let Some(chosen) = self.chosen.get_mut(at) {
                *chosen = !*chosen;
            }
            return false;
        }
        self.chosen.iter_mut().enumerate().for_each(|(index, chosen)| *chosen = index == at);
        self.other = Field::default();
        true
    }
}

/// The questions and the current page.
#[derive(Debug)]
pub(super) struct AnswerForm {
    pages: Vec<QuestionPage>,
    /// The current page; the one after the last question is the review.
    at: usize,
    /// The first visible row until the cursor moves, so that the question is read before its
    /// options.
    scroll: Option<usize>,
    visible_range: Cell<VisibleRange>,
}

/// The visible part of a page when it was last drawn.
#[derive(Debug, Clone, Copy, Default)]
struct VisibleRange {
    first: usize,
    rows: usize,
    all: usize,
    /// Whether the cursor's row was visible; for the review, its last row.
    cursor_visible: bool,
}

impl AnswerForm {
    pub(super) fn new(questions: &[UserQuestion]) -> Self {
        let pages = questions.iter().map(QuestionPage::new).collect();
        Self { pages, at: 0, scroll: Some(0), visible_range: Cell::default() }
    }

    /// Whether letters are typed as text.
    /// Returns the current page.
    pub(super) fn page(&self) -> usize {
        self.at
    }

    pub(super) fn is_typing(&self) -> bool {
        self.pages.get(self.at).is_some_and(|page| page.row() == FormRow::Other)
    }

    pub(super) fn paste(&mut self, text: &str) {
        if let Some(page) = self.pages.get_mut(self.at)
            && page.row() == FormRow::Other
        {
            page.other.insert(text);
        }
    }

    pub(super) fn key(&mut self, key: DialogKey, raw: Key) -> FormResult {
        let last = self.pages.len();
        let is_typing = self.is_typing();
        let VisibleRange { first, rows, all, cursor_visible } = self.visible_range.get();
        match key {
            DialogKey::PageDown => {
                self.scroll = Some((first + rows).min(all.saturating_sub(rows)));
                return FormResult::Stay;
            }
            DialogKey::PageUp => {
                self.scroll = Some(first.saturating_sub(rows));
                return FormResult::Stay;
            }
            // The user must have seen an option before it is selected or sent.
            DialogKey::Confirm if all > 0 && !cursor_visible => {
                self.scroll = (self.at == last).then_some(first + rows);
                return FormResult::Stay;
            }
            _ => {}
        }
        let page = self.at;
        let answer = self.answer_key(key, raw, last, is_typing);
        self.scroll = (self.at != page).then_some(0);
        answer
    }

    fn answer_key(&mut self, key: DialogKey, raw: Key, last: usize, typing: bool) -> FormResult {
        match key {
            DialogKey::Cancel => return FormResult::Dismissed,
            DialogKey::Next => self.go_to_page((self.at + 1).min(self.last_page())),
            DialogKey::Previous => self.go_to_page(self.at.saturating_sub(1)),
            DialogKey::Right if !typing => self.go_to_page((self.at + 1).min(self.last_page())),
            DialogKey::Left if !typing => self.go_to_page(self.at.saturating_sub(1)),
            DialogKey::Confirm if self.at == last => return FormResult::Done(self.answers()),
            _ => return self.page_key(key, raw),
        }
        FormResult::Stay
    }

    /// Returns the last page. A single question needs no review.
    fn last_page(&self) -> usize {
        if self.pages.len() > 1 { self.pages.len() } else { 0 }
    }

    fn go_to_page(&mut self, page: usize) {
        self.at = page;
    }

    fn page_key(&mut self, key: DialogKey, raw: Key) -> FormResult {
        let Some(page) = self.pages.get_mut(self.at) else { return FormResult::Stay };
        let rows = page.rows();
        let answered = match (key, page.row()) {
            (DialogKey::Up, _) => {
                page.cursor = page.cursor.checked_sub(1).unwrap_or(rows - 1);
                false
            }
            (DialogKey::Down, _) => {
                page.cursor = (page.cursor + 1) % rows;
                false
            }
            (DialogKey::Confirm, FormRow::Option(at)) => page.choose(at),
            (DialogKey::Confirm, FormRow::Other) => {
                let answers = !page.other.text().trim().is_empty();
                if answers && !page.question.multi_select {
                    page.chosen.fill(false);
                }
                if answers && page.question.multi_select {
                    page.cursor = rows - 1;
                }
                answers && !page.question.multi_select
            }
            (DialogKey::Confirm, FormRow::Done) => !page.answer().is_empty(),
            (_, FormRow::Other) => {
                page.other.key(raw);
                false
            }
            (DialogKey::Other(key), row) => match (key.character(), row) {
                (Some(' '), FormRow::Option(at)) => page.choose(at) && !page.question.multi_select,
                (Some('j'), _) => return self.page_key(DialogKey::Down, raw),
                (Some('k'), _) => return self.page_key(DialogKey::Up, raw),
                (Some(digit @ '1'..='9'), _) => {
                    let at = digit as usize - '1' as usize;
                    if at < rows {
                        page.cursor = at;
                    }
                    at < page.options.len() && page.choose(at)
                }
                _ => false,
            },
            _ => false,
        };
        if answered { self.finish_page() } else { FormResult::Stay }
    }

    /// Marks the page as answered and goes to the next one.
    fn finish_page(&mut self) -> FormResult {
        if let Some(page) = self.pages.get_mut(self.at) {
            page.is_answered = true;
        }
        if self.pages.len() == 1 {
            return FormResult::Done(self.answers());
        }
        self.at += 1;
        FormResult::Stay
    }

    fn answers(&self) -> Object {
        let answers = self.pages.iter().enumerate().filter_map(|(index, page)| {
            let answer = page.answer();
            (!answer.is_empty()).then(|| (index.to_string(), Value::String(answer)))
        });
        answers.collect()
    }

    /// Returns at most `height` rows. `plain` has words instead of markers, for screen readers.
    pub(super) fn view(
        &self,
        width: usize,
        height: usize,
        theme: &Theme,
        plain: bool,
    ) -> DialogView {
        let mut rows = Vec::new();
        if self.pages.len() > 1 {
            rows.push(self.tabs(theme, plain));
        }
        let (body, cursor) = match self.pages.get(self.at) {
            Some(page) => page.view(width, theme, plain),
            None => (self.review(width, theme, plain), None),
        };
        let hint = match self.pages.get(self.at) {
            None => "enter send · tab/shift+tab next/previous question · esc cancel",
            Some(page) if page.question.multi_select => {
                "space select · enter on Done confirm · tab next · esc cancel"
            }
            Some(_) if self.pages.len() > 1 => "enter answer · tab next · esc cancel",
            Some(_) => "enter answer · esc cancel",
        };
        let mut hint = wrap(&Line::styled(hint, theme.secondary), width, &[]);
        let mut room = height.saturating_sub(rows.len() + hint.len()).max(1);
        let is_cut = body.len() > room;
        if is_cut {
            room = height.saturating_sub(rows.len() + 1).max(1);
        }
        let (all, last) = (body.len(), body.len().saturating_sub(room));
        let marked = match self.pages.get(self.at) {
            Some(page) => page.last_cursor_row(width, plain),
            None => all.saturating_sub(1),
        };
        // The rows around the cursor stay visible unless the user scrolls.
        let skipped = self.scroll.unwrap_or_else(|| (marked + 1).saturating_sub(room)).min(last);
        let in_sight = (skipped..skipped + room).contains(&marked);
        self.visible_range.set(VisibleRange {
            first: skipped,
            rows: room,
            all,
            cursor_visible: in_sight,
        });
        if is_cut {
            let position = scroll_position(skipped, all.saturating_sub(skipped + room));
            let text = format!("{position} · esc cancel");
            hint = vec![Line::styled(truncate_text(&text, width), theme.secondary)];
        }
        let top = rows.len();
        let has_tabs = top > 0;
        let air = !is_cut && top + all + hint.len() + 2 + usize::from(has_tabs) <= height;
        rows.extend(body.into_iter().skip(skipped).take(room));
        let mut cursor = cursor.and_then(|(column, row): (usize, usize)| {
            Some((column, row.checked_sub(skipped)? + top))
        });
        if air {
            // Empty rows around the question, and above the keys.
            let head =
                self.pages.get(self.at).map_or(1, |page| page.head(width, theme, plain).len());
            rows.insert(top + head, Line::EMPTY);
            cursor = cursor.map(|(column, row)| (column, row + usize::from(row >= top + head)));
            rows.push(Line::EMPTY);
            if has_tabs {
                rows.insert(top, Line::EMPTY);
                cursor = cursor.map(|(column, row)| (column, row + 1));
            }
        }
        rows.extend(hint);
        rows.truncate(height.max(1));
        DialogView { rows, cursor }
    }

    /// Returns a row of the questions with the answered ones marked.
    fn tabs(&self, theme: &Theme, plain: bool) -> Line {
        let mut line = Line::EMPTY;
        for (index, page) in self.pages.iter().enumerate() {
            let marker = match (plain, page.answer().is_empty()) {
                (false, true) => IDLE,
                (false, false) => DONE,
                (true, true) => "pending:",
                (true, false) => "done:",
            };
            let header = sanitize::one_row(&page.question.header).into_owned();
            let style = if index == self.at { theme.accent.bold() } else { theme.secondary };
            line = line.with_span(format!("{marker} {header}"), style).with_span("  ", theme.text);
        }
        let style = if self.at == self.pages.len() { theme.accent.bold() } else { theme.secondary };
        line.with_span("Review", style)
    }

    fn review(&self, width: usize, theme: &Theme, plain: bool) -> Vec<Line> {
        let hang = [Span::raw("    ")];
        let asks = if plain { "asks:" } else { ASKS };
        let title = Line::styled(format!("{asks} "), theme.warning.bold());
        let mut rows = vec![title.with_span("Send these answers?", theme.text.bold())];
        for page in &self.pages {
            let answer = page.answer();
            let header = sanitize::one_row(&page.question.header).into_owned();
            let line = Line::styled(format!("  {header}: "), theme.secondary);
            let line = match answer.is_empty() {
                true => line.with_span("not answered", theme.warning),
                false => line.with_span(answer, theme.text),
            };
            rows.extend(wrap(&line, width, &hang));
        }
        rows
    }
}

impl QuestionPage {
    fn head(&self, width: usize, theme: &Theme, plain: bool) -> Vec<Line> {
        let text = sanitize::lines(&self.question.question);
        let asks = if plain { "asks:" } else { ASKS };
        let mut marker = Some(Line::styled(format!("{asks} "), theme.warning.bold()));
        let rows = text.lines().map(|line| {
            let line = sanitize::expand_tabs(line, &mut 0).into_owned();
            marker.take().unwrap_or_else(|| Line::raw("  ")).with_span(line, theme.text.bold())
        });
        rows.flat_map(|line| wrap(&line, width, &[Span::raw("  ")])).collect()
    }

    /// Returns the number of rows above the last row of the answer at the cursor.
    fn last_cursor_row(&self, width: usize, plain: bool) -> usize {
        let theme = Theme::default();
        let head = self.head(width, &theme, plain).len();
        let options_above = 0..self.cursor.min(self.options.len());
        let rows_above: usize = options_above
            .map(|index| {
                let (label, description) = self.option_rows(index, width, &theme, plain);
                label.len() + description.len()
            })
            .sum();
        let label = match self.row() {
            FormRow::Option(index) => self.option_rows(index, width, &theme, plain).0.len(),
            _ => 1,
        };
        head + rows_above + label - 1 + usize::from(self.cursor > self.options.len())
    }

    /// Returns the rows of an option's label, without the pointer, and of its description. Both
    /// wrap: the user must be able to read what is chosen.
    fn option_rows(
        &self,
        index: usize,
        width: usize,
        theme: &Theme,
        plain: bool,
    ) -> (Vec<Line>, Vec<Line>) {
        let Some((label, description)) = self.options.get(index) else { return Default::default() };
        let chosen = self.chosen.get(index).copied().unwrap_or(false);
        let marker = match (plain, self.question.multi_select, chosen) {
            (false, true, true) => "[x] ",
            (false, true, false) => "[ ] ",
            (false, false, true) => "✓ ",
            (true, _, true) => "chosen: ",
            (true, true, false) => "not chosen: ",
            (_, false, false) => "",
        };
        let label = Line::styled(format!("{}. {marker}{label}", index + 1), theme.text);
        let label = wrap(&label, width.saturating_sub(2).max(1), &[Span::raw("   ")]);
        if description.is_empty() {
            return (label, Vec::new());
        }
        let description = Line::styled(format!("     {description}"), theme.secondary);
        (label, wrap(&description, width, &[Span::raw("     ")]))
    }

    fn view(
        &self,
        width: usize,
        theme: &Theme,
        plain: bool,
    ) -> (Vec<Line>, Option<(usize, usize)>) {
        let mut rows = self.head(width, theme, plain);
        for index in 0..self.options.len() {
            let on = self.row() == FormRow::Option(index);
            let (label, description) = self.option_rows(index, width, theme, plain);
            rows.extend(selectable_rows(label, on, width, theme));
            rows.extend(description);
        }
        let on = self.row() == FormRow::Other;
        let pointer = pointer(on);
        let name = if self.options.is_empty() { "> " } else { "Other: " };
        let number = match self.options.len() {
            0 => String::new(),
            options => format!("{}. ", options + 1),
        };
        let label = format!("{pointer}{number}{name}");
        let (text, column) = self.other.row(width.saturating_sub(label.chars().count() + 1));
        let cursor = on.then(|| (label.chars().count() + column, rows.len()));
        let line = Line::styled(label, if on { theme.accent } else { theme.text });
        let placeholder = self.question.placeholder.as_deref().unwrap_or(if on {
            "type your answer"
        } else {
            ""
        });
        let line = match text.is_empty() {
            true => line.with_span(sanitize::one_row(placeholder).into_owned(), theme.secondary),
            false => line.with_span(text, theme.text),
        };
        rows.push(crate::layout::truncate_with_mark(line, width));
        if self.question.multi_select {
            let on = self.row() == FormRow::Done;
            rows.push(list_row(Line::styled("Done", theme.text), on, width, theme));
        }
        (rows, cursor)
    }
}

#[cfg(test)]
mod tests;
