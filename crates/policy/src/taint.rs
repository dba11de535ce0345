//! Detects commands that untrusted text may have suggested to the model, and builds whose build
//! files changed.

use parallax_protocol::policy::Taint;

use crate::bash::Command;
use crate::call::ShellCall;

/// Words that are too common to indicate anything.
const ORDINARY: &[&str] = &[
    "--all",
    "--help",
    "--version",
    "-a",
    "-f",
    "-h",
    "-i",
    "-l",
    "-m",
    "-n",
    "-p",
    "-r",
    "-v",
    "add",
    "build",
    "check",
    "ci",
    "clean",
    "dev",
    "fmt",
    "format",
    "init",
    "install",
    "lint",
    "run",
    "serve",
    "start",
    "test",
    "update",
    "upgrade",
    ".",
    "..",
    "./",
    "/",
    "/dev/null",
    "-",
    "--",
];

/// Programs that run what build files define.
const BUILDERS: &[&str] = &[
    "ant",
    "bazel",
    "bazelisk",
    "bun",
    "bunx",
    "cargo",
    "cmake",
    "composer",
    "corepack",
    "ctest",
    "deno",
    "docker",
    "docker-compose",
    "dotnet",
    "go",
    "gradle",
    "gradlew",
    "jest",
    "just",
    "make",
    "gmake",
    "maven",
    "meson",
    "mocha",
    "mvn",
    "mvnw",
    "ninja",
    "node",
    "npm",
    "npx",
    "nox",
    "pip",
    "pip3",
    "pipenv",
    "pnpm",
    "pnpx",
    "podman",
    "poetry",
    "pytest",
    "python",
    "python3",
    "rake",
    "ruby",
    "bundle",
    "rustc",
    "sbt",
    "swift",
    "tox",
    "tsc",
    "turbo",
    "uv",
    "uvx",
    "vitest",
    "xcodebuild",
    "yarn",
];

/// Returns a flag, path, or address of the line that also occurs in untrusted text.
pub(crate) fn tainted_word(shell: &ShellCall<'_>, taint: &Taint) -> Option<String> {
    if taint.words.is_empty() {
        return None;
    }
    let mut tokens: Vec<String> = shell
        .text
        .split(|character: char| character.is_whitespace() || "'\"`;|&()<>{}$".contains(character))
        .map(str::to_lowercase)
        .collect();
    for command in &shell.line.commands {
        tokens.extend(
            command.words.iter().filter_map(|word| word.text.as_deref()).map(str::to_lowercase),
        );
    }
    tokens.into_iter().find(|token| {
        let halves = token.split_once('=').map(|(flag, value)| [flag, value]);
        std::iter::once(token.as_str())
            .chain(halves.into_iter().flatten())
            .any(|word| is_distinctive(word) && taint.words.contains(word))
    })
}

/// Whether the word is a flag, path, or address that is not a common word.
fn is_distinctive(word: &str) -> bool {
    let shaped = word.starts_with('-')
        || word.contains('/')
        || word.starts_with('~')
        || (word.contains('.') && !word.starts_with('.') && !word.ends_with('.'));
    shaped && word.len() > 1 && !ORDINARY.contains(&word)
}

/// Whether the command runs what build files define.
pub(crate) fn runs_build_file(command: &Command) -> bool {
    command.name().is_none_or(|name| BUILDERS.contains(&name))
}
