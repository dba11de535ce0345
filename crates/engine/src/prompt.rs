//! The system prompt: sections of prose, each a file in `prompts/`, put
//! together for the mode and the place.

/// What confines commands, as the model is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Confinement {
    /// Nothing.
    #[default]
    None,
    /// The built-in sandbox, each command on its own.
    Commands,
    /// The whole program is in a container.
    Container,
    /// The whole program is under a Seatbelt profile.
    Seatbelt,
}

/// What the sections may ask for. Beside these they know each declared tool by
/// its name.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flags<'a> {
    /// A person can answer.
    pub interactive: bool,
    /// Everything is allowed.
    pub yolo: bool,
    /// Only reading and planning.
    pub plan: bool,
    /// The folder is in a git repository.
    pub git: bool,
    /// What confines commands.
    pub sandbox: Confinement,
    /// Hooks may add to what the model reads.
    pub hooks: bool,
    /// The names of the tools that are declared.
    pub tools: &'a [String],
}

impl Flags<'_> {
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
            "unconfined" => self.sandbox == Confinement::None,
            "confined" => self.sandbox == Confinement::Commands,
            "container" => self.sandbox == Confinement::Container,
            "seatbelt" => self.sandbox == Confinement::Seatbelt,
            tool => self.has(tool),
        }
    }
}

/// The sections in order: the suffix of the switch that turns one off
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

/// What no agent may do, whatever its own prompt says.
pub const SAFETY: &str = include_str!("../prompts/safety.md");

/// What becomes of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wording<'a> {
    /// It stays as it is built in.
    BuiltIn,
    /// It is left out.
    Off,
    /// Another text in its place, which knows the same conditions.
    Text(&'a str),
}

/// The suffixes of the sections, in order.
pub fn suffixes() -> impl Iterator<Item = &'static str> {
    SECTIONS.iter().map(|(suffix, _)| *suffix)
}

/// Puts the prompt together. `wording` tells what becomes of the section with
/// the given suffix.
pub fn assemble<'a>(flags: Flags<'_>, wording: &dyn Fn(&str) -> Wording<'a>) -> String {
    let mut prompt = String::new();
    for (suffix, text) in SECTIONS {
        let wanted = match suffix {
            "PRIMARYWORKFLOWS" => !flags.plan,
            "PLANNINGWORKFLOW" => flags.plan,
            "GIT" => flags.git,
            "SANDBOX" => flags.has("run_shell_command"),
            "HOOKCONTEXT" => flags.hooks,
            _ => true,
        };
        let text = match wording(suffix) {
            Wording::BuiltIn => text,
            Wording::Text(text) => text,
            Wording::Off => continue,
        };
        if !wanted {
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

/// Renders `{{#if flag}}…{{else}}…{{/if}}`, which nest. A line that holds only a
/// tag is dropped.
fn render(text: &str, flags: Flags<'_>) -> String {
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
    fn conditions_choose_a_branch() {
        let text = "a {{#if git}}yes{{else}}no{{/if}} b";
        assert_eq!(render(text, Flags { git: true, ..Flags::default() }), "a yes b");
        assert_eq!(render(text, Flags::default()), "a no b");
        let nested = "a{{#if git}} b{{#if plan}} c{{else}} d{{/if}} e{{/if}} f";
        assert_eq!(render(nested, Flags { git: true, ..Flags::default() }), "a b d e f");
        assert_eq!(render(nested, Flags::default()), "a f");
    }

    #[test]
    fn no_tag_is_left_and_the_prompt_is_short() {
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
            Confinement::None,
            Confinement::Commands,
            Confinement::Container,
            Confinement::Seatbelt,
        ];
        for bits in 0..64u8 {
            for sandbox in kinds {
                let flags = Flags {
                    interactive: bits & 1 > 0,
                    yolo: bits & 2 > 0,
                    plan: bits & 4 > 0,
                    git: bits & 8 > 0,
                    hooks: bits & 16 > 0,
                    tools: if bits & 32 > 0 { &all } else { &[] },
                    sandbox,
                };
                let prompt = assemble(flags, &|_| Wording::BuiltIn);
                assert!(!prompt.contains("{{") && !prompt.contains("}}"), "{prompt}");
                assert!(prompt.len() < 7_500, "{} bytes", prompt.len());
            }
        }
    }

    #[test]
    fn a_tool_that_is_not_declared_is_not_spoken_of() {
        // What is told of plan mode and of sandboxes is whole sections.
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
        let bare = assemble(Flags::default(), &|_| Wording::BuiltIn);
        assert_eq!(names(&bare), [""; 0], "{bare}");
        for tool in ["read_file", "write_todos", "run_shell_command", "glob", "web_fetch"] {
            let tools = [tool.to_owned()];
            let flags = Flags { tools: &tools, ..Flags::default() };
            let mut told = names(&assemble(flags, &|_| Wording::BuiltIn));
            told.dedup();
            assert!(told.iter().all(|name| name == tool) && !told.is_empty(), "{tool}: {told:?}");
        }
    }

    #[test]
    fn each_kind_of_confinement_is_told_in_its_own_words() {
        let tools = ["run_shell_command".to_owned()];
        let told = |sandbox| {
            let flags = Flags { sandbox, tools: &tools, ..Flags::default() };
            let text = assemble(flags, &|_| Wording::BuiltIn);
            text.split_once("# Sandbox").map_or_else(String::new, |(_, text)| text.to_owned())
        };
        assert!(told(Confinement::None).contains("no sandbox"));
        assert!(told(Confinement::Commands).contains("cannot be written"));
        assert!(told(Confinement::Container).contains("container"));
        assert!(told(Confinement::Seatbelt).contains("Seatbelt"));
    }

    #[test]
    fn sections_can_be_switched_off_and_worded_anew() {
        let prompt = assemble(Flags { git: true, ..Flags::default() }, &|suffix| match suffix {
            "PREAMBLE" => Wording::Off,
            "GIT" => Wording::Text("Mind the log.{{#if headless}} Ask nobody.{{/if}}"),
            _ => Wording::BuiltIn,
        });
        assert!(!prompt.contains("You are Parallax"), "{prompt}");
        assert!(prompt.ends_with("Mind the log. Ask nobody.\n"), "{prompt}");
    }
}
