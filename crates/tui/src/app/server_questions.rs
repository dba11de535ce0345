//! Questions of MCP servers: an address to open, or a form, a field at a time.

use std::collections::VecDeque;

use parallax_protocol::Object;
use parallax_screen::Line;
use parallax_sdk::mcp_view::{Answer, Question, open_address};
use serde_json::{Number, Value};
use tokio::sync::oneshot;

use super::App;
use super::lists::clean;
use super::overlay::{Overlay, Purpose};
use crate::dialog::{Field, FieldDialog, ListDialog, ListItem};

/// Fields of one form; of more it is no question for people.
const MOST: usize = 30;
/// Characters of a server's text.
const LONGEST: usize = 2_000;
/// The answer that ends all questions of a server.
const NO_MORE: &str = "No, and no more questions from this server in this session";
/// Characters, and rows, of a prompt for the model: the choices stay in the window.
const SHOWN: usize = 700;
const ROWS: usize = 8;

/// A question, and how far it is answered.
pub(crate) struct ServerQuestion {
    server: String,
    message: String,
    asked: Asked,
    /// What is still to be asked.
    fields: VecDeque<FormField>,
    values: Object,
    reply: oneshot::Sender<Answer>,
}

/// What kind of question it is.
enum Asked {
    Form,
    Url(String),
    /// To sign in, which this program asks.
    SignIn,
    /// To have the model answer; with what a person should know of it.
    Sample(Vec<String>),
}

/// A field of a form.
#[derive(Debug, Clone, PartialEq)]
struct FormField {
    name: String,
    title: String,
    description: String,
    required: bool,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Text,
    Number { whole: bool },
    Choice(Vec<String>),
    YesNo,
}

impl App {
    /// A server asks. It waits until no other dialog is open and nobody writes.
    pub(crate) fn server_asks(
        &mut self,
        server: &str,
        question: Question,
        reply: oneshot::Sender<Answer>,
    ) {
        let (message, asked, fields) = match question {
            Question::Url { message, url } => (message, Asked::Url(url), VecDeque::new()),
            Question::SignIn { again } => {
                let why = match again {
                    true => "Its last sign-in no longer counts.",
                    false => "Without it none of its tools can be called.",
                };
                (why.to_owned(), Asked::SignIn, VecDeque::new())
            }
            Question::Sample { system, prompt, tokens, left } => {
                let (shown, facts) = sample_facts(&system, &prompt, tokens, left);
                (shown, Asked::Sample(facts), VecDeque::new())
            }
            Question::Form { message, schema } => match fields(&schema) {
                Some(fields) => (message, Asked::Form, fields),
                None => {
                    self.warn(format!("`{server}` asks something that no form here can hold."));
                    // Whoever asked may be gone.
                    let _ = reply.send(Answer::Decline);
                    return;
                }
            },
        };
        self.note_question();
        let message = message.chars().take(LONGEST).collect();
        let values = Object::new();
        let server = server.to_owned();
        self.server_questions.push_back(ServerQuestion {
            server,
            message,
            asked,
            fields,
            values,
            reply,
        });
        self.next_server_question();
    }

    /// Calls are over: what was asked during them is asked no more.
    pub(crate) fn server_questions_ended(&mut self) {
        let is_open = self.overlay.as_ref().is_some_and(|overlay| {
            matches!(overlay.purpose, Purpose::ServerQuestion | Purpose::ServerField)
        });
        let ended = |question: &ServerQuestion| question.reply.is_closed();
        if is_open && self.server_questions.front().is_some_and(ended) {
            self.overlay = None;
            self.toast("the server does not wait for an answer any more");
        }
        self.server_questions.retain(|question| !ended(question));
        self.next_server_question();
    }

