//! `get_internal_docs`: returns Parallax's own documentation, which is embedded in the binary.

use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, RunContext, Tool, ToolError,
    ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::json;

use crate::arguments::Arguments;
use crate::failure::invalid_params;

/// Pages by their paths in the documentation directory.
pub type Pages = &'static [(&'static str, &'static str)];

/// The tool.
#[derive(Debug)]
pub struct GetInternalDocs {
    spec: ToolSpec,
    pages: Pages,
}

impl GetInternalDocs {
    /// Creates the tool for these pages.
    pub fn new(pages: Pages) -> Self {
        let spec = ToolSpec {
            name: "get_internal_docs".into(),
            display_name: "GetInternalDocs".into(),
            description: "Reads the documentation of this program. Without a path it lists the \
                          pages."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {"path": {"type": "string", "description": "A page, as listed."}},
            }),
            kind: ToolKind::Think,
            concurrency: Concurrency::Shared,
            aliases: Vec::new(),
        };
        Self { spec, pages }
    }
}

impl Tool for GetInternalDocs {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let args = Arguments::check(args, &self.spec)?;
        let (title, text) = match args.optional_text("path").map(str::trim) {
            None | Some("") => {
                let mut paths: Vec<&str> = self.pages.iter().map(|(path, _)| *path).collect();
                paths.sort_unstable();
                ("the pages".to_owned(), paths.join("\n"))
            }
            Some(path) => {
                let normalized = path.trim_start_matches("./").trim_start_matches("docs/");
                let page = self.pages.iter().find(|(known, _)| *known == normalized);
                let page = page.ok_or_else(|| {
                    invalid_params(format!(
                        "unknown page `{path}`; call without a path to list the pages"
                    ))
                })?;
                (normalized.to_owned(), page.1.to_owned())
            }
        };
        Ok(Box::new(GetInternalDocsCall { title, text, effects: Effects::default() }))
    }
}

struct GetInternalDocsCall {
    title: String,
    text: String,
    effects: Effects,
}

impl Invocation for GetInternalDocsCall {
    fn title(&self) -> String {
        format!("Read {}", self.title)
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, _run: RunContext) -> BoxFuture<'static, ToolResult> {
        let lines = self.text.lines().count();
        let outcome =
            ToolResult::text(self.text).with_display(Display::text(format!("{lines} lines")));
        Box::pin(std::future::ready(outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{object, run, scope};

    #[tokio::test]
    async fn only_documentation_pages_are_readable() {
        let tool = GetInternalDocs::new(&[("b.md", "B"), ("a/a.md", "A")]);
        assert_eq!(run(&tool, json!({})).await.for_model.output, "a/a.md\nb.md");
        assert_eq!(run(&tool, json!({"path": "docs/b.md"})).await.for_model.output, "B");
        for path in ["../Cargo.toml", "/etc/passwd", "c.md"] {
            assert!(tool.prepare(object(json!({"path": path})), &scope("x")).is_err());
        }
    }
}
