//! What the agent's commands may do: the sandbox, its approval requests, and saved rules.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Conversation, World, answers, commands, finish, wait_until};

pub(crate) fn git(world: &World, arguments: &[&str]) {
    let mut command = world.home.command(std::path::Path::new("git"), "");
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().expect("git").success(), "{arguments:?}");
}

pub(crate) fn repository(world: &World) {
    git(world, &["init", "-q"]);
    git(world, &["config", "user.name", "A"]);
    git(world, &["config", "user.email", "a@b"]);
}

#[test]
fn commands_write_only_the_project() {
    let world = World::new(&commands(&[
        "echo in > inside; echo out > ../outside; cat ../outside",
        "cat ~/.ssh/id_test",
        "cat .env",
        "echo x > .git/hooks/pre-commit",
        "git commit -qm one --allow-empty && git log --oneline",
        "echo one > /tmp/kept; cat /tmp/kept",
        "cat /tmp/kept",
    ]));
    repository(&world);
    world.home.write_home(".ssh/id_test", "the key").expect("written");
    world.home.write(".env", "SECRET=1").expect("written");
    // Policy rules allow the commands; only the sandbox stops them.
    let rule = "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"allow\"\npriority = \
                900\nallowRedirection = true\n";
    world.home.write_home(".parallax/policies/all.toml", rule).expect("written");
    let output = world.run_ok(&["-p", "go", "-y"]);
    assert_eq!(output.stdout(), "done\n");
    let answers = answers(&world.server);
    assert_eq!(world.read("inside"), "in\n");
    assert!(!world.home.project().join("../outside").exists());
    for (index, secret) in [(1, "the key"), (2, "SECRET")] {
        assert!(!answers[index].contains(secret), "{}", answers[index]);
        assert!(
            answers[index].contains("[The sandbox denied this command: to read"),
            "{}",
            answers[index]
        );
    }
    assert!(answers[4].contains(" one"), "{}", answers[4]);
    assert!(answers[5].contains("Output: one") && answers[6].contains("Output: one"));
    assert!(!std::path::Path::new("/tmp/kept").exists());
}

#[test]
fn caches_are_written_to_a_layer_or_directly_in_yolo_mode() {
    let script = "for f in .cache/pip/x .npm/x; do echo x > ~/$f && echo wrote $f; done; true";
    for (tier, mode, wrote, in_place) in [
        ("namespaces", "default", true, false),
        ("namespaces", "yolo", true, false),
        ("bubblewrap", "yolo", true, true),
        ("bubblewrap", "default", false, false),
        ("landlock", "yolo", true, true),
        ("landlock", "default", false, false),
    ] {
        if tier == "bubblewrap" && !std::path::Path::new("/usr/bin/bwrap").exists() {
            println!("no bwrap here: not tested");
            continue;
        }
        let world = World::new(&commands(&["sh t.sh"]));
        world.home.write("t.sh", script).expect("written");
        for path in [".cache/pip/old", ".npm/old"] {
            world.home.write_home(path, "").expect("written");
        }
        let rule = "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"allow\"\npriority = \
                    900\nallowRedirection = true\n";
        world.home.write_home(".parallax/policies/all.toml", rule).expect("written");
        let mut command = world.command(&["-p", "go", "--approval-mode", mode]);
        command.env("PARALLAX_SANDBOX_TIER", tier);
        finish(command);
        let answer = answers(&world.server).remove(0);
        assert_eq!(answer.contains("wrote .cache/pip/x"), wrote, "{tier} {mode}: {answer}");
        let home = world.home.parallax().parent().map(std::path::Path::to_owned).expect("a home");
        let is_there = home.join(".cache/pip/x").exists();
        assert_eq!(is_there, in_place, "{tier} {mode}");
        // Without a layer, the files next to a cache proper are not writable.
        assert!(!home.join(".npm/x").exists(), "{tier} {mode}");
    }
}

