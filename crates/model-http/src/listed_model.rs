//! A model as its service describes it.

/// A model as the service describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedModel {
    /// The id, without the provider's prefix.
    pub id: String,
    /// The display name, if it differs.
    pub name: Option<String>,
    /// The context window in tokens.
    pub context_window: Option<u64>,
    /// The maximum output in tokens.
    pub max_output: Option<u64>,
    /// The kinds of input (`text`, `image`, `pdf`).
    pub input: Vec<String>,
}
