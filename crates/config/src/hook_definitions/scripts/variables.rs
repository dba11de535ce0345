//! Words of environment variables that may name files which programs run.

/// Variables from which shells, interpreters, the dynamic linker, and git take files or commands to
/// run.
const RUN: [&str; 17] = [
    "BASH_ENV",
    "BROWSER",
    "BUN_OPTIONS",
    "EDITOR",
    "ENV",
    "JAVA_TOOL_OPTIONS",
    "LD_AUDIT",
    "LD_PRELOAD",
    "NODE_OPTIONS",
    "PAGER",
    "PERL5OPT",
    "PROMPT_COMMAND",
    "PYTHONSTARTUP",
    "RUBYOPT",
    "SHELL",
    "VISUAL",
    "ZDOTDIR",
];
/// Extensions that Node.js adds to the name of a module.
const MODULES: [&str; 3] = ["js", "cjs", "mjs"];

/// Returns the words of a value that may name files, each with whether programs run the file even
/// if it has the extension of a data file.
pub(super) fn possible_file_words(name: &str, value: &str) -> Vec<(String, bool)> {
    let is_run = RUN.contains(&name) || name.starts_with("GIT_");
    let parts = value.split(|char: char| char.is_whitespace() || "\"':;,".contains(char));
    // `--require=./x.js`
    let parts = parts.flat_map(|part| [Some(part), part.split_once('=').map(|(_, value)| value)]);
    let mut words = Vec::new();
    for part in parts.flatten().filter(|part| !part.is_empty() && *part != ".") {
        words.push((part.to_owned(), is_run));
        if name == "NODE_OPTIONS" {
            words.extend(MODULES.map(|extension| (format!("{part}.{extension}"), true)));
        }
    }
    words
}
