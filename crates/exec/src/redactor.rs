//! Redacts secrets in text that is written to files, by their format or by known values.

use std::borrow::Cow;
use std::sync::LazyLock;

use parallax_protocol::secret::{Redact, Secret};
use regex::{Captures, Regex, RegexSet};

/// The replacement for a secret.
const REDACTED: &str = "[redacted]";
/// Minimum length of a known value in bytes; replacing shorter ones would garble text.
const MIN_LENGTH: usize = 8;

/// Formats of secrets in text. The group `kept` is not replaced, because it shows what the secret
/// was for.
const SHAPES: [&str; 15] = [
    // A truncated key extends to the end of the text.
    r"(?s)(?P<kept>-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----).*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
    r#"(?i)(?P<kept>\b[a-z][a-z0-9+.-]*://[^/\s:@"'<>]*:)[^/\s@"'<>]+@"#,
    r"(?i)\b(?:gh[a-z]_[a-z0-9_]{36,}|github_pat_[a-z0-9_]{22,})",
    r"(?i)\bAIzaSy[a-z0-9_-]{33}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*",
    r"\b(?:[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|xox[a-z]-[A-Za-z0-9-]{8,})",
    r"(?i)(?P<kept>\b(?:hooks\.(?:slack\.com/services|zapier\.com/hooks)|discord(?:app)?\.com/api/webhooks|webhook\.office\.com)/)[^\s]+",
    r"\bsk-(?:(?:ant|proj|svcacct|admin|or)-[A-Za-z0-9_-]{16,}|[A-Za-z0-9]{32,})",
    r"\b(?:gl(?:agent|cbt|dt|ft|imt|oas|pat|ptt|rt|soat)-[A-Za-z0-9_-]{16,}|npm_[A-Za-z0-9]{36}|hf_[A-Za-z0-9]{30,}|gsk_[A-Za-z0-9]{32,}|do[opr]_v1_[a-f0-9]{32,})",
    r"\b(?:ya29\.[A-Za-z0-9_-]{16,}|GOCSPX-[A-Za-z0-9_-]{20,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|pypi-[A-Za-z0-9_-]{32,}|shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}|dckr_pat_[A-Za-z0-9_-]{20,}|dapi[a-f0-9]{32}|r8_[A-Za-z0-9]{30,}|xai-[A-Za-z0-9]{32,}|lin_api_[A-Za-z0-9]{20,}|pul-[a-f0-9]{32,}|ATATT3x[A-Za-z0-9_=-]{20,}|hv[sb]\.[A-Za-z0-9_-]{20,}|AGE-SECRET-KEY-1[A-Za-z0-9]*|[0-9]{8,10}:AA[A-Za-z0-9_-]{30,})",
    r"(?i)(?P<kept>\b(?:AccountKey|SharedAccessKey|SharedAccessSignature)=)[^;\s]+",
    r#"(?i)(?P<kept>\bauthorization["']?\s*[:=]\s*["']?(?:basic|bearer)\s+)[^\s"']{8,}"#,
    // A shell or `.env` variable whose name indicates a secret.
    r#"(?P<kept>\b[A-Z0-9_]*(?:PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|PRIVATE_KEY|ACCESS_KEY)[A-Z0-9_]*=["']?)[^\s"'$()<>{}]{8,}"#,
    // The same in code and documents, if the right side looks like neither a word nor a call.
    r#"(?i)(?P<kept>\b[a-z0-9_]*(?:password|passwd|secret|token|api_?key|private_?key|access_?key)["']?\s*[:=]\s*["']?)(?P<value>[A-Za-z0-9+/_~^!@#%-]{8,}=*)(?P<next>[(.\[:]?)"#,
];

static FOUND: LazyLock<Option<(RegexSet, Vec<Regex>)>> = LazyLock::new(|| {
    let each: Result<Vec<Regex>, _> = SHAPES.iter().map(|shape| Regex::new(shape)).collect();
    Some((RegexSet::new(SHAPES).ok()?, each.ok()?))
});

