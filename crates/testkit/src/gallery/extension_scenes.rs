//! Scenes with what the user added: MCP servers, skills, hooks, and earlier sessions; and panels about
//! what the agent may use.

use serde_json::json;

use super::conversation::{calls, ends_with, prompts, scene, text_reply, wait_for_text};
use super::{Scene, Step};

pub(super) fn all() -> Vec<Scene> {
    vec![mcp_panel(), mcp_question(), skills(), hooks(), agents(), tools(), policies(), resume()]
}

/// A tracker with one tool, as a shell script.
const TRACKER: &[(&str, &str)] = &[(
    ".gemini/settings.json",
    r#"{"model":{"name":"gemini-2.5-pro"},"mcpServers":{"tracker":{"command":"sh","args":["-c","while read -r line; do id=$(printf %s \"$line\" | sed -n 's/.*\"id\":\\([0-9]*\\).*/\\1/p'); case $line in *'\"initialize\"'*) printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"tracker\",\"version\":\"1.0\"}}}\\n' \"$id\";; *'\"tools/list\"'*) printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"tools\":[{\"name\":\"create_issue\",\"description\":\"Creates an issue\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"title\":{\"type\":\"string\"},\"body\":{\"type\":\"string\"}}}}]}}\\n' \"$id\";; esac; done"]}}}"#,
)];

/// Opens a panel after the servers have started.
fn after_start(command: &'static str) -> Vec<Step> {
    [vec![Step::Ready, Step::Rest, Step::Rest], prompts(command)].concat()
}

fn mcp_panel() -> Scene {
    let steps = [after_start("/mcp"), wait_for_text("create_issue")].concat();
    let texts = &["tracker", "1 tool", "create_issue"];
    Scene { home_files: TRACKER, ..scene("mcp", Vec::new(), steps, texts) }
}

fn mcp_question() -> Scene {
    let body = "`send` computes a delay and drops it.\n\n- attempts follow at once\n- the host is hammered";
    let create = json!({"name": "mcp_tracker_create_issue",
        "args": {"title": "A lost link hammers the host", "body": body}});
    let steps =
        [after_start("File an issue"), wait_for_text("Allow execution of this tool?")].concat();
    let texts = &["Allow execution of this tool?", "create_issue", "attempts follow at once"];
    let script = vec![calls(&[create], 9_120, 0)];
    Scene { home_files: TRACKER, ..scene("mcp-question", script, steps, texts) }
}

fn skills() -> Scene {
    let home_files = &[
        (
            ".gemini/skills/release/SKILL.md",
            "---\nname: release\ndescription: Steps of a release of this project\n---\n\nTag it.\n",
        ),
        (
            ".gemini/skills/old-wire/SKILL.md",
            "---\nname: old-wire\ndescription: The wire format before version 2\n---\n\nBytes.\n",
        ),
        (
            ".gemini/settings.json",
            r#"{"model":{"name":"gemini-2.5-pro"},"skills":{"disabled":["old-wire"]}}"#,
        ),
    ];
    let steps = [prompts("/skills"), wait_for_text("Steps of a release")].concat();
    Scene { home_files, ..scene("skills", Vec::new(), steps, &["release", "Steps of a release"]) }
}

fn hooks() -> Scene {
    let home_files = &[(
        ".gemini/settings.json",
        r#"{"model":{"name":"gemini-2.5-pro"},"hooks":{
            "AfterTool":[{"matcher":"replace|write_file","hooks":[
                {"type":"command","name":"format","command":"cargo fmt","description":"Formats what was edited"}]}],
            "SessionStart":[{"hooks":[{"type":"command","name":"greet","command":"true"}]}]}}"#,
    )];
    let steps = [prompts("/hooks"), wait_for_text("cargo fmt")].concat();
    let texts = &["format", "AfterTool", "cargo fmt", "Formats what was edited"];
    Scene { home_files, ..scene("hooks", Vec::new(), steps, texts) }
}

fn agents() -> Scene {
    let steps = [prompts("/agents"), wait_for_text("cli_help")].concat();
    scene("agents", Vec::new(), steps, &["generalist", "codebase_investigator"])
}

fn tools() -> Scene {
    let steps = [prompts("/tools"), wait_for_text("(update_topic)")].concat();
    scene("tools", Vec::new(), steps, &["(glob)", "(read_file)"])
}

fn policies() -> Scene {
    let steps = [prompts("/policies"), wait_for_text("allow")].concat();
    scene("policies", Vec::new(), steps, &["all modes", "allow", "(built in"])
}

fn resume() -> Scene {
    let script = vec![
        text_reply("The loop never waits.", 9_100, 0, 80),
        text_reply("No test covers it.", 9_200, 0, 70),
    ];
    let steps = [
        prompts("Why does it hammer the host?"),
        ends_with("never waits"),
        prompts("/clear"),
        prompts("Is that tested?"),
        ends_with("No test covers it"),
        prompts("/clear"),
        prompts("/resume"),
        wait_for_text("Is that tested?"),
        wait_for_text("No test covers it"),
    ]
    .concat();
    let texts = &["Why does it hammer the host?", "Is that tested?", "most recently used first"];
    scene("resume", script, steps, texts)
}
