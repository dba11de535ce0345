//! Requests of MCP servers: a URL to open, or a form, shown one field at a time.

use std::collections::VecDeque;

use parallax_protocol::Object;
use parallax_screen::Line;
use parallax_sdk::mcp_view::{Answer, Question, open_address};
use tokio::sync::oneshot;

use super::App;
use super::lists::clean;
use super::overlay::{Overlay, Purpose};
use super::server_form::{Choice, FormField, Kind, fields};
use crate::dialog::{Field, FieldDialog, ListDialog, ListItem};

/// The maximum number of characters of a server's text.
const LONGEST: usize = 2_000;
/// The answer that declines all further requests of a server.
const NO_MORE: &str = "No, and don't ask again for this server this session";
/// The id of the row that ends a multiple choice. Server values contain no control characters.
const CHOSEN: &str = "\u{4}";
/// Maximum characters and rows shown of a sampling prompt, so that the choices stay visible.
const SHOWN: usize = 700;
const ROWS: usize = 8;

/// A request of an MCP server and the answers so far.
pub(crate) struct ServerQuestion {
    server: String,
    message: String,
    asked: ServerRequestKind,
    /// The fields that are not answered yet.
    fields: VecDeque<FormField>,
    /// The choices so far of a multiple-choice field.
    chosen: Vec<String>,
    values: Object,
    reply: oneshot::Sender<Answer>,
}

/// The kind of request.
enum ServerRequestKind {
    Form,
    Url(String),
    /// A sign-in request, which Parallax itself makes.
    SignIn,
    /// A sampling request, with details for the user.
    Sample(Vec<String>),
}

impl App {
    /// Queues a request of a server. It waits until no other dialog is open and the user is not
    /// typing.
    pub(crate) fn server_asks(
        &mut self,
        server: &str,
        question: Question,
        reply: oneshot::Sender<Answer>,
    ) {
        let (message, asked, fields) = match question {
            Question::Url { message, url } => {
                (message, ServerRequestKind::Url(url), VecDeque::new())
            }
            Question::SignIn { again } => {
                let why = match again {
                    true => "The last sign-in is no longer valid.",
                    false => "Its tools cannot be called without authentication.",
                };
                (why.to_owned(), ServerRequestKind::SignIn, VecDeque::new())
            }
            Question::Sample { system, prompt, tokens, left } => {
                let (shown, facts) = sample_facts(&system, &prompt, tokens, left);
                (shown, ServerRequestKind::Sample(facts), VecDeque::new())
            }
            Question::Form { message, schema } => match fields(&schema) {
                Some(fields) => (message, ServerRequestKind::Form, fields),
                None => {
                    return self.cannot_ask(server, "for a form that is not supported", reply);
                }
            },
        };
        if let ServerRequestKind::Url(url) = &asked
            && !is_page(url)
        {
            let what = format!("to open `{}`, which is not a web page", clean(url));
            return self.cannot_ask(server, &what, reply);
        }
        self.note_question();
        let message = message.chars().take(LONGEST).collect();
        let values = Object::new();
        let server = server.to_owned();
        self.server_questions.push_back(ServerQuestion {
            server,
            message,
            asked,
            fields,
            chosen: Vec::new(),
            values,
            reply,
        });
        self.next_server_question();
    }

    /// Declines a request that cannot be shown.
    fn cannot_ask(&mut self, server: &str, what: &str, reply: oneshot::Sender<Answer>) {
        self.warn(format!(
            "Declined a request of MCP server `{}`: it asked {what}.",
            clean(server)
        ));
        // The server may have stopped waiting.
        let _ = reply.send(Answer::Decline);
    }

    /// Removes requests whose calls have ended.
    pub(crate) fn server_questions_ended(&mut self) {
        let is_open = self.overlay.as_ref().is_some_and(|overlay| {
            matches!(overlay.purpose, Purpose::ServerQuestion | Purpose::ServerField)
        });
        let ended = |question: &ServerQuestion| question.reply.is_closed();
        if is_open && self.server_questions.front().is_some_and(ended) {
            self.overlay = None;
            self.toast("the server no longer waits for an answer");
        }
        self.server_questions.retain(|question| !ended(question));
        self.next_server_question();
    }

