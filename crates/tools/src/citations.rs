//! Inserts the sources of a grounded answer into its text: `[n]` after each supported segment, and
//! a list of sources at the end.

use parallax_protocol::content::PartView;
use parallax_protocol::grounding::GroundedSegment;
use parallax_protocol::model::{Answer, Citation};

/// Maximum number of sources in the list.
const MAX_SOURCES: usize = 200;

/// A source of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CitedSource {
    /// The title, on one line.
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
    /// Reads the visible text of an answer and what it is based on.
    pub(crate) fn read(answer: &Answer) -> Self {
        let mut text = String::new();
        // The start of each part in the joined text, because segments count bytes within a part.
        let mut starts = Vec::with_capacity(answer.parts.len());
        for part in &answer.parts {
            starts.push(text.len());
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
        let sources = grounding.sources.iter().take(MAX_SOURCES).cloned();
        let sources: Vec<CitedSource> = sources.map(source).collect();
        let mut marks = marks(&grounding.segments, &starts, sources.len());
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

fn source(citation: Citation) -> CitedSource {
    let text_or = |text: &str, fallback: &str| {
        let line = one_line(text);
        if line.is_empty() { fallback.to_owned() } else { line }
    };
    CitedSource {
        title: text_or(citation.title.as_deref().unwrap_or(""), "Untitled"),
        uri: text_or(&citation.uri, "no address"),
    }
}

/// Returns the byte positions in the joined text with the source numbers (from 1) to insert there.
fn marks(
    segments: &[GroundedSegment],
    starts: &[usize],
    sources: usize,
) -> Vec<(usize, Vec<usize>)> {
    let marks = segments.iter().filter_map(|segment| {
        let start = starts.get(segment.part).copied().unwrap_or(0);
        let known = segment.sources.iter().filter(|index| **index < sources);
        let mut numbers: Vec<usize> = known.map(|index| index + 1).collect();
        numbers.sort_unstable();
        numbers.dedup();
        (!numbers.is_empty()).then(|| (start.saturating_add(segment.end), numbers))
    });
    marks.collect()
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
    (position..text.len()).find(|offset| text.is_char_boundary(*offset)).unwrap_or(text.len())
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
    use parallax_protocol::grounding::Grounding;
    use parallax_protocol::model::Chunk;
    use proptest::prelude::*;

    use super::*;

    fn answer(
        parts: Vec<Part>,
        sources: &[(Option<&str>, &str)],
        segments: Vec<GroundedSegment>,
    ) -> Answer {
        let sources = sources.iter().map(|(title, uri)| Citation {
            title: title.map(str::to_owned),
            uri: (*uri).to_owned(),
        });
        let grounding = Grounding { sources: sources.collect(), segments, ..Grounding::default() };
        Answer { parts, metadata: Chunk { grounding: Some(grounding), ..Chunk::default() } }
    }

    fn segment(part: usize, end: usize, sources: &[usize]) -> GroundedSegment {
        GroundedSegment { part, end, sources: sources.to_vec() }
    }

    #[test]
    fn citation_offsets_count_bytes() {
        let text = "Sonne ☀️ über Köln. Regen 🌧.";
        let first = "Sonne ☀️ über Köln.".len();
        let cited = CitedText::read(&answer(
            vec![Part::text(text)],
            &[(Some("A\nB"), "https://a.example"), (None, "https://b.example")],
            vec![segment(0, text.len(), &[1, 0, 1, 9]), segment(0, first, &[0])],
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
        let answer = answer(parts, &[(Some("T"), "u")], vec![segment(2, 3, &[0])]);
        assert_eq!(CitedText::read(&answer).text, "hmmone.two[1].");
    }

    proptest! {
        #[test]
        fn any_offset_is_moved_to_a_character_boundary(text in "\\PC{0,40}", ends in proptest::collection::vec(any::<usize>(), 0..6)) {
            let segments = ends.iter().enumerate().map(|(index, end)| {
                let end = if index % 2 == 0 { end % 60 } else { *end };
                segment(0, end, &[0])
            });
            let parts = vec![Part::text(text.clone())];
            let cited = CitedText::read(&answer(parts, &[(Some("T"), "u")], segments.collect()));
            prop_assert_eq!(cited.text.replace("[1]", ""), text.replace("[1]", ""));
        }
    }
}
