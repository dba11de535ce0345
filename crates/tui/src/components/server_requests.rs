//! Requests from MCP servers: a URL to open, or a form, shown one field at a time.

use std::collections::VecDeque;

use parallax_protocol::Object;
use parallax_screen::Line;
use parallax_sdk::mcp_view::{UserRequest, UserResponse, open_address};
use tokio::sync::oneshot;

use super::overlay::{DialogPurpose, Overlay};
use super::server_form::{FieldChoice, FieldKind, FormField, fields};
use crate::dialog::{Field, FieldDialog, ListDialog, ListItem, url_warning};
use crate::sanitize::sanitize;
use crate::theme::Theme;

/// The maximum number of characters of a server's text.
const MAX_LENGTH: usize = 2_000;
/// The answer that declines all further requests from a server.
const NO_MORE: &str = "No, and don't ask again for this server this session";
/// The id of the row that ends a multiple choice. Server values contain no control characters.
const CHOSEN: &str = "\u{4}";
/// Maximum characters and rows shown of a sampling prompt, so that the choices stay visible.
const MAX_SHOWN: usize = 700;
const ROWS: usize = 8;

/// A request of an MCP server and the answers so far.
pub(crate) struct ServerRequest {
    server: String,
    message: String,
    kind: RequestKind,
    /// The fields that are not answered yet.
    fields: VecDeque<FormField>,
    /// The choices so far of a multiple-choice field.
    chosen: Vec<String>,
    values: Object,
    reply: oneshot::Sender<UserResponse>,
}

/// The kind of request.
enum RequestKind {
    Form,
    Url(String),
    /// A sign-in request, which Parallax itself makes.
    SignIn,
    /// A sampling request, with details for the user.
    Sample(Vec<String>),
}

impl ServerRequest {
    /// Takes a request from a server.
    ///
    /// # Errors
    /// Returns what the server asked if it cannot be shown. The request is declined.
    pub(crate) fn new(
        server: &str,
        question: UserRequest,
        reply: oneshot::Sender<UserResponse>,
    ) -> Result<Self, String> {
        let decline = |what: String, reply: oneshot::Sender<UserResponse>| {
            // The server may have stopped waiting.
            let _ = reply.send(UserResponse::Decline);
            Err(what)
        };
        let (message, kind, fields) = match question {
            UserRequest::Url { message, url } => (message, RequestKind::Url(url), VecDeque::new()),
            UserRequest::SignIn { is_renewal } => {
                let reason = match is_renewal {
                    true => "The last sign-in is no longer valid.",
                    false => "Its tools cannot be called without authentication.",
                };
                (reason.to_owned(), RequestKind::SignIn, VecDeque::new())
            }
            UserRequest::Sample { system, prompt, tokens, remaining_tokens } => {
                let (shown, details) = sample_facts(&system, &prompt, tokens, remaining_tokens);
                (shown, RequestKind::Sample(details), VecDeque::new())
            }
            UserRequest::Form { message, schema } => match fields(&schema) {
                Some(fields) => (message, RequestKind::Form, fields),
                None => return decline("for a form that is not supported".to_owned(), reply),
            },
        };
        if let RequestKind::Url(url) = &kind
            && !is_page(url)
        {
            return decline(format!("to open `{}`, which is not a web page", sanitize(url)), reply);
        }
        Ok(Self {
            server: server.to_owned(),
            message: message.chars().take(MAX_LENGTH).collect(),
            kind,
            fields,
            chosen: Vec::new(),
            values: Object::new(),
            reply,
        })
    }

    /// Returns the dialog that asks whether to answer.
    fn dialog(&self, theme: &Theme) -> Overlay {
        let mut intro: Vec<Line> =
            self.message.lines().map(|line| Line::styled(sanitize(line), theme.text)).collect();
        let mut warnings = Vec::new();
        let mut title = format!("Request from MCP server `{}`", sanitize(&self.server));
        let items = match &self.kind {
            RequestKind::Url(url) => {
                let warning = url_warning::warning(url);
                let style = if warning.is_some() { theme.error.bold() } else { theme.link };
                intro.push(Line::styled(format!("  {}", sanitize(url)), style));
                warnings.extend(warning.map(|it| Line::styled(it, theme.error.bold())));
                vec![
                    ListItem::new("no", "No", ""),
                    ListItem::new("yes", "Open this URL in the browser", ""),
                    ListItem::new("never", NO_MORE, ""),
                ]
            }
            RequestKind::SignIn => {
                title = format!("MCP server `{}` requires authentication", sanitize(&self.server));
                let later = format!("`/mcp auth {}` signs in later", sanitize(&self.server));
                vec![
                    ListItem::new("yes", "Sign in with the browser", ""),
                    ListItem::new("no", "Not now", later),
                ]
            }
            RequestKind::Sample(facts) => {
                title.push_str(" to call the model");
                intro.extend(facts.iter().map(|it| Line::styled(it.clone(), theme.secondary)));
                vec![
                    ListItem::new("no", "No", ""),
                    ListItem::new("yes", "Answer this one", ""),
                    ListItem::new("always", "Always for this server in this session", ""),
                    ListItem::new("never", "Never for this server in this session", ""),
                ]
            }
            RequestKind::Form => vec![
                ListItem::new("yes", "Answer", "one field at a time"),
                ListItem::new("no", "Do not answer", ""),
                ListItem::new("never", NO_MORE, ""),
            ],
        };
        let list = ListDialog::new(title, items).warnings(warnings).intro(intro);
        Overlay::list(DialogPurpose::ServerQuestion, list)
    }

