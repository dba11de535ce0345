//! Inserts the sources of a grounded answer into its text: `[n]` after each supported segment, and
//! a list of sources at the end.

use parallax_protocol::content::PartView;
use parallax_protocol::model::{Answer, Citation};
use serde_json::Value;

/// Maximum number of supports; an answer has a few dozen.
const MAX_SUPPORTS: usize = 2_000;
/// Maximum number of sources in the list.
const MAX_SOURCES: usize = 200;

/// A source of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CitedSource {
    /// Its title, on one line.
    pub(crate) title: String,
    /// Its URL, on one line.
    pub(crate) uri: String,
}

/// The text of an answer with citations and the cited sources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CitedText {
    /// The text with `[n]` markers.
    pub(crate) text: String,
    /// The sources, in the order of their numbers.
    pub(crate) sources: Vec<CitedSource>,
}

impl CitedText {
    /// Reads the visible text and the grounding metadata of an answer.
    pub(crate) fn read(answer: &Answer) -> Self {
        let mut text = String::new();
        // The start of each part in the joined text, because segments count bytes within a part.
        let mut begins = Vec::with_capacity(answer.parts.len());
        for part in &answer.parts {
            begins.push(text.len());
            if let PartView::Text(piece) = part.view() {
                text.push_str(piece);
            }
        }
        let Some(grounding) = &answer.metadata.grounding else {
            let mut citations = answer.metadata.citations.clone();
            citations.sort();
            citations.dedup();
            citations.retain(|source| !source.uri.is_empty());
            return Self {
                text,
                sources: citations.into_iter().take(MAX_SOURCES).map(source).collect(),
            };
        };
        let sources = sources(grounding);
        let mut marks = marks(grounding, &begins, sources.len());
        for (position, _) in &mut marks {
            *position = ceil_char_boundary(&text, *position);
        }
        marks.sort();
        marks.dedup();
        Self { text: insert(&text, &marks), sources }
    }

    /// Returns the text followed by the `Sources:` list, if there are sources.
    pub(crate) fn with_list(&self) -> String {
        let mut text = self.text.clone();
        if !self.sources.is_empty() {
            text.push_str("\n\nSources:");
            for (index, source) in self.sources.iter().enumerate() {
                text.push_str(&format!("\n[{}] {} ({})", index + 1, source.title, source.uri));
            }
        }
        text
    }
}

fn sources(grounding: &Value) -> Vec<CitedSource> {
    Citation::from_grounding(grounding).take(MAX_SOURCES).map(source).collect()
}

fn source(citation: Citation) -> CitedSource {
    let put = |text: &str, absent: &str| {
        let line = one_line(text);
        if line.is_empty() { absent.to_owned() } else { line }
    };
    CitedSource {
        title: put(citation.title.as_deref().unwrap_or(""), "Untitled"),
        uri: put(&citation.uri, "no address"),
    }
}

/// Returns the byte positions in the joined text with the source numbers (from 1) to insert there.
fn marks(grounding: &Value, begins: &[usize], sources: usize) -> Vec<(usize, Vec<usize>)> {
    let supports = grounding.get("groundingSupports").and_then(Value::as_array);
    supports
        .into_iter()
        .flatten()
        .take(MAX_SUPPORTS)
        .filter_map(|support| {
            let segment = support.get("segment")?;
            // On the wire, a missing end means 0: there is no segment to cite.
            let end = usize::try_from(segment.get("endIndex")?.as_u64()?).ok()?;
            let part = segment.get("partIndex").and_then(Value::as_u64).unwrap_or(0);
            let begin = usize::try_from(part).ok().and_then(|part| begins.get(part)).copied();
            let mut numbers: Vec<usize> = support
                .get("groundingChunkIndices")?
                .as_array()?
                .iter()
                .filter_map(|index| usize::try_from(index.as_u64()?).ok())
                .filter(|index| *index < sources)
                .map(|index| index + 1)
                .collect();
            numbers.sort_unstable();
            numbers.dedup();
            (!numbers.is_empty()).then(|| (begin.unwrap_or(0).saturating_add(end), numbers))
        })
        .collect()
}

/// Inserts the sorted `marks`, which are on character boundaries.
fn insert(text: &str, marks: &[(usize, Vec<usize>)]) -> String {
    let mut cited = String::with_capacity(text.len() + marks.len() * 4);
    let mut done = 0;
    for (position, numbers) in marks {
        cited.push_str(text.get(done..*position).unwrap_or(""));
        done = (*position).max(done);
        for number in numbers {
            cited.push_str(&format!("[{number}]"));
        }
    }
    cited.push_str(text.get(done..).unwrap_or(""));
    cited
}

/// Returns the first character boundary at or after `position`, at most the end of the text.
fn ceil_char_boundary(text: &str, position: usize) -> usize {
    (position..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// Replaces whitespace and control characters by spaces, so that a title cannot add lines.
fn one_line(text: &str) -> String {
    text.split(|letter: char| letter.is_whitespace() || letter.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use parallax_protocol::content::Part;
    use parallax_protocol::model::Chunk;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn answer(parts: Vec<Part>, grounding: Value) -> Answer {
        Answer { parts, metadata: Chunk { grounding: Some(grounding), ..Chunk::default() } }
    }

    #[test]
    fn citation_offsets_are_bytes_after_an_emoji() {
        let text = "Sonne ☀️ über Köln. Regen 🌧.";
        let first = "Sonne ☀️ über Köln.".len();
        let cited = CitedText::read(&answer(
            vec![Part::text(text)],
            json!({
                "groundingChunks": [
                    {"web": {"title": "A\nB", "uri": "https://a.example"}},
                    {"web": {"uri": "https://b.example"}}],
                "groundingSupports": [
                    {"segment": {"endIndex": text.len()}, "groundingChunkIndices": [1, 0, 1, 9]},
                    {"segment": {"endIndex": first}, "groundingChunkIndices": [0]}]}),
        ));
        assert_eq!(
            cited.with_list(),
            "Sonne ☀️ über Köln.[1] Regen 🌧.[1][2]\n\nSources:\n\
             [1] A B (https://a.example)\n[2] Untitled (https://b.example)"
        );
    }

    #[test]
    fn citation_segments_are_relative_to_their_part() {
        let thought = Part::text("hmm");
        let parts = vec![thought, Part::text("one."), Part::text("two.")];
        let grounding = json!({
            "groundingChunks": [{"web": {"title": "T", "uri": "u"}}],
            "groundingSupports": [
                {"segment": {"partIndex": 2, "endIndex": 3}, "groundingChunkIndices": [0]}]});
        assert_eq!(CitedText::read(&answer(parts, grounding)).text, "hmmone.two[1].");
    }

    proptest! {
        #[test]
        fn any_offset_is_moved_to_a_character_boundary(text in "\\PC{0,40}", ends in proptest::collection::vec(any::<u64>(), 0..6)) {
            let supports: Vec<Value> = ends.iter().enumerate().map(|(index, end)| {
                let end = if index % 2 == 0 { end % 60 } else { *end };
                json!({"segment": {"endIndex": end}, "groundingChunkIndices": [0]})
            }).collect();
            let grounding = json!({
                "groundingChunks": [{"web": {"title": "T", "uri": "u"}}],
                "groundingSupports": supports});
            let cited = CitedText::read(&answer(vec![Part::text(text.clone())], grounding));
            prop_assert_eq!(cited.text.replace("[1]", ""), text.replace("[1]", ""));
        }
    }
}
