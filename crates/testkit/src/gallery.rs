//! The gallery: scenes of the terminal from real sessions against a scripted model. They are drawn
//! as pictures, and tests compare their rows and their screen reader output with snapshots.

mod conversation;
mod extension_scenes;
mod input_scenes;
mod panel_scenes;
mod project;
mod request_scenes;
mod stage;
mod turn_scenes;

use serde_json::Value;

use crate::pty::Key;
pub use stage::{DARK, LOOKS, SceneRun, StageOptions, TerminalLook};

/// A situation in the terminal and the steps that lead to it.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Its name, also of its files.
    pub name: &'static str,
    /// Whether the documentation shows it.
    pub is_documented: bool,
    /// Columns and rows of its picture in the documentation.
    pub size: (u16, u16),
    /// The replies of the model.
    pub script: Vec<Value>,
    /// Files in the home directory; one may replace the settings.
    pub home_files: &'static [(&'static str, &'static str)],
    /// Variables to remove from the environment.
    pub removed_variables: &'static [&'static str],
    /// What the user does.
    pub steps: Vec<Step>,
    /// What a user must be able to read or hear, in the same words.
    pub texts: &'static [&'static str],
}

/// An action of the user or a wait.
#[derive(Debug, Clone)]
pub enum Step {
    /// Waits until the session is open and the composer is empty.
    Ready,
    /// Waits for text, wrapped or not.
    See(&'static str),
    /// Waits for the end of the turn.
    Idle,
    /// Waits until a new dialog accepts keys.
    Rest,
    /// Types text.
    Type(&'static str),
    /// Presses a key.
    Press(Key),
    /// Continues the answer when the next text can be highlighted.
    Open(&'static str),
    /// Steps that a user without a screen reader takes.
    WithoutScreenReader(Vec<Step>),
    /// Steps that a user of a screen reader takes.
    Listening(Vec<Step>),
}

/// Returns all scenes; those of the documentation come first.
pub fn scenes() -> Vec<Scene> {
    let mut scenes = request_scenes::all();
    scenes.extend(turn_scenes::all());
    scenes.extend(input_scenes::all());
    scenes.extend(panel_scenes::all());
    scenes.extend(extension_scenes::all());
    scenes.sort_by_key(|scene| !scene.is_documented);
    scenes
}
