//! Reviews an extension: lists what it may do, for the user's consent, and rejects what extensions
//! may not contain.

mod agents;
mod capability;
mod commands;
mod programs;
mod servers;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use parallax_config::extensions::{Manifest, content_hash};
use parallax_config::hooks::hooks_of_folder;
use parallax_config::mcp::is_rejected_variable;
use parallax_config::skills::{SkillTier, read_skill, skill_files};
use parallax_policy::{RuleFile, Tier, lint};
use serde_json::Value;

use capability::Capability;
use servers::servers;

/// Maximum bytes of a rule file.
const RULES: u64 = 256 * 1024;
/// Maximum number of names of one kind that are shown.
const MAX_SHOWN: usize = 40;

/// What an extension may do, without paths, so that two versions can be compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Review {
    /// One line for each capability.
    pub lines: Vec<String>,
    /// Notices for the user.
    pub notes: Vec<String>,
    /// Its executable files with their hashes.
    pub programs: BTreeMap<String, String>,
    /// For each line that does not show everything, a hash of the details.
    details: BTreeMap<String, String>,
    /// The lines that are lists of names. When versions are compared, only new names count.
    name_lists: Vec<NameList>,
    /// The capabilities behind lines that a newer version can narrow.
    capabilities: BTreeMap<String, Vec<Capability>>,
    /// Missing context files that the manifest names, one line each.
    pub missing: Vec<String>,
}

/// Names of one kind, shown in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NameList {
    kind: NameKind,
    names: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameKind {
    Commands,
    ExcludedTools,
    Themes,
}

impl NameList {
    /// Formats the line for the user.
    fn line(&self) -> String {
        let names = self.names.get(..MAX_SHOWN).unwrap_or(&self.names);
        let more = match self.names.len() - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        match self.kind {
            NameKind::Commands => format!("commands: {}{more}", names.join(", ")),
            NameKind::ExcludedTools => {
                format!("tools: excludes `{}`{more}", names.join("`, `"))
            }
            NameKind::Themes => format!("themes: {}{more}", names.join(", ")),
        }
    }

    /// Formats the names that the other version does not have.
    fn names_missing_in(&self, other: &Review) -> Option<String> {
        let theirs = other.name_lists.iter().find(|list| list.kind == self.kind);
        let is_new = |name: &&String| theirs.is_none_or(|list| !list.names.contains(*name));
        let names: Vec<String> = self.names.iter().filter(is_new).cloned().collect();
        (!names.is_empty()).then(|| Self { kind: self.kind, names }.line())
    }
}

impl Review {
    /// Returns everything the user consents to, one line each.
    pub fn consent_lines(&self) -> Vec<String> {
        self.lines.iter().cloned().chain(programs::format_programs(&self.programs)).collect()
    }

    /// Returns what the other version may not do, one line each: additional capabilities, and new
    /// or changed programs.
    pub fn added_since(&self, other: &Self) -> Vec<String> {
        let is_list = |line: &String| self.name_lists.iter().any(|list| list.line() == *line);
        let is_new = |line: &&String| {
            !other.lines.contains(line) && !is_list(line) && !self.is_within(line, other)
        };
        let new = self.lines.iter().filter(is_new);
        let mut beyond: Vec<String> = new.cloned().collect();
        beyond.extend(self.name_lists.iter().filter_map(|list| list.names_missing_in(other)));
        for (line, detail) in &self.details {
            if other.details.get(line).is_some_and(|it| it != detail)
                && !beyond.contains(line)
                && !self.is_within(line, other)
            {
                beyond.push(format!("{line}; its settings changed"));
            }
        }
        beyond.extend(programs::program_changes(&self.programs, &other.programs));
        beyond
    }

    /// Whether the other version may do everything that the line shows.
    fn is_within(&self, line: &str, other: &Self) -> bool {
        let granted: Vec<&Capability> = other.capabilities.values().flatten().collect();
        self.capabilities
            .get(line)
            .is_some_and(|own| own.iter().all(|it| granted.iter().any(|known| it.is_within(known))))
    }

