//! Builds request bodies.
//!
//! Contents and tool declarations are copied without parsing. What changes least comes first
//! and the contents come last, so that consecutive requests share a prefix.

use parallax_models::{ModelTable, Thinking, add_sampling, is_utility, merge, supports_minimal};
use parallax_protocol::Object;
use parallax_protocol::content::{Content, Part, PartView, SYNTHETIC_SIGNATURE, SealedContent};
use parallax_protocol::model::{Request, ToolSet};
use serde_json::{Value, json};

/// Settings that are siblings of `generationConfig`.
const SIBLING_KEYS: &[&str] = &["toolConfig", "safetySettings", "cachedContent", "labels"];
/// Settings of Gemini CLI's library that are not sent, or that the request contains elsewhere.
const UNSENT_KEYS: &[&str] =
    &["systemInstruction", "tools", "httpOptions", "abortSignal", "automaticFunctionCalling"];

/// Builds the body. Equal requests give equal bytes.
pub fn request_body(request: &Request, table: &ModelTable) -> Vec<u8> {
    body_with_settings(request, generation_settings(request, table, false), None)
}

/// Returns the generation settings of a request: those of the table and the request, and defaults.
pub(crate) fn generation_settings(request: &Request, table: &ModelTable, is_retry: bool) -> Object {
    let mut settings = table.generation(request, is_retry);
    merge(&mut settings, &request.generation);
    add_defaults(&mut settings, request, table);
    settings
}

/// `continuation` is the token of the answer that the request continues.
pub(crate) fn body_with_settings(
    request: &Request,
    mut settings: Object,
    continuation: Option<&str>,
) -> Vec<u8> {
    let contents: usize = request.contents.iter().map(|content| content.json().len() + 1).sum();
    let tools = match &request.tools {
        ToolSet::Functions(declarations) => declarations.get().len(),
        _ => 0,
    };
    let mut body = Vec::with_capacity(contents + tools + request.system.len() * 9 / 8 + 1024);
    body.push(b'{');
    if !request.system.is_empty() {
        body.extend_from_slice(b"\"systemInstruction\":{\"parts\":[{\"text\":");
        write_json(&mut body, &*request.system);
        body.extend_from_slice(b"}]},");
    }
    match &request.tools {
        ToolSet::None => {}
        ToolSet::Functions(declarations) if is_empty_array(declarations.get()) => {}
        ToolSet::Functions(declarations) => {
            body.extend_from_slice(b"\"tools\":[{\"functionDeclarations\":");
            body.extend_from_slice(declarations.get().as_bytes());
            body.extend_from_slice(b"}],");
        }
        ToolSet::WebSearch => body.extend_from_slice(b"\"tools\":[{\"googleSearch\":{}}],"),
        ToolSet::UrlContext => body.extend_from_slice(b"\"tools\":[{\"urlContext\":{}}],"),
    }
    for key in SIBLING_KEYS {
        if let Some(value) = settings.shift_remove(*key) {
            write_json(&mut body, key);
            body.push(b':');
            write_json(&mut body, &value);
            body.push(b',');
        }
    }
    for key in UNSENT_KEYS {
        settings.shift_remove(*key);
    }
    if !settings.is_empty() {
        body.extend_from_slice(b"\"generationConfig\":");
        write_json(&mut body, &settings);
        body.push(b',');
    }
    if let Some(token) = continuation {
        body.extend_from_slice(b"\"continuationToken\":");
        write_json(&mut body, token);
        body.push(b',');
    }
    body.extend_from_slice(b"\"contents\":[");
    for (index, content) in request.contents.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        match convert_foreign(content) {
            Some(content) => write_json(&mut body, &content),
            None => body.extend_from_slice(content.json().as_bytes()),
        }
    }
    body.extend_from_slice(b"]}");
    body
}

/// Converts a content of another provider for the Gemini API, which requires signatures on calls
/// and valid JSON arguments. Returns `None` if no conversion is needed.
fn convert_foreign(content: &SealedContent) -> Option<Content> {
    content.origin()?;
    let mut opened = content.open().ok()?;
    let mut is_signed = false;
    for part in &mut opened.parts {
        let PartView::Call(call) = part.view() else { continue };
        if call.malformed_args.is_some() {
            *part = Part::function_call(call.id, call.name, Object::new());
        }
        if !is_signed && part.signature().is_none() {
            *part = part.with_signature(SYNTHETIC_SIGNATURE);
        }
        is_signed = true;
    }
    Some(opened)
}

fn is_empty_array(json: &str) -> bool {
    json.strip_prefix('[').is_some_and(|rest| rest.trim_start() == "]")
}

/// Appends a value as JSON. Strings and values cannot fail to serialize into memory; if they did,
/// `null` would keep the body valid.
fn write_json<T: serde::Serialize + ?Sized>(body: &mut Vec<u8>, value: &T) {
    let start = body.len();
    if serde_json::to_writer(&mut *body, value).is_err() {
        body.truncate(start);
        body.extend_from_slice(b"null");
    }
}

