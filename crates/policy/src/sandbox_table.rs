//! `sandbox.toml`: what commands may do in each mode, and what specific programs may do in every
//! mode.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use parallax_protocol::permissions::{FilePermissions, Permissions};
use parallax_protocol::policy::ApprovalMode;
use toml::de::{DeTable, DeValue};

use crate::names::nearest_word;
use crate::problem::{Problem, ProblemKind, Severity};
use crate::rule_file::{RuleFile, Tier};
use crate::toml_table::{self, LineNumbers, TypeMismatch, Value, flag, strings};

/// What commands may do in a mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModePermissions {
    /// Whether commands can reach other hosts.
    pub network: bool,
    /// Whether the workspace is read-only, except for approved tools.
    pub readonly: bool,
    /// Programs that may write even if the mode is read-only.
    pub approved_tools: Vec<String>,
    /// Whether the user can be asked for more than the row grants.
    pub allow_overrides: bool,
    /// Whether commands write to the package caches in place.
    pub caches: bool,
    /// Whether commands can reach servers on this host. `None` means the same as `network`, so that
    /// disabling the network also blocks detours through a local server.
    pub host_loopback: Option<bool>,
}

/// What a specific program may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramPermissions {
    /// Absolute paths of files and directories that the program may read and write.
    pub allowed_paths: Vec<PathBuf>,
    /// Whether the program can reach other hosts.
    pub allow_network: bool,
}

/// The contents of `sandbox.toml`, or the defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxTable {
    plan: ModePermissions,
    default: ModePermissions,
    accept_edits: ModePermissions,
    yolo: ModePermissions,
    commands: BTreeMap<String, ProgramPermissions>,
}

const READERS: &[&str] =
    &["cat", "ls", "grep", "head", "tail", "less", "wc", "sort", "uniq", "find", "pwd", "echo"];
const EDITORS: &[&str] = &["sed", "grep", "awk", "perl", "cat", "echo"];

impl Default for SandboxTable {
    fn default() -> Self {
        let row = |tools: &[&str]| ModePermissions {
            network: false,
            readonly: false,
            approved_tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            allow_overrides: true,
            caches: false,
            host_loopback: Some(false),
        };
        Self {
            plan: ModePermissions { readonly: true, ..row(&[]) },
            default: row(READERS),
            accept_edits: row(EDITORS),
            yolo: ModePermissions { network: true, host_loopback: None, caches: true, ..row(&[]) },
            commands: BTreeMap::new(),
        }
    }
}

impl SandboxTable {
    /// Returns the row of a mode.
    pub fn mode(&self, mode: ApprovalMode) -> &ModePermissions {
        match mode {
            ApprovalMode::Plan => &self.plan,
            ApprovalMode::Default => &self.default,
            ApprovalMode::AutoEdit => &self.accept_edits,
            ApprovalMode::Yolo => &self.yolo,
        }
    }

    /// Returns the row of a mode, for changes by settings.
    pub fn mode_mut(&mut self, mode: ApprovalMode) -> &mut ModePermissions {
        match mode {
            ApprovalMode::Plan => &mut self.plan,
            ApprovalMode::Default => &mut self.default,
            ApprovalMode::AutoEdit => &mut self.accept_edits,
            ApprovalMode::Yolo => &mut self.yolo,
        }
    }

    /// Returns the row of a program, by its base name.
    pub fn command(&self, name: &str) -> Option<&ProgramPermissions> {
        self.commands.get(name)
    }

    /// Merges the text of a user's file field by field and returns messages about what was not
    /// understood. `~/` is not expanded.
    pub fn merge(&mut self, text: &str) -> Vec<String> {
        let file = RuleFile { tier: Tier::User, path: PathBuf::new(), text: Ok(text.to_owned()) };
        let format_problem = |problem: Problem| match problem.line {
            Some(line) => format!("line {line}: {}", problem.message()),
            None => problem.message(),
        };
        self.merge_file(&file, None).into_iter().map(format_problem).collect()
    }

    /// Like [`merge`](Self::merge), for a file with a path and with a home directory for `~/`.
    pub fn merge_file(&mut self, file: &RuleFile, home: Option<&Path>) -> Vec<Problem> {
        let mut reader =
            SandboxTableParser { file, home, lines: LineNumbers::new(""), problems: Vec::new() };
        match &file.text {
            Ok(text) => {
                reader.lines = LineNumbers::new(text);
                match toml_table::parse(text) {
                    Ok(table) => reader.read_table(self, &table),
                    Err((line, message)) => reader.report_problem(
                        ProblemKind::TomlParse,
                        line,
                        format!("it is not valid TOML ({message}), so the defaults apply"),
                        None,
                    ),
                }
            }
            Err(reason) => reader.report_problem(
                ProblemKind::FileRead,
                None,
                format!("it cannot be read ({reason}), so the defaults apply"),
                None,
            ),
        }
        reader.problems.sort_by_key(|problem| problem.line);
        reader.problems
    }

