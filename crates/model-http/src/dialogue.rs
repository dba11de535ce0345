//! A request's contents as a conversation that is valid for any provider: roles alternate, every
//! call has an id, and all calls are answered at once by the next user turn.
//!
//! Contents have the dialect of the Gemini API; see [`parallax_protocol::content`].

use std::collections::{BTreeSet, VecDeque};

use parallax_protocol::Object;
use parallax_protocol::content::{Content, FunctionCall, Part, PartView, Role, SealedContent};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::opaque_format::OpaqueFormat;

/// The result of a call that has none: the program was interrupted.
const CANCELLED: &str = "The call was cancelled and has no result.";
/// Sent when the conversation would begin or end with the model's turn.
const CONTINUE: &str = "Continue.";

/// The ids of calls that a service accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallIdFormat {
    /// At most 64 characters, as most services accept.
    #[default]
    Max64,
    /// At most 40 characters.
    Max40,
    /// Exactly 9 letters and digits.
    Alphanumeric9,
}

impl CallIdFormat {
    /// Whether services accept an id.
    fn is_valid(self, id: &str) -> bool {
        match self {
            Self::Max64 => (1..=64).contains(&id.len()),
            Self::Max40 => (1..=40).contains(&id.len()),
            Self::Alphanumeric9 => id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
        }
    }

    /// Whether an id has the form of those that this program generates, one of which may belong to
    /// another call.
    fn is_generated(self, id: &str) -> bool {
        let digits = match self {
            Self::Alphanumeric9 => id,
            _ => id.strip_prefix("call_").filter(|digits| digits.len() == 12).unwrap_or_default(),
        };
        !digits.is_empty() && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    }

    /// Returns the id of a call without a valid one. It depends on the position only, so that later
    /// requests have the same one.
    fn id_at(self, content: usize, call: usize) -> String {
        match self {
            Self::Alphanumeric9 => format!("{:06x}{:03x}", content & 0xff_ffff, call & 0xfff),
            // `call_` and 12 hexadecimal digits.
            _ => format!("call_{:08x}{:04x}", content & 0xffff_ffff, call & 0xffff),
        }
    }
}

/// A conversation.
#[derive(Debug, Default)]
pub struct Dialogue {
    /// The turns, alternating, the user's first and last.
    pub turns: Vec<Turn>,
    /// The ids of all calls.
    ids: BTreeSet<String>,
    id_format: CallIdFormat,
}

/// The consecutive contents of one side.
#[derive(Debug)]
pub enum Turn {
    /// The user.
    User {
        /// The results of the calls of the turn before, in their order.
        results: Vec<ToolResult>,
        /// What else there is.
        pieces: Vec<UserPart>,
    },
    /// The model.
    Model(Vec<ModelPart>),
}

/// A piece of a user's turn.
#[derive(Debug, Clone, PartialEq)]
pub enum UserPart {
    /// Text.
    Text(String),
    /// An image, a PDF file, or another file.
    Media(Media),
}

/// Data of a MIME type.
#[derive(Debug, Clone, PartialEq)]
pub struct Media {
    /// The MIME type.
    pub mime: String,
    /// The bytes in base64.
    pub data: String,
}

impl Media {
    /// Whether it is an image.
    pub fn is_image(&self) -> bool {
        self.mime.starts_with("image/")
    }

    /// Whether it is a PDF file.
    pub fn is_pdf(&self) -> bool {
        self.mime == "application/pdf"
    }

    /// Returns the data as a URL.
    pub fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.mime, self.data)
    }

    /// Returns the text in place of media that a provider or a model cannot read.
    pub fn placeholder_text(&self) -> String {
        format!("[omitted: data of type `{}`, which this model cannot read]", self.mime)
    }
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The result as text; JSON if it is not text.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// Media in the result.
    pub media: Vec<Media>,
}

/// A piece of a model's turn.
#[derive(Debug)]
pub enum ModelPart {
    /// Text; never empty.
    Text {
        /// The text.
        text: String,
        /// The provider's data about it.
        opaque: Option<Box<RawValue>>,
    },
    /// A function call.
    Call {
        /// The id, unique in the conversation.
        id: String,
        /// The tool.
        name: String,
        /// The arguments: JSON, or the model's text if that was not valid JSON.
        arguments: String,
        /// The provider's data about it.
        opaque: Option<Box<RawValue>>,
    },
    /// Data of the provider that stands on its own (reasoning, hosted tools).
    Opaque(Box<RawValue>),
}

