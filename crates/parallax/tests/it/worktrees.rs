//! Sessions in worktrees, with real git.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{World, finish};

/// Creates a world whose project is a repository with a commit.
pub fn repository(script: &Value) -> World {
    let world = World::new(&script.to_string());
    std::fs::write(world.home.project().join("a.txt"), "one\n").expect("a file");
    std::fs::write(world.home.project().join(".gitignore"), "*.local\n.env\n").expect("a file");
    git(&world, &["init", "-q", "-b", "main"]);
    git(&world, &["add", "-A"]);
    git(&world, &["commit", "-qm", "first"]);
    world
}

#[expect(clippy::disallowed_methods, reason = "tests start git themselves")]
pub fn git(world: &World, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=x", "-c", "user.email=x@y"]).args(arguments);
    let output = finish_git(command.current_dir(world.home.project()));
    assert!(output.0, "{arguments:?}: {}", output.1);
    output.1
}

fn finish_git(command: &mut Command) -> (bool, String) {
    let output = command.output().expect("git");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).trim().to_owned())
}

/// Returns the worktrees that Parallax created.
pub fn worktree_list(world: &World) -> Vec<Value> {
    let text = world.run_ok(&["worktrees", "list", "--json"]).stdout();
    serde_json::from_str(&text).expect("JSON")
}

/// Returns a shell command of the model, and the reply after it.
fn shell(line: &str) -> Value {
    json!([
        {"calls": [{"name": "run_shell_command", "args": {"command": line}}]},
        {"text": "done", "repeat": 0},
    ])
}

/// Returns the same shell command in each of these sessions.
fn shell_script(line: &str, sessions: usize) -> Value {
    let one = shell(line);
    Value::Array((0..sessions).flat_map(|_| [one[0].clone(), json!({"text": "done"})]).collect())
}

#[test]
fn unchanged_worktree_is_removed_at_the_end() {
    let world = repository(&shell("pwd; cat a.txt"));
    let output = world.run_ok(&["--worktree=fix", "-p", "look", "-y"]);
    assert!(!output.err().contains("Kept worktree"), "{}", output.err());
    assert!(worktree_list(&world).is_empty());
    assert_eq!(git(&world, &["branch", "--list", "parallax/*"]), "");
    assert_eq!(git(&world, &["worktree", "list"]).lines().count(), 1);
    let outputs = crate::support::answers(&world.server).join("\n");
    assert!(outputs.contains(".parallax/worktrees/") && outputs.contains("one"), "{outputs}");
}

#[test]
fn ignored_files_that_are_removed_with_a_worktree_are_reported() {
    let world = repository(&shell("mkdir out && echo x > out/a.local"));
    std::fs::write(world.home.project().join("key.local"), "key").expect("a file");
    std::fs::write(world.home.project().join(".worktreeinclude"), "key.local\n").expect("a file");
    git(&world, &["add", "-A"]);
    git(&world, &["commit", "-qm", "list"]);
    let output = world.run_ok(&["-w=fix", "-p", "work", "-y"]);
    let expected = "Removed worktree `fix` with 1 ignored file (out/)";
    assert!(output.err().contains(expected), "{}", output.err());
    assert!(worktree_list(&world).is_empty());
}

/// A program in place of Git LFS, which stores contents where that does.
const LFS: &str = r#"#!/bin/sh
case $1 in
clean) store=$(git rev-parse --git-common-dir)/lfs/tmp; mkdir -p "$store" && cat > "$store/$$" && echo pointer;;
*) cat;;
esac
"#;

