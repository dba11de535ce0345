//! Git in commands of the agent: it runs no programs configured by the command, keeps its own
//! changes, and restores moved files.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use crate::support::{World, answers, commands, finish};

fn git(world: &World, folder: &str, arguments: &[&str]) {
    let mut command = world.home.command(std::path::Path::new("git"), "");
    command.current_dir(world.home.project().join(folder));
    command.args(["-c", "user.name=A", "-c", "user.email=a@b"]).args(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().expect("git").success(), "{arguments:?}");
}

/// Creates a repository in `folder` whose files all use a filter named `f`.
fn filtered(world: &World, folder: &str) {
    world.home.write(&format!("{folder}/a.txt"), "a\n").expect("written");
    world.home.write(&format!("{folder}/.gitattributes"), "* filter=f diff=f\n").expect("written");
    git(world, folder, &["init", "-q"]);
    git(world, folder, &["add", "."]);
    git(world, folder, &["commit", "-qm", "one"]);
    world.home.write(&format!("{folder}/a.txt"), "changed\n").expect("written");
}

/// Creates a program that leaves a mark in the project when it runs.
fn create_marker_program(world: &World) -> String {
    let script = format!("#!/bin/sh\ntouch {}/ran\ncat\n", world.home.project().display());
    world.home.write("evil", &script).expect("written");
    let path = world.home.project().join("evil");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("mode");
    path.display().to_string()
}

#[test]
fn git_ignores_configuration_written_by_the_same_command_line() {
    let included = "printf '[filter \"f\"]\\n clean = ./evil\\n' > inc.cfg; git diff";
    let bare = "printf '[core]\\n bare = false\\n' > x/config; cd x && git diff";
    let world = World::new(&commands(&[included, bare, "git diff > a.patch"]));
    create_marker_program(&world);
    filtered(&world, "");
    git(&world, "", &["config", "include.path", "../inc.cfg"]);
    world.home.write("inc.cfg", "").expect("written");
    world.run_ok(&["-p", "go", "--approval-mode", "auto_edit"]);
    let answers = answers(&world.server);
    for answer in &answers[..2] {
        assert!(answer.contains("no user is present"), "{answer}");
    }
    assert!(!world.home.project().join("ran").exists());
    assert_eq!(world.read("inc.cfg"), "");
}

#[test]
fn quoting_does_not_hide_a_repository() {
    let lines =
        ["cd $'ev' && git diff", "cd e$'v' && git log -p", "cd $'e\\x76'; git status; git diff"];
    let world = World::new(&commands(&lines));
    let evil = create_marker_program(&world);
    filtered(&world, "ev");
    for key in ["filter.f.clean", "diff.f.textconv", "diff.f.command"] {
        git(&world, "ev", &["config", key, &evil]);
    }
    world.run_ok(&["-p", "go"]);
    assert!(!world.home.project().join("ran").exists());
    let world = World::new(&commands(&["cat $'.env'", "cat l$'nk'/secret"]));
    world.home.write(".env", "SECRET=1").expect("written");
    world.home.write_home("elsewhere/secret", "SECRET").expect("written");
    let outside = world.home.home().join("elsewhere");
    std::os::unix::fs::symlink(outside, world.home.project().join("lnk")).expect("link");
    world.run_ok(&["-p", "go"]);
    for answer in answers(&world.server) {
        assert!(answer.contains("no user is present") && !answer.contains("SECRET"), "{answer}");
    }
}

#[test]
fn new_repository_keeps_files_written_by_git() {
    let world = World::new(&commands(&[
        "git clone -q . copy && git -C copy remote",
        "git init -q fresh; ls",
        "git -C copy config core.fsmonitor x",
    ]));
    world.home.write("a.txt", "a\n").expect("written");
    git(&world, "", &["init", "-q"]);
    git(&world, "", &["add", "."]);
    git(&world, "", &["commit", "-qm", "one"]);
    world.run_ok(&["-p", "go", "--allowed-tools", "run_shell_command(git)"]);
    let answers = answers(&world.server);
    assert!(answers[0].contains("origin"), "{}", answers[0]);
    for (index, folder) in ["copy", "fresh"].into_iter().enumerate() {
        assert!(!answers[index].contains("protected"), "{}", answers[index]);
        assert!(world.read(&format!("{folder}/.git/config")).contains("[core]"), "{folder}");
        git(&world, folder, &["status"]);
    }
    // From then on, it is protected like any other.
    assert!(!world.read("copy/.git/config").contains("fsmonitor"), "{}", answers[2]);
}