/// A call that waits for its result.
struct PendingCall {
    id: String,
    /// The id in the history, if there is one.
    wire_id: Option<String>,
    name: String,
}

impl Dialogue {
    /// Reads the contents of a request to `model`. Opaque data is kept only if this model made it,
    /// through the same API.
    pub fn new(contents: &[SealedContent], model: &str, format: OpaqueFormat) -> Self {
        Self::with_ids(contents, model, format, CallIdFormat::default())
    }

    /// Like [`Dialogue::new`], with ids of calls in the given format. Others are replaced.
    pub fn with_ids(
        contents: &[SealedContent],
        model: &str,
        format: OpaqueFormat,
        id_format: CallIdFormat,
    ) -> Self {
        let mut conversation = Self { id_format, ..Self::default() };
        let mut pending = VecDeque::new();
        for (index, sealed) in contents.iter().enumerate() {
            // A content that cannot be read has nothing to send.
            let Ok(content) = sealed.open() else { continue };
            match content.role {
                Role::Model => {
                    conversation.answer(std::mem::take(&mut pending));
                    let opaque = sealed
                        .origin()
                        .filter(|origin| origin.model == model && format.is_format_of(origin));
                    pending = conversation.model(content, index, opaque);
                }
                Role::User => conversation.add_user_turn(content, std::mem::take(&mut pending)),
            }
        }
        conversation.answer(pending);
        if !matches!(conversation.turns.last(), Some(Turn::User { .. })) {
            conversation.user_turn().1.push(UserPart::Text(CONTINUE.to_owned()));
        }
        if let Some(Turn::Model(_)) = conversation.turns.first() {
            let pieces = vec![UserPart::Text(CONTINUE.to_owned())];
            conversation.turns.insert(0, Turn::User { results: Vec::new(), pieces });
        }
        conversation
    }

    /// Replaces media that the model cannot read with text that says so.
    #[must_use]
    pub fn reading(mut self, can_read: impl Fn(&str) -> bool) -> Self {
        for turn in &mut self.turns {
            let Turn::User { results, pieces } = turn else { continue };
            for result in results {
                let (readable, omitted): (Vec<Media>, Vec<Media>) =
                    result.media.drain(..).partition(|media| can_read(&media.mime));
                result.media = readable;
                for media in omitted {
                    if !result.text.is_empty() {
                        result.text.push('\n');
                    }
                    result.text.push_str(&media.placeholder_text());
                }
            }
            for piece in pieces {
                if let UserPart::Media(media) = piece
                    && !can_read(&media.mime)
                {
                    *piece = UserPart::Text(media.placeholder_text());
                }
            }
        }
        self
    }

    fn model(
        &mut self,
        content: Content,
        index: usize,
        origin: Option<&parallax_protocol::content::Origin>,
    ) -> VecDeque<PendingCall> {
        let mut pieces = Vec::new();
        let mut pending = VecDeque::new();
        let before = |at: usize, pieces: &mut Vec<ModelPart>| {
            let data = origin.into_iter().flat_map(|origin| origin.standalone_before(at));
            pieces.extend(data.map(|data| ModelPart::Opaque(data.to_owned())));
        };
        let count = content.parts.len();
        for (at, part) in content.parts.into_iter().enumerate() {
            before(at, &mut pieces);
            let opaque = origin.and_then(|origin| origin.part_data(at)).map(ToOwned::to_owned);
            match part.view() {
                PartView::Call(call) => {
                    let wire_id = call.id.map(str::to_owned);
                    // Some servers begin again with every response, and services reject ids that
                    // differ from their own.
                    let id = wire_id.clone().filter(|id| {
                        self.id_format.is_valid(id) && !self.id_format.is_generated(id)
                    });
                    let id = id.filter(|id| self.ids.insert(id.clone()));
                    let id = id.unwrap_or_else(|| self.id_format.id_at(index, pending.len()));
                    let (name, arguments) = (call.name.to_owned(), arguments(&part, &call));
                    pending.push_back(PendingCall { id: id.clone(), wire_id, name: name.clone() });
                    pieces.push(ModelPart::Call { id, name, arguments, opaque });
                }
                PartView::Text(text) if !text.is_empty() => {
                    pieces.push(ModelPart::Text { text: text.to_owned(), opaque });
                }
                _ => {}
            }
        }
        before(count, &mut pieces);
        if !pieces.is_empty() {
            match self.turns.last_mut() {
                Some(Turn::Model(last)) => last.extend(pieces),
                _ => self.turns.push(Turn::Model(pieces)),
            }
        }
        pending
    }

