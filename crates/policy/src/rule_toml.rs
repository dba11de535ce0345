//! Parses rule files: `[[rule]]` and `[[safety_checker]]` tables in TOML.

mod conditions;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, Decision};
use toml::de::{DeTable, DeValue};

use crate::checker::{Checker, CheckerKind};
use crate::command_prefix::CommandPrefix;
use crate::conditions::{Commands, Conditions};
use crate::names::nearest_word;
use crate::problem::{Problem, ProblemKind, Severity};
use crate::rule::{Priority, Rule, RuleSource};
use crate::rule_file::{RuleFile, Tier};
use crate::toml_table::{self, LineNumbers, TypeMismatch, Value, flag, integer, strings, text};
use crate::tool_pattern::ToolPattern;

/// Settings that parsing depends on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ParseOptions<'a> {
    /// The home directory, for `~/` in globs and permissions.
    pub(crate) home: Option<&'a Path>,
    /// Whether rules of the project may allow calls.
    pub(crate) workspace_may_allow: bool,
}

/// The contents of a rule file.
#[derive(Debug, Default)]
pub(crate) struct ParsedRules {
    pub(crate) rules: Vec<Rule>,
    pub(crate) checkers: Vec<Checker>,
    pub(crate) problems: Vec<Problem>,
}

const CONDITION_KEYS: &[&str] = &[
    "toolName",
    "tool_name",
    "subagent",
    "mcpName",
    "mcp_name",
    "argsPattern",
    "args_pattern",
    "commandPrefix",
    "command_prefix",
    "commandRegex",
    "command_regex",
    "modes",
    "interactive",
    "toolAnnotations",
    "tool_annotations",
    "pathGlob",
    "path_glob",
    "pathInside",
    "path_inside",
];
const RULE_KEYS: &[&str] = &[
    "decision",
    "priority",
    "name",
    "description",
    "denyMessage",
    "deny_message",
    "allowRedirection",
    "allow_redirection",
    "permissions",
];
const CHECKER_KEYS: &[&str] =
    &["priority", "name", "description", "checker", "config", "required_context"];

/// Why a rule is ignored.
struct InvalidRule {
    kind: ProblemKind,
    line: Option<usize>,
    message: String,
    suggestion: Option<String>,
}

/// Parses a file. Entries with problems are reported and ignored.
pub(crate) fn read(file: &RuleFile, reading: ParseOptions<'_>) -> ParsedRules {
    let mut reader = RuleReader {
        tier: file.tier,
        path: Arc::new(file.path.clone()),
        lines: LineNumbers::new(""),
        reading,
        loaded: ParsedRules::default(),
    };
    match &file.text {
        Ok(text) => {
            reader.lines = LineNumbers::new(text);
            reader.read_file(text);
        }
        Err(reason) => reader.report(
            None,
            true,
            InvalidRule {
                kind: ProblemKind::FileRead,
                line: None,
                message: format!("it cannot be read ({reason}), so none of its rules apply"),
                suggestion: None,
            },
        ),
    }
    reader.loaded.problems.sort_by_key(|problem| problem.line);
    reader.loaded
}

struct RuleReader<'t> {
    tier: Tier,
    path: Arc<PathBuf>,
    lines: LineNumbers<'t>,
    reading: ParseOptions<'t>,
    loaded: ParsedRules,
}

impl<'t> RuleReader<'t> {
    fn report(&mut self, rule: Option<usize>, error: bool, fault: InvalidRule) {
        self.loaded.problems.push(Problem {
            kind: fault.kind,
            severity: if error { Severity::Error } else { Severity::Warning },
            path: self.path.as_ref().clone(),
            tier: self.tier,
            rule,
            line: fault.line,
            message: fault.message,
            suggestion: fault.suggestion,
        });
    }

