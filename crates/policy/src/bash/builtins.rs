//! Bash builtins that read code, evaluate names, or change how later commands are read.

use super::findings::{ShellFindings, ShellToken, SimpleCommand};
use super::line::Word;
use super::variable_name::is_name;

/// Names whose meaning the analysis relies on.
const RELIED_ON_NAMES: &[&str] = &[
    ".",
    ":",
    "[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "declare",
    "dirs",
    "disown",
    "echo",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
    // Programs that are known to be safe or whose arguments are analyzed.
    "cat",
    "cut",
    "expr",
    "grep",
    "head",
    "id",
    "ls",
    "nl",
    "paste",
    "rev",
    "seq",
    "stat",
    "tail",
    "tr",
    "uname",
    "uniq",
    "wc",
    "which",
    "whoami",
    "numfmt",
    "tac",
    "base64",
    "find",
    "rg",
    "sed",
    "git",
    "env",
    "sudo",
    "doas",
    "su",
    "xargs",
    "timeout",
    "nice",
    "ionice",
    "nohup",
    "setsid",
    "stdbuf",
    "time",
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "busybox",
    "parallel",
    "watch",
    "flock",
    "strace",
    "script",
    "fd",
    "sort",
    "diff",
    "file",
    "date",
    "cargo",
    "npm",
    "make",
    "python",
    "python3",
    "node",
    "rm",
    "cp",
    "mv",
    "jq",
    "basename",
    "dirname",
    "realpath",
    "readlink",
    "du",
    "df",
    "tree",
    "test",
    "cmp",
    "comm",
    "column",
    "md5sum",
    "sha256sum",
    "sleep",
    "hostname",
];

/// Whether a function with this name would invalidate the analysis.
pub(super) fn has_meaning(name: &str) -> bool {
    name.contains('/') || name == "command_not_found_handle" || RELIED_ON_NAMES.contains(&name)
}

/// Whether the words after this builtin may be assignments.
pub(super) fn is_declaration_builtin(name: &str) -> bool {
    matches!(name, "declare" | "typeset" | "local" | "export" | "readonly")
}

/// Texts that a builtin passes to the shell.
pub(super) type ScriptArguments = Vec<String>;

/// Checks a command that may be a builtin, starting at its word `first`.
pub(super) fn check_builtin(
    simple: &SimpleCommand,
    first: usize,
    found: &mut ShellFindings,
) -> ScriptArguments {
    let Some((name, arguments)) = simple.tokens.get(first..).and_then(<[ShellToken]>::split_first)
    else {
        return Vec::new();
    };
    let Some(name) = name.word.text.as_deref() else { return Vec::new() };
    match name {
        "eval" => return check_eval(arguments, found).into_iter().collect(),
        "trap" => return check_trap(arguments, found),
        "." | "source" => match operands(arguments).next().map(|token| &token.word) {
            Some(Word { text: Some(file), glob: false, .. })
                if !file.starts_with("/dev/") && !file.starts_with("/proc/") => {}
            _ => found
                .mark_unanalyzable(format!("`{name}` reads a file that is known only at run time")),
        },
        "alias"
            if arguments
                .iter()
                .any(|token| token.word.text.as_deref().is_none_or(|text| text.contains('='))) =>
        {
            found.mark_unanalyzable("an alias changes the meaning of later words");
        }
        "shopt" => shopt(arguments, found),
        "set" => set(arguments, found),
        "enable" | "bind" | "complete" | "compgen" | "compopt" | "fc" | "history"
            if !arguments.is_empty() =>
        {
            found.mark_unanalyzable(format!("`{name}` may run or replace commands"));
        }
        "hash" if arguments.iter().any(|token| token.word.text.as_deref() != Some("-r")) => {
            found.mark_unanalyzable("`hash` may replace commands");
        }
        "let" => {
            for token in arguments {
                record_arithmetic(token, found);
            }
        }
        _ if is_declaration_builtin(name) => check_declaration(name, arguments, found),
        "unset" => check_variable_names(arguments, "fvn", "", found),
        "read" => {
            found.values.arrays |= has_option(arguments, 'a');
            found.values.assigned.insert("REPLY".to_owned());
            check_variable_names(arguments, "ers", "adinNptu", found);
        }
        "mapfile" | "readarray" => {
            found.values.arrays = true;
            found.values.assigned.insert("MAPFILE".to_owned());
            check_variable_names(arguments, "t", "dnOsu", found);
        }
        "getopts" => {
            found.values.assigned.insert("OPTARG".to_owned());
            match arguments.get(1).map(|token| token.word.text.as_deref()) {
                Some(Some(name)) if is_name(name) => {
                    found.values.assigned.insert(name.to_owned());
                }
                _ => found
                    .mark_unanalyzable("`getopts` sets a variable that is known only at run time"),
            }
        }
        "printf" => printf(arguments, found),
        "wait" if has_option(arguments, 'p') => {
            found.mark_unanalyzable("`wait -p` evaluates a name")
        }
        "test" | "[" => test(arguments, found),
        _ => {}
    }
    Vec::new()
}

