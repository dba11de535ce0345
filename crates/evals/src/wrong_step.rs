//! Finds the first step of a failed run that went wrong, so that its reader knows where to look.

use crate::agent::AgentRun;
use crate::check::Check;
use crate::results::{CheckResult, FailedStep};

/// Maximum number of characters of a problem.
const MAX_PROBLEM: usize = 300;

/// Returns the step of a tool call.
fn step_of_call(run: &AgentRun, index: usize, problem: &str) -> Option<FailedStep> {
    let call = run.calls.get(index)?;
    let number = u64::try_from(index).unwrap_or(u64::MAX).saturating_add(1);
    Some(FailedStep {
        step: call.step,
        call: Some(number),
        tool: Some(call.tool.clone()),
        problem: problem.chars().take(MAX_PROBLEM).collect(),
    })
}

/// Returns the answer, which the last step gave or failed to give.
fn step_of_answer(run: &AgentRun, problem: &str) -> FailedStep {
    let problem = problem.chars().take(MAX_PROBLEM).collect();
    // A request that failed is not among the completed steps.
    let step = run.steps.saturating_add(u64::from(run.error.is_some()));
    FailedStep { step: step.max(1), call: None, tool: None, problem }
}

/// Returns the first wrong step: the first tool call that failed or that a failed check is about, or
/// else the answer. `None` if the run passed or had no step.
pub(crate) fn first_wrong_step(
    run: &AgentRun,
    checks: &[Check],
    results: &[CheckResult],
) -> Option<FailedStep> {
    let failed_call = run.calls.iter().position(|call| call.error.is_some()).and_then(|index| {
        let problem = run.calls.get(index)?.error.clone()?;
        step_of_call(run, index, &format!("it failed: {problem}"))
    });
    let is_wrong = run.error.is_some() || results.iter().any(|result| !result.pass);
    if !is_wrong || (run.steps == 0 && run.error.is_none()) {
        return None;
    }
    let failed_checks = results.iter().enumerate().filter(|(_, result)| !result.pass);
    let steps_of_checks = failed_checks.map(|(at, result)| {
        let detail = result.detail.as_deref().unwrap_or("the check failed");
        let problem = format!("{}: {detail}", result.kind);
        // The judge's result has no check.
        let call = checks.get(at).and_then(|check| responsible_call(run, check));
        call.and_then(|index| step_of_call(run, index, &problem))
            .unwrap_or_else(|| step_of_answer(run, &problem))
    });
    let step_of_error = run.error.iter().map(|error| step_of_answer(run, error));
    // If a step has several problems, the first counts.
    failed_call.into_iter().chain(step_of_error).chain(steps_of_checks).min_by_key(|step| step.step)
}

/// Returns the call that a failed check is about.
fn responsible_call(run: &AgentRun, check: &Check) -> Option<usize> {
    let nth_call = |tool: &str, n: usize| {
        let calls = run.calls.iter().enumerate().filter(|(_, call)| call.tool == tool);
        calls.map(|(index, _)| index).nth(n)
    };
    match check {
        // The last change determines the content.
        Check::FileEquals { path, .. } | Check::FileMatches { path, .. } => run
            .calls
            .iter()
            .rposition(|call| call.is_edit() && call.file().is_some_and(|it| it.ends_with(path))),
        Check::ToolNotCalled { tool } => nth_call(tool, 0),
        Check::ToolAtMost { tool, n } => nth_call(tool, *n),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;
    use crate::tool_call::ToolCall;

    fn call(step: u64, tool: &str, file: &str, error: Option<&str>) -> ToolCall {
        ToolCall {
            id: format!("call{step}"),
            tool: tool.to_owned(),
            arguments: json!({"file_path": file}),
            step,
            error: error.map(str::to_owned),
        }
    }

    fn result(pass: bool) -> CheckResult {
        CheckResult { kind: "k".to_owned(), pass, detail: (!pass).then(|| "why".to_owned()) }
    }

    fn run(calls: Vec<ToolCall>) -> AgentRun {
        AgentRun { calls, steps: 4, ..AgentRun::default() }
    }

    #[test]
    fn first_wrong_step_is_a_failed_call_or_one_that_a_check_is_about() {
        let equals = Check::FileEquals { path: PathBuf::from("src/a.txt"), content: String::new() };
        let not_called = Check::ToolNotCalled { tool: "glob".to_owned() };
        let at_most = Check::ToolAtMost { tool: "replace".to_owned(), n: 1 };
        let answer = Check::AnswerMatches { pattern: "x".to_owned() };
        let edits = || {
            vec![
                call(1, "read_file", "src/a.txt", None),
                call(2, "replace", "src/a.txt", None),
                call(3, "replace", "/tmp/x/src/a.txt", None),
                call(3, "glob", "", None),
            ]
        };
        let find = |run: &AgentRun, check: &Check| {
            let found = first_wrong_step(run, std::slice::from_ref(check), &[result(false)]);
            found.map(|found| (found.step, found.call))
        };
        let plain = run(edits());
        assert_eq!(find(&plain, &equals), Some((3, Some(3))));
        assert_eq!(find(&plain, &not_called), Some((3, Some(4))));
        assert_eq!(find(&plain, &at_most), Some((3, Some(3))));
        assert_eq!(find(&plain, &answer), Some((4, None)));
        let mut failed = run(edits());
        failed.calls[1].error = Some("no match".to_owned());
        assert_eq!(find(&failed, &equals), Some((2, Some(2))));
        assert_eq!(first_wrong_step(&failed, &[equals], &[result(true)]), None);
    }

    #[test]
    fn failed_request_is_the_step_after_the_completed_ones() {
        let error = Some("the script ended".to_owned());
        let run = AgentRun { error, steps: 1, ..AgentRun::default() };
        let answer = Check::AnswerMatches { pattern: "x".to_owned() };
        let found = first_wrong_step(&run, &[answer], &[result(false)]).expect("a step");
        assert_eq!((found.step, found.fragment().as_str()), (2, "#request=2"));
        assert_eq!(found.problem, "the script ended");
        assert_eq!(first_wrong_step(&AgentRun::default(), &[], &[result(false)]), None);
    }
}
