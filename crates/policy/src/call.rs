//! The tool call that rules are evaluated against: its names, its paths, its arguments as text, and
//! its command line, which is parsed at most once.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use parallax_protocol::policy::{ApprovalMode, Query};
use parallax_protocol::protected_links::FindLinkTargets;
use serde_json::Value;

use crate::arguments_text::arguments_text;
use crate::bash::{self, Command, Redirection, RedirectionKind, ShellLine, Word};
use crate::names::{SHELL, canonical_name};
use crate::path_condition::{PathRoots, shared_with_user};
use crate::paths::{self, ProtectedPaths};
use crate::permissive_scan::{PermissiveScan, scan};
use crate::subject::Subject;
use crate::transparent::is_transparent;

/// Programs that cannot write to a file named in their arguments.
const READERS: &[&str] = &[
    "[",
    "basename",
    "cat",
    "cd",
    "cmp",
    "cut",
    "diff",
    "dirname",
    "du",
    "echo",
    "file",
    "grep",
    "head",
    "ls",
    "md5sum",
    "nl",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "sha256sum",
    "stat",
    "tac",
    "tail",
    "test",
    "tr",
    "wc",
];

pub(crate) struct CallQuery<'a> {
    pub(crate) query: &'a Query<'a>,
    /// The effective mode; an untrusted folder cannot use the permissive modes.
    pub(crate) mode: ApprovalMode,
    pub(crate) names: Vec<&'a str>,
    pub(crate) folders: PathRoots<'a>,
    pub(crate) shell: Option<ShellCall<'a>>,
    full_text: OnceCell<String>,
    paths: OnceCell<Vec<PathBuf>>,
}

impl<'a> CallQuery<'a> {
    pub(crate) fn read(
        query: &'a Query<'a>,
        plans: Option<&'a Path>,
        temporary: &'a [PathBuf],
        home: Option<&'a Path>,
        links: Option<&'a dyn FindLinkTargets>,
        substitutions: bool,
    ) -> Self {
        let mut names = tool_names(query.tool, query.aliases);
        names.extend(agent_of(query));
        let mode = if query.trusted { query.mode } else { query.mode.min(ApprovalMode::Default) };
        let protected = Rc::new(ProtectedPaths::new(query.workspace, links));
        let shell = names
            .contains(&SHELL)
            .then(|| ShellCall::read(query, Rc::clone(&protected), home, substitutions));
        let owned = query.workspace.iter().map(PathBuf::as_path).chain(home);
        let not_temporary = shared_with_user(temporary, owned);
        let folders =
            PathRoots { workspace: query.workspace, plans, temporary, not_temporary, protected };
        Self {
            query,
            mode,
            names,
            folders,
            shell,
            full_text: OnceCell::new(),
            paths: OnceCell::new(),
        }
    }

    /// Returns the name of the subagent that the call starts, if it starts one.
    pub(crate) fn agent(&self) -> Option<&'a str> {
        agent_of(self.query)
    }

    /// Returns the arguments as text for patterns. For a part of a line, the text reads as if that
    /// part were the whole command.
    pub(crate) fn arguments(&self, subject: Subject) -> &str {
        match (subject, &self.shell) {
            (Subject::Part(index), Some(shell)) => shell.part_arguments(index, self.query),
            _ => self.full_text.get_or_init(|| arguments_text(self.query.args, None)),
        }
    }

    /// Returns the files that the call writes, or the files that it reads if it writes none.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        self.paths.get_or_init(|| {
            let effects = self.query.effects;
            let mut paths = effects.writes.clone();
            match &self.shell {
                Some(shell) => {
                    paths.extend(effects.reads.iter().cloned());
                    paths.extend(
                        shell.write_targets().iter().filter_map(WriteTarget::path).cloned(),
                    );
                }
                None => {
                    paths.extend(effects.reads.iter().cloned());
                    // An edit through a link is an edit of the name, too.
                    paths.extend(effects.links.keys().cloned());
                }
            }
            paths
        })
    }
}

/// Returns the subagent that a call starts, as the tool reads it.
fn agent_of<'a>(query: &Query<'a>) -> Option<&'a str> {
    let is_start = tool_names(query.tool, query.aliases).contains(&"invoke_agent");
    let name = query.args.get("agent_name").and_then(Value::as_str);
    name.map(str::trim).filter(|_| is_start)
}