#[test]
fn git_removes_and_moves_worktrees() {
    for tier in ["namespaces", "landlock"] {
        let world = World::new(&commands(&["git worktree move w v", "git worktree remove v"]));
        world.home.write(".vscode/tasks.json", "{}").expect("written");
        git(&world, "", &["init", "-q"]);
        git(&world, "", &["add", "."]);
        git(&world, "", &["commit", "-qm", "one"]);
        git(&world, "", &["worktree", "add", "-q", "w"]);
        let mut command = world.command(&["-p", "go"]);
        command.args(["--allowed-tools", "run_shell_command(git)"]);
        command.env("PARALLAX_SANDBOX_TIER", tier);
        finish(command);
        let answers = answers(&world.server);
        assert!(answers.iter().all(|answer| answer.contains("(empty)")), "{tier}: {answers:?}");
        assert!(answers.iter().all(|answer| !answer.contains("put back")), "{tier}: {answers:?}");
        let there = |name: &str| world.home.project().join(name).exists();
        assert!(!there("w") && !there("v") && !there(".git/worktrees/w"), "{tier}: {answers:?}");
    }
}

#[test]
fn directory_replaced_by_a_link_is_restored() {
    for line in ["mv a a0; ln -s a0 a", "rm -rf a; ln -s nowhere a"] {
        let world = World::new(&commands(&[line]));
        world.home.write("a/b/f", "1").expect("written");
        world.home.write("a/g", "2").expect("written");
        world.run_ok(&["-p", "go", "-y"]);
        assert!(world.home.project().join("a").is_symlink(), "{line}");
        world.run_ok(&["undo"]);
        assert_eq!((world.read("a/b/f"), world.read("a/g")), ("1".into(), "2".into()), "{line}");
        assert!(!world.home.project().join("a0").exists(), "{line}");
    }
}

#[test]
fn git_works_with_tracked_hidden_files() {
    let lines = [
        "git status --short",
        "git diff --stat",
        "git commit -qam two && git log --oneline",
        "cat notes.key",
        "git diff",
    ];
    let world = World::new(&commands(&lines));
    for name in ["notes.key", "conf/f", "a.txt"] {
        world.home.write(name, "one\n").expect("written");
    }
    world.home.write(".geminiignore", "*.key\nconf/\n").expect("written");
    git(&world, "", &["init", "-q"]);
    git(&world, "", &["config", "user.name", "A"]);
    git(&world, "", &["config", "user.email", "a@b"]);
    git(&world, "", &["add", "-A"]);
    git(&world, "", &["commit", "-qm", "one"]);
    world.home.write("a.txt", "two\n").expect("written");
    world.home.write("conf/new", "not for agents\n").expect("written");
    world.run_ok(&["-y", "-p", "go"]);
    let answers = answers(&world.server);
    assert!(answers[0].contains(" M a.txt"), "{}", answers[0]);
    for name in ["notes.key", "conf/f", "hid"] {
        assert!(!answers[0].contains(name) && !answers[1].contains(name), "{answers:?}");
    }
    assert!(answers[2].contains(" two") && !answers[2].contains("Exit Code"), "{}", answers[2]);
    assert!(answers[3].contains("[The sandbox denied this command: to read"), "{}", answers[3]);
}