    /// Adds the capability behind a line, which a newer version can narrow.
    fn add_capability(&mut self, line: &str, capability: Capability) {
        self.capabilities.entry(line.to_owned()).or_default().push(capability);
    }

    /// Adds a line for a list of names, unless it is empty.
    fn list(&mut self, kind: NameKind, names: Vec<String>) {
        if !names.is_empty() {
            let list = NameList { kind, names };
            self.lines.push(list.line());
            self.name_lists.push(list);
        }
    }

    /// Adds a line and the hash of its details.
    fn add_line(&mut self, line: String, details: &impl std::fmt::Debug) {
        let hash = programs::hash(format!("{details:?}").as_bytes());
        // Two entries can have the same line.
        self.details.entry(line.clone()).or_default().push_str(&hash);
        self.lines.push(line);
    }
}

/// Reviews the files of an extension before its variables are filled in. Blocking.
///
/// # Errors
/// Returns why the extension may not be installed.
pub(crate) fn review(directory: &Path, manifest: &Manifest) -> Result<Review, String> {
    content_hash(directory).map_err(|error| error.to_string())?;
    let mut review = Review { notes: manifest.notes.clone(), ..Review::default() };
    servers(&manifest.servers, None, &mut review)?;
    let (files, mut problems) = manifest.context_paths(directory);
    let mut ignored = Vec::new();
    // The value of a variable is only known when the extension is used.
    for name in manifest.variable_context_files() {
        let outside = format!("its context file `{name}` is outside its directory");
        let missing = format!("its context file `{name}` does not exist");
        problems.retain(|problem| *problem != missing);
        if name.starts_with("${workspacePath}") {
            // Gemini CLI ignores it, too.
            problems.retain(|problem| *problem != outside);
            ignored.push(format!("{outside} and is ignored"));
            continue;
        }
        review.lines.push(format!(
            "context: `{name}` is included in every session, if its variables lead to a file in its \
             directory"
        ));
    }
    if let Some(problem) = problems.iter().find(|problem| {
        !problem.ends_with("does not exist") && !problem.ends_with("is a directory")
    }) {
        return Err(problem.clone());
    }
    problems.extend(ignored);
    review.notes.extend(problems.iter().cloned());
    review.missing = problems;
    for file in files {
        let root = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        review.lines.push(format!("context: `{name}` is included in every session"));
    }
    review.list(NameKind::ExcludedTools, manifest.exclude_tools.clone());
    if let Some(plans) = manifest.plan_directory.as_deref().filter(|it| !it.trim().is_empty()) {
        let is_inside = Path::new(plans.trim())
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        // Variables refer to directories outside the project.
        if !is_inside || plans.contains("${") {
            return Err(format!("its `plan.directory` (`{}`) is outside the project", plans));
        }
        review.lines.push(format!(
            "plans: saved to `{}` in the project unless you set a directory",
            plans.trim()
        ));
    }
    hooks(directory, &mut review)?;
    let commands = command_names(&directory.join("commands"), &["toml", "md"]);
    review.list(NameKind::Commands, commands);
    commands::review_commands(directory, &mut review);
    review_skills(directory, &mut review);
    agents::agents(directory, &mut review)?;
    rules(directory, &mut review)?;
    let themes = manifest.themes.iter().filter_map(|it| it.get("name").and_then(Value::as_str));
    review.list(NameKind::Themes, themes.map(str::to_owned).collect());
    for setting in &manifest.settings {
        let variable = &setting.variable;
        if is_rejected_variable(variable) {
            return Err(format!(
                "its setting `{}` sets `{variable}`, which makes programs load code",
                setting.name
            ));
        }
        let secret = if setting.sensitive { ", a secret" } else { "" };
        let name = &setting.name;
        review.lines.push(format!("settings: requests {name} (`{variable}`{secret})"));
    }
    // Context is only text: a program named there does not run.
    let lines = review.lines.iter().filter(|line| !line.starts_with("context: "));
    let lines: Vec<String> = lines.cloned().collect();
    review.programs = programs::programs(directory, &lines).map_err(|it| it.to_string())?;
    Ok(review)
}

