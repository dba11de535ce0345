//! The permissive scan: every position where a command might begin, for denying rules. It ignores
//! quoting on purpose (`bash -c "rm x"` runs `rm`).

/// Words that run the words after them.
const WRAPPERS: &[&str] = &[
    "sudo",
    "doas",
    "env",
    "command",
    "builtin",
    "exec",
    "nohup",
    "time",
    "nice",
    "ionice",
    "timeout",
    "stdbuf",
    "setsid",
    "xargs",
    "sh",
    "bash",
    "zsh",
    "dash",
    "ksh",
    "eval",
    "busybox",
    "watch",
    "taskset",
    "chrt",
    "unshare",
    "setpriv",
    "prlimit",
    "setarch",
    "linux32",
    "linux64",
    "i386",
    "choom",
    "runuser",
    "sg",
    "nsenter",
    "chroot",
    "capsh",
    "ltrace",
    "fakeroot",
    "numactl",
    "systemd-run",
    "tini",
    "fish",
    "csh",
    "tcsh",
    "mksh",
    "yash",
    "xvfb-run",
    "firejail",
    "bwrap",
    "dbus-run-session",
    "faketime",
    "cpulimit",
    "rlwrap",
    "unbuffer",
    "entr",
    "parallel",
    "if",
    "then",
    "else",
    "elif",
    "while",
    "until",
    "do",
    "!",
    "coproc",
];

/// Options of other programs that run the words after them.
const RUNNING_OPTIONS: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];

/// Maximum length in bytes; longer lines are not scanned.
const MAX_BYTES: usize = 256 * 1024;
const MAX_STARTS: usize = 64;

/// Every position of a line where a command might begin.
pub(crate) struct PermissiveScan {
    commands: Vec<Vec<String>>,
    /// Pairs of command index and word index.
    command_starts: Vec<(usize, usize)>,
    /// Whether the line is too long to scan; denying rules must then match.
    pub(crate) too_much: bool,
}

impl PermissiveScan {
    /// Returns the programs, without their directories, and the words after each.
    pub(crate) fn programs(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.command_starts.iter().filter_map(|&(command, word)| {
            let (program, arguments) = self.commands.get(command)?.get(word..)?.split_first()?;
            Some((base_name(program), arguments))
        })
    }
}

/// Scans a line.
pub(crate) fn scan(command: &str) -> PermissiveScan {
    let mut loose = PermissiveScan {
        commands: Vec::new(),
        command_starts: Vec::new(),
        too_much: command.len() > MAX_BYTES,
    };
    if loose.too_much {
        return loose;
    }
    loose.commands = split(command);
    for (index, words) in loose.commands.iter().enumerate() {
        let found = starts(words);
        loose.too_much |= found.len() >= MAX_STARTS;
        loose.command_starts.extend(found.into_iter().map(|word| (index, word)));
    }
    loose
}

fn split(command: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut target = false;
    let end_word = |word: &mut String, words: &mut Vec<String>, target: &mut bool| {
        if !word.is_empty() {
            let word = std::mem::take(word);
            if *target {
                *target = false;
            } else {
                words.push(word);
            }
        }
    };
    let mut characters = command.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\'' | '"' => {}
            '\\' => {
                if let Some(next) = characters.next()
                    && next != '\n'
                {
                    word.push(next);
                }
            }
            '<' | '>' => {
                if word.bytes().all(|byte| byte.is_ascii_digit()) {
                    word.clear();
                }
                end_word(&mut word, &mut words, &mut target);
                while characters.next_if(|next| matches!(next, '<' | '>' | '&' | '|')).is_some() {}
                // `<(` and `>(` run a command; all other redirections name a file.
                target = characters.peek() != Some(&'(');
            }
            ';' | '|' | '&' | '\n' | '(' | ')' | '{' | '}' | '`' => {
                end_word(&mut word, &mut words, &mut target);
                target = false;
                if !words.is_empty() {
                    commands.push(std::mem::take(&mut words));
                }
            }
            blank if blank.is_whitespace() => end_word(&mut word, &mut words, &mut target),
            other => word.push(other),
        }
    }
    end_word(&mut word, &mut words, &mut target);
    if !words.is_empty() {
        commands.push(words);
    }
    commands
}

/// Returns the positions in `words` of the command itself and of the commands it wraps.
fn starts(words: &[String]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut wrapped = false;
    let mut option_before = false;
    for (index, word) in words.iter().enumerate() {
        if WRAPPERS.contains(&base_name(word)) {
            wrapped = true;
            found.push(index);
        } else if !is_assignment(word) {
            // Options and their values may precede the program of a wrapper: consider every word up
            // to the first that is certainly neither.
            found.push(index);
            let option =
                word.starts_with('-') || word.starts_with(|first: char| first.is_ascii_digit());
            if !wrapped || !(option || option_before) {
                break;
            }
            option_before = word.starts_with('-');
        }
    }
    for (index, word) in words.iter().enumerate() {
        if RUNNING_OPTIONS.contains(&word.as_str()) {
            found.push(index + 1);
        }
    }
    found.truncate(MAX_STARTS);
    found
}

fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'+')
    })
}

#[cfg(test)]
mod tests {
    use super::scan;

    fn runs(command: &str, program: &str, argument: Option<&str>) -> bool {
        scan(command).programs().any(|(name, arguments)| {
            name == program
                && (argument.is_none() || arguments.first().map(String::as_str) == argument)
        })
    }

    #[test]
    fn oversized_line_is_rejected_cheaply() {
        assert!(scan(&"env ".repeat(10_000)).too_much);
        assert!(scan(&"x".repeat(1 << 20)).too_much);
        assert!(!scan("env sudo ls").too_much);
    }

    #[test]
    fn program_is_found_in_every_command_position() {
        for command in [
            "touch a",
            "ls; touch a",
            "ls && touch a",
            "A=b touch a",
            "/usr/bin/touch a",
            "t\\ouch a",
            "'touch' a",
            "to\"\"uch a",
            "echo $(touch a)",
            "echo `touch a`",
            "echo \"$(touch a)\"",
            "cat <(touch a)",
            "bash -c 'touch a'",
            "bash -lc \"ls; touch a\"",
            "sudo -n touch a",
            "sudo -u root touch a",
            "timeout 5 touch a",
            "nice -n 5 touch a",
            "env A=b touch a",
            "find . -exec touch a {} +",
            "ls | xargs -n1 touch a",
            "if true; then touch a; fi",
            "for i in 1 2; do touch a; done",
            "> out touch a",
            "2>/dev/null touch a",
            "(touch a)",
            "{ touch a; }",
            "ls & touch a",
            "ls\ntouch a",
        ] {
            assert!(runs(command, "touch", Some("a")), "{command}");
        }
    }

    #[test]
    fn argument_is_not_taken_for_a_program() {
        for command in ["git rm a", "echo rm", "cat rm > rm", "ls -l rm"] {
            assert!(!runs(command, "rm", None), "{command}");
        }
    }
}
