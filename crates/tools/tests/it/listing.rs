use parallax_protocol::tool::ToolErrorKind as Kind;
use serde_json::json;

use crate::test_project::TestProject;

#[test]
fn listing_shows_directories_first_and_omits_protected_files() {
    let project = TestProject::new();
    project.write_file("b.txt", "12345");
    project.write_file("A.txt", "");
    project.write_file("zoo/x", "");
    project.write_file("a.log", "");
    project.write_file("skip.tmp", "");
    project.write_file(".env", "");
    project.write_file("node_modules/x", "");
    project.write_file(".git/HEAD", "");
    project.write_file(".gitignore", "*.log\n");
    let text = project.output("list_directory", json!({"dir_path": ".", "ignore": ["*.tmp"]}));
    assert_eq!(
        text,
        format!(
            "Directory listing for {}:\n[DIR] node_modules\n[DIR] zoo\n.gitignore (6 bytes)\nA.txt (0 bytes)\nb.txt (5 bytes)\n\n(2 ignored)",
            project.path("").display().to_string().trim_end_matches('/')
        )
    );
    let all = json!({"dir_path": ".", "file_filtering_options": {"respect_git_ignore": false}});
    assert!(project.output("list_directory", all).contains("a.log (0 bytes)"));
    let modules = project.output("list_directory", json!({"dir_path": "node_modules"}));
    assert!(modules.ends_with("\nx (0 bytes)"), "{modules}");
}

#[test]
fn listed_name_with_control_characters_can_be_read() {
    let project = TestProject::new();
    project.write_file("esc\u{1b}[31m.txt", "content");
    let text = project.output("list_directory", json!({"dir_path": "."}));
    assert!(text.ends_with("\nesc\\u{1b}[31m.txt (7 bytes)"), "{text}");
    let read = project.output("read_file", json!({"file_path": "esc\\u{1b}[31m.txt"}));
    assert_eq!(read, "content");
}

#[test]
fn directory_of_inaccessible_entries_does_not_look_empty() {
    let project = TestProject::new();
    project.write_file("keys/.env", "");
    project.write_file("keys/.git/HEAD", "");
    let text = project.output("list_directory", json!({"dir_path": "keys"}));
    assert!(text.ends_with("keys:\n\n(2 not accessible to tools)"), "{text}");
}

#[test]
fn listing_a_non_directory_fails() {
    let project = TestProject::new();
    project.write_file("file", "");
    std::fs::create_dir(project.path("empty")).expect("a folder");
    let fails = |path: &str| project.failure("list_directory", json!({"dir_path": path}));
    assert_eq!(fails("file").0, Kind::PathIsNotADirectory);
    assert_eq!(fails("missing").0, Kind::LsExecutionError);
    assert_eq!(fails("..").0, Kind::PathNotInWorkspace);
    assert!(project.output("list_directory", json!({"dir_path": "empty"})).ends_with("is empty."));
}
