//! `activate_skill`: gives the model the instructions of a skill and permission to read its files.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_files::Workspace;
use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, Preview, RunContext, Tool,
    ToolError, ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::json;

use crate::arguments::Arguments;
use crate::failure::invalid_params;

/// Maximum size of the instructions in bytes.
const MAX_BYTES: u64 = 512 * 1024;
/// Maximum number of entries in the file tree.
const ENTRIES: usize = 200;
/// Maximum depth of the file tree.
const DEPTH: usize = 6;

/// Expands variables in the instructions of a skill.
pub type VariableExpander = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// A skill that can be activated.
#[derive(Clone)]
pub struct SkillEntry {
    /// The name.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// Its `SKILL.md` as an absolute path; for a built-in skill only a name.
    pub file: PathBuf,
    /// The text of a built-in skill.
    pub text: Option<&'static str>,
    /// Expands its instructions; `None` leaves them unchanged.
    pub expander: Option<VariableExpander>,
}

impl fmt::Debug for SkillEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkillEntry").field("name", &self.name).field("file", &self.file).finish()
    }
}

impl SkillEntry {
    /// Returns the directory with its files; `None` for built-in skills.
    pub fn folder(&self) -> Option<&Path> {
        match self.text {
            Some(_) => None,
            None => self.file.parent(),
        }
    }

    fn instructions(&self) -> std::io::Result<String> {
        if let Some(text) = self.text {
            return Ok(skip_front_matter(text).to_owned());
        }
        let text = instructions(&self.file)?;
        Ok(self.expander.as_ref().map_or_else(|| text.clone(), |fill| fill(&text)))
    }
}

/// The tool.
#[derive(Debug)]
pub struct ActivateSkill {
    spec: ToolSpec,
    skills: Vec<SkillEntry>,
    workspace: Arc<Workspace>,
}

impl ActivateSkill {
    /// Creates the tool for these skills, of which there must be at least one.
    pub fn new(skills: Vec<SkillEntry>, workspace: Arc<Workspace>) -> Self {
        let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
        let spec = ToolSpec {
            name: "activate_skill".into(),
            display_name: "ActivateSkill".into(),
            description: include_str!("activate_skill/description.md").trim_end().into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "enum": names}
                },
                "required": ["name"]
            }),
            kind: ToolKind::Other,
            concurrency: Concurrency::Exclusive,
            aliases: vec!["ActivateSkillTool".into()],
        };
        Self { spec, skills, workspace }
    }
}

impl Tool for ActivateSkill {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let args = Arguments::check(args, &self.spec)?;
        let name = args.text("name");
        let skill = self.skills.iter().find(|skill| skill.name == name);
        let skill =
            skill.cloned().ok_or_else(|| invalid_params(format!("unknown skill `{name}`")))?;
        let tree = skill.folder().map(tree).unwrap_or_default();
        let reads = skill.folder().map(Path::to_owned).into_iter().collect();
        let effects = Effects { reads, ..Effects::default() };
        Ok(Box::new(ActivateSkillCall {
            skill,
            tree,
            effects,
            workspace: Arc::clone(&self.workspace),
        }))
    }
}

struct ActivateSkillCall {
    skill: SkillEntry,
    tree: String,
    effects: Effects,
    workspace: Arc<Workspace>,
}

impl Invocation for ActivateSkillCall {
    fn title(&self) -> String {
        let SkillEntry { name, description, .. } = &self.skill;
        let Some(folder) = self.skill.folder() else {
            return format!("Activate the built-in skill `{name}` ({description})");
        };
        let files = self.tree.lines().count();
        let directory = folder.display();
        format!("Activate the skill `{name}` ({description}): {files} file(s) in {directory}")
    }

    fn preview(&self) -> Option<Preview> {
        Some(Preview::Skill {
            description: self.skill.description.clone(),
            folder: self.skill.folder()?.to_owned(),
            files: self.tree.lines().map(str::to_owned).collect(),
        })
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, _run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(async move {
            let Self { skill, tree, workspace, .. } = *self;
            let read_task = tokio::task::spawn_blocking(move || {
                let body = skill.instructions()?;
                if let Some(folder) = skill.folder() {
                    // Also allow the resolved path, because skills are often links.
                    workspace.allow_reading(folder);
                }
                Ok::<_, std::io::Error>((activated(&skill, &body, &tree), skill.name))
            });
            let failed = |reason: String| {
                ToolResult::failure(ToolError::new(ToolErrorKind::ExecutionFailed, reason))
            };
            match read_task.await {
                Ok(Ok((text, name))) => ToolResult::text(text)
                    .with_display(Display::text(format!("Skill `{name}` is active"))),
                Ok(Err(error)) => failed(format!("the skill cannot be read: {error}")),
                Err(error) => failed(error.to_string()),
            }
        })
    }
}

