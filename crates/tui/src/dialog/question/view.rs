//! Renders the approval dialog: what would happen, why approval is required, the answers.

use parallax_protocol::event::Question;
use parallax_protocol::tool::{Preview, ToolKind};
use parallax_screen::{Line, Span, Style, with_visible_characters};

use super::body::{Body, wrap};
use super::choices::Choice;
use super::danger::{danger_ranges, highlight};
use super::excerpt::{Excerpt, excerpt};
use super::{ActiveInput, BodyPage, QuestionDialog};
use crate::dialog::{DialogView, rule_text, scroll_position, url_warning};
use crate::layout::truncate_with_mark;
use crate::layout::{count, hint_row, truncate_text};
use crate::sanitize;
use crate::theme::Theme;
use crate::tokens::{list_row, selectable_rows};
use crate::transcript::{display_name, format_line_counts, without_verb};

/// Minimum number of body rows, including the row that counts the rest.
const MIN_BODY_ROWS: usize = 4;
/// Minimum visible body rows before empty rows are added between the parts.
const AIRY_BODY: usize = 8;
/// Width of the marker before an answer in columns.
const MARKER: usize = 2;

impl QuestionDialog {
    /// Returns at most `height` rows. The answers are always visible; the body scrolls if it does
    /// not fit.
    pub(crate) fn view(
        &self,
        width: usize,
        height: usize,
        waiting: usize,
        theme: &Theme,
    ) -> DialogView {
        if let Some(form) = &self.form {
            return form.view(width, height, theme, self.plain);
        }
        let mut head = self.head(width, waiting, theme);
        let warnings = self.warning_rows(width, theme).len();
        let mut body = self.body(width, theme);
        let length = body.rows.len();
        let (choices, cursor) = self.render_footer(width, theme);
        let hint = self.hint(width, false, theme);
        let foot: Vec<Line> = choices.iter().cloned().chain(hint.clone()).collect();
        let mut reason = self.reason_rows(width, true, theme);
        let needs = |rows: &[&Vec<Line>]| rows.iter().map(|rows| rows.len()).sum::<usize>();
        let is_low = needs(&[&head, &foot]) + length.min(MIN_BODY_ROWS) > height;
        // There, the rule scrolls with the body.
        let hides_rule =
            self.shows_rule && needs(&[&head, &reason, &foot]) + length.min(MIN_BODY_ROWS) > height;
        if (is_low || hides_rule) && self.typing.is_none() && self.hunks.is_none() {
            return self.compact_view(head, body, (width, height), theme);
        }
        if is_low {
            // The text field stays visible.
            truncate_rows(&mut head, height.saturating_sub(foot.len()).max(1), width, theme);
        }
        // Priority: the answers, then the body, then the reason.
        let room = height.saturating_sub(needs(&[&head, &foot]) + length.min(MIN_BODY_ROWS));
        truncate_rows(&mut reason, room, width, theme);
        let parts = needs(&[&head, &reason, &foot]);
        let spare = height.saturating_sub(parts + length.min(AIRY_BODY));
        let has_body = head.len() > 1 || length > 0;
        let has_more = warnings > 0 && (head.len() > 1 + warnings || length > 0);
        let air = Spacing::fit(spare, has_body, !reason.is_empty(), has_more, hint.is_some());
        let room = height.saturating_sub(parts + air.rows());
        let mut rows = head;
        if air.warnings {
            rows.insert((1 + warnings).min(rows.len()), Line::EMPTY);
        }
        if air.title {
            rows.insert(1, Line::EMPTY);
        }
        if length <= room {
            rows.append(&mut body.rows);
        } else if room > 0 {
            self.push_part(&mut rows, body, room, width, theme);
        }
        if air.reason {
            rows.push(Line::EMPTY);
        }
        rows.append(&mut reason);
        if air.choices {
            rows.push(Line::EMPTY);
        }
        let at = rows.len();
        rows.extend(choices);
        if air.hint {
            rows.push(Line::EMPTY);
        }
        rows.extend(hint);
        rows.truncate(height.max(1));
        DialogView { rows, cursor: cursor.map(|(column, row)| (column, row + at)) }
    }

