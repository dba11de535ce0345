//! Scenarios: directories with a project, a model script, arguments, and the expected result.
//!
//! ```text
//! NAME/scenario.json   {"args": […], "stdin"?, "env"?, "exit"?, "limit_ms"?,
//!                       "filters"?: [[regex, text], …], "absent"?: [path, …],
//!                       "signal"?: {"gate": name, "name": "INT" | "TERM"},
//!                       "contains"?: {NAME: [text, …], …}, "lacks"?: the same,
//!                       "git"?: true (the project is a git repository),
//!                       "allow"?: ["violations", "unused"]}
//!                      or {"runs": [{args, stdin, env, exit, signal}, …], …}
//! NAME/script.json     the script of the model
//! NAME/input/          the project's files
//! NAME/home/           files of the home directory
//! NAME/expected/       stdout, stderr (stdout-2, … for later runs), files/,
//!                      requests.json; only existing files are compared
//! ```
//!
//! In `contains` and `lacks`, NAME is `stdout`, `stderr` (`stdout-2`, … for later runs),
//! `request-1`, `request-2`, … (the raw body of a model request, including JSON escapes), or
//! `headers-1`, … (a line with method and URL, then each header).
//!
//! In arguments, environment, stdin, the script, and the files of `home/`, `[PROJECT]`, `[HOME]`,
//! `[ROOT]`, and `[SERVER]` are replaced by the real values; in the actual results, the real
//! values are replaced by these names. `UPDATE_SCENARIOS=1` writes the actual results to the
//! expected files, except for a stream that `contains` checks and that has no file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::home::TestHome;
use crate::measure::{FinishedProcess, MeasuredProcess};
use crate::{Method, ModelServer, Script};

/// The program under test.
#[derive(Debug, Clone)]
pub struct Program {
    /// The path (`env!("CARGO_BIN_EXE_…")`).
    pub path: PathBuf,
    /// The version, shown as `[VERSION]`.
    pub version: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    runs: Vec<ScenarioRun>,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    stdin: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, Option<String>>,
    #[serde(default)]
    exit: i32,
    #[serde(default)]
    signal: Option<GateSignal>,
    #[serde(default = "default_timeout_seconds")]
    limit_ms: u64,
    #[serde(default)]
    filters: Vec<(String, String)>,
    #[serde(rename = "absent", default)]
    absent_paths: Vec<String>,
    #[serde(default)]
    allow: Vec<String>,
    /// Whether the project looks like a git repository.
    #[serde(default)]
    git: bool,
    #[serde(default)]
    contains: BTreeMap<String, Vec<String>>,
    #[serde(rename = "lacks", default)]
    lacking_texts: BTreeMap<String, Vec<String>>,
    #[serde(default, rename = "comment")]
    _comment: Option<String>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct ScenarioRun {
    args: Vec<String>,
    #[serde(default)]
    stdin: Option<String>,
    /// `null` removes a variable.
    #[serde(default)]
    env: BTreeMap<String, Option<String>>,
    #[serde(default)]
    exit: i32,
    #[serde(default)]
    signal: Option<GateSignal>,
}

/// A signal sent to the program when the model's stream reaches a gate.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct GateSignal {
    #[serde(rename = "gate")]
    gate_name: String,
    name: String,
}

/// Long enough for a busy machine: only a scenario that hangs takes longer.
fn default_timeout_seconds() -> u64 {
    30_000
}

/// Runs every scenario in a directory (or the one that `SCENARIO` names), two at a time.
///
/// # Errors
/// Returns the differences of all scenarios that failed.
pub fn run_all(program: &Program, directory: &Path) -> Result<usize, String> {
    let only = std::env::var("SCENARIO").ok();
    let entries = std::fs::read_dir(directory)
        .map_err(|error| format!("cannot read `{}`: {error}", directory.display()))?;
    let mut directories: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("scenario.json").is_file())
        .filter(|path| only.as_deref().is_none_or(|only| path.ends_with(only)))
        .collect();
    directories.sort();
    let count = directories.len();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let failures = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(directory) =
                    directories.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    if let Err(problem) = run(program, directory)
                        && let Ok(mut failures) = failures.lock()
                    {
                        failures.push(format!("== {}\n{problem}", directory.display()));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_default();
    if failures.is_empty() { Ok(count) } else { Err(failures.join("\n")) }
}

/// Runs one scenario.
///
/// # Errors
/// Returns the differences.
pub fn run(program: &Program, directory: &Path) -> Result<(), String> {
    let update = std::env::var_os("UPDATE_SCENARIOS").is_some_and(|value| value == "1");
    Scenario::prepare(directory)?.play(program, update)
}

