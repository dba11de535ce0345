//! Interprets the output and exit status of one hook.

use std::borrow::Cow;

use parallax_config::hooks::{Hook, HookKind};
use parallax_exec::{PipedOutput, ProcessExit};
use parallax_protocol::Object;
use parallax_protocol::event::Level;
use parallax_protocol::hooks::{HookDecision, HookEvent};
use serde_json::Value;

use crate::message;

/// Maximum size in bytes of a command's answer. A longer answer is ignored, because a truncated one
/// could mean something else.
pub(crate) const ANSWER: usize = 16 * 1024 * 1024;
/// Maximum bytes of a hook's text shown to the user and the model.
const TEXT: usize = 2_000;
/// Maximum bytes of a hook's name.
pub(crate) const TITLE: usize = 200;
/// Maximum bytes that a hook adds to the conversation.
const CONTEXT: usize = 64 * 1024;

/// Result of one hook.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct HookResult {
    /// Name of the hook.
    pub(crate) title: String,
    pub(crate) decision: Option<HookDecision>,
    pub(crate) reason: String,
    pub(crate) stop: Option<String>,
    pub(crate) messages: Vec<(Level, String)>,
    pub(crate) context: Option<String>,
    /// Output lines of a long-running hook that were not answers, for the trace.
    pub(crate) skipped: Vec<String>,
    /// `hookSpecificOutput` without the context.
    pub(crate) output: Object,
    /// How the hook's process ended, for observers.
    pub(crate) end: Option<Box<PipedOutput>>,
}

impl HookResult {
    /// Creates the result of a failed hook: a denial if the hook fails closed, otherwise a warning.
    pub(crate) fn from_failure(hook: &Hook, why: &str) -> Self {
        let mut single =
            Self { messages: vec![message(hook, Level::Warning, why)], ..Self::default() };
        if hook.fail_closed {
            let reason = format!("the hook `{}` must approve: {why}", sanitize(hook.title(), 200));
            single.record_denial(hook, reason);
        }
        single
    }

    /// Denies on behalf of a hook that did not answer. For `AfterAgent`, where a denial sends the
    /// agent back to work, and for guards at `BeforeToolSelection`, where nothing can be denied, it
    /// ends the turn instead.
    fn record_denial(&mut self, hook: &Hook, reason: String) {
        match hook.event {
            HookEvent::AfterAgent => self.stop = Some(reason),
            HookEvent::BeforeToolSelection if hook.fail_closed => self.stop = Some(reason),
            _ => self.deny(reason),
        }
    }

    /// Returns whether later sequential hooks are skipped.
    pub(crate) fn stops_sequence(&self) -> bool {
        self.stop.is_some() || self.decision == Some(HookDecision::Deny)
    }

    /// Turns a denial into a warning, for events at which nothing can be denied.
    fn warn_only(mut self, hook: &Hook) -> Self {
        let denied = (self.decision == Some(HookDecision::Deny)).then_some(&self.reason);
        let Some(reason) = self.stop.as_ref().or(denied).cloned() else { return self };
        (self.decision, self.stop) = (None, None);
        self.reason.clear();
        if !self.messages.iter().any(|(level, _)| *level == Level::Warning) {
            // The message names the hook.
            let title = format!("the hook `{}` ", sanitize(hook.title(), 200));
            let reason = match reason.strip_prefix(&title) {
                Some("denied it") => {
                    format!(
                        "it returned a denial, which has no effect for `{}` events",
                        hook.event.as_str()
                    )
                }
                Some(rest) => format!("it {rest}"),
                None => reason,
            };
            self.messages.push(message(hook, Level::Warning, &reason));
        }
        self
    }

    fn deny(&mut self, reason: String) {
        self.decision = Some(HookDecision::Deny);
        self.reason = reason;
    }
}

/// Interprets how a hook's process ended.
pub(crate) fn interpret(hook: &Hook, end: &PipedOutput) -> HookResult {
    let single = answer(hook, end);
    // The selection of tools can be stopped, but not denied.
    let only_stops = hook.event == HookEvent::BeforeToolSelection && single.stop.is_none();
    if hook.event.can_be_denied() && !only_stops { single } else { single.warn_only(hook) }
}

/// Returns what a hook that did not end by itself printed, to be appended to the reason.
fn last_output(end: &PipedOutput) -> String {
    let raw = if is_blank(&end.stderr) { &end.stdout } else { &end.stderr };
    match trim(&String::from_utf8_lossy(raw)) {
        "" => String::new(),
        text => format!(": {}", sanitize(text, TEXT)),
    }
}

