//! Finds the files that a hook's command runs. Their contents are accepted together with the
//! command. Files that the command writes, and data that it reads, may change between runs.

mod followed;
mod variables;

use std::path::{Path, PathBuf};

use parallax_policy::bash;

/// Replaces the project directory while the command is parsed, because it needs no quoting.
const PROJECT: &str = "/.project-of-the-hook";
/// Variables that hold the project directory.
const VARIABLES: [&str; 3] = ["GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR", "GEMINI_CWD"];
/// Programs that write their arguments.
const WRITERS: [&str; 4] = ["tee", "touch", "rm", "mkdir"];
/// Programs that run their first argument without a leading dash.
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
/// Programs that run a file of this name without an argument for it.
const RUNNERS: [(&str, &str); 11] = [
    ("make", "GNUmakefile"),
    ("make", "makefile"),
    ("make", "Makefile"),
    ("npm", "package.json"),
    ("npx", "package.json"),
    ("yarn", "package.json"),
    ("pnpm", "package.json"),
    ("bun", "package.json"),
    ("just", "justfile"),
    ("task", "Taskfile.yml"),
    ("rake", "Rakefile"),
];
/// Files that an interpreter runs if its argument is a directory.
const BEGINNINGS: [&str; 2] = ["__main__.py", "index.js"];
/// Maximum number of script lines that are parsed.
const LINES: usize = 500;
/// Extensions of data files. A file with another extension, or without one, may be run.
const DATA: [&str; 16] = [
    "log", "txt", "md", "json", "jsonl", "ndjson", "csv", "tsv", "db", "sqlite", "lock", "pid",
    "tmp", "cache", "out", "err",
];

/// Returns the files that the command runs with these variables, inside and outside of `project`,
/// without duplicates, including the files that these name. Blocking: looks for the files.
pub(super) fn scripts(command: &str, env: &[(String, String)], project: &Path) -> Vec<PathBuf> {
    let mut line = FileWords::parse(command, project);
    let named = env.iter().flat_map(|(name, value)| {
        variables::possible_file_words(name, &expand_project_variables(value))
    });
    line.words.extend(named);
    let mut files: Vec<PathBuf> = Vec::new();
    for (word, is_run) in line.words.iter().filter(|(word, _)| !word.is_empty()) {
        for base in &line.bases {
            let path = resolve(project, base, word);
            if path.is_dir() && *is_run {
                let candidates = BEGINNINGS.iter().map(|name| path.join(name));
                files.extend(candidates.filter(|path| path.is_file()));
            } else if path.is_file() && (*is_run || !is_data(&path)) {
                files.push(path);
            }
        }
    }
    files.sort();
    files.dedup();
    followed::follow(&mut files, project);
    files.sort();
    files
}

/// Returns the paths that commands in a shell script may run. Each line is parsed separately, so
/// that one line that cannot be parsed does not force a word-by-word reading of the others.
fn script_paths(script: &str, project: &Path, directory: &Path) -> Vec<PathBuf> {
    // Parsing a line is slow, and most lines run nothing from this directory.
    let may_run = |line: &&str| {
        let runs = |word: &str| {
            INTERPRETERS.contains(&word) || RUNNERS.iter().any(|(runner, _)| *runner == word)
        };
        !line.trim_start().starts_with('#')
            && (line.contains('/') || line.split_whitespace().any(runs))
    };
    let mut words = FileWords::default();
    for line in script.replace("\\\n", " ").lines().filter(may_run).take(LINES) {
        let more = FileWords::parse(line, project);
        words.words.extend(more.words.into_iter().filter(|(word, is_run)| *is_run && word != "."));
        words.bases.extend(more.bases);
    }
    words.bases.push(directory.to_owned());
    words.bases.sort();
    words.bases.dedup();
    let names = words.words.iter().filter(|(word, _)| !word.is_empty());
    let places =
        names.flat_map(|(word, _)| words.bases.iter().map(|base| resolve(project, base, word)));
    places.collect()
}

