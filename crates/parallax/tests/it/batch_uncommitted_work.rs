//! Work in batches that no commit of the worktree contains, with real git and real agents.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::batch::{assert_no_worktrees, batch, batch_ok, ids, plan, result, shell, ten_cents};
use crate::support::{World, wait_until};
use crate::worktrees::{git, repository};

/// Replies with which each task runs its own command.
fn commands(tasks: &[(&str, &str)]) -> Value {
    let one = |(id, line): &(&str, &str)| shell(&[(*id).to_owned()], line).swap_remove(0);
    let last = shell(&[], "");
    Value::Array(tasks.iter().map(one).chain(last).collect())
}

/// Adds a submodule `lib` to the project, and returns the setup command that checks it out.
fn add_submodule(world: &World) -> &'static str {
    let library = world.home.home().join("library");
    std::fs::create_dir(&library).expect("a directory");
    std::fs::write(library.join("lib.c"), "lib\n").expect("a file");
    let library = library.display().to_string();
    git(world, &["-C", &library, "init", "-q"]);
    git(world, &["-C", &library, "add", "-A"]);
    git(world, &["-C", &library, "commit", "-qm", "library"]);
    let allow = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add"];
    git(world, &[allow.as_slice(), &[&library, "lib"]].concat());
    git(world, &["commit", "-qm", "submodule"]);
    "git -c protocol.file.allow=always submodule update --quiet --init"
}

/// Returns the worktree that a task kept, which its reason names.
fn retained_worktree(world: &World, id: &str) -> PathBuf {
    let result = result(world, id);
    assert_eq!(result["state"], json!("failed"), "{result}");
    let worktree = PathBuf::from(result["worktree"].as_str().expect("a worktree"));
    let reason = result["reason"].as_str().expect("a reason");
    assert!(reason.ends_with(&worktree.display().to_string()), "{reason}");
    worktree
}

#[test]
fn worktree_with_work_in_a_submodule_is_kept() {
    let tasks = [
        ("dirty", "echo precious >> lib/lib.c"),
        ("new", "echo precious > lib/new.c; echo t > t.txt"),
        (
            "commit",
            "cd lib && echo precious >> lib.c && git -c user.name=x -c user.email=x@y commit -qam x",
        ),
        ("none", "cat lib/lib.c; git status; echo t > t.txt"),
    ];
    let world = repository(&commands(&tasks));
    let setup = add_submodule(&world);
    let ids: Vec<String> = tasks.iter().map(|(id, _)| (*id).to_owned()).collect();
    let plan = plan(&world, &ids, &json!({"setup": [setup]}));
    let output = batch(&world, &[plan, "--jobs", "2"]);
    assert_eq!(output.code(), 1, "{}", output.err());
    for (id, file) in [("dirty", "lib.c"), ("new", "new.c"), ("commit", "lib.c")] {
        let text = std::fs::read_to_string(retained_worktree(&world, id).join("lib").join(file));
        assert!(text.expect("a file").contains("precious"), "{id}");
    }
    let unchanged = result(&world, "none");
    assert_eq!((&unchanged["state"], &unchanged["worktree"]), (&json!("succeeded"), &Value::Null));
    assert_eq!(unchanged["files_changed"], json!(["t.txt"]));
    assert_eq!(git(&world, &["worktree", "list"]).lines().count(), 4);

    // Another run takes another worktree.
    let first = retained_worktree(&world, "dirty");
    assert_eq!(batch(&world, &[plan, "--retry-failed"]).code(), 1);
    let second = retained_worktree(&world, "dirty");
    assert!(first != second && first.join("lib/lib.c").exists(), "{second:?}");
}

