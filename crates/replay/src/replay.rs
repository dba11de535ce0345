//! Replays a recording.

use std::path::Path;
use std::sync::Arc;

use parallax_protocol::model::{ModelError, Request};

use crate::digest::{Digest, DigestMode, reproducible_content};
use crate::playback::{PlaybackModel, ReplySource};
use crate::recording_redaction::Secrets;
use crate::script::{Script, ScriptError, ScriptReply};
use crate::volatile::VolatileText;
use parallax_protocol::excerpt::truncate;

/// A model that answers from a recording of [`crate::Recorder`].
pub type ReplayModel = PlaybackModel<RecordedReplies>;

/// A recording.
#[derive(Debug, Clone)]
pub struct RecordedReplies {
    script: Arc<Script>,
    strict: bool,
    volatile: VolatileText,
}

impl ReplayModel {
    /// Loads a recording. If `strict`, a request is answered only by a line that was recorded for
    /// equal contents, ignoring `<session_context>` and what differs in every run (lines without a
    /// digest match any request).
    /// Otherwise the lines of each method are used in order.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or a line is invalid.
    pub fn from_file(path: &Path, strict: bool) -> Result<Self, ScriptError> {
        let script = Arc::new(Script::from_file(path)?);
        Ok(Self::new(RecordedReplies { script, strict, volatile: VolatileText::default() }))
    }

    /// Sets the working directory and the home directory of the run, which are ignored when
    /// requests are compared.
    #[must_use]
    pub fn with_directories(mut self, directory: &Path, home: &Path) -> Self {
        self.source.volatile = VolatileText::new(directory, home);
        self
    }
}

impl ReplySource for RecordedReplies {
    fn next_reply(&self, method: &str, request: &Request) -> Result<ScriptReply, ModelError> {
        let digest = |form| Digest::for_request(request, &Secrets::default(), form);
        let digests = self
            .strict
            .then(|| [digest(DigestMode::Exact), digest(DigestMode::Reproducible(&self.volatile))]);
        let found = self.script.take_reply(method, request, Path::new(""), &|line| match (
            &digests,
            &line.digest,
        ) {
            (Some(now), Some(then)) => matching_digest(now, then).contents == then.contents,
            _ => true,
        })?;
        if let Some(reply) = found {
            return Ok(reply);
        }
        let difference = digests.and_then(|now| {
            self.script.with_next(method, |line| {
                let then = line.digest.as_ref()?;
                Some(self.difference(line.number, matching_digest(&now, then), then, request))
            })?
        });
        Err(difference.unwrap_or_else(|| self.script.exhausted_error(method, request, "replay")))
    }
}

/// Returns the digest in the form of a recorded one.
fn matching_digest<'a>([exact, reproducible]: &'a [Digest; 2], recorded: &Digest) -> &'a Digest {
    if recorded.form == exact.form { exact } else { reproducible }
}

impl RecordedReplies {
    fn difference(
        &self,
        line: usize,
        now: &Digest,
        then: &Digest,
        request: &Request,
    ) -> ModelError {
        let at = now.hashes.iter().zip(&then.hashes).take_while(|(a, b)| a == b).count();
        let what = match request.contents.get(at) {
            Some(content) => format!(
                "content {} of {} (recorded: {} contents) differs; it is now {}",
                at + 1,
                now.hashes.len(),
                then.hashes.len(),
                truncate(
                    &reproducible_content(content, &Secrets::default(), DigestMode::Exact),
                    600
                )
            ),
            None => format!(
                "{} contents were recorded and {} are sent",
                then.hashes.len(),
                now.hashes.len()
            ),
        };
        let prompts = match then.last_user_text == now.last_user_text {
            true => String::new(),
            false => format!(
                "; the recorded prompt was `{}`, it is now `{}`",
                then.last_user_text, now.last_user_text
            ),
        };
        let name = self.script.name();
        ModelError::Script {
            message: format!(
                "{name}:{line}: the request differs from the recorded one: {what}{prompts}"
            ),
        }
    }
}