#[test]
fn git_stores_large_files_of_a_worktree() {
    let world = repository(&shell(
        "echo new > b.dat && git status --short && git add -A && git commit -qm own && git show HEAD:b.dat",
    ));
    let program = world.home.write_home("bin/git-lfs", LFS).expect("a program");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, executable).expect("executable");
    for (key, value) in [
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("filter.lfs.smudge", "git-lfs smudge -- %f"),
        ("filter.lfs.required", "true"),
        ("user.name", "x"),
        ("user.email", "x@y"),
    ] {
        git(&world, &["config", key, value]);
    }
    std::fs::write(world.home.project().join(".gitattributes"), "*.dat filter=lfs\n")
        .expect("a file");
    git(&world, &["add", "-A"]);
    git(&world, &["commit", "-qm", "attributes"]);
    let mut command = world.command(&["-w=fix", "-p", "work", "-y"]);
    let path = std::env::var("PATH").unwrap_or_default();
    let bin = program.parent().expect("a directory").display();
    command.env("PATH", format!("{bin}:{path}"));
    let output = finish(command);
    assert!(output.err().contains("Kept worktree `fix` (1 commit)"), "{}", output.err());
    let outputs = crate::support::answers(&world.server).join("\n");
    assert!(outputs.contains("pointer") && !outputs.contains("lfs/"), "{outputs}");
    let stored = std::fs::read_dir(world.home.project().join(".git/lfs/tmp")).expect("a directory");
    assert!(stored.count() > 0);
}

#[test]
fn changed_worktree_is_kept_and_removed_on_request() {
    let script = json!([
        {"calls": [
            {"name": "write_file", "args": {"file_path": "b.txt", "content": "two\n"}},
            {"name": "run_shell_command", "args": {"command":
                "git add -A && git -c user.name=x -c user.email=x@y commit -qm second && echo c > c.txt"}},
        ]},
        {"text": "done", "repeat": 0},
    ]);
    let world = repository(&script);
    let output = world.run_ok(&["-w=fix", "-p", "work", "-y"]);
    assert!(
        output.err().contains("Kept worktree `fix` (1 commit, uncommitted changes)"),
        "{}",
        output.err()
    );
    assert!(output.err().contains("git merge parallax/fix"), "{}", output.err());
    assert!(!world.home.project().join("b.txt").exists());
    assert_eq!(git(&world, &["show", "parallax/fix:b.txt"]), "two");

    let list = worktree_list(&world);
    let one = &list[0];
    assert_eq!(
        (&one["name"], &one["branch"], &one["dirty"], &one["ahead"]),
        (&json!("fix"), &json!("parallax/fix"), &json!(true), &json!(1))
    );
    assert!(one["session_id"].is_string() && one["base"].as_str().is_some_and(|it| it.len() == 40));
    let path = world.run_ok(&["worktrees", "open", "fix"]).stdout();
    assert_eq!(json!(path.trim()), one["path"]);

    let again = world.run(&["-w=fix", "-p", "work", "-y"]);
    assert!(again.err().contains("parallax worktrees open fix"), "{}", again.err());
    let refused = world.run(&["worktrees", "remove", "fix"]);
    assert!(refused.code() != 0 && refused.err().contains("uncommitted"), "{}", refused.err());
    world.run_ok(&["worktrees", "prune"]);
    assert_eq!(worktree_list(&world).len(), 1);
    world.run_ok(&["worktrees", "remove", "--force", "fix"]);
    assert!(worktree_list(&world).is_empty());
    assert_eq!(git(&world, &["branch", "--list", "parallax/*"]), "");
}

#[test]
fn git_in_the_main_checkout_does_not_prune_the_worktrees_of_sessions() {
    let run =
        |line: &str| json!({"calls": [{"name": "run_shell_command", "args": {"command": line}}]});
    let script = json!([
        run("echo two > b.txt; git add -A"),
        {"text": "done"},
        run("git worktree prune -v; echo pruned"),
        {"text": "done", "repeat": 0},
    ]);
    let world = repository(&script);
    world.run_ok(&["-w=fix", "-p", "work", "-y"]);
    let own = world.home.project().join(".git/worktrees/fix");
    world.run_ok(&["-p", "clean up", "-y"]);
    let outputs = crate::support::answers(&world.server).join("\n");
    assert!(outputs.contains("pruned") && own.join("index").exists(), "{outputs}");

    // Earlier versions did not lock worktrees.
    std::fs::remove_file(own.join("locked")).expect("the lock");
    world.run_ok(&["-w=other", "-p", "look", "-y"]);
    assert!(own.join("locked").exists());
    world.run_ok(&["worktrees", "remove", "--force", "fix"]);
    assert_eq!(git(&world, &["worktree", "list"]).lines().count(), 1);
}