fn hooks(directory: &Path, review: &mut Review) -> Result<(), String> {
    for hook in hooks_of_folder(directory, &mut review.notes) {
        if let Some((variable, _)) = hook.env.iter().find(|(name, _)| is_rejected_variable(name)) {
            return Err(format!(
                "its hook `{}` sets `{variable}`, which makes programs load code",
                hook.title()
            ));
        }
        let of =
            if hook.matcher.is_empty() { String::new() } else { format!(" of {}", hook.matcher) };
        let line = format!("hook at {}{of}: runs `{}`", hook.event.as_str(), hook.command);
        let details = (&hook.env, hook.sandbox, hook.fail_closed, hook.sequential);
        let capability = Capability::Hook {
            event: hook.event.as_str(),
            command: hook.command.clone(),
            matcher: hook.matcher.clone(),
            details: format!("{details:?}"),
        };
        review.add_capability(&line, capability);
        review.add_line(line, &details);
    }
    Ok(())
}

fn review_skills(directory: &Path, review: &mut Review) {
    for file in skill_files(&directory.join("skills")) {
        match read_skill(&file, &SkillTier::User) {
            Ok(skill) => {
                review.lines.push(format!("skill `{}`: {}", skill.name, skill.description));
            }
            Err(reason) => {
                let name = file.strip_prefix(directory).unwrap_or(&file).display().to_string();
                review.notes.push(format!("invalid skill `{name}`: {reason}"));
            }
        }
    }
}

/// Returns the names of the command files of a directory, without file extensions.
fn command_names(directory: &Path, ends: &[&str]) -> Vec<String> {
    fn collect_names(
        directory: &Path,
        prefix: &str,
        ends: &[&str],
        depth: usize,
        names: &mut Vec<String>,
    ) {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut entries: Vec<_> = entries.take(1_000).collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && depth < 8 {
                collect_names(&entry.path(), &format!("{prefix}{name}:"), ends, depth + 1, names);
            } else if let Some((stem, end)) = name.rsplit_once('.')
                && ends.contains(&end)
            {
                names.push(format!("{prefix}{stem}"));
            }
        }
    }
    let mut names = Vec::new();
    collect_names(directory, "", ends, 0, &mut names);
    names
}

/// Rejects rules that allow anything. Rules of extensions may only restrict.
fn rules(directory: &Path, review: &mut Review) -> Result<(), String> {
    for (path, text) in rule_files(directory) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for problem in lint(&RuleFile { tier: Tier::Extension, path, text }, None) {
            // In an installed extension such a rule is ignored; here it prevents the installation.
            for (part, reason) in [
                ("cannot allow", "extension rules cannot allow tool calls"),
                ("mode `yolo`", "extension rules do not apply in `yolo` mode"),
            ] {
                if problem.message.contains(part) {
                    let line = problem.line.map(|line| format!(":{line}")).unwrap_or_default();
                    return Err(format!("its rules in `policies/{name}{line}`: {reason}"));
                }
            }
            review.notes.push(format!("`policies/{name}`: {}", problem.message()));
        }
        review.lines.push(format!("rules: `{name}` requires more approvals or denies more"));
    }
    Ok(())
}

