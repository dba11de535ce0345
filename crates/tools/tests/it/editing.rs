use parallax_protocol::tool::{Display, Preview, ToolErrorKind as Kind};
use serde_json::json;

use crate::test_project::{TestProject, edit};

fn edited(before: &[u8], old: &str, new: &str) -> Vec<u8> {
    let project = TestProject::new();
    project.write_file("a.txt", before);
    let outcome = project.replace("a.txt", old, new);
    assert_eq!(outcome.error, None);
    project.bytes("a.txt")
}

#[test]
fn bytes_outside_the_edit_are_kept() {
    assert_eq!(edited(b"a\r\nb\r\nc\r\n", "b\nc", "B\nx\nC"), b"a\r\nB\r\nx\r\nC\r\n");
    assert_eq!(edited(b"a\r\nb\nc\r\nd\n", "b", "B\nx"), b"a\r\nB\nx\nc\r\nd\n");
    assert_eq!(edited(b"\xef\xbb\xbfa\nb\n", "a", "x"), b"\xef\xbb\xbfx\nb\n");
    assert_eq!(
        edited(b"\xff\xfea\0\r\0\n\0b\0", "a\nb", "a\nc\u{e9}"),
        b"\xff\xfea\0\r\0\n\0c\0\xe9\0"
    );
    let latin = b"Gr\xf6\xdfe f\xfcr B\xe4ren\nzwei\n";
    assert_eq!(edited(latin, "zwei", "dr\u{fc}ben"), b"Gr\xf6\xdfe f\xfcr B\xe4ren\ndr\xfcben\n");
    // Invalid bytes in UTF-8 are preserved.
    assert_eq!(edited("é\u{e9}ü \n".as_bytes(), "ü", "u"), "é\u{e9}u \n".as_bytes());
    let mut damaged = "größer über\n".as_bytes().to_vec();
    damaged.extend(b"\xff\nend\n");
    let mut expected = "größer über\n".as_bytes().to_vec();
    expected.extend(b"\xff\nEND\n");
    assert_eq!(edited(&damaged, "end", "END"), expected);
    // The final line ending can be added and removed.
    assert_eq!(edited(b"a\nb", "b", "b\n"), b"a\nb\n");
    assert_eq!(edited(b"a\nb\n", "b\n", "b"), b"a\nb");
    assert_eq!(edited(b"p $1\n", "$1", "$& $$"), b"p $& $$\n");
}

#[test]
fn character_missing_in_the_encoding_is_rejected() {
    let project = TestProject::new();
    let latin = b"Gr\xf6\xdfe f\xfcr B\xe4ren\nzwei\n";
    project.write_file("a.txt", latin);
    let (kind, message) = project.replace_fails("a.txt", "zwei", "二");
    assert_eq!(kind, Kind::FileWriteFailure);
    assert!(message.contains("windows-1252") && message.contains("U+4E8C"), "{message}");
    assert_eq!(project.bytes("a.txt"), latin);
}

#[test]
fn result_names_the_file_the_count_and_the_code() {
    let project = TestProject::new();
    let lines: String = (1..=30).map(|n| format!("line {n}\n")).collect();
    project.write_file("a.txt", &lines);
    let call = project.prepare("replace", edit("a.txt", "line 15", "changed")).expect("a call");
    assert_eq!(call.effects().writes, [project.path("a.txt")]);
    let Some(Preview::Diff(diff)) = call.preview() else { panic!("a diff") };
    assert_eq!((diff.lines_added, diff.lines_removed, diff.is_new_file), (1, 1, false));
    let outcome = crate::test_project::run(call);
    let path = project.path("a.txt");
    assert!(
        outcome.for_model.output.starts_with(&format!(
            "Successfully modified file: {} (1 replacements).",
            path.display()
        ))
    );
    assert!(outcome.for_model.output.ends_with(
        "Here is the updated code:\nline 10\nline 11\nline 12\nline 13\nline 14\nchanged\nline 16\nline 17\nline 18\nline 19\nline 20"
    ));
    assert!(matches!(outcome.for_user, Some(Display::Diff(_))));
    let all = json!({"file_path": "a.txt", "instruction": "", "old_string": "line 2", "new_string": "row 2", "allow_multiple": true});
    assert!(project.output("replace", all).contains("(11 replacements)"));
    let old_name = json!({"file_path": "a.txt", "old_string": "row", "new_string": "col", "expected_replacements": 11});
    assert!(project.output("replace", old_name).contains("(11 replacements)"));
}