/// Returns every name that rules can use for a tool.
pub(crate) fn tool_names<'a>(tool: &'a str, aliases: &'a [String]) -> Vec<&'a str> {
    let mut names = Vec::with_capacity(aliases.len() + 2);
    names.push(tool);
    for name in aliases.iter().map(String::as_str).chain([tool]).map(canonical_name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// A write target of a command, as far as the text determines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WriteTarget {
    /// A known path.
    Path(PathBuf),
    /// A path that is known only at run time.
    Unknown(String),
}

impl WriteTarget {
    pub(crate) fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::Path(path) => Some(path),
            Self::Unknown(_) => None,
        }
    }
}

/// The command line of a shell call.
pub(crate) struct ShellCall<'a> {
    pub(crate) text: String,
    /// The resolved working directory.
    pub(crate) directory: PathBuf,
    pub(crate) line: ShellLine,
    workspace: &'a [PathBuf],
    protected: Rc<ProtectedPaths<'a>>,
    home: Option<&'a Path>,
    /// Paths of the line that contain symbolic links, with their targets as resolved by the caller.
    links: &'a BTreeMap<PathBuf, PathBuf>,
    /// Whether everything the words name on disk is readable without approval, as checked by the
    /// caller.
    are_words_readable: bool,
    /// Files that the line reads, as determined by the caller.
    reads: &'a [PathBuf],
    /// Whether no git configuration involved names a program to run.
    git_open: bool,
    /// Directories the line may run in; `None` if they are known only at run time.
    folders: Option<Vec<PathBuf>>,
    redirections_open: OnceCell<bool>,
    writes_no_file: OnceCell<bool>,
    safe_commands: Vec<OnceCell<bool>>,
    arguments: Vec<OnceCell<String>>,
    write_targets: OnceCell<Vec<WriteTarget>>,
    permissive_scan: OnceCell<PermissiveScan>,
    git_aliases: &'a BTreeMap<String, String>,
    substitutions: bool,
    expanded: OnceCell<Option<Box<Self>>>,
}

impl<'a> ShellCall<'a> {
    fn read(
        query: &'a Query<'a>,
        protected: Rc<ProtectedPaths<'a>>,
        home: Option<&'a Path>,
        substitutions: bool,
    ) -> Self {
        let effects = query.effects;
        let text = if effects.runs.is_empty() {
            query.args.get("command").and_then(Value::as_str).unwrap_or_default().to_owned()
        } else {
            effects.runs.join("\n")
        };
        let line = without_substitutions(bash::analyze(&text), substitutions);
        let base = query.workspace.first().map_or(Path::new("/"), PathBuf::as_path);
        let relative = query.args.get("dir_path").and_then(Value::as_str).unwrap_or_default();
        let directory =
            effects.directory.clone().unwrap_or_else(|| paths::resolve(base, Path::new(relative)));
        let count = line.commands.len();
        let directories = directories_of(&line, &directory, home);
        Self {
            git_aliases: &effects.git_aliases,
            substitutions,
            expanded: OnceCell::new(),
            folders: directories,
            directory,
            workspace: query.workspace,
            protected,
            home,
            links: &effects.links,
            are_words_readable: effects
                .reads
                .iter()
                .all(|path| is_open(path, query.workspace) || paths::is_git_configuration(path)),
            reads: &effects.reads,
            git_open: effects.reads.iter().all(|path| is_open(path, query.workspace)),
            redirections_open: OnceCell::new(),
            writes_no_file: OnceCell::new(),
            safe_commands: std::iter::repeat_with(OnceCell::new).take(count).collect(),
            arguments: std::iter::repeat_with(OnceCell::new).take(count).collect(),
            write_targets: OnceCell::new(),
            permissive_scan: OnceCell::new(),
            text,
            line,
        }
    }

    /// Returns the line with every expansion applied that the line itself determines, for checks
    /// that look for harmful commands. Returns `self` if that changes nothing.
    pub(crate) fn expanded_line(&self) -> &Self {
        let expanded = self.expanded.get_or_init(|| {
            let plain = !self.text.contains(['$', '`', '{', '|', '<'])
                && !self.text.contains("alias")
                && self.git_aliases.is_empty();
            if plain {
                return None;
            }
            let line =
                bash::analyze_expanded(&self.text, self.home, &self.directory, self.git_aliases);
            let line = without_substitutions(line, self.substitutions);
            Some(Box::new(Self {
                folders: directories_of(&line, &self.directory, self.home),
                text: self.text.clone(),
                directory: self.directory.clone(),
                safe_commands: Vec::new(),
                arguments: Vec::new(),
                redirections_open: OnceCell::new(),
                writes_no_file: OnceCell::new(),
                write_targets: OnceCell::new(),
                permissive_scan: OnceCell::new(),
                expanded: OnceCell::new(),
                line,
                protected: Rc::clone(&self.protected),
                ..*self
            }))
        });
        expanded.as_deref().unwrap_or(self)
    }

