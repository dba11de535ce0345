//! Results in the log of a pod: an object per line, for `parallax batch collect`.
//!
//! A container runtime limits the size of a log, so files that the result does not need are omitted
//! if they are too large.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use crate::directory::TaskDirectory;
use crate::error::BatchError;
use crate::result::{TaskResult, TaskState};

/// Files in the order in which they are printed; the result completes them.
const FILES: [&str; 5] = ["patch.diff", "answer.md", "log.txt", "session.jsonl", RESULT];
const RESULT: &str = "result.json";
/// Without these, a result is incomplete.
const NEEDED: [&str; 2] = ["patch.diff", RESULT];
/// Maximum size in bytes of a compressed part: runtimes split longer lines.
const PART: usize = 9 * 1024;
/// Maximum number of bytes that a task prints; a runtime keeps 10 MiB of a log.
const MAX_LOG_BYTES: usize = 7 * 1024 * 1024;
/// Maximum size of an unpacked file in bytes.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// A line.
#[derive(Debug, Serialize, Deserialize)]
struct ResultLogLine {
    /// The type of the object: `result-file`.
    parallax: String,
    task: String,
    file: String,
    /// The number, from 0.
    part: usize,
    parts: usize,
    /// Part of the file, compressed with gzip, in base64.
    data: String,
}

const KIND: &str = "result-file";

/// Prints the files of a task.
pub fn print_results(
    files: &TaskDirectory,
    id: &str,
    to: &mut impl Write,
) -> Result<(), BatchError> {
    let mut remaining = MAX_LOG_BYTES;
    for name in FILES {
        let path = files.file(name);
        let failed = |source| BatchError::Read { file: path.clone(), source };
        let packed = match File::open(&path) {
            Ok(mut file) => pack(&mut file).map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        // In base64, with the rest of each line.
        let size = packed.len() / 3 * 4 + (packed.len() / PART + 1) * 256;
        if size > remaining && name != RESULT {
            continue;
        }
        remaining = remaining.saturating_sub(size);
        let parts = packed.len().div_ceil(PART).max(1);
        for (part, data) in packed.chunks(PART).enumerate() {
            let object = ResultLogLine {
                parallax: KIND.to_owned(),
                task: id.to_owned(),
                file: name.to_owned(),
                part,
                parts,
                data: STANDARD.encode(data),
            };
            let line = serde_json::to_string(&object).unwrap_or_default();
            // A log that is gone has no reader.
            let _ = writeln!(to, "{line}");
        }
    }
    let _ = to.flush();
    Ok(())
}

fn pack(from: &mut impl io::Read) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    io::copy(from, &mut packed)?;
    packed.finish()
}