#[test]
fn existing_branch_is_rejected_and_kept() {
    let world = repository(&json!([{"text": "done"}]));
    git(&world, &["branch", "parallax/mine"]);
    let output = world.run(&["-w=mine", "-p", "work", "-y"]);
    assert!(output.code() != 0 && output.err().contains("already exists"), "{}", output.err());
    assert_eq!(git(&world, &["branch", "--list", "parallax/*"]), "parallax/mine");
    assert!(worktree_list(&world).is_empty());
}

#[test]
fn changes_and_listed_files_are_copied_to_the_worktree() {
    let world =
        repository(&shell("cat a.txt new.txt key.local; git log --format=%s; ls other.local"));
    let write = |name: &str, text: &str| {
        std::fs::write(world.home.project().join(name), text).expect("a file");
    };
    write("a.txt", "changed\n");
    write("new.txt", "untracked\n");
    write("key.local", "included\n");
    write("other.local", "not included\n");
    write(".worktreeinclude", "key.local\n");
    git(&world, &["init", "-q", "nested"]);
    write("nested/file", "in another repository\n");
    let output = world.run_ok(&["-w", "--carry", "-p", "look", "-y"]);
    let warning = "Untracked repositories were not copied into the worktree: `nested/`";
    assert!(output.err().contains(warning), "{}", output.err());
    assert!(output.err().contains("uncommitted changes"), "{}", output.err());
    let outputs = crate::support::answers(&world.server).join("\n");
    for word in ["changed", "untracked", "included", "first", "No such file"] {
        assert!(outputs.contains(word), "{word}: {outputs}");
    }
}

/// Runs shell lines in a worktree, `first` before all others; returns their output.
fn in_worktree(mode: &[&str], first: &str, others: &[&str]) -> (World, String) {
    let world = repository(&json!([]));
    git(&world, &["config", "user.name", "x"]);
    git(&world, &["config", "user.email", "x@y"]);
    git(&world, &["branch", "parallax/second"]);
    let main = world.home.project().display().to_string();
    let command = |line: &str| json!({"command": line.replace("MAIN", &main)});
    let call = |line: &str| json!({"name": "run_shell_command", "args": command(line)});
    let calls: Vec<Value> = others.iter().map(|line| call(line)).collect();
    let script = json!([{"calls": [call(first)]}, {"calls": calls}, {"text": "done", "repeat": 0}]);
    let world = World::in_home(world.home, &script.to_string());
    world.home.write_home(".parallax/settings.json", "{}").expect("settings");
    world.run_ok(&[&["-w=first", "-p", "try"], mode].concat());
    let outputs = crate::support::answers(&world.server).join("\n");
    assert_eq!(world.read("a.txt"), "one\n");
    assert_eq!(git(&world, &["log", "-1", "--format=%s", "main"]), "first");
    assert_eq!(git(&world, &["log", "-1", "--format=%s", "parallax/second"]), "first");
    assert_eq!(git(&world, &["log", "-1", "--format=%s", "parallax/first"]), "own", "{outputs}");
    (world, outputs)
}

const COMMIT: &str = "echo x > written.txt && git add -A && git commit -qm own";

#[test]
fn sandbox_allows_the_worktree_and_the_needed_git_paths() {
    let lines = [
        "git branch other || echo other-branch-closed",
        "git update-ref refs/heads/main HEAD || echo main-branch-closed",
        "echo 0 > $(git rev-parse --git-common-dir)/refs/heads/parallax/second || echo second-closed",
        "git config x.y z || echo config-closed",
        "echo x > MAIN/.git/hooks/post-commit || echo hooks-closed",
        "echo x > $(git rev-parse --git-dir)/commondir || echo link-closed",
        "echo x > MAIN/a.txt",
        "echo x > ../x.json || echo record-closed",
        "ls .. | grep json || echo records-hidden",
        "cat ../../../settings.json || echo settings-hidden",
    ];
    let (world, outputs) = in_worktree(&["-y"], COMMIT, &lines);
    for line in lines {
        let word = line.split(" || echo ").nth(1).unwrap_or_default();
        assert!(outputs.contains(&format!("{word}\n")), "{word}: {outputs}");
    }
    let asks = outputs.lines().any(|line| line.starts_with('[') && line.contains("packed-refs"));
    assert!(!asks, "{outputs}");
    assert!(!world.home.project().join(".git/hooks/post-commit").exists());
}