#[test]
fn worktree_with_hidden_work_in_a_submodule_is_kept() {
    const BACK: &str = "git -c user.name=x -c user.email=x@y commit -qam x && git checkout -q -";
    let branch = format!("cd lib && git checkout -qb feat && echo precious >> lib.c && {BACK}");
    let tag = "cd lib && git checkout -q --detach && echo precious >> lib.c && git -c user.name=x -c \
               user.email=x@y commit -qam x && git tag it && git checkout -q -";
    let stash = "cd lib && echo precious >> lib.c && git -c user.name=x -c user.email=x@y stash -q";
    let removed = format!("{branch} && cd .. && rm -rf lib && mkdir lib");
    let tasks = [
        ("stash", stash),
        ("branch", &branch),
        ("tag", tag),
        ("removed", &removed),
        ("none", "rm -rf lib; mkdir lib; echo t > t.txt"),
    ];
    let world = repository(&commands(&tasks));
    let setup = add_submodule(&world);
    let ids: Vec<String> = tasks.iter().map(|(id, _)| (*id).to_owned()).collect();
    let plan = plan(&world, &ids, &json!({"setup": [setup]}));
    let output = batch(&world, &[plan, "--jobs", "2"]);
    assert_eq!(output.code(), 1, "{}", output.err());
    for (id, name) in [
        ("stash", "`lib`"),
        ("branch", "`lib`"),
        ("tag", "`lib`"),
        ("removed", "`.git/modules/lib`"),
    ] {
        retained_worktree(&world, id);
        let reason = result(&world, id)["reason"].to_string();
        assert!(reason.contains(&format!("repositories {name} in")), "{reason}");
    }
    assert_eq!(result(&world, "none")["state"], json!("succeeded"));
    assert_eq!(git(&world, &["worktree", "list"]).lines().count(), 5);
}

#[test]
fn worktree_with_work_in_a_nested_repository_is_kept() {
    let tasks = [
        (
            "own",
            "git init -q own && cd own && echo precious > it && git add -A && git -c user.name=x -c user.email=x@y commit -qm x",
        ),
        // A submodule that is not checked out.
        ("empty", "echo precious > lib/it"),
    ];
    let world = repository(&commands(&tasks));
    add_submodule(&world);
    let ids: Vec<String> = tasks.iter().map(|(id, _)| (*id).to_owned()).collect();
    let plan = plan(&world, &ids, &json!({}));
    let output = batch(&world, &[plan]);
    assert_eq!(output.code(), 1, "{}", output.err());
    for (id, file) in [("own", "own/it"), ("empty", "lib/it")] {
        let text =
            std::fs::read_to_string(retained_worktree(&world, id).join(file)).expect("a file");
        assert_eq!(text, "precious\n", "{id}");
    }
    let applied = batch_ok(&world, &["apply", "plan-results"]).stdout();
    assert_eq!(applied.matches("skipped, failed").count(), 2, "{applied}");
}

#[test]
fn number_of_deleted_ignored_files_is_reported() {
    let ids = ids(1);
    let world =
        repository(&Value::Array(shell(&ids, "echo x > a.local; mkdir d; echo y > d/b.local")));
    let plan = plan(&world, &ids, &json!({}));
    let output = batch_ok(&world, &[plan]);
    assert!(output.err().contains("ignored files deleted: 2"), "{}", output.err());
    let result = result(&world, &ids[0]);
    assert_eq!(
        (&result["state"], &result["deleted_ignored_files"]),
        (&json!("succeeded"), &json!(2))
    );
    let log = world.read("plan-results/results/t0x/log.txt");
    assert!(log.contains("Deleted with the worktree: 2 ignored files (a.local, d/)"), "{log}");
    assert_no_worktrees(&world);
}

#[test]
fn process_that_setup_detaches_ends_with_the_task() {
    let ids = ids(1);
    let world = repository(&Value::Array(shell(&ids, "cat setup.local")));
    let file = world.home.home().join("detached");
    let line = format!(
        "setsid -f sh -c 'echo $$ > {0}.part; mv {0}.part {0}; exec sleep 600' > /dev/null 2>&1; \
         while ! [ -e {0} ]; do sleep 0.01; done; kill -0 $(cat {0}) && echo it runs > setup.local",
        file.display()
    );
    let plan = plan(&world, &ids, &json!({"setup": [line], "check": ["test -f setup.local"]}));
    batch_ok(&world, &[plan]);
    let pid = std::fs::read_to_string(&file).expect("a number");
    wait_until("the end of the process", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.map_or(true, |stat| stat.contains(") Z "))
    });
}

