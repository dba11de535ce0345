//! The files of the page. The script is written in parts that share one scope.

use std::fmt::Write as _;

use base64::Engine as _;
use sha2::{Digest as _, Sha256};

/// The document.
pub const PAGE: &str = include_str!("page/page.html");
/// The style sheet.
pub const STYLE: &str = include_str!("page/devtools.css");
/// The script.
pub const SCRIPT: &str = concat!(
    "'use strict';\n(() => {\n",
    include_str!("page/dom.js"),
    include_str!("page/prose.js"),
    include_str!("page/model.js"),
    include_str!("page/live.js"),
    include_str!("page/wire-view.js"),
    include_str!("page/views.js"),
    include_str!("page/more-views.js"),
    include_str!("page/start.js"),
    "})();\n"
);

/// Returns the document with other elements in its head and at its end, in place of links to files.
pub fn document(head: &str, end: &str) -> String {
    let lines = PAGE.lines().filter(|line| {
        !["<link ", "<script ", "<title>", "<noscript>"].iter().any(|tag| line.starts_with(tag))
    });
    let mut text = String::with_capacity(PAGE.len() + head.len() + end.len());
    for line in lines {
        match line {
            "</head>" => text.push_str(head),
            "</body>" => text.push_str(end),
            _ => {}
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// A script or style inside a document, with the source that a content security policy names.
pub struct InlineElement {
    /// The text.
    pub text: &'static str,
    /// `'sha256-…'`.
    pub source: String,
}

impl InlineElement {
    /// Creates an inline element with this text.
    pub fn new(text: &'static str) -> Self {
        let mut source = String::new();
        let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text));
        // Writing to a string does not fail.
        let _ = write!(source, "'sha256-{hash}'");
        Self { text, source }
    }
}

/// Escapes JSON lines as text of a `<script>` that is not run: nothing in them ends the element or
/// starts a comment.
pub fn json_for_script(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn devtools_page_is_small_and_self_contained() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        for part in [PAGE, STYLE, SCRIPT] {
            packed.write_all(part.as_bytes()).expect("memory");
            let text = part.replace("http://www.w3.org/2000/svg", "");
            for outside in ["http://", "https://", "innerHTML", "eval(", "document.write"] {
                assert!(!text.contains(outside), "{outside}");
            }
        }
        assert!(packed.finish().expect("memory").len() <= 250_000);
        assert!(!SCRIPT.contains("</script") && !STYLE.contains("</style"));
    }

    #[test]
    fn embedded_json_contains_no_markup() {
        let text = json_for_script(r#"{"a":"</script><!--<script>"}"#);
        assert!(!text.contains('<'), "{text}");
        let value: serde_json::Value = serde_json::from_str(&text).expect("json");
        assert_eq!(value["a"], "</script><!--<script>");
    }
}
