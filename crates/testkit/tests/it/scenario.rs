use std::path::Path;
use std::time::Duration;

use testkit::measure::run;
use testkit::scenario::{self, Program};
use testkit::{API_KEY, TestHome};

/// A program that sends a request over its own TCP connection (bash only) and prints the response.
const PROGRAM: &str = r#"#!/bin/bash
[ "$1" = hang ] && { sleep 100 & sleep 100; }
body='{"contents":[{"role":"user","parts":[{"text":"'$(cat)' '$1'"}]}]}'
address=${GOOGLE_GEMINI_BASE_URL#http://}
exec 3<>/dev/tcp/${address%:*}/${address#*:}
printf 'POST /v1beta/models/m:generateContent HTTP/1.1\r\nconnection: close\r\nx-goog-api-key: %s\r\ncontent-length: %s\r\n\r\n%s' "$GEMINI_API_KEY" ${#body} "$body" >&3
tail -n 1 <&3 | grep -o '"text":"[^"]*"'
echo "$PWD took 12 ms, version 1.2.3" >&2
echo new > made.txt
exit 3
"#;

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
    std::fs::write(path, text).expect("write");
}

#[test]
fn scenario_reports_every_difference() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("tempdir");
    let binary = folder.path().join("program");
    write(&binary, PROGRAM);
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).expect("mode");
    let program = Program { path: binary, version: "1.2.3".into() };
    let one = folder.path().join("all/one");
    write(&one.join("scenario.json"), r#"{"args":["[PROJECT]"],"stdin":"hi","exit":3}"#);
    write(&one.join("script.json"), r#"[{"method":"generateContent","text":"in [PROJECT]"}]"#);
    write(&one.join("input/a.txt"), "a");
    write(&one.join("expected/stdout"), "\"text\":\"in [PROJECT]\"\n");
    write(&one.join("expected/stderr"), "[PROJECT] took [DURATION], version [VERSION]\n");
    write(&one.join("expected/files/made.txt"), "new\n");
    write(
        &one.join("expected/requests.json"),
        "[\n  {\n    \"path\": \"/v1beta/models/m:generateContent\",\n    \"contents\": [\n      {\n        \"role\": \"user\",\n        \"parts\": [\n          {\n            \"text\": \"hi [PROJECT]\"\n          }\n        ]\n      }\n    ]\n  }\n]\n",
    );
    let all = folder.path().join("all");
    assert_eq!(scenario::run_all(&program, &all), Ok(1));
    write(&one.join("expected/files/made.txt"), "old\n");
    write(&one.join("expected/stderr"), "other\n");
    write(&one.join("scenario.json"), r#"{"args":["x"],"stdin":"hi","absent":["made.txt"]}"#);
    let problems = scenario::run_all(&program, &all).expect_err("differences");
    for what in ["exit 3, not 0", "- other", "- old", "+ new", "`made.txt` is there", "hi x"] {
        assert!(problems.contains(what), "{what}: {problems}");
    }
    write(&one.join("scenario.json"), r#"{"args":["hang"],"limit_ms":200,"exit":3}"#);
    let problems = scenario::run_all(&program, &all).expect_err("time");
    assert!(problems.contains("not done in 200 ms") && problems.contains("not used"), "{problems}");
}

#[test]
fn scenario_child_has_a_clean_environment_and_is_measured() {
    let home = TestHome::with_files(&[("src/a.txt", "hello")]).expect("home");
    let mut command = home.command(Path::new("/bin/sh"), "http://x");
    let work = "cat src/a.txt; env | sort; i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
    command.args(["-c", work]);
    let output = run(command, None, Duration::from_secs(20)).expect("run");
    assert_eq!((output.code(), output.timed_out), (0, false));
    let out = output.stdout();
    assert!(out.starts_with("hello") && out.contains(API_KEY) && !out.contains("CARGO"), "{out}");
    assert!(output.cpu > Duration::ZERO && output.cpu <= output.elapsed * 4, "{output:?}");
    assert!(output.peak_rss > 100_000 && output.peak_tree_rss > 100_000, "{output:?}");
}