/// Returns the rule files of an extension with their contents.
pub fn rule_files(directory: &Path) -> Vec<(PathBuf, Result<String, String>)> {
    let entries = std::fs::read_dir(directory.join("policies")).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .take(200)
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = match std::fs::metadata(&path).map(|metadata| metadata.len()) {
            Ok(length) if length <= RULES => {
                std::fs::read_to_string(&path).map_err(|error| error.to_string())
            }
            Ok(_) => Err("it is too large".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review_of(files: &[(&str, &str)]) -> Result<Review, String> {
        let directory = tempfile::tempdir().expect("directory");
        for (path, text) in files {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
            std::fs::write(path, text).expect("written");
        }
        review(directory.path(), &Manifest::read(directory.path())?)
    }

    #[test]
    fn review_lists_all_capabilities() {
        let review = review_of(&[
            (
                "gemini-extension.json",
                r#"{"name": "a", "version": "1", "excludeTools": ["glob"],
                    "mcpServers": {"s": {"command": "node", "args": ["${extensionPath}/s.js"],
                        "env": {"X": "$TOKEN"}}, "h": {"httpUrl": "https://x.example/"}},
                    "settings": [{"name": "Key", "envVar": "KEY", "sensitive": true}],
                    "themes": [{"name": "Dusk"}], "plan": {"directory": "docs/plans"}}"#,
            ),
            ("GEMINI.md", "hello"),
            ("commands/git/fix.toml", "prompt = 'x'"),
            ("skills/one/SKILL.md", "---\nname: one\ndescription: When\n---\n"),
            ("agents/one.md", "---\nname: one\ndescription: x\ntools: [glob, read_file]\n---\n"),
            (
                "agents/two.md",
                "---\nname: two\ndescription: x\nmcp_servers:\n  m:\n    command: curl\n    \
                 args: [\"http://x.example\"]\n---\n",
            ),
            (
                "hooks/hooks.json",
                r#"{"hooks": {"BeforeTool": [{"matcher": "glob", "hooks":
                    [{"type": "command", "command": "${extensionPath}/h.sh"}]}]}}"#,
            ),
            (
                "policies/p.toml",
                "[[rule]]\ntoolName = \"glob\"\ndecision = \"deny\"\npriority = 5\n",
            ),
        ])
        .expect("reviewed");
        assert_eq!(
            review.lines,
            [
                "MCP server `s`: runs `node ${extensionPath}/s.js`; sets X; reads your variables \
                 TOKEN",
                "MCP server `h`: connects to https://x.example/",
                "context: `GEMINI.md` is included in every session",
                "tools: excludes `glob`",
                "plans: saved to `docs/plans` in the project unless you set a directory",
                "hook at BeforeTool of glob: runs `${extensionPath}/h.sh`",
                "commands: git:fix",
                "skill `one`: When",
                "agent `one`: can use `glob`, `read_file`",
                "agent `two`: can use all tools",
                "MCP server `m` of the agent `two`: runs `curl http://x.example`",
                "rules: `p.toml` requires more approvals or denies more",
                "themes: Dusk",
                "settings: requests Key (`KEY`, a secret)",
            ]
        );
        assert_eq!(review.notes, Vec::<String>::new());
    }

    #[test]
    fn context_files_outside_are_ignored_only_in_the_workspace() {
        let review = |names: &str| {
            let manifest =
                format!(r#"{{"name": "a", "version": "1", "contextFileName": {names}}}"#);
            review_of(&[("gemini-extension.json", &manifest), ("docs/C.md", "text")])
        };
        let found = review(r#"["${extensionPath}/docs/../docs/C.md", "${workspacePath}/W.md"]"#);
        let found = found.expect("reviewed");
        assert_eq!(found.lines, ["context: `docs/C.md` is included in every session"]);
        let ignored =
            "its context file `${workspacePath}/W.md` is outside its directory and is ignored";
        assert_eq!((&found.notes, &found.missing), (&found.missing, &vec![ignored.to_owned()]));
        let found = review(r#""$HOME/H.md""#).expect("reviewed");
        assert!(found.lines[0].contains("if its variables lead to a file"), "{:?}", found.lines);
        for (names, reason) in [
            (r#""docs/../../x""#, "is outside its directory"),
            (r#""/docs/C.md""#, "is outside its directory"),
            ("5", "`contextFileName` must be a string or a list of strings"),
            (r#"["docs/C.md", {}]"#, "`contextFileName` must be a string or a list of strings"),
        ] {
            let error = review(names).expect_err(names);
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn version_with_fewer_capabilities_needs_no_consent() {
        let version = |tools: &str, server: &str, matcher: &str| {
            let manifest =
                format!(r#"{{"name": "a", "version": "1", "mcpServers": {{"s": {server}}}}}"#);
            let agent = format!("---\nname: one\ndescription: x\ntools: [{tools}]\n---\n");
            let hooks = format!(
                r#"{{"hooks": {{"BeforeTool": [{{"matcher": "{matcher}", "hooks":
                    [{{"type": "command", "command": "true"}}]}}]}}}}"#
            );
            let files = [
                ("gemini-extension.json", manifest.as_str()),
                ("agents/one.md", &agent),
                ("hooks/hooks.json", &hooks),
            ];
            review_of(&files).expect("reviewed")
        };
        let wide = version("glob, read_file", r#"{"command": "c", "env": {"A": "$A"}}"#, "a|b");
        let narrow = version("glob", r#"{"command": "c", "excludeTools": ["x"]}"#, "a");
        assert_eq!(narrow.added_since(&wide), Vec::<String>::new());
        assert_eq!(
            wide.added_since(&narrow),
            [
                "MCP server `s`: runs `c`; sets A; reads your variables A",
                "hook at BeforeTool of a|b: runs `true`",
                "agent `one`: can use `glob`, `read_file`",
            ]
        );
    }

    #[test]
    fn forbidden_extension_contents_are_rejected_with_the_reason() {
        let plain = r#"{"name": "a", "version": "1"}"#;
        let manifest = |fields: &str| format!(r#"{{"name": "a", "version": "1", {fields}}}"#);
        for (files, reason) in [
            (
                vec![(
                    "gemini-extension.json",
                    manifest(r#""mcpServers": {"s": {"command": "node", "env": {"NODE_OPTIONS": "x"}}}"#),
                )],
                "`NODE_OPTIONS`",
            ),
            (
                vec![(
                    "gemini-extension.json",
                    manifest(r#""settings": [{"name": "x", "envVar": "LD_PRELOAD"}]"#),
                )],
                "`LD_PRELOAD`",
            ),
            (
                vec![("gemini-extension.json", manifest(r#""plan": {"directory": "../../x"}"#))],
                "its `plan.directory` (`../../x`) is outside the project",
            ),
            (
                vec![("gemini-extension.json", manifest(r#""contextFileName": "../../x""#))],
                "is outside its directory",
            ),
            (
                vec![
                    ("gemini-extension.json", plain.to_owned()),
                    (
                        "policies/p.toml",
                        "[[rule]]\ntoolName = \"glob\"\ndecision = \"allow\"\npriority = 5\n".to_owned(),
                    ),
                ],
                "extension rules cannot allow",
            ),
            (
                vec![
                    ("gemini-extension.json", plain.to_owned()),
                    (
                        "hooks/hooks.json",
                        r#"{"hooks": {"BeforeTool": [{"hooks": [{"command": "c", "env": {"BASH_ENV": "x"}}]}]}}"#.to_owned(),
                    ),
                ],
                "`BASH_ENV`",
            ),
            (
                vec![
                    ("gemini-extension.json", plain.to_owned()),
                    (
                        "agents/a.md",
                        "---\nname: a\ndescription: x\nmcp_servers:\n  m:\n    command: c\n    \
                         env:\n      PYTHONPATH: /evil\n---\n"
                            .to_owned(),
                    ),
                ],
                "its MCP server `m` of the agent `a` sets `PYTHONPATH`",
            ),
        ] {
            let files: Vec<(&str, &str)> =
                files.iter().map(|(path, text)| (*path, text.as_str())).collect();
            let error = review_of(&files).expect_err("refused");
            assert!(error.contains(reason), "{error}");
        }
    }
}
