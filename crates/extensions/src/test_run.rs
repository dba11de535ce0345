//! Runs the tests of an extension with recorded model responses, in a temporary home directory and
//! project.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parallax_exec::environment::is_system_variable;
use parallax_exec::{PipedCommand, ProcessExit, Processes};
use parallax_protocol::event::Failure;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::{CancellationToken, Object};
use serde_json::Value;

use crate::ExtensionManager;
use crate::input_failure;
use parallax_exec::shell::quote_word;

/// Directory of an extension's tests.
const FOLDER: &str = "tests";
/// Maximum bytes of a test file.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Default time limit in seconds for the turns of a test.
const SECONDS: u64 = 60;
/// Additional time for the process, because servers and hooks have to start and end.
const GRACE: Duration = Duration::from_secs(60);
/// Maximum bytes of output.
const OUTPUT: usize = 16 * 1024 * 1024;
/// Allowed keys in a test file.
const KEYS: [&str; 9] =
    ["prompt", "responses", "expect", "absent", "mode", "files", "settings", "exitCode", "seconds"];

/// A test as defined by its file.
#[derive(Debug, Clone)]
pub struct ExtensionTest {
    prompt: String,
    responses: PathBuf,
    expect: Vec<String>,
    unexpected: Vec<String>,
    mode: ApprovalMode,
    files: Vec<(PathBuf, String)>,
    settings: Vec<(String, String)>,
    code: i32,
    seconds: u64,
}

impl ExtensionTest {
    fn read(directory: &Path, file: &Path) -> Result<Self, String> {
        let length = std::fs::metadata(file).map_err(|error| error.to_string())?.len();
        if length > MAX_BYTES {
            return Err("it is too large".to_owned());
        }
        let object = parallax_config::jsonc_object(file).map_err(|error| error.to_string())?;
        let object = object.unwrap_or_default();
        if let Some(odd) = object.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(format!("unknown key `{odd}`; known keys: `{}`", KEYS.join("`, `")));
        }
        let text = |key: &str| object.get(key).and_then(Value::as_str);
        let prompt = text("prompt").ok_or("`prompt` is missing")?.to_owned();
        let responses =
            text("responses").ok_or("`responses` is missing: use a file for `--fake-responses`")?;
        let responses = resolve_below(&directory.join(FOLDER), responses)?;
        let mode = match text("mode") {
            None => ApprovalMode::Default,
            Some(mode) => ApprovalMode::parse(mode)
                .ok_or("`mode` must be `plan`, `default`, `auto_edit`, or `yolo`")?,
        };
        let number = |key: &str, or: u64| match object.get(key) {
            None => Ok(or),
            Some(value) => value.as_u64().ok_or(format!("`{key}` must be a number")),
        };
        let files = pairs(&object, "files")?;
        let files = files.into_iter().map(|(name, text)| {
            let path = resolve_below(Path::new(""), &name)?;
            Ok((path, text))
        });
        Ok(Self {
            prompt,
            responses,
            expect: string_list(&object, "expect")?,
            unexpected: string_list(&object, "absent")?,
            mode,
            files: files.collect::<Result<_, String>>()?,
            settings: pairs(&object, "settings")?,
            code: i32::try_from(number("exitCode", 0)?).unwrap_or(-1),
            seconds: number("seconds", SECONDS)?.clamp(1, 3600),
        })
    }
}

