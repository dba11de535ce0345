//! The environment of a scene: a home directory, a project with a fixed name, a scripted model, and
//! a terminal.

use std::cell::Cell;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::conversation::COMPOSER;
use super::project::Project;
use super::{Scene, Step};
use crate::pty::{Answers, Palette, Setup, Terminal};
use crate::{ModelServer, TestHome};

/// Time limit of a step, generous enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(20);
/// Longer than the time in which a new dialog ignores keys.
const REST: Duration = Duration::from_millis(700);
/// How long a slow build takes to load the grammars of a language.
const LOADING: Duration = Duration::from_secs(4);

const SETTINGS: &str = r#"{"model":{"name":"gemini-2.5-pro"}}"#;

/// The looks of a terminal.
#[derive(Debug, Clone, Copy)]
pub struct TerminalLook {
    /// The name, also used in file names.
    pub name: &'static str,
    /// The colors.
    pub palette: Palette,
    /// Whether it has only sixteen colors and does not report its background.
    pub sixteen: bool,
}

/// A modern dark terminal.
pub const DARK: TerminalLook =
    TerminalLook { name: "dark", palette: Palette::DARK, sixteen: false };
/// The looks of the gallery.
pub const LOOKS: [TerminalLook; 3] = [
    DARK,
    TerminalLook { name: "light", palette: Palette::LIGHT, sixteen: false },
    TerminalLook { name: "16-colors", palette: Palette::DARK, sixteen: true },
];

/// How a scene is played.
#[derive(Debug, Clone, Copy)]
pub struct StageOptions<'a> {
    /// The program.
    pub program: &'a Path,
    /// Columns and rows.
    pub size: (u16, u16),
    /// The terminal.
    pub appearance: TerminalLook,
    /// Whether the program writes for a screen reader.
    pub is_screen_reader: bool,
    /// Whether colors of code matter.
    pub waits_for_grammars: bool,
    /// Where the project is, if not in a new temporary directory.
    pub parent: Option<&'a Path>,
}

/// A scene that was played to its end.
pub struct SceneRun {
    /// The terminal.
    pub terminal: Terminal,
    /// The model.
    pub server: ModelServer,
    /// The home directory.
    pub home: TestHome,
    _project: Project,
    is_screen_reader: bool,
    waits_for_grammars: bool,
    /// Where the output was when the user last did something.
    mark: Cell<usize>,
    _runtime: tokio::runtime::Runtime,
}

impl SceneRun {
    /// Plays a scene.
    ///
    /// # Errors
    /// Returns what was expected and what was shown instead.
    pub fn play(scene: &Scene, options: &StageOptions<'_>) -> Result<Self, String> {
        let stage = Self::start(scene, options)?;
        stage.take_steps(&scene.steps)?;
        if options.waits_for_grammars {
            // What is shown last gets its colors.
            std::thread::sleep(LOADING);
        }
        Ok(stage)
    }

    fn start(scene: &Scene, options: &StageOptions<'_>) -> Result<Self, String> {
        let plain = |error: std::io::Error| error.to_string();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(plain)?;
        let script = Value::Array(scene.script.clone()).to_string();
        let server = runtime
            .block_on(ModelServer::start_script(&script))
            .map_err(|error| error.to_string())?;
        let home = TestHome::new().map_err(plain)?;
        home.write_home(".gemini/settings.json", SETTINGS).map_err(plain)?;
        for (path, text) in scene.home_files {
            home.write_home(path, text).map_err(plain)?;
        }
        let project = Project::new(options.parent.unwrap_or(home.root())).map_err(plain)?;
        let mut environment = home.env(&server.url());
        environment.retain(|(name, _)| {
            name != "TERM" && !scene.removed_variables.iter().any(|without| name == without)
        });
        let more = match options.appearance.sixteen {
            true => [("TERM", "xterm"), ("COLORTERM", "")],
            false => [("TERM", "xterm-256color"), ("COLORTERM", "truecolor")],
        };
        environment.extend(more.map(|(name, value)| (OsString::from(name), OsString::from(value))));
        let [_, red, green, blue] = options.appearance.palette.background.to_be_bytes();
        let modern = Answers::modern();
        let answers = match options.appearance.sixteen {
            true => Answers { background: None, version: None, ..modern },
            false => Answers { background: Some((red, green, blue)), ..modern },
        };
        let reader = options.is_screen_reader.then(|| OsString::from("--screen-reader"));
        let setup = Setup {
            program: options.program,
            arguments: reader.into_iter().collect(),
            environment,
            directory: project.path(),
            size: options.size,
            answers,
        };
        Ok(Self {
            terminal: Terminal::start(&setup, LIMIT).map_err(plain)?,
            server,
            home,
            _project: project,
            is_screen_reader: options.is_screen_reader,
            waits_for_grammars: options.waits_for_grammars,
            mark: Cell::new(0),
            _runtime: runtime,
        })
    }

    fn take_steps(&self, steps: &[Step]) -> Result<(), String> {
        let plain = |error: std::io::Error| error.to_string();
        for step in steps {
            match step {
                Step::Ready => {
                    // A screen reader announces once that the session is open.
                    if self.is_screen_reader && self.mark.get() == 0 {
                        self.wait_for_text("Approval mode: ")?;
                    }
                    self.wait_for_text(COMPOSER)?;
                }
                Step::See(text) => self.wait_for_text(text)?,
                Step::Idle => self
                    .terminal
                    .wait("end of the turn", |emulator| emulator.title().contains("Ready"))?,
                Step::Rest => std::thread::sleep(REST),
                Step::Type(text) => self.perform(|terminal| terminal.text(text)).map_err(plain)?,
                Step::Press(key) => self.perform(|terminal| terminal.key(*key)).map_err(plain)?,
                Step::Open(gate) => {
                    if self.waits_for_grammars {
                        std::thread::sleep(LOADING);
                    }
                    self.server.open_gate(gate);
                }
                Step::WithoutScreenReader(steps) if !self.is_screen_reader => {
                    self.take_steps(steps)?
                }
                Step::Listening(steps) if self.is_screen_reader => self.take_steps(steps)?,
                Step::WithoutScreenReader(_) | Step::Listening(_) => {}
            }
        }
        Ok(())
    }

    fn perform(&self, act: impl FnOnce(&Terminal) -> std::io::Result<()>) -> std::io::Result<()> {
        self.mark.set(self.terminal.mark());
        act(&self.terminal)
    }

    /// Waits for text: in the window, or in what was said since the last action.
    fn wait_for_text(&self, text: &str) -> Result<(), String> {
        self.terminal.wait(&format!("`{text}`"), |emulator| {
            if !self.is_screen_reader {
                return join_rows(&emulator.window()).contains(text);
            }
            let output = emulator.output().get(self.mark.get()..).unwrap_or_default();
            join_rows(&String::from_utf8_lossy(output)).contains(text)
        })
    }
}

/// Returns the words of rows in one line.
fn join_rows(rows: &str) -> String {
    rows.split_whitespace().collect::<Vec<_>>().join(" ")
}
