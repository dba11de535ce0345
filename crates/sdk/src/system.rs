//! The system prompt of a session: the built-in sections or the user's own text, additions of the
//! user, skills, and the user's memory.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_agents::{SessionAgents, SessionSkills};
use parallax_config::{PromptFileSources, PromptFiles};
use parallax_engine::SystemPrompt;
use parallax_engine::prompt::{PromptFlags, SectionText, assemble, suffixes};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::policy::{ApprovalMode, PolicyEngine};
use parallax_protocol::tool::Tool;

use crate::sandbox;
use crate::session_config::{SessionConfig, failure};

/// Name of the skills section for `GEMINI_PROMPT_<SUFFIX>`; the engine does not define it.
const SKILLS: &str = "AGENTSKILLS";
/// Name of the agents section.
const AGENTS: &str = "AGENTCONTEXTS";

/// The inputs of the system prompt.
pub(crate) struct PromptMaterial {
    /// Flags of the sections. Those for the mode are set per mode.
    pub(crate) flags: PromptFlags<'static>,
    /// The user's prompt files.
    pub(crate) files: PromptFiles,
    /// Suffixes of disabled sections.
    pub(crate) off: HashSet<String>,
    /// `--append-system-prompt`.
    pub(crate) append: Option<String>,
    /// The skills, whose section changes with them.
    pub(crate) skills: Option<Arc<SessionSkills>>,
    /// The agents, whose section changes with them.
    pub(crate) agents: Option<Arc<SessionAgents>>,
    /// Names of all tools, including those that are not declared currently.
    pub(crate) tools: Vec<String>,
    /// The user's memory with its delimiters.
    pub(crate) memory: String,
    /// Directory for plans.
    pub(crate) plans: PathBuf,
    /// Directory of the user's notes on the project.
    pub(crate) notes: PathBuf,
}

impl PromptMaterial {
    fn text(&self, mode: ApprovalMode, declared: &[String], agents: &str, skills: &str) -> String {
        let has = |tool: &str| declared.iter().any(|name| name == tool);
        // Omit sections about tools that are not declared.
        let agents = if has("invoke_agent") { agents } else { "" };
        let skills = if has("activate_skill") { skills } else { "" };
        let mut text = match &self.files.replacement {
            Some((_, whole)) => self.expand_variables(whole, declared, agents, skills),
            None => {
                let mut text = self.built_in(mode, declared);
                for (switch, section) in [(AGENTS, agents), (SKILLS, skills)] {
                    if !section.is_empty() && !self.off.contains(switch) {
                        text.push('\n');
                        text.push_str(section);
                    }
                }
                text
            }
        };
        for more in self.files.append.iter().chain(&self.append) {
            text = format!("{}\n\n{}\n", text.trim_end(), more.trim());
        }
        if !self.memory.is_empty() {
            text.push('\n');
            text.push_str(&self.memory);
        }
        text
    }

    /// Builds the sections, with the user's replacements.
    fn built_in(&self, mode: ApprovalMode, declared: &[String]) -> String {
        let flags = PromptFlags {
            yolo: mode == ApprovalMode::Yolo,
            plan: mode == ApprovalMode::Plan,
            tools: declared,
            ..self.flags
        };
        let text = sections(flags, &self.files, &self.off);
        let text = text.replace("{notes}", &self.notes.display().to_string());
        match flags.plan {
            true => text.replace("{plans}", &self.plans.display().to_string()),
            false => text,
        }
    }

    /// Fills in the variables of a user's text. Unknown variables stay unchanged.
    fn expand_variables(
        &self,
        text: &str,
        declared: &[String],
        agents: &str,
        skills: &str,
    ) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            filled.push_str(before);
            let value = after.split_once('}').and_then(|(name, behind)| {
                let value = self.variable(name, declared, agents, skills)?;
                rest = behind;
                Some(value)
            });
            match value {
                Some(value) => filled.push_str(&value),
                None => {
                    filled.push_str("${");
                    rest = after;
                }
            }
        }
        filled.push_str(rest);
        filled
    }

    fn variable(
        &self,
        name: &str,
        declared: &[String],
        agents: &str,
        skills: &str,
    ) -> Option<String> {
        match name {
            "AgentSkills" => Some(skills.to_owned()),
            "SubAgents" => Some(agents.to_owned()),
            "AvailableTools" => {
                let lines: Vec<String> = declared.iter().map(|tool| format!("- {tool}")).collect();
                Some(lines.join("\n"))
            }
            name => {
                let tool = name.strip_suffix("_ToolName")?;
                self.tools.iter().chain(declared).find(|known| *known == tool).cloned()
            }
        }
    }
}

/// Builds the sections, with the user's replacements.
fn sections(flags: PromptFlags<'_>, files: &PromptFiles, off: &HashSet<String>) -> String {
    assemble(flags, &|suffix| match files.sections.get(&suffix.to_ascii_lowercase()) {
        _ if off.contains(suffix) => SectionText::Off,
        Some(text) => SectionText::Text(text),
        None => SectionText::BuiltIn,
    })
}

