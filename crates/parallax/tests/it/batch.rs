//! Batches of tasks, with real git and real agents.

use std::fmt::Write as _;
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use testkit::measure::{FinishedProcess, run};

use crate::support::{World, finish, wait_until};
use crate::worktrees::{git, repository};

/// Longer than any batch here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Replies with which a task runs a command, in which ID is its id, and ends.
pub fn shell(ids: &[String], line: &str) -> Vec<Value> {
    let first = ids.iter().map(|id| {
        let command = json!({"command": line.replace("ID", id)});
        json!({"match": {"promptContains": format!("do {id}.")}, "repeat": 0,
            "calls": [{"name": "run_shell_command", "args": command}]})
    });
    let last = json!({"match": {"lastToolResultContains": ""}, "repeat": 0, "text": "done"});
    // What follows an answer that was cut off.
    let rest = json!({"match": {"promptContains": "Continue where you left off"}, "repeat": 0, "text": "done"});
    first.chain([last, rest]).collect()
}

/// Writes a plan with these tasks.
pub fn plan(world: &World, ids: &[String], more: &Value) -> &'static str {
    let mut text = String::new();
    for id in ids {
        let mut task = json!({"id": id, "prompt": format!("do {id}."), "approval_mode": "yolo"});
        let fields = more.as_object().expect("an object").clone();
        task.as_object_mut().expect("an object").extend(fields);
        let _ = writeln!(text, "{task}");
    }
    world.home.write("plan.jsonl", &text).expect("a plan");
    "plan.jsonl"
}

