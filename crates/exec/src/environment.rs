//! The environment of child processes: variables that are passed, withheld, and set.
//!
//! All functions are pure: the caller supplies the variables of the parent process.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;

mod names;
mod secrets;

use parallax_protocol::secret::{Secret, SecretRecipient, SecretVariables};

use names::{ALWAYS_ALLOWED, ALWAYS_ALLOWED_PREFIXES, NEVER_ALLOWED, OF_SYSTEM, OWN_CREDENTIALS};
use secrets::{is_bare_secret, is_secret_value, secret_name_part};

/// The settings `security.environmentVariableRedaction`, and what the caller knows about the
/// environment.
#[derive(Debug, Clone)]
pub struct Redaction {
    /// Whether names and values are checked at all. Variables from the project's `.env` and
    /// credentials of Parallax are withheld even if this is false.
    pub enabled: bool,
    /// Names that are always passed (case-insensitive).
    pub allowed: Vec<String>,
    /// Names that are never passed (case-insensitive).
    pub blocked: Vec<String>,
    /// Names that the project's `.env` file set in this process.
    pub dotenv_names: Vec<String>,
    /// The variables from which the configuration takes secrets.
    pub credentials: SecretVariables,
}

impl Default for Redaction {
    fn default() -> Self {
        Self {
            enabled: true,
            allowed: Vec::new(),
            blocked: Vec::new(),
            dotenv_names: Vec::new(),
            credentials: SecretVariables::default(),
        }
    }
}

/// How `git` in a child treats the user's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GitConfiguration {
    /// The user's identity, aliases, and hooks apply; only prompts are disabled.
    #[default]
    User,
    /// For untrusted folders: the global configuration is ignored, and so are keys with which a
    /// repository starts programs.
    Isolated,
}

/// An environment and what was withheld from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Names and values in the order of the parent process, followed by variables that Parallax
    /// sets.
    pub variables: Vec<(OsString, OsString)>,
    /// The withheld variables by name, for a notice; never with values.
    pub dropped: Vec<DroppedVariable>,
}

/// A withheld variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedVariable {
    /// The name in the parent process.
    pub name: String,
    /// The reason.
    pub reason: DropReason,
    /// The setting that can make it pass, if there is one.
    pub override_setting: Option<&'static str>,
}

/// Why a variable was withheld.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The variable is a credential of Parallax.
    OwnCredential,
    /// The configuration takes a secret for another service from the variable.
    ServiceCredential,
    /// The variable comes from the project's `.env` file.
    Dotenv,
    /// The value looks like a secret.
    SecretValue,
    /// The name is in `security.environmentVariableRedaction.blocked`.
    Blocked,
    /// The name is known to reveal account data.
    KnownName,
    /// The variable is an exported shell function, which would replace the approved command of that
    /// name.
    Function,
    /// On a CI runner, only known names are passed.
    Runner,
    /// The name contains this word.
    NamePart(&'static str),
}

impl std::fmt::Display for DropReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OwnCredential => f.write_str("a credential of this program"),
            Self::ServiceCredential => {
                f.write_str("the configuration takes a secret for a service from it")
            }
            Self::Dotenv => f.write_str("it comes from the `.env` file"),
            Self::SecretValue => f.write_str("its value looks like a secret"),
            Self::Blocked => write!(f, "the setting `{BLOCKED}` lists it"),
            Self::KnownName => f.write_str("its name is known to reveal account data"),
            Self::Function => f.write_str("a function would replace a command"),
            Self::Runner => f.write_str("only known names are passed on a CI runner"),
            Self::NamePart(part) => write!(f, "its name contains `{part}`"),
        }
    }
}

const ALLOWED: &str = "security.environmentVariableRedaction.allowed";
const BLOCKED: &str = "security.environmentVariableRedaction.blocked";
const ENABLED: &str = "security.environmentVariableRedaction.enabled";

impl DropReason {
    /// Returns the setting that can make such a variable pass: add the name to `allowed`, or set
    /// `enabled` to `false`.
    fn override_setting(self, strict: bool) -> Option<&'static str> {
        match self {
            Self::OwnCredential => None,
            // On a CI runner values are always checked.
            Self::SecretValue => (!strict).then_some(ENABLED),
            _ => Some(ALLOWED),
        }
    }
}

