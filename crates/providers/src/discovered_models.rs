//! Caches what providers report about their models in `~/.parallax/cache/models.json`, and what the
//! Gemini API reports in `gemini-models.json` beside it, so that its sessions read no other file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parallax_config::UserDirs;
use parallax_model_http::ListedModel;
use parallax_models::{DiscoveredModel, DiscoveredModels, Provider, Providers};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Age after which a provider is asked again.
const CACHE_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum bytes of the file.
const MAX_BYTES: u64 = 16 << 20;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct CachedModels {
    providers: BTreeMap<String, CachedProvider>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct CachedProvider {
    /// Entries for a different base URL are ignored.
    base_url: String,
    models: BTreeMap<String, CachedModel>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct CachedModel {
    /// Seconds since 1970.
    time: u64,
    #[serde(flatten)]
    model: DiscoveredModel,
}

/// Returns the cached models of these providers. Blocking. A damaged file is ignored and later
/// overwritten.
pub(crate) fn read(dirs: &UserDirs, providers: &Providers) -> DiscoveredModels {
    let mut found = DiscoveredModels::new();
    let mut stored = load(dirs).providers;
    for provider in providers.iter() {
        let models = stored.remove(&provider.name).filter(|it| it.base_url == provider.base_url);
        for (id, model) in models.map(|it| it.models).unwrap_or_default() {
            found.insert(format!("{}:{id}", provider.name), model.model);
        }
    }
    found
}

/// Returns whether the provider described the model within the last day. Blocking.
pub(crate) fn is_fresh(dirs: &UserDirs, provider: &Provider, id: &str) -> bool {
    let stored = load(dirs).providers.remove(&provider.name);
    let model = stored
        .filter(|it| it.base_url == provider.base_url)
        .and_then(|mut it| it.models.remove(id));
    model.is_some_and(|it| now().abs_diff(it.time) < CACHE_TTL.as_secs())
}

/// Caches what a provider reported about models; returns them by full name. If writing fails, a
/// later session asks again. Blocking.
pub(crate) fn cache_models(
    dirs: &UserDirs,
    provider: &Provider,
    listed: &[ListedModel],
) -> DiscoveredModels {
    let named =
        listed.iter().map(|it| (format!("{}:{}", provider.name, it.id), discovered_model(it)));
    let time = now();
    let written = parallax_config::rewrite_file(&file(dirs), |text| {
        let mut stored: CachedModels = serde_json::from_str(text).unwrap_or_default();
        let entry = stored.providers.entry(provider.name.clone()).or_default();
        if entry.base_url != provider.base_url {
            *entry = CachedProvider { base_url: provider.base_url.clone(), ..Default::default() };
        }
        let models = listed
            .iter()
            .map(|it| (it.id.clone(), CachedModel { time, model: discovered_model(it) }));
        entry.models.extend(models);
        // Strings and numbers cannot fail to serialize.
        Ok(serde_json::to_string(&stored).unwrap_or_default())
    });
    if let Err(error) = written {
        tracing::warn!("{error}");
    }
    named.collect()
}

/// Returns what the Gemini API at this base URL (empty: the default) reported before. Blocking.
pub(crate) fn read_gemini(dirs: &UserDirs, base_url: &str) -> DiscoveredModels {
    let stored: Option<CachedProvider> = load_json(&gemini_file(dirs));
    let models = stored.filter(|it| it.base_url == base_url).map(|it| it.models);
    models.unwrap_or_default().into_iter().map(|(id, model)| (id, model.model)).collect()
}

/// Caches what the Gemini API at this base URL reported. If writing fails, the built-in table
/// applies. Blocking.
pub(crate) fn cache_gemini_models(dirs: &UserDirs, base_url: &str, listed: &[ListedModel]) {
    let time = now();
    let model = |it: &ListedModel| CachedModel { time, model: discovered_model(it) };
    let stored = CachedProvider {
        base_url: base_url.to_owned(),
        models: listed.iter().map(|it| (it.id.clone(), model(it))).collect(),
    };
    let written = parallax_config::rewrite_file(&gemini_file(dirs), |_| {
        // Strings and numbers cannot fail to serialize.
        Ok(serde_json::to_string(&stored).unwrap_or_default())
    });
    if let Err(error) = written {
        tracing::warn!("{error}");
    }
}

fn discovered_model(listed: &ListedModel) -> DiscoveredModel {
    DiscoveredModel {
        context_window: listed.context_window,
        max_output: listed.max_output,
        input: listed.input.clone(),
    }
}

fn gemini_file(dirs: &UserDirs) -> PathBuf {
    dirs.parallax.join("cache").join("gemini-models.json")
}

fn load(dirs: &UserDirs) -> CachedModels {
    load_json(&file(dirs)).unwrap_or_default()
}

/// Reads a file; a damaged one counts as missing.
fn load_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn file(dirs: &UserDirs) -> PathBuf {
    dirs.parallax.join("cache").join("models.json")
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}