#[test]
fn modified_index_does_not_reveal_hidden_files() {
    let lines = [
        "B=$(echo x | git hash-object -w --stdin); git update-index --add --cacheinfo 100644,$B,gi",
        "git diff",
        "git commit -qam z; git show HEAD:gi",
        "git stash; git show stash@{0}:gi",
    ];
    let world = World::new(&commands(&lines));
    let secret = "the-hidden-word";
    for (name, text) in [("a.txt", "a\n"), ("gi", secret), (".geminiignore", "gi\n")] {
        world.home.write(name, text).expect("written");
    }
    git(&world, "", &["init", "-q"]);
    git(&world, "", &["config", "user.name", "A"]);
    git(&world, "", &["config", "user.email", "a@b"]);
    git(&world, "", &["add", "a.txt"]);
    git(&world, "", &["commit", "-qm", "one"]);
    world.run_ok(&["-y", "-p", "go"]);
    let answers = answers(&world.server);
    assert_eq!(answers.len(), lines.len());
    assert!(answers.iter().all(|answer| !answer.contains(secret)), "{answers:?}");
    assert!(answers[1].contains("[The sandbox hid gi"), "{}", answers[1]);
}

#[test]
fn git_considers_hidden_files_unchanged_in_any_line() {
    let lines = [
        "git diff | head -50",
        "git status --short && ls",
        "make -s",
        "git stash -q && git status --short | cat; git stash pop -q && git diff --stat | cat",
        "git commit -qam two; git show --stat --format=%s | cat",
        "git status --short; cat notes.key",
    ];
    let world = World::new(&commands(&lines));
    let hidden = ["notes.key", "conf/f", ".env"];
    for name in hidden.into_iter().chain(["a.txt"]) {
        world.home.write(name, "one\n").expect("written");
        let file = std::fs::File::options().write(true).open(world.home.project().join(name));
        let past = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        file.and_then(|file| file.set_modified(past)).expect("a time");
    }
    world.home.write(".geminiignore", "*.key\nconf/\n").expect("written");
    world.home.write("Makefile", "all:\n\tgit diff --stat\n").expect("written");
    git(&world, "", &["init", "-q"]);
    git(&world, "", &["config", "user.name", "A"]);
    git(&world, "", &["config", "user.email", "a@b"]);
    git(&world, "", &["add", "-f", "-A"]);
    git(&world, "", &["commit", "-qm", "one"]);
    let secret = "the-hidden-word\n";
    hidden.iter().for_each(|name| drop(world.home.write(name, secret)));
    world.home.write("a.txt", "two\n").expect("written");
    world.run_ok(&["-y", "-p", "go"]);
    let answers = answers(&world.server);
    for (line, answer) in lines.iter().zip(&answers) {
        assert!(!answer.contains("the-word"), "{line}: {answer}");
        if !line.contains("cat notes") && *line != "make -s" {
            assert!(answer.contains("a.txt") && !answer.contains("hid"), "{line}: {answer}");
            let named = hidden.iter().any(|name| answer.contains(name));
            // `ls` names the existing files.
            assert!(!named || line.ends_with("ls"), "{line}: {answer}");
            assert!(!answer.contains("Exit Code"), "{line}: {answer}");
        }
    }
    assert!(answers[5].contains("[The sandbox denied this command: to read"), "{}", answers[5]);
    assert!(hidden.iter().all(|name| world.read(name) == secret), "{answers:?}");
}

#[test]
fn hidden_tracked_file_is_reported() {
    let world = World::new(&commands(&["git diff", "git status --short", "git log --stat"]));
    world.home.write(".env", "A=secret\n").expect("written");
    git(&world, "", &["init", "-q"]);
    git(&world, "", &["add", "-f", ".env"]);
    git(&world, "", &["commit", "-qm", "one"]);
    // The index is as old as the file, so git reads the file despite its timestamps.
    let project = world.home.project();
    let index = std::fs::File::options().write(true).open(project.join(".git/index"));
    let written = project.join(".env").metadata().and_then(|data| data.modified());
    index.and_then(|index| index.set_modified(written?)).expect("a time");
    world.run_ok(&["-y", "-p", "go"]);
    let answers = answers(&world.server);
    let word = "[The sandbox hid .env, which git tracks";
    let refused = "[The sandbox denied this command: to read";
    assert!(answers[0].contains(word) && answers[0].contains(refused), "{}", answers[0]);
    // It succeeded, so no approval is requested.
    assert!(answers[1].contains(word) && !answers[1].contains(refused), "{}", answers[1]);
    assert!(!answers[2].contains("hid"), "{}", answers[2]);
}
