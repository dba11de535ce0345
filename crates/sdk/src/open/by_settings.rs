//! What the settings say of a session that is opened: its folders, when its history
//! is made shorter, what is kept, what answers may hold for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parallax_engine::{Approvals, Room};
use parallax_files::{Filtering, SeenFiles, Workspace, WorkspaceOptions};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;

use crate::history::Resumed;
use crate::launch::{Launch, failure};
use crate::model;
use crate::versions::{self, Versions};

impl Launch {
    /// What an alias of the user's (`modelConfigs.customAliases`) sets.
    pub(super) fn generation(
        &self,
        model_name: &str,
    ) -> Result<parallax_protocol::Object, Failure> {
        let Some(configs) = self.config.settings.model_configs() else {
            return Ok(parallax_protocol::Object::new());
        };
        Ok(model::table(configs)?.alias_generation(model_name))
    }

    /// When the history is made shorter, by the settings.
    pub(super) fn room(&self, artifacts: &Path) -> Room {
        let settings = &self.config.settings;
        let masking = "contextManagement.tools.outputMasking";
        let count = |key: &str| settings.count(&format!("{masking}.{key}"));
        let standard = Room::default();
        let outputs = artifacts.join("tool-outputs");
        Room {
            share: settings.number("model.compressionThreshold").unwrap_or(standard.share),
            tokens: settings
                .count("model.compactAtTokens")
                .filter(|tokens| *tokens > 0)
                .unwrap_or(standard.tokens),
            protect: count("protectionThresholdTokens").unwrap_or(standard.protect),
            at_least: count("minPrunableThresholdTokens").unwrap_or(standard.at_least),
            protect_newest: settings
                .get(&format!("{masking}.protectLatestTurn"))
                .and_then(serde_json::Value::as_bool)
                .unwrap_or(standard.protect_newest),
            longest_result: settings.truncate_tool_output_threshold(),
            keep_output: Some(Arc::new(move |tool, text| {
                parallax_store::keep_output(&outputs, tool, text).map_err(|error| error.to_string())
            })),
            ..standard
        }
    }

    /// Where old versions of files are kept, unless that is switched off.
    pub(super) fn versions(
        &self,
        id: &SessionId,
        workspace: &Workspace,
        seen: &Arc<SeenFiles>,
    ) -> Option<Arc<Versions>> {
        let settings = self.config.settings.checkpoints();
        if !settings.enabled || self.options.ephemeral {
            return None;
        }
        let roots = workspace.roots();
        let project = &self.options.directory;
        let store = versions::open(&self.homes(), project, id.clone(), roots, settings.max_bytes);
        Some(Arc::new(Versions::new(store, Arc::clone(seen))))
    }

    pub(super) fn approvals(&self) -> Approvals {
        let settings = &self.config.settings;
        Approvals {
            lasting: !settings.flag("security.disableAlwaysAllow"),
            permanent: settings.flag("security.enablePermanentToolApproval")
                && self.config.trust.trusted,
        }
    }

    /// The first wait after a broken stream; scripted servers shorten it.
    pub(super) fn retry_base(&self) -> Duration {
        let set = self.config.environment.get("PARALLAX_RETRY_BASE_MS");
        set.and_then(|text| text.parse().ok()).map_or(Duration::from_secs(1), Duration::from_millis)
    }

    pub(super) fn workspace(&self, resumed: &Resumed) -> Result<(Workspace, PathBuf), Failure> {
        let settings = &self.config.settings;
        let artifacts = self.homes().artifacts(&self.options.directory, &resumed.id);
        let mut additional: Vec<PathBuf> = settings.include_directories();
        additional.extend(self.options.include_directories.iter().cloned());
        let workspace = Workspace::new(WorkspaceOptions {
            root: self.options.directory.clone(),
            additional: additional.iter().map(|path| self.expand_home(path)).collect(),
            temp: artifacts.root().to_owned(),
            notes: self.homes().notes(&self.options.directory),
            readable: vec![self.config.homes.gemini.join("GEMINI.md")],
            // The one file outside that the model may keep notes in.
            writable_files: vec![self.config.homes.parallax.join("GEMINI.md")],
            // Of the session's tools, none needs the key.
            denied: vec![parallax_config::credentials_file(&self.config.homes)],
            allow_node_modules: false,
            filtering: Filtering {
                respect_git_ignore: settings.respect_git_ignore(),
                respect_gemini_ignore: settings.respect_gemini_ignore(),
                custom_ignore_files: settings.custom_ignore_files(),
            },
        })
        .map_err(|error| failure(FailureKind::Input, error.to_string()))?;
        Ok((workspace, artifacts.root().to_owned()))
    }

    /// How many requests the run, or else the session, may make.
    pub(super) fn max_turns(&self) -> Option<u32> {
        let set = || self.config.settings.max_session_turns();
        let set = || set().map(|turns| u32::try_from(turns).unwrap_or(u32::MAX));
        self.options.max_turns.or_else(set)
    }
}
