//! The catalog of custom commands by name. Does not access files.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use parallax_config::commands::{
    CommandArgument, CommandFile, CommandFiles, CommandFormat, CommandOverrides, CommandProblem,
    CommandSource,
};

use crate::format_problem;
use crate::names::{OWN_PREFIX, is_alias, is_parallax_only, is_reserved};
use parallax_config::commands::template::{UnclosedBlock, parse};
use parallax_config::similar_names;

/// A custom command in lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandInfo {
    /// Name to type after the slash.
    pub name: String,
    /// Other names: `user.NAME`, `workspace.NAME`, or `EXTENSION:NAME` if another command has the
    /// plain name.
    pub aliases: Vec<String>,
    /// One-line description.
    pub description: String,
    /// Where the command comes from.
    pub source: CommandSource,
    /// Hint about the arguments; empty if there is none.
    pub argument_hint: String,
    /// The named arguments, if the file declares any.
    pub arguments: Vec<CommandArgument>,
    /// The file.
    pub path: PathBuf,
    /// The format of the file.
    pub form: CommandFormat,
    /// Fields of the file that Parallax ignores.
    pub ignored_fields: Vec<String>,
    /// The name of its file, if another command has that name.
    pub file_name: Option<String>,
    pub(crate) template: String,
    pub(crate) overrides: CommandOverrides,
}

/// The custom commands by name.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    commands: Vec<CommandInfo>,
    by_name: HashMap<String, usize>,
    problems: Vec<(PathBuf, String)>,
    /// Names whose file of highest precedence is invalid. Files of lower precedence do not replace
    /// them.
    broken: HashMap<String, String>,
    notices: Vec<String>,
    /// The notices about files with the name of a built-in command.
    conflicts: Vec<String>,
}

impl Catalog {
    /// Assigns names to the commands. The plain name goes to the command of highest precedence:
    /// project, then user, then extension.
    pub(crate) fn new(files: CommandFiles) -> Self {
        let mut count: HashMap<&str, usize> = HashMap::new();
        for file in &files.commands {
            *count.entry(&file.name).or_default() += 1;
        }
        // A longer name must not equal the plain name of another file.
        let mut used_names: HashSet<String> =
            files.commands.iter().map(|file| file.name.clone()).collect();
        let mut catalog = Self { broken: file_errors(&files), ..Self::default() };
        let mut plain: HashSet<&str> = HashSet::new();
        for file in &files.commands {
            let is_broken = catalog.broken.contains_key(&file.name);
            let is_reserved = is_reserved(&file.name);
            let contested = is_reserved || is_broken || count.get(file.name.as_str()) > Some(&1);
            // A command of an extension can always be called with the extension's name as well.
            let is_from_extension = matches!(file.source, CommandSource::Extension(_));
            let longer = (contested || is_from_extension)
                .then(|| unique_name(&longer_name(file), &mut used_names));
            let gets_plain = !is_reserved && !is_broken && plain.insert(&file.name);
            let (name, aliases) = match (gets_plain, longer) {
                (true, longer) => (file.name.clone(), longer.into_iter().collect()),
                (false, Some(longer)) => (longer, Vec::new()),
                // Cannot happen: a reserved or contested name has a longer one.
                (false, None) => continue,
            };
            if !gets_plain {
                let notice = rename_notice(file, &name);
                if is_reserved {
                    catalog.conflicts.push(notice.clone());
                }
                catalog.notices.push(notice);
            } else if is_parallax_only(&name) {
                catalog.notices.push(override_notice(&name, &file.path.display().to_string()));
            } else if is_alias(&name) {
                let path = file.path.display();
                catalog.notices.push(format!(
                    "`/{name}` runs `{path}` instead of the built-in command with this alias"
                ));
            }
            let file_name = (!gets_plain).then(|| file.name.clone());
            catalog.commands.push(CommandInfo { file_name, ..info(file, name, aliases) });
        }
        catalog.commands.sort_by(|one, other| one.name.cmp(&other.name));
        for (index, command) in catalog.commands.iter().enumerate() {
            for name in std::iter::once(&command.name).chain(&command.aliases) {
                catalog.by_name.insert(name.clone(), index);
            }
        }
        catalog.problems = files
            .problems
            .iter()
            .map(|problem| (problem.path.clone(), format_problem(problem)))
            .collect();
        for file in &files.commands {
            if let Err(open) = parse(&file.prompt, file.form) {
                let problem = open_block(file, &open);
                catalog.problems.push((file.path.clone(), format_problem(&problem)));
            }
        }
        catalog
    }