    /// Returns the git configuration that keeps git from running without approval: it names
    /// programs that git runs regardless of its arguments, or it cannot be read.
    pub(crate) fn controlling_git_config(&self) -> Option<&Path> {
        let mut reads = self.reads.iter();
        reads.find(|path| paths::is_git_configuration(path)).map(PathBuf::as_path)
    }

    /// Returns why the line cannot be evaluated command by command.
    pub(crate) fn unanalyzable_reason(&self) -> Option<&str> {
        match &self.line.unanalyzable_reason {
            Some(reason) => Some(reason),
            None if self.line.commands.is_empty() => Some("it contains no command"),
            None => None,
        }
    }

    pub(crate) fn permissive_scan(&self) -> &PermissiveScan {
        self.permissive_scan.get_or_init(|| scan(&self.text))
    }

    /// Whether the command only reads files of the workspace that are readable without approval.
    pub(crate) fn is_safe(&self, index: usize) -> bool {
        let (Some(command), Some(known)) =
            (self.line.commands.get(index), self.safe_commands.get(index))
        else {
            return false;
        };
        *known.get_or_init(|| {
            self.is_clearly_safe(command)
                && (command.name() != Some("git") || self.writes_no_file())
        })
    }

    /// Whether no part of the line writes a file. The files git reads, and the programs a
    /// repository configures, are checked before the line runs, so the check does not see what the
    /// line itself writes.
    fn writes_no_file(&self) -> bool {
        *self.writes_no_file.get_or_init(|| {
            !self.may_write_before_git()
                && self.line.commands.iter().enumerate().all(|(index, command)| {
                    is_transparent(&self.line, index) || self.is_clearly_safe(command)
                })
        })
    }

    /// Whether the line redirects into a file that git could read. Does not apply if git is the
    /// only command and writes the file itself, because git has read its configuration by then.
    fn may_write_before_git(&self) -> bool {
        let writes = |redirection: &&Redirection| {
            matches!(redirection.kind, RedirectionKind::Write | RedirectionKind::Append)
        };
        let counts = |(index, command): &(usize, &Command)| {
            command.name() != Some("cd") && !is_transparent(&self.line, *index)
        };
        let alone = self.line.commands.iter().enumerate().filter(counts).count() == 1
            && !self.line.redirections.iter().any(|redirection| redirection.is_standalone);
        !alone && self.redirections().any(|redirection| writes(&redirection))
    }

    /// Returns the part of the line that could make git run a program the line writes first: a
    /// write to the configuration of a repository, or to a path known only at run time.
    pub(crate) fn git_control_risk(&self) -> Option<String> {
        if !bash::uses_git(&self.line) {
            return None;
        }
        let before = self.may_write_before_git();
        let write_redirections = self.line.redirections.iter().filter(|redirection| {
            before && matches!(redirection.kind, RedirectionKind::Write | RedirectionKind::Append)
        });
        let other_commands =
            self.line.commands.iter().filter(|command| command.name() != Some("git"));
        // These commands create files with arbitrary names.
        let unpacks = |command: &&Command| {
            matches!(command.name(), Some("bsdtar" | "patch" | "rsync" | "scp" | "tar" | "unzip"))
        };
        if let Some(command) = other_commands.clone().find(unpacks)
            && !bash::written_paths(command).is_empty()
        {
            return Some(command.source.clone());
        }
        let words = write_redirections
            .map(|redirection| redirection.target.clone())
            .chain(other_commands.flat_map(bash::written_paths));
        let mut targets = words.flat_map(|word| {
            self.paths_for(&word).into_iter().map(move |target| (word.source.clone(), target))
        });
        targets.find_map(|(source, place)| match place {
            WriteTarget::Path(path) if paths::is_stream(&path) => None,
            // A directory as the target accepts any file name that the command provides.
            WriteTarget::Path(path) => (paths::is_part_of_repository(&path)
                || self.folders.as_ref().is_none_or(|directories| directories.contains(&path)))
            .then_some(source),
            WriteTarget::Unknown(source) => Some(source),
        })
    }

