//! `parallax ps`, `attach`, `logs`, `answer`, and `stop`. All functions block.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use parallax_background::{
    BackgroundDirectory, BackgroundError, BackgroundSession, Client, LogView, SessionRecord,
    SessionState,
};
use parallax_headless::{ExitCode, json_document, one_line};
use parallax_protocol::event::{Failure, FailureKind};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::background_arguments::{AnswerArguments, BackgroundAction, PsArguments};
use crate::background_request::{format_question, format_request, line_of, questions};
use crate::background_session::all;

/// Sessions that ended earlier are listed only with `--all`.
const RECENT_HOURS: f64 = 24.0;
/// How often a log is polled.
const POLL: Duration = Duration::from_millis(100);
/// Time limit for stopping a session.
const STOP_TIME: Duration = Duration::from_secs(10);

/// Runs the command.
///
/// # Errors
/// Returns an error if the session is unknown or not running.
pub(crate) fn run(action: BackgroundAction) -> Result<ExitCode, Failure> {
    let all = all()?;
    let done = match action {
        BackgroundAction::Ps(typed) => ps(&all, &typed),
        BackgroundAction::Logs(typed) => logs(&all, &typed.id, typed.follow),
        BackgroundAction::Answer(typed) => answer(&all, &typed),
        BackgroundAction::Stop(typed) => stop(&all, &typed.id),
        BackgroundAction::Attach(typed) => attach(&all, &typed.id),
    };
    done.map_err(|error| Failure {
        kind: FailureKind::Input,
        message: error.to_string(),
        status: None,
    })
}

fn ps(all: &BackgroundDirectory, arguments: &PsArguments) -> Result<ExitCode, BackgroundError> {
    let mut records: Vec<SessionRecord> = all
        .list()
        .into_iter()
        .map(|(session, record)| Client::current_record(&session, record))
        .collect();
    if !arguments.all {
        records.retain(|record| {
            let last = record.ended_at.as_deref().unwrap_or(&record.started);
            record.state.is_running() || age_hours(last) < RECENT_HOURS
        });
    }
    if arguments.json {
        let rows: Vec<Value> = records.iter().map(row).collect();
        print(&json_document(&rows));
        return Ok(ExitCode::SUCCESS);
    }
    if records.is_empty() {
        print("No background sessions. Start one with `parallax --bg -p \"…\"`.\n");
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for record in records {
        let id: String = record.id.chars().take(8).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{id}  {:<17}  {:>6}  {:>9} tokens  ${:.2}  {}  {}  {}",
            record.state.as_str(),
            format_age(&record.started),
            record.tokens,
            record.cost,
            one_line(record.model.as_deref().unwrap_or("no model yet")),
            one_line(&record.project),
            one_line(&record.last_line),
        );
    }
    print(&text);
    Ok(ExitCode::SUCCESS)
}

/// Returns the JSON object of a session for `ps --json`.
fn row(record: &SessionRecord) -> Value {
    json!({"id": record.id, "project": record.project, "state": record.state, "pid": record.pid,
        "model": record.model, "tokens": record.tokens, "cost": record.cost,
        "started": record.started, "last_line": record.last_line})
}

fn age_hours(time: &str) -> f64 {
    let time = time.parse::<jiff::Timestamp>();
    time.map_or(f64::MAX, |time| jiff::Timestamp::now().duration_since(time).as_secs_f64() / 3600.0)
}

fn format_age(time: &str) -> String {
    match age_hours(time) {
        hours if hours < 1.0 / 60.0 => format!("{:.0}s", hours * 3600.0),
        hours if hours < 1.0 => format!("{:.0}m", hours * 60.0),
        hours if hours < 48.0 => format!("{hours:.0}h"),
        hours => format!("{:.0}d", hours / 24.0),
    }
}

/// Reads new events of a session as text.
struct LogReader {
    session: BackgroundSession,
    events: Option<BufReader<File>>,
    /// An incomplete line.
    part: Vec<u8>,
    view: LogView,
}

impl LogReader {
    fn new(session: &BackgroundSession) -> Self {
        Self { session: session.clone(), events: None, part: Vec::new(), view: LogView::default() }
    }

    /// Returns the text that was added since the last call.
    fn read_new(&mut self) -> String {
        if self.events.is_none() {
            self.events = File::open(self.session.file("events.jsonl")).ok().map(BufReader::new);
        }
        let Some(events) = &mut self.events else { return String::new() };
        let mut text = String::new();
        while events.read_until(b'\n', &mut self.part).is_ok_and(|count| count > 0) {
            if self.part.ends_with(b"\n") {
                text.push_str(&self.view.line(&String::from_utf8_lossy(&self.part)));
                self.part.clear();
            }
        }
        text
    }
}

