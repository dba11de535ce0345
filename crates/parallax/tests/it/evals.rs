//! `parallax eval` with the shipped cases, and with test cases and a scripted model.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{World, finish};

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../evals")
}

fn rows(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("results");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Creates a case `one` whose model is the scripted server.
fn create_world(script: &Value, case: &str) -> World {
    let world = World::new(&script.to_string());
    world.home.write("cases/one/case.toml", case).expect("written");
    world.home.write("cases/one/project/a.txt", "old\n").expect("written");
    world
}

const EDIT: &str = r#"
prompt = "Write new into a.txt."
tags = ["edit"]

[[checks]]
kind = "file_equals"
path = "a.txt"
content = "new\n"

[[checks]]
kind = "tool_called"
tool = "write_file"
"#;

fn edit(content: &str) -> Value {
    json!([
        {"calls": [{"name": "write_file", "args": {"file_path": "a.txt", "content": content}}]},
        {"text": "Done."},
    ])
}

#[test]
fn interrupted_run_has_no_result() {
    let mut script = edit("new\n");
    script.as_array_mut().expect("replies").push(json!({"chunks": [{"gate": "held"}]}));
    let world = create_world(&script, EDIT);
    let out = world.home.project().join("results.jsonl");
    let mut command = world.command(&["eval", "cases/one", "--runs", "2", "--jobs", "1", "--out"]);
    command.arg(&out).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("start");
    world.at_gate("held");
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::INT).expect("interrupt");
    assert_eq!(child.wait().expect("the end").code(), Some(130));
    let rows = rows(&out);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["pass"], true, "{rows:?}");
}