    fn is_clearly_safe(&self, command: &Command) -> bool {
        // Such a loop may not terminate.
        if self.line.features.contains(&"loop") {
            return false;
        }
        let open =
            if command.name() == Some("git") { self.git_open } else { self.are_words_readable };
        if !open || !self.redirections_are_open() {
            return false;
        }
        let safe_roots = bash::SafeReadRoots { directory: &self.directory, roots: self.workspace };
        // The effect of a `cd` on later paths is part of the check.
        let mut commands: Vec<Command> = self
            .line
            .commands
            .iter()
            .filter(|other| other.name() == Some("cd") && *other != command)
            .cloned()
            .collect();
        commands.push(command.clone());
        bash::is_safe(&ShellLine { commands, ..ShellLine::default() }, &safe_roots)
    }

    /// Whether the command only reads, regardless of where the files are.
    pub(crate) fn is_read_only(&self, index: usize) -> bool {
        self.is_safe(index)
            || self.line.commands.get(index).is_some_and(|command| {
                bash::written_paths(command).is_empty()
                    && command.name().is_some_and(|name| READERS.contains(&name))
            })
    }

    /// Whether all redirection targets are freely accessible files in the workspace.
    fn redirections_are_open(&self) -> bool {
        *self.redirections_open.get_or_init(|| {
            self.line.redirections.iter().all(|redirection| match redirection.kind {
                RedirectionKind::Read | RedirectionKind::Write | RedirectionKind::Append => {
                    self.paths_for(&redirection.target).iter().all(|target| match target {
                        WriteTarget::Path(path) => {
                            paths::is_stream(path)
                                || (is_open(path, self.workspace)
                                    && (redirection.kind == RedirectionKind::Read
                                        || !self.protected.restrict(path)))
                        }
                        WriteTarget::Unknown(_) => false,
                    })
                }
                RedirectionKind::Descriptor
                | RedirectionKind::HereDocument
                | RedirectionKind::HereString => true,
            })
        })
    }

    /// Returns the redirections that matter: excludes joined streams and discarded output.
    pub(crate) fn redirections(&self) -> impl Iterator<Item = &Redirection> {
        self.line.redirections.iter().filter(|redirection| match redirection.kind {
            RedirectionKind::Descriptor => false,
            RedirectionKind::Read | RedirectionKind::Write | RedirectionKind::Append => redirection
                .target
                .text
                .as_deref()
                .is_none_or(|target| !paths::is_stream(Path::new(target))),
            RedirectionKind::HereDocument | RedirectionKind::HereString => true,
        })
    }

    /// Returns the paths that the commands and redirections write to.
    pub(crate) fn write_targets(&self) -> &[WriteTarget] {
        self.write_targets.get_or_init(|| {
            let redirected = self.line.redirections.iter().filter(|redirection| {
                matches!(redirection.kind, RedirectionKind::Write | RedirectionKind::Append)
            });
            let mut written: Vec<WriteTarget> =
                redirected.flat_map(|redirection| self.paths_for(&redirection.target)).collect();
            for command in &self.line.commands {
                written.extend(
                    bash::written_paths(command).iter().flat_map(|word| self.paths_for(word)),
                );
            }
            written
        })
    }

    /// Returns the paths the word may refer to: one, or one for each directory the line may be in
    /// at that point. Includes both the path as written and the path after resolving symbolic
    /// links.
    pub(crate) fn paths_for(&self, word: &Word) -> Vec<WriteTarget> {
        let mut targets = self.paths_by_text(word);
        let led: Vec<WriteTarget> = targets
            .iter()
            .filter_map(WriteTarget::path)
            .flat_map(|path| {
                let links = path.ancestors().filter_map(|link| Some((link, self.links.get(link)?)));
                links.filter_map(|(link, to)| {
                    let relative = path.strip_prefix(link).ok()?;
                    Some(WriteTarget::Path(paths::resolve(to, relative)))
                })
            })
            .collect();
        targets.extend(led);
        targets
    }

    /// Returns the paths that words of the line name, existing or not: words without whitespace
    /// that contain a `/` or begin with `.`, as `name=path`, `@path`, and `name=@path` too.
    pub(crate) fn named_paths(&self) -> impl Iterator<Item = PathBuf> {
        let looks_like_path = |word: &Word| {
            word.text.as_deref().is_some_and(|text| {
                (text.starts_with('.') || text.contains('/')) && !text.contains(char::is_whitespace)
            })
        };
        let arguments = self.line.commands.iter().flat_map(Command::arguments);
        let targets = self.line.redirections.iter().map(|redirection| &redirection.target);
        arguments.chain(targets).map(path_part).filter(looks_like_path).flat_map(|word| {
            self.paths_for(&word).into_iter().filter_map(|target| target.path().cloned())
        })
    }

