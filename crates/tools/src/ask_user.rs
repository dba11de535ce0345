//! `ask_user`: asks the user questions in a dialog.

use parallax_protocol::question::{QuestionKind, UserQuestion};
use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, Preview, RunContext, Tool,
    ToolError, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::failure::invalid_params;

/// Maximum number of questions of one call.
const QUESTIONS: usize = 4;
/// Number of options of a multiple-choice question.
const OPTIONS: std::ops::RangeInclusive<usize> = 2..=4;
/// Maximum number of characters of a question.
const QUESTION: usize = 2_000;
/// Maximum number of characters of all other strings.
const TEXT: usize = 500;

/// The tool.
#[derive(Debug)]
pub struct AskUser {
    spec: ToolSpec,
}

impl Default for AskUser {
    fn default() -> Self {
        Self::new()
    }
}

impl AskUser {
    /// Creates the tool.
    pub fn new() -> Self {
        let spec = ToolSpec {
            name: "ask_user".into(),
            display_name: "AskUser".into(),
            description: include_str!("ask_user/description.md").trim().into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "questions": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": QUESTIONS,
                        "items": {
                            "type": "object",
                            "properties": {
                                "question": {"type": "string", "minLength": 1},
                                "header": {
                                    "type": "string",
                                    "minLength": 1,
                                    "description": "A label of one or two words."
                                },
                                "type": {"type": "string", "enum": ["choice", "text", "yesno"]},
                                "options": {
                                    "type": "array",
                                    "description": "Only for `choice`: two to four. The user can \
                                        always give another answer.",
                                    "items": {
                                        "type": "object",
                                        "properties": {
                                            "label": {"type": "string", "minLength": 1},
                                            "description": {"type": "string"}
                                        },
                                        "required": ["label", "description"]
                                    }
                                },
                                "multiSelect": {"type": "boolean"},
                                "placeholder": {"type": "string"}
                            },
                            "required": ["question", "header", "type"]
                        }
                    }
                },
                "required": ["questions"]
            }),
            kind: ToolKind::Communicate,
            concurrency: Concurrency::Shared,
            aliases: vec!["AskUserTool".into()],
        };
        Self { spec }
    }
}

impl Tool for AskUser {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let args = Arguments::check(args, &self.spec)?;
        let items = args.value("questions").and_then(Value::as_array);
        let items = items.map(Vec::as_slice).unwrap_or_default();
        if items.len() > QUESTIONS {
            return Err(invalid_params(format!(
                "params/questions must NOT have more than {QUESTIONS} items"
            )));
        }
        let questions = items.iter().enumerate().map(|(index, item)| {
            read(item).map_err(|reason| invalid_params(format!("params/questions/{index}{reason}")))
        });
        let questions = questions.collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(AskUserCall { questions, effects: Effects::default() }))
    }
}

fn read(item: &Value) -> Result<UserQuestion, String> {
    let question: Result<UserQuestion, _> = serde_json::from_value(item.clone());
    let mut question = question.map_err(|error| format!(": {error}"))?;
    question.question = display_text(&question.question, QUESTION);
    question.header = display_text(&question.header, TEXT);
    question.placeholder = question.placeholder.map(|text| display_text(&text, TEXT));
    if question.question.trim().is_empty() {
        return Err("/question must not be empty".to_owned());
    }
    match question.kind {
        QuestionKind::Choice if !OPTIONS.contains(&question.options.len()) => {
            let (least, max) = (OPTIONS.start(), OPTIONS.end());
            return Err(format!("/options must have {least} to {max} items for type `choice`"));
        }
        QuestionKind::Choice => {
            for option in &mut question.options {
                option.label = display_text(&option.label, TEXT);
                option.description = display_text(&option.description, TEXT);
            }
        }
        QuestionKind::Text | QuestionKind::YesNo => {
            question.options.clear();
            question.multi_select = false;
        }
    }
    Ok(question)
}

