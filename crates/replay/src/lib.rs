//! Models without a service: scripted, recorded, and replayed responses in the format of the
//! Gemini API.

mod digest;
mod playback;
mod recorded_error;
mod recording;
mod recording_redaction;
mod regular_file;
mod replay;
mod scene;
pub mod script;
mod scripted_model;
mod volatile;

pub use playback::PlaybackModel;
pub use recording::{RecordError, RecordFormat, Recorder};
pub use replay::{RecordedReplies, ReplayModel};
pub use script::ScriptError;
pub use scripted_model::{ScriptMode, ScriptReplies, ScriptedModel};