/// Returns the tool result of an activated skill. Blocking.
///
/// # Errors
/// Returns an error if its file cannot be read.
pub fn activation(skill: &SkillEntry) -> std::io::Result<String> {
    let tree = skill.folder().map(tree).unwrap_or_default();
    Ok(activated(skill, &skill.instructions()?, &tree))
}

fn activated(skill: &SkillEntry, body: &str, tree: &str) -> String {
    let directory = match skill.folder() {
        Some(folder) => folder.display().to_string(),
        None => "(no files)".to_owned(),
    };
    format!(
        "<activated_skill name=\"{}\">\n<instructions>\n{}\n</instructions>\n\n\
         <available_resources>\n{directory}\n{tree}</available_resources>\n</activated_skill>",
        skill.name,
        body.trim(),
    )
}

/// Returns the text of a skill file without its front matter.
fn instructions(file: &Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let metadata = std::fs::metadata(file)?;
    if !metadata.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Ok(skip_front_matter(text).to_owned())
}

fn skip_front_matter(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("---").filter(|rest| rest.starts_with(['\n', '\r'])) else {
        return text;
    };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        at += line.len();
        if line.trim_end() == "---" {
            return rest.get(at..).unwrap_or("");
        }
    }
    text
}

/// Returns the relative paths of the files below a directory. Links are listed but not followed.
fn tree(directory: &Path) -> String {
    let mut lines = Vec::new();
    let mut pending = vec![(directory.to_owned(), 0)];
    while let Some((path, depth)) = pending.pop() {
        let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
        let mut entries: Vec<_> = entries.take(ENTRIES).collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let hidden = entry.file_name().to_string_lossy().starts_with(".git");
            if is_directory && depth < DEPTH && !hidden {
                pending.push((entry.path(), depth + 1));
            } else if !is_directory {
                let path = entry.path();
                let display_path =
                    path.strip_prefix(directory).unwrap_or(&path).display().to_string();
                lines.push(display_path.replace(char::is_control, "?"));
            }
        }
    }
    lines.sort();
    let cut = lines.len() > ENTRIES;
    lines.truncate(ENTRIES);
    let mut tree = String::new();
    for line in lines {
        tree.push_str(&line);
        tree.push('\n');
    }
    if cut {
        tree.push_str("…\n");
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skill_instructions_exclude_the_front_matter() {
        assert_eq!(skip_front_matter("---\nname: x\n---\nDo it\n---\n"), "Do it\n---\n");
        assert_eq!(skip_front_matter("no settings"), "no settings");
        assert_eq!(skip_front_matter("---\nopen"), "---\nopen");
    }

    #[test]
    fn active_skill_shows_its_files() {
        let directory = tempfile::tempdir().expect("directory");
        let file = directory.path().join("SKILL.md");
        std::fs::create_dir(directory.path().join("scripts")).expect("directory");
        std::fs::write(&file, "---\nname: x\n---\nDo it").expect("written");
        std::fs::write(directory.path().join("scripts/run.sh"), "").expect("written");
        let skill = SkillEntry {
            name: "x".into(),
            description: "y".into(),
            file,
            text: None,
            expander: None,
        };
        let tree = tree(directory.path());
        let options = parallax_files::WorkspaceOptions {
            root: directory.path().to_owned(),
            temp: directory.path().join("temp"),
            ..Default::default()
        };
        let call = ActivateSkillCall {
            skill: skill.clone(),
            tree,
            effects: Effects::default(),
            workspace: Arc::new(Workspace::new(options).expect("a workspace")),
        };
        assert_eq!(
            call.preview(),
            Some(Preview::Skill {
                description: "y".into(),
                folder: directory.path().to_owned(),
                files: vec!["SKILL.md".into(), "scripts/run.sh".into()],
            })
        );
        let text = activation(&skill).expect("read");
        assert!(
            text.starts_with("<activated_skill name=\"x\">\n<instructions>\nDo it\n"),
            "{text}"
        );
        assert!(text.contains("\nSKILL.md\nscripts/run.sh\n"), "{text}");
    }
}
