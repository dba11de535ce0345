//! The parameters of `ListTasks`.

use jiff::Timestamp;
use serde_json::Value;

use super::errors::A2aError;
use super::task::{TaskSnapshot, TaskState};

/// Number of tasks per page, unless the client specifies it.
const PAGE: usize = 50;
/// Maximum number of tasks per page.
const MAX_PAGE: u64 = 100;

/// Which tasks are listed, and which of their data.
#[derive(Debug)]
pub(super) struct TaskQuery {
    pub(super) context: Option<String>,
    state: Option<TaskState>,
    after: Option<Timestamp>,
    /// The position of the first one.
    pub(super) start: usize,
    pub(super) size: usize,
    /// Messages of each task.
    pub(super) history: usize,
    pub(super) has_artifacts: bool,
}

impl TaskQuery {
    /// Reads the parameters. In the query of a URL, all of them are strings.
    pub(super) fn read(params: &Value) -> Result<Self, A2aError> {
        let invalid =
            |name: &str, reason: &str| A2aError::InvalidParams(format!("`{name}` {reason}"));
        let parameter = |name: &str| params.get(name).filter(|value| !value.is_null());
        let text = |name: &str| parameter(name).and_then(Value::as_str).filter(|it| !it.is_empty());
        let number = |name: &str| match parameter(name) {
            None => Ok(None),
            Some(Value::String(text)) => {
                text.parse::<u64>().map(Some).map_err(|_| invalid(name, "is not a number"))
            }
            Some(value) => value.as_u64().map(Some).ok_or_else(|| invalid(name, "is not a number")),
        };
        let size = match number("pageSize")? {
            None => PAGE,
            Some(size @ 1..=MAX_PAGE) => usize::try_from(size).unwrap_or(PAGE),
            Some(_) => return Err(invalid("pageSize", "is not from 1 to 100")),
        };
        let start = match text("pageToken") {
            Some(token) => token.parse().map_err(|_| invalid("pageToken", "is not valid"))?,
            None => 0,
        };
        let state = match text("status") {
            Some(word) => Some(
                TaskState::parse(word)
                    .ok_or_else(|| A2aError::InvalidParams(format!("unknown status `{word}`")))?,
            ),
            None => None,
        };
        let after = match text("statusTimestampAfter") {
            Some(time) => Some(
                time.parse().map_err(|_| invalid("statusTimestampAfter", "is not a timestamp"))?,
            ),
            None => None,
        };
        let has_artifacts = match parameter("includeArtifacts") {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(Value::String(flag)) => flag == "true",
            Some(_) => return Err(invalid("includeArtifacts", "is not true or false")),
        };
        let history = usize::try_from(number("historyLength")?.unwrap_or(0)).unwrap_or(usize::MAX);
        let context = text("contextId").map(str::to_owned);
        Ok(Self { context, state, after, start, size, history, has_artifacts })
    }

    /// Whether states or times select tasks.
    pub(super) fn has_filters(&self) -> bool {
        self.state.is_some() || self.after.is_some()
    }

    /// Whether a task matches the query.
    pub(super) fn matches(&self, task: &TaskSnapshot) -> bool {
        self.state.is_none_or(|state| state == task.state)
            && self
                .after
                .is_none_or(|after| task.time.parse::<Timestamp>().is_ok_and(|time| time >= after))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_of_bodies_and_of_queries_are_read() {
        for params in [
            json!({"pageSize": 7, "historyLength": 2, "includeArtifacts": true, "pageToken": "3"}),
            json!({"pageSize": "7", "historyLength": "2", "includeArtifacts": "true", "pageToken": "3"}),
        ] {
            let query = TaskQuery::read(&params).expect("a query");
            assert_eq!(
                (query.size, query.history, query.has_artifacts, query.start),
                (7, 2, true, 3)
            );
        }
        let query = TaskQuery::read(&json!({})).expect("a query");
        assert_eq!((query.size, query.history, query.has_artifacts), (50, 0, false));
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        for params in [
            json!({"pageSize": 0}),
            json!({"pageSize": 101}),
            json!({"pageSize": "x"}),
            json!({"pageSize": -1}),
            json!({"pageToken": "x"}),
            json!({"status": "done"}),
            json!({"statusTimestampAfter": "yesterday"}),
            json!({"includeArtifacts": 5}),
        ] {
            assert!(TaskQuery::read(&params).is_err(), "{params}");
        }
    }
}
