//! Model requests and responses as hooks see them: text only, independent of the provider.
//! Changes are merged back so that calls, signatures, and media stay.

use parallax_protocol::agent::COMPLETE_TASK;
use parallax_protocol::content::{Content, Part, PartView, Role, SealedContent};
use parallax_protocol::event::EndReason;
use parallax_protocol::hooks::{HookCall, HookEvent};
use parallax_protocol::model::{
    Chunk, Finish, FinishReason, ModelCatalog, Request, ToolSet, Usage,
};
use parallax_protocol::{CancellationToken, Object};
use serde_json::{Value, json};

use super::{HookRunner, object};
use crate::inbox::Inbox;
use crate::part_text::replace_text;
use crate::registry::Registry;

impl HookRunner {
    /// Lets hooks inspect and change a request, and select its tools. Returns a chunk if a hook
    /// responded in place of the model.
    pub(crate) async fn before_model(
        &self,
        mut request: Request,
        catalog: &dyn ModelCatalog,
        registry: &mut Registry,
        inbox: &mut Inbox,
        cancel: &CancellationToken,
    ) -> Result<(Request, Option<Chunk>), EndReason> {
        let call = |event, request: &Request| {
            let input = object(json!({"llm_request": view(catalog, request)}));
            HookCall::new(event, "", input)
        };
        let mut answer = None;
        registry.choose(None);
        if self.has_subscriber(HookEvent::BeforeModel, false) {
            let outcome = self.run(call(HookEvent::BeforeModel, &request), inbox, cancel).await;
            if let Some(reason) = &outcome.stop {
                return Err(EndReason::Stopped {
                    reason: outcome.with_hook_names(reason),
                    blocked: false,
                });
            }
            answer = outcome.field("llm_response").and_then(chunk);
            if let (None, Some(reason)) = (&answer, outcome.denial()) {
                return Err(EndReason::Stopped {
                    reason: outcome.with_hook_names(reason),
                    blocked: true,
                });
            }
            if let Some(Value::Object(changed)) = outcome.field("llm_request") {
                change(&mut request, changed);
            }
        }
        if answer.is_none() && self.has_subscriber(HookEvent::BeforeToolSelection, false) {
            let call = call(HookEvent::BeforeToolSelection, &request);
            let outcome = self.run(call, inbox, cancel).await;
            if let Some(reason) = &outcome.stop {
                return Err(EndReason::Stopped {
                    reason: outcome.with_hook_names(reason),
                    blocked: false,
                });
            }
            if let Some(config) = outcome.field("toolConfig") {
                choose_tools(registry, &mut request, config);
            }
        }
        Ok((request, answer))
    }

    /// Returns the request as `AfterModel` hooks see it, if there are any.
    pub(crate) fn request_view(
        &self,
        request: &Request,
        catalog: &dyn ModelCatalog,
    ) -> Option<Value> {
        let allowed_kinds = [true, false]
            .into_iter()
            .any(|chunk| self.has_subscriber(HookEvent::AfterModel, chunk));
        allowed_kinds.then(|| view(catalog, request))
    }

    /// Lets hooks inspect a response or a chunk. Returns the replacement text, if any.
    pub(crate) async fn after_model(
        &self,
        request: &Value,
        answer: &ResponseView<'_>,
        chunk: bool,
        inbox: &mut Inbox,
        cancel: &CancellationToken,
    ) -> Result<Option<String>, EndReason> {
        if !self.has_subscriber(HookEvent::AfterModel, chunk) {
            return Ok(None);
        }
        let input = object(json!({"llm_request": request, "llm_response": answer.view()}));
        let call = HookCall { chunk, ..HookCall::new(HookEvent::AfterModel, "", input) };
        let outcome = self.run(call, inbox, cancel).await;
        match (&outcome.stop, outcome.denial()) {
            (Some(reason), _) => {
                Err(EndReason::Stopped { reason: outcome.with_hook_names(reason), blocked: false })
            }
            (None, Some(reason)) => {
                Err(EndReason::Stopped { reason: outcome.with_hook_names(reason), blocked: true })
            }
            (None, None) => Ok(outcome.field("llm_response").and_then(text_of)),
        }
    }

