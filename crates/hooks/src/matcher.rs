//! Matches events against a hook's `matcher`.

use fancy_regex::{Regex, RegexBuilder};
use parallax_config::hooks::Hook;

/// Maximum backtracking steps per match, so that no pattern hangs.
const STEPS: usize = 100_000;

/// A parsed `matcher`. Patterns use JavaScript syntax, with lookahead and lookbehind.
#[derive(Debug)]
pub(crate) enum Matcher {
    /// Matches everything.
    All,
    /// Matches any of these names.
    Words(Vec<String>),
    /// Matches names that contain a match of the pattern.
    Pattern(Box<Regex>),
}

impl Matcher {
    /// Parses the matcher of a hook. An invalid pattern is returned with an error message and
    /// matches only its literal text.
    pub(crate) fn parse(hook: &Hook) -> (Self, Option<String>) {
        let text = hook.matcher.trim();
        if text.is_empty() || text == "*" {
            return (Self::All, None);
        }
        if !hook.event.has_patterns() {
            let words = text.split('|').map(|word| word.trim().to_owned());
            return (Self::Words(words.collect()), None);
        }
        let built =
            RegexBuilder::new(text).backtrack_limit(STEPS).delegate_size_limit(1 << 20).build();
        match built {
            Ok(pattern) => (Self::Pattern(Box::new(pattern)), None),
            Err(error) => (Self::Words(vec![text.to_owned()]), Some(error.to_string())),
        }
    }

    /// Returns whether the matcher matches the subject. A search that exceeds the limit counts as a
    /// match, because the hook may be a guard.
    pub(crate) fn matches(&self, subject: &str) -> bool {
        match self {
            Self::All => true,
            Self::Words(words) => words.iter().any(|word| word == subject),
            Self::Pattern(pattern) => pattern.is_match(subject).unwrap_or(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use parallax_protocol::hooks::HookEvent;

    use super::super::result::tests::hook;
    use super::*;

    fn event_matches(event: HookEvent, matcher: &str, subject: &str) -> bool {
        let hook = Hook { event, matcher: matcher.to_owned(), ..hook(false) };
        Matcher::parse(&hook).0.matches(subject)
    }

    #[test]
    fn matchers_follow_javascript_syntax() {
        for (matcher, subject, expected) in [
            ("", "write_file", true),
            ("*", "write_file", true),
            ("write_file|replace", "replace", true),
            ("file", "read_file", true),
            ("^(?!read_file$).*", "write_file", true),
            ("^(?!read_file$).*", "read_file", false),
            ("mcp_(?<server>\\w+?)_.*", "mcp_git_status", true),
            ("(_)e\\1", "a_e_b", true),
            ("(?<=mcp_)git", "mcp_git_status", true),
            ("read_file(", "read_file(", true),
            ("read_file(", "read_file", false),
            ("(.*)*\\1x", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true),
        ] {
            assert_eq!(
                event_matches(HookEvent::BeforeTool, matcher, subject),
                expected,
                "{matcher}"
            );
        }
        assert!(event_matches(HookEvent::SessionStart, "startup", "startup"));
        assert!(!event_matches(HookEvent::SessionStart, "start", "startup"));
        for source in ["startup", "resume"] {
            assert!(event_matches(HookEvent::SessionStart, "startup|resume", source));
            assert!(event_matches(HookEvent::SessionStart, " startup | resume ", source));
        }
        assert!(!event_matches(HookEvent::SessionStart, "startup|resume", "clear"));
        assert!(event_matches(HookEvent::PreCompress, "manual|auto", "auto"));
        assert!(!event_matches(HookEvent::BeforeTool, "a(|b", "b"));
        assert!(Matcher::parse(&Hook { matcher: "a(".into(), ..hook(false) }).1.is_some());
    }
}
