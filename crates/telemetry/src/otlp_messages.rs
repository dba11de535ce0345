//! The messages of the OpenTelemetry protocol (OTLP 1.x) that are sent, as Protocol Buffers:
//! the fields of `opentelemetry/proto` that are used here.

use std::time::{SystemTime, UNIX_EPOCH};

use parallax_protocol::Object;
use prost::{Message, Oneof};
use serde_json::Value;

use crate::metrics::{Instrument, InstrumentKind, Metrics, Point};
use crate::record::LogRecord;
use crate::spans::{Span, SpanKind};

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: i32 = 2;
/// `SEVERITY_NUMBER_INFO`.
const INFO: i32 = 9;
/// `STATUS_CODE_ERROR`.
const ERROR: i32 = 2;
/// Maximum length in bytes of a string that is sent as an attribute.
pub(crate) const MAX_TEXT: usize = 256 * 1024;

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "AnyValueKind", tags = "1, 2, 3, 4, 5, 6")]
    value: Option<AnyValueKind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum AnyValueKind {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(message, tag = "5")]
    Array(ArrayValue),
    #[prost(message, tag = "6")]
    Map(KeyValueList),
}

#[derive(Clone, PartialEq, Message)]
struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    values: Vec<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValueList {
    #[prost(message, repeated, tag = "1")]
    values: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct InstrumentationScope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

macro_rules! impl_scope_batch {
    ($batch:ident $item:ident) => {
        #[derive(Clone, PartialEq, Message)]
        struct $batch {
            #[prost(message, optional, tag = "1")]
            scope: Option<InstrumentationScope>,
            #[prost(message, repeated, tag = "2")]
            items: Vec<$item>,
        }

        impl $batch {
            fn of(program: Program, items: Vec<$item>) -> Vec<u8> {
                Self { scope: Some(program.scope()), items }.encode_to_vec()
            }
        }
    };
}

impl_scope_batch!(ScopeSpans SpanMessage);
impl_scope_batch!(ScopeLogs LogMessage);
impl_scope_batch!(ScopeMetrics MetricMessage);

/// An export request: those of all signals have the same fields. The resource is known only after
/// its records are encoded.
#[derive(Clone, PartialEq, Message)]
struct ExportRequest {
    #[prost(message, optional, tag = "1")]
    resource_batch: Option<ResourceBatch>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceBatch {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    /// An encoded message.
    #[prost(bytes = "vec", tag = "2")]
    scope_batch: Vec<u8>,
}

/// Returns an export request of encoded items.
pub(crate) fn export_request(resource: &Object, scope_batch: Vec<u8>) -> Vec<u8> {
    let resource = Some(Resource { attributes: key_values(resource) });
    ExportRequest { resource_batch: Some(ResourceBatch { resource, scope_batch }) }.encode_to_vec()
}

/// The response to an export request: those of all signals have the same fields.
#[derive(Clone, PartialEq, Message)]
struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

/// What the collector did not accept.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub(crate) rejected: i64,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

impl PartialSuccess {
    /// Reads the body of a successful response. Any other body rejects nothing.
    pub(crate) fn from_response(body: &[u8]) -> Self {
        let response = ExportResponse::decode(body).unwrap_or_default();
        response.partial_success.unwrap_or_default()
    }
}

#[derive(Clone, PartialEq, Message)]
struct SpanMessage {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start: u64,
    #[prost(fixed64, tag = "8")]
    end: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<SpanStatus>,
    #[prost(fixed32, tag = "16")]
    flags: u32,
}

#[derive(Clone, PartialEq, Message)]
struct SpanStatus {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct LogMessage {
    #[prost(fixed64, tag = "1")]
    time: u64,
    #[prost(int32, tag = "2")]
    severity: i32,
    #[prost(message, optional, tag = "5")]
    body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    attributes: Vec<KeyValue>,
    #[prost(fixed32, tag = "8")]
    flags: u32,
    #[prost(bytes = "vec", tag = "9")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "10")]
    span_id: Vec<u8>,
    #[prost(fixed64, tag = "11")]
    observed: u64,
    #[prost(string, tag = "12")]
    event_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct MetricMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    description: String,
    #[prost(string, tag = "3")]
    unit: String,
    #[prost(oneof = "MetricData", tags = "7, 9")]
    data: Option<MetricData>,
}

#[derive(Clone, PartialEq, Oneof)]
enum MetricData {
    #[prost(message, tag = "7")]
    Sum(Sum),
    #[prost(message, tag = "9")]
    Histogram(Histogram),
}

#[derive(Clone, PartialEq, Message)]
struct Sum {
    #[prost(message, repeated, tag = "1")]
    points: Vec<NumberPoint>,
    #[prost(int32, tag = "2")]
    temporality: i32,
    #[prost(bool, tag = "3")]
    is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message)]
struct NumberPoint {
    #[prost(fixed64, tag = "2")]
    start: u64,
    #[prost(fixed64, tag = "3")]
    time: u64,
    #[prost(double, optional, tag = "4")]
    value: Option<f64>,
    #[prost(message, repeated, tag = "7")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(message, repeated, tag = "1")]
    points: Vec<HistogramPoint>,
    #[prost(int32, tag = "2")]
    temporality: i32,
}

#[derive(Clone, PartialEq, Message)]
struct HistogramPoint {
    #[prost(fixed64, tag = "2")]
    start: u64,
    #[prost(fixed64, tag = "3")]
    time: u64,
    #[prost(fixed64, tag = "4")]
    count: u64,
    #[prost(double, optional, tag = "5")]
    sum: Option<f64>,
    #[prost(fixed64, repeated, tag = "6")]
    buckets: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    bounds: Vec<f64>,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(double, optional, tag = "11")]
    min: Option<f64>,
    #[prost(double, optional, tag = "12")]
    max: Option<f64>,
}

/// The sender of the records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    pub(crate) version: &'static str,
}

