//! Rewinds to a prompt, restores the state before a single change, and continues an interrupted
//! turn.

use parallax_protocol::event::PromptEntry;
use parallax_protocol::op::{Op, Rewind};
use parallax_screen::Line;
use parallax_sdk::going_back::{ChangeKind, FileBack, RestorePoint};

use super::App;
use crate::clean::clean;
use crate::components::dialog_stack::{Overlay, Purpose};
use crate::dialog::{ListDialog, ListItem};
use crate::diff_view::{self, DiffOptions};
use crate::effect::Effect;

/// Maximum number of files and prompts listed.
const NAMED: usize = 6;
/// Maximum number of rows of a diff.
const DIFF_ROWS: usize = 12;

impl App {
    /// Requests the prompts to rewind to from the engine.
    pub(super) fn rewind_dialog(&mut self) {
        if self.is_busy() {
            return self.toast("Not available while the agent is running (Esc to stop)");
        }
        self.wants_prompts = true;
        self.effect(Effect::Send(Op::ListPrompts));
    }

    pub(super) fn prompts_are(&mut self, prompts: &[PromptEntry]) {
        if !std::mem::take(&mut self.wants_prompts) {
            return;
        }
        if prompts.is_empty() {
            return self.info("No prompts to rewind to yet.");
        }
        let items =
            prompts.iter().rev().map(|prompt| {
                let (added, removed) = (prompt.lines_added, prompt.lines_removed);
                let files = match prompt.files.len() {
                    1 => "1 file".to_owned(),
                    files => format!("{files} files"),
                };
                let changes = match (prompt.files.len(), added + removed) {
                    (0, _) => String::new(),
                    // Lines changed by shell commands are not counted.
                    (_, 0) => format!("{files} changed"),
                    _ => format!("+{added} -{removed} in {files}"),
                };
                let first = prompt.text.lines().next().unwrap_or_default().replace('\t', " ");
                let mut preview: Vec<Line> = prompt
                    .text
                    .lines()
                    .take(6)
                    .map(|line| Line::raw(line.replace('\t', "    ")))
                    .collect();
                preview.extend(prompt.files.iter().take(8).map(|path| {
                    Line::styled(format!("  {}", path.display()), self.theme.secondary)
                }));
                ListItem::new(prompt.turn.to_string(), first, changes).previewed(preview)
            });
        let list = ListDialog::new("Rewind to before which prompt?", items.collect()).searched();
        self.past_prompts = prompts.to_vec();
        self.open(Overlay::list(Purpose::Rewind, list));
    }

    /// Asks what to rewind and previews the resulting file changes.
    pub(super) fn rewind_how(&mut self, turn: u64) {
        self.dialogs.close();
        self.effect(Effect::AskSession(Box::new(move |session| {
            let back = session.going_back();
            Box::new(move |app| {
                app.effect(Effect::Run(Box::new(move || {
                    let files = back.files(turn);
                    Box::new(move |app| app.rewind_picture(turn, files))
                })));
            })
        })));
    }

    fn rewind_picture(&mut self, turn: u64, files: Result<Vec<FileBack>, String>) {
        let theme = self.theme.clone();
        let dropped: Vec<&PromptEntry> =
            self.past_prompts.iter().filter(|prompt| prompt.turn >= turn).collect();
        let count = |count: usize, what: &str| {
            format!("{count} {what}{}", if count == 1 { "" } else { "s" })
        };
        let mut chat: Vec<Line> = dropped
            .iter()
            .take(NAMED)
            .map(|prompt| {
                let first = prompt.text.lines().next().unwrap_or_default();
                Line::styled(format!("  > {}", clean(first)), theme.user)
            })
            .collect();
        if dropped.len() > NAMED {
            let more = format!("  … {} more", dropped.len() - NAMED);
            chat.push(Line::styled(more, theme.secondary));
        }
        chat.insert(0, Line::styled("Removed, together with the answers:", theme.text));
        let (rows, changed) = match &files {
            Ok(files) => {
                (self.file_rows(files), files.iter().filter(|file| file.kept.is_none()).count())
            }
            Err(why) => (vec![Line::styled(clean(why), theme.warning)], 0),
        };
        let (prompts, changes) = (count(dropped.len(), "prompt"), count(changed, "file"));
        let mut both = chat.clone();
        both.extend(rows.iter().cloned());
        let mut items = vec![
            ListItem::new("chat+files", "Conversation and files", format!("{prompts}, {changes}"))
                .previewed(both),
            ListItem::new("chat", "Conversation only", format!("{prompts}; files stay"))
                .previewed(chat),
            ListItem::new("files", "Files only", format!("{changes}; the model is notified"))
                .previewed(rows),
            ListItem::new("none", "Nothing", ""),
        ];
        if changed == 0 {
            items.retain(|item| !item.id.contains("files"));
        }
        let number = dropped.first().map_or(0, |prompt| prompt.number);
        let list = ListDialog::new(format!("Rewind to before prompt {number}"), items);
        self.open(Overlay::list(Purpose::RewindHow(turn), list));
    }