/// The words of a command line that may name files, each with whether the file is run, and the
/// directories that relative names may start from.
#[derive(Default)]
struct FileWords {
    words: Vec<(String, bool)>,
    bases: Vec<PathBuf>,
}

impl FileWords {
    fn parse(command: &str, project: &Path) -> Self {
        let text = expand_project_variables(command);
        let line = bash::analyze(&text);
        let mut words: Vec<(String, bool)> = Vec::new();
        // The directories that relative names may start from: the command may change its working
        // directory.
        let mut bases = vec![project.to_path_buf()];
        for command in &line.commands {
            // `D=tools; $D/x.sh`
            let values = command.assignments.iter().filter_map(|it| it.value.text.as_deref());
            bases
                .extend(values.filter(|it| !it.is_empty()).map(|it| resolve(project, project, it)));
            for assignment in &command.assignments {
                let value = assignment.value.text.as_deref().unwrap_or_default();
                words.extend(variables::possible_file_words(&assignment.name, value));
            }
            let name = command.name().unwrap_or_default();
            if WRITERS.contains(&name) {
                continue;
            }
            if name == "cd" || name == "pushd" {
                let into = command.words.get(1).and_then(|word| word.text.as_deref());
                bases.extend(into.map(|into| resolve(project, project, into)));
            }
            let runners = RUNNERS.iter().filter(|(runner, _)| *runner == name);
            words.extend(runners.map(|(_, file)| ((*file).to_owned(), true)));
            let mut runs_next = INTERPRETERS.contains(&name);
            let mut module_next = false;
            for (index, word) in command.words.iter().enumerate() {
                let Some(text) = &word.text else {
                    // `"$HERE/x.sh"`: assumes that the variable holds one of the known directories.
                    let end = path_after_expansions(&word.source).map(str::to_owned);
                    words.extend(end.map(|end| (end, index == 0 || runs_next)));
                    runs_next &= index == 0;
                    continue;
                };
                let is_run = index == 0 || (runs_next && !text.starts_with('-'));
                if index > 0 && is_run {
                    runs_next = false;
                }
                if std::mem::replace(&mut module_next, is_module_option(name, text)) {
                    let module = text.replace('.', "/");
                    words.extend([format!("{module}.py"), module].map(|file| (file, true)));
                }
                words.push((text.clone(), is_run));
                // `--config=x.js`
                words.extend(text.split_once('=').map(|(_, value)| (value.to_owned(), false)));
                // `env NODE_OPTIONS='-r ./x.js' node`
                let variable = text.split_once('=').filter(|(name, _)| !name.starts_with('-'));
                words.extend(
                    variable
                        .into_iter()
                        .flat_map(|(name, value)| variables::possible_file_words(name, value)),
                );
            }
        }
        if line.unanalyzable_reason.is_some() {
            // A command that cannot be parsed is read word by word.
            let ends = |char: char| char.is_whitespace() || "\"';|&()<>=`".contains(char);
            for word in text.split(ends) {
                words.push((word.to_owned(), true));
                words.extend(path_after_expansions(word).map(|end| (end.to_owned(), true)));
            }
        }
        let read = line.redirections.iter().filter(|it| it.kind == bash::RedirectionKind::Read);
        words.extend(read.filter_map(|it| Some((it.target.text.clone()?, false))));
        Self { words, bases }
    }
}

/// Replaces the variables that hold the project directory.
fn expand_project_variables(text: &str) -> String {
    let mut text = text.to_owned();
    for name in VARIABLES {
        let braced = format!("${{{name}}}");
        text = text.replace(&braced, PROJECT).replace(&format!("${name}"), PROJECT);
    }
    text
}

/// Returns the part of a path after the last expansion: `lib/x.sh` for `"$HERE/lib/x.sh"`.
fn path_after_expansions(source: &str) -> Option<&str> {
    let source = source.trim_matches('"');
    let last = source.rfind(['$', '}', ')', '`'])?;
    let (_, path) = source.get(last..)?.split_once('/')?;
    Some(path.trim_matches('"')).filter(|path| !path.is_empty())
}

