use super::*;

fn load(name: &str, text: &str) -> Result<Plan, String> {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("task.md"), "from a file").expect("a file");
    let file = directory.path().join(name);
    std::fs::write(&file, text).expect("a plan");
    Plan::load(&file).map_err(|error| error.to_string())
}

#[test]
fn defaults_and_matrix_expand_to_tasks() {
    let plan = load(
        "plan.toml",
        r#"
        [defaults]
        timeout = "10m"
        check = ["cargo test"]
        [matrix]
        model = ["a/b", "c"]
        language = ["de", "fr"]
        [[tasks]]
        id = "t-{model}-{language}"
        prompt = "Translate to {language}"
        [[tasks]]
        id = "u"
        prompt_file = "task.md"
        timeout = 5
        "#,
    )
    .expect("a plan");
    let ids: Vec<&str> = plan.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(
        ids,
        ["t-a-b-de", "t-c-de", "t-a-b-fr", "t-c-fr", "u-de-a-b", "u-de-c", "u-fr-a-b", "u-fr-c"]
    );
    let first = &plan.tasks[0];
    assert_eq!(first.prompt, "Translate to de");
    assert_eq!(first.model.as_deref(), Some("a/b"));
    assert_eq!(first.timeout, Some(Duration::from_secs(600)));
    assert_eq!(first.check, ["cargo test"]);
    assert_eq!(first.labels.get("language").map(String::as_str), Some("de"));
    assert_eq!(plan.tasks[4].prompt, "from a file");
    assert_eq!(plan.tasks[4].timeout, Some(Duration::from_secs(5)));
    let hashes: BTreeSet<String> = plan.tasks.iter().map(PlannedTask::input_hash).collect();
    assert_eq!(hashes.len(), 8);
    assert_eq!(first.question_hash(), plan.tasks[1].question_hash());
    assert_ne!(first.question_hash(), plan.tasks[2].question_hash());
}

#[test]
fn each_json_line_is_a_task() {
    let plan = load(
        "plan.jsonl",
        "{\"defaults\": {\"model\": \"m\"}}\n\n{\"id\": \"a\", \"prompt\": \"x\"}\n\
         {\"id\": \"b\", \"prompt\": \"y\", \"repo\": \"https://example.com/r.git\"}\n",
    )
    .expect("a plan");
    assert_eq!(plan.tasks.len(), 2);
    assert_eq!(plan.tasks[1].model.as_deref(), Some("m"));
    assert_eq!(plan.tasks[1].repository, Repository::Url("https://example.com/r.git".to_owned()));
}

#[test]
fn invalid_plan_error_names_position_and_reason() {
    for (name, text, expected) in [
        ("p.jsonl", "{\"id\": \"a\"}\n", "task `a`: `prompt` or `prompt_file` is missing"),
        ("p.jsonl", "{\"prompt\": \"a\"}\n", "task `number 1`: `id` is missing"),
        ("p.jsonl", "\n{\"id\": \"a\", \"promt\": \"x\"}\n", "line 2: unknown field `promt`"),
        ("p.jsonl", "{\"id\": \"../a\", \"prompt\": \"x\"}\n", "an id must consist of at most"),
        (
            "p.jsonl",
            "{\"id\":\"a\",\"prompt\":\"x\"}\n{\"id\":\"A\",\"prompt\":\"x\"}",
            "two tasks",
        ),
        ("p.jsonl", "{\"id\":\"a\",\"prompt\":\"x\",\"timeout\":\"soon\"}", "expected a duration"),
        ("p.jsonl", "{\"id\":\"a\",\"prompt\":\"x\",\"max_cost\":0}", "greater than zero"),
        ("p.jsonl", "{\"id\":\"a\",\"prompt_file\":\"no.md\"}", "no.md"),
        ("p.jsonl", "", "no tasks"),
        ("p.toml", "[[tasks]]\nid = 1\n", "line 2"),
        ("p.toml", "[matrix]\nx = 1\n[[tasks]]\nid = \"a\"\nprompt = \"x\"", "matrix `x`"),
    ] {
        let error = load(name, text).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn clone_addresses_differ_from_paths() {
    for url in ["https://x/y", "git@host:a/b.git", "file:///a"] {
        assert!(is_url(url), "{url}");
    }
    for path in [".", "../a", "/a/b", "a:b", "./x@y:z"] {
        assert!(!is_url(path), "{path}");
    }
}

#[test]
fn byte_order_mark_is_ignored_and_nul_is_rejected() {
    let task = |more: &str| format!("\u{feff}{{\"id\": \"a\", \"prompt\": \"p\"{more}}}\n");
    assert_eq!(load("plan.jsonl", &task("")).expect("a plan").tasks.len(), 1);
    let error = load("plan.jsonl", &task(", \"setup\": [\"a\\u0000b\"]")).expect_err("refused");
    assert!(error.contains("NUL"), "{error}");
}

#[test]
fn directory_without_plan_files_is_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let error = Plan::load(directory.path()).expect_err("not a plan").to_string();
    assert!(error.contains("a directory without files `*.jsonl`"), "{error}");
}