/// Adds the family's defaults where nothing is set.
fn add_defaults(settings: &mut Object, request: &Request, table: &ModelTable) {
    let family = table.family(&request.model);
    let utility = is_utility(request);
    add_sampling(settings, request, table);
    let level = match family.thinking {
        Thinking::Silent => return,
        Thinking::Level(level) => ("thinkingLevel", json!(level)),
        Thinking::Budget(tokens) => ("thinkingBudget", json!(tokens)),
    };
    match settings.get_mut("thinkingConfig") {
        Some(Value::Object(thinking)) => {
            // The service rejects both at once: the family's parameter wins.
            if thinking.contains_key("thinkingLevel") && thinking.contains_key("thinkingBudget") {
                let foreign =
                    if level.0 == "thinkingLevel" { "thinkingBudget" } else { "thinkingLevel" };
                thinking.shift_remove(foreign);
            }
            if !utility {
                thinking.entry("includeThoughts").or_insert(Value::Bool(true));
            }
            match family.thinking {
                Thinking::Level(default) => normalize_level(thinking, &request.model, default),
                Thinking::Budget(default) => normalize_budget(thinking, default),
                Thinking::Silent => {}
            }
        }
        Some(_) => {}
        // For utility requests the service decides how much to think.
        None if utility => {}
        None => {
            let mut thinking = Object::new();
            thinking.insert("includeThoughts".into(), Value::Bool(true));
            thinking.insert(level.0.into(), level.1);
            settings.insert("thinkingConfig".into(), Value::Object(thinking));
        }
    }
}

/// Converts a token budget to a level, and an unsupported level to the nearest one: from Gemini
/// 3 on budgets are rejected or ignored.
fn normalize_level(thinking: &mut Object, model: &str, default: &str) {
    if let Some(budget) = thinking.shift_remove("thinkingBudget") {
        let level = match budget.as_i64() {
            Some(0) => "MINIMAL",
            Some(1..=2_048) => "LOW",
            Some(2_049..=16_384) => "MEDIUM",
            Some(16_385..) => "HIGH",
            // The service decides, or the value is invalid.
            _ => default,
        };
        thinking.insert("thinkingLevel".into(), json!(level));
    }
    let is_minimal =
        |level: &Value| level.as_str().is_some_and(|it| it.eq_ignore_ascii_case("minimal"));
    if thinking.get("thinkingLevel").is_some_and(is_minimal) && !supports_minimal(model) {
        thinking.insert("thinkingLevel".into(), json!("LOW"));
    }
}