struct Scenario {
    directory: PathBuf,
    config: Config,
    home: TestHome,
    server: ModelServer,
    runtime: tokio::runtime::Runtime,
}

impl Scenario {
    fn prepare(directory: &Path) -> Result<Self, String> {
        let text = read(&directory.join("scenario.json"))?;
        let config: Config =
            serde_json::from_str(&text).map_err(|error| format!("scenario.json: {error}"))?;
        let home = TestHome::new().map_err(|error| format!("temporary home: {error}"))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| format!("runtime: {error}"))?;
        let stand = |text: &str| substitute(text, &home, "[SERVER]");
        copy(&directory.join("input"), &home.project(), &|bytes| bytes)?;
        if config.git {
            // Git does not allow a directory with this name in a repository.
            let git = home.project().join(".git");
            write(&git.join("HEAD"), "ref: refs/heads/main\n")?;
            for name in ["objects", "refs"] {
                std::fs::create_dir_all(git.join(name)).map_err(|error| error.to_string())?;
            }
        }
        copy(&directory.join("home"), &home.home(), &|bytes| match String::from_utf8(bytes) {
            Ok(text) => stand(&text).into_bytes(),
            Err(error) => error.into_bytes(),
        })?;
        let script = directory.join("script.json");
        let script = if script.is_file() { stand(&read(&script)?) } else { "[]".to_owned() };
        let script = Script::parse(&script).map_err(|error| error.to_string())?;
        let server = runtime
            .block_on(ModelServer::start(script))
            .map_err(|error| format!("model server: {error}"))?;
        Ok(Self { directory: directory.to_owned(), config, home, server, runtime })
    }

    fn play(mut self, program: &Program, update: bool) -> Result<(), String> {
        let mut runs = std::mem::take(&mut self.config.runs);
        if let Some(args) = self.config.args.take() {
            let (stdin, signal) = (self.config.stdin.take(), self.config.signal.take());
            let env = self.config.env.clone();
            runs.insert(0, ScenarioRun { args, stdin, env, exit: self.config.exit, signal });
        }
        let filters = Filters::new(&self, program)?;
        let mut problems = Vec::new();
        let mut texts = BTreeMap::new();
        for (number, run) in (1..).zip(&runs) {
            let finished = self.run_once(program, run)?;
            if finished.timed_out {
                problems.push(format!("run {number}: not done in {} ms", self.config.limit_ms));
            }
            if finished.code() != run.exit && !finished.timed_out {
                problems.push(format!("run {number}: exit {}, not {}", finished.code(), run.exit));
            }
            let suffix = if number == 1 { String::new() } else { format!("-{number}") };
            for (name, text) in [("stdout", finished.stdout()), ("stderr", finished.err())] {
                let actual = filters.apply(&text);
                let name = format!("{name}{suffix}");
                problems.extend(self.compare(&name, &actual, update)?);
                texts.insert(name, actual);
            }
            if !problems.is_empty() && finished.code() != run.exit {
                problems.push(format!("stderr was:\n{}", filters.apply(&finished.err())));
            }
        }
        problems.extend(self.compare_files(&filters, update)?);
        problems.extend(self.compare_requests(&filters, update)?);
        for (number, request) in (1..).zip(self.model_requests()) {
            let body = filters.apply(&String::from_utf8_lossy(&request.body));
            texts.insert(format!("request-{number}"), body);
            let headers: String = [format!("{} {}\n", request.method, request.path)]
                .into_iter()
                .chain(request.headers.iter().map(|(name, value)| format!("{name}: {value}\n")))
                .collect();
            texts.insert(format!("headers-{number}"), filters.apply(&headers));
        }
        problems.extend(self.search(&texts));
        let allowed = |what: &str| self.config.allow.iter().any(|allowed| allowed == what);
        let violations = self.server.violations();
        if !violations.is_empty() && !allowed("violations") {
            problems.push(format!("the model server objects:\n{}", violations.join("\n")));
        }
        if self.server.unused_replies() > 0 && !allowed("unused") {
            problems.push(format!(
                "{} replies of the script were not used",
                self.server.unused_replies()
            ));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
    }

    fn run_once(&self, program: &Program, run: &ScenarioRun) -> Result<FinishedProcess, String> {
        let url = self.server.url();
        let stand = |text: &str| substitute(text, &self.home, &url);
        let mut command = self.home.command(&program.path, &url);
        command.args(run.args.iter().map(|arg| stand(arg)));
        for (name, value) in self.config.env.iter().chain(&run.env) {
            match value {
                Some(value) => command.env(name, stand(value)),
                None => command.env_remove(name),
            };
        }
        let stdin = run.stdin.as_deref().map(stand);
        let running = MeasuredProcess::start(command, stdin.as_deref().map(str::as_bytes))
            .map_err(|error| format!("cannot start `{}`: {error}", program.path.display()))?;
        let limit = Duration::from_millis(self.config.limit_ms);
        let pid = running.pid();
        std::thread::scope(|scope| {
            if let Some(at) = &run.signal {
                let signal = match at.name.as_str() {
                    "TERM" => rustix::process::Signal::TERM,
                    _ => rustix::process::Signal::INT,
                };
                scope.spawn(move || {
                    let reached = self.runtime.block_on(async {
                        tokio::time::timeout(limit, self.server.wait_at_gate(&at.gate_name))
                            .await
                            .is_ok()
                    });
                    if reached {
                        let _ = rustix::process::kill_process(pid, signal);
                    }
                });
            }
            running.finish(limit).map_err(|error| format!("waiting: {error}"))
        })
    }

    /// Compares the text with a file in `expected/`; with `update`, writes the file.
    fn compare(&self, name: &str, actual: &str, update: bool) -> Result<Option<String>, String> {
        let path = self.directory.join("expected").join(name);
        if update && (path.is_file() || !self.config.contains.contains_key(name)) {
            write(&path, actual)?;
            return Ok(None);
        }
        if !path.is_file() {
            return Ok(None);
        }
        let expected_text = read(&path)?;
        Ok((expected_text != actual)
            .then(|| format!("{name}:\n{}", difference(&expected_text, actual))))
    }

    fn compare_files(&self, filters: &Filters, update: bool) -> Result<Vec<String>, String> {
        let mut problems = Vec::new();
        let project = self.home.project();
        for path in &self.config.absent_paths {
            if project.join(path).exists() {
                problems.push(format!("`{path}` is there"));
            }
        }
        let expected = self.directory.join("expected/files");
        if update {
            for path in tree(&project)? {
                let current = std::fs::read(project.join(&path)).unwrap_or_default();
                let before = std::fs::read(self.directory.join("input").join(&path)).ok();
                if before.as_deref() != Some(&current) && !path.starts_with(".git") {
                    write(
                        &expected.join(&path),
                        filters.apply(&String::from_utf8_lossy(&current)),
                    )?;
                }
            }
            return Ok(problems);
        }
        for path in tree(&expected)? {
            let Ok(actual) = std::fs::read(project.join(&path)) else {
                problems.push(format!("`{}` was not written", path.display()));
                continue;
            };
            let actual = filters.apply(&String::from_utf8_lossy(&actual));
            let expected_text = read(&expected.join(&path))?;
            if expected_text != actual {
                problems.push(format!(
                    "`{}`:\n{}",
                    path.display(),
                    difference(&expected_text, &actual)
                ));
            }
        }
        Ok(problems)
    }

    /// Returns the requests that ask the model for a response.
    fn model_requests(&self) -> impl Iterator<Item = crate::RecordedRequest> {
        self.server.requests().into_iter().filter(|request| {
            matches!(request.kind, Some(Method::StreamGenerateContent | Method::GenerateContent))
        })
    }

    /// Returns the strings of `contains` that are missing and those of `lacks` that are present.
    fn search(&self, texts: &BTreeMap<String, String>) -> Vec<String> {
        let mut problems = Vec::new();
        for (list, should_contain) in
            [(&self.config.contains, true), (&self.config.lacking_texts, false)]
        {
            for (name, text) in list.iter().flat_map(|(n, all)| all.iter().map(move |t| (n, t))) {
                match texts.get(name) {
                    None => problems.push(format!("there is no {name} to search in")),
                    Some(got) if got.contains(text) == should_contain => {}
                    Some(_) if !should_contain => {
                        problems.push(format!("{name} contains `{text}`"))
                    }
                    Some(actual) => {
                        let actual: String = actual.chars().take(4000).collect();
                        problems.push(format!("{name} lacks `{text}`; it is:\n{actual}"));
                    }
                }
            }
        }
        problems
    }

    fn compare_requests(&self, filters: &Filters, update: bool) -> Result<Option<String>, String> {
        let name = "requests.json";
        if !self.directory.join("expected").join(name).is_file() {
            return Ok(None);
        }
        let requests: Vec<Value> = self
            .model_requests()
            .map(|request| json!({"path": request.path, "contents": request.contents()}))
            .collect();
        let text = serde_json::to_string_pretty(&requests).unwrap_or_default() + "\n";
        self.compare(name, &filters.apply(&text), update)
    }
}

