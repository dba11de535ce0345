//! `parallax eval`: runs evaluation cases and compares results.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use parallax_devtools::STYLE;
use parallax_evals::{
    AnswerSource, Comparison, EvalError, Report, RunResult, Suite, find_cases, is_report, page,
    read_results,
};
use parallax_exec::{PipedChild, ProcessExit};
use parallax_headless::{ExitCode, Sanitizer, Signals, json_document, one_line};
use parallax_protocol::CancellationToken;
use parallax_protocol::event::{Failure, FailureKind};

/// Maximum number of parallel runs by default.
const JOBS: usize = 4;

/// Time limit for exporting a session.
const EXPORT_LIMIT: Duration = Duration::from_secs(120);
/// Maximum number of output bytes kept.
const MAX_OUTPUT: usize = 64 << 10;

/// Number of bytes at the beginning of a page that identify it.
const REPORT_START: u64 = 4 << 10;

/// `parallax eval`.
#[derive(Debug, PartialEq, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct EvalArguments {
    #[command(subcommand)]
    action: Option<EvalAction>,

    /// Cases: directories with `case.toml`, or directories that contain such directories
    #[arg(value_name = "DIR|FILE")]
    cases: Vec<PathBuf>,

    /// Model to evaluate; can be repeated [default: the configured model]
    #[arg(short, long, value_name = "MODEL")]
    model: Vec<String>,

    /// Number of runs of each case with each model
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,

    /// Number of parallel runs [default: the number of cores, at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,

    /// Exit with 1 if the share of passed runs (0 to 1) is smaller
    #[arg(long, value_name = "RATE", value_parser = rate)]
    min: Option<f64>,

    /// Write the result of each run to this file, one JSON object per line; an existing file is
    /// renamed to FILE.previous, FILE.previous-2, and so on
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Write a report page, and a page of each session next to it; replaces only an earlier report
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write each session as an ATIF trajectory into this directory
    #[arg(long, value_name = "DIR")]
    atif: Option<PathBuf>,

    /// Store the model's answers as the recording of each case
    #[arg(long, conflicts_with = "replay")]
    record: bool,

    /// Replay the recording of each case, or this file, instead of calling a model
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "the flag may have no value")]
    replay: Option<Option<PathBuf>>,

    /// Use recorded answers in order, even for requests that differ from the recorded ones
    #[arg(long, requires = "replay")]
    replay_non_strict: bool,

    /// Keep the directories of failed runs, and print their paths
    #[arg(long)]
    keep: bool,
}

#[derive(Debug, PartialEq, Subcommand)]
enum EvalAction {
    /// Compare two files of results
    Compare {
        /// The results before a change
        #[arg(value_name = "A")]
        before: PathBuf,
        /// The results after it
        #[arg(value_name = "B")]
        after: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.0..=1.0).contains(rate));
    rate.ok_or_else(|| "expected a share from 0 to 1".to_owned())
}

