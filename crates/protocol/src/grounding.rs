//! What an answer is based on, if the service searched the web or read pages for it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The sources of an answer, and the segments of it that they support.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Grounding {
    /// The sources. [`GroundedSegment::sources`] refers to them by index, so a source without a URI
    /// has an empty one.
    pub sources: Vec<Citation>,
    /// The supported segments.
    pub segments: Vec<GroundedSegment>,
    /// The data as received, for recordings.
    pub raw: Value,
}

/// A segment of an answer that sources support.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroundedSegment {
    /// The index of the part.
    pub part: usize,
    /// The end of the segment in bytes within the part.
    pub end: usize,
    /// Indexes of the sources.
    pub sources: Vec<usize>,
}

/// The pages that the service read for an answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageReads {
    /// The pages, including those that could not be read.
    pub pages: Vec<PageRead>,
    /// The data as received, for recordings.
    pub raw: Value,
}

/// A page that the service tried to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRead {
    /// Its URL. Redirected pages have another one than the request.
    pub url: String,
    /// Whether it was read.
    pub was_read: bool,
}

/// A source of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Citation {
    /// The title, if known.
    #[serde(default)]
    pub title: Option<String>,
    /// The URI.
    #[serde(default)]
    pub uri: String,
}