    /// Returns the dialog of the first field, with its default.
    fn first_field(&mut self, theme: &Theme) -> Option<Overlay> {
        let field = self.fields.front()?;
        self.chosen = match field.kind {
            FieldKind::Several(_) => field.default.clone(),
            _ => Vec::new(),
        };
        self.field_dialog(None, theme)
    }

    /// Returns the dialog of the first field; `at` is the row of the cursor.
    fn field_dialog(&self, at: Option<&str>, theme: &Theme) -> Option<Overlay> {
        let field = self.fields.front()?;
        let title = format!("{}: {}", sanitize(&self.server), sanitize(&field.title));
        let mut intro = vec![sanitize(&field.description)];
        intro.retain(|text| !text.is_empty());
        if !field.required {
            intro.push("Can be left empty.".to_owned());
        }
        let default = field.default.first().cloned().unwrap_or_default();
        let mut at = at.unwrap_or(&default).to_owned();
        let mut items: Vec<ListItem> = match &field.kind {
            FieldKind::Text | FieldKind::Number { .. } => {
                let dialog = FieldDialog::new(title, intro, Field::with(default));
                return Some(Overlay::field(DialogPurpose::ServerField, dialog));
            }
            FieldKind::YesNo => {
                vec![ListItem::new("true", "Yes", ""), ListItem::new("false", "No", "")]
            }
            FieldKind::Choice(choices) => {
                let item =
                    |it: &FieldChoice| ListItem::new(it.value.clone(), sanitize(&it.title), "");
                choices.iter().map(item).collect()
            }
            FieldKind::Several(choices) => {
                let item = |it: &FieldChoice| {
                    let mark = if self.chosen.contains(&it.value) { "[x]" } else { "[ ]" };
                    ListItem::new(it.value.clone(), format!("{mark} {}", sanitize(&it.title)), "")
                };
                let done = ListItem::new(CHOSEN, "Done", "");
                choices.iter().map(item).chain([done]).collect()
            }
        };
        if !field.required && !matches!(field.kind, FieldKind::Several(_)) {
            items.push(ListItem::new("", "(nothing)", ""));
        }
        if at.is_empty() {
            at = items.first().map(|item| item.id.clone()).unwrap_or_default();
        }
        let rows = intro.into_iter().map(|row| Line::styled(row, theme.text)).collect();
        let list = ListDialog::new(title, items).intro(rows).at(&at);
        Some(Overlay::list(DialogPurpose::ServerField, list))
    }

    /// Takes a field value, or toggles one of several choices. Returns the dialog that follows, or
    /// `None` after the last field.
    fn field_typed(&mut self, input: &str, theme: &Theme) -> Result<Option<Overlay>, String> {
        let Some(field) = self.fields.front() else { return Ok(None) };
        let value = match &field.kind {
            FieldKind::Several(_) if input == CHOSEN => field.read_several(&self.chosen)?,
            FieldKind::Several(choices) => {
                match self.chosen.iter().position(|it| it == input) {
                    Some(place) => drop(self.chosen.remove(place)),
                    None => self.chosen.push(input.to_owned()),
                }
                // In the order given by the server.
                let order = |it: &String| choices.iter().position(|choice| choice.value == *it);
                self.chosen.sort_by_key(order);
                return Ok(self.field_dialog(Some(input), theme));
            }
            _ => field.read(input)?,
        };
        if let Some(value) = value {
            self.values.insert(field.name.clone(), value);
        }
        self.fields.pop_front();
        Ok(self.first_field(theme))
    }
}

