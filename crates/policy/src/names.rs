//! The names a tool goes by in settings and rules.

/// The registered name of a tool for an old or class-style name; any other name
/// is returned as it is.
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
