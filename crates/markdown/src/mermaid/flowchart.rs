//! Renders flowcharts from top to bottom. A node that has several parents, or is its own ancestor,
//! is drawn once and referenced elsewhere.

use std::collections::{HashMap, HashSet};

use parallax_screen::text_width;

use super::MAX_COUNT;
use super::canvas::Canvas;
use parallax_screen::sanitize;

/// Number of columns between two boxes.
const GAP: usize = 3;
/// Maximum columns of a label: more than windows have, so that nothing is truncated in a diagram
/// that fits.
const LABEL: usize = 400;

/// A parsed flowchart.
#[derive(Debug, Default)]
struct Graph {
    /// Node ids in order of appearance.
    ids: Vec<String>,
    labels: HashMap<String, String>,
    /// Edges: source, target, label.
    edges: Vec<(String, String, String)>,
}

/// Draws the lines after the header.
pub(super) fn draw<'l>(lines: impl Iterator<Item = &'l str>) -> Option<Canvas> {
    let mut graph = Graph::default();
    for line in lines {
        let word = line.split_whitespace().next().unwrap_or_default();
        match word {
            "classDef" | "class" | "style" | "linkStyle" | "click" => continue,
            "subgraph" | "end" | "direction" => return None,
            _ => graph.read(line)?,
        }
    }
    if graph.ids.is_empty() || graph.ids.len() > MAX_COUNT {
        return None;
    }
    let mut drawn = HashSet::new();
    let is_target = |id: &String| graph.edges.iter().any(|(_, to, _)| to == id);
    let mut roots: Vec<&String> = graph.ids.iter().filter(|id| !is_target(id)).collect();
    roots.extend(graph.ids.first().filter(|_| roots.is_empty()));
    let mut canvas = Canvas::default();
    let mut column = 0;
    for root in roots {
        let (tree, _) = graph.tree(root, &mut drawn, 0)?;
        canvas.copy(&tree, column, 0);
        column += tree.width() + GAP;
    }
    // A cycle outside the tree has no root.
    graph.ids.iter().all(|id| drawn.contains(id)).then_some(canvas)
}

impl Graph {
    /// Parses the nodes and arrows of a line.
    fn read(&mut self, line: &str) -> Option<()> {
        let (mut from, mut rest) = self.node(line)?;
        while !rest.is_empty() {
            let (label, after) = arrow(rest)?;
            let (to, after) = self.node(after)?;
            self.edges.push((from, to.clone(), label));
            if self.edges.len() > 2 * MAX_COUNT {
                return None;
            }
            (from, rest) = (to, after);
        }
        Some(())
    }

