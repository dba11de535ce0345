//! Commands that run in the background.

use parallax_protocol::shell::{BackgroundProcess, BackgroundState};
use parallax_screen::Line;

use crate::dialog::ListItem;
use crate::layout::truncate_text;
use crate::sanitize::sanitize;
use crate::theme::Theme;

/// Background processes as last reported.
#[derive(Debug, Default)]
pub(crate) struct BackgroundTasks {
    processes: Vec<BackgroundProcess>,
}

impl BackgroundTasks {
    /// Takes over the reported processes. Returns a row for each that has ended since.
    pub(crate) fn update(&mut self, processes: &[BackgroundProcess]) -> Vec<String> {
        let known = |one: &BackgroundProcess| {
            self.processes.iter().any(|it| it.pid == one.pid && !is_running(it))
        };
        let ended = processes.iter().filter(|one| !is_running(one) && !known(one));
        let ended = ended.map(format_end).collect();
        self.processes = processes.to_vec();
        ended
    }

    /// Returns the number of processes that run.
    pub(crate) fn running(&self) -> usize {
        self.processes.iter().filter(|one| is_running(one)).count()
    }

    /// Forgets the processes, because another session begins.
    pub(crate) fn clear(&mut self) {
        self.processes.clear();
    }

    /// Returns the items of the list.
    pub(crate) fn items(&self, theme: &Theme) -> Vec<ListItem> {
        self.processes.iter().map(|process| item(process, theme)).collect()
    }

    /// Returns the command of an item and the end of its output.
    pub(crate) fn output(&self, id: &str, theme: &Theme) -> Option<Vec<Line>> {
        let process = self.processes.iter().find(|one| one.pid.to_string() == id)?;
        let mut rows = vec![Line::styled(format!("$ {}", process.command), theme.text.bold())];
        rows.extend(process.last_lines.iter().map(|line| Line::raw(sanitize(line))));
        let log = format!("full output: {}", process.log.display());
        rows.push(Line::styled(log, theme.secondary));
        Some(rows)
    }
}

fn is_running(process: &BackgroundProcess) -> bool {
    process.state == BackgroundState::Running
}

/// Returns a row about the end of a background command.
fn format_end(process: &BackgroundProcess) -> String {
    /// Maximum columns of the command, so that the row fits in an 80-column window.
    const COMMAND: usize = 30;
    let how = match process.state {
        BackgroundState::Exited { code: Some(code) } => format!("exited with code {code}"),
        BackgroundState::Signalled { signal } => format!("terminated by signal {signal}"),
        BackgroundState::Exited { code: None } | BackgroundState::Running => "ended".to_owned(),
    };
    let command = truncate_text(&sanitize(&process.command), COMMAND);
    format!("background command {how}: {command} (/shells)")
}

fn item(process: &BackgroundProcess, theme: &Theme) -> ListItem {
    let state = match process.state {
        BackgroundState::Running => "running".to_owned(),
        BackgroundState::Exited { code: Some(code) } => format!("exited with code {code}"),
        BackgroundState::Exited { code: None } => "ended".to_owned(),
        BackgroundState::Signalled { signal } => format!("terminated by signal {signal}"),
    };
    let preview = process
        .last_lines
        .iter()
        .map(|line| Line::styled(sanitize(line), theme.secondary))
        .collect();
    let label = format!("{} {}", process.pid, sanitize(&process.command));
    ListItem::new(process.pid.to_string(), label, state).with_preview(preview)
}