/// Runs the cases, or compares results. Results go to stdout, progress to stderr.
///
/// # Errors
/// Returns an error if a case or a file is invalid or cannot be written.
pub(crate) async fn run(arguments: EvalArguments) -> Result<ExitCode, Failure> {
    if let Some(EvalAction::Compare { before, after, json }) = &arguments.action {
        let comparison = Comparison::new(
            &read_results(before).map_err(input_failure)?,
            &read_results(after).map_err(input_failure)?,
        );
        let text = if *json {
            json_document(&comparison)
        } else {
            Sanitizer::sanitize(&comparison.text())
        };
        print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (suite, paths) = suite(&arguments)?;
    if let Some(file) = &paths.html {
        require_report(file)?;
    }
    if let Some(directory) = &paths.atif {
        fs::create_dir_all(directory).map_err(|error| write_failure(directory, &error))?;
    }
    let mut out = paths.out.as_deref().map(create).transpose()?;
    let cancel = CancellationToken::new();
    let mut signals = Signals::listen();
    let total = suite.cases.len() * suite.models.len().max(1) * suite.runs as usize;
    let mut problem = None;
    let (results, is_stopped) = {
        let mut done = 0;
        let mut finished = |result: &RunResult| {
            done += 1;
            // The results count even if the progress cannot be printed.
            let _ = writeln!(io::stderr(), "{}", progress(result, done, total));
            if let (Some((path, file)), None) = (&mut out, &problem) {
                let written = write_result(file, result);
                problem = written.err().map(|error| write_failure(path, &error));
            }
        };
        let running = suite.run(&cancel, &mut finished);
        tokio::pin!(running);
        let mut is_stopped = false;
        loop {
            tokio::select! {
                results = &mut running => break (results.map_err(input_failure)?, is_stopped),
                _ = signals.next(), if !is_stopped => {
                    is_stopped = true;
                    cancel.cancel();
                }
            }
        }
    };
    if let Some(problem) = problem {
        return Err(problem);
    }
    let report = Report::from_results(&results);
    print(&Sanitizer::sanitize(&report.table()))?;
    if let Some(directory) = &paths.atif {
        export_trajectories(&suite.program, &results, directory).await?;
    }
    if let Some(file) = &paths.html {
        write_page(&suite.program, &results, file).await?;
    }
    let is_enough = arguments.min.is_none_or(|min| report.total.pass_rate >= min);
    Ok(match (is_stopped, is_enough) {
        (true, _) => ExitCode(130),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::GENERAL,
    })
}

/// The destinations of the results.
struct OutputPaths {
    out: Option<PathBuf>,
    html: Option<PathBuf>,
    atif: Option<PathBuf>,
}

fn suite(arguments: &EvalArguments) -> Result<(Suite, OutputPaths), Failure> {
    let mut cases = arguments.cases.clone();
    let answers = match (&arguments.replay, arguments.record) {
        (Some(Some(path)), _)
            if path.is_dir() || path.file_name() == Some("case.toml".as_ref()) =>
        {
            // The optional value of the flag was actually a case.
            cases.push(path.clone());
            AnswerSource::Replay(None)
        }
        (Some(file), _) => AnswerSource::Replay(file.clone()),
        (None, true) => AnswerSource::Record,
        (None, false) => AnswerSource::Model,
    };
    if cases.is_empty() {
        return Err(input_failure(EvalError::Usage(
            "specify the cases to run: directories with `case.toml`".to_owned(),
        )));
    }
    let program = std::env::current_exe().map_err(|error| {
        input_failure(EvalError::Usage(format!(
            "Failed to determine the path of this program: {error}"
        )))
    })?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let suite = Suite {
        program,
        cases: find_cases(&cases).map_err(input_failure)?,
        models: arguments.model.clone(),
        runs: arguments.runs,
        jobs: arguments.jobs.map_or_else(|| cores.min(JOBS), usize::from),
        answers,
        retains_failed: arguments.keep,
        allows_changed_requests: arguments.replay_non_strict,
    };
    let paths = OutputPaths {
        out: arguments.out.clone(),
        html: arguments.html.clone(),
        atif: arguments.atif.clone(),
    };
    Ok((suite, paths))
}

fn progress(result: &RunResult, done: usize, total: usize) -> String {
    let mark = if result.pass { '✓' } else { '✕' };
    let mut text = format!("[{done}/{total}] {mark} {} ({})", result.case, result.model);
    if let Some(error) = &result.error {
        text.push_str(&format!(": {error}"));
    }
    for check in result.checks.iter().filter(|check| !check.pass) {
        let detail = check.detail.as_deref().unwrap_or("it did not pass");
        text.push_str(&format!("; {}: {detail}", check.kind));
    }
    let mut lines = vec![one_line(&text)];
    if let Some(wrong_step) = &result.wrong_step {
        let tool =
            wrong_step.tool.as_deref().map_or("the answer".to_owned(), |it| format!("`{it}`"));
        let text = format!("first wrong step: {}, {tool}: {}", wrong_step.step, wrong_step.problem);
        lines.push(format!("    {}", one_line(&text)));
    }
    if let Some(command) = &result.devtools {
        lines.push(format!("    DevTools: {}", one_line(command)));
    }
    lines.join("\n")
}

/// Creates the file of results. Earlier results, which may have cost money, stay next to it.
fn create(path: &Path) -> Result<(PathBuf, fs::File), Failure> {
    if fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0) {
        let previous = previous_name(path);
        fs::rename(path, &previous).map_err(|error| write_failure(&previous, &error))?;
        // The results count even if the note cannot be printed.
        let _ = writeln!(
            io::stderr(),
            "Moved the earlier results from {} to {}",
            one_line(&path.display().to_string()),
            one_line(&previous.display().to_string())
        );
    }
    let file = fs::File::create(path).map_err(|error| write_failure(path, &error))?;
    Ok((path.to_owned(), file))
}