/// Redacts what looks like a secret, and known secret values.
#[derive(Debug, Default)]
pub struct Redactor {
    values: Vec<Secret>,
}

impl Redactor {
    /// Creates a redactor that also redacts these values; short ones are ignored.
    pub fn new(mut values: Vec<Secret>) -> Self {
        values.retain(|value| value.expose().len() >= MIN_LENGTH);
        // Longer values first, so that no remainder of a value that contains another is left.
        values.sort_by_key(|value| std::cmp::Reverse(value.expose().len()));
        Self { values }
    }
}

impl Redact for Redactor {
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for value in &self.values {
            if text.contains(value.expose()) {
                text = Cow::Owned(text.replace(value.expose(), REDACTED));
            }
        }
        let Some((set, each)) = FOUND.as_ref() else { return text };
        let matched = set.matches(&text);
        for shape in matched.iter().filter_map(|index| each.get(index)) {
            let replacement = |found: &Captures<'_>| match is_not_secret(found) {
                true => found[0].to_owned(),
                false => {
                    let part = |name| found.name(name).map_or("", |part| part.as_str());
                    let at = if found[0].ends_with('@') { "@" } else { "" };
                    format!("{}{REDACTED}{at}{}", part("kept"), part("next"))
                }
            };
            let replaced = shape.replace_all(&text, replacement).into_owned();
            if replaced != text {
                text = Cow::Owned(replaced);
            }
        }
        text
    }
}

/// Whether the right side of an assignment is not a secret.
fn is_not_secret(found: &Captures<'_>) -> bool {
    let Some(value) = found.name("value") else { return false };
    let (digits, letters) =
        value.as_str().bytes().fold((false, false), |(digits, letters), byte| {
            (digits || byte.is_ascii_digit(), letters || byte.is_ascii_alphabetic())
        });
    let next = found.name("next").is_some_and(|next| !next.is_empty());
    next || !digits || !letters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        Redactor::new(vec![Secret::new("correct horse battery"), Secret::new("short")])
            .redact(text)
            .into_owned()
    }

    #[test]
    fn secret_patterns_compile() {
        assert!(FOUND.is_some());
    }

    #[test]
    fn secrets_are_redacted_and_their_names_stay() {
        let github = format!("ghp_{}", "a1".repeat(18));
        let google = format!("AIzaSy{}", "b".repeat(33));
        for (text, expected) in [
            (format!("a {github}, b"), "a [redacted], b"),
            (format!("key={google}"), "key=[redacted]"),
            (
                "git clone https://me:pa55word@host/x".to_owned(),
                "git clone https://me:[redacted]@host/x",
            ),
            ("Authorization: Bearer abcdefgh12345".to_owned(), "Authorization: Bearer [redacted]"),
            ("{\"api_key\": \"abcd1234efgh\"}".to_owned(), "{\"api_key\": \"[redacted]\"}"),
            ("DB_PASSWORD=correcthorse\nX=1".to_owned(), "DB_PASSWORD=[redacted]\nX=1"),
            ("a correct horse battery b".to_owned(), "a [redacted] b"),
            ("a short b".to_owned(), "a short b"),
            (
                "x\n-----BEGIN RSA PRIVATE KEY-----\nMII\nabc\n-----END RSA PRIVATE KEY-----\ny"
                    .to_owned(),
                "x\n-----BEGIN RSA PRIVATE KEY-----[redacted]\ny",
            ),
            (
                "-----BEGIN PRIVATE KEY-----\nMII".to_owned(),
                "-----BEGIN PRIVATE KEY-----[redacted]",
            ),
        ] {
            assert_eq!(redacted(&text), expected);
        }
    }

    #[test]
    fn code_and_prose_are_not_redacted() {
        for text in [
            "let token = parse_token_stream(input);",
            "the token: authentication by it",
            "password = getpass.getpass('Password: ')",
            "if api_key == settings.api_key2.value:",
            "SECRET_KEY=${SECRET_KEY_FILE}",
            "https://example.com:8080/a@b",
            "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
            "sk-learn-and-other-packages",
        ] {
            assert_eq!(redacted(text), text);
        }
    }
}