impl Program {
    fn scope(self) -> InstrumentationScope {
        InstrumentationScope { name: "parallax".to_owned(), version: self.version.to_owned() }
    }

    /// Returns a `ScopeSpans`.
    pub(crate) fn spans(self, spans: &[Span]) -> Vec<u8> {
        let message = |span: &Span| SpanMessage {
            trace_id: span.context.trace.to_vec(),
            span_id: span.context.span.to_vec(),
            parent_span_id: span.parent.map_or_else(Vec::new, |parent| parent.to_vec()),
            name: span.name.clone(),
            kind: match span.kind {
                SpanKind::Internal => 1,
                SpanKind::Client => 3,
            },
            start: nanos(span.start),
            end: nanos(span.end),
            attributes: key_values(&span.attributes),
            status: span
                .error
                .as_ref()
                .map(|error| SpanStatus { message: truncate(error), code: ERROR }),
            flags: span.context.flags().into(),
        };
        ScopeSpans::of(self, spans.iter().map(message).collect())
    }

    /// Returns a `ScopeLogs`.
    pub(crate) fn logs(self, records: &[LogRecord]) -> Vec<u8> {
        let message = |record: &LogRecord| LogMessage {
            time: nanos(record.time),
            severity: INFO,
            body: Some(AnyValue { value: Some(AnyValueKind::Text(record.body.clone())) }),
            attributes: key_values(&record.attributes),
            flags: record.context.map_or(0, |context| context.flags().into()),
            trace_id: record.context.map_or_else(Vec::new, |context| context.trace.to_vec()),
            span_id: record.context.map_or_else(Vec::new, |context| context.span.to_vec()),
            observed: nanos(record.time),
            event_name: record.name.to_owned(),
        };
        ScopeLogs::of(self, records.iter().map(message).collect())
    }

    /// Returns a `ScopeMetrics`.
    pub(crate) fn metrics(self, metrics: &Metrics) -> Vec<u8> {
        let (start, now) = (nanos(metrics.start_time()), nanos(SystemTime::now()));
        let items = metrics.read().map(|(instrument, points)| MetricMessage {
            name: instrument.name.to_owned(),
            description: instrument.description.to_owned(),
            unit: instrument.unit.to_owned(),
            data: Some(data(instrument, &points, start, now)),
        });
        ScopeMetrics::of(self, items.collect())
    }
}

fn data(instrument: &Instrument, points: &[&Point], start: u64, time: u64) -> MetricData {
    match instrument.kind {
        InstrumentKind::Counter => MetricData::Sum(Sum {
            points: points
                .iter()
                .map(|point| NumberPoint {
                    start,
                    time,
                    value: Some(point.sum),
                    attributes: key_values(&point.attributes),
                })
                .collect(),
            temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        kind => MetricData::Histogram(Histogram {
            points: points
                .iter()
                .map(|point| HistogramPoint {
                    start,
                    time,
                    count: point.count,
                    sum: Some(point.sum),
                    buckets: point.buckets.clone(),
                    bounds: kind.bounds().to_vec(),
                    attributes: key_values(&point.attributes),
                    min: Some(point.min),
                    max: Some(point.max),
                })
                .collect(),
            temporality: CUMULATIVE,
        }),
    }
}

fn key_values(object: &Object) -> Vec<KeyValue> {
    let pair = |(key, value): (&String, &Value)| KeyValue {
        key: key.clone(),
        value: Some(any_value(value)),
    };
    object.iter().map(pair).collect()
}

fn any_value(value: &Value) -> AnyValue {
    let value = match value {
        Value::Null => None,
        Value::Bool(flag) => Some(AnyValueKind::Bool(*flag)),
        Value::Number(number) => Some(match number.as_i64() {
            Some(whole) => AnyValueKind::Int(whole),
            None => AnyValueKind::Double(number.as_f64().unwrap_or_default()),
        }),
        Value::String(text) => Some(AnyValueKind::Text(truncate(text))),
        Value::Array(values) => {
            Some(AnyValueKind::Array(ArrayValue { values: values.iter().map(any_value).collect() }))
        }
        Value::Object(object) => {
            Some(AnyValueKind::Map(KeyValueList { values: key_values(object) }))
        }
    };
    AnyValue { value }
}

/// Returns the beginning of a string that is too long.
fn truncate(text: &str) -> String {
    match text.get(..text.floor_char_boundary(MAX_TEXT)) {
        Some(start) if start.len() < text.len() => format!("{start}…"),
        _ => text.to_owned(),
    }
}

/// Nanoseconds since 1970.
fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
