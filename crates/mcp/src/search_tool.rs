//! The `mcp_search_tools` tool: if the tools of all servers would fill too much of the context
//! window, the model searches for those that it needs.

use std::fmt::Write as _;

use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, RunContext, Tool, ToolError,
    ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::{Value, json};

use crate::servers::Servers;
use parallax_protocol::untrusted::wrap;

/// The name of the tool that finds undeclared tools.
pub const SEARCH_TOOLS: &str = "mcp_search_tools";
/// Maximum tools that one search declares.
const MAX_FOUND: usize = 10;
/// Maximum characters of a description in the list.
const MAX_SHOWN: usize = 200;
/// Maximum servers named in the tool description.
const MAX_NAMED: usize = 50;

pub(crate) struct SearchTools {
    spec: ToolSpec,
    servers: Servers,
}

impl SearchTools {
    /// Creates the tool. `offered` lists servers with undeclared tools, the number of their tools,
    /// and the configured description of the server.
    pub(crate) fn new(servers: Servers, offered: &[(String, usize, String)]) -> Self {
        let mut description =
            "Finds tools of MCP servers. There are too many to declare them all; \
            tools that a search finds can be called from the next request on. Undeclared tools:"
                .to_owned();
        for (name, count, about) in offered.iter().take(MAX_NAMED) {
            let about: String = about.chars().take(MAX_SHOWN).collect();
            let about = if about.is_empty() { about } else { format!(": {about}") };
            let _ = write!(description, "\n- `{name}`, {count} tools{about}");
        }
        if offered.len() > MAX_NAMED {
            let _ = write!(description, "\n- and {} more servers", offered.len() - MAX_NAMED);
        }
        let spec = ToolSpec {
            name: SEARCH_TOOLS.to_owned(),
            display_name: "McpSearchTools".to_owned(),
            description,
            parameters: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "Words that describe the tool, or \
                        its name. A server name finds all its tools."}
                },
                "required": ["query"]
            }),
            kind: ToolKind::Search,
            concurrency: Concurrency::Shared,
            aliases: Vec::new(),
        };
        Self { spec, servers }
    }
}

impl Tool for SearchTools {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let query = args.get("query").and_then(Value::as_str).map(str::trim).unwrap_or_default();
        if split_words(query).is_empty() {
            let message = "`query` must be a string with at least one word";
            return Err(ToolError::new(ToolErrorKind::InvalidToolParams, message));
        }
        let servers = self.servers.clone();
        Ok(Box::new(ToolSearch { servers, query: query.to_owned(), effects: Effects::default() }))
    }
}

struct ToolSearch {
    servers: Servers,
    query: String,
    effects: Effects,
}

impl Invocation for ToolSearch {
    fn title(&self) -> String {
        self.query.clone()
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, _run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(async move {
            let known = self.servers.deferred();
            let found =
                best_matches(&self.query, known.iter().map(|tool| (tool.spec(), tool.server())));
            if found.is_empty() {
                return ToolResult::text(
                    "No MCP tool matches these words. Try other words, or the name of a server.",
                );
            }
            let mut lines = String::new();
            for spec in &found {
                let about = spec.description.split_whitespace().collect::<Vec<_>>().join(" ");
                let about: String = about.chars().take(MAX_SHOWN).collect();
                let _ = write!(lines, "\n- {}: {about}", spec.name);
            }
            let names: Vec<String> = found.iter().map(|spec| spec.name.clone()).collect();
            let count = names.len();
            self.servers.declare(names);
            let text = format!(
                "Found {count}; they can be called from now on:\n{}",
                // Names and descriptions come from the servers.
                wrap(lines.trim_start())
            );
            ToolResult::text(text).with_display(Display::text(format!("{count} tools")))
        })
    }
}

fn split_words(text: &str) -> Vec<String> {
    let words = text.split(|char: char| !char.is_alphanumeric());
    let words = words.map(|word| {
        let word = word.to_lowercase();
        // "issues" also finds "issue".
        match word.strip_suffix('s') {
            Some(one) if one.len() > 2 => one.to_owned(),
            _ => word,
        }
    });
    words.filter(|word| !word.is_empty()).take(20).collect()
}

/// Returns the best matches: words count most in the tool name, then in the server name, then in
/// the description.
fn best_matches<'a>(
    query: &str,
    tools: impl Iterator<Item = (&'a ToolSpec, &'a str)>,
) -> Vec<&'a ToolSpec> {
    let words = split_words(query);
    let score = |(spec, server): (&'a ToolSpec, &'a str)| {
        let (name, server) = (spec.name.to_lowercase(), server.to_lowercase());
        let description = spec.description.to_lowercase();
        let own = name.strip_prefix("mcp_").unwrap_or(&name).replacen(&server, "", 1);
        let of = |word: &String| {
            u32::from(own.contains(word.as_str())) * 4
                + u32::from(server.contains(word.as_str())) * 2
                + u32::from(description.contains(word.as_str()))
        };
        let score: u32 = words.iter().map(of).sum();
        (score > 0).then_some((score, spec))
    };
    let mut found: Vec<(u32, &ToolSpec)> = tools.filter_map(score).collect();
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.name.cmp(&b.1.name)));
    found.into_iter().take(MAX_FOUND).map(|(_, spec)| spec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, description: &str) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            display_name: String::new(),
            description: description.to_owned(),
            parameters: json!({}),
            kind: ToolKind::Other,
            concurrency: Concurrency::Shared,
            aliases: Vec::new(),
        }
    }

    #[test]
    fn name_matches_rank_above_description_matches() {
        let tools = [
            spec("mcp_git_log", "Lists commits; not issues."),
            spec("mcp_hub_create_issue", "Makes one."),
            spec("mcp_hub_star", "Marks a project."),
        ];
        let find = |query: &str| {
            let known = tools.iter().zip(["git", "hub", "hub"]);
            best_matches(query, known).iter().map(|spec| spec.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(find("Issues"), ["mcp_hub_create_issue", "mcp_git_log"]);
        assert_eq!(find("hub"), ["mcp_hub_create_issue", "mcp_hub_star"]);
        assert!(find("weather").is_empty() && find("mcp").is_empty());
    }
}