    /// Opens the first waiting request if no other dialog is open.
    pub(super) fn next_server_question(&mut self) {
        if self.overlay.is_some() || self.is_writing() {
            return;
        }
        self.server_questions.retain(|question| !question.reply.is_closed());
        let Some(question) = self.server_questions.front() else { return };
        let text = self.theme.text;
        let mut intro: Vec<Line> =
            question.message.lines().map(|line| Line::styled(clean(line), text)).collect();
        let mut title = format!("Request from MCP server `{}`", clean(&question.server));
        let items = match &question.asked {
            ServerRequestKind::Url(url) => {
                intro.push(Line::styled(clean(url), self.theme.link));
                vec![
                    ListItem::new("no", "No", ""),
                    ListItem::new("yes", "Open this URL in the browser", ""),
                    ListItem::new("never", NO_MORE, ""),
                ]
            }
            ServerRequestKind::SignIn => {
                title = format!("MCP server `{}` requires authentication", clean(&question.server));
                let later = format!("`/mcp auth {}` signs in later", clean(&question.server));
                vec![
                    ListItem::new("yes", "Sign in with the browser", ""),
                    ListItem::new("no", "Not now", later),
                ]
            }
            ServerRequestKind::Sample(facts) => {
                title.push_str(" to call the model");
                let facts =
                    facts.iter().map(|fact| Line::styled(fact.clone(), self.theme.secondary));
                intro.extend(facts);
                vec![
                    ListItem::new("no", "No", ""),
                    ListItem::new("yes", "Answer this one", ""),
                    ListItem::new("always", "Always for this server in this session", ""),
                    ListItem::new("never", "Never for this server in this session", ""),
                ]
            }
            ServerRequestKind::Form => vec![
                ListItem::new("yes", "Answer", "one field at a time"),
                ListItem::new("no", "Do not answer", ""),
                ListItem::new("never", NO_MORE, ""),
            ],
        };
        let list = ListDialog::new(title, items).intro(intro);
        self.open_automatically(Overlay::list(Purpose::ServerQuestion, list));
    }

    /// Handles the answer to whether the request is answered.
    pub(super) fn server_question_taken(&mut self, id: &str) {
        self.overlay = None;
        match (id, self.server_questions.front()) {
            ("yes", Some(ServerQuestion { asked: ServerRequestKind::Url(url), .. })) => {
                // Normalized as in a browser, which encodes characters that change the text
                // direction.
                open_address(url::Url::parse(url).as_ref().map_or(url, url::Url::as_str));
                self.reply(Answer::Accept);
            }
            ("yes", Some(ServerQuestion { asked: ServerRequestKind::SignIn, .. })) => {
                self.reply(Answer::Accept)
            }
            (_, Some(ServerQuestion { asked: ServerRequestKind::Sample(_), .. })) => match id {
                "yes" => self.reply(Answer::Accept),
                "always" => self.reply(|_| Answer::Always),
                "never" => self.reply(|_| Answer::Never),
                _ => self.reply(|_| Answer::Decline),
            },
            ("yes", Some(_)) => self.next_field(),
            ("never", _) => self.reply(|_| Answer::Never),
            _ => self.reply(|_| Answer::Decline),
        }
    }

    /// Handles a dialog that was closed.
    pub(super) fn server_question_left(&mut self) {
        self.overlay = None;
        self.reply(|_| Answer::Cancel);
    }

    fn next_field(&mut self) {
        let Some(question) = self.server_questions.front_mut() else { return };
        let Some(field) = question.fields.front() else {
            return self.reply(Answer::Accept);
        };
        question.chosen = match field.kind {
            Kind::Several(_) => field.default.clone(),
            _ => Vec::new(),
        };
        self.show_field(None);
    }

