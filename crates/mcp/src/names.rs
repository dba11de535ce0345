//! The names under which server tools are declared to the model.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::cache;

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

/// The length of the suffix that distinguishes equal names, including its hyphen.
const MARK: usize = 7;

/// Returns a name for each tool, given as server and tool. Different tools never share a name: the
/// tool with exactly this name on its server keeps it, otherwise the first one does. The others get
/// a suffix that depends only on server and tool.
pub(crate) fn unique_names(tools: &[(&str, &str)]) -> Vec<String> {
    let mut names: Vec<String> =
        tools.iter().map(|(server, tool)| tool_name(server, tool)).collect();
    let mut owners: HashMap<String, usize> = HashMap::new();
    for (index, (name, (_, tool))) in names.iter().zip(tools).enumerate() {
        let is_exact = |tool: &str| name.ends_with(&format!("_{tool}"));
        match owners.entry(name.clone()) {
            Entry::Vacant(free) => drop(free.insert(index)),
            Entry::Occupied(mut owner) => {
                let (_, first) = tools.get(*owner.get()).copied().unwrap_or_default();
                if is_exact(tool) && !is_exact(first) {
                    owner.insert(index);
                }
            }
        }
    }
    for (index, (name, (server, tool))) in names.iter_mut().zip(tools).enumerate() {
        if owners.get(name.as_str()) != Some(&index) {
            let hash = cache::key([*server, *tool]);
            name.truncate(MAX_LENGTH - MARK);
            name.push('-');
            name.push_str(hash.get(..MARK - 1).unwrap_or_default());
        }
    }
    names
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

    use super::{tool_name, unique_names};

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

    #[test]
    fn different_tools_never_share_a_name() {
        let (long_a, long_b) =
            ("x".repeat(40) + "A" + &"y".repeat(40), "x".repeat(40) + "B" + &"y".repeat(40));
        let tools = [
            ("s", "a b"),
            ("s", "a_b"),
            ("s", "a/b"),
            ("a", "b_e"),
            ("a_b", "e"),
            ("s", &long_a),
            ("s", &long_b),
        ];
        let names = unique_names(&tools);
        let mut distinct: Vec<&str> = names.iter().map(String::as_str).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), tools.len(), "{names:?}");
        assert_eq!((names[1].as_str(), names[3].as_str()), ("mcp_s_a_b", "mcp_a_b_e"));
        assert!(names[0].starts_with("mcp_s_a_b-") && names[2].starts_with("mcp_s_a_b-"));
        assert!(names.iter().all(|name| name.len() <= 63), "{names:?}");
        // A name with a suffix does not depend on what else the server offers.
        assert_eq!(unique_names(&[("s", "a_b"), ("s", "a/b")])[1], names[2]);
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