#[test]
fn git_commits_in_a_worktree_without_yolo() {
    let mode = ["--approval-mode=auto_edit", "--allowed-tools=run_shell_command"];
    let other = "git branch other || echo other-branch-closed";
    let (_, outputs) = in_worktree(&mode, COMMIT, &[other]);
    assert!(outputs.contains("other-branch-closed"), "{outputs}");
}

#[test]
fn trust_and_settings_of_the_main_checkout_apply() {
    let world = repository(&json!([{"text": "done", "repeat": 0}]));
    // Untracked, so that only the main checkout has it.
    std::fs::create_dir_all(world.home.project().join(".gemini")).expect("a directory");
    let settings = r#"{"model": {"name": "gemini-2.5-flash-lite"}}"#;
    std::fs::write(world.home.project().join(".gemini/settings.json"), settings).expect("a file");
    let output = world.run_ok(&["-w", "-p", "hi", "-o", "json"]);
    assert!(output.stdout().contains("gemini-2.5-flash-lite"), "{}", output.stdout());

    world.run_ok(&["trust", "deny"]);
    let mut command = world.command(&["-w", "-p", "hi"]);
    command.env_remove("GEMINI_CLI_TRUST_WORKSPACE");
    let refused = finish(command);
    assert!(refused.code() != 0 && refused.err().contains("not trusted"), "{}", refused.err());
    assert!(worktree_list(&world).is_empty());
}

#[test]
fn repository_programs_do_not_run_for_a_worktree() {
    let world = repository(&json!([{"text": "done", "repeat": 0}]));
    let trace = world.home.project().join("ran");
    let hook = world.home.project().join(".git/hooks/post-checkout");
    std::fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", trace.display())).expect("a hook");
    finish(world.shell(&format!("chmod +x {}", hook.display()), &[]));
    git(&world, &["config", "filter.x.smudge", &format!("touch {}; cat", trace.display())]);
    git(&world, &["config", "filter.x.clean", "cat"]);
    std::fs::write(world.home.project().join(".gitattributes"), "*.txt filter=x\n")
        .expect("a file");
    git(&world, &["add", "-A"]);
    git(&world, &["commit", "-qm", "filter"]);
    world.run_ok(&["-w", "-p", "hi"]);
    assert!(!trace.exists());
    assert!(worktree_list(&world).is_empty());
}

#[test]
fn filter_that_the_change_itself_assigns_prevents_the_merge() {
    for line in [
        "echo '*.sec filter=x' > .gitattributes; echo secret > k.sec",
        "echo '*.sec filter=x' > .gitattributes; echo secret > k.sec; git add -A; \
         git -c user.name=x -c user.email=x@y commit -qm s",
    ] {
        let world = repository(&shell(line));
        git(&world, &["config", "filter.x.clean", "tr a-z n-za-m"]);
        let done = world.run_ok(&["--worktree=filtered", "-p", "go", "-y"]);
        let output = done.err();
        let mut lines = output.lines().map(str::trim);
        assert!(
            lines.any(|line| line.starts_with("warning:") && line.contains("`k.sec`")),
            "{output}"
        );
        assert!(!output.contains("git merge"), "{output}");
    }
}

#[test]
fn directory_without_git_gets_an_error() {
    let world = World::new(&json!([{"text": "done", "repeat": 0}]).to_string());
    let output = world.run(&["-w", "-p", "hi"]);
    assert!(
        output.code() != 0 && output.err().contains("is not in a git working tree"),
        "{}",
        output.err()
    );
}

#[test]
fn detached_commit_is_reported_by_its_id() {
    let line = "git checkout -q --detach && echo x > x && git add x && \
                git -c user.name=x -c user.email=x@y commit -qm loose";
    let world = repository(&shell(line));
    let done = world.run_ok(&["--worktree=loose", "-p", "go", "-y"]);
    let output = done.err();
    let merge = output.lines().find_map(|line| line.trim().strip_prefix("merge:")).expect("a line");
    let words: Vec<&str> = merge.split_whitespace().collect();
    assert!(words[2].len() == 40 && output.contains("not on a branch yet"), "{output}");
    git(&world, &words[1..]);
    assert!(world.home.project().join("x").exists());
}

