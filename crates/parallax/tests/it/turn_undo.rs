//! Undo of the files that turns changed.

use serde_json::json;

use crate::safety::{git, repository};
use crate::support::{World, commands, finish, wait_until};

#[test]
fn concurrent_user_changes_of_protected_files_are_kept_or_redoable() {
    for tier in ["namespaces", "landlock"] {
        let world = World::new(&commands(&[
            "echo > started; while [ ! -e stop ]; do sleep 0.05; done; (sleep 99 &)",
            "echo next",
        ]));
        repository(&world);
        world.home.write(".vscode/settings.json", "old").expect("written");
        let rule = "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"allow\"\npriority = \
                    900\nallowRedirection = true\n";
        world.home.write_home(".parallax/policies/all.toml", rule).expect("written");
        let mut command = world.command(&["-p", "go"]);
        command.env("PARALLAX_SANDBOX_TIER", tier);
        let running = std::thread::spawn(move || finish(command));
        wait_until("the command runs", || world.home.project().join("started").exists());
        git(&world, &["remote", "add", "mine", "u"]);
        for name in [".vscode/settings.json", ".vscode/tasks.json", "AGENTS.md"] {
            world.home.write(name, "mine").expect("written");
        }
        world.home.write("stop", "").expect("written");
        let output = running.join().expect("done");

        // A file that the command could not write is unchanged.
        let mounts = tier == "namespaces";
        let settings = if mounts { "mine" } else { "old" };
        assert_eq!(world.read(".vscode/settings.json"), settings, "{tier}: {}", output.err());
        assert_eq!(world.home.project().join(".vscode/tasks.json").exists(), mounts, "{tier}");
        assert_eq!(world.read(".git/config").contains("mine"), mounts, "{tier}");
        // What it could write is reverted, with a hint how to restore it.
        assert!(!world.home.project().join("AGENTS.md").exists(), "{tier}");
        assert!(output.err().contains("`parallax undo --redo` to reapply it"), "{}", output.err());
        assert_eq!(world.run(&["undo", "--redo"]).code(), 0, "{tier}");
        for name in [".vscode/settings.json", ".vscode/tasks.json", "AGENTS.md"] {
            assert_eq!(world.read(name), "mine", "{tier}: {name}");
        }
        assert!(world.read(".git/config").contains("mine"), "{tier}");
    }
}

#[test]
fn changes_in_an_added_directory_are_undone_without_naming_it() {
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    std::fs::write(folder.join("kept"), "old").expect("written");
    let display_path = folder.display().to_string();
    let world =
        World::new(&commands(&[&format!("cd {display_path}; echo new > kept; echo new > made")]));
    world.run_ok(&["-p", "go", "-y", "--include-directories", &display_path]);
    assert!(folder.join("made").exists());
    let output = world.run(&["undo"]);
    assert_eq!(output.code(), 0, "{}{}", output.stdout(), output.err());
    assert_eq!(std::fs::read_to_string(folder.join("kept")).expect("a file"), "old");
    assert!(!folder.join("made").exists());
    assert_eq!(world.run(&["undo", "--redo"]).code(), 0);
    assert!(folder.join("made").exists());
}

