//! The telemetry file: JSON objects, one per line, in the format that Gemini CLI writes and that
//! tools for it read.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use parallax_protocol::Object;
use serde_json::{Value, json};

use crate::metrics::{InstrumentKind, Metrics};
use crate::record::LogRecord;
use crate::trace_context::hex;

/// The name of the scope that readers expect.
const SCOPE: &str = "gemini-cli";

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the telemetry file `{}`: {reason}", .path.display())]
pub struct FileError {
    path: PathBuf,
    reason: String,
}

/// The file that records are appended to.
pub(crate) struct TelemetryFile {
    path: PathBuf,
    file: File,
    resource: Value,
    /// Whether a write failed: nothing more is written.
    problem: Option<String>,
}

impl TelemetryFile {
    /// Opens the file, readable by its owner only. Missing directories are created. The path of a
    /// file in the project must not lead out of it through a link, since the project's settings
    /// can name it.
    pub(crate) fn open(path: &Path, project: &Path, resource: &Object) -> Result<Self, FileError> {
        let failed = |reason: String| FileError { path: path.to_owned(), reason };
        let io = |error: std::io::Error| failed(error.to_string());
        let parent = path.parent().ok_or_else(|| failed("it has no directory".to_owned()))?;
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(failed("it contains `..`".to_owned()));
        }
        if path.starts_with(project) {
            let existing = parent.ancestors().find_map(|directory| directory.canonicalize().ok());
            let inside = project.canonicalize().map_err(io)?;
            if !existing.is_some_and(|directory| directory.starts_with(inside)) {
                return Err(failed("a link points out of the project".to_owned()));
            }
        }
        std::fs::create_dir_all(parent).map_err(io)?;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let file = File::options()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(flags.bits().cast_signed())
            .open(path)
            .map_err(|error| match error.raw_os_error() {
                Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
                    failed("it is a link".to_owned())
                }
                _ => io(error),
            })?;
        if !file.metadata().map_err(io)?.is_file() {
            return Err(failed("it is not a regular file".to_owned()));
        }
        let raw: Vec<Value> = resource.iter().map(|(name, value)| json!([name, value])).collect();
        let resource = json!({"attributes": resource, "_rawAttributes": raw});
        Ok(Self { path: path.to_owned(), file, resource, problem: None })
    }

    /// Appends a log record.
    pub(crate) fn log(&mut self, record: &LogRecord) {
        let time = hr_time(record.time);
        let mut line = json!({
            "hrTime": time,
            "hrTimeObserved": time,
            "resource": self.resource,
            "instrumentationScope": {"name": SCOPE},
            "attributes": record.attributes,
            "_body": record.body,
        });
        if let (Some(context), Some(line)) = (&record.context, line.as_object_mut()) {
            let (trace, span) = (hex(&context.trace), hex(&context.span));
            let flags = context.flags();
            let context = json!({"traceId": trace, "spanId": span, "traceFlags": flags});
            line.insert("spanContext".to_owned(), context);
        }
        self.append(&line);
    }

    /// Appends the metrics as they are now.
    pub(crate) fn append_metrics(&mut self, metrics: &Metrics) {
        let (start, end) = (hr_time(metrics.start_time()), hr_time(SystemTime::now()));
        let read = metrics.read().map(|(instrument, points)| {
            let is_counter = instrument.kind == InstrumentKind::Counter;
            let points: Vec<Value> = points
                .into_iter()
                .map(|point| {
                    let value = match is_counter {
                        true => number(point.sum),
                        false => json!({
                            "min": number(point.min), "max": number(point.max),
                            "sum": number(point.sum), "count": point.count,
                            "buckets": {
                                "boundaries": instrument.kind.bounds(), "counts": point.buckets,
                            },
                        }),
                    };
                    json!({
                        "attributes": point.attributes, "startTime": start, "endTime": end,
                        "value": value,
                    })
                })
                .collect();
            json!({
                "descriptor": {
                    "name": instrument.name,
                    "type": if is_counter { "COUNTER" } else { "HISTOGRAM" },
                    "description": instrument.description,
                    "unit": instrument.unit,
                    "valueType": 1,
                },
                // Cumulative.
                "aggregationTemporality": 1,
                "dataPointType": if is_counter { 3 } else { 0 },
                "isMonotonic": is_counter,
                "dataPoints": points,
            })
        });
        let line = json!({
            "resource": self.resource,
            "scopeMetrics": [{"scope": {"name": SCOPE}, "metrics": read.collect::<Vec<_>>()}],
        });
        self.append(&line);
    }

    /// Returns why records are missing, if any are.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn append(&mut self, line: &Value) {
        if self.problem.is_some() {
            return;
        }
        let mut text = line.to_string();
        text.push('\n');
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            let path = self.path.display();
            self.problem = Some(format!("cannot write the telemetry file `{path}`: {error}"));
        }
    }
}

/// Returns a number, without a fraction if it is whole.
fn number(value: f64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "it is checked to be a whole number")]
    let whole = value as i64;
    #[expect(clippy::cast_precision_loss, reason = "compared below")]
    let is_whole = whole as f64 == value;
    if is_whole { whole.into() } else { value.into() }
}

/// Seconds and nanoseconds since 1970.
fn hr_time(time: SystemTime) -> Value {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    json!([since.as_secs(), since.subsec_nanos()])
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn links_out_of_the_project_are_rejected() {
        let directory = tempfile::tempdir().expect("a directory");
        let (project, outside) =
            (directory.path().join("project"), directory.path().join("outside"));
        std::fs::create_dir_all(&project).expect("create");
        std::fs::create_dir_all(&outside).expect("create");
        std::os::unix::fs::symlink(&outside, project.join("away")).expect("link");
        std::fs::write(outside.join("file"), "mine").expect("write");
        std::os::unix::fs::symlink(outside.join("file"), project.join("t.log")).expect("link");
        let open = |name: &str| TelemetryFile::open(&project.join(name), &project, &Object::new());
        for name in ["away/t.log", "away/new/t.log", "t.log", "new/../../t.log"] {
            assert!(open(name).is_err(), "{name}");
        }
        assert!(open(".").is_err());
        assert!(!outside.join("new").exists() && !outside.join("t.log").exists());
        open("new/folder/t.log").expect("a file");
        let mode = project.join("new/folder/t.log").metadata().expect("metadata").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        // The user's own file elsewhere.
        TelemetryFile::open(&outside.join("t.log"), &project, &Object::new()).expect("a file");
    }

    #[test]
    fn fifo_without_a_reader_is_rejected_without_blocking() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("t.log");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).expect("a fifo");
        assert!(TelemetryFile::open(&path, directory.path(), &Object::new()).is_err());
    }
}