    /// Whether text is held back until hooks have seen the full response.
    pub(crate) fn holds_back_text(&self) -> bool {
        self.has_subscriber(HookEvent::AfterModel, false)
    }
}

/// Restricts the tools, in the request and for the calls of its response, to those that hooks
/// selected. Where the service accepts the selection, the declarations stay unchanged, so that
/// its cache of them remains valid.
fn choose_tools(registry: &mut Registry, request: &mut Request, config: &Value) {
    let ToolSet::Functions(declared) = &request.tools else { return };
    let Ok(mut tools) = serde_json::from_str::<Vec<Value>>(declared.get()) else { return };
    let name_of = |tool: &Value| tool.get("name").and_then(Value::as_str).map(str::to_owned);
    let listed = config.get("allowedFunctionNames").and_then(Value::as_array).map(|names| {
        let names = names.iter().filter_map(Value::as_str);
        let mut declared_names: Vec<String> =
            names.map(|name| registry.declared_name(name)).collect();
        if registry.get(COMPLETE_TASK).is_some() {
            // A subagent needs it to finish.
            declared_names.push(COMPLETE_TASK.to_owned());
        }
        let known = |name: &String| declared_names.contains(name);
        tools.iter().filter_map(name_of).filter(known).collect::<Vec<String>>()
    });
    let mode = config.get("mode").and_then(Value::as_str).map(str::to_ascii_uppercase);
    let mode = match (mode.as_deref(), &listed) {
        (Some("NONE"), _) => "NONE",
        (_, Some(wanted)) if wanted.is_empty() => "NONE",
        (Some("ANY"), _) => "ANY",
        (_, None) => return,
        (_, Some(selected)) => {
            // The service accepts names only with `ANY`.
            tools.retain(|tool| name_of(tool).is_some_and(|name| selected.contains(&name)));
            if let Ok(raw) = serde_json::value::to_raw_value(&tools) {
                request.tools = ToolSet::Functions(raw.into());
            }
            registry.choose(Some(selected.clone()));
            return;
        }
    };
    let mut choice = json!({"mode": mode});
    let selected = if mode == "NONE" { Some(Vec::new()) } else { listed };
    if let (Value::Object(choice), Some(names)) = (&mut choice, &selected)
        && !names.is_empty()
    {
        choice.insert("allowedFunctionNames".to_owned(), json!(names));
    }
    let config = json!({"functionCallingConfig": choice});
    request.generation.insert("toolConfig".to_owned(), config);
    registry.choose(selected);
}

/// A response, or a chunk of one.
pub(crate) struct ResponseView<'a> {
    pub(crate) text: String,
    pub(crate) finish: Option<&'a Finish>,
    pub(crate) usage: Option<Usage>,
}

impl ResponseView<'_> {
    fn view(&self) -> Value {
        let parts = if self.text.is_empty() { Vec::new() } else { vec![self.text.clone()] };
        let mut view = json!({
            "text": self.text,
            "candidates": [{
                "content": {"role": "model", "parts": parts},
                "finishReason": self.finish.map(Finish::gemini_word),
                "index": 0,
            }],
        });
        if let (Value::Object(fields), Some(usage)) = (&mut view, self.usage) {
            fields.insert(
                "usageMetadata".to_owned(),
                json!({
                    "promptTokenCount": usage.prompt,
                    "candidatesTokenCount": usage.output,
                    "totalTokenCount": usage.total,
                }),
            );
        }
        view
    }
}

