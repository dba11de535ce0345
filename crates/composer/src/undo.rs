//! Undo and redo. A step stores what changed, not the whole text.

use super::text::{Position, Text};

/// Maximum number of steps.
const MAX_STEPS: usize = 100;

/// A replacement of text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Edit {
    at: Position,
    removed: String,
    inserted: String,
}

/// The changes undone by one undo.
#[derive(Debug, Clone)]
struct UndoStep {
    edits: Vec<Edit>,
    before: Position,
    after: Position,
}

/// How a change is merged with the previous step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeRule {
    /// Not merged.
    Nothing,
    /// Consecutively typed characters, up to the end of a word.
    Typing,
    /// Consecutively deleted characters.
    Deleting,
}

/// The done and undone steps.
#[derive(Debug, Clone, Default)]
pub struct Undo {
    undo_steps: Vec<UndoStep>,
    redo_steps: Vec<UndoStep>,
    /// The kind of the last step if the next change may be merged with it.
    open: Option<MergeRule>,
    /// Inside a group: whether its step exists already.
    group: Option<bool>,
}

impl Undo {
    /// Records a change.
    pub fn record(
        &mut self,
        at: Position,
        removed: String,
        inserted: String,
        before: Position,
        joins: MergeRule,
    ) {
        self.redo_steps.clear();
        let after = at.advance_by(&inserted);
        let edit = Edit { at, removed, inserted };
        if let Some(is_open) = &mut self.group {
            let joined = std::mem::replace(is_open, true);
            if let Some(step) = self.undo_steps.last_mut().filter(|_| joined) {
                step.after = after;
                step.push(edit);
                return;
            }
        } else if self.open == Some(joins)
            && let Some(step) = self.undo_steps.last_mut()
            && step.join(&edit, joins)
        {
            step.after = after;
            return;
        }
        self.undo_steps.push(UndoStep { edits: vec![edit], before, after });
        if self.undo_steps.len() > MAX_STEPS {
            self.undo_steps.remove(0);
        }
        self.open = (joins != MergeRule::Nothing).then_some(joins);
    }

    /// Makes the next change a new step.
    pub fn close(&mut self) {
        self.open = None;
    }

    /// Makes all changes until [`end_group`](Self::end_group) one step.
    pub fn begin_group(&mut self) {
        self.close();
        self.group.get_or_insert(false);
    }

    /// Ends the group.
    pub fn end_group(&mut self) {
        self.close();
        self.group = None;
    }

    /// Undoes the last step and returns the cursor position before it.
    pub fn undo(&mut self, text: &mut Text) -> Option<Position> {
        self.end_group();
        let step = self.undo_steps.pop()?;
        for edit in step.edits.iter().rev() {
            text.replace(edit.at..edit.at.advance_by(&edit.inserted), &edit.removed);
        }
        let before = step.before;
        self.redo_steps.push(step);
        Some(before)
    }

    /// Redoes the last undone step and returns the cursor position after it.
    pub fn redo(&mut self, text: &mut Text) -> Option<Position> {
        self.end_group();
        let step = self.redo_steps.pop()?;
        for edit in &step.edits {
            text.replace(edit.at..edit.at.advance_by(&edit.removed), &edit.inserted);
        }
        let after = step.after;
        self.undo_steps.push(step);
        Some(after)
    }
}

impl UndoStep {
    fn push(&mut self, edit: Edit) {
        // Otherwise, typing inside a group would create one edit per character.
        if let Some(last) = self.edits.last_mut()
            && edit.removed.is_empty()
            && last.at.advance_by(&last.inserted) == edit.at
        {
            last.inserted.push_str(&edit.inserted);
        } else {
            self.edits.push(edit);
        }
    }

    /// Merges the edit with the last one if they belong together.
    fn join(&mut self, edit: &Edit, joins: MergeRule) -> bool {
        let Some(last) = self.edits.last_mut() else { return false };
        match joins {
            MergeRule::Nothing => false,
            MergeRule::Typing => {
                let ends = |text: &str| text.ends_with(char::is_whitespace);
                let word_is_over = ends(&last.inserted) && !ends(&edit.inserted);
                let fits = edit.removed.is_empty() && last.at.advance_by(&last.inserted) == edit.at;
                if fits && !word_is_over {
                    last.inserted.push_str(&edit.inserted);
                }
                fits && !word_is_over
            }
            MergeRule::Deleting if edit.inserted.is_empty() && last.inserted.is_empty() => {
                if edit.at == last.at {
                    last.removed.push_str(&edit.removed);
                    true
                } else if edit.at.advance_by(&edit.removed) == last.at {
                    last.removed.insert_str(0, &edit.removed);
                    last.at = edit.at;
                    true
                } else {
                    false
                }
            }
            MergeRule::Deleting => false,
        }
    }
}
