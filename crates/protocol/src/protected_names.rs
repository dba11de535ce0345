//! Names of files and directories that other programs execute or read as configuration: one table
//! for the policy engine, the sandbox, checkpoints, and the documentation.
//!
//! Names are in lower case; compare them after [`fold`].

mod git;
mod home;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Component, Path};
use std::sync::LazyLock;

pub use self::git::{OF_GIT, REBASE, REBASE_STEPS, is_git_private, may_hold_git_private};
pub use self::home::{SECRETS_OF_HOME, trusted_of_home, trusted_trees_of_home};

/// How strongly a name is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// Instructions for agents: creating them needs approval, but commands may change them.
    Instructions,
    /// Configuration from which programs are started: every change needs approval.
    Closed,
}

/// Names that one kind of program reads.
#[derive(Debug)]
pub struct ProtectedNames {
    /// The programs that read them, as the documentation names them.
    pub readers: &'static str,
    /// How strongly they are protected.
    pub protection: Protection,
    /// The last names of a path, at any depth, including everything below. A leading `*` matches
    /// any text.
    pub patterns: &'static [&'static str],
}

/// Read by shells and by git in every directory; also protected in the home directory.
pub const START_UP: &ProtectedNames = &ProtectedNames {
    readers: "shells, sessions, ssh, and git at startup",
    protection: Protection::Closed,
    patterns: &[
        ".bash_aliases",
        ".bash_login",
        ".bash_logout",
        ".bash_profile",
        ".bashrc",
        ".config/autostart",
        ".config/fish",
        ".config/git",
        ".config/systemd",
        ".cshrc",
        ".gitconfig",
        ".inputrc",
        ".kshrc",
        ".login",
        ".logout",
        ".mkshrc",
        ".pam_environment",
        ".profile",
        ".ssh",
        ".tcshrc",
        ".xprofile",
        ".xsessionrc",
        ".zlogin",
        ".zlogout",
        ".zprofile",
        ".zshenv",
        ".zshrc",
        "config.fish",
        "fish/conf.d",
    ],
};

/// The table. It does not contain `.git`, because the protected parts of it depend on the writer.
pub const TABLE: &[&ProtectedNames] = &[
    &ProtectedNames {
        readers: "Parallax and Gemini CLI",
        protection: Protection::Closed,
        patterns: &[".gemini", ".geminiignore", ".mcp.json", ".parallax"],
    },
    &ProtectedNames {
        readers: "other agents",
        protection: Protection::Closed,
        patterns: &[
            ".agents",
            ".aider.conf.yml",
            ".amazonq",
            ".augment",
            ".claude",
            ".cline",
            ".codex",
            ".continue",
            ".copilot",
            ".crush.json",
            ".cursor",
            ".factory",
            ".github/agents",
            ".github/hooks",
            ".goose",
            ".iflow",
            ".junie",
            ".kilocode",
            ".kiro",
            ".opencode",
            ".qoder",
            ".qwen",
            ".roo",
            ".trae",
            ".windsurf",
            "crush.json",
            "opencode.json",
            "opencode.jsonc",
        ],
    },
    &ProtectedNames {
        readers: "editors and IDEs",
        protection: Protection::Closed,
        patterns: &[
            "*.code-workspace",
            "*.sublime-project",
            ".dir-locals-2.el",
            ".dir-locals.el",
            ".exrc",
            ".externaltoolbuilders",
            ".fleet",
            ".gvimrc",
            ".helix",
            ".idea",
            ".lazy.lua",
            ".lvimrc",
            ".neoconf.json",
            ".nova",
            ".nvim",
            ".nvim.lua",
            ".nvimrc",
            ".run",
            ".theia",
            ".vim",
            ".vimrc",
            ".vimspector.json",
            ".vs",
            ".vscode",
            ".vscode-insiders",
            ".vscode-oss",
            ".vscodium",
            ".ycm_extra_conf.py",
            ".zed",
        ],
    },
    &ProtectedNames {
        readers: "development containers and cloud workspaces",
        protection: Protection::Closed,
        patterns: &[
            ".codesandbox",
            ".devcontainer",
            ".devcontainer.json",
            ".gitpod",
            ".gitpod.yaml",
            ".gitpod.yml",
            ".idx",
            ".replit",
            ".stackblitzrc",
        ],
    },
    &ProtectedNames {
        readers: "version control and its hook managers",
        protection: Protection::Closed,
        patterns: &[
            ".git-hooks",
            ".gitattributes",
            ".githooks",
            ".gitmodules",
            ".hg/hgrc",
            ".husky",
            ".jj/repo/config.toml",
            ".lefthook-local.json",
            ".lefthook-local.toml",
            ".lefthook-local.yaml",
            ".lefthook-local.yml",
            ".lefthook.json",
            ".lefthook.toml",
            ".lefthook.yaml",
            ".lefthook.yml",
            ".overcommit.yml",
            ".sl/config",
            "lefthook-local.json",
            "lefthook-local.toml",
            "lefthook-local.yaml",
            "lefthook-local.yml",
            "lefthook.json",
            "lefthook.toml",
            "lefthook.yaml",
            "lefthook.yml",
        ],
    },
    &ProtectedNames {
        readers: "services that build a repository",
        protection: Protection::Closed,
        patterns: &[
            ".circleci",
            ".forgejo/workflows",
            ".gitea/workflows",
            ".github/actions",
            ".github/workflows",
        ],
    },
    &ProtectedNames {
        readers: "directory environments, build tools, debuggers and interpreters",
        protection: Protection::Closed,
        patterns: &[
            ".cargo/config",
            ".cargo/config.toml",
            ".config/mise",
            ".config/mise.toml",
            ".envrc",
            ".gdbinit",
            ".ghci",
            ".irbrc",
            ".lldbinit",
            ".mise",
            ".mise.dev.toml",
            ".mise.local.toml",
            ".mise.toml",
            ".octaverc",
            ".pdbrc",
            ".pryrc",
            ".rprofile",
            "mise.dev.toml",
            "mise.local.toml",
            "mise.toml",
            "mise/conf.d",
            "mise/config.local.toml",
            "mise/config.toml",
        ],
    },
    START_UP,
    &ProtectedNames {
        readers: "agents, as instructions",
        protection: Protection::Instructions,
        patterns: &[
            ".augment-guidelines",
            ".clinerules",
            ".cursorrules",
            ".github/chatmodes",
            ".github/instructions",
            ".github/prompts",
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
        ],
    },
];

