//! Rendering a whole text.

use parallax_screen::Line;

use crate::render_options::RenderOptions;
use crate::streamed::StreamedMarkdown;

/// Renders a whole text.
pub fn render(text: &str, options: &RenderOptions<'_>) -> Vec<Line> {
    let mut stream = StreamedMarkdown::new();
    stream.push(text);
    stream.finish(options)
}
