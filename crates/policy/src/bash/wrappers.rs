//! Programs that start other programs.

mod find;
mod git;
mod options;
mod runners;
pub(super) mod shells;
mod xargs;

use super::line::{Assignment, Word};
use options::{Operands, Options};

/// A program or script that a command starts.
pub(super) enum WrappedCommand {
    /// A program with its words and the variables set for it.
    Words { words: Vec<Word>, assignments: Vec<Assignment> },
    /// A string that bash or sh reads. `plain_sh`: whether the shell may be one other than bash.
    Script { text: String, plain_sh: bool },
    /// A program with its words that counts as part of the command that starts it: allowing `uv run
    /// x` allows `x`.
    PassedOn(Vec<Word>),
    /// Unknown, with the reason.
    Unclear(String),
}

/// How to skip the options of a wrapper to reach the program after them.
struct Wrapper {
    names: &'static [&'static str],
    options: Options,
    /// Number of operands before the program.
    operands: usize,
}

const fn wrapper(
    names: &'static [&'static str],
    flags: &'static str,
    values: &'static str,
    long_flags: &'static [&'static str],
    long_values: &'static [&'static str],
    operands: usize,
) -> Wrapper {
    Wrapper { names, options: Options { flags, values, long_flags, long_values }, operands }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper(
        &["timeout", "gtimeout"],
        "vpf",
        "ks",
        &["preserve-status", "foreground", "verbose"],
        &["kill-after", "signal"],
        1,
    ),
    wrapper(&["ionice"], "t", "cn", &["ignore"], &["class", "classdata"], 0),
    wrapper(&["nohup"], "", "", &[], &[], 0),
    wrapper(&["setsid"], "cfw", "", &["ctty", "fork", "wait"], &[], 0),
    wrapper(&["stdbuf"], "", "ioe", &[], &["input", "output", "error"], 0),
    wrapper(
        &["time", "gtime"],
        "apvq",
        "fo",
        &["append", "portability", "verbose", "quiet"],
        &["format", "output"],
        0,
    ),
    wrapper(&["taskset"], "ac", "", &["all-tasks", "cpu-list"], &[], 1),
    wrapper(
        &["linux32", "linux64", "i386", "i686", "x86_64"],
        "3BFILRSTXZv",
        "",
        &["addr-no-randomize"],
        &[],
        0,
    ),
    wrapper(&["choom"], "", "n", &[], &["adjust"], 0),
    wrapper(&["tini"], "gsv", "", &[], &[], 0),
    wrapper(&["builtin"], "", "", &[], &[], 0),
    wrapper(&["exec"], "cl", "a", &[], &[], 0),
    wrapper(&["shx"], "", "", &[], &[], 0),
    wrapper(&["busybox", "toybox"], "", "", &[], &[], 0),
    wrapper(&["caffeinate"], "disum", "tw", &[], &[], 0),
    wrapper(&["pkexec"], "", "", &["disable-internal-agent", "keep-cwd"], &["user"], 0),
    wrapper(
        &["strace"],
        "cCdfFhiknqrtTvVwxyYzZ",
        "abeEIoOpPsSuUX",
        &["follow-forks", "summary-only", "no-abbrev", "quiet"],
        &["output", "trace", "string-limit"],
        0,
    ),
];

/// Programs that start others in ways that are not analyzed.
const CLOSED: &[&str] = &[
    "unshare",
    "nsenter",
    "setpriv",
    "runuser",
    "systemd-run",
    "at",
    "batch",
    "expect",
    "gdb",
    "lldb",
    "entr",
    "chrt",
    "numactl",
    "prlimit",
    "torsocks",
    "torify",
    "proxychains",
    "proxychains4",
    "firejail",
    "bwrap",
    "xvfb-run",
    "dbus-run-session",
    "dbus-launch",
    "rlwrap",
    "unbuffer",
    "hyperfine",
    "ltrace",
    "valgrind",
    "perf",
    "chroot",
    "proot",
    "fish",
    "csh",
    "tcsh",
    "mksh",
    "pdksh",
    "rc",
    "elvish",
    "nu",
    "xonsh",
    "pwsh",
    "sg",
    "newgrp",
    "start-stop-daemon",
    "run-parts",
    "sem",
    "env_parallel",
    "rush",
    "dtach",
    "tmux",
    "screen",
    "socat",
    "setarch",
    "fakeroot",
    "uclampset",
    "pipexec",
    "daemonize",
    "faketime",
    "cpulimit",
];