#[test]
fn protected_file_is_read_only_or_restored() {
    let evil = "echo evil > .git/hooks/pre-commit; mkdir -p .vscode; echo {} > \
                .vscode/tasks.json; echo evil > .envrc; echo ran > inside; mkdir -p \
                later/.git/hooks; echo evil > later/.git/hooks/pre-commit";
    for tier in ["namespaces", "landlock"] {
        // The line does not show what the script will do, so the sandbox decides, not the rules.
        let world = World::new(&commands(&["sh build"]));
        repository(&world);
        world.home.write("build", evil).expect("written");
        world.home.write(".envrc", "mine").expect("written");
        let rule =
            "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"allow\"\npriority = 900\n";
        world.home.write_home(".parallax/policies/all.toml", rule).expect("written");
        let mut command = world.command(&["-p", "go", "--approval-mode", "auto_edit"]);
        command.env("PARALLAX_SANDBOX_TIER", tier);
        let done = finish(command);
        let output = &answers(&world.server)[0];
        assert_eq!(world.read("inside"), "ran\n", "{tier}: {output}\n{}", done.err());
        // The last one would be a hook of the repository that the command creates.
        for name in [".git/hooks/pre-commit", ".vscode/tasks.json", "later/.git/hooks/pre-commit"] {
            assert!(!world.home.project().join(name).exists(), "{tier} {name}: {output}");
        }
        assert_eq!(world.read(".envrc"), "mine", "{tier}: {output}");
        // The model is notified of what was created, and has seen what was denied.
        assert!(output.contains(".vscode/tasks.json"), "{tier}: {output}");
        let refused = output.contains("Read-only file system");
        assert_eq!(refused, tier == "namespaces", "{tier}: {output}");
    }
}

#[test]
fn approval_request_warns_about_unrecoverable_large_files() {
    let args = json!({"file_path": "large.txt", "content": "small"});
    let call = json!([{"calls": [{"name": "write_file", "args": args}]}, {"text": "done"}]);
    let world = World::new(&call.to_string());
    world.home.write("large.txt", &"line\n".repeat(5_000_000)).expect("written");
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("go");
    let ask = conversation.next("ask");
    assert_eq!(ask["not_undoable"], json!(["large.txt (25.0 MB) is not saved"]), "{ask}");
    conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": "cancel"}));
    conversation.next("result");
    conversation.end();
}

#[test]
fn repository_in_a_moved_directory_keeps_its_protected_files() {
    let world = World::new(&commands(&["sh one", "sh two"]));
    for (name, text) in [
        (
            "one",
            "mv x y; echo evil > y/.git/hooks/pre-commit; echo evil >> y/.git/config; rm y/.envrc",
        ),
        ("two", "mv y z; mkdir y; mv z/.git/hooks y/"),
    ] {
        world.home.write(name, text).expect("written");
    }
    world.home.write("x/.envrc", "mine").expect("written");
    world.home.write("x/a", "a").expect("written");
    git(&world, &["init", "-q", "x"]);
    let config = world.read("x/.git/config");
    let rule = "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"allow\"\npriority = \
                900\nallowRedirection = true\npathGlob = \"**\"\n";
    world.home.write_home(".parallax/policies/all.toml", rule).expect("written");
    let mut command = world.command(&["-p", "go", "--approval-mode", "auto_edit"]);
    command.env("PARALLAX_SANDBOX_TIER", "landlock");
    let done = finish(command);
    let output = answers(&world.server);
    assert!(output[0].contains("y/.git/hooks/pre-commit"), "{output:?}\n{}", done.err());
    assert!(!output[0].contains("sample"), "{output:?}");
    let kept = (world.read("z/.git/config"), world.read("z/.envrc"));
    assert_eq!(kept, (config, "mine".into()), "{output:?}");
    assert!(world.home.project().join("z/.git/hooks").is_dir(), "{output:?}");
    assert!(!world.home.project().join("z/.git/hooks/pre-commit").exists(), "{output:?}");
    assert!(!world.home.project().join("x").exists() && world.read("z/a") == "a", "{output:?}");
}