/// Builds the environment of a command.
pub fn build(
    parent: impl IntoIterator<Item = (OsString, OsString)>,
    redaction: &Redaction,
    pager: &str,
    git: GitConfiguration,
) -> Environment {
    let parent: Vec<_> = parent.into_iter().collect();
    let set = fixed_variables(&parent, pager, git);
    let kept = |name: &OsString| !set.iter().any(|(other, _)| other == name);
    let mut environment = pass(parent.iter().filter(|(name, _)| kept(name)).cloned(), redaction);
    environment.variables.extend(set);
    environment
}

/// Returns only the variables of the parent process that a child may have. Intended for programs
/// that are not commands of the model, such as servers.
pub fn pass(
    parent: impl IntoIterator<Item = (OsString, OsString)>,
    redaction: &Redaction,
) -> Environment {
    let parent: Vec<_> = parent.into_iter().collect();
    let strict = is_strict(&parent);
    let filter = VariableFilter::new(redaction, strict);
    let mut variables = Vec::with_capacity(parent.len());
    let mut dropped = Vec::new();
    for (name, value) in parent {
        match filter.drop_reason(&name.to_string_lossy(), &value.to_string_lossy()) {
            None => variables.push((name, value)),
            Some(reason) => dropped.push(DroppedVariable {
                name: name.to_string_lossy().into_owned(),
                reason,
                override_setting: reason.override_setting(strict),
            }),
        }
    }
    dropped.sort_by(|one, other| one.name.cmp(&other.name));
    Environment { variables, dropped }
}

/// Returns the environment of a hook, which is a program of the user: the variables of the parent
/// process except secrets, plus markers. In an untrusted folder, git ignores the configuration of
/// the repository.
pub fn hook_environment(
    parent: impl IntoIterator<Item = (OsString, OsString)>,
    redaction: &Redaction,
    git: GitConfiguration,
) -> Environment {
    let parent: Vec<_> = parent.into_iter().collect();
    let mut set: Vec<(OsString, OsString)> =
        [("GEMINI_CLI", "1"), ("PARALLAX", "1")].map(|(n, v)| (n.into(), v.into())).to_vec();
    if git == GitConfiguration::Isolated {
        isolate_git(&parent, &mut set);
    }
    let kept = |name: &OsString| !set.iter().any(|(other, _)| other == name);
    let mut environment = pass(parent.iter().filter(|(name, _)| kept(name)).cloned(), redaction);
    environment.variables.extend(set);
    environment
}

/// Returns the values of variables that are secrets by name or format, for [`crate::Redactor`].
/// File names are not secrets.
pub fn secret_values(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    redaction: &Redaction,
) -> Vec<Secret> {
    let redaction = Redaction { dotenv_names: Vec::new(), ..redaction.clone() };
    let filter = VariableFilter::new(&redaction, false);
    let secrets = variables.into_iter().filter_map(|(name, value)| {
        let value = value.into_string().ok()?;
        let reason = filter.drop_reason(&name.to_string_lossy(), &value)?;
        (reason != DropReason::KnownName && !value.starts_with('/')).then(|| Secret::new(value))
    });
    secrets.collect()
}

/// Whether a text with this name is a secret, by name or format. Intended for logs.
pub fn is_secret(name: &str, text: &str) -> bool {
    secret_name_part(&name.to_uppercase()).is_some() || is_secret_value(text)
}

/// Whether a variable describes the host and the login session of the user rather than configuring
/// a program. Such variables are passed to third-party programs (extensions).
pub fn is_system_variable(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    OF_SYSTEM.contains(&upper.as_str()) || upper.starts_with("LC_") || upper.starts_with("XDG_")
}

/// Returns the environment of a command that the user typed: all variables of this process,
/// markers, and non-interactive pagers.
pub fn user_command_environment(
    parent: impl IntoIterator<Item = (OsString, OsString)>,
    pager: &str,
) -> Vec<(OsString, OsString)> {
    let set = [
        ("GEMINI_CLI", "1"),
        ("PARALLAX", "1"),
        ("TERM", "xterm-256color"),
        ("PAGER", pager),
        ("GIT_PAGER", pager),
    ];
    let parent = parent.into_iter().filter(|(name, _)| !set.iter().any(|(other, _)| name == other));
    let mut variables: Vec<_> = parent.collect();
    variables.extend(set.map(|(name, value)| (name.into(), value.into())));
    variables
}

