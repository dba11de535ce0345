//! How hooks run: acceptance, environment, permissions, long-running hooks, and failures.

use std::time::Instant;

use serde_json::{Value, json};

use crate::hooks::{hook_group, lines, requests, script, settings};
use crate::support::{Conversation, World, finish};

#[test]
fn project_hooks_run_only_as_accepted() {
    let world = World::new(r#"[{"text": "done", "repeat": 0}]"#);
    let hooks = json!({"hooks": {"SessionStart": hook_group("bash hooks/start.sh")}}).to_string();
    world.home.write(".gemini/settings.json", &hooks).unwrap();
    world.home.write("hooks/start.sh", "echo one >> ran").unwrap();
    let output = world.run_ok(&["-p", "go"]);
    assert!(output.err().contains("parallax hooks accept"), "{}", output.err());
    assert_eq!(world.read("ran"), "");
    assert!(world.run_ok(&["hooks", "list"]).stdout().contains("(project, not accepted)"));
    world.run_ok(&["hooks", "accept"]);
    world.run_ok(&["-p", "go"]);
    assert_eq!(world.read("ran"), "one\n");
    // A changed script is a different hook.
    world.home.write("hooks/start.sh", "echo two >> ran").unwrap();
    world.run_ok(&["-p", "go"]);
    assert_eq!(world.read("ran"), "one\n");
    world.run_ok(&["hooks", "accept"]);
    world.run_ok(&["hooks", "disable", "h"]);
    world.run_ok(&["-p", "go"]);
    assert_eq!(world.read("ran"), "one\n");
    world.run_ok(&["hooks", "enable", "h"]);
    world.run_ok(&["-p", "go"]);
    assert_eq!(world.read("ran"), "one\ntwo\n");
}

#[test]
fn background_process_of_a_hook_keeps_running() {
    let world = World::new(&script("echo hi"));
    let hook = |mark: &str, away: &str| {
        hook_group(&format!("(sleep 1; touch {mark}) {away} & echo '{{}}'"))
    };
    let away = ">/dev/null 2>&1 </dev/null";
    settings(
        &world,
        &json!({"SessionStart": hook("start", away), "BeforeTool": hook("holds", ""),
        "SessionEnd": hook("end", away)}),
    );
    let started_at = Instant::now();
    world.run_ok(&["-p", "go", "-y"]);
    let took = started_at.elapsed();
    let there = |mark: &str| world.home.project().join(mark).exists();
    assert!(!there("end"), "it is not waited for: {took:?}");
    crate::support::wait_until("what was left", || there("start") && there("end"));
    assert!(!there("holds"), "who keeps the output of a hook ends with it");
}

#[test]
fn hooks_get_their_variables_and_no_keys() {
    let world = World::new(r#"[{"text": "done", "repeat": 0}]"#);
    let hook = json!([{"hooks": [
        {"command": "echo \"$GEMINI_API_KEY:$X:$CLAUDE_PROJECT_DIR\" > seen", "env": {"X": "y"}}
    ]}]);
    settings(&world, &json!({"SessionStart": hook}));
    world.run_ok(&["-p", "go"]);
    assert_eq!(world.read("seen"), format!(":y:{}\n", world.home.project().display()));
}

#[test]
fn user_hooks_get_the_variables_of_the_user_env_file() {
    let world = World::new(&script("echo \"$HFOO:$PFOO:$H_TOKEN\""));
    let line = r#"echo "$DISPLAY:$PAGER:$SSH_AUTH_SOCK:$HFOO:$H_TOKEN" > seen"#;
    settings(&world, &json!({"SessionStart": hook_group(line)}));
    world.home.write_home(".gemini/.env", "HFOO=hf\nH_TOKEN=t\n").unwrap();
    let mut command = world.command(&["-p", "go", "-y"]);
    command.env("DISPLAY", ":7").env("PAGER", "less").env("SSH_AUTH_SOCK", "/s");
    let output = finish(command);
    assert_eq!(world.read("seen"), ":7:less:/s:hf:\n");
    let report = "hooks do not receive the variable `H_TOKEN`: its name contains `TOKEN`";
    assert!(output.err().contains(report), "{}", output.err());
    let last = requests(&world).pop().expect("a request").to_string();
    assert!(last.contains("Output: hf::"), "{last}");

    // Variables of the project's `.env` are not passed on.
    let world = World::new(&script("echo \"$HFOO:$PFOO:$H_TOKEN\""));
    settings(&world, &json!({"SessionStart": hook_group(r#"echo "$PFOO" > seen"#)}));
    world.home.write(".env", "PFOO=pf\n").unwrap();
    finish(world.command(&["-p", "go", "-y"]));
    assert_eq!(world.read("seen"), "\n");
    let last = requests(&world).pop().expect("a request").to_string();
    assert!(last.contains("Output: ::"), "{last}");
}

#[test]
fn hook_can_be_sandboxed() {
    let world = World::new(r#"[{"text": "done", "repeat": 0}]"#);
    let hook = json!([{"hooks": [
        {"command": "echo in > inside; echo out > ../outside", "sandbox": true}
    ]}]);
    settings(&world, &json!({"SessionStart": hook}));
    world.run(&["-p", "go"]);
    assert_eq!(world.read("inside"), "in\n");
    assert!(!world.home.project().join("../outside").exists());
}

#[test]
fn sandboxed_hook_changes_no_protected_file() {
    let world = World::new(r#"[{"text": "done"}]"#);
    let command =
        "mkdir .vscode; echo x > .vscode/tasks.json; echo x > .mcp.json; echo in > inside; true";
    let hook = json!([{"matcher": "*", "hooks": [{"command": command, "sandbox": true}]}]);
    settings(&world, &json!({"SessionStart": hook}));
    let output = world.run_ok(&["-p", "go"]);
    assert_eq!(world.read("inside"), "in\n");
    for name in [".vscode/tasks.json", ".mcp.json"] {
        assert!(!world.home.project().join(name).exists(), "{name}");
        assert!(output.err().contains(name), "{}", output.err());
    }
}

#[test]
fn project_cannot_disable_user_guards() {
    let world = World::new(&script("echo hi"));
    settings(&world, &json!({"BeforeTool": hook_group("echo no >&2; exit 2")}));
    let project = json!({"hooksConfig": {"disabled": ["h"]}}).to_string();
    world.home.write(".gemini/settings.json", &project).unwrap();
    let refused = world.run(&["hooks", "disable", "h", "--scope", "workspace"]);
    assert_eq!(refused.code(), 42, "{}", refused.err());
    world.run_ok(&["-p", "go", "-y"]);
    assert!(requests(&world)[1]["contents"].to_string().contains("Tool execution blocked: no"));
}

#[test]
fn claude_code_hooks_are_supported() {
    let world = World::new(&script("echo hi"));
    let guard = r#"cat > heard.json; echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "theirs"}}'"#;
    let group = json!([{"matcher": "Bash", "hooks": [
        {"type": "command", "command": guard, "timeout": 5}
    ]}]);
    settings(&world, &json!({"PreToolUse": group}));
    let output = world.run_ok(&["-p", "go", "-y"]);
    assert!(!output.err().contains("PreToolUse"), "{}", output.err());
    assert!(requests(&world)[1]["contents"].to_string().contains("blocked: theirs"));
    let heard: Value = serde_json::from_str(&world.read("heard.json")).expect("json");
    assert_eq!(
        (&heard["hook_event_name"], &heard["tool_name"]),
        (&json!("PreToolUse"), &json!("Bash"))
    );

    let world = World::new("[]");
    world
        .home
        .write_home(".claude/settings.json", &json!({"hooks": {"PreToolUse": group}}).to_string())
        .unwrap();
    let output = world.run_ok(&["hooks", "migrate", "--from-claude"]);
    assert!(output.stdout().contains("BeforeTool: 1 hook(s) added"), "{}", output.stdout());
    let list = world.run_ok(&["hooks", "list", "--json"]).stdout();
    let list: Value = serde_json::from_str(&list).expect("json");
    assert_eq!(list["hooks"][0]["matcher"], "run_shell_command");
    assert_eq!(list["hooks"][0]["timeout"], 5_000);
}

#[test]
fn hooks_can_be_tested_manually() {
    let world = World::new("[]");
    settings(
        &world,
        &json!({"BeforeTool": [
            {"matcher": "run_shell", "hooks": [{"name": "guard", "command": "grep -q rm && echo \
                                                                             no >&2 && exit 2; \
                                                                             exit 0"}]}
        ]}),
    );
    let input = |command: &str| {
        let input = json!({"tool_name": "run_shell_command", "tool_input": {"command": command}});
        world.home.write("input.json", &input.to_string()).unwrap();
        let output =
            world.run_ok(&["hooks", "test", "BeforeTool", "--input", "input.json", "--json"]);
        serde_json::from_str::<Value>(&output.stdout()).expect("json")
    };
    let refused = input("rm x");
    assert_eq!((&refused["decision"], &refused["reason"]), (&json!("deny"), &json!("no")));
    assert_eq!(refused["ran"], json!(["guard"]));
    assert_eq!(input("ls")["decision"], Value::Null);
    let none = world.run_ok(&["hooks", "test", "PreToolUse", "--subject", "glob"]);
    assert!(none.stdout().contains("no enabled hook of `BeforeTool` matches"), "{}", none.stdout());
    assert_eq!(world.run(&["hooks", "test", "Nonsense"]).code(), 42);
}

#[test]
fn process_hook_starts_once_and_guards_calls() {
    let calls = json!([
        {"calls": [{"name": "run_shell_command", "args": {"command": "touch one"}}]},
        {"calls": [{"name": "run_shell_command", "args": {"command": "touch two"}}]},
        {"text": "done"}
    ]);
    let world = World::new(&calls.to_string());
    world
        .home
        .write(
            "h.sh",
            "echo start >> starts; while read -r line; do
        echo '{\"id\": 0, \"decision\": \"deny\", \"reason\": \"of another event\"}'
        case $line in
        *'touch two'*) echo '{\"decision\": \"deny\", \"reason\": \"no two\"}' ;;
        *) echo '{}' ;;
        esac; done",
        )
        .unwrap();
    let hook = |command: &str, closed: bool| {
        json!([{"hooks": [{"type": "process", "name": "h", "command": command,
            "failClosed": closed, "timeout": "1s"}]}])
    };
    let guard = hook("sh h.sh", false);
    settings(&world, &json!({"BeforeTool": guard, "AfterTool": guard}));
    world.run_ok(&["-p", "go", "-y"]);
    assert!(world.home.project().join("one").exists());
    assert!(!world.home.project().join("two").exists());
    assert_eq!(world.read("starts"), "start\n");
    let trace = world.run_ok(&["hooks", "trace"]).stdout();
    assert_eq!(trace.lines().count(), 3, "{trace}");
    assert!(trace.contains("BeforeTool run_shell_command: `h`"), "{trace}");
    assert!(trace.contains("deny, no two"), "{trace}");
    // A hook that crashes, hangs, floods, or prints invalid JSON blocks nothing, unless it fails
    // closed.
    for command in ["exit 3", "sleep 60", "yes | tr -d '\\n'", "yes", "yes '{\"id\": \"z\"}'"] {
        for closed in [false, true] {
            let marker = format!("made-{closed}");
            let script = script(&format!("touch {marker}"));
            let world = World::new(&script);
            settings(&world, &json!({"BeforeTool": hook(command, closed)}));
            world.run_ok(&["-p", "go", "-y"]);
            assert_eq!(world.home.project().join(&marker).exists(), !closed, "{command}");
        }
    }
}

#[test]
fn built_in_hooks_are_available() {
    let world = World::new(&script("echo hi"));
    let hooks = json!([{"hooks": [
        {"type": "builtin", "builtin": "log"},
        {"type": "builtin", "builtin": "log", "file": "own.jsonl"},
        {"type": "builtin", "builtin": "notify", "message": "a command ran"},
    ]}]);
    settings(&world, &json!({"AfterTool": hooks}));
    let output = world.run_ok(&["-p", "go", "-y"]);
    assert!(output.err().contains("hook `notify`: a command ran"), "{}", output.err());
    assert_eq!(lines(&world, "own.jsonl")[0]["tool_name"], "run_shell_command");
    let log = std::fs::read_to_string(world.home.parallax().join("hooks.log")).unwrap();
    assert!(log.contains("\"hook_event_name\":\"AfterTool\""), "{log}");
}

#[test]
fn hanging_session_start_hook_can_be_skipped() {
    let world = World::new(r#"[{"text": "done", "repeat": 0}]"#);
    settings(&world, &json!({"SessionStart": hook_group("touch begun; sleep 60")}));
    let started_at = Instant::now();
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("go");
    crate::support::wait_until("the hook", || world.home.project().join("begun").exists());
    conversation.send(&json!({"type": "interrupt"}));
    conversation.next("result");
    conversation.end();
    assert!(world.server.requests().is_empty());
    assert!(started_at.elapsed().as_secs() < 30, "{:?}", started_at.elapsed());
}

#[test]
fn guard_that_cannot_run_denies_its_calls() {
    let world = World::new(&script("touch done"));
    let hooks = json!({"BeforeTool": [{"hooks": [
        {"type": "http", "url": "https://x.example", "name": "far", "failClosed": true}
    ]}]});
    settings(&world, &hooks);
    let output = world.run_ok(&["-p", "go", "-y"]);
    assert!(!world.home.project().join("done").exists());
    assert!(output.err().contains("`http`"), "{}", output.err());
    let report = requests(&world)[1].to_string();
    assert!(report.contains("the hook `far` must approve"), "{report}");
}

#[test]
fn process_hook_output_before_its_response_is_ignored() {
    let world = World::new(&script("touch done"));
    let guard = "import json,sys\nprint('ready', flush=True)\nfor line in sys.stdin:\n\x20   \
                 event = json.loads(line)\n\x20   print('looking at', event['id'], \
                 flush=True)\n\x20   print(json.dumps({'id': 'zz', 'decision': 'allow'}), \
                 flush=True)\n\x20   print(json.dumps({'id': event['id'], 'decision': 'deny', \
                 'reason': 'not so'}), flush=True)\n";
    world.home.write("guard.py", guard).unwrap();
    let hooks = json!({"BeforeTool": [{"hooks": [
        {"type": "process", "name": "guard", "command": "python3 guard.py"}
    ]}]});
    settings(&world, &hooks);
    world.run_ok(&["-p", "go", "-y"]);
    assert!(!world.home.project().join("done").exists(), "its no is heard at the first call");
    let trace = world.run_ok(&["hooks", "trace"]).stdout();
    assert!(trace.contains("deny, not so"), "{trace}");
    assert!(trace.contains("output before its response: ready"), "{trace}");
    assert!(trace.contains("a response to another event"), "{trace}");
}

#[test]
fn untrusted_folder_reports_its_hooks_as_disabled() {
    let world = World::new("[]");
    let run = |args: &[&str]| {
        let mut command = world.command(args);
        command.env_remove("GEMINI_CLI_TRUST_WORKSPACE");
        crate::support::finish(command)
    };
    let text = json!({"hooks": {"BeforeTool": hook_group("true")}}).to_string();
    world.home.write(".gemini/settings.json", &text).unwrap();
    let list = run(&["hooks", "list"]).stdout();
    assert!(list.contains("The folder is not trusted"), "{list}");
    let accept = run(&["hooks", "accept"]);
    assert_eq!(accept.code(), 55, "{}", accept.stdout());
    assert!(accept.err().contains("parallax trust add"), "{}", accept.err());
    let off = run(&["skills", "disable", "skill-creator"]);
    assert!(off.err().contains("--scope user"), "{}", off.err());
}

#[test]
fn hooks_delaying_the_exit_are_listed() {
    let world = World::new(r#"[{"text": "done"}]"#);
    settings(&world, &json!({"SessionEnd": hook_group("sleep 4")}));
    let output = world.run_ok(&["-p", "go"]);
    assert!(output.err().contains("session-end hooks: `h`. Press Ctrl+C"), "{}", output.err());
}

fn stream_lines(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

#[test]
fn failed_session_end_hook_is_reported_in_every_output_format() {
    let failing = json!([{"hooks": [
        {"name": "bye", "type": "command", "command": "echo 'disk full' >&2; exit 3"}
    ]}]);
    let run = |hooks: &Value, format: &str| {
        let world = World::new(r#"[{"text": "done"}]"#);
        settings(&world, &json!({"SessionEnd": hooks}));
        world.run_ok(&["-p", "go", "-o", format])
    };

    let text = run(&failing, "text");
    assert_eq!(text.stdout(), "done\n");
    let named = |words: &str| words.contains("`bye`") && words.contains("disk full");
    assert_eq!(text.err().lines().filter(|line| named(line)).count(), 1, "{}", text.err());

    let json = run(&failing, "json");
    let document: Value = serde_json::from_str(&json.stdout()).expect("one JSON document");
    assert_eq!(document["response"], "done");
    let warnings = document["warnings"].as_array().expect("warnings");
    assert!(warnings.iter().any(|warning| named(&warning.to_string())), "{document}");
    assert_eq!(json.err(), "");

    let stream = run(&failing, "stream-json");
    let lines = stream_lines(&stream.stdout());
    let report = lines.iter().position(|line| line["type"] == "error" && named(&line.to_string()));
    let result = lines.iter().position(|line| line["type"] == "result");
    assert!(report.is_some() && report < result, "{}", stream.stdout());
    assert_eq!(stream.err(), "");

    // A successful hook is not mentioned.
    let quiet = run(&hook_group("cat >/dev/null"), "json");
    let document: Value = serde_json::from_str(&quiet.stdout()).expect("one JSON document");
    assert!(document.get("warnings").is_none(), "{document}");
}

#[test]
fn failed_session_end_hook_is_reported_after_the_last_result() {
    let world = World::new(r#"[{"text": "done"}]"#);
    settings(&world, &json!({"SessionEnd": hook_group("echo gone >&2; exit 1")}));
    let order = r#"{"type":"message","content":"go"}"#;
    let output = finish(world.shell(
        &format!("printf '%s\\n' '{order}' | \"$@\""),
        &["--input-format", "stream-json", "-o", "stream-json"],
    ));
    let lines = stream_lines(&output.stdout());
    let last = lines.last().expect("a line");
    assert_eq!(last["type"], "error", "{}", output.stdout());
    assert!(last["message"].as_str().is_some_and(|text| text.contains("gone")), "{last}");
    assert_eq!((output.code(), output.err().as_str()), (0, ""));
}
