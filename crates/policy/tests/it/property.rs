use std::path::{Path, PathBuf};

use parallax_policy::shell::known_safe;
use proptest::prelude::*;

fn safe(command: &str) -> bool {
    known_safe(command, Path::new("/w"), &[PathBuf::from("/w")])
}

/// Pieces that make both safe and unsafe commands likely.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "ls",
            "cat",
            "echo",
            "git",
            "log",
            "status",
            "find",
            "-name",
            "grep",
            "rg",
            "sed",
            "-n",
            "1,5p",
            "cd",
            "src",
            "a.rs",
            "|",
            "&&",
            "||",
            ";",
            "'x y'",
            "\"z\"",
            "*.rs",
            "-",
            "..",
            "/",
            "~",
            "/etc/passwd",
        ])
        .prop_map(str::to_owned),
        prop::sample::select(vec![
            "$", "`", "\\", "!", "\n", ">", "<", "&", "(", ")", "{", "}", "#", "$(x)", "\0", "\r"
        ])
        .prop_map(str::to_owned),
        "\\PC{0,6}",
    ]
}

proptest! {
    #[test]
    fn nothing_with_a_live_metacharacter_is_safe(
        pieces in prop::collection::vec((piece(), prop::bool::ANY), 0..12)
    ) {
        let mut command = String::new();
        for (piece, blank) in pieces {
            command.push_str(&piece);
            if blank {
                command.push(' ');
            }
        }
        if safe(&command) {
            for forbidden in ['\n', '\r', '\0'] {
                prop_assert!(!command.contains(forbidden), "{command:?}");
            }
            let mut quote = None;
            let mut bare = String::new();
            for character in command.chars() {
                if quote != Some('\'') {
                    prop_assert!(!"$`\\!".contains(character), "{command:?}");
                }
                match quote {
                    Some(open) => {
                        if character == open {
                            quote = None;
                        }
                    }
                    None if character == '\'' || character == '"' => quote = Some(character),
                    None => bare.push(character),
                }
            }
            prop_assert!(quote.is_none());
            prop_assert!(!bare.replace("&&", "").contains(['<', '>', '(', ')', '{', '}', '#', '&']), "{command:?}");
            let absolute = bare.split([' ', ';', '|', '&']).any(|word| word.starts_with('/') && !word.starts_with("/dev/null"));
            prop_assert!(!absolute || command.contains("echo") || command.contains("rg") || command.contains("grep"), "{command:?}");
        }
    }

    #[test]
    fn any_text_is_judged(command in "\\PC{0,200}", prefix in "\\PC{0,20}") {
        let policy = crate::world::policy("");
        for mode in [parallax_protocol::policy::ApprovalMode::Default, parallax_protocol::policy::ApprovalMode::AutoEdit] {
            crate::world::judge(&policy, crate::world::Ask {
                mode, interactive: false, trusted: false, tool: "run_shell_command", target: &command,
            });
        }
        parallax_policy::CommandPrefix::parse(&prefix);
    }
}

#[test]
fn the_table_of_safe_commands() {
    for command in [
        "ls",
        "ls -la src",
        "cat a.rs b.rs",
        "head -n 5 a",
        "wc -l a.rs",
        "pwd",
        "echo 'a > b'",
        "echo hello world",
        "git status",
        "git status -s && git diff",
        "git log --oneline -5",
        "git show HEAD~1:src/a.rs",
        "git diff main..HEAD -- src",
        "git branch",
        "git branch -a",
        "git branch --list 'f*'",
        "git branch --contains HEAD",
        "git --no-pager log -3",
        "find . -name '*.rs' -type f",
        "grep -rn 'fn main' src | head -5",
        "grep -rn /api/v1 src",
        "rg -n '/usr/lib'",
        "rg TODO src",
        "sed -n 1,20p a.rs",
        "sed -n '5p' a.rs",
        "cd src && ls",
        "cat ../w/a",
        "uniq a",
        "tr a-z A-Z",
        "cat a | tr '/' '_'",
        "cut -d/ -f1 a",
        "true || false;",
        "cat /w/a.rs",
        "cat /dev/null",
        "base64 -d a",
        "which cargo",
        "stat a",
        "seq 1 3",
        "seq -s, 1 0.5 3",
        "uniq -c",
        "uniq -",
        "tail -n 5 a",
        "ls -laR src",
        "grep -rnHL foo src",
        "grep 'foo$' a",
        r"grep -E '^a\.b`*' a",
        "whoami",
    ] {
        assert!(safe(command), "{command}");
    }
    for command in [
        // out of the workspace
        "cat /etc/passwd",
        "cat ../a",
        "cat src/../../a",
        "cat ~/a",
        "ls ~",
        "cd",
        "cd ..",
        "cd -",
        "cd src && cat ../a",
        "ls /",
        "grep x /etc/passwd",
        "grep -f /etc/passwd x",
        "grep -f/etc/passwd x",
        "grep --file=/etc/passwd x",
        "grep /etc/passwd -e x",
        "rg --files /etc",
        "find / -name x",
        "git diff --no-index a /etc/passwd",
        "git -C .. status",
        "git log -- ../x",
        "cat a/b/../../../x",
        "echo /etc/*",
        "echo ~",
        "head -n1 /w/../etc/passwd",
        "cat x/../y/../z",
        "stat /wx",
        "ls sub/..",
        "cat a:~/b",
        // writes or runs
        "uniq a b",
        "uniq - a",
        "uniq -- a b",
        // does not end
        "tail -f a",
        "tail -5f a",
        "tail -F a",
        "tail --follow a",
        "tail --fol=name a",
        "tail --retry a",
        "seq inf",
        "seq 1 inf",
        "seq 99999999",
        "seq 123456789",
        "seq 1 0 5",
        "seq 5 0 1",
        "seq 1 1e-6 90",
        // names that only the disk knows, and links
        "cat src/*.rs",
        "echo ?",
        "cat [a]",
        "grep -R foo src",
        "grep -rR foo .",
        "grep --dereference-recursive foo .",
        "rg -L foo",
        "rg --follow foo",
        "find -L . -name x",
        "find -H x",
        "find . -follow",
        "ls -L a",
        "stat --dereference a",
        "grep -fa b",
        "wc --files0-from=a",
        "awk '{print $1}' a",
        "git log --help",
        "find . -delete",
        "find . -exec ls '{}' +",
        "find . -fprint a",
        "find . -okdir x",
        "find *",
        "rg --pre x y",
        "rg -z x",
        "rg -nz x",
        "sed -n 1w a",
        "sed -i 1p a",
        "sed 1p a",
        "sed -n 1p -i a",
        "sed -n -i 1p a",
        "sed -n '1p;w x' a",
        "sort -o a b",
        "sort a",
        "git log --output=x",
        "git log --outp=x",
        "git log --ou x",
        "git diff --ext-diff",
        "git diff --ext",
        "git log -c",
        "git -c a=b log",
        "git push",
        "git branch new",
        "git branch -D a",
        "git branch -m a b",
        "git branch --list --delete a",
        "git --exec-path=. log",
        "git -p log",
        "git diff *",
        "git",
        "git config a b",
        "git log --o*",
        "tee a",
        "rm a",
        "env ls",
        "bash -c ls",
        "base64 -o a b",
        "base64 --output=a b",
        "ls -*",
        "/bin/ls",
        "./ls",
        "cat* a",
        "\"\" a",
        "",
    ] {
        assert!(!safe(command), "{command}");
    }
}
