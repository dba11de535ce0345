use parallax_protocol::tool::ToolErrorKind as Kind;
use parallax_tools::write_file::UnseenOverwrite;
use serde_json::json;

use crate::test_project::{TestProject, edit, run};

#[test]
fn file_changed_since_it_was_read_is_not_written() {
    let project = TestProject::new();
    project.write_file("a.txt", "one\ntwo\n");
    project.output("read_file", json!({"file_path": "a.txt"}));
    project.write_file("a.txt", "one\nTWO\n");
    let (kind, message) =
        project.failure("write_file", json!({"file_path": "a.txt", "content": "x"}));
    assert_eq!(kind, Kind::FileChangedOnDisk);
    assert!(message.contains("-two") && message.contains("+TWO"), "{message}");
    // The whole change was shown, so the model has seen it.
    assert_eq!(project.replace("a.txt", "TWO", "2").error, None);
    // The model's own writes count as seen.
    assert_eq!(project.replace("a.txt", "2", "3").error, None);
    project.write_file("a.txt", (0..500).map(|n| format!("{n}\n")).collect::<String>());
    for _ in 0..2 {
        let (kind, message) =
            project.failure("write_file", json!({"file_path": "a.txt", "content": "x"}));
        assert_eq!(kind, Kind::FileChangedOnDisk);
        assert!(message.contains("Read it again"), "{message}");
    }
}

#[test]
fn exact_unique_edit_is_applied_when_other_lines_changed() {
    let project = TestProject::new();
    project.write_file("a.txt", "one\ntwo\nthree\n");
    project.output("read_file", json!({"file_path": "a.txt"}));
    project.write_file("a.txt", "ONE\ntwo\nthree\n");
    let outcome = project.replace("a.txt", "two", "2");
    assert_eq!(outcome.error, None);
    assert_eq!(project.bytes("a.txt"), b"ONE\n2\nthree\n");
    let output = outcome.for_model.output;
    assert!(output.contains("also changed") && output.contains("-one\n+ONE"), "{output}");

    // The text to replace has changed or is no longer unique.
    for changed in ["ONE\n3\nthree\n", "ONE\n2\n2\n", "ONE\n2 \nthree\n"] {
        project.write_file("a.txt", "ONE\n2\nthree\n");
        project.output("read_file", json!({"file_path": "a.txt"}));
        project.write_file("a.txt", changed);
        let (kind, message) = project.replace_fails("a.txt", "2\n", "x");
        assert_eq!(kind, Kind::FileChangedOnDisk);
        let is_ambiguous = changed.matches("2\n").count() > 1;
        assert_eq!(message.contains("found 2"), is_ambiguous, "{message}");
        assert_eq!(project.bytes("a.txt"), changed.as_bytes());
    }

    // A change that is too large to be shown does not count as seen.
    project.write_file("a.txt", (0..500).map(|n| format!("{n}\n")).collect::<String>());
    let output = project.replace("a.txt", "499\n", "end\n").for_model.output;
    assert!(output.contains("read it again before you rely"), "{output}");
    let (kind, _) = project.failure("write_file", json!({"file_path": "a.txt", "content": "x"}));
    assert_eq!(kind, Kind::FileChangedOnDisk);
}

#[test]
fn previewed_change_is_applied_exactly_or_not_at_all() {
    let project = TestProject::new();
    project.write_file("a.txt", "one\n");
    let call = project.prepare("replace", edit("a.txt", "one", "two")).expect("a call");
    project.write_file("a.txt", "one, by someone else\n");
    assert_eq!(run(call).error.map(|error| error.kind), Some(Kind::FileChangedOnDisk));
    assert_eq!(project.bytes("a.txt"), b"one, by someone else\n");
    let call =
        project.prepare("write_file", json!({"file_path": "b", "content": "x"})).expect("a call");
    project.write_file("b", "appeared");
    assert_eq!(run(call).error.map(|error| error.kind), Some(Kind::FileChangedOnDisk));
    assert_eq!(project.bytes("b"), b"appeared");
}

#[test]
fn overwriting_an_unread_file_can_be_forbidden() {
    let mut project = TestProject::new();
    project.unseen = UnseenOverwrite::Block;
    project.write_file("a.txt", "precious");
    let args = json!({"file_path": "a.txt", "content": "x"});
    assert!(project.failure("write_file", args.clone()).1.contains("not read in this session"));
    project.output("read_file", json!({"file_path": "a.txt"}));
    project.output("write_file", args);
    assert_eq!(project.bytes("a.txt"), b"x");
}