    /// Opens the dialog of the first field; `at` is the row of the cursor.
    fn show_field(&mut self, at: Option<&str>) {
        let Some(question) = self.server_questions.front() else { return };
        let Some(field) = question.fields.front() else { return };
        let title = format!("{}: {}", clean(&question.server), clean(&field.title));
        let mut intro = vec![clean(&field.description)];
        intro.retain(|text| !text.is_empty());
        if !field.required {
            intro.push("Can be left empty.".to_owned());
        }
        let default = field.default.first().cloned().unwrap_or_default();
        let mut at = at.unwrap_or(&default).to_owned();
        let mut items: Vec<ListItem> = match &field.kind {
            Kind::Text | Kind::Number { .. } => {
                let dialog = FieldDialog::new(title, intro, Field::with(default));
                return self.open(Overlay::field(Purpose::ServerField, dialog));
            }
            Kind::YesNo => {
                vec![ListItem::new("true", "Yes", ""), ListItem::new("false", "No", "")]
            }
            Kind::Choice(choices) => {
                let item = |it: &Choice| ListItem::new(it.value.clone(), clean(&it.title), "");
                choices.iter().map(item).collect()
            }
            Kind::Several(choices) => {
                let item = |it: &Choice| {
                    let mark = if question.chosen.contains(&it.value) { "[x]" } else { "[ ]" };
                    ListItem::new(it.value.clone(), format!("{mark} {}", clean(&it.title)), "")
                };
                let done = ListItem::new(CHOSEN, "Done", "");
                choices.iter().map(item).chain([done]).collect()
            }
        };
        if !field.required && !matches!(field.kind, Kind::Several(_)) {
            items.push(ListItem::new("", "(nothing)", ""));
        }
        if at.is_empty() {
            at = items.first().map(|item| item.id.clone()).unwrap_or_default();
        }
        let rows = intro.into_iter().map(|row| Line::styled(row, self.theme.text)).collect();
        let list = ListDialog::new(title, items).intro(rows).at(&at);
        self.open(Overlay::list(Purpose::ServerField, list));
    }

    /// Handles a field value, or toggles one of several choices.
    pub(super) fn server_field(&mut self, typed: &str) {
        let Some(question) = self.server_questions.front_mut() else { return };
        let Some(field) = question.fields.front() else { return };
        let read = match &field.kind {
            Kind::Several(_) if typed == CHOSEN => field.read_several(&question.chosen),
            Kind::Several(choices) => {
                match question.chosen.iter().position(|it| it == typed) {
                    Some(place) => drop(question.chosen.remove(place)),
                    None => question.chosen.push(typed.to_owned()),
                }
                // In the order given by the server.
                let order = |it: &String| choices.iter().position(|choice| choice.value == *it);
                question.chosen.sort_by_key(order);
                return self.show_field(Some(typed));
            }
            _ => field.read(typed),
        };
        match read {
            Ok(value) => {
                if let Some(value) = value {
                    question.values.insert(field.name.clone(), value);
                }
                question.fields.pop_front();
                self.overlay = None;
                self.next_field();
            }
            Err(why) => self.toast(why),
        }
    }

    fn reply(&mut self, answer: impl FnOnce(Object) -> Answer) {
        if let Some(question) = self.server_questions.pop_front() {
            // The server may have stopped waiting.
            let _ = question.reply.send(answer(question.values));
        }
        self.next_server_question();
    }
}

/// Returns the beginning of a sampling prompt and the details below it.
fn sample_facts(system: &str, prompt: &str, tokens: u64, left: u64) -> (String, Vec<String>) {
    let begin = |text: &str, most: usize| {
        let rows = text.lines().take(ROWS).collect::<Vec<_>>().join("\n");
        let shown: String = rows.chars().take(most).collect();
        let left_out = text.trim_end().chars().count().saturating_sub(shown.chars().count());
        (shown, left_out)
    };
    let mut facts = Vec::new();
    let (shown, left_out) = begin(prompt, SHOWN);
    if left_out > 0 {
        facts.push(format!("({left_out} more characters)"));
    }
    if !system.trim().is_empty() {
        let (system, left_out) = begin(system, SHOWN / 3);
        let more = match left_out {
            0 => String::new(),
            _ => format!(" ({left_out} more characters)"),
        };
        facts.push(format!("System prompt of the server: {}{more}", clean(&system)));
    }
    facts.push(format!(
        "The answer goes only to the server and has at most {tokens} of the {left} tokens that it \
         may still use. No content of this session is sent."
    ));
    (shown, facts)
}

/// Whether an address may be opened in a browser.
fn is_page(address: &str) -> bool {
    url::Url::parse(address).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}