/// Whether the process runs on a GitHub runner, which holds other secrets, so that only known names
/// are passed.
fn is_strict(parent: &[(OsString, OsString)]) -> bool {
    parent.iter().any(|(name, value)| {
        (name == "GITHUB_SHA" && !value.is_empty()) || (name == "SURFACE" && value == "Github")
    })
}

struct VariableFilter {
    enabled: bool,
    strict: bool,
    allowed: HashSet<String>,
    blocked: HashSet<String>,
    dotenv: HashSet<String>,
    credentials: BTreeMap<String, SecretRecipient>,
}

impl VariableFilter {
    fn new(redaction: &Redaction, strict: bool) -> Self {
        let upper = |names: &[String]| -> HashSet<String> {
            names.iter().map(|name| name.to_uppercase()).collect()
        };
        Self {
            enabled: redaction.enabled || strict,
            strict,
            allowed: upper(&redaction.allowed),
            blocked: upper(&redaction.blocked),
            dotenv: upper(&redaction.dotenv_names),
            credentials: redaction.credentials.snapshot(),
        }
    }

    /// Returns why a variable is withheld. The first matching rule decides.
    fn drop_reason(&self, name: &str, value: &str) -> Option<DropReason> {
        let name = name.to_uppercase();
        let name = name.as_str();
        if is_own_credential(name) {
            return Some(DropReason::OwnCredential);
        }
        // A header with `$USER` or `$HOME` must not break every command.
        match self.credentials.get(name).filter(|_| !ALWAYS_ALLOWED.contains(&name)) {
            Some(SecretRecipient::Provider) => return Some(DropReason::OwnCredential),
            Some(SecretRecipient::Service) if !self.allowed.contains(name) => {
                return Some(DropReason::ServiceCredential);
            }
            Some(SecretRecipient::Service) | None => {}
        }
        if self.dotenv.contains(name) && !self.allowed.contains(name) {
            return Some(DropReason::Dotenv);
        }
        if !self.enabled || name.starts_with("GEMINI_CLI_") {
            return None;
        }
        if is_secret_value(value) {
            return Some(DropReason::SecretValue);
        }
        if name.starts_with("GIT_CONFIG_") || self.allowed.contains(name) {
            return None;
        }
        if self.blocked.contains(name) {
            return Some(DropReason::Blocked);
        }
        if name.starts_with("BASH_FUNC_") {
            return Some(DropReason::Function);
        }
        if ALWAYS_ALLOWED.contains(&name)
            || ALWAYS_ALLOWED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        {
            return None;
        }
        if NEVER_ALLOWED.contains(&name) {
            return Some(DropReason::KnownName);
        }
        if self.strict {
            return Some(DropReason::Runner);
        }
        if is_bare_secret(name, value) {
            return Some(DropReason::SecretValue);
        }
        secret_name_part(name).map(DropReason::NamePart)
    }
}

fn is_own_credential(name: &str) -> bool {
    let is = |name: &str| OWN_CREDENTIALS.contains(&name);
    is(name)
        || name
            .strip_prefix("PARALLAX_")
            .is_some_and(|rest| is(rest) || is(&format!("GEMINI_{rest}")))
}

/// Returns the variables that are set for every command: markers, and settings that disable
/// interactive prompts.
fn fixed_variables(
    parent: &[(OsString, OsString)],
    pager: &str,
    git: GitConfiguration,
) -> Vec<(OsString, OsString)> {
    let mut set: Vec<(OsString, OsString)> = [
        ("GEMINI_CLI", "1"),
        ("PARALLAX", "1"),
        ("TERM", "xterm-256color"),
        ("PAGER", pager),
        ("GIT_PAGER", pager),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_ASKPASS", ""),
        ("SSH_ASKPASS", ""),
        ("GH_PROMPT_DISABLED", "1"),
        ("GCM_INTERACTIVE", "never"),
        ("DISPLAY", ""),
        ("DBUS_SESSION_BUS_ADDRESS", ""),
        // Makes `cd` resolve relative paths only from the current directory.
        ("CDPATH", ""),
    ]
    .into_iter()
    .map(|(name, value)| (name.into(), value.into()))
    .collect();
    match git {
        GitConfiguration::User => configure_git(parent, &[NO_MONITOR], &mut set),
        GitConfiguration::Isolated => isolate_git(parent, &mut set),
    }
    set
}

