//! Metrics: counters and histograms, cumulative since the session began.

use std::collections::BTreeMap;
use std::time::SystemTime;

use parallax_protocol::Object;

/// What is measured.
#[derive(Debug)]
pub(crate) struct Instrument {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) kind: InstrumentKind,
}

/// How values are summarized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InstrumentKind {
    /// Their sum, which only grows.
    Counter,
    /// Their distribution, with the bounds for durations in milliseconds, and for counts.
    Histogram,
    /// Their distribution, with the bounds for durations in seconds.
    Seconds,
    /// Their distribution, with the bounds for tokens.
    Tokens,
}

impl InstrumentKind {
    /// Returns the upper bounds of the buckets. Those of the last two are given by the semantic
    /// conventions for generative AI.
    pub(crate) fn bounds(self) -> &'static [f64] {
        match self {
            Self::Counter => &[],
            Self::Histogram => &[
                0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0,
                5000.0, 7500.0, 10_000.0,
            ],
            Self::Seconds => &[
                0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96,
                81.92,
            ],
            Self::Tokens => &[
                1.0,
                4.0,
                16.0,
                64.0,
                256.0,
                1024.0,
                4096.0,
                16_384.0,
                65_536.0,
                262_144.0,
                1_048_576.0,
                4_194_304.0,
                16_777_216.0,
                67_108_864.0,
            ],
        }
    }
}

macro_rules! instruments {
    ($($constant:ident: $kind:ident $name:literal $unit:literal $description:literal;)*) => {
        $(pub(crate) static $constant: Instrument = Instrument {
            name: $name,
            description: $description,
            unit: $unit,
            kind: InstrumentKind::$kind,
        };)*
        /// All of them, in the order in which they are exported.
        pub(crate) static ALL: &[&Instrument] = &[$(&$constant),*];
    };
}

instruments! {
    SESSION_COUNT: Counter "gemini_cli.session.count" "" "Sessions started";
    TOOL_CALL_COUNT: Counter "gemini_cli.tool.call.count" "" "Tool calls";
    TOOL_CALL_LATENCY: Histogram "gemini_cli.tool.call.latency" "ms" "Duration of tool calls";
    API_REQUEST_COUNT: Counter "gemini_cli.api.request.count" "" "Requests to models";
    API_REQUEST_LATENCY: Histogram "gemini_cli.api.request.latency" "ms" "Duration of requests";
    TOKEN_USAGE: Counter "gemini_cli.token.usage" "" "Tokens by type";
    FILE_OPERATIONS: Counter "gemini_cli.file.operation.count" "" "File operations";
    LINES_CHANGED: Counter "gemini_cli.lines.changed" "" "Lines that edits added and removed";
    COMPRESSIONS: Counter "gemini_cli.chat_compression" "" "Compactions of the context";
    RETRIES: Counter "gemini_cli.network_retry.count" "" "Attempts after a failure";
    ROUTING_LATENCY: Histogram "gemini_cli.model_routing.latency" "ms" "Duration of routing";
    AGENT_RUNS: Counter "gemini_cli.agent.run.count" "" "Runs of subagents";
    AGENT_DURATION: Histogram "gemini_cli.agent.duration" "ms" "Duration of subagent runs";
    HOOK_CALLS: Counter "gemini_cli.hook_call.count" "" "Runs of hooks";
    HOOK_LATENCY: Histogram "gemini_cli.hook_call.latency" "ms" "Duration of hooks";
    MEMORY_USAGE: Histogram "gemini_cli.memory.usage" "bytes" "Memory of the process";
    GEN_AI_TOKENS: Tokens "gen_ai.client.token.usage" "{token}" "Tokens of a request";
    GEN_AI_DURATION: Seconds "gen_ai.client.operation.duration" "s" "Duration of a request";
    GEN_AI_FIRST_CHUNK: Seconds "gen_ai.client.operation.time_to_first_chunk" "s"
        "Time from sending a request to the first chunk of the response";
    GEN_AI_TOOL_DURATION: Seconds "gen_ai.execute_tool.duration" "s" "Duration of a tool call";
}

