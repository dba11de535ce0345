//! The rewind dialogs: to which prompt, and what of the conversation and the files.

use std::path::Path;

use parallax_protocol::event::PromptEntry;
use parallax_screen::Line;
use parallax_sdk::rewind_preview::{ChangeKind, FileRestore};

use super::dialog_stack::{DialogPurpose, Overlay};
use crate::dialog::{ListDialog, ListItem};
use crate::diff_view::{self, DiffOptions};
use crate::sanitize::sanitize;
use crate::theme::Theme;

/// Maximum number of files and prompts listed.
const MAX_NAMED: usize = 6;
/// Length up to which the list shows a prompt in full in all but narrow windows.
const WHOLE_PROMPT: usize = 40;
/// Maximum number of rows of a diff.
const DIFF_ROWS: usize = 12;

/// Display options of the files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileOptions<'a> {
    /// Paths in it are shown relative to it.
    pub(crate) directory: Option<&'a Path>,
    /// Columns for the diffs.
    pub(crate) width: usize,
    pub(crate) theme: &'a Theme,
}

/// The prompts to rewind to.
#[derive(Debug, Default)]
pub(crate) struct RewindView {
    /// Whether the prompts were requested for the list.
    is_requested: bool,
    /// The prompts as last reported by the engine.
    prompts: Vec<PromptEntry>,
}

impl RewindView {
    /// Records that the prompts are requested for the list.
    pub(crate) fn request(&mut self) {
        self.is_requested = true;
    }

    /// Takes the prompts that the engine reported. Returns the list, if it was requested. Paths in
    /// `directory` are shown relative to it.
    ///
    /// # Errors
    /// Returns the reason why there is no list.
    pub(crate) fn list(
        &mut self,
        prompts: &[PromptEntry],
        directory: Option<&Path>,
        theme: &Theme,
    ) -> Result<Option<Overlay>, &'static str> {
        if !std::mem::take(&mut self.is_requested) {
            return Ok(None);
        }
        if prompts.is_empty() {
            return Err("No prompts to rewind to yet.");
        }
        let items = prompts.iter().rev().map(|prompt| prompt_item(prompt, directory, theme));
        let list = ListDialog::new("Rewind to before which prompt?", items.collect()).with_search();
        self.prompts = prompts.to_vec();
        Ok(Some(Overlay::list(DialogPurpose::Rewind, list)))
    }

    /// Returns the files that `turn` and later turns changed, without their differences.
    pub(crate) fn changed_files(&self, turn: u64) -> Vec<FileRestore> {
        let mut files: Vec<FileRestore> = Vec::new();
        for path in
            self.prompts.iter().filter(|prompt| prompt.turn >= turn).flat_map(|it| &it.files)
        {
            if !files.iter().any(|file| file.path == *path) {
                let (path, kind) = (path.clone(), ChangeKind::Changed);
                files.push(FileRestore { path, kind, skip_reason: None, diff: None });
            }
        }
        files
    }

    /// Returns the dialog that asks what to rewind, with previews of what would change.
    pub(crate) fn choices(
        &self,
        turn: u64,
        files: Result<Vec<FileRestore>, String>,
        options: FileOptions<'_>,
    ) -> Overlay {
        let theme = options.theme;
        let dropped: Vec<&PromptEntry> =
            self.prompts.iter().filter(|prompt| prompt.turn >= turn).collect();
        let count = |count: usize, what: &str| {
            format!("{count} {what}{}", if count == 1 { "" } else { "s" })
        };
        let mut chat: Vec<Line> = dropped
            .iter()
            .take(MAX_NAMED)
            .map(|prompt| {
                let first = prompt.text.lines().next().unwrap_or_default();
                Line::styled(format!("  > {}", sanitize(first)), theme.user)
            })
            .collect();
        if dropped.len() > MAX_NAMED {
            let more = format!("  … {} more", dropped.len() - MAX_NAMED);
            chat.push(Line::styled(more, theme.secondary));
        }
        chat.insert(0, Line::styled("Removed, together with the answers:", theme.text));
        let (rows, changed) = match &files {
            Ok(files) => {
                let changed = files.iter().filter(|file| file.skip_reason.is_none()).count();
                (file_rows(files, options), changed)
            }
            Err(reason) => (vec![Line::styled(sanitize(reason), theme.warning)], 0),
        };
        let (prompts, changes) = (count(dropped.len(), "prompt"), count(changed, "file"));
        let mut both = chat.clone();
        both.extend(rows.iter().cloned());
        let mut items = vec![
            ListItem::new("chat+files", "Conversation and files", format!("{prompts}, {changes}"))
                .with_preview(both),
            ListItem::new("chat", "Conversation only", format!("{prompts}; files are unchanged"))
                .with_preview(chat),
            ListItem::new("files", "Files only", format!("{changes}; the model is notified"))
                .with_preview(rows),
            ListItem::new("none", "Nothing", ""),
        ];
        if changed == 0 {
            items.retain(|item| !item.id.contains("files"));
        }
        let number = dropped.first().map_or(0, |prompt| prompt.number);
        let list = ListDialog::new(format!("Rewind to before prompt {number}"), items);
        Overlay::list(DialogPurpose::RewindHow(turn), list)
    }
}

