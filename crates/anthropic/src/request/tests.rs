use std::collections::BTreeSet;
use std::sync::Arc;

use parallax_protocol::content::{Content, Part, SealedContent};
use proptest::prelude::*;
use serde_json::value::to_raw_value;

use super::*;

const MODEL: &str = "anthropic:m";

fn any_part() -> impl Strategy<Value = Part> {
    let id = prop_oneof![Just(None), Just(Some("a")), Just(Some("b.1")), Just(Some("c"))];
    let text = prop_oneof![Just(""), Just(" \n"), Just("words")];
    let object = |value: Value| match value {
        Value::Object(object) => object,
        _ => Object::new(),
    };
    let kept = prop_oneof![Just("thinking"), Just("redacted_thinking"), Just("server_tool_use")];
    prop_oneof![
        text.clone().prop_map(Part::text),
        id.clone().prop_map(move |id| Part::function_call(id, "f", object(json!({"x": 1})))),
        (id, text.clone()).prop_map(move |(id, text)| {
            let media = vec![Part::inline_data("image/png", "AA==")];
            Part::function_response(id, "f", object(json!({"output": text})), media)
        }),
        Just(Part::inline_data("application/pdf", "AA==")),
        kept.prop_map(|kind| {
            let data = to_raw_value(&json!({"type": kind})).unwrap_or_default();
            Part::opaque_thought(data)
        }),
    ]
}

fn any_content() -> impl Strategy<Value = SealedContent> {
    let origin = prop_oneof![Just(MODEL), Just("openai:m"), Just("gemini-3-pro")];
    (any::<bool>(), prop::collection::vec(any_part(), 0..5), origin).prop_map(
        |(is_user, parts, origin)| match is_user {
            true => Content::user(parts).seal(),
            false => Content::model(parts).seal_for(origin),
        },
    )
}

fn sent(contents: Vec<SealedContent>) -> Value {
    let request = Request {
        model: MODEL.to_owned(),
        system: Arc::from("s"),
        contents,
        tools: ToolSet::None,
        generation: Object::new(),
        role: String::new(),
        alias: String::new(),
        max_attempts: None,
        has_fallback: false,
        is_retry: false,
        continuation: None,
    };
    let format = MessagesRequestContext {
        model: "m",
        generation: Object::new(),
        declarations: &Declarations::default(),
        rejected: &OmittedContent::default(),
        resumes_pause: false,
    };
    let dialogue = Dialogue::new(&request.contents, &request.model, OpaqueFormat::Messages);
    serde_json::from_slice(&body(&request, dialogue, format)).unwrap_or_default()
}

/// Checks the rules of the API for messages.
fn check(body: &Value) -> Result<(), String> {
    let messages = body["messages"].as_array().ok_or("no messages")?;
    let (mut role, mut open, mut all) = ("assistant", Vec::new(), BTreeSet::new());
    for message in messages {
        let blocks = message["content"].as_array().filter(|it| !it.is_empty()).ok_or("empty")?;
        let kinds: Vec<&str> = blocks.iter().filter_map(|it| it["type"].as_str()).collect();
        if message["role"] == role {
            return Err(format!("two messages of {role}"));
        }
        let is_blank = |block: &Value| {
            block["type"] == "text" && block["text"].as_str().is_none_or(|it| it.trim().is_empty())
        };
        if blocks.iter().any(is_blank) {
            return Err("blank text".to_owned());
        }
        if role == "assistant" {
            role = "user";
            let answered: Vec<&Value> = blocks
                .iter()
                .take_while(|it| it["type"] == "tool_result")
                .map(|it| &it["tool_use_id"])
                .collect();
            if answered != open
                || kinds.iter().filter(|it| **it == "tool_result").count() != open.len()
            {
                return Err(format!("calls {open:?}, answers {answered:?}"));
            }
            open.clear();
        } else {
            role = "assistant";
            open =
                blocks.iter().filter(|it| it["type"] == "tool_use").map(|it| &it["id"]).collect();
            if !open.iter().all(|id| all.insert(id.to_string())) {
                return Err(format!("an id twice: {open:?}"));
            }
            if kinds.last().is_some_and(|last| last.ends_with("thinking")) {
                return Err("thinking at the end".to_owned());
            }
        }
    }
    match role {
        "user" if body.to_string().matches("cache_control").count() <= 4 => Ok(()),
        _ => Err(format!("the last message is of {role}, or too many marks")),
    }
}

proptest! {
    #[test]
    fn request_from_arbitrary_history_is_valid(contents in prop::collection::vec(any_content(), 0..8)) {
        let body = sent(contents);
        prop_assert_eq!(check(&body), Ok(()), "{}", body);
    }
}