#[test]
fn shipped_cases_pass_with_their_recordings() {
    let world = World::new("[]");
    let out = world.home.project().join("results.jsonl");
    let mut command = world.command(&["eval", "--replay", "--min", "1", "--out"]);
    command.arg(&out).arg(shipped()).env_remove("GEMINI_API_KEY");
    let done = finish(command);
    assert_eq!(done.code(), 0, "{}", done.err());
    let rows = rows(&out);
    assert!(rows.len() >= 20, "{} cases", rows.len());
    for row in &rows {
        assert_eq!(row["pass"], true, "{row}");
        assert!(row["session_id"].is_string() && row["tokens"].as_u64() > Some(0), "{row}");
    }
    let tags: std::collections::BTreeSet<&str> = rows
        .iter()
        .flat_map(|row| row["tags"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .collect();
    for tag in [
        "read",
        "search",
        "edit",
        "test",
        "refactor",
        "safety",
        "instructions",
        "mcp",
        "output",
        "encoding",
        "ambiguity",
    ] {
        assert!(tags.contains(tag), "{tag}: {tags:?}");
    }
}

#[test]
fn failed_checks_fail_the_run_and_say_why() {
    let world = create_world(&edit("wrong\n"), EDIT);
    let output = finish(world.command(&["eval", "cases", "--out", "out.jsonl", "--min", "0.5"]));
    assert_eq!(output.code(), 1, "{}", output.err());
    assert!(output.err().contains("line 1 is \"wrong\" instead of \"new\""), "{}", output.err());
    assert!(output.stdout().contains("0/1"), "{}", output.stdout());
    let row = &rows(&world.home.project().join("out.jsonl"))[0];
    let checks: Vec<(&str, bool)> = row["checks"]
        .as_array()
        .expect("checks")
        .iter()
        .map(|check| (check["kind"].as_str().expect("a kind"), check["pass"] == true))
        .collect();
    assert_eq!(checks, [("file_equals", false), ("tool_called", true)]);
    assert_eq!(
        (&row["case"], &row["run"], &row["pass"]),
        (&json!("one"), &json!(1), &json!(false))
    );
    world.server.assert_clean();
    // Later results do not overwrite earlier ones.
    for previous in ["out.jsonl.previous", "out.jsonl.previous-2"] {
        let done = finish(world.command(&["eval", "cases", "--out", "out.jsonl"]));
        assert!(done.err().contains(&format!(" to {previous}\n")), "{}", done.err());
    }
    let before = &rows(&world.home.project().join("out.jsonl.previous"))[0];
    assert_eq!((&before["checks"], &before["session_id"]), (&row["checks"], &row["session_id"]));
}

#[test]
fn broken_case_names_its_first_wrong_step_and_a_devtools_link() {
    let replace = json!({"name": "replace", "args": {"file_path": "a.txt", "instruction": "i",
        "old_string": "missing", "new_string": "new"}});
    let script = json!([
        {"calls": [{"name": "read_file", "args": {"file_path": "a.txt"}}]},
        {"calls": [replace]},
        {"text": "Done."},
    ]);
    let world = create_world(&script, EDIT);
    let arguments = ["eval", "cases", "--out", "out.jsonl", "--html", "report.html"];
    let output = finish(world.command(&arguments));
    assert_eq!(output.code(), 0, "{}", output.err());
    let row = &rows(&world.home.project().join("out.jsonl"))[0];
    let step = &row["wrong_step"];
    assert_eq!(
        (&step["step"], &step["call"], &step["tool"]),
        (&json!(2), &json!(2), &json!("replace"))
    );
    let command = format!("parallax devtools {}", row["session_id"].as_str().expect("a session"));
    assert_eq!(row["devtools"], command.as_str());
    assert!(
        output.err().contains("first wrong step: 2, `replace`: it failed: "),
        "{}",
        output.err()
    );
    assert!(output.err().contains(&command), "{}", output.err());
    let page = std::fs::read_to_string(world.home.project().join("report.html")).expect("a page");
    assert!(page.contains("First wrong step") && page.contains(".html#call=2\""), "{page}");

    // A wrong answer, and a request that fails.
    let case = "prompt = \"x\"\n[[checks]]\nkind = \"answer_matches\"\npattern = \"42\"\n";
    let wrong_answer = create_world(&json!([{"text": "41"}]), case);
    let output = finish(wrong_answer.command(&["eval", "cases"]));
    assert!(
        output.err().contains("first wrong step: 1, the answer: answer_matches"),
        "{}",
        output.err()
    );
    let refused = json!([{"status": 400, "error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}]);
    let failed = create_world(&refused, case);
    let output = finish(failed.command(&["eval", "cases"]));
    assert!(output.err().contains("first wrong step: 1, the answer: "), "{}", output.err());
    assert!(output.err().contains("DevTools: parallax devtools "), "{}", output.err());
}

#[test]
fn run_whose_setup_fails_costs_nothing() {
    let world = create_world(&json!([]), &EDIT.replace("tags", "setup = [\"exit 3\"]\ntags"));
    let output = finish(world.command(&["eval", "cases", "--out", "out.jsonl"]));
    assert!(output.err().contains("`exit 3` failed"), "{}", output.err());
    assert!(output.stdout().contains("$0.0000"), "{}", output.stdout());
    assert_eq!(rows(&world.home.project().join("out.jsonl"))[0]["cost"], 0.0);
}

#[test]
fn report_overwrites_only_earlier_reports() {
    let world = create_world(&edit("new\n"), EDIT);
    world.home.write("index.html", "<title>My site</title>").expect("written");
    let run = |page: &str| finish(world.command(&["eval", "cases", "--html", page]));
    let refused = run("index.html");
    assert_eq!(refused.code(), 42, "{}", refused.err());
    assert!(refused.err().contains("`index.html` already exists"), "{}", refused.err());
    assert!(world.server.requests().is_empty(), "no run was started");
    assert!(world.read("index.html").contains("My site"));
    for _ in 0..2 {
        assert_eq!(run("report.html").code(), 0);
    }
}

#[test]
fn recorded_case_passes_without_a_model() {
    let world = create_world(&edit("new\n"), EDIT);
    let output = finish(world.command(&["eval", "cases", "--record"]));
    assert_eq!(output.code(), 0, "{}", output.err());
    assert!(output.stdout().contains("1/1"), "{}{}", output.stdout(), output.err());
    let requests = world.server.requests().len();
    let mut command = world.command(&["eval", "cases", "--replay", "--runs", "3", "--min", "1"]);
    command.args(["--html", "report.html", "--atif", "atif"]).env_remove("GEMINI_API_KEY");
    let output = finish(command);
    assert_eq!(output.code(), 0, "{}", output.err());
    assert!(
        output.stdout().contains("3/3") && output.stdout().contains("pass^3"),
        "{}",
        output.stdout()
    );
    assert_eq!(world.server.requests().len(), requests, "no model was asked");
    let project = world.home.project();
    let page = std::fs::read_to_string(project.join("report.html")).expect("a page");
    assert!(page.contains("3 of 3 runs passed") && !page.contains("<script"), "{page}");
    assert_eq!(std::fs::read_dir(project.join("report-sessions")).expect("pages").count(), 3);
    let trajectory = std::fs::read_dir(project.join("atif")).expect("files").flatten().next();
    let text = std::fs::read_to_string(trajectory.expect("one").path()).expect("text");
    let trajectory: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(trajectory["schema_version"], "ATIF-v1.8");
    assert_eq!(trajectory["steps"][1]["tool_calls"][0]["function_name"], "write_file");
    assert_eq!(trajectory["steps"][2]["message"], "Done.");
    let steps = trajectory["steps"].as_array().expect("steps");
    assert!(steps.iter().all(|step| step["timestamp"].is_string()), "{trajectory}");
    let call = &steps[1]["tool_calls"][0]["tool_call_id"];
    assert_eq!(call, &steps[1]["observation"]["results"][0]["source_call_id"]);
    assert!(call.as_str().is_some_and(|id| id.starts_with("write_file_")), "{call}");
}

#[test]
fn replay_notices_requests_that_differ_from_the_recorded_ones() {
    let script = json!([
        {"calls": [{"name": "read_file", "args": {"file_path": "a.txt"}},
            {"name": "run_shell_command", "args": {"command": "pwd; git log --oneline"}}]},
        {"calls": [{"name": "write_file", "args": {"file_path": "a.txt", "content": "new\n"}}]},
        {"text": "Done."},
    ]);
    let world = create_world(&script, EDIT);
    let done = finish(world.command(&["eval", "cases", "--record"]));
    assert!(done.stdout().contains("1/1"), "{}{}", done.stdout(), done.err());
    let done = finish(world.command(&["eval", "cases", "--replay", "--runs", "2"]));
    assert!(done.stdout().contains("2/2"), "{}{}", done.stdout(), done.err());
    // The model reads something other than it answered to.
    world.home.write("cases/one/project/a.txt", "other\n").expect("written");
    let done = finish(world.command(&["eval", "cases", "--replay"]));
    assert!(done.stdout().contains("0/1"), "{}{}", done.stdout(), done.err());
    for words in
        ["the request differs from the recorded one: content 3 of 3", "first wrong step: 2"]
    {
        assert!(done.err().contains(words), "{words}: {}", done.err());
    }
    let done = finish(world.command(&["eval", "cases", "--replay", "--replay-non-strict"]));
    assert!(done.stdout().contains("1/1"), "{}{}", done.stdout(), done.err());
}

#[test]
fn failed_judgment_is_reported_with_its_reason() {
    let case = r#"
prompt = "Say hello."
[judge]
rubric = "The greeting is in French."
"#;
    let judgment = r#"{"pass": false, "reason": "It is in English."}"#;
    let world = create_world(&json!([{"text": "Hello!"}, {"text": judgment}]), case);
    let output = finish(world.command(&["eval", "cases/one/case.toml", "--min", "1"]));
    assert_eq!(output.code(), 1, "{}", output.err());
    assert!(output.err().contains("judge: It is in English."), "{}", output.err());
    let request = String::from_utf8_lossy(&world.server.requests()[1].body).into_owned();
    assert!(request.contains("The greeting is in French.") && request.contains("Hello!"));
}

#[test]
fn invalid_cases_and_results_are_reported() {
    let world = create_world(&json!([]), "prompt = \"x\"\n[[checks]]\nkind = \"odour\"\n");
    for (args, code, words) in [
        (&["eval", "cases"][..], 42, "odour"),
        (&["eval", "nowhere"][..], 42, "nowhere"),
        (&["eval"][..], 42, "case.toml"),
        (&["eval", "cases", "--min", "7"][..], 1, "0 to 1"),
        (&["eval", "compare", "a.txt", "b.txt"][..], 42, "a.txt"),
    ] {
        let output = finish(world.command(args));
        assert_eq!(output.code(), code, "{args:?}: {}", output.err());
        assert!(output.err().contains(words), "{args:?}: {}", output.err());
    }
}

#[test]
fn comparison_says_whether_a_difference_is_clear() {
    let world = World::new("[]");
    let row = |case: &str, pass: bool| {
        json!({"case": case, "model": "m", "run": 1, "pass": pass, "tokens": 5, "cost": 0.1,
            "duration_ms": 9, "tool_calls": 1, "checks": [], "session_id": null, "tags": []})
        .to_string()
    };
    let file = |passed: usize| -> String {
        (0..20).map(|number| row(&format!("c{number:02}"), number < passed) + "\n").collect()
    };
    world.home.write("a.jsonl", &file(4)).expect("written");
    world.home.write("b.jsonl", &file(18)).expect("written");
    world.home.write("c.jsonl", &file(5)).expect("written");
    let clear = finish(world.command(&["eval", "compare", "a.jsonl", "b.jsonl"]));
    assert!(clear.stdout().contains("B is better."), "{}", clear.stdout());
    let unclear = finish(world.command(&["eval", "compare", "a.jsonl", "c.jsonl", "--json"]));
    let unclear: Value = serde_json::from_str(&unclear.stdout()).expect("JSON");
    assert!(
        unclear["p_value"].as_f64() > Some(0.05) && unclear["changed"][0]["case"] == "c04",
        "{unclear}"
    );
}
