//! An interrupted subagent continues where it stopped.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Conversation, World, raw_contents, wait_until};

const WORKER: &str = "---\nname: worker\ndescription: Works.\ntools: \
                      [run_shell_command]\n---\nYou are the worker. Your task: ${query}\n";

fn shell(command: &str) -> Value {
    json!({"calls": [{"name": "run_shell_command", "args": {"command": command}}]})
}

fn invoke(args: &Value) -> Value {
    json!({"calls": [{"name": "invoke_agent", "args": args}]})
}

/// Returns the agent's first two calls, and a third one that takes long.
fn first_part() -> String {
    json!([
        invoke(&json!({"agent_name": "worker", "prompt": "count to three"})),
        shell("echo one >> log"),
        shell("echo two >> log"),
        shell("echo begun > third; sleep 60"),
    ])
    .to_string()
}

fn second_part() -> String {
    json!([
        invoke(&json!({"agent_name": "worker", "prompt": "mind the gap", "resume": "worker-1"})),
        shell("echo three >> log"),
        {"calls": [{"name": "complete_task", "args": {"result": "counted"}}]},
        {"text": "all done"},
    ])
    .to_string()
}

fn create_world() -> World {
    let world = World::new(&first_part());
    world.home.write_home(".gemini/agents/worker.md", WORKER).expect("the agent");
    world
}

/// Returns the journals of agents in the home directory.
fn journals(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let found = entries.map(|entry| entry.path()).flat_map(|path| match path.is_dir() {
        true => journals(&path),
        false => vec![path],
    });
    found
        .filter(|path| path.parent().is_some_and(|it| it.ends_with("agents")))
        .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
        .collect()
}

fn body(world: &World, index: usize) -> String {
    raw_contents(&world.server.requests()[index]).concat()
}

#[test]
fn finished_subagent_calls_are_not_repeated_after_a_kill() {
    let world = create_world();
    let running = world.start(&["-p", "go", "-y", "--session-id", "killed"]);
    wait_until("the third call", || world.home.project().join("third").exists());
    kill_process(running.pid(), Signal::KILL).expect("signal");
    running.finish(Duration::from_secs(10)).expect("finish");
    assert_eq!(journals(world.home.root()).len(), 1);
    let world = World::in_home(world.home, &second_part());
    let mut conversation = Conversation::start(
        &world,
        &["-r", "killed", "-y", "-o", "stream-json", "--stream-version", "2"],
    );
    conversation.send(&json!({"type": "continue"}));
    assert_eq!(conversation.next("agent")["resumed"], true);
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(conversation.end(), Some(0));
    assert_eq!(world.read("log"), "one\ntwo\nthree\n");
    // The session is notified how to resume the agent, and the agent has its previous history.
    assert!(body(&world, 0).contains(r#"`resume`: \"worker-1\""#), "{}", body(&world, 0));
    let resumed = body(&world, 1);
    for text in ["echo one", "echo two", "its result is lost", "mind the gap"] {
        assert!(resumed.contains(text), "`{text}` is not in {resumed}");
    }
    assert_eq!(resumed.matches("<session_context>").count(), 1);
    let system: Value = serde_json::from_slice(&world.server.requests()[1].body).expect("json");
    assert!(system["systemInstruction"].to_string().contains("Your task: count to three"));
    assert!(!body(&world, 3).contains("echo two"));
    // The journals of finished agents are deleted.
    assert_eq!(journals(world.home.root()), Vec::<PathBuf>::new());
    world.server.assert_clean();
}

#[test]
fn model_learns_how_to_resume_a_subagent_after_an_interrupt() {
    let world = create_world();
    let running = world.start(&["-p", "go", "-y", "--session-id", "stopped"]);
    wait_until("the third call", || world.home.project().join("third").exists());
    kill_process(running.pid(), Signal::INT).expect("signal");
    let output = running.finish(Duration::from_secs(10)).expect("finish");
    assert_eq!(output.code(), 130, "{}", output.err());
    let world = World::in_home(world.home, &second_part());
    let output = world.run_ok(&["-p", "go on", "-r", "stopped", "-y"]);
    assert_eq!(output.stdout(), "all done\n");
    assert_eq!(world.read("log"), "one\ntwo\nthree\n");
    assert!(body(&world, 0).contains(r#"`resume`: \"worker-1\""#), "{}", body(&world, 0));
}

#[test]
fn unknown_subagent_run_is_not_resumed() {
    let other = json!({"agent_name": "worker", "prompt": "go", "resume": "worker-/../../x"});
    let world = World::new(&json!([invoke(&other), {"text": "done"}]).to_string());
    world.home.write_home(".gemini/agents/worker.md", WORKER).expect("the agent");
    world.run_ok(&["-p", "go", "-y"]);
    let report = body(&world, 1);
    assert!(report.contains("`worker` has no interrupted run"), "{report}");
}
