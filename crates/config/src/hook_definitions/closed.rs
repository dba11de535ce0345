//! `failClosed`: whether a failure of a hook denies the action.

use serde_json::Value;

/// Reads the value, with a warning if it is not a boolean. A typo never disables a guard: every
/// value that does not mean "no" means "yes".
pub(super) fn fail_closed(value: Option<&Value>) -> (bool, Option<String>) {
    let is_no = match value {
        None | Some(Value::Null | Value::Bool(false)) => true,
        Some(Value::Bool(true)) => return (true, None),
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        Some(Value::String(word)) => {
            ["false", "no"].iter().any(|no| word.trim().eq_ignore_ascii_case(no))
        }
        Some(_) => false,
    };
    let note = value.filter(|_| !is_no).map(|value| {
        let excerpt: String = value.to_string().chars().take(60).collect();
        format!("`failClosed` is {excerpt} instead of `true` or `false`; it is treated as `true`")
    });
    (!is_no, note)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_explicit_false_values_disable_fail_closed_hooks() {
        for no in [json!(null), json!(false), json!(0), json!("false"), json!("No ")] {
            assert_eq!(fail_closed(Some(&no)), (false, None), "{no}");
        }
        assert_eq!(fail_closed(None), (false, None));
        assert_eq!(fail_closed(Some(&json!(true))), (true, None));
        for slip in [json!("true"), json!(1), json!("yes"), json!("ture"), json!([]), json!({})] {
            let (closed, note) = fail_closed(Some(&slip));
            assert!(closed && note.is_some_and(|note| note.contains(&slip.to_string())), "{slip}");
        }
    }
}
