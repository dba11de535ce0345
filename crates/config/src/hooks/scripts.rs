//! The files that a hook's command runs. What they hold is agreed to with the
//! command; what it writes, and the data it reads, may change from run to run.

use std::path::{Path, PathBuf};

use parallax_policy::bash;

/// Stands for the project's folder while the command is read: it needs no quotes.
const PROJECT: &str = "/.project-of-the-hook";
/// Variables that hold this folder.
const VARIABLES: [&str; 3] = ["GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR", "GEMINI_CWD"];
/// Programs whose arguments are written.
const WRITERS: [&str; 4] = ["tee", "touch", "rm", "mkdir"];
/// Programs whose first argument without a dash is run.
const INTERPRETERS: [&str; 20] = [
    "bash",
    "sh",
    "dash",
    "zsh",
    "ksh",
    "fish",
    "source",
    ".",
    "python",
    "python3",
    "node",
    "deno",
    "bun",
    "ruby",
    "perl",
    "php",
    "lua",
    "osascript",
    "pwsh",
    "tsx",
];
/// Endings of files that hold data. What has another one, or none, may be run.
const DATA: [&str; 16] = [
    "log", "txt", "md", "json", "jsonl", "ndjson", "csv", "tsv", "db", "sqlite", "lock", "pid",
    "tmp", "cache", "out", "err",
];

/// The files of `project` and of elsewhere that the command runs, each once.
/// Blocking: looks for them.
pub(super) fn scripts(command: &str, project: &Path) -> Vec<PathBuf> {
    let mut text = command.to_owned();
    for name in VARIABLES {
        text = text.replace(&format!("${{{name}}}"), PROJECT).replace(&format!("${name}"), PROJECT);
    }
    let line = bash::analyse(&text);
    let mut words: Vec<(String, bool)> = Vec::new();
    for command in &line.commands {
        let name = command.name().unwrap_or_default();
        if WRITERS.contains(&name) {
            continue;
        }
        let mut runs_next = INTERPRETERS.contains(&name);
        for (at, word) in command.words.iter().enumerate() {
            let Some(text) = &word.text else { continue };
            let is_run = at == 0 || (runs_next && !text.starts_with('-'));
            if at > 0 && is_run {
                runs_next = false;
            }
            words.push((text.clone(), is_run));
            // `--config=x.js`
            words.extend(text.split_once('=').map(|(_, value)| (value.to_owned(), false)));
        }
    }
    if line.trouble.is_some() {
        // What cannot be read as a command is taken word by word.
        let ends = |char: char| char.is_whitespace() || "\"';|&()<>=`".contains(char);
        words.extend(text.split(ends).map(|word| (word.to_owned(), true)));
    }
    let read = line.redirections.iter().filter(|it| it.kind == bash::RedirectionKind::Read);
    words.extend(read.filter_map(|it| Some((it.target.text.clone()?, false))));
    let mut files: Vec<PathBuf> = words
        .into_iter()
        .filter(|(word, _)| !word.is_empty())
        .map(|(word, is_run)| {
            let inside = word.strip_prefix(PROJECT).map(|rest| rest.trim_start_matches('/'));
            (project.join(inside.unwrap_or(&word)), is_run)
        })
        .filter(|(path, is_run)| path.is_file() && (*is_run || !is_data(path)))
        .map(|(path, _)| path)
        .collect();
    files.sort();
    files.dedup();
    files
}

/// Whether the file's ending says that it holds data, and it cannot be run.
fn is_data(path: &Path) -> bool {
    let ending = path.extension().map(|it| it.to_string_lossy().to_ascii_lowercase());
    ending.is_some_and(|ending| DATA.contains(&ending.as_str())) && !is_executable(path)
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|facts| facts.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_run_counts_and_what_is_written_does_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let project = folder.path().join("a b");
        std::fs::create_dir(&project).expect("made");
        for name in ["hk.sh", "g.py", "hooks.log", "state.json", "rules.js", "Makefile", "in.txt"] {
            std::fs::write(project.join(name), "x").expect("written");
        }
        let found = |command: &str| -> Vec<String> {
            let files = scripts(command, &project);
            files.iter().filter_map(|it| Some(it.file_name()?.to_string_lossy().into())).collect()
        };
        for (command, expected) in [
            ("cat >> $GEMINI_PROJECT_DIR/hooks.log", &[][..]),
            ("$GEMINI_PROJECT_DIR/hk.sh", &["hk.sh"]),
            ("\"${CLAUDE_PROJECT_DIR}\"/hk.sh > in.txt 2>&1", &["hk.sh"]),
            ("tee -a hooks.log | python3 -u g.py state.json", &["g.py"]),
            ("python3 -c 'x' state.json", &[]),
            ("bash in.txt", &["in.txt"]),
            ("bash < in.txt; sh -c './hk.sh x'", &["hk.sh", "in.txt"]),
            ("node --require=rules.js x; make -f Makefile", &["Makefile", "rules.js"]),
            ("sh < hk.sh", &["hk.sh"]),
            ("./hk.sh 'unclosed in.txt", &["hk.sh", "in.txt"]),
        ] {
            assert_eq!(found(command), expected, "{command}");
        }
    }
}