#[test]
fn sandbox_denial_requests_permission_and_grants_it_once() {
    // What the first command reads is known only at run time; the words of the others show it.
    let lines = ["f=id_test; cat ~/.ssh/$f", "cat ~/.ssh/id_test", "cat ~/.ssh/id_test"];
    let world = World::new(&commands(&lines));
    world.home.write_home(".ssh/id_test", "the key").expect("written");
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("go");
    let mut questions = Vec::new();
    for answer in ["proceed_once", "proceed_once", "proceed_once", "cancel"] {
        let ask = conversation.next("ask");
        questions.push(ask["question"].as_str().expect("a word").to_owned());
        if questions.len() > 1 {
            let read = ask["permissions"]["fileSystem"]["read"][0].as_str().expect("a path");
            assert!(read.ends_with("/.ssh/id_test"), "{read}");
        }
        conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": answer}));
    }
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(conversation.end(), Some(0));
    assert_eq!(questions, ["exec", "sandbox_expansion", "exec", "exec"]);
    let answers = answers(&world.server);
    assert!(answers[0].contains("the key") && answers[1].contains("the key"), "{answers:?}");
    assert!(!answers[2].contains("the key"), "{}", answers[2]);
}

#[test]
fn one_approval_allows_changing_an_outside_directory() {
    let lines = [
        "rm -rf ~/other/d",
        "mkdir -p ~/other/made/deep",
        "mv ~/other/f ~/other/g",
        "cd ~/other && touch z",
        "git worktree add -q -b b1 wt up/main",
    ];
    let world = World::new(&commands(&lines));
    repository(&world);
    git(&world, &["commit", "-q", "--allow-empty", "-m", "one"]);
    git(&world, &["update-ref", "refs/remotes/up/main", "HEAD"]);
    git(&world, &["config", "remote.up.url", "nowhere"]);
    git(&world, &["config", "remote.up.fetch", "+refs/heads/*:refs/remotes/up/*"]);
    for name in ["other/d/x", "other/f"] {
        world.home.write_home(name, "x").expect("written");
    }
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("go");
    for _ in lines {
        let ask = conversation.next("ask");
        assert_eq!(ask["question"], "exec", "{ask}");
        conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": "proceed_once"}));
    }
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(conversation.end(), Some(0));
    let answers = answers(&world.server);
    let other = world.home.home().join("other");
    let there = ["d", "made/deep", "f", "g", "z"].map(|name| other.join(name).exists());
    assert_eq!(there, [false, true, false, true, true], "{answers:?}");
    assert!(world.home.project().join("wt").exists(), "{}", answers[4]);
    assert!(answers.iter().all(|answer| !answer.contains("twice")), "{answers:?}");
}

#[test]
fn saved_rule_allows_only_what_was_shown() {
    let script = |lines: &[&str]| commands(lines);
    let world = World::new(&script(&["touch a", "touch b", "touch c > d", "touch e && rm e"]));
    let settings = r#"{"security": {"enablePermanentToolApproval": true}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("go");
    let ask = conversation.next("ask");
    let rules = ask["rules"].as_array().expect("rules").clone();
    assert_eq!(rules[0]["commandPrefix"], json!(["touch a"]));
    // The user broadens the rule to the program.
    let mut rule = rules[0].clone();
    rule["commandPrefix"] = json!(["touch"]);
    let decide = json!({"type": "decide", "id": ask["id"], "outcome": "proceed_always_and_save", "rule": rule});
    conversation.send(&decide);
    // `touch b` runs without approval; redirection and another program require it.
    for _ in 0..2 {
        let ask = conversation.next("ask");
        assert_ne!(ask["title"], "touch b");
        conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": "cancel"}));
    }
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(conversation.end(), Some(0));
    assert!(world.home.project().join("b").exists() && !world.home.project().join("c").exists());
    let saved = world.home.parallax().join("policies/auto-saved.toml");
    let saved = std::fs::read_to_string(saved).expect("saved");
    assert!(saved.contains("commandPrefix") && saved.contains("priority = 950"), "{saved}");
    // The saved rule applies in the next run.
    let next = World::in_home(world.home, &script(&["touch f"]));
    next.run_ok(&["-p", "again"]);
    assert!(next.home.project().join("f").exists());
}

