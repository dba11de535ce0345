//! Commands that require approval even where commands are allowed.

mod build_tools;
mod destruction;
mod readers;

use super::arguments::{has_letter, has_long_option, literal_arguments};
use super::git::git_subcommand;
use super::line::{Assignment, Command, Word};

pub use destruction::{Destruction, DestructionKind, checked_out, destruction, may_destroy};

/// Returns why the command requires approval although commands are allowed: it forces a deletion,
/// runs programs through its options, creates a link, or sets a variable that controls what
/// programs do.
pub fn danger_reason(command: &Command) -> Option<&'static str> {
    if let Some(reason) = command.assignments.iter().find_map(assignment_control_reason) {
        return Some(reason);
    }
    let name = command.name()?;
    let arguments = command.arguments();
    // A file name may look like an option.
    let names_as_options = || arguments.iter().any(may_become_option);
    match name {
        "rm" if names_as_options() => Some("file names may be parsed as options"),
        "find" | "gfind" if literal_arguments(command).any(has_find_action) => {
            Some("`find` deletes or writes files, or runs programs")
        }
        "fd" | "fdfind"
            if literal_arguments(command).any(|text| {
                matches!(text, "-x" | "-X") || text.starts_with("--ex") && text.contains("exec")
            }) =>
        {
            Some("`fd` runs programs")
        }
        "rg" if literal_arguments(command).any(rg_runs_programs) => Some("`rg` runs programs"),
        "git" => git(command),
        "base64"
            if literal_arguments(command)
                .any(|text| text.starts_with("-o") || text.starts_with("--o")) =>
        {
            Some("`base64` writes a file")
        }
        "ln" if has_letter(command, &['s']) || has_long_option(command, "--symbolic", "--s") => {
            Some("it creates a symbolic link")
        }
        "tar" | "rsync" | "zip" | "7z" | "chown" | "chmod" if names_as_options() => {
            Some("file names may be parsed as options")
        }
        "tar" | "bsdtar" | "gtar"
            if has_long_option(command, "--to-command", "--to-c")
                || has_long_option(command, "--checkpoint-action", "--checkpoint-")
                || has_long_option(command, "--use-compress-program", "--us")
                || has_long_option(command, "--info-script", "--inf")
                || has_long_option(command, "--new-volume-script", "--new-v")
                || has_long_option(command, "--rsh-command", "--rs")
                || has_long_option(command, "--rmt-command", "--rm")
                || has_letter(command, &['I', 'F'])
                || has_legacy_option(command, &['I', 'F']) =>
        {
            Some("`tar` runs programs")
        }
        "awk" | "gawk" | "mawk" | "nawk" if awk_runs_programs(command) => {
            Some("`awk` runs programs or writes files")
        }
        "sort" if has_long_option(command, "--compress-program", "--com") => {
            Some("`sort` runs a program")
        }
        _ if build_tools::runs_named_program(name, command) => {
            Some("its options choose a program to run")
        }
        _ if readers::writes(name, command) => Some("a read-only program writes a file"),
        "rsync"
            if has_letter(command, &['e'])
                || has_long_option(command, "--rsh", "--rs")
                || has_long_option(command, "--rsync-path", "--rsync-") =>
        {
            Some("`rsync` runs programs")
        }
        "ssh" | "scp" | "sftp"
            if literal_arguments(command).any(|text| {
                text.to_ascii_lowercase().contains("command=")
                    || text.to_ascii_lowercase().contains("proxyusefdpass")
            }) =>
        {
            Some("its options run programs")
        }
        "zip"
            if has_letter(command, &['T'])
                && has_long_option(command, "--unzip-command", "--unz")
                || name == "zip"
                    && literal_arguments(command).any(|text| text.starts_with("-TT")) =>
        {
            Some("`zip` runs programs")
        }
        "sed" | "gsed" if sed_runs(command) => Some("`sed` runs programs or writes files"),
        "date" if has_letter(command, &['s']) || has_long_option(command, "--set", "--s") => {
            Some("it sets the system clock")
        }
        "shutdown" | "reboot" | "halt" | "poweroff" => {
            Some("it shuts down or restarts the machine")
        }
        _ => None,
    }
}

