//! Files and directories of the home directory that hold secrets or that programs trust.

use super::START_UP;

/// Files and directories in the home directory that contain keys, tokens, or conversations.
pub const SECRETS_OF_HOME: &[&str] = &[
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".docker/config.json",
    ".git-credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".terraform.d/credentials.tfrc.json",
    ".vault-token",
    ".password-store",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".config/git/credentials",
    ".config/hub",
    ".config/op",
    ".config/rclone",
    ".config/containers/auth.json",
    ".config/doctl",
    ".config/heroku",
    ".config/sops",
    ".subversion/auth",
    ".s3cfg",
    ".boto",
    ".config/google-chrome",
    ".config/chromium",
    ".mozilla",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    "Library/Keychains",
    ".gemini/.env",
    ".gemini/oauth_creds.json",
    ".gemini/google_accounts.json",
    ".gemini/gemini-credentials.json",
    ".gemini/mcp-oauth-tokens.json",
    ".gemini/mcp-oauth-tokens-v2.json",
    ".gemini/a2a-oauth-tokens.json",
    ".gemini/settings.json",
    ".gemini/tmp",
    ".parallax/.env",
    ".parallax/mcp-oauth-tokens.json",
    ".parallax/provider-keys.json",
    ".parallax/session-key",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".config/github-copilot",
    ".local/share/opencode/auth.json",
    ".qwen/oauth_creds.json",
    ".terraformrc",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    ".node_repl_history",
    ".env",
];

/// Directories of the home directory whose files Parallax or other programs trust, besides
/// [`START_UP`] and [`SECRETS_OF_HOME`].
const TRUSTED_OF_HOME: &[&str] = &[
    ".parallax",
    ".parallax/agents",
    ".parallax/commands",
    ".parallax/extensions",
    ".parallax/policies",
    ".parallax/skills",
    ".gemini",
    ".gemini/agents",
    ".gemini/commands",
    ".gemini/extensions",
    ".gemini/policies",
    ".gemini/skills",
    ".claude",
    ".claude/agents",
    ".claude/commands",
    ".claude/hooks",
    ".claude/skills",
    ".config/fish/conf.d",
    ".config/fish/functions",
    ".config/git/hooks",
    ".config/nvim",
    ".config/parallax",
    ".config/systemd/user",
    ".cargo",
    ".cargo/config.toml",
    ".vimrc",
];

/// Returns the paths below the home directory whose targets are protected where they are links, or
/// contain links, into a workspace.
pub fn trusted_of_home() -> impl Iterator<Item = &'static str> {
    START_UP.patterns.iter().chain(SECRETS_OF_HOME).chain(TRUSTED_OF_HOME).copied()
}

/// Trusted directories that also hold much data: only links directly in them count.
const WITH_DATA: [&str; 4] = [".cargo", ".claude", ".gemini", ".parallax"];

/// Returns those of the paths whose directories hold only what programs trust, at any depth.
pub fn trusted_trees_of_home() -> impl Iterator<Item = &'static str> {
    let all = START_UP.patterns.iter().chain(TRUSTED_OF_HOME).copied();
    all.filter(|name| !WITH_DATA.contains(name))
}
