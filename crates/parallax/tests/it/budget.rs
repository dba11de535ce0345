//! Cost, token, and time limits of a whole run.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::World;

fn usage(prompt: u64, cached: u64, answer: u64) -> Value {
    json!({"promptTokenCount": prompt, "cachedContentTokenCount": cached,
        "candidatesTokenCount": answer, "totalTokenCount": prompt + answer})
}

fn reply(part: &Value, usage: &Value) -> Value {
    let content = json!({"role": "model", "parts": [part]});
    let candidates = json!([{"content": content, "finishReason": "STOP"}]);
    json!({"chunks": [{"candidates": candidates, "usageMetadata": usage}]})
}

/// Returns a script with one call for each of the token counts, then the end.
fn list(usages: &[Value]) -> String {
    let call = json!({"functionCall": {"name": "write_todos", "args": {"todos": []}}});
    let mut steps: Vec<Value> = usages.iter().map(|usage| reply(&call, usage)).collect();
    steps.push(reply(&json!({"text": "done"}), &usage(1000, 0, 100)));
    Value::Array(steps).to_string()
}

#[test]
fn cost_limit_ends_a_run_that_can_be_resumed() {
    // Two dollars per million input tokens, twelve per million output tokens.
    let world = World::new(&list(&[usage(50_000, 0, 0), usage(50_000, 25_000, 10_000)]));
    let args = ["-m", "gemini-3-pro-preview", "-o", "json"];
    let done = world.run(&[&args[..], &["-p", "go", "--max-cost", "0.3"]].concat());
    assert_eq!(done.code(), 57, "{}", done.err());
    let output: Value = serde_json::from_str(&done.stdout()).expect("json");
    assert_eq!(
        (&output["error"]["type"], &output["error"]["code"]),
        (&json!("BUDGET_SPENT"), &json!(57))
    );
    let message = output["error"]["message"].as_str().expect("text");
    assert!(message.contains("$0.30") && message.contains("--max-cost"), "{message}");
    assert_eq!(
        output["stats"]["cost"],
        json!({"usd": 0.275, "inputUsd": 0.15, "cachedUsd": 0.005, "outputUsd": 0.12, "cachedShare": 0.25})
    );
    assert_eq!(output["stats"]["tools"]["totalSuccess"], 2);
    let done = world.run_ok(&[&args[..], &["-p", "on", "-r", "--max-cost", "0.3"]].concat());
    let output: Value = serde_json::from_str(&done.stdout()).expect("json");
    assert_eq!(output["response"], "done");
    assert_eq!(output["stats"]["cost"]["usd"], json!(0.0032));
}

#[test]
fn output_of_a_request_is_limited_to_what_the_budget_covers() {
    let text = json!({"text": "half an ans"});
    let mut cut = reply(&text, &usage(10_000, 0, 10_000));
    cut["chunks"][0]["candidates"][0]["finishReason"] = json!("MAX_TOKENS");
    let world = World::new(&json!([cut, reply(&text, &usage(10_000, 0, 100))]).to_string());
    let args = ["-m", "gemini-3-pro-preview", "-o", "json"];
    let done = world.run(&[&args[..], &["-p", "go", "--max-cost", "0.2"]].concat());
    assert_eq!(done.code(), 57, "{}", done.err());
    let output: Value = serde_json::from_str(&done.stdout()).expect("json");
    let message = output["error"]["message"].as_str().expect("text");
    assert!(message.contains("may not cover another request"), "{message}");
    let sent = world.server.requests()[0].json();
    let limit = sent["generationConfig"]["maxOutputTokens"].as_u64().expect("a limit");
    // Without input, the budget covers 16,666 tokens.
    assert!((8_000..16_667).contains(&limit), "{limit}");
    world.run_ok(&[&args[..], &["-p", "go on", "-r", "--max-cost", "9"]].concat());
    let sent = world.server.requests()[1].json();
    assert_eq!(sent["generationConfig"].get("maxOutputTokens"), None);
}

#[test]
fn cost_of_a_truncated_answer_without_usage_is_estimated() {
    let cut = json!({"chunks": [{"text": "half"}, {"cut": "reset"}], "repeat": 3});
    let last = reply(&json!({"text": "done"}), &usage(1000, 0, 100));
    let world = World::new(&json!([cut, last]).to_string());
    let args = ["-m", "gemini-3-pro-preview", "-o", "json", "-p", "go"];
    let done = world.run_ok(&args);
    let output: Value = serde_json::from_str(&done.stdout()).expect("json");
    // Three times the input, and what the last request cost.
    let cost = output["stats"]["cost"]["usd"].as_f64().expect("a cost");
    assert!(cost > 0.0038, "{cost}");
    let sent = world.server.requests().len();
    assert_eq!(world.run(&[&args[..], &["--max-cost", "0.00001"]].concat()).code(), 57);
    assert_eq!(world.server.requests().len(), sent);
}

