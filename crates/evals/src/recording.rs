//! Recordings of cases: those of `--record`, in which the directory of the run is written
//! as `${cwd}`, since every run has another one.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::EvalError;

const PLACE: &str = "${cwd}";

/// A path as it is written in JSON.
fn in_json(path: &Path) -> String {
    let quoted = serde_json::Value::from(path.to_string_lossy()).to_string();
    quoted.trim_matches('"').to_owned()
}

/// Stores a recording beside its case. Blocking.
pub(crate) fn store(from: &Path, directory: &Path, to: &Path) -> Result<(), EvalError> {
    let text = fs::read_to_string(from).map_err(|error| EvalError::path(from, error))?;
    let text = text.replace(&in_json(directory), PLACE);
    // A recording that is there stays until the new one is complete.
    let unfinished = to.with_extension("jsonl.new");
    fs::write(&unfinished, text)
        .and_then(|()| fs::rename(&unfinished, to))
        .map_err(|error| EvalError::path(to, error))
}

/// A recording for a run in a directory, as a file in `beside`. Blocking.
pub(crate) fn prepare(from: &Path, directory: &Path, beside: &Path) -> Result<PathBuf, EvalError> {
    let text = fs::read_to_string(from).map_err(|error| {
        EvalError::path(from, format!("{error}; create the recording with `--record`"))
    })?;
    let name = from.file_name().unwrap_or("recording.jsonl".as_ref());
    let file = beside.join(name);
    fs::write(&file, text.replace(PLACE, &in_json(directory)))
        .map_err(|error| EvalError::path(&file, error))?;
    Ok(file)
}