/// Replaces the `\n` that models write for a line break.
fn display_text(text: &str, limit: usize) -> String {
    text.replace("\\n", "\n").chars().take(limit).collect()
}

struct AskUserCall {
    questions: Vec<UserQuestion>,
    effects: Effects,
}

impl Invocation for AskUserCall {
    fn title(&self) -> String {
        let headers: Vec<&str> =
            self.questions.iter().map(|question| question.header.as_str()).collect();
        format!("Ask: {}", headers.join(", ").replace('\n', " "))
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn preview(&self) -> Option<Preview> {
        Some(Preview::Questions { questions: self.questions.clone() })
    }

    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(std::future::ready(build_result(&self.questions, run.answers)))
    }
}

fn build_result(questions: &[UserQuestion], answers: Option<Object>) -> ToolResult {
    let given_answers: Vec<(usize, &UserQuestion, String)> = questions
        .iter()
        .enumerate()
        .filter_map(|(index, question)| {
            let answer = answers.as_ref()?.get(&index.to_string())?;
            let text = to_text(answer);
            (!text.trim().is_empty()).then_some((index, question, text))
        })
        .collect();
    if given_answers.is_empty() {
        let text = "The user dismissed the questions without an answer.";
        return ToolResult { data: Some(json!({"answers": null})), ..ToolResult::text(text) }
            .with_display(Display::text("no answer"));
    }
    let lines: Vec<String> = given_answers
        .iter()
        .map(|(_, question, text)| format!("{}: {text}", question.header.replace('\n', " ")))
        .collect();
    let answers: Object = given_answers
        .iter()
        .map(|(index, _, text)| (index.to_string(), Value::String(text.clone())))
        .collect();
    let output = json!({"answers": answers});
    ToolResult { data: Some(output.clone()), ..ToolResult::text(output.to_string()) }
        .with_display(Display::text(lines.join("\n")))
}

/// Returns an answer as text; several choices are joined.
fn to_text(answer: &Value) -> String {
    match answer {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "Yes".to_owned(),
        Value::Bool(false) => "No".to_owned(),
        Value::Null => String::new(),
        Value::Array(items) => items.iter().map(to_text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{object, scope};

    fn prepare(questions: Value) -> Result<Box<dyn Invocation>, ToolError> {
        AskUser::new().prepare(object(json!({"questions": questions})), &scope("ask_user"))
    }

    #[test]
    fn user_questions_are_validated() {
        let option = json!({"label": "a", "description": "b"});
        let choice = |options: Value| json!([{"question": "q", "header": "h", "type": "choice", "options": options}]);
        for (questions, part) in [
            (json!([]), "fewer than 1"),
            (choice(json!([option])), "/options must have 2 to 4 items"),
            (json!([{"question": "q", "header": "h", "type": "poem"}]), "allowed values"),
            (json!([{"question": "q", "type": "text"}]), "required property 'header'"),
        ] {
            let reason = prepare(questions.clone()).err().expect("refused").message;
            assert!(reason.contains(part), "{questions}: {reason}");
        }
        let call = prepare(choice(json!([option, option]))).expect("a call");
        let Some(Preview::Questions { questions }) = call.preview() else { panic!("questions") };
        assert_eq!(questions[0].options.len(), 2);
    }

    #[test]
    fn answers_are_keyed_by_question_index() {
        let question = |header: &str| UserQuestion {
            question: "?".into(),
            header: header.into(),
            ..UserQuestion::default()
        };
        let questions = [question("One"), question("Two")];
        let outcome =
            build_result(&questions, Some(object(json!({"1": ["a", "b"], "0": true, "7": "x"}))));
        assert_eq!(outcome.for_model.output, r#"{"answers":{"0":"Yes","1":"a, b"}}"#);
        assert_eq!(outcome.for_user, Some(Display::text("One: Yes\nTwo: a, b")));
        assert!(build_result(&questions, None).for_model.output.contains("dismissed"));
        assert!(build_result(&questions, Some(object(json!({"0": " "})))).error.is_none());
    }
}