/// Whether the program starts others in ways that are not analyzed.
pub(super) fn starts_other_programs(name: &str) -> bool {
    CLOSED.contains(&name)
}

/// Returns what the command starts. Empty if it starts nothing else.
pub(super) fn wrapped_commands(words: &[Word]) -> Vec<WrappedCommand> {
    let Some((program, arguments)) = words.split_first() else { return Vec::new() };
    let Some(path) = program.text.as_deref() else { return Vec::new() };
    let name = path.rsplit('/').next().unwrap_or(path);
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name)) {
        return started_command(wrapper.options.operands_after(arguments, wrapper.operands));
    }
    match name {
        "env" | "genv" => env(arguments),
        "sudo" | "doas" => elevated(name, arguments),
        "nice" => nice(arguments),
        "command" => command(arguments),
        "sh" | "bash" | "dash" | "ash" | "zsh" | "ksh" | "rbash" => {
            shells::wrapped_commands(name, arguments)
        }
        "capsh" => capsh(arguments),
        "su" => shells::su(arguments),
        "watch" => shells::watch(arguments),
        "script" => shells::script(arguments),
        "flock" => shells::flock(arguments),
        "parallel" => xargs::parallel(arguments),
        "xargs" | "gxargs" => xargs::wrapped_commands(arguments),
        "find" | "gfind" => find::wrapped_commands(arguments),
        "fd" | "fdfind" => find::fd(arguments),
        "git" => git::wrapped_commands(arguments),
        "split" | "gsplit" => filter(arguments),
        "man" => pager(arguments),
        "direnv" if arguments.first().and_then(|word| word.text.as_deref()) == Some("exec") => {
            started_command(Operands::Words(arguments.get(2..).unwrap_or_default()))
        }
        "arch" if !arguments.is_empty() => unclear_command("`arch` starts other programs"),
        _ if is_loader(name) => unclear_command("a program loader runs its argument"),
        // Which program this is depends on the running processes.
        _ if path.starts_with("/proc/") => {
            unclear_command("a program in `/proc` may be any program")
        }
        _ if CLOSED.contains(&name) => {
            vec![WrappedCommand::Unclear(format!("`{name}` starts other programs"))]
        }
        _ => runners::wrapped_commands(name, arguments),
    }
}

/// Reads `split --filter=TEXT`.
fn filter(arguments: &[Word]) -> Vec<WrappedCommand> {
    option_values(arguments, "--filter", "--fi", None)
}

/// Reads `man -P TEXT`, `--pager=TEXT`, and `-H TEXT`.
fn pager(arguments: &[Word]) -> Vec<WrappedCommand> {
    let mut found = option_values(arguments, "--pager", "--pa", Some('P'));
    found.extend(option_values(arguments, "--html", "--ht", Some('H')));
    found
}

/// Returns what an option passes to a shell: after `=`, attached to its letter, or in the
/// next word.
fn option_values(
    words: &[Word],
    long: &str,
    shortest: &str,
    short: Option<char>,
) -> Vec<WrappedCommand> {
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let Some(text) = word.text.as_deref() else { continue };
        let (name, glued) = match text.split_once('=') {
            Some((name, glued)) => (name, Some(glued)),
            None => (text, None),
        };
        let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        let script = if name.starts_with(shortest) && long.starts_with(name) {
            glued.map(str::to_owned)
        } else {
            let Some((_, joined)) =
                short.and_then(|letter| letters.and_then(|letters| letters.split_once(letter)))
            else {
                continue;
            };
            (!joined.is_empty()).then(|| joined.to_owned())
        };
        let script = script.or_else(|| words.get(index + 1).and_then(|word| word.text.clone()));
        found.push(match script {
            Some(text) => WrappedCommand::Script { text, plain_sh: true },
            None => WrappedCommand::Unclear(format!(
                "`{name}` runs text that is known only at run time"
            )),
        });
    }
    found
}

