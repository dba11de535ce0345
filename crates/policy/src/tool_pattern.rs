//! Patterns for tool names in rules.

use crate::names::canonical_name;

/// A pattern for the tools that a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolPattern {
    /// Every tool (`*`).
    Any,
    /// Tools whose name has this prefix and suffix (`mcp_server_*`, `mcp_*_search`).
    Wildcard {
        /// The text before the `*`.
        prefix: String,
        /// The text after the `*`.
        suffix: String,
    },
    /// A single tool.
    Exact(String),
}

impl ToolPattern {
    /// Parses a pattern of settings or rules. Old and class-style names are converted to registered
    /// names.
    pub fn parse(text: &str) -> Self {
        match text.split_once('*') {
            Some(("", "")) => Self::Any,
            Some((prefix, suffix)) => {
                Self::Wildcard { prefix: prefix.to_owned(), suffix: suffix.to_owned() }
            }
            None => Self::Exact(canonical_name(text).to_owned()),
        }
    }

    /// Returns a pattern for a tool of an MCP server, by their own names; `*` as the tool means all
    /// tools of the server.
    pub fn for_server(server: &str, tool: &str) -> Self {
        let server = if server == "*" { "*".to_owned() } else { registered_name(server) };
        let prefix = format!("mcp_{server}_");
        if tool.starts_with(&prefix) || (server == "*" && tool.starts_with("mcp_")) {
            return Self::parse(tool);
        }
        match (server.as_str(), tool) {
            ("*", "*") => Self::parse("mcp_*"),
            _ => {
                let tool = if tool.contains('*') { tool.to_owned() } else { registered_name(tool) };
                Self::parse(&format!("{prefix}{tool}"))
            }
        }
    }

    /// Whether the pattern covers a tool with this registered name, or everything that another
    /// pattern covers.
    pub fn covers(&self, name: &str) -> bool {
        self.matches(&[name])
    }

    /// Whether the pattern covers one of the names.
    pub(crate) fn matches(&self, names: &[&str]) -> bool {
        match self {
            Self::Any => true,
            Self::Wildcard { prefix, suffix } => names.iter().any(|name| {
                name.strip_prefix(prefix.as_str())
                    .is_some_and(|rest| rest.ends_with(suffix.as_str()))
            }),
            Self::Exact(exact) => names.iter().any(|name| name == exact),
        }
    }

    /// Whether the pattern may allow tools of this MCP server. A pattern with a full server name
    /// (`mcp_git_*`) does not mean the server `git_of_others`, even though it matches the names of
    /// its tools.
    pub(crate) fn may_allow_server(&self, server: &str) -> bool {
        let Self::Wildcard { prefix, suffix } = self else { return true };
        let Some(written) = prefix.strip_prefix("mcp_").filter(|rest| rest.contains('_')) else {
            // The pattern does not fix the name of the server.
            return true;
        };
        let registered = registered_name(server);
        match written.strip_suffix('_').filter(|_| suffix.is_empty()) {
            Some(whole) => whole == registered,
            None => written
                .strip_prefix(&registered)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('_')),
        }
    }

    /// Returns the pattern in rule syntax.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Any => "*".to_owned(),
            Self::Wildcard { prefix, suffix } => format!("{prefix}*{suffix}"),
            Self::Exact(name) => name.clone(),
        }
    }
}

/// Returns the name of a server or tool as it appears in registered tool names.
pub(crate) fn registered_name(name: &str) -> String {
    let fits = |character: char| character.is_ascii_alphanumeric() || "_-.:".contains(character);
    name.chars().map(|character| if fits(character) { character } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::ToolPattern;

    #[test]
    fn full_server_name_does_not_match_longer_names() {
        for (pattern, server, meant) in [
            ("mcp_u_*", "u", true),
            ("mcp_u_*", "u_x", false),
            ("mcp_u_*", "u ", false),
            ("mcp_u_x_*", "u_x", true),
            ("mcp_u_x_*", "u", false),
            ("mcp_my_server_*", "my server", true),
            ("mcp_u_read*", "u", true),
            ("mcp_u_read*", "u_readers", false),
            ("mcp_u_x*", "u_x", true),
            ("mcp_u_*_read", "u", true),
            ("mcp_u_*_read", "u_x", false),
            ("mcp_git*", "github_of_others", true),
            ("mcp_*", "any", true),
            ("*_read", "any", true),
            ("*", "any", true),
        ] {
            assert_eq!(
                ToolPattern::parse(pattern).may_allow_server(server),
                meant,
                "{pattern} {server}"
            );
        }
    }

    #[test]
    fn server_and_tool_form_a_name() {
        for (server, tool, name, covered) in [
            ("git", "push", "mcp_git_push", true),
            ("git", "push", "mcp_hub_push", false),
            ("git", "*", "mcp_git_push", true),
            ("git", "mcp_git_push", "mcp_git_push", true),
            ("my server", "*", "mcp_my_server_x", true),
            ("*", "push", "mcp_hub_push", true),
            ("*", "push", "push", false),
            ("*", "*", "mcp_a_b", true),
            ("*", "*", "read_file", false),
        ] {
            let pattern = ToolPattern::for_server(server, tool);
            assert_eq!(pattern.matches(&[name]), covered, "{server} {tool} {name} {pattern:?}");
        }
    }
}