/// Reassembles the files of one pod.
#[derive(Debug, Default)]
pub(crate) struct ResultLogReader {
    /// Whole files, packed.
    files: Vec<(&'static str, Vec<u8>)>,
    /// The file that is read.
    open: Option<(&'static str, usize, Vec<u8>)>,
    bytes: usize,
}

impl ResultLogReader {
    /// Takes a line of the log of the pod of a task. Other lines are ignored.
    pub(crate) fn add_line(&mut self, id: &str, line: &str) {
        let Ok(object) = serde_json::from_str::<ResultLogLine>(line) else { return };
        let Some(name) = FILES.into_iter().find(|name| *name == object.file) else { return };
        if object.parallax != KIND || object.task != id {
            return;
        }
        let Ok(data) = STANDARD.decode(&object.data) else { return };
        self.bytes = self.bytes.saturating_add(data.len());
        if self.bytes > MAX_LOG_BYTES {
            return;
        }
        if object.part == 0 {
            self.open = Some((name, 0, Vec::new()));
        }
        let Some((open, next, packed)) = &mut self.open else { return };
        if *open != name || *next != object.part {
            // A part is missing.
            self.open = None;
            return;
        }
        *next += 1;
        packed.extend_from_slice(&data);
        if *next == object.parts
            && let Some((name, _, packed)) = self.open.take()
        {
            self.files.retain(|(known, _)| *known != name);
            self.files.push((name, packed));
        }
    }

    /// Returns the result, if it was received. It lists missing files.
    pub(crate) fn result(&self) -> Option<TaskResult> {
        let mut text = String::new();
        let limit = crate::directory::MAX_JSON_BYTES;
        GzDecoder::new(self.read_packed(RESULT)?).take(limit).read_to_string(&mut text).ok()?;
        let mut result: TaskResult = serde_json::from_str(&text).ok()?;
        let is_missing = |name: &&str| self.read_packed(name).is_none();
        let needs_patch = result.commit.is_some() && NEEDED.iter().any(is_missing);
        if needs_patch && result.state == TaskState::Succeeded {
            result.state = TaskState::Failed;
            result.reason =
                "patch.diff is too large for the log of a pod; use `--results-claim`".to_owned();
        }
        Some(result)
    }

    fn read_packed(&self, name: &str) -> Option<&[u8]> {
        self.files.iter().find(|(known, _)| *known == name).map(|(_, packed)| packed.as_slice())
    }

    /// Writes the other files.
    pub(crate) fn write_files(&self, files: &TaskDirectory) -> Result<(), BatchError> {
        std::fs::create_dir_all(files.path())
            .map_err(|source| BatchError::Write { file: files.path().to_owned(), source })?;
        for name in FILES.into_iter().filter(|name| *name != RESULT) {
            files.remove(name)?;
            let Some(packed) = self.read_packed(name) else { continue };
            write(packed, &files.file(name))?;
        }
        Ok(())
    }
}

fn write(packed: &[u8], file: &Path) -> Result<(), BatchError> {
    let failed = |source| BatchError::Write { file: file.to_owned(), source };
    let mut to = File::create(file).map_err(failed)?;
    let mut from = GzDecoder::new(packed).take(MAX_FILE_BYTES);
    let mut buffer = vec![0; 64 * 1024];
    // Corrupt data fails the task, not the batch.
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        to.write_all(buffer.get(..count).unwrap_or_default()).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::BatchDirectory;
    use crate::plan::Plan;

    fn task() -> (tempfile::TempDir, BatchDirectory, crate::plan::PlannedTask) {
        let folder = tempfile::tempdir().expect("a directory");
        let plan = folder.path().join("plan.jsonl");
        std::fs::write(&plan, r#"{"id": "a", "prompt": "b"}"#).expect("a plan");
        let task = Plan::load(&plan).expect("a plan").tasks.remove(0);
        let directory = BatchDirectory::create(&folder.path().join("out")).expect("a directory");
        (folder, directory, task)
    }

    /// Returns the log of a task that changed something.
    fn log(patch: &[u8]) -> String {
        let (_folder, directory, task) = task();
        let files = directory.task("a");
        let _lock = files.lock().expect("a lock");
        let mut result = TaskResult::unfinished_result(&task);
        result.state = TaskState::Succeeded;
        result.commit = Some("c".to_owned());
        files.write_result(&result).expect("written");
        std::fs::write(files.file("patch.diff"), patch).expect("a patch");
        std::fs::write(files.file("answer.md"), "done\n").expect("an answer");
        let mut log = Vec::new();
        print_results(&files, "a", &mut log).expect("printed");
        String::from_utf8(log).expect("text")
    }

    /// Returns bytes that cannot be compressed.
    fn incompressible_bytes(length: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            u8::try_from(state >> 24).unwrap_or_default()
        };
        std::iter::repeat_with(next).take(length).collect()
    }

    fn read(log: &str, id: &str) -> ResultLogReader {
        let mut reader = ResultLogReader::default();
        log.lines().for_each(|line| reader.add_line(id, line));
        reader
    }

    #[test]
    fn files_are_restored_from_a_log_with_other_lines() {
        let patch = incompressible_bytes(100_000);
        let log = format!("something else\n{{\"parallax\": 1}}\n{}", log(&patch));
        assert!(log.lines().all(|line| line.len() < 16 * 1024));
        let reader = read(&log, "a");
        assert_eq!(reader.result().expect("a result").state, TaskState::Succeeded);
        let (_folder, directory, _) = task();
        let files = directory.task("a");
        reader.write_files(&files).expect("written");
        assert_eq!(std::fs::read(files.file("patch.diff")).expect("a patch"), patch);
        assert_eq!(std::fs::read(files.file("answer.md")).expect("an answer"), b"done\n");
    }

    #[test]
    fn incomplete_result_or_result_of_another_task_is_rejected() {
        let log = log(&incompressible_bytes(100_000));
        assert!(read(&log, "b").result().is_none());
        let cut: Vec<&str> =
            log.lines().enumerate().filter(|(n, _)| *n != 3).map(|(_, l)| l).collect();
        let result = read(&cut.join("\n"), "a").result().expect("a result");
        assert_eq!(result.state, TaskState::Failed);
        assert!(result.reason.contains("--results-claim"), "{}", result.reason);
    }

    #[test]
    fn missing_patch_is_reported() {
        let log = log(&incompressible_bytes(8 << 20));
        assert!(log.len() < MAX_LOG_BYTES);
        assert_eq!(read(&log, "a").result().expect("a result").state, TaskState::Failed);
    }
}
