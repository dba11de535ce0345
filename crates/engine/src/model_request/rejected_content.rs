//! Handles a request that the service rejects for its contents: media, tool results, or tools
//! of MCP servers are removed step by step so that the session can continue.

use std::collections::{BTreeSet, HashSet};

use parallax_protocol::Object;
use parallax_protocol::content::{Content, Part, PartView, Role, SealedContent};
use parallax_protocol::event::{CompactionMethod, Failure, Level};
use parallax_protocol::model::ModelError;
use serde_json::Value;

use crate::closing_notes::{INTERRUPTED, TIMED_OUT, UNANSWERED};
use crate::history::History;
use crate::notices::Notices;
use crate::registry::Registry;
use crate::view::{EntryOrigin, ViewEntry, tokens_of};

/// Maximum number of characters of the service's message that a note quotes.
const MAX_REASON: usize = 300;

/// What is removed, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RemovalStep {
    /// Media that no earlier request contained.
    NewMedia,
    /// All media.
    AllMedia,
    /// Tool results that no earlier request contained, and all media.
    NewResults,
}

/// What was tried to get a request accepted.
#[derive(Default)]
pub(crate) struct RejectedContent {
    /// The view and the failure before the first removal.
    first: Option<(Vec<ViewEntry>, Failure)>,
    last_step: Option<RemovalStep>,
    /// Media and results that are removed now.
    removed_parts: Vec<String>,
    /// MCP servers whose tools are all excluded now, and the tools excluded before.
    servers: Vec<String>,
    hidden: HashSet<String>,
}

/// Whether the service may accept the request without some of its contents.
pub(crate) fn is_rejection(error: &ModelError) -> bool {
    matches!(error, ModelError::BadRequest { status: 400 | 413 | 415 | 422, .. })
}

/// Whether the service rejects the continuation token of an answer because it does not know it, or
/// no longer knows it. The model has just answered, so it is not unknown.
pub(crate) fn is_rejected_token(error: &ModelError) -> bool {
    let is_gone = matches!(
        error,
        ModelError::BadRequest { status: 404 | 409 | 410, .. }
            | ModelError::Unavailable { status: Some(409), .. }
    );
    is_gone || is_rejection(error)
}

impl RejectedContent {
    /// Removes the next suspect contents. Returns whether there were any; if not, everything is as
    /// before the first removal.
    pub(crate) fn remove_next(
        &mut self,
        failure: &Failure,
        history: &mut History,
        registry: &mut Registry,
    ) -> bool {
        let first = self.first.get_or_insert_with(|| (history.view().to_vec(), failure.clone()));
        let reason: String = first.1.message.chars().take(MAX_REASON).collect();
        let accepted = accepted_count(history.contents());
        let tried = self.last_step;
        let steps = [RemovalStep::NewMedia, RemovalStep::AllMedia, RemovalStep::NewResults];
        for step in steps.into_iter().filter(|step| tried.is_none_or(|tried| *step > tried)) {
            self.last_step = Some(step);
            let mut removed = Vec::new();
            let view: Vec<ViewEntry> = first
                .0
                .iter()
                .map(|entry| without_removed(entry, step, accepted, &reason, &mut removed))
                .collect();
            // Without a difference from the previous step, the service would reject it again.
            if removed.len() > self.removed_parts.len() {
                self.removed_parts = removed;
                history.show(view);
                return true;
            }
        }
        self.removed_parts.clear();
        history.show(first.0.clone());
        self.exclude_servers(registry)
    }

    /// Excludes all tools of MCP servers, or restores them if that did not help.
    fn exclude_servers(&mut self, registry: &mut Registry) -> bool {
        if self.servers.is_empty() {
            let origin = registry.declared_mcp_tools();
            let (tools, servers): (Vec<_>, BTreeSet<_>) = origin.into_iter().unzip();
            self.servers = servers.into_iter().collect();
            self.hidden.clone_from(registry.excluded_tools());
            let mut rejected = self.hidden.clone();
            rejected.extend(tools);
            registry.set_rejected(rejected);
            return !self.servers.is_empty();
        }
        registry.set_rejected(std::mem::take(&mut self.hidden));
        false
    }