    /// Returns all command names, in arbitrary order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().chain(self.broken.keys()).map(String::as_str)
    }

    /// Returns why the file of highest precedence for a name is invalid.
    pub fn file_error(&self, name: &str) -> Option<&str> {
        self.broken.get(name).map(String::as_str)
    }

    /// Returns the names whose file of highest precedence is invalid, with the error.
    pub fn file_errors_by_name(&self) -> impl Iterator<Item = (&str, &str)> {
        self.broken.iter().map(|(name, problem)| (name.as_str(), problem.as_str()))
    }

    /// Returns all commands, sorted by name.
    pub fn commands(&self) -> &[CommandInfo] {
        &self.commands
    }

    /// Returns the command with a name.
    pub fn find(&self, name: &str) -> Option<&CommandInfo> {
        self.by_name.get(name).and_then(|index| self.commands.get(*index))
    }

    /// Returns command names similar to an unknown name.
    pub fn similar_names(&self, name: &str) -> Vec<&str> {
        similar_names(name, self.by_name.keys().map(String::as_str))
    }

    /// Returns the errors of invalid files, one sentence each.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        self.problems.iter().map(|(_, problem)| problem.as_str())
    }

    /// Returns a notice for each command that does not have its file's name or that overrides a
    /// built-in command.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Returns a notice for each file whose name belongs to a built-in command.
    pub fn conflicts(&self) -> &[String] {
        &self.conflicts
    }

    /// Returns the name under which a custom command is available whose own name belongs to this
    /// built-in command.
    pub fn moved_from(&self, name: &str) -> Option<&str> {
        let moved = |command: &&CommandInfo| command.file_name.as_deref() == Some(name);
        self.commands.iter().find(moved).map(|command| command.name.as_str())
    }

    /// Returns the warnings for the start of a session, one line of each kind: invalid files, and
    /// files whose name belongs to a built-in command.
    pub fn warnings(&self) -> Vec<String> {
        let problems: Vec<String> =
            self.problems.iter().map(|(_, problem)| problem.clone()).collect();
        let what = if problems.len() == 1 { "a command file" } else { "command files" };
        let unusable =
            with_count(&problems).map(|problems| format!("Cannot use {what}: {problems}"));
        unusable.into_iter().chain(with_count(&self.conflicts)).collect()
    }
}

/// Returns the first of several lines and the number of the others.
pub(crate) fn with_count(lines: &[String]) -> Option<String> {
    let (first, rest) = lines.split_first()?;
    Some(match rest.len() {
        0 => first.clone(),
        more => format!("{first} (and {more} more; see `parallax commands list`)"),
    })
}

/// Returns the names whose file of highest precedence is invalid, with the error.
fn file_errors(files: &CommandFiles) -> HashMap<String, String> {
    let mut broken = HashMap::new();
    for problem in &files.problems {
        let Some(name) = problem.name.as_ref().filter(|name| !is_reserved(name)) else { continue };
        let strongest = files.commands.iter().position(|file| file.name == *name);
        if strongest.is_none_or(|strongest| problem.overridden_by <= strongest) {
            broken.entry(name.clone()).or_insert_with(|| format_problem(problem));
        }
    }
    broken
}

/// Builds the error for an unclosed block in a template, with its position in the file.
fn open_block(file: &CommandFile, open: &UnclosedBlock) -> CommandProblem {
    let before: String = file.prompt.chars().take(open.index).collect();
    let breaks = before.matches('\n').count();
    let within = before.rsplit('\n').next().unwrap_or_default().chars().count();
    let (line, column) = file.template_position;
    let column = if breaks == 0 { column + within } else { within + 1 };
    CommandProblem {
        path: file.path.clone(),
        line: Some(line + breaks),
        column: Some(column),
        message: open.to_string(),
        name: None,
        overridden_by: 0,
    }
}

fn info(file: &CommandFile, name: String, aliases: Vec<String>) -> CommandInfo {
    CommandInfo {
        name,
        aliases,
        description: file.description.clone(),
        source: file.source.clone(),
        argument_hint: file.argument_hint.clone(),
        arguments: file.arguments.clone(),
        path: file.path.clone(),
        form: file.form,
        ignored_fields: file.unknown_fields.clone(),
        file_name: None,
        template: file.prompt.clone(),
        overrides: file.overrides.clone(),
    }
}

fn longer_name(file: &CommandFile) -> String {
    match &file.source {
        CommandSource::Project => format!("workspace.{}", file.name),
        CommandSource::User => format!("user.{}", file.name),
        CommandSource::Extension(extension) => format!("{extension}:{}", file.name),
    }
}

