//! Maintaining extensions: `sync`, `doctor`, and `test`.

use serde_json::{Value, json};

use crate::extensions::{copy, extensions, published};
use crate::support::World;

fn run_successfully(world: &World, words: &[&str]) -> String {
    let output = extensions(world, words, "");
    assert_eq!(output.code(), 0, "{words:?}: {}", output.err());
    output.stdout()
}

fn write(world: &World, path: &str, text: &str) {
    let path = world.home.project().join(path);
    std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
    std::fs::write(path, text).expect("written");
}

#[test]
fn lock_file_installs_exactly_the_same_set() {
    let world = World::new("[]");
    let project = world.home.project();
    copy(&published("dusk"), &project.join("dusk"));
    write(&world, "other/gemini-extension.json", r#"{"name": "other", "version": "1.0.0"}"#);
    run_successfully(&world, &["install", "dusk", "--yes"]);
    let lock = world.home.parallax().join("extensions.lock.json");
    let kept = project.join("set.json");
    std::fs::copy(&lock, &kept).expect("kept");
    run_successfully(&world, &["uninstall", "dusk"]);
    run_successfully(&world, &["install", "other", "--yes"]);
    // Without consent, the command fails.
    let refused = extensions(&world, &["sync", "set.json"], "");
    assert_eq!(refused.code(), 1, "{}", refused.err());
    let output = run_successfully(&world, &["sync", "set.json", "--yes"]);
    assert!(output.contains("\"dusk\": installed at the locked version"), "{output}");
    assert!(output.contains("\"other\" is not in the lock file"), "{output}");
    assert!(
        run_successfully(&world, &["sync", "set.json", "--prune"])
            .contains("already at the locked version")
    );
    let list: Value =
        serde_json::from_str(&run_successfully(&world, &["list", "-o", "json"])).unwrap();
    let names: Vec<&str> =
        list.as_array().unwrap().iter().flat_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["dusk"]);
    // The source has changed.
    run_successfully(&world, &["uninstall", "dusk"]);
    write(&world, "dusk/commands/more.toml", "prompt = 'x'");
    let other = extensions(&world, &["sync", "set.json", "--yes"], "");
    assert_eq!(other.code(), 54, "{}", other.err());
    assert!(other.err().contains("its files changed"), "{}", other.err());
}

#[test]
fn extension_failures_have_exit_codes_and_values_come_from_a_file() {
    let world = World::new("[]");
    let manifest = json!({"name": "e", "version": "1.0.0", "settings": [
        {"name": "Host", "description": "", "envVar": "HOST"},
        {"name": "Key", "description": "", "envVar": "KEY", "sensitive": true}
    ]});
    write(&world, "e/gemini-extension.json", &manifest.to_string());
    write(&world, "values.env", "HOST=\"h example\"\n");
    let output = extensions(&world, &["install", "e", "--yes", "--settings", "values.env"], "");
    assert_eq!(output.code(), 0, "{}", output.err());
    assert!(output.stdout().contains("\"Key\" has no value"), "{}", output.stdout());
    write(&world, "values.json", r#"{"KEY": "secret", "OTHER": "x"}"#);
    run_successfully(&world, &["config", "e", "--settings", "values.json"]);
    let list: Value =
        serde_json::from_str(&run_successfully(&world, &["list", "-o", "json"])).unwrap();
    let values = &list[0]["resolvedSettings"];
    assert_eq!((&values[0]["value"], &values[1]["value"]), (&json!("h example"), &json!("***")));

    let allow = "[[rule]]\ntoolName = \"glob\"\ndecision = \"allow\"\npriority = 5\n";
    write(&world, "bad/gemini-extension.json", r#"{"name": "bad", "version": "1"}"#);
    write(&world, "bad/policies/p.toml", allow);
    for (words, code, reason) in [
        (vec!["install", "nothing-there"], 1, "Install source not found"),
        (vec!["install", "e", "--yes"], 1, "already installed"),
        (vec!["install", "bad", "--yes"], 54, "extension rules cannot allow tool calls"),
        (vec!["install", "file:///nothing/there.git", "--yes"], 75, "the fetch of"),
        (vec!["install", "e", "--yes", "--settings", "none.json"], 52, "none.json"),
    ] {
        let output = extensions(&world, &words, "");
        assert_eq!(output.code(), code, "{words:?}: {}", output.err());
        assert!(output.err().contains(reason), "{words:?}: {}", output.err());
        assert!(!output.err().contains("is ignored"), "{}", output.err());
    }
}

#[test]
fn extensions_doctor_reports_problems() {
    let world = World::new("[]");
    assert!(run_successfully(&world, &["doctor"]).contains("no problems found"));
    let manifest = json!({"name": "sick", "version": "1.0.0",
        "mcpServers": {"gone": {"command": "no-such-program-here"}},
        "settings": [{"name": "Key", "envVar": "KEY"}]});
    write(&world, "sick/gemini-extension.json", &manifest.to_string());
    write(&world, "sick/commands/fix.toml", "prompt = 'x'");
    write(&world, "sick/commands/help.toml", "prompt = 'x'");
    write(&world, "sick/skills/s/SKILL.md", "no settings");
    let hook = r#"{"hooks": {"BeforeTool": [{"hooks": [{"type": "command",
        "command": "sh ${extensionPath}/gone.sh"}]}]}}"#;
    write(&world, "sick/hooks/hooks.json", hook);
    world.home.write_home(".parallax/commands/fix.toml", "prompt = 'mine'").unwrap();
    run_successfully(&world, &["link", "sick", "--yes"]);
    // A rule added later is found, because the directory is linked.
    let allow = "[[rule]]\ntoolName = \"glob\"\ndecision = \"allow\"\npriority = 5\n";
    write(&world, "sick/policies/p.toml", allow);
    let done = extensions(&world, &["doctor"], "");
    assert_eq!(done.code(), 1);
    let output = done.stdout();
    for part in [
        "sick: its MCP server `gone` does not work",
        "its setting \"Key\" has no value",
        "its command `/fix` is overridden by",
        "its command `/help` has the name of a built-in command",
        "invalid skill `skills/s/SKILL.md`",
        "runs `gone.sh`, which does not exist",
        "`policies/p.toml`: extension rules cannot allow",
    ] {
        assert!(output.contains(part), "{part}: {output}");
    }
    assert_eq!(extensions(&world, &["doctor", "healthy"], "").code(), 1);
}

