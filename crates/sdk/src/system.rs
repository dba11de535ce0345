//! The system prompt of a session: the built-in sections for the mode, and the
//! user's own memory behind them.

use std::path::Path;
use std::sync::Arc;

use parallax_engine::prompt::{Flags, built_in};
use parallax_protocol::policy::ApprovalMode;

/// Makes the prompt for a mode. Equal modes give equal bytes for the life of
/// the session, so that the provider's cache hits.
pub(crate) fn prompt(
    interactive: bool,
    git: bool,
    switched_off: Vec<String>,
    memory: String,
) -> Box<dyn Fn(ApprovalMode) -> Arc<str> + Send + Sync> {
    let make = move |mode| -> Arc<str> {
        let flags = Flags {
            interactive,
            yolo: mode == ApprovalMode::Yolo,
            plan: mode == ApprovalMode::Plan,
            git,
        };
        let mut text = built_in(flags, &|suffix| switched_off.iter().any(|off| off == suffix));
        if !memory.is_empty() {
            text.push('\n');
            text.push_str(&memory);
        }
        text.into()
    };
    let last = std::sync::Mutex::new(None::<(ApprovalMode, Arc<str>)>);
    Box::new(move |mode| {
        let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &*last {
            Some((known, text)) if *known == mode => Arc::clone(text),
            _ => {
                let text = make(mode);
                *last = Some((mode, Arc::clone(&text)));
                text
            }
        }
    })
}

/// Whether the folder lies in a git repository.
pub(crate) fn in_git(folder: &Path) -> bool {
    folder.ancestors().any(|folder| folder.join(".git").exists())
}
