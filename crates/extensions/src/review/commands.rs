//! Reviews the shell commands in an extension's slash commands.

use std::path::Path;

use parallax_config::commands::{CommandFolder, CommandSource, find_commands};

use super::Review;
use parallax_config::commands::template::shell_blocks;

/// Adds a line for each shell command of a template.
pub(super) fn review_commands(directory: &Path, review: &mut Review) {
    let source = CommandSource::Extension(String::new());
    let found = find_commands(&[CommandFolder { source, folder: directory.join("commands") }]);
    for file in &found.commands {
        for command in shell_blocks(&file.prompt, file.form) {
            let line = format!("command `/{}`: runs `{command}`", file.name);
            if !review.lines.contains(&line) {
                review.lines.push(line);
            }
        }
    }
    for problem in &found.problems {
        let name = problem.path.strip_prefix(directory).unwrap_or(&problem.path);
        review.notes.push(format!("invalid command `{}`: {}", name.display(), problem.message));
    }
}
