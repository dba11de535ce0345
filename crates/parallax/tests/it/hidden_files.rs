//! Files that commands and tools must not read.

use std::time::Duration;

use serde_json::json;

use crate::protected_names::RULE;
use crate::safety::{git, repository};
use crate::support::{World, answers, commands, finish};

#[test]
fn env_file_created_later_is_hidden_from_a_leftover_process() {
    let attack = "(while [ ! -e stop ]; do cat .env .env.local >> leak; touch alive; sleep 0.02; \
        done) 2>/dev/null & sleep 0.2; echo started";
    let script = json!([
        {"calls": [{"name": "run_shell_command", "args": {"command": attack}}]},
        {"chunks": [{"gate": "saved"}, {"text": "done"}, {"finish": "STOP"}]},
    ]);
    let world = World::new(&script.to_string());
    world.home.write_home(".parallax/policies/all.toml", RULE).expect("written");
    let mut command = world.command(&["-p", "go"]);
    command.env("PARALLAX_SANDBOX_TIER", "namespaces");
    let running = testkit::measure::MeasuredProcess::start(command, None).expect("start");
    world.wait_for_requests(2);
    for name in [".env", ".env.local"] {
        world.home.write("saved", "SECRET-4711").expect("written");
        let project = world.home.project();
        std::fs::rename(project.join("saved"), project.join(name)).expect("renamed");
    }
    // The command may read the file before it is covered, but not after.
    std::thread::sleep(Duration::from_millis(300));
    for name in ["leak", "alive"] {
        let _ = std::fs::remove_file(world.home.project().join(name));
    }
    std::thread::sleep(Duration::from_millis(300));
    let (leak, is_alive) = (world.read("leak"), world.home.project().join("alive").exists());
    world.home.write("stop", "").expect("written");
    world.server.open_gate("saved");
    let output = running.finish(Duration::from_secs(20)).expect("finish");
    assert_eq!(output.code(), 0, "{}", output.err());
    assert!(is_alive, "nothing was left behind");
    assert_eq!(leak, "");
}

#[test]
fn hidden_file_does_not_block_worktree_removal() {
    let world =
        World::new(&commands(&["git worktree remove wt", "git worktree remove --force wt2"]));
    repository(&world);
    world.home.write(".gitignore", ".env\n").expect("written");
    git(&world, &["add", ".gitignore"]);
    git(&world, &["commit", "-qm", "one"]);
    for tree in ["wt", "wt2"] {
        git(&world, &["worktree", "add", "-q", tree]);
        world.home.write(&format!("{tree}/.env"), "A=1").expect("written");
    }
    let done = world.run_ok(&["-y", "-p", "go"]);
    let output = answers(&world.server);
    for tree in ["wt", "wt2"] {
        assert!(!world.home.project().join(tree).exists(), "{output:?} {}", done.err());
    }
}

#[test]
fn hidden_file_is_not_readable_under_another_name() {
    let lines = ["mv .env x; cat x", "mv gi y; cat y", "echo > .geminiignore; cat gi"];
    let world = World::new(&commands(&lines));
    let secret = "the-hidden-word";
    for (name, text) in [(".env", secret), ("gi", secret), (".geminiignore", "gi\n")] {
        world.home.write(name, text).expect("written");
    }
    let output = world.run(&["-y", "-p", "go"]);
    assert_eq!(output.code(), 0, "{}", output.err());
    let answers = answers(&world.server);
    assert_eq!(answers.len(), lines.len());
    assert!(answers.iter().all(|answer| !answer.contains(secret)), "{answers:?}");
}

#[test]
fn hidden_file_stays_hidden_after_its_parent_moved() {
    let lines = [
        "mkdir -p a/b/c/d; mv one a/b/c/d/",
        "cat a/b/c/d/one/.env",
        "mkdir node_modules; mv two node_modules/; mv three .git/",
        "cat node_modules/two/.env .git/three/.env",
        "mv conf conf2",
        "cat conf2/s.txt",
    ];
    let world = World::new(&commands(&lines));
    repository(&world);
    let secret = "the-hidden-word";
    for name in ["one/.env", "two/.env", "three/.env", "conf/s.txt"] {
        world.home.write(name, secret).expect("written");
    }
    world.home.write(".geminiignore", "/conf/s.txt\n").expect("written");
    world.run_ok(&["-y", "-p", "go"]);
    let output = answers(&world.server);
    assert_eq!(output.len(), lines.len());
    assert!(output.iter().all(|answer| !answer.contains(secret)), "{output:?}");
    assert_eq!(world.read("a/b/c/d/one/.env"), secret, "{output:?}");
    assert_eq!(world.read("conf2/s.txt"), secret, "{output:?}");
    // A later session also hides it.
    let world = World::in_home(world.home, &commands(&["cat a/b/c/d/one/.env conf2/s.txt"]));
    world.run_ok(&["-y", "-p", "go"]);
    let output = answers(&world.server);
    assert!(!output[0].contains(secret), "{output:?}");
}