    /// Makes the removals permanent: the service accepted the request.
    pub(crate) fn commit(self, history: &mut History, notices: &Notices) {
        let Some((before, failure)) = self.first else { return };
        let reason = failure.message.trim().trim_end_matches('.').to_owned();
        if !self.servers.is_empty() {
            notices.show(
                Level::Warning,
                format!(
                    "{}. The tools of the MCP servers {} are disabled for this session. Run \
                        `parallax mcp disable NAME` to disable a server",
                    to_sentence(&reason),
                    quote_names(&self.servers)
                ),
            );
            return;
        }
        let view = history.view().to_vec();
        let counts = (tokens_of(&before), tokens_of(&view));
        history.compact(view, CompactionMethod::Results, counts.0, counts.1);
        notices.show(
            Level::Warning,
            format!(
                "{}. Removed from the conversation: {}",
                to_sentence(&reason),
                self.removed_parts.join(", ")
            ),
        );
    }

    /// Returns the failure when no removal helped, with what the user can do.
    pub(crate) fn failure(self, failure: Failure, history: &History) -> Failure {
        let mut failure = self.first.map_or(failure, |(_, first)| first);
        if !self.servers.is_empty() {
            failure.message.push_str(&format!(
                " (the request included tools of the MCP servers {}; run `parallax mcp disable \
                    NAME` to disable a server)",
                quote_names(&self.servers)
            ));
        }
        // The service may reject what it accepted before, for example after a model change.
        if history.has_calls() {
            failure.message.push_str(
                "; run `/rewind` to continue without the rejected content, or `parallax sessions \
                 fork latest --at PROMPT` to continue in a copy",
            );
        }
        failure
    }
}

/// Excludes the MCP tool that the service's message names, by index or by name.
pub(crate) fn exclude_named_tool(
    failure: &Failure,
    registry: &mut Registry,
    notices: &Notices,
) -> bool {
    let declaration = declaration_index(&failure.message);
    let by_place = declaration.and_then(|index| registry.declared_names().get(index)).cloned();
    let tools = registry.declared_mcp_tools();
    let named = match by_place {
        Some(name) => tools.into_iter().find(|(tool, _)| *tool == name),
        None => tools
            .into_iter()
            .filter(|(tool, _)| names(&failure.message, tool))
            .max_by_key(|(tool, _)| tool.len()),
    };
    let Some((tool, server)) = named else { return false };
    let reason: String = failure.message.trim().chars().take(MAX_REASON).collect();
    notices.show(
        Level::Warning,
        format!(
            "The tool `{tool}` of MCP server `{server}` is disabled for this session, because its \
                schema was rejected: {reason}"
        ),
    );
    registry.reject(tool)
}