#[test]
fn approved_commit_runs_the_hooks_and_an_allowed_one_does_not() {
    let script = commands(&["git commit -qm one --allow-empty"]);
    let world = World::new(&script);
    repository(&world);
    let hook = world.home.project().join(".git/hooks/post-commit");
    std::fs::create_dir_all(hook.parent().expect("hooks")).expect("hooks");
    std::fs::write(&hook, "#!/bin/sh\ntouch hooked\n").expect("a hook");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&hook, mode).expect("mode");
    world.run_ok(&["-p", "go", "--allowed-tools", "run_shell_command(git commit)"]);
    assert!(!world.home.project().join("hooked").exists());
    let world = World::in_home(world.home, &script);
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("go");
    let ask = conversation.next("ask");
    conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": "proceed_once"}));
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(conversation.end(), Some(0));
    assert!(world.home.project().join("hooked").exists());
}

#[test]
fn dropped_variables_are_reported_with_the_setting_that_keeps_them() {
    for format in ["text", "json", "stream-json"] {
        let echo = "echo \"token: $A_TOKEN, marks: $GEMINI_CLI$PARALLAX\"";
        let world = World::new(&commands(&[echo, echo]));
        let mut command = world.command(&["-p", "go", "-y", "-o", format]);
        command.env("A_TOKEN", "hush");
        let output = finish(command);
        let (out, err) = (output.stdout(), output.err());
        // In the JSON formats, stderr is reserved for failures.
        let (report, silent) = if format == "text" { (&err, &out) } else { (&out, &err) };
        let named: Vec<&str> = report.lines().filter(|line| line.contains("`A_TOKEN`")).collect();
        assert_eq!(named.len(), 1, "{format}: once, not with each command: {report}");
        assert!(named[0].contains("environmentVariableRedaction.allowed"), "{format}: {report}");
        assert!(!report.contains("hush"), "{format}");
        assert!(!silent.contains("do not receive the variable"), "{format}: {silent}");
        assert!(answers(&world.server)[0].contains("token: , marks: 11"), "{format}");
    }
}

#[test]
fn rules_are_explained_and_checked() {
    let world = World::new("[]");
    let rules = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"make\"\ndecision = \
                 \"deny\"\npriority = 5\ndenyMessage = \"no make\"\n";
    world.home.write_home(".gemini/policies/mine.toml", rules).expect("written");
    let explained = world.run(&["policy", "explain", "--command", "make all", "--json"]);
    let explained: Value = serde_json::from_str(&explained.stdout()).expect("json");
    let text = explained.to_string();
    assert!(text.contains("deny") && text.contains("mine.toml"), "{text}");
    // Explains both headless and interactive runs and, on request, the rules that do not match.
    let explain = |more: &[&str]| {
        world.run(&[&["policy", "explain", "--command", "touch x"], more].concat()).stdout()
    };
    let short = explain(&[]);
    assert!(short.contains("interactive: ask") && short.contains("headless: deny"), "{short}");
    assert!(!short.contains("mine.toml"), "{short}");
    assert!(explain(&["-v"]).contains("mine.toml"), "{}", explain(&["-v"]));
    // Rules given on the command line are explained as a session would apply them.
    world.home.write("its.toml", rules).expect("written");
    for line in [
        ["--policy", "its.toml", "policy", "explain", "--command", "make all"],
        ["policy", "explain", "--policy=its.toml", "--json", "--command", "make all"],
    ] {
        let explained = world.run(&line);
        assert!(
            explained.stdout().contains("its.toml"),
            "{}{}",
            explained.stdout(),
            explained.err()
        );
        assert!(!explained.err().contains("does not support"), "{}", explained.err());
    }
    world
        .home
        .write("bad.toml", "[[rule]]\ntoolName = \"x\"\ndecision = \"perhaps\"\npriority = 1\n")
        .expect("written");
    let lint = world.run(&["policy", "lint", "bad.toml"]);
    assert_eq!(lint.code(), 1);
    assert!((lint.stdout() + &lint.err()).contains("perhaps"));
    assert_eq!(world.run(&["policy", "list"]).code(), 0);
}

