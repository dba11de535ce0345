//! Batches of tasks, with real git and real agents.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::support::{World, finish};
use crate::worktrees::{git, repository};

/// A reply that writes a file for a task, and one that ends it.
fn writes(task: &str) -> [Value; 2] {
    let line = format!("echo {task} > {task}.txt");
    [
        json!({"match": {"promptContains": format!("do {task}.")}, "repeat": 0,
            "calls": [{"name": "run_shell_command", "args": {"command": line}}]}),
        json!({"match": {"lastToolResultContains": ""}, "repeat": 0, "text": "done"}),
    ]
}

fn plan(world: &World, ids: &[String], more: &str) -> String {
    let mut text = String::new();
    for id in ids {
        let _ = writeln!(
            text,
            "{{\"id\": \"{id}\", \"prompt\": \"do {id}.\", \"approval_mode\": \"yolo\"{more}}}"
        );
    }
    world.home.write("plan.jsonl", &text).expect("a plan");
    "plan.jsonl".to_owned()
}

fn result(world: &World, id: &str) -> Value {
    let text = world.read(&format!("plan-results/results/{id}/result.json"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{id}: {error}: {text}"))
}

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("t{number}x")).collect()
}

#[test]
fn every_task_works_in_a_worktree_and_leaves_its_result() {
    let ids = ids(3);
    let script: Vec<Value> = ids.iter().flat_map(|id| writes(id)).collect();
    let world = repository(&Value::Array(script));
    let plan = plan(&world, &ids, ", \"check\": [\"test -f a.txt\"]");
    let done = world.run(&["batch", &plan, "--jobs", "2"]);
    assert_eq!(done.code(), 0, "{}", done.err());
    for id in &ids {
        let result = result(&world, id);
        assert_eq!((&result["state"], &result["exit_code"]), (&json!("succeeded"), &json!(0)));
        assert_eq!(result["files_changed"], json!([format!("{id}.txt")]));
        assert_eq!(result["checks"][0]["passed"], json!(true));
        let branch = result["branch"].as_str().expect("a branch");
        assert_eq!(git(&world, &["show", &format!("{branch}:{id}.txt")]), *id);
        let read = |name: &str| world.read(&format!("plan-results/results/{id}/{name}"));
        assert_eq!(read("answer.md"), "done");
        assert!(read("patch.diff").contains(&format!("+{id}")));
        assert!(read("session.jsonl").contains(&format!("do {id}.")));
        assert!(!world.home.project().join(format!("{id}.txt")).exists());
    }
    assert_eq!(git(&world, &["worktree", "list"]).lines().count(), 1);
    let requests = world.server.requests().len();
    let again = finish(world.command(&["batch", &plan]));
    assert_eq!(again.code(), 0, "{}", again.err());
    assert_eq!(world.server.requests().len(), requests);
}