/// Whether the name is a dynamic loader such as `ld.so`, `ld-linux-x86-64.so.2`, or
/// `ld-musl-x86_64.so.1`.
fn is_loader(name: &str) -> bool {
    name == "ld.so" || (name.starts_with("ld-") && name.contains(".so"))
}

fn started_command(rest: Operands<'_>) -> Vec<WrappedCommand> {
    match rest {
        Operands::Words([]) => Vec::new(),
        Operands::Words(words) => vec![program_without_assignments(words.to_vec())],
        Operands::Unclear(reason) => vec![WrappedCommand::Unclear(reason)],
    }
}

fn unclear_command(reason: &str) -> Vec<WrappedCommand> {
    vec![WrappedCommand::Unclear(reason.to_owned())]
}

/// Returns a program with its words and without assignments.
fn program_without_assignments(words: Vec<Word>) -> WrappedCommand {
    WrappedCommand::Words { words, assignments: Vec::new() }
}

/// Reads the words after the options: `NAME=value` words, then a program.
fn with_assignments(program: &str, rest: Operands<'_>) -> Vec<WrappedCommand> {
    let mut words = match rest {
        Operands::Words(words) => words,
        Operands::Unclear(_) => return started_command(rest),
    };
    let mut assignments = Vec::new();
    while let Some((word, behind)) = words.split_first() {
        if !options::is_single_word(word) {
            let reason = format!("`{program}` has arguments that are known only at run time");
            return vec![
                WrappedCommand::Words { words: words.to_vec(), assignments },
                WrappedCommand::Unclear(reason),
            ];
        }
        let text = word.text.as_deref().unwrap_or(&word.source);
        let Some((name, value)) = text.split_once('=') else { break };
        let value = Word {
            text: word.text.is_some().then(|| value.to_owned()),
            source: value.to_owned(),
            glob: word.glob,
            quoted: word.quoted,
        };
        assignments.push(Assignment { name: name.to_owned(), value });
        words = behind;
    }
    if words.is_empty() {
        return Vec::new();
    }
    vec![WrappedCommand::Words { words: words.to_vec(), assignments }]
}

fn env(arguments: &[Word]) -> Vec<WrappedCommand> {
    const OPTIONS: Options = Options {
        flags: "i0v",
        values: "uCa",
        long_flags: &[
            "ignore-environment",
            "null",
            "debug",
            "list-signal-handling",
            "block-signal",
            "default-signal",
            "ignore-signal",
        ],
        long_values: &["unset", "chdir", "argv0"],
    };
    let mut words = arguments;
    // A lone `-` means `-i`; `-S` splits a string into words.
    for (index, word) in arguments.iter().enumerate() {
        let Some(text) = word.text.as_deref() else { break };
        let split = match text {
            "-" => {
                words = arguments.get(index + 1..).unwrap_or_default();
                break;
            }
            "-S" | "--split-string" => {
                arguments.get(index + 1).map(|next| (next.text.clone(), index + 2))
            }
            _ if !text.starts_with('-') || text == "--" => break,
            _ => text
                .strip_prefix("-S")
                .or_else(|| text.strip_prefix("-iS"))
                .or_else(|| text.strip_prefix("-vS"))
                .or_else(|| text.strip_prefix("--split-string="))
                .map(|glued| match arguments.get(index + 1) {
                    Some(next) if glued.is_empty() && !text.contains('=') => {
                        (next.text.clone(), index + 2)
                    }
                    _ => (Some(glued.to_owned()), index + 1),
                }),
        };
        let Some((text, next)) = split else {
            if text
                .strip_prefix('-')
                .is_some_and(|letters| !letters.starts_with('-') && letters.contains('S'))
            {
                return unclear_command("`env -S` is not a plain command");
            }
            continue;
        };
        let Some(text) = text.filter(|text| !text.contains(['\\', '"', '\'', '$', '#'])) else {
            return unclear_command("`env -S` is not a plain command");
        };
        let mut all: Vec<Word> = text
            .split_ascii_whitespace()
            .map(|part| Word {
                text: Some(part.to_owned()),
                source: part.to_owned(),
                glob: false,
                quoted: true,
            })
            .collect();
        all.extend(arguments.get(next..).unwrap_or_default().iter().cloned());
        return env(&all);
    }
    with_assignments("env", OPTIONS.operands_after(words, 0))
}

