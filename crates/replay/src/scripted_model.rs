//! A model whose responses come from a script; [`crate::script`] documents the format.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_protocol::model::{ModelError, Request};

use crate::playback::{PlaybackModel, ReplySource};
use crate::script::{Script, ScriptError, ScriptReply};

/// The flag that selected the script. All modes use the first unused line of the requested method,
/// because a program with other utility requests than the recorded one cannot follow the order
/// strictly. Errors name the flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptMode {
    /// `--fake-responses`
    Strict,
    /// `--fake-responses-non-strict`
    NonStrict,
    /// `--model script:…`: a built-in script, or a file.
    Embedded,
}

impl ScriptMode {
    /// Returns the origin of the script, for messages.
    fn origin(self, is_file: bool) -> &'static str {
        match self {
            Self::Strict => "`--fake-responses`",
            Self::NonStrict => "`--fake-responses-non-strict`",
            Self::Embedded if is_file => "`--model`",
            Self::Embedded => "built in",
        }
    }
}

/// The scripted model, see [`crate::script`].
pub type ScriptedModel = PlaybackModel<ScriptReplies>;

/// A script: a request uses the first matching line.
#[derive(Debug, Clone)]
pub struct ScriptReplies {
    script: Arc<Script>,
    origin: &'static str,
    cwd: PathBuf,
}

impl ScriptedModel {
    /// Loads a script from a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or a line (named by file and number) is
    /// invalid.
    pub fn from_file(path: &Path, mode: ScriptMode) -> Result<Self, ScriptError> {
        Ok(Self::from_script(Script::from_file(path)?, mode.origin(true)))
    }

    /// Loads a script from a string. `name` is used in messages.
    ///
    /// # Errors
    /// Returns an error if a line is invalid.
    pub fn from_text(name: &str, text: &str, mode: ScriptMode) -> Result<Self, ScriptError> {
        Ok(Self::from_script(Script::from_text(name, text)?, mode.origin(false)))
    }

    fn from_script(script: Script, origin: &'static str) -> Self {
        let cwd = std::env::current_dir().unwrap_or_default();
        Self::new(ScriptReplies { script: Arc::new(script), origin, cwd })
    }

    /// Sets the value of `${cwd}`; the default is the current directory of the process.
    #[must_use]
    pub fn with_cwd(mut self, cwd: PathBuf) -> Self {
        self.source.cwd = cwd;
        self
    }
}

impl ReplySource for ScriptReplies {
    fn next_reply(&self, method: &str, request: &Request) -> Result<ScriptReply, ModelError> {
        self.script
            .take_reply(method, request, &self.cwd, &|_| true)?
            .ok_or_else(|| self.script.exhausted_error(method, request, self.origin))
    }
}
