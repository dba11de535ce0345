//! The built-in rules: embedded rule files, parsed like any other rule file.

use std::path::{Path, PathBuf};

use crate::rule::Rule;
use crate::rule_file::{RuleFile, Tier};
use crate::rule_toml::{ParseOptions, ParsedRules, read};

/// The embedded files with their names in the source tree.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("read.toml", include_str!("defaults/read.toml")),
    ("write.toml", include_str!("defaults/write.toml")),
    ("plan.toml", include_str!("defaults/plan.toml")),
    ("yolo.toml", include_str!("defaults/yolo.toml")),
];

/// Returns the built-in rules; `plans` is the plan directory, if there is one.
pub(crate) fn rules(plans: Option<&Path>) -> Vec<Rule> {
    let possible = match plans {
        Some(folder) => format!(
            "read and search the project, and write the plan as an `.md` file in `{}`",
            folder.display()
        ),
        None => "read and search the project, and return the plan as your answer".to_owned(),
    };
    let mut rules = load().rules;
    for rule in &mut rules {
        if let Some(message) = &mut rule.deny_message {
            *message = message.replace("{possible}", &possible);
        }
    }
    rules
}

fn load() -> ParsedRules {
    let mut all = ParsedRules::default();
    for (name, text) in FILES {
        let file = RuleFile {
            tier: Tier::BuiltIn,
            path: PathBuf::from(name),
            text: Ok((*text).to_owned()),
        };
        let loaded = read(&file, ParseOptions::default());
        all.rules.extend(loaded.rules);
        all.problems.extend(loaded.problems);
    }
    all
}

#[cfg(test)]
mod tests {
    #[test]
    fn default_rule_files_have_no_problems() {
        let loaded = super::load();
        assert_eq!(loaded.problems, []);
        assert_eq!(loaded.rules.len(), 26);
    }
}
