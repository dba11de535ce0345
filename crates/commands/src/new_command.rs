//! Creates template files for new commands.

use std::io::Write as _;
use std::path::PathBuf;

use parallax_protocol::event::{Failure, FailureKind};

use parallax_config::{Config, SettingScope};

const TEMPLATE: &str = r#"# Shown by `/help` and in the list of commands.
description = "…"

# What is sent. {{args}} is what follows the command's name; !{git diff} is the
# output of a shell command, @{docs/style.md} the content of a file.
prompt = """
…
"""
"#;

/// Creates a template for a command and returns its file. Blocking.
///
/// # Errors
/// Returns an error if the name is invalid, or the file exists or cannot be written.
pub fn new_command(config: &Config, name: &str, scope: SettingScope) -> Result<PathBuf, Failure> {
    let input_failure = |message: String| Failure::new(FailureKind::Input, message);
    let name = name.strip_prefix('/').unwrap_or(name);
    let good = |part: &str| {
        let known = |char: char| char.is_ascii_alphanumeric() || "_-.".contains(char);
        !part.is_empty() && !part.starts_with('.') && part.len() <= 50 && part.chars().all(known)
    };
    if !name.split(':').all(good) {
        return Err(input_failure(format!(
            "`{name}` is not a valid command name: use letters, digits, `_`, `-`, `.`, and `:` \
                 between parts"
        )));
    }
    let directory = match scope {
        SettingScope::User => config.dirs.parallax.join("commands"),
        SettingScope::Workspace => config.cwd.join(".parallax/commands"),
    };
    let path = directory.join(format!("{}.toml", name.replace(':', "/")));
    let failed = |error: std::io::Error| {
        input_failure(format!("failed to write `{}`: {error}", path.display()))
    };
    if let Some(directory) = path.parent() {
        let created = match scope {
            SettingScope::User => parallax_exec::create_private_folder(directory),
            SettingScope::Workspace => std::fs::create_dir_all(directory),
        };
        created.map_err(failed)?;
    }
    let mut file = std::fs::File::create_new(&path).map_err(failed)?;
    file.write_all(TEMPLATE.as_bytes()).map_err(failed)?;
    Ok(path)
}