/// A pattern of the table, prepared for comparison.
struct IndexedPattern {
    /// The names of the parent directories, nearest first.
    parents: Vec<&'static str>,
    protection: Protection,
}

/// The table, indexed by the last name of each pattern.
struct NameIndex {
    names: HashMap<&'static str, Vec<IndexedPattern>>,
    endings: Vec<(&'static str, Protection)>,
    /// By the first byte of a name: one bit for each length of the names in `names`.
    lengths: [u64; 256],
}

static INDEX: LazyLock<NameIndex> = LazyLock::new(|| {
    let mut index = NameIndex { names: HashMap::new(), endings: Vec::new(), lengths: [0; 256] };
    for (pattern, protection) in patterns() {
        if let Some(suffix) = pattern.strip_prefix('*') {
            index.endings.push((suffix, protection));
            continue;
        }
        let mut names = pattern.rsplit('/');
        let last = names.next().unwrap_or_default();
        for byte in last.bytes().take(1).flat_map(|byte| [byte, byte.to_ascii_uppercase()]) {
            if let Some(lengths) = index.lengths.get_mut(usize::from(byte)) {
                *lengths |= length_bit(last.len());
            }
        }
        index
            .names
            .entry(last)
            .or_default()
            .push(IndexedPattern { parents: names.collect(), protection });
    }
    index
});

/// Returns the bit for a length. All lengths of 63 and above share one bit.
fn length_bit(length: usize) -> u64 {
    1 << length.min(63)
}

/// Returns all patterns of the table.
pub fn patterns() -> impl Iterator<Item = (&'static str, Protection)> {
    let of = |names: &&'static ProtectedNames| {
        let protection = names.protection;
        names.patterns.iter().map(move |pattern| (*pattern, protection))
    };
    TABLE.iter().flat_map(of)
}

/// Returns the paths that the table closes below a directory, without patterns that contain `*`.
pub fn inaccessible_path_patterns() -> impl Iterator<Item = &'static str> {
    let closed = patterns().filter(|(_, protection)| *protection == Protection::Closed);
    closed.map(|(pattern, _)| pattern).filter(|pattern| !pattern.contains('*'))
}

/// Returns the protection of the last name of a path, regardless of the protection of its parents.
/// `above` contains the names of the parents, nearest first. All names are folded.
pub fn protection_of<'a>(
    name: &str,
    above: impl Iterator<Item = Cow<'a, str>> + Clone,
) -> Option<Protection> {
    let named = INDEX.names.get(name).into_iter().flatten();
    let named = named.filter(|row| {
        let mut parents = above.clone();
        row.parents.iter().all(|expected| parents.next().is_some_and(|found| found == *expected))
    });
    let matching_suffixes =
        INDEX.endings.iter().filter(|(matching_suffixes, _)| name.ends_with(matching_suffixes));
    named
        .map(|row| row.protection)
        .chain(matching_suffixes.map(|(_, protection)| *protection))
        .max()
}

/// Returns the protection of a path, given its folded names from the root down.
pub fn protection(folded: &[String]) -> Option<Protection> {
    (0..folded.len()).filter_map(|at| protection_at(folded, at)).max()
}

fn protection_at(folded: &[String], at: usize) -> Option<Protection> {
    let (above, rest) = folded.split_at_checked(at)?;
    let parents = above.iter().rev().map(|name| Cow::Borrowed(name.as_str()));
    protection_of(rest.first()?, parents)
}

/// Returns the folded names of a path.
pub fn folded_names(path: &Path) -> Vec<String> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(fold(&name.to_string_lossy())),
        _ => None,
    });
    names.collect()
}

