//! Recognizes secrets by variable name and by value.

use std::sync::LazyLock;

use regex::RegexSet;

const SECRET_NAME_PARTS: [&str; 10] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "KEY",
    "AUTH",
    "CREDENTIAL",
    "CREDS",
    "PRIVATE",
    "CERT",
];

/// Words of a name, separated by `_`, that indicate a secret.
const SECRET_WORDS: [&str; 20] = [
    "PASS",
    "PAT",
    "PSWD",
    "HMAC",
    "PWD",
    "PW",
    "PASSPHRASE",
    "PASSCODE",
    "DSN",
    "WEBHOOK",
    "CONN",
    "CONNSTR",
    "BEARER",
    "COOKIE",
    "JWT",
    "MNEMONIC",
    "OTP",
    "PHRASE",
    "SAS",
    "TOTP",
];

/// Names that contain such a word but are not secrets.
const PLAIN_NAMES: [&str; 2] = ["PWD", "OLDPWD"];

/// Returns the part of a name that indicates a secret.
pub(super) fn secret_name_part(name: &str) -> Option<&'static str> {
    if let Some(part) = SECRET_NAME_PARTS.iter().find(|part| name.contains(**part)) {
        return Some(part);
    }
    if PLAIN_NAMES.contains(&name) {
        return None;
    }
    // `MYPASS` is a secret; `BYPASS` and `COMPASS` are not.
    let joined = |word: &str| {
        word.ends_with("PASS") && !word.ends_with("BYPASS") && !word.ends_with("COMPASS")
    };
    if name.split('_').any(joined) {
        return Some("PASS");
    }
    // Password managers use these names; desktop sessions are not secrets.
    if name == "BW_SESSION" || name.starts_with("OP_SESSION") {
        return Some("SESSION");
    }
    // `SALT_MASTER` is a server address.
    if name.rsplit('_').next() == Some("SALT") {
        return Some("SALT");
    }
    SECRET_WORDS.into_iter().find(|secret| name.split('_').any(|word| word == *secret))
}

/// Whether a variable with an ambiguous name (`API` may be a key or an address) is a secret,
/// judging by its value: one long word that is neither an address nor a path.
pub(super) fn is_bare_secret(name: &str, value: &str) -> bool {
    const MIN_LENGTH: usize = 8;
    let is_word_char = |letter: char| letter.is_ascii_alphanumeric() || "_-+=".contains(letter);
    let one_word = value.len() >= MIN_LENGTH && value.chars().all(is_word_char);
    // `RANDOM_SEED` is a number; `WALLET_SEED` is twelve words or one long word.
    let seed = name.rsplit('_').next() == Some("SEED");
    let counted = value.chars().all(|letter| letter.is_ascii_digit());
    name == "API" && one_word || seed && !counted && (one_word || value.split(' ').count() > 2)
}

