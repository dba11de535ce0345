//! The manifest of an extension: its metadata and what it provides.

use std::path::{Component, Path, PathBuf};

use parallax_protocol::Object;
use parallax_protocol::code_text::code_text;
use serde_json::Value;

use super::theme_keys::{THEME_GROUPS, THEME_KEYS};
use super::variables::ExtensionVariables;
use crate::commands::one_line;
use crate::jsonc;

/// The file that makes a directory an extension.
pub const MANIFEST: &str = "gemini-extension.json";
/// Used instead of [`MANIFEST`] if both exist.
pub const OWN_MANIFEST: &str = "parallax-extension.json";
/// The context file of an extension that does not name one.
const CONTEXT: &str = "GEMINI.md";
/// Maximum number of entries of one manifest list.
const MAX_COUNT: usize = 200;
/// Maximum number of characters of a description.
const DESCRIPTION: usize = 1_000;
/// Keys that have a special meaning in JavaScript.
const ODD_KEYS: [&str; 3] = ["__proto__", "constructor", "prototype"];

/// A value that an extension asks the user for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionSetting {
    /// The name.
    pub name: String,
    /// The description.
    pub description: String,
    /// The environment variable that passes it to the extension's programs.
    pub variable: String,
    /// Whether it is a secret.
    pub sensitive: bool,
}

/// A parsed manifest with unexpanded variables.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifest {
    /// Letters, digits and dashes.
    pub name: String,
    /// Any text.
    pub version: String,
    /// One line; empty if missing.
    pub description: String,
    /// MCP servers by name.
    pub servers: Object,
    /// Context files; `None` means `GEMINI.md`, if it exists.
    pub context_files: Option<Vec<String>>,
    /// Tools that it hides from the model, in the syntax of `tools.exclude`.
    pub exclude_tools: Vec<String>,
    /// The settings that it asks for.
    pub settings: Vec<ExtensionSetting>,
    /// Color themes, in the format of `ui.customThemes`.
    pub themes: Vec<Object>,
    /// The plan directory, if the user has not set one.
    pub plan_directory: Option<String>,
    /// The source to which the extension has moved.
    pub migrated_to: Option<String>,
    /// Warnings about the manifest, one sentence each.
    pub notes: Vec<String>,
    /// Warnings about misspelled keys and about servers without a required key, one sentence each;
    /// also included in `notes`.
    pub misspelled: Vec<String>,
    /// Warnings about other unknown keys, one sentence each.
    pub unknown: Vec<String>,
}

/// The known keys of a manifest.
const KEYS: &[&str] = &[
    "name",
    "version",
    "description",
    "mcpServers",
    "contextFileName",
    "excludeTools",
    "settings",
    "themes",
    "plan",
    "migratedTo",
];

/// The keys of which an MCP server needs at least one.
const STARTING_KEYS: [&str; 4] = ["command", "httpUrl", "tcp", "url"];

/// The known keys of an MCP server.
const SERVER_KEYS: &[&str] = &[
    "alwaysAllow",
    "args",
    "authProviderType",
    "autoApprove",
    "command",
    "cwd",
    "description",
    "disabled",
    "env",
    "excludeTools",
    "headers",
    "httpUrl",
    "includeTools",
    "oauth",
    "sandbox",
    "serverInstructions",
    "targetAudience",
    "targetServiceAccount",
    "tcp",
    "timeout",
    "transport",
    "trust",
    "type",
    "url",
];

/// The known keys of the `oauth` object of a server.
const OAUTH_KEYS: &[&str] = &[
    "audiences",
    "authorizationUrl",
    "clientId",
    "clientSecret",
    "enabled",
    "issuer",
    "redirectUri",
    "registrationUrl",
    "scopes",
    "tokenParamName",
    "tokenUrl",
];

/// The known keys of an extension setting.
const SETTING_KEYS: &[&str] = &["name", "description", "envVar", "sensitive"];

/// Keys that are only meant for readers and registries.
const ABOUT: &[&str] =
    &["$schema", "author", "authors", "homepage", "icon", "keywords", "license", "repository"];

