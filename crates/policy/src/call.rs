//! A query as the rules see it: all its names, and its command line taken apart
//! at most once.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use parallax_protocol::policy::{ApprovalMode, Query};
use serde_json::Value;

use crate::names::{SHELL, canonical};
use crate::paths;
use crate::shell::{self, Loose, Part, Place};

pub(crate) struct Call<'a> {
    pub(crate) query: &'a Query<'a>,
    /// The mode that counts: a folder without trust knows no free mode.
    pub(crate) mode: ApprovalMode,
    pub(crate) names: Vec<&'a str>,
    pub(crate) shell: Option<Line<'a>>,
}

impl<'a> Call<'a> {
    pub(crate) fn read(query: &'a Query<'a>) -> Self {
        let mut names = tool_names(query.tool, query.aliases);
        if names.contains(&"invoke_agent")
            && let Some(agent) = query.args.get("agent_name").and_then(Value::as_str)
        {
            names.push(agent);
        }
        let mode = if query.trusted { query.mode } else { query.mode.min(ApprovalMode::Default) };
        let shell = names.contains(&SHELL).then(|| Line::read(query));
        Self { query, mode, names, shell }
    }
}

/// The names that rules may call a tool by.
pub(crate) fn tool_names<'a>(tool: &'a str, aliases: &'a [String]) -> Vec<&'a str> {
    let mut names = Vec::with_capacity(aliases.len() + 2);
    names.push(tool);
    for name in aliases.iter().map(String::as_str).chain([tool]).map(canonical) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The command line of a shell call.
pub(crate) struct Line<'a> {
    pub(crate) text: String,
    /// Where it runs, resolved by its text.
    pub(crate) directory: PathBuf,
    workspace: &'a [PathBuf],
    /// What its words name, as the caller found it on disk, is all open.
    words_open: bool,
    /// And git's configurations name no programs.
    git_open: bool,
    plain: OnceCell<Option<Vec<Part>>>,
    loose: OnceCell<Loose>,
}

impl<'a> Line<'a> {
    fn read(query: &'a Query<'a>) -> Self {
        let text = if query.effects.runs.is_empty() {
            query.args.get("command").and_then(Value::as_str).unwrap_or_default().to_owned()
        } else {
            query.effects.runs.join("\n")
        };
        let base = query.workspace.first().map_or(Path::new("/"), PathBuf::as_path);
        let relative = query.args.get("dir_path").and_then(Value::as_str).unwrap_or_default();
        Self {
            text,
            directory: paths::resolve(base, Path::new(relative)),
            workspace: query.workspace,
            words_open: query
                .effects
                .reads
                .iter()
                .all(|path| is_open(path, query.workspace) || paths::is_git_configuration(path)),
            git_open: query.effects.reads.iter().all(|path| is_open(path, query.workspace)),
            plain: OnceCell::new(),
            loose: OnceCell::new(),
        }
    }

    pub(crate) fn plain(&self) -> Option<&[Part]> {
        self.plain.get_or_init(|| shell::plain(&self.text)).as_deref()
    }

    pub(crate) fn loose(&self) -> &Loose {
        self.loose.get_or_init(|| shell::loose(&self.text))
    }

    fn place(&self) -> Place<'_> {
        let moved = self.plain().is_some_and(shell::changes_directory);
        Place { directory: &self.directory, roots: self.workspace, moved }
    }

    pub(crate) fn is_safe_part(&self, part: &Part) -> bool {
        let is_git = part.first().is_some_and(|name| name.text == "git");
        let open = if is_git { self.git_open } else { self.words_open };
        open && shell::part_is_safe(part, &self.place())
    }

    pub(crate) fn is_safe(&self) -> bool {
        self.plain().is_some_and(|parts| parts.iter().all(|part| self.is_safe_part(part)))
    }

    pub(crate) fn runs_outside(&self) -> bool {
        !paths::inside(&self.directory, self.workspace)
    }
}

fn is_open(path: &Path, roots: &[PathBuf]) -> bool {
    path == Path::new("/dev/null") || (paths::inside(path, roots) && !paths::is_closed(path, roots))
}
