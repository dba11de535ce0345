//! Templates for new extensions.

use std::path::{Path, PathBuf};

use parallax_config::extensions::{MANIFEST, is_name};
use parallax_protocol::event::Failure;
use serde_json::{Value, json};

use crate::ExtensionManager;
use crate::input_failure;

/// Names of the templates.
pub const TEMPLATES: [&str; 7] = [
    "custom-commands",
    "exclude-tools",
    "hooks",
    "mcp-server",
    "policies",
    "skills",
    "themes-example",
];

/// The files of a template besides its manifest.
type TemplateFiles = &'static [(&'static str, &'static str)];

const COMMANDS: TemplateFiles = &[(
    "commands/fs/grep-code.toml",
    "description = \"Look for a word and explain where it is used\"\n\
     prompt = \"\"\"\nWhere is `{{args}}` used, and what for?\n\n!{grep -rn --max-count=5 {{args}} .}\n\"\"\"\n",
)];
const HOOKS: TemplateFiles = &[
    ("hooks/hooks.json", include_str!("templates/hooks.json")),
    (
        "hooks/on-start.sh",
        "#!/bin/sh\n# Reads the event as JSON from stdin and prints its output as JSON.\n\
      cat > /dev/null\necho '{\"systemMessage\": \"The session begins\"}'\n",
    ),
];
const SERVER: TemplateFiles = &[("server.js", include_str!("templates/server.js"))];
const POLICIES: TemplateFiles = &[(
    "policies/policies.toml",
    "# Rules of an extension ask or deny; they cannot allow.\n\n[[rule]]\n\
     toolName = \"run_shell_command\"\ncommandPrefix = \"rm -rf\"\ndecision = \"ask_user\"\n\
     priority = 100\n",
)];
const SKILLS: TemplateFiles = &[(
    "skills/greeter/SKILL.md",
    "---\nname: greeter\ndescription: Use when the user wants to be greeted\n---\n\n\
     # Greeter\n\nGreet the user in one friendly sentence, in their language.\n",
)];

impl ExtensionManager<'_> {
    /// Creates the directory of a new extension and returns its path. Blocking.
    ///
    /// # Errors
    /// Returns an error if the directory exists, the name is invalid, or the template is unknown.
    pub fn new_extension(&self, path: &Path, template: Option<&str>) -> Result<PathBuf, Failure> {
        let directory = self.config.cwd.join(self.config.expand_home(path));
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !is_name(&name) {
            return Err(input_failure(format!(
                "`{name}` is not a valid extension name: use letters, digits, and dashes"
            )));
        }
        if directory.symlink_metadata().is_ok() {
            return Err(input_failure(format!("`{}` already exists", directory.display())));
        }
        let (fields, files) = content(template)?;
        let mut manifest = json!({"name": name, "version": "1.0.0"});
        if let (Value::Object(manifest), Value::Object(fields)) = (&mut manifest, fields) {
            manifest.extend(fields);
        }
        let text = format!("{manifest:#}\n");
        let all = std::iter::once((MANIFEST, text.as_str())).chain(files.iter().copied());
        for (path, text) in all {
            let file = directory.join(path);
            let parent = file.parent().unwrap_or(&directory);
            std::fs::create_dir_all(parent)
                .and_then(|()| std::fs::write(&file, text))
                .map_err(|error| input_failure(format!("`{}`: {error}", file.display())))?;
        }
        Ok(directory)
    }
}

/// Returns the manifest fields and the files of a template.
fn content(template: Option<&str>) -> Result<(Value, TemplateFiles), Failure> {
    let none = json!({});
    Ok(match template {
        None => (none, &[]),
        Some("custom-commands") => (none, COMMANDS),
        Some("exclude-tools") => (json!({"excludeTools": ["run_shell_command(rm -rf)"]}), &[]),
        Some("hooks") => (none, HOOKS),
        Some("mcp-server") => (
            json!({"mcpServers": {"greeter": {
                "command": "node", "args": ["${extensionPath}${/}server.js"]
            }}}),
            SERVER,
        ),
        Some("policies") => (none, POLICIES),
        Some("skills") => (none, SKILLS),
        Some("themes-example") => (
            json!({"themes": [{
                "name": "Dusk", "type": "custom",
                "background": {"primary": "#1d1f2b"},
                "text": {"primary": "#d8dcec", "secondary": "#868ba3", "accent": "#c58fff", "link": "#6fb6ff"},
                "status": {"success": "#8fd18f", "warning": "#e6c36a", "error": "#ef7f7f"}
            }]}),
            &[],
        ),
        Some(other) => {
            return Err(input_failure(format!(
                "unknown template `{other}`; templates: `{}`",
                TEMPLATES.join("`, `")
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use parallax_config::LoadOptions;
    use parallax_http::ClientOptions;

    use super::*;
    #[test]
    fn every_template_is_an_installable_extension() {
        let home = tempfile::tempdir().expect("directory");
        let config = parallax_config::load(LoadOptions {
            cwd: home.path().to_owned(),
            variables: vec![("HOME".into(), home.path().into())],
            skip_trust: true,
            ignore_env: false,
        })
        .expect("a configuration");
        let manager = ExtensionManager {
            config: &config,
            only_extensions: &[],
            loaded_extensions: &OnceLock::new(),
            client: ClientOptions::default(),
            variables: &[],
            cancel: None,
        };
        for template in std::iter::once(None).chain(TEMPLATES.map(Some)) {
            let name = format!("my-{}", template.unwrap_or("bare"));
            let directory = manager.new_extension(Path::new(&name), template).expect("made");
            let (manifest, review) = manager.review_extension(&directory).expect("an extension");
            assert_eq!(manifest.name, name);
            assert_eq!(review.notes, Vec::<String>::new(), "{name}");
            assert_eq!(review.lines.is_empty(), template.is_none(), "{name}");
        }
        assert!(manager.new_extension(Path::new("my-bare"), None).is_err());
        assert!(manager.new_extension(Path::new("x"), Some("what")).is_err());
    }
}