#[test]
fn changed_copy_of_an_included_file_keeps_the_worktree() {
    let world = repository(&shell("cat key.local; echo changed >> key.local"));
    world.home.write("key.local", "key\n").expect("a file");
    world.home.write(".worktreeinclude", "key.local\n").expect("a file");
    git(&world, &["add", ".worktreeinclude"]);
    git(&world, &["commit", "-qm", "list"]);
    let output = world.run_ok(&["--worktree=copy", "-p", "go", "-y"]);
    assert!(
        output.err().contains("Kept worktree `copy` (uncommitted changes)"),
        "{}",
        output.err()
    );
}

#[test]
fn branch_moved_by_another_process_is_reported_with_the_last_commit() {
    let line = "echo x > x && git add x && git -c user.name=x -c user.email=x@y commit -qm mine";
    let script = json!([
        {"calls": [{"name": "run_shell_command", "args": {"command": line}}]},
        {"chunks": [{"gate": "held"}, {"candidates": [{"content": {"role": "model",
            "parts": [{"text": "done"}]}, "finishReason": "STOP"}]}]},
    ]);
    let world = repository(&script);
    let mut command = world.command(&["--worktree=mine", "-p", "go", "-y"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("start");
    world.at_gate("held");
    let commit = git(&world, &["rev-parse", "parallax/mine"]);
    git(&world, &["update-ref", "refs/heads/parallax/mine", "main"]);
    world.server.open_gate("held");
    let done = child.wait_with_output().expect("the end");
    let output = String::from_utf8_lossy(&done.stderr).into_owned();
    let line = format!("git update-ref refs/heads/parallax/mine {commit}");
    assert!(
        output.contains("another process moved parallax/mine") && output.contains(&line),
        "{output}"
    );
}

#[test]
fn variables_of_a_git_hook_do_not_reach_a_worktree() {
    let line = "git rev-parse --git-dir; echo x > x; git add x; git -c user.name=x -c user.email=x@y commit -qm own";
    let world = repository(&shell(line));
    let git_directory = world.home.project().join(".git");
    let variables =
        [("GIT_DIR", git_directory.clone()), ("GIT_INDEX_FILE", git_directory.join("index"))];
    let mut command = world.command(&["-w=fix", "-p", "work", "-y"]);
    command.envs(variables.clone());
    let output = finish(command);
    assert!(output.err().contains("Kept worktree `fix` (1 commit)"), "{}", output.err());
    let outputs = crate::support::answers(&world.server).join("\n");
    assert!(outputs.contains(".git/worktrees/fix"), "{outputs}");

    let setup = "git -c user.name=x -c user.email=x@y commit -q --allow-empty -m setup";
    let task = json!({"id": "t", "prompt": "work", "approval_mode": "yolo", "setup": [setup],
        "check": ["git rev-parse --git-dir | grep worktrees"]});
    world.home.write("plan.jsonl", &task.to_string()).expect("a plan");
    let mut command = world.command(&["batch", "plan.jsonl"]);
    command.envs(variables);
    let output = finish(command);
    assert_eq!(output.code(), 0, "{}", output.err());
    assert_eq!(git(&world, &["log", "--format=%s", "main"]), "first");
    assert_eq!(git(&world, &["status", "--porcelain", "--untracked-files=no"]), "");
}

#[test]
fn files_with_a_repository_filter_are_left_uncommitted() {
    let world = repository(&shell_script("echo new >> a.sec; echo x > b.txt", 3));
    for (key, value) in [("clean", "tr a-z b-za"), ("smudge", "tr b-za a-z"), ("required", "true")]
    {
        git(&world, &["config", &format!("filter.rot.{key}"), value]);
    }
    world.home.write(".gitattributes", "*.sec filter=rot\n").expect("a file");
    world.home.write("a.sec", "secret\n").expect("a file");
    git(&world, &["add", "-A"]);
    git(&world, &["commit", "-qm", "secret"]);
    let output = world.run_ok(&["-w=fix", "-p", "work", "-y"]);
    let err = output.err();
    assert!(err.contains("do not run in the worktree: `rot`"), "{err}");
    assert!(
        err.contains("(`rot`), which Parallax does not run") && err.contains("`a.sec`"),
        "{err}"
    );
    assert!(!err.contains("git merge"), "{err}");

    let task = json!({"id": "t", "prompt": "work", "approval_mode": "yolo"});
    world.home.write("plan.jsonl", &task.to_string()).expect("a plan");
    let output = world.run(&["batch", "plan.jsonl"]);
    assert_eq!(output.code(), 1, "{}", output.err());
    let result: Value =
        serde_json::from_str(&world.read("plan-results/results/t/result.json")).expect("JSON");
    let reason = result["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("`a.sec`") && reason.contains("`rot`"), "{reason}");
    let worktree = std::path::PathBuf::from(result["worktree"].as_str().expect("a worktree"));
    assert!(std::fs::read_to_string(worktree.join("a.sec")).expect("a file").ends_with("new\n"));

    // The user's own filters run.
    git(&world, &["config", "--remove-section", "filter.rot"]);
    let own = "[filter \"rot\"]\n\tclean = tr a-z b-za\n\tsmudge = tr b-za a-z\n";
    world.home.write_home(".gitconfig", own).expect("a configuration");
    let output = world.run_ok(&["batch", "plan.jsonl", "--retry-failed"]);
    assert!(world.read("plan-results/results/t/patch.diff").contains("+ofx"), "{}", output.err());
}

#[test]
fn filters_of_the_user_run_on_files_to_which_the_change_assigns_them() {
    let uncommitted = "echo '*.key filter=rot' > .gitattributes; echo secret > a.key";
    let committed = format!("{uncommitted}; git add -A; git commit -qm own");
    for (command, subject) in [(uncommitted, "fix"), (committed.as_str(), "own")] {
        let world = repository(&shell_script(command, 2));
        let own = "[user]\n\tname = A\n\temail = a@b\n[filter \"rot\"]\n\tclean = tr a-z b-za\n\t\
                   smudge = tr b-za a-z\n\trequired = true\n";
        world.home.write_home(".gitconfig", own).expect("a configuration");
        let output = world.run_ok(&["-w=fix", "-p", "work", "-y"]);
        assert!(!output.err().contains("uncommitted") || subject == "fix", "{}", output.err());
        let task = json!({"id": "t", "prompt": "work", "approval_mode": "yolo"});
        world.home.write("plan.jsonl", &task.to_string()).expect("a plan");
        let output = world.run_ok(&["batch", "plan.jsonl"]);
        let branch = git(&world, &["branch", "--list", "parallax/t*", "--format=%(refname)"]);
        let stored = git(&world, &["cat-file", "-p", &format!("{branch}:a.key")]);
        assert_eq!(stored, "tfdsfu", "{}", output.err());
        let commits = git(&world, &["rev-list", "--count", &format!("main..{branch}")]);
        assert_eq!(commits, "1");
    }
}

#[test]
fn damaged_record_does_not_block_the_name() {
    let world = repository(&shell_script("echo x > x", 3));
    world.run_ok(&["-w=first", "-p", "work", "-y"]);
    let path = std::path::PathBuf::from(worktree_list(&world)[0]["path"].as_str().expect("a path"));
    let record = path.with_file_name("fix.json");
    for text in ["", "{\"name\":"] {
        std::fs::write(&record, text).expect("a record");
        let output = world.run_ok(&["-w=fix", "-p", "work", "-y"]);
        assert!(output.err().contains("Kept worktree `fix`"), "{}", output.err());
        world.run_ok(&["worktrees", "remove", "--force", "fix"]);
    }
    // With a worktree, it may hold work.
    std::fs::write(path.with_file_name("first.json"), "").expect("a record");
    let output = world.run(&["-w=first", "-p", "work", "-y"]);
    assert!(output.code() != 0 && output.err().contains("is damaged"), "{}", output.err());
    assert!(path.join("x").exists());
}

#[test]
fn repository_of_another_user_is_rejected_with_git_advice() {
    let world = repository(&json!([{"text": "done"}]));
    for arguments in [["-w=fix", "-p", "work"].as_slice(), &["review"], &["worktrees", "list"]] {
        let mut command = world.command(arguments);
        command.env("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");
        let output = finish(command);
        let remedy = "git config --global --add safe.directory /";
        assert!(output.code() != 0 && output.err().contains(remedy), "{}", output.err());
    }
}
