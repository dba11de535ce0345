//! A cache on disk of what servers offered, so that a session can declare their tools immediately
//! and start a server only when one of its tools is called.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::catalog::Catalog;
use crate::files;

/// Maximum age of an entry.
const CACHE_TTL: Duration = Duration::from_secs(7 * 24 * 3600);
/// Maximum age of a recorded failure.
const FAILURE: Duration = Duration::from_secs(3600);
const LIMIT: u64 = 16 * 1024 * 1024;
/// The format version; incremented when the format changes.
const FORM: u32 = 2;

/// The directory of the cache.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    folder: PathBuf,
}

/// The cached knowledge of a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CachedServer {
    /// There is no entry.
    Nothing,
    /// The server failed to start; contains the reason, if known.
    Failed(String),
    /// The server offered this.
    Offered(Box<Catalog>),
}

#[derive(Serialize, Deserialize)]
struct CacheEntry {
    form: u32,
    /// Seconds since 1970.
    saved: u64,
    /// `None` if the server failed.
    catalog: Option<Catalog>,
    /// The reason of the failure.
    #[serde(rename = "why", default, skip_serializing_if = "String::is_empty")]
    reason: String,
}

impl Cache {
    pub(crate) fn new(home: &Path) -> Self {
        Self { folder: home.join("mcp-cache") }
    }

    /// Returns what is cached for the server with this key.
    pub(crate) fn get(&self, key: &str) -> CachedServer {
        let entry: Option<CacheEntry> = files::read(&self.path(key), LIMIT);
        match entry {
            Some(CacheEntry { form: FORM, saved, catalog: None, reason })
                if is_fresh(saved, FAILURE) =>
            {
                CachedServer::Failed(reason)
            }
            Some(CacheEntry { form: FORM, saved, catalog: Some(catalog), .. })
                if is_fresh(saved, CACHE_TTL) =>
            {
                CachedServer::Offered(Box::new(catalog))
            }
            _ => CachedServer::Nothing,
        }
    }

    /// Saves what a server offers, or why it failed. Blocking.
    pub(crate) fn save(&self, key: &str, catalog: Result<&Catalog, &str>) {
        let reason = catalog.err().unwrap_or_default().to_owned();
        let entry = CacheEntry { form: FORM, saved: now(), catalog: catalog.ok().cloned(), reason };
        if let Err(error) = files::write(&self.path(key), &entry) {
            tracing::debug!(%error, "failed to cache the tools, prompts, and resources of an MCP server");
        }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.json"))
    }
}

/// Returns the key of a server: a hash of everything that determines what it offers. Hashed because
/// variables and headers may be secret.
pub(crate) fn key<'a>(pieces: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for piece in pieces {
        hash.update((piece.len() as u64).to_le_bytes());
        hash.update(piece.as_bytes());
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn is_fresh(saved: u64, limit: Duration) -> bool {
    let now = now();
    // A timestamp in the future is invalid.
    saved <= now + 60 && now.saturating_sub(saved) < limit.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_listing_is_used_until_it_expires() {
        let home = tempfile::tempdir().expect("a folder");
        let cache = Cache::new(home.path());
        let key = key(["a", "b"]);
        assert_eq!(cache.get(&key), CachedServer::Nothing);
        cache.save(&key, Err("no host"));
        assert_eq!(cache.get(&key), CachedServer::Failed("no host".to_owned()));
        let catalog = Catalog { instructions: Some("x".into()), ..Catalog::default() };
        cache.save(&key, Ok(&catalog));
        assert_eq!(cache.get(&key), CachedServer::Offered(Box::new(catalog)));
        let old = format!(r#"{{"form":2,"saved":{},"catalog":null}}"#, now() - CACHE_TTL.as_secs());
        std::fs::write(cache.path(&key), old).expect("written");
        assert_eq!(cache.get(&key), CachedServer::Nothing);
        std::fs::write(cache.path(&key), "{").expect("written");
        assert_eq!(cache.get(&key), CachedServer::Nothing);
    }

    #[test]
    fn cache_keys_distinguish_their_parts() {
        assert_ne!(key(["ab", "c"]), key(["a", "bc"]));
    }
}
