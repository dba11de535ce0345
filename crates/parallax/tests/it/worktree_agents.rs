//! Subagents that work in their own git worktrees.

use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{World, raw_contents, wait_until};
use crate::worktrees::{git, repository, worktree_list};

/// Returns an agent in a worktree whose system prompt contains its task.
fn with_worker(world: World) -> World {
    let worker = "---\nname: worker\ndescription: Works.\nisolation: worktree\ntools: \
                  [write_file, run_shell_command]\n---\nThe worker does: ${query}\n";
    world.home.write_home(".parallax/agents/worker.md", worker).expect("the agent");
    world
}

fn invoke(prompt: &str) -> Value {
    json!({"name": "invoke_agent", "args": {"agent_name": "worker", "prompt": prompt}})
}

/// Returns a reply to the agent with this task.
fn reply_to(task: &str, calls: &Value) -> Value {
    json!({"calls": calls, "match": {"systemContains": format!("The worker does: {task}")}})
}

fn shell(line: &str) -> Value {
    json!({"name": "run_shell_command", "args": {"command": line}})
}

fn write(text: &str) -> Value {
    json!({"name": "write_file", "args": {"file_path": "a.txt", "content": text}})
}

fn done() -> Value {
    json!([{"name": "complete_task", "args": {"result": "finished"}}])
}

/// Returns the results of the calls in the last request.
fn results(world: &World) -> String {
    let requests = world.server.requests();
    raw_contents(requests.last().expect("a request")).concat()
}

fn branches(world: &World) -> Vec<String> {
    let names = git(world, &["branch", "--format=%(refname:short)", "--list", "parallax/*"]);
    names.lines().map(str::to_owned).collect()
}

#[test]
fn parallel_isolated_subagents_change_the_same_file_on_their_branches() {
    let probe = "pwd > where.txt; main=$(dirname \"$(git rev-parse --git-common-dir)\"); \
                 echo bad > \"$main/a.txt\"; echo bad > \"$main/new.txt\"";
    let world = with_worker(repository(&json!([
        {"calls": [invoke("first"), invoke("second")]},
        reply_to("first", &json!([write("by first\n")])),
        reply_to("second", &json!([write("by second\n")])),
        reply_to("first", &json!([shell(probe)])),
        reply_to("second", &json!([shell(probe)])),
        reply_to("first", &done()),
        reply_to("second", &done()),
        {"text": "all done"},
    ])));
    let output = world.run_ok(&["-p", "go", "-y"]);
    assert_eq!(output.stdout(), "all done\n");
    assert_eq!(git(&world, &["status", "--short"]), "");
    let branches = branches(&world);
    let mut texts: Vec<String> =
        branches.iter().map(|name| git(&world, &["show", &format!("{name}:a.txt")])).collect();
    texts.sort();
    assert_eq!(texts, ["by first", "by second"]);
    let report = results(&world);
    for branch in &branches {
        assert!(report.contains(&format!("git merge {branch}")), "{report}");
        let place = git(&world, &["show", &format!("{branch}:where.txt")]);
        assert!(place.contains("/.parallax/worktrees/"), "{place}");
    }
    let listed = worktree_list(&world);
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().all(|it| it["dirty"] == false && it["ahead"] == 1), "{listed:?}");
}

#[test]
fn worktree_of_a_subagent_is_clean_when_its_change_assigns_attributes() {
    let line = "echo '*.u16 text working-tree-encoding=UTF-16LE' > .gitattributes; \
                printf 'a\\0\\n\\0' > f.u16";
    let world = with_worker(repository(&json!([
        {"calls": [invoke("encode")]},
        reply_to("encode", &json!([shell(line)])),
        reply_to("encode", &done()),
        {"text": "all done"},
    ])));
    world.run_ok(&["-p", "go", "-y"]);
    let branch = branches(&world).concat();
    assert_eq!(git(&world, &["show", &format!("{branch}:f.u16")]), "a");
    let listed = worktree_list(&world);
    let path = listed[0]["path"].as_str().expect("a path");
    assert_eq!(git(&world, &["-C", path, "status", "--short"]), "");
    git(&world, &["merge", "-q", &branch]);
    world.run_ok(&["worktrees", "remove", listed[0]["name"].as_str().expect("a name")]);
}

#[test]
fn prune_removes_what_remove_accepts() {
    let world = with_worker(repository(&json!([
        {"calls": [invoke("first"), invoke("second")]},
        reply_to("first", &json!([write("by first\n")])),
        reply_to("second", &json!([write("by second\n")])),
        reply_to("first", &done()),
        reply_to("second", &done()),
        {"text": "all done"},
    ])));
    world.run_ok(&["-p", "go", "-y"]);
    let branches = branches(&world);
    assert_eq!(world.run_ok(&["worktrees", "prune"]).stdout(), "", "no branch is merged");
    git(&world, &["merge", "-q", &branches[0]]);
    let pruned = world.run_ok(&["worktrees", "prune"]).stdout();
    let merged = branches[0].trim_start_matches("parallax/");
    assert_eq!(pruned, format!("Removed the worktree `{merged}`\n"));
    assert_eq!(worktree_list(&world).len(), 1);
}

#[test]
fn unchanged_worktree_of_a_subagent_is_removed() {
    let world = with_worker(repository(&json!([
        {"calls": [invoke("look")]},
        reply_to("look", &json!([shell("cat a.txt")])),
        reply_to("look", &done()),
        {"text": "all done"},
    ])));
    world.run_ok(&["-p", "go", "-y"]);
    assert!(results(&world).contains("It changed no files; its git worktree was removed"));
    assert!(worktree_list(&world).is_empty() && branches(&world).is_empty());
}

#[test]
fn isolated_subagent_without_a_repository_fails_with_the_reason() {
    let script = json!([{"calls": [invoke("look")]}, {"text": "all done"}]);
    let world = with_worker(World::new(&script.to_string()));
    world.run_ok(&["-p", "go", "-y"]);
    let report = results(&world);
    assert!(report.contains("is not in a git working tree; worktrees require one"), "{report}");
}

#[test]
fn killed_isolated_subagent_resumes_in_its_worktree() {
    let world = with_worker(repository(&json!([
        {"calls": [invoke("count")]},
        reply_to("count", &json!([shell("echo one > log; sleep 60")])),
    ])));
    let running = world.start(&["-p", "go", "-y", "--session-id", "killed"]);
    let log = || {
        let listed = worktree_list(&world);
        listed.iter().any(|it| {
            let path = it["path"].as_str().unwrap_or_default().to_owned();
            std::path::Path::new(&path).join("log").exists()
        })
    };
    wait_until("the first line", log);
    kill_process(running.pid(), Signal::KILL).expect("signal");
    running.finish(Duration::from_secs(10)).expect("finish");
    assert!(worktree_list(&world).iter().all(|it| it["dirty"] == true));
    let resume = json!({"agent_name": "worker", "prompt": "go on", "resume": "worker-1"});
    let script = json!([
        {"calls": [{"name": "invoke_agent", "args": resume}]},
        reply_to("count", &json!([shell("echo two >> log")])),
        reply_to("count", &done()),
        {"text": "all done"},
    ]);
    let world = World::in_home(world.home, &script.to_string());
    world.run_ok(&["-p", "go on", "-r", "killed", "-y"]);
    let branches = branches(&world);
    assert_eq!(branches.len(), 1);
    assert_eq!(git(&world, &["show", &format!("{}:log", branches[0])]), "one\ntwo");
}