/// Another process repeatedly replaces a project directory with a symlink to the outside while
/// files are written through it.
#[test]
fn directory_replaced_by_a_link_never_redirects_a_write_outside() {
    const WRITES: usize = 150;
    let call = |n: usize| json!({"name": "write_file", "args": {"file_path": format!("place/f{n}"), "content": "x"}});
    let calls: Vec<Value> = (0..WRITES).map(call).collect();
    let script = json!([{"calls": calls}, {"calls": [{"name": "run_shell_command", "args": {"command": "for \
                                                                                                        i \
                                                                                                        in \
                                                                                                        $(seq \
                                                                                                        400); \
                                                                                                        do \
                                                                                                        echo \
                                                                                                        x \
                                                                                                        > \
                                                                                                        place/s$i; \
                                                                                                        done \
                                                                                                        2>/dev/null"}}]}, {"text": "done"}]);
    let world = World::new(&script.to_string());
    let outside = tempfile::tempdir().expect("a folder");
    let project = world.home.project();
    let (place, link) = (project.join("place"), project.join("link"));
    std::fs::create_dir(&place).expect("a folder");
    std::os::unix::fs::symlink(outside.path(), &link).expect("a link");
    let (stop, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    &place,
                    rustix::fs::CWD,
                    &link,
                    exchange,
                )
                .expect("exchanged");
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        let output = world.run(&["-p", "go", "-y"]);
        while swaps.load(Ordering::Relaxed) < 10_000 {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(output.stdout(), "done\n", "{}", output.err());
    });
    let left: Vec<_> = std::fs::read_dir(outside.path()).expect("the folder").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn sandbox_command_runs_programs_and_reports_enforcement() {
    let world = World::new("[]");
    let explained = world.run(&["sandbox", "explain"]);
    assert!(explained.stdout().contains("Network"), "{}", explained.stdout());
    let ran = world.run(&["sandbox", "run", "--", "sh", "-c", "echo hello; exit 7"]);
    assert_eq!((ran.code(), ran.stdout().as_str()), (7, "hello\n"), "{}", ran.err());
    let nothing = world.run(&["sandbox", "run"]);
    assert_ne!(nothing.code(), 0, "a command is needed");
}