/// Returns the name of a test, which is its file name without extension.
fn test_name(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Joins a relative path that stays below a directory.
fn resolve_below(directory: &Path, name: &str) -> Result<PathBuf, String> {
    let path = Path::new(name);
    let is_plain = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    match is_plain && !name.is_empty() {
        true => Ok(directory.join(path)),
        false => Err(format!("`{name}` is not a path in its directory")),
    }
}

fn string_list(object: &Object, key: &str) -> Result<Vec<String>, String> {
    let to_error = || format!("`{key}` must be a list of strings");
    match object.get(key) {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => {
            let text = |item: &Value| item.as_str().map(str::to_owned).ok_or_else(to_error);
            items.iter().map(text).collect()
        }
        Some(_) => Err(to_error()),
    }
}

fn pairs(object: &Object, key: &str) -> Result<Vec<(String, String)>, String> {
    let to_error = || format!("`{key}` must be an object with string values");
    match object.get(key) {
        None => Ok(Vec::new()),
        Some(Value::Object(items)) => {
            let pair = |(name, item): (&String, &Value)| {
                Ok((name.clone(), item.as_str().ok_or_else(to_error)?.to_owned()))
            };
            items.iter().map(pair).collect()
        }
        Some(_) => Err(to_error()),
    }
}

impl ExtensionManager<'_> {
    /// Returns the tests of the extension in a directory (`tests/*.json`), sorted by name, each
    /// with its definition or a parse error. Blocking.
    pub fn extension_tests(
        &self,
        directory: &Path,
    ) -> Vec<(String, Result<ExtensionTest, String>)> {
        let directory = self.config.cwd.join(self.config.expand_home(directory));
        let entries = std::fs::read_dir(directory.join(FOLDER)).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "json"))
            .take(1_000)
            .collect();
        files.sort();
        let read = |file: &PathBuf| (test_name(file), ExtensionTest::read(&directory, file));
        files.iter().map(read).collect()
    }

    /// Runs a test with the program at `program`. Returns a sentence for each failed expectation.
    /// The user's home directory is neither read nor changed. Blocking; must not be called on a
    /// runtime thread.
    ///
    /// # Errors
    /// Returns an error if the test cannot be run.
    pub fn try_extension(
        &self,
        program: &Path,
        directory: &Path,
        trial: &ExtensionTest,
    ) -> Result<Vec<String>, Failure> {
        let to_failure =
            |error: std::io::Error| input_failure(format!("failed to run the test: {error}"));
        let directory =
            std::fs::canonicalize(self.config.cwd.join(self.config.expand_home(directory)));
        let directory = directory.map_err(to_failure)?;
        let room =
            tempfile::Builder::new().prefix("parallax-test-").tempdir().map_err(to_failure)?;
        let root = std::fs::canonicalize(room.path()).map_err(to_failure)?;
        let (home, project) = (root.join("home"), root.join("project"));
        std::fs::create_dir_all(home.join(".parallax")).map_err(to_failure)?;
        std::fs::create_dir_all(&project).map_err(to_failure)?;
        // Wait for the extension's servers before the first request.
        let settings = serde_json::json!({"mcp": {"firstWaitMs": 15_000}}).to_string();
        std::fs::write(home.join(".parallax/settings.json"), settings).map_err(to_failure)?;
        for (name, text) in &trial.files {
            let file = project.join(name);
            let parent = file.parent().unwrap_or(&project);
            std::fs::create_dir_all(parent)
                .and_then(|()| std::fs::write(&file, text))
                .map_err(to_failure)?;
        }
        let values: Object = trial
            .settings
            .iter()
            .map(|(name, value)| (name.clone(), value.clone().into()))
            .collect();
        let value_file = root.join("values.json");
        std::fs::write(&value_file, Value::Object(values).to_string()).map_err(to_failure)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(to_failure)?;
        let run = |words: &[&str], time: Duration| {
            let mut text = quote_word(&program.to_string_lossy());
            for word in words {
                text.push(' ');
                text.push_str(&quote_word(word));
            }
            let command = PipedCommand {
                text,
                directory: project.clone(),
                environment: environment(self.variables, &home),
                input: Vec::new(),
                timeout: time,
                max_bytes: OUTPUT,
                sandbox: None,
                allows_background: false,
            };
            let processes = Processes::new(root.join("tmp"));
            runtime
                .block_on(async {
                    let end = processes.run_piped(command, &CancellationToken::new()).await;
                    processes.shutdown().await;
                    end
                })
                .map_err(|error| input_failure(format!("failed to run the test: {error}")))
        };
        let (directory, values) = (directory.to_string_lossy(), value_file.to_string_lossy());
        let link = ["extensions", "link", &directory, "--consent", "--settings", &values];
        let linked = run(&link, GRACE)?;
        if linked.exit != Some(ProcessExit::Exited { code: 0 }) {
            let output = String::from_utf8_lossy(&linked.stderr);
            return Ok(vec![format!("failed to link it: {}", last_line(&output))]);
        }
        let (seconds, responses) = (trial.seconds.to_string(), trial.responses.to_string_lossy());
        let mode = trial.mode.as_str();
        let words = [
            "--skip-trust",
            "--fake-responses",
            &responses,
            "--approval-mode",
            mode,
            "--timeout",
            &seconds,
            "-o",
            "stream-json",
            "-p",
            &trial.prompt,
        ];
        let end = run(&words, Duration::from_secs(trial.seconds) + GRACE)?;
        let code = match end.exit {
            Some(ProcessExit::Exited { code }) => code,
            Some(ProcessExit::Signalled { signal }) => 128 + signal,
            None => -1,
        };
        Ok(failed_expectations(trial, code, &end.stdout, &String::from_utf8_lossy(&end.stderr)))
    }
}

