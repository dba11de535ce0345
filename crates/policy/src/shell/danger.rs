//! Commands that need a person even where commands are allowed in general.

use super::loose::Loose;
use super::safe::{find_acts, rg_runs_programs};

/// Whether one of the commands (as the loose reading gives them) deletes by
/// force, runs programs through its options, or plants a link.
pub(crate) fn is_dangerous(line: &Loose) -> bool {
    line.too_much
        || line.programs().any(|(name, arguments)| {
            let mut arguments = arguments.iter().map(String::as_str);
            match name {
                "rm" => arguments.any(|word| {
                    matches!(word, "--force" | "--recursive")
                        || cluster(word).is_some_and(|flags| flags.contains(['f', 'r', 'R']))
                }),
                "find" => arguments.any(find_acts),
                "rg" => arguments.any(rg_runs_programs),
                "git" => arguments.any(|word| {
                    let name = word.split('=').next().unwrap_or(word);
                    matches!(
                        name,
                        "-c" | "-p"
                            | "--paginate"
                            | "--config-env"
                            | "--exec-path"
                            | "--ext-diff"
                            | "--textconv"
                            | "--output"
                            | "--upload-pack"
                            | "--receive-pack"
                            | "--exec"
                    )
                }),
                "base64" => arguments.any(|word| word.starts_with("-o") || word.starts_with("--o")),
                "ln" => arguments.any(|word| {
                    word == "--symbolic" || cluster(word).is_some_and(|flags| flags.contains('s'))
                }),
                _ => false,
            }
        })
}

/// Whether git runs anywhere in the line.
pub(crate) fn uses_git(line: &Loose) -> bool {
    line.too_much || line.programs().any(|(name, _)| name == "git")
}

/// The letters of `-abc`.
fn cluster(word: &str) -> Option<&str> {
    word.strip_prefix('-').filter(|flags| !flags.starts_with('-'))
}

/// Whether the line reads from or writes to files by redirection. Joining
/// streams (`2>&1`) and throwing away (`>/dev/null`) do not count. Where quotes
/// may hold commands they protect nothing.
pub(crate) fn redirects(command: &str) -> bool {
    let quotes_protect = !["$(", "`", " -c", "eval"].iter().any(|inner| command.contains(inner));
    let mut quote = None;
    let mut rest = command;
    while let Some(character) = rest.chars().next() {
        let after = rest.get(character.len_utf8()..).unwrap_or_default();
        rest = match (quote, character) {
            (Some('"') | None, '\\') => {
                let skipped = after.chars().next().map_or(0, char::len_utf8);
                after.get(skipped..).unwrap_or_default()
            }
            (Some(open), _) => {
                if character == open {
                    quote = None;
                }
                after
            }
            (None, '\'' | '"') => {
                quote = quotes_protect.then_some(character);
                after
            }
            (None, '<') => return true,
            (None, '>') => match harmless_target(after) {
                Some(after) => after,
                None => return true,
            },
            _ => after,
        };
    }
    false
}

/// The text behind `&1`, `&2` or `/dev/null`.
fn harmless_target(after: &str) -> Option<&str> {
    let text = after.strip_prefix('>').unwrap_or(after);
    let rest = match text.strip_prefix('&') {
        Some(stream) => stream.strip_prefix(['1', '2'])?,
        None => text.trim_start_matches([' ', '\t']).strip_prefix("/dev/null")?,
    };
    let ends = rest.chars().next().is_none_or(|next| next.is_whitespace() || ";|&)".contains(next));
    ends.then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::{is_dangerous, redirects};
    use crate::shell::loose;

    #[test]
    fn redirections_are_told_from_their_look_alikes() {
        for command in [
            "a > b",
            "a >> b",
            "a < b",
            "a 2> b",
            "a &> b",
            "cat <<E",
            "a >/dev/nullx",
            "echo \"$(a > b)\"",
            "bash -c 'a > b'",
            "a >&b",
            "a \\\\> b",
        ] {
            assert!(redirects(command), "{command}");
        }
        for command in [
            "a 2>&1",
            "a >/dev/null",
            "a 2>/dev/null | b",
            "echo 'a > b'",
            "echo \"a > b\"",
            "a \\> b",
            "a >/dev/null 2>&1; b",
        ] {
            assert!(!redirects(command), "{command}");
        }
    }

    #[test]
    fn dangerous_forms() {
        for command in [
            "rm -rf a",
            "rm -fr a",
            "sudo rm -f a",
            "x=$(rm -r a)",
            "find . -delete",
            "git -c a=b log",
            "ln -s a b",
            "rg --pre x y",
            "rm --recursive a",
        ] {
            assert!(is_dangerous(&loose(command)), "{command}");
        }
        for command in ["rm a", "find . -name x", "git log", "ln a b", "rg x"] {
            assert!(!is_dangerous(&loose(command)), "{command}");
        }
    }
}
