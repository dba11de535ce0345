//! Describes extensions: their permissions and their state.

use std::fmt::Write as _;

use parallax_extensions::{Extension, ExtensionHome, Manifest, Review, SettingValue};
use parallax_headless::one_line;
use parallax_protocol::Object;
use parallax_protocol::code_text::code_text;
use serde_json::{Value, json};

/// Returns the text that the user must agree to.
pub(crate) fn consent_text(
    what: &str,
    manifest: &Manifest,
    review: &Review,
    source: &str,
) -> String {
    let mut text = format!(
        "Extension \"{}\" {} from {} would be {what}.\n",
        manifest.name,
        one_line(&manifest.version),
        one_line(source)
    );
    // Writing to a string cannot fail.
    if !manifest.description.is_empty() {
        let _ = writeln!(text, "{}", one_line(&manifest.description));
    }
    let lines = review.consent_lines();
    if lines.is_empty() {
        text.push_str("It adds nothing.\n");
    } else {
        text.push_str("It adds:\n");
    }
    for line in &lines {
        let _ = writeln!(text, "  {}", code_text(line));
    }
    for note in &review.notes {
        let _ = writeln!(text, "  note: {}", one_line(note));
    }
    text.push_str(
        "Extensions are third-party code that has not been reviewed: their programs run with your \
         permissions, and their text instructs the agent. Install only extensions that you trust.\n",
    );
    text
}

/// Returns the rows of a list.
pub(crate) fn list_rows(extension: &Extension, intact: Option<bool>) -> String {
    let marker = if extension.active { "✓" } else { "✗" };
    let version = one_line(&extension.manifest.version);
    let mut text = format!("{marker} {} ({version})\n", extension.name());
    let mut row = |label: &str, value: &str| {
        let _ = writeln!(text, " {label}: {}", one_line(value));
    };
    row("ID", &extension.id);
    row("Path", &extension.folder.display().to_string());
    if let Some(install) = &extension.install {
        row("Source", &format!("{} (Type: {})", install.source, install.kind.as_str()));
        if let Some(reference) = &install.reference {
            row("Ref", reference);
        }
        if let Some(tag) = &install.release_tag {
            row("Release tag", tag);
        }
    }
    if extension.home == ExtensionHome::Gemini {
        row("Installed by", "Gemini CLI");
    }
    row("Enabled (User)", &extension.enabled_for_user.to_string());
    row("Enabled (Workspace)", &extension.enabled_here.to_string());
    if intact == Some(false) {
        row("Changed", "its files differ from the installed ones");
    }
    let context = extension.context_files();
    let skills = parallax_extensions::skills_of(extension);
    let groups: [(&str, Vec<String>); 4] = [
        ("Context files", context.iter().map(|path| path.display().to_string()).collect()),
        ("MCP servers", extension.manifest.servers.keys().cloned().collect()),
        ("Excluded tools", extension.manifest.exclude_tools.clone()),
        (
            "Agent skills",
            skills.iter().map(|skill| format!("{}: {}", skill.name, skill.description)).collect(),
        ),
    ];
    for (title, names) in groups.into_iter().filter(|(_, names)| !names.is_empty()) {
        let _ = writeln!(text, " {title}:");
        for name in names {
            let _ = writeln!(text, "  {}", one_line(&name));
        }
    }
    if !extension.values.is_empty() {
        text.push_str(" Settings:\n");
        for value in &extension.values {
            let name = one_line(&value.setting.name);
            let _ = writeln!(text, "  {name}: {}", display_value(value));
        }
    }
    text
}

/// Returns a value for display; hides secrets.
fn display_value(value: &SettingValue) -> String {
    match &value.value {
        None => "[not set]".to_owned(),
        Some(_) if value.setting.sensitive => "***".to_owned(),
        Some(text) => one_line(text),
    }
}

/// Returns the description of an extension as JSON.
pub(crate) fn extension_json(extension: &Extension, intact: Option<bool>) -> Value {
    let paths = |paths: Vec<std::path::PathBuf>| -> Vec<String> {
        paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
    };
    let metadata = extension.install.as_ref().map(|install| {
        let mut fields = json!({
            "source": install.source,
            "type": install.kind.as_str(),
            "ref": install.reference,
            "releaseTag": install.release_tag,
            "autoUpdate": install.auto_update,
        });
        if let Value::Object(fields) = &mut fields {
            fields.retain(|_, value| !value.is_null());
        }
        fields
    });
    let values: Vec<Value> = extension
        .values
        .iter()
        .map(|value| {
            json!({
                "name": value.setting.name,
                "envVar": value.setting.variable,
                "sensitive": value.setting.sensitive,
                "value": display_value(value),
            })
        })
        .collect();
    let skills: Vec<Value> = parallax_extensions::skills_of(extension)
        .into_iter()
        .map(|skill| {
            json!({
                "name": skill.name,
                "description": skill.description,
                "location": skill.file.to_string_lossy(),
            })
        })
        .collect();
    json!({
        "name": extension.name(),
        "version": extension.manifest.version,
        "description": extension.manifest.description,
        "id": extension.id,
        "path": extension.folder.to_string_lossy(),
        "installedBy": match extension.home {
            ExtensionHome::Gemini => "gemini",
            ExtensionHome::Parallax => "parallax",
        },
        "isActive": extension.active,
        "enabledForUser": extension.enabled_for_user,
        "enabledForWorkspace": extension.enabled_here,
        "intact": intact,
        "contextFiles": paths(extension.context_files()),
        "installMetadata": metadata,
        "mcpServers": servers(extension),
        "excludeTools": extension.manifest.exclude_tools,
        "resolvedSettings": values,
        "skills": skills,
        "agents": parallax_extensions::agents_of(extension),
        "themes": extension.manifest.themes.iter().filter_map(|theme| theme.get("name")).collect::<Vec<_>>(),
    })
}

/// Returns the MCP servers by name, without fields that may contain secrets after expansion:
/// variables, headers, arguments, and the end of a URL.
fn servers(extension: &Extension) -> Object {
    const SHOWN: [&str; 8] = [
        "command",
        "type",
        "cwd",
        "timeout",
        "trust",
        "description",
        "includeTools",
        "excludeTools",
    ];
    let of = |(name, server): (&String, &Value)| {
        let mut fields = server.as_object().cloned().unwrap_or_default();
        fields.retain(|key, _| SHOWN.contains(&key.as_str()) || key == "url" || key == "httpUrl");
        for key in ["url", "httpUrl"] {
            if let Some(Value::String(url)) = fields.get_mut(key) {
                let end = url.find(['?', '#', '@']).unwrap_or(url.len());
                url.truncate(end);
            }
        }
        (name.clone(), Value::Object(fields))
    };
    extension.manifest.servers.iter().map(of).collect()
}