fn operands(arguments: &[ShellToken]) -> impl Iterator<Item = &ShellToken> {
    let skip = usize::from(
        arguments.first().is_some_and(|token| token.word.text.as_deref() == Some("--")),
    );
    arguments.iter().skip(skip)
}

fn has_option(arguments: &[ShellToken], letter: char) -> bool {
    arguments.iter().any(|token| {
        token.word.text.as_deref().is_none_or(|text| text.starts_with('-') && text.contains(letter))
    })
}

fn is_literal(token: &ShellToken) -> bool {
    token.word.text.is_some() && !token.word.glob
}

fn check_eval(arguments: &[ShellToken], found: &mut ShellFindings) -> Option<String> {
    let texts: Option<Vec<&str>> = operands(arguments)
        .map(|token| token.word.text.as_deref().filter(|_| is_literal(token)))
        .collect();
    let script = texts.map(|texts| texts.join(" "));
    if script.is_none() {
        found.mark_unanalyzable("`eval` runs text that is known only at run time");
    }
    script
}

fn check_trap(arguments: &[ShellToken], found: &mut ShellFindings) -> ScriptArguments {
    let Some(action) = operands(arguments).next() else { return Vec::new() };
    match action.word.text.as_deref() {
        Some("-" | "" | "-l" | "-p") => Vec::new(),
        Some(script) if is_literal(action) && !script.starts_with('-') => vec![script.to_owned()],
        _ => {
            found.mark_unanalyzable("`trap` sets a command that is known only at run time");
            Vec::new()
        }
    }
}

fn shopt(arguments: &[ShellToken], found: &mut ShellFindings) {
    const HARMLESS: [&str; 14] = [
        "-s",
        "-u",
        "-q",
        "globstar",
        "nullglob",
        "dotglob",
        "nocaseglob",
        "failglob",
        "inherit_errexit",
        "lastpipe",
        "checkwinsize",
        "globasciiranges",
        "huponexit",
        "-p",
    ];
    for token in arguments {
        if !token.word.text.as_deref().is_some_and(|text| HARMLESS.contains(&text)) {
            found.mark_unanalyzable("`shopt` changes how the shell parses commands");
        }
    }
}

fn set(arguments: &[ShellToken], found: &mut ShellFindings) {
    const OPTIONS: [&str; 12] = [
        "errexit",
        "nounset",
        "pipefail",
        "xtrace",
        "noglob",
        "noclobber",
        "verbose",
        "errtrace",
        "functrace",
        "allexport",
        "noexec",
        "notify",
    ];
    let mut arguments = arguments.iter();
    while let Some(token) = arguments.next() {
        let Some(text) = token.word.text.as_deref() else {
            found.mark_unanalyzable("`set` changes options that are known only at run time");
            return;
        };
        let Some(letters) = text.strip_prefix(['-', '+']) else { return };
        if matches!(letters, "-" | "") {
            return;
        }
        for letter in letters.chars() {
            let known = match letter {
                'o' => arguments.next().is_some_and(|token| {
                    token.word.text.as_deref().is_some_and(|name| OPTIONS.contains(&name))
                }),
                other => "eufxvCETabnB".contains(other),
            };
            if !known {
                found.mark_unanalyzable("`set` changes how the shell parses commands");
                return;
            }
        }
    }
}

/// Records the variables of a string that is evaluated as arithmetic.
fn record_arithmetic(token: &ShellToken, found: &mut ShellFindings) {
    let Some(text) = token.word.text.as_deref() else {
        found.mark_unanalyzable("arithmetic evaluates text that is known only at run time");
        return;
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "_+-*/%=<>!&|^~?:,() \t".contains(c);
    if !text.chars().all(plain) {
        found.mark_unanalyzable("arithmetic contains an unsupported expression");
    }
    for name in
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|name| is_name(name))
    {
        found.values.evaluated.insert(name.to_owned());
    }
}