/// Whether a directory with this folded name may contain names that are protected only there.
pub fn may_hold_protected(folded: &str) -> bool {
    patterns().any(|(pattern, _)| pattern.rsplit('/').skip(1).any(|name| name == folded))
}

/// Whether a name (not folded) is certainly unprotected, by a fast check that rules out most names.
pub fn is_plain(name: &[u8]) -> bool {
    let first = name.first().copied().unwrap_or_default();
    let lengths = INDEX.lengths.get(usize::from(first)).copied().unwrap_or_default();
    let ends = |suffix: &str| {
        let at = name.len().checked_sub(suffix.len());
        at.and_then(|at| name.get(at..))
            .is_some_and(|end| end.eq_ignore_ascii_case(suffix.as_bytes()))
    };
    name.is_ascii()
        && lengths & length_bit(name.len()) == 0
        // Folding removes trailing dots and spaces.
        && !name.ends_with(b".")
        && !name.ends_with(b" ")
        && !INDEX.endings.iter().any(|(suffix, _)| ends(suffix))
}

/// Whether a file with this folded name contains secrets of a project: `.env` and names that start
/// with it, except templates.
pub fn is_secret_environment(folded: &str) -> bool {
    const HARMLESS: [&str; 5] = ["example", "sample", "template", "dist", "defaults"];
    let Some(kinds) = folded.strip_prefix(".env") else { return false };
    // `.env.example.local` is a private file again.
    !kinds.rsplit(['.', '-', '_']).next().is_some_and(|kind| HARMLESS.contains(&kind))
}

/// Whether a file with this name (not folded) holds secrets of a project or of a CI job.
pub fn is_secret_of_project(name: &str) -> bool {
    let name = fold(name);
    is_secret_environment(&name) || name.starts_with("gha-creds-")
}

/// Folds a name like file systems that ignore case and some characters.
pub fn fold(name: &str) -> String {
    let ignored = |character: &char| {
        matches!(character,
            '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
    };
    // Converts to upper case first: such file systems treat `ſ` as `s` and `ﬁ` as two letters.
    let folded: String = name
        .chars()
        .filter(|c| !ignored(c))
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect();
    folded.trim_end_matches(['.', ' ']).to_owned()
}

/// Names of files that contain keys or passwords, in any directory.
const SECRET_NAMES: [&str; 18] = [
    ".credentials.json",
    "mcp-oauth-tokens.json",
    "oauth_creds.json",
    "provider-keys.json",
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

/// Whether a path contains keys, tokens, or passwords, judged by its name or its location in the
/// home directory.
pub fn is_sensitive(path: &std::path::Path, home: Option<&std::path::Path>) -> bool {
    let path_below_home = home.and_then(|home| path.strip_prefix(home).ok());
    if path_below_home
        .is_some_and(|relative| SECRETS_OF_HOME.iter().any(|name| relative.starts_with(name)))
    {
        return true;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let suffix = name.rsplit_once('.').map(|(_, suffix)| suffix);
    // The environment of a process often holds keys.
    let is_environment = name == "environ" && path.starts_with("/proc");
    is_environment
        || is_secret_environment(&fold(&name))
        || SECRET_NAMES.contains(&name.as_str())
        || suffix.is_some_and(|suffix| SECRET_ENDINGS.contains(&suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str) -> Vec<String> {
        folded_names(Path::new(path))
    }

    #[test]
    fn every_pattern_of_the_table_is_folded_and_matches_itself_at_any_depth() {
        for (pattern, expected) in patterns() {
            for name in pattern.split('/') {
                assert_eq!(fold(name), name);
            }
            let path = pattern.replace('*', "x");
            for path in [path.clone(), format!("a/{path}/b"), path.to_uppercase()] {
                assert_eq!(protection(&names(&path)), Some(expected), "{path}");
            }
            let last = path.rsplit('/').next().unwrap_or_default();
            assert!(!is_plain(last.as_bytes()) && !is_plain(last.to_uppercase().as_bytes()));
            for above in pattern.rsplit('/').skip(1) {
                assert!(may_hold_protected(above), "{pattern}");
            }
        }
        let mut sorted: Vec<&str> = patterns().map(|(pattern, _)| pattern).collect();
        let count = sorted.len();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), count, "a pattern is listed twice");
    }

    #[test]
    fn names_outside_the_table_are_not_protected() {
        for path in [
            ".github/CODEOWNERS",
            "workflows/x",
            ".cargo/registry",
            "husky",
            "config.toml",
            "conf.d/x",
            "x.code-workspace.md",
            ".config/nextest.toml",
        ] {
            assert_eq!(protection(&names(path)), None, "{path}");
        }
        assert!(is_plain(b"src") && is_plain(b"README.md"));
    }

    #[test]
    fn protected_names_are_compared_case_insensitively() {
        for name in [".BaſhRC", ".\u{212a}ube", ".g\u{200d}it. ", ".con\u{fb01}g"] {
            assert!([".bashrc", ".kube", ".git", ".config"].contains(&&*fold(name)), "{name}");
        }
    }
}