/// Returns a request as hooks see it: one message for each content with text. As in Gemini CLI, the
/// system prompt is not a message, because hooks count messages.
fn view(catalog: &dyn ModelCatalog, request: &Request) -> Value {
    let messages: Vec<Value> = request
        .contents
        .iter()
        .filter_map(|content| {
            let role = if content.role() == Role::Model { "model" } else { "user" };
            let text = content_text(content)?;
            Some(json!({"role": role, "content": text}))
        })
        .collect();
    let mut config = catalog.generation(request);
    let tools = config.remove("toolConfig");
    let mut view = json!({"model": request.model, "messages": messages, "config": config});
    if let (Value::Object(view), Some(Value::Object(mut tools))) = (&mut view, tools)
        && let Some(choice) = tools.remove("functionCallingConfig")
    {
        view.insert("toolConfig".to_owned(), choice);
    }
    view
}

/// Returns the text of a content, if any.
fn content_text(content: &SealedContent) -> Option<String> {
    let text = content.open().ok()?.visible_text();
    Some(text).filter(|text| !text.is_empty())
}

/// Applies the changes made by hooks to a request.
fn change(request: &mut Request, changed: &Object) {
    if let Some(model) = changed.get("model").and_then(Value::as_str).filter(|it| !it.is_empty()) {
        model.clone_into(&mut request.model);
    }
    if let Some(Value::Object(config)) = changed.get("config") {
        request.generation.extend(config.clone());
    }
    if let Some(messages) = changed.get("messages").and_then(Value::as_array) {
        apply_messages(request, messages);
    }
}

/// Messages correspond, in order, to the contents with text; additional ones are appended, and
/// contents without a message stay unchanged.
fn apply_messages(request: &mut Request, messages: &[Value]) {
    let texts = request.contents.iter().enumerate();
    let indexes: Vec<usize> =
        texts.filter_map(|(index, content)| content_text(content).map(|_| index)).collect();
    let mut indexes = indexes.into_iter();
    for message in messages {
        let Some(text) = message.get("content").and_then(message_text) else { continue };
        let role = match message.get("role").and_then(Value::as_str) {
            Some("model") => Role::Model,
            Some("system") => {
                // No content may have that role: the text is added to the system prompt.
                request.system = format!("{}\n\n{text}", request.system).trim().into();
                continue;
            }
            _ => Role::User,
        };
        match indexes.next().and_then(|index| request.contents.get_mut(index)) {
            Some(sealed) => apply_content(sealed, role, &text),
            None if text.is_empty() => {}
            None => request.contents.push(Content { role, parts: vec![Part::text(text)] }.seal()),
        }
    }
}

fn apply_content(sealed: &mut SealedContent, role: Role, text: &str) {
    let Ok(mut content) = sealed.open() else { return };
    let same = content.visible_text() == text;
    if same && content.role == role {
        return;
    }
    if !same {
        replace_text(&mut content.parts, text);
    }
    // The role of calls and results is fixed: no service accepts another.
    let only_texts = |part: &Part| matches!(part.view(), PartView::Text(_));
    if content.parts.iter().all(only_texts) {
        content.role = role;
    }
    if !content.parts.is_empty() {
        *sealed = content.seal();
    }
}

/// Returns the text of a message, which may be in parts.
fn message_text(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => Some(join_text(parts)),
        _ => None,
    }
}

fn join_text(parts: &[Value]) -> String {
    let text = |part: &Value| {
        part.as_str().or_else(|| part.get("text").and_then(Value::as_str)).map(str::to_owned)
    };
    parts.iter().filter_map(text).collect()
}

/// Returns the text of a response as hooks write it.
fn text_of(response: &Value) -> Option<String> {
    if let Some(parts) = response.pointer("/candidates/0/content/parts").and_then(Value::as_array) {
        return Some(join_text(parts));
    }
    response.get("text").and_then(Value::as_str).map(str::to_owned)
}