/// Replaces values that differ between runs by names.
struct Filters {
    texts: Vec<(String, &'static str)>,
    patterns: Vec<(Regex, String)>,
}

impl Filters {
    fn new(scenario: &Scenario, program: &Program) -> Result<Self, String> {
        let home = &scenario.home;
        let url = scenario.server.url();
        let address = url.trim_start_matches("http://").to_owned();
        let texts = vec![
            (home.project().display().to_string(), "[PROJECT]"),
            (home.home().display().to_string(), "[HOME]"),
            (home.root().display().to_string(), "[ROOT]"),
            (url, "[SERVER]"),
            (address, "[ADDRESS]"),
        ];
        let built_in = [
            (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "[ID]"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "[TIME]"),
            (r#"("[A-Za-z_]*(?:[lL]atency|[dD]uration)[A-Za-z_]*":\s*)\d+(\.\d+)?"#, "$1[N]"),
            (r"\b\d+(\.\d+)?\s?(ms|s)\b", "[DURATION]"),
            (r"\b[A-Z][a-z]+day, [A-Z][a-z]+ \d{1,2}, \d{4}\b", "[DATE]"),
            (r"\bDate: [A-Z][a-z]+, [A-Z][a-z]+ \d{1,2}, \d{4}", "Date: [DATE]"),
            // Generated IDs of calls without one; process group IDs.
            (r"\b([a-z_]+)_\d{13}_(\d+)\b", "${1}_[TIME]_$2"),
            (r"\bPGID: \d+", "PGID: [N]"),
            // Names of project directories, whose paths always differ.
            (r"\bproject-[0-9a-f]{8}\b", "[FOLDER]"),
        ];
        let mut patterns = Vec::new();
        let own = scenario.config.filters.iter().map(|(from, to)| (from.as_str(), to.as_str()));
        for (from, to) in own.chain(built_in) {
            let pattern = Regex::new(from).map_err(|error| format!("filter `{from}`: {error}"))?;
            patterns.push((pattern, to.to_owned()));
        }
        if !program.version.is_empty() {
            let version = Regex::new(&format!(r"\b{}\b", regex::escape(&program.version)));
            patterns.extend(version.map(|pattern| (pattern, "[VERSION]".to_owned())));
        }
        Ok(Self { texts, patterns })
    }

    fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.texts {
            text = text.replace(from, to);
        }
        for (pattern, to) in &self.patterns {
            text = pattern.replace_all(&text, to).into_owned();
        }
        text
    }
}

fn substitute(text: &str, home: &TestHome, server: &str) -> String {
    text.replace("[PROJECT]", &home.project().display().to_string())
        .replace("[HOME]", &home.home().display().to_string())
        .replace("[ROOT]", &home.root().display().to_string())
        .replace("[SERVER]", server)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read `{}`: {error}", path.display()))
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), String> {
    let created = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    created
        .and_then(|()| std::fs::write(path, bytes))
        .map_err(|error| format!("cannot write `{}`: {error}", path.display()))
}

/// Returns the relative paths of all files below a directory; none if it does not exist.
fn tree(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(relative) = pending.pop() {
        let Ok(entries) = std::fs::read_dir(directory.join(&relative)) else { continue };
        for entry in entries.flatten() {
            let path = relative.join(entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => pending.push(path),
                Ok(kind) if kind.is_file() => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

fn copy(from: &Path, to: &Path, change: &dyn Fn(Vec<u8>) -> Vec<u8>) -> Result<(), String> {
    for path in tree(from)? {
        let source = from.join(&path);
        let bytes = std::fs::read(&source)
            .map_err(|error| format!("cannot read `{}`: {error}", source.display()))?;
        write(&to.join(&path), change(bytes))?;
        // Keeps scripts executable.
        if let Ok(metadata) = std::fs::metadata(&source) {
            let _ = std::fs::set_permissions(to.join(&path), metadata.permissions());
        }
    }
    Ok(())
}

/// Returns the lines around the first difference, expected and actual.
fn difference(expected: &str, actual: &str) -> String {
    let (expected, actual): (Vec<_>, Vec<_>) =
        (expected.split('\n').collect(), actual.split('\n').collect());
    let same = expected.iter().zip(&actual).take_while(|(one, two)| one == two).count();
    let from = same.saturating_sub(2);
    let mut text = format!("  from line {}:\n", from + 1);
    for line in expected.iter().skip(from).take(2.min(same)) {
        text.push_str(&format!("    {line}\n"));
    }
    for (mark, lines) in [("-", &expected), ("+", &actual)] {
        for line in lines.iter().skip(same).take(12) {
            text.push_str(&format!("  {mark} {line}\n"));
        }
    }
    text
}
