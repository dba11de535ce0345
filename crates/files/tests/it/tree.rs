use parallax_files::folder_tree;

use crate::ResolvedDirectory;

fn drawn(place: &ResolvedDirectory, items: usize) -> Vec<String> {
    let text = folder_tree(&place.workspace, items);
    text.lines().skip(2).map(str::to_owned).collect()
}

#[test]
fn tree_lists_files_first_and_marks_closed_directories() {
    let place = ResolvedDirectory::new();
    place.write_file("work/.geminiignore", "private/\n*.log\n");
    place.write_file("work/a.txt", "");
    place.write_file("work/b.log", "");
    place.write_file("work/node_modules/x/y.js", "");
    place.write_file("work/private/x", "");
    place.write_file("work/src/deep/c.rs", "");
    place.write_file("work/src/d.rs", "");
    let root = format!("{}/", place.path("work").display());
    assert_eq!(
        drawn(&place, 200),
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
        drawn(&place, 4)[1..],
        ["├───.geminiignore", "├───a.txt", "├───node_modules/...", "├───private/...", "└───..."]
    );
}

#[test]
fn crowded_directory_is_truncated() {
    let place = ResolvedDirectory::new();
    for number in 0..6_000 {
        place.write_file(&format!("work/f{number:05}"), "");
    }
    let lines = drawn(&place, 200);
    assert_eq!(lines.len(), 202);
    assert_eq!(lines.last().map(String::as_str), Some("└───..."));
}
