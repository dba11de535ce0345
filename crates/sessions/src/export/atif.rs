//! Exports a session as a trajectory in the Agent Trajectory Interchange Format (ATIF) 1.8, which
//! evaluation harnesses such as Harbor read.

use std::collections::{HashMap, HashSet, VecDeque};

use parallax_protocol::model::Usage;
use parallax_protocol::store::{Record, RequestRecord};
use parallax_store::LoadedSession;
use serde_json::{Map, Value, json};

use super::foreign::{NO_RESULT, VERSION, model, shell};
use crate::recorded_items::{self, ModelAnswer, RecordedItem};

const SCHEMA: &str = "ATIF-v1.8";

/// Returns the trajectory: a step for each prompt and each answer, with the tool calls of an answer
/// and their results. Other requests (summaries, searches, subagents) are included in the totals
/// only.
pub(super) fn trajectory(session: &LoadedSession) -> serde_json::Result<String> {
    let head = &session.head;
    let conversation = recorded_items::items_and_answers(&session.records);
    let mut answers = conversation.answers.into_iter().peekable();
    let mut ids = CallIds::default();
    let mut costs = RequestCosts::new(&session.records);
    let mut steps = AtifSteps::default();
    for (number, (item, time)) in conversation.items.into_iter().zip(conversation.times).enumerate()
    {
        while let Some(answer) = answers.next_if(|answer| answer.first <= number) {
            let cost = costs.next_cost(&answer.usage);
            ids.begin(&answer.calls);
            steps.begin_answer(answer, cost);
        }
        match item {
            RecordedItem::User { text, .. } => {
                let time = if time.is_empty() { &head.start_time } else { &time };
                steps.push_message("user", &text, time);
            }
            RecordedItem::Continued(continuation) => {
                steps.push_message("system", &continuation.to_string(), &time);
            }
            RecordedItem::Steer { text } => steps.push_message("user", &text, &time),
            RecordedItem::Shell { command, output, .. } => {
                steps.push_message("user", &shell(&command, &output), &time);
            }
            RecordedItem::Thought { text } => steps.add_thought(&text, &time),
            RecordedItem::Text { text, .. } => steps.add_text(&text, &time),
            RecordedItem::Tool { name, args, status, output, .. } => {
                let output = if status.is_some() { output } else { NO_RESULT.to_owned() };
                let id = ids.next(number);
                let call = json!({"tool_call_id": id, "function_name": name, "arguments": args});
                let result = json!({
                    "source_call_id": id, "content": output,
                    "extra": {"status": status.as_deref().unwrap_or("interrupted")},
                });
                steps.add_call(call, result, &time);
            }
            RecordedItem::Ended { reason, detail } => {
                let detail = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
                steps.push_message("system", &format!("The turn ended ({reason}){detail}"), &time);
            }
            RecordedItem::Image(_) => {}
        }
    }
    for answer in answers {
        let cost = costs.next_cost(&answer.usage);
        steps.begin_answer(answer, cost);
    }
    let mut steps = steps.finish();
    if steps.is_empty() {
        // The format requires at least one step.
        steps.push(json!({"step_id": 1, "source": "system", "message": "The session is empty."}));
    }
    let mut agent = json!({"name": "parallax", "version": VERSION});
    let model = model(session);
    if !model.is_empty() {
        agent["model_name"] = model.into();
    }
    let document = json!({
        "schema_version": SCHEMA,
        "session_id": head.session_id,
        "trajectory_id": head.session_id,
        "agent": agent,
        "final_metrics": totals(&session.records, steps.len()),
        "steps": steps,
        "extra": {"project": head.project, "start_time": head.start_time},
    });
    serde_json::to_string_pretty(&document).map(|text| text + "\n")
}

/// The ids of calls, which are unique within a trajectory.
#[derive(Default)]
struct CallIds {
    answer_ids: VecDeque<String>,
    used: HashSet<String>,
}

impl CallIds {
    fn begin(&mut self, ids: &[String]) {
        self.answer_ids = ids.iter().cloned().collect();
    }

    /// Returns the recorded id of the next call of the answer, or one made of the item's number.
    fn next(&mut self, number: usize) -> String {
        let recorded = self.answer_ids.pop_front().filter(|id| !id.is_empty());
        let id = recorded.filter(|id| !self.used.contains(id));
        let id = id.unwrap_or_else(|| format!("call_{number}"));
        self.used.insert(id.clone());
        id
    }
}

