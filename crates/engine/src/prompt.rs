//! The system prompt, assembled from sections in `prompts/` for the mode and the environment.

/// The sandbox that commands run in, as described to the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SandboxKind {
    /// No sandbox.
    #[default]
    None,
    /// The built-in sandbox, for each command.
    Commands,
    /// The whole program runs in a container.
    Container,
    /// The whole program runs under a Seatbelt profile.
    Seatbelt,
}

/// The conditions that sections may use. The name of each declared tool is a condition too.
#[derive(Debug, Clone, Copy, Default)]
pub struct PromptFlags<'a> {
    /// Whether a user can respond.
    pub interactive: bool,
    /// Whether `yolo` mode is active.
    pub yolo: bool,
    /// Whether plan mode is active.
    pub plan: bool,
    /// Whether the directory is in a git repository.
    pub git: bool,
    /// The sandbox of commands.
    pub sandbox: SandboxKind,
    /// Whether hooks may add context.
    pub hooks: bool,
    /// The names of the declared tools.
    pub tools: &'a [String],
}

impl PromptFlags<'_> {
    fn has(self, tool: &str) -> bool {
        self.tools.iter().any(|name| name == tool)
    }

    fn get(self, name: &str) -> bool {
        match name {
            "interactive" => self.interactive,
            "headless" => !self.interactive,
            "yolo" => self.yolo,
            "plan" => self.plan,
            "git" => self.git,
            "memory" => self.has("save_memory"),
            "unconfined" => self.sandbox == SandboxKind::None,
            "confined" => self.sandbox == SandboxKind::Commands,
            "container" => self.sandbox == SandboxKind::Container,
            "seatbelt" => self.sandbox == SandboxKind::Seatbelt,
            tool => self.has(tool),
        }
    }
}

/// The sections in order: the suffix of the variable that disables one
/// (`GEMINI_PROMPT_<SUFFIX>=0`), and its text.
const SECTIONS: [(&str, &str); 8] = [
    ("PREAMBLE", include_str!("../prompts/preamble.md")),
    (
        "COREMANDATES",
        concat!(
            "# Rules\n\n",
            include_str!("../prompts/safety.md"),
            "\n",
            include_str!("../prompts/core_mandates.md")
        ),
    ),
    ("HOOKCONTEXT", include_str!("../prompts/hook_context.md")),
    ("PRIMARYWORKFLOWS", include_str!("../prompts/workflows.md")),
    ("PLANNINGWORKFLOW", include_str!("../prompts/planning_workflow.md")),
    ("OPERATIONALGUIDELINES", include_str!("../prompts/operational_guidelines.md")),
    ("SANDBOX", include_str!("../prompts/sandbox.md")),
    ("GIT", include_str!("../prompts/git.md")),
];

/// Rules that apply to every agent, whatever its own prompt says.
pub const SAFETY: &str = include_str!("../prompts/safety.md");

/// The text of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionText<'a> {
    /// The built-in text.
    BuiltIn,
    /// No text.
    Off,
    /// Another text, with the same conditions.
    Text(&'a str),
}

/// Returns the suffixes of the sections, in order.
pub fn suffixes() -> impl Iterator<Item = &'static str> {
    SECTIONS.iter().map(|(suffix, _)| *suffix)
}

/// Assembles the prompt. `wording` returns the text for the section with the given suffix.
pub fn assemble<'a>(flags: PromptFlags<'_>, wording: &dyn Fn(&str) -> SectionText<'a>) -> String {
    let mut prompt = String::new();
    for (suffix, text) in SECTIONS {
        let is_enabled = match suffix {
            "PRIMARYWORKFLOWS" => !flags.plan,
            "PLANNINGWORKFLOW" => flags.plan,
            "GIT" => flags.git,
            "SANDBOX" => flags.has("run_shell_command"),
            "HOOKCONTEXT" => flags.hooks,
            _ => true,
        };
        let text = match wording(suffix) {
            SectionText::BuiltIn => text,
            SectionText::Text(text) => text,
            SectionText::Off => continue,
        };
        if !is_enabled {
            continue;
        }
        let section = render(text, flags);
        if !prompt.is_empty() {
            prompt.push('\n');
        }
        prompt.push_str(section.trim());
        prompt.push('\n');
    }
    prompt
}