fn elevated(name: &str, arguments: &[Word]) -> Vec<WrappedCommand> {
    const SUDO: Options = Options {
        flags: "AbBEHiknNPsSKlvV",
        values: "ugpCchDRTrtU",
        long_flags: &[
            "askpass",
            "background",
            "bell",
            "preserve-env",
            "set-home",
            "login",
            "reset-timestamp",
            "non-interactive",
            "preserve-groups",
            "stdin",
            "shell",
            "validate",
            "list",
        ],
        long_values: &[
            "user",
            "group",
            "prompt",
            "chdir",
            "chroot",
            "host",
            "close-from",
            "command-timeout",
        ],
    };
    const DOAS: Options =
        Options { flags: "Lns", values: "aCu", long_flags: &[], long_values: &[] };
    let options = if name == "sudo" { SUDO } else { DOAS };
    let found = with_assignments(name, options.operands_after(arguments, 0));
    let shell = |text: &str| {
        matches!(text, "--login" | "--shell")
            || text
                .strip_prefix('-')
                .is_some_and(|flags| !flags.starts_with('-') && flags.contains(['i', 's']))
    };
    if found.is_empty() && arguments.iter().filter_map(|word| word.text.as_deref()).any(shell) {
        return unclear_command(&format!("`{name}` starts a shell"));
    }
    found
}

/// `capsh -- ARGUMENTS` starts a shell with them.
fn capsh(arguments: &[Word]) -> Vec<WrappedCommand> {
    let mut found = unclear_command("`capsh` starts other programs");
    let end = arguments.iter().position(|word| word.text.as_deref() == Some("--"));
    if let Some(rest) = end.and_then(|end| arguments.get(end + 1..)) {
        found.extend(shells::wrapped_commands("bash", rest));
    }
    found
}

fn nice(arguments: &[Word]) -> Vec<WrappedCommand> {
    const OPTIONS: Options =
        Options { flags: "", values: "n", long_flags: &[], long_values: &["adjustment"] };
    // `nice -5 make` means `nice -n 5 make`.
    let is_number = |word: &Word| {
        word.text.as_deref().and_then(|text| text.strip_prefix('-')).is_some_and(|number| {
            let digits = number.strip_prefix(['-', '+']).unwrap_or(number);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let skipped = arguments.iter().take_while(|word| is_number(word)).count();
    started_command(OPTIONS.operands_after(arguments.get(skipped..).unwrap_or_default(), 0))
}

fn command(arguments: &[Word]) -> Vec<WrappedCommand> {
    const OPTIONS: Options =
        Options { flags: "pvV", values: "", long_flags: &[], long_values: &[] };
    let asks = arguments
        .iter()
        .map_while(|word| {
            word.text.as_deref().filter(|text| text.starts_with('-') && *text != "--")
        })
        .any(|flags| flags.contains(['v', 'V']));
    if asks { Vec::new() } else { started_command(OPTIONS.operands_after(arguments, 0)) }
}