    /// Adds the part of the body that fits, and a row with what else there is.
    fn push_part(
        &self,
        rows: &mut Vec<Line>,
        body: Body,
        room: usize,
        width: usize,
        theme: &Theme,
    ) {
        let visible_rows = room.saturating_sub(1).max(1);
        let length = body.rows.len();
        let start = self.first_change(&body.rows);
        let scroll_text = match self.excerpt(&body, start, visible_rows, theme) {
            Some(excerpt) => {
                rows.extend(excerpt.rows);
                format!("{} not shown · page up/down", count(length - excerpt.shown, "row"))
            }
            None => {
                let scroll = self.update_scroll(length, visible_rows, start);
                let rows_below = length - visible_rows - scroll;
                rows.extend(body.rows.into_iter().skip(scroll).take(visible_rows));
                scroll_position(scroll, rows_below)
            }
        };
        if room > visible_rows {
            let line = Line::styled(format!("  {scroll_text}"), theme.secondary);
            let longer = self.with_part_counts(line.clone(), theme);
            rows.push(if longer.width() <= width { longer } else { line });
        }
    }

    /// Returns the beginning of the body and what must be in view, until the user scrolls.
    pub(super) fn excerpt(
        &self,
        body: &Body,
        start: usize,
        room: usize,
        theme: &Theme,
    ) -> Option<Excerpt> {
        if self.scroll.is_some() {
            return None;
        }
        let excerpt = excerpt(body, start, room, theme)?;
        let last = body.rows.len().saturating_sub(room);
        self.body_page.set(BodyPage { first: start, shown_rows: excerpt.beginning, last });
        Some(excerpt)
    }

    /// Returns the reason for the question.
    fn reason(&self) -> String {
        let named = match &self.request.preview {
            Some(Preview::Mcp { server, tool, .. }) => format!("`{tool}` of `{server}`"),
            _ => format!("`{}`", display_name(&self.request.name)),
        };
        let reason = &self.request.policy_decision.reason;
        let reason = reason.replace(&format!("`{}`", self.request.name), &named);
        reason.replace("`auto_edit`", "`auto-edit`").replace("`yolo`", "`YOLO`")
    }

    /// Returns the rows with what needs care, which are directly below the question: secrets,
    /// addresses, and why the call requires approval each time.
    pub(super) fn warning_rows(&self, width: usize, theme: &Theme) -> Vec<Line> {
        let policy_decision = &self.request.policy_decision;
        let danger = theme.error.bold();
        let mut lines = Vec::new();
        if !policy_decision.sensitive.is_empty() {
            let paths = policy_decision.sensitive.join(", ");
            lines.push(Line::styled(format!("Keys or passwords: {paths}"), danger));
        }
        lines.extend(self.address_warnings().into_iter().map(|it| Line::styled(it, danger)));
        if policy_decision.always_ask && self.request.question != Question::ExitPlanMode {
            let is_call = self.request.no_rule_reason.is_some() && self.request.preview.is_some();
            let each_time = if is_call { " It needs approval each time." } else { "" };
            let reason = format!("{}{each_time}", with_period(&self.reason()));
            let line = with_names(&reason, theme.warning, theme);
            let marked = danger_ranges(&line.text(), &policy_decision.destructive);
            lines.push(highlight(line, &marked, danger));
        }
        let unnamed =
            name_unnamed_destructive_commands(&self.reason(), &policy_decision.destructive);
        lines.extend(unnamed.map(|text| with_names(&text, danger, theme)).map(|line| {
            let marked = danger_ranges(&line.text(), &policy_decision.destructive);
            highlight(line, &marked, danger)
        }));
        lines.iter().flat_map(|line| wrap(line, width, &[Span::raw("  ")])).collect()
    }