#[test]
fn parallel_subagents_share_the_budget_including_requests_in_progress() {
    // Ten cents each.
    let cost = usage(2_000, 0, 8_000);
    let call = |name: &str, args: Value| json!({"functionCall": {"name": name, "args": args}});
    let invoke = |task: &str| call("invoke_agent", json!({"agent_name": "worker", "prompt": task}));
    let mut first = reply(&invoke("one"), &cost);
    first["chunks"][0]["candidates"][0]["content"]["parts"] =
        json!([invoke("one"), invoke("two"), invoke("three")]);
    let mut worker = reply(&call("complete_task", json!({"result": "done"})), &cost);
    worker["match"] = json!({"systemContains": "The worker does"});
    worker["repeat"] = json!(0);
    let world = World::new(&json!([first, worker]).to_string());
    let text = "---\nname: worker\ndescription: Works.\n---\nThe worker does: ${query}\n";
    world.home.write_home(".parallax/agents/worker.md", text).expect("the agent");
    let args = ["-m", "gemini-3-pro-preview", "-y", "-p", "go", "--max-cost", "0.21"];
    let done = world.run(&args);
    assert_eq!(done.code(), 57, "{}", done.err());
    assert_eq!(world.server.requests().len(), 2);
}

#[test]
fn budget_setting_applies_to_the_session_and_prices_are_configurable() {
    let world = World::new(&list(&[usage(100_000, 0, 0)]));
    let settings = r#"{"budget": {"session": {"maxCost": 5}},
        "modelConfigs": {"prices": {"gemini-3-pro": {"input": 60, "output": 1}}}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    let run = |prompt: &str, more: &[&str]| {
        let args = [
            "-m",
            "gemini-3-pro-preview",
            "-o",
            "stream-json",
            "--stream-version",
            "2",
            "-p",
            prompt,
        ];
        let done = world.run(&[&args[..], more].concat());
        let last = done.stdout().lines().last().map(str::to_owned).expect("a line");
        (done.code(), serde_json::from_str::<Value>(&last).expect("json"))
    };
    let (code, result) = run("go", &[]);
    assert_eq!((code, &result["status"]), (57, &json!("error")));
    assert_eq!(result["stats"]["cost"]["usd"], json!(6.0));
    // The usage of an earlier process counts.
    let (code, _) = run("on", &["-r"]);
    assert_eq!(code, 57);
    let (code, result) = run("on", &["-r", "--max-tokens", "5000", "--max-cost", "1"]);
    assert_eq!((code, &result["status"]), (0, &json!("success")));
}

#[test]
fn limit_set_in_a_session_applies_after_resume() {
    let answer = reply(&json!({"text": "done"}), &usage(900, 0, 0));
    let world = World::new(&json!([answer, answer, answer]).to_string());
    world.run_ok(&["-p", "go"]);
    let mut journal = world.home.parallax().join("sessions");
    while journal.is_dir() {
        let mut entries = std::fs::read_dir(&journal).expect("a folder");
        journal = entries.next().expect("an entry").expect("an entry").path();
    }
    let mut text = std::fs::read_to_string(&journal).expect("the journal");
    text.push_str(
        "{\"budget\":{\"time\":\"t\",\"kind\":\"tokens\",\"scope\":\"session\",\"limit\":500}}\n",
    );
    std::fs::write(&journal, &text).expect("the journal");
    assert_eq!(world.run(&["-r", "-p", "on"]).code(), 57);
    assert_eq!(world.run(&["-r", "-p", "on", "--max-tokens", "5000"]).code(), 0);
    let mut text = std::fs::read_to_string(&journal).expect("the journal");
    text.push_str("{\"budget\":{\"time\":\"t\",\"kind\":\"tokens\",\"scope\":\"session\"}}\n");
    std::fs::write(&journal, &text).expect("the journal");
    assert_eq!(world.run(&["-r", "-p", "on"]).code(), 0, "it was lifted again");
}

#[test]
fn project_cannot_raise_the_user_budget() {
    let world = World::new(&list(&[usage(100_000, 0, 0)]));
    world
        .home
        .write_home(".gemini/settings.json", r#"{"budget": {"prompt": {"maxTokens": 1000}}}"#)
        .expect("settings");
    world
        .home
        .write(".gemini/settings.json", r#"{"budget": {"prompt": {"maxTokens": 1000000}}}"#)
        .expect("settings");
    assert_eq!(world.run(&["-p", "go"]).code(), 57);
}

#[test]
fn time_limit_ends_a_run() {
    let world = World::new(r#"[{"chunks": [{"hang": true}]}]"#);
    let started_at = Instant::now();
    let output = world.run(&["-p", "go", "--timeout", "1s"]);
    assert_eq!(output.code(), 57, "{}", output.err());
    assert!(output.err().contains("--timeout"), "{}", output.err());
    assert!(started_at.elapsed() < Duration::from_secs(15));
}
