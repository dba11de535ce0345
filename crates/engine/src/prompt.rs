//! The system prompt: sections of prose, each a file in `prompts/`, put
//! together for the mode and the place.

/// What the sections may ask for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flags {
    /// A person can answer.
    pub interactive: bool,
    /// Everything is allowed.
    pub yolo: bool,
    /// Only reading and planning.
    pub plan: bool,
    /// The folder is in a git repository.
    pub git: bool,
    /// Commands run confined.
    pub sandbox: bool,
    /// Hooks may add to what the model reads.
    pub hooks: bool,
    /// The model can keep facts (`save_memory`).
    pub memory: bool,
}

impl Flags {
    fn get(self, name: &str) -> bool {
        match name {
            "interactive" => self.interactive,
            "headless" => !self.interactive,
            "yolo" => self.yolo,
            "plan" => self.plan,
            "git" => self.git,
            "memory" => self.memory,
            _ => false,
        }
    }
}

/// The sections in order: the suffix of the switch that turns one off
/// (`GEMINI_PROMPT_<SUFFIX>=0`), and its text.
const SECTIONS: [(&str, &str); 8] = [
    ("PREAMBLE", include_str!("../prompts/preamble.md")),
    ("COREMANDATES", include_str!("../prompts/core_mandates.md")),
    ("HOOKCONTEXT", include_str!("../prompts/hook_context.md")),
    ("PRIMARYWORKFLOWS", include_str!("../prompts/workflows.md")),
    ("PLANNINGWORKFLOW", include_str!("../prompts/planning_workflow.md")),
    ("OPERATIONALGUIDELINES", include_str!("../prompts/operational_guidelines.md")),
    ("SANDBOX", include_str!("../prompts/sandbox.md")),
    ("GIT", include_str!("../prompts/git.md")),
];

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
pub fn assemble<'a>(flags: Flags, wording: &dyn Fn(&str) -> Wording<'a>) -> String {
    let mut prompt = String::new();
    for (suffix, text) in SECTIONS {
        let wanted = match suffix {
            "PRIMARYWORKFLOWS" => !flags.plan,
            "PLANNINGWORKFLOW" => flags.plan,
            "GIT" => flags.git,
            "SANDBOX" => flags.sandbox,
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

/// Renders `{{#if flag}}…{{else}}…{{/if}}`. Conditions do not nest: a prompt
/// that needs that is two sections. A line that holds only a tag is dropped.
fn render(text: &str, flags: Flags) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut showing = true;
    while let Some(start) = rest.find("{{") {
        let (before, tagged) = rest.split_at(start);
        if showing {
            out.push_str(before);
        }
        let Some(end) = tagged.find("}}") else {
            rest = tagged;
            break;
        };
        let tag = tagged.get(2..end).unwrap_or("").trim();
        rest = tagged.get(end + 2..).unwrap_or("");
        if let Some(flag) = tag.strip_prefix("#if ") {
            showing = flags.get(flag.trim());
        } else if tag == "else" {
            showing = !showing;
        } else if tag == "/if" {
            showing = true;
        }
        if out.is_empty() || out.ends_with('\n') {
            rest = rest.strip_prefix('\n').unwrap_or(rest);
        }
    }
    if showing {
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
    }

    #[test]
    fn no_tag_is_left_and_the_prompt_is_short() {
        for bits in 0..128u8 {
            let flags = Flags {
                interactive: bits & 1 > 0,
                yolo: bits & 2 > 0,
                plan: bits & 4 > 0,
                git: bits & 8 > 0,
                sandbox: bits & 16 > 0,
                hooks: bits & 32 > 0,
                memory: bits & 64 > 0,
            };
            let prompt = assemble(flags, &|_| Wording::BuiltIn);
            assert!(!prompt.contains("{{") && !prompt.contains("}}"), "{prompt}");
            assert!(prompt.len() < 7_000, "{} bytes", prompt.len());
        }
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
