//! Routing in a headless run.

use serde_json::{Value, json};

use crate::support::World;

pub(crate) fn requested_models(world: &World) -> Vec<String> {
    let name = |path: &str| {
        let path = path.split("/models/").nth(1).unwrap_or(path);
        path.split(':').next().unwrap_or(path).to_owned()
    };
    world.server.requests().iter().map(|request| name(&request.path)).collect()
}

/// Creates a world with the default routing, `auto`.
pub(crate) fn create_world(script: &str, settings: &str) -> World {
    let world = World::new(script);
    let settings = settings.replacen('{', r#"{"model": {"routing": "on"}, "#, 1);
    let settings = settings.replace(", }", "}");
    world.home.write_home(".gemini/settings.json", &settings).expect("settings");
    world
}

pub(crate) fn json_response(done: &testkit::measure::FinishedProcess) -> Value {
    serde_json::from_str(&done.stdout()).expect("json")
}

#[test]
fn clear_prompt_is_routed_to_the_fast_model_without_a_call() {
    let world = create_world(r#"[{"text": "done"}]"#, "{}");
    let output = world.run_ok(&["-p", "What is in README.md?", "-o", "json"]);
    assert_eq!(requested_models(&world), ["gemini-3.8-flash"]);
    let routing = &json_response(&output)["stats"]["routing"][0];
    assert_eq!((&routing["source"], &routing["asked"]), (&json!("rules"), &json!("auto")));
}

#[test]
fn unclear_prompt_uses_the_classifier() {
    let answer = json!({"complexity_reasoning": "a feature", "complexity_score": 95}).to_string();
    let script = json!([{"method": "generateContent", "text": answer}, {"text": "done"}]);
    let world = create_world(&script.to_string(), "{}");
    let done = world.run_ok(&["-p", "Add a flag --quiet\nto the parser", "-o", "json"]);
    assert_eq!(requested_models(&world), ["gemini-3.5-flash-lite", "gemini-3.1-pro-preview"]);
    let output = json_response(&done);
    assert_eq!(output["stats"]["routing"][0]["source"], "numerical_classifier");
    assert!(
        output["stats"]["models"]["gemini-3.5-flash-lite"]["roles"]["utility_router"].is_object()
    );
    let quiet = World::new(r#"[{"text": "done"}]"#);
    quiet
        .home
        .write_home(".gemini/settings.json", r#"{"model": {"routing": "rules"}}"#)
        .expect("written");
    quiet.run_ok(&["-p", "Add a flag --quiet\nto the parser"]);
    assert_eq!(requested_models(&quiet), ["gemini-3.1-pro-preview"]);
}

#[test]
fn model_without_capacity_falls_back_with_a_notice() {
    let busy = json!({"status": 503, "repeat": 0, "match": {"modelContains": "pro"},
        "error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}});
    let script = || json!([busy.clone(), {"text": "done"}]).to_string();
    let world = create_world(&script(), r#"{"general": {"maxAttempts": 1}}"#);
    let output = world.run(&["-p", "Refactor the parser", "-o", "json"]);
    assert_eq!(output.code(), 0, "{}", output.err());
    let answer = json_response(&output);
    assert_eq!(answer["response"], "done");
    let fallback = &answer["stats"]["fallbacks"][0];
    assert_eq!(
        (&fallback["to"], &fallback["cause"]),
        (&json!("gemini-3.8-flash"), &json!("capacity"))
    );
    assert!(answer["warnings"].to_string().contains("Using `gemini-3.8-flash`"), "{answer}");
    // A model that the user named is not replaced silently.
    let named = World::in_home(world.home, &script());
    let args = ["-m", "gemini-3-pro-preview", "-p", "go"];
    let output = named.run(&args);
    assert_eq!(output.code(), 1);
    assert!(output.err().contains("--fallback auto"), "{}", output.err());
    let output = named.run(&[&args[..], &["--fallback", "auto"]].concat());
    assert_eq!((output.code(), output.stdout().as_str()), (0, "done\n"));
    assert!(output.err().contains("Using `gemini-3.8-flash`"), "{}", output.err());
    let output = named.run(&["-p", "Refactor the parser", "--fallback", "off"]);
    assert_eq!(output.code(), 1);
}

#[test]
fn plans_use_the_strong_model_and_their_implementation_the_fast_one() {
    let call = |name: &str, args: Value| json!({"calls": [{"name": name, "args": args}]});
    let script = json!([
        call("write_file", json!({"file_path": "notes/p.md", "content": "# P"})),
        call("exit_plan_mode", json!({"plan_filename": "p.md"})),
        {"text": "planned"},
        {"text": "done"},
    ]);
    let world =
        create_world(&script.to_string(), r#"{"general": {"plan": {"directory": "notes"}}}"#);
    world.run_ok(&["-p", "What is here?", "--approval-mode", "plan"]);
    world.run_ok(&["-p", "Now refactor all of it", "-r"]);
    // The end of the first prompt already follows the plan.
    assert_eq!(requested_models(&world)[2..], ["gemini-3.8-flash"; 2]);
}

#[test]
fn slow_classifier_does_not_delay_the_prompt() {
    let script = json!([{"method": "generateContent", "chunks": [{"hang": true}]},
        {"text": "done"}, {"text": "again"}]);
    // Long enough to send the request on a busy machine.
    let quick = r#"{"model": {"routing": "on", "routingTimeoutMs": 1500}}"#;
    let world = World::new(&script.to_string());
    world.home.write_home(".gemini/settings.json", quick).expect("settings");
    let output = world.run(&["-p", "Add a flag --quiet\nto the parser", "-o", "json"]);
    assert_eq!(output.code(), 0, "{}", output.err());
    assert_eq!(requested_models(&world), ["gemini-3.5-flash-lite", "gemini-3.1-pro-preview"]);
    let routing = json_response(&output)["stats"]["routing"][0].clone();
    assert_eq!(routing["source"], "default");
    assert!(routing["error"].to_string().contains("within 1500 ms"), "{routing}");
}

#[test]
fn configured_chain_selects_the_fallback_and_whether_to_ask() {
    let busy = json!({"status": 503, "repeat": 0, "match": {"modelContains": "pro"},
        "error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}});
    let world = World::new(&json!([busy, {"text": "done"}]).to_string());
    let settings = json!({"modelConfigs": {"modelChains": {"preview": [
        {"model": "pro", "maxAttempts": 1, "actions": {"transient": "silent"}},
        {"model": "flash-lite", "isLastResort": true}]}}});
    world.home.write_home(".gemini/settings.json", &settings.to_string()).expect("settings");
    let output = world.run(&["-m", "gemini-3.1-pro-preview", "-p", "go"]);
    assert_eq!((output.code(), output.stdout().as_str()), (0, "done\n"), "{}", output.err());
    assert!(output.err().contains("Using `gemini-3.5-flash-lite`"), "{}", output.err());
    assert_eq!(requested_models(&world), ["gemini-3.1-pro-preview", "gemini-3.5-flash-lite"]);
    let invalid =
        json!({"modelConfigs": {"modelChains": {"preview": [{"actions": {"transient": "x"}}]}}});
    world.home.write_home(".gemini/settings.json", &invalid.to_string()).expect("settings");
    let output = world.run(&["-p", "go"]);
    assert_eq!(output.code(), 52, "{}", output.err());
    assert!(output.err().contains("modelConfigs.modelChains"), "{}", output.err());
}

#[test]
fn model_changes_with_plan_mode_within_one_prompt() {
    let call = |name: &str, args: Value| json!({"calls": [{"name": name, "args": args}]});
    let plan = [
        call("write_file", json!({"file_path": "notes/p.md", "content": "# P"})),
        call("exit_plan_mode", json!({"plan_filename": "p.md"})),
        call("write_file", json!({"file_path": "a.txt", "content": "a"})),
        { json!({"text": "done"}) },
    ];
    let settings = r#"{"general": {"plan": {"directory": "notes"}}}"#;
    let script = Value::from(plan.to_vec());
    let out = create_world(&script.to_string(), settings);
    let output = out.run_ok(&["-p", "Refactor all of it", "--approval-mode", "plan", "-o", "json"]);
    let (strong, fast) = ("gemini-3.1-pro-preview", "gemini-3.8-flash");
    assert_eq!(requested_models(&out), [strong, strong, fast, fast]);
    let routing = &json_response(&output)["stats"]["routing"];
    assert!(routing[0]["reason"].to_string().contains("plan mode"), "{routing}");
    assert!(routing[1]["reason"].to_string().contains("follows the plan"), "{routing}");
    // The other way round: the fast model starts the work, and the strong one plans it.
    let script: Value = [call("enter_plan_mode", json!({"reason": "it is large"}))]
        .into_iter()
        .chain(plan)
        .collect();
    let into = create_world(&script.to_string(), settings);
    let prompt = ["-p", "What is in a.txt?", "--approval-mode", "auto_edit"];
    into.run_ok(&prompt);
    assert_eq!(requested_models(&into), [fast, strong, strong, fast, fast]);
    // A model that the user named is kept.
    let named = World::in_home(into.home, &script.to_string());
    named.run_ok(&[&prompt[..], &["-m", "gemini-3.8-flash"]].concat());
    assert_eq!(requested_models(&named), [fast; 5]);
}
