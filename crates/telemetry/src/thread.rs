//! The telemetry thread: converts observations and hands the results to the file and the exporter.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use parallax_protocol::Object;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::delivery::DeliveryState;
use crate::error::{Problems, TelemetryError};
use crate::file::TelemetryFile;
use crate::input::{InputKind, TelemetryInput};
use crate::metrics::Metrics;
use crate::options::TelemetryOptions;
use crate::otlp::Exporter;
use crate::record::LogRecord;
use crate::spans::Span;
use crate::telemetry_state::{CommonAttributes, TelemetryOutput, TelemetryState};

/// Maximum number of spans and records in one request to the collector.
const BATCH: usize = 512;
/// How long items may wait for a larger batch.
const BATCH_DELAY: Duration = Duration::from_secs(5);

/// The destinations of results.
pub(crate) struct Sinks {
    file: Option<TelemetryFile>,
    exporter: Option<Exporter>,
    spans: Vec<Span>,
    logs: Vec<LogRecord>,
    exported_at: Instant,
    /// Whether the metrics changed since they were sent.
    has_new_metrics: bool,
    problems: Problems,
}

impl Sinks {
    /// Opens the file and sets up the exporter.
    pub(crate) fn open(
        options: TelemetryOptions,
        sender: mpsc::WeakSender<TelemetryInput>,
        problems: Problems,
        delivery: Arc<DeliveryState>,
    ) -> Result<Self, TelemetryError> {
        let resource = resource(&options);
        let file = match &options.outfile {
            Some(path) => Some(TelemetryFile::open(path, &options.project, &resource)?),
            None => None,
        };
        let exporter = match options.otlp {
            Some(otlp) => Some(Exporter::start(otlp, options.version, resource, sender, delivery)?),
            None => None,
        };
        Ok(Self {
            file,
            exporter,
            spans: Vec::new(),
            logs: Vec::new(),
            exported_at: Instant::now(),
            has_new_metrics: false,
            problems,
        })
    }

    fn write(&mut self, output: TelemetryOutput, metrics: &Metrics) {
        match output {
            TelemetryOutput::Log(record) => {
                if let Some(file) = &mut self.file {
                    file.log(&record);
                }
                if self.exporter.is_some() {
                    self.logs.push(record);
                }
            }
            TelemetryOutput::Span(span) => {
                if self.exporter.is_some() {
                    self.spans.push(span);
                }
            }
            TelemetryOutput::TurnEnd => {
                if let Some(file) = &mut self.file {
                    file.append_metrics(metrics);
                }
                self.export();
                // They are cumulative: the next tick or the end of the session sends them once.
                self.has_new_metrics = true;
            }
        }
        let waiting = self.spans.len() + self.logs.len();
        if waiting >= BATCH || (waiting > 0 && self.exported_at.elapsed() > BATCH_DELAY) {
            self.export();
        }
    }

    fn export(&mut self) {
        self.exported_at = Instant::now();
        let Some(exporter) = &self.exporter else { return };
        if !self.spans.is_empty() {
            exporter.export_spans(&std::mem::take(&mut self.spans));
        }
        if !self.logs.is_empty() {
            exporter.export_logs(&std::mem::take(&mut self.logs));
        }
    }

    fn export_metrics(&mut self, metrics: &Metrics) {
        if let (Some(exporter), true) = (&self.exporter, self.has_new_metrics) {
            exporter.export_metrics(metrics);
            self.has_new_metrics = false;
        }
    }

    fn report(&self) {
        if let Some(problem) = self.file.as_ref().and_then(TelemetryFile::problem) {
            let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
            problems.push(problem.to_owned());
        }
    }
}

/// Returns the attributes of the program. Never its arguments: they can hold the prompt.
fn resource(options: &TelemetryOptions) -> Object {
    let mut attributes = Object::new();
    let name = options.service_name.clone().unwrap_or_else(|| "parallax".to_owned());
    let mut set = |name: &str, value: Value| attributes.insert(name.to_owned(), value);
    set("service.name", name.into());
    set("service.version", options.version.into());
    set("session.id", options.session.clone().into());
    set("os.type", std::env::consts::OS.into());
    set("host.arch", std::env::consts::ARCH.into());
    for (name, value) in &options.resource {
        set(name, value.clone().into());
    }
    if let Some(name) = &options.service_name {
        set("service.name", name.clone().into());
    }
    attributes
}

/// The thread.
pub(crate) struct TelemetryThread {
    state: TelemetryState,
    sinks: Sinks,
}

impl TelemetryThread {
    pub(crate) fn new(attributes: CommonAttributes, sinks: Sinks) -> Self {
        Self { state: TelemetryState::new(attributes), sinks }
    }

    /// Records until the session is gone.
    pub(crate) fn run(mut self, mut receiver: mpsc::Receiver<TelemetryInput>) {
        while let Some(observed) = receiver.blocking_recv() {
            match observed.kind {
                InputKind::Tick => {
                    self.sinks.export();
                    self.sinks.export_metrics(self.state.metrics());
                }
                InputKind::Flush(done) => {
                    self.state.measure_memory();
                    self.sinks.write(TelemetryOutput::TurnEnd, self.state.metrics());
                    self.sinks.export_metrics(self.state.metrics());
                    self.sinks.report();
                    match &self.sinks.exporter {
                        Some(exporter) => exporter.flush(done),
                        // The caller may be gone.
                        None => drop(done.send(())),
                    }
                }
                _ => self.state.observe(observed),
            }
            for output in self.state.take_outputs() {
                self.sinks.write(output, self.state.metrics());
            }
        }
    }
}
