//! Tool names in settings and rules.

use parallax_protocol::built_in_tools::{BUILT_IN_TOOLS, BuiltInTool};

/// Returns the registered name of a tool for an old or class-style name, and any other name
/// unchanged.
pub(crate) fn canonical_name(name: &str) -> &str {
    let means = |tool: &&BuiltInTool| {
        tool.settings_names.contains(&name) || tool.former_names.contains(&name)
    };
    BUILT_IN_TOOLS.iter().find(means).map_or(name, |tool| tool.name)
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

/// Names of agents, which rules may use like tool names.
const AGENTS: &[&str] = &["codebase_investigator", "cli_help", "generalist", "browser_agent"];

/// Returns the known tool names, for detecting misspelled ones.
pub(crate) fn known_names() -> Vec<&'static str> {
    let names = |tool: &'static BuiltInTool| {
        [tool.name].into_iter().chain(tool.former_names.iter().copied())
    };
    BUILT_IN_TOOLS.iter().flat_map(names).chain(AGENTS.iter().copied()).collect()
}

/// Returns the known word nearest to a misspelled one, at most three edits away. Returns `None` if
/// no word is near enough or the word itself is known.
pub(crate) fn nearest_word<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    const MAX_EDITS: usize = 3;
    const MAX_LENGTH: usize = 64;
    // A short word is close to every other word.
    let max_edits = MAX_EDITS.min(word.chars().count().saturating_sub(2));
    if known.contains(&word) || word.chars().count() > MAX_LENGTH {
        return None;
    }
    known
        .iter()
        .map(|candidate| (strsim::levenshtein(word, candidate), *candidate))
        .filter(|(edits, _)| *edits <= max_edits)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::{known_names, nearest_word};

    #[test]
    fn similar_names_are_suggested() {
        assert_eq!(nearest_word("write_fiel", &known_names()), Some("write_file"));
        assert_eq!(nearest_word("run_shel_comand", &known_names()), Some("run_shell_command"));
        assert_eq!(nearest_word("write_file", &known_names()), None);
        assert_eq!(nearest_word("my_own_tool", &known_names()), None);
        assert_eq!(nearest_word("g", &known_names()), None);
    }
}