/// Returns the known key that was probably meant: the same letters in another spelling, or an edit
/// distance of at most two.
fn suggest_key(input: &str, known: &[&'static str]) -> Option<&'static str> {
    let folded = |key: &str| -> String {
        key.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
    };
    let letters = folded(input);
    let slips = |key: &&str| strsim::levenshtein(&folded(key), &letters);
    let nearest = known.iter().min_by_key(|key| slips(key))?;
    let max_distance = (letters.len() / 3).min(2);
    (slips(nearest) <= max_distance).then_some(*nearest)
}

impl Manifest {
    /// Reads the manifest of a directory. Blocking.
    ///
    /// # Errors
    /// Returns the reason why the directory is not an extension, without its path.
    pub fn read(directory: &Path) -> Result<Self, String> {
        let own_manifest = directory.join(OWN_MANIFEST);
        let file = if own_manifest.exists() { own_manifest } else { directory.join(MANIFEST) };
        match jsonc::read_object(&file) {
            Ok(Some(object)) => {
                // Separators are the same for every installation, so that two versions can be
                // compared.
                let mut value = Value::Object(object);
                ExtensionVariables::separators().fill_value(&mut value);
                Self::parse(value.as_object().unwrap_or(&Object::new()))
            }
            Ok(None) => Err(format!("`{MANIFEST}` is missing")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Parses the object of a manifest and notes unknown fields.
    ///
    /// # Errors
    /// Returns an error if the name or version is missing or invalid, or if a field has the wrong
    /// type.
    pub fn parse(object: &Object) -> Result<Self, String> {
        let mut manifest = Self { name: required_text(object, "name")?, ..Self::default() };
        if !is_name(&manifest.name) {
            return Err(format!(
                "its name `{}` must consist of letters, digits, and dashes",
                one_line(&code_text(&manifest.name), 60)
            ));
        }
        manifest.version = required_text(object, "version")?;
        manifest.description = one_line(&text(object, "description")?, DESCRIPTION);
        manifest.servers = match object.get("mcpServers") {
            None | Some(Value::Null) => Object::new(),
            Some(Value::Object(servers)) => servers.clone(),
            Some(_) => return Err("`mcpServers` must be an object".to_owned()),
        };
        manifest.servers.retain(|name, _| !ODD_KEYS.contains(&name.as_str()));
        manifest.context_files = match object.get("contextFileName") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => Some(vec![name.clone()]),
            Some(value) => Some(string_list(value, "contextFileName").map_err(|_| {
                "`contextFileName` must be a string or a list of strings".to_owned()
            })?),
        };
        if let Some(value) = object.get("excludeTools").filter(|value| !value.is_null()) {
            manifest.exclude_tools = string_list(value, "excludeTools")?;
        }
        manifest.settings = settings(object, &mut manifest.notes)?;
        for theme in
            object.get("themes").and_then(Value::as_array).into_iter().flatten().take(MAX_COUNT)
        {
            match theme.as_object() {
                Some(theme) => {
                    manifest.check_theme(theme);
                    manifest.themes.push(theme.clone());
                }
                None => manifest.notes.push("its themes must be objects".to_owned()),
            }
        }
        manifest.plan_directory = object
            .get("plan")
            .and_then(|plan| plan.get("directory"))
            .and_then(Value::as_str)
            .map(str::to_owned);
        manifest.check_keys("", object, KEYS);
        match object.get("plan") {
            None | Some(Value::Null) => {}
            Some(Value::Object(plan)) => {
                manifest.check_keys("plan.", plan, &["directory"]);
                if plan.get("directory").is_some_and(|value| !value.is_string()) {
                    manifest.misspelled.push("`plan.directory` must be a string".to_owned());
                }
            }
            Some(_) => {
                let reason = "`plan` must be an object, such as `{\"directory\": \"plans\"}`";
                manifest.misspelled.push(reason.to_owned());
            }
        }
        if object.get("themes").is_some_and(|themes| !themes.is_array() && !themes.is_null()) {
            manifest.misspelled.push("`themes` must be a list".to_owned());
        }
        for (name, server) in &manifest.servers.clone() {
            if let Some(server) = server.as_object() {
                if !STARTING_KEYS.iter().any(|key| server.contains_key(*key)) {
                    manifest.misspelled.push(format!(
                        "the MCP server `{}` has neither `command` nor `url`",
                        one_line(name, 60)
                    ));
                }
                manifest.check_keys(
                    &format!("mcpServers.{}.", one_line(name, 60)),
                    server,
                    SERVER_KEYS,
                );
                if let Some(oauth) = server.get("oauth").and_then(Value::as_object) {
                    let prefix = format!("mcpServers.{}.oauth.", one_line(name, 60));
                    manifest.check_keys(&prefix, oauth, OAUTH_KEYS);
                }
            }
        }
        for setting in object.get("settings").and_then(Value::as_array).into_iter().flatten() {
            if let Some(setting) = setting.as_object() {
                manifest.check_keys("settings.", setting, SETTING_KEYS);
            }
        }
        manifest.notes.extend(manifest.misspelled.iter().cloned());
        manifest.migrated_to =
            Some(text(object, "migratedTo")?).filter(|address| !address.is_empty());
        Ok(manifest)
    }

    /// Notes the unknown keys of an object; `prefix` is its location in the manifest.
    fn check_keys(&mut self, prefix: &str, object: &Object, known: &[&'static str]) {
        for key in object.keys().filter(|key| !known.contains(&key.as_str())) {
            let display_name = format!("{prefix}{}", one_line(key, 60));
            match suggest_key(key, known) {
                Some(known) => self
                    .misspelled
                    .push(format!("unknown key `{display_name}`; did you mean `{known}`?")),
                None if ABOUT.contains(&key.as_str()) => {}
                None => self.unknown.push(format!("unknown key `{display_name}`")),
            }
        }
    }

    /// Notes the unknown keys of a theme and its groups.
    fn check_theme(&mut self, theme: &Object) {
        self.check_keys("themes.", theme, THEME_KEYS);
        for (path, known) in THEME_GROUPS {
            let mut names = path.split('.');
            let first = names.next().and_then(|name| theme.get(name));
            let group = names.fold(first, |group, name| group?.get(name));
            match group {
                Some(Value::Object(group)) => {
                    self.check_keys(&format!("themes.{path}."), group, known);
                }
                None | Some(Value::Null) => {}
                Some(_) => self.misspelled.push(format!("`themes.{path}` must be an object")),
            }
        }
    }

    /// Returns the context files that exist and stay inside the directory, with links resolved, and
    /// warnings about the others.
    pub fn context_paths(&self, directory: &Path) -> (Vec<PathBuf>, Vec<String>) {
        let Some(names) = &self.context_files else {
            let standard = directory.join(CONTEXT);
            let (found, _) = context_files_inside(directory, &[CONTEXT.to_owned()]);
            return if standard.is_file() { (found, Vec::new()) } else { Default::default() };
        };
        context_files_inside(directory, names)
    }

    /// Returns the names of context files that contain environment or setting variables, on one
    /// line. They are resolved only where the extension is used.
    pub fn variable_context_files(&self) -> Vec<String> {
        let names = self.context_files.iter().flatten();
        let names = names.filter(|name| name.trim_start_matches("${extensionPath}").contains('$'));
        names.map(|name| one_line(name, 100)).collect()
    }
}

/// Whether a string is a valid extension name, which is also a directory name.
pub fn is_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether a relative path never leaves its directory.
fn stays_inside(relative: &Path) -> bool {
    let mut depth = 0_usize;
    relative.components().all(|part| {
        let next = match part {
            Component::Normal(_) => depth.checked_add(1),
            Component::CurDir => Some(depth),
            Component::ParentDir => depth.checked_sub(1),
            Component::RootDir | Component::Prefix(_) => None,
        };
        depth = next.unwrap_or_default();
        next.is_some()
    })
}

fn context_files_inside(directory: &Path, names: &[String]) -> (Vec<PathBuf>, Vec<String>) {
    let (mut paths, mut problems) = (Vec::new(), Vec::new());
    let root = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    for name in names {
        // Names are relative to the extension directory anyway.
        let own = name.strip_prefix("${extensionPath}").map(|rest| rest.trim_start_matches('/'));
        let relative = Path::new(own.unwrap_or(name));
        let is_plain = stays_inside(relative);
        let display_name = one_line(name, 100);
        if name.trim().is_empty() {
            problems.push("`contextFileName` has an empty name".to_owned());
            continue;
        }
        if !is_plain || name.starts_with("${workspacePath}") {
            problems.push(format!("its context file `{display_name}` is outside its directory"));
            continue;
        }
        match std::fs::canonicalize(root.join(relative)) {
            Ok(real) if real.starts_with(&root) && !real.is_dir() => paths.push(real),
            Ok(real) if real.starts_with(&root) => {
                problems.push(format!("its context file `{display_name}` is a directory"));
            }
            Ok(_) => problems.push(format!(
                "its context file `{display_name}` is a link to a path outside \
                its directory"
            )),
            Err(_) => problems.push(format!("its context file `{display_name}` does not exist")),
        }
    }
    (paths, problems)
}

fn settings(object: &Object, notes: &mut Vec<String>) -> Result<Vec<ExtensionSetting>, String> {
    let entries = match object.get("settings") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(entries)) => entries,
        Some(_) => return Err("`settings` must be a list".to_owned()),
    };
    let mut found: Vec<ExtensionSetting> = Vec::new();
    for entry in entries.iter().take(MAX_COUNT) {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        let (name, variable) = (one_line(text("name"), 100), text("envVar").to_owned());
        if !is_variable(&variable) {
            notes.push(format!(
                "its setting `{name}` is ignored: `{}` is not a valid variable name",
                one_line(&variable, 60)
            ));
            continue;
        }
        if found.iter().any(|known| known.variable == variable) {
            notes.push(format!("its setting `{name}` is ignored: `{variable}` is defined twice"));
            continue;
        }
        found.push(ExtensionSetting {
            name: if name.is_empty() { variable.clone() } else { name },
            description: one_line(text("description"), DESCRIPTION),
            variable,
            sensitive: entry.get("sensitive").and_then(Value::as_bool).unwrap_or(false),
        });
    }
    Ok(found)
}

fn is_variable(name: &str) -> bool {
    let first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.len() <= 200
        && name.bytes().next().is_some_and(first)
        && name.bytes().all(|byte| first(byte) || byte.is_ascii_digit())
}

fn required_text(object: &Object, key: &str) -> Result<String, String> {
    let value = text(object, key)?;
    if value.trim().is_empty() {
        return Err(format!("`{key}` is missing"));
    }
    Ok(value.trim().to_owned())
}

fn text(object: &Object, key: &str) -> Result<String, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("`{key}` must be a string")),
    }
}