    /// Parses a node at the start of a string. Returns its id and the rest.
    fn node<'t>(&mut self, text: &'t str) -> Option<(String, &'t str)> {
        let text = text.trim_start();
        let end =
            text.find(|char: char| !(char.is_alphanumeric() || char == '_')).unwrap_or(text.len());
        let (id, rest) = text.split_at(end);
        if id.is_empty() {
            return None;
        }
        let (label, rest) = match shape(rest) {
            Some((label, rest)) => (Some(label), rest),
            None => (None, rest),
        };
        if !self.labels.contains_key(id) {
            self.ids.push(id.to_owned());
            self.labels.insert(id.to_owned(), id.to_owned());
        }
        if let Some(label) = label {
            self.labels.insert(id.to_owned(), label);
        }
        Some((id.to_owned(), rest.trim_start()))
    }

    /// Draws a node and its children. Returns the canvas and the middle column of the node.
    fn tree(&self, id: &str, drawn: &mut HashSet<String>, depth: usize) -> Option<(Canvas, usize)> {
        let label = self.labels.get(id)?;
        let mut canvas = Canvas::default();
        if !drawn.insert(id.to_owned()) || depth > MAX_COUNT {
            let text = format!("↩ {label}");
            canvas.write_text(0, 0, &text);
            return Some((canvas, text_width(&text) / 2));
        }
        let mut children = Vec::new();
        for (_, to, label) in self.edges.iter().filter(|(from, ..)| from == id) {
            let (tree, middle) = self.tree(to, drawn, depth + 1)?;
            children.push((tree, middle, label.as_str()));
        }
        let width = text_width(label) + 4;
        if children.is_empty() {
            canvas.draw_box(0, 0, label);
            return Some((canvas, width / 2));
        }
        // The children side by side, each with space for the label of its arrow.
        let mut positions = Vec::new();
        let mut column = 0;
        for (tree, middle, label) in &children {
            let label_end = middle + 2 + text_width(label);
            positions.push((column, column + middle));
            column += tree.width().max(label_end) + GAP;
        }
        let (first, last) = (positions.first()?.1, positions.last()?.1);
        let middle = usize::midpoint(first, last);
        let (own, shift) = match middle.checked_sub(width / 2) {
            Some(own) => (own, 0),
            None => (0, width / 2 - middle),
        };
        let middle = middle + shift;
        canvas.draw_box(own, 0, label);
        canvas.write_text(middle, 2, "┬");
        let mut row = 3;
        if children.len() > 1 {
            for index in first + shift..=last + shift {
                let is_child = positions.iter().any(|(_, child)| child + shift == index);
                let marker = match (index == first + shift, index == last + shift) {
                    (true, _) => "┌",
                    (_, true) => "┐",
                    _ if index == middle && is_child => "┼",
                    _ if index == middle => "┴",
                    _ if is_child => "┬",
                    _ => "─",
                };
                canvas.write_text(index, row, marker);
            }
            row += 1;
        }
        for ((tree, _, label), (column, child)) in children.iter().zip(&positions) {
            canvas.write_text(child + shift, row, "▼");
            canvas.write_text(child + shift + 2, row, label);
            canvas.copy(tree, column + shift, row + 1);
        }
        Some((canvas, middle))
    }
}

/// Parses the bracketed label at the start of a string. Returns it and the rest.
fn shape(text: &str) -> Option<(String, &str)> {
    const SHAPES: [(&str, &str); 9] = [
        ("((", "))"),
        ("([", "])"),
        ("[[", "]]"),
        ("[(", ")]"),
        ("[/", "/]"),
        ("[", "]"),
        ("(", ")"),
        ("{", "}"),
        (">", "]"),
    ];
    let (open, close) = SHAPES.into_iter().find(|(open, _)| text.starts_with(open))?;
    let (label, rest) = text.get(open.len()..)?.split_once(close)?;
    Some((display_label(label), rest))
}

/// Returns a label as one row.
fn display_label(text: &str) -> String {
    let text = text.trim().trim_matches('"').replace("<br/>", " ").replace("<br>", " ");
    let text = sanitize::one_row(&text).into_owned();
    let text = text.trim();
    parallax_screen::layout::truncate_text(if text.is_empty() { " " } else { text }, LABEL)
}

/// Parses an arrow at the start of a string. Returns its label and the rest.
fn arrow(text: &str) -> Option<(String, &str)> {
    let is_line = |char: char| matches!(char, '-' | '.' | '=' | '>');
    let end = text.find(|char| !is_line(char)).unwrap_or(text.len());
    let (line, rest) = text.split_at(end);
    if line.len() < 2 {
        return None;
    }
    let rest = rest.trim_start();
    if let Some(rest) = rest.strip_prefix('|') {
        let (label, rest) = rest.split_once('|')?;
        return Some((display_label(label).trim().to_owned(), rest));
    }
    if line.ends_with('>') || line.len() > 2 {
        return Some((String::new(), rest));
    }
    // `-- label -->`
    let offset = rest.find("--").or_else(|| rest.find("=="))?;
    let (label, rest) = rest.split_at(offset);
    let end = rest.find(|char| !is_line(char)).unwrap_or(rest.len());
    Some((display_label(label).trim().to_owned(), &rest[end..]))
}