/// The values of one set of attributes.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub(crate) attributes: Object,
    pub(crate) count: u64,
    pub(crate) sum: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// For histograms: the number of values in each bucket.
    pub(crate) buckets: Vec<u64>,
}

/// The metrics of a session.
pub(crate) struct Metrics {
    started: SystemTime,
    /// By instrument and attributes.
    points: BTreeMap<(&'static str, String), Point>,
}

/// Maximum number of attribute sets per session; values of others are omitted, so that memory stays
/// bounded.
const MAX_POINTS: usize = 2000;

impl Metrics {
    pub(crate) fn new(started: SystemTime) -> Self {
        Self { started, points: BTreeMap::new() }
    }

    /// Returns the time when counting began.
    pub(crate) fn start_time(&self) -> SystemTime {
        self.started
    }

    /// Adds a value.
    pub(crate) fn add(&mut self, instrument: &'static Instrument, value: f64, attributes: Object) {
        let key = serde_json::to_string(&attributes).unwrap_or_default();
        let key = (instrument.name, key);
        if self.points.len() >= MAX_POINTS && !self.points.contains_key(&key) {
            return;
        }
        let bounds = instrument.kind.bounds();
        let is_histogram = instrument.kind != InstrumentKind::Counter;
        let point = self.points.entry(key).or_insert_with(|| Point {
            attributes,
            count: 0,
            sum: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            buckets: if is_histogram { vec![0; bounds.len() + 1] } else { Vec::new() },
        });
        point.count += 1;
        point.sum += value;
        point.min = point.min.min(value);
        point.max = point.max.max(value);
        let bucket = bounds.partition_point(|bound| *bound < value);
        if let Some(count) = point.buckets.get_mut(bucket) {
            *count += 1;
        }
    }

    /// Returns the instruments that have values, each with its points.
    pub(crate) fn read(&self) -> impl Iterator<Item = (&'static Instrument, Vec<&Point>)> {
        ALL.iter().filter_map(|instrument| {
            let from = (instrument.name, String::new());
            let points = self.points.range(from..);
            let points = points.take_while(|(key, _)| key.0 == instrument.name);
            let points: Vec<&Point> = points.map(|(_, point)| point).collect();
            (!points.is_empty()).then_some((*instrument, points))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_values_are_summed_by_attributes() {
        let mut metrics = Metrics::new(SystemTime::now());
        let named = |name: &str| Object::from_iter([("name".to_owned(), name.into())]);
        for (value, name) in [(1.0, "a"), (2.0, "a"), (5.0, "b")] {
            metrics.add(&TOOL_CALL_COUNT, value, named(name));
        }
        metrics.add(&TOOL_CALL_LATENCY, 5.0, named("a"));
        metrics.add(&TOOL_CALL_LATENCY, 20_000.0, named("a"));
        let read: Vec<_> = metrics.read().collect();
        assert_eq!(read.len(), 2);
        let (counter, points) = &read[0];
        assert_eq!(counter.name, "gemini_cli.tool.call.count");
        let sums: Vec<f64> = points.iter().map(|point| point.sum).collect();
        assert_eq!(sums, [3.0, 5.0]);
        let point = read[1].1[0];
        // A value on a bound is below it.
        assert_eq!((point.buckets[1], point.buckets.last()), (1, Some(&1)));
        assert_eq!((point.min, point.max, point.count), (5.0, 20_000.0, 2));
    }

    #[test]
    fn number_of_points_is_bounded() {
        let mut metrics = Metrics::new(SystemTime::now());
        for number in 0..3000 {
            let attributes = Object::from_iter([("n".to_owned(), number.into())]);
            metrics.add(&TOOL_CALL_COUNT, 1.0, attributes);
        }
        assert_eq!(metrics.read().map(|(_, points)| points.len()).sum::<usize>(), MAX_POINTS);
    }
}
