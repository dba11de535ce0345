//! Where extensions are enabled: rules about directories, of which the last match applies. Without
//! a match, an extension is enabled.

use std::path::{Path, PathBuf};

use jsonc_parser::cst::CstInputValue;
use serde_json::Value;

use crate::error::ConfigError;
use crate::user_dirs::UserDirs;
use crate::{json_state_file, jsonc};

const FILE: &str = "extensions/extension-enablement.json";
/// The rule for all directories.
const EVERYWHERE: &str = "/*";

/// The scope of an enablement rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtensionScope<'a> {
    /// All directories.
    User,
    /// This directory and those below it.
    Workspace(&'a Path),
}

impl ExtensionScope<'_> {
    fn rule(self) -> String {
        match self {
            Self::User => EVERYWHERE.to_owned(),
            Self::Workspace(folder) => format!("{}*", with_slash(&real_path(folder))),
        }
    }
}

/// The rules of both user directories; those in `~/.parallax` come last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Enablement {
    gemini_rules: Vec<(String, Vec<String>)>,
    own_rules: Vec<(String, Vec<String>)>,
}

impl Enablement {
    /// Reads the rules. Blocking.
    pub(crate) fn read(dirs: &UserDirs, warnings: &mut Vec<String>) -> Self {
        let mut rules = |home: &Path| match read(&home.join(FILE)) {
            Ok(rules) => rules,
            Err(error) => {
                warnings.push(format!("{error}; its rules are ignored"));
                Vec::new()
            }
        };
        Self { gemini_rules: rules(&dirs.gemini), own_rules: rules(&dirs.parallax) }
    }

    /// Whether an extension is enabled in a directory.
    pub(crate) fn is_on(&self, name: &str, directory: &Path) -> bool {
        let names = [with_slash(directory), with_slash(&real_path(directory))];
        let of = |rules: &[(String, Vec<String>)]| {
            rules.iter().find(|(known, _)| known == name).map(|(_, rules)| rules.clone())
        };
        let rules = of(&self.gemini_rules).into_iter().chain(of(&self.own_rules)).flatten();
        let mut on = true;
        for rule in rules {
            let (rule, says) = match rule.strip_prefix('!') {
                Some(rule) => (rule.to_owned(), false),
                None => (rule, true),
            };
            if names.iter().any(|directory| covers(&rule, directory)) {
                on = says;
            }
        }
        on
    }

    /// Whether the rules in `~/.gemini` alone would disable it somewhere.
    fn is_disabled_by_gemini(&self, name: &str) -> bool {
        let theirs = self.gemini_rules.iter().find(|(known, _)| known == name);
        theirs.is_some_and(|(_, rules)| rules.iter().any(|rule| rule.starts_with('!')))
    }
}

/// Enables or disables an extension for a scope; without a scope, enables it everywhere. Written
/// only to the file in `~/.parallax`. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be read or written.
pub fn switch_extension(
    dirs: &UserDirs,
    name: &str,
    on: bool,
    scope: Option<ExtensionScope<'_>>,
) -> Result<(), ConfigError> {
    let known = Enablement::read(dirs, &mut Vec::new());
    let mut rules = Vec::new();
    if let Some((_, ours)) = known.own_rules.iter().find(|(known, _)| known == name) {
        rules.clone_from(ours);
    }
    match scope {
        None => {
            rules.clear();
            if !on {
                rules.push(format!("!{EVERYWHERE}"));
            } else if known.is_disabled_by_gemini(name) {
                rules.push(EVERYWHERE.to_owned());
            }
        }
        Some(scope) => {
            let rule = scope.rule();
            // Rules that the new one covers are obsolete.
            rules.retain(|old| !covers(&rule, old.trim_start_matches('!').trim_end_matches('*')));
            rules.push(if on { rule } else { format!("!{rule}") });
        }
    }
    write(dirs, name, &rules)
}

/// Removes all rules of an extension. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be read or written.
pub fn forget_extension_switches(dirs: &UserDirs, name: &str) -> Result<(), ConfigError> {
    write(dirs, name, &[])
}