/// The inputs of a built prompt: the mode, the declared tools, and the sections about agents and
/// skills.
type PromptCacheKey = (ApprovalMode, Box<[String]>, [Arc<str>; 2]);

/// Returns a function that builds the prompt for a mode and the declared tools. Equal inputs give
/// identical bytes throughout the session, so that the provider's cache applies.
pub(crate) fn prompt(material: PromptMaterial) -> SystemPrompt {
    let none: Arc<str> = Arc::from("");
    let last = std::sync::Mutex::new(None::<(PromptCacheKey, Arc<str>)>);
    Box::new(move |mode, declared| {
        let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // The sections change with the agents and skills.
        let agents = material.agents.as_ref().map(|agents| agents.section());
        let skills = material.skills.as_ref().map(|skills| skills.section());
        let sections = [agents, skills].map(|it| it.unwrap_or_else(|| Arc::clone(&none)));
        let [agents, skills] = &sections;
        match &*last {
            Some(((known, tools, previous_sections), text))
                if *known == mode
                    && **tools == *declared
                    && previous_sections
                        .iter()
                        .zip(&sections)
                        .all(|(previous_sections, now)| Arc::ptr_eq(previous_sections, now)) =>
            {
                Arc::clone(text)
            }
            _ => {
                let text: Arc<str> = material.text(mode, declared, agents, skills).into();
                *last = Some(((mode, declared.into(), sections), Arc::clone(&text)));
                text
            }
        }
    })
}

/// The start of the built-in prompt in all its variants.
const BEGINNING: &str = "You are Parallax";

/// Writes the built-in prompt to the file that `GEMINI_WRITE_SYSTEM_MD` names. It only overwrites
/// files that start like the built-in prompt. Blocking.
pub(crate) fn write_built_in(
    material: &PromptMaterial,
    mode: ApprovalMode,
    declared: &[String],
) -> Result<(), Failure> {
    let Some(path) = &material.files.write_to else { return Ok(()) };
    // Write the lists as variables, so that a session that reads the file with `GEMINI_SYSTEM_MD`
    // fills in its own lists.
    let mut text = material.built_in(mode, declared);
    for (switch, variable) in [(AGENTS, "${SubAgents}"), (SKILLS, "${AgentSkills}")] {
        if !material.off.contains(switch) {
            text.push('\n');
            text.push_str(variable);
        }
    }
    text.push('\n');
    let is_other = |there: std::fs::Metadata| {
        let same = || std::fs::read_to_string(path).is_ok_and(|existing| existing == text);
        !there.is_file() || !(is_built_in(path) || same())
    };
    if path.symlink_metadata().is_ok_and(is_other) {
        let message = format!(
            "`GEMINI_WRITE_SYSTEM_MD`: `{}` already exists with other content; move it, or use \
             another file",
            path.display()
        );
        return Err(failure(FailureKind::Config, message));
    }
    let written = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(path, &text));
    written.map_err(|error| {
        let message = format!("failed to write the system prompt to `{}`: {error}", path.display());
        failure(FailureKind::Config, message)
    })
}

/// Returns whether a file starts like the built-in prompt.
fn is_built_in(path: &Path) -> bool {
    use std::io::Read as _;
    let mut start = [0; BEGINNING.len()];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *BEGINNING.as_bytes()
}

/// Returns the sections of a non-interactive session with these tools, for a subagent that
/// works like the session. Blocking.
pub(crate) fn subagent_prompt(launch: &SessionConfig, root: &Path, tools: &[String]) -> String {
    let sandbox = sandbox::confinement(launch);
    let flags = PromptFlags { git: in_git(root), sandbox, tools, ..PromptFlags::default() };
    // Problems with the files were reported when the session was opened.
    let files = prompt_files(launch).unwrap_or_default();
    let text = sections(flags, &files, &disabled_sections(launch));
    let notes = launch.dirs().notes(&launch.options.directory);
    text.replace("{notes}", &notes.display().to_string())
}

/// Returns the user's prompt files. Blocking.
pub(crate) fn prompt_files(launch: &SessionConfig) -> Result<PromptFiles, Failure> {
    let sections: Vec<String> = suffixes().map(str::to_ascii_lowercase).collect();
    let sections: Vec<&str> = sections.iter().map(String::as_str).collect();
    let config = &launch.config;
    parallax_config::prompt_files(&PromptFileSources {
        environment: &config.environment,
        dirs: &config.dirs,
        cwd: &config.cwd,
        trusted: config.trust.trusted,
        sections: &sections,
    })
    .map_err(|error| failure(FailureKind::Config, error.to_string()))
}