    /// Returns warnings about the addresses of the call.
    fn address_warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = match &self.request.preview {
            Some(Preview::Urls { urls, .. }) => {
                let about = |url: &String| {
                    let warning = url_warning::warning(url)?;
                    // With several, it must be clear which one is meant.
                    Some(match urls.len() {
                        1 => warning,
                        _ => format!("{}: {warning}", url_warning::authority(url)),
                    })
                };
                urls.iter().filter_map(about).collect()
            }
            Some(Preview::Command { command, .. }) => {
                url_warning::metadata_warning(command).into_iter().collect()
            }
            Some(Preview::Mcp { arguments, .. }) => {
                let values = arguments.values();
                values.filter_map(|it| url_warning::metadata_warning(&it.to_string())).collect()
            }
            _ => Vec::new(),
        };
        warnings.dedup();
        warnings
    }

    /// Returns the rule, if shown.
    pub(super) fn rule_rows(&self, width: usize, theme: &Theme) -> Vec<Line> {
        if !self.shows_rule {
            return Vec::new();
        }
        let rule = &self.request.policy_decision.rule;
        let rule = Line::styled(format!("Rule: {rule}"), theme.secondary);
        wrap(&rule, width, &[Span::raw("  ")])
    }

    /// Returns the reason unless a warning or the request contains it, the rule if `has_rule`, and
    /// why no permanent answer is available.
    pub(super) fn reason_rows(&self, width: usize, has_rule: bool, theme: &Theme) -> Vec<Line> {
        let policy_decision = &self.request.policy_decision;
        let mut rows = match self.request.question {
            // The question itself gives the reason.
            Question::ExitPlanMode => Vec::new(),
            // The warnings contain it.
            _ if policy_decision.always_ask => Vec::new(),
            _ if policy_decision.reason == self.request.title => Vec::new(),
            _ => {
                wrap(&with_names(&with_period(&self.reason()), theme.secondary, theme), width, &[])
            }
        };
        if has_rule {
            rows.extend(self.rule_rows(width, theme));
        }
        let only_once = |choice: &Choice| {
            !matches!(choice, Choice::AllowForSession | Choice::Save | Choice::Response(_))
        };
        // Without a preview, the question is not about a call that a rule could cover.
        if let Some(reason) =
            self.request.no_rule_reason.as_ref().filter(|_| self.request.preview.is_some())
            && !policy_decision.always_ask
            && self.choices.iter().all(only_once)
        {
            let reason = with_period(&format!("It cannot be allowed permanently: {reason}"));
            rows.extend(wrap(&with_names(&reason, theme.secondary, theme), width, &[]));
        }
        rows
    }

    /// Adds how many commands run and how many files are written, because these may be out of view.
    fn with_part_counts(&self, line: Line, theme: &Theme) -> Line {
        let of = |verbs: &[&str]| {
            let parts = self.request.policy_decision.parts.iter();
            parts.filter(|part| verbs.iter().any(|verb| part.starts_with(verb))).count()
        };
        let runs = of(&["runs "]);
        let mut line = match runs {
            0 => line,
            _ => line.with_span(format!(" · runs {}", count(runs, "command")), theme.secondary),
        };
        let writes = of(&["writes to ", "appends to "]);
        if writes > 0 {
            let separator = if runs > 0 { ", " } else { " · " };
            line = line
                .with_span(format!("{separator}writes {}", count(writes, "file")), theme.warning);
        }
        line
    }

    /// Returns all rows of an answer.
    pub(super) fn answer(
        &self,
        index: usize,
        choice: Choice,
        width: usize,
        theme: &Theme,
    ) -> Vec<Line> {
        let room = width.saturating_sub(MARKER);
        let hang = [Span::raw("   ")];
        let mut rows = wrap(&self.answer_line(index, choice, theme), room, &hang);
        if index == self.cursor
            && let Some(rule) = self.rule_detail(choice)
        {
            let rule = Line::styled(format!("   Rule: {rule}"), theme.text);
            rows.extend(wrap(&rule, room, &hang));
        }
        selectable_rows(rows, index == self.cursor, width, theme)
    }

    /// Returns an answer in one row.
    pub(super) fn answer_row(
        &self,
        index: usize,
        choice: Choice,
        width: usize,
        theme: &Theme,
    ) -> Line {
        let room = width.saturating_sub(MARKER);
        let mut line = self.answer_line(index, choice, theme);
        if line.width() > room
            && let Some(short) = self.short_label(choice)
        {
            line = Line::styled(format!("{}. {short}", index + 1), theme.text);
        }
        let line = truncate_with_mark(line, room);
        list_row(line, index == self.cursor, width, theme)
    }

    fn answer_line(&self, index: usize, choice: Choice, theme: &Theme) -> Line {
        with_visible_characters(&Line::styled(
            format!("{}. {}", index + 1, self.label(choice)),
            theme.text,
        ))
    }

    fn head(&self, width: usize, waiting: usize, theme: &Theme) -> Vec<Line> {
        let question = match self.request.question {
            Question::Edit => "Apply this change?",
            Question::Exec => "Allow execution of this command?",
            Question::Mcp => "Allow execution of this tool?",
            Question::SandboxExpansion => "Blocked by the sandbox. Allow more and run again?",
            Question::Fallback => "Use another model?",
            Question::Loop => "The model is repeating itself. Stop?",
            Question::Budget => "The budget is used up. Continue?",
            Question::ExitPlanMode => "Start working on this plan?",
            Question::AskUser => "Your answer?",
            Question::Info => match &self.request.preview {
                Some(Preview::Urls { .. }) => "Allow this web request?",
                Some(Preview::Skill { .. }) => "Allow this skill?",
                _ if self.request.kind == ToolKind::Plan => "Switch to plan mode?",
                _ => "Allow this?",
            },
        };
        let mut title =
            Line::styled("? ", theme.warning.bold()).with_span(question, theme.text.bold());
        if waiting > 1 {
            title = title.with_span(format!("  1 of {waiting}"), theme.secondary);
        }
        if let Some(editor) = &self.in_editor {
            title = title.with_span(format!("  also open in {editor}"), theme.secondary);
        }
        if let Some(Preview::Plan { path, .. }) = &self.request.preview {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name =
                truncate_text(&sanitize::one_row(&name), width.saturating_sub(title.width() + 2));
            title = title.with_span(format!("  {name}"), theme.secondary);
        }
        let mut rows = vec![truncate_with_mark(title, width)];
        rows.extend(self.warning_rows(width, theme));
        if let Some(Preview::Plan { .. }) = &self.request.preview {
            return rows;
        }
        if matches!(self.request.question, Question::Fallback | Question::Budget | Question::Loop) {
            if let Some(agent) = &self.request.agent {
                rows.push(Line::styled(format!("  for subagent {agent}"), theme.secondary));
            }
            let what = with_names(&with_period(&self.request.title), theme.text, theme);
            rows.extend(wrap(&what, width, &[Span::raw("  ")]));
            return rows;
        }
        if let Some(agent) = &self.request.agent {
            rows.push(Line::styled(format!("  for subagent {agent}"), theme.secondary));
        }
        let (name, title) = (&self.request.name, &self.request.title);
        let mut what = Line::styled(format!("{} ", display_name(name)), theme.text.bold())
            .with_span(without_verb(name, title).to_owned(), theme.text);
        if let Some(Preview::Diff(diff)) = &self.request.preview {
            what = what.with_span(format!("  {}", format_line_counts(diff)), theme.secondary);
        }
        // These previews name the tool.
        if !matches!(self.request.preview, Some(Preview::Command { .. } | Preview::Mcp { .. })) {
            rows.extend(wrap(&what, width, &[Span::raw("  ")]));
        }
        rows
    }

    fn render_footer(&self, width: usize, theme: &Theme) -> (Vec<Line>, Option<(usize, usize)>) {
        let hang = [Span::raw("  ")];
        let mut rows = Vec::new();
        if self.hunks.is_some() {
            let hint = "space select · ↑↓ hunks · enter continue with the selected hunks · esc \
                        back";
            rows.extend(wrap(&Line::styled(hint, theme.secondary), width, &hang));
            return (rows, None);
        }
        if let Some(typing) = &self.typing {
            let (label, field, problem) = match typing {
                ActiveInput::Rule(field, problem) => ("rule: ", field, problem.as_deref()),
                ActiveInput::Feedback(field) => ("tell the model: ", field, None),
                ActiveInput::Amount(field, problem) => ("increase by: ", field, problem.as_deref()),
            };
            if let Some(problem) = problem {
                rows.extend(wrap(&Line::styled(problem.to_owned(), theme.error), width, &hang));
            }
            let (text, column) = field.row(width.saturating_sub(label.len() + 1));
            let at = (label.len() + column, rows.len());
            rows.push(Line::styled(label, theme.accent).with_span(text, theme.text));
            let syntax = match typing {
                ActiveInput::Rule(..) => self.selected_rule().and_then(rule_text::syntax),
                _ => None,
            };
            let hint = match syntax {
                Some(syntax) => format!("{syntax} · enter accept · esc back"),
                None => "enter accept · esc back".to_owned(),
            };
            rows.extend(wrap(&Line::styled(hint, theme.secondary), width, &hang));
            return (rows, Some(at));
        }
        for (index, choice) in self.choices.iter().enumerate() {
            rows.extend(self.answer(index, *choice, width, theme));
        }
        (rows, None)
    }

    /// Returns the key hints while an answer is chosen; `scrolls` is whether to name the keys that
    /// scroll the body.
    pub(super) fn hint(&self, width: usize, scrolls: bool, theme: &Theme) -> Option<Line> {
        if self.hunks.is_some() || self.typing.is_some() {
            return None;
        }
        // Only what changes the answer under the cursor.
        let saves = self.choices.get(self.cursor).is_some_and(|choice| choice.saves_rule());
        let widens = saves && self.request.rules.len() > 1;
        let widen = if widens { "←→ narrower or broader · " } else { "" };
        let edit = if saves && self.can_edit() { "e edit the rule · " } else { "" };
        let rule = if self.shows_rule { "? hide the rule" } else { "? why" };
        let scope = match self.choices.get(self.cursor) == Some(&Choice::Save) {
            false => "",
            true if self.saves_for_all_projects => "tab this project only · ",
            true => "tab all projects · ",
        };
        let scroll = if scrolls { "page up/down · " } else { "" };
        let hint = format!("{scroll}{rule} · {widen}{edit}{scope}esc no");
        Some(Line::styled(hint_row(&hint, width), theme.secondary))
    }
}

