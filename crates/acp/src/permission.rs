//! Approval requests and questions as `session/request_permission` and `elicitation/create`.

use parallax_protocol::Object;
use parallax_protocol::event::{ApprovalRequest, Question};
use parallax_protocol::op::{ApprovalResponse, RequestDecision};
use parallax_protocol::question::{QuestionKind, QuestionOption};
use parallax_protocol::tool::Preview;
use parallax_sdk::mcp_view::UserResponse;
use serde_json::{Value, json};

use crate::elicitation_answer::read_answer;
use crate::rpc::RpcError;
use crate::tool_updates;

/// The "always allow" options in display order.
const ALWAYS: &[(ApprovalResponse, &str, &str)] = &[
    (ApprovalResponse::ProceedAlways, "proceed_always", "Allow for this session"),
    (
        ApprovalResponse::ProceedAlwaysServer,
        "proceed_always_server",
        "Allow all tools of this server",
    ),
    (
        ApprovalResponse::ProceedAlwaysTool,
        "proceed_always_tool",
        "Allow this tool for this session",
    ),
    (ApprovalResponse::ProceedAlwaysAndSave, "proceed_always_and_save", "Always allow"),
];

/// Returns the parameters of a permission request.
pub(crate) fn request(
    session: &str,
    request: &ApprovalRequest,
    call: &str,
    locations: &Value,
) -> Value {
    let mut options: Vec<Value> = Vec::new();
    for (outcome, id, name) in ALWAYS {
        if request.outcomes.contains(outcome) {
            options.push(json!({"optionId": id, "name": name, "kind": "allow_always"}));
        }
    }
    options.push(json!({"optionId": "proceed_once", "name": "Allow", "kind": "allow_once"}));
    options.push(json!({"optionId": "cancel", "name": "Reject", "kind": "reject_once"}));
    let mut content = request.preview.as_ref().map(tool_updates::preview).unwrap_or_default();
    if !request.policy_decision.sensitive.is_empty() {
        let paths = request.policy_decision.sensitive.join(", ");
        content.insert(0, tool_updates::text_content(&format!("Uses secrets: {paths}")));
    }
    json!({
        "sessionId": session,
        "toolCall": {
            "toolCallId": call,
            "status": "pending",
            "title": tool_updates::title(&request.title, &request.name),
            "kind": tool_updates::kind(request.kind),
            "content": content,
            "locations": locations,
        },
        "options": options,
        "_meta": {"policy": {"rule": request.policy_decision.rule, "reason": request.policy_decision.reason}},
    })
}

/// Converts the client's answer to an approval response. Anything but a known option denies.
pub(crate) fn decision(
    request: &ApprovalRequest,
    answer: &Result<Value, RpcError>,
) -> RequestDecision {
    let option = answer.as_ref().ok().and_then(|answer| {
        let outcome = answer.get("outcome")?;
        let is_selected = outcome.get("outcome")?.as_str()? == "selected";
        is_selected.then(|| outcome.get("optionId")?.as_str())?
    });
    let outcome = match option {
        Some("proceed_once") => ApprovalResponse::ProceedOnce,
        Some(option) => ALWAYS
            .iter()
            .find(|(outcome, id, _)| *id == option && request.outcomes.contains(outcome))
            .map_or(ApprovalResponse::Cancel, |(outcome, _, _)| *outcome),
        None => ApprovalResponse::Cancel,
    };
    let mut decide = RequestDecision::new(request.id.clone(), outcome);
    // Clients of the Agent2Agent server can say why.
    let feedback = answer.as_ref().ok().and_then(|answer| answer["_meta"]["feedback"].as_str());
    if outcome == ApprovalResponse::Cancel {
        decide.feedback = feedback.filter(|text| !text.trim().is_empty()).map(str::to_owned);
    }
    decide
}

/// Returns whether the client's answer allows what was requested.
pub(crate) fn is_allowed(request: &ApprovalRequest, answer: &Value) -> bool {
    decision(request, &Ok(answer.clone())).outcome != ApprovalResponse::Cancel
}

/// The ending of the name of the field for an answer that is not among the options.
const OTHER: &str = "_other";

fn option(option: &QuestionOption) -> Value {
    let mut value = json!({"const": option.label, "title": option.label});
    if !option.description.is_empty() {
        value["description"] = json!(option.description);
    }
    value
}

/// Returns the parameters of `elicitation/create` for a question from the model; `None` for
/// approval requests.
pub(crate) fn elicitation(session: &str, request: &ApprovalRequest) -> Option<Value> {
    let Some(Preview::Questions { questions }) = &request.preview else { return None };
    if request.question != Question::AskUser {
        return None;
    }
    let mut properties = Object::new();
    let mut required = Vec::new();
    for (index, question) in questions.iter().enumerate() {
        let options: Vec<Value> = match question.kind {
            QuestionKind::YesNo => {
                vec![json!({"const": "yes", "title": "Yes"}), json!({"const": "no", "title": "No"})]
            }
            QuestionKind::Choice => question.options.iter().map(option).collect(),
            QuestionKind::Text => Vec::new(),
        };
        let is_free = options.is_empty();
        let mut field = match (is_free, question.multi_select) {
            (true, _) => json!({"type": "string"}),
            (false, true) => json!({"type": "array", "items": {"anyOf": options}}),
            (false, false) => json!({"type": "string", "oneOf": options}),
        };
        field["title"] = json!(question.header);
        field["description"] = json!(question.question);
        properties.insert(index.to_string(), field);
        if is_free {
            required.push(index.to_string());
        } else {
            let other = json!({"type": "string", "title": "Other",
                "description": "Your own answer, instead of the options"});
            properties.insert(format!("{index}{OTHER}"), other);
        }
    }
    let all: Vec<&str> = questions.iter().map(|it| it.question.as_str()).collect();
    Some(json!({"sessionId": session, "mode": "form", "message": all.join("\n"),
        "requestedSchema": {"type": "object", "properties": properties, "required": required}}))
}

/// Converts the client's answer to an elicitation.
pub(crate) fn answers(
    request: &ApprovalRequest,
    answer: &Result<Value, RpcError>,
) -> RequestDecision {
    let Some(UserResponse::Accept(content)) = answer.as_ref().ok().map(read_answer) else {
        return RequestDecision::new(request.id.clone(), ApprovalResponse::Cancel);
    };
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    };
    let text_of = |name: &str| content.get(name).map(text).filter(|text| !text.trim().is_empty());
    let indexes = content.keys().map(|name| name.strip_suffix(OTHER).unwrap_or(name));
    let answers = indexes.filter_map(|index| {
        // The user's own answer is added to several selected options, and replaces a single one.
        let other = text_of(&format!("{index}{OTHER}"));
        let is_list = content.get(index).is_some_and(Value::is_array);
        let chosen = text_of(index).filter(|_| is_list || other.is_none());
        let all: Vec<String> = chosen.into_iter().chain(other).collect();
        (!all.is_empty()).then(|| (index.to_owned(), json!(all.join(", "))))
    });
    let answers = answers.collect();
    RequestDecision {
        answers: Some(answers),
        ..RequestDecision::new(request.id.clone(), ApprovalResponse::ProceedOnce)
    }
}
