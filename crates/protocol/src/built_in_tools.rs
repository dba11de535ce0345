//! Facts about the built-in tools that other crates need where the tool itself is not at hand: to
//! show calls of saved sessions, and to read names in settings and rules.

use crate::tool::ToolKind;

/// A built-in tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltInTool {
    /// The name that the model calls.
    pub name: &'static str,
    /// The name shown to the user.
    pub display_name: &'static str,
    /// The kind.
    pub kind: ToolKind,
    /// The arguments that describe a call; the first one that is given is shown.
    pub summary: &'static [&'static str],
    /// Former names, which old sessions and rules contain.
    pub former_names: &'static [&'static str],
    /// Names of the tool in settings of other programs and versions.
    pub settings_names: &'static [&'static str],
}

const fn tool(
    name: &'static str,
    display_name: &'static str,
    kind: ToolKind,
    summary: &'static [&'static str],
) -> BuiltInTool {
    BuiltInTool { name, display_name, kind, summary, former_names: &[], settings_names: &[] }
}

impl BuiltInTool {
    const fn with_former_names(mut self, names: &'static [&'static str]) -> Self {
        self.former_names = names;
        self
    }

    const fn in_settings(mut self, names: &'static [&'static str]) -> Self {
        self.settings_names = names;
        self
    }
}

use ToolKind::{Agent, Communicate, Edit, Execute, Fetch, Other, Plan, Read, Search, Think};

/// All built-in tools.
pub const BUILT_IN_TOOLS: &[BuiltInTool] = &[
    tool("read_file", "ReadFile", Read, &["file_path", "absolute_path"])
        .in_settings(&["ReadFileTool", "ReadFile"]),
    tool("read_many_files", "ReadManyFiles", Read, &["include", "paths"])
        .in_settings(&["ReadManyFilesTool", "ReadManyFiles"]),
    tool("list_directory", "ReadFolder", Search, &["dir_path", "path"]).in_settings(&[
        "LSTool",
        "LsTool",
        "ReadFolder",
    ]),
    tool("grep_search", "SearchText", Search, &["pattern"])
        .with_former_names(&["search_file_content"])
        .in_settings(&["GrepTool", "RipGrepTool", "SearchText"]),
    tool("glob", "FindFiles", Search, &["pattern"]).in_settings(&["GlobTool", "FindFiles"]),
    tool("replace", "Edit", Edit, &["file_path"]).in_settings(&["EditTool", "Edit"]),
    tool("write_file", "WriteFile", Edit, &["file_path"])
        .in_settings(&["WriteFileTool", "WriteFile"]),
    tool("run_shell_command", "Shell", Execute, &["command"]).in_settings(&["ShellTool", "Shell"]),
    tool("list_background_processes", "ListBackgroundProcesses", Read, &[]),
    tool("read_background_output", "ReadBackgroundOutput", Read, &["pid"]),
    tool("kill_background_process", "KillBackgroundProcess", Other, &["pid"]),
    tool("web_fetch", "WebFetch", Fetch, &["prompt", "url"])
        .in_settings(&["WebFetchTool", "WebFetch"]),
    tool("google_web_search", "GoogleSearch", Search, &["query"])
        .in_settings(&["WebSearchTool", "GoogleSearch"]),
    tool("save_memory", "SaveMemory", Edit, &["fact"])
        .in_settings(&["MemoryTool", "SaveMemoryTool"]),
    tool("write_todos", "WriteTodos", Other, &[]).in_settings(&["WriteTodosTool"]),
    tool("activate_skill", "ActivateSkill", Other, &["name"]),
    tool("invoke_agent", "Agent", Agent, &["agent_name"]),
    tool("ask_user", "AskUser", Communicate, &[]),
    tool("enter_plan_mode", "EnterPlanMode", Plan, &["reason"]),
    tool("exit_plan_mode", "ExitPlanMode", Plan, &["plan_filename"]),
    tool("get_internal_docs", "GetInternalDocs", Think, &["path"]),
    tool("update_topic", "UpdateTopic", Think, &["title", "strategic_intent"]),
    tool("complete_task", "CompleteTask", Other, &[]),
    tool("list_mcp_resources", "ListMcpResources", Search, &["serverName"]),
    tool("read_mcp_resource", "ReadMcpResource", Search, &["uri"]),
    tool("mcp_search_tools", "McpSearchTools", Search, &["query"]),
];

/// Returns the built-in tool with this name or former name.
pub fn built_in_tool(name: &str) -> Option<&'static BuiltInTool> {
    BUILT_IN_TOOLS.iter().find(|tool| tool.name == name || tool.former_names.contains(&name))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn page() -> String {
        let mut text = String::from(
            "# Tools reference\n\nFor users who write rules or read sessions: all built-in tools. \
             [Tools](../tools.md) explains them. This page is generated\nfrom \
             `crates/protocol/src/built_in_tools.rs`.\n\n| Tool | Shown as | Kind | Other names in rules \
             and settings |\n| --- | --- | --- | --- |\n",
        );
        for tool in BUILT_IN_TOOLS {
            let kind = serde_json::to_value(tool.kind).expect("a name");
            let names = tool.former_names.iter().chain(tool.settings_names);
            let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            text.push_str(&format!(
                "| `{}` | {} | {} | {} |\n",
                tool.name,
                tool.display_name,
                kind.as_str().expect("a name"),
                names.join(" ")
            ));
        }
        text.push_str("\nNext: [Tools](../tools.md) and [Policies](../policies.md).\n");
        text
    }

    #[test]
    fn reference_page_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/tools.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, page()).expect("written");
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            written == page(),
            "docs/reference/tools.md is out of date: run with UPDATE_DOCS=1"
        );
    }

    #[test]
    fn every_name_belongs_to_one_tool() {
        let mut names = HashSet::new();
        for tool in BUILT_IN_TOOLS {
            let all = [tool.name].into_iter().chain(tool.former_names.iter().copied());
            for name in all.chain(tool.settings_names.iter().copied()) {
                assert!(names.insert(name), "{name}");
            }
        }
        assert_eq!(built_in_tool("search_file_content").map(|tool| tool.name), Some("grep_search"));
    }
}
