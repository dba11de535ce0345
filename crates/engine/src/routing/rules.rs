//! What a prompt looks like: in the clear cases no model needs to be asked
//! which model it is for.

/// Characters from which a prompt is a long one.
const LONG: usize = 1_500;
/// Lines from which it is.
const MANY_LINES: usize = 30;
/// Steps, or files, from which the work is large.
const MANY: usize = 4;
/// Characters up to which a question or order may be small.
const SHORT: usize = 160;
/// Characters up to which one line is not worth a question.
const BRIEF: usize = 240;

/// A prompt of fewer words says nothing on its own.
const FEW_WORDS: usize = 3;

/// Words of large, open or deep work.
const LARGE: &[&str] = &[
    "architect",
    "redesign",
    "design a",
    "design the",
    "migrate",
    "migration",
    "refactor",
    "rewrite",
    "root cause",
    "race condition",
    "deadlock",
    "memory leak",
    "trade-off",
    "tradeoff",
    "strategy",
    "best way",
    "how best",
    "best approach",
    "from scratch",
    "whole codebase",
    "entire codebase",
    "whole project",
    "entire project",
    "security review",
    "threat model",
    "write a plan",
    "make a plan",
    "plan for",
    "plan how",
    "implement",
    "investigate",
    "figure out",
    "find out why",
    "debug",
    "optimize",
    "optimise",
    "performance",
    "bottleneck",
    "flaky",
    "failing test",
    "test fails",
    "tests fail",
    "concurrency",
    "backwards compatib",
    "propose",
    "prototype",
];

/// What a failure looks like that somebody pasted.
const FAILURE: &[&str] = &[
    "traceback (most recent call last)",
    "panicked at",
    "stack backtrace",
    "exception in thread",
    "segmentation fault",
    "error[e",
    "npm err!",
    "fatal error:",
    "assertionerror",
    "assertion failed",
    "undefined reference to",
];

/// What comes before a wish and says nothing of it.
const POLITE: &[&str] = &[
    "please ",
    "can you ",
    "could you ",
    "would you ",
    "will you ",
    "i want you to ",
    "i need you to ",
    "ok, ",
    "okay, ",
    "now ",
    "then ",
    "also ",
    "just ",
];

/// First words of small, bounded work.
const SMALL: &[&str] = &[
    "what is",
    "what's",
    "what does",
    "what are",
    "which",
    "where is",
    "where are",
    "who",
    "when",
    "list",
    "show",
    "print",
    "read",
    "open",
    "count",
    "rename",
    "run",
    "format",
    "translate",
    "summarize",
    "summarise",
    "say",
    "hello",
    "hi",
    "thanks",
    "thank you",
    "fix the typo",
    "fix typo",
    "fix a typo",
    "correct the spelling",
    "add a comment",
    "remove the comment",
    "delete the line",
    "how many",
    "how much",
    "is there",
    "are there",
    "find the file",
    "find where",
    "search for",
    "grep",
    "git status",
    "git log",
    "git diff",
    "commit",
    "bump the version",
    "sort",
    "give me the",
    "undo",
    "revert the last",
];

/// Prompts that go on with what was there.
const GO_ON: &[&str] = &[
    "go",
    "go on",
    "go ahead",
    "on",
    "continue",
    "proceed",
    "next",
    "yes",
    "y",
    "ok",
    "okay",
    "sure",
    "do it",
    "do that",
    "again",
    "try again",
    "retry",
    "please continue",
    "carry on",
    "keep going",
    "go for it",
    "yes please",
    "yes, please",
    "yes, do it",
    "yes, go ahead",
    "yes go ahead",
    "looks good to me",
    "that looks good",
    "sounds good to me",
    "that is fine",
    "that's fine",
    "finish what you began",
    "and the other one",
    "do the rest",
    "now the next one",
    "the first one",
    "the second one",
];

/// What a prompt is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Clearly large, for this reason.
    Large(&'static str),
    /// Clearly small.
    Small,
    /// It goes on with what was there.
    GoesOn,
    /// One cannot tell, and it is so short that asking would take longer than it
    /// could save.
    Brief,
    /// One cannot tell.
    Unclear,
}

