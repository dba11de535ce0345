//! Rewinds to before a prompt: the conversation, the files, or both.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use parallax_protocol::checkpoint::Checkpoints;
use parallax_protocol::content::PartView;
use parallax_protocol::event::{EventBody, Level, PromptEntry, Rewound, Undone};
use parallax_protocol::op::Rewind;

use crate::conversation::Conversation;
use crate::session::Session;

/// Maximum number of files named to the model.
const MAX_NAMED_FILES: usize = 50;

/// The prefix of the note on reverted files.
const RESTORED: &str = "The user reverted changes.";

/// The prefix in sessions of earlier versions.
const RESTORED_BEFORE: &str = "The user has taken changes back.";

impl Session {
    /// Carries out requested rewinds. Only between turns.
    pub(crate) async fn rewind(&mut self) {
        for order in std::mem::take(&mut self.inbox.rewinds) {
            let marks = self.conversation.prompts.marks().iter();
            let found = (1..).zip(marks).find(|(_, mark)| mark.turn == order.turn);
            let Some((number, mark)) = found.map(|(number, mark)| (number, mark.clone())) else {
                let text = "Cannot rewind: that prompt was already removed";
                self.inbox.notice(Level::Error, text.to_owned());
                continue;
            };
            let files = if order.files { Some(self.rewind_files(order).await) } else { None };
            if order.chat {
                self.rewind_conversation(mark.at).await;
            } else if let Some(undone) = &files {
                self.conversation.record_restored_files(undone);
            }
            let (chat, prompt) = (order.chat, mark.text);
            self.hub.send(EventBody::Rewound(Rewound { number, prompt, chat, files }));
        }
    }

    /// Undoes the turns from the last one back to the given one.
    async fn rewind_files(&mut self, order: Rewind) -> Undone {
        let Some(checkpoints) = self.checkpoints.store.clone() else {
            let problem = Some("checkpoints are disabled in this session".to_owned());
            return Undone { turn: order.turn, problem, ..Undone::default() };
        };
        let undoing = tokio::task::spawn_blocking(move || undo_turns(checkpoints.as_ref(), order));
        self.inbox.while_receiving(undoing).await.unwrap_or_else(|_| Undone {
            turn: order.turn,
            problem: Some("the undo crashed (this is a bug)".into()),
            ..Undone::default()
        })
    }

    /// Removes the contents after the first `keep`. The journal keeps them, marked as removed.
    pub(crate) async fn rewind_conversation(&mut self, keep: usize) {
        self.conversation.preface = self.conversation.context_of_dropped_prompts(keep);
        self.conversation.pending.clear();
        self.save_spending();
        self.conversation.history.truncate(keep);
        self.conversation.prompts.truncate(keep);
        self.drop_lost_context();
        let store = self.conversation.history.store();
        let synced = tokio::task::spawn_blocking(move || store.sync());
        if let Ok(Err(error)) = self.inbox.while_receiving(synced).await {
            self.conversation.history.record_storage_error(error.message);
        }
        self.report_storage_error();
    }

    /// Emits the prompts that can be rewound to, if requested.
    pub(crate) async fn list_prompts(&mut self) {
        if !std::mem::take(&mut self.inbox.list_prompts) {
            return;
        }
        let mut changes: HashMap<u64, Vec<PathBuf>> = HashMap::new();
        if let Some(checkpoints) = self.checkpoints.store.clone() {
            let looking = tokio::task::spawn_blocking(move || checkpoints.changes());
            changes.extend(self.inbox.while_receiving(looking).await.unwrap_or_default());
        }
        let marks = self.conversation.prompts.marks().iter();
        let prompts = marks.zip(1..).map(|(mark, number)| PromptEntry {
            turn: mark.turn,
            number,
            time: mark.time.clone(),
            text: mark.text.clone(),
            lines_added: mark.lines_added,
            lines_removed: mark.lines_removed,
            files: changes.remove(&mark.turn).unwrap_or_default(),
        });
        let prompts = prompts.collect();
        self.hub.send(EventBody::Prompts { prompts });
    }
}

impl Conversation {
    /// Tells the model with the next prompt that files were reverted.
    pub(crate) fn record_restored_files(&mut self, undone: &Undone) {
        if undone.restored.is_empty() {
            return;
        }
        let mut note = format!(
            "{RESTORED} These files have the content from before your changes (files that you \
                created are gone). Read them before you rely on them:",
        );
        for path in undone.restored.iter().take(MAX_NAMED_FILES) {
            note.push_str(&format!("\n- {}", path.display()));
        }
        if let Some(more) =
            undone.restored.len().checked_sub(MAX_NAMED_FILES).filter(|more| *more > 0)
        {
            note.push_str(&format!("\n- and {more} more"));
        }
        self.preface = Some(match self.preface.take() {
            Some(before) => format!("{before}\n\n{note}"),
            None => note,
        });
    }

    /// Returns the session context of removed prompts, to be sent with the next prompt.
    pub(crate) fn context_of_dropped_prompts(&self, keep: usize) -> Option<String> {
        let dropped = self.prompts.marks().iter().filter(|mark| mark.at >= keep);
        let mut prefaces: Vec<String> = dropped
            .filter_map(|mark| {
                let content = self.history.contents().get(mark.at)?.open().ok()?;
                let [first, _, ..] = content.parts.as_slice() else { return None };
                match first.view() {
                    PartView::Text(text) if is_generated_context(text) => Some(text.to_owned()),
                    _ => None,
                }
            })
            .collect();
        prefaces.extend(self.preface.clone());
        (!prefaces.is_empty()).then(|| prefaces.join("\n\n"))
    }
}

/// Undoes each turn with changes from the last one back to the given one. Blocking.
fn undo_turns(checkpoints: &dyn Checkpoints, order: Rewind) -> Undone {
    let mut turns: Vec<u64> = checkpoints.changes().into_iter().map(|(turn, _)| turn).collect();
    turns.retain(|turn| *turn >= order.turn);
    turns.sort_unstable();
    let (mut restored, mut kept) = (BTreeSet::new(), Vec::new());
    let mut problems = Vec::new();
    let mut force_helps = false;
    for turn in turns.into_iter().rev() {
        match checkpoints.undo(Some(turn), order.force) {
            Ok(undone) => {
                restored.extend(undone.restored);
                kept.extend(undone.kept);
                force_helps |= undone.force_helps;
            }
            Err(why) => problems.push(why),
        }
    }
    let restored = restored.into_iter().filter(|path| !kept.iter().any(|(other, _)| other == path));
    Undone {
        turn: order.turn,
        prompt: None,
        restored: restored.collect(),
        kept: kept.clone(),
        force_helps,
        problem: (!problems.is_empty()).then(|| problems.join("; ")),
    }
}

/// Whether a text before a prompt was generated by the program.
fn is_generated_context(text: &str) -> bool {
    ["<session_context", RESTORED, RESTORED_BEFORE].iter().any(|prefix| text.starts_with(prefix))
}