/// The empty rows between the parts of a dialog. The one before the hint is dropped first.
#[derive(Debug, Clone, Copy, Default)]
struct Spacing {
    title: bool,
    warnings: bool,
    reason: bool,
    choices: bool,
    hint: bool,
}

impl Spacing {
    fn fit(
        spare: usize,
        has_body: bool,
        has_reason: bool,
        has_warnings: bool,
        has_hint: bool,
    ) -> Self {
        let mut air = Self::default();
        let optional_rows = [
            (&mut air.choices, true),
            (&mut air.title, has_body),
            (&mut air.warnings, has_warnings),
            (&mut air.reason, has_body && has_reason),
            (&mut air.hint, has_hint),
        ];
        for (index, _) in optional_rows.into_iter().filter(|(_, is_useful)| *is_useful).take(spare)
        {
            *index = true;
        }
        air
    }

    fn rows(self) -> usize {
        let all = [self.title, self.warnings, self.reason, self.choices, self.hint];
        all.into_iter().filter(|row| *row).count()
    }
}

/// Removes the rows after the first `room`, with a mark.
fn truncate_rows(rows: &mut Vec<Line>, room: usize, width: usize, theme: &Theme) {
    if rows.len() <= room {
        return;
    }
    rows.truncate(room);
    if let Some(last) = rows.last_mut() {
        let marked = std::mem::take(last).with_span(" …", theme.secondary);
        *last = truncate_with_mark(marked, width);
    }
}

