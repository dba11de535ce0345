//! Names of files and folders that other programs run, or take orders from: one
//! list for whoever asks before they are written, closes them to commands, or
//! puts them back.
//!
//! Names are in lower case; compare them after [`fold`].

/// Settings of tools, at any depth, with all below them. `.git` is none of them:
/// what of it is protected depends on who writes.
pub const SETTINGS: &[&str] =
    &[".envrc", ".gemini", ".geminiignore", ".idea", ".mcp.json", ".parallax", ".ssh", ".vscode"];

/// What shells and git read when they start.
pub const START_UP: &[&str] = &[
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".cshrc",
    ".gitconfig",
    ".inputrc",
    ".kshrc",
    ".login",
    ".logout",
    ".mkshrc",
    ".profile",
    ".tcshrc",
    ".xprofile",
    ".xsessionrc",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    "config.fish",
];

/// Files that tell agents what to do.
pub const AGENT_RULES: &[&str] = &[
    ".aider.conf.yml",
    ".augment-guidelines",
    ".clinerules",
    ".cursorrules",
    ".goosehints",
    ".roorules",
    ".rules",
    ".windsurfrules",
    "agents.md",
    "agents.override.md",
    "claude.local.md",
    "claude.md",
    "copilot-instructions.md",
    "gemini.md",
    "parallax.md",
    "qwen.md",
    "warp.md",
];

/// Folders with such files.
pub const AGENT_FOLDERS: &[&str] = &[
    ".amazonq",
    ".augment",
    ".codex",
    ".continue",
    ".cursor",
    ".junie",
    ".kiro",
    ".qwen",
    ".roo",
    ".windsurf",
];

/// What other programs run or obey without being asked, by the last names of
/// its path. An agent that is let edit still asks before it writes there; a
/// command of a person's own may well make it.
pub const ORDERS: &[&[&str]] = &[
    &[".agents"],
    &[".cargo", "config"],
    &[".cargo", "config.toml"],
    &[".claude"],
    &[".config", "fish"],
    &[".devcontainer"],
    &[".devcontainer.json"],
    &[".gitattributes"],
    &[".github", "workflows"],
    &[".gitmodules"],
    &[".husky"],
    &["fish", "conf.d"],
];

/// Whether the name, folded, is protected wherever it stands.
pub fn is_protected(folded: &str) -> bool {
    SETTINGS.contains(&folded) || START_UP.contains(&folded)
}

/// Whether the names of a path, folded, lead to or below one of [`ORDERS`].
pub fn holds_orders(folded: &[String]) -> bool {
    ORDERS.iter().any(|names| {
        folded.windows(names.len()).any(|window| window.iter().zip(*names).all(|(a, b)| a == b))
    })
}

/// Whether a file of this name, folded, holds the secrets of a project: `.env` and
/// whatever begins so, but for what is there to be read.
pub fn is_secret_environment(folded: &str) -> bool {
    const HARMLESS: [&str; 5] = ["example", "sample", "template", "dist", "defaults"];
    let Some(kinds) = folded.strip_prefix(".env") else { return false };
    // `.env.example.local` is somebody's own again.
    !kinds.rsplit(['.', '-', '_']).next().is_some_and(|kind| HARMLESS.contains(&kind))
}

/// A name as disks compare it that know no case, and that leave some characters
/// out of account.
pub fn fold(name: &str) -> String {
    let ignored = |character: &char| {
        matches!(character,
            '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
    };
    // By way of the capitals: `ſ` is an `s` to such disks, and `ﬁ` two letters.
    let folded: String = name
        .chars()
        .filter(|c| !ignored(c))
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect();
    folded.trim_end_matches(['.', ' ']).to_owned()
}

/// Files and folders of the home that hold keys, tokens or conversations.
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
    ".terraformrc",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    ".node_repl_history",
    ".env",
];

/// Names of files with keys or passwords, wherever they are.
const SECRET_NAMES: [&str; 14] = [
    ".netrc",
    ".pgpass",
    ".git-credentials",
    ".vault-token",
    "credentials",
    "credentials.json",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "shadow",
    "gshadow",
    "known_secrets",
    "secrets.yaml",
];
const SECRET_ENDINGS: [&str; 8] = ["pem", "key", "p12", "pfx", "kdbx", "jks", "keystore", "ppk"];

/// Whether a path leads to keys, tokens or passwords: by its name, or by its place
/// in the home.
pub fn is_sensitive(path: &std::path::Path, home: Option<&std::path::Path>) -> bool {
    let of_home = home.and_then(|home| path.strip_prefix(home).ok());
    if of_home.is_some_and(|below| SECRETS_OF_HOME.iter().any(|name| below.starts_with(name))) {
        return true;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    is_secret_environment(&fold(&name))
        || SECRET_NAMES.contains(&name.as_str())
        || ending.is_some_and(|ending| SECRET_ENDINGS.contains(&ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_as_names_are_compared() {
        let names = SETTINGS.iter().chain(START_UP).chain(AGENT_RULES);
        for name in names.chain(AGENT_FOLDERS).chain(ORDERS.iter().copied().flatten()) {
            assert_eq!(fold(name), **name);
        }
        for name in [".BaſhRC", ".\u{212a}ube", ".g\u{200d}it. ", ".con\u{fb01}g"] {
            assert!([".bashrc", ".kube", ".git", ".config"].contains(&&*fold(name)), "{name}");
        }
        let names = |path: &str| path.split('/').map(fold).collect::<Vec<_>>();
        for path in ["a/.Husky/pre-push", ".github/workflows/x.yml", "x/.gitattributes"] {
            assert!(holds_orders(&names(path)), "{path}");
        }
        for path in [".github/CODEOWNERS", "workflows/x", ".cargo/registry", "husky"] {
            assert!(!holds_orders(&names(path)), "{path}");
        }
    }
}
