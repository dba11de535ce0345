//! The shell that runs a command line, and the script that it receives.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The shell of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shell {
    /// The absolute path of the program.
    pub program: PathBuf,
    /// Whether it is bash (and so supports `shopt`).
    pub is_bash: bool,
}

impl Shell {
    /// Finds `bash`, otherwise `sh`, in the given `PATH` or else in the usual directories.
    pub fn find(path: Option<&OsStr>) -> Option<Self> {
        let mut directories: Vec<PathBuf> =
            path.map(|p| std::env::split_paths(p).collect()).unwrap_or_default();
        // Never use a shell from the directory that the agent works in.
        directories.retain(|directory| directory.is_absolute());
        directories.extend(["/usr/bin", "/bin", "/usr/local/bin"].map(PathBuf::from));
        let find = |name: &str| {
            directories
                .iter()
                .map(|directory| directory.join(name))
                .find(|file| is_executable(file))
        };
        if let Some(program) = find("bash") {
            return Some(Self { program, is_bash: true });
        }
        find("sh").map(|program| Self { program, is_bash: false })
    }

    /// Returns the text for `-c`. Disables options that change the meaning of words, because the
    /// text was approved without them. Everything is on one line, so that line numbers in messages
    /// of the shell match the command.
    pub fn script(&self, command: &str) -> String {
        // A lone backslash at the end would continue the line.
        let backslashes = command.bytes().rev().take_while(|byte| *byte == b'\\').count();
        let end = if backslashes % 2 == 1 { " " } else { "" };
        if self.is_bash {
            format!("shopt -u promptvars nullglob extglob nocaseglob dotglob; {command}{end}")
        } else {
            format!("{command}{end}")
        }
    }
}

/// Maximum length of one argument; Linux limits it to 128 KiB.
const MAX_ARGUMENT_LENGTH: usize = 100_000;

/// Returns the arguments with which a shell runs a script. A long script is passed in pieces, which
/// the shell joins before it parses them.
pub fn arguments_for(shell: &Shell, command: &str) -> Vec<OsString> {
    let script = shell.script(command);
    if script.len() <= MAX_ARGUMENT_LENGTH {
        return vec!["-c".into(), script.into()];
    }
    const JOIN: &str = r#"IFS=; set -- "$*"; unset IFS; eval "shift; $1""#;
    let name = shell.program.file_name().unwrap_or_default().to_owned();
    let mut arguments: Vec<OsString> = vec!["-c".into(), JOIN.into(), name];
    let mut rest = script.as_str();
    while !rest.is_empty() {
        let (piece, next) = rest.split_at(rest.floor_char_boundary(MAX_ARGUMENT_LENGTH));
        arguments.push(piece.into());
        rest = next;
    }
    arguments
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

const WRAPPERS: [&[&str]; 6] = [
    &["bash", "-c"],
    &["sh", "-c"],
    &["zsh", "-c"],
    &["cmd.exe", "/c"],
    &["powershell", "-command"],
    &["pwsh", "-command"],
];

/// Removes a leading `bash -c "…"` or similar wrapper: the text runs in a shell anyway, and the
/// checks apply to what it really runs. The text is unchanged if removing the wrapper would change
/// its meaning.
pub fn strip_wrapper(command: &str) -> &str {
    let trimmed = command.trim();
    WRAPPERS
        .iter()
        .find_map(|words| after_words(trimmed, words))
        .and_then(|rest| unquote(rest.trim()))
        .unwrap_or(trimmed)
}

/// Quotes a word for a shell.
pub fn quote_word(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,@%+".contains(letter);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => shell_words::quote(word).into_owned(),
    }
}

fn after_words<'a>(text: &'a str, words: &[&str]) -> Option<&'a str> {
    let mut rest = text;
    for word in words {
        let head = rest.get(..word.len())?;
        if !head.eq_ignore_ascii_case(word) {
            return None;
        }
        let tail = rest.get(word.len()..)?;
        rest = tail.trim_start();
        if rest.len() == tail.len() {
            return None;
        }
    }
    Some(rest)
}

/// Removes quotes if one pair encloses the whole text and nothing inside depends on them.
fn unquote(text: &str) -> Option<&str> {
    let quote = match text.chars().next() {
        Some(first @ ('"' | '\'')) => first,
        _ => return Some(text),
    };
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let depends = inner.contains(quote) || (quote == '"' && inner.contains('\\'));
    (!depends).then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_wrappers_are_removed_with_their_quotes() {
        for (command, expected) in [
            ("ls -l", "ls -l"),
            (r#"bash -c "ls -l""#, "ls -l"),
            ("  sh  -c  'echo hi'  ", "echo hi"),
            ("zsh -c ls", "ls"),
            ("BASH -c ls", "ls"),
            ("bash -cx ls", "bash -cx ls"),
            ("bash script.sh", "bash script.sh"),
            ("bash -c", "bash -c"),
            (r#"bash -c "echo \"x\"""#, r#"bash -c "echo \"x\"""#),
            ("sh -c 'echo $0' 'name'", "sh -c 'echo $0' 'name'"),
            ("pwsh -Command 'Get-Item x'", "Get-Item x"),
        ] {
            assert_eq!(strip_wrapper(command), expected);
        }
    }

    #[test]
    fn lone_trailing_backslash_is_held_back() {
        let shell = Shell { program: "/bin/sh".into(), is_bash: false };
        assert_eq!(shell.script(r"a \"), r"a \ ");
        assert_eq!(shell.script(r"a \\"), r"a \\");
        let bash = Shell { is_bash: true, ..shell };
        assert_eq!(
            bash.script("ls # x"),
            "shopt -u promptvars nullglob extglob nocaseglob dotglob; ls # x"
        );
    }
}