/// Converts a level to a token budget: Gemini 2.5 has no levels.
fn normalize_budget(thinking: &mut Object, default: u32) {
    let Some(level) = thinking.shift_remove("thinkingLevel") else { return };
    let level = level.as_str().unwrap_or_default().to_ascii_uppercase();
    let budget = match level.as_str() {
        "MINIMAL" => 512,
        "LOW" => 2_048,
        "MEDIUM" => 8_192,
        "HIGH" | "XHIGH" => 24_576,
        _ => default,
    };
    thinking.entry("thinkingBudget").or_insert(json!(budget));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    fn request(model: &str, role: &str, generation: Value) -> Request {
        let Value::Object(generation) = generation else { unreachable!("an object") };
        Request {
            model: model.into(),
            system: "be \"kind\"".into(),
            contents: vec![Content::user(vec![Part::text("hi")]).seal()],
            tools: ToolSet::None,
            generation,
            role: role.into(),
            alias: String::new(),
            max_attempts: None,
            has_fallback: false,
            is_retry: false,
            continuation: None,
        }
    }

    fn config(model: &str, role: &str, generation: Value) -> Value {
        let body = request_body(&request(model, role, generation), &ModelTable::default());
        let body: Value = serde_json::from_slice(&body).expect("json");
        body.get("generationConfig").cloned().unwrap_or(Value::Null)
    }

    #[test]
    fn request_body_matches_the_expected_json() {
        let mut request = request("gemini-3-pro-preview", "main", json!({"seed": 7}));
        let odd = r#"{"role":"model", "parts":[{"functionCall":{"name":"x","args":{"n":1.0}},"thoughtSignature":"s"}]}"#;
        let raw = RawValue::from_string(odd.into()).expect("json");
        request.contents.push(SealedContent::from_json(raw).expect("a content"));
        let tools = RawValue::from_string(r#"[{"name":"x"}]"#.into()).expect("json");
        request.tools = ToolSet::Functions(tools.into());
        let body = String::from_utf8(request_body(&request, &ModelTable::default())).expect("text");
        assert_eq!(
            body,
            [
                r#"{"systemInstruction":{"parts":[{"text":"be \"kind\""}]},"#,
                r#""tools":[{"functionDeclarations":[{"name":"x"}]}],"#,
                r#""generationConfig":{"seed":7,"temperature":1,"topP":0.95,"topK":64,"#,
                r#""thinkingConfig":{"includeThoughts":true,"thinkingLevel":"HIGH"}},"#,
                r#""contents":[{"role":"user","parts":[{"text":"hi"}]},"#,
                odd,
                "]}"
            ]
            .concat()
        );
    }

    #[test]
    fn calls_of_other_models_get_a_signature() {
        let mut request = request("gemini-3-pro-preview", "main", json!({}));
        let calls = r#"[{"text":"a"},{"functionCall":{"id":"i","name":"x","args":"{bad"}},
            {"functionCall":{"name":"y","args":{"n":1}}}]"#;
        let parts: Vec<Part> = serde_json::from_str(calls).expect("parts");
        request.contents.push(Content::model(parts).seal_for("openai:m"));
        let body = request_body(&request, &ModelTable::default());
        let body: Value = serde_json::from_slice(&body).expect("json");
        assert_eq!(
            body["contents"][1]["parts"],
            json!([{"text": "a"},
                {"functionCall": {"id": "i", "name": "x", "args": {}},
                    "thoughtSignature": SYNTHETIC_SIGNATURE},
                {"functionCall": {"name": "y", "args": {"n": 1}}}])
        );
    }

    #[test]
    fn each_model_family_has_its_defaults() {
        let high = json!({"includeThoughts": true, "thinkingLevel": "HIGH"});
        assert_eq!(
            config("gemini-2.5-flash", "main", json!({})),
            json!({"temperature": 1, "topP": 0.95, "topK": 64,
                "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 8192}})
        );
        assert_eq!(config("gemini-3.8-flash", "main", json!({})), json!({"thinkingConfig": high}));
        assert_eq!(config("gemini-4-argon", "main", json!({})), json!({"thinkingConfig": high}));
        assert_eq!(
            config(
                "gemini-4-argon",
                "main",
                json!({"temperature": 0.5, "thinkingConfig": {"thinkingLevel": "LOW"}})
            ),
            json!({"temperature": 0.5,
                "thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": true}})
        );
        assert_eq!(
            config("gemini-3-flash-preview", "web_search", json!({})),
            json!({"temperature": 0, "topP": 1})
        );
        assert_eq!(config("gemini-3.8-flash", "web_search", json!({})), Value::Null);
        assert_eq!(
            config("llama", "main", json!({})),
            json!({"temperature": 1, "topP": 0.95, "topK": 64})
        );
    }

    #[test]
    fn thinking_budget_and_level_are_exclusive() {
        let sent = |model: &str, thinking: Value| {
            let mut sent = config(model, "main", json!({"thinkingConfig": thinking}));
            let thinking = sent["thinkingConfig"].as_object_mut().expect("an object");
            assert_eq!(thinking.remove("includeThoughts"), Some(json!(true)), "the default");
            Value::Object(thinking.clone())
        };
        for (model, set, expected) in [
            ("gemini-4-argon", json!({"thinkingLevel": "MINIMAL"}), "LOW"),
            ("gemini-3.8-flash", json!({"thinkingLevel": "minimal"}), "LOW"),
            ("gemini-3.1-pro-preview", json!({"thinkingLevel": "MINIMAL"}), "LOW"),
            ("gemini-3-flash-preview", json!({"thinkingLevel": "MINIMAL"}), "MINIMAL"),
            ("gemini-3.5-flash-lite", json!({"thinkingBudget": 0}), "MINIMAL"),
            ("gemini-4-argon", json!({"thinkingBudget": 0}), "LOW"),
            ("gemini-4-argon", json!({"thinkingBudget": 512}), "LOW"),
            ("gemini-3.1-pro-preview", json!({"thinkingBudget": 8192}), "MEDIUM"),
            ("gemini-3.8-flash", json!({"thinkingBudget": 32768}), "HIGH"),
            ("gemini-3.8-flash", json!({"thinkingBudget": -1}), "HIGH"),
        ] {
            assert_eq!(
                sent(model, set.clone()),
                json!({"thinkingLevel": expected}),
                "{model} {set}"
            );
        }
        for (level, budget) in [("MINIMAL", 512), ("low", 2_048), ("HIGH", 24_576), ("?", 8_192)] {
            let set = json!({"thinkingLevel": level});
            assert_eq!(sent("gemini-2.5-flash", set), json!({"thinkingBudget": budget}), "{level}");
        }
        assert_eq!(
            sent("gemini-2.5-pro", json!({"thinkingBudget": 0})),
            json!({"thinkingBudget": 0})
        );
        let both = json!({"thinkingLevel": "LOW", "thinkingBudget": 1});
        assert_eq!(sent("gemini-3.8-flash", both.clone()), json!({"thinkingLevel": "LOW"}));
        assert_eq!(sent("gemini-2.5-pro", both), json!({"thinkingBudget": 1}));
    }

    #[test]
    fn request_settings_are_written_next_to_the_config() {
        let mut request =
            request("gemini-3.8-flash", "web-fetch", json!({"safetySettings": [], "tools": []}));
        request.tools = ToolSet::UrlContext;
        let body = request_body(&request, &ModelTable::default());
        let body: Value = serde_json::from_slice(&body).expect("json");
        assert_eq!(body.get("safetySettings"), Some(&json!([])));
        assert_eq!(body.get("tools"), Some(&json!([{"urlContext": {}}])));
        assert_eq!(body.get("generationConfig"), None);
    }
}