/// Values that are secrets by their format.
static SECRET_VALUES: LazyLock<Option<RegexSet>> = LazyLock::new(|| {
    RegexSet::new([
        r"(?i)-----BEGIN [A-Z0-9 ]*(?:PRIVATE KEY|CERTIFICATE)",
        r"(?i)\b[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@",
        // A token instead of a user name.
        r"(?i)\bhttps?://[^/\s@]+@",
        r"(?i)\bgh[a-z]_[a-z0-9_]{36,}",
        r"(?i)\bgithub_pat_[a-z0-9_]{22,}",
        r"(?i)\bAIzaSy[a-z0-9_-]{33}",
        r"(?i)\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"(?i)\beyJ[a-z0-9_-]{8,}\.[a-z0-9_-]+\.[a-z0-9_-]+",
        r"\beyJ[A-Za-z0-9_-]{4,}\.eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*",
        r"(?i)\b[sr]k_(?:live|test)_[a-z0-9]{16,}",
        r"(?i)\bxox[a-z]-[a-z0-9-]{8,}",
        r"(?i)(?:^|[;&?\s])(?:password|passwd|pwd)=[^;&\s]+",
        r"(?i)\bhooks\.(?:slack\.com/services|zapier\.com/hooks)/",
        r"(?i)\bdiscord(?:app)?\.com/api/webhooks/",
        r"(?i)\bwebhook\.office\.com/",
        // Service keys with known prefixes. Directories and packages contain dashes too, so the
        // rest must be long.
        r"\bsk-(?:ant|proj|svcacct|admin|or)-[A-Za-z0-9_-]{16,}",
        r"\bsk-[A-Za-z0-9]{32,}",
        r"\bgl(?:agent|cbt|dt|ft|imt|oas|pat|ptt|rt|soat)-[A-Za-z0-9_-]{16,}",
        r"\bnpm_[A-Za-z0-9]{36}\b",
        r"\bhf_[A-Za-z0-9]{30,}",
        r"\bgsk_[A-Za-z0-9]{32,}",
        r"\bdo[opr]_v1_[a-f0-9]{32,}",
        r"\bya29\.[A-Za-z0-9_-]{16,}",
        r"\bGOCSPX-[A-Za-z0-9_-]{20,}",
        r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
        r"\bpypi-[A-Za-z0-9_-]{32,}",
        r"\bshp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}",
        r"\bdckr_pat_[A-Za-z0-9_-]{20,}",
        r"\bdapi[a-f0-9]{32}",
        r"\bhv[sb]\.[A-Za-z0-9_-]{20,}",
        r"\bAGE-SECRET-KEY-1",
        r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}",
        r"(?i)\b(?:AccountKey|SharedAccessKey|SharedAccessSignature)=[^;\s]+",
        r"\br8_[A-Za-z0-9]{30,}",
        r"\bxai-[A-Za-z0-9]{32,}",
        r"\blin_api_[A-Za-z0-9]{20,}",
        r"\bpul-[a-f0-9]{32,}",
        r"\bATATT3x[A-Za-z0-9_=-]{20,}",
        r"^1//0[A-Za-z0-9_-]{20,}",
        r"(?i)(?:^|[?&])sig=[a-z0-9%+/=_-]{4,}",
        r"(?i)^(?:basic|bearer)\s+\S{8,}",
    ])
    .ok()
});

/// Whether the value looks like a secret.
pub(super) fn is_secret_value(value: &str) -> bool {
    SECRET_VALUES.as_ref().is_some_and(|set| set.is_match(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_patterns_compile() {
        assert!(SECRET_VALUES.is_some());
    }

    #[test]
    fn secret_names_are_recognized_by_words() {
        for name in [
            "MYPASS",
            "DB_PASS",
            "MYSQL_PWD",
            "MY_PWD",
            "SLACK_WEBHOOK",
            "DB_CONN",
            "X_DSN",
            "FOO_BEARER",
            "OTP",
            "MNEMONIC",
            "GH_PAT",
            "PSWD",
            "BW_SESSION",
            "OP_SESSION_MY",
            "PHRASE",
            "SEED_PHRASE",
            "JWT",
            "X_COOKIE",
            "SAS",
            "SALT",
            "PASSWORDS_SALT",
        ] {
            assert!(secret_name_part(name).is_some(), "{name}");
        }
        for name in [
            "PWD",
            "OLDPWD",
            "BYPASS_CACHE",
            "COMPASS",
            "PASSENGER_APP",
            "CONNECT_TIMEOUT",
            "OTPS",
            "XDG_SESSION_ID",
            "PATH",
            "PATCH",
            "SASS_PATH",
            "PHRASES_FILE",
            "REMOTE_ACCESS",
            "DOCKER_BUILDKIT",
            "KUBE_EDITOR",
            "SALT_MASTER",
            "BASALT",
            "API",
            "API_HOST",
        ] {
            assert_eq!(secret_name_part(name), None, "{name}");
        }
    }
}