/// Costs of main requests, matched by token counts, because records of requests and answers do not
/// refer to each other.
struct RequestCosts<'a> {
    requests: Vec<&'a RequestRecord>,
}

impl<'a> RequestCosts<'a> {
    fn new(records: &'a [Record]) -> Self {
        let main = requests(records).filter(|request| request.role == "main");
        Self { requests: main.collect() }
    }

    fn next_cost(&mut self, usage: &Usage) -> Option<f64> {
        let index = self.requests.iter().position(|request| {
            request.usage.prompt == usage.prompt && request.usage.output == usage.output
        })?;
        self.requests.remove(index).cost
    }
}

fn requests(records: &[Record]) -> impl Iterator<Item = &RequestRecord> {
    records.iter().filter_map(|record| match record {
        Record::Request(request) => Some(request),
        _ => None,
    })
}

fn totals(records: &[Record], steps: usize) -> Value {
    let mut total = Usage::default();
    let mut cost = None;
    for request in requests(records) {
        total.add(&request.usage);
        if let Some(more) = request.cost {
            *cost.get_or_insert(0.0) += more;
        }
    }
    if total == Usage::default() {
        // Journals of older versions have no request records.
        for record in records {
            if let Record::Content(content) = record
                && let Some(usage) = &content.usage
            {
                total.add(usage);
            }
        }
    }
    let mut metrics = metrics(&total, cost, "total_");
    metrics.insert("total_steps".into(), steps.into());
    Value::Object(metrics)
}

fn metrics(usage: &Usage, cost: Option<f64>, prefix: &str) -> Map<String, Value> {
    let mut metrics = Map::new();
    let mut add_metric =
        |name: &str, value: Value| metrics.insert(format!("{prefix}{name}"), value);
    add_metric("prompt_tokens", usage.prompt.into());
    add_metric("completion_tokens", usage.output.saturating_add(usage.thought).into());
    add_metric("cached_tokens", usage.cached.into());
    if let Some(cost) = cost {
        add_metric("cost_usd", cost.into());
    }
    metrics
}

#[derive(Default)]
struct AtifSteps {
    list: Vec<Value>,
    /// Whether the last step is an answer to which the next items belong.
    is_answering: bool,
    /// Texts of a step, joined at the end.
    texts: HashMap<usize, Vec<String>>,
}

impl AtifSteps {
    fn push(&mut self, source: &str, time: &str) -> &mut Value {
        let id = self.list.len() + 1;
        let mut step = json!({"step_id": id, "source": source, "message": ""});
        if !time.is_empty() {
            step["timestamp"] = time.into();
        }
        self.list.push(step);
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    fn push_message(&mut self, source: &str, message: &str, time: &str) {
        let step = self.push(source, time);
        step["message"] = message.into();
        self.is_answering = false;
    }

    fn begin_answer(&mut self, answer: ModelAnswer, cost: Option<f64>) {
        let step = self.push("agent", &answer.time);
        if let Some(model) = answer.model {
            step["model_name"] = model.into();
        }
        step["metrics"] = Value::Object(metrics(&answer.usage, cost, ""));
        step["llm_call_count"] = 1.into();
        self.is_answering = true;
    }

    /// Returns the step of the current answer. Sessions of other programs have no separate answer
    /// records.
    fn answer(&mut self, time: &str) -> &mut Value {
        if !self.is_answering {
            self.push("agent", time);
            self.is_answering = true;
        }
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    fn add_text(&mut self, text: &str, time: &str) {
        self.answer(time);
        self.texts.entry(self.list.len() - 1).or_default().push(text.to_owned());
    }

    fn add_thought(&mut self, text: &str, time: &str) {
        let step = self.answer(time);
        let before = step["reasoning_content"].as_str().map(|it| format!("{it}\n\n"));
        step["reasoning_content"] = format!("{}{text}", before.unwrap_or_default()).into();
    }

    fn add_call(&mut self, call: Value, result: Value, time: &str) {
        let step = self.answer(time);
        append(&mut step["tool_calls"], call);
        append(&mut step["observation"]["results"], result);
    }

    fn finish(mut self) -> Vec<Value> {
        for (at, texts) in self.texts {
            self.list[at]["message"] = texts.join("\n\n").into();
        }
        self.list
    }
}

fn append(list: &mut Value, item: Value) {
    match list {
        Value::Array(list) => list.push(item),
        other => *other = Value::Array(vec![item]),
    }
}
