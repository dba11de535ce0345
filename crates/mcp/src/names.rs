//! The names under which server tools are declared to the model.

/// Maximum length of a name that services accept.
const MAX_LENGTH: usize = 63;
/// The characters kept at each end of a longer name.
const MAX_KEPT: usize = 30;

/// Returns the name of a server tool: `mcp_<server>_<tool>`, with `_` for invalid characters,
/// shortened in the middle if too long.
pub fn tool_name(server: &str, tool: &str) -> String {
    let name = full_name(server, tool);
    if name.len() <= MAX_LENGTH {
        return name;
    }
    let (start, end) = (name.get(..MAX_KEPT), name.get(name.len() - MAX_KEPT..));
    format!("{}...{}", start.unwrap_or_default(), end.unwrap_or_default())
}

/// Returns the name without shortening, which rules that specify server and tool refer to.
pub(crate) fn full_name(server: &str, tool: &str) -> String {
    let prefix = if server.starts_with("mcp_") { "" } else { "mcp_" };
    format!("{prefix}{}_{}", replace_invalid(server), replace_invalid(tool))
}

fn replace_invalid(name: &str) -> String {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "_.:-".contains(letter);
    name.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect()
}

/// Returns a name from a server in a form that is safe in messages: one word, limited in length.
pub(crate) fn display_name(name: &str) -> String {
    replace_invalid(name).chars().take(MAX_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::tool_name;

    #[test]
    fn tool_names_are_sanitized_and_shortened() {
        for (server, tool, name) in [
            ("git", "push", "mcp_git_push"),
            ("mcp_git", "push", "mcp_git_push"),
            ("my server", "do it/now", "mcp_my_server_do_it_now"),
            ("s", "a.b:c-d", "mcp_s_a.b:c-d"),
            ("s", "ä", "mcp_s__"),
        ] {
            assert_eq!(tool_name(server, tool), name);
        }
        let long = tool_name("server", &"x".repeat(90));
        assert_eq!(long, format!("mcp_server_{}...{}", "x".repeat(19), "x".repeat(30)));
        assert_eq!(long.len(), 63);
    }

    proptest! {
        #[test]
        fn every_tool_name_is_valid_for_providers(server in ".*", tool in ".*") {
            let name = tool_name(&server, &tool);
            prop_assert!(name.len() <= 63);
            prop_assert!(name.starts_with("mcp_"));
            prop_assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "_.:-".contains(c)));
        }
    }
}
