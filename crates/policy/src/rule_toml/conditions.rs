//! Parses the conditions of rules and safety checkers: tools, arguments, commands, paths, modes.

use crate::command_prefix::CommandPrefix;
use crate::conditions::{CommandPattern, Commands, Conditions};
use crate::names::{SHELL, canonical_name, known_names, nearest_word};
use crate::path_condition::{PathGlob, PathScope};
use crate::pattern;
use crate::problem::ProblemKind;
use crate::toml_table::{self, TypeMismatch, flag, strings, text};
use crate::tool_pattern::ToolPattern;
use parallax_protocol::policy::ApprovalMode;
use toml::de::{DeTable, DeValue};

use super::{InvalidRule, RuleReader, bad_pattern, get, invalid_rule, schema};

impl RuleReader<'_> {
    pub(super) fn read_conditions(
        &mut self,
        number: usize,
        line: usize,
        table: &DeTable<'_>,
    ) -> Result<Conditions, InvalidRule> {
        let server = self.optional(table, "mcpName", "mcp_name", text)?;
        let names = self.optional(table, "toolName", "tool_name", strings)?;
        let tools = match (&server, names) {
            (None, None) => {
                return Err(schema(
                    "`toolName` is missing (`*` means every tool), or `mcpName` for all tools of a server",
                ));
            }
            (Some(server), None) => vec![ToolPattern::for_server(server, "*")],
            (Some(server), Some(names)) => {
                names.iter().map(|name| ToolPattern::for_server(server, name)).collect()
            }
            (None, Some(names)) => names.iter().map(|name| self.tool(number, line, name)).collect(),
        };
        if tools.is_empty() {
            return Err(schema("`toolName` is an empty list"));
        }
        if tools.iter().any(|tool| matches!(tool, ToolPattern::Exact(name) if name.is_empty())) {
            return Err(schema("`toolName` is empty (`*` means every tool)"));
        }
        let commands = self.commands(number, line, table, &tools)?;
        let arguments = match self.optional(table, "argsPattern", "args_pattern", text)? {
            Some(_) if !matches!(commands, Commands::Any) => {
                return Err(invalid_rule(
                    "`argsPattern` cannot be combined with `commandPrefix` or \
                    `commandRegex`",
                ));
            }
            Some(text) => Some(
                pattern::compile(&text).map_err(|reason| bad_pattern("argsPattern", &reason))?,
            ),
            None => None,
        };
        let path_glob = match self.optional(table, "pathGlob", "path_glob", text)? {
            Some(text) => Some(
                PathGlob::parse(&text, self.reading.home)
                    .map_err(|reason| bad_pattern("pathGlob", &reason))?,
            ),
            None => None,
        };
        let path_inside = match self.optional(table, "pathInside", "path_inside", text)? {
            Some(text) => Some(PathScope::parse(&text).ok_or_else(|| {
                invalid_rule(format!(
                    "unknown `pathInside` `{text}`: use `workspace`, `plans`, or `tmp`"
                ))
            })?),
            None => None,
        };
        let mut modes = Vec::new();
        for name in self.optional(table, "modes", "modes", strings)?.unwrap_or_default() {
            modes.push(
                ApprovalMode::parse(&name).ok_or_else(|| InvalidRule {
                    suggestion: nearest_word(&name, &["default", "autoEdit", "plan", "yolo"])
                        .map(str::to_owned),
                    ..invalid_rule(format!(
                        "unknown mode `{name}`: use `default`, `autoEdit`, `plan`, or `yolo`"
                    ))
                })?,
            );
        }
        let annotations = match get(table, "toolAnnotations", "tool_annotations") {
            Some(value) => match value.get_ref() {
                DeValue::Table(table) => table
                    .iter()
                    .map(|(key, value)| {
                        (key.get_ref().to_string(), toml_table::json(value.get_ref()))
                    })
                    .collect(),
                _ => {
                    return Err(self.wrong_type(
                        "toolAnnotations",
                        value,
                        &TypeMismatch("a table"),
                    ));
                }
            },
            None => Vec::new(),
        };
        Ok(Conditions {
            tools,
            server,
            agent: self.optional(table, "subagent", "subagent", text)?,
            commands,
            arguments,
            path_glob,
            path_inside,
            annotations,
            modes,
            interactive: self.optional(table, "interactive", "interactive", flag)?,
        })
    }

    fn tool(&mut self, number: usize, line: usize, name: &str) -> ToolPattern {
        let warn = |message: String, suggestion: Option<String>| InvalidRule {
            kind: ProblemKind::ToolNameWarning,
            line: Some(line),
            message,
            suggestion,
        };
        if let Some((server, tool)) = name.split_once("__")
            && !name.starts_with("mcp_")
        {
            let new = format!("mcp_{server}_{tool}");
            let fault = warn(format!("the form `{name}` is deprecated: use `{new}`"), None);
            self.report(Some(number), false, fault);
            return ToolPattern::for_server(server, tool);
        }
        let has_own_namespace =
            name.contains('*') || name.starts_with("mcp_") || name.starts_with("discovered_tool_");
        if !has_own_namespace
            && canonical_name(name) == name
            && let Some(near) = nearest_word(name, &known_names())
        {
            let fault = warn(format!("unknown tool `{name}`"), Some(near.to_owned()));
            self.report(Some(number), false, fault);
        }
        ToolPattern::parse(name)
    }

    fn commands(
        &mut self,
        number: usize,
        line: usize,
        table: &DeTable<'_>,
        tools: &[ToolPattern],
    ) -> Result<Commands, InvalidRule> {
        let prefixes = self.optional(table, "commandPrefix", "command_prefix", strings)?;
        let regex = self.optional(table, "commandRegex", "command_regex", text)?;
        let commands = match (prefixes, regex) {
            (None, None) => return Ok(Commands::Any),
            (Some(_), Some(_)) => {
                return Err(invalid_rule("`commandPrefix` and `commandRegex` cannot be combined"));
            }
            (Some(prefixes), None) => {
                let (mut never, mut some) = (Vec::new(), Vec::new());
                for text in prefixes {
                    match CommandPrefix::impossible_reason(&text) {
                        Some(reason) => {
                            never.push(format!("invalid command prefix `{text}`: {reason}"))
                        }
                        None => some.push(text),
                    }
                }
                // The other prefixes of the list still apply.
                let prefixes = match (some.is_empty(), never.first()) {
                    (true, Some(message)) => return Err(invalid_rule(message.clone())),
                    _ => some,
                };
                for message in &never {
                    self.ignore_rule(number, line, message);
                }
                let prefixes: Vec<CommandPrefix> =
                    prefixes.iter().map(|prefix| CommandPrefix::parse(prefix)).collect();
                if prefixes.is_empty() || prefixes.iter().any(|prefix| prefix.words().is_empty()) {
                    return Err(invalid_rule(
                        "`commandPrefix` is empty: omit it to match every command",
                    ));
                }
                Commands::Prefixes(prefixes)
            }
            (None, Some(text)) => {
                let bad = |reason: String| bad_pattern("commandRegex", &reason);
                Commands::Pattern(Box::new(CommandPattern {
                    from_start: pattern::compile_from_start(&text).map_err(bad)?,
                    unanchored: pattern::compile(&text).map_err(bad)?,
                    text,
                }))
            }
        };
        if !matches!(tools, [ToolPattern::Exact(name)] if name == SHELL) {
            return Err(invalid_rule(format!(
                "`commandPrefix` and `commandRegex` require `toolName = \"{SHELL}\"`"
            )));
        }
        Ok(commands)
    }
}
