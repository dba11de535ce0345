//! Parts in the dialect of the Gemini API, for what other providers send.

use parallax_protocol::Object;
use parallax_protocol::content::Part;
use serde_json::Value;

/// Returns a piece of a thought.
pub fn thought(text: String) -> Part {
    let mut object = Object::new();
    object.insert("text".to_owned(), Value::String(text));
    object.insert("thought".to_owned(), Value::Bool(true));
    Part::from(object)
}

/// Returns a call part. Arguments that are not a JSON object stay the text that they are, which no
/// tool accepts.
pub fn function_call(id: &str, name: &str, arguments: &str) -> Part {
    let args = match arguments.trim() {
        "" => Value::Object(Object::new()),
        text => match serde_json::from_str(text) {
            Ok(Value::Object(args)) => Value::Object(args),
            Ok(Value::Null) => Value::Object(Object::new()),
            _ => Value::String(arguments.to_owned()),
        },
    };
    let mut call = Object::new();
    call.insert("id".to_owned(), Value::String(id.to_owned()));
    call.insert("name".to_owned(), Value::String(name.to_owned()));
    call.insert("args".to_owned(), args);
    let mut object = Object::new();
    object.insert("functionCall".to_owned(), Value::Object(call));
    Part::from(object)
}