#[test]
fn moved_hidden_file_is_hidden_from_file_tools() {
    let secret = "the-hidden-word";
    let call = |name: &str, args: serde_json::Value| json!({"name": name, "args": args});
    let looks = json!({"calls": [
        call("read_file", json!({"file_path": "conf2/s.txt"})),
        call("read_file", json!({"file_path": "link"})),
        call("read_file", json!({"file_path": "public/deep/n"})),
        call("list_directory", json!({"dir_path": "conf2"})),
        call("list_directory", json!({"dir_path": "public"})),
        call("glob", json!({"pattern": "**/*"})),
        call("grep_search", json!({"pattern": "the-word"})),
        call("grep_search", json!({"pattern": "the-word", "no_ignore": true})),
        call("grep_search", json!({"pattern": "the-word", "dir_path": "public/deep"})),
        call("replace", json!({"file_path": "conf2/s.txt", "old_string": "nobody", "new_string": "all"})),
    ]});
    let moves = "mv conf conf2; mv notes public; ln -s conf2/s.txt link";
    let shell = call("run_shell_command", json!({"command": moves}));
    let world = World::new(&json!([{"calls": [shell]}, looks, {"text": "done"}]).to_string());
    for name in ["conf/s.txt", "notes/deep/n"] {
        world.home.write(name, secret).expect("written");
    }
    world.home.write("conf/open.txt", "open").expect("written");
    world.home.write(".geminiignore", "/conf/s.txt\n/notes/deep\n").expect("written");
    world.run_ok(&["-y", "-p", "go"]);
    let output = answers(&world.server);
    assert_eq!(output.len(), 11);
    assert_eq!(world.read("public/deep/n"), secret, "{output:?}");
    assert_eq!(world.read("conf2/s.txt"), secret, "{output:?}");
    assert!(output.iter().all(|answer| !answer.contains(secret)), "{output:?}");
    let listed = output.iter().skip(4).take(3).all(|answer| !answer.contains("s.txt"));
    assert!(listed && output[6].contains("conf2/open.txt"), "{output:?}");
    // `@path` in a later session.
    let world = World::in_home(world.home, r#"[{"text": "done"}]"#);
    world.run_ok(&["-p", "see @conf2/s.txt @public and @conf2"]);
    let request = &world.server.requests()[0];
    let body = String::from_utf8_lossy(&request.body);
    assert!(!body.contains(secret) && body.contains("open.txt"), "{body}");
}

#[test]
fn package_managers_get_home_registries_without_keys() {
    for tier in ["namespaces", "landlock"] {
        // The second command sees what the first one did to the copy.
        let world = World::new(&commands(&["sh build", "sh build"]));
        let script = "cat $npm_config_userconfig > addresses\ncat ~/.npmrc > keys 2>/dev/null\n\
            echo evil 2>/dev/null > $npm_config_userconfig\ntrue\n";
        world.home.write("build", script).expect("written");
        let text = "@corp:registry=https://c.example/npm/\n//c.example/npm/:_authToken=SECRET\n";
        world.home.write_home(".npmrc", text).expect("written");
        world.home.write_home(".parallax/policies/all.toml", RULE).expect("written");
        let mut command = world.command(&["-p", "go"]);
        command.env("PARALLAX_SANDBOX_TIER", tier);
        let output = finish(command);
        let addresses = world.read("addresses");
        assert_eq!(
            addresses,
            "@corp:registry=https://c.example/npm/\n",
            "{tier}: {}",
            output.err()
        );
        assert_eq!(world.read("keys"), "", "{tier}");
        assert_eq!(answers(&world.server).len(), 2, "{tier}");
    }
}
