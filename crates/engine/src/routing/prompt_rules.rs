//! Classifies clear prompts by rules, without asking a model.

/// Number of characters from which a prompt is long.
const LONG: usize = 1_500;
/// Number of lines from which a prompt is long.
const MANY_LINES: usize = 30;
/// Number of steps or files from which the task is large.
const MANY_STEPS: usize = 4;
/// Maximum characters of a small task.
const SHORT: usize = 160;
/// Maximum characters of a line that is not worth a classifier request.
const BRIEF: usize = 240;

/// A prompt with fewer words depends on its context.
const FEW_WORDS: usize = 3;

/// Words of large or open tasks.
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

/// Patterns of pasted failures.
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

/// Polite openings.
const POLITE_OPENINGS: &[&str] = &[
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

/// First words of small tasks.
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

/// Prompts that continue the previous task.
const CONTINUATION_PROMPTS: &[&str] = &[
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

/// The size of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PromptSize {
    /// Clearly large, for this reason.
    Large(&'static str),
    /// Clearly small.
    Small,
    /// Continues the previous task.
    Continuation,
    /// Unclear, and so short that a classifier request would take longer than it could save.
    TooShort,
    /// Unclear.
    Unclear,
}

/// Classifies a prompt as typed.
pub(super) fn classify(prompt: &str) -> PromptSize {
    let text = prompt.trim().to_lowercase();
    let text = strip_polite_opening(&text);
    let plain = text.trim_end_matches(['.', '!', ' ']);
    if CONTINUATION_PROMPTS.contains(&plain) {
        return PromptSize::Continuation;
    }
    if text.chars().count() >= LONG || text.lines().count() >= MANY_LINES {
        return PromptSize::Large("the prompt is long");
    }
    if text.lines().filter(|line| is_step(line)).count() >= MANY_STEPS {
        return PromptSize::Large("the prompt lists many steps");
    }
    let files = text.split_whitespace().filter(|word| is_file(word)).count();
    if files >= MANY_STEPS {
        return PromptSize::Large("the prompt names many files");
    }
    if LARGE.iter().any(|word| text.contains(word)) {
        return PromptSize::Large("the prompt describes large or open-ended work");
    }
    if FAILURE.iter().any(|word| text.contains(word)) {
        return PromptSize::Large("the prompt contains a failure");
    }
    let starts = |start: &&str| {
        text.strip_prefix(*start).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    let sentences = text.split(['.', '!', '?', '\n', ';']).filter(|it| it.trim().len() > 2).count();
    let is_short = text.chars().count() <= SHORT && sentences <= 2 + files && files <= 1;
    // Two requests in one are more than one step.
    let is_one = !text.contains(" and then ") && text.matches(" and ").count() <= 1;
    match is_short && is_one && SMALL.iter().any(starts) {
        true => PromptSize::Small,
        // A very short prompt depends on its context.
        false if text.split_whitespace().count() < FEW_WORDS => PromptSize::Continuation,
        false if text.chars().count() <= BRIEF && text.lines().count() <= 1 => PromptSize::TooShort,
        false => PromptSize::Unclear,
    }
}

/// Returns a prompt without polite openings.
fn strip_polite_opening(text: &str) -> &str {
    let mut text = text;
    while let Some(rest) = POLITE_OPENINGS.iter().find_map(|polite| text.strip_prefix(polite)) {
        text = rest.trim_start();
    }
    text
}

fn is_step(line: &str) -> bool {
    let line = line.trim_start();
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    let rest = line.get(digits..).unwrap_or_default();
    match digits {
        0 => line.starts_with("- ") || line.starts_with("* "),
        _ => rest.starts_with(". ") || rest.starts_with(") "),
    }
}

fn is_file(word: &str) -> bool {
    let word = word.trim_matches(|char: char| !char.is_alphanumeric() && !"@/._".contains(char));
    let word = word.trim_end_matches('.');
    if word.contains("://") {
        return false;
    }
    let extension = word.rsplit_once('.').filter(|(name, _)| !name.is_empty());
    let named = extension.is_some_and(|(_, end)| {
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
    fn clear_prompts_are_classified_by_rules() {
        for (prompt, want) in [
            ("go", PromptSize::Continuation),
            ("  Continue. ", PromptSize::Continuation),
            ("What is in src/main.rs?", PromptSize::Small),
            ("list the files", PromptSize::Small),
            ("Fix the typo in README.md", PromptSize::Small),
            ("hi", PromptSize::Small),
            ("highlight the parser", PromptSize::TooShort),
            ("and now?", PromptSize::Continuation),
            ("x", PromptSize::Continuation),
            ("Show a.rs, b.rs, c.rs and d.rs", PromptSize::Large("the prompt names many files")),
            (
                "Refactor the parser",
                PromptSize::Large("the prompt describes large or open-ended work"),
            ),
            ("- a\n- b\n- c\n- d", PromptSize::Large("the prompt lists many steps")),
            ("Why does the build fail?", PromptSize::TooShort),
            ("Add a flag --quiet", PromptSize::TooShort),
            ("run the tests and fix what fails and then commit", PromptSize::TooShort),
            ("Zähle die Zeilen", PromptSize::TooShort),
            ("", PromptSize::Continuation),
        ] {
            assert_eq!(classify(prompt), want, "{prompt}");
        }
        assert_eq!(classify(&"word ".repeat(400)), PromptSize::Large("the prompt is long"));
        assert_eq!(classify(&"word ".repeat(60)), PromptSize::Unclear);
        assert_eq!(classify("Add a flag\nto the parser"), PromptSize::Unclear);
    }

    /// Everyday prompts do not need a classifier.
    #[test]
    fn ordinary_prompts_skip_the_classifier() {
        let failing = "The build is red since this morning:\nerror[E0308]: mismatched types\n --> \
                       src/a.rs:3:5\nPlease fix it";
        let long = "Write a plan for the move of our session store from files to SQLite. Keep the old \
                    format readable for a while, say how the upgrade works while several processes are \
                    open, and what happens when a user goes back to an older version of the program.";
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
            let look = classify(prompt);
            match fast {
                Some(true) => assert_eq!(look, PromptSize::Small, "{prompt}"),
                Some(false) => assert!(matches!(look, PromptSize::Large(_)), "{prompt}: {look:?}"),
                None => assert_eq!(look, PromptSize::Continuation, "{prompt}"),
            }
        }
        // Unclear ones are short enough for the strong model.
        for prompt in ["explain how the scheduler works", "Why does the build fail?", "add tests"] {
            assert!(
                matches!(classify(prompt), PromptSize::TooShort | PromptSize::Continuation),
                "{prompt}"
            );
        }
    }

    proptest! {
        #[test]
        fn classifying_arbitrary_text_does_not_panic(text in "\\PC{0,300}") {
            let _ = classify(&text);
        }
    }
}