    /// Returns rows that show which files would change and how.
    fn file_rows(&self, files: &[FileBack]) -> Vec<Line> {
        let theme = &self.theme;
        if files.is_empty() {
            return vec![Line::styled("No files would change.", theme.secondary)];
        }
        let folder = self.launch.as_ref().map(|launch| launch.options().directory.clone());
        let mut rows = Vec::new();
        for file in files.iter().take(NAMED) {
            let path = folder.as_ref().and_then(|folder| file.path.strip_prefix(folder).ok());
            let name = clean(&path.unwrap_or(&file.path).to_string_lossy());
            let (what, style) = match (&file.kept, file.kind) {
                (Some(why), _) => (format!("unchanged: {}", clean(why)), theme.warning),
                (None, ChangeKind::Created) => ("will be recreated".to_owned(), theme.success),
                (None, ChangeKind::Deleted) => ("will be deleted".to_owned(), theme.error),
                (None, ChangeKind::Changed) => ("changes".to_owned(), theme.text),
            };
            let counts = file.diff.as_ref().map_or_else(String::new, |diff| {
                format!(" +{} −{}", diff.lines_added, diff.lines_removed)
            });
            rows.push(
                Line::styled(format!("{name} "), theme.text.bold())
                    .and(what, style)
                    .and(counts, theme.secondary),
            );
            let shown = file.diff.as_ref().filter(|_| file.kept.is_none());
            if let Some(diff) = shown.filter(|_| file.kind == ChangeKind::Changed) {
                let width = usize::from(self.size.0).saturating_sub(4).max(20);
                let look = DiffOptions { max_rows: DIFF_ROWS, ..DiffOptions::new(theme, width) };
                rows.extend(diff_view::rows(diff, &look));
            }
        }
        if files.len() > NAMED {
            rows.push(Line::styled(format!("… {} more", files.len() - NAMED), theme.secondary));
        }
        rows
    }

    /// Lists the single changes that can be undone, or restores one by name.
    pub(super) fn restore(&mut self, name: &str) {
        if self.is_busy() {
            return self.toast("Not available while the agent is running (Esc to stop)");
        }
        let name = name.to_owned();
        self.effect(Effect::AskSession(Box::new(move |session| {
            let back = session.going_back();
            Box::new(move |app| {
                if !back.checkpointing {
                    return app.info(
                        "To go back to a single change, enable `general.checkpointing.enabled`. \
                         `/rewind` and `/undo` go back by prompts.",
                    );
                }
                app.effect(Effect::Run(Box::new(move || {
                    let points = back.points();
                    Box::new(move |app| match points {
                        Ok(points) => app.restore_points(points, &name),
                        Err(why) => app.error(why),
                    })
                })));
            })
        })));
    }

    fn restore_points(&mut self, points: Vec<RestorePoint>, name: &str) {
        if points.is_empty() {
            return self.info("No changes to restore yet.");
        }
        if name.is_empty() {
            let items = points.iter().rev().map(|point| {
                let files: Vec<String> =
                    point.files.iter().map(|file| clean(&file.to_string_lossy())).collect();
                ListItem::new(point.name.clone(), clean(&point.name), files.join(", "))
            });
            let list = ListDialog::new("Go back to before which change?", items.collect())
                .searched()
                .hint("enter go back and decide about the change again · esc back");
            return self.open(Overlay::list(Purpose::Restore, list));
        }
        let found = points.iter().find(|point| point.name == name);
        match found {
            Some(point) => self.effect(Effect::Send(Op::Restore(point.order))),
            None => self.error(format!("Unknown change `{name}`; `/restore` lists the changes.")),
        }
    }

    /// Offers to continue an interrupted turn of the resumed session.
    pub(super) fn offer_to_go_on(&mut self) {
        let items = vec![
            ListItem::new("yes", "Continue the turn", "finished steps are kept"),
            ListItem::new("no", "Not now", "`/continue` continues it later"),
        ];
        let list = ListDialog::new("The last turn was interrupted. Continue it?", items);
        self.open(Overlay::list(Purpose::CutOff, list));
    }

    pub(super) fn rewind_chosen(&mut self, turn: u64, id: &str) {
        self.dialogs.close();
        let (chat, files) = (id.contains("chat"), id.contains("files"));
        if chat || files {
            let rewind = Rewind { turn, chat, files, force: id.ends_with("force") };
            self.effect(Effect::Send(Op::Rewind(rewind)));
        }
    }
}
