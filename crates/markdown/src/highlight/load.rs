//! Loads the grammars once on a thread, when a turn begins or code is first shown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::Duration;

use syntect::parsing::{SyntaxReference, SyntaxSet};

use super::scopes::ScopeRoles;

/// How long rows about to become final wait for the grammars, once.
const TIMEOUT: Duration = Duration::from_millis(50);

static LOADED: OnceLock<Syntaxes> = OnceLock::new();
static IS_LOADING: AtomicBool = AtomicBool::new(false);
static WAITED: AtomicBool = AtomicBool::new(false);
static SIGNAL: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
/// The callback that runs when they are loaded.
static THEN: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// All grammars and the roles of their scopes.
pub(super) struct Syntaxes {
    pub(super) syntaxes: SyntaxSet,
    pub(super) roles: ScopeRoles,
}

/// Starts loading the grammars unless that was done.
pub fn load() {
    if IS_LOADING.swap(true, Ordering::Relaxed) {
        return;
    }
    // Without a thread, code stays plain.
    let load_thread = std::thread::Builder::new().name("grammars".to_owned()).spawn(|| {
        let syntaxes = two_face::syntax::extra_newlines();
        let _ = LOADED.set(Syntaxes { syntaxes, roles: ScopeRoles::new() });
        finish();
        let then = THEN.lock().ok().and_then(|mut then| then.take());
        if let Some(then) = then {
            then();
        }
    });
    if load_thread.is_err() {
        finish();
    }
}

fn finish() {
    if let Ok(mut done) = SIGNAL.0.lock() {
        *done = true;
    }
    SIGNAL.1.notify_all();
}

/// Returns the grammars if they are loaded.
pub(super) fn if_loaded() -> Option<&'static Syntaxes> {
    LOADED.get()
}

/// Sets the callback that runs on the loading thread when the grammars are loaded: plain rows can
/// then be highlighted.
pub fn on_loaded(then: impl FnOnce() + Send + 'static) {
    if let Ok(mut place) = THEN.lock() {
        *place = Some(Box::new(then));
    }
}

/// Whether the grammars are loaded.
pub fn is_loaded() -> bool {
    LOADED.get().is_some()
}

/// Whether the grammars are still to come: they are not loaded, and loading did not fail.
pub fn is_pending() -> bool {
    SIGNAL.0.lock().is_ok_and(|done| !*done)
}

/// Waits up to 50 ms for the grammars the first time, before rows of an earlier run become final.
/// No user input is waiting then.
pub fn wait_a_moment() {
    if LOADED.get().is_none() && !WAITED.swap(true, Ordering::Relaxed) {
        load();
        if let Ok(done) = SIGNAL.0.lock() {
            drop(SIGNAL.1.wait_timeout_while(done, TIMEOUT, |done| !*done));
        }
    }
}

/// Loads the grammars and waits for them. For exported pages, tests, and benchmarks.
pub fn wait_until_loaded() {
    load();
    if let Ok(done) = SIGNAL.0.lock() {
        drop(SIGNAL.1.wait_while(done, |done| !*done));
    }
}

impl Syntaxes {
    /// Returns the grammar for a fence's language, or detected from the first line.
    pub(super) fn find(&self, language: &str, first_line: &str) -> Option<&SyntaxReference> {
        let name = language
            .trim_start_matches(['{', '.', ' '])
            .split([' ', ',', '{', '}', ':', '\t', '='])
            .next()
            .unwrap_or("");
        if name.is_empty() {
            let tells = ["#!", "<?", "<!", "diff --git", "--- "];
            return tells
                .iter()
                .any(|tell| first_line.starts_with(tell))
                .then(|| self.syntaxes.find_syntax_by_first_line(first_line))
                .flatten();
        }
        let name = name.to_ascii_lowercase();
        let name = match name.as_str() {
            "shell" | "console" | "terminal" | "shell-session" | "zsh" | "fish-shell" => "bash",
            "golang" => "go",
            "node" | "mjs" | "cjs" | "javascriptreact" => "javascript",
            "typescriptreact" => "tsx",
            "json5" | "jsonc" | "jsonl" | "ndjson" => "json",
            "csharp" | "c#" => "cs",
            "c++" => "cpp",
            "objective-c" | "objc" => "m",
            "docker" => "dockerfile",
            "make" => "makefile",
            "patch" => "diff",
            "text" | "txt" | "plain" | "plaintext" | "none" => return None,
            other => other,
        };
        self.syntaxes.find_syntax_by_token(name)
    }
}
