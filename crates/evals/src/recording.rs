//! Recordings of cases, made with `--record`. The directory of the run is replaced by `${cwd}`,
//! because it differs between runs.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::EvalError;

const PLACE: &str = "${cwd}";

/// Returns a path as it is written in JSON.
fn in_json(path: &Path) -> String {
    let quoted = serde_json::Value::from(path.to_string_lossy()).to_string();
    quoted.trim_matches('"').to_owned()
}

/// Stores a recording in the directory of its case. Blocking.
pub(crate) fn store(from: &Path, directory: &Path, to: &Path) -> Result<(), EvalError> {
    let text = fs::read_to_string(from).map_err(|error| EvalError::path(from, error))?;
    let text = text.replace(&in_json(directory), PLACE);
    // An existing recording is kept until the new one is complete.
    let unfinished = to.with_extension("jsonl.new");
    fs::write(&unfinished, text)
        .and_then(|()| fs::rename(&unfinished, to))
        .map_err(|error| EvalError::path(to, error))
}

/// Writes the recording for a run in `directory` to a file in `temporary_directory`, and returns that file.
/// Blocking.
pub(crate) fn prepare(
    from: &Path,
    directory: &Path,
    temporary_directory: &Path,
) -> Result<PathBuf, EvalError> {
    let text = fs::read_to_string(from).map_err(|error| {
        EvalError::path(from, format!("{error}; create the recording with `--record`"))
    })?;
    let name = from.file_name().unwrap_or("recording.jsonl".as_ref());
    let file = temporary_directory.join(name);
    fs::write(&file, text.replace(PLACE, &in_json(directory)))
        .map_err(|error| EvalError::path(&file, error))?;
    Ok(file)
}
