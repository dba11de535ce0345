use parallax_protocol::tool::ToolErrorKind as Kind;
use serde_json::json;

use crate::file_place::Place;

#[test]
fn listing_shows_directories_first_and_omits_protected_files() {
    let place = Place::new();
    place.put("b.txt", "12345");
    place.put("A.txt", "");
    place.put("zoo/x", "");
    place.put("a.log", "");
    place.put("skip.tmp", "");
    place.put(".env", "");
    place.put("node_modules/x", "");
    place.put(".git/HEAD", "");
    place.put(".gitignore", "*.log\n");
    let text = place.output("list_directory", json!({"dir_path": ".", "ignore": ["*.tmp"]}));
    assert_eq!(
        text,
        format!(
            "Directory listing for {}:\n[DIR] zoo\n.gitignore (6 bytes)\nA.txt (0 bytes)\nb.txt (5 bytes)\n\n(2 ignored)",
            place.path("").display().to_string().trim_end_matches('/')
        )
    );
    let all = json!({"dir_path": ".", "file_filtering_options": {"respect_git_ignore": false}});
    assert!(place.output("list_directory", all).contains("a.log (0 bytes)"));
}

#[test]
fn listing_a_non_directory_fails() {
    let place = Place::new();
    place.put("file", "");
    std::fs::create_dir(place.path("empty")).expect("a folder");
    let fails = |path: &str| place.failure("list_directory", json!({"dir_path": path}));
    assert_eq!(fails("file").0, Kind::PathIsNotADirectory);
    assert_eq!(fails("missing").0, Kind::LsExecutionError);
    assert_eq!(fails("..").0, Kind::PathNotInWorkspace);
    assert!(place.output("list_directory", json!({"dir_path": "empty"})).ends_with("is empty."));
}