pub fn result(world: &World, id: &str) -> Value {
    let text = world.read(&format!("plan-results/results/{id}/result.json"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{id}: {error}: {text}"))
}

fn states(world: &World, ids: &[String]) -> Vec<String> {
    let state = |id: &String| result(world, id)["state"].as_str().expect("a state").to_owned();
    ids.iter().map(state).collect()
}

pub fn ids(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("t{number}x")).collect()
}

pub fn batch(world: &World, arguments: &[&str]) -> FinishedProcess {
    let mut command = world.command(&["batch"]);
    command.args(arguments);
    let output = run(command, None, LIMIT).expect("run");
    assert!(!output.timed_out, "not done in {LIMIT:?}: {}", output.err());
    output
}

pub fn batch_ok(world: &World, arguments: &[&str]) -> FinishedProcess {
    let output = batch(world, arguments);
    assert_eq!(output.code(), 0, "{}{}", output.stdout(), output.err());
    output
}

/// Asserts that only the branches of the tasks are left.
pub fn assert_no_worktrees(world: &World) {
    assert_eq!(git(world, &["worktree", "list"]).lines().count(), 1);
    let worktrees = world.home.parallax().join("worktrees");
    let left: Vec<_> = std::fs::read_dir(worktrees).expect("a directory").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn every_task_runs_in_a_worktree_and_stores_its_result() {
    let ids = ids(3);
    let world = repository(&Value::Array(shell(&ids, "echo ID > ID.txt")));
    let plan = plan(
        &world,
        &ids,
        &json!({"setup": ["echo ready > setup.local"], "check": ["test -f a.txt -a -f setup.local"]}),
    );
    let output = batch_ok(&world, &[plan, "--jobs", "2"]);
    assert!(output.stdout().contains("3 tasks: 3 succeeded"), "{}", output.stdout());
    for id in &ids {
        let result = result(&world, id);
        assert_eq!((&result["state"], &result["exit_code"]), (&json!("succeeded"), &json!(0)));
        let read = |name: &str| world.read(&format!("plan-results/results/{id}/{name}"));
        let session = read("session.jsonl");
        assert_eq!(result["files_changed"], json!([format!("{id}.txt")]), "{session}");
        assert_eq!(result["checks"][0]["passed"], json!(true));
        let branch = result["branch"].as_str().expect("a branch");
        assert_eq!(git(&world, &["show", &format!("{branch}:{id}.txt")]), *id);
        assert_eq!(read("answer.md"), "done");
        assert!(read("patch.diff").contains(&format!("+{id}")));
        assert!(session.contains(&format!("do {id}.")));
        assert!(!world.home.project().join(format!("{id}.txt")).exists());
    }
    assert_no_worktrees(&world);
    let summary: Value =
        serde_json::from_str(&world.read("plan-results/summary.json")).expect("JSON");
    assert_eq!((&summary["tasks"], &summary["states"]["succeeded"]), (&json!(3), &json!(3)));
    assert!(world.read("plan-results/summary.md").contains("| t0x | succeeded |"));
    assert!(world.read("plan-results/report.html").contains("+t0x"));
    assert_eq!(git(&world, &["status", "--porcelain"]), "?? plan.jsonl");

    let requests = world.server.requests().len();
    let again = batch_ok(&world, &[plan]);
    assert_eq!(world.server.requests().len(), requests, "{}", again.err());
}

#[test]
fn task_without_repository_fails_alone_in_each_run() {
    let all = ids(2);
    let world = repository(&Value::Array(shell(&all, "echo ID > ID.txt")));
    let plan = plan(&world, &all[..1], &json!({}));
    let add = |task: Value| {
        let text = format!("{}{task}\n", world.read("plan.jsonl"));
        world.home.write("plan.jsonl", &text).expect("a plan");
    };
    add(json!({"id": "none", "prompt": "x", "repo": "missing"}));
    assert_eq!(batch(&world, &[plan]).code(), 1);
    add(json!({"id": "t1x", "prompt": "do t1x.", "approval_mode": "yolo"}));
    let again = batch(&world, &[plan]);
    assert_eq!(again.code(), 1, "{}", again.err());
    assert_eq!(states(&world, &all), ["succeeded"; 2]);
    assert_no_worktrees(&world);
}

#[test]
fn task_in_a_sparse_checkout_may_create_files_outside_of_it() {
    let ids = ids(1);
    let world = repository(&Value::Array(shell(&ids, "mkdir -p far && echo ID > far/new.txt")));
    for name in ["near/a.txt", "far/b.txt"] {
        world.home.write(name, "text\n").expect("a file");
    }
    git(&world, &["add", "-A"]);
    git(&world, &["commit", "-qm", "more"]);
    git(&world, &["sparse-checkout", "set", "near"]);
    let plan = plan(&world, &ids, &json!({}));
    batch_ok(&world, &[plan]);
    assert_eq!(result(&world, &ids[0])["files_changed"], json!(["far/new.txt"]));
    assert_no_worktrees(&world);
}

#[test]
fn killed_batch_continues_without_running_a_task_twice() {
    let ids = ids(6);
    // Every task writes into one file, outside of all worktrees.
    let world = repository(&json!([]));
    let line = "echo ID >> ID.txt; sleep 0.1";
    let world = World::in_home(world.home, &Value::Array(shell(&ids, line)).to_string());
    // A call that had not begun when its batch ended is cancelled, and this model does not repeat
    // it.
    let check = "test $(cat *x.txt 2>/dev/null | wc -l) -le 1";
    let plan = plan(&world, &ids, &json!({"check": [check]}));
    for moment in [5, 150, 300, 450, 600] {
        let running = world.start(&["batch", plan, "--jobs", "3"]);
        std::thread::sleep(Duration::from_millis(moment));
        // It may have ended already.
        let _ = kill_process(running.pid(), Signal::KILL);
        running.finish(LIMIT).expect("finish");
    }
    batch_ok(&world, &[plan, "--jobs", "3"]);
    assert_eq!(states(&world, &ids), ["succeeded"; 6]);
    let ran = ids.iter().filter(|id| {
        let changed = &result(&world, id)["files_changed"];
        assert!(*changed == json!([]) || *changed == json!([format!("{id}.txt")]), "{changed}");
        *changed != json!([])
    });
    assert!(ran.count() >= 3);
    assert_no_worktrees(&world);
    assert_eq!(world.server.violations(), Vec::<String>::new());
}

#[test]
fn stopped_batch_finishes_tool_calls_and_resumes() {
    let ids = ids(4);
    let world =
        repository(&Value::Array(shell(&ids, "echo ID >> ID.txt; sleep 1; echo end >> ID.txt")));
    let plan = plan(&world, &ids, &json!({}));
    let running = world.start(&["batch", plan, "--jobs", "2"]);
    // A call that has not begun is cancelled, and this model does not repeat it.
    for id in &ids[..2] {
        wait_until("the command", || has_file(&world, &format!("{id}.txt")));
    }
    kill_process(running.pid(), Signal::TERM).expect("signal");
    let output = running.finish(LIMIT).expect("finish");
    assert_eq!(output.code(), 143, "{}", output.err());
    assert_eq!(states(&world, &ids[..2]), ["cancelled"; 2]);
    assert!(!world.home.project().join("plan-results/results/t3x/result.json").exists());

    batch_ok(&world, &[plan]);
    for id in &ids {
        let patch = world.read(&format!("plan-results/results/{id}/patch.diff"));
        assert!(patch.ends_with(&format!("+{id}\n+end\n")), "{patch}");
    }
    // The tool calls that ran were not lost: the model was asked twice about each task.
    assert_eq!(world.server.requests().len(), 8);
    assert_eq!(result(&world, "t0x")["attempts"], json!(2));
    assert_no_worktrees(&world);
}

#[test]
fn task_that_is_killed_fails_alone_and_runs_again_on_request() {
    let ids = ids(2);
    let mut script = shell(&ids, "echo ID > ID.txt");
    script.insert(0, json!({"match": {"promptContains": "do t0x."}, "chunks": [{"gate": "held"}]}));
    let world = repository(&Value::Array(script));
    let plan = plan(&world, &ids, &json!({}));
    let running = world.start(&["batch", plan, "--jobs", "2"]);
    world.at_gate("held");
    let agent = agent_of(&world, "t0x");
    kill_process(agent, Signal::KILL).expect("kill");
    let output = running.finish(LIMIT).expect("finish");
    assert_eq!(output.code(), 1, "{}", output.err());
    assert_eq!(states(&world, &ids), ["failed", "succeeded"]);
    assert!(result(&world, "t0x")["reason"].as_str().expect("why").contains("signal 9"));
    assert_no_worktrees(&world);

    assert_eq!(batch(&world, &[plan]).code(), 1);
    batch_ok(&world, &[plan, "--retry-failed"]);
    assert_eq!(states(&world, &ids), ["succeeded"; 2]);
}

#[test]
fn request_of_a_killed_task_counts_its_possible_cost() {
    let ids = ids(2);
    let mut script = shell(&ids, "echo ID > ID.txt");
    script.insert(0, json!({"match": {"promptContains": "do t0x."}, "chunks": [{"gate": "held"}]}));
    let world = repository(&Value::Array(script));
    let plan = plan(&world, &ids, &json!({"model": "gemini-3-pro-preview"}));
    let limit = ["batch", plan, "--jobs", "1", "--max-cost", "0.25"];
    let running = world.start(&limit);
    world.at_gate("held");
    let agent = agent_of(&world, "t0x");
    kill_process(running.pid(), Signal::KILL).expect("kill");
    kill_process(agent, Signal::KILL).expect("kill");
    running.finish(LIMIT).expect("finish");
    // Its request had the whole budget reserved, whose end is not known.
    let output = batch(&world, &limit[1..]);
    assert_eq!((output.code(), world.server.requests().len()), (57, 1), "{}", output.err());
    let summary = world.read("plan-results/summary.json");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    assert_eq!(summary["states"].get("succeeded"), None, "{summary}");

    batch_ok(&world, &[plan, "--max-cost", "3"]);
    let costs: Vec<f64> =
        ids.iter().map(|id| result(&world, id)["cost"].as_f64().expect("a cost")).collect();
    assert!(costs[0] > 0.25 && costs[1] < 0.25, "{costs:?}");
    assert_no_worktrees(&world);
}

#[test]
fn request_that_ends_with_its_batch_counts_more_than_was_received() {
    let ids = ids(1);
    let held = json!({"match": {"promptContains": "do t0x."}, "chunks": [{"gate": "held"}]});
    let script: Vec<Value> = std::iter::repeat_n(held, 9).collect();
    let world = repository(&Value::Array(script));
    let plan = plan(&world, &ids, &json!({"model": "gemini-3-pro-preview"}));
    // With their input, and 1,024 tokens of output that the model may have generated, three of
    // these requests cost more.
    let limit = ["batch", plan, "--max-cost", "0.06"];
    let is_refused = (0..9).any(|_| {
        let running = world.start(&limit);
        let sent = world.server.requests().len();
        wait_until("a request or the end", || {
            world.server.requests().len() > sent || running.output().contains("used up")
        });
        if world.server.requests().len() > sent {
            // The agent ends its request itself then.
            kill_process(running.pid(), Signal::KILL).expect("kill");
        }
        running.finish(LIMIT).expect("finish").code() == 57
    });
    assert!(is_refused);
    let requests = world.server.requests().len();
    assert!((1..=3).contains(&requests), "{requests} requests");
}

#[test]
fn agent_that_is_killed_in_a_request_uses_up_the_limit_of_its_task() {
    let ids = ids(1);
    let held = json!({"match": {"promptContains": "do t0x."}, "chunks": [{"gate": "held"}]});
    let world = repository(&json!([held]));
    let task = json!({"model": "gemini-3-pro-preview", "max_cost": 0.25});
    let plan = plan(&world, &ids, &task);
    let running = world.start(&["batch", plan]);
    world.at_gate("held");
    kill_process(agent_of(&world, "t0x"), Signal::KILL).expect("kill");
    running.finish(LIMIT).expect("finish");
    let result = result(&world, "t0x");
    assert_eq!((&result["state"], &result["cost"]), (&json!("failed"), &json!(0.25)));
}

#[test]
fn waiting_for_the_budget_does_not_count_as_time_of_the_task() {
    let ids = ids(3);
    // The first task is cheap, so that the others start at the same time. Each request reserves
    // more than half of the rest.
    let first = json!({"match": {"promptContains": "do t0x."}, "text": "done"});
    let slow = json!({"match": {"promptContains": "do t"}, "repeat": 0,
        "chunks": [{"wait_ms": 2_500}, {"text": "done"}, {"finish": "STOP"}]});
    let world = repository(&json!([first, slow]));
    let task = json!({"model": "gemini-3-pro-preview", "timeout": "4s"});
    let plan = plan(&world, &ids, &task);
    batch_ok(&world, &[plan, "--jobs", "3", "--max-cost", "0.9"]);
    assert_eq!(states(&world, &ids), ["succeeded"; 3]);
}

#[test]
fn terminal_interrupt_does_not_end_the_git_process_of_a_task() {
    use std::os::unix::process::CommandExt as _;
    let ids = ids(1);
    let world = repository(&Value::Array(shell(&ids, "echo ID > ID.txt")));
    let plan = plan(&world, &ids, &json!({}));
    let script = "#!/bin/sh\ncase \"$*\" in *worktree\\ add*) touch \"$HOME/adds\"; sleep 1;; esac\n\
        PATH=${PATH#*:} exec git \"$@\"\n";
    world.home.write_home("bin/git", script).expect("git");
    let programs = world.home.home().join("bin");
    finish(world.shell(&format!("chmod +x {}/git", programs.display()), &[]));
    let mut command = world.command(&["batch", plan]);
    let path = std::env::var("PATH").expect("a path");
    command.env("PATH", format!("{}:{path}", programs.display())).process_group(0);
    let mut running = command.spawn().expect("a process");
    wait_until("git", || world.home.home().join("adds").exists());
    let group = rustix::process::Pid::from_raw(running.id().cast_signed()).expect("a process");
    rustix::process::kill_process_group(group, Signal::INT).expect("a signal");
    assert_eq!(running.wait().expect("an end").code(), Some(130));
    let first = result(&world, "t0x");
    assert_eq!(first["state"], json!("cancelled"), "{first}");
    batch_ok(&world, &[plan]);
    assert_eq!(states(&world, &ids), ["succeeded"]);
}

#[test]
fn file_with_a_filter_that_its_change_assigns_is_not_committed() {
    let ids = ids(1);
    let line = "echo '*.sec filter=x' > .gitattributes; echo secret > k.sec";
    let world = repository(&Value::Array(shell(&ids, line)));
    git(&world, &["config", "filter.x.clean", "tr a-z n-za-m"]);
    let plan = plan(&world, &ids, &json!({}));
    assert_eq!(batch(&world, &[plan]).code(), 1);
    let result = result(&world, "t0x");
    let reason = result["reason"].as_str().expect("a reason");
    assert!(reason.contains("`k.sec`"), "{result}");
    assert_eq!(result["commit"], Value::Null);
}

#[test]
fn separate_processes_start_only_tasks_that_the_budget_covers() {
    let ids = ids(4);
    let mut first = ten_cents("");
    first["match"] = json!({"promptContains": "do t"});
    first["chunks"][0]["candidates"][0]["content"]["parts"] =
        json!([{"functionCall": {"name": "run_shell_command", "args": {"command": "echo one"}}}]);
    let mut second = ten_cents("done");
    second["match"] = json!({"lastToolResultContains": "one"});
    let world = repository(&json!([second, first]));
    let plan = plan(&world, &ids, &json!({"model": "gemini-3-pro-preview"}));
    let runs: Vec<_> = (0..4)
        .map(|index| {
            let index = index.to_string();
            let arguments = ["run-task", plan, "--index", &index, "--max-cost", "0.5"];
            world.start(&[&["batch"], &arguments[..]].concat())
        })
        .collect();
    let mut codes: Vec<i32> =
        runs.into_iter().map(|run| run.finish(LIMIT).expect("an end").code()).collect();
    codes.sort_unstable();
    // Each costs twenty cents.
    assert_eq!((codes.as_slice(), world.server.requests().len()), (&[0, 0, 57, 57][..], 4));
}

/// Whether a worktree of the project has this file.
fn has_file(world: &World, name: &str) -> bool {
    let projects = std::fs::read_dir(world.home.parallax().join("worktrees"));
    let worktrees = projects.into_iter().flatten().flatten();
    let worktrees = worktrees.flat_map(|project| std::fs::read_dir(project.path()));
    worktrees.flatten().flatten().any(|worktree| worktree.path().join(name).exists())
}

/// Returns the agent that works in the worktree of a task.
fn agent_of(world: &World, id: &str) -> rustix::process::Pid {
    let below = world.home.parallax().join("worktrees");
    let mut found = None;
    wait_until("the agent", || {
        let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
        found = processes
            .filter(|entry| {
                std::fs::read_link(entry.path().join("cwd")).is_ok_and(|directory| {
                    directory.starts_with(&below) && directory.to_string_lossy().contains(id)
                })
            })
            .find_map(|entry| entry.file_name().to_str()?.parse().ok());
        found.is_some()
    });
    rustix::process::Pid::from_raw(found.expect("a number")).expect("a process")
}

/// Returns a reply that costs ten cents: 50,000 tokens of a prompt.
pub fn ten_cents(text: &str) -> Value {
    let content = json!({"role": "model", "parts": [{"text": text}]});
    let usage =
        json!({"promptTokenCount": 50_000, "candidatesTokenCount": 0, "totalTokenCount": 50_000});
    json!({"repeat": 0, "chunks": [{"candidates": [{"content": content, "finishReason": "STOP"}],
        "usageMetadata": usage}]})
}

#[test]
fn budget_ends_the_batch_to_the_cent() {
    let ids = ids(8);
    let world = repository(&json!([ten_cents("done")]));
    let plan = plan(&world, &ids, &json!({"model": "gemini-3-pro-preview"}));
    let output = batch(&world, &[plan, "--jobs", "3", "--max-cost", "0.5", "-o", "stream-json"]);
    assert_eq!(output.code(), 57, "{}", output.err());
    let last: Value =
        serde_json::from_str(output.stdout().lines().last().expect("a line")).expect("JSON");
    assert_eq!((&last["cost"], &last["budget_spent"]), (&json!(0.5), &json!(true)));
    assert_eq!(world.server.requests().len(), 5);
    let output = batch(&world, &[plan, "--max-cost", "0.8"]);
    assert_eq!((output.code(), world.server.requests().len()), (0, 8), "{}", output.err());
}

#[test]
fn tasks_that_run_together_do_not_exceed_the_budget_and_continue_with_a_higher_one() {
    let ids = ids(6);
    let shell = |line: &str| json!({"functionCall": {"name": "run_shell_command", "args": {"command": line}}});
    // The first task is cheap, so that the others start at the same time.
    let script = [
        (json!({"promptContains": "do t0x."}), json!({"text": "done"})),
        (json!({"promptContains": "do t"}), shell("echo one")),
        (json!({"lastToolResultContains": "one"}), shell("echo two")),
        (json!({"lastToolResultContains": "two"}), json!({"text": "done"})),
    ];
    let script = script.into_iter().map(|(condition, part)| {
        let mut answer = ten_cents("");
        answer["match"] = condition;
        // Also ten cents, which the budget cannot know in advance.
        answer["chunks"][0]["usageMetadata"] = json!({"promptTokenCount": 2_000,
            "candidatesTokenCount": 8_000, "totalTokenCount": 10_000});
        answer["chunks"][0]["candidates"][0]["content"]["parts"] = json!([part]);
        answer
    });
    let world = repository(&Value::Array(script.collect()));
    let plan = plan(&world, &ids, &json!({"model": "gemini-3-pro-preview"}));
    let cost_at_the_end = |limit: &str| {
        let options = [plan, "--jobs", "5", "--max-cost", limit, "-o", "stream-json"];
        let output = batch(&world, &options);
        let lines = output.stdout();
        let last: Value =
            serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
        (output.code(), last["cost"].as_f64().expect("a cost"))
    };
    let (code, cost) = cost_at_the_end("0.91");
    assert!(code == 57 && cost < 0.911, "{code} {cost}");
    let count = world.server.requests().len();
    assert!((6..10).contains(&count), "{count}");
    assert_eq!(states(&world, &ids[..1]), ["succeeded"]);
    let (code, cost) = cost_at_the_end("9");
    assert!(code == 0 && (cost - 1.6).abs() < 1e-6, "{code} {cost}");
    assert_eq!(world.server.requests().len(), 16);
}

#[test]
fn rate_limit_slows_all_tasks_down_together() {
    let ids = ids(8);
    let limit = json!({"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"},
        "headers": {"retry-after": "1"}, "repeat": 2});
    let world = repository(&json!([limit, {"text": "done", "repeat": 0}]));
    let plan = plan(&world, &ids, &json!({}));
    batch_ok(&world, &[plan, "--jobs", "4"]);
    assert_eq!(states(&world, &ids), ["succeeded"; 8]);
    // Two were rejected; nothing was sent in vain while the others waited.
    assert_eq!(world.server.requests().len(), 10);
    let waited = |id: &str| {
        let result = result(&world, id);
        let time = |key: &str| result[key].as_str().expect("a time").to_owned();
        (time("started"), time("ended"))
    };
    let last = ids.iter().map(|id| waited(id).1).max();
    assert!(last > Some(waited("t0x").0), "{last:?}");
}

#[test]
fn batch_results_are_applied_as_changes_or_branches() {
    let ids = ids(3);
    let world = repository(&Value::Array(shell(&ids, "echo ID > same.txt; echo ID > ID.txt")));
    let plan = plan(&world, &ids, &json!({"check": ["test ! -f t2x.txt"]}));
    assert_eq!(batch(&world, &[plan]).code(), 1);

    let output = batch(&world, &["apply", "plan-results"]);
    assert_eq!(output.code(), 1, "{}{}", output.stdout(), output.err());
    let out = output.stdout();
    assert!(out.contains("t0x: applied, files: 2"), "{out}");
    assert!(out.contains("t1x: conflict, nothing changed: ") && out.contains("same.txt"), "{out}");
    assert!(out.contains("t2x: skipped, failed"), "{out}");
    assert_eq!(world.read("same.txt"), "t0x\n");
    assert!(world.home.project().join("t0x.txt").exists());
    assert!(!world.home.project().join("t1x.txt").exists());

    let branch = result(&world, "t1x")["branch"].as_str().expect("a branch").to_owned();
    git(&world, &["branch", "-D", &branch]);
    let output = batch_ok(&world, &["apply", "plan-results", "--branch", "t1x", "t2x"]);
    assert!(output.stdout().contains(&format!("t1x: branch {branch}")), "{}", output.stdout());
    assert_eq!(git(&world, &["show", &format!("{branch}:same.txt")]), "t1x");
    let unknown = batch(&world, &["apply", "plan-results", "nothing"]);
    assert_eq!(unknown.code(), 42, "{}", unknown.err());

    // A patch that is not the one of the task is not applied.
    let results = world.home.project().join("plan-results/results");
    let patch = results.join("t2x/patch.diff");
    let text = std::fs::read_to_string(&patch).expect("a patch");
    let whole = text.rfind("diff --git").expect("two files");
    std::fs::write(&patch, &text[..whole]).expect("a patch");
    let output = batch(&world, &["apply", "plan-results", "t2x"]);
    let reason = "t2x: failed, nothing changed: `";
    assert!(output.code() == 1 && output.stdout().contains(reason), "{}", output.stdout());
    assert!(output.stdout().contains("is not the patch that the task wrote"));

    // A result without its patch does not keep the others from being applied.
    std::fs::remove_file(results.join("t0x/patch.diff")).expect("a patch");
    let output = batch(&world, &["apply", "plan-results", "t0x", "t1x"]);
    let out = output.stdout();
    assert!(out.contains("t0x: failed, nothing changed: ") && out.contains("t1x: "), "{out}");
}

#[test]
fn model_name_that_looks_like_an_option_is_one_argument() {
    let world = repository(&json!([{"text": "done", "repeat": 0}]));
    let ids = ids(1);
    let plan = plan(&world, &ids, &json!({"model": "--yolo"}));
    batch(&world, &[plan]);
    let result = result(&world, "t0x");
    assert_eq!(result["state"], "succeeded", "{result}");
}

#[test]
fn matrix_runs_several_models_that_can_be_compared() {
    let good = json!({"match": {"modelContains": "pro", "promptContains": "write it"}, "repeat": 0,
        "calls": [{"name": "run_shell_command", "args": {"command": "echo x > it.txt"}}]});
    let world = repository(&json!([good, {"text": "done", "repeat": 0}]));
    let plan = "[defaults]\napproval_mode = \"yolo\"\ncheck = [\"test -f it.txt\"]\n\
        [matrix]\nmodel = [\"gemini-3-pro-preview\", \"gemini-2.5-flash\"]\n\
        [[tasks]]\nid = \"w-{model}\"\nprompt = \"write it\"\n";
    world.home.write("plan.toml", plan).expect("a plan");
    assert_eq!(batch(&world, &["plan.toml"]).code(), 1);
    let output = batch_ok(&world, &["compare", "plan-results", "--json"]);
    let compared: Value = serde_json::from_str(&output.stdout()).expect("JSON");
    let results = compared["tasks"][0]["results"].as_array().expect("results");
    let seen: Vec<_> =
        results.iter().map(|it| (it["model"].clone(), it["state"].clone())).collect();
    assert_eq!(
        seen,
        [
            (json!("gemini-3-pro-preview"), json!("succeeded")),
            (json!("gemini-2.5-flash"), json!("failed"))
        ]
    );
    let text = batch_ok(&world, &["compare", "plan-results"]).stdout();
    assert!(text.contains("gemini-2.5-flash      0/1 succeeded"), "{text}");
}

#[test]
fn plan_for_each_item_runs_task_by_task() {
    let world = repository(&json!([{"text": "done", "repeat": 0}]));
    let written = batch_ok(
        &world,
        &[
            "plan",
            "--for-each",
            "git ls-files",
            "--prompt",
            "Look at {item}",
            "--out",
            "plan.jsonl",
        ],
    );
    assert!(written.err().contains("Wrote 2 tasks"), "{}", written.err());
    let one = ["run-task", "plan.jsonl", "--index", "1"];
    batch_ok(&world, &one);
    assert_eq!(result(&world, "a.txt")["state"], json!("succeeded"));
    batch_ok(&world, &one);
    assert_eq!(world.server.requests().len(), 1);
    assert_eq!(batch(&world, &["run-task", "plan.jsonl", "--index", "2"]).code(), 42);
    let url = format!("file://{}", world.home.project().display());
    world
        .home
        .write(
            "url.jsonl",
            &json!({"id": "u", "prompt": "x", "repo": url, "ref": "main"}).to_string(),
        )
        .expect("a plan");
    batch_ok(&world, &["url.jsonl"]);
    assert_no_worktrees(&world);
}

#[test]
fn plan_does_not_overwrite_other_files() {
    let world = repository(&json!([]));
    let plan = |prompt: &str, more: &[&str]| {
        let args = ["plan", "--for-each", "git ls-files", "--prompt", prompt, "--out", "p.jsonl"];
        batch(&world, &[&args, more].concat())
    };
    let invalid = plan("Look at {item}", &["--timeout", "soon"]);
    assert!(invalid.code() == 42 && !world.home.project().join("p.jsonl").exists());
    for _ in 0..2 {
        assert_eq!(plan("Look at {item}", &[]).code(), 0, "the same plan may be written again");
    }
    let written = world.read("p.jsonl");
    let refused = plan("Improve {item}", &[]);
    assert_eq!(refused.code(), 42, "{}", refused.err());
    assert!(refused.err().contains("`p.jsonl` already exists"), "{}", refused.err());
    assert_eq!(world.read("p.jsonl"), written);
    assert_eq!(plan("Improve {item}", &["--force"]).code(), 0);
    assert!(world.read("p.jsonl").contains("Improve"));
}

#[test]
fn invalid_plans_are_input_errors() {
    let world = repository(&json!([]));
    world.home.write("plan.jsonl", "{\"id\": \"a\", \"promt\": \"x\"}\n").expect("a plan");
    let output = batch(&world, &["plan.jsonl"]);
    assert_eq!(output.code(), 42);
    assert!(
        output.err().contains("plan.jsonl`: line 1: unknown field `promt`"),
        "{}",
        output.err()
    );
    assert_eq!(batch(&world, &["no-such-plan.toml"]).code(), 42);
}

/// Programs with the names of Slurm's, which run an array job on this machine, two tasks at a
/// time. The task that the file `kill` names is killed at its first start, as when its node fails,
/// and is started again.
const SBATCH: &str = r#"#!/bin/sh
for script; do :; done
echo "$@" >> "$HOME/submitted"; cp "$script" "$HOME/job.sh"
range=$(sed -n 's/^#SBATCH --array=\([0-9]*\)-\([0-9]*\).*/\1 \2/p' "$script")
(
    echo 7 > "$HOME/queue"
    for index in $(seq $range); do
        if [ "$index" = 1 ]; then
            SLURM_ARRAY_TASK_ID=$index timeout -s KILL 0.4 sh "$script"
        fi
        SLURM_ARRAY_TASK_ID=$index sh "$script"
    done
    rm -f "$HOME/queue"
) > "$HOME/slurm.log" 2>&1 < /dev/null &
echo 7
"#;
const SQUEUE: &str = "#!/bin/sh\ncat \"$HOME/queue\" 2>/dev/null || exit 1\n";

#[test]
fn slurm_array_job_runs_every_task() {
    let ids = ids(4);
    let world = repository(&Value::Array(shell(&ids, "echo ID > ID.txt; sleep 0.3")));
    let plan = plan(&world, &ids, &json!({}));
    let bin = world.home.home().join("bin");
    for (name, text) in [("sbatch", SBATCH), ("squeue", SQUEUE)] {
        let file = world.home.write_home(&format!("bin/{name}"), text).expect("a program");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(file, executable).expect("executable");
    }
    let mut command = world.command(&["batch", plan, "--on", "slurm", "--jobs", "3"]);
    command.args(["--sbatch=--partition=short", "--memory", "4G"]);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", bin.display()));
    let output = run(command, None, LIMIT).expect("run");
    assert_eq!(output.code(), 0, "{}{}", output.stdout(), output.err());
    assert_eq!(states(&world, &ids), ["succeeded"; 4]);
    let home = |name: &str| std::fs::read_to_string(world.home.home().join(name));
    let script = home("job.sh").expect("a script");
    for line in ["--array=0-3%3", "--signal=B:TERM@60", "--partition=short", "--mem=4194304K"] {
        assert!(script.contains(&format!("#SBATCH {line}\n")), "{line}: {script}");
    }
    assert_eq!(result(&world, "t1x")["attempts"], json!(2), "{:?}", home("slurm.log"));
    assert_no_worktrees(&world);
    // Nothing is left to submit.
    batch_ok(&world, &[plan, "--on", "slurm"]);
    assert_eq!(home("submitted").expect("a file").lines().count(), 1);
}

#[test]
fn credentials_of_a_url_are_neither_in_the_clone_nor_in_the_result() {
    let world = repository(&json!([{"text": "done", "repeat": 0}]));
    git(&world, &["clone", "-q", "--bare", ".", "../bare.git"]);
    let bare = world.home.project().join("../bare.git").display().to_string();
    let base = "https://user:hidden-value@git.example/";
    world
        .home
        .write_home(".gitconfig", &format!("[url \"{bare}\"]\n\tinsteadOf = {base}a.git\n"))
        .expect("the configuration");
    let task = json!({"id": "a", "prompt": "x", "repo": format!("{base}a.git"), "ref": "main"});
    world.home.write("plan.jsonl", &task.to_string()).expect("a plan");
    batch_ok(&world, &["plan.jsonl"]);
    assert_eq!(result(&world, "a")["repo"], "https://git.example/a.git");
    let clones = world.home.project().join("plan-results/repositories");
    let clone = std::fs::read_dir(clones).expect("clones").next().expect("one").expect("read");
    let config = std::fs::read_to_string(clone.path().join(".git/config")).expect("a file");
    assert!(!config.contains("hidden-value"), "{config}");
    // New commits there can be fetched nevertheless.
    git(&world, &["commit", "-q", "--allow-empty", "-m", "second"]);
    git(&world, &["push", "-q", "../bare.git", "HEAD:refs/heads/new"]);
    world.home.write("plan.jsonl", &task.to_string().replace("main", "new")).expect("a plan");
    batch_ok(&world, &["plan.jsonl"]);
    assert_eq!(result(&world, "a")["base"], git(&world, &["rev-parse", "HEAD"]));
}

#[test]
fn untrusted_task_names_the_repository_and_not_its_worktree() {
    let world = repository(&json!([]));
    let plan = plan(&world, &ids(1), &json!({}));
    let mut command = world.command(&["batch", plan]);
    command.env_remove("GEMINI_CLI_TRUST_WORKSPACE");
    let output = run(command, None, LIMIT).expect("run");
    assert_eq!(output.code(), 1, "{}", output.err());
    let reason = result(&world, "t0x")["reason"].as_str().expect("a reason").to_owned();
    let project = world.home.project().canonicalize().expect("a path");
    let named = format!("`parallax trust add {}`", project.display());
    assert!(reason.contains(&named) && !reason.contains("worktrees"), "{reason}");
}