fn check_declaration(builtin: &str, arguments: &[ShellToken], found: &mut ShellFindings) {
    let mut integer = false;
    for token in arguments {
        if let Some(assignment) = &token.assignment {
            if integer {
                found.values.evaluated.insert(assignment.name.clone());
            }
            // A string such as `([$(x)]=1)` becomes an array and is expanded.
            let value = &assignment.value;
            let expands = match value.text.as_deref() {
                Some(text) => text.starts_with('('),
                None => {
                    found.values.declared |= !value.source.starts_with('(');
                    false
                }
            };
            if expands {
                found.mark_unanalyzable(format!("`{builtin}` expands the elements of an array"));
            }
            continue;
        }
        match token.word.text.as_deref() {
            Some(flags) if flags.starts_with(['-', '+']) => {
                integer |= flags.contains('i');
                found.values.arrays |= flags.contains(['a', 'A']);
                if flags.contains('n') && builtin != "export" {
                    found.mark_unanalyzable(format!("`{builtin} -n` creates a name reference"));
                }
            }
            Some(name) if is_name(name) => {
                if integer {
                    found.values.evaluated.insert(name.to_owned());
                }
            }
            _ => found.mark_unanalyzable(format!(
                "`{builtin}` sets a variable that is known only at run time"
            )),
        }
    }
}

/// Checks builtins whose operands are variable names.
fn check_variable_names(
    arguments: &[ShellToken],
    flags: &str,
    values: &str,
    found: &mut ShellFindings,
) {
    let mut arguments = arguments.iter();
    let mut options = true;
    while let Some(token) = arguments.next() {
        let Some(text) = token.word.text.as_deref().filter(|_| !token.word.glob) else {
            found.mark_unanalyzable("a variable name is known only at run time");
            return;
        };
        let letters = text.strip_prefix('-').filter(|letters| options && !letters.is_empty());
        let Some(letters) = letters else {
            options = false;
            if !is_name(text) {
                found.mark_unanalyzable("a variable name is not a plain word");
            }
            found.values.assigned.insert(text.to_owned());
            continue;
        };
        if letters == "-" {
            options = false;
            continue;
        }
        for (offset, letter) in letters.char_indices() {
            if values.contains(letter) {
                let glued = letters.get(offset + 1..).unwrap_or_default();
                let value = if glued.is_empty() {
                    arguments.next().map(|token| (token.word.text.clone(), token.splits))
                } else {
                    Some((Some(glued.to_owned()), false))
                };
                match value {
                    Some((text, false)) if letter != 'a' => drop(text),
                    Some((Some(name), false)) if is_name(&name) => {
                        found.values.assigned.insert(name);
                    }
                    _ => found.mark_unanalyzable("a variable name is not a plain word"),
                }
                break;
            }
            if !flags.contains(letter) {
                found.mark_unanalyzable("unknown option");
                return;
            }
        }
    }
}

fn printf(arguments: &[ShellToken], found: &mut ShellFindings) {
    let Some(first) = arguments.first() else { return };
    match first.word.text.as_deref() {
        Some("-v") => match arguments.get(1).and_then(|token| token.word.text.as_deref()) {
            Some(name) if is_name(name) => {
                found.values.assigned.insert(name.to_owned());
            }
            _ => found.mark_unanalyzable("`printf -v` evaluates a name"),
        },
        Some(text) if text.starts_with("-v") || first.word.glob => {
            found.mark_unanalyzable("`printf -v` evaluates a name");
        }
        Some(_) => {}
        // `$x` may be `-v a[…]`, and so may `"$x" "$y"`.
        None if first.splits || arguments.len() > 1 => {
            found.mark_unanalyzable("`printf` has options that are known only at run time");
        }
        None => {}
    }
}

fn test(arguments: &[ShellToken], found: &mut ShellFindings) {
    let texts: Vec<Option<&str>> =
        arguments.iter().map(|token| token.word.text.as_deref()).collect();
    for (index, token) in arguments.iter().enumerate() {
        if matches!(texts.get(index), Some(Some("-v" | "-R")))
            && !texts
                .get(index + 1)
                .is_some_and(|next| next.is_some_and(|text| is_name(text) || text == "]"))
        {
            found.mark_unanalyzable("`test -v` evaluates a name");
        }
        // Such words may become `-v` and `a[…]`.
        if token.has_substitution {
            found.mark_unanalyzable("`test` has arguments that are known only at run time");
        }
        found.values.evaluated.extend(token.variables.iter().cloned());
        if token.variables.iter().any(|name| {
            matches!(name.as_str(), "@" | "*") || name.starts_with(|c: char| c.is_ascii_digit())
        }) {
            found.mark_unanalyzable("`test` has arguments that are known only at run time");
        }
        let operator_next = texts.get(index + 1).is_some_and(|next| {
            next.is_some_and(|text| {
                matches!(
                    text,
                    "=" | "=="
                        | "!="
                        | "-eq"
                        | "-ne"
                        | "-lt"
                        | "-le"
                        | "-gt"
                        | "-ge"
                        | "-nt"
                        | "-ot"
                        | "-ef"
                        | "]"
                        | "<"
                        | ">"
                        | "-a"
                        | "-o"
                        | ")"
                )
            })
        });
        let last = index + 1 == arguments.len();
        if token.word.text.is_none() && !operator_next && !last {
            found.mark_unanalyzable("`test` has operators that are known only at run time");
        }
    }
}
