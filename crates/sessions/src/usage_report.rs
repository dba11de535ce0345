//! Usage of all sessions (tokens, cost, and tool calls) by day, model, project, and tool.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};
use parallax_protocol::event::{Failure, FailureKind, ToolStatus};
use parallax_protocol::requests::Requests;
use parallax_protocol::store::Record;
use parallax_store::{Keys, SessionEntry, SessionOrigin};
use serde::Serialize;

use crate::SessionLibrary;

/// Number of threads that read sessions.
const THREADS: usize = 4;

/// Sums over requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct UsageSum {
    /// Model requests.
    pub requests: u64,
    /// Failed requests.
    pub failed: u64,
    /// Prompt tokens, including cached ones.
    pub input_tokens: u64,
    /// Prompt tokens read from the provider's cache.
    pub cached_tokens: u64,
    /// Output tokens, including thinking.
    pub output_tokens: u64,
    /// US dollars, as far as prices are known; `None` if none is.
    pub cost: Option<f64>,
    /// Whether the price of some of the tokens is unknown.
    pub unpriced: bool,
    /// Total latency of requests in milliseconds.
    pub model_ms: u64,
}

impl UsageSum {
    fn add(&mut self, more: &Self) {
        self.requests += more.requests;
        self.failed += more.failed;
        self.input_tokens += more.input_tokens;
        self.cached_tokens += more.cached_tokens;
        self.output_tokens += more.output_tokens;
        // Requests without tokens say nothing about prices.
        if let Some(more) = more.cost {
            *self.cost.get_or_insert(0.0) += more;
        }
        self.unpriced |= more.unpriced;
        self.model_ms += more.model_ms;
    }

    fn from_requests(requests: &Requests) -> Self {
        Self {
            requests: requests.count,
            failed: requests.errors.values().sum(),
            input_tokens: requests.usage.prompt,
            cached_tokens: requests.usage.cached,
            output_tokens: requests.usage.output + requests.usage.thought,
            cost: Some(requests.cost.total()).filter(|cost| *cost > 0.0 || !requests.unpriced),
            unpriced: requests.unpriced,
            model_ms: requests.latency_ms,
        }
    }

    /// Returns the difference to an earlier sum.
    fn difference(&self, earlier: &Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            failed: self.failed.saturating_sub(earlier.failed),
            input_tokens: self.input_tokens.saturating_sub(earlier.input_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(earlier.cached_tokens),
            output_tokens: self.output_tokens.saturating_sub(earlier.output_tokens),
            cost: self.cost.map(|cost| (cost - earlier.cost.unwrap_or_default()).max(0.0)),
            unpriced: self.unpriced
                && (self.input_tokens > earlier.input_tokens
                    || self.output_tokens > earlier.output_tokens),
            model_ms: self.model_ms.saturating_sub(earlier.model_ms),
        }
    }

    /// Returns the share of prompt tokens that were cached, from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "shown rounded")]
    pub fn cached_share(&self) -> f64 {
        match self.input_tokens {
            0 => 0.0,
            tokens => self.cached_tokens as f64 / tokens as f64,
        }
    }
}

/// Sums of a day, a model, or a project.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NamedUsage {
    /// The day (YYYY-MM-DD), the model, or the project's directory.
    pub name: String,
    /// Number of sessions with requests.
    pub sessions: u64,
    /// The sums.
    #[serde(flatten)]
    pub sum: UsageSum,
}

/// Calls of a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ToolUsage {
    /// Name of the tool.
    pub name: String,
    /// Number of tool calls.
    pub calls: u64,
    /// Number of failed or denied calls.
    pub failed: u64,
    /// Total duration in milliseconds.
    pub duration_ms: u64,
}

/// Usage of all sessions.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct UsageReport {
    /// The first day or time included; `None` for all.
    pub since: Option<String>,
    /// Number of sessions with requests.
    pub sessions: u64,
    /// Number of sessions that could not be read.
    pub unreadable: u64,
    /// Total.
    pub total: UsageSum,
    /// By day, oldest first.
    pub days: Vec<NamedUsage>,
    /// By model, most expensive first.
    pub models: Vec<NamedUsage>,
    /// By project, most expensive first.
    pub projects: Vec<NamedUsage>,
    /// By tool, most used first.
    pub tools: Vec<ToolUsage>,
}

