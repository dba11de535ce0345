//! Reviews of changes, with real git.

use serde_json::{Value, json};

use crate::support::{World, finish};
use crate::worktrees::{git, repository};

fn finding(file: &str, severity: &str) -> Value {
    json!({"file": file, "line": 1, "severity": severity, "category": "bug",
        "title": "Wrong number", "explanation": "It says two.", "suggestion": ""})
}

/// Creates a repository with a change, and a model that returns these findings.
fn changed(findings: &[Value]) -> World {
    let answer = json!({"findings": findings}).to_string();
    let world = repository(&json!([{"text": answer, "repeat": 0}]));
    world.home.write("a.txt", "two\n").expect("a file");
    world
}

#[test]
fn findings_are_printed_and_can_fail_the_run() {
    let world = changed(&[finding("elsewhere.txt", "critical"), finding("a.txt", "medium")]);
    let output = world.run(&["review", "--fail-on", "high"]);
    let line = "its file is not among the changes: critical elsewhere.txt:1 Wrong number";
    assert!(output.code() == 1 && output.err().contains(line), "{}", output.err());
    let output = world.run_ok(&["review"]);
    let out = output.stdout();
    assert!(out.starts_with("medium a.txt:1 Wrong number (bug)\n  It says two.\n"), "{out}");
    assert!(out.contains("    -one\n    +two\n") && out.ends_with("Findings: 1 medium\n"), "{out}");
    assert!(output.err().contains("unchanged files were omitted: 1"), "{}", output.err());
    let output = world.run(&["review", "--fail-on", "medium", "--json"]);
    assert_eq!(output.code(), 1, "{}", output.err());
    assert_eq!(
        serde_json::from_str::<Value>(&output.stdout()).expect("JSON"),
        json!([finding("a.txt", "medium")])
    );
    let output = world.run_ok(&["review", "--format", "sarif"]);
    let sarif: Value = serde_json::from_str(&output.stdout()).expect("JSON");
    assert_eq!(
        (&sarif["version"], &sarif["runs"][0]["results"][0]["level"]),
        (&json!("2.1.0"), &json!("warning"))
    );
    assert_eq!(git(&world, &["status", "--porcelain"]), "M a.txt");
}

#[test]
fn finding_is_kept_if_its_path_is_spelled_differently() {
    for prefix in ["./", "b/", "/"] {
        let world = changed(&[]);
        let path = match prefix {
            "/" => world.home.project().canonicalize().expect("a path").join("a.txt"),
            prefix => format!("{prefix}a.txt").into(),
        };
        let answer = json!({"findings": [finding(&path.display().to_string(), "critical")]});
        let script = json!([{"text": answer.to_string(), "repeat": 0}]).to_string();
        let world = World::in_home(world.home, &script);
        let output = world.run(&["review", "--fail-on", "high"]);
        assert_eq!(output.code(), 1, "{path:?}: {}", output.err());
        assert!(output.stdout().starts_with("critical a.txt:1 "), "{path:?}: {}", output.stdout());
    }
}

#[test]
fn model_gets_the_diff_and_only_tools_that_read() {
    let world = changed(&[]);
    // The user's rules do not give the review a shell.
    let settings = r#"{"tools": {"allowed": ["run_shell_command", "write_file"]}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    assert_eq!(world.run_ok(&["review"]).stdout(), "No findings\n");
    let request = &world.server.requests()[0];
    let body: Value = serde_json::from_slice(&request.body).expect("JSON");
    let text = body["contents"].to_string();
    assert!(text.contains("-one") && text.contains("+two"), "{text}");
    let tools = body["tools"].to_string();
    assert!(tools.contains("read_file"), "{tools}");
    for name in ["run_shell_command", "write_file", "replace", "web_fetch", "save_memory"] {
        assert!(!tools.contains(&format!("\"{name}\"")), "{name}: {tools}");
    }
}

#[test]
fn review_scope_is_the_index_a_branch_or_a_patch() {
    let world = changed(&[finding("a.txt", "low")]);
    // Nothing is staged, so there is no request.
    assert_eq!(world.run_ok(&["review", "--staged"]).stdout(), "No findings\n");
    assert!(world.server.requests().is_empty());
    let patch = git(&world, &["diff"]);
    world.home.write("p.patch", &format!("{patch}\n")).expect("a patch");
    git(&world, &["commit", "-qam", "second"]);
    assert_eq!(world.run_ok(&["review"]).stdout(), "No findings\n");
    for scope in [["--base", "HEAD~1"], ["--pr", "p.patch"]] {
        let output = world.run_ok(&[&["review"], scope.as_slice()].concat());
        assert!(output.stdout().ends_with("Findings: 1 low\n"), "{scope:?}: {}", output.stdout());
    }
    let output = world.run(&["review", "--base", "nothing"]);
    assert!(output.code() == 42 && output.err().contains("--base nothing"), "{}", output.err());
    let output = finish(world.command(&["review", "--pr", "a.txt"]));
    assert!(output.code() == 42 && output.err().contains("unified diff"), "{}", output.err());
}

#[cfg(target_os = "linux")]
#[test]
fn review_in_a_subdirectory_runs_no_program_of_the_repository() {
    let world = changed(&[]);
    let mark = world.home.project().join("RAN");
    let filter = format!("touch {}; cat", mark.display());
    world.home.write("src/b.txt", "b\n").expect("a file");
    world.home.write(".gitattributes", "*.txt filter=x\n").expect("a file");
    git(&world, &["add", "src/b.txt"]);
    git(&world, &["config", "filter.x.clean", &filter]);
    world.home.write("src/b.txt", "c\n").expect("a file");
    let _ = std::fs::remove_file(&mark);
    for arguments in [&["review"][..], &["review", "--base", "HEAD"]] {
        let mut command = world.command(arguments);
        let output = command.current_dir(world.home.project().join("src")).output().expect("run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(!mark.exists(), "{arguments:?}");
    }
}

#[test]
fn repository_without_a_commit_is_reviewed() {
    let answer = json!({"findings": [finding("a.txt", "low")]}).to_string();
    let world = World::new(&json!([{"text": answer, "repeat": 0}]).to_string());
    git(&world, &["init", "-q"]);
    world.home.write("a.txt", "one\n").expect("a file");
    git(&world, &["add", "a.txt"]);
    for arguments in [&["review", "--staged"][..], &["review"]] {
        let out = world.run_ok(arguments).stdout();
        assert!(out.contains("low a.txt:1") && out.contains("+one"), "{out}");
    }
}

#[test]
fn failed_review_prints_nothing_in_place_of_sarif() {
    let world = changed(&[]);
    let output = world.run(&["review", "--base", "nothing", "--format", "sarif"]);
    assert_eq!((output.code(), output.stdout().as_str()), (42, ""), "{}", output.err());
    assert!(output.err().contains("not a commit"), "{}", output.err());
}
