//! Command prefixes for suggested rules.

use super::git::git_subcommand;
use super::line::{Command, ShellLine};
use super::safe::{SafeReadRoots, command_is_safe};
use std::path::Path;

/// Programs whose first argument is a subcommand.
const BY_SUBCOMMAND: &[&str] = &[
    "git",
    "cargo",
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "go",
    "docker",
    "podman",
    "kubectl",
    "pip",
    "pip3",
    "uv",
    "poetry",
    "pdm",
    "pipenv",
    "rustup",
    "gh",
    "glab",
    "dotnet",
    "mvn",
    "gradle",
    "terraform",
    "helm",
    "brew",
    "apt",
    "apt-get",
    "systemctl",
    "deno",
    "bundle",
    "gem",
    "rails",
    "rake",
    "make",
    "just",
    "nx",
    "turbo",
    "npx",
    "bunx",
    "uvx",
    "composer",
    "php",
    "flutter",
    "dart",
    "swift",
    "mix",
    "zig",
    "conda",
    "az",
    "aws",
    "gcloud",
    "ruff",
    "task",
    "invoke",
    "tox",
];

/// Subcommands that need one more word to be specific.
const BY_SECOND: &[(&str, &str)] = &[
    ("npm", "run"),
    ("pnpm", "run"),
    ("yarn", "run"),
    ("bun", "run"),
    ("npm", "exec"),
    ("uv", "run"),
    ("uv", "tool"),
    ("pnpm", "exec"),
    ("pnpm", "dlx"),
    ("yarn", "exec"),
    ("yarn", "dlx"),
    ("bun", "x"),
    ("npm", "x"),
    ("hatch", "run"),
    ("rye", "run"),
    ("poetry", "run"),
    ("pdm", "run"),
    ("pipenv", "run"),
    ("bundle", "exec"),
    ("docker", "compose"),
    ("docker", "container"),
    ("docker", "image"),
    ("git", "stash"),
    ("git", "remote"),
    ("git", "submodule"),
    ("git", "worktree"),
    ("git", "config"),
    ("cargo", "xtask"),
    ("go", "mod"),
    ("gh", "pr"),
    ("gh", "issue"),
    ("gh", "repo"),
    ("gh", "run"),
    ("kubectl", "get"),
    ("uv", "pip"),
    ("npm", "pkg"),
    ("dotnet", "tool"),
    ("aws", "s3"),
];

/// Programs that run what their arguments name, so that no prefix is narrower than everything.
const WRAPPERS: &[&str] = &[
    "env",
    "sudo",
    "doas",
    "timeout",
    "nice",
    "ionice",
    "nohup",
    "setsid",
    "stdbuf",
    "time",
    "command",
    "builtin",
    "exec",
    "xargs",
    "watch",
    "flock",
    "strace",
    "busybox",
    "caffeinate",
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
];

/// Returns prefixes that a rule could allow for each command of the line that is not known to be
/// safe. The narrowest useful prefix comes first (`git log`, `cargo test`, `npm run build`, `python
/// -m pytest`), then broader ones, and the program alone last. Wrappers are omitted, but the
/// commands they start are included. A program with a path keeps it. The result has no entry for
/// commands without a literal program and is empty for a line that cannot be analyzed.
pub fn narrowest_prefixes(line: &ShellLine) -> Vec<Vec<String>> {
    if line.unanalyzable_reason.is_some() {
        return Vec::new();
    }
    let nowhere = Path::new("/nowhere");
    let roots = [nowhere.to_path_buf()];
    let safe_roots = SafeReadRoots { directory: nowhere, roots: &roots };
    let mut found: Vec<Vec<String>> = Vec::new();
    for command in &line.commands {
        if command.is_passed_on
            || command_is_safe(command, &safe_roots)
            || starts_another(line, command)
        {
            continue;
        }
        for prefix in prefixes(command) {
            if !found.contains(&prefix) {
                found.push(prefix);
            }
        }
    }
    found
}

/// Whether the first argument of the program is a subcommand.
pub fn has_subcommands(program: &str) -> bool {
    BY_SUBCOMMAND.contains(&program)
}

/// Whether the command is a wrapper of another command of the line.
fn starts_another(line: &ShellLine, command: &Command) -> bool {
    command.name().is_some_and(|name| {
        WRAPPERS.contains(&name)
            && line.commands.iter().any(|other| {
                other.wrappers.len() == command.wrappers.len() + 1
                    && other.wrappers.starts_with(&command.wrappers)
                    && other.wrappers.last().is_some_and(|last| last == name)
            })
    })
}

/// Returns the prefixes of one command that a rule could allow, narrowest first.
pub fn prefixes(command: &Command) -> Vec<Vec<String>> {
    let words: Vec<&str> = command
        .words
        .iter()
        .map_while(|word| word.text.as_deref().filter(|text| !word.glob && !text.is_empty()))
        .collect();
    let Some((program, rest)) = words.split_first() else { return Vec::new() };
    let name = command.name().unwrap_or(program);
    let mut width = 1;
    let is_word = |word: Option<&&str>| {
        word.is_some_and(|word| {
            !word.starts_with('-')
                && word.chars().all(|c| c.is_alphanumeric() || "_-:./@".contains(c))
        })
    };
    // The global options before the subcommand are a part of the prefix.
    if name == "git"
        && rest.first().is_some_and(|first| first.starts_with('-'))
        && let Some(call) = git_subcommand(command).filter(|call| !call.configured)
    {
        let width = command.arguments().len() - call.words.len() + 1;
        let narrowest = words.get(..width).map(|words| words.iter().map(|it| (*it).to_owned()));
        let program = vec![(*program).to_owned()];
        return narrowest.map(Iterator::collect).into_iter().chain([program]).collect();
    }
    match name {
        "python" | "python3" | "py" if rest.first() == Some(&"-m") && is_word(rest.get(1)) => {
            // `python3 -m pip install` does not allow `python3 -m pip uninstall`.
            let has_subcommands = rest.get(1).is_some_and(|module| BY_SUBCOMMAND.contains(module));
            width = if has_subcommands && is_word(rest.get(2)) { 4 } else { 3 };
        }
        "python" | "python3" | "py" | "node" | "ruby" | "perl" | "bash" | "sh" | "deno"
            if is_word(rest.first()) =>
        {
            width = 2;
        }
        _ if BY_SUBCOMMAND.contains(&name) && is_word(rest.first()) => {
            width = 2;
            let second = BY_SECOND
                .iter()
                .any(|(program, sub)| *program == name && rest.first() == Some(sub));
            if second && is_word(rest.get(1)) {
                width = 3;
            }
        }
        _ => {}
    }
    (1..=width.min(words.len()))
        .rev()
        .map(|count| words.iter().take(count).map(|word| (*word).to_owned()).collect())
        .collect()
}