/// The time from which usage counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageStart {
    time: Timestamp,
    /// A day, or a time for a start within a day.
    label: String,
}

impl UsageStart {
    /// Parses `30d`, `2w`, or a day (`2026-11-01`), which start with their first day, or `12h`.
    ///
    /// # Errors
    /// Returns an error for any other text.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let to_error = || {
            let text = parallax_protocol::code_text::code_text(text);
            let message =
                format!("invalid `--since {text}`: use `30d`, `2w`, `12h`, or `2026-11-01`");
            Failure::new(FailureKind::Input, message)
        };
        if let Ok(day) = text.parse::<Date>() {
            return Self::from_day(day).ok_or_else(to_error);
        }
        let last = text.char_indices().last().map_or(0, |(offset, _)| offset);
        let (digits, unit) = text.split_at(last);
        let number: i64 =
            digits.parse().ok().filter(|it| (0..=36_500).contains(it)).ok_or_else(to_error)?;
        let span = match unit {
            "h" => Span::new().hours(number),
            "d" => Span::new().days(number),
            "w" => Span::new().weeks(number),
            _ => return Err(to_error()),
        };
        let start = Zoned::now().checked_sub(span).map_err(|_| to_error())?;
        match unit {
            "h" => {
                let label = start.strftime("%Y-%m-%d %H:%M").to_string();
                Ok(Self { time: start.timestamp(), label })
            }
            _ => Self::from_day(start.date()).ok_or_else(to_error),
        }
    }

    fn from_day(day: Date) -> Option<Self> {
        let start = day.to_zoned(TimeZone::system()).ok()?;
        Some(Self { time: start.timestamp(), label: day.to_string() })
    }
}

/// Usage of one session.
#[derive(Default)]
struct SessionUsage {
    project: String,
    days: BTreeMap<Date, UsageSum>,
    models: BTreeMap<String, UsageSum>,
    tools: BTreeMap<String, ToolUsage>,
}

impl SessionLibrary<'_> {
    /// Returns the usage of the sessions of all projects since a time. Blocking.
    pub fn usage_report(&self, since: Option<&UsageStart>) -> UsageReport {
        let dirs = self.dirs();
        let entries: Vec<SessionEntry> = parallax_store::list_all(&dirs)
            .into_iter()
            .filter(|entry| entry.origin == SessionOrigin::Parallax)
            .filter(|entry| since.is_none_or(|since| entry.last_used >= since.time))
            .collect();
        let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..THREADS.min(entries.len()) {
                scope.spawn(|| {
                    while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let used = session_usage(entry, &dirs.keys, since);
                        found.lock().unwrap_or_else(PoisonError::into_inner).push(used);
                    }
                });
            }
        });
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        report(found, since)
    }
}

fn day_of(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::system()).date()
}

/// Returns the usage of a session, or `None` if it cannot be read.
fn session_usage(
    entry: &SessionEntry,
    keys: &Keys,
    since: Option<&UsageStart>,
) -> Option<SessionUsage> {
    let session = parallax_store::load(&entry.path, keys).ok()?;
    let mut used =
        SessionUsage { project: display_path(&entry.project), ..SessionUsage::default() };
    let counts = |time: &str| {
        let time = time.parse().unwrap_or(entry.last_used);
        since.is_none_or(|since| time >= since.time).then(|| day_of(time))
    };
    // Each record contains all requests of the session so far.
    let mut earlier: BTreeMap<String, UsageSum> = BTreeMap::new();
    for record in &session.records {
        match record {
            Record::Spent(spent) => {
                let mut models: BTreeMap<String, UsageSum> = BTreeMap::new();
                for requests in &spent.requests {
                    models
                        .entry(requests.model.clone())
                        .or_default()
                        .add(&UsageSum::from_requests(requests));
                }
                if let Some(day) = counts(&spent.time) {
                    for (model, sum) in &models {
                        let none = UsageSum::default();
                        let new = sum.difference(earlier.get(model).unwrap_or(&none));
                        used.days.entry(day).or_default().add(&new);
                        used.models.entry(model.clone()).or_default().add(&new);
                    }
                }
                earlier = models;
            }
            Record::Result(result) if counts(&result.time).is_some() => {
                let tool = used.tools.entry(result.name.clone()).or_default();
                tool.calls += 1;
                tool.failed += u64::from(result.shown_status() != ToolStatus::Success);
                tool.duration_ms +=
                    result.details.as_ref().map_or(0, |details| details.duration_ms);
            }
            _ => {}
        }
    }
    Some(used)
}