/// Returns a path for display, relative to the directory if it is in it.
fn display_path(path: &Path, directory: Option<&Path>) -> String {
    let relative = directory.and_then(|directory| path.strip_prefix(directory).ok());
    sanitize(&relative.unwrap_or(path).to_string_lossy())
}

fn prompt_item(prompt: &PromptEntry, directory: Option<&Path>, theme: &Theme) -> ListItem {
    let (added, removed) = (prompt.lines_added, prompt.lines_removed);
    let files = match prompt.files.len() {
        1 => "1 file".to_owned(),
        files => format!("{files} files"),
    };
    let changes = match (prompt.files.len(), added + removed) {
        (0, _) => String::new(),
        // Lines changed by shell commands are not counted.
        (_, 0) => format!("{files} changed"),
        _ => format!("+{added} −{removed} in {files}"),
    };
    let first = prompt.text.lines().next().unwrap_or_default().replace('\t', " ");
    // A short prompt is whole in the list.
    let is_short = prompt.text.lines().count() <= 1 && prompt.text.chars().count() <= WHOLE_PROMPT;
    let lines = prompt.text.lines().take(if is_short { 0 } else { 6 });
    let mut preview: Vec<Line> = lines.map(|line| Line::raw(line.replace('\t', "    "))).collect();
    if prompt.files.is_empty() {
        preview.push(Line::styled("no files changed", theme.secondary));
    }
    let files = prompt.files.iter().take(8).map(|path| display_path(path, directory));
    preview.extend(files.map(|path| Line::styled(format!("  {path}"), theme.secondary)));
    ListItem::new(prompt.turn.to_string(), first, changes).with_preview(preview)
}

/// Returns rows that show which files would change and how.
fn file_rows(files: &[FileRestore], options: FileOptions<'_>) -> Vec<Line> {
    let FileOptions { directory, width, theme } = options;
    if files.is_empty() {
        return vec![Line::styled("No files would change.", theme.secondary)];
    }
    let mut rows = Vec::new();
    for file in files.iter().take(MAX_NAMED) {
        let name = display_path(&file.path, directory);
        let (what, style) = match (&file.skip_reason, file.kind) {
            (Some(reason), _) => (format!("unchanged: {}", sanitize(reason)), theme.warning),
            (None, ChangeKind::Created) => ("will be recreated".to_owned(), theme.success),
            (None, ChangeKind::Deleted) => ("will be deleted".to_owned(), theme.error),
            (None, ChangeKind::Changed) => ("changes".to_owned(), theme.text),
        };
        let counts = file.diff.as_ref().map_or_else(String::new, |diff| {
            format!(" +{} −{}", diff.lines_added, diff.lines_removed)
        });
        rows.push(
            Line::styled(format!("{name} "), theme.text.bold())
                .with_span(what, style)
                .with_span(counts, theme.secondary),
        );
        let shown = file.diff.as_ref().filter(|_| file.skip_reason.is_none());
        if let Some(diff) = shown.filter(|_| file.kind == ChangeKind::Changed) {
            let diff_options =
                DiffOptions { max_rows: DIFF_ROWS, ..DiffOptions::new(theme, width) };
            rows.extend(diff_view::rows(diff, &diff_options));
        }
    }
    if files.len() > MAX_NAMED {
        rows.push(Line::styled(format!("… {} more", files.len() - MAX_NAMED), theme.secondary));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_shown_only_on_request() {
        let (mut view, theme) = (RewindView::default(), Theme::default());
        assert!(matches!(view.list(&[], None, &theme), Ok(None)));
        view.request();
        assert!(view.list(&[], None, &theme).is_err());
        assert!(matches!(view.list(&[], None, &theme), Ok(None)));
    }

    #[test]
    fn without_files_only_the_conversation_is_offered() {
        let theme = Theme::default();
        let options = FileOptions { directory: None, width: 80, theme: &theme };
        let mut overlay = RewindView::default().choices(1, Ok(Vec::new()), options);
        let list = overlay.list_mut().expect("a list");
        assert_eq!(list.current().map(|item| item.id.as_str()), Some("chat"));
    }
}
