//! The environment of a scene: a home directory, a project with a fixed name, a scripted model, and
//! a terminal.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use testkit::pty::{Answers, Key, Palette, Setup, Terminal, svg};
use testkit::{ModelServer, TestHome};

/// Time limit of a step, generous enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(20);
/// Longer than the time in which a new dialog ignores keys.
const REST: Duration = Duration::from_millis(800);
/// The image is taken after this time without output.
const QUIET: Duration = Duration::from_millis(300);

/// An image and the steps that lead to it.
#[derive(Debug, Clone)]
pub struct Scene {
    pub name: &'static str,
    /// Whether the documentation shows it.
    pub is_documented: bool,
    pub size: (u16, u16),
    /// The model's script.
    pub script: String,
    pub settings: &'static str,
    /// Variables to remove.
    pub without: &'static [&'static str],
    pub steps: Vec<StageAction>,
}

/// The terminal in which a scene is drawn.
#[derive(Debug, Clone, Copy)]
pub struct StageOptions {
    pub name: &'static str,
    pub palette: Palette,
    /// Whether it has only sixteen colors and does not report its background.
    pub sixteen: bool,
}

/// A modern dark terminal.
pub const DARK: StageOptions =
    StageOptions { name: "dark", palette: Palette::DARK, sixteen: false };
/// The looks of the gallery.
pub const LOOKS: [StageOptions; 3] = [
    DARK,
    StageOptions { name: "light", palette: Palette::LIGHT, sixteen: false },
    StageOptions { name: "16-colors", palette: Palette::DARK, sixteen: true },
];

/// An action of the user or a wait.
#[derive(Debug, Clone)]
pub enum StageAction {
    See(&'static str),
    /// Waits for the end of the turn.
    Idle,
    /// Waits until a new dialog accepts keys.
    Rest,
    Type(&'static str),
    Press(Key),
}

/// Runs a scene and returns its image.
///
/// # Errors
/// Returns what was expected and what was shown instead.
pub fn play(program: &Path, scene: &Scene, look: &StageOptions) -> Result<String, String> {
    let plain = |error: std::io::Error| error.to_string();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(plain)?;
    let server = runtime
        .block_on(ModelServer::scripted(&scene.script))
        .map_err(|error| error.to_string())?;
    let home = TestHome::new().map_err(plain)?;
    home.write_home(".gemini/settings.json", scene.settings).map_err(plain)?;
    let project = Project::new().map_err(plain)?;
    let mut environment = home.env(&server.url());
    environment
        .retain(|(name, _)| name != "TERM" && !scene.without.iter().any(|without| name == without));
    let more = match look.sixteen {
        true => [("TERM", "xterm"), ("COLORTERM", "")],
        false => [("TERM", "xterm-256color"), ("COLORTERM", "truecolor")],
    };
    environment.extend(more.map(|(name, value)| (OsString::from(name), OsString::from(value))));
    let [_, red, green, blue] = look.palette.background.to_be_bytes();
    let modern = Answers::modern();
    let answers = match look.sixteen {
        true => Answers { background: None, version: None, ..modern },
        false => Answers { background: Some((red, green, blue)), ..modern },
    };
    let setup = Setup {
        program,
        arguments: Vec::new(),
        environment,
        directory: &project.0,
        size: scene.size,
        answers,
    };
    let terminal = Terminal::start(&setup, LIMIT).map_err(plain)?;
    for step in &scene.steps {
        match step {
            StageAction::See(text) => terminal.wait_for(text)?,
            StageAction::Idle => {
                terminal.wait("end of the turn", |shown| shown.title().contains("Ready"))?
            }
            StageAction::Rest => std::thread::sleep(REST),
            StageAction::Type(text) => terminal.text(text).map_err(plain)?,
            StageAction::Press(key) => terminal.key(*key).map_err(plain)?,
        }
    }
    terminal.settle(QUIET);
    Ok(terminal.look(|shown| svg(shown, shown.title().trim(), &look.palette)))
}

/// The project of all scenes, removed when dropped.
struct Project(PathBuf);

const FILES: [(&str, &str); 8] = [
    (".git/HEAD", "ref: refs/heads/retry-delay\n"),
    (".git/refs/keep", ""),
    (".git/objects/keep", ""),
    ("Cargo.toml", "[package]\nname = \"ferry\"\nversion = \"0.3.0\"\n"),
    ("GEMINI.md", "# ferry\n\nMoves files between hosts.\n"),
    ("src/main.rs", "mod retry;\n\nfn main() {}\n"),
    ("src/retry.rs", RETRY),
    ("tests/retry.rs", "#[test]\nfn waits_between_attempts() {}\n"),
];

/// A loop that never waits.
pub const RETRY: &str = "\
use std::time::Duration;

pub fn send(packet: &Packet, link: &mut Link) -> Result<(), Error> {
    let mut attempt = 0;
    loop {
        match link.write(packet) {
            Ok(()) => return Ok(()),
            Err(error) if attempt == MOST => return Err(error),
            Err(_) => {
                let delay = Duration::from_millis(100) * 2_u32.pow(attempt);
                attempt += 1;
            }
        }
    }
}
";

impl Project {
    fn new() -> std::io::Result<Self> {
        let folder = std::env::temp_dir().join("ferry");
        // Fails if the directory exists, because it could belong to someone else.
        std::fs::create_dir(&folder)?;
        let project = Self(folder.canonicalize()?);
        for (path, text) in FILES {
            let path = project.0.join(path);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(path, text)?;
        }
        Ok(project)
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        // It is in the directory for temporary files, so a failure is harmless.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