fn answer(hook: &Hook, end: &PipedOutput) -> HookResult {
    let code = match end.exit {
        None => {
            let timeout = hook.timeout.as_secs_f64();
            let seconds = if timeout == 1.0 { "second" } else { "seconds" };
            let why = format!("it timed out after {timeout} {seconds}{}", last_output(end));
            return HookResult::from_failure(hook, &why);
        }
        Some(ProcessExit::Signalled { signal }) => {
            let why = format!("it was terminated by signal {signal}{}", last_output(end));
            return HookResult::from_failure(hook, &why);
        }
        Some(ProcessExit::Exited { code }) => code,
    };
    let raw = if is_blank(&end.stdout) { &end.stderr } else { &end.stdout };
    if raw.len() > ANSWER {
        let why = format!("its output is longer than {} MiB and was ignored", ANSWER >> 20);
        let mut single = HookResult::from_failure(hook, &why);
        // The exit code denies, whatever the output was.
        if !single.stops_sequence() && !matches!(code, 0 | 1) {
            let title = sanitize(hook.title(), 200);
            single.record_denial(hook, format!("the hook `{title}` exited with code {code}"));
        }
        return single;
    }
    let text = String::from_utf8_lossy(raw);
    let text = trim(&text);
    if let Some(object) = parse_object(text) {
        return match (unreadable_reason(&object), hook.fail_closed) {
            (None, _) => read(hook, &object),
            (Some(why), true) => HookResult::from_failure(hook, &why),
            (Some(why), false) => {
                let mut single = read(hook, &object);
                single.messages.push(message(hook, Level::Warning, &why));
                single
            }
        };
    }
    // A failed hook may have printed its reason next to other output.
    let reason = String::from_utf8_lossy(&end.stderr);
    let text = match code == 0 || is_blank(&end.stdout) || is_blank(&end.stderr) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("{}\n{text}", trim(&reason))),
    };
    let sanitized = sanitize(&text, TEXT);
    // A long-running hook can allow only with a valid line.
    let unreadable = text.starts_with(['{', '['])
        || std::str::from_utf8(raw).is_err()
        || hook.kind == HookKind::Process;
    if hook.fail_closed && (code != 0 || unreadable) {
        let why = match code {
            0 => "its output cannot be read".to_owned(),
            code => format!("it exited with code {code}: {sanitized}"),
        };
        return HookResult::from_failure(hook, &why);
    }
    let mut single = HookResult::default();
    match (code, sanitized.is_empty()) {
        (0, true) => {}
        (0, false) => {
            single.decision = Some(HookDecision::Allow);
            if text.starts_with(['{', '[']) {
                let why = "it printed invalid JSON, which is treated as text";
                single.messages.push(message(hook, Level::Warning, why));
            }
            single.messages.push(user_message(&sanitized));
        }
        (1, true) => single.messages.push(message(hook, Level::Warning, "it exited with code 1")),
        (1, false) => {
            single.decision = Some(HookDecision::Allow);
            let why = format!("it exited with code 1: {sanitized}");
            single.messages.push(message(hook, Level::Warning, &why));
        }
        (code, false) if !hook.event.can_be_denied() => {
            let why = format!("it exited with code {code}: {sanitized}");
            single.messages.push(message(hook, Level::Warning, &why));
        }
        (code, true) => {
            let reason =
                format!("the hook `{}` exited with code {code}", sanitize(hook.title(), 200));
            single.record_denial(hook, reason);
        }
        (_, false) => single.deny(sanitized),
    }
    single
}

/// Formats a hook's text for the user, with the prefix that scripts expect.
fn user_message(text: &str) -> (Level, String) {
    (Level::Info, format!("Hook system message: {text}"))
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_whitespace)
}

/// Trims whitespace and a UTF-8 byte order mark, which some programs write.
fn trim(text: &str) -> &str {
    text.trim_matches(|char: char| char.is_whitespace() || char == '\u{feff}')
}

/// Parses a JSON object, or a JSON string that contains one.
pub(crate) fn parse_object(text: &str) -> Option<Object> {
    match serde_json::from_str(trim(text)).ok()? {
        Value::Object(object) => Some(object),
        Value::String(inner) => match serde_json::from_str(&inner).ok()? {
            Value::Object(object) => Some(object),
            _ => None,
        },
        _ => None,
    }
}