/// Looks at a prompt as typed.
pub(super) fn look(prompt: &str) -> Look {
    let text = prompt.trim().to_lowercase();
    let text = wish(&text);
    let plain = text.trim_end_matches(['.', '!', ' ']);
    if GO_ON.contains(&plain) {
        return Look::GoesOn;
    }
    if text.chars().count() >= LONG || text.lines().count() >= MANY_LINES {
        return Look::Large("the prompt is long");
    }
    if text.lines().filter(|line| is_step(line)).count() >= MANY {
        return Look::Large("it lists many steps");
    }
    let files = text.split_whitespace().filter(|word| is_file(word)).count();
    if files >= MANY {
        return Look::Large("it names many files");
    }
    if LARGE.iter().any(|word| text.contains(word)) {
        return Look::Large("it speaks of work that is large or open");
    }
    if FAILURE.iter().any(|word| text.contains(word)) {
        return Look::Large("it holds a failure");
    }
    let begins = |start: &&str| {
        text.strip_prefix(*start).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    let sentences = text.split(['.', '!', '?', '\n', ';']).filter(|it| it.trim().len() > 2).count();
    let is_short = text.chars().count() <= SHORT && sentences <= 2 + files && files <= 1;
    // Two orders in one are more than one step.
    let is_one = !text.contains(" and then ") && text.matches(" and ").count() <= 1;
    match is_short && is_one && SMALL.iter().any(begins) {
        true => Look::Small,
        // Nobody could rate it: what it means is in what came before.
        false if text.split_whitespace().count() < FEW_WORDS => Look::GoesOn,
        false if text.chars().count() <= BRIEF && text.lines().count() <= 1 => Look::Brief,
        false => Look::Unclear,
    }
}

/// A prompt without what is only polite before it.
fn wish(text: &str) -> &str {
    let mut text = text;
    while let Some(rest) = POLITE.iter().find_map(|polite| text.strip_prefix(polite)) {
        text = rest.trim_start();
    }
    text
}

/// `1. …`, `- …`
fn is_step(line: &str) -> bool {
    let line = line.trim_start();
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    let rest = line.get(digits..).unwrap_or_default();
    match digits {
        0 => line.starts_with("- ") || line.starts_with("* "),
        _ => rest.starts_with(". ") || rest.starts_with(") "),
    }
}

/// `@path`, `a/b`, `name.rs`
fn is_file(word: &str) -> bool {
    let word = word.trim_matches(|char: char| !char.is_alphanumeric() && !"@/._".contains(char));
    let word = word.trim_end_matches('.');
    if word.contains("://") {
        return false;
    }
    let ending = word.rsplit_once('.').filter(|(name, _)| !name.is_empty());
    let named = ending.is_some_and(|(_, end)| {
        (1..=5).contains(&end.len())
            && end.chars().all(|char| char.is_ascii_alphanumeric())
            && end.starts_with(|char: char| char.is_ascii_alphabetic())
    });
    named || (word.len() > 1 && word.starts_with('@')) || word.matches('/').count() >= 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn clear_prompts_are_told_apart() {
        for (prompt, want) in [
            ("go", Look::GoesOn),
            ("  Continue. ", Look::GoesOn),
            ("What is in src/main.rs?", Look::Small),
            ("list the files", Look::Small),
            ("Fix the typo in README.md", Look::Small),
            ("hi", Look::Small),
            ("highlight the parser", Look::Brief),
            ("and now?", Look::GoesOn),
            ("x", Look::GoesOn),
            ("Show a.rs, b.rs, c.rs and d.rs", Look::Large("it names many files")),
            ("Refactor the parser", Look::Large("it speaks of work that is large or open")),
            ("- a\n- b\n- c\n- d", Look::Large("it lists many steps")),
            ("Why does the build fail?", Look::Brief),
            ("Add a flag --quiet", Look::Brief),
            ("run the tests and fix what fails and then commit", Look::Brief),
            ("Zähle die Zeilen", Look::Brief),
            ("", Look::GoesOn),
        ] {
            assert_eq!(look(prompt), want, "{prompt}");
        }
        assert_eq!(look(&"word ".repeat(400)), Look::Large("the prompt is long"));
        assert_eq!(look(&"word ".repeat(60)), Look::Unclear);
        assert_eq!(look("Add a flag\nto the parser"), Look::Unclear);
    }

    /// What engineers say all day: for none of it a model is asked.
    #[test]
    fn ordinary_prompts_need_no_question() {
        let failing = "The build is red since this morning:\nerror[E0308]: mismatched types\n --> \
                       src/a.rs:3:5\nPlease mend it";
        let long = "Write a plan for the move of our session store from files to SQLite. Keep the old \
                    format readable for a while, say how the upgrade works while several processes are \
                    open, and what happens when somebody goes back to an older version of the program.";
        for (prompt, fast) in [
            ("fix the failing test in parser_test.go", Some(false)),
            ("what does this function do", Some(true)),
            ("Please rename `foo` to `bar` in src/lib.rs", Some(true)),
            ("can you show me the diff?", Some(true)),
            ("write a plan for the migration", Some(false)),
            (long, Some(false)),
            (failing, Some(false)),
            ("yes", None),
            ("Yes, please!", None),
            ("continue", None),
            ("explain", None),
            ("keep going.", None),
            ("looks good to me", None),
            ("do the rest", None),
            ("run the tests", Some(true)),
            ("could you please run the linter?", Some(true)),
            ("how many tests are there?", Some(true)),
            ("where is the config parsed?", Some(true)),
            ("commit", Some(true)),
            ("commit this with a good message", Some(true)),
            ("implement the cache as described in docs/cache.md", Some(false)),
            ("investigate why memory grows", Some(false)),
            ("debug the crash on startup", Some(false)),
            ("optimize the hot loop in render()", Some(false)),
            ("refactor this module", Some(false)),
            ("bump the version to 1.2.0", Some(true)),
            ("grep for TODO", Some(true)),
            ("git status", Some(true)),
            ("add a comment above main", Some(true)),
            ("is there a test for this?", Some(true)),
        ] {
            let look = look(prompt);
            match fast {
                Some(true) => assert_eq!(look, Look::Small, "{prompt}"),
                Some(false) => assert!(matches!(look, Look::Large(_)), "{prompt}: {look:?}"),
                None => assert_eq!(look, Look::GoesOn, "{prompt}"),
            }
        }
        // Those that stay open are short enough to go to the strong model.
        for prompt in ["explain how the scheduler works", "Why does the build fail?", "add tests"] {
            assert!(matches!(look(prompt), Look::Brief | Look::GoesOn), "{prompt}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_look(text in "\\PC{0,300}") {
            let _ = look(&text);
        }
    }
}