    fn add_user_turn(&mut self, content: Content, mut pending: VecDeque<PendingCall>) {
        let mut answers: Vec<(String, ToolResult)> = Vec::new();
        let mut rest = Vec::new();
        // The order of results is that of the calls.
        let order: Vec<String> = pending.iter().map(|call| call.id.clone()).collect();
        for part in content.parts {
            if matches!(part.view(), PartView::Response(_)) {
                let (wire_id, mut result) = read_result(&part);
                let found = match &wire_id {
                    Some(id) => pending.iter().position(|call| call.wire_id.as_ref() == Some(id)),
                    None => pending.iter().position(|call| call.name == result.name).or(
                        // A renamed tool still answers its call.
                        (!pending.is_empty()).then_some(0),
                    ),
                };
                match found.and_then(|at| pending.remove(at)) {
                    Some(call) => {
                        (result.id, result.name) = (call.id, call.name);
                        answers.push((result.id.clone(), result));
                    }
                    // A result without a call is still worth reading.
                    None => {
                        rest.push(UserPart::Text(format!("{}: {}", result.name, result.text)));
                        rest.extend(result.media.into_iter().map(UserPart::Media));
                    }
                }
                continue;
            }
            match part.view() {
                PartView::Text(text) if !text.is_empty() => {
                    rest.push(UserPart::Text(text.to_owned()));
                }
                PartView::Inline { mime_type, data } => {
                    rest.push(UserPart::Media(Media {
                        mime: mime_type.to_owned(),
                        data: data.to_owned(),
                    }));
                }
                PartView::File { uri } if !uri.is_empty() => {
                    rest.push(UserPart::Text(format!("[file: {uri}]")));
                }
                _ => {}
            }
        }
        answers.extend(pending.into_iter().map(|call| (call.id.clone(), cancelled(call))));
        answers.sort_by_key(|(id, _)| order.iter().position(|known| known == id));
        let (results, pieces) = self.user_turn();
        results.extend(answers.into_iter().map(|(_, result)| result));
        pieces.extend(rest);
    }

    /// Answers calls that have no results.
    fn answer(&mut self, pending: VecDeque<PendingCall>) {
        if !pending.is_empty() {
            self.user_turn().0.extend(pending.into_iter().map(cancelled));
        }
    }

    /// Returns the user's turn that is open, or a new one.
    fn user_turn(&mut self) -> (&mut Vec<ToolResult>, &mut Vec<UserPart>) {
        if !matches!(self.turns.last(), Some(Turn::User { .. })) {
            self.turns.push(Turn::User { results: Vec::new(), pieces: Vec::new() });
        }
        match self.turns.last_mut() {
            Some(Turn::User { results, pieces }) => (results, pieces),
            _ => unreachable!("a user turn was pushed"),
        }
    }
}

fn cancelled(call: PendingCall) -> ToolResult {
    ToolResult {
        id: call.id,
        name: call.name,
        text: CANCELLED.to_owned(),
        is_error: true,
        media: Vec::new(),
    }
}

fn arguments(part: &Part, call: &FunctionCall<'_>) -> String {
    if let Some(args) = call.args {
        return serde_json::to_string(args).unwrap_or_else(|_| "{}".to_owned());
    }
    let raw = part.object().get("functionCall").and_then(|call| call.get("args"));
    match raw {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => "{}".to_owned(),
        Some(other) => other.to_string(),
    }
}