#[test]
fn concurrent_updates_run_once() {
    let world = World::new("[]");
    let version = |number: &str| {
        let manifest = json!({"name": "e", "version": number}).to_string();
        write(&world, "e/gemini-extension.json", &manifest);
    };
    version("1.0.0");
    run_successfully(&world, &["install", "e", "--yes"]);
    version("2.0.0");
    let running: Vec<_> = (0..4)
        .map(|_| {
            let mut command = world.command(&["extensions", "update", "e", "--yes"]);
            command.stdout(std::process::Stdio::piped()).spawn().expect("started")
        })
        .collect();
    let said: Vec<String> = running
        .into_iter()
        .map(|run| {
            let output = run.wait_with_output().expect("ended");
            assert!(output.status.success(), "{output:?}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        })
        .collect();
    let updated = said.iter().filter(|said| said.contains("1.0.0 → 2.0.0")).count();
    assert_eq!(updated, 1, "{said:?}");
    // The previous version was not replaced.
    assert!(run_successfully(&world, &["rollback", "e"]).contains("1.0.0"));
    let kept = world.home.parallax().join("extensions/.previous/e");
    std::fs::remove_file(kept.join("gemini-extension.json")).expect("it was there");
    let done = extensions(&world, &["rollback", "e"], "");
    assert!(
        done.err().contains(&format!("`{}`: `gemini-extension.json` is missing", kept.display())),
        "{}",
        done.err()
    );
}

#[test]
fn extension_tests_run_with_recorded_responses() {
    let world = World::new("[]");
    assert_eq!(extensions(&world, &["new", "mine", "custom-commands"], "").code(), 0);
    let none = extensions(&world, &["test", "mine"], "");
    assert!(none.code() == 1 && none.err().contains("has no tests"), "{}", none.err());
    write(&world, "mine/commands/say.toml", "prompt = 'Say the word {{args}}'");
    let answer = |text: &str| {
        json!({"method": "generateContentStream", "when": {"promptContains": "the word teal"},
            "response": [{"candidates": [{"content": {"role": "model", "parts": [{"text": text}]},
                "finishReason": "STOP"}]}]})
        .to_string()
    };
    write(&world, "mine/tests/word.jsonl", &answer("It is \"teal\"."));
    let trial = json!({"prompt": "/say teal", "responses": "word.jsonl",
        "expect": ["It is \"teal\"."], "absent": ["crimson"]});
    write(&world, "mine/tests/word.json", &trial.to_string());
    let passed = extensions(&world, &["test", "mine"], "");
    assert_eq!(passed.code(), 0, "{}{}", passed.stdout(), passed.err());
    assert!(passed.stdout().contains("✓ word") && passed.stdout().contains("0 failed"));
    // An invalid test fails without affecting the others.
    write(&world, "mine/tests/broken.json", "{");
    let some = extensions(&world, &["test", "mine"], "");
    assert_eq!(some.code(), 1, "{}", some.err());
    for part in ["✗ broken", "invalid test", "✓ word", "2 test(s), 1 failed"] {
        assert!(some.stdout().contains(part), "{part}: {}", some.stdout());
    }
    // The user's home directory is unchanged.
    assert_eq!(run_successfully(&world, &["list"]), "No extensions installed.\n");
    write(&world, "mine/commands/say.toml", "prompt = 'Say something'");
    let failed = extensions(&world, &["test", "mine", "word"], "");
    assert_eq!(failed.code(), 1, "{}{}", failed.stdout(), failed.err());
    assert!(failed.stdout().contains("✗ word"), "{}", failed.stdout());
}