    /// Opens the first question that waits, when there is room for it.
    pub(super) fn next_server_question(&mut self) {
        if self.overlay.is_some() || self.is_writing() {
            return;
        }
        self.server_questions.retain(|question| !question.reply.is_closed());
        let Some(question) = self.server_questions.front() else { return };
        let text = self.theme.text;
        let mut intro: Vec<Line> =
            question.message.lines().map(|line| Line::styled(clean(line), text)).collect();
        let mut title = format!("The MCP server `{}` asks", clean(&question.server));
        let items = match &question.asked {
            Asked::Url(url) => {
                intro.push(Line::styled(clean(url), self.theme.link));
                vec![
                    ListItem::new("no", "No", ""),
                    ListItem::new("yes", "Open this address in the browser", ""),
                    ListItem::new("never", NO_MORE, ""),
                ]
            }
            Asked::SignIn => {
                title = format!("The MCP server `{}` wants a sign-in", clean(&question.server));
                let later = format!("`/mcp auth {}` does it later", clean(&question.server));
                vec![
                    ListItem::new("yes", "Sign in with the browser", ""),
                    ListItem::new("no", "Not now", later),
                ]
            }
            Asked::Sample(facts) => {
                title.push_str(" for an answer of the model");
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
            Asked::Form => vec![
                ListItem::new("yes", "Answer", "a field at a time"),
                ListItem::new("no", "Do not answer", ""),
                ListItem::new("never", NO_MORE, ""),
            ],
        };
        let list = ListDialog::new(title, items).intro(intro);
        self.open_unasked(Overlay::list(Purpose::ServerQuestion, list));
    }

    /// Whether it is answered at all.
    pub(super) fn server_question_taken(&mut self, id: &str) {
        self.overlay = None;
        match (id, self.server_questions.front()) {
            ("yes", Some(ServerQuestion { asked: Asked::Url(url), .. })) => {
                open_address(url);
                self.reply(Answer::Accept);
            }
            ("yes", Some(ServerQuestion { asked: Asked::SignIn, .. })) => {
                self.reply(Answer::Accept)
            }
            (_, Some(ServerQuestion { asked: Asked::Sample(_), .. })) => match id {
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

    /// The dialog was left.
    pub(super) fn server_question_left(&mut self) {
        self.overlay = None;
        self.reply(|_| Answer::Cancel);
    }

    fn next_field(&mut self) {
        let Some(question) = self.server_questions.front() else { return };
        let Some(field) = question.fields.front() else {
            return self.reply(Answer::Accept);
        };
        let title = format!("{}: {}", clean(&question.server), clean(&field.title));
        let mut intro = vec![clean(&field.description)];
        intro.retain(|text| !text.is_empty());
        if !field.required {
            intro.push("It may be left empty.".to_owned());
        }
        let choices = match &field.kind {
            Kind::Choice(choices) => choices.clone(),
            Kind::YesNo => vec!["true".to_owned(), "false".to_owned()],
            Kind::Text | Kind::Number { .. } => {
                let dialog = FieldDialog::new(title, intro, Field::default());
                return self.open(Overlay::field(Purpose::ServerField, dialog));
            }
        };
        let label = |choice: &String| match (&field.kind, choice.as_str()) {
            (Kind::YesNo, "true") => "Yes".to_owned(),
            (Kind::YesNo, _) => "No".to_owned(),
            (_, choice) => clean(choice),
        };
        let mut items: Vec<ListItem> =
            choices.iter().map(|it| ListItem::new(it.clone(), label(it), "")).collect();
        if !field.required {
            items.push(ListItem::new("", "(nothing)", ""));
        }
        let rows = intro.into_iter().map(|row| Line::styled(row, self.theme.text)).collect();
        let list = ListDialog::new(title, items).intro(rows);
        self.open(Overlay::list(Purpose::ServerField, list));
    }

    /// A field was filled in.
    pub(super) fn server_field(&mut self, typed: &str) {
        let Some(question) = self.server_questions.front_mut() else { return };
        let Some(field) = question.fields.front() else { return };
        match field.read(typed) {
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
            // Whoever asked may be gone.
            let _ = question.reply.send(answer(question.values));
        }
        self.next_server_question();
    }
}

/// The beginning of a prompt for the model, and what stands below it.
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
        facts.push(format!("(and {left_out} more characters)"));
    }
    if !system.trim().is_empty() {
        let (system, left_out) = begin(system, SHOWN / 3);
        let more = match left_out {
            0 => String::new(),
            _ => format!(" (and {left_out} more characters)"),
        };
        facts.push(format!("System prompt of the server: {}{more}", clean(&system)));
    }
    facts.push(format!(
        "The answer goes to the server alone: at most {tokens} tokens, of {left} that it has left. \
         Nothing of this session is sent with it."
    ));
    (shown, facts)
}

impl FormField {
    /// The value of what was typed; `None`: left out.
    fn read(&self, typed: &str) -> Result<Option<Value>, &'static str> {
        let trimmed = typed.trim();
        if trimmed.is_empty() {
            return if self.required { Err("it must be filled in") } else { Ok(None) };
        }
        Ok(Some(match &self.kind {
            Kind::Text | Kind::Choice(_) => Value::String(typed.to_owned()),
            Kind::YesNo => Value::Bool(trimmed == "true"),
            Kind::Number { whole: true } => {
                Value::from(trimmed.parse::<i64>().map_err(|_| "it must be a whole number")?)
            }
            Kind::Number { whole: false } => {
                let number = trimmed.parse::<f64>().ok().and_then(Number::from_f64);
                Value::Number(number.ok_or("it must be a number")?)
            }
        }))
    }
}

/// The fields of a flat form; `None` when it is none.
fn fields(schema: &Value) -> Option<VecDeque<FormField>> {
    let properties = schema.get("properties").and_then(Value::as_object)?;
    if properties.len() > MOST {
        return None;
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let field = |(name, property): (&String, &Value)| {
        let text = |key: &str| property.get(key).and_then(Value::as_str).unwrap_or_default();
        let texts = |list: &Value, key: Option<&str>| -> Option<Vec<String>> {
            let items = list.as_array()?.iter();
            let item = |it: &Value| match key {
                Some(key) => it.get(key)?.as_str().map(str::to_owned),
                None => it.as_str().map(str::to_owned),
            };
            items.map(item).collect()
        };
        let choices = match (property.get("enum"), property.get("oneOf")) {
            (Some(list), _) => Some(texts(list, None)?),
            (None, Some(list)) => Some(texts(list, Some("const"))?),
            (None, None) => None,
        };
        let kind = match (choices, text("type")) {
            (Some(choices), _) => Kind::Choice(choices),
            (None, "boolean") => Kind::YesNo,
            (None, "integer") => Kind::Number { whole: true },
            (None, "number") => Kind::Number { whole: false },
            (None, "string") => Kind::Text,
            (None, _) => return None,
        };
        let title = if text("title").is_empty() { name } else { text("title") };
        Some(FormField {
            title: title.to_owned(),
            description: text("description").chars().take(LONGEST).collect(),
            required: required.contains(&name.as_str()),
            name: name.clone(),
            kind,
        })
    };
    properties.iter().map(field).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_flat_form_is_read_and_its_values_have_their_types() {
        let schema = json!({"type": "object", "required": ["n", "s"], "properties": {
            "s": {"type": "string", "title": "Name"}, "n": {"type": "integer"},
            "x": {"type": "number"}, "b": {"type": "boolean"},
            "c": {"type": "string", "enum": ["a", "b"]}}});
        let fields = fields(&schema).expect("a form");
        let read = |name: &str, typed: &str| {
            fields.iter().find(|field| field.name == name).expect("a field").read(typed)
        };
        assert_eq!(read("s", " a "), Ok(Some(json!(" a "))));
        assert!(read("s", "").is_err() && read("n", "1.5").is_err());
        assert_eq!(read("n", " 7 "), Ok(Some(json!(7))));
        assert_eq!((read("x", "1.5"), read("x", "")), (Ok(Some(json!(1.5))), Ok(None)));
        assert_eq!(read("b", "false"), Ok(Some(json!(false))));
        assert_eq!(read("c", "b"), Ok(Some(json!("b"))));
        assert_eq!(super::fields(&json!({"properties": {"o": {"type": "object"}}})), None);
    }
}
