//! `screenshots PROGRAM FOLDER`: runs the program in terminals with a scripted model and draws the
//! screens, one SVG per scene. `--gallery` draws each scene in all looks and two widths.

#[cfg(unix)]
mod conversation;
#[cfg(unix)]
mod more_scenes;
#[cfg(unix)]
mod scenes;
#[cfg(unix)]
mod stage;

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
    let folder = std::path::PathBuf::from(words.remove(1));
    let program = std::path::PathBuf::from(words.remove(0))
        .canonicalize()
        .map_err(|error| format!("no program: {error}"))?;
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let scenes = scenes::all();
    let scenes = scenes
        .into_iter()
        .filter(|scene| words.is_empty() || words.iter().any(|word| word == scene.name));
    let mut problems = Vec::new();
    for scene in scenes {
        let drawings = if is_gallery { gallery(&scene) } else { single(&scene) };
        for (name, scene, look) in drawings {
            let path = folder.join(format!("{name}.svg"));
            let drawn = stage::play(&program, &scene, &look)
                .and_then(|svg| std::fs::write(&path, svg).map_err(|error| error.to_string()));
            if let Err(problem) = drawn {
                problems.push(format!("{name}: {problem}"));
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n\n")) }
}

/// A file name, and the scene to draw into it.
#[cfg(unix)]
type Drawing = (String, stage::Scene, stage::StageOptions);

/// Returns the image for the documentation, if the scene has one.
#[cfg(unix)]
fn single(scene: &stage::Scene) -> Vec<Drawing> {
    match scene.is_documented {
        true => vec![(scene.name.to_owned(), scene.clone(), stage::DARK)],
        false => Vec::new(),
    }
}

/// Returns all looks in two widths.
#[cfg(unix)]
fn gallery(scene: &stage::Scene) -> Vec<Drawing> {
    let mut drawings = Vec::new();
    for look in stage::LOOKS {
        for columns in [80, 120] {
            let size = (columns, scene.size.1);
            let name = format!("{}-{}-{columns}", scene.name, look.name);
            drawings.push((name, stage::Scene { size, ..scene.clone() }, look));
        }
    }
    drawings
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
