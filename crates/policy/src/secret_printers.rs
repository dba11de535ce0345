//! Programs that print keys, tokens, or passwords, for approval requests.

use crate::bash::Command;

/// Programs with the words that make them print secrets, in their order, with any others between
/// them. `|` separates alternatives, and `*` matches any rest of a word.
const PRINTERS: &[(&str, &[&str])] = &[
    // Keys and passwords of the system.
    ("gpg|gpg2", &["--export-secret-keys*|--export-secret-key*|--export-secret-subkeys*"]),
    ("gpg|gpg2", &["--export-secret-ssh-key*"]),
    ("age|rage", &["-d|--decrypt"]),
    ("sops", &["-d|--decrypt|decrypt|exec-env|exec-file"]),
    ("ansible-vault", &["view|decrypt|edit"]),
    ("security", &["find-generic-password|find-internet-password|dump-keychain|export|find-key"]),
    ("secret-tool", &["lookup|search"]),
    ("keyctl", &["print|pipe|read"]),
    ("kwallet-query", &["-r|--read-password"]),
    ("keyring", &["get"]),
    // Password managers.
    ("pass|gopass", &["show|otp|cat|export"]),
    ("op", &["read|inject"]),
    ("op", &["item|document|connect", "get|token"]),
    ("bw|rbw|bws", &["get|list|export|unlock|secret"]),
    ("lpass", &["show|export"]),
    ("keepassxc-cli", &["show|clip|export|attachment-export"]),
    // Stores of services.
    ("vault|bao", &["kv", "get"]),
    ("vault|bao", &["read|print|unwrap"]),
    ("doppler", &["secrets|configs"]),
    ("infisical", &["secrets|export"]),
    ("chamber", &["read|export|env"]),
    ("aws-vault", &["export"]),
    ("conjur", &["variable", "get"]),
    // Clouds.
    ("aws", &["configure", "get|export-credentials"]),
    ("aws", &["secretsmanager", "get-secret-value|batch-get-secret-value"]),
    ("aws", &["ssm", "get-parameter*", "--with-decryption"]),
    ("aws", &["sts", "get-session-token|get-federation-token|assume-role*"]),
    ("aws", &["ecr|ecr-public", "get-login-password"]),
    ("aws", &["eks", "get-token"]),
    ("aws", &["codeartifact", "get-authorization-token"]),
    ("aws", &["kms", "decrypt"]),
    ("aws", &["iam", "create-access-key"]),
    ("gcloud", &["print-access-token|print-identity-token"]),
    ("gcloud", &["secrets", "versions", "access"]),
    ("gcloud", &["config", "config-helper"]),
    ("az", &["account", "get-access-token"]),
    ("az", &["keyvault", "secret", "show|download"]),
    ("az", &["acr", "credential|login"]),
    ("az", &["storage", "keys", "list"]),
    ("doctl", &["auth", "list|token"]),
    ("ibmcloud", &["iam", "oauth-tokens"]),
    ("oci", &["secrets", "get*"]),
    ("databricks", &["auth", "token"]),
    ("heroku", &["auth:token|config|config:get|authorizations*"]),
    ("flyctl|fly", &["auth|tokens", "token|create"]),
    ("firebase", &["login:ci"]),
    ("vercel", &["env", "pull"]),
    ("netlify", &["env:list|env:get|env:clone"]),
    ("railway", &["variables|variable"]),
    ("supabase", &["projects", "api-keys"]),
    // Clusters and infrastructure.
    ("kubectl|oc|k", &["get", "secret|secrets|secret/*|secrets/*|*,secret*|secret*,*"]),
    ("kubectl|oc|k", &["config", "view", "--raw*"]),
    ("kubectl|oc|k", &["create", "token"]),
    ("oc", &["whoami", "-t|--show-token"]),
    ("helm", &["get", "values|all|manifest"]),
    ("argocd", &["admin", "initial-password"]),
    ("argocd", &["account", "generate-token"]),
    ("terraform|tofu|terragrunt", &["output", "-raw|--raw|-json|--json"]),
    ("terraform|tofu|terragrunt", &["state", "pull"]),
    ("terraform|tofu|terragrunt", &["show", "-json|--json"]),
    ("pulumi", &["--show-secrets"]),
    ("pulumi", &["config", "get"]),
    // Containers.
    ("docker-credential-*", &["get|list"]),
    ("docker|podman", &["compose", "config"]),
    ("docker-compose|podman-compose", &["config"]),
    ("docker|podman", &["context", "export"]),
    // Development.
    ("gh", &["auth", "token"]),
    ("gh|glab", &["auth", "status", "-t|--show-token"]),
    ("glab", &["config", "get", "token"]),
    ("git", &["credential|credential-*", "fill|get"]),
    ("git-credential-*", &["get"]),
    ("npm|pnpm", &["token"]),
    ("npm|pnpm|yarn", &["config", "get", "*_auth*|*_password*|*AuthToken*"]),
    ("pip", &["config", "debug"]),
    ("cargo", &["credential|owner-token"]),
    ("snyk", &["config", "get"]),
    ("hf|huggingface-cli", &["auth", "token"]),
];

/// Words of `pass` and `gopass` that are not names of passwords.
const OF_PASS: &[&str] = &[
    "add",
    "audit",
    "completion",
    "config",
    "cp",
    "copy",
    "delete",
    "edit",
    "find",
    "generate",
    "git",
    "grep",
    "help",
    "init",
    "insert",
    "list",
    "ls",
    "mount",
    "mounts",
    "move",
    "mv",
    "recipients",
    "remove",
    "rename",
    "rm",
    "search",
    "setup",
    "sync",
    "templates",
    "update",
    "version",
];

/// Whether the command prints a key, token, or password.
pub(crate) fn prints_credential(command: &Command) -> bool {
    let Some(name) = command.name() else { return false };
    let words = || command.arguments().iter().filter_map(|word| word.text.as_deref());
    let in_table = PRINTERS.iter().any(|(names, patterns)| {
        let mut words = words();
        matches_any(names, name)
            && patterns.iter().all(|pattern| words.any(|it| matches_any(pattern, it)))
    });
    // `pass NAME` is short for `pass show NAME`.
    let is_name = |word: &str| !word.starts_with('-') && !OF_PASS.contains(&word);
    in_table || matches!(name, "pass" | "gopass") && words().next().is_some_and(is_name)
}

/// Whether the word is one of the alternatives.
fn matches_any(alternatives: &str, word: &str) -> bool {
    alternatives.split('|').any(|pattern| matches(pattern, word))
}

/// Whether the word matches the pattern, in which `*` is any text.
fn matches(pattern: &str, word: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = word.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}