/// Returns a name for earlier results that no file has yet.
fn previous_name(path: &Path) -> PathBuf {
    let with = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let numbered = (2..).map(|number| with(&format!(".previous-{number}")));
    let mut names = std::iter::once(with(".previous")).chain(numbered);
    let is_free = |name: &PathBuf| fs::symlink_metadata(name).is_err();
    names.find(is_free).unwrap_or_else(|| with(".previous"))
}

/// Requires that a report page may be written to a path, before the runs cost something.
fn require_report(file: &Path) -> Result<(), Failure> {
    let start = match fs::File::open(file) {
        Ok(opened) => {
            let mut start = Vec::new();
            let read = opened.take(REPORT_START).read_to_end(&mut start);
            read.map_err(|error| write_failure(file, &error))?;
            start
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(write_failure(file, &error)),
    };
    match start.is_empty() || is_report(&String::from_utf8_lossy(&start)) {
        true => Ok(()),
        false => Err(input_failure(EvalError::Usage(format!(
            "`{}` already exists and is not a report of `parallax eval`: choose another name",
            file.display()
        )))),
    }
}

fn write_result(file: &mut fs::File, result: &RunResult) -> io::Result<()> {
    let line = serde_json::to_string(result).map_err(io::Error::other)?;
    writeln!(file, "{line}")
}

/// Exports a session with the program itself, which supports the formats.
async fn export(program: &Path, id: &str, format: &str, file: &Path) -> Result<(), Failure> {
    // An export does not replace an existing file.
    let _ = fs::remove_file(file);
    let path = file.to_string_lossy();
    let arguments = ["sessions", "export", id, "--format", format, "-f", &path];
    let result = match PipedChild::start(program, arguments, Path::new(".")) {
        Ok(child) => child.output(MAX_OUTPUT, EXPORT_LIMIT).await,
        Err(error) => Err(error),
    };
    match result {
        Ok(output) if output.exit == (ProcessExit::Exited { code: 0 }) => Ok(()),
        Ok(output) => {
            let error_text = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(input_failure(EvalError::Usage(format!(
                "Failed to export session `{id}`: {}",
                one_line(error_text.trim())
            ))))
        }
        Err(error) => Err(write_failure(file, &error)),
    }
}

/// Returns the file names of the runs, derived from the names of their cases and models. No two are
/// equal, even where names differ only in characters that file names do not have.
fn file_names(results: &[RunResult], extension: &str) -> Vec<String> {
    let mut used = BTreeSet::new();
    let unique = |result: &RunResult| {
        let plain = file_name(result);
        let mut name = format!("{plain}.{extension}");
        let mut number = 2;
        while !used.insert(name.to_lowercase()) {
            name = format!("{plain}~{number}.{extension}");
            number += 1;
        }
        name
    };
    results.iter().map(unique).collect()
}

fn file_name(result: &RunResult) -> String {
    let name = format!("{}-{}-{}", result.case, result.model, result.run);
    let plain =
        |char: char| if char.is_alphanumeric() || "-_.".contains(char) { char } else { '-' };
    name.chars().map(plain).collect()
}

async fn export_trajectories(
    program: &Path,
    results: &[RunResult],
    directory: &Path,
) -> Result<(), Failure> {
    for (result, name) in results.iter().zip(file_names(results, "json")) {
        if let Some(id) = &result.session_id {
            export(program, id, "atif", &directory.join(name)).await?;
        }
    }
    Ok(())
}

async fn write_page(program: &Path, results: &[RunResult], file: &Path) -> Result<(), Failure> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let directory_name = format!("{stem}-sessions");
    let directory = file.parent().unwrap_or(Path::new("")).join(&directory_name);
    fs::create_dir_all(&directory).map_err(|error| write_failure(&directory, &error))?;
    let mut sessions = BTreeMap::new();
    for (result, name) in results.iter().zip(file_names(results, "html")) {
        if let Some(id) = &result.session_id {
            export(program, id, "html", &directory.join(&name)).await?;
            sessions.insert(id.clone(), format!("{directory_name}/{name}"));
        }
    }
    fs::write(file, page(results, STYLE, &sessions)).map_err(|error| write_failure(file, &error))
}

fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| {
        input_failure(EvalError::Usage(format!("Failed to print the results: {error}")))
    })
}

fn write_failure(path: &Path, error: &io::Error) -> Failure {
    input_failure(EvalError::Usage(format!("Failed to write `{}`: {error}", path.display())))
}

#[expect(clippy::needless_pass_by_value, reason = "it is the argument of `map_err`")]
fn input_failure(error: EvalError) -> Failure {
    Failure { kind: FailureKind::Input, message: error.to_string(), status: None }
}