/// Returns why an answer is invalid, if the invalid part could be a denial.
fn unreadable_reason(object: &Object) -> Option<String> {
    let sanitized = |value: &Value| sanitize(&value.to_string(), 60);
    match object.get("decision") {
        None | Some(Value::Null) => {}
        Some(Value::String(word)) if word.is_empty() || decision(word).is_some() => {}
        Some(other) => return Some(format!("unknown `decision` {}", sanitized(other))),
    }
    match object.get("continue") {
        None | Some(Value::Null | Value::Bool(_)) => {}
        Some(other) => {
            return Some(format!(
                "`continue` is {} instead of `true` or `false`",
                sanitized(other)
            ));
        }
    }
    match object.get("hookSpecificOutput") {
        None | Some(Value::Null) => None,
        Some(Value::Object(output)) => match output.get("permissionDecision") {
            None | Some(Value::Null) => None,
            Some(Value::String(word)) if decision(word).is_some() => None,
            Some(other) => Some(format!("unknown `permissionDecision` {}", sanitized(other))),
        },
        Some(_) => Some("`hookSpecificOutput` is not an object".to_owned()),
    }
}

fn decision(word: &str) -> Option<HookDecision> {
    match word.trim().to_ascii_lowercase().as_str() {
        "allow" | "approve" => Some(HookDecision::Allow),
        "ask" => Some(HookDecision::Ask),
        "deny" | "block" => Some(HookDecision::Deny),
        _ => None,
    }
}

fn read(hook: &Hook, said: &Object) -> HookResult {
    let text = |name: &str| said.get(name).and_then(Value::as_str).filter(|it| !it.is_empty());
    // Claude Code puts the decision there.
    let theirs = |name: &str| said.get("hookSpecificOutput")?.get(name)?.as_str();
    let reason = text("reason").or_else(|| theirs("permissionDecisionReason"));
    let reason = sanitize(reason.unwrap_or_default(), TEXT);
    let word = text("decision").or_else(|| theirs("permissionDecision"));
    let mut single = HookResult { decision: word.and_then(decision), ..HookResult::default() };
    let silent = said.get("suppressOutput") == Some(&Value::Bool(true));
    if let Some(message_text) = text("systemMessage").filter(|_| !silent) {
        single.messages.push(user_message(&sanitize(message_text, TEXT)));
    }
    if said.get("continue") == Some(&Value::Bool(false)) {
        let why = text("stopReason").map(|why| sanitize(why, TEXT)).filter(|why| !why.is_empty());
        let why = why.or_else(|| Some(reason.clone()).filter(|why| !why.is_empty()));
        single.stop = Some(why.unwrap_or_else(|| "a hook stopped it".to_owned()));
    }
    single.reason = match (single.decision, reason.is_empty()) {
        (Some(HookDecision::Deny), true) => format!("the hook `{}` denied it", hook.title()),
        _ => reason,
    };
    if let Some(Value::Object(output)) = said.get("hookSpecificOutput") {
        let mut output = output.clone();
        for name in ["hookEventName", "permissionDecision", "permissionDecisionReason"] {
            output.remove(name);
        }
        if let Some(changed) = output.remove("updatedInput") {
            output.entry("tool_input").or_insert(changed);
        }
        if let Some(Value::String(context)) = output.remove("additionalContext") {
            single.context =
                Some(sanitize(&context, CONTEXT)).filter(|context| !context.is_empty());
        }
        single.output = output;
    }
    single
}