#[test]
fn files_of_a_removed_repository_are_restored() {
    for (name, line) in [
        ("n/kept", "python3 -c 'import shutil; shutil.rmtree(\"n\")'"),
        ("n/kept", "mv n /tmp/away"),
        ("kept", "rm -rf .git kept"),
    ] {
        let world = World::new(&commands(&[line]));
        world.home.write("n/kept", "old").expect("written");
        world.home.write("kept", "old").expect("written");
        for folder in ["n", "."] {
            for args in [
                &["init", "-q"][..],
                &["add", "kept"],
                &["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "x"],
            ] {
                let mut git = world.home.command("git".as_ref(), "");
                git.current_dir(world.home.project().join(folder));
                assert!(git.args(args).status().expect("git").success(), "{args:?}");
            }
        }
        // Git treats a file that is older than its index as unchanged.
        std::thread::sleep(std::time::Duration::from_millis(50));
        world.run_ok(&["-p", "go", "-y"]);
        assert!(!world.home.project().join(name).exists(), "{line}");
        let output = world.run(&["undo"]);
        assert_eq!(world.read(name), "old", "{line}: {}{}", output.stdout(), output.err());
    }
}

#[test]
fn turns_are_undone_without_git() {
    let world = World::new(&commands(&[
        "echo new > made; rm gone; echo changed > kept; mv moved elsewhere",
    ]));
    for name in ["gone", "kept", "moved", "mine"] {
        world.home.write(name, "old").expect("written");
    }
    world.run_ok(&["-p", "go", "-y"]);
    assert_eq!(world.read("kept"), "changed\n");
    let undo = |args: &[&str]| {
        let mut command = world.command(&["undo"]);
        command.args(args);
        finish(command)
    };
    assert!(undo(&["--list"]).stdout().contains("deleted"), "{}", undo(&["--list"]).stdout());
    world.home.write("kept", "the user's").expect("written");
    let output = undo(&[]);
    assert_eq!(output.code(), 1, "one file was left alone: {}", output.stdout());
    assert_eq!((world.read("gone"), world.read("moved")), ("old".into(), "old".into()));
    assert_eq!(world.read("kept"), "the user's");
    assert!(!world.home.project().join("made").exists());
    assert!(!world.home.project().join("elsewhere").exists());
    undo(&["--force", "1"]);
    assert_eq!(world.read("kept"), "old");
    assert_eq!(undo(&["--redo"]).code(), 0);
    assert_eq!(world.read("kept"), "the user's");
}

#[test]
fn turns_are_undone_by_the_numbers_of_their_prompts() {
    let write = |name: &str| {
        let args = json!({"file_path": name, "content": "made"});
        json!({"calls": [{"name": "write_file", "args": args}]})
    };
    let refused = json!({"status": 400,
        "error": {"code": 400, "message": "not now", "status": "INVALID_ARGUMENT"}});
    let script = json!([write("one"), {"text": "done"}, refused, write("two"), {"text": "done"}]);
    let world = World::new(&script.to_string());
    world.run_ok(&["-p", "go", "-y", "--session-id", "s"]);
    // A failed prompt without a response is rewound.
    assert_eq!(world.run(&["-p", "lost", "-y", "-r", "s"]).code(), 1);
    world.run(&["-p", "again", "-y", "-r", "s"]);
    let listed = world.run(&["undo", "--list"]).stdout();
    assert!(listed.contains("Turn 1 (") && listed.contains("Turn 2 ("), "{listed}");
    assert!(listed.contains("): go\n") && listed.contains("): again\n"), "{listed}");
    let listed: serde_json::Value =
        serde_json::from_str(&world.run(&["undo", "--list", "--json"]).stdout()).expect("json");
    assert_eq!((&listed[0]["turn"], &listed[1]["turn"]), (&json!(1), &json!(2)));
    let output = world.run(&["undo", "3"]);
    assert_eq!(output.code(), 42, "{}", output.stdout());
    assert!(output.err().contains("unknown prompt 3: the last one is 2"), "{}", output.err());
    let output = world.run(&["undo", "2"]);
    assert!(
        output.stdout().starts_with("Turn 2 of session s: 1 file restored"),
        "{}",
        output.stdout()
    );
    assert_eq!((world.read("one").as_str(), world.read("two").as_str()), ("made", ""));
}

#[test]
fn undo_applies_to_the_session_that_changed_files_last() {
    let write = |name: &str| {
        let args = json!({"file_path": name, "content": "made"});
        json!({"calls": [{"name": "write_file", "args": args}]})
    };
    let text = json!({"text": "done"});
    let script = json!([write("one"), text, write("two"), text, write("three"), text]);
    let world = World::new(&script.to_string());
    let (first, second) = ("aaaaaaaa-1111-4111-8111-111111111111", "bbbbbbbb-2222");
    for (session, prompt) in [(first, "one"), (second, "two"), (second, "three")] {
        let flag = if prompt == "three" { "-r" } else { "--session-id" };
        world.run_ok(&["-p", prompt, "-y", flag, session]);
    }
    let undo = |args: &[&str]| {
        let output = world.run(&[&["undo"], args].concat());
        (output.code(), output.stdout() + &output.err())
    };

    // The beginning of an id selects a session.
    let (code, text) = undo(&["--session", "AAAAAAAA"]);
    assert!(code == 0 && text.starts_with("Turn 1 of session aaaaaaaa: 1 file"), "{text}");
    // A redo applies to the session that was undone last, an undo to the one with the last change.
    let (code, text) = undo(&["--redo"]);
    assert!(code == 0 && text.starts_with("Turn 1 of session aaaaaaaa: 1 file"), "{text}");
    let (_, text) = undo(&["--list"]);
    assert!(text.starts_with("Session bbbbbbbb\nTurn 1 ("), "{text}");
    let (code, text) = undo(&[]);
    assert!(code == 0 && text.starts_with("Turn 2 of session bbbbbbbb: 1 file"), "{text}");
    let (_, text) = undo(&["--session", "latest", "--json"]);
    assert!(text.contains(&format!("\"session\": \"{second}\"")), "{text}");
    let (code, text) = undo(&[]);
    assert!(code == 42 && text.contains("nothing to undo in session `bbbbbbbb`"), "{text}");

    let (code, text) = undo(&["--session", "cccc"]);
    assert!(code == 42 && text.contains("session `cccc` not found in this project"), "{text}");
    std::fs::create_dir(world.home.project().join("other")).expect("a folder");
    let mut command = world.command(&["undo", "--session", "aaaa"]);
    command.current_dir(world.home.project().join("other"));
    let text = finish(command).err();
    assert!(text.contains("session `aaaaaaaa` belongs to another project"), "{text}");
    assert_eq!(world.read("one"), "made");
}