/// An answer from the user to the first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerAnswer<'a> {
    /// The id of a choice in the first dialog.
    Choice(&'a str),
    /// The value of a field.
    Field(&'a str),
    /// The dialog was closed.
    Closed,
}

/// Requests from MCP servers that wait for an answer; the first one is open.
#[derive(Default)]
pub(crate) struct ServerRequests(VecDeque<ServerRequest>);

impl ServerRequests {
    /// Adds a request.
    pub(crate) fn push(&mut self, request: ServerRequest) {
        self.0.push_back(request);
    }

    /// Whether a request waits.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.0.is_empty()
    }

    /// Removes requests whose calls have ended. Returns whether the first was among them.
    pub(crate) fn remove_ended(&mut self) -> bool {
        let is_first = self.0.front().is_some_and(|request| request.reply.is_closed());
        self.0.retain(|request| !request.reply.is_closed());
        is_first
    }

    /// Returns the dialog of the first request that is still waiting.
    pub(crate) fn first_dialog(&mut self, theme: &Theme) -> Option<Overlay> {
        self.remove_ended();
        self.0.front().map(|request| request.dialog(theme))
    }

    /// Answers the first request, or a field of it. Returns the dialog that follows, or `None`
    /// after the reply.
    ///
    /// # Errors
    /// Returns why a value is invalid.
    pub(crate) fn answer(
        &mut self,
        answer: ServerAnswer<'_>,
        theme: &Theme,
    ) -> Result<Option<Overlay>, String> {
        let Some(request) = self.0.front_mut() else { return Ok(None) };
        let id = match answer {
            ServerAnswer::Choice(id) => id,
            ServerAnswer::Closed => {
                self.reply(|_| UserResponse::Cancel);
                return Ok(None);
            }
            ServerAnswer::Field(typed) => {
                let next = request.field_typed(typed, theme)?;
                if next.is_none() {
                    self.reply(UserResponse::Accept);
                }
                return Ok(next);
            }
        };
        match (id, &request.kind) {
            ("yes", RequestKind::Url(url)) => {
                // Normalized as in a browser, which encodes characters that change the text
                // direction.
                open_address(url::Url::parse(url).as_ref().map_or(url, url::Url::as_str));
                self.reply(UserResponse::Accept);
            }
            ("yes", RequestKind::SignIn | RequestKind::Sample(_)) => {
                self.reply(UserResponse::Accept)
            }
            ("always", RequestKind::Sample(_)) => self.reply(|_| UserResponse::Always),
            ("yes", RequestKind::Form) => {
                let next = request.first_field(theme);
                if next.is_none() {
                    self.reply(UserResponse::Accept);
                }
                return Ok(next);
            }
            ("never", _) => self.reply(|_| UserResponse::Never),
            _ => self.reply(|_| UserResponse::Decline),
        }
        Ok(None)
    }

    fn reply(&mut self, answer: impl FnOnce(Object) -> UserResponse) {
        if let Some(request) = self.0.pop_front() {
            // The server may have stopped waiting.
            let _ = request.reply.send(answer(request.values));
        }
    }
}

/// Returns the beginning of a sampling prompt and the details below it.
fn sample_facts(system: &str, prompt: &str, tokens: u64, left: u64) -> (String, Vec<String>) {
    let start = |text: &str, limit: usize| {
        let rows = text.lines().take(ROWS).collect::<Vec<_>>().join("\n");
        let shown: String = rows.chars().take(limit).collect();
        let left_out = text.trim_end().chars().count().saturating_sub(shown.chars().count());
        (shown, left_out)
    };
    let mut details = Vec::new();
    let (shown, left_out) = start(prompt, MAX_SHOWN);
    if left_out > 0 {
        details.push(format!("({left_out} more characters)"));
    }
    if !system.trim().is_empty() {
        let (system, left_out) = start(system, MAX_SHOWN / 3);
        let more = match left_out {
            0 => String::new(),
            _ => format!(" ({left_out} more characters)"),
        };
        details.push(format!("System prompt of the server: {}{more}", sanitize(&system)));
    }
    details.push(format!(
        "The answer goes only to the server and can use at most {tokens} of its remaining {left} \
         tokens. No content of this session is sent."
    ));
    (shown, details)
}

/// Whether an address may be opened in a browser.
fn is_page(address: &str) -> bool {
    url::Url::parse(address).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_is_answered_field_by_field() {
        let (reply, mut answer) = oneshot::channel();
        let schema = serde_json::json!({"type": "object", "required": ["n"],
            "properties": {"n": {"type": "integer"}, "b": {"type": "boolean"}}});
        let question = UserRequest::Form { message: "Who?".to_owned(), schema };
        let theme = Theme::default();
        let mut requests = ServerRequests::default();
        requests.push(ServerRequest::new("s", question, reply).expect("a form"));
        assert!(
            requests
                .first_dialog(&theme)
                .is_some_and(|it| it.purpose == DialogPurpose::ServerQuestion)
        );
        let mut step = |answer| requests.answer(answer, &theme).map(|next| next.is_some());
        assert_eq!(step(ServerAnswer::Choice("yes")), Ok(true));
        assert_eq!(step(ServerAnswer::Field("x")), Err("must be an integer".to_owned()));
        assert_eq!(step(ServerAnswer::Field("7")), Ok(true));
        assert_eq!(step(ServerAnswer::Field("")), Ok(false));
        let Ok(UserResponse::Accept(values)) = answer.try_recv() else { panic!("no answer") };
        assert_eq!(values.get("n"), Some(&serde_json::json!(7)));
        assert!(!requests.is_waiting());
    }

    #[test]
    fn request_that_cannot_be_shown_is_declined() {
        let (reply, mut answer) = oneshot::channel();
        let question = UserRequest::Url { message: String::new(), url: "file:///etc".to_owned() };
        let reason = ServerRequest::new("s", question, reply).err();
        assert_eq!(reason.as_deref(), Some("to open `file:///etc`, which is not a web page"));
        assert!(matches!(answer.try_recv(), Ok(UserResponse::Decline)));
    }
}
