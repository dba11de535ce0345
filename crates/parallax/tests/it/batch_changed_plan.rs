//! Results of earlier plans with the same directory.

use serde_json::{Value, json};

use crate::batch::{batch, batch_ok, ids, plan, shell};
use crate::worktrees::repository;

#[test]
fn task_removed_from_the_plan_is_not_counted() {
    let ids = ids(2);
    let world = repository(&Value::Array(shell(&ids, "echo ID > ID.txt")));
    batch_ok(&world, &[plan(&world, &ids, &json!({}))]);
    let output = batch_ok(&world, &[plan(&world, &ids[..1], &json!({}))]);
    assert!(output.stdout().contains("1 tasks: 1 succeeded"), "{}", output.stdout());
}

#[test]
fn result_of_an_earlier_prompt_is_not_applied() {
    let ids = ids(2);
    let world = repository(&Value::Array(shell(&ids, "echo ID > ID.txt")));
    let written = plan(&world, &ids, &json!({}));
    batch_ok(&world, &[written]);
    // The run of the new plan ends before the task.
    let text = world.read(written).replace("do t0x.", "do something else.");
    world.home.write(written, &text).expect("a plan");
    let output = batch(&world, &[written, "--max-cost", "0.000001"]);
    assert!(output.stdout().contains("1 tasks: 1 succeeded"), "{}", output.stdout());
    let changed = "t0x: skipped, the plan has changed since; run the batch again\n";
    let named = batch(&world, &["apply", "plan-results", "t0x"]);
    assert_eq!((named.code(), named.stdout().as_str()), (1, changed));
    let all = batch_ok(&world, &["apply", "plan-results"]).stdout();
    assert_eq!(all, format!("{changed}t1x: applied, files: 1\n"));
    assert!(!world.home.project().join("t0x.txt").exists());
    world.home.write("plan-results/tasks.json", "[").expect("damaged");
    for words in [["apply", "plan-results"], ["compare", "plan-results"]] {
        let error = batch(&world, &words).err();
        assert!(
            error.contains("plan-results/tasks.json`") && error.contains("batch PLAN"),
            "{error}"
        );
    }
}
