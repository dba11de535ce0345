//! Names inside a workspace that tools may not access.

use std::ffi::OsStr;

use parallax_protocol::protected_names::{fold, is_secret_environment};

/// Whether a path segment is protected from tools: `.git`, `.env`, `.env.*` (except examples,
/// samples, and templates), `node_modules`, `gha-creds-*.json`, in any case, with trailing dots
/// and spaces, with a `:stream` suffix, or in its 8.3 short form. `allow_node_modules` permits
/// `node_modules`.
pub fn is_protected_name(segment: &str, allow_node_modules: bool) -> bool {
    let name = fold(segment.split(':').next().unwrap_or_default());
    match name.as_str() {
        ".git" | ".env" => return true,
        "node_modules" => return !allow_node_modules,
        _ => {}
    }
    // `.env.local` and similar names, but not the samples that a project shares.
    if let Some(kind) = name.strip_prefix(".env.") {
        let harmless = ["example", "sample", "template", "dist", "defaults"];
        return !kind.split('.').any(|part| harmless.contains(&part));
    }
    if name.starts_with("gha-creds-") && name.ends_with(".json") {
        return true;
    }
    let Some((stem, rest)) = name.split_once('~') else { return false };
    let number = rest.split('.').next().unwrap_or_default();
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    match stem {
        "git" | "env" => number.len() == rest.len(),
        "node_m" => number.len() == rest.len() && !allow_node_modules,
        "gha-cr" => rest.ends_with(".jso") || rest.ends_with(".json"),
        _ => false,
    }
}

/// Whether a file (not a directory) with this name contains secrets of a project and is therefore
/// hidden from commands, including copies of `.env`. Writing `.envrc` requires approval instead.
pub fn is_secret_file(name: &OsStr) -> bool {
    let name = fold(&name.to_string_lossy());
    name != ".envrc" && is_secret_environment(&name)
}

#[cfg(test)]
mod tests {
    use super::{is_protected_name, is_secret_file};

    #[test]
    fn copies_of_env_files_are_secret() {
        for name in [".env~", ".env#", ".ENV_backup", ".env.template.local", ".env-prod", ".env"] {
            assert!(is_secret_file(name.as_ref()), "{name}");
        }
        for name in
            [".env.example", ".env_sample", ".envrc", "env", "x.env", ".environment.md.dist"]
        {
            assert!(!is_secret_file(name.as_ref()), "{name}");
        }
    }

    #[test]
    fn protected_names_are_recognized_in_every_spelling() {
        for name in [
            ".git",
            ".GIT",
            ".git.",
            ".git .",
            ".env",
            ".Env ",
            ".env::$DATA",
            "node_modules",
            "Node_Modules",
            "gha-creds-12ab.json",
            "GHA-CREDS-x.JSON",
            "GIT~1",
            "ENV~2",
            "NODE_M~1",
            "GHA-CR~1.JSO",
            ".g\u{200c}it",
        ] {
            assert!(is_protected_name(name, false), "{name}");
        }
    }

    #[test]
    fn similar_names_are_not_protected() {
        for name in [
            ".gitignore",
            ".github",
            ".env.example",
            ".env.example",
            "env",
            "git",
            "node_modules2",
            "gha-creds.json",
            "gha-creds-x.json.bak",
            "git~x",
            "a~1",
            "",
            "..",
            ".",
        ] {
            assert!(!is_protected_name(name, false), "{name}");
        }
        assert!(!is_protected_name("node_modules", true));
    }
}
