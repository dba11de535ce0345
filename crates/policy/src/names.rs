//! Tool names in settings and rules.

/// Returns the registered name of a tool for an old or class-style name, and any other name
/// unchanged.
pub(crate) fn canonical(name: &str) -> &str {
    match name {
        "ReadFileTool" | "ReadFile" => "read_file",
        "ReadManyFilesTool" | "ReadManyFiles" => "read_many_files",
        "LSTool" | "LsTool" | "ReadFolder" => "list_directory",
        "GrepTool" | "RipGrepTool" | "SearchText" | "search_file_content" => "grep_search",
        "GlobTool" | "FindFiles" => "glob",
        "EditTool" | "Edit" => "replace",
        "WriteFileTool" | "WriteFile" => "write_file",
        "ShellTool" | "Shell" => SHELL,
        "WebFetchTool" | "WebFetch" => "web_fetch",
        "WebSearchTool" | "GoogleSearch" => "google_web_search",
        "MemoryTool" | "SaveMemoryTool" => "save_memory",
        "WriteTodosTool" => "write_todos",
        other => other,
    }
}

/// The shell tool.
pub(crate) const SHELL: &str = "run_shell_command";

/// Tools for which a suggested rule must have conditions; a rule for all of their calls is never
/// suggested.
pub(crate) const NARROWED: &[&str] = &[
    "glob",
    "grep_search",
    "list_directory",
    "read_file",
    "read_many_files",
    "write_file",
    "replace",
    SHELL,
];

/// Known tool names, for detecting misspelled ones.
pub(crate) const KNOWN: &[&str] = &[
    "read_file",
    "read_many_files",
    "list_directory",
    "grep_search",
    "search_file_content",
    "glob",
    "replace",
    "write_file",
    SHELL,
    "list_background_processes",
    "read_background_output",
    "web_fetch",
    "google_web_search",
    "save_memory",
    "write_todos",
    "activate_skill",
    "invoke_agent",
    "ask_user",
    "enter_plan_mode",
    "exit_plan_mode",
    "codebase_investigator",
    "cli_help",
    "get_internal_docs",
    "update_topic",
    "complete_task",
    "read_mcp_resource",
    "list_mcp_resources",
    "mcp_search_tools",
    "generalist",
    "browser_agent",
];

/// Returns the known word nearest to a misspelled one, at most three edits away. Returns `None` if
/// no word is near enough or the word itself is known.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    const MOST_EDITS: usize = 3;
    const LONGEST: usize = 64;
    // A short word is close to every other word.
    let most = MOST_EDITS.min(word.chars().count().saturating_sub(2));
    if known.contains(&word) || word.chars().count() > LONGEST {
        return None;
    }
    known
        .iter()
        .map(|candidate| (strsim::levenshtein(word, candidate), *candidate))
        .filter(|(edits, _)| *edits <= most)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::{KNOWN, nearest};

    #[test]
    fn similar_names_are_suggested() {
        assert_eq!(nearest("write_fiel", KNOWN), Some("write_file"));
        assert_eq!(nearest("run_shel_comand", KNOWN), Some("run_shell_command"));
        assert_eq!(nearest("write_file", KNOWN), None);
        assert_eq!(nearest("my_own_tool", KNOWN), None);
        assert_eq!(nearest("g", KNOWN), None);
    }
}