/// A repository may configure a program as its file monitor, which `git status` runs.
const NO_MONITOR: (&str, &str) = ("core.fsmonitor", "false");

/// Isolates git from the user's configuration and from programs that a repository configures.
fn isolate_git(parent: &[(OsString, OsString)], set: &mut Vec<(OsString, OsString)>) {
    for name in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"] {
        set.push((name.into(), "/dev/null".into()));
    }
    set.push(("GIT_CONFIG_NOSYSTEM".into(), "1".into()));
    let keys = [
        NO_MONITOR,
        ("credential.helper", ""),
        ("core.hooksPath", ""),
        ("core.sshCommand", ""),
        ("core.editor", ""),
        ("sequence.editor", ""),
        ("diff.external", ""),
        ("core.pager", "cat"),
    ];
    configure_git(parent, &keys, set);
}

/// Adds git configuration. Numbered pairs of the parent process are kept; the added ones follow and
/// take precedence.
fn configure_git(
    parent: &[(OsString, OsString)],
    keys: &[(&str, &str)],
    set: &mut Vec<(OsString, OsString)>,
) {
    let first = parent
        .iter()
        .find(|(name, _)| name == "GIT_CONFIG_COUNT")
        .and_then(|(_, value)| value.to_str()?.parse::<usize>().ok())
        .filter(|count| *count < 10_000)
        .unwrap_or(0);
    for (offset, (key, value)) in keys.iter().enumerate() {
        let number = first + offset;
        set.push((format!("GIT_CONFIG_KEY_{number}").into(), key.into()));
        set.push((format!("GIT_CONFIG_VALUE_{number}").into(), value.into()));
    }
    set.push(("GIT_CONFIG_COUNT".into(), (first + keys.len()).to_string().into()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn value<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
        let found = environment.variables.iter().find(|(other, _)| other == name)?;
        found.1.to_str()
    }

    #[test]
    fn each_variable_follows_the_first_matching_rule() {
        let redaction = Redaction {
            allowed: vec!["my_token".into(), "BOTH".into(), "FROM_DOTENV_ALLOWED".into()],
            blocked: vec!["harmless".into(), "both".into(), "path".into()],
            dotenv_names: vec!["FROM_DOTENV".into(), "FROM_DOTENV_ALLOWED".into()],
            ..Redaction::default()
        };
        let pem = "-----BEGIN RSA PRIVATE KEY-----\nx";
        let github = format!("ghp_{}", "a1".repeat(18));
        // (Name, value, whether it is passed.)
        let table: &[(&str, &str, bool)] = &[
            ("LANG", "C.UTF-8", true),
            ("EDITOR", "vi", true),
            ("GEMINI_CLI_ACTIVITY_TOKEN", "x", true),
            ("GEMINI_API_KEY", "x", false),
            ("Google_Api_Key", "x", false),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/k.json", false),
            ("GEMINI_CLI_CUSTOM_HEADERS", "Authorization: x", false),
            ("PARALLAX_TELEMETRY", "x", true),
            ("SOME_TOKEN", "x", false),
            ("npm_config_authtoken", "x", false),
            ("MY_TOKEN", "x", true),
            ("HARMLESS", "x", false),
            ("BOTH", "x", true),
            ("PATH", "/bin", false),
            ("DATABASE_URL", "x", false),
            ("GOOGLE_CLOUD_PROJECT", "x", false),
            ("GIT_CONFIG_KEY_7", "x", true),
            ("GIT_CONFIG_VALUE_7", &github, false),
            ("GIT_AUTHOR_NAME", "Jo", true),
            ("GIT_COMMITTER_EMAIL", "a@b", true),
            ("XAUTHORITY", "/x", true),
            ("SSL_CERT_FILE", "/c", true),
            ("A", pem, false),
            ("B", "postgres://jo:pw@host/db", false),
            ("C", "https://host/path", true),
            ("C2", "redis://:pw@host:6379/0", false),
            ("C3", "https://0123456789abcdef0123@github.com/x", false),
            ("C4", "https://tok@github.com/x", false),
            ("C5", "https://:tok@h/", false),
            ("C6", "amqp://:pw@h", false),
            ("C7", "https://github.com/@jo/x", true),
            ("C8", "ssh://git@github.com/x", true),
            ("D", &github, false),
            ("E", "AIzaSyA1234567890abcdefghijklmnopqrstuvw", false),
            ("F", "AKIAIOSFODNN7EXAMPLE", false),
            ("G", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.c2ln", false),
            ("H", "sk_live_0123456789abcdefghijklmn", false),
            ("I", "xoxb-1234567890-abc", false),
            ("J1", "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789", false),
            ("J2", "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD", false),
            ("J3", "glpat-abcdefghij1234567890", false),
            ("J4", "npm_abcdefghijklmnopqrstuvwxyz0123456789", false),
            ("J5", "hf_abcdefghijklmnopqrstuvwxyzabcdefgh", false),
            ("J6", "dop_v1_abcdef0123456789abcdef0123456789abcdef0123456789", false),
            ("J7", "ya29.a0AfH6SMBabcdefghijklmnop", false),
            ("J8", "https://discord.com/api/webhooks/1/abc", false),
            ("J9", "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=abc==", false),
            ("K1", "123456789:AAEabcdefghijklmnopqrstuvwxyz0123456", false),
            ("K2", "sv=2020&sig=abc%3D", false),
            ("K3", "eyJhbGciOi.eyJzdWIi.abc", false),
            ("K4", "Bearer abcdefgh12345", false),
            ("KUBECONFIG", "/x", false),
            ("DOCKER_HOST", "tcp://1.2.3.4:2375", false),
            ("PGPASSFILE", "/x", false),
            ("NETRC", "x", false),
            ("ACCESS", "x", false),
            ("PIN", "1234", false),
            ("SALT", "plain", false),
            ("API", "Zm9vYmFyYmF6", false),
            ("SIGNING_SEED", "9f86d081884c7d659a2feaa0", false),
            ("WALLET_SEED", "legal winner thank year wave", false),
            ("RANDOM_SEED", "1234567890", true),
            ("DB_SEED", "./seeds/dev.sql", true),
            // Similar, but harmless.
            ("L1", "/opt/sk-learn-contrib/bin:/home/jo/.npm_global/lib:/usr/bin", true),
            ("L2", "/srv/glib-networking-with-a-long-name/lib:/opt/glade-projects", true),
            ("L3", "*.tar=01;31:*.sig=00;90:*.crt=00;90:", true),
            ("L4", "node_modules/.bin:/home/jo/npm_packages_of_all_projects_of_mine/x", true),
            ("L5", "https://discord.com/channels/1/2", true),
            ("L6", "/nix/store/0c1k2v3b4n5m6q7w8e9r0t1y2u3i4o5p-hf_tools-1.0/bin", true),
            ("L7", "10:20:30:40", true),
            ("L8", "gltf-10-with-a-longer-name-of-things", true),
            ("FROM_DOTENV", "plain", false),
            ("FROM_DOTENV_ALLOWED", "plain", true),
        ];
        let pairs: Vec<(&str, &str)> = table.iter().map(|(n, v, _)| (*n, *v)).collect();
        let built = build(parent(&pairs), &redaction, "cat", GitConfiguration::User);
        for (name, _, passes) in table {
            assert_eq!(value(&built, name).is_some(), *passes, "{name}");
            assert_eq!(built.dropped.iter().any(|other| other.name == *name), !passes, "{name}");
        }
    }

    #[test]
    fn configured_credentials_are_withheld_although_the_filter_is_disabled() {
        let credentials = SecretVariables::default();
        for name in ["gw_header", "GW_ALLOWED", "HOME"] {
            credentials.insert(name, SecretRecipient::Provider);
        }
        for name in ["MCP_HEADER", "MCP_ALLOWED"] {
            credentials.insert(name, SecretRecipient::Service);
        }
        let redaction = Redaction {
            enabled: false,
            allowed: vec!["GW_ALLOWED".into(), "mcp_allowed".into()],
            credentials: credentials.clone(),
            ..Redaction::default()
        };
        // Registered after the options were copied, as a later extension does.
        credentials.insert("LATER", SecretRecipient::Service);
        let names = ["GW_HEADER", "GW_ALLOWED", "HOME", "MCP_HEADER", "MCP_ALLOWED", "LATER"];
        let parent = parent(&names.map(|name| (name, "x")));
        let built = build(parent.clone(), &redaction, "cat", GitConfiguration::User);
        let dropped: Vec<_> =
            built.dropped.iter().map(|it| (it.name.as_str(), it.override_setting)).collect();
        let expected = [
            ("GW_ALLOWED", None),
            ("GW_HEADER", None),
            ("LATER", Some(ALLOWED)),
            ("MCP_HEADER", Some(ALLOWED)),
        ];
        assert_eq!(dropped, expected);
        let values = secret_values(parent, &redaction);
        assert_eq!(values.len(), expected.len());
    }

    #[test]
    fn disabled_filter_still_withholds_credentials_and_dotenv() {
        let redaction = Redaction {
            enabled: false,
            dotenv_names: vec!["FROM_DOTENV".into()],
            ..Redaction::default()
        };
        let parent = parent(&[
            ("A_TOKEN", "x"),
            ("GEMINI_API_KEY", "x"),
            ("PARALLAX_API_KEY", "x"),
            ("PARALLAX_GEMINI_API_KEY", "x"),
            ("PARALLAX_GOOGLE_API_KEY", "x"),
            ("PARALLAX_GOOGLE_APPLICATION_CREDENTIALS", "x"),
            ("FROM_DOTENV", "x"),
        ]);
        let built = build(parent, &redaction, "cat", GitConfiguration::User);
        let names: Vec<&str> = built.dropped.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "FROM_DOTENV",
                "GEMINI_API_KEY",
                "PARALLAX_API_KEY",
                "PARALLAX_GEMINI_API_KEY",
                "PARALLAX_GOOGLE_API_KEY",
                "PARALLAX_GOOGLE_APPLICATION_CREDENTIALS",
            ]
        );
        assert_eq!(value(&built, "A_TOKEN"), Some("x"));
    }

    #[test]
    fn dropped_variable_notice_gives_reason_and_fix() {
        let redaction = Redaction {
            blocked: vec!["B".into()],
            dotenv_names: vec!["E".into()],
            ..Redaction::default()
        };
        let pairs = [
            ("A_KEY", "hidden-value"),
            ("B", "hidden-value"),
            ("DB_URI", "hidden-value"),
            ("E", "hidden-value"),
            ("F", "postgres://jo:hidden-value@host/db"),
            ("GEMINI_API_KEY", "hidden-value"),
        ];
        let built = build(parent(&pairs), &redaction, "cat", GitConfiguration::User);
        let report: Vec<(DropReason, Option<&str>)> =
            built.dropped.iter().map(|it| (it.reason, it.override_setting)).collect();
        assert_eq!(
            report,
            [
                (DropReason::NamePart("KEY"), Some(ALLOWED)),
                (DropReason::Blocked, Some(ALLOWED)),
                (DropReason::KnownName, Some(ALLOWED)),
                (DropReason::Dotenv, Some(ALLOWED)),
                (DropReason::SecretValue, Some(ENABLED)),
                (DropReason::OwnCredential, None),
            ]
        );
        // Paths of secret files are withheld.
        for dropped in built.dropped.iter().filter(|it| it.override_setting == Some(ALLOWED)) {
            let mut redaction = redaction.clone();
            redaction.allowed.push(dropped.name.clone());
            let built = build(parent(&pairs), &redaction, "cat", GitConfiguration::User);
            assert_eq!(value(&built, &dropped.name), Some("hidden-value"));
        }
        assert!(!format!("{:?}", built.dropped).contains("hidden-value"));
    }

    #[test]
    fn ci_runner_passes_only_known_names_even_if_disabled() {
        let redaction = Redaction { enabled: false, ..Redaction::default() };
        for mark in [("GITHUB_SHA", "abc"), ("SURFACE", "Github")] {
            let parent = parent(&[mark, ("PATH", "/bin"), ("EDITOR", "vi"), ("TITLE", "t")]);
            let built = build(parent, &redaction, "cat", GitConfiguration::User);
            assert_eq!(value(&built, "EDITOR"), None);
            assert_eq!(value(&built, "PATH"), Some("/bin"));
            assert_eq!(value(&built, "TITLE"), Some("t"));
        }
    }

    #[test]
    fn prompts_are_disabled_and_own_variables_replace_inherited_ones() {
        let parent = parent(&[("PAGER", "less"), ("TERM", "dumb"), ("DISPLAY", ":0")]);
        let built = build(parent, &Redaction::default(), "more", GitConfiguration::User);
        for (name, expected) in [
            ("GEMINI_CLI", "1"),
            ("PARALLAX", "1"),
            ("TERM", "xterm-256color"),
            ("PAGER", "more"),
            ("GIT_PAGER", "more"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("DISPLAY", ""),
        ] {
            let found = built.variables.iter().filter(|(other, _)| other == name).count();
            assert_eq!((found, value(&built, name)), (1, Some(expected)), "{name}");
        }
        // The user's identity, aliases, and hooks still apply.
        assert_eq!(value(&built, "GIT_CONFIG_GLOBAL"), None);
        assert!(built.dropped.is_empty());
    }

    #[test]
    fn hook_gets_the_environment_of_a_user_program() {
        let pairs = [
            ("DISPLAY", ":0"),
            ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/0/bus"),
            ("PAGER", "less"),
            ("TERM", "dumb"),
            ("GIT_EDITOR", "vi"),
            ("GEMINI_API_KEY", "x"),
            ("A_TOKEN", "x"),
        ];
        let built = hook_environment(parent(&pairs), &Redaction::default(), GitConfiguration::User);
        for (name, expected) in pairs.iter().take(5) {
            assert_eq!(value(&built, name), Some(*expected), "{name}");
        }
        assert_eq!(value(&built, "PARALLAX"), Some("1"));
        assert_eq!(value(&built, "GIT_CONFIG_COUNT"), None);
        let dropped: Vec<&str> = built.dropped.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(dropped, ["A_TOKEN", "GEMINI_API_KEY"]);
        let built =
            hook_environment(parent(&pairs), &Redaction::default(), GitConfiguration::Isolated);
        assert_eq!(value(&built, "GIT_CONFIG_KEY_0"), Some("core.fsmonitor"));
    }

    #[test]
    fn user_git_keeps_its_config_pairs_and_gets_no_fsmonitor() {
        let parent = parent(&[
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "user.name"),
            ("GIT_CONFIG_VALUE_0", "Jo"),
        ]);
        for parent in [parent, Vec::new()] {
            let number = usize::from(!parent.is_empty());
            let built = build(parent, &Redaction::default(), "cat", GitConfiguration::User);
            let pair = |what: &str| value(&built, &format!("GIT_CONFIG_{what}_{number}"));
            assert_eq!((pair("KEY"), pair("VALUE")), (Some("core.fsmonitor"), Some("false")));
            let count = (number + 1).to_string();
            assert_eq!(value(&built, "GIT_CONFIG_COUNT"), Some(count.as_str()));
        }
    }

    #[test]
    fn isolated_git_appends_to_the_pairs_already_there() {
        let parent = parent(&[
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "user.name"),
            ("GIT_CONFIG_VALUE_0", "Jo"),
        ]);
        let built = build(parent, &Redaction::default(), "cat", GitConfiguration::Isolated);
        assert_eq!(value(&built, "GIT_CONFIG_GLOBAL"), Some("/dev/null"));
        assert_eq!(value(&built, "GIT_CONFIG_KEY_0"), Some("user.name"));
        assert_eq!(value(&built, "GIT_CONFIG_KEY_1"), Some("core.fsmonitor"));
        assert_eq!(value(&built, "GIT_CONFIG_KEY_2"), Some("credential.helper"));
        assert_eq!(value(&built, "GIT_CONFIG_COUNT"), Some("9"));
    }
}
