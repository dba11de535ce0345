//! Quotes hook variables in a hook's command, so that a directory name with spaces stays one word,
//! as commands written for Gemini CLI expect.

/// The variables that hooks receive.
const NAMES: [&str; 5] = [
    "GEMINI_PROJECT_DIR",
    "GEMINI_PLANS_DIR",
    "GEMINI_CWD",
    "GEMINI_SESSION_ID",
    "CLAUDE_PROJECT_DIR",
];

/// Puts quotes around unquoted hook variables, so that the shell does not split their values. A
/// command with a here-document is returned unchanged, because the quotes would become part of its
/// text.
pub(crate) fn quote_variables(command: &str) -> String {
    if !command.contains('$') || command.contains("<<") {
        return command.to_owned();
    }
    let mut text = String::with_capacity(command.len() + 16);
    let mut rest = command;
    // The open quote, and whether a word can begin here.
    let (mut open, mut fresh) = (None, true);
    while let Some(letter) = rest.chars().next() {
        let mut length = letter.len_utf8();
        match (open, letter) {
            (None | Some('"'), '\\') => {
                length += rest.chars().nth(1).map_or(0, char::len_utf8);
            }
            (None, '#') if fresh => length = rest.find('\n').unwrap_or(rest.len()),
            (None, '\'' | '"') => open = Some(letter),
            (Some(quote), _) if quote == letter => open = None,
            (None, '$') => {
                if let Some(variable) = variable(rest) {
                    text.push('"');
                    text.push_str(variable);
                    text.push('"');
                    (rest, fresh) = (&rest[variable.len()..], false);
                    continue;
                }
            }
            _ => {}
        }
        fresh = letter.is_whitespace() || ";&|(".contains(letter);
        let (piece, after) = rest.split_at(length);
        text.push_str(piece);
        rest = after;
    }
    text
}

/// Returns the hook variable at the start of the text, as written there.
fn variable(text: &str) -> Option<&str> {
    let after = text.strip_prefix('$')?;
    for name in NAMES {
        let braced =
            after.strip_prefix('{').and_then(|it| it.strip_prefix(name)?.strip_prefix('}'));
        if braced.is_some() {
            return text.get(..name.len() + 3);
        }
        let ends = |rest: &str| !rest.starts_with(|it: char| it.is_alphanumeric() || it == '_');
        if after.strip_prefix(name).is_some_and(ends) {
            return text.get(..=name.len());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unquoted_hook_variables_are_quoted() {
        for (command, expected) in [
            ("$GEMINI_PROJECT_DIR/hk.sh", "\"$GEMINI_PROJECT_DIR\"/hk.sh"),
            ("sh ${CLAUDE_PROJECT_DIR}/a b", "sh \"${CLAUDE_PROJECT_DIR}\"/a b"),
            ("\"$GEMINI_CWD/x\"", "\"$GEMINI_CWD/x\""),
            ("bash -c 'ls $GEMINI_CWD'", "bash -c 'ls $GEMINI_CWD'"),
            ("echo \\$GEMINI_CWD $HOME", "echo \\$GEMINI_CWD $HOME"),
            ("# don't\necho $GEMINI_CWD", "# don't\necho \"$GEMINI_CWD\""),
            ("echo $GEMINI_CWDS ${GEMINI_CWD:-x}", "echo $GEMINI_CWDS ${GEMINI_CWD:-x}"),
            ("cat <<E\n$GEMINI_CWD\nE", "cat <<E\n$GEMINI_CWD\nE"),
            ("é\\", "é\\"),
        ] {
            assert_eq!(quote_variables(command), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn quoting_adds_only_quotes(command in ".{0,40}") {
            let command = command.replace('x', "$GEMINI_CWD");
            let bare = |text: &str| text.replace('"', "");
            proptest::prop_assert_eq!(bare(&quote_variables(&command)), bare(&command));
        }
    }
}
