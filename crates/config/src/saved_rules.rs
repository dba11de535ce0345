//! Saves policy rules that the user approved.

use std::io;
use std::path::Path;

use parallax_protocol::policy::SuggestedRule;

use crate::error::ConfigError;
use crate::json_state_file;

/// Adds the rule to the file and creates the file if necessary. Does not add a rule that already
/// exists. An invalid file is renamed to `.bak`. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be read or written.
pub fn save_rule(file: &Path, rule: &SuggestedRule) -> Result<(), ConfigError> {
    json_state_file::rewrite(file, |text| match parallax_policy::add_to_file(text, rule) {
        Ok(changed) => Ok(changed),
        Err(_) => {
            let mut name = file.as_os_str().to_owned();
            name.push(".bak");
            std::fs::write(&name, text)?;
            parallax_policy::add_to_file("", rule).map_err(io::Error::other)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_rules_are_deduplicated_and_invalid_file_is_renamed() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("policies/auto-saved.toml");
        let rule = SuggestedRule {
            tool_name: "run_shell_command".into(),
            command_prefix: vec!["git log".into()],
            ..SuggestedRule::default()
        };
        save_rule(&file, &rule).expect("saved");
        let first = std::fs::read_to_string(&file).expect("the file");
        save_rule(&file, &rule).expect("saved");
        assert_eq!(std::fs::read_to_string(&file).expect("the file"), first);
        std::fs::write(&file, "[[rule").expect("broken");
        save_rule(&file, &rule).expect("saved");
        assert_eq!(std::fs::read_to_string(&file).expect("the file"), first);
        let aside = directory.path().join("policies/auto-saved.toml.bak");
        assert_eq!(std::fs::read_to_string(aside).expect("the copy"), "[[rule");
    }
}