fn quote_names(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Returns the index of the declaration that a message names, as the services write it:
/// `function_declarations[17]` or `function_declarations.17` (Gemini), `tools.17.custom`
/// (Anthropic), `tools[17].function` or `tools[17].parameters` (OpenAI).
fn declaration_index(message: &str) -> Option<usize> {
    let lower = message.to_lowercase().replace('_', "");
    if let Some((_, rest)) = lower.split_once("functiondeclarations") {
        return index_at_start(rest).map(|(index, _)| index);
    }
    let (_, rest) = lower.split_once("tools")?;
    let (index, rest) = index_at_start(rest)?;
    let tool_keys = [".custom", ".inputschema", ".function", ".parameters"];
    tool_keys.iter().any(|key| rest.starts_with(key)).then_some(index)
}

/// Returns the index in `[17]` or `.17` at the start of a string, and the text behind it.
fn index_at_start(text: &str) -> Option<(usize, &str)> {
    let digits = text.strip_prefix(['[', '.'])?;
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    let (number, rest) = digits.split_at(end);
    Some((number.parse().ok()?, rest.strip_prefix(']').unwrap_or(rest)))
}

/// Whether a message contains a name as a word.
fn names(message: &str, name: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-');
    message.match_indices(name).any(|(offset, _)| {
        let before = message.get(..offset).and_then(|text| text.chars().next_back());
        let after = message.get(offset + name.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Returns how many contents the service has accepted: all before its newest response.
fn accepted_count(contents: &[SealedContent]) -> usize {
    let is_answer = |content: &SealedContent| {
        content.role() == Role::Model
            && content.open().is_ok_and(|content| {
                content.parts.iter().any(|part| match part.view() {
                    PartView::Text(text) => ![UNANSWERED, INTERRUPTED, TIMED_OUT].contains(&text),
                    _ => true,
                })
            })
    };
    contents.iter().rposition(is_answer).map_or(0, |index| index + 1)
}

/// Returns the entry without what a step removes; their names are added to `removed`.
fn without_removed(
    entry: &ViewEntry,
    step: RemovalStep,
    accepted: usize,
    reason: &str,
    removed: &mut Vec<String>,
) -> ViewEntry {
    let is_new = entry.origin.content_index().is_some_and(|index| index >= accepted);
    let media = is_new || step != RemovalStep::NewMedia;
    let results = is_new && step == RemovalStep::NewResults;
    let known = removed.len();
    let Ok(content) = entry.content.open() else { return entry.clone() };
    let parts = content.parts.into_iter().map(|part| match part.view() {
        PartView::Inline { mime_type, .. } if media => {
            removed.push(mime_type.to_owned());
            Part::text(note(mime_type, reason))
        }
        PartView::File { uri } if media => {
            removed.push(uri.to_owned());
            Part::text(note(uri, reason))
        }
        PartView::Response(response) if results => {
            removed.push(format!("the result of `{}`", response.name));
            let mut object = Object::new();
            object.insert("error".into(), Value::String(note("this result", reason)));
            Part::function_response(response.id, response.name, object, Vec::new())
        }
        PartView::Response(response) if media => match nested_kinds(&part) {
            kinds if kinds.is_empty() => part,
            kinds => {
                let text = note(&kinds.join(", "), reason);
                removed.extend(kinds);
                let object = with_note(response.response, text);
                Part::function_response(response.id, response.name, object, Vec::new())
            }
        },
        _ => part,
    });
    let content = Content { role: content.role, parts: parts.collect() };
    if removed.len() == known {
        return entry.clone();
    }
    let origin = entry.origin.content_index().map_or(EntryOrigin::Generated, EntryOrigin::Edited);
    ViewEntry::new(content.seal(), origin)
}

fn note(what: &str, reason: &str) -> String {
    format!("[{what} was removed because {reason}]")
}

/// Returns the message of a model error, which begins in lower case, as a sentence.
fn to_sentence(reason: &str) -> String {
    let mut chars = reason.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Returns the MIME types of the media inside a response.
fn nested_kinds(part: &Part) -> Vec<String> {
    let response = part.object().get("functionResponse");
    let parts = response.and_then(|response| response.get("parts")?.as_array());
    let kind = |part: &Value| {
        let data = part.get("inlineData").or_else(|| part.get("fileData"))?;
        Some(data.get("mimeType").and_then(Value::as_str).unwrap_or("media").to_owned())
    };
    parts.into_iter().flatten().filter_map(kind).collect()
}

/// Returns a response with a note after its text.
fn with_note(response: Option<&Value>, note: String) -> Object {
    let mut object = response.and_then(Value::as_object).cloned().unwrap_or_default();
    let output = object.get("output").and_then(Value::as_str).unwrap_or_default();
    let output = if output.is_empty() { note } else { format!("{output}\n{note}") };
    object.insert("output".into(), Value::String(output));
    object
}

#[cfg(test)]
mod tests {
    use super::declaration_index;

    #[test]
    fn rejected_declaration_is_found_by_its_index() {
        for (message, index) in [
            ("GenerateContentRequest.tools[0].function_declarations[17].parameters: bad", Some(17)),
            ("tools.0.functionDeclarations.18.parameters_json_schema: invalid", Some(18)),
            ("tools.3.custom.input_schema: JSON schema is invalid", Some(3)),
            ("Invalid type for 'tools[4].function.parameters'", Some(4)),
            ("Invalid 'tools[5].parameters': too deep", Some(5)),
            ("tools[0]: too many of them", None),
            ("The schema has too many states.", None),
            ("function_declarations[x]", None),
        ] {
            assert_eq!(declaration_index(message), index, "{message}");
        }
    }
}