/// Runs one task with this command of its agent.
fn run_task(world: &World, more: &Value, arguments: &[&str]) -> Value {
    let plan = plan(world, &["t".to_owned()], more);
    batch(world, &[&[plan], arguments].concat());
    result(world, "t")
}

fn task_world(line: &str) -> World {
    repository(&commands(&[("t", line)]))
}

#[test]
fn repository_without_a_commit_fails_the_task_and_stays_in_later_runs() {
    let world = task_world("git init -q own; echo precious > own/it; echo precious > top");
    run_task(&world, &json!({}), &[]);
    let worktree = retained_worktree(&world, "t");
    assert!(world.read("plan-results/results/t/patch.diff").contains("precious"));
    assert!(!world.read("plan-results/results/t/answer.md").is_empty());
    let is_kept = || {
        let file = std::fs::read_to_string(worktree.join("own/it"));
        file.is_ok_and(|text| text == "precious\n")
    };
    // The same command, another attempt, another prompt, and lost results.
    run_task(&world, &json!({}), &[]);
    assert!(is_kept());
    run_task(&world, &json!({}), &["--retry-failed"]);
    assert!(is_kept() && retained_worktree(&world, "t") != worktree);
    run_task(&world, &json!({"prompt": "something else"}), &[]);
    assert!(is_kept());
    std::fs::remove_dir_all(world.home.project().join("plan-results")).expect("removed");
    run_task(&world, &json!({}), &[]);
    assert!(is_kept());
}

#[test]
fn worktree_that_cannot_be_committed_is_reported_and_kept() {
    // Git refuses to write objects, as on a full disk.
    let world = task_world("echo precious > top");
    let plan = plan(&world, &["t".to_owned()], &json!({}));
    let link = world.home.project().join(".git/objects/aa-link");
    std::os::unix::fs::symlink("/tmp", &link).expect("a link");
    assert_eq!(batch(&world, &[plan]).code(), 1);
    let worktree = retained_worktree(&world, "t");
    let is_kept =
        || std::fs::read_to_string(worktree.join("top")).is_ok_and(|text| text == "precious\n");
    assert!(is_kept());
    assert!(!world.read("plan-results/results/t/session.jsonl").is_empty());
    std::fs::remove_file(&link).expect("removed");
    batch(&world, &[plan]);
    assert!(is_kept(), "the same command");
    batch_ok(&world, &[plan, "--retry-failed"]);
    assert!(is_kept(), "another attempt");
}

