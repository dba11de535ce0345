//! The built-in agents.

use std::time::Duration;

use parallax_config::agents::{Agent, AgentOutput, AgentTier};
use parallax_protocol::Object;
use serde_json::{Value, json};

const GENERALIST: &str = "generalist";

/// Returns the built-in agents for a session with this model.
pub(super) fn agents(main: &str) -> Vec<Agent> {
    vec![investigator(main), cli_help(), generalist()]
}

/// Returns a fast model for searching, if the session uses a Gemini model.
fn search_model(main: &str) -> Option<String> {
    let number = main.strip_prefix("gemini-")?;
    let old = ["1.", "1-", "2.", "2-"].iter().any(|start| number.starts_with(start));
    Some(if old { "gemini-2.5-pro" } else { "flash" }.to_owned())
}

fn built_in(name: &str, description: &str, prompt: &str) -> Agent {
    Agent::new(name, description.trim(), AgentTier::BuiltIn, prompt.trim())
}

/// Returns whether the agent uses the same system prompt as the session.
pub(super) fn uses_session_prompt(agent: &Agent) -> bool {
    agent.tier == AgentTier::BuiltIn && agent.name == GENERALIST
}

fn tools(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|name| (*name).to_owned()).collect())
}

fn generation(settings: Value) -> Object {
    match settings {
        Value::Object(settings) => settings,
        _ => Object::new(),
    }
}

fn investigator(main: &str) -> Agent {
    let text = |description: &str| json!({"type": "string", "description": description});
    let texts = |description: &str| json!({"type": "array", "items": {"type": "string"}, "description": description});
    Agent {
        display_name: Some("Codebase Investigator".to_owned()),
        tools: tools(&["list_directory", "read_file", "glob", "grep_search"]),
        generation: generation(json!({"temperature": 0.1, "topP": 0.95})),
        model: search_model(main),
        max_turns: 50,
        output: Some(AgentOutput {
            name: "report".to_owned(),
            description: "What you found, complete and checked.".to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "SummaryOfFindings": text(
                        "The findings and what they mean for the objective."
                    ),
                    "ExplorationTrace": texts("The steps that were taken, in order."),
                    "RelevantLocations": {
                        "type": "array",
                        "description": "The relevant locations.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "FilePath": text("The file."),
                                "Reasoning": text("Why it is relevant."),
                                "KeySymbols": texts("Its relevant functions and types.")
                            },
                            "required": ["FilePath", "Reasoning", "KeySymbols"]
                        }
                    }
                },
                "required": ["SummaryOfFindings", "ExplorationTrace", "RelevantLocations"]
            }),
        }),
        ..built_in(
            "codebase_investigator",
            "Investigates a code base: the cause of a bug, what a change affects, architecture, \
             dependencies. Read-only. Reports a summary and the relevant files and symbols, with \
             reasons. Give it the whole objective in the user's own words.",
            include_str!("codebase_investigator.md"),
        )
    }
}

fn cli_help() -> Agent {
    Agent {
        display_name: Some("CLI Help".to_owned()),
        tools: tools(&["get_internal_docs"]),
        model: Some("flash".to_owned()),
        max_turns: 10,
        time: Duration::from_secs(3 * 60),
        output: Some(AgentOutput {
            name: "report".to_owned(),
            description: "The answer.".to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "answer": {"type": "string", "description": "The answer, in Markdown."},
                    "sources": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "The pages that the answer is based on."
                    }
                },
                "required": ["answer", "sources"]
            }),
        }),
        ..built_in(
            "cli_help",
            "Answers questions about Parallax itself (features, settings, commands, keys, files) from \
             its documentation.",
            include_str!("cli_help.md"),
        )
    }
}

fn generalist() -> Agent {
    Agent {
        display_name: Some("Generalist".to_owned()),
        max_turns: 20,
        output: Some(AgentOutput {
            name: "result".to_owned(),
            description: "The outcome.".to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "response": {
                        "type": "string",
                        "description": "What was done, what was found, and what remains to be done."
                    }
                },
                "required": ["response"]
            }),
        }),
        ..built_in(
            GENERALIST,
            "Does any work, with all tools. Use it for work with many steps or files whose details \
             would fill this conversation (batch edits, long outputs), and for independent tasks in \
             parallel.",
            include_str!("generalist.md"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::search_model;

    #[test]
    fn search_subagent_uses_the_fast_model_of_the_same_provider() {
        for (main, model) in [
            ("gemini-3-pro-preview", Some("flash")),
            ("gemini-4-argon", Some("flash")),
            ("gemini-2.5-flash", Some("gemini-2.5-pro")),
            ("local", None),
        ] {
            assert_eq!(search_model(main).as_deref(), model, "{main}");
        }
    }
}