    fn read_file(&mut self, text: &str) {
        let table = match toml_table::parse(text) {
            Ok(table) => table,
            Err((line, message)) => {
                return self.report(
                    None,
                    true,
                    InvalidRule {
                        kind: ProblemKind::TomlParse,
                        line,
                        message: format!(
                            "it is not valid TOML ({message}), so none of its rules apply"
                        ),
                        suggestion: None,
                    },
                );
            }
        };
        for (key, value) in &table {
            let name = key.get_ref().as_ref();
            let line = self.lines.line_of(&key.span());
            match (name, value.get_ref()) {
                ("rule" | "safety_checker", DeValue::Array(items)) => {
                    for (index, item) in items.iter().enumerate() {
                        let line = self.lines.line_of(&item.span());
                        match item.get_ref() {
                            DeValue::Table(table) if name == "rule" => {
                                self.read_rule_table(index + 1, line, table);
                            }
                            DeValue::Table(table) => self.checker(index + 1, line, table),
                            _ => self.report(Some(index + 1), true, not_a_table(name, line)),
                        }
                    }
                }
                ("rule" | "safety_checker", _) => {
                    self.report(None, true, not_a_table(name, line));
                }
                _ => self.report(
                    None,
                    false,
                    InvalidRule {
                        kind: ProblemKind::SchemaValidation,
                        line: Some(line),
                        message: format!("unknown key `{name}`"),
                        suggestion: nearest_word(name, &["rule", "safety_checker"])
                            .map(str::to_owned),
                    },
                ),
            }
        }
    }

    fn read_rule_table(&mut self, number: usize, line: usize, table: &DeTable<'_>) {
        match self.read_rule(number, line, table) {
            Ok(Some(rule)) => self.loaded.rules.push(rule),
            Ok(None) => {}
            Err(mut fault) => {
                fault.line.get_or_insert(line);
                let lost =
                    match get(table, "decision", "decision").and_then(|value| text(value).ok()) {
                        Some(decision) if decision == "deny" => {
                            "the rule is ignored: what it denies is NOT denied"
                        }
                        _ => "the rule is ignored",
                    };
                fault.message = format!("{}; {lost}", fault.message);
                self.report(Some(number), true, fault);
            }
        }
    }

    /// Parses one rule. Returns `None` if the rule is ignored, after reporting why.
    fn read_rule(
        &mut self,
        number: usize,
        line: usize,
        table: &DeTable<'_>,
    ) -> Result<Option<Rule>, InvalidRule> {
        let decision = match read_required(table, "decision", text, &self.lines)?.as_str() {
            "allow" => Decision::Allow,
            "deny" => Decision::Deny,
            "ask_user" | "ask" => Decision::Ask,
            other => {
                let fault = invalid_rule(format!(
                    "unknown `decision` `{other}`: use `allow`, `deny`, or \
                        `ask_user`"
                ));
                return Err(InvalidRule {
                    suggestion: nearest_word(other, &["allow", "deny", "ask_user"])
                        .map(str::to_owned),
                    ..fault
                });
            }
        };
        self.unknown_keys(number, table, RULE_KEYS, decision == Decision::Allow)?;
        let priority = self.priority(table, true)?;
        let mut conditions = self.read_conditions(number, line, table)?;
        if self.tier == Tier::Extension && conditions.modes.contains(&ApprovalMode::Yolo) {
            self.ignore_rule(number, line, "extension rules do not apply in `yolo` mode");
            conditions.modes.retain(|mode| *mode != ApprovalMode::Yolo);
            if conditions.modes.is_empty() {
                return Ok(None);
            }
        }
        let may_allow = match self.tier {
            Tier::Extension => false,
            Tier::Workspace => self.reading.workspace_may_allow,
            Tier::BuiltIn | Tier::User | Tier::Admin => true,
        };
        if decision == Decision::Allow && !may_allow {
            let whose = match self.tier {
                Tier::Extension => "extension rules cannot allow: the rule is ignored",
                _ => "project rules can only restrict: the rule is ignored",
            };
            self.ignore_rule(number, line, whose);
            return Ok(None);
        }
        let grants = match get(table, "permissions", "permissions") {
            Some(value) => self.permissions(value)?,
            None => Permissions::default(),
        };
        if !grants.is_empty() && decision != Decision::Allow {
            return Err(invalid_rule("`permissions` is only valid in an `allow` rule"));
        }
        if grants.outside
            && !matches!(&conditions.commands, Commands::Prefixes(prefixes) if !prefixes.is_empty())
        {
            return Err(invalid_rule(
                "`permissions.outside` requires a `commandPrefix` that is the whole command",
            ));
        }
        let name = match self.optional(table, "name", "name", text)? {
            Some(name) => name,
            None => default_name(decision, &conditions),
        };
        let deny_message = self.optional(table, "denyMessage", "deny_message", text)?;
        let allow_redirection =
            self.optional(table, "allowRedirection", "allow_redirection", flag)?.unwrap_or(false);
        Ok(Some(Rule {
            name,
            source: self.source(line),
            priority,
            conditions,
            decision,
            exempts_only: false,
            allow_redirection,
            deny_message,
            grants,
        }))
    }

