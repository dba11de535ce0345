//! The system prompt of a session: the built-in sections for the mode, and the
//! user's own memory behind them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_engine::prompt::{Flags, built_in};
use parallax_protocol::policy::ApprovalMode;

use crate::agents::SessionAgents;

/// Makes the prompt for a mode. Equal modes give equal bytes for the life of
/// the session, so that the provider's cache hits.
pub(crate) fn prompt(
    interactive: bool,
    git: bool,
    switched_off: Vec<String>,
    memory: String,
    agents: Option<Arc<SessionAgents>>,
    plans: PathBuf,
) -> Box<dyn Fn(ApprovalMode) -> Arc<str> + Send + Sync> {
    let make = move |mode, agents: &str| -> Arc<str> {
        let flags = Flags {
            interactive,
            yolo: mode == ApprovalMode::Yolo,
            plan: mode == ApprovalMode::Plan,
            git,
        };
        let mut text = built_in(flags, &|suffix| switched_off.iter().any(|off| off == suffix));
        if flags.plan {
            text = text.replace("{plans}", &plans.display().to_string());
        }
        for section in [agents, &memory] {
            if !section.is_empty() {
                text.push('\n');
                text.push_str(section);
            }
        }
        text.into()
    };
    let none: Arc<str> = Arc::from("");
    let last = std::sync::Mutex::new(None::<(ApprovalMode, Arc<str>, Arc<str>)>);
    Box::new(move |mode| {
        let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Another one when agents come and go.
        let section = agents.as_ref().map_or_else(|| Arc::clone(&none), |agents| agents.section());
        match &*last {
            Some((known, told, text)) if *known == mode && Arc::ptr_eq(told, &section) => {
                Arc::clone(text)
            }
            _ => {
                let text = make(mode, &section);
                *last = Some((mode, section, Arc::clone(&text)));
                text
            }
        }
    })
}

/// Whether the folder lies in a git repository.
pub(crate) fn in_git(folder: &Path) -> bool {
    folder.ancestors().any(|folder| folder.join(".git").exists())
}
