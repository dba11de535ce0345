//! `screenshots PROGRAM FOLDER`: runs the program in terminals against a scripted
//! model and draws what they show, one SVG a scene.

#[cfg(unix)]
mod scenes;
#[cfg(unix)]
mod stage;

#[cfg(unix)]
fn run() -> Result<(), String> {
    let mut words = std::env::args_os().skip(1).map(std::path::PathBuf::from);
    let (Some(program), Some(folder), None) = (words.next(), words.next(), words.next()) else {
        return Err("usage: screenshots PROGRAM FOLDER".to_owned());
    };
    let program = program.canonicalize().map_err(|error| format!("no program: {error}"))?;
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let mut problems = Vec::new();
    for scene in scenes::all() {
        let path = folder.join(format!("{}.svg", scene.name));
        let drawn = stage::play(&program, &scene)
            .and_then(|svg| std::fs::write(&path, svg).map_err(|error| error.to_string()));
        if let Err(problem) = drawn {
            problems.push(format!("{}: {problem}", scene.name));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n\n")) }
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