    fn source(&self, line: usize) -> RuleSource {
        match self.tier {
            Tier::BuiltIn => RuleSource::BuiltIn,
            tier => RuleSource::File { tier, path: Arc::clone(&self.path), line },
        }
    }

    fn checker(&mut self, number: usize, line: usize, table: &DeTable<'_>) {
        match self.read_checker(number, line, table) {
            Ok(checker) => self.loaded.checkers.push(checker),
            Err(mut fault) => {
                fault.line.get_or_insert(line);
                fault.message = format!("{}; the safety checker is ignored", fault.message);
                self.report(Some(number), true, fault);
            }
        }
    }

    fn read_checker(
        &mut self,
        number: usize,
        line: usize,
        table: &DeTable<'_>,
    ) -> Result<Checker, InvalidRule> {
        self.unknown_keys(number, table, CHECKER_KEYS, false)?;
        let conditions = self.read_conditions(number, line, table)?;
        let priority = self.priority(table, false)?;
        let Some(value) = get(table, "checker", "checker") else {
            return Err(schema(
                "`checker` is missing: use `checker = { type = \"in-process\", name = \
                 \"allowed-path\" }`",
            ));
        };
        let DeValue::Table(checker) = value.get_ref() else {
            return Err(self.wrong_type("checker", value, &TypeMismatch("a table")));
        };
        let kind = read_required(checker, "type", text, &self.lines)?;
        let name = read_required(checker, "name", text, &self.lines)?;
        let kind = match (kind.as_str(), name.as_str()) {
            ("in-process", "allowed-path") => self.allowed_path(table, checker)?,
            ("in-process", "conseca") => {
                return Err(invalid_rule(
                    "the checker `conseca` is not supported; use rules instead",
                ));
            }
            ("in-process", other) => {
                return Err(invalid_rule(format!("unknown checker `{other}`: use `allowed-path`")));
            }
            ("external", _) => CheckerKind::External,
            (other, _) => {
                return Err(invalid_rule(format!(
                    "unknown `checker.type` `{other}`: use `in-process` or `external`"
                )));
            }
        };
        Ok(Checker { name, source: self.source(line), priority, conditions, kind })
    }

    /// Parses an allowed-path checker, whose `config` is nested in `checker` or next to it.
    fn allowed_path(
        &self,
        table: &DeTable<'_>,
        checker: &DeTable<'_>,
    ) -> Result<CheckerKind, InvalidRule> {
        let mut lists = [None, None];
        let config = get(checker, "config", "config").or_else(|| get(table, "config", "config"));
        if let Some(config) = config {
            let DeValue::Table(config) = config.get_ref() else {
                return Err(self.wrong_type("config", config, &TypeMismatch("a table")));
            };
            for (list, key) in lists.iter_mut().zip(["included_args", "excluded_args"]) {
                *list = self.optional(config, key, key, strings)?;
            }
        }
        let [included, excluded] = lists;
        Ok(CheckerKind::AllowedPath {
            included: included.unwrap_or_default(),
            excluded: excluded.unwrap_or_default(),
        })
    }

    fn priority(&self, table: &DeTable<'_>, is_required: bool) -> Result<Priority, InvalidRule> {
        const MAX_BYTES: i64 = 999;
        let number = match get(table, "priority", "priority") {
            Some(value) => integer(value)
                .filter(|number| (0..=MAX_BYTES).contains(number))
                .ok_or_else(|| {
                    self.wrong_type("priority", value, &TypeMismatch("an integer from 0 to 999"))
                })?,
            None if is_required => {
                return Err(schema("`priority` is missing: use an integer from 0 to 999"));
            }
            None => 0,
        };
        Ok(Priority(self.tier.number() * 1000 + u32::try_from(number).unwrap_or(0)))
    }