/// Whether the next word is a module name.
fn is_module_option(program: &str, word: &str) -> bool {
    program.starts_with("python") && word == "-m"
}

/// Returns the file that a word names, relative to a directory of the project.
fn resolve(project: &Path, base: &Path, word: &str) -> PathBuf {
    match word.strip_prefix(PROJECT) {
        Some(rest) => project.join(rest.trim_start_matches('/')),
        None => base.join(word).components().collect(),
    }
}

/// Whether the file has a data extension and is not executable.
fn is_data(path: &Path) -> bool {
    let extension = path.extension().map(|it| it.to_string_lossy().to_ascii_lowercase());
    extension.is_some_and(|extension| DATA.contains(&extension.as_str())) && !is_executable(path)
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executed_files_are_hashed_and_written_files_are_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let project = directory.path().join("a b");
        std::fs::create_dir(&project).expect("made");
        for name in ["sub", "pkg"] {
            std::fs::create_dir(project.join(name)).expect("made");
        }
        for name in [
            "hk.sh",
            "g.py",
            "hooks.log",
            "state.json",
            "rules.js",
            "Makefile",
            "in.txt",
            "package.json",
            "sub/x.sh",
            "pkg/mod.py",
            "pkg/__main__.py",
        ] {
            std::fs::write(project.join(name), "x").expect("written");
        }
        let found = |command: &str| -> Vec<String> {
            let files = scripts(command, &[], &project);
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
            ("make -s all", &["Makefile"]),
            ("npm run hook", &["package.json"]),
            ("cd sub && ./x.sh", &["x.sh"]),
            ("cd \"$GEMINI_PROJECT_DIR/sub\"; bash x.sh", &["x.sh"]),
            ("python3 -m pkg.mod", &["mod.py"]),
            ("python3 pkg; python3 -m pkg", &["__main__.py"]),
            ("D=$GEMINI_PROJECT_DIR; \"$D/hk.sh\" g.log", &["hk.sh"]),
            ("D=sub; $D/x.sh", &["x.sh"]),
            ("BASH_ENV=in.txt LOG=hooks.log bash -c true", &["in.txt"]),
            ("env NODE_OPTIONS='-r ./rules' node -e 1", &["rules.js"]),
            ("bash \"$(git rev-parse --show-toplevel)/sub/x.sh\"", &["x.sh"]),
        ] {
            assert_eq!(found(command), expected, "{command}");
        }
    }

    #[test]
    fn files_named_by_variables_are_hashed() {
        let directory = tempfile::tempdir().expect("a directory");
        let project = directory.path();
        for name in ["start.txt", "a.js", "b.so", "state.json", "in.sh"] {
            std::fs::write(project.join(name), "x").expect("written");
        }
        for (name, value, expected) in [
            ("BASH_ENV", "start.txt", &["start.txt"][..]),
            ("ENV", "$GEMINI_PROJECT_DIR/start.txt", &["start.txt"]),
            ("PYTHONSTARTUP", "./in.sh", &["in.sh"]),
            ("NODE_OPTIONS", "--require ./a --max-old-space-size=99", &["a.js"]),
            ("NODE_OPTIONS", "--import=./a.js", &["a.js"]),
            ("LD_PRELOAD", "/none.so:./b.so", &["b.so"]),
            ("GIT_SSH_COMMAND", "sh in.sh -x", &["in.sh"]),
            ("STATE", "state.json", &[]),
            ("STATE", "in.sh", &["in.sh"]),
            ("WORDS", "see in.sh", &["in.sh"]),
        ] {
            let env = [(name.to_owned(), value.to_owned())];
            let files = scripts("true", &env, project);
            let names: Vec<_> = files.iter().filter_map(|it| it.file_name()?.to_str()).collect();
            assert_eq!(names, expected, "{name}={value}");
        }
    }
}