#[test]
fn commands_see_only_temporary_files_of_their_session() {
    for tier in ["namespaces", "bubblewrap", "landlock"] {
        if tier == "bubblewrap" && !std::path::Path::new("/usr/bin/bwrap").exists() {
            println!("no bwrap here: not tested");
            continue;
        }
        for mode in ["default", "yolo"] {
            let world = World::new(&commands(&["seq 1 30000", "sh look", "sh write"]));
            let look = "cat ~/.parallax/tmp/*/other/outputs/a ~/.parallax/tmp/*/other/sandbox/tmp/b\n\
                        cat ~/.parallax/tmp/elsewhere/*/outputs/a\n\
                        find ~/.parallax/tmp -type f | xargs cat | grep theirs\n\
                        while [ ! -s own ]; do sleep 0.05; done; grep 29999 $(cat own)\n";
            let write = "echo x > ~/.parallax/tmp/elsewhere/s/outputs/a\n\
                         echo mine > /tmp/c$$; cat /tmp/c$$; rm /tmp/c$$\n";
            world.home.write("look", look).expect("written");
            world.home.write("write", write).expect("written");
            for path in ["p/other/outputs/a", "p/other/sandbox/tmp/b", "elsewhere/s/outputs/a"] {
                world.home.write_home(&format!(".parallax/tmp/{path}"), "theirs").expect("written");
            }
            let rule = "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"allow\"\npriority = 900\nallowRedirection = true\n";
            world.home.write_home(".parallax/policies/all.toml", rule).expect("written");
            let mut command = world.command(&["-p", "go", "--approval-mode", mode]);
            command.env("PARALLAX_SANDBOX_TIER", tier);
            let (temporary, own) =
                (world.home.parallax().join("tmp"), world.home.project().join("own"));
            let reporter = std::thread::spawn(move || {
                let pattern = temporary.join("project-*/*/tool-outputs/*");
                let find = format!("ls {} 2>/dev/null | head -n 1", pattern.display());
                let mut path = String::new();
                wait_until("the output is there", || {
                    let (root, time) = (std::path::Path::new("/"), Duration::from_secs(10));
                    let listed =
                        parallax_exec::program::output("sh", ["-c", &find], root, &[], 9999, time);
                    path = String::from_utf8(listed.unwrap_or_default()).expect("a path");
                    !path.is_empty()
                });
                std::fs::write(own, path).expect("written");
            });
            let done = finish(command);
            reporter.join().expect("a thread");
            let answers = answers(&world.server);
            let answers: Vec<&str> = answers
                .iter()
                .map(|it| it.get(it.len().saturating_sub(900)..).unwrap_or(it))
                .collect();
            let output = format!("{tier} {mode} {answers:#?}: {}", done.err());
            assert!(!answers[1].contains("theirs"), "{output}");
            // The complete output of the session's own first command is there.
            assert!(answers[1].contains("29999"), "{output}");
            assert_eq!(answers[2].contains("mine"), tier != "landlock", "{output}");
            let path = world.home.parallax().join("tmp/elsewhere/s/outputs/a");
            assert_eq!(std::fs::read_to_string(path).expect("a file"), "theirs", "{output}");
        }
    }
}

#[test]
fn git_push_to_a_path_needs_approval() {
    for mode in ["default", "auto_edit"] {
        let world = World::new(&commands(&[
            "git push -q near HEAD:refs/heads/x",
            "git push -q ./near HEAD:refs/heads/x",
            "cd near && git push -q .. HEAD:refs/heads/x",
            "git archive --format=x HEAD > out.tar",
            "git archive --format=tgz HEAD > out.tgz && tar tzf out.tgz",
            "git gc -q",
        ]));
        repository(&world);
        world.home.write("a", "a").expect("written");
        git(&world, &["add", "a"]);
        git(&world, &["commit", "-qm", "one"]);
        git(&world, &["clone", "-q", ".", "near"]);
        git(&world, &["remote", "add", "near", "./near"]);
        let ran = world.home.project().join("ran");
        let evil = format!("#!/bin/sh\ntouch {}\nexec cat\n", ran.display());
        for hook in ["near/.git/hooks/update", ".git/hooks/update", "evil"] {
            world.home.write(hook, &evil).expect("written");
            let path = world.home.project().join(hook);
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&path, mode).expect("a mode");
        }
        let evil = world.home.project().join("evil").display().to_string();
        for key in ["tar.x.command", "tar.tgz.command", "gc.recentObjectsHook"] {
            git(&world, &["config", key, &evil]);
        }
        let mut command = world.command(&["-p", "go", "--approval-mode", mode]);
        command.args(["--allowed-tools", "run_shell_command(git),run_shell_command(tar)"]);
        let done = finish(command);
        let output = answers(&world.server);
        assert!(!ran.exists(), "{output:#?} {}", done.err());
        for answer in &output[..3] {
            assert!(
                answer.contains("approve") || answer.contains("no user is present"),
                "{output:#?}"
            );
        }
        assert!(output[5].contains("recentobjectshook"), "{output:#?}");
    }
}