/// Returns the names of the tools that are declared at the start.
pub(crate) fn declared_tools(
    launch: &SessionConfig,
    tools: &[Arc<dyn Tool>],
    policy_engine: &dyn PolicyEngine,
) -> Vec<String> {
    let (mode, interactive) = (launch.mode, launch.options.interactive);
    let specs = tools.iter().filter(|tool| tool.is_declared(mode)).map(|tool| tool.spec());
    let seen = specs
        .filter(|spec| !policy_engine.is_tool_denied(&spec.name, &spec.aliases, mode, interactive));
    seen.map(|spec| spec.name.clone()).collect()
}

/// Returns a warning if `tools.core` has entries but none of them is an available tool: a
/// misspelled list leaves the model without tools.
pub(crate) fn missing_core_tools_warning(
    launch: &SessionConfig,
    offered: &[String],
) -> Option<String> {
    let core = launch.config.settings.core_tools().unwrap_or_default();
    let is_server_tool = |entry: &String| entry.starts_with("mcp_") || entry == "*";
    if !offered.is_empty() || core.is_empty() || core.iter().any(is_server_tool) {
        return None;
    }
    Some(format!(
        "The model has no tools: none of those in `tools.core` (`{}`) exists, or they are \
         excluded. For the tool names, see the page on tools (`/docs`)",
        core.join("`, `")
    ))
}

/// Returns the suffixes of sections that `GEMINI_PROMPT_<SUFFIX>=0` disables.
pub(crate) fn disabled_sections(launch: &SessionConfig) -> HashSet<String> {
    let is_off = |suffix: &&str| -> bool {
        let name = format!("GEMINI_PROMPT_{suffix}");
        matches!(launch.config.environment.get(&name), Some("0" | "false"))
    };
    suffixes().chain([SKILLS, AGENTS]).filter(is_off).map(str::to_owned).collect()
}

/// Returns whether the directory is in a Git repository.
pub(crate) fn in_git(directory: &Path) -> bool {
    directory.ancestors().any(|directory| directory.join(".git").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn material() -> PromptMaterial {
        PromptMaterial {
            flags: PromptFlags::default(),
            files: PromptFiles::default(),
            off: HashSet::new(),
            append: Some("Say please.".to_owned()),
            skills: None,
            agents: None,
            tools: vec!["read_file".to_owned(), "glob".to_owned()],
            memory: "<loaded_context>\n</loaded_context>".to_owned(),
            plans: PathBuf::new(),
            notes: PathBuf::from("/n"),
        }
    }

    fn declared() -> [String; 3] {
        ["read_file", "activate_skill", "invoke_agent"].map(str::to_owned)
    }

    #[test]
    fn user_system_prompt_replaces_all_sections() {
        let mut material = material();
        let text = "Use ${glob_ToolName}, ${x} and ${AvailableTools}. ${AgentSkills}${";
        material.files.replacement = Some(("/s.md".into(), text.to_owned()));
        assert_eq!(
            material.text(ApprovalMode::Default, &declared(), "# Agents\n", "# Skills\n"),
            "Use glob, ${x} and - read_file\n- activate_skill\n- invoke_agent. # Skills\n${\n\nSay please.\n\n\
             <loaded_context>\n</loaded_context>"
        );
    }

    #[test]
    fn prompt_orders_sections_skills_additions_and_memory() {
        let mut material = material();
        material.files.append = vec!["Be exact.".to_owned()];
        let text = material.text(ApprovalMode::Default, &declared(), "# Agents\n", "# Skills\n");
        let places =
            ["You are", "# Agents", "# Skills", "Be exact.", "Say please.", "<loaded_context>"]
                .map(|words| text.find(words).expect(words));
        assert!(places.is_sorted(), "{text}");
        material.off.insert(SKILLS.to_owned());
        let text = material.text(ApprovalMode::Default, &declared(), "# Agents\n", "# Skills\n");
        assert!(!text.contains("# Skills"), "{text}");
    }

    #[test]
    fn prompt_omits_lists_of_unavailable_tools() {
        let text = material().text(
            ApprovalMode::Default,
            &["glob".to_owned()],
            "# Agents\n",
            "# Skills\n",
        );
        assert!(!text.contains("# Skills") && !text.contains("# Agents"), "{text}");
    }

    #[test]
    fn private_notes_are_included_in_the_prompt() {
        let text = material().text(ApprovalMode::Default, &["write_file".to_owned()], "", "");
        assert!(text.contains("`/n/MEMORY.md`"), "{text}");
    }

    #[test]
    fn exported_system_prompt_expands_its_lists_when_used() {
        let directory = tempfile::tempdir().expect("directory");
        let mut material = material();
        let path = directory.path().join("system.md");
        material.files.write_to = Some(path.clone());
        write_built_in(&material, ApprovalMode::Default, &declared()).expect("written");
        let text = std::fs::read_to_string(&path).expect("text");
        material.files.replacement = Some((path, text));
        let text = material.text(ApprovalMode::Default, &declared(), "# Agents\n", "# Skills\n");
        let offsets = ["You are", "# Agents", "# Skills"].map(|words| text.find(words));
        assert!(offsets.iter().all(Option::is_some) && offsets.is_sorted(), "{text}");
    }
}