/// Removes control characters and truncates text to `limit` bytes.
pub(crate) fn sanitize(text: &str, limit: usize) -> String {
    let keep = |char: &char| !char.is_control() || matches!(char, '\n' | '\t');
    let mut clean: String = text.chars().filter(keep).collect();
    if clean.len() > limit {
        let mut end = limit;
        while !clean.is_char_boundary(end) {
            end -= 1;
        }
        clean.truncate(end);
        clean.push('…');
    }
    clean
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use parallax_config::hooks::HookSource;
    use parallax_protocol::hooks::HookEvent;

    use super::*;

    pub(crate) fn hook(fail_closed: bool) -> Hook {
        Hook {
            event: HookEvent::BeforeTool,
            alias: None,
            source: HookSource::User,
            extension: None,
            file: "/s.json".into(),
            matcher: String::new(),
            sequential: false,
            kind: HookKind::Command,
            command: "c".into(),
            name: "guard".into(),
            description: String::new(),
            timeout: Duration::from_secs(1),
            env: Vec::new(),
            fail_closed,
            chunks: false,
            sandbox: false,
            disabled: false,
            accepted: true,
        }
    }

    fn end(code: i32, stdout: &str, stderr: &str) -> PipedOutput {
        PipedOutput {
            exit: Some(ProcessExit::Exited { code }),
            timed_out: false,
            stdout: stdout.into(),
            stderr: stderr.into(),
        }
    }

    #[test]
    fn exit_codes_and_output_are_interpreted() {
        use HookDecision::{Allow, Ask, Deny};
        for (code, stdout, stderr, open, closed) in [
            (0, "", "", None, None),
            (0, "hello", "", Some(Allow), Some(Allow)),
            (0, r#"{"decision":"ask"}"#, "", Some(Ask), Some(Ask)),
            (0, r#""{\"decision\":\"block\"}""#, "", Some(Deny), Some(Deny)),
            (0, "{broken", "", Some(Allow), Some(Deny)),
            (1, "", "", None, Some(Deny)),
            (1, "", "careful", Some(Allow), Some(Deny)),
            (2, "", "no", Some(Deny), Some(Deny)),
            (2, "", "", Some(Deny), Some(Deny)),
            (2, "{}", "no", None, None),
            (127, "", "sh: x: not found", Some(Deny), Some(Deny)),
            (0, r#"{"decision":"Deny"}"#, "", Some(Deny), Some(Deny)),
            (0, r#"{"decision":"denny"}"#, "", None, Some(Deny)),
            (0, r#"{"decision":5}"#, "", None, Some(Deny)),
            (0, r#"{"decision":null}"#, "", None, None),
            (0, r#"{"continue":"no"}"#, "", None, Some(Deny)),
            (0, r#"{"hookSpecificOutput":[]}"#, "", None, Some(Deny)),
            (
                0,
                r#"{"hookSpecificOutput":{"permissionDecision":"deny"}}"#,
                "",
                Some(Deny),
                Some(Deny),
            ),
            (0, r#"{"hookSpecificOutput":{"permissionDecision":1}}"#, "", None, Some(Deny)),
        ] {
            let end = end(code, stdout, stderr);
            let output = |closed| interpret(&hook(closed), &end).decision;
            assert_eq!((output(false), output(true)), (open, closed), "{code} {stdout} {stderr}");
        }
        assert_eq!(interpret(&hook(false), &end(2, "", "no\u{1b}[31m")).reason, "no[31m");
        assert_eq!(interpret(&hook(false), &end(2, "out", "no")).reason, "no\nout");
    }

    #[test]
    fn failure_of_a_non_blocking_hook_is_a_warning_with_name_and_output() {
        for (code, stdout, stderr, expected) in [
            (1, "", "careful", "hook `guard`: it exited with code 1: careful"),
            (1, "out\n", "why\n", "hook `guard`: it exited with code 1: why\nout"),
            (2, "out", "why", "hook `guard`: it exited with code 2: why\nout"),
            (1, "out", "", "hook `guard`: it exited with code 1: out"),
            (1, "", "", "hook `guard`: it exited with code 1"),
            (2, "", "no", "hook `guard`: it exited with code 2: no"),
            (
                127,
                "",
                "sh: x: not found",
                "hook `guard`: it exited with code 127: sh: x: not found",
            ),
            (3, "", "", "hook `guard`: it exited with code 3"),
            (0, r#"{"decision":"deny","reason":"not here"}"#, "", "hook `guard`: not here"),
            (0, r#"{"continue":false,"stopReason":"stop it"}"#, "", "hook `guard`: stop it"),
        ] {
            let hook = Hook { event: HookEvent::SessionStart, ..hook(false) };
            let output = interpret(&hook, &end(code, stdout, stderr));
            let texts: Vec<&str> = output.messages.iter().map(|it| it.1.as_str()).collect();
            assert_eq!(texts, [expected], "{code}");
            assert!(!output.stops_sequence(), "{code}");
        }
        let guard = Hook { event: HookEvent::SessionStart, ..hook(true) };
        let output = interpret(&guard, &end(2, "", "no"));
        assert_eq!((output.messages.len(), output.stops_sequence()), (1, false), "{output:?}");
    }

    #[test]
    fn timed_out_hook_warns_or_denies() {
        let ended = PipedOutput { exit: None, timed_out: true, ..end(0, "{}", "") };
        let open = interpret(&hook(false), &ended);
        assert_eq!((open.decision, open.messages.len()), (None, 1));
        assert_eq!(interpret(&hook(true), &ended).decision, Some(HookDecision::Deny));
    }

    #[test]
    fn long_hook_output_is_accepted_and_oversized_output_fails() {
        let long = |bytes| format!(r#"{{"decision":"deny","reason":"{}"}}"#, "r".repeat(bytes));
        let output = interpret(&hook(false), &end(0, &long(3_000_000), ""));
        assert_eq!(output.decision, Some(HookDecision::Deny));
        let flood = long(ANSWER);
        for (code, closed, decision) in [
            (0, false, None),
            (0, true, Some(HookDecision::Deny)),
            (2, false, Some(HookDecision::Deny)),
        ] {
            let output = interpret(&hook(closed), &end(code, &flood, ""));
            assert_eq!(output.decision, decision, "{code} {closed}");
            let [(Level::Warning, text)] = output.messages.as_slice() else {
                panic!("{:?}", output.messages.len())
            };
            assert!(text.contains("longer than 16 MiB") && text.len() < 200);
        }
    }

    #[test]
    fn unreadable_hook_output_is_reported() {
        let output = interpret(&hook(false), &end(0, r#"{"decision":"denny"}"#, ""));
        assert!(output.messages.iter().any(|(level, text)| {
            *level == Level::Warning && text.contains("unknown `decision` \"denny\"")
        }));
        let output = interpret(&hook(false), &end(0, "{broken", ""));
        assert!(output.messages.iter().any(|(level, text)| {
            *level == Level::Warning && text.contains("invalid JSON") && text.contains('`')
        }));
    }

    #[test]
    fn guard_failure_ends_the_turn_where_denial_is_impossible() {
        for event in [HookEvent::AfterAgent, HookEvent::BeforeToolSelection] {
            let guard = Hook { event, ..hook(true) };
            let ended = PipedOutput { exit: None, timed_out: true, ..end(0, "", "") };
            let output = interpret(&guard, &ended);
            assert!(output.stop.is_some_and(|reason| reason.contains("must approve")));
            assert_eq!(output.decision, None);
            // Without a reason, only a guard ends the turn where nothing can be denied.
            let output = interpret(&Hook { event, ..hook(false) }, &end(2, "", ""));
            assert_eq!(output.stop.is_some(), event == HookEvent::AfterAgent);
            assert!(interpret(&guard, &end(2, "", "")).stop.is_some());
        }
    }

    #[test]
    fn denial_by_a_tool_selection_hook_is_a_warning() {
        let guard = Hook { event: HookEvent::BeforeToolSelection, ..hook(false) };
        for output in [
            end(2, "", "no tools today"),
            end(0, r#"{"decision":"deny","reason":"no tools today"}"#, ""),
        ] {
            let output = interpret(&guard, &output);
            assert_eq!((output.decision, &output.stop), (None, &None));
            let [(Level::Warning, text)] = output.messages.as_slice() else { panic!("no warning") };
            assert!(text.contains("no tools today"), "{text}");
        }
        for (output, expected) in [
            (end(2, "", ""), "it exited with code 2"),
            (end(0, r#"{"decision":"deny"}"#, ""), "no effect for `BeforeToolSelection` events"),
        ] {
            let output = interpret(&guard, &output);
            assert_eq!((output.decision, &output.stop), (None, &None));
            let [(Level::Warning, text)] = output.messages.as_slice() else { panic!("no warning") };
            assert!(text.ends_with(expected) && text.matches("hook").count() == 1, "{text}");
        }
    }

    #[test]
    fn stop_requires_a_reason() {
        for text in ["\u{feff}{\"decision\":\"deny\"}", "\n \r\n{\r\n\"decision\":\"deny\"}\r\n"] {
            assert_eq!(
                interpret(&hook(false), &end(0, text, "")).decision,
                Some(HookDecision::Deny)
            );
        }
        // Text after the object makes the output plain text, as scripts expect.
        let more = interpret(&hook(false), &end(0, "{\"decision\":\"deny\"}\nmore", ""));
        assert_eq!(more.decision, Some(HookDecision::Allow));
        let output = interpret(&hook(false), &end(0, r#"{"continue":false}"#, ""));
        assert_eq!(output.stop.as_deref(), Some("a hook stopped it"));
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_hook_output_does_not_panic(code in 0..4i32, text in "(\\PC|[{}\":,\\[\\]a-z\u{1b}]){0,80}") {
            interpret(&hook(true), &end(code, &text, &text));
        }
    }
}