    /// Returns the defaults merged with the text of a user's file.
    pub fn parse(text: &str, path: &Path, home: Option<&Path>) -> (Self, Vec<Problem>) {
        let mut table = Self::default();
        let file = RuleFile { tier: Tier::User, path: path.to_owned(), text: Ok(text.to_owned()) };
        let problems = table.merge_file(&file, home);
        (table, problems)
    }
}

impl ModePermissions {
    /// Whether commands can reach servers on this host.
    pub fn reaches_this_machine(&self) -> bool {
        self.host_loopback.unwrap_or(self.network)
    }

    /// Returns the permissions beyond the sandbox.
    pub(crate) fn grants(&self) -> Permissions {
        Permissions {
            network: self.network,
            host_loopback: self.reaches_this_machine(),
            // A row makes caches writable only if no layer can be mounted over them, which the
            // sandbox builder decides.
            ..Permissions::default()
        }
    }
}

impl ProgramPermissions {
    /// Returns the permissions beyond the sandbox.
    pub(crate) fn grants(&self, home: Option<&Path>) -> Permissions {
        let write = self.allowed_paths.iter().map(|path| match (path.strip_prefix("~"), home) {
            (Ok(below), Some(home)) => home.join(below),
            _ => path.clone(),
        });
        Permissions {
            network: self.allow_network,
            file_system: FilePermissions { read: Vec::new(), write: write.collect() },
            ..Permissions::default()
        }
    }
}

struct SandboxTableParser<'a> {
    file: &'a RuleFile,
    home: Option<&'a Path>,
    lines: LineNumbers<'a>,
    problems: Vec<Problem>,
}