/// Returns a sentence with text between backticks in plain style.
fn with_names(text: &str, style: Style, theme: &Theme) -> Line {
    let mut line = Line::EMPTY;
    if text.matches('`').count() % 2 == 1 {
        return Line::styled(text.to_owned(), style);
    }
    for (index, part) in text.split('`').enumerate().filter(|(_, part)| !part.is_empty()) {
        let style = if index % 2 == 1 { theme.text } else { style };
        line.push(Span::styled(part.to_owned(), style));
    }
    line
}

/// Adds a period if the text has none.
fn with_period(text: &str) -> String {
    let text = text.trim_end();
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}
/// Names the destructive commands that the reason does not: color alone must not carry this.
pub(super) fn name_unnamed_destructive_commands(
    reason: &str,
    destructive: &[String],
) -> Option<String> {
    /// Number of characters of a longer command that the reason quotes.
    const QUOTED: usize = 20;
    let is_named = |source: &&String| {
        let start: String = source.trim().chars().take(QUOTED).collect();
        reason.contains(&start)
    };
    let others: Vec<String> = destructive
        .iter()
        .filter(|source| !is_named(source))
        .map(|source| format!("`{}`", sanitize::one_row_of_lines(source)))
        .collect();
    let word = if others.len() < destructive.len() { "Also destructive" } else { "Destructive" };
    (!others.is_empty()).then(|| format!("{word}: {}.", others.join(", ")))
}
