//! `screenshots PROGRAM FOLDER`: runs the program in terminals with a scripted model and draws the
//! screens, one SVG per scene. `--gallery` draws each scene in all looks and two widths.

#[cfg(unix)]
use testkit::gallery::{DARK, LOOKS, Scene, SceneRun, StageOptions, TerminalLook, scenes};

#[cfg(unix)]
fn run() -> Result<(), String> {
    const USAGE: &str = "usage: screenshots [--gallery] PROGRAM FOLDER [SCENE...]";
    let mut words: Vec<_> = std::env::args_os().skip(1).collect();
    let is_gallery = words.first().is_some_and(|word| word == "--gallery");
    if is_gallery {
        words.remove(0);
    }
    if words.len() < 2 {
        return Err(USAGE.to_owned());
    }
    let directory = std::path::PathBuf::from(words.remove(1));
    let program = std::path::PathBuf::from(words.remove(0))
        .canonicalize()
        .map_err(|error| format!("no program: {error}"))?;
    std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    let scenes = scenes()
        .into_iter()
        .filter(|scene| words.is_empty() || words.iter().any(|word| word == scene.name));
    let mut problems = Vec::new();
    for scene in scenes {
        let drawings = if is_gallery { gallery(&scene) } else { documentation(&scene) };
        for drawing in drawings {
            let path = directory.join(format!("{}.svg", drawing.name));
            let drawn = draw(&program, &scene, &drawing)
                .and_then(|svg| std::fs::write(&path, svg).map_err(|error| error.to_string()));
            if let Err(problem) = drawn {
                problems.push(format!("{}: {problem}", drawing.name));
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n\n")) }
}

/// A picture of a scene.
#[cfg(unix)]
struct Drawing {
    /// The name of its file.
    name: String,
    size: (u16, u16),
    appearance: TerminalLook,
}

/// Returns the picture for the documentation, if the scene has one.
#[cfg(unix)]
fn documentation(scene: &Scene) -> Vec<Drawing> {
    match scene.is_documented {
        true => vec![Drawing { name: scene.name.to_owned(), size: scene.size, appearance: DARK }],
        false => Vec::new(),
    }
}

/// Returns all looks in two widths.
#[cfg(unix)]
fn gallery(scene: &Scene) -> Vec<Drawing> {
    let mut drawings = Vec::new();
    for appearance in LOOKS {
        for columns in [80, 120] {
            let name = format!("{}-{}-{columns}", scene.name, appearance.name);
            drawings.push(Drawing { name, size: (columns, scene.size.1), appearance });
        }
    }
    drawings
}

#[cfg(unix)]
fn draw(program: &std::path::Path, scene: &Scene, drawing: &Drawing) -> Result<String, String> {
    /// The picture is taken after this time without output.
    const QUIET: std::time::Duration = std::time::Duration::from_millis(300);
    let parent = std::env::temp_dir();
    let options = StageOptions {
        program,
        size: drawing.size,
        appearance: drawing.appearance,
        is_screen_reader: false,
        waits_for_grammars: true,
        parent: Some(&parent),
    };
    let stage = SceneRun::play(scene, &options)?;
    stage.terminal.settle(QUIET);
    let palette = drawing.appearance.palette;
    Ok(stage
        .terminal
        .with_emulator(|emulator| testkit::pty::svg(emulator, emulator.title().trim(), &palette)))
}

#[cfg(not(unix))]
fn run() -> Result<(), String> {
    Err("terminals are driven on Unix only".to_owned())
}

fn main() -> std::process::ExitCode {
    use std::io::Write as _;
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(problem) => {
            let _ = writeln!(std::io::stderr(), "{problem}");
            std::process::ExitCode::FAILURE
        }
    }
}
