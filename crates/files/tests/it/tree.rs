use parallax_files::folder_tree;

use crate::TestWorkspace;

fn drawn(fixture: &TestWorkspace, items: usize) -> Vec<String> {
    let text = folder_tree(&fixture.workspace, items);
    text.lines().skip(2).map(str::to_owned).collect()
}

#[test]
fn tree_lists_files_first_and_marks_inaccessible_directories() {
    let fixture = TestWorkspace::new();
    fixture.write_file("work/.geminiignore", "private/\n*.log\n");
    fixture.write_file("work/a.txt", "");
    fixture.write_file("work/b.log", "");
    fixture.write_file("work/node_modules/x/y.js", "");
    fixture.write_file("work/private/x", "");
    fixture.write_file("work/src/deep/c.rs", "");
    fixture.write_file("work/src/d.rs", "");
    let root = format!("{}/", fixture.path("work").display());
    assert_eq!(
        drawn(&fixture, 200),
        [
            root.as_str(),
            "├───.geminiignore",
            "├───a.txt",
            "├───node_modules/...",
            "├───private/...",
            "└───src/",
            "    ├───d.rs",
            "    └───deep/",
            "        └───c.rs",
        ]
    );
    assert_eq!(
        drawn(&fixture, 4)[1..],
        ["├───.geminiignore", "├───a.txt", "├───node_modules/...", "├───private/...", "└───..."]
    );
}

#[test]
fn crowded_directory_is_truncated() {
    let fixture = TestWorkspace::new();
    for number in 0..6_000 {
        fixture.write_file(&format!("work/f{number:05}"), "");
    }
    let lines = drawn(&fixture, 200);
    assert_eq!(lines.len(), 202);
    assert_eq!(lines.last().map(String::as_str), Some("└───..."));
}