impl SandboxTableParser<'_> {
    fn report_problem(
        &mut self,
        kind: ProblemKind,
        line: Option<usize>,
        message: String,
        suggestion: Option<&str>,
    ) {
        self.problems.push(Problem {
            kind,
            severity: if line.is_some() && kind != ProblemKind::TomlParse {
                Severity::Warning
            } else {
                Severity::Error
            },
            path: self.file.path.clone(),
            tier: self.file.tier,
            rule: None,
            line,
            message,
            suggestion: suggestion.map(str::to_owned),
        });
    }

    fn report_unknown_key(&mut self, key: &str, value: &Value<'_>, known: &[&str]) {
        let line = self.lines.line_of(&value.span());
        let message = format!("unknown key `{key}`");
        self.report_problem(
            ProblemKind::SchemaValidation,
            Some(line),
            message,
            nearest_word(key, known),
        );
    }

    fn report_type(&mut self, key: &str, value: &Value<'_>, expected: &TypeMismatch) {
        let line = self.lines.line_of(&value.span());
        let message = format!("`{key}` must be {}; the default applies", expected.0);
        self.report_problem(ProblemKind::SchemaValidation, Some(line), message, None);
    }

    fn inner_table<'v, 't>(&mut self, key: &str, value: &'v Value<'t>) -> Option<&'v DeTable<'t>> {
        match value.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => {
                self.report_type(key, value, &TypeMismatch("a table"));
                None
            }
        }
    }

    fn read_table(&mut self, into: &mut SandboxTable, table: &DeTable<'_>) {
        for (key, value) in table {
            let Some(inner) = self.inner_table(key.get_ref(), value) else { continue };
            match key.get_ref().as_ref() {
                "modes" => {
                    for (mode, value) in inner {
                        let row = match mode.get_ref().as_ref() {
                            "plan" => &mut into.plan,
                            "default" => &mut into.default,
                            "accepting_edits" | "autoEdit" | "auto_edit" => &mut into.accept_edits,
                            "yolo" => &mut into.yolo,
                            other => {
                                self.report_unknown_key(
                                    other,
                                    value,
                                    &["plan", "default", "accepting_edits", "yolo"],
                                );
                                continue;
                            }
                        };
                        if let Some(table) = self.inner_table(mode.get_ref(), value) {
                            self.read_mode(row, table);
                        }
                    }
                }
                "commands" => {
                    for (name, value) in inner {
                        let Some(table) = self.inner_table(name.get_ref(), value) else { continue };
                        let row = into.commands.entry(name.get_ref().to_string()).or_default();
                        self.read_program(row, table);
                    }
                }
                other => self.report_unknown_key(other, value, &["modes", "commands"]),
            }
        }
    }

    fn read_mode(&mut self, row: &mut ModePermissions, table: &DeTable<'_>) {
        for (key, value) in table {
            let key = key.get_ref().as_ref();
            let switch = match key {
                "network" => &mut row.network,
                "readonly" => &mut row.readonly,
                "allowOverrides" | "allow_overrides" => &mut row.allow_overrides,
                "caches" => &mut row.caches,
                "hostLoopback" | "host_loopback" => {
                    match flag(value) {
                        Ok(set) => row.host_loopback = Some(set),
                        Err(expected) => self.report_type(key, value, &expected),
                    }
                    continue;
                }
                "approvedTools" | "approved_tools" => {
                    match strings(value) {
                        Ok(tools) => row.approved_tools = tools,
                        Err(expected) => self.report_type(key, value, &expected),
                    }
                    continue;
                }
                // Gemini CLI marks its own row of the mode with this key.
                "yolo" => continue,
                other => {
                    let known = [
                        "network",
                        "readonly",
                        "approvedTools",
                        "allowOverrides",
                        "caches",
                        "hostLoopback",
                    ];
                    self.report_unknown_key(other, value, &known);
                    continue;
                }
            };
            match flag(value) {
                Ok(set) => *switch = set,
                Err(expected) => self.report_type(key, value, &expected),
            }
        }
    }

    fn read_program(&mut self, row: &mut ProgramPermissions, table: &DeTable<'_>) {
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "allowed_paths" | "allowedPaths" => match strings(value) {
                    Ok(paths) => {
                        row.allowed_paths = paths
                            .iter()
                            .map(|path| match (path.strip_prefix("~/"), self.home) {
                                (Some(below), Some(home)) => home.join(below),
                                _ => PathBuf::from(path),
                            })
                            .collect();
                    }
                    Err(expected) => self.report_type("allowed_paths", value, &expected),
                },
                "allow_network" | "allowNetwork" => match flag(value) {
                    Ok(set) => row.allow_network = set,
                    Err(expected) => self.report_type("allow_network", value, &expected),
                },
                other => self.report_unknown_key(other, value, &["allowed_paths", "allow_network"]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SandboxTable;
    use parallax_protocol::policy::ApprovalMode::{AutoEdit, Default, Plan, Yolo};
    use std::path::Path;

    #[test]
    fn sandbox_file_overrides_field_by_field() {
        let (table, problems) = SandboxTable::parse(
            "[modes.default]\nnetwork = true\n[modes.yolo]\ncaches = false\nnetwrok = true\n\
             [commands.npm]\nallowed_paths = [\"~/.npm\"]\nallow_network = true\n\
             [modes.plan]\nreadonly = 1\n",
            Path::new("/p/sandbox.toml"),
            Some(Path::new("/home/me")),
        );
        assert!(table.mode(Default).network && !table.mode(Default).readonly);
        assert!(table.mode(Yolo).network && !table.mode(Yolo).caches);
        assert!(table.mode(Plan).readonly && !table.mode(AutoEdit).network);
        let npm = table.command("npm").expect("row");
        assert_eq!(npm.allowed_paths, [Path::new("/home/me/.npm")]);
        assert!(npm.allow_network && table.command("git").is_none());
        let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "/p/sandbox.toml:5 (user policy): unknown key `netwrok`; did you mean `network`?",
                "/p/sandbox.toml:10 (user policy): `readonly` must be `true` or `false`; the \
                 default applies",
            ]
        );
        let free = |text: &str| {
            let (table, _) = SandboxTable::parse(text, Path::new("x"), None);
            table.mode(Yolo).reaches_this_machine()
        };
        assert!(free(""));
        assert!(!free("[modes.yolo]\nnetwork = false\n"));
        assert!(free("[modes.yolo]\nnetwork = false\nhostLoopback = true\n"));
        assert!(!free("[modes.yolo]\nhostLoopback = false\n"));
        let (table, _) =
            SandboxTable::parse("[modes.default]\nnetwork = true\n", Path::new("x"), None);
        assert!(!table.mode(Default).reaches_this_machine());
        let (table, problems) = SandboxTable::parse("[modes", Path::new("x"), None);
        assert_eq!((table, problems.len()), (SandboxTable::default(), 1));
    }
}