    fn paths_by_text(&self, word: &Word) -> Vec<WriteTarget> {
        let in_home = word.text.as_deref().and_then(|text| text.strip_prefix("~/"));
        if let Some(below) =
            in_home.filter(|relative| !word.quoted && !relative.contains(['*', '?', '[', '{']))
        {
            // The names below the home directory are useful even if the home directory is unknown.
            let home = self.home.unwrap_or(Path::new("/home/~"));
            return vec![WriteTarget::Path(paths::resolve(home, Path::new(below)))];
        }
        match word.text.as_deref() {
            Some(text) if !word.glob => match &self.folders {
                _ if text.starts_with('/') => {
                    vec![WriteTarget::Path(paths::resolve(Path::new("/"), Path::new(text)))]
                }
                Some(folders) => folders
                    .iter()
                    .map(|directory| WriteTarget::Path(paths::resolve(directory, Path::new(text))))
                    .collect(),
                None => vec![WriteTarget::Unknown(word.source.clone())],
            },
            _ => vec![WriteTarget::Unknown(word.source.clone())],
        }
    }

    pub(crate) fn may_run_outside(&self) -> bool {
        !paths::is_inside(&self.directory, self.workspace)
    }

    fn part_arguments(&self, index: usize, query: &Query<'_>) -> &str {
        match (self.line.commands.get(index), self.arguments.get(index)) {
            (Some(command), Some(text)) => {
                text.get_or_init(|| arguments_text(query.args, Some(&command.source)))
            }
            _ => "",
        }
    }
}

fn without_substitutions(mut line: ShellLine, substitutions: bool) -> ShellLine {
    if !substitutions {
        line.commands.retain(|command| command.position != bash::CommandPosition::Substitution);
    }
    line
}

/// Returns the directories the line may be in as a result of its `cd` commands. Each `cd` may have
/// failed or may apply to only a part of the line.
fn directories_of(line: &ShellLine, directory: &Path, home: Option<&Path>) -> Option<Vec<PathBuf>> {
    const MAX_COUNT: usize = 16;
    let mut directories = vec![directory.to_owned()];
    for command in &line.commands {
        match command.name() {
            Some("cd") => {
                let to_home;
                let text = match command.arguments() {
                    [] => home?.to_str()?,
                    [target] => {
                        let text = target.text.as_deref()?;
                        match (text.strip_prefix('~'), home) {
                            (Some(below), Some(home))
                                if !target.quoted
                                    && (below.is_empty() || below.starts_with('/')) =>
                            {
                                to_home = format!("{}{below}", home.to_str()?);
                                &to_home
                            }
                            _ if target.glob || text.is_empty() => return None,
                            _ if text.starts_with(['-', '~']) => return None,
                            _ => text,
                        }
                    }
                    _ => return None,
                };
                if text.contains(['*', '?', '[', '{']) {
                    return None;
                }
                let subdirectories: Vec<PathBuf> = directories
                    .iter()
                    .map(|directory| paths::resolve(directory, Path::new(text)))
                    .filter(|directory| !directories.contains(directory))
                    .collect();
                directories.extend(subdirectories);
                if directories.len() > MAX_COUNT {
                    return None;
                }
            }
            None | Some("pushd" | "popd" | "eval" | "source" | "." | "builtin") => return None,
            Some(_) => {}
        }
    }
    Some(directories)
}

fn is_open(path: &Path, roots: &[PathBuf]) -> bool {
    path == Path::new("/dev/null")
        || (paths::is_inside(path, roots) && !paths::is_inaccessible(path, roots))
}

/// Returns the part of a word that may name a path: what follows `=` and `@`, if anything does.
fn path_part(word: &Word) -> Word {
    let Some(text) = word.text.as_deref() else { return word.clone() };
    // A slash before the sign belongs to a path.
    let value = match text.split_once('=') {
        Some((name, value)) if !name.contains('/') && !value.is_empty() => value,
        _ => text,
    };
    let path = value.strip_prefix('@').filter(|path| !path.is_empty()).unwrap_or(value);
    Word { text: Some(path.to_owned()), ..word.clone() }
}