/// Converts a hook's response to a model chunk.
fn chunk(response: &Value) -> Option<Chunk> {
    let text = text_of(response).filter(|text| !text.is_empty())?;
    let content = Content::model(vec![Part::text(text)]);
    let finish = Some(Finish::new(FinishReason::Stop, "STOP"));
    Some(Chunk { parts: content.parts, finish, ..Chunk::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hook_changes_text_and_keeps_calls_and_signatures() {
        let mut parts: Vec<Part> = serde_json::from_str(
            r#"[{"text":"a","thoughtSignature":"S"},{"functionCall":{"name":"x"}},{"text":"b"}]"#,
        )
        .expect("parts");
        assert!(replace_text(&mut parts, "new"));
        let json = serde_json::to_string(&parts).expect("json");
        assert!(json.contains(r#""text":"new""#) && json.contains(r#""thoughtSignature":"S""#));
        assert!(json.contains("functionCall") && !json.contains(r#""b""#), "{json}");
        let call = r#"[{"functionCall":{"name":"x"}}]"#;
        let mut parts: Vec<Part> = serde_json::from_str(call).expect("parts");
        assert!(!replace_text(&mut parts, "new"));
        assert_eq!(serde_json::to_string(&parts).expect("json"), call);
    }

    #[test]
    fn hook_response_is_parsed_in_both_forms() {
        let long = json!({"candidates": [{"content": {"parts": ["a", {"text": "b"}]}}]});
        assert_eq!(text_of(&long).as_deref(), Some("ab"));
        assert_eq!(text_of(&json!({"text": "c"})).as_deref(), Some("c"));
        assert!(chunk(&json!({"text": ""})).is_none());
    }

    fn request() -> Request {
        let contents = [
            r#"{"role":"user","parts":[{"text":"<session_context/>"},{"text":"go"}]}"#,
            r#"{"role":"model","parts":[{"functionCall":{"name":"x"}}]}"#,
            r#"{"role":"user","parts":[{"functionResponse":{"name":"x"}}]}"#,
            r#"{"role":"model","parts":[{"text":"a"},{"functionCall":{"name":"y"}},{"text":"b"}]}"#,
            r#"{"role":"user","parts":[{"functionResponse":{"name":"y"}}]}"#,
        ];
        let sealed = |json: &str| serde_json::from_str(json).expect("a content");
        Request {
            model: "m".to_owned(),
            system: "Be good.".into(),
            contents: contents.map(sealed).to_vec(),
            tools: ToolSet::None,
            generation: Object::new(),
            role: "main".to_owned(),
            alias: String::new(),
            max_attempts: None,
            has_fallback: false,
            is_retry: false,
            continuation: None,
        }
    }

    fn changed(messages: Value) -> (Request, Vec<String>) {
        let mut request = request();
        change(&mut request, &object(json!({"messages": messages})));
        let output =
            request.contents.iter().map(|it| content_text(it).unwrap_or_default()).collect();
        (request, output)
    }

    #[test]
    fn hook_entries_match_the_contents_with_text() {
        let (_, texts) = changed(json!([
            {"role": "user", "content": "PRE <session_context/>go"},
            {"role": "model", "content": [{"text": "c"}]},
            {"role": "user", "content": "more"},
        ]));
        assert_eq!(texts, ["PRE <session_context/>go", "", "", "c", "", "more"]);
        // Omitting one changes nothing else.
        let (request, texts) = changed(json!([{"role": "user", "content": "only"}]));
        assert_eq!(texts, ["only", "", "", "ab", ""]);
        assert!(request.contents[3].json().contains("functionCall"));
    }

    #[test]
    fn calls_stay_in_model_contents_and_instructions_move_to_the_system_prompt() {
        let (request, texts) = changed(json!([
            {"role": "system", "content": "Be brief."},
            {"role": "model", "content": "said"},
            {"role": "user", "content": "c"},
        ]));
        assert_eq!(texts, ["said", "", "", "c", ""]);
        let roles: Vec<Role> = request.contents.iter().map(SealedContent::role).collect();
        assert_eq!(roles, [Role::Model, Role::Model, Role::User, Role::Model, Role::User]);
        assert_eq!(&*request.system, "Be good.\n\nBe brief.");
    }
}