fn write(dirs: &UserDirs, name: &str, rules: &[String]) -> Result<(), ConfigError> {
    let file = dirs.parallax.join(FILE);
    if rules.is_empty() && !file.exists() {
        return Ok(());
    }
    json_state_file::update(&file, |root| {
        let texts = rules.iter().map(|rule| CstInputValue::String(rule.clone())).collect();
        let entry =
            CstInputValue::Object(vec![("overrides".to_owned(), CstInputValue::Array(texts))]);
        match (root.get(name), rules.is_empty()) {
            (Some(there), true) => there.remove(),
            (Some(there), false) => there.set_value(entry),
            (None, true) => {}
            (None, false) => drop(root.append(name, entry)),
        }
    })
}

fn read(file: &Path) -> Result<Vec<(String, Vec<String>)>, ConfigError> {
    let known = jsonc::read_object(file)?.unwrap_or_default();
    let rules = |entry: &Value| {
        let rules = entry.get("overrides").and_then(Value::as_array);
        rules.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    Ok(known.iter().map(|(name, entry)| (name.clone(), rules(entry))).collect())
}

/// Whether a rule (without its `!`) covers a directory (with a trailing slash).
fn covers(rule: &str, directory: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(prefix) => directory.starts_with(prefix),
        None => directory.trim_end_matches('/') == rule.trim_end_matches('/'),
    }
}

fn with_slash(directory: &Path) -> String {
    let mut text = directory.to_string_lossy().replace('\\', "/");
    if !text.ends_with('/') {
        text.push('/');
    }
    text
}

fn real_path(directory: &Path) -> PathBuf {
    std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_matching_enablement_rule_wins() {
        let rules = |rules: &[&str]| Enablement {
            gemini_rules: vec![(
                "e".to_owned(),
                rules.iter().map(|rule| (*rule).to_owned()).collect(),
            )],
            own_rules: Vec::new(),
        };
        for (list, on) in [
            (&[][..], true),
            (&["!/h/*"], false),
            (&["!/h/*", "/h/p/"], true),
            (&["/h/*", "!/h/p/*"], false),
            (&["!/h/p"], false),
            (&["!/h/pp/*", "!/other/*"], true),
            (&["!/*"], false),
        ] {
            assert_eq!(rules(list).is_on("e", Path::new("/h/p")), on, "{list:?}");
        }
        assert!(rules(&["!/*"]).is_on("other", Path::new("/h/p")));
    }

    #[test]
    fn switch_replaces_covered_rules_and_does_not_write_the_gemini_file() {
        let directory = tempfile::tempdir().expect("directory");
        let root = std::fs::canonicalize(directory.path()).expect("real");
        let dirs = UserDirs {
            user: root.clone(),
            gemini: root.join(".gemini"),
            parallax: root.join(".parallax"),
        };
        let (one, two) = (root.join("one"), root.join("one/two"));
        std::fs::create_dir_all(&two).expect("folders");
        let theirs = dirs.gemini.join(FILE);
        std::fs::create_dir_all(theirs.parent().expect("parent")).expect("directory");
        std::fs::write(&theirs, r#"{"e": {"overrides": ["!/*"]}}"#).expect("written");
        let on = |directory: &Path| Enablement::read(&dirs, &mut Vec::new()).is_on("e", directory);
        assert!(!on(&one));
        switch_extension(&dirs, "e", true, None).expect("on");
        assert!(on(&one) && on(&two));
        let here = |directory| Some(ExtensionScope::Workspace(directory));
        switch_extension(&dirs, "e", false, here(&two)).expect("off");
        assert!(on(&one) && !on(&two));
        switch_extension(&dirs, "e", true, here(&one)).expect("on");
        assert!(on(&two));
        switch_extension(&dirs, "e", false, Some(ExtensionScope::User)).expect("off");
        assert!(!on(&one) && !on(&two));
        let rules = read(&dirs.parallax.join(FILE)).expect("read");
        assert_eq!(rules, [("e".to_owned(), vec!["!/*".to_owned()])]);
        assert!(std::fs::read_to_string(&theirs).expect("theirs").contains("!/*"));
    }
}