    fn permissions(&self, value: &Value<'_>) -> Result<Permissions, InvalidRule> {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.wrong_type("permissions", value, &TypeMismatch("a table")));
        };
        let json = toml_table::json(&DeValue::Table(table.clone()));
        let mut permissions: Permissions =
            serde_json::from_value(json).map_err(|error| InvalidRule {
                line: Some(self.lines.line_of(&value.span())),
                ..schema(format!("invalid `permissions`: {error}"))
            })?;
        let files = &mut permissions.file_system;
        for path in files.read.iter_mut().chain(&mut files.write) {
            if let (Ok(below), Some(home)) = (path.strip_prefix("~"), self.reading.home) {
                *path = home.join(below);
            }
            let stays = path.components().all(|part| part != std::path::Component::ParentDir);
            if !(path.is_absolute() || path.starts_with("~")) || !stays {
                return Err(invalid_rule(format!(
                    "`{}` in `permissions` must be absolute or begin with `~/`, without `..`",
                    path.display()
                )));
            }
        }
        Ok(permissions)
    }

    fn ignore_rule(&mut self, number: usize, line: usize, message: &str) {
        let fault = InvalidRule { line: Some(line), ..invalid_rule(message) };
        self.report(Some(number), false, fault);
    }

    /// Reports unknown keys. In an allowing rule, a key that looks like a misspelled condition
    /// invalidates the rule, because the rule would allow more without it.
    fn unknown_keys(
        &mut self,
        number: usize,
        table: &DeTable<'_>,
        more: &[&str],
        allows: bool,
    ) -> Result<(), InvalidRule> {
        for (key, _) in table {
            let name = key.get_ref().as_ref();
            if CONDITION_KEYS.contains(&name) || more.contains(&name) {
                continue;
            }
            let known: Vec<&str> = CONDITION_KEYS.iter().chain(more).copied().collect();
            let near = nearest_word(name, &known);
            let fault = InvalidRule {
                line: Some(self.lines.line_of(&key.span())),
                suggestion: near.map(str::to_owned),
                ..schema(format!("unknown key `{name}`"))
            };
            let narrows = name == "safety_checker"
                || name == "checker"
                || near.is_some_and(|near| CONDITION_KEYS.contains(&near));
            if allows && narrows {
                return Err(fault);
            }
            let message = format!("{}; it is ignored", fault.message);
            self.report(Some(number), false, InvalidRule { message, ..fault });
        }
        Ok(())
    }

    fn optional<T>(
        &self,
        table: &DeTable<'_>,
        key: &'static str,
        alias: &'static str,
        read: fn(&Value<'_>) -> Result<T, TypeMismatch>,
    ) -> Result<Option<T>, InvalidRule> {
        match get(table, key, alias) {
            Some(value) => {
                read(value).map(Some).map_err(|expected| self.wrong_type(key, value, &expected))
            }
            None => Ok(None),
        }
    }

    fn wrong_type(&self, key: &str, value: &Value<'_>, expected: &TypeMismatch) -> InvalidRule {
        InvalidRule {
            line: Some(self.lines.line_of(&value.span())),
            ..schema(format!("`{key}` must be {}", expected.0))
        }
    }
}

fn get<'a, 't>(table: &'a DeTable<'t>, key: &str, alias: &str) -> Option<&'a Value<'t>> {
    table.get(key).or_else(|| table.get(alias))
}

fn read_required<T>(
    table: &DeTable<'_>,
    key: &'static str,
    read: fn(&Value<'_>) -> Result<T, TypeMismatch>,
    lines: &LineNumbers<'_>,
) -> Result<T, InvalidRule> {
    let value = table.get(key).ok_or_else(|| schema(format!("`{key}` is missing")))?;
    read(value).map_err(|expected| InvalidRule {
        line: Some(lines.line_of(&value.span())),
        ..schema(format!("`{key}` must be {}", expected.0))
    })
}

fn schema(message: impl Into<String>) -> InvalidRule {
    InvalidRule {
        kind: ProblemKind::SchemaValidation,
        line: None,
        message: message.into(),
        suggestion: None,
    }
}

fn invalid_rule(message: impl Into<String>) -> InvalidRule {
    InvalidRule { kind: ProblemKind::RuleValidation, ..schema(message) }
}

fn bad_pattern(key: &str, reason: &str) -> InvalidRule {
    InvalidRule {
        kind: ProblemKind::RegexCompilation,
        ..schema(format!("`{key}` is invalid: {reason}"))
    }
}

fn not_a_table(name: &str, line: usize) -> InvalidRule {
    InvalidRule { line: Some(line), ..schema(format!("`{name}` must be written as `[[{name}]]`")) }
}

/// Returns a name for a rule that has none.
fn default_name(decision: Decision, conditions: &Conditions) -> String {
    let verb = match decision {
        Decision::Allow => "allow",
        Decision::Ask => "ask about",
        Decision::Deny => "deny",
    };
    let what = match &conditions.commands {
        Commands::Any => conditions.tools.iter().map(ToolPattern::text).collect::<Vec<_>>(),
        Commands::Prefixes(prefixes) => prefixes.iter().map(CommandPrefix::text).collect(),
        Commands::Pattern(pattern) => vec![pattern.text.clone()],
    };
    let what: Vec<String> = what.iter().map(|one| format!("`{one}`")).collect();
    format!("{verb} {}", what.join(", "))
}