fn read_result(part: &Part) -> (Option<String>, ToolResult) {
    let mut result = ToolResult {
        id: String::new(),
        name: String::new(),
        text: String::new(),
        is_error: false,
        media: Vec::new(),
    };
    let PartView::Response(response) = part.view() else { return (None, result) };
    result.name = response.name.to_owned();
    if let Some(Value::Object(fields)) = response.response {
        (result.text, result.is_error) = result_text(fields);
    }
    let nested = part.object().get("functionResponse").and_then(|it| it.get("parts"));
    for part in nested.and_then(Value::as_array).into_iter().flatten() {
        let Some(data) = part.get("inlineData") else { continue };
        let text = |key: &str| data.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        result.media.push(Media { mime: text("mimeType"), data: text("data") });
    }
    (response.id.map(str::to_owned), result)
}

/// Returns the text of a result, and whether it is an error: `{"output": …}` or `{"error": …}`;
/// other objects as JSON.
fn result_text(fields: &Object) -> (String, bool) {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let is_error = fields.contains_key("error");
    let only = match fields.len() {
        1 => fields.get("output").or_else(|| fields.get("error")),
        _ => None,
    };
    match only {
        Some(value) => (text(value), is_error),
        None => (serde_json::to_string(fields).unwrap_or_default(), is_error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(json: &str) -> SealedContent {
        SealedContent::from_json(RawValue::from_string(json.to_owned()).expect("json"))
            .expect("content")
    }

    fn conversation(contents: &[&str]) -> Dialogue {
        let contents: Vec<SealedContent> = contents.iter().map(|json| sealed(json)).collect();
        Dialogue::new(&contents, "p:m", OpaqueFormat::Chat)
    }

    fn results(turn: &Turn) -> Vec<(&str, &str)> {
        match turn {
            Turn::User { results, .. } => {
                results.iter().map(|it| (it.id.as_str(), it.text.as_str())).collect()
            }
            Turn::Model(_) => Vec::new(),
        }
    }

    const CALLS: &str = r#"{"role":"model","parts":[{"functionCall":{"name":"a","args":{"x":1}}},
        {"functionCall":{"id":"i2","name":"b","args":"{bad"}}]}"#;

    #[test]
    fn results_are_paired_by_id_or_order_and_lost_ones_are_cancelled() {
        let answer = r#"{"role":"user","parts":[
            {"functionResponse":{"id":"i2","name":"b","response":{"error":"no"}}},
            {"functionResponse":{"name":"a","response":{"output":"one"}}},{"text":"go on"}]}"#;
        let whole = conversation(&[r#"{"role":"user","parts":[{"text":"hi"}]}"#, CALLS, answer]);
        let [_, Turn::Model(pieces), last] = whole.turns.as_slice() else { unreachable!("turns") };
        let ModelPart::Call { id, arguments, .. } = &pieces[1] else { unreachable!("a call") };
        assert_eq!((id.as_str(), arguments.as_str()), ("i2", "{bad"));
        assert_eq!(results(last), [("call_000000010000", "one"), ("i2", "no")]);
        let cut = conversation(&[CALLS]);
        assert_eq!(results(cut.turns.last().expect("a turn")).len(), 2);
        let late = conversation(&[CALLS, r#"{"role":"user","parts":[{"text":"stop"}]}"#]);
        assert_eq!(results(&late.turns[2])[0].1, CANCELLED);
    }

    #[test]
    fn repeated_call_id_becomes_unique() {
        let call = r#"{"role":"model","parts":[{"functionCall":{"id":"0","name":"a","args":{}}}]}"#;
        let answer = r#"{"role":"user","parts":[
            {"functionResponse":{"id":"0","name":"a","response":{"output":"o"}}}]}"#;
        let whole = conversation(&[call, answer, call, answer]);
        assert_eq!(results(&whole.turns[2]), [("0", "o")]);
        assert_eq!(results(&whole.turns[4]), [("call_000000020000", "o")]);
    }

    #[test]
    fn server_ids_that_look_generated_do_not_collide() {
        use CallIdFormat::{Alphanumeric9, Max40};
        for (format, given) in [(Max40, "call_000000000000"), (Alphanumeric9, "000000000")] {
            let long = "i".repeat(80);
            let call = format!(
                r#"{{"role":"model","parts":[{{"functionCall":{{"id":"{long}","name":"a","args":{{}}}}}},
                    {{"functionCall":{{"id":"{given}","name":"b","args":{{}}}}}}]}}"#
            );
            let answer = format!(
                r#"{{"role":"user","parts":[{{"functionResponse":{{"id":"{given}","name":"b","response":{{"output":"b"}}}}}},
                    {{"functionResponse":{{"id":"{long}","name":"a","response":{{"output":"a"}}}}}}]}}"#
            );
            let contents = [sealed(&call), sealed(&answer)];
            let whole = Dialogue::with_ids(&contents, "p:m", OpaqueFormat::Chat, format);
            let results = results(whole.turns.last().expect("a turn"));
            assert_ne!(results[0].0, results[1].0, "{format:?}");
            assert_eq!((results[0].1, results[1].1), ("a", "b"), "{format:?}");
        }
    }

    #[test]
    fn ids_that_services_reject_are_replaced() {
        use CallIdFormat::{Alphanumeric9, Max40, Max64};
        let (long, nine) = ("i".repeat(64), "aB3dE5g7I");
        for (format, id, sent) in [
            (Max64, long.as_str(), long.as_str()),
            (Max64, &"i".repeat(65), "call_000000000000"),
            (Max40, &long[..40], &long[..40]),
            (Max40, &long[..41], "call_000000000000"),
            (Alphanumeric9, nine, nine),
            (Alphanumeric9, "toolu_012", "000000000"),
            (Alphanumeric9, "call_000000010000", "000000000"),
        ] {
            let call = format!(
                r#"{{"role":"model","parts":[{{"functionCall":{{"id":"{id}","name":"a","args":{{}}}}}},
                    {{"functionCall":{{"id":"{id}2","name":"a","args":{{}}}}}}]}}"#
            );
            let answer = format!(
                r#"{{"role":"user","parts":[{{"functionResponse":{{"id":"{id}","name":"a","response":{{"output":"o"}}}}}}]}}"#
            );
            let contents = [sealed(&call), sealed(&answer)];
            let whole = Dialogue::with_ids(&contents, "p:m", OpaqueFormat::Chat, format);
            let results = results(whole.turns.last().expect("a turn"));
            assert_eq!(results[0], (sent, "o"), "{format:?}");
            assert!(format.is_valid(results[1].0) && results[1].0 != sent, "{format:?}");
        }
    }

    #[test]
    fn turns_alternate_and_the_user_is_last() {
        let text = |role: &str| format!(r#"{{"role":"{role}","parts":[{{"text":"t"}}]}}"#);
        let (user, model) = (text("user"), text("model"));
        let whole = conversation(&[&user, &user, &model, &model]);
        let kinds: Vec<bool> =
            whole.turns.iter().map(|turn| matches!(turn, Turn::User { .. })).collect();
        assert_eq!(kinds, [true, false, true]);
        assert!(matches!(conversation(&[&model]).turns[..], [Turn::User { .. }, _, _]));
        let orphan = r#"{"role":"user","parts":[{"functionResponse":{"name":"x","response":{"output":"o"}}}]}"#;
        let whole = conversation(&[orphan]);
        let Turn::User { results, pieces } = &whole.turns[0] else { unreachable!("a user turn") };
        assert!(results.is_empty());
        assert_eq!(pieces, &[UserPart::Text("x: o".into())]);
    }

    #[test]
    fn opaque_data_is_returned_only_to_its_model_and_api() {
        let data = RawValue::from_string("{\"k\": 1}".to_owned()).expect("json");
        let content = Content::model(vec![Part::opaque_thought(data), Part::text("t")]);
        let chat = OpaqueFormat::Chat;
        for (model, format, count) in [
            ("p:m", chat, 2),
            ("p:other", chat, 1),
            ("q:m", chat, 1),
            ("p:m", OpaqueFormat::Responses, 1),
            ("p:m", OpaqueFormat::Messages, 1),
            ("p:m", OpaqueFormat::None, 1),
        ] {
            let contents = [content.seal_for("p:m")];
            let whole = Dialogue::new(&contents, model, format);
            let pieces = whole.turns.iter().find_map(|turn| match turn {
                Turn::Model(pieces) => Some(pieces.len()),
                Turn::User { .. } => None,
            });
            assert_eq!(pieces, Some(count), "{model}");
        }
    }
}
