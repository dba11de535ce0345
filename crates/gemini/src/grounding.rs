//! Parses `groundingMetadata` (web search) and `urlContextMetadata` (page reader).

use parallax_protocol::grounding::{GroundedSegment, Grounding, PageRead, PageReads};
use parallax_protocol::model::Citation;
use serde_json::Value;

/// Maximum number of segments; an answer has a few dozen.
const MAX_SEGMENTS: usize = 2_000;

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn index(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}

/// Parses `groundingMetadata`. Mistyped fields are omitted.
pub(crate) fn parse_grounding(raw: Value) -> Grounding {
    let sources = list(&raw, "groundingChunks").map(source).collect();
    let supports = list(&raw, "groundingSupports").take(MAX_SEGMENTS);
    let segments = supports.filter_map(segment).collect();
    Grounding { sources, segments, raw }
}

fn source(chunk: &Value) -> Citation {
    let source = ["web", "retrievedContext", "maps"].iter().find_map(|kind| chunk.get(kind));
    let field = |name: &str| source?.get(name)?.as_str().map(str::to_owned);
    Citation { title: field("title"), uri: field("uri").unwrap_or_default() }
}

fn segment(support: &Value) -> Option<GroundedSegment> {
    let segment = support.get("segment")?;
    Some(GroundedSegment {
        part: segment.get("partIndex").and_then(index).unwrap_or(0),
        // On the wire, a missing end means 0: no segment can be cited.
        end: index(segment.get("endIndex")?)?,
        sources: list(support, "groundingChunkIndices").filter_map(index).collect(),
    })
}

/// Parses `urlContextMetadata`.
pub(crate) fn parse_page_reads(raw: Value) -> PageReads {
    let pages = list(&raw, "urlMetadata").filter_map(|item| {
        let status = item.get("urlRetrievalStatus").and_then(Value::as_str);
        Some(PageRead {
            url: item.get("retrievedUrl")?.as_str()?.to_owned(),
            was_read: status == Some("URL_RETRIEVAL_STATUS_SUCCESS"),
        })
    });
    let pages = pages.collect();
    PageReads { pages, raw }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sources_and_segments_keep_their_order_and_mistyped_ones_are_omitted() {
        let grounding = parse_grounding(json!({
            "groundingChunks": [{"web": {"title": "T", "uri": "u"}}, {"maps": {}}, 7],
            "groundingSupports": [
                {"segment": {"endIndex": 3}, "groundingChunkIndices": [1, "x", 0]},
                {"segment": {"partIndex": 2, "endIndex": 4}, "groundingChunkIndices": [0]},
                {"segment": {"startIndex": 1}, "groundingChunkIndices": [0]},
                {"groundingChunkIndices": [0]}]}));
        let none = Citation::default();
        assert_eq!(
            grounding.sources,
            [Citation { title: Some("T".into()), uri: "u".into() }, none.clone(), none]
        );
        assert_eq!(
            grounding.segments,
            [
                GroundedSegment { part: 0, end: 3, sources: vec![1, 0] },
                GroundedSegment { part: 2, end: 4, sources: vec![0] },
            ]
        );
    }

    #[test]
    fn only_successful_page_reads_count_as_read() {
        let page = |url: &str, status| json!({"retrievedUrl": url, "urlRetrievalStatus": status});
        let reads = parse_page_reads(json!({"urlMetadata": [
            page("a", "URL_RETRIEVAL_STATUS_SUCCESS"), page("b", "URL_RETRIEVAL_STATUS_ERROR"), 7]}));
        let read: Vec<_> = reads.pages.iter().map(|page| (&*page.url, page.was_read)).collect();
        assert_eq!(read, [("a", true), ("b", false)]);
    }
}