fn logs(all: &BackgroundDirectory, id: &str, follow: bool) -> Result<ExitCode, BackgroundError> {
    let (session, _) = all.find(id)?;
    let mut log = LogReader::new(&session);
    loop {
        // Check first whether the session is alive, so that everything written before its end is
        // read.
        let is_alive = session.is_alive();
        if !print(&log.read_new()) || !follow || !is_alive {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(POLL);
    }
}

fn stop(all: &BackgroundDirectory, id: &str) -> Result<ExitCode, BackgroundError> {
    let (session, record) = all.find(id)?;
    if !session.is_alive() {
        return Err(BackgroundError::NotRunning(record.id));
    }
    session.signal(&record, Signal::TERM);
    let end = Instant::now() + STOP_TIME;
    while session.is_alive() {
        if Instant::now() > end {
            session.kill(&record)?;
            break;
        }
        std::thread::sleep(POLL / 5);
    }
    print(&format!("Stopped the session {}\n", record.id));
    Ok(ExitCode::SUCCESS)
}

fn answer(
    all: &BackgroundDirectory,
    arguments: &AnswerArguments,
) -> Result<ExitCode, BackgroundError> {
    let (session, record) = all.find(&arguments.id)?;
    let record = Client::current_record(&session, record);
    let Some(ask) = record.pending_approvals.first() else {
        let state = record.state.as_str();
        return Err(BackgroundError::Rejected(format!(
            "{} does not wait for an answer; it is {state}",
            record.id
        )));
    };
    let Some(word) = &arguments.answer else {
        print(&format_request(ask));
        return Ok(ExitCode::SUCCESS);
    };
    let words: Vec<&str> =
        std::iter::once(word).chain(&arguments.text).map(String::as_str).collect();
    let line = line_of(ask, &words)?;
    Client::connect(&session, &record)?.send(&line)?;
    Ok(ExitCode::SUCCESS)
}

/// Follows a session. Lines of stdin are sent to it as messages or as answers to its requests.
fn attach(all: &BackgroundDirectory, id: &str) -> Result<ExitCode, BackgroundError> {
    let (session, record) = all.find(id)?;
    let mut client = Client::connect(&session, &record)?;
    client.attach()?;
    let mut log = LogReader::new(&session);
    print(&log.read_new());
    if io::stdin().is_terminal() {
        print_line("Attached. Type a message, or the answer to a request. Ctrl+D detaches.");
    }
    let lines = read_lines();
    let mut shown: Option<Value> = None;
    // Answers to the first questions of a request.
    let mut answered: Vec<String> = Vec::new();
    loop {
        let is_alive = session.is_alive();
        if !print(&log.read_new()) || !is_alive {
            return Ok(ExitCode::SUCCESS);
        }
        let record = client.record().ok().or_else(|| session.record());
        let ask = record.as_ref().and_then(|record| record.pending_approvals.first());
        if let Some(ask) = ask.filter(|ask| shown.as_ref() != Some(ask)) {
            print(&format_request(ask));
            shown = Some(ask.clone());
            answered.clear();
        }
        match lines.recv_timeout(POLL) {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) => {
                let sent = match (ask, record.as_ref().map(|record| record.state)) {
                    (Some(ask), _) => {
                        let questions = questions(ask);
                        if questions.len() > 1 && line.trim() != "deny" {
                            answered.push(line.clone());
                            if let Some(next) = questions.get(answered.len()) {
                                print(&format_question(next));
                                continue;
                            }
                            let answers = std::mem::take(&mut answered);
                            line_of(ask, &answers.iter().map(String::as_str).collect::<Vec<_>>())
                        } else {
                            line_of(ask, &line.split_whitespace().collect::<Vec<_>>())
                        }
                    }
                    (None, Some(SessionState::Working)) => {
                        Ok(json!({"type": "steer", "content": line}))
                    }
                    (None, _) => Ok(json!({"type": "message", "content": line})),
                };
                if let Err(error) = sent.and_then(|line| client.send(&line)) {
                    print_line(&error.to_string());
                    // The request is shown again.
                    shown = shown.filter(|_| ask.is_none());
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            // The end of the input.
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                print(&log.read_new());
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

/// Reads the lines of stdin on a thread that ends with the process.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Prints text; returns whether stdout is still open.
fn print(text: &str) -> bool {
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_ok()
}

/// Prints a line for the user. A closed pipe is not an error here.
fn print_line(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
