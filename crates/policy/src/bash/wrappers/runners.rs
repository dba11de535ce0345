//! Programs that find a program in an environment or a package and start it: `uv run`, `npx`, `pnpm
//! dlx`, `poetry run`.

use super::{WrappedCommand, shells};
use crate::bash::line::Word;

/// The syntax of such a program.
struct Runner {
    names: &'static [&'static str],
    /// Words of which one comes before the program; empty if none is required.
    verbs: &'static [&'static str],
    /// Number of operands between the verb and the program.
    operands: usize,
    /// Options that take the next word as their value.
    values: &'static [&'static str],
}

const fn runner(
    names: &'static [&'static str],
    verbs: &'static [&'static str],
    operands: usize,
    values: &'static [&'static str],
) -> Runner {
    Runner { names, verbs, operands, values }
}

const RUNNERS: &[Runner] = &[
    runner(
        &["uv"],
        &["run"],
        0,
        &[
            "--with",
            "--with-editable",
            "--with-requirements",
            "--python",
            "-p",
            "--extra",
            "--group",
            "--only-group",
            "--no-group",
            "--package",
            "--project",
            "--directory",
            "--env-file",
            "--index",
            "--index-url",
            "-i",
            "--extra-index-url",
            "--find-links",
            "-f",
            "--cache-dir",
            "--config-file",
        ],
    ),
    runner(&["uv"], &["tool"], 1, &["--from", "--with", "--python", "-p"]),
    runner(&["uvx"], &[], 0, &["--from", "--with", "--python", "-p", "--index"]),
    runner(&["pipx"], &["run"], 0, &["--spec", "--python", "--index-url", "--pip-args"]),
    runner(&["npx", "pnpx", "bunx"], &[], 0, &["-p", "--package"]),
    runner(&["npm"], &["exec", "x"], 0, &["-p", "--package", "-w", "--workspace"]),
    runner(&["pnpm", "yarn"], &["dlx", "exec"], 0, &["-p", "--package"]),
    runner(&["bun"], &["x"], 0, &["-p", "--package"]),
    runner(&["poetry", "pipenv", "pdm", "hatch", "rye"], &["run"], 0, &[]),
    runner(&["bundle", "bundler"], &["exec"], 0, &[]),
    runner(&["conda", "mamba", "micromamba"], &["run"], 0, &["-n", "--name", "-p", "--prefix"]),
    runner(&["rustup"], &["run"], 1, &[]),
    runner(&["mise", "rtx"], &["exec", "x"], 0, &["-c", "--command"]),
    runner(&["asdf"], &["exec"], 0, &[]),
    runner(&["dotenv", "dotenvx"], &[], 0, &["-f", "-e"]),
    runner(&["nix"], &["-c", "--command"], 0, &[]),
    runner(&["op"], &["run"], 0, &["--env-file", "--account", "--session"]),
    runner(&["cross-env", "cross-env-shell"], &[], 0, &[]),
];

/// Programs that package managers start by their name alone, as `yarn rimraf` does, and that delete
/// or start others.
const BINARIES: &[&str] = &["rimraf", "del-cli", "premove", "shx", "cross-env", "cross-env-shell"];

/// Options of all runners that take no value.
const FLAGS: &[&str] = &[
    "-y",
    "--yes",
    "--no",
    "--no-install",
    "-q",
    "--quiet",
    "-s",
    "--silent",
    "-v",
    "--verbose",
    "-r",
    "--recursive",
    "--bun",
    "--offline",
    "--locked",
    "--frozen",
    "--isolated",
    "--no-sync",
    "--no-project",
    "--all-extras",
    "--all-groups",
    "--dev",
    "--no-dev",
    "--workspaces",
    "--no-capture-output",
    "--live-stream",
];

/// Returns what the words start, as far as they determine it. An unknown option may take the next
/// word as its value, so both that word and the one after it count as the program.
pub(super) fn wrapped_commands(name: &str, arguments: &[Word]) -> Vec<WrappedCommand> {
    let mut found = match name {
        "npx" | "npm" => shells::call(arguments, &["-c", "--call"]),
        "nix-shell" => shells::call(arguments, &["--run", "--command"]),
        _ => Vec::new(),
    };
    if !found.is_empty() {
        return found;
    }
    if matches!(name, "yarn" | "pnpm" | "bun") {
        let is_binary =
            |word: &Word| word.text.as_deref().is_some_and(|text| BINARIES.contains(&text));
        let index = arguments.iter().position(is_binary);
        found.extend(passed_command(index.and_then(|at| arguments.get(at..))));
    }
    for runner in RUNNERS.iter().filter(|runner| runner.names.contains(&name)) {
        let rest = match runner.verbs {
            [] => Some(arguments),
            verbs => arguments
                .iter()
                .position(|word| word.text.as_deref().is_some_and(|text| verbs.contains(&text)))
                .and_then(|verb| arguments.get(verb + 1..)),
        };
        if let Some(rest) = rest {
            found.extend(programs(runner, rest));
        }
    }
    found
}

fn programs(runner: &Runner, words: &[Word]) -> Vec<WrappedCommand> {
    let mut found = Vec::new();
    let mut operands = runner.operands;
    let mut at = 0;
    // Whether the preceding word is an unknown option that may take this word as its value.
    let mut behind_option = false;
    if runner.names.contains(&"cross-env") {
        let is_assignment =
            |word: &&Word| word.text.as_deref().unwrap_or(&word.source).contains('=');
        at = words.iter().take_while(is_assignment).count();
    }
    while let Some(word) = words.get(at) {
        let text = word.text.as_deref().unwrap_or_default();
        if text == "--" {
            found.extend(passed_command(words.get(at + 1 + operands..)));
            return found;
        }
        if text.len() > 1 && text.starts_with('-') {
            let takes = runner.values.contains(&text);
            behind_option = !takes && !text.contains('=') && !FLAGS.contains(&text);
            at += if takes { 2 } else { 1 };
            continue;
        }
        if operands > 0 && !behind_option {
            operands -= 1;
        } else {
            found.extend(passed_command(words.get(at..)));
            if !behind_option {
                return found;
            }
        }
        behind_option = false;
        at += 1;
    }
    found
}

fn passed_command(words: Option<&[Word]>) -> Option<WrappedCommand> {
    let (program, arguments) = words?.split_first()?;
    let mut program = program.clone();
    // `prettier@3` is the program `prettier`.
    if let Some((name, _)) = program.text.as_deref().and_then(|text| text.rsplit_once('@'))
        && !name.is_empty()
    {
        program.text = Some(name.to_owned());
    }
    let words = std::iter::once(program).chain(arguments.iter().cloned()).collect();
    Some(WrappedCommand::PassedOn(words))
}
