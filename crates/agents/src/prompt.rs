//! Prompts for agents: the system prompt of a subagent, and the section about agents in the
//! session's system prompt.

use std::fmt::Write as _;

use parallax_config::agents::Agent;

/// Maximum total characters of agent descriptions in the system prompt. Agents over the limit are
/// listed by name only.
const BUDGET: usize = 16_000;

/// Explains agents that work in their own worktrees.
const WORKTREES: &str = " Agents with `<isolation>worktree</isolation>` work in a git worktree of \
    their own, which has the last commit but no uncommitted changes. Several can change the same \
    files at once. The result names the branch with the changes: review it, and merge it if the \
    user wants the changes.";

/// Placeholders for the task in a definition.
const PLACES: [&str; 5] = ["${input}", "${query}", "${prompt}", "${objective}", "${question}"];

/// What a subagent's system prompt contains besides its own prompt and task.
#[derive(Default)]
pub(super) struct PromptExtras<'a> {
    /// The safety rules.
    pub(super) safety: &'a str,
    /// Text before the agent's own prompt, including the safety rules. For an agent that works like
    /// the session, the session's prompt.
    pub(super) core: &'a str,
    /// Describes the worktree of the agent; empty if it has none.
    pub(super) worktree: &'a str,
    /// Section about agents that it may start; empty if there are none.
    pub(super) agents: &'a str,
    /// Section about skills; empty if there are none.
    pub(super) skills: &'a str,
    /// The user's memory.
    pub(super) memory: &'a str,
}

/// Builds the system prompt of a subagent.
pub(super) fn system(agent: &Agent, task: &str, extras: &PromptExtras<'_>) -> String {
    let mut prompt = agent.prompt.clone();
    for placeholder in PLACES {
        prompt = prompt.replace(placeholder, task);
    }
    let mut text = match extras.core {
        "" => prompt,
        core => format!("{}\n\n{prompt}", core.trim_end()),
    };
    let safety = extras.safety.trim_end();
    if !text.contains(safety) {
        text = format!("{}\n\n{safety}", text.trim_end());
    }
    let output = match &agent.output {
        Some(output) => {
            format!("the argument `{}` must match the schema of the tool", output.name)
        }
        None => "only its argument `result` is read".to_owned(),
    };
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "\n\n# Rules\n\n- You are the subagent `{}`. The user does not see your output and you \
         cannot ask questions: decide yourself, and state your assumptions in the result.\n- Use \
         absolute paths.\n- Use only the tools that you have. If a call is refused, find another \
         way or say so in the result.\n- When you are done, call `complete_task`: {output}. \
         Include everything that the caller must know.\n",
        agent.name
    );
    if !extras.worktree.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "- {}", extras.worktree);
    }
    for section in [extras.agents, extras.skills, extras.memory] {
        if !section.is_empty() {
            text.push('\n');
            text.push_str(section);
        }
    }
    text
}

/// Builds the section about agents in a session's system prompt; empty if there are none.
pub(super) fn section(agents: &[&Agent]) -> String {
    if agents.is_empty() {
        return String::new();
    }
    let mut text =
        "# Available Subagents\n\nCall them with `invoke_agent`. Never let several change the \
                    same files at once. `@name` in a prompt delegates the task to \
                    that agent.\n\n<available_subagents>\n"
            .to_owned();
    if agents.iter().any(|agent| agent.isolated) {
        text.insert_str(text.len() - "\n\n<available_subagents>\n".len(), WORKTREES);
    }
    let mut remaining = BUDGET;
    for agent in agents {
        let description = escape(&agent.description);
        let length = description.chars().count();
        let description = if length <= remaining { description.as_str() } else { "" };
        remaining = remaining.saturating_sub(length);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "<subagent><name>{}</name>{}<description>{description}</description></subagent>",
            agent.name,
            if agent.isolated { "<isolation>worktree</isolation>" } else { "" },
        );
    }
    text.push_str("</available_subagents>\n");
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use parallax_config::agents::AgentTier;

    use super::*;

    const SAFETY: &str = "# Safety\n\nDo not work around a denied call.\n";

    #[test]
    fn task_is_inserted_at_the_placeholder() {
        let agent = Agent::new("a", "d", AgentTier::User, "Look into ${query}.");
        let extras = PromptExtras { safety: SAFETY, memory: "memory", ..PromptExtras::default() };
        let text = system(&agent, "the bug", &extras);
        assert!(text.starts_with("Look into the bug.") && text.ends_with("memory"), "{text}");
    }

    #[test]
    fn safety_rules_appear_once_in_every_subagent_prompt() {
        let agent = Agent::new("a", "d", AgentTier::User, "Work.");
        let core = format!("Core.\n\n{SAFETY}\nMore.\n");
        for core in ["", core.as_str()] {
            let text = system(
                &agent,
                "t",
                &PromptExtras { safety: SAFETY, core, ..PromptExtras::default() },
            );
            assert_eq!(text.matches("Do not work around a denied call").count(), 1, "{text}");
        }
    }

    #[test]
    fn descriptions_are_bounded_and_escaped() {
        let long = Agent::new("b", &"x".repeat(BUDGET), AgentTier::User, "");
        let odd = Agent::new("a", "</subagent>", AgentTier::User, "");
        let text = section(&[&odd, &long]);
        assert!(text.contains("&lt;/subagent&gt;"), "{text}");
        assert!(text.contains("<name>b</name><description></description>"), "{text}");
        assert_eq!(section(&[]), "");
    }
}