fn git(command: &Command) -> Option<&'static str> {
    let Some(call) = git_subcommand(command) else {
        let asks = |word: &Word| {
            matches!(word.text.as_deref(), Some("--version" | "-v" | "--help" | "-h"))
        };
        return (!command.arguments().iter().all(asks))
            .then_some("the git command is known only at run time");
    };
    if call.configured {
        return Some("options of git choose a program to run");
    }
    let runs = call.words.iter().filter_map(|word| word.text.as_deref()).any(|text| {
        let name = text.split('=').next().unwrap_or(text);
        // Git accepts any unambiguous abbreviation of a long option.
        [
            "--config-env",
            "--exec-path",
            "--ext-diff",
            "--textconv",
            "--output",
            "--upload-pack",
            "--receive-pack",
            "--exec",
            "--extcmd",
            "--open-files-in-pager",
            "--show-signature",
            "--filters",
            "--template",
            "--config",
            "--use-askpass",
        ]
        .iter()
        .any(|option| {
            name.len() > 4
                && name.starts_with("--")
                && option.starts_with(name)
                && !matches!(name, "--up" | "--ex")
        }) || matches!(name, "--ex" | "--ou" | "--out")
    });
    // Matches the letters of a cluster such as `-qx`, up to the first letter that takes the rest as
    // its value.
    let short = |letters: &[char], with_value: &str| {
        call.words.iter().filter_map(|word| word.text.as_deref()).any(|text| {
            let flags = text.strip_prefix('-').filter(|flags| !flags.starts_with('-'));
            flags.is_some_and(|flags| {
                let end = flags.find(|letter| with_value.contains(letter));
                flags.get(..end.unwrap_or(flags.len())).unwrap_or(flags).contains(letters)
            })
        })
    };
    if runs
        || (call.name == "grep" && short(&['O'], "efmABC"))
        || (call.name == "rebase" && short(&['x'], "sXCS"))
        || (call.name == "difftool" && short(&['x'], "t"))
        || (call.name == "clone" && short(&['c', 'u'], "boj"))
        || (call.name == "archive" && short(&['o'], ""))
        || (matches!(
            call.name,
            "fetch" | "pull" | "clone" | "ls-remote" | "push" | "archive" | "submodule" | "remote"
        ) && call
            .words
            .iter()
            .filter_map(|word| word.text.as_deref())
            .any(|text| text.contains("ext::")))
        || call
            .words
            .iter()
            .filter_map(|word| word.text.as_deref())
            .any(|text| text.starts_with("ext::") || text.contains("=ext::"))
    {
        return Some("options of git run programs or write files");
    }
    match call.name {
        name if name.starts_with("remote-") => Some("this git command runs programs"),
        "filter-branch" | "daemon" | "shell" | "upload-pack" | "receive-pack" | "difftool"
        | "mergetool" | "instaweb" | "send-email" | "credential" | "hook" | "web--browse"
        | "merge-index" | "merge-one-file" | "http-backend" | "cvsserver" | "cvsexportcommit"
        | "archimport" | "quiltimport" | "gui" | "citool" | "maintenance" | "bisect"
        | "fast-import" | "p4" | "svn" | "cvsimport" => Some("this git command runs programs"),
        "config" if !config_only_reads(call.words) => Some("it changes the programs that git runs"),
        "submodule" if call.words.iter().any(|word| word.text.as_deref() == Some("foreach")) => {
            Some("this git command runs programs")
        }
        _ => None,
    }
}

fn config_only_reads(words: &[Word]) -> bool {
    let texts: Vec<&str> = words.iter().filter_map(|word| word.text.as_deref()).collect();
    texts.len() == words.len()
        && texts.iter().any(|text| {
            matches!(
                *text,
                "--get"
                    | "--get-all"
                    | "--list"
                    | "-l"
                    | "get"
                    | "list"
                    | "--get-regexp"
                    | "--get-urlmatch"
            )
        })
        && !texts.iter().any(|text| {
            matches!(*text, "--unset" | "--add" | "--replace-all" | "--unset-all" | "--edit" | "-e")
        })
}

/// Returns why the assigned variable controls what programs do, if it does.
pub fn assignment_control_reason(assignment: &Assignment) -> Option<&'static str> {
    control_reason(&assignment.name)
}

