//! What models are told: who is started, of the agents; who starts, of its work.

use std::fmt::Write as _;

use parallax_config::agents::Agent;
use parallax_engine::prompt::SAFETY;

/// Characters of all descriptions together that the system prompt holds. Beyond
/// that only names are told.
const BUDGET: usize = 16_000;

/// The words in a definition that stand for its task.
const PLACES: [&str; 5] = ["${input}", "${query}", "${prompt}", "${objective}", "${question}"];

/// What an agent is told besides its own prompt and its task.
#[derive(Default)]
pub(super) struct Around<'a> {
    /// What comes before its own prompt: the session's for one that works as the
    /// session does, with Safety in it.
    pub(super) core: &'a str,
    /// The section on agents that it may start; empty without any.
    pub(super) agents: &'a str,
    /// The section on skills; empty without any.
    pub(super) skills: &'a str,
    /// What the user wants remembered.
    pub(super) memory: &'a str,
}

/// The system prompt of an agent that is started.
pub(super) fn system(agent: &Agent, task: &str, around: &Around<'_>) -> String {
    let mut own = agent.prompt.clone();
    for place in PLACES {
        own = own.replace(place, task);
    }
    let mut text = match around.core {
        "" => own,
        core => format!("{}\n\n{own}", core.trim_end()),
    };
    if !text.contains(SAFETY.trim_end()) {
        text = format!("{}\n\n{}", text.trim_end(), SAFETY.trim_end());
    }
    let output = match &agent.output {
        Some(output) => {
            format!("its argument `{}` has the form that the tool declares", output.name)
        }
        None => "its argument `result` is all that is read of your work".to_owned(),
    };
    // Writing into a text cannot fail.
    let _ = write!(
        text,
        "\n\n# Rules of your work\n\n\
         - You are the sub-agent `{}`. Nobody sees your words while you work, and you cannot ask \
         anybody: decide yourself, and say in your result what you assumed.\n\
         - Use absolute paths.\n\
         - Work only with the tools that you have. When a call is refused, find another way or \
         say so in your result.\n\
         - When you are done, call `complete_task`: {output}. Put into it everything that \
         whoever gave you the task must know.\n",
        agent.name
    );
    for section in [around.agents, around.skills, around.memory] {
        if !section.is_empty() {
            text.push('\n');
            text.push_str(section);
        }
    }
    text
}

/// What the system prompt of a session says of the agents; empty without any.
pub(super) fn section(agents: &[&Agent]) -> String {
    if agents.is_empty() {
        return String::new();
    }
    let mut text = "# Available Sub-Agents\n\nFor `invoke_agent`. Never let several change the \
                    same files. `@name` in a prompt gives that agent the \
                    work.\n\n<available_subagents>\n"
        .to_owned();
    let mut left = BUDGET;
    for agent in agents {
        let description = escaped(&agent.description);
        let length = description.chars().count();
        let description = if length <= left { description.as_str() } else { "" };
        left = left.saturating_sub(length);
        // Writing into a text cannot fail.
        let _ = writeln!(
            text,
            "<subagent><name>{}</name><description>{description}</description></subagent>",
            agent.name
        );
    }
    text.push_str("</available_subagents>\n");
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use parallax_config::agents::AgentTier;

    use super::*;

    #[test]
    fn the_task_stands_where_the_definition_wants_it() {
        let agent = Agent::new("a", "d", AgentTier::User, "Look into ${query}.");
        let around = Around { memory: "memory", ..Around::default() };
        let text = system(&agent, "the bug", &around);
        assert!(text.starts_with("Look into the bug.") && text.ends_with("memory"), "{text}");
    }

    #[test]
    fn every_agent_has_the_rules_of_safety_once() {
        let agent = Agent::new("a", "d", AgentTier::User, "Work.");
        let core = format!("Core.\n\n{SAFETY}\nMore.\n");
        for core in ["", core.as_str()] {
            let text = system(&agent, "t", &Around { core, ..Around::default() });
            assert_eq!(text.matches("Do not work around a denied call").count(), 1, "{text}");
            assert!(text.contains("<untrusted_context>"), "{text}");
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
