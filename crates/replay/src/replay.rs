//! Replays a recording.

use std::path::Path;
use std::sync::Arc;

use parallax_protocol::model::{ModelError, Request};

use crate::digest::{Digest, replayable};
use crate::playback::{PlaybackModel, ReplySource};
use crate::recording_redaction::Secrets;
use crate::script::{Script, ScriptError, ScriptReply};
use parallax_protocol::excerpt::truncate;

/// A model that answers from a recording of [`crate::Recorder`].
pub type ReplayModel = PlaybackModel<RecordedReplies>;

/// A recording.
#[derive(Debug, Clone)]
pub struct RecordedReplies {
    script: Arc<Script>,
    strict: bool,
}

impl ReplayModel {
    /// Loads a recording. If `strict`, a request is answered only by a line that was recorded for
    /// equal contents, ignoring `<session_context>` (lines without a digest match any request).
    /// Otherwise the lines of each method are used in order.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or a line is invalid.
    pub fn from_file(path: &Path, strict: bool) -> Result<Self, ScriptError> {
        let script = Arc::new(Script::from_file(path)?);
        Ok(Self::new(RecordedReplies { script, strict }))
    }
}

impl ReplySource for RecordedReplies {
    fn next_reply(&self, method: &str, request: &Request) -> Result<ScriptReply, ModelError> {
        let digest = self.strict.then(|| Digest::for_request(request, &Secrets::default()));
        let found = self.script.take_reply(method, request, Path::new(""), &|line| match (
            &digest,
            &line.digest,
        ) {
            (Some(now), Some(then)) => now.contents == then.contents,
            _ => true,
        })?;
        if let Some(reply) = found {
            return Ok(reply);
        }
        let difference = digest.and_then(|now| {
            self.script.with_next(method, |line| {
                let then = line.digest.as_ref()?;
                Some(self.difference(line.number, &now, then, request))
            })?
        });
        Err(difference.unwrap_or_else(|| self.script.exhausted_error(method, request, "replay")))
    }
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
                truncate(&replayable(content, &Secrets::default()), 600)
            ),
            None => format!(
                "{} contents were recorded and {} are sent",
                then.hashes.len(),
                now.hashes.len()
            ),
        };
        ModelError::Script {
            message: format!(
                "{}:{line}: the request differs from the recorded one: {what}; the recorded prompt was `{}`, it is now `{}`",
                self.script.name(),
                then.last_user_text,
                now.last_user_text
            ),
        }
    }
}
