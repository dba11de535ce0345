//! Maps event and tool names of other agents, for files that were written for them.

use parallax_protocol::hooks::HookEvent;

/// Tool names: another agent's and ours. If several of theirs map to one of ours, the first one is
/// used in the reverse direction.
const TOOLS: [(&str, &str); 17] = [
    ("Bash", "run_shell_command"),
    ("Read", "read_file"),
    ("NotebookRead", "read_file"),
    ("Edit", "replace"),
    ("MultiEdit", "replace"),
    ("Write", "write_file"),
    ("Grep", "grep_search"),
    ("Glob", "glob"),
    ("LS", "list_directory"),
    ("WebFetch", "web_fetch"),
    ("WebSearch", "google_web_search"),
    ("TodoWrite", "write_todos"),
    ("Task", "invoke_agent"),
    ("Agent", "invoke_agent"),
    ("Skill", "activate_skill"),
    ("AskUserQuestion", "ask_user"),
    ("ExitPlanMode", "exit_plan_mode"),
];

/// Returns our event for another agent's name; `None` for names that are also ours and for
/// unsupported events.
pub fn parallax_event(name: &str) -> Option<HookEvent> {
    match name {
        "PreToolUse" | "preToolUse" => Some(HookEvent::BeforeTool),
        "PostToolUse" | "postToolUse" => Some(HookEvent::AfterTool),
        "UserPromptSubmit" | "userPromptSubmitted" | "beforeSubmitPrompt" => {
            Some(HookEvent::BeforeAgent)
        }
        "Stop" | "SubagentStop" | "SubAgentStop" => Some(HookEvent::AfterAgent),
        "PreCompact" => Some(HookEvent::PreCompress),
        "sessionStart" => Some(HookEvent::SessionStart),
        "sessionEnd" => Some(HookEvent::SessionEnd),
        _ => None,
    }
}

/// Returns our name of a tool; returns unknown names unchanged.
pub fn parallax_tool(name: &str) -> String {
    if let Some((_, ours)) = TOOLS.iter().find(|(theirs, _)| *theirs == name) {
        return (*ours).to_owned();
    }
    // `mcp__server__tool` in other agents is `mcp_server_tool` in Parallax.
    match name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        Some((server, tool)) => format!("mcp_{server}_{tool}"),
        None => name.to_owned(),
    }
}

/// Returns another agent's name of our tool; returns unknown names unchanged.
pub fn foreign_tool(name: &str) -> &str {
    TOOLS.iter().find(|(_, ours)| *ours == name).map_or(name, |(theirs, _)| *theirs)
}

/// Replaces other agents' tool names in a pattern with ours. Only whole words are replaced.
pub fn parallax_matcher(pattern: &str) -> String {
    let is_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let (mut out, mut word) = (String::new(), String::new());
    for char in pattern.chars().chain(std::iter::once('\n')) {
        if is_word(char) {
            word.push(char);
            continue;
        }
        out.push_str(&parallax_tool(&std::mem::take(&mut word)));
        out.push(char);
    }
    out.pop();
    // The tools of a server: `mcp__server__.*`.
    match out.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        Some((server, rest)) => format!("mcp_{server}_{rest}"),
        None => out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_names_of_other_agents_are_mapped() {
        for (theirs, ours) in
            [("Bash", "run_shell_command"), ("mcp__docs__find", "mcp_docs_find"), ("glob", "glob")]
        {
            assert_eq!(parallax_tool(theirs), ours);
        }
        assert_eq!(foreign_tool("replace"), "Edit");
        assert_eq!(foreign_tool("mcp_a_b"), "mcp_a_b");
        for (theirs, ours) in [
            ("Write|Edit", "write_file|replace"),
            ("^Bash$", "^run_shell_command$"),
            ("mcp__memory__.*", "mcp_memory_.*"),
            ("*", "*"),
            ("", ""),
        ] {
            assert_eq!(parallax_matcher(theirs), ours);
        }
    }
}