fn display_path(project: &Path) -> String {
    match project.as_os_str().is_empty() {
        true => "unknown".to_owned(),
        false => project.to_string_lossy().into_owned(),
    }
}

fn report(found: Vec<Option<SessionUsage>>, since: Option<&UsageStart>) -> UsageReport {
    let mut report =
        UsageReport { since: since.map(|it| it.label.clone()), ..UsageReport::default() };
    let mut days: BTreeMap<String, NamedUsage> = BTreeMap::new();
    let (mut models, mut projects) = (days.clone(), days.clone());
    let mut tools: BTreeMap<String, ToolUsage> = BTreeMap::new();
    for used in found {
        let Some(used) = used else {
            report.unreadable += 1;
            continue;
        };
        let mut total = UsageSum::default();
        used.days.values().for_each(|sum| total.add(sum));
        for (name, tool) in used.tools {
            let sum = tools.entry(name).or_default();
            sum.calls += tool.calls;
            sum.failed += tool.failed;
            sum.duration_ms += tool.duration_ms;
        }
        if total.requests == 0 {
            continue;
        }
        report.sessions += 1;
        report.total.add(&total);
        let add = |to: &mut BTreeMap<String, NamedUsage>, name: String, sum: &UsageSum| {
            let named = to.entry(name).or_default();
            named.sessions += 1;
            named.sum.add(sum);
        };
        used.days.iter().for_each(|(day, sum)| add(&mut days, day.to_string(), sum));
        used.models.into_iter().for_each(|(model, sum)| add(&mut models, model, &sum));
        add(&mut projects, used.project, &total);
    }
    report.days = sorted_usage(days);
    report.models = sort_by_cost(sorted_usage(models));
    report.projects = sort_by_cost(sorted_usage(projects));
    let named_tools = tools.into_iter().map(|(name, tool)| ToolUsage { name, ..tool });
    report.tools = named_tools.collect();
    report.tools.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.name.cmp(&b.name)));
    report
}

fn sorted_usage(sums: BTreeMap<String, NamedUsage>) -> Vec<NamedUsage> {
    sums.into_iter().map(|(name, named)| NamedUsage { name, ..named }).collect()
}

fn sort_by_cost(mut sums: Vec<NamedUsage>) -> Vec<NamedUsage> {
    let tokens = |it: &NamedUsage| it.sum.input_tokens + it.sum.output_tokens;
    let cost = |it: &NamedUsage| it.sum.cost.unwrap_or_default();
    sums.sort_by(|a, b| cost(b).total_cmp(&cost(a)).then_with(|| tokens(b).cmp(&tokens(a))));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_accepts_a_duration_or_a_day() {
        let parse = |text: &str| UsageStart::parse(text).unwrap();
        assert_eq!(parse("2026-11-01").label, "2026-11-01");
        assert_eq!(parse("0d").label, Zoned::now().date().to_string());
        assert!(parse("2w").time < parse("1d").time);
        let hours = Timestamp::now().duration_since(parse("12h").time).as_secs();
        assert!((12 * 3600 - 60..12 * 3600 + 60).contains(&hours), "{hours}");
        for invalid in ["", "d", "-1d", "30", "99999999999d", "3y", "é"] {
            assert!(UsageStart::parse(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn cost_is_unknown_without_a_price_and_incomplete_with_some() {
        let usage = parallax_protocol::usage::Usage { prompt: 10, ..Default::default() };
        let unknown = Requests { count: 1, usage, unpriced: true, ..Requests::default() };
        let mut sum = UsageSum::from_requests(&unknown);
        assert_eq!((sum.cost, sum.unpriced), (None, true));
        let known = UsageSum { cost: Some(0.5), ..UsageSum::default() };
        sum.add(&known);
        assert_eq!((sum.cost, sum.unpriced), (Some(0.5), true));
        assert!(!sum.difference(&sum).unpriced, "there is nothing new");
    }
}
