//! What commands in a worktree do to its `.git`, with real git: Parallax commits only on the branch
//! of the worktree, reads and writes nothing elsewhere, and leaves nothing behind.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::World;
use crate::worktrees::{git, repository};

/// Runs a batch of one task whose model runs the command. Returns the world and the result.
fn batch(world: World, line: &str) -> (World, Value) {
    let script = json!([
        {"match": {"promptContains": "do it"}, "repeat": 0,
            "calls": [{"name": "run_shell_command", "args": {"command": line}}]},
        {"match": {"lastToolResultContains": ""}, "repeat": 0, "text": "done"},
    ]);
    let world = World::in_home(world.home, &script.to_string());
    let task = json!({"id": "t", "prompt": "do it", "approval_mode": "yolo"});
    world.home.write("plan.jsonl", &task.to_string()).expect("a plan");
    world.run(&["batch", "plan.jsonl"]);
    let text = world.read("plan-results/results/t/result.json");
    let result = serde_json::from_str(&text).expect("JSON");
    (world, result)
}

fn assert_nothing_is_left(world: &World) {
    assert_eq!(git(world, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(git(world, &["status", "--porcelain"]), "?? plan.jsonl");
    assert_eq!(git(world, &["rev-list", "--count", "main"]), "1");
}

#[test]
fn links_in_the_git_directory_cannot_redirect_writes() {
    for line in [
        "ln -sf TARGET $(git rev-parse --git-dir)/COMMIT_EDITMSG; echo 1 > b.txt",
        "ln -sf TARGET $(git rev-parse --git-dir)/logs/HEAD; echo 1 > b.txt",
        "ln -sf TARGET $(git rev-parse --git-dir)/index; echo 1 > b.txt",
        "cd $(git rev-parse --git-dir) && rm -f HEAD index && mkfifo HEAD index; cd - && echo 1 > b.txt",
        "cd $(git rev-parse --git-common-dir)/refs/heads/parallax && mkfifo x; ln -s TARGET y; cd - && echo 1 > b.txt",
        "ln -sf TARGET $(git rev-parse --git-common-dir)/logs/$(git symbolic-ref HEAD); echo 1 > b.txt",
    ] {
        let world = repository(&json!([]));
        let target = world.home.parallax().with_file_name("precious");
        std::fs::write(&target, "precious").expect("a file");
        let (world, result) = batch(world, &line.replace("TARGET", &target.display().to_string()));
        assert_eq!(result["state"], json!("succeeded"), "{line}: {result}");
        assert_eq!(std::fs::read_to_string(&target).expect("the file"), "precious", "{line}");
        assert_eq!(result["files_changed"], json!(["b.txt"]), "{line}");
        assert_nothing_is_left(&world);
    }
}

#[test]
fn secrets_of_the_main_working_tree_are_hidden() {
    let world = repository(&json!([]));
    std::fs::write(world.home.project().join(".git/info/exclude"), ".env\n").expect("a file");
    world.home.write(".env", "KEY=secret\n").expect("a file");
    let line =
        "cat $(dirname $(git rev-parse --git-common-dir))/.env > b.txt 2>/dev/null; echo >> b.txt";
    let (world, result) = batch(world, line);
    assert_eq!(result["state"], json!("succeeded"), "{result}");
    assert!(!world.read("plan-results/results/t/patch.diff").contains("secret"));
    assert_eq!(world.read(".env"), "KEY=secret\n");
}

#[test]
fn worktree_head_cannot_move_other_references() {
    let world = repository(&json!([]));
    git(&world, &["tag", "keep"]);
    let line = "echo 'ref: refs/heads/main' > $(git rev-parse --git-dir)/HEAD; echo x > evil.txt";
    let (world, result) = batch(world, line);
    assert_eq!(result["state"], json!("succeeded"), "{result}");
    assert_nothing_is_left(&world);
    let branch = result["branch"].as_str().expect("a branch").to_owned();
    assert_eq!(git(&world, &["show", &format!("{branch}:evil.txt")]), "x");
    let line = "echo 'ref: refs/heads/main' > $(git rev-parse --git-common-dir)/$(git symbolic-ref HEAD); echo x > evil.txt";
    let (world, result) = batch(repository(&json!([])), line);
    assert_eq!(result["state"], json!("succeeded"), "{result}");
    assert_nothing_is_left(&world);
}

#[test]
fn worktree_link_cannot_be_replaced_and_leaves_no_files() {
    for line in [
        "rm -rf .git; echo x > b.txt",
        "mv .git old; echo x > b.txt",
        "cp -r $(git rev-parse --git-common-dir) eg; rm -f .git; echo 'gitdir: eg' > .git; git config -f eg/config core.worktree /; echo x > b.txt; rm -rf eg",
    ] {
        let world = repository(&json!([]));
        let (world, result) = batch(world, line);
        assert_eq!(result["state"], json!("succeeded"), "{line}: {result}");
        assert_eq!(result["files_changed"], json!(["b.txt"]), "{line}");
        assert_nothing_is_left(&world);
    }
}

#[test]
fn git_never_runs_in_a_repository_inside_the_worktree() {
    let world = repository(&json!([]));
    let marker = world.home.parallax().with_file_name("ran");
    let line = format!(
        "git init -q sub && cd sub && echo a > a.txt && git add -A && \
         git -c user.name=x -c user.email=x@y commit -qm s && \
         printf '[filter \"x\"]\\n\\tclean = touch {0}; cat\\n[core]\\n\\tfsmonitor = touch {0}\\n' >> .git/config && \
         echo '* filter=x' > .gitattributes && touch a.txt && cd .. && \
         git update-index --add --cacheinfo 160000,$(cat sub/.git/refs/heads/*),sub; echo x > b.txt",
        marker.display()
    );
    let (world, result) = batch(world, &line);
    // The patch lacks the files of the repository.
    assert_eq!(result["state"], json!("failed"), "{result}");
    assert_eq!(result["files_changed"], json!(["b.txt", "sub"]), "{result}");
    assert!(!marker.exists());
    let script = json!([
        {"calls": [{"name": "run_shell_command", "args": {"command": line}}]},
        {"text": "done", "repeat": 0},
    ]);
    let world = World::in_home(world.home, &script.to_string());
    let output = world.run_ok(&["--worktree=fix", "-p", "go", "-y"]);
    assert!(output.err().contains("Kept worktree `fix`"), "{}", output.err());
    world.run_ok(&["worktrees", "list"]);
    assert_ne!(world.run(&["worktrees", "remove", "fix"]).code(), 0);
    assert!(!marker.exists());
}

#[test]
fn packed_branch_of_another_worktree_stays() {
    let world = repository(&json!([]));
    git(&world, &["branch", "parallax/old"]);
    git(&world, &["pack-refs", "--all"]);
    let before = git(&world, &["rev-parse", "parallax/old"]);
    let line = "git -c user.name=x -c user.email=x@y commit -q --allow-empty -m e; \
                git update-ref refs/heads/parallax/old HEAD; \
                git rev-parse HEAD > $(git rev-parse --git-common-dir)/refs/heads/parallax/old; echo x > b.txt";
    let (world, result) = batch(world, line);
    assert_eq!(result["state"], json!("succeeded"), "{result}");
    assert_eq!(git(&world, &["rev-parse", "parallax/old"]), before);
}

#[test]
fn index_flags_cannot_hide_changes() {
    for flag in ["--assume-unchanged", "--skip-worktree"] {
        let line = format!("git update-index {flag} a.txt; echo changed > a.txt");
        let (_, result) = batch(repository(&json!([])), &line);
        assert_eq!(result["files_changed"], json!(["a.txt"]), "{flag}: {result}");
    }
}

#[test]
fn result_is_returned_when_a_reference_is_broken() {
    for line in [
        "touch $(git rev-parse --git-common-dir)/$(git symbolic-ref HEAD).lock; echo x > b.txt",
        "R=$(git rev-parse --git-common-dir)/$(git symbolic-ref HEAD); rm -f $R; mkdir -p $R/deep; echo x > b.txt",
        "echo garbage > $(git rev-parse --git-common-dir)/$(git symbolic-ref HEAD); echo x > b.txt",
    ] {
        let (world, result) = batch(repository(&json!([])), line);
        assert_eq!(result["state"], json!("succeeded"), "{line}: {result}");
        assert_eq!(result["files_changed"], json!(["b.txt"]), "{line}");
        assert_nothing_is_left(&world);
    }
}

#[test]
fn configuration_of_a_worktree_cannot_be_added() {
    let world = repository(&json!([]));
    git(&world, &["config", "extensions.worktreeConfig", "true"]);
    let line = "git config --worktree core.fsmonitor /bin/false; \
                printf '[core]\\nfsmonitor=/bin/false\\n' > $(git rev-parse --git-dir)/config.worktree; \
                rm -f $(git rev-parse --git-dir)/config.worktree; echo x > b.txt";
    let script = json!([
        {"calls": [{"name": "run_shell_command", "args": {"command": line}}]},
        {"text": "done", "repeat": 0},
    ]);
    let world = World::in_home(world.home, &script.to_string());
    world.run_ok(&["--worktree=fix", "-p", "go", "-y"]);
    let file = world.home.project().join(".git/worktrees/fix/config.worktree");
    assert_eq!(std::fs::read_to_string(file).expect("the file"), "");
}

#[test]
fn copied_files_are_not_committed() {
    let world = repository(&json!([]));
    std::fs::write(world.home.project().join(".worktreeinclude"), ".env\nlinked.local\n")
        .expect("a file");
    std::fs::write(world.home.project().join(".env"), "KEY=secret\n").expect("a file");
    symlink("a.txt", world.home.project().join("linked.local")).expect("a link");
    git(&world, &["add", ".worktreeinclude"]);
    git(&world, &["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "list"]);
    let (world, result) = batch(world, "rm .gitignore; echo x > b.txt");
    assert_eq!(result["state"], json!("succeeded"), "{result}");
    assert_eq!(result["files_changed"], json!([".gitignore", "b.txt"]));
    assert!(!world.read("plan-results/results/t/patch.diff").contains("secret"));
}

#[test]
fn unmerged_commits_are_kept() {
    let script = json!([
        {"calls": [{"name": "run_shell_command", "args": {"command":
            "echo two > b.txt && git add -A && git -c user.name=x -c user.email=x@y commit -qm second"}}]},
        {"text": "done", "repeat": 0},
    ]);
    let world = repository(&script);
    world.run_ok(&["--worktree=fix", "-p", "go", "-y"]);
    let refused = world.run(&["worktrees", "remove", "fix"]);
    assert_ne!(refused.code(), 0);
    assert!(refused.err().contains("commits that are not merged"), "{}", refused.err());
    let entries = std::fs::read_dir(world.home.parallax().join("worktrees")).expect("a directory");
    let project = entries.flatten().next().expect("the project").path();
    std::fs::remove_dir_all(project.join("fix")).expect("gone");
    world.run_ok(&["worktrees", "prune"]);
    assert_ne!(world.run(&["worktrees", "remove", "fix"]).code(), 0);
    assert_eq!(git(&world, &["show", "parallax/fix:b.txt"]), "two");
    git(&world, &["merge", "-q", "parallax/fix"]);
    world.run_ok(&["worktrees", "prune"]);
    assert_eq!(git(&world, &["branch", "--list", "parallax/*"]), "");
}