#[test]
fn edit_failures_suggest_the_correction() {
    let project = TestProject::new();
    project.write_file("a.txt", "fn one() {\n    first();\n}\n\nfn two() {\n    first();\n}\n");
    let (kind, message) = project.replace_fails("a.txt", "first();", "x");
    assert_eq!(kind, Kind::EditExpectedOccurrenceMismatch);
    assert!(message.contains("found 2, at line(s) 2, 6") && message.contains("allow_multiple"));
    let (kind, message) = project.replace_fails("a.txt", "fn two() {\n    second(1, 2);\n}", "x");
    assert_eq!(kind, Kind::EditNoOccurrenceFound);
    assert!(
        message.contains("Nearest: lines 5-7") && message.contains("+    first();"),
        "{message}"
    );
    assert_eq!(project.replace_fails("a.txt", "first", "first").0, Kind::EditNoChange);
    assert_eq!(project.replace_fails("a.txt", "", "x").0, Kind::AttemptToCreateExistingFile);
    assert_eq!(project.replace_fails("b.txt", "x", "y").0, Kind::FileNotFound);
    assert_eq!(project.replace_fails(".", "x", "y").0, Kind::TargetIsDirectory);
    let (kind, message) = project.replace_fails("a.txt", "fn one", "// rest of code ...");
    assert_eq!(kind, Kind::InvalidToolParams);
    assert!(message.contains("placeholder"), "{message}");
}

#[test]
fn tolerant_match_is_reported_and_other_differences_are_rejected() {
    let project = TestProject::new();
    project
        .write_file("a.txt", "class A {\n    one() {\n        go();\n    }\n\n    two() {}\n}\n");
    let outcome = project.replace("a.txt", "one() {\n    go();\n}\n", "one() {\n    stay();\n}\n");
    assert!(
        outcome.for_model.output.contains("differs from the file in whitespace"),
        "{outcome:?}"
    );
    assert!(outcome.for_model.output.contains("at line(s) 2-4"));
    assert_eq!(
        project.bytes("a.txt"),
        b"class A {\n    one() {\n        stay();\n    }\n\n    two() {}\n}\n"
    );
    let text = "host: app15\nretries: 5\nmode: slow\n";
    project.write_file("b.txt", text);
    let (kind, message) = project.replace_fails(
        "b.txt",
        "host: app14\nretries: 3\nmode: slow",
        "host: app14\nretries: 3\nmode: fast",
    );
    assert_eq!(kind, Kind::EditNoOccurrenceFound, "{message}");
    assert!(
        message.contains("Nearest: lines 1-3") && message.contains("+host: app15"),
        "{message}"
    );
    assert_eq!(project.bytes("b.txt"), text.as_bytes());
}

#[test]
fn files_are_created_and_paths_guessed() {
    let project = TestProject::new();
    let outcome = project.replace("new/a.txt", "", "text\n");
    assert!(outcome.for_model.output.starts_with("Created new file: "));
    assert_eq!(project.bytes("new/a.txt"), b"text\n");
    project.write_file("deep/er/only.rs", "x");
    assert_eq!(project.replace("er/only.rs", "x", "y").error, None);
    assert_eq!(project.bytes("deep/er/only.rs"), b"y");
    project.write_file("other/only.rs", "x");
    assert!(project.replace_fails("only.rs", "x", "y").1.contains("ambiguous"));
}

#[test]
fn written_files_keep_their_encoding_and_line_endings() {
    let project = TestProject::new();
    let write = |name: &str, content: &str| {
        project.call("write_file", json!({"file_path": name, "content": content}))
    };
    let outcome = write("new/a.txt", "one\ntwo\n");
    assert!(outcome.for_model.output.starts_with("Successfully created"));
    assert!(outcome.for_model.output.ends_with("Here is the updated code:\none\ntwo\n"));
    project.write_file("crlf", "\u{feff}one\r\ntwo\r\n");
    let outcome = write("crlf", "one\n2\n");
    assert!(outcome.for_model.output.contains("had not been read"), "{outcome:?}");
    assert_eq!(project.bytes("crlf"), "\u{feff}one\r\n2\r\n".as_bytes());
    project.write_file("mixed", "a\r\nb\nc\r\n");
    write("mixed", "a\nb\nC\n");
    assert_eq!(project.bytes("mixed"), b"a\r\nb\nC\r\n");
    std::fs::create_dir(project.path("folder")).expect("a folder");
    let fails = |name: &str, content: &str| {
        project.failure("write_file", json!({"file_path": name, "content": content})).0
    };
    assert_eq!(fails("folder", "x"), Kind::TargetIsDirectory);
    assert_eq!(fails("a", "x\n// rest of code ...\n"), Kind::InvalidToolParams);
    assert_eq!(fails(".git/config", "x"), Kind::PathNotInWorkspace);
    assert_eq!(
        project.failure("write_file", json!({"file_path": "a"})).1,
        "params must have required property 'content'"
    );
}

#[test]
fn too_many_occurrences_are_rejected_not_partially_replaced() {
    let project = TestProject::new();
    project.write_file("a.txt", "\n".repeat(100_001));
    let all = json!({"file_path": "a.txt", "instruction": "", "old_string": "\n", "new_string": "x", "allow_multiple": true});
    let (kind, message) = project.failure("replace", all);
    assert_eq!(kind, Kind::EditExpectedOccurrenceMismatch);
    assert!(message.contains("more than 100000 times"), "{message}");
    assert_eq!(project.bytes("a.txt").len(), 100_001);
}
