//! Descriptions of models that services provide. They take precedence over the built-in table, and
//! the settings over them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};

/// What a service stated about a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiscoveredModel {
    /// The context window in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The maximum output in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// The kinds of input (`text`, `image`, `pdf`); empty: not stated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input: Vec<String>,
}

/// Models by full name (`anthropic:claude-…`).
pub type DiscoveredModels = BTreeMap<String, DiscoveredModel>;

/// Reads the stored descriptions. Called once, when a model of a provider is first looked up.
pub type ReadDiscovered = Arc<dyn Fn() -> DiscoveredModels + Send + Sync>;

/// The models that services described, shared by all clones of a table.
#[derive(Clone, Default)]
pub(crate) struct DescriptionCache {
    read: Option<ReadDiscovered>,
    models: Arc<OnceLock<Mutex<DiscoveredModels>>>,
}

impl DescriptionCache {
    pub(crate) fn from_stored(read: ReadDiscovered) -> Self {
        Self { read: Some(read), models: Arc::default() }
    }

    pub(crate) fn get(&self, name: &str) -> Option<DiscoveredModel> {
        self.models().get(name).cloned()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.models().keys().cloned().collect()
    }

    pub(crate) fn extend(&self, models: DiscoveredModels) {
        self.models().extend(models);
    }

    fn models(&self) -> MutexGuard<'_, DiscoveredModels> {
        let read = || Mutex::new(self.read.as_ref().map(|read| read()).unwrap_or_default());
        self.models.get_or_init(read).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for DescriptionCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DescriptionCache").field(&self.models.get()).finish()
    }
}