/// Returns the name, or the name with the lowest number that makes it unique.
fn unique_name(name: &str, used: &mut HashSet<String>) -> String {
    let numbered = (1..).map(|number| format!("{name}{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    let free = names.find(|name| !used.contains(name)).unwrap_or_default();
    used.insert(free.clone());
    free
}

fn rename_notice(file: &CommandFile, name: &str) -> String {
    let path = file.path.display();
    match is_reserved(&file.name) {
        true => {
            format!("`/{}` is a built-in command: `{path}` is available as `/{name}`", file.name)
        }
        false => {
            format!("another file defines `/{}`: `{path}` is available as `/{name}`", file.name)
        }
    }
}

/// Builds the notice for a command that overrides a built-in one.
pub(crate) fn override_notice(name: &str, what: &str) -> String {
    format!(
        "`/{name}` runs `{what}`, which overrides the built-in command; run \
         `/{OWN_PREFIX}{name}` for the built-in one"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, source: CommandSource, prompt: &str) -> CommandFile {
        CommandFile {
            name: name.to_owned(),
            source,
            path: PathBuf::from(format!("/x/{name}.toml")),
            form: CommandFormat::Toml,
            description: String::new(),
            argument_hint: String::new(),
            arguments: Vec::new(),
            prompt: prompt.to_owned(),
            template_position: (1, 1),
            overrides: CommandOverrides::default(),
            unknown_fields: Vec::new(),
        }
    }

    fn catalog(commands: Vec<CommandFile>) -> Catalog {
        Catalog::new(CommandFiles { commands, problems: Vec::new() })
    }

    #[test]
    fn project_command_wins_and_shadowed_ones_stay_reachable() {
        use CommandSource::{Extension, Project, User};
        let catalog = catalog(vec![
            file("deploy", Project, "p"),
            file("deploy", User, "u"),
            file("deploy", User, "old"),
            file("deploy", Extension("gcp".into()), "e"),
            file("fix", User, "f"),
            file("go", Extension("gcp".into()), "g"),
        ]);
        for (name, prompt) in [
            ("deploy", "p"),
            ("workspace.deploy", "p"),
            ("user.deploy", "u"),
            ("user.deploy1", "old"),
            ("gcp:deploy", "e"),
            ("fix", "f"),
            ("go", "g"),
            ("gcp:go", "g"),
        ] {
            assert_eq!(catalog.find(name).map(|it| it.template.as_str()), Some(prompt), "{name}");
        }
        assert!(catalog.find("user.fix").is_none());
        assert_eq!(catalog.notices().len(), 3);
        assert_eq!(catalog.similar_names("deplyo"), ["deploy"]);
    }

    #[test]
    fn unterminated_block_is_reported_with_its_position() {
        let mut open = file("a", CommandSource::User, "one\nü !{echo hi");
        open.template_position = (3, 1);
        let catalog = catalog(vec![open, file("b", CommandSource::User, "!{x}")]);
        let problems: Vec<&str> = catalog.problems().collect();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("/x/a.toml:4:3: unclosed injection"), "{problems:?}");
        assert!(catalog.find("a").is_some());
    }

    #[test]
    fn command_file_named_like_a_built_in_is_reported_at_startup() {
        let user = |name: &str| file(name, CommandSource::User, "u");
        let catalog = catalog(vec![user("help"), user("memory"), user("summarize"), user("mine")]);
        let found: Vec<&str> = catalog.conflicts().iter().map(String::as_str).collect();
        assert_eq!(
            found,
            [
                "`/help` is a built-in command: `/x/help.toml` is available as `/user.help`",
                "`/memory` is a built-in command: `/x/memory.toml` is available as `/user.memory`",
            ]
        );
        let line = format!("{} (and 1 more; see `parallax commands list`)", found[0]);
        assert_eq!(catalog.warnings(), [line]);
    }

    #[test]
    fn command_file_overrides_commands_unknown_to_gemini_cli() {
        let catalog = catalog(vec![
            file("diff", CommandSource::User, "u"),
            file("commit:pr", CommandSource::Project, "p"),
        ]);
        assert_eq!(catalog.find("diff").map(|it| it.template.as_str()), Some("u"));
        assert_eq!(catalog.find("commit:pr").map(|it| it.template.as_str()), Some("p"));
        let expected = "`/diff` runs `/x/diff.toml`, which overrides the built-in command; run \
                        `/parallax:diff` for the built-in one";
        assert!(
            catalog.notices().iter().any(|notice| notice == expected),
            "{:?}",
            catalog.notices()
        );
    }

    #[test]
    fn command_of_an_extension_overrides_only_an_alias() {
        let extension = |name: &str| file(name, CommandSource::Extension("sec".to_owned()), "e");
        let catalog = catalog(vec![extension("usage"), extension("help")]);
        for (name, is_its) in
            [("usage", true), ("sec:usage", true), ("help", false), ("sec:help", true)]
        {
            assert_eq!(catalog.find(name).is_some(), is_its, "{name}");
        }
        assert_eq!(catalog.conflicts().len(), 1, "{:?}", catalog.conflicts());
        let expected =
            "`/usage` runs `/x/usage.toml` instead of the built-in command with this alias";
        assert!(
            catalog.notices().iter().any(|notice| notice == expected),
            "{:?}",
            catalog.notices()
        );
    }

    #[test]
    fn built_in_commands_keep_their_names() {
        let catalog = catalog(vec![
            file("help", CommandSource::User, "u"),
            file("user.help", CommandSource::User, "odd"),
        ]);
        assert!(catalog.find("help").is_none());
        assert_eq!(catalog.find("user.help").map(|it| it.template.as_str()), Some("odd"));
        assert_eq!(catalog.find("user.help1").map(|it| it.template.as_str()), Some("u"));
    }
}