/// Renders `{{#if flag}}…{{else}}…{{/if}}`, which nest. A line with only a tag is dropped.
fn render(text: &str, flags: PromptFlags<'_>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut conditions: Vec<bool> = Vec::new();
    while let Some(start) = rest.find("{{") {
        let (before, tagged) = rest.split_at(start);
        if conditions.iter().all(|holds| *holds) {
            out.push_str(before);
        }
        let Some(end) = tagged.find("}}") else {
            rest = tagged;
            break;
        };
        let tag = tagged.get(2..end).unwrap_or("").trim();
        rest = tagged.get(end + 2..).unwrap_or("");
        if let Some(flag) = tag.strip_prefix("#if ") {
            conditions.push(flags.get(flag.trim()));
        } else if tag == "else" {
            if let Some(holds) = conditions.last_mut() {
                *holds = !*holds;
            }
        } else if tag == "/if" {
            conditions.pop();
        }
        if out.is_empty() || out.ends_with('\n') {
            rest = rest.strip_prefix('\n').unwrap_or(rest);
        }
    }
    if conditions.iter().all(|holds| *holds) {
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_conditions_select_a_branch() {
        let text = "a {{#if git}}yes{{else}}no{{/if}} b";
        assert_eq!(render(text, PromptFlags { git: true, ..PromptFlags::default() }), "a yes b");
        assert_eq!(render(text, PromptFlags::default()), "a no b");
        let nested = "a{{#if git}} b{{#if plan}} c{{else}} d{{/if}} e{{/if}} f";
        assert_eq!(
            render(nested, PromptFlags { git: true, ..PromptFlags::default() }),
            "a b d e f"
        );
        assert_eq!(render(nested, PromptFlags::default()), "a f");
    }

    #[test]
    fn prompt_has_no_template_tags_and_is_short() {
        let all = [
            "grep_search",
            "glob",
            "read_file",
            "write_todos",
            "tracker_create_task",
            "replace",
            "run_shell_command",
            "list_background_processes",
            "google_web_search",
            "save_memory",
        ]
        .map(str::to_owned);
        let kinds = [
            SandboxKind::None,
            SandboxKind::Commands,
            SandboxKind::Container,
            SandboxKind::Seatbelt,
        ];
        for bits in 0..64u8 {
            for sandbox in kinds {
                let flags = PromptFlags {
                    interactive: bits & 1 > 0,
                    yolo: bits & 2 > 0,
                    plan: bits & 4 > 0,
                    git: bits & 8 > 0,
                    hooks: bits & 16 > 0,
                    tools: if bits & 32 > 0 { &all } else { &[] },
                    sandbox,
                };
                let prompt = assemble(flags, &|_| SectionText::BuiltIn);
                assert!(!prompt.contains("{{") && !prompt.contains("}}"), "{prompt}");
                assert!(prompt.len() < 7_500, "{} bytes", prompt.len());
            }
        }
    }

    #[test]
    fn undeclared_tool_is_not_mentioned_in_the_prompt() {
        // Plan mode and sandboxes have their own sections.
        let names = |text: &str| -> Vec<String> {
            let quoted = text.split('`').skip(1).step_by(2);
            let is_name = |word: &&str| {
                let is_tool = word.contains('_') || ["glob", "replace"].contains(word);
                is_tool && word.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            };
            let parameters = ["is_background", "old_string", "wait_for_previous"];
            quoted
                .filter(is_name)
                .filter(|word| !parameters.contains(word))
                .map(str::to_owned)
                .collect()
        };
        let bare = assemble(PromptFlags::default(), &|_| SectionText::BuiltIn);
        assert_eq!(names(&bare), [""; 0], "{bare}");
        for tool in ["read_file", "write_todos", "glob", "web_fetch"] {
            let tools = [tool.to_owned()];
            let flags = PromptFlags { tools: &tools, ..PromptFlags::default() };
            let mut named_tools = names(&assemble(flags, &|_| SectionText::BuiltIn));
            named_tools.dedup();
            assert!(
                named_tools.iter().all(|name| name == tool) && !named_tools.is_empty(),
                "{tool}: {named_tools:?}"
            );
        }
    }

    #[test]
    fn each_sandbox_kind_has_its_own_prompt_text() {
        let tools = ["run_shell_command".to_owned()];
        let sandbox_section = |sandbox| {
            let flags = PromptFlags { sandbox, tools: &tools, ..PromptFlags::default() };
            let text = assemble(flags, &|_| SectionText::BuiltIn);
            text.split_once("# Sandbox").map_or_else(String::new, |(_, text)| text.to_owned())
        };
        assert!(sandbox_section(SandboxKind::None).contains("without a sandbox"));
        assert!(sandbox_section(SandboxKind::Commands).contains("not writable"));
        assert!(sandbox_section(SandboxKind::Container).contains("container"));
        assert!(sandbox_section(SandboxKind::Seatbelt).contains("Seatbelt"));
    }

    #[test]
    fn prompt_sections_can_be_disabled_and_replaced() {
        let prompt =
            assemble(PromptFlags { git: true, ..PromptFlags::default() }, &|suffix| match suffix {
                "PREAMBLE" => SectionText::Off,
                "GIT" => SectionText::Text("Mind the log.{{#if headless}} Do not ask.{{/if}}"),
                _ => SectionText::BuiltIn,
            });
        assert!(!prompt.contains("You are Parallax"), "{prompt}");
        assert!(prompt.ends_with("Mind the log. Do not ask.\n"), "{prompt}");
    }
}
