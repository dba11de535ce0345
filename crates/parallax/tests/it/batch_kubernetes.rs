//! Batches on Kubernetes that need no cluster; `scripts/kubernetes-test` does the rest.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::measure::{FinishedProcess, run};

use crate::support::World;
use crate::worktrees::{git, repository};

const LIMIT: Duration = Duration::from_secs(60);

fn batch(world: &World, arguments: &[&str]) -> FinishedProcess {
    let mut command = world.command(&["batch"]);
    command.args(arguments);
    let output = run(command, None, LIMIT).expect("run");
    assert!(!output.timed_out, "not done in {LIMIT:?}: {}", output.err());
    output
}

fn read(world: &World, file: &str) -> Value {
    serde_json::from_str(&world.read(file)).expect("JSON")
}

#[test]
fn manifests_are_written_without_a_cluster_and_contain_the_plan() {
    let world = World::new("[]");
    let prompt = "a\"}\n---\nkind: Pod $(x)";
    let task = json!({"id": "a", "prompt": prompt, "repo": "https://git.example/a.git"});
    world.home.write("plan.jsonl", &task.to_string()).expect("a plan");
    let on = ["plan.jsonl", "--on", "kubernetes", "--emit", "out"];
    let missing = batch(&world, &on);
    assert_eq!(missing.code(), 42, "{}", missing.err());
    assert!(missing.err().contains("--image"), "{}", missing.err());
    let output = batch(&world, &[on.as_slice(), &["--image", "example/parallax:1"]].concat());
    assert_eq!(output.code(), 0, "{}", output.err());
    let job = read(&world, "out/zz-job.json");
    assert_eq!(job["spec"]["completions"], 1);
    assert!(!job.to_string().contains("kind: Pod"), "{job}");
    let plan = read(&world, "out/plan-0.json");
    let line = plan["data"]["plan-00.jsonl"].as_str().expect("a plan");
    let line: Value = serde_json::from_str(line.trim()).expect("a line");
    assert_eq!(line["prompt"], prompt);
    let policy = read(&world, "out/network.json");
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(
        policy["metadata"]["annotations"]["parallax/hosts"],
        "generativelanguage.googleapis.com,git.example"
    );
    let elsewhere = batch(&world, &["plan.jsonl", "--image", "x"]);
    assert!(
        elsewhere.err().contains("`--image` requires `--on kubernetes`"),
        "{}",
        elsewhere.err()
    );
}

#[test]
fn recorded_tasks_are_those_that_the_pods_run() {
    let world = repository(&json!([]));
    let url = "https://git.example/a.git";
    git(&world, &["clone", "-q", "--bare", ".", "../bare.git"]);
    git(&world, &["remote", "add", "origin", "../bare.git"]);
    git(&world, &["push", "-q", "-u", "origin", "HEAD"]);
    git(&world, &["remote", "set-url", "origin", url]);
    world.home.write("plan.jsonl", r#"{"id": "a", "prompt": "do it"}"#).expect("a plan");
    let emit = ["plan.jsonl", "--on", "kubernetes", "--image", "x", "--emit", "out"];
    let output = batch(&world, &emit);
    assert_eq!(output.code(), 0, "{}", output.err());
    let plan = read(&world, "out/plan-0.json");
    let plan = plan["data"]["plan-00.jsonl"].as_str().expect("a plan");
    assert!(plan.contains(url), "{plan}");
    world.home.write("pod.jsonl", plan).expect("a plan");
    batch(&world, &["run-task", "pod.jsonl", "--index", "9", "--out", "pod"]);
    assert_eq!(read(&world, "plan-results/tasks.json"), read(&world, "pod/tasks.json"));
}

#[test]
fn task_is_cloned_first_and_prints_its_result() {
    let reply = json!({"match": {"promptContains": "do it"}, "repeat": 0, "text": "done"});
    let world = repository(&json!([reply]));
    git(&world, &["clone", "-q", "--bare", ".", "../bare.git"]);
    let url = format!("file://{}", world.home.project().join("../bare.git").display());
    let task = json!({"id": "a", "prompt": "do it", "repo": url});
    let missing = json!({"id": "b", "prompt": "do it", "repo": format!("{url}-none")});
    let unset = json!({"id": "c", "prompt": "do it", "env": ["NOT_SET_ANYWHERE"]});
    world.home.write("plan.jsonl", &format!("{task}\n{missing}\n{unset}\n")).expect("a plan");
    let task = |index: &str, more: &str| {
        let words = ["run-task", "plan.jsonl", "--index", index, "--out", "out"];
        batch(&world, &[words.as_slice(), &["--repositories", "clones", more]].concat())
    };
    let cloned = task("0", "--clone-only");
    assert_eq!((cloned.code(), cloned.stdout().as_str()), (0, ""), "{}", cloned.err());
    let failed = task("1", "--clone-only");
    assert_eq!(failed.code(), 1, "{}", failed.err());
    assert!(failed.stdout().contains(r#""task":"b","file":"result.json""#), "{}", failed.stdout());
    // The clone is all that the task needs.
    let bare = world.home.project().join("../bare.git");
    std::fs::rename(&bare, bare.with_extension("gone")).expect("moved");
    let output = task("0", "--print-results");
    assert_eq!(output.code(), 0, "{}", output.err());
    for file in ["patch.diff", "answer.md", "session.jsonl", "result.json"] {
        assert!(output.stdout().contains(&format!(r#""task":"a","file":"{file}""#)), "{file}");
    }
    assert_eq!(output.stdout().lines().last().map(|line| line.contains("result.json")), Some(true));
    let unset = task("2", "--print-results");
    assert_eq!(unset.code(), 1, "{}", unset.err());
    assert!(unset.err().contains("NOT_SET_ANYWHERE"), "{}", unset.err());
}