fn string_list(value: &Value, key: &str) -> Result<Vec<String>, String> {
    let to_error = || format!("`{key}` must be a list of strings");
    let items = value.as_array().ok_or_else(to_error)?;
    items
        .iter()
        .take(MAX_COUNT)
        .map(|item| item.as_str().map(str::to_owned).ok_or_else(to_error))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(value: &Value) -> Result<Manifest, String> {
        Manifest::parse(value.as_object().expect("object"))
    }

    #[test]
    fn manifest_with_unknown_fields_is_parsed() {
        let manifest = parse(&json!({
            "name": "my-Ext2", "version": "v1", "author": {"x": 1}, "description": "a\nb",
            "mcpServers": {"s": {"command": "c"}, "__proto__": {}},
            "contextFileName": "a.md", "excludeTools": ["run_shell_command(rm)"],
            "settings": [
                {"name": "Key", "description": "k", "envVar": "MY_KEY", "sensitive": true},
                {"name": "Bad", "envVar": "A-B"}, {"name": "Again", "envVar": "MY_KEY"}
            ],
            "themes": [{"name": "t", "type": "custom"}], "plan": {"directory": "p"},
            "migratedTo": "https://example.org/x"
        }))
        .expect("a manifest");
        assert_eq!((manifest.name.as_str(), manifest.description.as_str()), ("my-Ext2", "a b"));
        assert_eq!(manifest.servers.keys().collect::<Vec<_>>(), ["s"]);
        assert_eq!(manifest.settings.len(), 1);
        assert!(manifest.settings[0].sensitive && manifest.notes.len() == 2);
        assert_eq!(manifest.plan_directory.as_deref(), Some("p"));
    }

    #[test]
    fn unknown_theme_keys_and_invalid_plan_settings_are_reported() {
        let base = json!({"name": "a", "version": "1"});
        let notes = |key: &str, value: Value| {
            let mut object = base.as_object().cloned().expect("object");
            object.insert(key.to_owned(), value);
            let manifest = Manifest::parse(&object).expect("a manifest");
            [manifest.misspelled, manifest.unknown].concat().join("; ")
        };
        for (key, value, expected) in [
            ("themes", json!([{"name": "t", "colour": "red"}]), "unknown key `themes.colour`"),
            (
                "themes",
                json!([{"name": "t", "text": {"primry": "red"}}]),
                "unknown key `themes.text.primry`; did you mean `primary`?",
            ),
            (
                "themes",
                json!([{"name": "t", "background": {"diff": {"changed": "red"}}}]),
                "unknown key `themes.background.diff.changed`",
            ),
            ("themes", json!([{"name": "t", "ui": "red"}]), "`themes.ui` must be an object"),
            ("themes", json!({}), "`themes` must be a list"),
            ("plan", json!("x"), "`plan` must be an object"),
            ("plan", json!({"directory": 5}), "`plan.directory` must be a string"),
            ("plan", json!({"dir": "x"}), "unknown key `plan.dir`"),
        ] {
            let notes = notes(key, value.clone());
            assert!(notes.contains(expected), "{value}: {notes}");
        }
        let theme = json!([{"name": "t", "type": "custom", "text": {"primary": "#fff", "link": ""},
            "background": {"primary": "#000", "diff": {"added": "#020"}}, "AccentBlue": "blue",
            "ui": {"gradient": ["red"]}}]);
        assert_eq!(notes("themes", theme), "");
        assert_eq!(notes("plan", json!({"directory": "p"})), "");
    }

    #[test]
    fn invalid_manifest_is_reported() {
        for (value, reason) in [
            (json!({"version": "1"}), "`name` is missing"),
            (json!({"name": "a"}), "`version` is missing"),
            (json!({"name": "../a", "version": "1"}), "letters, digits, and dashes"),
            (json!({"name": "a\u{1b}]0;x", "version": "1"}), "`a␛]0;x`"),
            (json!({"name": "a", "version": 1}), "`version` must be a string"),
            (json!({"name": "a", "version": "1", "mcpServers": []}), "`mcpServers`"),
            (json!({"name": "a", "version": "1", "excludeTools": [1]}), "`excludeTools`"),
        ] {
            let error = parse(&value).expect_err("no manifest");
            assert!(error.contains(reason), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn context_files_outside_the_extension_are_rejected() {
        let directory = tempfile::tempdir().expect("directory");
        let root = directory.path().join("ext");
        std::fs::create_dir(&root).expect("made");
        std::fs::write(directory.path().join("secret"), "s").expect("written");
        std::fs::write(root.join("GEMINI.md"), "g").expect("written");
        std::os::unix::fs::symlink("../secret", root.join("link.md")).expect("link");
        let manifest = |names: Option<&[&str]>| Manifest {
            context_files: names.map(|names| names.iter().map(|it| (*it).to_owned()).collect()),
            ..Manifest::default()
        };
        assert_eq!(manifest(None).context_paths(&root).0.len(), 1);
        let names = ["GEMINI.md", "../secret", "/etc/passwd", "link.md", "gone.md"];
        let (paths, problems) = manifest(Some(&names)).context_paths(&root);
        assert_eq!((paths.len(), problems.len()), (1, 4), "{problems:?}");
    }
}