#[test]
fn repository_in_an_ignored_directory_fails_the_task() {
    let world =
        task_world("git init -q d.local/own; echo precious > d.local/own/it; echo x > e.local");
    run_task(&world, &json!({}), &[]);
    let worktree = retained_worktree(&world, "t");
    assert!(worktree.join("d.local/own/it").exists());
    // The rest of the work is in the patch, also without another directory that is excluded.
    let line = "mkdir build; echo '*' > build/.gitignore; git init -q build/own; echo x > build/own/it; \
                git init -q other; echo x > other/it; echo precious > top";
    let world = task_world(line);
    run_task(&world, &json!({}), &[]);
    let result = result(&world, "t");
    let reason = result["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("`build/own`, `other`"), "{result}");
    assert_eq!(result["files_changed"], json!(["top"]), "{result}");
    assert!(world.read("plan-results/results/t/patch.diff").contains("precious"));
}

#[test]
fn repository_that_setup_clones_into_an_ignored_directory_does_not_fail_the_task() {
    let world = task_world("echo new > top");
    let setup = "git init -q d.local/dep; echo it > d.local/dep/it";
    let result = run_task(&world, &json!({"setup": [setup]}), &[]);
    assert_eq!(
        (&result["state"], &result["files_changed"]),
        (&json!("succeeded"), &json!(["top"])),
        "{result}"
    );
    assert_no_worktrees(&world);
}

#[test]
fn repository_that_setup_clones_does_not_fail_the_task() {
    let world = task_world("cat dep/it; echo new > top");
    let library = world.home.home().join("library").display().to_string();
    git(&world, &["init", "-q", &library]);
    std::fs::write(format!("{library}/it"), "it\n").expect("a file");
    git(&world, &["-C", &library, "add", "-A"]);
    git(&world, &["-C", &library, "commit", "-qm", "it"]);
    let clone = format!("git clone -q {library} dep");
    let result = run_task(&world, &json!({"setup": [clone]}), &[]);
    assert_eq!(
        (&result["state"], &result["files_changed"]),
        (&json!("succeeded"), &json!(["top"])),
        "{result}"
    );
    assert_no_worktrees(&world);
}

#[test]
fn cost_of_failed_attempts_is_counted() {
    let world = repository(&json!([ten_cents("done")]));
    let task = json!({"model": "gemini-3-pro-preview", "check": ["false"]});
    for (attempt, code) in [(1, 1), (2, 1), (3, 57), (4, 57)] {
        let plan = plan(&world, &["t".to_owned()], &task);
        let done = batch(&world, &[plan, "--retry-failed", "--max-cost", "0.25"]);
        assert_eq!(done.code(), code, "{attempt}: {}", done.err());
    }
    let result = result(&world, "t");
    let cost = result["cost"].as_f64().expect("a cost");
    assert!(cost <= 0.2 + 1e-9 && cost > 0.1, "{result}");
}

/// Returns a world with a task whose agent lets a subagent work in its own worktree, then runs a
/// command.
fn subagent_world(line: &str) -> World {
    let call = |name: &str, arguments: Value| json!([{"name": name, "args": arguments}]);
    let worker =
        |calls: Value| json!({"calls": calls, "match": {"systemContains": "The worker does:"}});
    let world = repository(&json!([
        {"calls": call("invoke_agent", json!({"agent_name": "worker", "prompt": "it"}))},
        worker(call("write_file", json!({"file_path": "new.txt", "content": "precious\n"}))),
        worker(call("complete_task", json!({"result": "finished"}))),
        {"calls": call("run_shell_command", json!({"command": line}))},
        {"text": "done", "repeat": 0},
    ]));
    let worker = "---\nname: worker\ndescription: Works.\nisolation: worktree\ntools: \
                  [write_file]\n---\nThe worker does: ${query}\n";
    world.home.write_home(".parallax/agents/worker.md", worker).expect("the agent");
    world
}

#[test]
fn worktree_of_a_subagent_is_removed_if_its_work_is_in_the_patch() {
    const BRANCH: &str = "$(git branch --format='%(refname:short)' --list 'parallax/worker-*')";
    for line in [format!("git merge -q {BRANCH}"), format!("git show {BRANCH}:new.txt > new.txt")] {
        let world = subagent_world(&line);
        let result = run_task(&world, &json!({}), &[]);
        assert_eq!(
            (&result["state"], &result["files_changed"]),
            (&json!("succeeded"), &json!(["new.txt"])),
            "{result}"
        );
        assert_no_worktrees(&world);
        assert_eq!(git(&world, &["branch", "--list", "parallax/worker-*"]), "");
    }
}

#[test]
fn worktree_of_a_subagent_whose_work_was_not_merged_fails_the_task_and_stays() {
    let world = subagent_world("echo other > other.txt");
    let result = run_task(&world, &json!({}), &[]);
    let reason = result["reason"].as_str().unwrap_or_default();
    assert_eq!(result["state"], json!("failed"), "{result}");
    assert_eq!(result["files_changed"], json!(["other.txt"]));
    let (_, path) = reason.split_once("which were kept: `").expect(reason);
    let file = std::path::Path::new(path.trim_end_matches('`')).join("new.txt");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "precious\n");
}