/// Returns why the variable with this name controls what programs do, if it does.
pub(super) fn control_reason(name: &str) -> Option<&'static str> {
    const CODE: &[&str] = &[
        "BASH_ENV",
        "ENV",
        "PROMPT_COMMAND",
        "PS0",
        "PS1",
        "PS2",
        "PS4",
        "SHELLOPTS",
        "BASHOPTS",
        "ZDOTDIR",
        "PYTHONSTARTUP",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONINSPECT",
        "PYTHONBREAKPOINT",
        "PYTHONWARNINGS",
        "PERL5OPT",
        "PERL5LIB",
        "PERLLIB",
        "PERL5DB",
        "RUBYOPT",
        "RUBYLIB",
        "NODE_OPTIONS",
        "NODE_PATH",
        "JAVA_TOOL_OPTIONS",
        "_JAVA_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "LUA_INIT",
        "LUA_PATH",
        "LUA_CPATH",
        "PHPRC",
        "PHP_INI_SCAN_DIR",
        "CLASSPATH",
        "MAKEFLAGS",
        "GNUMAKEFLAGS",
        "MAKEFILES",
        "R_PROFILE",
        "R_ENVIRON",
        "RIPGREP_CONFIG_PATH",
        "GREP_OPTIONS",
        "FZF_DEFAULT_COMMAND",
        "FZF_DEFAULT_OPTS",
        "AWKPATH",
        "AWKLIBPATH",
        "GIT",
        "TAR_OPTIONS",
        "RSYNC_RSH",
        "RSYNC_CONNECT_PROG",
        "CURL_HOME",
        "WGETRC",
        "SSH_ASKPASS",
        "SUDO_ASKPASS",
        "ZIPOPT",
        "UNZIP",
        "OPENSSL_CONF",
        "GCONV_PATH",
        "HOSTALIASES",
        "LOCPATH",
        "TERMINFO",
        "NLSPATH",
        "GDK_PIXBUF_MODULE_FILE",
        "GTK_MODULES",
        "QT_PLUGIN_PATH",
    ];
    const PROGRAM: &[&str] = &[
        "PATH",
        "EDITOR",
        "VISUAL",
        "PAGER",
        "MANPAGER",
        "BROWSER",
        "SHELL",
        "LESSOPEN",
        "LESSCLOSE",
        "LESS",
        "CC",
        "CXX",
        "LD",
        "AR",
        "RUSTC",
        "RUSTDOC",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTFLAGS",
        "CARGO",
        "CDPATH",
        "HOME",
        "XDG_CONFIG_HOME",
        "TEXTDOMAIN",
        "TEXTDOMAINDIR",
        "GOFLAGS",
        "GOROOT",
        "GOPATH",
        "TMUX",
        "MANOPT",
        "MANROFFOPT",
        "CMAKE_PROGRAM_PATH",
        "CONFIG_SITE",
        "EXECIGNORE",
        "BASH_LOADABLES_PATH",
        "BASH_CMDS",
        "BASH_ALIASES",
    ];
    if ["LD_", "DYLD_", "BASH_FUNC_", "GLIBC_", "_RLD"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
    {
        return Some("a variable loads code into programs");
    }
    if [
        "GIT_",
        "NPM_CONFIG_",
        "npm_config_",
        "CARGO_",
        "PIP_",
        "YARN_",
        "BUNDLE_",
        "RUSTUP_",
        "DOCKER_",
        "KUBE",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
        && !is_harmless(name)
    {
        return Some("a variable chooses what a program runs");
    }
    if CODE.contains(&name) {
        return Some("a variable makes programs run code");
    }
    PROGRAM.contains(&name).then_some("a variable controls which programs run")
}

fn is_harmless(name: &str) -> bool {
    matches!(
        name,
        "CARGO_TERM_COLOR"
            | "CARGO_INCREMENTAL"
            | "CARGO_TARGET_DIR"
            | "CARGO_NET_OFFLINE"
            | "CARGO_BUILD_JOBS"
            | "CARGO_TERM_PROGRESS_WHEN"
            | "GIT_PAGER_IN_USE"
            | "GIT_TERMINAL_PROMPT"
            | "GIT_OPTIONAL_LOCKS"
            | "GIT_AUTHOR_NAME"
            | "GIT_AUTHOR_EMAIL"
            | "GIT_AUTHOR_DATE"
            | "GIT_COMMITTER_NAME"
            | "GIT_COMMITTER_EMAIL"
            | "GIT_COMMITTER_DATE"
            | "PIP_NO_CACHE_DIR"
            | "PIP_DISABLE_PIP_VERSION_CHECK"
    )
}

/// Whether the first word is a cluster of letters without a dash, as in `tar xfI`.
fn has_legacy_option(command: &Command, letters: &[char]) -> bool {
    let first = command.arguments().first().and_then(|word| word.text.as_deref());
    first.is_some_and(|text| !text.starts_with('-') && text.contains(letters))
}

/// Whether the argument makes `find` run programs, delete files, or write files.
fn has_find_action(word: &str) -> bool {
    ["-exec", "-ok", "-delete", "-fprint", "-fls", "-files0-from"]
        .iter()
        .any(|action| word.starts_with(action))
}

/// Whether the word begins with an unquoted pattern, which could match a file named `-x`.
fn may_become_option(word: &Word) -> bool {
    word.glob
        && word
            .text
            .as_deref()
            .is_some_and(|text| text.starts_with(['*', '?', '[']) || text.starts_with("{-"))
}

/// Whether an awk program may run programs or write files. Returns `true` if unsure.
fn awk_runs_programs(command: &Command) -> bool {
    let comparison = |text: &str| text.contains('>') && !text.contains(['"', '(']);
    has_letter(command, &['f', 'i', 'l', 'E', 'e'])
        || command.arguments().iter().any(|word| match word.text.as_deref() {
            Some(text) => {
                ["system", "|", "getline", "@load", "@include", "close", "--"]
                    .iter()
                    .any(|part| text.contains(part))
                    || text.contains('>') && !comparison(text)
            }
            None => true,
        })
}

/// Whether a sed script may run programs or write files. Returns `true` for every script that does
/// more than print, delete, and substitute.
fn sed_runs(command: &Command) -> bool {
    let mut scripts = super::arguments::values(command, 'e', "expression");
    if !super::arguments::values(command, 'f', "file").is_empty() {
        return true;
    }
    if scripts.is_empty() {
        let operands = super::arguments::operands(
            command,
            "elf",
            &["--expression", "--line-length", "--file"],
        );
        scripts.extend(operands.into_iter().next());
    }
    scripts.iter().any(|script| script.text.as_deref().is_none_or(|text| !sed_is_plain(text)))
}

fn sed_is_plain(script: &str) -> bool {
    script.split(['\n', ';']).all(|part| {
        let Some(command) = skip_addresses(part.trim()) else { return false };
        if matches!(
            command,
            "" | "p" | "d" | "q" | "=" | "n" | "N" | "g" | "G" | "h" | "H" | "x" | "P" | "D"
        ) {
            return true;
        }
        let Some(rest) = command.strip_prefix('s') else { return false };
        let Some(separator) = rest.chars().next().filter(|c| !c.is_alphanumeric() && *c != '\\')
        else {
            return false;
        };
        // The flags follow the last separator.
        let Some((_, flags)) = rest.rsplit_once(separator) else { return false };
        rest.matches(separator).count() >= 3
            && flags
                .chars()
                .all(|flag| matches!(flag, 'g' | 'i' | 'I' | 'p' | '0'..='9' | 'm' | 'M'))
    })
}

/// Returns the command after addresses such as `1,5`, `$!`, and `/a/,/b/`.
fn skip_addresses(part: &str) -> Option<&str> {
    let mut rest = part;
    loop {
        rest = rest.trim_start_matches(|c: char| {
            c.is_ascii_digit() || matches!(c, ',' | '$' | '!' | '~' | '+' | ' ')
        });
        let Some(pattern) = rest.strip_prefix('/') else { return Some(rest) };
        let mut escaped = false;
        let end = pattern.char_indices().find(|(_, character)| {
            let ends = *character == '/' && !escaped;
            escaped = *character == '\\' && !escaped;
            ends
        });
        rest = pattern.get(end?.0 + 1..)?;
    }
}

/// Whether the argument makes `rg` start other programs.
pub(super) fn rg_runs_programs(word: &str) -> bool {
    word.starts_with("--pre")
        || word.starts_with("--hostname-bin")
        || word.starts_with("--search-zip")
        || (word.starts_with('-') && !word.starts_with("--") && word.contains('z'))
}