/// Returns the system variables, with a separate home directory.
fn environment(all: &[(OsString, OsString)], home: &Path) -> Vec<(OsString, OsString)> {
    let own = ["HOME", "USERPROFILE", "PWD", "OLDPWD"];
    let mut environment: Vec<(OsString, OsString)> = all
        .iter()
        .filter(|(name, _)| {
            let name = name.to_string_lossy();
            is_system_variable(&name) && !own.contains(&name.as_ref())
        })
        .cloned()
        .collect();
    environment.push(("HOME".into(), home.into()));
    environment.push(("GEMINI_CLI_HOME".into(), home.into()));
    environment
}

/// Returns the failed expectations.
fn failed_expectations(
    trial: &ExtensionTest,
    code: i32,
    stdout: &[u8],
    stderr: &str,
) -> Vec<String> {
    let mut problems = Vec::new();
    if code != trial.code {
        let message = last_line(stderr);
        problems.push(format!("exited with code {code} instead of {}: {message}", trial.code));
    }
    // Compare decoded strings, not their JSON form.
    let mut text = String::new();
    for line in String::from_utf8_lossy(stdout).lines() {
        match serde_json::from_str::<Value>(line) {
            Ok(value) => append_strings(&value, &mut text),
            Err(_) => text.push_str(line),
        }
        text.push('\n');
    }
    text.push_str(stderr);
    for part in trial.expect.iter().filter(|part| !text.contains(part.as_str())) {
        problems.push(format!("`{part}` is missing from the output"));
    }
    for part in trial.unexpected.iter().filter(|part| text.contains(part.as_str())) {
        problems.push(format!("`{part}` is in the output but should not be"));
    }
    problems
}

fn append_strings(value: &Value, text: &mut String) {
    match value {
        Value::String(part) => {
            text.push_str(part);
            text.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| append_strings(item, text)),
        Value::Object(fields) => fields.values().for_each(|field| append_strings(field, text)),
        _ => {}
    }
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim().chars().take(500).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_test(text: &str) -> Result<ExtensionTest, String> {
        let directory = tempfile::tempdir().expect("directory");
        let file = directory.path().join("one.json");
        std::fs::write(&file, text).expect("written");
        ExtensionTest::read(directory.path(), &file)
    }

    #[test]
    fn extension_test_declares_its_expectations() {
        let read = parse_test(
            r#"{"prompt": "p", "responses": "r.jsonl", "expect": ["a \"b\""], "absent": ["zz"]}"#,
        )
        .expect("a trial");
        assert_eq!(
            failed_expectations(&read, 0, br#"{"text": "a \"b\" c"}"#, ""),
            Vec::<String>::new()
        );
        let failures = failed_expectations(&read, 42, br#"{"text": "zz"}"#, "error: no\n");
        assert_eq!(failures.len(), 3, "{failures:?}");
        assert!(failures[0].contains("42 instead of 0: error: no"), "{failures:?}");
    }

    #[test]
    fn invalid_extension_test_is_reported() {
        for (text, reason) in [
            (r#"{"responses": "r"}"#, "`prompt` is missing"),
            (r#"{"prompt": "p"}"#, "`responses` is missing"),
            (r#"{"prompt": "p", "responses": "../r"}"#, "not a path in"),
            (r#"{"prompt": "p", "responses": "r", "files": {"/etc/x": "y"}}"#, "not a path in"),
            (r#"{"prompt": "p", "responses": "r", "expects": []}"#, "unknown key `expects`"),
        ] {
            let error = parse_test(text).expect_err("none");
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
